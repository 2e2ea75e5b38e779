//! Converts one raw file: text to records to columns to Parquet, in bounded memory.

use std::collections::BTreeMap;

use catalog::Dataset;
use stage::work::{Input, Made, Tally, Task, TaskError};
use stage::{Error, Session};

use crate::member::RawFile;
use crate::output::{Notes, Output};
use crate::problem::Problem;
use crate::records::{Place, Splitter, width};
use crate::rejects::{Rejects, RejectsDirectory};
use crate::table::{Oddity, Table, schema};
use crate::years::Years;

/// Records looked at to find the width of a file's schema.
const WIDTH_RECORDS: usize = 1_024;

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
    max_rejects: f64,
    rejects_directory: Option<&RejectsDirectory>,
) -> Result<Made, TaskError> {
    let Some(input) = task.inputs.first() else {
        return Err(TaskError::Failed("a task without input".into()));
    };
    let mut conversion = Conversion::new(session, task, input)?;
    let outcome = opened
        .map_err(End::from)
        .and_then(|raw| raw.read_text(|piece| conversion.feed(piece)))
        .and_then(|length| conversion.finish(length))
        .and_then(|totals| totals.within(max_rejects, &conversion.rejects));
    if let Some(directory) = rejects_directory {
        directory.replace(&stem(task), &mut conversion.rejects)?;
    }
    match outcome {
        Ok(totals) => conversion.close(&totals),
        Err(End::Task(error)) => Err(error),
        Err(End::Problem(problem)) => Err(TaskError::reading(&problem)),
    }
}

fn stem(task: &Task) -> String {
    task.output.trim_end_matches(".parquet").to_owned()
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
    input: &'a Input,
    /// Text seen before the width is known.
    head: Vec<u8>,
    width: Option<usize>,
    splitter: Splitter,
    rejects: Rejects,
    totals: Totals,
    sink: Sink,
}

/// Counts over a whole file.
#[derive(Debug, Clone, Default)]
struct Totals {
    records: u64,
    rows: u64,
    rejected: u64,
    blank: u64,
    by_reason: BTreeMap<&'static str, u64>,
    oddities: BTreeMap<(&'static str, &'static str), u64>,
    text_bytes: u64,
}

impl Totals {
    fn within(self, share: f64, rejects: &Rejects) -> Result<Self, End> {
        #[expect(clippy::cast_precision_loss, reason = "a share of a record count")]
        let allowed = self.records as f64 * share;
        #[expect(clippy::cast_precision_loss, reason = "a record count")]
        if self.rejected as f64 > allowed {
            let (rejected, records) = (self.rejected, self.records);
            let example = rejects.first();
            return Err(Problem::TooManyRejects { rejected, records, share, example }.into());
        }
        Ok(self)
    }
}

impl<'a> Conversion<'a> {
    fn new(session: &'a Session, task: &'a Task, input: &'a Input) -> Result<Self, TaskError> {
        let dataset = task.dataset;
        let settings = session.settings.convert.of(dataset);
        let fingerprint = &task.fingerprint;
        let notes = Notes { dataset, feed: task.feed, fingerprint, settings };
        let sink = if dataset == Dataset::EventsReduced {
            Sink::Years(Years::new(&session.budget, task, settings))
        } else {
            let schema = schema(dataset.columns());
            let output =
                Output::begin(&session.budget, &task.directory, &task.output, &schema, notes)?;
            Sink::File { table: Box::new(Table::new(dataset.columns())), output: Box::new(output) }
        };
        Ok(Self {
            session,
            task,
            input,
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
        if self.width.is_some() {
            return self.split(piece);
        }
        if self.head.is_empty() && is_enough(piece) {
            self.width = Some(self.decide_width(piece)?);
            return self.split(piece);
        }
        self.head.extend_from_slice(piece);
        if is_enough(&self.head) {
            self.split_head()?;
        }
        Ok(())
    }

    fn split_head(&mut self) -> Result<(), End> {
        let head = std::mem::take(&mut self.head);
        self.width = Some(self.decide_width(&head)?);
        self.split(&head)
    }

    /// Takes the end of the text.
    fn finish(&mut self, text_bytes: u64) -> Result<Totals, End> {
        if self.width.is_none() {
            self.split_head()?;
        }
        let splitter = std::mem::replace(&mut self.splitter, Splitter::new());
        splitter.finish(|place, record| self.record(place, record))?;
        match &mut self.sink {
            Sink::File { table, output } => output.write(table)?,
            Sink::Years(years) => years.flush()?,
        }
        self.totals.text_bytes = text_bytes;
        Ok(self.totals.clone())
    }

    fn split(&mut self, piece: &[u8]) -> Result<(), End> {
        let mut splitter = std::mem::replace(&mut self.splitter, Splitter::new());
        splitter.feed(piece, |place, record| self.record(place, record))?;
        self.splitter = splitter;
        Ok(())
    }

    fn record(&mut self, place: Place, record: &[u8]) -> Result<(), End> {
        if record.is_empty() {
            self.totals.blank += 1;
            return Ok(());
        }
        if place.line == 1 && self.is_header(record) {
            return Ok(());
        }
        self.totals.records += 1;
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
        self.totals.rows += 1;
        Ok(())
    }

    fn reject(&mut self, place: Place, reason: &'static str, record: &[u8]) {
        self.totals.rejected += 1;
        *self.totals.by_reason.entry(reason).or_default() += 1;
        self.rejects.add(place, None, reason, record);
    }

    fn is_header(&self, record: &[u8]) -> bool {
        let first = record.split(|byte| *byte == b'\t').next().unwrap_or_default();
        self.task
            .dataset
            .header_start()
            .is_some_and(|start| first.eq_ignore_ascii_case(start.as_bytes()))
    }

    /// The number of fields that most of the first records have; it has to be one of the
    /// dataset's.
    fn decide_width(&self, head: &[u8]) -> Result<usize, Problem> {
        let dataset = self.task.dataset;
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        let records = head.split(|byte| *byte == b'\n').filter(|record| !record.is_empty());
        for record in records.take(WIDTH_RECORDS) {
            *counts.entry(width(record)).or_default() += 1;
        }
        let Some((&found, _)) = counts.iter().max_by_key(|(width, count)| (**count, **width))
        else {
            return Ok(dataset.columns().len());
        };
        if dataset.widths().contains(&found) {
            return Ok(found);
        }
        let others: Vec<_> = Dataset::ALL
            .into_iter()
            .filter(|other| other.widths().contains(&found))
            .map(Dataset::name)
            .collect();
        let expected: Vec<_> = dataset.widths().iter().map(ToString::to_string).collect();
        Err(Problem::Width {
            found,
            dataset,
            expected: expected.join(" or "),
            belongs_to: (!others.is_empty()).then(|| others.join(" or ")),
        })
    }

    fn close(self, totals: &Totals) -> Result<Made, TaskError> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (reason, count) in &totals.by_reason {
            counts.insert(format!("rejected, {reason}"), *count);
        }
        for ((column, oddity), count) in &totals.oddities {
            counts.insert(format!("{column}: {oddity}"), *count);
        }
        let (dataset, source) = (self.task.dataset, self.input.name.as_str());
        let files = match self.sink {
            Sink::File { output, .. } => vec![output.close(dataset, source)?],
            Sink::Years(years) => years.close(source)?,
        };
        let rows: u64 = files.iter().map(|file| file.facts.rows).sum();
        let accounted = rows + totals.rejected;
        if rows != totals.rows || accounted != totals.records {
            let message =
                format!("{source}: {accounted} of {} records are accounted for", totals.records);
            return Err(Error::Internal(message).into());
        }
        let tally = Tally {
            rows_by_input: vec![rows],
            rows_read: totals.records,
            rejected: totals.rejected,
            blank: totals.blank,
            is_empty_upstream: totals.text_bytes == 0,
            counts,
        };
        Ok(Made { files, tally })
    }
}

/// Whether a text holds enough records to know their width.
fn is_enough(text: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', text).nth(WIDTH_RECORDS).is_some()
}
