//! A walk over files of the archive that goes on where one cannot be read.

use std::sync::Arc;
use std::thread;

use io_budget::parquet::ParquetFile;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use stage::files::DataFile;
use stage::pool::{self, OPENERS, Threads, Window};
use stage::work::TaskError;
use stage::{Error, Failure, Session, Summary};

use crate::rows;

/// Counted: files that were read.
const FILES: &str = "files read";
/// Counted: row groups of those.
const GROUPS: &str = "row groups read";
/// Counted: files that could not be read.
const UNREADABLE: &str = "files unreadable";

/// What there is of a row group at some stage of the walk, or why its file cannot be read.
struct Piece<'a, C> {
    listed: &'a DataFile,
    /// Whether no other piece of its file follows.
    is_last: bool,
    content: Result<C, TaskError>,
}

/// A row group that is not read yet; none of a file without any.
type Group = Option<(Arc<ParquetFile>, usize)>;

/// A row group whose keys are read and not decoded yet.
type Keys = Option<(Arc<ParquetFile>, usize, ParquetRecordBatchReader)>;

impl<'a, C> Piece<'a, C> {
    fn then<D>(self, step: impl FnOnce(C) -> Result<D, TaskError>) -> Piece<'a, D> {
        let Self { listed, is_last, content } = self;
        Piece { listed, is_last, content: content.and_then(step) }
    }
}

/// Opens each file, reads the column `key` of its row groups ahead, lets `find` look into each
/// group on the workers, and hands what it found to `keep`, in the order of the files. A file of
/// which a part cannot be read is noted as a failure and gives nothing. Row groups are shared out
/// by themselves, so that no thread is idle while another has a large file left.
///
/// # Errors
///
/// [`Error`] when the run is interrupted or `keep` fails.
pub(crate) fn walk<'a, T: Send>(
    session: &Session,
    files: &[&'a DataFile],
    key: &str,
    summary: &mut Summary,
    find: impl Fn(&ParquetFile, usize, ParquetRecordBatchReader) -> Result<T, TaskError> + Send + Sync,
    mut keep: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    let bar = session.printer.start_bar(files.len() as u64, "files");
    let open = |listed: &'a DataFile| {
        let go_on = session.interrupt.check().map_err(TaskError::Stop);
        (listed, go_on.and_then(|()| rows::open(&session.budget, listed)))
    };
    let load = |piece: Piece<'a, Group>| {
        piece.then(|group| {
            session.interrupt.check()?;
            let Some((file, group)) = group else { return Ok(None) };
            let keys = rows::read_keys(&file, group, rows::column(&file, key)?)?;
            Ok::<Keys, _>(keys.map(|keys| (file, group, keys)))
        })
    };
    let look = |piece: Piece<'a, Keys>| {
        piece.then(|keys| keys.map(|(file, group, keys)| find(&file, group, keys)).transpose())
    };
    let readers = session.reader_threads(files.first().map(|file| file.path.as_path()));
    let jobs = session.jobs().get();
    let threads = |name, number, items| Threads { name, number, window: Window::of_items(items) };
    thread::scope(|scope| {
        let openers = threads("opener", readers.min(OPENERS), readers);
        let opened = pool::map(scope, openers, files.iter().copied(), |_| 0, open);
        let pieces = opened.flat_map(|(listed, file)| pieces(listed, file));
        let read_ahead = threads("reader", readers, readers + jobs);
        let loaded = pool::map(scope, read_ahead, pieces, |piece| weight(piece, key), load);
        let looked = pool::map(scope, threads("worker", jobs, 2 * jobs), loaded, |_| 0, look);
        let mut of_file = Ok(Vec::new());
        for Piece { listed, is_last, content } in looked {
            match (content, &mut of_file) {
                (Ok(found), Ok(gathered)) => gathered.extend(found),
                (Err(TaskError::Stop(error)), _) => return Err(error),
                (Err(TaskError::Failed(reason)), Ok(_)) => of_file = Err(reason),
                (_, Err(_)) => {}
            }
            if !is_last {
                continue;
            }
            bar.advance(1);
            match std::mem::replace(&mut of_file, Ok(Vec::new())) {
                Ok(gathered) => {
                    *summary.counts.entry(FILES.into()).or_default() += 1;
                    *summary.counts.entry(GROUPS.into()).or_default() += gathered.len() as u64;
                    gathered.into_iter().try_for_each(&mut keep)?;
                }
                Err(reason) => {
                    *summary.counts.entry(UNREADABLE.into()).or_default() += 1;
                    summary.failures.push(Failure::new(listed.path.clone(), reason));
                }
            }
        }
        Ok(())
    })
}

/// The row groups of a file; one piece without any for a file that has none.
fn pieces(listed: &DataFile, file: Result<ParquetFile, TaskError>) -> Vec<Piece<'_, Group>> {
    let piece = |is_last, content| Piece { listed, is_last, content };
    let file = match file {
        Ok(file) => Arc::new(file),
        Err(error) => return vec![piece(true, Err(error))],
    };
    match rows::groups(&file) {
        0 => vec![piece(true, Ok(None))],
        groups => (0..groups)
            .map(|group| piece(group + 1 == groups, Ok(Some((Arc::clone(&file), group)))))
            .collect(),
    }
}

/// Bytes of a row group's keys.
fn weight(piece: &Piece<'_, Group>, key: &str) -> u64 {
    let Ok(Some((file, group))) = &piece.content else { return 0 };
    let column = file.column(key);
    let chunk = column.and_then(|at| file.metadata().row_group(*group).columns().get(at));
    chunk.map_or(0, |chunk| u64::try_from(chunk.compressed_size()).unwrap_or(0))
}
