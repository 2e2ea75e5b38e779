//! Plots what happened in each run, second by second: requests in flight and round trips.
//!
//! The plots of a cell have the same axes, so that its repeats can be compared at a glance. They
//! are folded away until they are asked for.

use maud::{Markup, html};

use super::plot::{Area, horizontal, line, path, px, svg};
use super::scale::Linear;
use crate::cells::Cell;
use crate::grid::{kind, name};
use crate::record::{Measured, Outcome, Run, Second};
use crate::shown::{counted, number};

const SIZE: (f64, f64) = (236.0, 224.0);
const IN_FLIGHT: Area = Area { left: 36.0, right: 226.0, top: 26.0, bottom: 84.0 };
const ROUND_TRIP: Area = Area { left: 36.0, right: 226.0, top: 120.0, bottom: 184.0 };

/// The axes of a cell's plots.
struct Axes {
    seconds: Linear,
    in_flight: Linear,
    rtt_ms: Linear,
}

/// The plots of all runs, folded by cell.
pub(crate) fn all(cells: &[Cell<'_>]) -> Markup {
    html! {
        p.note {
            "One plot for each run: requests in flight above, mean round trip below, both for \
             each second. The solid line is the program's own count, the dashed one the kernel's \
             for the whole host. Plots of a cell have the same axes."
        }
        @for cell in cells {
            details {
                summary {
                    (kind(cell.setting)) ", " (name(cell.setting))
                    " \u{b7} " (counted(cell.runs.len(), "run")) ", " (cell.status())
                }
                (runs(cell))
            }
        }
    }
}

fn runs(cell: &Cell<'_>) -> Markup {
    let seconds = || {
        let measured = cell.runs.iter().filter_map(|run| run.measured.as_ref());
        measured.flat_map(|measured| measured.series.iter().chain(&measured.kernel_series))
    };
    let ends = cell.runs.iter().filter_map(|run| Some(run.measured.as_ref()?.seconds));
    let axes = Axes {
        seconds: Linear::upto(ends.chain(seconds().map(|second| second.at)), 3),
        in_flight: Linear::upto(seconds().filter_map(|second| second.in_flight), 2),
        rtt_ms: Linear::upto(seconds().filter_map(|second| second.rtt_ms), 2),
    };
    html! {
        div.small {
            @for run in &cell.runs {
                figure {
                    figcaption {
                        "Repeat " (u64::from(run.repeat) + 1) ", order " (run.order) ": "
                        (run.outcome)
                    }
                    @match run.measured.as_ref().filter(|measured| has_series(measured)) {
                        Some(measured) => (plot(run, measured, &axes)),
                        None => p.note { "No series." },
                    }
                }
            }
        }
    }
}

/// Whether there is anything to plot.
pub(crate) fn has_series(measured: &Measured) -> bool {
    !(measured.series.is_empty() && measured.kernel_series.is_empty())
}

fn plot(run: &Run, measured: &Measured, axes: &Axes) -> Markup {
    let killed = matches!(run.outcome, Outcome::Killed { .. });
    let curves = |area: Area, scale: Linear, figure: fn(&Second) -> Option<f64>| {
        let through = |series| curve(area, (axes.seconds, scale), series, figure);
        html! {
            path.curve.kernel.c1 d=(through(&measured.kernel_series)) {}
            path.curve.c0 d=(through(&measured.series)) {}
        }
    };
    let content = html! {
        (ends_of(IN_FLIGHT, axes.in_flight, "Requests in flight"))
        (line("axis", (IN_FLIGHT.left, IN_FLIGHT.bottom), (IN_FLIGHT.right, IN_FLIGHT.bottom)))
        (curves(IN_FLIGHT, axes.in_flight, |second| second.in_flight))
        (ends_of(ROUND_TRIP, axes.rtt_ms, "Round trip (ms)"))
        (horizontal(ROUND_TRIP, &axes.seconds.ticks(), "Time (s)"))
        (curves(ROUND_TRIP, axes.rtt_ms, |second| second.rtt_ms))
        @if killed { (kill(axes.seconds.share(measured.seconds))) }
    };
    let (title, words) = (format!("{}, each second", name(&run.setting)), in_words(run, measured));
    svg(SIZE, &title, &words, &content)
}

/// A line through a figure of each second.
pub(crate) fn curve(
    area: Area,
    (across, up): (Linear, Linear),
    series: &[Second],
    figure: fn(&Second) -> Option<f64>,
) -> String {
    path(
        series.iter().map(|second| {
            Some((area.x(across.share(second.at)), area.y(up.share(figure(second)?))))
        }),
    )
}

/// A vertical axis with only its ends marked, for which there is room in a small plot.
fn ends_of(area: Area, scale: Linear, title: &str) -> Markup {
    html! {
        text.title x=(px(4.0)) y=(px(area.top - 12.0)) { (title) }
        (line("grid", (area.left, area.top), (area.right, area.top)))
        text.tick.end x=(px(area.left - 6.0)) y=(px(area.top + 4.0)) { (scale.end()) }
        text.tick.end x=(px(area.left - 6.0)) y=(px(area.bottom + 4.0)) { "0" }
    }
}

/// The moment of the kill, across both parts of a plot.
fn kill(share: f64) -> Markup {
    let x = IN_FLIGHT.x(share);
    // The word stands on the side where there is room.
    let (class, beside) = if share < 0.5 { ("kill-word", 4.0) } else { ("kill-word end", -4.0) };
    html! {
        (line("kill", (x, IN_FLIGHT.top), (x, ROUND_TRIP.bottom)))
        text class=(class) x=(px(x + beside)) y=(px(IN_FLIGHT.bottom + 13.0)) { "killed" }
    }
}

fn in_words(run: &Run, measured: &Measured) -> String {
    let greatest = |figure: fn(&Second) -> Option<f64>| {
        let series = measured.series.iter().chain(&measured.kernel_series);
        series.filter_map(figure).reduce(f64::max).map_or_else(|| "none".to_owned(), number)
    };
    format!(
        "{} s, {}. Greatest mean of a second: {} in flight, round trip {} ms.",
        number(measured.seconds),
        run.outcome,
        greatest(|second| second.in_flight),
        greatest(|second| second.rtt_ms),
    )
}
