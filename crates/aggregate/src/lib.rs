//! Joins 15-minute GDELT files into files of days, months or years.
//!
//! Input: the Parquet of `<root>/<dataset>/cleaned` or `converted`, or files named on the command
//! line, of `events-15min`, `mentions` and `gkg-v2`. Output: a file for each period and feed in
//! `<root>/<dataset>/aggregated/<period>`.
//!
//! | module | holds |
//! |---|---|
//! | `plan` | which periods there are, and the files of each |
//! | `merge` | one output: the rows of its sources, one after another |
//!
//! Invariants:
//!
//! - An output holds every row of its sources, in the order of their time, and no other.
//! - Its columns are the declared ones. A source that differs fails the period: nothing is filled,
//!   widened or left out.
//! - It notes its sources with their rows, so that the source of each row can be computed.
//! - A period is made whole or not at all, whatever dates were asked for.
//! - The same input and settings give the same bytes, whatever the number of workers.
//! - Memory for each worker: sources read ahead, 64 MiB of them or a single larger one (a row group
//!   of one that its storage does not read at once), one batch of decoded rows, and the compressed
//!   row group under construction; where a worker has threads to spare, up to 64 MiB of decoded
//!   row groups.

mod cli;
mod merge;
mod plan;
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
/// [`Error`] when the run stops; periods that fail are in the summary.
pub fn run(args: Args) -> Result<ExitStatus, Error> {
    let Args { common, files, period, source } = args;
    let mut session = Session::start(&common, Some(&files), &[])?;
    if let Some(status) = session.explain_io(files.paths())? {
        return Ok(status);
    }
    session.range = plan::whole_periods(session.range, period);
    let mut summary = Summary::new("aggregate");
    let tasks = if files.names_files() {
        plan::of_named(&session, &files, period)?
    } else {
        plan::of_root(&session, &files, source, period, &mut summary)?
    };
    let options = Options::of(&session, &files);
    // A period has too many sources to read ahead of the task: it reads ahead itself.
    let read = |_: &Task| Ok(());
    let make = |task: &Task, (), crew: Crew<'_>| merge::merge(&session, task, period, crew);
    let stage = StageName::Aggregate(period);
    work::run(&session, stage, tasks, &options, &mut summary, read, make)?;
    summary.finish(&session, options.jobs.get())
}
