//! Whether two Parquet files hold the same values.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use arrow::array::{RecordBatch, RecordBatchReader as _};
use arrow::compute::cast;
use arrow::compute::kernels::cmp::not_distinct;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

/// Compares the rows of two files, column by column, in order, a batch at a time. Columns may stand
/// in another order, and types may differ where `theirs` becomes `ours` by a cast. Returns the
/// columns in which values differ, with the number of rows.
pub(super) fn differences(ours: &Path, theirs: &Path) -> Result<BTreeMap<String, usize>> {
    compare(ours, theirs)
        .with_context(|| format!("cannot compare {} with {}", ours.display(), theirs.display()))
}

fn compare(ours: &Path, theirs: &Path) -> Result<BTreeMap<String, usize>> {
    let (mut ours, mut theirs) = (read(ours)?, read(theirs)?);
    let (columns, their_columns) = (ours.schema().fields().len(), theirs.schema().fields().len());
    ensure!(columns == their_columns, "{columns} columns and {their_columns}");
    let mut differences = BTreeMap::new();
    // Batches of both have as many rows, whatever the row groups, except for the last.
    loop {
        match (ours.next().transpose()?, theirs.next().transpose()?) {
            (None, None) => return Ok(differences),
            (Some(ours), Some(theirs)) if ours.num_rows() == theirs.num_rows() => {
                add_differences(&ours, &theirs, &mut differences)?;
            }
            _ => bail!("one has more rows"),
        }
    }
}

fn add_differences(
    ours: &RecordBatch,
    theirs: &RecordBatch,
    differences: &mut BTreeMap<String, usize>,
) -> Result<()> {
    for (field, column) in ours.schema_ref().fields().iter().zip(ours.columns()) {
        let name = field.name();
        let other = theirs.column_by_name(name).with_context(|| format!("there is no {name}"))?;
        let same = not_distinct(column, &cast(other, column.data_type())?)?;
        let different = ours.num_rows() - same.true_count();
        if different > 0 {
            *differences.entry(name.clone()).or_default() += different;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<ParquetRecordBatchReader> {
    Ok(ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.build()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array, Int64Array, LargeStringArray, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
        write_in_groups(path, columns, 1_000_000);
    }

    fn write_in_groups(path: &Path, columns: Vec<(&str, ArrayRef)>, rows: usize) {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let file = File::create(path).unwrap();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows));
        let properties = Some(properties.build());
        let mut writer = ArrowWriter::try_new(file, batch.schema(), properties).unwrap();
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
        assert_eq!(differences(&a, &b).unwrap(), BTreeMap::from([(String::from("t"), 1)]));
        assert_eq!(differences(&a, &a).unwrap(), BTreeMap::new());
    }

    #[test]
    fn rows_are_compared_across_row_groups_and_columns_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let numbers = |changed: &[usize]| -> ArrayRef {
            let mut numbers: Vec<i64> = (0..5_000).collect();
            for row in changed {
                numbers[*row] = -1;
            }
            Arc::new(Int64Array::from(numbers))
        };
        write_in_groups(&a, vec![("i", numbers(&[])), ("j", numbers(&[7]))], 700);
        write_in_groups(&b, vec![("j", numbers(&[7])), ("i", numbers(&[0, 2_500, 4_999]))], 1_300);
        assert_eq!(differences(&a, &b).unwrap(), BTreeMap::from([(String::from("i"), 3)]));
    }

    #[test]
    fn files_of_other_rows_or_columns_are_no_pair() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let column = |rows: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(0..rows)) };
        write(&a, vec![("i", column(1_024))]);
        for (other, error) in [
            (vec![("i", column(1_025))], "one has more rows"),
            (vec![("i", column(1_023))], "one has more rows"),
            (vec![("j", column(1_024))], "there is no i"),
            (vec![("i", column(1_024)), ("j", column(1_024))], "1 columns and 2"),
        ] {
            write(&b, other);
            assert_eq!(differences(&a, &b).unwrap_err().root_cause().to_string(), error);
        }
    }
}
