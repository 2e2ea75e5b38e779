//! Reads one column of a row group, or some rows of it, and keeps rows that were read.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, interleave};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use io_budget::Budget;
use io_budget::parquet::{ParquetFile, Want};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection};
use stage::files::DataFile;
use stage::format;
use stage::work::TaskError;

/// Values of a key column to decode at once: a few MB of addresses.
const KEY_ROWS: usize = 16_384;

/// Opens a file of the archive, of which only parts will be read.
pub(crate) fn open(budget: &Budget, file: &DataFile) -> Result<ParquetFile, TaskError> {
    let footer_start = file.record.as_ref().map(|record| record.footer_start);
    ParquetFile::open(budget, &file.path, Want::Parts { footer_start })
        .map_err(|error| TaskError::reading(&error))
}

/// The position of a column that the join cannot do without.
pub(crate) fn column(file: &ParquetFile, name: &str) -> Result<usize, TaskError> {
    file.column(name).ok_or_else(|| {
        TaskError::Failed(format!("it has no column {name}: convert or clean it with that column"))
    })
}

/// Row groups of a file.
pub(crate) fn groups(file: &ParquetFile) -> usize {
    file.metadata().num_row_groups()
}

/// Reads one column of a row group, without decoding it.
pub(crate) fn read_keys(
    file: &ParquetFile,
    group: usize,
    column: usize,
) -> Result<Option<ParquetRecordBatchReader>, TaskError> {
    file.read_row_group(group, &[column], None, KEY_ROWS)
        .map_err(|error| TaskError::reading(&error))
}

/// Hands the values of the one column that was read to `see`, in pieces, each with the number of
/// its first row in the group.
pub(crate) fn scan(
    keys: ParquetRecordBatchReader,
    data_type: &DataType,
    mut see: impl FnMut(usize, &ArrayRef),
) -> Result<(), TaskError> {
    let mut first = 0;
    for batch in keys {
        let batch = batch.map_err(|error| TaskError::reading(&error))?;
        let name = batch.schema_ref().field(0).name();
        see(first, &plain(batch.column(0), name, data_type)?);
        first += batch.num_rows();
    }
    Ok(())
}

/// Reads the given rows of a row group, ascending, in the columns of `schema`; a column that the
/// file has not is null.
pub(crate) fn fetch(
    file: &ParquetFile,
    group: usize,
    rows: &[usize],
    schema: &SchemaRef,
) -> Result<Vec<RecordBatch>, TaskError> {
    let positions: Vec<_> = schema.fields().iter().map(|field| file.column(field.name())).collect();
    let mut present: Vec<usize> = positions.iter().copied().flatten().collect();
    present.sort_unstable();
    let metadata = file.metadata().row_group(group);
    let length = usize::try_from(metadata.num_rows()).unwrap_or(0);
    let runs = rows.chunk_by(|one, next| one + 1 == *next);
    let ranges = runs.filter_map(|run| Some(*run.first()?..run.last()? + 1));
    let selection = RowSelection::from_consecutive_ranges(ranges, length);
    let reader = file
        .read_row_group(group, &present, Some(selection), format::batch_rows(metadata))
        .map_err(|error| TaskError::reading(&error))?;
    let mut batches = Vec::new();
    for batch in reader.into_iter().flatten() {
        let batch = batch.map_err(|error| TaskError::reading(&error))?;
        let mut columns = Vec::with_capacity(positions.len());
        for (field, position) in schema.fields().iter().zip(&positions) {
            columns.push(match position {
                None => new_null_array(field.data_type(), batch.num_rows()),
                Some(position) => {
                    let read = batch.column(present.partition_point(|other| other < position));
                    plain(read, field.name(), field.data_type())?
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let table = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
        batches.push(table.map_err(|error| TaskError::reading(&error))?);
    }
    let found: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if found == rows.len() {
        Ok(batches)
    } else {
        let wanted = rows.len();
        Err(TaskError::Failed(format!("row group {group} gave {found} of {wanted} rows")))
    }
}

/// The values in the declared type; a value that does not fit fails the file.
fn plain(array: &ArrayRef, name: &str, data_type: &DataType) -> Result<ArrayRef, TaskError> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, data_type, &strict).map_err(|error| {
        let found = array.data_type();
        TaskError::Failed(format!("column {name} is {found} and not {data_type}: {error}"))
    })
}

/// Rows that were read, numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    batches: Vec<RecordBatch>,
    /// The number of each batch's first row.
    starts: Vec<u64>,
    length: u64,
}

impl Rows {
    /// Adds rows behind the others.
    pub(crate) fn push(&mut self, batch: RecordBatch) {
        if batch.num_rows() > 0 {
            self.starts.push(self.length);
            self.length += batch.num_rows() as u64;
            self.batches.push(batch);
        }
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Copies rows out, in the given order and as often as they are named, by column.
    pub(crate) fn gather(&self, numbers: &[u64]) -> Result<Vec<ArrayRef>, ArrowError> {
        let batch_of = |number: &u64| self.starts.partition_point(|start| start <= number) - 1;
        let mut used: Vec<usize> = numbers.iter().map(batch_of).collect();
        used.sort_unstable();
        used.dedup();
        let places: Vec<(usize, usize)> = numbers
            .iter()
            .map(|number| {
                let batch = batch_of(number);
                let row = usize::try_from(number - self.starts[batch]).unwrap_or(usize::MAX);
                (used.partition_point(|other| *other < batch), row)
            })
            .collect();
        let width = self.batches.first().map_or(0, RecordBatch::num_columns);
        (0..width)
            .map(|column| {
                let values: Vec<_> =
                    used.iter().map(|batch| self.batches[*batch].column(column).as_ref()).collect();
                interleave(&values, &places)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray as _, StringArray};
    use arrow::datatypes::{Field, Schema};

    fn batch(texts: &[&str]) -> RecordBatch {
        let schema = Arc::new(Schema::new(vec![Field::new("t", DataType::Utf8, true)]));
        RecordBatch::try_new(schema, vec![Arc::new(StringArray::from(texts.to_vec()))]).unwrap()
    }

    #[test]
    fn rows_are_gathered_across_batches_in_the_order_asked_for() {
        let mut rows = Rows::default();
        for texts in [&["a", "b"][..], &[], &["c"], &["d", "e"]] {
            rows.push(batch(texts));
        }
        assert_eq!(rows.len(), 5);
        let gathered = rows.gather(&[4, 0, 2, 0, 3]).unwrap();
        let texts: Vec<_> = gathered[0].as_string::<i32>().iter().flatten().collect();
        assert_eq!(texts, ["e", "a", "c", "a", "d"]);
    }

    #[test]
    fn a_value_of_another_type_is_converted_or_fails() {
        let numbers: ArrayRef = Arc::new(StringArray::from(vec![Some("7"), None]));
        let read = plain(&numbers, "id", &DataType::Int64).unwrap();
        assert_eq!(read.as_primitive::<arrow::datatypes::Int64Type>().value(0), 7);
        let words: ArrayRef = Arc::new(StringArray::from(vec!["seven"]));
        let Err(TaskError::Failed(reason)) = plain(&words, "id", &DataType::Int64) else {
            panic!("a word is no number");
        };
        assert!(reason.starts_with("column id is Utf8 and not Int64"), "{reason}");
    }
}
