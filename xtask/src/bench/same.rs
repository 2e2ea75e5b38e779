//! Whether two Parquet files hold the same values.

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{cast, concat_batches};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Compares the rows of two files, column by column, in order. Types may differ where `theirs`
/// becomes `ours` by a cast. Returns the columns in which values differ, with the number of rows.
pub(super) fn differences(ours: &Path, theirs: &Path) -> Result<Vec<(String, usize)>> {
    let (ours, theirs) = (read(ours)?, read(theirs)?);
    let (rows, their_rows) = (ours.num_rows(), theirs.num_rows());
    ensure!(rows == their_rows, "{rows} rows here and {their_rows} there");
    let columns = theirs.num_columns();
    ensure!(ours.num_columns() == columns, "{} columns and {columns}", ours.num_columns());
    let mut differences = Vec::new();
    for (field, column) in ours.schema().fields().iter().zip(ours.columns()) {
        let name = field.name();
        let other = theirs.column_by_name(name).with_context(|| format!("there is no {name}"))?;
        let same = not_distinct(column, &cast(other, column.data_type())?)?;
        if same.true_count() < rows {
            differences.push((name.clone(), rows - BooleanArray::true_count(&same)));
        }
    }
    Ok(differences)
}

fn read(path: &Path) -> Result<RecordBatch> {
    let open = || -> Result<RecordBatch> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
        let schema = builder.schema().clone();
        let batches = builder.build()?.collect::<Result<Vec<_>, _>>()?;
        Ok(concat_batches(&schema, &batches)?)
    };
    open().with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array, Int64Array, LargeStringArray, StringArray};
    use parquet::arrow::ArrowWriter;

    fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let file = File::create(path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    #[test]
    fn values_are_compared_whatever_their_types() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let texts = Arc::new(StringArray::from(vec![Some("x"), None, Some("")]));
        write(&a, vec![("i", Arc::new(Int64Array::from(vec![1, 2, 3]))), ("t", texts)]);
        let texts = Arc::new(LargeStringArray::from(vec![Some("x"), Some(""), Some("")]));
        write(&b, vec![("i", Arc::new(Int32Array::from(vec![1, 2, 3]))), ("t", texts)]);
        assert_eq!(differences(&a, &b).unwrap(), [(String::from("t"), 1)]);
        assert_eq!(differences(&a, &a).unwrap(), []);
    }
}
