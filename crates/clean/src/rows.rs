//! The rows of a row group, decoded a batch at a time.

use arrow::array::{ArrayRef, RecordBatch};
use io_budget::parquet::ParquetFile;
use parquet::file::metadata::RowGroupMetaData;
use stage::format;
use stage::work::TaskError;

/// Some rows of some columns of the source.
#[derive(Debug)]
pub(crate) struct Rows {
    positions: Vec<usize>,
    batch: RecordBatch,
}

impl Rows {
    /// A column that was asked for, by its position in the source.
    pub(crate) fn column(&self, position: usize) -> &ArrayRef {
        let at = self.positions.binary_search(&position);
        self.batch.column(at.expect("only columns that were asked for are used"))
    }

    pub(crate) fn count(&self) -> usize {
        self.batch.num_rows()
    }
}

/// Decodes columns of a row group and hands them to `each`, in batches bounded in bytes, with the
/// number of the first row.
pub(crate) fn for_each_batch(
    file: &ParquetFile,
    group: usize,
    mut positions: Vec<usize>,
    mut each: impl FnMut(usize, &Rows) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    positions.sort_unstable();
    positions.dedup();
    let batch_rows = format::batch_rows(file.metadata().row_group(group));
    let reader = file
        .read_row_group(group, &positions, None, batch_rows)
        .map_err(|error| TaskError::reading(&error))?;
    let mut first = 0;
    for batch in reader.into_iter().flatten() {
        let batch = batch.map_err(|error| TaskError::reading(&error))?;
        let rows = Rows { positions, batch };
        each(first, &rows)?;
        first += rows.count();
        positions = rows.positions;
    }
    if first == rows_of(file.metadata().row_group(group)) {
        Ok(())
    } else {
        Err(TaskError::Failed(format!("row group {group} ends after {first} rows")))
    }
}

/// Rows of a row group.
pub(crate) fn rows_of(group: &RowGroupMetaData) -> usize {
    usize::try_from(group.num_rows()).unwrap_or(0)
}
