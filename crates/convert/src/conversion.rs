//! Converts one raw file: text to rows to columns to Parquet, in bounded memory.

use std::collections::BTreeMap;
use std::thread;

use arrow::array::RecordBatch;
use catalog::absent::{Absence, known_absence};
use catalog::ledger::{Outcome, RecordCounts};
use catalog::{Column, Dataset};
use stage::settings::DatasetConversion;
use stage::work::{Crew, Input, Made, Product, Refused, Tally, Task, TaskError};
use stage::{Error, Session};

use crate::encoder::{Encoder, Files};
use crate::member::{Limits, RawFile};
use crate::problem::Problem;
use crate::reader::{End, RowReader, Seen, Sink};
use crate::rejects::RejectsLog;
use crate::table::{Oddity, Table};
use crate::years::{BATCH_ROWS, year_of};

/// What is the same for all files of a dataset.
pub(crate) struct Conditions {
    pub(crate) max_rejects: f64,
    pub(crate) limits: Limits,
    pub(crate) settings: DatasetConversion,
    /// Where examples of rejects go; without it they are counted only.
    pub(crate) log: Option<RejectsLog>,
}

/// Converts the input of a task, as far as it could be opened.
pub(crate) fn convert(
    session: &Session,
    task: &Task,
    opened: Result<RawFile, Problem>,
    conditions: &Conditions,
    crew: Crew<'_>,
) -> Result<Product, TaskError> {
    let Some(Input { name, .. }) = task.inputs.first() else {
        return Err(TaskError::Failed("a task without input".into()));
    };
    let mut reader = RowReader::new(task.dataset, name);
    let mut read = |raw: RawFile, tables: &mut Tables<'_>| -> Result<(), End> {
        raw.read_text(conditions.limits, |text| {
            session.interrupt.check().map_err(TaskError::Stop)?;
            reader.feed(text, tables)
        })?;
        reader.finish(tables)?;
        tables.flush()?;
        Ok(reader.check_share(conditions.max_rejects)?)
    };
    let outcome = thread::scope(|scope| {
        let begin = || Files::begin(session, task, &conditions.settings);
        let mut tables = Tables::new(task, &conditions.settings, Encoder::new(scope, crew, begin)?);
        let read = opened.map_err(End::from).and_then(|raw| read(raw, &mut tables));
        // What the encoder met comes first: it ends the reading too.
        let files = tables.encoder.finish()?;
        read.map(|()| files)
    });
    let (seen, rejects) = reader.into_seen();
    let rejects = match &conditions.log {
        _ if rejects.is_empty() => None,
        Some(log) => Some(log.append(rejects)?),
        None => {
            let message = format!("{name}: what was rejected is counted only; --root keeps it");
            session.printer.warn(message);
            None
        }
    };
    match outcome {
        Ok(files) => Ok(Product::Made(made(&seen, files, name, rejects)?)),
        Err(End::Task(error)) => Err(error),
        Err(End::Problem(problem)) => {
            // Of a file that was not read to its end the counts say nothing.
            let read = matches!(problem, Problem::TooManyRejects { .. });
            let records = read.then(|| seen.record_counts());
            Ok(Product::Refused(Refused { outcome: outcome_of(task, &problem), records, rejects }))
        }
    }
}

/// The status of a file that is not converted. What stands in the place of a file that GDELT never
/// published is usually the server's answer that there is none.
fn outcome_of(task: &Task, problem: &Problem) -> Outcome {
    let outcome = problem.outcome();
    let absence = known_absence(task.dataset, task.feed, task.period);
    match (outcome, absence) {
        (Outcome::Damaged { reason, .. }, Some(Absence::NeverPublished)) => Outcome::KnownAbsent(
            format!("GDELT never published it, and what stands there is none ({reason})"),
        ),
        (outcome, _) => outcome,
    }
}

/// What was made, once every line is accounted for.
fn made(
    seen: &Seen,
    files: Files,
    source: &str,
    rejects: Option<String>,
) -> Result<Made, TaskError> {
    let files = files.close(source)?;
    let rows: u64 = files.iter().map(|file| file.facts.rows).sum();
    let records = seen.record_counts();
    if rows != records.rows || !records.is_complete() {
        let RecordCounts { records, rejected, blank, .. } = records;
        let message = format!(
            "{source}: {records} records are not {rows} rows, {rejected} rejects and {blank} blank \
             lines"
        );
        return Err(Error::Internal(message).into());
    }
    let tally = Tally {
        rows_by_input: vec![rows],
        rows_read: records.records,
        records: Some(records),
        rejects,
        is_empty_upstream: seen.is_empty(),
        counts: seen.tallies(),
        ..Tally::default()
    };
    Ok(Made { files, tally })
}

/// Rows on their way to an encoder, in columns.
struct Tables<'scope> {
    all: &'static [Column],
    kept: Vec<Column>,
    /// By year where there is a file for each; under no year otherwise.
    by_year: BTreeMap<Option<i32>, Table>,
    is_by_year: bool,
    encoder: Encoder<'scope>,
}

impl<'scope> Tables<'scope> {
    fn new(task: &Task, settings: &DatasetConversion, encoder: Encoder<'scope>) -> Self {
        let dataset = task.dataset;
        Self {
            all: dataset.columns(),
            kept: settings.output_columns(dataset),
            by_year: BTreeMap::new(),
            is_by_year: dataset == Dataset::EventsReduced,
            encoder,
        }
    }

    /// Hands over the rows that are still in memory.
    fn flush(&mut self) -> Result<(), TaskError> {
        for (year, table) in &mut self.by_year {
            self.encoder.write(*year, take(table)?)?;
        }
        Ok(())
    }
}

fn take(table: &mut Table) -> Result<RecordBatch, TaskError> {
    Ok(table.take().map_err(|error| Error::Internal(error.to_string()))?)
}

impl Sink for Tables<'_> {
    fn append(
        &mut self,
        record: &[u8],
        odd: impl FnMut(&'static str, Oddity, &[u8]),
    ) -> Result<Option<&'static str>, TaskError> {
        let Self { all, kept, by_year, is_by_year, encoder } = self;
        let year = if *is_by_year { year_of(record) } else { None };
        if *is_by_year && year.is_none() {
            return Ok(Some("no date from 1979 to 2013"));
        }
        let table = by_year.entry(year).or_insert_with(|| {
            if *is_by_year {
                Table::of_batches(all, kept, BATCH_ROWS)
            } else {
                Table::new(all, kept)
            }
        });
        table.append(record, odd);
        if table.is_full() {
            encoder.write(year, take(table)?)?;
        }
        Ok(None)
    }
}
