//! Plots what readers or writers get, and how long they wait, against their number.

use maud::{Markup, html};

use super::marks::{
    aside, colour, error_bar, marker, swatch, swatch_error, swatch_killed, swatch_line,
};
use super::plot::{Area, WIDTH, horizontal, line, svg, vertical};
use super::scale::{Doubling, Linear};
use super::summary::{idle, source};
use crate::cells::Cell;
use crate::grid::{files, name};
use crate::record::{Direction, Setting};
use crate::shown::{binary, number};
use crate::statistics::Spread;

const HEIGHT: f64 = 300.0;
const AREA: Area = Area { left: 52.0, right: 428.0, top: 30.0, bottom: 256.0 };

/// Room at both ends of the axis, as a share of it.
const MARGIN: f64 = 0.06;

/// What one plot shows of cells.
struct Quantity {
    title: &'static str,
    axis: &'static str,
    unit: &'static str,
    counted: fn(&Cell<'_>) -> Option<Spread>,
    killed: fn(&Cell<'_>) -> Option<Spread>,
    /// A value to compare with.
    reference: Option<f64>,
}

/// The cells of one line: those that differ in their number of readers or writers alone.
pub(crate) fn lines<'a>(cells: &'a [Cell<'a>]) -> Vec<&'a [Cell<'a>]> {
    let line = |cell: &Cell<'_>| match cell.setting {
        Setting::Raw(raw) => Some((raw.direction, raw.files, raw.request_bytes)),
        Setting::Stage(_) | Setting::Check(_) => None,
    };
    cells.chunk_by(|one, other| line(one) == line(other)).collect()
}

/// What the cells of a line have in common.
pub(crate) fn line_name(cells: &[Cell<'_>]) -> String {
    match cells[0].setting {
        Setting::Raw(raw) => {
            format!("{} files, {} requests", files(raw.files), binary(raw.request_bytes))
        }
        other => name(other),
    }
}

/// How many readers or writers a cell has.
pub(crate) fn concurrency(cell: &Cell<'_>) -> usize {
    match cell.setting {
        Setting::Raw(raw) => raw.concurrency,
        Setting::Check(check) => check.threads,
        Setting::Stage(_) => 1,
    }
}

/// Readers or writers, for one and for several.
pub(crate) fn noun(cell: &Cell<'_>) -> &'static str {
    match cell.setting {
        Setting::Raw(raw) if raw.direction == Direction::Write => "writer",
        _ => "reader",
    }
}

/// Both plots of raw cells of one direction on one directory, with one legend.
pub(crate) fn figures(cells: &[Cell<'_>]) -> Markup {
    let lines = lines(cells);
    let idle = idle(cells).map(|idle| idle.mean);
    let quantities = [
        Quantity {
            title: "Throughput",
            axis: "Throughput (MB/s)",
            unit: "MB/s",
            counted: |cell| cell.rate(),
            killed: |cell| cell.killed_rate(),
            reference: None,
        },
        Quantity {
            title: "Round trip",
            axis: "Mean round trip, RTT (ms)",
            unit: "ms",
            counted: |cell| cell.rtt_ms,
            killed: |cell| cell.killed_rtt(),
            reference: idle,
        },
    ];
    let killed = cells.iter().any(|cell| !cell.killed.is_empty());
    html! {
        div.plots {
            @for quantity in &quantities {
                figure {
                    figcaption { (quantity.title) " against the number of " (noun(&cells[0])) "s" }
                    (plot(&lines, quantity))
                }
            }
        }
        ul.legend {
            @for (index, line) in lines.iter().enumerate() {
                li { (swatch(index)) (line_name(line)) }
            }
            li { (swatch_error()) "least to greatest of the repeats" }
            @if killed { li { (swatch_killed()) "killed runs, until they were killed" } }
            @if let Some(idle) = idle {
                li { (swatch_line("reference")) "a read that is alone: " (number(idle)) " ms" }
            }
        }
        (notes(cells))
    }
}

/// What the plots cannot show.
fn notes(cells: &[Cell<'_>]) -> Markup {
    let absent: Vec<String> = cells
        .iter()
        .filter(|cell| cell.rate().is_none() && cell.killed_rate().is_none())
        .map(|cell| format!("{} ({})", name(cell.setting), cell.status()))
        .collect();
    let latency = cells
        .iter()
        .flat_map(|cell| &cell.runs)
        .filter_map(|run| Some(run.measured.as_ref()?.latency?.source));
    html! {
        @if let Some(from) = source(latency) { p.note { "Round trips are from " (from) "." } }
        @if !absent.is_empty() { p.note { "Without a figure: " (absent.join("; ")) "." } }
    }
}

fn plot(lines: &[&[Cell<'_>]], quantity: &Quantity) -> Markup {
    let cells = || lines.iter().copied().flatten();
    let spreads =
        cells().flat_map(|cell| [(quantity.counted)(cell), (quantity.killed)(cell)]).flatten();
    let vertical_scale =
        Linear::upto(spreads.map(|spread| spread.greatest).chain(quantity.reference), 5);
    let across = Doubling::of(cells().map(concurrency));
    let inner = |share: f64| MARGIN + share * (1.0 - 2.0 * MARGIN);
    let ticks: Vec<_> = across
        .ticks((AREA.right - AREA.left) * (1.0 - 2.0 * MARGIN))
        .into_iter()
        .map(|(share, label)| (inner(share), label))
        .collect();
    let height = |value: f64| AREA.y(vertical_scale.share(value));
    let title = format!("{} against the number of {}s", quantity.title, noun(&lines[0][0]));
    let content = html! {
        (vertical(AREA, vertical_scale, quantity.axis))
        (horizontal(AREA, &ticks, &format!("N, parallel {}s", noun(&lines[0][0]))))
        @if let Some(reference) = quantity.reference {
            (line("reference", (AREA.left, height(reference)), (AREA.right, height(reference))))
        }
        @for (index, cells) in lines.iter().enumerate() {
            g.(colour(index)) {
                (curve(index, cells, quantity, &|cell| {
                    AREA.x(inner(across.share(concurrency(cell)))) + aside(index, lines.len())
                }, &height))
            }
        }
    };
    svg((WIDTH, HEIGHT), &title, &description(lines, quantity), &content)
}

/// One line of a plot: the cells, each joined to the next.
fn curve(
    index: usize,
    cells: &[Cell<'_>],
    quantity: &Quantity,
    place: &dyn Fn(&Cell<'_>) -> f64,
    height: &dyn Fn(f64) -> f64,
) -> Markup {
    // Where a cell is joined to its neighbours, and whether by runs that count.
    let joints: Vec<(f64, f64, bool)> = cells
        .iter()
        .filter_map(|cell| {
            let counted = (quantity.counted)(cell);
            let spread = counted.or((quantity.killed)(cell))?;
            Some((place(cell), height(spread.mean), counted.is_some()))
        })
        .collect();
    let spread = |cell: &Cell<'_>, spread: Option<Spread>, killed: bool| {
        let (x, name) = (place(cell), name(cell.setting));
        html! {
            @if let Some(spread) = spread {
                g {
                    title { (name) ": " (words(spread, quantity.unit, killed)) }
                    (error_bar(x, (height(spread.least), height(spread.greatest)), killed))
                    (marker(index, (x, height(spread.mean)), killed))
                }
            }
        }
    };
    html! {
        @for pair in joints.windows(2) {
            // To killed runs there is no more than a hint of a line.
            @let class = if pair[0].2 && pair[1].2 { "curve" } else { "curve dashed" };
            (line(class, (pair[0].0, pair[0].1), (pair[1].0, pair[1].1)))
        }
        @for cell in cells {
            (spread(cell, (quantity.killed)(cell), true))
            (spread(cell, (quantity.counted)(cell), false))
        }
    }
}

fn words(spread: Spread, unit: &str, killed: bool) -> String {
    let mean = number(spread.mean);
    let range = if spread.n > 1 {
        format!(" ({} to {})", number(spread.least), number(spread.greatest))
    } else {
        String::new()
    };
    let killed = if killed { ", until killed" } else { "" };
    format!("{mean} {unit}{range}{killed}")
}

/// The figures of a plot in words.
fn description(lines: &[&[Cell<'_>]], quantity: &Quantity) -> String {
    let mut lines_in_words = Vec::new();
    for cells in lines {
        let points: Vec<String> = cells
            .iter()
            .flat_map(|cell| {
                [((quantity.counted)(cell), false), ((quantity.killed)(cell), true)].map(
                    |(spread, killed)| {
                        let words = words(spread?, quantity.unit, killed);
                        Some(format!("N {}: {words}", concurrency(cell)))
                    },
                )
            })
            .flatten()
            .collect();
        lines_in_words.push(format!("{}. {}.", line_name(cells), points.join("; ")));
    }
    lines_in_words.join(" ")
}
