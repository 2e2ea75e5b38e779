//! Repairs converted GDELT files.
//!
//! Input: the Parquet of `<root>/<dataset>/converted`, or files named on the command line, of
//! datasets with an active step. Output: a file for each in `<root>/<dataset>/cleaned`, named
//! `<stem>_cleaned.parquet`.
//!
//! | module | holds |
//! |---|---|
//! | `plan` | which files there are, and what each is to become |
//! | `steps` | what is done to rows: the rules, on arrays |
//! | `geo` | the columns of geographic points |
//! | `layout` | where each column of an output comes from |
//! | `changes` | what the steps do to a row group, found by decoding few columns |
//! | `codes` | values that no table of codes knows |
//! | `rows`, `dictionaries`, `parts` | a source's rows, its dictionaries, its bytes |
//! | `copying` | column chunks copied as they are |
//! | `file` | one file from opening to publication |
//! | `report`, `audit` | what a run would do, what runs have done |
//!
//! Invariants:
//!
//! - Every cleaned file of a dataset has the same columns of the same types, whatever its source
//!   lacked; what was lacking is counted.
//! - Rows keep their order. Without `require` and `event_markers = "drop"` none is lost.
//! - Steps are done in one order, whatever that of the settings: errata, normalize, places,
//!   require, derive, project, narrow.
//! - Values that no step changes are the source's bytes: their column chunks are copied undecoded,
//!   with page index and bloom filters, unless their row group loses rows.
//! - The same input and settings give the same bytes, whatever the number of workers.
//! - Memory for each worker: a source of up to 64 MiB (less on some storages) or the largest row
//!   group of a larger one, one batch of decoded rows, and the new column chunks of one row group;
//!   and 256 MiB of sources read ahead and of outputs that wait, at most. The table of places, of about
//!   150 MB, is there once.

mod audit;
mod changes;
mod cli;
mod codes;
mod copying;
mod dictionaries;
mod file;
mod geo;
mod layout;
mod parts;
mod plan;
mod report;
mod rows;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use catalog::Dataset;
use catalog::ledger::StageName;
use stage::work::{self, Crew, Options, Task};
use stage::{Error, ExitStatus, Session, Summary};

pub use audit::Runs;
pub use cli::Args;
use steps::Steps;

/// Runs the stage.
///
/// # Errors
///
/// [`Error`] when the run stops; files that fail are in the summary.
pub fn run(args: Args) -> Result<ExitStatus, Error> {
    let deletion = args.deletion();
    let Args { common, files, report, audit, .. } = args;
    let session = Session::start(&common, Some(&files), &[])?;
    if let Some(status) = session.explain_io(files.paths())? {
        return Ok(status);
    }
    if let Some(runs) = audit {
        return audit::print_audit(&session, runs);
    }
    let mut summary = Summary::new("clean");
    let options = Options { deletion, ..Options::of(&session, &files) };
    options.check_deletion(&session)?;
    let steps = Steps::by_dataset(&session)?;
    let tasks = if files.names_files() {
        plan::of_named(&session, &files, &steps)?
    } else {
        plan::of_root(&session, &steps)?
    };
    for (dataset, steps) in steps.iter().filter(|(dataset, _)| is_of_run(&tasks, **dataset)) {
        let converted = session.settings.convert.of(*dataset);
        let dropped = converted.dropped_columns(*dataset);
        session.warn_of_keys(*dataset, "clean", |key| {
            dropped.contains(&key) || steps.output.iter().any(|column| column.name == key)
        });
    }
    let cleaner = file::Cleaner::new(&session, &steps);
    if report {
        report::measure(&session, &cleaner, tasks, &options, &mut summary)?;
        return summary.finish(&session, options.jobs.get());
    }
    if options.deletion.is_some() {
        refuse_lossy(&session, &tasks, &steps)?;
    }
    let read = |task: &_| cleaner.open(task);
    let make = |task: &Task, source, crew: Crew<'_>| cleaner.clean(task, &source, crew);
    work::run(&session, StageName::Clean, tasks, &options, &mut summary, read, make)?;
    summary.finish(&session, options.jobs.get())
}

fn is_of_run(tasks: &[Task], dataset: Dataset) -> bool {
    tasks.iter().any(|task| task.dataset == dataset)
}

/// Refuses to delete sources of which a step loses something, unless that is allowed.
fn refuse_lossy(
    session: &Session,
    tasks: &[Task],
    steps: &BTreeMap<Dataset, Steps>,
) -> Result<(), Error> {
    for (&dataset, steps) in steps.iter().filter(|(dataset, _)| is_of_run(tasks, **dataset)) {
        let lossy = steps.lossy();
        if !lossy.is_empty() && !session.settings.clean(dataset).allow_lossy_delete_source {
            let message = format!(
                "--delete-source would lose what the steps of {dataset} change for good: {}",
                lossy.join(", ")
            );
            let hint = format!(
                "leave these steps out, or set clean.{dataset}.allow_lossy_delete_source = true"
            );
            return Err(Error::usage(message, hint));
        }
    }
    Ok(())
}
