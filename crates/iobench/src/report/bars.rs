//! Plots what each setting of a stage gave, as bars.
//!
//! Bars lie on their side, since the names of settings are long.

use maud::{Markup, html};

use super::marks::{swatch_error, swatch_killed_bar};
use super::plot::{Area, WIDTH, horizontal, line, px, svg};
use super::scale::Linear;
use crate::cells::Cell;
use crate::grid::varied;
use crate::record::Setting;
use crate::shown::number;
use crate::statistics::{Spread, real};

/// Height of what is drawn for one cell: its name and two bars.
const ROW: f64 = 52.0;
const BAR: f64 = 11.0;
/// Characters that find place above the bars.
const NAME: usize = 58;
/// Room for the figures beside the bars.
const FIGURES: f64 = 44.0;

/// What one plot shows of cells: two figures in the same unit.
struct Pair {
    title: &'static str,
    axis: &'static str,
    unit: &'static str,
    bars: [Bar; 2],
}

/// One figure of a cell.
struct Bar {
    name: &'static str,
    class: &'static str,
    counted: fn(&Cell<'_>) -> Option<Spread>,
    /// The same of killed runs, where it is known of them.
    killed: fn(&Cell<'_>) -> Option<Spread>,
}

const PAIRS: [Pair; 2] = [
    Pair {
        title: "Rates of input and output",
        axis: "Rate (MB/s)",
        unit: "MB/s",
        bars: [
            Bar {
                name: "input",
                class: "bar c0",
                counted: |cell| cell.read_mb_s,
                killed: |cell| cell.killed_rate(),
            },
            Bar {
                name: "output",
                class: "bar light c1",
                counted: |cell| cell.write_mb_s,
                killed: |_| None,
            },
        ],
    },
    Pair {
        title: "Start-up and tail",
        axis: "Time (s)",
        unit: "s",
        bars: [
            Bar {
                name: "start-up, until the first hundredth of the bytes",
                class: "bar c2",
                counted: |cell| cell.startup_seconds,
                killed: |_| None,
            },
            Bar {
                name: "tail, after the last but one hundredth",
                class: "bar light c3",
                counted: |cell| cell.tail_seconds,
                killed: |_| None,
            },
        ],
    },
];

/// The plots of each stage and dataset among these cells.
pub(crate) fn figures(cells: &[Cell<'_>]) -> Markup {
    html! {
        @for cells in stages(cells) {
            h3 { (stage_name(&cells[0])) }
            div.plots {
                @for pair in &PAIRS {
                    figure {
                        figcaption { (pair.title) }
                        (plot(cells, pair))
                        (legend(cells, pair))
                    }
                }
            }
        }
    }
}

/// The cells of each stage on each dataset.
pub(crate) fn stages<'a>(cells: &'a [Cell<'a>]) -> impl Iterator<Item = &'a [Cell<'a>]> {
    let names = |cell: &Cell<'a>| match cell.setting {
        Setting::Stage(stage) => Some((&stage.stage, &stage.dataset)),
        Setting::Raw(_) | Setting::Check(_) => None,
    };
    cells.chunk_by(move |one, other| names(one) == names(other))
}

/// Stage and dataset of a cell.
pub(crate) fn stage_name(cell: &Cell<'_>) -> String {
    match cell.setting {
        Setting::Stage(stage) => format!("{} {}", stage.stage, stage.dataset),
        Setting::Raw(_) | Setting::Check(_) => String::new(),
    }
}

/// The settings of a cell that vary.
pub(crate) fn settings(cell: &Cell<'_>) -> String {
    match cell.setting {
        Setting::Stage(stage) => varied(stage),
        Setting::Raw(_) | Setting::Check(_) => String::new(),
    }
}

fn legend(cells: &[Cell<'_>], pair: &Pair) -> Markup {
    let killed = cells.iter().any(|cell| pair.bars.iter().any(|bar| hollow(cell, bar).is_some()));
    html! {
        ul.legend {
            @for bar in &pair.bars {
                li {
                    svg.swatch viewBox="0 0 28 14" aria-hidden="true" {
                        rect class=(bar.class) x="1" y="2" width="26" height="10" {}
                    }
                    (bar.name)
                }
            }
            li { (swatch_error()) "least to greatest" }
            @if killed { li { (swatch_killed_bar()) "killed runs, until then" } }
        }
    }
}

/// What killed runs gave, where no run of the cell counts.
fn hollow(cell: &Cell<'_>, bar: &Bar) -> Option<Spread> {
    if (bar.counted)(cell).is_some() { None } else { (bar.killed)(cell) }
}

fn plot(cells: &[Cell<'_>], pair: &Pair) -> Markup {
    let shown = |cell: &Cell<'_>, bar: &Bar| (bar.counted)(cell).or_else(|| hollow(cell, bar));
    let spreads =
        cells.iter().flat_map(|cell| pair.bars.iter().filter_map(move |bar| shown(cell, bar)));
    let scale = Linear::upto(spreads.map(|spread| spread.greatest), 5);
    let area = Area {
        left: 8.0,
        right: WIDTH - FIGURES - 8.0,
        top: 4.0,
        bottom: 8.0 + real(cells.len()) * ROW,
    };
    let mut words = Vec::new();
    for cell in cells {
        let figures = pair.bars.each_ref().map(|bar| figure(shown(cell, bar), bar, pair.unit));
        words.push(format!("{}: {}.", settings(cell), figures.join("; ")));
    }
    let content = html! {
        @for (share, _) in scale.ticks() {
            (line("grid", (area.x(share), area.top), (area.x(share), area.bottom)))
        }
        (horizontal(area, &scale.ticks(), pair.axis))
        @for (index, cell) in cells.iter().enumerate() {
            @let top = area.top + real(index) * ROW;
            @let name = settings(cell);
            text.name x=(px(area.left + 2.0)) y=(px(top + 14.0)) { title { (name) } (shorten(&name)) }
            @for (place, bar) in pair.bars.iter().enumerate() {
                @let top = top + 21.0 + real(place) * (BAR + 3.0);
                text.tick.end x=(px(WIDTH - 8.0)) y=(px(top + BAR - 1.0)) { (value(cell, bar)) }
                @if let Some(spread) = shown(cell, bar) {
                    g {
                        title { (name) ": " (figure(Some(spread), bar, pair.unit)) }
                        (drawn(area, scale, top, spread, bar.class, hollow(cell, bar).is_some()))
                    }
                }
            }
        }
    };
    svg((WIDTH, area.bottom + 44.0), pair.title, &words.join(" "), &content)
}

/// A bar with its error bar.
fn drawn(area: Area, scale: Linear, top: f64, spread: Spread, class: &str, hollow: bool) -> Markup {
    let x = |value: f64| area.x(scale.share(value));
    let (from, to, middle) = (x(spread.least), x(spread.greatest), top + BAR / 2.0);
    let class = if hollow { format!("{class} hollow") } else { class.to_owned() };
    html! {
        rect class=(class) x=(px(area.left)) y=(px(top)) width=(px(x(spread.mean) - area.left))
            height=(px(BAR)) {}
        @if spread.n > 1 {
            (line("error dark", (from, middle), (to, middle)))
            (line("error dark", (from, middle - 3.0), (from, middle + 3.0)))
            (line("error dark", (to, middle - 3.0), (to, middle + 3.0)))
        }
    }
}

/// The figure beside a bar.
fn value(cell: &Cell<'_>, bar: &Bar) -> String {
    match ((bar.counted)(cell), hollow(cell, bar)) {
        (Some(spread), _) => number(spread.mean),
        (None, Some(killed)) => format!("~{}", number(killed.mean)),
        (None, None) => "-".to_owned(),
    }
}

fn figure(spread: Option<Spread>, bar: &Bar, unit: &str) -> String {
    match spread {
        None => format!("{}: not known", bar.name),
        Some(spread) => format!(
            "{}: {} {unit} ({} to {})",
            bar.name,
            number(spread.mean),
            number(spread.least),
            number(spread.greatest)
        ),
    }
}

/// The start of a name that is too long to be drawn.
fn shorten(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.to_owned();
    }
    name.chars().take(NAME - 1).chain(['\u{2026}']).collect()
}
