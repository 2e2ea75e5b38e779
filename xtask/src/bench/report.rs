//! What the measurements say, as Markdown tables.

use std::fmt::{self, Write as _};

use serde::Serialize;

use super::scenario::Scenario;
use super::share::Seen;

/// A run: a JSON line.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    pub(super) stage: String,
    pub(super) contender: String,
    /// Simulated other users of the share.
    pub(super) users: u32,
    /// From 1 on.
    pub(super) repeat: usize,
    pub(super) input_files: usize,
    pub(super) input_bytes: u64,
    #[serde(flatten)]
    pub(super) seen: Seen,
}

/// A column of a table.
struct Column {
    heading: &'static str,
    decimals: usize,
    /// Whether the least and the greatest value are shown where a run was repeated.
    range: bool,
    value: fn(&Record) -> f64,
}

const COLUMNS: [Column; 10] = [
    Column { heading: "s", decimals: 1, range: false, value: |record| record.seen.seconds },
    Column { heading: "input MB/s", decimals: 1, range: true, value: Record::rate },
    Column {
        heading: "MB read",
        decimals: 0,
        range: false,
        value: |record| record.seen.load.reads.megabytes,
    },
    Column {
        heading: "MB written",
        decimals: 0,
        range: false,
        value: |record| record.seen.load.writes.megabytes,
    },
    Column {
        heading: "read RTT, ms",
        decimals: 0,
        range: false,
        value: |record| record.seen.load.reads.rtt_ms,
    },
    Column {
        heading: "worst 5 s",
        decimals: 0,
        range: false,
        value: |record| record.seen.load.reads.worst_rtt_ms,
    },
    Column {
        heading: "reads in flight",
        decimals: 1,
        range: false,
        value: |record| record.seen.load.reads.in_flight,
    },
    Column {
        heading: "most",
        decimals: 0,
        range: false,
        value: |record| record.seen.load.reads.most_in_flight,
    },
    Column {
        heading: "most writes",
        decimals: 0,
        range: false,
        value: |record| record.seen.load.writes.most_in_flight,
    },
    Column { heading: "metadata per file", decimals: 1, range: false, value: Record::metadata },
];

impl Record {
    /// Input bytes by wall time, in units of 10^6 bytes a second.
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    fn rate(&self) -> f64 {
        self.input_bytes as f64 / 1e6 / self.seen.seconds.max(1e-9)
    }

    /// Metadata requests for each input file.
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    fn metadata(&self) -> f64 {
        self.seen.load.metadata.requests / self.input_files.max(1) as f64
    }

    /// Whether a process failed, or there was nothing to do for it.
    fn failed(&self) -> bool {
        let did_nothing = self.seen.load.reads.requests == 0.0;
        did_nothing || self.seen.exit_codes.iter().any(|code| *code != Some(0))
    }
}

impl fmt::Display for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, contender, users, .. } = self;
        let load = &self.seen.load;
        write!(
            formatter,
            "{stage}, {contender}, {users} users: {:.1} s, {:.1} MB/s, read RTT {:.0} ms, users' \
             {:.0} ms",
            self.seen.seconds,
            self.rate(),
            load.reads.rtt_ms,
            load.users.rtt_ms
        )?;
        if self.failed() {
            write!(formatter, ", FAILED: {:?}", self.seen.exit_codes)?;
            for words in &self.seen.words {
                write!(formatter, "\n{words}")?;
            }
        }
        Ok(())
    }
}

/// The table of a scenario beside a number of other users; `alone` is their mean round trip in
/// milliseconds without us.
pub(super) fn table<'a>(
    scenario: Scenario,
    users: u32,
    alone: Option<f64>,
    records: impl Iterator<Item = &'a Record>,
) -> String {
    let mut rows: Vec<(&str, Vec<&Record>)> = Vec::new();
    for record in records {
        match rows.iter_mut().find(|(contender, _)| *contender == record.contender) {
            Some((_, records)) => records.push(record),
            None => rows.push((&record.contender, vec![record])),
        }
    }
    let mut text = format!("\n### {}; {users} other users", scenario.title());
    if let Some(alone) = alone {
        let _ok = write!(text, ", who wait {alone:.1} ms without us");
    }
    text.push_str("\n\n| setting |");
    for column in COLUMNS {
        let _ok = write!(text, " {} |", column.heading);
    }
    if alone.is_some() {
        text.push_str(" their RTT, ms | times alone |");
    }
    text.push_str("\n|---|");
    text.push_str(&"--:|".repeat(COLUMNS.len() + if alone.is_some() { 2 } else { 0 }));
    for (contender, records) in rows {
        let _ok = write!(text, "\n| {contender}");
        let failed = records.iter().filter(|record| record.failed()).count();
        if failed > 0 {
            let _ok = write!(text, " (failed: {failed} of {})", records.len());
        }
        text.push_str(" |");
        let values = |value: &dyn Fn(&Record) -> f64| -> Vec<f64> {
            records.iter().map(|record| value(record)).collect()
        };
        for column in COLUMNS {
            let cell = cell(values(&column.value), column.decimals, column.range);
            let _ok = write!(text, " {cell} |");
        }
        if let Some(alone) = alone {
            let theirs = values(&|record| record.seen.load.users.rtt_ms);
            let times = theirs.iter().map(|rtt| rtt / alone).collect();
            let _ok = write!(text, " {} | {} |", cell(theirs, 0, false), cell(times, 2, true));
        }
    }
    text.push('\n');
    text
}

/// The median, and the least and greatest value where asked and there are several.
pub(super) fn cell(mut values: Vec<f64>, decimals: usize, range: bool) -> String {
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (values.first(), values.last()) else { return String::new() };
    let median = median(&values);
    if range && values.len() > 1 {
        format!("{median:.decimals$} ({least:.decimals$}–{most:.decimals$})")
    } else {
        format!("{median:.decimals$}")
    }
}

/// The median; not a number where there are no values.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    match (values.len() / 2, values.len() % 2) {
        (0, 0) => f64::NAN,
        (middle, 0) => f64::midpoint(values[middle - 1], values[middle]),
        (middle, _) => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_median_and_the_range_where_asked() {
        assert_eq!(cell(vec![3.0, 1.0, 2.0], 1, true), "2.0 (1.0–3.0)");
        assert_eq!(cell(vec![1.0, 2.0], 1, false), "1.5");
        assert_eq!(cell(vec![2.0], 0, true), "2");
        assert_eq!(cell(Vec::new(), 0, true), "");
        assert!(median(&[]).is_nan());
    }
}
