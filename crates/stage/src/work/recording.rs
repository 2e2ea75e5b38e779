//! What the ledger is told of tasks.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use catalog::ledger::{FORMAT, LedgerWriter, Outcome, Record, Source, StageName};
use catalog::{Dataset, Directory, Layout};
use io_budget::Published;

use super::{FileFacts, Finished, NotMade, Task};
use crate::{Error, Session};

/// Where the outputs of a stage stand.
fn stage_directories(stage: StageName) -> Vec<Directory> {
    match stage {
        StageName::Convert => vec![Directory::Converted, Directory::Hive],
        StageName::Clean => vec![Directory::Cleaned],
        StageName::Aggregate(period) => vec![Directory::Aggregated(period)],
    }
}

/// Whether the outputs of a task go to one of the directories whose files the ledger knows.
///
/// # Errors
///
/// [`Error::Io`] when a path cannot be resolved.
pub fn is_recorded(
    session: &Session,
    layout: &Layout,
    stage: StageName,
    task: &Task,
) -> Result<bool, Error> {
    let known: Vec<PathBuf> = stage_directories(stage)
        .into_iter()
        .map(|directory| layout.directory(task.dataset, directory))
        .collect();
    if known.contains(&task.directory) {
        return Ok(true);
    }
    let resolved = session.budget.resolve(&task.directory)?;
    for directory in known {
        if session.budget.resolve(&directory)? == resolved {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The ledgers of the datasets whose data directories the tasks write to. Outputs that are named
/// to stand elsewhere are not recorded: nothing would look for them there.
pub(super) struct Ledgers {
    run_ns: i64,
    writers: HashMap<Dataset, LedgerWriter>,
    recorded: HashMap<PathBuf, Dataset>,
}

impl Ledgers {
    pub(super) fn new(
        session: &Session,
        layout: Option<&Layout>,
        stage: StageName,
        tasks: &[Task],
    ) -> Result<Self, Error> {
        let (writers, recorded) = (HashMap::new(), HashMap::new());
        let mut ledgers = Self { run_ns: now_ns(), writers, recorded };
        let Some(layout) = layout else { return Ok(ledgers) };
        for task in tasks {
            if ledgers.recorded.contains_key(&task.directory) {
                continue;
            }
            if is_recorded(session, layout, stage, task)? {
                let ledger = session.ledger(layout, task.dataset);
                ledgers.writers.entry(task.dataset).or_insert_with(|| ledger.writer(stage));
                ledgers.recorded.insert(task.directory.clone(), task.dataset);
            }
        }
        Ok(ledgers)
    }

    /// Records what became of a task; returns the records, none if its output is not recorded. The
    /// last one is that of the output as a whole.
    pub(super) fn record(
        &self,
        task: &Task,
        outcome: &Result<Finished, NotMade>,
    ) -> Result<Vec<Record>, Error> {
        let dataset = self.recorded.get(&task.directory);
        let Some(writer) = dataset.and_then(|dataset| self.writers.get(dataset)) else {
            return Ok(Vec::new());
        };
        let records = match outcome {
            Ok(finished) => records_of_finished(self.run_ns, task, finished),
            Err(NotMade::Refused(refused)) => {
                let record = record(self.run_ns, task, refused.outcome.clone(), &[]);
                let (records, rejects) = (refused.records, refused.rejects.clone());
                vec![Record { records, rejects, ..record }]
            }
            Err(NotMade::Stop(_)) => Vec::new(),
        };
        records.iter().try_for_each(|record| writer.append(record))?;
        Ok(records)
    }

    /// Makes sure that what was recorded is on the storage.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.writers.values().try_for_each(|writer| Ok(writer.sync()?))
    }

    pub(super) fn close(self) -> Result<(), Error> {
        self.writers.into_values().try_for_each(|writer| Ok(writer.close()?))
    }
}

/// The records of an output. Those of its parts stand before that of the whole: a whole that is
/// recorded is complete.
fn records_of_finished(run_ns: i64, task: &Task, finished: &Finished) -> Vec<Record> {
    let Finished { files, tally } = finished;
    let outcome = if tally.is_empty_upstream { Outcome::Empty } else { Outcome::Done };
    let whole = Record {
        counts: tally.counts.clone(),
        records: tally.records,
        rejects: tally.rejects.clone(),
        unknown_codes: tally.unknown_codes.clone(),
        rows: finished.rows(),
        rows_read: tally.rows_read,
        size: finished.size(),
        ..record(run_ns, task, outcome, &tally.rows_by_input)
    };
    let of_file = |whole: &Record, (published, facts): &(Published, FileFacts)| Record {
        output: facts.output.clone(),
        rows: facts.rows,
        size: published.size,
        modified_ns: published.modified_ns,
        footer_start: facts.footer_start,
        key_ranges: facts.key_ranges.clone(),
        ..whole.clone()
    };
    match &files[..] {
        [file] if file.1.output == task.output => vec![of_file(&whole, file)],
        parts => {
            let mut records: Vec<_> = parts.iter().map(|part| of_file(&whole, part)).collect();
            let parts = parts.iter().map(|(_, facts)| facts.output.clone()).collect();
            records.push(Record { parts, ..whole });
            records
        }
    }
}

/// The record of a task, without what there is to say of files.
fn record(run_ns: i64, task: &Task, outcome: Outcome, rows_by_input: &[u64]) -> Record {
    let sources = task.inputs.iter().enumerate().map(|(index, input)| Source {
        name: input.name.clone(),
        size: input.stat.size,
        modified_ns: input.stat.modified_ns,
        rows: rows_by_input.get(index).copied().unwrap_or(0),
    });
    Record {
        format: FORMAT,
        output: task.output.clone(),
        period: task.period,
        feed: task.feed,
        outcome,
        sources: sources.collect(),
        fingerprint: task.fingerprint.clone(),
        rows: 0,
        size: 0,
        modified_ns: 0,
        footer_start: 0,
        key_ranges: BTreeMap::new(),
        counts: BTreeMap::new(),
        rows_read: 0,
        unknown_codes: BTreeMap::new(),
        records: None,
        rejects: None,
        run_ns,
        finished_ns: now_ns(),
        tool: crate::VERSION.to_owned(),
        parts: Vec::new(),
    }
}

/// Nanoseconds since 1970-01-01 UTC.
fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    i64::try_from(now).unwrap_or(i64::MAX)
}
