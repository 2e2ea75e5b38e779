//! Converts one raw file: text to rows to columns to Parquet, in bounded memory.

use catalog::Dataset;
use catalog::absent::{Absence, known_absence};
use catalog::ledger::{Outcome, RecordCounts};
use stage::settings::DatasetConversion;
use stage::work::{Input, Made, MadeFile, Product, Refused, Tally, Task, TaskError};
use stage::{Error, Session};

use crate::member::{Limits, RawFile};
use crate::output::Output;
use crate::problem::Problem;
use crate::reader::{End, RowReader, Seen, Sink};
use crate::rejects::RejectsLog;
use crate::table::{Oddity, Table};
use crate::years::Years;

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
) -> Result<Product, TaskError> {
    let Some(Input { name, .. }) = task.inputs.first() else {
        return Err(TaskError::Failed("a task without input".into()));
    };
    let mut outputs = Outputs::begin(session, task, &conditions.settings)?;
    let mut reader = RowReader::new(task.dataset, name);
    let read = |raw: RawFile| -> Result<(), End> {
        raw.read_text(conditions.limits, |text| {
            session.interrupt.check().map_err(TaskError::Stop)?;
            reader.feed(text, &mut outputs)
        })?;
        reader.finish(&mut outputs)?;
        outputs.flush()?;
        Ok(reader.check_share(conditions.max_rejects)?)
    };
    let outcome = opened.map_err(End::from).and_then(read);
    let (seen, rejects) = reader.into_seen();
    let rejects = match &conditions.log {
        Some(log) if !rejects.is_empty() => Some(log.append(rejects)?),
        _ => None,
    };
    match outcome {
        Ok(()) => Ok(Product::Made(made(&seen, outputs, name, rejects)?)),
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
    outputs: Outputs,
    source: &str,
    rejects: Option<String>,
) -> Result<Made, TaskError> {
    let files = outputs.close(source)?;
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
    };
    Ok(Made { files, tally })
}

/// The files that rows go to.
enum Outputs {
    /// One file.
    File { table: Box<Table>, output: Box<Output> },
    /// A file for each year.
    Years(Years),
}

impl Outputs {
    fn begin(
        session: &Session,
        task: &Task,
        settings: &DatasetConversion,
    ) -> Result<Self, TaskError> {
        let dataset = task.dataset;
        if dataset == Dataset::EventsReduced {
            return Ok(Self::Years(Years::new(&session.budget, task, settings)));
        }
        let output = Output::begin(&session.budget, task, &task.output, settings)?;
        let table = Table::new(dataset.columns(), &settings.output_columns(dataset));
        Ok(Self::File { table: Box::new(table), output: Box::new(output) })
    }

    /// Writes the rows that are still in memory.
    fn flush(&mut self) -> Result<(), TaskError> {
        match self {
            Self::File { table, output } => output.write(table),
            Self::Years(years) => years.flush(),
        }
    }

    fn close(self, source: &str) -> Result<Vec<MadeFile>, TaskError> {
        match self {
            Self::File { output, .. } => Ok(vec![output.close(source)?]),
            Self::Years(years) => years.close(source),
        }
    }
}

impl Sink for Outputs {
    fn append(
        &mut self,
        record: &[u8],
        odd: impl FnMut(&'static str, Oddity, &[u8]),
    ) -> Result<Option<&'static str>, TaskError> {
        match self {
            Self::File { table, output } => {
                table.append(record, odd);
                if table.is_full() {
                    output.write(table)?;
                }
            }
            Self::Years(years) => {
                let Some(year) = Years::of(record) else { return Ok(Some("no date of 8 digits")) };
                years.append(year, record, odd)?;
            }
        }
        Ok(None)
    }
}
