//! Reads a few columns of all rows that may be drawn.

use std::ops::Range;
use std::sync::Arc;
use std::thread;

use arrow::array::RecordBatch;
use io_budget::parquet::ParquetFile;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::file::metadata::RowGroupMetaData;
use stage::pool::{self, OPENERS, Threads, Window};
use stage::{Error, Session};

use crate::columns::{self, DeclaredColumn};
use crate::population::{Population, PopulationFile};

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 65_536;

/// A row group of a file, its columns read and not decoded yet.
struct Loaded<'a> {
    file: &'a PopulationFile,
    opened: Arc<ParquetFile>,
    group: usize,
    rows: Range<u64>,
    reader: Option<ParquetRecordBatchReader>,
    /// Whether it is the last of its file.
    is_last: bool,
}

/// Visits the columns of all rows that may be drawn, in batches, with each row's position; `None`
/// for rows that may not be drawn. What `visit` gathers of each row group is handed to `merge` in
/// the order of the files. Row groups are read ahead and shared out by themselves, so that no
/// thread is idle while another has a large file left.
///
/// # Errors
///
/// Of the first file that cannot be read, and of `visit`.
pub(crate) fn scan<'a, G: Send>(
    session: &Session,
    population: &'a Population,
    columns: &[DeclaredColumn],
    start: impl Fn() -> G + Send + Sync,
    visit: impl Fn(&mut G, &RecordBatch, &[Option<u64>]) -> Result<(), Error> + Send + Sync,
    mut merge: impl FnMut(G),
) -> Result<(), Error> {
    let schema = columns::schema_of(columns);
    let bar = session.printer.start_bar(population.files.len() as u64, "files scanned");
    let open = |file| {
        session.interrupt.check()?;
        Ok((file, Arc::new(PopulationFile::open(file, session)?)))
    };
    let load = |piece: Result<Loaded<'a>, Error>| {
        let mut loaded = piece?;
        session.interrupt.check()?;
        if loaded.file.may_draw(&loaded.rows) {
            let places = columns::places(&loaded.opened, columns)?;
            loaded.reader =
                loaded.opened.read_row_group(loaded.group, &places, None, BATCH_ROWS)?;
        }
        Ok::<_, Error>(loaded)
    };
    let look = |loaded: Result<Loaded<'a>, Error>| {
        let Loaded { file, opened, rows, reader, is_last, .. } = loaded?;
        let mut gathered = start();
        let mut first = rows.start;
        for batch in reader.into_iter().flatten() {
            let batch = batch.map_err(|error| undecodable(&opened, error))?;
            let batch = columns::conform(opened.path(), &batch, columns, &schema)?;
            let end = first + batch.num_rows() as u64;
            visit(&mut gathered, &batch, &file.positions(first..end))?;
            first = end;
        }
        Ok::<_, Error>((gathered, is_last))
    };
    let readers = session.reader_threads(population.files.first().map(|file| file.path.as_path()));
    let jobs = session.jobs().get();
    let threads = |name, number, items| Threads { name, number, window: Window::of_items(items) };
    thread::scope(|scope| {
        let opened = pool::map(
            scope,
            threads("opener", readers.min(OPENERS), readers),
            &population.files,
            |_| 0,
            open,
        );
        let pieces = opened.flat_map(pieces);
        let read_ahead = threads("reader", readers, readers + jobs);
        let loaded = pool::map(scope, read_ahead, pieces, weight, load);
        let looked = pool::map(scope, threads("worker", jobs, 2 * jobs), loaded, |_| 0, look);
        for result in looked {
            let (gathered, is_last) = result?;
            merge(gathered);
            bar.advance(u64::from(is_last));
        }
        Ok(())
    })
}

type Opened<'a> = Result<(&'a PopulationFile, Arc<ParquetFile>), Error>;

/// The row groups of a file, not read yet.
fn pieces(opened: Opened<'_>) -> Vec<Result<Loaded<'_>, Error>> {
    let (file, opened) = match opened {
        Ok(opened) => opened,
        Err(error) => return vec![Err(error)],
    };
    let groups = opened.metadata().num_row_groups();
    let piece = |(group, rows)| {
        let opened = Arc::clone(&opened);
        Ok(Loaded { file, opened, group, rows, reader: None, is_last: group + 1 == groups })
    };
    row_groups(&opened).enumerate().map(piece).collect()
}

/// Bytes of a row group that may be read, at most.
fn weight(piece: &Result<Loaded<'_>, Error>) -> u64 {
    let Ok(piece) = piece else { return 0 };
    let metadata = piece.opened.metadata();
    let of_all: i64 = metadata.row_groups().iter().map(RowGroupMetaData::compressed_size).sum();
    u64::try_from(of_all).unwrap_or(0) / metadata.num_row_groups().max(1) as u64
}

/// The rows of each row group of a file.
pub(crate) fn row_groups(file: &ParquetFile) -> impl Iterator<Item = Range<u64>> {
    file.metadata().row_groups().iter().scan(0, |end, group| {
        let start = *end;
        *end += u64::try_from(group.num_rows()).unwrap_or(0);
        Some(start..*end)
    })
}

/// The error for a file whose pages cannot be decoded.
pub(crate) fn undecodable(file: &ParquetFile, error: arrow::error::ArrowError) -> Error {
    let source = parquet::errors::ParquetError::from(error);
    Error::Parquet(io_budget::parquet::Error::Parquet { path: file.path().to_owned(), source })
}
