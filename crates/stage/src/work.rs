//! Tasks from inputs to an output: what is left to do, doing it on the pool, recording it.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use catalog::ledger::{FORMAT, LedgerWriter, Outcome, Record, Source, StageName};
use catalog::{Dataset, Directory, Feed, Layout, Period};
use io_budget::{Budget, Published, Stat};
use parquet::errors::ParquetError;

use crate::cli::FileArgs;
use crate::{Error, Failure, Session, Summary, pool};

/// A file that a task reads.
#[derive(Debug, Clone)]
pub struct Input {
    /// Path to open.
    pub path: PathBuf,
    /// File name, without its directory.
    pub name: String,
    /// Size and time.
    pub stat: Stat,
}

/// An output to make of inputs.
#[derive(Debug, Clone)]
pub struct Task {
    /// The dataset.
    pub dataset: Dataset,
    /// The feed of the output.
    pub feed: Feed,
    /// The time that the output covers.
    pub period: Period,
    /// The inputs, in the order of their rows in the output.
    pub inputs: Vec<Input>,
    /// The data directory.
    pub directory: PathBuf,
    /// Path of the output, relative to the data directory.
    pub output: String,
    /// Digest of the settings that shape the output.
    pub fingerprint: String,
}

impl Task {
    /// Path of the output.
    pub fn output_path(&self) -> PathBuf {
        self.directory.join(&self.output)
    }

    /// The file to name when something is wrong with the task: its input if there is one only.
    fn subject(&self) -> PathBuf {
        match &self.inputs[..] {
            [input] => input.path.clone(),
            _ => self.output_path(),
        }
    }
}

/// A published output.
#[derive(Debug, Clone)]
pub struct Made {
    /// Size and time of the output.
    pub published: Published,
    /// Rows of the output.
    pub rows: u64,
    /// Rows that each input gave, in their order.
    pub rows_by_input: Vec<u64>,
    /// Records read from the inputs.
    pub rows_read: u64,
    /// Records rejected.
    pub rejected: u64,
    /// Blank lines.
    pub blank: u64,
    /// Whether the output has no rows because its source is empty upstream.
    pub is_empty_upstream: bool,
    /// Byte at which the output's page index and footer begin.
    pub footer_start: u64,
    /// Least and greatest value of the whole-number keys and dates.
    pub key_ranges: BTreeMap<String, (i64, i64)>,
    /// Everything unusual, by name.
    pub counts: BTreeMap<String, u64>,
    /// The files of an output that is several: then `published` is their total size.
    pub parts: Vec<Part>,
}

/// One of several published files that are one output.
#[derive(Debug, Clone)]
pub struct Part {
    /// Path, relative to the data directory.
    pub output: String,
    /// Size and time.
    pub published: Published,
    /// Rows.
    pub rows: u64,
    /// Byte at which page index and footer begin.
    pub footer_start: u64,
    /// Least and greatest value of the whole-number keys and dates.
    pub key_ranges: BTreeMap<String, (i64, i64)>,
}

/// Why a task has no output.
#[derive(Debug)]
pub enum TaskError {
    /// This output cannot be made; the others can.
    Failed(String),
    /// The run cannot go on.
    Stop(Error),
}

impl TaskError {
    /// A failure to read an input: the next one may do better.
    pub fn reading(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut reason = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            reason = format!("{reason}: {source}");
            cause = source.source();
        }
        Self::Failed(reason)
    }

    /// A failure of a Parquet writer: of the storage below it, or of the rows it was given.
    pub fn encoding(output: &Path, error: ParquetError) -> Self {
        match Error::encoding(output, error) {
            Error::Io(error) => Self::writing(error),
            other => Self::Failed(other.to_string()),
        }
    }

    /// A failure to write: it would meet every output.
    pub fn writing(error: io_budget::Error) -> Self {
        Self::Stop(Error::Io(error))
    }
}

impl From<Error> for TaskError {
    fn from(error: Error) -> Self {
        Self::Stop(error)
    }
}

/// How tasks are run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Make again what is up to date.
    pub force: bool,
    /// The files were named on the command line: they are always made, the ledger is not read.
    pub named: bool,
    /// Worker threads.
    pub jobs: NonZeroUsize,
}

impl Options {
    /// What the flags ask for. Named files are worked on by one thread unless more are asked for.
    pub fn of(session: &Session, arguments: &FileArgs) -> Self {
        let named = arguments.names_files();
        let jobs =
            if named { session.settings.jobs.unwrap_or(NonZeroUsize::MIN) } else { session.jobs() };
        Self { force: arguments.force, named, jobs }
    }
}

/// Runs the tasks that are not up to date, records each in the ledger as soon as it is published,
/// and adds what happened to the summary.
///
/// # Errors
///
/// [`Error`] when the run stops. Failed tasks do not stop it: they are in the summary.
pub fn run(
    session: &Session,
    stage: StageName,
    tasks: Vec<Task>,
    options: Options,
    summary: &mut Summary,
    make: impl Fn(&Task) -> Result<Made, TaskError> + Sync,
) -> Result<(), Error> {
    refuse_one_output_of_two(&tasks)?;
    refuse_input_as_output(&tasks)?;
    summary.files.planned += tasks.len() as u64;
    let layout = session.settings.layout();
    let tasks = if options.named {
        tasks
    } else {
        left_to_do(session, stage, tasks, options.force, summary)?
    };
    if session.dry_run {
        summary.files.made += tasks.len() as u64;
        for task in &tasks {
            session.printer.detail(format!("would make {}", task.output_path().display()));
        }
        return Ok(());
    }
    let ledgers = Ledgers::new(session, layout.as_ref(), stage, &tasks)?;
    let bar = session.printer.start_bar(tasks.len() as u64, "files");
    let run_task = |task: Task| {
        let outcome = session.interrupt.check().map_err(TaskError::Stop).and_then(|()| make(&task));
        match &outcome {
            Ok(output) => ledgers.record(&task, Ok(output))?,
            Err(TaskError::Failed(reason)) => ledgers.record(&task, Err(reason))?,
            Err(TaskError::Stop(_)) => {}
        }
        Ok((task, outcome))
    };
    let outcome = pool::map_ordered(options.jobs, tasks, run_task, |result: Result<_, Error>| {
        let (task, outcome) = result?;
        bar.advance(1);
        note(session, &task, outcome, summary)
    });
    drop(bar);
    let closed = ledgers.close();
    outcome?;
    closed
}

fn note(
    session: &Session,
    task: &Task,
    outcome: Result<Made, TaskError>,
    summary: &mut Summary,
) -> Result<(), Error> {
    match outcome {
        Ok(made) => {
            session.printer.detail(format!(
                "made {} ({} rows)",
                task.output_path().display(),
                made.rows
            ));
            for (name, count) in &made.counts {
                session.printer.detail(format!("  {name}: {count}"));
            }
            summary.files.made += 1;
            summary.files.empty += u64::from(made.is_empty_upstream);
            summary.rows.read += made.rows_read;
            summary.rows.written += made.rows;
            summary.rows.rejected += made.rejected;
            summary.rows.blank += made.blank;
            summary.input_bytes += task.inputs.iter().map(|input| input.stat.size).sum::<u64>();
            summary.output_bytes += made.published.size;
            for (name, count) in made.counts {
                *summary.counts.entry(name).or_default() += count;
            }
            if !summary.outputs.contains(&task.directory) {
                summary.outputs.push(task.directory.clone());
            }
        }
        Err(TaskError::Failed(reason)) => {
            summary.files.failed += 1;
            summary.failures.push(Failure { file: task.subject(), reason });
        }
        Err(TaskError::Stop(error)) => return Err(error),
    }
    Ok(())
}

/// Two inputs of one output would leave the rows of one of them, whichever came last.
fn refuse_one_output_of_two(tasks: &[Task]) -> Result<(), Error> {
    let mut by_output: HashMap<PathBuf, &Task> = HashMap::new();
    for task in tasks {
        if let Some(other) = by_output.insert(task.output_path(), task) {
            let message = format!(
                "{} and {} would both become {}",
                other.subject().display(),
                task.subject().display(),
                task.output_path().display()
            );
            let hint = "keep one of the two, or give each an output of its own, as --out-dir does";
            return Err(Error::usage(message, hint));
        }
    }
    Ok(())
}

fn refuse_input_as_output(tasks: &[Task]) -> Result<(), Error> {
    for task in tasks {
        let output = task.output_path();
        if task.inputs.iter().any(|input| input.path == output) {
            let message = format!("{} is an input and would be its own output", output.display());
            return Err(Error::usage(message, "write the output to another directory"));
        }
    }
    Ok(())
}

/// The tasks whose output is not there as the ledger has it, or was made of other inputs or with
/// other settings.
fn left_to_do(
    session: &Session,
    stage: StageName,
    tasks: Vec<Task>,
    force: bool,
    summary: &mut Summary,
) -> Result<Vec<Task>, Error> {
    let layout = session.layout()?;
    let mut by_dataset: BTreeMap<Dataset, Vec<Task>> = BTreeMap::new();
    for task in tasks {
        by_dataset.entry(task.dataset).or_default().push(task);
    }
    let mut left = Vec::new();
    for (dataset, tasks) in by_dataset {
        let Some(first) = tasks.first() else { continue };
        let directory = first.directory.clone();
        let present = present_outputs(&session.budget, dataset, &directory)?;
        let loaded = session.ledger(&layout, dataset).load(stage, session.range)?;
        for line in &loaded.unreadable {
            session.printer.warn(format!(
                "{}: line {} is no ledger record and is passed over",
                line.path.display(),
                line.line
            ));
        }
        if !session.dry_run {
            loaded.tidy(&session.budget)?;
            let swept = session.budget.sweep(&directory)?;
            if swept > 0 {
                session.printer.info(format!("removed {swept} unfinished files of dead processes"));
            }
        }
        for task in tasks {
            match State::of(&task, &loaded.records, &present, force) {
                State::UpToDate => summary.files.up_to_date += 1,
                State::ToMake(why) => {
                    session.printer.detail(format!("{}: {why}", task.output));
                    left.push(task);
                }
                State::SourceGone(name) => {
                    let reason = format!(
                        "{name}, of which it was made, is gone: make that again, or give --force \
                         to make this without it"
                    );
                    summary.files.failed += 1;
                    summary.failures.push(Failure { file: task.output_path(), reason });
                }
            }
        }
    }
    Ok(left)
}

/// What is to be done about an output.
enum State {
    UpToDate,
    /// It has to be made, for this reason.
    ToMake(&'static str),
    /// It stands as it was made, of a file that is gone: made again it would have fewer rows.
    SourceGone(String),
}

impl State {
    fn of(
        task: &Task,
        records: &HashMap<String, Record>,
        present: &HashMap<String, Stat>,
        force: bool,
    ) -> Self {
        let Some(record) = records.get(&task.output) else { return Self::ToMake("not made yet") };
        let is_same = |(source, input): (&Source, &Input)| {
            source.name == input.name
                && source.size == input.stat.size
                && source.modified_ns == input.stat.modified_ns
        };
        let is_as_made = |output: &String| {
            let (record, stat) = (records.get(output)?, present.get(output)?);
            Some((stat.size, stat.modified_ns) == (record.size, record.modified_ns))
        };
        let outputs = if record.parts.is_empty() {
            std::slice::from_ref(&record.output)
        } else {
            &record.parts
        };
        let as_made: Vec<_> = outputs.iter().map(is_as_made).collect();
        if force {
            Self::ToMake("made again as asked")
        } else if !record.is_published() {
            Self::ToMake("failed before")
        } else if as_made.contains(&None) {
            Self::ToMake("the output is gone")
        } else if as_made.contains(&Some(false)) {
            Self::ToMake("the output is not as it was made")
        } else if record.fingerprint != task.fingerprint {
            Self::ToMake("the settings have changed")
        } else if let Some(gone) = gone_source(record, task) {
            Self::SourceGone(gone.to_owned())
        } else if record.sources.len() != task.inputs.len()
            || !record.sources.iter().zip(&task.inputs).all(is_same)
        {
            Self::ToMake("the inputs have changed")
        } else {
            Self::UpToDate
        }
    }
}

/// A recorded source that is not among the inputs, where these have become fewer. One that was
/// replaced under another name leaves as many.
fn gone_source<'a>(record: &'a Record, task: &Task) -> Option<&'a str> {
    let is_gone = |source: &&Source| task.inputs.iter().all(|input| input.name != source.name);
    let gone = record.sources.iter().find(is_gone)?;
    (record.sources.len() > task.inputs.len()).then_some(gone.name.as_str())
}

fn present_outputs(
    budget: &Budget,
    dataset: Dataset,
    directory: &Path,
) -> Result<HashMap<String, Stat>, Error> {
    match crate::files::list_parquet(budget, dataset, directory) {
        Ok(files) => Ok(files.into_iter().map(|file| (file.relative, file.stat)).collect()),
        Err(Error::Io(error)) if error.is_not_found() => Ok(HashMap::new()),
        Err(error) => Err(error),
    }
}

/// Where the outputs of a stage stand.
fn stage_directory(stage: StageName) -> Directory {
    match stage {
        StageName::Convert => Directory::Converted,
        StageName::Clean => Directory::Cleaned,
        StageName::Aggregate(period) => Directory::Aggregated(period),
    }
}

/// The ledgers of the datasets whose data directories the tasks write to. Outputs that are named
/// to stand elsewhere are not recorded: nothing would look for them there.
struct Ledgers {
    writers: HashMap<Dataset, LedgerWriter>,
    recorded: HashMap<PathBuf, Dataset>,
}

impl Ledgers {
    fn new(
        session: &Session,
        layout: Option<&Layout>,
        stage: StageName,
        tasks: &[Task],
    ) -> Result<Self, Error> {
        let mut ledgers = Self { writers: HashMap::new(), recorded: HashMap::new() };
        let Some(layout) = layout else { return Ok(ledgers) };
        for task in tasks {
            if ledgers.recorded.contains_key(&task.directory) {
                continue;
            }
            let expected = layout.directory(task.dataset, stage_directory(stage));
            let budget = &session.budget;
            if task.directory == expected
                || budget.resolve(&task.directory)? == budget.resolve(&expected)?
            {
                let ledger = session.ledger(layout, task.dataset);
                ledgers.writers.entry(task.dataset).or_insert_with(|| ledger.writer(stage));
                ledgers.recorded.insert(task.directory.clone(), task.dataset);
            }
        }
        Ok(ledgers)
    }

    fn record(&self, task: &Task, outcome: Result<&Made, &String>) -> Result<(), Error> {
        let dataset = self.recorded.get(&task.directory);
        let Some(writer) = dataset.and_then(|dataset| self.writers.get(dataset)) else {
            return Ok(());
        };
        let record = record(task, outcome);
        for part in outcome.iter().flat_map(|made| &made.parts) {
            writer.append(&record_of_part(&record, part))?;
        }
        Ok(writer.append(&record)?)
    }

    fn close(self) -> Result<(), Error> {
        self.writers.into_values().try_for_each(|writer| Ok(writer.close()?))
    }
}

fn record(task: &Task, outcome: Result<&Made, &String>) -> Record {
    let made = outcome.ok();
    let rows_of = |index: usize| made.and_then(|made| made.rows_by_input.get(index)).copied();
    let sources = task.inputs.iter().enumerate().map(|(index, input)| Source {
        name: input.name.clone(),
        size: input.stat.size,
        modified_ns: input.stat.modified_ns,
        rows: rows_of(index).unwrap_or(0),
    });
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    Record {
        format: FORMAT,
        output: task.output.clone(),
        period: task.period,
        feed: task.feed,
        outcome: match outcome {
            Ok(made) if made.is_empty_upstream => Outcome::Empty,
            Ok(_) => Outcome::Done,
            Err(reason) => Outcome::Failed(reason.clone()),
        },
        sources: sources.collect(),
        fingerprint: task.fingerprint.clone(),
        rows: made.map_or(0, |made| made.rows),
        size: made.map_or(0, |made| made.published.size),
        modified_ns: made.map_or(0, |made| made.published.modified_ns),
        footer_start: made.map_or(0, |made| made.footer_start),
        key_ranges: made.map(|made| made.key_ranges.clone()).unwrap_or_default(),
        counts: made.map(|made| made.counts.clone()).unwrap_or_default(),
        finished_ns: i64::try_from(now).unwrap_or(i64::MAX),
        tool: crate::VERSION.to_owned(),
        parts: made
            .map(|made| made.parts.iter().map(|part| part.output.clone()).collect())
            .unwrap_or_default(),
    }
}

/// The record of a part, which stands before that of the whole: a whole that is recorded is
/// complete.
fn record_of_part(whole: &Record, part: &Part) -> Record {
    Record {
        output: part.output.clone(),
        rows: part.rows,
        size: part.published.size,
        modified_ns: part.published.modified_ns,
        footer_start: part.footer_start,
        key_ranges: part.key_ranges.clone(),
        parts: Vec::new(),
        ..whole.clone()
    }
}
