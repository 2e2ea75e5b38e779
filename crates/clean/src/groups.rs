//! What the steps do to the rows of a row group, found by decoding the columns that decide.

use arrow::array::{Array as _, ArrayRef, BooleanBufferBuilder, RecordBatch};
use arrow::buffer::BooleanBuffer;
use io_budget::parquet::ParquetFile;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;
use stage::format;
use stage::work::TaskError;

use crate::layout::{Layout, Origin};
use crate::steps;

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

/// What the steps do to a row group; `None` where they do nothing.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The rows whose dates are repaired.
    pub(crate) wrong: Option<BooleanBuffer>,
    /// The rows that stay.
    pub(crate) kept: Option<BooleanBuffer>,
}

impl Changes {
    /// Finds them.
    pub(crate) fn find(
        file: &ParquetFile,
        group: usize,
        layout: &Layout,
    ) -> Result<Self, TaskError> {
        let metadata = file.metadata().row_group(group);
        let required: Vec<_> =
            layout.required.iter().filter(|(_, origin)| may_be_null(metadata, origin)).collect();
        let mut positions: Vec<usize> =
            layout.dates.into_iter().flat_map(|(day, added)| [day, added]).collect();
        positions.extend(required.iter().flat_map(|(_, origin)| origin.sources()));
        if positions.is_empty() {
            return Ok(Self::default());
        }
        let mut all_wrong = BooleanBufferBuilder::new(0);
        let mut all_kept = BooleanBufferBuilder::new(0);
        for_each_batch(file, group, positions, |_, rows| {
            let wrong = layout
                .dates
                .map(|(day, added)| steps::dates_of_1920(rows.column(day), rows.column(added)));
            let mut kept = BooleanBuffer::new_set(rows.count());
            for (data_type, origin) in &required {
                let values = origin
                    .values(data_type, rows, wrong.as_ref())
                    .map_err(|error| TaskError::reading(&error))?;
                if let Some(nulls) = values.logical_nulls() {
                    kept = &kept & nulls.inner();
                }
            }
            all_kept.append_buffer(&kept);
            if let Some(wrong) = wrong {
                all_wrong.append_buffer(&wrong);
            }
            Ok(())
        })?;
        let (wrong, kept) = (all_wrong.finish(), all_kept.finish());
        Ok(Self {
            wrong: (wrong.count_set_bits() > 0).then_some(wrong),
            kept: (kept.count_set_bits() < kept.len()).then_some(kept),
        })
    }

    /// The rows that are repaired and stay.
    pub(crate) fn repaired(&self) -> usize {
        match (&self.wrong, &self.kept) {
            (None, _) => 0,
            (Some(wrong), None) => wrong.count_set_bits(),
            (Some(wrong), Some(kept)) => (wrong & kept).count_set_bits(),
        }
    }

    /// The rows that stay, of a group with `rows` rows.
    pub(crate) fn rows_kept(&self, rows: usize) -> usize {
        self.kept.as_ref().map_or(rows, BooleanBuffer::count_set_bits)
    }
}

/// Whether a column may hold nulls, as far as the footer says.
fn may_be_null(group: &RowGroupMetaData, origin: &Origin) -> bool {
    let (Origin::Source(source) | Origin::Repaired { source, .. }) = origin else { return true };
    let statistics = group.column(*source).statistics();
    statistics.and_then(Statistics::null_count_opt) != Some(0)
}
