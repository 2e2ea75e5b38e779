//! Shows cells and runs as tables.

use maud::{Markup, html};

use crate::cells::Cell;
use crate::grid::{grids, kind, name};
use crate::record::{Content, Files, InFlight, Run, Setting, Stage};
use crate::shown::{megabytes, number, number_or_dash};

/// Columns of the table of runs: what stands above, and the class of the column.
const RUNS: [(&str, Option<&str>); 29] = [
    ("Setting", Some("text")),
    ("Repeat", None),
    ("Order", None),
    ("Outcome and causes", Some("text long")),
    ("Read MB/s", None),
    ("Write MB/s", None),
    ("Seconds", None),
    ("RTT ms", None),
    ("worst 5 s", None),
    ("median", None),
    ("95 %", None),
    ("Idle before, after", None),
    ("In flight", None),
    ("most", None),
    ("kernel's", None),
    ("Sent again", None),
    ("Files", None),
    ("complete", None),
    ("Input MB", None),
    ("smallest, largest MB", None),
    ("Cached", None),
    ("Codecs", Some("text")),
    ("Ratio", None),
    ("Row groups", None),
    ("Output MB", None),
    ("Output codecs", Some("text")),
    ("Ratio", None),
    ("CPU s", None),
    ("Peak MB", None),
];

/// A table of the cells of each kind on each directory.
pub(crate) fn cells(cells: &[Cell<'_>]) -> Markup {
    html! {
        @for grid in grids(cells) {
            (scrolled(&grid.title, &html! {
                thead { tr {
                    @for column in &grid.columns {
                        th class=[column.text.then_some("text")] scope="col" { (column.head) }
                    }
                } }
                tbody {
                    @for row in &grid.rows {
                        tr {
                            @for (text, column) in row.iter().zip(&grid.columns) {
                                td class=[column.text.then_some("text")] { (text) }
                            }
                        }
                    }
                }
            }))
            @for note in &grid.notes { p.note { (note) } }
        }
    }
}

/// A table of all runs, with the place of each in its shuffled session.
pub(crate) fn runs(cells: &[Cell<'_>]) -> Markup {
    html! {
        p.note {
            "Order is the place of a run in the shuffled order of its session. Cached is the share \
             of the input that the page cache held before the run; ratio is bytes before \
             compression to bytes after."
        }
        @for group in crate::grid::groups(cells) {
            @let title =
                format!("{} on {}", kind(group[0].setting), group[0].directory.display());
            (scrolled(&title, &html! {
                thead { tr {
                    @for (head, class) in RUNS { th class=[class] scope="col" { (head) } }
                } }
                tbody {
                    @for run in group.iter().flat_map(|cell| &cell.runs) {
                        tr {
                            @for (text, (_, class)) in row(run).iter().zip(RUNS) {
                                td class=[class] { (text) }
                            }
                        }
                    }
                }
            }))
        }
        (commands(cells))
    }
}

/// The command of each cell of a stage.
fn commands(cells: &[Cell<'_>]) -> Markup {
    let stages: Vec<(&Cell<'_>, &Stage)> = cells
        .iter()
        .filter_map(|cell| match cell.setting {
            Setting::Stage(stage) => Some((cell, stage)),
            Setting::Raw(_) | Setting::Check(_) => None,
        })
        .collect();
    html! {
        @if !stages.is_empty() {
            details {
                summary { "Commands of the stages, as their first repeat ran them" }
                @for (cell, stage) in stages {
                    p.note { (name(cell.setting)) }
                    pre { (command(stage)) }
                }
            }
        }
    }
}

/// Environment, command and arguments, each quoted where it is not a plain word.
fn command(stage: &Stage) -> String {
    let quoted = |text: &str| {
        let plain =
            |character: char| character.is_alphanumeric() || "-_./:,+%@=".contains(character);
        if !text.is_empty() && text.chars().all(plain) {
            text.to_owned()
        } else {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
    };
    let set = stage.environment.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
    let words: Vec<String> = set.chain(stage.command.iter().map(|word| quoted(word))).collect();
    words.join(" ")
}

/// A table in a box of its own that scrolls, also by keyboard.
fn scrolled(title: &str, content: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(title) {
            table { caption { (title) } (content) }
        }
    }
}

fn row(run: &Run) -> [String; RUNS.len()] {
    let measured = run.measured.as_ref();
    let latency = measured.and_then(|measured| measured.latency);
    let own = measured.and_then(|measured| measured.in_flight);
    let kernel = measured.and_then(|measured| measured.kernel_in_flight);
    let mean = |in_flight: Option<InFlight>| number_or_dash(in_flight.and_then(|it| it.mean));
    let idle =
        [run.idle_before, run.idle_after].map(|idle| number_or_dash(idle.map(|it| it.p50_ms)));
    let (inputs, outputs) = (&run.inputs, &run.outputs);
    [
        setting(run),
        (u64::from(run.repeat) + 1).to_string(),
        run.order.to_string(),
        run.outcome.to_string(),
        number_or_dash(run.read_mb_s()),
        number_or_dash(run.write_mb_s()),
        number_or_dash(measured.map(|measured| measured.seconds)),
        number_or_dash(latency.map(|latency| latency.mean_ms)),
        number_or_dash(latency.map(|latency| latency.worst_ms)),
        number_or_dash(latency.and_then(|latency| latency.p50_ms)),
        number_or_dash(latency.and_then(|latency| latency.p95_ms)),
        idle.join(", "),
        mean(own),
        or_dash(own.and_then(|own| own.most)),
        mean(kernel),
        or_dash(measured.and_then(|measured| measured.retransmissions)),
        inputs.files.to_string(),
        or_dash(inputs.content.as_ref().map(|content| content.complete)),
        number(megabytes(inputs.bytes)),
        [inputs.smallest, inputs.largest].map(|bytes| number(megabytes(bytes))).join(", "),
        inputs.cached.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0)),
        codecs(inputs),
        number_or_dash(inputs.content.as_ref().and_then(ratio)),
        or_dash(inputs.content.as_ref().map(|content| content.row_groups)),
        number(megabytes(outputs.bytes)),
        codecs(outputs),
        number_or_dash(outputs.content.as_ref().and_then(ratio)),
        number_or_dash(measured.and_then(|measured| measured.cpu_seconds)),
        number_or_dash(measured.and_then(|measured| measured.peak_rss_bytes).map(megabytes)),
    ]
}

fn setting(run: &Run) -> String {
    match &run.setting {
        Setting::Stage(stage) => {
            format!("{}, {} to {}", name(&run.setting), stage.first_day, stage.last_day)
        }
        other => name(other),
    }
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Codecs with their number of members or column chunks, as `zstd 12`.
fn codecs(files: &Files) -> String {
    let codecs = files.content.iter().flat_map(|content| &content.codecs);
    let counted: Vec<String> = codecs.map(|(codec, count)| format!("{codec} {count}")).collect();
    if counted.is_empty() { "-".to_owned() } else { counted.join(", ") }
}

/// Bytes before compression to bytes after.
fn ratio(content: &Content) -> Option<f64> {
    (content.compressed_bytes > 0)
        .then(|| megabytes(content.uncompressed_bytes) / megabytes(content.compressed_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FileSize::Large;
    use crate::testing::{raw, stage};

    #[test]
    fn a_row_holds_sizes_codecs_ratio_and_cached_share() {
        let mut run = raw(Large, 4, 88, 46.0);
        run.inputs.content = Some(Content {
            complete: 2,
            compressed_bytes: 1_000,
            uncompressed_bytes: 4_500,
            codecs: [("zstd".to_owned(), 12)].into(),
            row_groups: 3,
            rows: 9,
        });
        let row = row(&run);
        let shown = |head: &str| {
            let column = RUNS.iter().position(|(name, _)| *name == head).expect("a column");
            row[column].as_str()
        };
        assert_eq!(shown("Setting"), "large, 1 MiB, N 4");
        assert_eq!(shown("Read MB/s"), "88.0");
        assert_eq!(shown("Input MB"), "1260");
        assert_eq!(shown("Codecs"), "zstd 12");
        assert_eq!(shown("Ratio"), "4.5");
        assert_eq!(shown("Cached"), "1.0 %");
        assert_eq!(shown("Output codecs"), "-");
    }

    #[test]
    fn commands_can_be_pasted() {
        let mut run = stage("workers", "4", 1, 1);
        let Setting::Stage(stage) = &mut run.setting else { unreachable!("a stage") };
        stage.command.push("it's".to_owned());
        assert_eq!(command(stage), r"LANG=C gdelt-convert --root /data/gdelt 'it'\''s'");
    }
}
