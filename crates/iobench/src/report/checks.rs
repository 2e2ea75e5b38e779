//! Plots whether the budget held: requests in flight by its own count and by the kernel's, with
//! the limit.

use maud::{Markup, html};

use super::marks::swatch_line;
use super::plot::{Area, WIDTH, horizontal, line, svg, vertical};
use super::scale::Linear;
use super::series::{curve, has_series};
use super::summary::source;
use crate::cells::Cell;
use crate::check::in_reads;
use crate::grid::name;
use crate::record::{Measured, Run, Setting};
use crate::shown::number;
use crate::statistics::real;

const SIZE: (f64, f64) = (WIDTH, 230.0);
const AREA: Area = Area { left: 44.0, right: 428.0, top: 30.0, bottom: 186.0 };

/// A plot for each run of these checks.
pub(crate) fn figures(cells: &[Cell<'_>]) -> Markup {
    let measured = || {
        let runs = cells.iter().flat_map(|cell| &cell.runs);
        runs.filter_map(|run| run.measured.as_ref())
    };
    let own = source(measured().filter_map(|measured| Some(measured.in_flight?.source)));
    let kernel = source(measured().filter_map(|measured| Some(measured.kernel_in_flight?.source)));
    html! {
        @for cell in cells {
            h3 { (name(cell.setting)) }
            div.plots {
                @for run in &cell.runs {
                    figure {
                        figcaption {
                            "Repeat " (u64::from(run.repeat) + 1) ", order " (run.order) ": "
                            (run.outcome)
                        }
                        @match run.measured.as_ref().filter(|measured| has_series(measured)) {
                            Some(measured) => (plot(run, measured)),
                            None => p.note { "No series." },
                        }
                    }
                }
            }
        }
        ul.legend {
            li {
                (swatch_line("curve c0")) "the program's own count"
                @if let Some(own) = own { " (" (own) ")" }
            }
            li {
                (swatch_line("curve kernel c1")) "the kernel's, for the whole host"
                @if let Some(kernel) = kernel { " (" (kernel) ")" }
            }
            li { (swatch_line("limit")) "limit of the budget" }
        }
    }
}

fn plot(run: &Run, measured: &Measured) -> Markup {
    let (limit, kernel) = match run.setting {
        Setting::Check(check) => (check.limit.map(real), in_reads(measured, check.request_bytes)),
        Setting::Raw(_) | Setting::Stage(_) => (None, Vec::new()),
    };
    let seconds = || measured.series.iter().chain(&kernel);
    let across = Linear::upto(seconds().map(|second| second.at).chain([measured.seconds]), 6);
    let up = Linear::upto(seconds().filter_map(|second| second.in_flight).chain(limit), 4);
    let through = |series| curve(AREA, (across, up), series, |second| second.in_flight);
    let content = html! {
        (vertical(AREA, up, "Requests in flight, mean of each second"))
        (horizontal(AREA, &across.ticks(), "Time (s)"))
        @if let Some(limit) = limit {
            (line("limit", (AREA.left, AREA.y(up.share(limit))), (AREA.right, AREA.y(up.share(limit)))))
        }
        path.curve.kernel.c1 d=(through(&kernel)) {}
        path.curve.c0 d=(through(&measured.series)) {}
    };
    let greatest = seconds().filter_map(|second| second.in_flight).reduce(f64::max);
    let words = format!(
        "Greatest mean of a second: {}. Limit: {}.",
        greatest.map_or_else(|| "not known".to_owned(), number),
        limit.map_or_else(|| "none".to_owned(), number),
    );
    svg(SIZE, &format!("Requests in flight, {}", name(&run.setting)), &words, &content)
}
