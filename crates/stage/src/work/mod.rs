//! Tasks from inputs to an output: what is left to do, doing it on three pools (reading, making,
//! writing), recording it.

mod left;
mod recording;
mod spent;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use catalog::ledger::{CodeCounts, Outcome, RecordCounts, StageName};
use catalog::{Dataset, Feed, Period};
use io_budget::{Published, StagedFile, Stat};
use parquet::errors::ParquetError;

use crate::cli::FileArgs;
use crate::guard::guarded;
use crate::pool::{self, Threads, Window};
use crate::{Error, Session, Summary};
use left::left_to_do;
use recording::Ledgers;
use spent::Spent;

pub use recording::is_recorded;
pub use spent::{Deletion, Loss};

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
    /// The segment of rejects that the ledger names for the output as it was made before.
    pub replaces_rejects: Option<String>,
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
    /// What became of the records of a raw file.
    pub records: Option<RecordCounts>,
    /// The segment of rejects that holds examples of what was rejected.
    pub rejects: Option<String>,
    /// Whether the output has no rows because its source is empty upstream.
    pub is_empty_upstream: bool,
    /// Everything unusual, by name.
    pub counts: BTreeMap<String, u64>,
    /// Values of columns with codes that no table of codes knows.
    pub unknown_codes: CodeCounts,
}

/// Work that ended with nothing to publish, and its status.
#[derive(Debug, Clone)]
pub struct Refused {
    /// How it ended.
    pub outcome: Outcome,
    /// What became of the records, as far as they were read.
    pub records: Option<RecordCounts>,
    /// The segment of rejects that holds examples of what was rejected.
    pub rejects: Option<String>,
}

/// What became of a task.
#[derive(Debug)]
pub enum Product {
    /// An output to publish.
    Made(Made),
    /// Nothing to publish.
    Refused(Refused),
}

impl From<Made> for Product {
    fn from(made: Made) -> Self {
        Self::Made(made)
    }
}

/// Why no output has appeared.
#[derive(Debug)]
enum NotMade {
    Refused(Refused),
    Stop(Error),
}

impl From<TaskError> for NotMade {
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Failed(reason) => {
                let outcome = Outcome::Failed(reason);
                Self::Refused(Refused { outcome, records: None, rejects: None })
            }
            TaskError::Stop(error) => Self::Stop(error),
        }
    }
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
    /// threads. Row groups of Parquet can then be shared out; a zip is one stream, whose rows are
    /// encoded beside it.
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
        Self::Failed(crate::describe(error))
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
#[derive(Debug, Clone)]
pub struct Options {
    /// Make again what is up to date.
    pub force: bool,
    /// The files were named on the command line: they are always made, the ledger is not read.
    pub named: bool,
    /// Worker threads.
    pub jobs: NonZeroUsize,
    /// Whether sources are deleted once their outputs are recorded.
    pub deletion: Option<Deletion>,
}

impl Options {
    /// What the flags ask for. Named files are worked on by one thread unless more are asked for.
    pub fn of(session: &Session, arguments: &FileArgs) -> Self {
        let named = arguments.names_files();
        let jobs =
            if named { session.settings.jobs.unwrap_or(NonZeroUsize::MIN) } else { session.jobs() };
        Self { force: arguments.force, named, jobs, deletion: None }
    }

    /// Refuses to delete sources where no ledger records what was made of them.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`].
    pub fn check_deletion(&self, session: &Session) -> Result<(), Error> {
        if self.deletion.is_some() && session.settings.root.is_none() {
            let message = "--delete-source needs a ledger that records what was made";
            return Err(Error::usage(message, "give --root DIR, or delete the files yourself"));
        }
        Ok(())
    }
}

/// Runs the tasks that are not up to date: reads ahead, makes outputs on the workers, lets them
/// appear in the order of the tasks, records each in the ledger, and adds what happened to the
/// summary. `read` gets what `produce` begins with, on threads of its own.
///
/// # Errors
///
/// [`Error`] when the run stops. Failed tasks do not stop it: they are in the summary.
pub fn run<T: Send, P: Into<Product>>(
    session: &Session,
    stage: StageName,
    tasks: Vec<Task>,
    options: &Options,
    summary: &mut Summary,
    read: impl Fn(&Task) -> Result<T, TaskError> + Send + Sync,
    produce: impl Fn(&Task, T, Crew<'_>) -> Result<P, TaskError> + Send + Sync,
) -> Result<(), Error> {
    refuse_one_output_of_two(&tasks)?;
    refuse_input_as_output(&tasks)?;
    summary.files.planned += tasks.len() as u64;
    let layout = session.settings.layout();
    let mut spent = options.deletion.as_ref().map(|deletion| Spent::new(session, deletion));
    let tasks = if options.named {
        tasks
    } else {
        left_to_do(session, stage, tasks, options.force, spent.as_mut(), summary)?
    };
    if session.dry_run {
        summary.files.made += tasks.len() as u64;
        for task in &tasks {
            session.printer.detail(format!("would make {}", task.output_path().display()));
        }
        return spent.map_or(Ok(()), |spent| spent.finish(summary));
    }
    let Some(first) = tasks.first() else {
        return spent.map_or(Ok(()), |spent| spent.finish(summary));
    };
    let threads = PoolThreads::of(session, first, options.jobs);
    let ledgers = Ledgers::new(session, layout.as_ref(), stage, &tasks)?;
    let bar = session.printer.start_bar(tasks.len() as u64, "files");
    let left = AtomicUsize::new(tasks.len());
    let crew = Crew { jobs: options.jobs, left: &left };
    let go_on = || session.interrupt.check().map_err(TaskError::Stop);
    let outcome: Result<(), Error> = thread::scope(|scope| {
        let read_input = |task: Task| {
            let read =
                || guarded(|| read(&task)).unwrap_or_else(|damage| Err(TaskError::Failed(damage)));
            let input = go_on().and_then(|()| read());
            (task, input)
        };
        let produce_output = |(task, input): (Task, Result<T, TaskError>)| {
            let made = input.and_then(|input| {
                go_on()?;
                guarded(|| produce(&task, input, crew))
                    .unwrap_or_else(|damage| Err(TaskError::Failed(damage)))
            });
            left.fetch_sub(1, Relaxed);
            (task, made.map(P::into))
        };
        let publish_output = |(task, made): (Task, Result<Product, TaskError>)| {
            let finished = made.map_err(NotMade::from).and_then(publish);
            // Another run that took the inputs in and deleted them knows better.
            let is_spent = || {
                let is_gone = |input: &Input| matches!(session.budget.stat(&input.path), Ok(None));
                finished.is_err() && task.inputs.iter().any(is_gone)
            };
            let recorded =
                if is_spent() { Ok(Vec::new()) } else { ledgers.record(&task, &finished) };
            (task, finished, recorded)
        };
        let read = pool::map(scope, threads.read, tasks, Task::input_bytes, read_input);
        let made =
            pool::map(scope, threads.make, read, |(task, _)| task.input_bytes(), produce_output);
        let written =
            pool::map(scope, threads.write, made, |(task, _)| task.input_bytes(), publish_output);
        for (task, finished, recorded) in written {
            let records = recorded?;
            bar.advance(1);
            note(session, &task, finished, summary)?;
            if let (Some(spent), Some((whole, parts))) = (&mut spent, records.split_last()) {
                spent.add(&task, whole, parts.iter());
                if spent.is_much() {
                    ledgers.sync()?;
                    spent.delete(summary)?;
                }
            }
        }
        Ok(())
    });
    drop(bar);
    let closed = ledgers.close();
    outcome?;
    closed?;
    spent.map_or(Ok(()), |spent| spent.finish(summary))
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
fn publish(product: Product) -> Result<Finished, NotMade> {
    let made = match product {
        Product::Made(made) => made,
        Product::Refused(refused) => return Err(NotMade::Refused(refused)),
    };
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
    outcome: Result<Finished, NotMade>,
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
            let records = tally.records.unwrap_or_default();
            summary.rows.rejected += records.rejected;
            summary.rows.blank += records.blank;
            summary.input_bytes += task.input_bytes();
            summary.output_bytes += size;
            for (name, count) in tally.counts {
                *summary.counts.entry(name).or_default() += count;
            }
            add_codes(&mut summary.unknown_codes, &tally.unknown_codes);
            if !summary.outputs.contains(&task.directory) {
                summary.outputs.push(task.directory.clone());
            }
        }
        Err(NotMade::Refused(refused)) => summary.refuse(task.subject(), &refused.outcome),
        Err(NotMade::Stop(error)) => return Err(error),
    }
    Ok(())
}

/// Adds how many rows hold a code.
pub fn add_codes(sum: &mut CodeCounts, codes: &CodeCounts) {
    for (column, codes) in codes {
        let known = sum.entry(column.clone()).or_default();
        for (code, rows) in codes {
            *known.entry(code.clone()).or_default() += rows;
        }
    }
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
