//! Converts one raw file: text to records to columns to Parquet, in bounded memory.

use std::collections::BTreeMap;

use catalog::absent::{Absence, known_absence};
use catalog::ledger::{Outcome, RecordCounts};
use memchr::memchr_iter;
use stage::settings::DatasetConversion;
use stage::work::{Input, Made, MadeFile, Product, Refused, Tally, Task, TaskError};
use stage::{Error, Session};

use crate::member::{Limits, RawFile};
use crate::output::Output;
use crate::problem::Problem;
use crate::records::{Place, Record, Splitter, width};
use crate::rejects::{Rejects, RejectsLog};
use crate::table::{Oddity, Table};
use crate::width;
use crate::years::Years;

/// What is the same for all files of a dataset.
pub(crate) struct Conditions {
    pub(crate) max_rejects: f64,
    pub(crate) limits: Limits,
    pub(crate) settings: DatasetConversion,
    /// Where examples of rejects go; without it they are counted only.
    pub(crate) log: Option<RejectsLog>,
}

/// What ends the conversion of one file.
pub(crate) enum End {
    Problem(Problem),
    Task(TaskError),
}

impl From<Problem> for End {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<TaskError> for End {
    fn from(error: TaskError) -> Self {
        Self::Task(error)
    }
}

/// Converts the input of a task, as far as it could be opened.
pub(crate) fn convert(
    session: &Session,
    task: &Task,
    opened: Result<RawFile, Problem>,
    conditions: &Conditions,
) -> Result<Product, TaskError> {
    let Some(input) = task.inputs.first() else {
        return Err(TaskError::Failed("a task without input".into()));
    };
    let mut conversion = Conversion::new(session, task, input, &conditions.settings)?;
    let outcome = opened
        .map_err(End::from)
        .and_then(|raw| raw.read_text(conditions.limits, |piece| conversion.feed(piece)))
        .and_then(|_| conversion.finish())
        .and_then(|()| conversion.check_share(conditions.max_rejects));
    let Conversion { rejects, totals, sink, .. } = conversion;
    let rejects = match &conditions.log {
        Some(log) if !rejects.is_empty() => Some(log.append(rejects)?),
        _ => None,
    };
    match outcome {
        Ok(()) => Ok(Product::Made(totals.made(sink, &input.name, rejects)?)),
        Err(End::Task(error)) => Err(error),
        Err(End::Problem(problem)) => {
            // Of a file that was not read to its end the counts say nothing.
            let read = matches!(problem, Problem::TooManyRejects { .. });
            let records = read.then(|| totals.record_counts());
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

/// Where rows go.
enum Sink {
    /// One file.
    File { table: Box<Table>, output: Box<Output> },
    /// A file for each year.
    Years(Years),
}

struct Conversion<'a> {
    session: &'a Session,
    task: &'a Task,
    /// Text seen before the width is known.
    head: Vec<u8>,
    width: Option<usize>,
    splitter: Splitter,
    rejects: Rejects,
    totals: Totals,
    sink: Sink,
}

/// Counts over a whole file.
#[derive(Debug, Default)]
struct Totals {
    counts: RecordCounts,
    headers: u64,
    /// Line feeds, counted apart from the records that they end.
    line_feeds: u64,
    text_bytes: u64,
    ends_with_line_feed: bool,
    by_reason: BTreeMap<&'static str, u64>,
    oddities: BTreeMap<(&'static str, &'static str), u64>,
    unusual: BTreeMap<&'static str, u64>,
}

impl Totals {
    fn add_text(&mut self, piece: &[u8]) {
        self.line_feeds += memchr_iter(b'\n', piece).count() as u64;
        self.text_bytes += piece.len() as u64;
        if let Some(last) = piece.last() {
            self.ends_with_line_feed = *last == b'\n';
        }
    }

    /// Lines of the text, whether the last one is ended or not.
    fn lines(&self) -> u64 {
        self.line_feeds + u64::from(self.text_bytes > 0 && !self.ends_with_line_feed)
    }

    fn record_counts(&self) -> RecordCounts {
        RecordCounts { records: self.lines().saturating_sub(self.headers), ..self.counts }
    }

    /// What was made, once every line is accounted for.
    fn made(self, sink: Sink, source: &str, rejects: Option<String>) -> Result<Made, TaskError> {
        let files: Vec<MadeFile> = match sink {
            Sink::File { output, .. } => vec![output.close(source)?],
            Sink::Years(years) => years.close(source)?,
        };
        let rows: u64 = files.iter().map(|file| file.facts.rows).sum();
        let records = self.record_counts();
        if rows != records.rows || !records.is_complete() {
            let RecordCounts { records, rejected, blank, .. } = records;
            let message = format!(
                "{source}: {records} records are not {rows} rows, {rejected} rejects and {blank} \
                 blank lines"
            );
            return Err(Error::Internal(message).into());
        }
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (reason, count) in self.by_reason {
            counts.insert(format!("rejected, {reason}"), count);
        }
        for ((column, oddity), count) in self.oddities {
            counts.insert(format!("{column}: {oddity}"), count);
        }
        for (name, count) in self.unusual {
            counts.insert(name.to_owned(), count);
        }
        let tally = Tally {
            rows_by_input: vec![rows],
            rows_read: records.records,
            records: Some(records),
            rejects,
            is_empty_upstream: self.text_bytes == 0,
            counts,
        };
        Ok(Made { files, tally })
    }
}

impl<'a> Conversion<'a> {
    fn new(
        session: &'a Session,
        task: &'a Task,
        input: &Input,
        settings: &DatasetConversion,
    ) -> Result<Self, TaskError> {
        let dataset = task.dataset;
        let sink = if dataset == catalog::Dataset::EventsReduced {
            Sink::Years(Years::new(&session.budget, task, settings))
        } else {
            let output = Output::begin(&session.budget, task, &task.output, settings)?;
            let table = Table::new(dataset.columns(), &settings.output_columns(dataset));
            Sink::File { table: Box::new(table), output: Box::new(output) }
        };
        Ok(Self {
            session,
            task,
            head: Vec::new(),
            width: None,
            splitter: Splitter::new(),
            rejects: Rejects::new(&input.name),
            totals: Totals::default(),
            sink,
        })
    }

    /// Takes a piece of text.
    fn feed(&mut self, piece: &[u8]) -> Result<(), End> {
        self.session.interrupt.check().map_err(TaskError::Stop)?;
        self.totals.add_text(piece);
        if self.width.is_some() {
            return self.split(piece);
        }
        if self.head.is_empty() && self.decide_width(piece, false)? {
            return self.split(piece);
        }
        self.head.extend_from_slice(piece);
        let head = std::mem::take(&mut self.head);
        if self.decide_width(&head, false)? {
            return self.split(&head);
        }
        self.head = head;
        Ok(())
    }

    /// Tells the width by the beginning of the text, if that is long enough for it.
    fn decide_width(&mut self, head: &[u8], is_complete: bool) -> Result<bool, Problem> {
        if let Some(sample) = width::sample(head, is_complete) {
            self.width = Some(width::decide(self.task.dataset, sample)?);
        }
        Ok(self.width.is_some())
    }

    /// Takes the end of the text.
    fn finish(&mut self) -> Result<(), End> {
        if self.width.is_none() {
            let head = std::mem::take(&mut self.head);
            self.decide_width(&head, true)?;
            self.split(&head)?;
        }
        let splitter = std::mem::replace(&mut self.splitter, Splitter::new());
        splitter.finish(|place, record| self.record(place, record))?;
        match &mut self.sink {
            Sink::File { table, output } => output.write(table)?,
            Sink::Years(years) => years.flush()?,
        }
        Ok(())
    }

    /// Refuses a file of which too many records were rejected. Blank lines are no records here: they
    /// would hide the others.
    fn check_share(&self, share: f64) -> Result<(), End> {
        let RecordCounts { rows, rejected, .. } = self.totals.counts;
        let records = rows + rejected;
        #[expect(clippy::cast_precision_loss, reason = "a share of a record count")]
        let is_above = rejected as f64 > records as f64 * share;
        if is_above {
            let example = self.rejects.first();
            return Err(Problem::TooManyRejects { rejected, records, share, example }.into());
        }
        Ok(())
    }

    fn split(&mut self, piece: &[u8]) -> Result<(), End> {
        let mut splitter = std::mem::replace(&mut self.splitter, Splitter::new());
        splitter.feed(piece, |place, record| self.record(place, record))?;
        self.splitter = splitter;
        Ok(())
    }

    fn record(&mut self, place: Place, record: Record<'_>) -> Result<(), End> {
        let record = match record {
            Record::Whole(record) => record,
            Record::TooLong(start) => {
                self.reject(place, "longer than 64 MiB", start);
                return Ok(());
            }
        };
        if record.is_empty() {
            self.totals.counts.blank += 1;
            return Ok(());
        }
        if place.line == 1 && self.is_header(record) {
            self.totals.headers += 1;
            return Ok(());
        }
        let expected = self.width.unwrap_or(0);
        let found = width(record);
        if found != expected {
            let few = found < expected;
            let reason = if few { "too few fields" } else { "too many fields" };
            self.reject(place, reason, record);
            return Ok(());
        }
        let Self { rejects, totals, .. } = self;
        let odd = |column, oddity: Oddity, raw: &[u8]| {
            *totals.oddities.entry((column, oddity.name())).or_default() += 1;
            rejects.add(place, Some(column), oddity.name(), raw);
        };
        match &mut self.sink {
            Sink::File { table, output } => {
                table.append(record, odd);
                if table.is_full() {
                    output.write(table)?;
                }
            }
            Sink::Years(years) => {
                let Some(year) = Years::of(record) else {
                    self.reject(place, "no date of 8 digits", record);
                    return Ok(());
                };
                years.append(year, record, odd)?;
            }
        }
        self.totals.counts.rows += 1;
        Ok(())
    }

    fn reject(&mut self, place: Place, reason: &'static str, record: &[u8]) {
        self.totals.counts.rejected += 1;
        *self.totals.by_reason.entry(reason).or_default() += 1;
        self.rejects.add(place, None, reason, record);
    }

    /// Whether the first line names columns. Where it does so in other words than GDELT's own files
    /// that is counted.
    fn is_header(&mut self, record: &[u8]) -> bool {
        let Some(expected) = self.task.dataset.header() else { return false };
        let names: Vec<&[u8]> = record.split(|byte| *byte == b'\t').collect();
        let is_same =
            |(name, expected): (&&[u8], &&str)| name.eq_ignore_ascii_case(expected.as_bytes());
        if !names.iter().zip(expected).take(1).all(is_same) {
            return false;
        }
        if names.len() != expected.len() || !names.iter().zip(expected).all(is_same) {
            *self.totals.unusual.entry("header with other names than expected").or_default() += 1;
        }
        true
    }
}
