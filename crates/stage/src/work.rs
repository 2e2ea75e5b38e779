//! Tasks from inputs to an output: what is left to do, doing it on three pools (reading, making,
//! writing), recording it.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use catalog::ledger::{FORMAT, LedgerWriter, Outcome, Record, Source, StageName};
use catalog::{Dataset, Directory, Feed, Layout, Period};
use io_budget::{Budget, Published, StagedFile, Stat};
use parquet::errors::ParquetError;

use crate::cli::FileArgs;
use crate::pool::{self, Threads, Window};
use crate::{Error, Failure, Session, Summary};

/// Inputs that are read and wait for a worker, at most.
const READ_AHEAD: usize = 4;

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

    /// Length of all inputs.
    pub fn input_bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.stat.size).sum()
    }

    /// The file to name when something is wrong with the task: its input if there is one only.
    fn subject(&self) -> PathBuf {
        match &self.inputs[..] {
            [input] => input.path.clone(),
            _ => self.output_path(),
        }
    }
}

/// An output that is made and has not appeared yet.
#[derive(Debug)]
pub struct Made {
    /// Its files: the output itself, or the parts of an output that is several.
    pub files: Vec<MadeFile>,
    /// What is to be said of it.
    pub tally: Tally,
}

/// A file that is made and has not appeared yet.
#[derive(Debug)]
pub struct MadeFile {
    /// The file; publishing it makes it appear.
    pub staged: StagedFile,
    /// What is to be said of it.
    pub facts: FileFacts,
}

/// What the ledger keeps of a file beside its size and time.
#[derive(Debug, Clone)]
pub struct FileFacts {
    /// Path, relative to the data directory.
    pub output: String,
    /// Rows.
    pub rows: u64,
    /// Byte at which page index and footer begin.
    pub footer_start: u64,
    /// Least and greatest value of the whole-number keys and dates.
    pub key_ranges: BTreeMap<String, (i64, i64)>,
}

/// What is to be said of an output as a whole.
#[derive(Debug, Clone, Default)]
pub struct Tally {
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
    /// Everything unusual, by name.
    pub counts: BTreeMap<String, u64>,
}

/// An output that has appeared.
#[derive(Debug)]
struct Finished {
    files: Vec<(Published, FileFacts)>,
    tally: Tally,
}

impl Finished {
    fn rows(&self) -> u64 {
        self.files.iter().map(|(_, facts)| facts.rows).sum()
    }

    fn size(&self) -> u64 {
        self.files.iter().map(|(published, _)| published.size).sum()
    }
}

/// The threads of a stage, seen from one task.
#[derive(Debug, Clone, Copy)]
pub struct Crew<'a> {
    jobs: NonZeroUsize,
    /// Tasks of the whole run that are not made yet.
    left: &'a AtomicUsize,
}

impl Crew<'_> {
    /// Threads that this task may use: more than one only when fewer tasks are left than there are
    /// threads. Row groups of Parquet can then be shared out; a zip is one stream and cannot.
    pub fn threads(self) -> NonZeroUsize {
        let left = self.left.load(Relaxed).max(1);
        NonZeroUsize::new(self.jobs.get() / left).unwrap_or(NonZeroUsize::MIN)
    }
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

/// Runs the tasks that are not up to date: reads ahead, makes outputs on the workers, lets them
/// appear in the order of the tasks, records each in the ledger, and adds what happened to the
/// summary. `read` gets what `produce` begins with, on threads of its own.
///
/// # Errors
///
/// [`Error`] when the run stops. Failed tasks do not stop it: they are in the summary.
pub fn run<T: Send>(
    session: &Session,
    stage: StageName,
    tasks: Vec<Task>,
    options: Options,
    summary: &mut Summary,
    read: impl Fn(&Task) -> Result<T, TaskError> + Send + Sync,
    produce: impl Fn(&Task, T, Crew<'_>) -> Result<Made, TaskError> + Send + Sync,
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
    let Some(first) = tasks.first() else { return Ok(()) };
    let threads = PoolThreads::of(session, first, options.jobs);
    let ledgers = Ledgers::new(session, layout.as_ref(), stage, &tasks)?;
    let bar = session.printer.start_bar(tasks.len() as u64, "files");
    let left = AtomicUsize::new(tasks.len());
    let crew = Crew { jobs: options.jobs, left: &left };
    let go_on = || session.interrupt.check().map_err(TaskError::Stop);
    let outcome: Result<(), Error> = thread::scope(|scope| {
        let read_input = |task: Task| {
            let input = go_on().and_then(|()| read(&task));
            (task, input)
        };
        let produce_output = |(task, input): (Task, Result<T, TaskError>)| {
            let made = input.and_then(|input| go_on().and_then(|()| produce(&task, input, crew)));
            left.fetch_sub(1, Relaxed);
            (task, made)
        };
        let publish_output = |(task, made): (Task, Result<Made, TaskError>)| {
            let finished = made.and_then(publish);
            let recorded = ledgers.record(&task, &finished);
            (task, finished, recorded)
        };
        let read = pool::map(scope, threads.read, tasks, Task::input_bytes, read_input);
        let made =
            pool::map(scope, threads.make, read, |(task, _)| task.input_bytes(), produce_output);
        let written =
            pool::map(scope, threads.write, made, |(task, _)| task.input_bytes(), publish_output);
        for (task, finished, recorded) in written {
            recorded?;
            bar.advance(1);
            note(session, &task, finished, summary)?;
        }
        Ok(())
    });
    drop(bar);
    let closed = ledgers.close();
    outcome?;
    closed
}

/// The pools of a run.
struct PoolThreads {
    read: Threads,
    make: Threads,
    write: Threads,
}

impl PoolThreads {
    /// As many readers and writers as the storages of the inputs and outputs can use.
    fn of(session: &Session, task: &Task, jobs: NonZeroUsize) -> Self {
        let readers = session.reader_threads(task.inputs.first().map(|input| input.path.as_path()));
        let writers = session.budget.usage(&task.directory).writers;
        let jobs = jobs.get();
        let threads =
            |name, number, items| Threads { name, number, window: Window::of_items(items) };
        Self {
            read: threads("reader", readers, readers + jobs.min(READ_AHEAD)),
            make: threads("worker", jobs, jobs + 1),
            write: threads("writer", writers, writers + 1),
        }
    }
}

/// Makes the files of an output appear.
fn publish(made: Made) -> Result<Finished, TaskError> {
    let publish = |file: MadeFile| {
        let published = file.staged.publish().map_err(TaskError::writing)?;
        Ok::<_, TaskError>((published, file.facts))
    };
    let files = made.files.into_iter().map(publish).collect::<Result<_, _>>()?;
    Ok(Finished { files, tally: made.tally })
}

fn note(
    session: &Session,
    task: &Task,
    outcome: Result<Finished, TaskError>,
    summary: &mut Summary,
) -> Result<(), Error> {
    match outcome {
        Ok(finished) => {
            let (rows, size) = (finished.rows(), finished.size());
            let tally = finished.tally;
            let output = task.output_path();
            session.printer.detail(format!("made {} ({rows} rows)", output.display()));
            for (name, count) in &tally.counts {
                session.printer.detail(format!("  {name}: {count}"));
            }
            summary.files.made += 1;
            summary.files.empty += u64::from(tally.is_empty_upstream);
            summary.rows.read += tally.rows_read;
            summary.rows.written += rows;
            summary.rows.rejected += tally.rejected;
            summary.rows.blank += tally.blank;
            summary.input_bytes += task.input_bytes();
            summary.output_bytes += size;
            for (name, count) in tally.counts {
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

    fn record(&self, task: &Task, outcome: &Result<Finished, TaskError>) -> Result<(), Error> {
        let dataset = self.recorded.get(&task.directory);
        let Some(writer) = dataset.and_then(|dataset| self.writers.get(dataset)) else {
            return Ok(());
        };
        match outcome {
            Ok(finished) => {
                for record in records_of_finished(task, finished) {
                    writer.append(&record)?;
                }
            }
            Err(TaskError::Failed(reason)) => {
                writer.append(&record(task, Outcome::Failed(reason.clone()), &[]))?;
            }
            Err(TaskError::Stop(_)) => {}
        }
        Ok(())
    }

    fn close(self) -> Result<(), Error> {
        self.writers.into_values().try_for_each(|writer| Ok(writer.close()?))
    }
}

/// The records of an output. Those of its parts stand before that of the whole: a whole that is
/// recorded is complete.
fn records_of_finished(task: &Task, finished: &Finished) -> Vec<Record> {
    let Finished { files, tally } = finished;
    let outcome = if tally.is_empty_upstream { Outcome::Empty } else { Outcome::Done };
    let whole = Record {
        counts: tally.counts.clone(),
        rows: finished.rows(),
        size: finished.size(),
        ..record(task, outcome, &tally.rows_by_input)
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
fn record(task: &Task, outcome: Outcome, rows_by_input: &[u64]) -> Record {
    let sources = task.inputs.iter().enumerate().map(|(index, input)| Source {
        name: input.name.clone(),
        size: input.stat.size,
        modified_ns: input.stat.modified_ns,
        rows: rows_by_input.get(index).copied().unwrap_or(0),
    });
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
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
        finished_ns: i64::try_from(now).unwrap_or(i64::MAX),
        tool: crate::VERSION.to_owned(),
        parts: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_shared_out_once_fewer_tasks_are_left_than_there_are_threads() {
        let threads = |jobs: usize, left: usize| {
            let left = AtomicUsize::new(left);
            Crew { jobs: NonZeroUsize::new(jobs).unwrap(), left: &left }.threads().get()
        };
        assert_eq!([threads(8, 400), threads(8, 8), threads(8, 5)], [1, 1, 1]);
        assert_eq!([threads(8, 4), threads(8, 2), threads(8, 1)], [2, 4, 8]);
        // The last task may ask after it was counted as made.
        assert_eq!(threads(8, 0), 8);
    }
}
