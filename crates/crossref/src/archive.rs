//! A walk over files of the archive that goes on where one cannot be read.

use std::path::PathBuf;

use io_budget::parquet::ParquetFile;
use stage::files::DataFile;
use stage::work::TaskError;
use stage::{Error, Failure, Session, Summary, pool};

use crate::rows;

/// Counted: files that were read.
const FILES: &str = "files read";
/// Counted: row groups of those.
const GROUPS: &str = "row groups read";
/// Counted: files that could not be read.
const UNREADABLE: &str = "files unreadable";

/// Opens each file on the pool, lets `find` look into it, and hands what it found to `keep`, in
/// the order of the files. A file that cannot be read is noted as a failure and gives nothing.
///
/// # Errors
///
/// [`Error`] when the run is interrupted or `keep` fails.
pub(crate) fn walk<T: Send>(
    session: &Session,
    files: &[&DataFile],
    summary: &mut Summary,
    find: impl Fn(&ParquetFile) -> Result<T, TaskError> + Sync,
    mut keep: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    let bar = session.printer.start_bar(files.len() as u64, "files");
    let look = |file: &DataFile| {
        let outcome = session.interrupt.check().map_err(TaskError::Stop).and_then(|()| {
            let open = rows::open(&session.budget, file)?;
            Ok((rows::groups(&open), find(&open)?))
        });
        (file.path.clone(), outcome)
    };
    let note = |(path, outcome): (PathBuf, Result<_, TaskError>)| {
        bar.advance(1);
        match outcome {
            Ok((groups, found)) => {
                *summary.counts.entry(FILES.into()).or_default() += 1;
                *summary.counts.entry(GROUPS.into()).or_default() += groups as u64;
                keep(found)?;
            }
            Err(TaskError::Failed(reason)) => {
                *summary.counts.entry(UNREADABLE.into()).or_default() += 1;
                summary.failures.push(Failure { file: path, reason });
            }
            Err(TaskError::Stop(error)) => return Err(error),
        }
        Ok(())
    };
    pool::map_ordered(session.jobs(), files.iter().copied(), look, note)
}
