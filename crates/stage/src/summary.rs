//! What a run did: a table for people on stderr, one JSON object for scripts on stdout.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use catalog::ledger::{CodeCounts, Damage, Outcome};
use io_budget::{IoReport, LaneReport, StorageReport};
use serde::{Deserialize, Serialize};

use crate::session::print;
use crate::{Error, ExitStatus, Session};

/// What a run did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Summary {
    /// The stage, as in `convert`.
    pub stage: String,
    /// Version of the program.
    pub version: String,
    /// Exit code of the process.
    pub exit_code: u8,
    /// Wall time.
    pub seconds: f64,
    /// Worker threads.
    pub jobs: usize,
    /// Whether nothing was changed, as asked.
    pub dry_run: bool,
    /// Outputs by what became of them.
    pub files: FileCounts,
    /// Rows, over the outputs made in this run.
    pub rows: RowCounts,
    /// Bytes of the inputs of outputs made in this run.
    pub input_bytes: u64,
    /// Bytes of the outputs made in this run.
    pub output_bytes: u64,
    /// Everything unusual, by name, over the outputs made in this run.
    pub counts: BTreeMap<String, u64>,
    /// Values of columns with codes that no table of codes knows, over the outputs made in this run.
    #[serde(default)]
    pub unknown_codes: CodeCounts,
    /// What failed, in order.
    pub failures: Vec<Failure>,
    /// Files that stand in the place of those that GDELT never published.
    #[serde(default)]
    pub known_absent: Vec<PathBuf>,
    /// Where the results are.
    pub outputs: Vec<PathBuf>,
    /// What was asked of the storage.
    pub io: IoReport,
}

/// Outputs by what became of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCounts {
    /// Outputs that the inputs call for.
    pub planned: u64,
    /// Up to date already.
    pub up_to_date: u64,
    /// Made in this run; in a dry run, those that would be made.
    pub made: u64,
    /// Of those made, without rows since their source is empty.
    pub empty: u64,
    /// Not made; [`Summary::failures`] says why.
    pub failed: u64,
    /// Of those that failed, with a damaged source.
    #[serde(default)]
    pub damaged: u64,
    /// Of those that failed, with a source that would be larger, unpacked, than allowed.
    #[serde(default)]
    pub too_large: u64,
    /// Not made since GDELT never published the source, and what stands in its place is none.
    #[serde(default)]
    pub known_absent: u64,
    /// Sources deleted, since all that they hold stands in recorded outputs.
    #[serde(default)]
    pub sources_deleted: u64,
    /// Inputs that are not for this stage.
    pub ignored: u64,
}

/// Rows, over the outputs made in this run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowCounts {
    /// Records of the inputs, blank lines included.
    pub read: u64,
    /// Rows of the outputs.
    pub written: u64,
    /// Records rejected.
    pub rejected: u64,
    /// Blank lines.
    pub blank: u64,
}

/// A file that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The file.
    pub file: PathBuf,
    /// How the work on it ended, as the ledger has it: `failed`, `damaged` or `too-large`.
    #[serde(default)]
    pub status: String,
    /// In which way it is damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<Damage>,
    /// Why it failed, and what to do.
    pub reason: String,
}

impl Failure {
    /// A file that failed for a reason that is no status of its own.
    pub fn new(file: PathBuf, reason: String) -> Self {
        Self::of(file, &Outcome::Failed(reason))
    }

    fn of(file: PathBuf, outcome: &Outcome) -> Self {
        let damage = match outcome {
            Outcome::Damaged { kind, .. } => Some(*kind),
            _ => None,
        };
        let reason = outcome.reason().unwrap_or_default().to_owned();
        Self { file, status: outcome.name().to_owned(), damage, reason }
    }
}

impl Summary {
    /// An empty summary of a stage.
    pub fn new(stage: &str) -> Self {
        Self { stage: stage.to_owned(), version: crate::VERSION.to_owned(), ..Self::default() }
    }

    /// Notes a file of which nothing was made.
    pub(crate) fn refuse(&mut self, file: PathBuf, outcome: &Outcome) {
        let files = &mut self.files;
        match outcome {
            Outcome::Done | Outcome::Empty => return,
            Outcome::KnownAbsent(_) => {
                files.known_absent += 1;
                self.known_absent.push(file);
                return;
            }
            Outcome::Damaged { .. } => files.damaged += 1,
            Outcome::TooLarge(_) => files.too_large += 1,
            Outcome::Failed(_) => {}
        }
        files.failed += 1;
        self.failures.push(Failure::of(file, outcome));
    }

    /// Completes the summary, prints it, and returns how the process ends: with failed files if
    /// there are any.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] when the JSON cannot be made; [`Error::Io`] when stdout is closed.
    pub fn finish(mut self, session: &Session, jobs: usize) -> Result<ExitStatus, Error> {
        let status =
            if self.failures.is_empty() { ExitStatus::Done } else { ExitStatus::FilesFailed };
        self.exit_code = status.code();
        self.seconds = session.started.elapsed().as_secs_f64();
        self.jobs = jobs;
        self.dry_run = session.dry_run;
        self.io = session.budget.report();
        for failure in &self.failures {
            session.printer.warn(format!("{}: {}", failure.file.display(), failure.reason));
        }
        if let Some(first) = self.known_absent.first() {
            session.printer.warn(format!(
                "{} in the place of files that GDELT never published, such as {}: remove them",
                plural(self.files.known_absent, "file"),
                first.display()
            ));
        }
        for reason in session.budget.not_shared() {
            session.printer.warn(format!("other processes do not share these limits: {reason}"));
        }
        session.printer.info(self.table());
        if session.json {
            let json =
                serde_json::to_string(&self).map_err(|error| Error::Internal(error.to_string()))?;
            print(&json)?;
        }
        Ok(status)
    }

    /// The summary for people.
    fn table(&self) -> String {
        let mut text = String::new();
        let files = &self.files;
        let (made, deleted) = if self.dry_run {
            ("to make", "sources to delete")
        } else {
            ("made", "sources deleted")
        };
        let _ok = write!(text, "{}: {} {made}", self.stage, plural(files.made, "file"));
        for (count, name) in [
            (files.up_to_date, "up to date"),
            (files.empty, "empty upstream"),
            (files.known_absent, "known absent"),
            (files.failed, "failed"),
            (files.damaged, "of these damaged"),
            (files.too_large, "of these too large"),
            (files.sources_deleted, deleted),
            (files.ignored, "other files ignored"),
        ] {
            if count > 0 {
                let _ok = write!(text, ", {count} {name}");
            }
        }
        let is_idle = files.made == 0 && files.failed == 0 && files.sources_deleted == 0;
        if is_idle && files.up_to_date > 0 {
            text.push_str("; nothing left to do");
        }
        if self.rows.written > 0 || self.rows.read > 0 {
            let _ok = write!(text, "\n  rows      {} written", self.rows.written);
            for (count, name) in [(self.rows.rejected, "rejected"), (self.rows.blank, "blank")] {
                if count > 0 {
                    let _ok = write!(text, ", {count} {name}");
                }
            }
        }
        for (name, count) in &self.counts {
            let _ok = write!(text, "\n  {name}: {count}");
        }
        for (column, codes) in &self.unknown_codes {
            let rows: u64 = codes.values().sum();
            let _ok = write!(text, "\n  unknown codes in {column}: {rows}");
        }
        if files.made > 0 && !self.dry_run {
            let (read, written) = (megabytes(self.input_bytes), megabytes(self.output_bytes));
            let rate = read / self.seconds.max(1e-9);
            let _ok = write!(
                text,
                "\n  data      {read:.1} MB in, {written:.1} MB out, {:.2} s, {rate:.1} MB/s",
                self.seconds
            );
        }
        for storage in &self.io.storages {
            text.push_str(&storage_lines(storage));
        }
        for output in &self.outputs {
            let _ok = write!(text, "\n  results   {}", output.display());
        }
        text
    }
}

/// What was asked of one storage.
fn storage_lines(storage: &StorageReport) -> String {
    let lane = |lane: &LaneReport| {
        let limit = lane.limit.map_or_else(|| "any".to_owned(), |limit| limit.to_string());
        let (peak, requests) = (lane.peak_in_flight, lane.requests);
        let latency = &lane.latency;
        format!(
            "{requests} requests, at most {peak} of {limit} in flight, median {:.1} ms, 95 % {:.1} \
             ms, {:.1} MB",
            latency.p50_ms,
            latency.p95_ms,
            megabytes(lane.bytes)
        )
    };
    let shared = if storage.shared.is_some() { "" } else { ", limits of this process alone" };
    let mut text = format!("\n  storage   {} {}{shared}", storage.class, storage.key);
    for (name, report) in [("reads ", &storage.reads), ("writes", &storage.writes)] {
        if report.requests > 0 {
            let _ok = write!(text, "\n    {name}  {}", lane(report));
        }
        if report.cache_hits > 0 {
            let hits = megabytes(report.cache_hit_bytes);
            let _ok = write!(text, "; {hits:.1} MB more from the page cache");
        }
        let trace = report.governor.iter().flat_map(|governor| &governor.trace);
        let worst = trace.filter_map(|point| point.stretch).fold(0.0, f64::max);
        if let Some(governor) = report.governor.as_ref().filter(|_| worst > 0.0) {
            let trips = plural(governor.ceiling_trips, "time");
            let _ok = write!(
                text,
                "\n            limit adapted: at worst {worst:.1} times the idle round trip, {trips} \
                 above the ceiling"
            );
        }
    }
    text
}

/// `1 file`, `2 files`.
fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
