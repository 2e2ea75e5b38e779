//! Turns raw GDELT files into Parquet.
//!
//! Input: the zips (or bare text files) of `<root>/<dataset>/raw`, or files named on the command
//! line. Output: a Parquet file for each, named after the archive file, in
//! `<root>/<dataset>/converted`; for `events-reduced` a file for each year.
//!
//! Invariants:
//!
//! - Nothing is published before the member's length and checksum are right.
//! - Per file, records = rows written + records rejected; blank lines are counted apart.
//! - The text never touches a disk. Memory is bounded by the largest zip read at once (64 MiB at
//!   most, by the storage), the largest member unpacked at once (256 MiB) and one batch and row
//!   group, for each worker; and by 256 MiB of zips read ahead and of outputs that wait.
//! - The same input and settings give the same bytes, whatever the number of workers.

mod cli;
mod conversion;
mod gaps;
mod member;
mod output;
mod plan;
mod problem;
mod records;
mod rejects;
mod table;
mod years;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use catalog::ledger::StageName;
use catalog::{Dataset, Directory};
use serde::Serialize;
use stage::settings::{ConvertSettings, DatasetConversion};
use stage::work::{self, Crew, Task};
use stage::{Error, ExitStatus, Session, Summary};

pub use cli::Args;
use member::RawFile;
use rejects::RejectsDirectory;

/// Raised when the rules that turn fields into values change, so that files are made again.
const RULES_VERSION: u32 = 1;

/// What shapes an output beside its input.
#[derive(Serialize)]
struct Shape {
    rules: u32,
    max_rejects: f64,
    /// Left out where nothing is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<DatasetConversion>,
}

/// The digests of what shapes the files of each dataset.
pub(crate) type Fingerprints = BTreeMap<Dataset, String>;

fn fingerprints(settings: &ConvertSettings) -> Result<Fingerprints, Error> {
    let fingerprint = |dataset: Dataset| {
        let of_dataset = settings.of(dataset);
        let shape = Shape {
            rules: RULES_VERSION,
            max_rejects: settings.max_rejects,
            settings: (of_dataset != DatasetConversion::default()).then_some(of_dataset),
        };
        Ok((dataset, stage::fingerprint(&shape)?))
    };
    Dataset::ALL.into_iter().map(fingerprint).collect()
}

/// Runs the stage.
///
/// # Errors
///
/// [`Error`] when the run stops; files that fail are in the summary.
pub fn run(args: &Args) -> Result<ExitStatus, Error> {
    let extra: Vec<_> =
        args.max_rejects().map(|share| ("convert.max_rejects", share.into())).into_iter().collect();
    let session = Session::start(&args.common, Some(&args.files), &extra)?;
    if let Some(status) = session.explain_io(args.files.paths())? {
        return Ok(status);
    }
    if args.report_gaps {
        return gaps::report(&session);
    }
    let max_rejects = session.settings.convert.max_rejects;
    let fingerprints = fingerprints(&session.settings.convert)?;
    let mut summary = Summary::new("convert");
    let options = work::Options::of(&session, &args.files);
    let tasks = if options.named {
        plan::of_named(&session, &args.files, &fingerprints)?
    } else {
        plan::of_root(&session, &fingerprints)?
    };
    let rejects = rejects_directories(&session, &tasks)?;
    let read = |task: &Task| {
        let input = task.inputs.first();
        Ok(input.map(|input| RawFile::open(&session.budget, input)))
    };
    let make = |task: &Task, opened: Option<_>, _: Crew<'_>| {
        let opened = opened.ok_or_else(|| Error::Internal(String::from("a task without input")))?;
        conversion::convert(&session, task, opened, max_rejects, rejects.get(&task.dataset))
    };
    work::run(&session, StageName::Convert, tasks, options, &mut summary, read, make)?;
    summary.finish(&session, options.jobs.get())
}

fn rejects_directories(
    session: &Session,
    tasks: &[Task],
) -> Result<HashMap<Dataset, RejectsDirectory>, Error> {
    let mut directories = HashMap::new();
    let Some(layout) = session.settings.layout() else { return Ok(directories) };
    for task in tasks {
        if let Entry::Vacant(vacant) = directories.entry(task.dataset) {
            let catalog = layout.directory(task.dataset, Directory::Catalog);
            vacant.insert(RejectsDirectory::open(session, &catalog)?);
        }
    }
    Ok(directories)
}
