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
//! - Memory for each worker: one source of up to 64 MiB (a row group of a larger one), one batch
//!   of decoded rows, and the compressed row group under construction. One source is open at once.

mod cli;
mod merge;
mod plan;
#[cfg(test)]
mod tests;

use catalog::ledger::StageName;
use stage::work::{self, Options};
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
    session.range = plan::whole_periods(session.range, period);
    let mut summary = Summary::new("aggregate");
    let tasks = if files.names_files() {
        plan::of_named(&session, &files, period)?
    } else {
        plan::of_root(&session, &files, source, period, &mut summary)?
    };
    let options = Options::of(&session, &files);
    work::run(&session, StageName::Aggregate(period), tasks, options, &mut summary, |task| {
        merge::merge(&session, task, period)
    })?;
    summary.finish(&session, options.jobs.get())
}
