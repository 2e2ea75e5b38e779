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
//! | `layout` | where each column of an output comes from |
//! | `groups` | what the steps do to a row group, found by decoding few columns |
//! | `copying` | column chunks copied as they are |
//! | `encoding` | column chunks made anew |
//! | `file` | one file from opening to publication |
//!
//! Invariants:
//!
//! - Every cleaned file of a dataset has the same columns of the same types, whatever its source
//!   lacked; what was lacking is counted.
//! - Rows keep their order. Without `require` none is lost.
//! - Values that no step changes are the source's bytes: their column chunks are copied undecoded,
//!   with page index and bloom filters, unless their row group loses rows.
//! - The same input and settings give the same bytes, whatever the number of workers.
//! - Memory for each worker: a source of up to 64 MiB (less on some storages) or the largest row
//!   group of a larger one, one batch of decoded rows, and the new column chunks of one row group;
//!   and 256 MiB of sources read ahead and of outputs that wait, at most.

mod cli;
mod copying;
mod encoding;
mod file;
mod groups;
mod layout;
mod plan;
mod steps;
#[cfg(test)]
mod tests;

use catalog::ledger::StageName;
use stage::work::{self, Crew, Options, Task};
use stage::{Error, ExitStatus, Session, Summary};

pub use cli::Args;

/// Runs the stage.
///
/// # Errors
///
/// [`Error`] when the run stops; files that fail are in the summary.
pub fn run(args: Args) -> Result<ExitStatus, Error> {
    let Args { common, files } = args;
    let session = Session::start(&common, Some(&files), &[])?;
    if let Some(status) = session.explain_io(files.paths())? {
        return Ok(status);
    }
    let mut summary = Summary::new("clean");
    let tasks = if files.names_files() {
        plan::of_named(&session, &files)?
    } else {
        plan::of_root(&session)?
    };
    let options = Options::of(&session, &files);
    let cleaner = file::Cleaner::new(&session);
    let read = |task: &_| cleaner.open(task);
    let make = |task: &Task, source, crew: Crew<'_>| cleaner.clean(task, &source, crew);
    work::run(&session, StageName::Clean, tasks, &options, &mut summary, read, make)?;
    summary.finish(&session, options.jobs.get())
}
