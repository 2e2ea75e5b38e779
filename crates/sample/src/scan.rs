//! Reads a few columns of all rows that may be drawn.

use std::ops::Range;

use arrow::array::RecordBatch;
use io_budget::parquet::ParquetFile;
use stage::{Error, Session, pool};

use crate::columns::{self, DeclaredColumn};
use crate::population::{Population, PopulationFile};

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 65_536;

/// Visits the columns of all rows that may be drawn, in batches, with each row's position; `None`
/// for rows that may not be drawn. What `visit` gathers of each file is handed to `merge` in the
/// order of the files.
///
/// # Errors
///
/// Of the first file that cannot be read, and of `visit`.
pub(crate) fn scan<G: Send>(
    session: &Session,
    population: &Population,
    columns: &[DeclaredColumn],
    start: impl Fn() -> G + Sync,
    visit: impl Fn(&mut G, &RecordBatch, &[Option<u64>]) -> Result<(), Error> + Sync,
    mut merge: impl FnMut(G),
) -> Result<(), Error> {
    let schema = columns::schema_of(columns);
    let bar = session.printer.start_bar(population.files.len() as u64, "files scanned");
    let work = |file: &PopulationFile| {
        let mut gathered = start();
        let opened = file.open(session)?;
        let places = columns::places(&opened, columns)?;
        for (row_group, rows) in row_groups(&opened).enumerate() {
            session.interrupt.check()?;
            if !file.may_draw(&rows) {
                continue;
            }
            let mut first = rows.start;
            let batches = opened.read_row_group(row_group, &places, None, BATCH_ROWS)?;
            for batch in batches.into_iter().flatten() {
                let batch = batch.map_err(|error| undecodable(&opened, error))?;
                let batch = columns::conform(opened.path(), &batch, columns, &schema)?;
                let end = first + batch.num_rows() as u64;
                visit(&mut gathered, &batch, &file.positions(first..end))?;
                first = end;
            }
        }
        Ok(gathered)
    };
    pool::map_ordered(session.jobs(), &population.files, work, |gathered: Result<G, Error>| {
        merge(gathered?);
        bar.advance(1);
        Ok(())
    })
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
