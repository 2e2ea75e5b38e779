//! What the ledger says of runs that are over.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use catalog::Dataset;
use catalog::ledger::{CodeCounts, Record, StageName};
use chrono::DateTime;
use serde::Serialize;
use stage::work::add_codes;
use stage::{Error, ExitStatus, Session, print};

/// Of which runs the audit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Runs {
    /// The last one of each dataset.
    Last,
    /// All, as far as their files still count.
    All,
}

/// Codes of a column that are shown, at most.
const CODES_SHOWN: usize = 10;

/// What was done to the files of a dataset.
#[derive(Debug, Serialize)]
struct Audit {
    dataset: Dataset,
    /// When the run, or the last of them, began; UTC.
    run: String,
    files: u64,
    failed: u64,
    rows_read: u64,
    rows_written: u64,
    counts: BTreeMap<String, u64>,
    unknown_codes: CodeCounts,
}

/// Prints the audit of the datasets that were cleaned.
pub(crate) fn print_audit(session: &Session, runs: Runs) -> Result<ExitStatus, Error> {
    let layout = session.layout()?;
    let asked = &session.settings.datasets;
    let mut audits = Vec::new();
    for dataset in Dataset::ALL {
        if asked.is_empty() || asked.contains(&dataset) {
            let loaded = session.ledger(&layout, dataset).load(StageName::Clean, session.range)?;
            let is_asked = |record: &Record| {
                session.settings.feed.includes(record.feed) && session.range.overlaps(record.period)
            };
            let records: Vec<_> = loaded.records.into_values().filter(is_asked).collect();
            audits.extend(Audit::of(dataset, &records, runs));
        }
    }
    if audits.is_empty() {
        return Err(Error::NoInput {
            message: format!("{} has no ledger of a cleaning", layout.root().display()),
            hint: String::from("check --root, --dataset and the dates, or run gdelt-clean first"),
        });
    }
    let text = if session.json {
        serde_json::to_string(&audits).map_err(|error| Error::Internal(error.to_string()))?
    } else {
        audits.iter().map(Audit::text).collect::<Vec<_>>().join("\n\n")
    };
    print(&text)?;
    Ok(ExitStatus::Done)
}

impl Audit {
    fn of(dataset: Dataset, records: &[Record], runs: Runs) -> Option<Self> {
        let last = records.iter().map(|record| record.run_ns).max()?;
        let run = DateTime::from_timestamp_nanos(last).format("%Y-%m-%d %H:%M:%S").to_string();
        let mut audit = Self {
            dataset,
            run,
            files: 0,
            failed: 0,
            rows_read: 0,
            rows_written: 0,
            counts: BTreeMap::new(),
            unknown_codes: CodeCounts::new(),
        };
        for record in records.iter().filter(|it| runs == Runs::All || it.run_ns == last) {
            // What stands for a file that was split says the same as its parts.
            if !record.parts.is_empty() {
                continue;
            }
            audit.files += u64::from(record.is_published());
            audit.failed += u64::from(!record.is_published());
            audit.rows_read += record.rows_read;
            audit.rows_written += record.rows;
            for (name, count) in &record.counts {
                *audit.counts.entry(name.clone()).or_default() += count;
            }
            add_codes(&mut audit.unknown_codes, &record.unknown_codes);
        }
        Some(audit)
    }

    fn text(&self) -> String {
        let Self { dataset, run, files, failed, rows_read, rows_written, .. } = self;
        let mut text = format!(
            "{dataset}: {files} files cleaned, {failed} failed, run of {run} UTC\n  \
             rows      {rows_read} read, {rows_written} written"
        );
        for (name, count) in &self.counts {
            let _ok = write!(text, "\n  {name}: {count}");
        }
        for (column, codes) in &self.unknown_codes {
            let mut codes: Vec<_> = codes.iter().collect();
            codes.sort_by_key(|(code, rows)| (std::cmp::Reverse(**rows), *code));
            let rows: u64 = codes.iter().map(|(_, rows)| **rows).sum();
            // They may hold anything, also what a terminal obeys.
            let shown = codes.iter().take(CODES_SHOWN);
            let shown: Vec<_> =
                shown.map(|(code, rows)| format!("`{}` {rows}", code.escape_debug())).collect();
            let more = if codes.len() > CODES_SHOWN { ", …" } else { "" };
            let _ok =
                write!(text, "\n  unknown codes in {column}: {rows} ({}{more})", shown.join(", "));
        }
        text
    }
}
