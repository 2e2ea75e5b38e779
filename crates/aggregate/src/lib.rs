//! Joins 15-minute GDELT files into files of days, months or years.
//!
//! Input: the Parquet of `<root>/<dataset>/cleaned` or `converted`, or files named on the command
//! line, of `events-15min`, `mentions` and `gkg-v2`. Output: a file for each period and feed in
//! `<root>/<dataset>/aggregated/<period>`.
//!
//! | module | holds |
//! |---|---|
//! | `plan` | which periods there are, and the files of each |
//! | `completeness` | which slots of a period are missing |
//! | `merge` | one output: the rows of its sources, one after another |
//! | `source` | a source, opened and checked; its row groups |
//! | `groups` | which row groups of the sources become one |
//! | `layout` | one row group of the output, column by column |
//! | `pages`, `splice`, `statistics` | a column of which the pages are joined as they are |
//!
//! Invariants:
//!
//! - An output holds every row of its sources, in the order of their time, and no other.
//! - Its columns are the declared ones. A source that differs fails the period: nothing is filled,
//!   widened or left out.
//! - It notes its sources with their rows, so that the source of each row can be computed.
//! - A period is made whole or not at all, whatever dates were asked for.
//! - The same input and settings give the same bytes, whatever the number of workers.
//! - Pages that are joined as they are agree with what the footer and the page index of their file
//!   say of them; a file that contradicts itself fails the period.
//! - Memory for each worker: 32 MiB of sources read ahead or a single larger one (its footer where
//!   the storage does not read it at once); the sources of the row group under construction and of
//!   the next one and a half, each with 128 MiB of column chunks at most, or a single larger row
//!   group; what is encoded again of one; a batch of 16 MiB for each thread; and what the footer of
//!   the output will say, some 40 KiB for a row group.

mod cli;
mod completeness;
mod groups;
mod layout;
mod merge;
mod pages;
mod plan;
mod source;
mod splice;
mod statistics;
#[cfg(test)]
mod tests;

use catalog::ledger::StageName;
use stage::work::{self, Crew, Options, Task};
use stage::{Error, ExitStatus, Session, Summary};

pub use cli::Args;
use merge::Manner;

/// Runs the stage.
///
/// # Errors
///
/// [`Error`] when the run stops; periods that fail are in the summary.
pub fn run(args: Args) -> Result<ExitStatus, Error> {
    let deletion = args.deletion();
    let Args { common, files, period, source, row_groups, provenance, .. } = args;
    let manner = Manner { period, row_groups, provenance };
    let mut session = Session::start(&common, Some(&files), &[])?;
    if let Some(status) = session.explain_io(files.paths())? {
        return Ok(status);
    }
    let options = Options { deletion, ..Options::of(&session, &files) };
    options.check_deletion(&session)?;
    session.range = plan::whole_periods(session.range, period);
    let mut summary = Summary::new("aggregate");
    let tasks = if files.names_files() {
        plan::of_named(&session, &files, manner)?
    } else {
        plan::of_root(&session, &files, source, manner, &mut summary)?
    };
    // A period has too many sources to read ahead of the task: it reads ahead itself.
    let read = |_: &Task| Ok(());
    let make = |task: &Task, (), crew: Crew<'_>| merge::merge(&session, task, manner, crew);
    let stage = StageName::Aggregate(period);
    work::run(&session, stage, tasks, &options, &mut summary, read, make)?;
    summary.finish(&session, options.jobs.get())
}
