//! Lays cells out in rows and columns, one grid for each kind of run on each directory.
//!
//! The table on the terminal and those of the report are the same grids. Their text is not yet
//! escaped.

use crate::cells::Cell;
use crate::record::{Direction, FileSize, Outcome, Setting};
use crate::shown::{binary, concurrency, number, number_or_dash};
use crate::statistics::Spread;

/// What is shown of the cells of one kind on one directory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grid {
    /// Kind and directory.
    pub(crate) title: String,
    /// The columns.
    pub(crate) columns: Vec<Column>,
    /// A text for each column, in each row.
    pub(crate) rows: Vec<Vec<String>>,
    /// What the marks in the rows mean, and why runs failed.
    pub(crate) notes: Vec<String>,
}

/// A column of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    /// What stands above it.
    pub(crate) head: &'static str,
    /// Whether it holds text; columns of numbers are aligned at their right.
    pub(crate) text: bool,
}

const RAW: &[Column] = &[
    text("Files"),
    number_column("N"),
    number_column("Request"),
    number_column("MB/s"),
    number_column("[least..greatest]"),
    number_column("SD"),
    number_column("RTT ms"),
    number_column("worst 5 s"),
    number_column("idle"),
    number_column("Runs"),
    text("Status"),
];

const STAGE: &[Column] = &[
    text("Stage"),
    text("Dataset"),
    text("Settings"),
    number_column("In MB/s"),
    number_column("[least..greatest]"),
    number_column("Out MB/s"),
    number_column("[least..greatest]"),
    number_column("Start s"),
    number_column("Tail s"),
    number_column("RTT ms"),
    number_column("worst 5 s"),
    number_column("In flight"),
    number_column("Peak MB"),
    number_column("Runs"),
    text("Status"),
];

const CHECK: &[Column] = &[
    number_column("Threads"),
    number_column("Limit"),
    number_column("In flight"),
    number_column("most"),
    number_column("kernel's"),
    number_column("MB/s"),
    number_column("[least..greatest]"),
    number_column("RTT ms"),
    number_column("worst 5 s"),
    number_column("idle"),
    number_column("Runs"),
    text("Status"),
];

const fn text(head: &'static str) -> Column {
    Column { head, text: true }
}

const fn number_column(head: &'static str) -> Column {
    Column { head, text: false }
}

/// The grids of these cells, which are in the order that [`crate::cells::cells`] gives.
pub(crate) fn grids(cells: &[Cell<'_>]) -> Vec<Grid> {
    groups(cells).map(grid).collect()
}

/// The cells of each kind on each directory, in the same order.
pub(crate) fn groups<'a>(cells: &'a [Cell<'a>]) -> impl Iterator<Item = &'a [Cell<'a>]> {
    cells.chunk_by(|one, other| {
        kind(one.setting) == kind(other.setting) && one.directory == other.directory
    })
}

fn grid(cells: &[Cell<'_>]) -> Grid {
    let setting = cells[0].setting;
    let columns = match setting {
        Setting::Raw(_) => RAW,
        Setting::Stage(_) => STAGE,
        Setting::Check(_) => CHECK,
    };
    Grid {
        title: format!("{} on {}", kind(setting), cells[0].directory.display()),
        columns: columns.to_vec(),
        rows: cells.iter().map(row).collect(),
        notes: notes(cells),
    }
}

/// What the runs of a setting are called, all together.
pub(crate) fn kind(setting: &Setting) -> &'static str {
    match setting {
        Setting::Raw(raw) => match raw.direction {
            Direction::Read => "Raw reads",
            Direction::Write => "Raw writes",
        },
        Setting::Stage(_) => "Stages",
        Setting::Check(_) => "Checks of the budget",
    }
}

/// A word for large and small files.
pub(crate) fn files(files: FileSize) -> &'static str {
    match files {
        FileSize::Large => "large",
        FileSize::Small => "small",
    }
}

/// The settings that vary, as `workers=4 cap=2`; a dash where none does.
pub(crate) fn varied(stage: &crate::record::Stage) -> String {
    let pairs: Vec<_> = stage.varied.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if pairs.is_empty() { "-".to_owned() } else { pairs.join(" ") }
}

/// A setting in a few words, as `large, 1 MiB, N 4`.
pub(crate) fn name(setting: &Setting) -> String {
    match setting {
        Setting::Raw(raw) => format!(
            "{}, {}, N {}",
            files(raw.files),
            binary(raw.request_bytes),
            concurrency(raw.concurrency)
        ),
        Setting::Stage(stage) => format!("{} {}, {}", stage.stage, stage.dataset, varied(stage)),
        Setting::Check(check) => match check.limit {
            Some(limit) => format!("{} threads, limit {}", check.threads, concurrency(limit)),
            None => format!("{} threads, no limit", check.threads),
        },
    }
}

/// Reads in flight that are allowed, or `none` where there is no limit.
pub(crate) fn limit(limit: Option<usize>) -> String {
    limit.map_or_else(|| "none".to_owned(), concurrency)
}

fn row(cell: &Cell<'_>) -> Vec<String> {
    // Where no run counts, what was read until the kill says more than a dash.
    let rate = |counted| mean_or_until_kill(counted, cell.killed_rate());
    let rtt = mean_or_until_kill(cell.rtt_ms, cell.killed_rtt());
    let runs = cell.runs.len().to_string();
    match cell.setting {
        Setting::Raw(raw) => vec![
            files(raw.files).to_owned(),
            concurrency(raw.concurrency),
            binary(raw.request_bytes),
            rate(cell.rate()),
            range(cell.rate()),
            number_or_dash(cell.rate().and_then(|rate| rate.deviation)),
            rtt,
            mean(cell.worst_ms),
            mean(cell.idle_ms),
            runs,
            cell.status(),
        ],
        Setting::Stage(stage) => vec![
            stage.stage.clone(),
            stage.dataset.clone(),
            varied(stage),
            rate(cell.read_mb_s),
            range(cell.read_mb_s),
            mean(cell.write_mb_s),
            range(cell.write_mb_s),
            mean(cell.startup_seconds),
            mean(cell.tail_seconds),
            rtt,
            mean(cell.worst_ms),
            mean(cell.in_flight),
            mean(cell.peak_mb),
            runs,
            cell.status(),
        ],
        Setting::Check(check) => vec![
            concurrency(check.threads),
            limit(check.limit),
            mean(cell.in_flight),
            cell.most_in_flight.map_or_else(|| "-".to_owned(), concurrency),
            mean(cell.kernel_in_flight),
            rate(cell.read_mb_s),
            range(cell.read_mb_s),
            rtt,
            mean(cell.worst_ms),
            mean(cell.idle_ms),
            runs,
            cell.status(),
        ],
    }
}

fn mean(spread: Option<Spread>) -> String {
    number_or_dash(spread.map(|spread| spread.mean))
}

fn mean_or_until_kill(counted: Option<Spread>, killed: Option<Spread>) -> String {
    match (counted, killed) {
        (None, Some(killed)) => format!("~{}", number(killed.mean)),
        (counted, _) => mean(counted),
    }
}

/// The least and the greatest of several values; one value has no range.
fn range(spread: Option<Spread>) -> String {
    spread
        .filter(|spread| spread.n > 1)
        .map(|spread| format!("[{}..{}]", number(spread.least), number(spread.greatest)))
        .unwrap_or_default()
}

fn notes(cells: &[Cell<'_>]) -> Vec<String> {
    let only_killed = cells.iter().any(|cell| cell.rate().is_none() && !cell.killed.is_empty());
    let estimates =
        only_killed.then(|| "~ of killed runs alone, until they were killed".to_owned());
    estimates.into_iter().chain(cells.iter().flat_map(causes)).collect()
}

/// Why runs of a cell failed or were refused, each reason once.
fn causes(cell: &Cell<'_>) -> Vec<String> {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for run in &cell.runs {
        if !matches!(run.outcome, Outcome::Failed { .. } | Outcome::Refused { .. }) {
            continue;
        }
        let reason = run.outcome.to_string();
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, times)) => *times += 1,
            None => reasons.push((reason, 1)),
        }
    }
    let setting = name(cell.setting);
    reasons.into_iter().map(|(why, times)| format!("{setting}: {times} {why}")).collect()
}
