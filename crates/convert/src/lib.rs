//! Turns raw GDELT files into Parquet.
//!
//! Input: the zips (or bare text files) of `<root>/<dataset>/raw`, or files named on the command
//! line. Output: a Parquet file for each, named after the archive file, in
//! `<root>/<dataset>/converted`; for `events-reduced` a file for each year.
//!
//! Invariants:
//!
//! - Nothing is published before the member's length and checksum are right.
//! - Per file, records = rows written + records rejected + blank lines.
//! - The text never touches a disk. What a worker holds does not depend on the length of its input:
//!   a zip of 64 MiB at most or a request of a larger one, a member of 16 MiB at most or 4 MiB of a
//!   larger one, a record of 64 MiB at most, a batch and a row group. Beside the workers, 256 MiB
//!   of zips are read ahead and 256 MiB of outputs wait at most.
//! - The same input and settings give the same bytes, whatever the number of workers.

mod cli;
mod conversion;
mod encoder;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gaps;
mod member;
mod output;
mod plan;
mod problem;
mod reader;
mod records;
mod rejects;
mod table;
mod verify;
mod width;
mod years;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use catalog::ledger::StageName;
use catalog::{Dataset, Directory};
use serde::Serialize;
use stage::settings::DatasetConversion;
use stage::work::{self, Crew, Deletion, Loss, Task};
use stage::{Error, ExitStatus, Session, Summary};

pub use cli::Args;
use conversion::Conditions;
use member::{Limits, RawFile};
use plan::Fingerprints;
use rejects::{Current, RejectsLog};

/// Raised when the rules that turn fields into values, or the way files are written, change, so
/// that files are made again.
const RULES_VERSION: u32 = 2;

/// What shapes an output beside its input.
#[derive(Serialize)]
struct Shape<'a> {
    rules: u32,
    max_rejects: f64,
    settings: &'a DatasetConversion,
}

/// Runs the stage.
///
/// # Errors
///
/// [`Error`] when the run stops; files that fail are in the summary.
pub fn run(args: &Args) -> Result<ExitStatus, Error> {
    let session = Session::start(&args.common, Some(&args.files), &args.settings())?;
    if let Some(status) = session.explain_io(args.files.paths())? {
        return Ok(status);
    }
    if args.report_gaps {
        return gaps::report(&session);
    }
    let fingerprints = fingerprints(&session)?;
    let mut summary = Summary::new("convert");
    let mut options = work::Options::of(&session, &args.files);
    options.deletion = args.deletion();
    options.check_deletion(&session)?;
    let tasks = if options.named {
        plan::of_named(&session, &args.files, &fingerprints)?
    } else {
        plan::of_root(&session, &fingerprints, &mut summary)?
    };
    if !args.verify.is_empty() {
        return verify::verify(&session, &args.verify, &tasks);
    }
    let datasets: BTreeSet<Dataset> = tasks.iter().map(|task| task.dataset).collect();
    tell_dropped_columns(&session, &datasets, options.deletion.as_ref())?;
    let conditions = conditions(&session, &tasks)?;
    if !options.named && !session.dry_run {
        for dataset in datasets {
            settle_rejects(&session, dataset, &BTreeSet::new())?;
        }
    }
    let replaced: Mutex<BTreeMap<Dataset, BTreeSet<String>>> = Mutex::default();
    let read = |task: &Task| {
        let input = task.inputs.first();
        Ok(input.map(|input| RawFile::open(&session.budget, input)))
    };
    let make = |task: &Task, opened: Option<_>, crew: Crew<'_>| {
        let internal = |what: &str| Error::Internal(format!("a task without {what}"));
        let opened = opened.ok_or_else(|| internal("input"))?;
        let conditions = conditions.get(&task.dataset).ok_or_else(|| internal("settings"))?;
        if let Some(segment) = &task.replaces_rejects {
            let mut replaced = replaced.lock().unwrap_or_else(PoisonError::into_inner);
            replaced.entry(task.dataset).or_default().insert(segment.clone());
        }
        conversion::convert(&session, task, opened, conditions, crew)
    };
    let outcome =
        work::run(&session, StageName::Convert, tasks, &options, &mut summary, read, make);
    let closed = close_logs(&session, conditions, outcome.is_ok());
    outcome?;
    closed?;
    for (dataset, segments) in replaced.into_inner().unwrap_or_else(PoisonError::into_inner) {
        settle_rejects(&session, dataset, &segments)?;
    }
    summary.finish(&session, options.jobs.get())
}

fn fingerprints(session: &Session) -> Result<Fingerprints, Error> {
    let convert = &session.settings.convert;
    let of = |dataset| {
        let mut settings = convert.of(dataset);
        if !settings.columns.is_empty() {
            // In the order of the file, in which they are written: theirs changes nothing.
            let kept = settings.output_columns(dataset).into_iter();
            settings.columns = kept.map(|column| column.name.to_owned()).collect();
        }
        let max_rejects = convert.max_rejects;
        let shape = Shape { rules: RULES_VERSION, max_rejects, settings: &settings };
        Ok((dataset, stage::fingerprint(&shape)?))
    };
    Dataset::ALL.into_iter().map(of).collect()
}

/// Warns of join keys that the settings leave out. Sources are not deleted where columns are left
/// out, unless that is allowed by name.
fn tell_dropped_columns(
    session: &Session,
    datasets: &BTreeSet<Dataset>,
    deletion: Option<&Deletion>,
) -> Result<(), Error> {
    for dataset in datasets {
        let dropped = session.settings.convert.of(*dataset).dropped_columns(*dataset);
        session.warn_of_keys(*dataset, "convert.datasets", |key| !dropped.contains(&key));
        let loss = Loss::DroppedColumns;
        if let (Some(first), Some(deletion)) = (dropped.first(), deletion)
            && !deletion.despite.contains(&loss)
        {
            let message = format!(
                "--delete-source would lose {} columns of {dataset}, such as {first}",
                dropped.len()
            );
            let hint = format!("keep all columns, or give --delete-despite {}", loss.name());
            return Err(Error::usage(message, hint));
        }
    }
    Ok(())
}

/// How the files of each dataset are converted. Rejects are kept beside the ledger, where outputs
/// are recorded.
fn conditions(session: &Session, tasks: &[Task]) -> Result<HashMap<Dataset, Conditions>, Error> {
    let layout = session.settings.layout();
    let convert = &session.settings.convert;
    let limits =
        Limits { expansion: convert.max_expansion.get(), bytes: convert.max_member_bytes.get() };
    let mut conditions = HashMap::new();
    for task in tasks {
        let Entry::Vacant(vacant) = conditions.entry(task.dataset) else { continue };
        let log = match &layout {
            Some(layout) if work::is_recorded(session, layout, StageName::Convert, task)? => {
                let catalog = layout.directory(task.dataset, Directory::Catalog);
                Some(RejectsLog::new(&session.budget, &catalog))
            }
            _ => None,
        };
        let (max_rejects, settings) = (convert.max_rejects, convert.of(task.dataset));
        vacant.insert(Conditions { max_rejects, limits, settings, log });
    }
    Ok(conditions)
}

/// Makes Parquet of this process's rejects. A run that stopped may have kept rejects of files that
/// were not recorded: these are left out.
fn close_logs(
    session: &Session,
    conditions: HashMap<Dataset, Conditions>,
    is_done: bool,
) -> Result<(), Error> {
    let layout = session.settings.layout();
    for (dataset, Conditions { log, .. }) in conditions {
        let Some(log) = log else { continue };
        let current = match &layout {
            Some(layout) if !is_done => Some(Current::load(session, layout, dataset)?),
            _ => None,
        };
        log.close(current.as_ref())?;
    }
    Ok(())
}

fn settle_rejects(
    session: &Session,
    dataset: Dataset,
    replaced: &BTreeSet<String>,
) -> Result<(), Error> {
    match session.settings.layout() {
        Some(layout) => rejects::settle(session, &layout, dataset, replaced),
        None => Ok(()),
    }
}
