//! Hands arrow tables to polars and back.
//!
//! Both libraries keep columns as the Arrow format lays them out in memory, but with types of
//! their own. The module `ffi` passes them on by the Arrow C data interface, which moves
//! pointers and a callback that frees the memory; nothing is copied but text, whose views are
//! built when it goes to polars and which is gathered into `Utf8` when it comes back.
//!
//! | function | from | to |
//! |---|---|---|
//! | [`table_to_polars`] | batches of one schema | a frame with a chunk per batch |
//! | [`table_from_polars`] | a frame | one batch |
//!
//! [`limit_threads`] bounds polars' own thread pool.
//!
//! Numbers, booleans and text cross. Field metadata and which fields may hold nulls do not: all
//! fields that come back may.

mod ffi;
mod threads;

pub use threads::limit_threads;

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use polars::prelude::{
    Column, CompatLevel, DataFrame, IntoColumn as _, PlSmallStr, PolarsError, PolarsResult, Series,
};

/// Makes a frame of batches that all have the given schema. No batch at all makes a frame without
/// rows.
///
/// # Errors
///
/// [`PolarsError`] when a batch has another schema, or polars does not know a column's type.
pub fn table_to_polars(schema: &Schema, batches: &[RecordBatch]) -> PolarsResult<DataFrame> {
    let empty;
    let batches = if batches.is_empty() {
        empty = [RecordBatch::new_empty(Arc::new(schema.clone()))];
        empty.as_slice()
    } else {
        batches
    };
    for batch in batches {
        let same = batch.num_columns() == schema.fields().len()
            && batch.schema_ref().fields().iter().zip(schema.fields()).all(|(found, expected)| {
                (found.name(), found.data_type()) == (expected.name(), expected.data_type())
            });
        if !same {
            let message = "the batches of one table differ in their columns";
            return Err(PolarsError::SchemaMismatch(message.into()));
        }
    }
    let columns: PolarsResult<Vec<Column>> = (schema.fields().iter().enumerate())
        .map(|(index, field)| {
            let chunks: PolarsResult<Vec<_>> =
                batches.iter().map(|batch| ffi::to_polars(batch.column(index))).collect();
            Ok(Series::try_from((PlSmallStr::from(field.name()), chunks?))?.into_column())
        })
        .collect();
    DataFrame::new(batches.iter().map(RecordBatch::num_rows).sum(), columns?)
}

/// Makes one batch of a frame. Text becomes `Utf8`.
///
/// # Errors
///
/// [`PolarsError`] when a text column holds 2 GiB or more, which `Utf8` cannot, or a column's type
/// is unknown to arrow.
pub fn table_from_polars(frame: DataFrame) -> PolarsResult<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(frame.height()));
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for column in frame.into_columns() {
        let name = column.name().clone();
        let array = ffi::from_polars(&name, column.rechunk_to_arrow(CompatLevel::newest()))?;
        let array = plain_text(&name, array)?;
        fields.push(Field::new(name.as_str(), array.data_type().clone(), true));
        arrays.push(array);
    }
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| failed(&error))
}

fn plain_text(name: &str, array: ArrayRef) -> PolarsResult<ArrayRef> {
    if array.data_type() != &DataType::Utf8View {
        return Ok(array);
    }
    let bytes: usize = array.as_string_view().iter().flatten().map(str::len).sum();
    if i32::try_from(bytes).is_err() {
        let message = format!("column {name} holds {bytes} bytes of text, one batch at most 2 GiB");
        return Err(PolarsError::ComputeError(message.into()));
    }
    cast(&array, &DataType::Utf8).map_err(|error| failed(&error))
}

fn failed(error: &arrow::error::ArrowError) -> PolarsError {
    PolarsError::ComputeError(error.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Float64Array, Int64Array, StringArray, UInt32Array};
    use arrow::compute::concat_batches;
    use proptest::prelude::*;

    type Row = (Option<i64>, Option<f64>, Option<String>);

    fn table(rows: &[Row]) -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("V1.5TONE", DataType::Float64, true),
            Field::new("text", DataType::Utf8, true),
        ]);
        let ids: Int64Array = rows.iter().map(|row| row.0).collect();
        let tones: Float64Array = rows.iter().map(|row| row.1).collect();
        let texts: StringArray = rows.iter().map(|row| row.2.clone()).collect();
        let columns: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(tones), Arc::new(texts)];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    }

    fn there_and_back(batches: &[RecordBatch]) -> RecordBatch {
        let schema = batches[0].schema();
        table_from_polars(table_to_polars(&schema, batches).unwrap()).unwrap()
    }

    fn rows() -> Vec<Row> {
        vec![
            (Some(1), Some(-0.0), Some("a text longer than the twelve bytes of a view".into())),
            (None, None, None),
            (Some(i64::MIN), Some(f64::INFINITY), Some(String::new())),
            (Some(3), Some(1.5), Some("é\u{fffd}\0".into())),
        ]
    }

    #[test]
    fn values_and_nulls_come_back() {
        let table = table(&rows());
        assert_eq!(there_and_back(std::slice::from_ref(&table)), table);
    }

    #[test]
    fn slices_come_back_without_their_neighbours() {
        let table = table(&rows());
        for (offset, length) in [(1, 3), (3, 1), (2, 0)] {
            let slice = table.slice(offset, length);
            assert_eq!(there_and_back(std::slice::from_ref(&slice)), slice);
        }
    }

    #[test]
    fn the_source_may_be_dropped_first() {
        let original = table(&rows());
        let frame = table_to_polars(&original.schema(), &[table(&rows())]).unwrap();
        let copy = frame.clone();
        drop(frame);
        assert_eq!(table_from_polars(copy).unwrap(), original);
    }

    #[test]
    fn several_batches_are_one_table_and_none_is_an_empty_one() {
        let table = table(&rows());
        let batches = [table.slice(0, 1), table.slice(1, 0), table.slice(1, 3)];
        assert_eq!(there_and_back(&batches), table);
        let none = table_to_polars(&table.schema(), &[]).unwrap();
        assert_eq!((none.height(), none.width()), (0, 3));
        assert_eq!(table_from_polars(none).unwrap(), table.slice(0, 0));
    }

    #[test]
    fn other_types_come_back_and_a_table_without_columns_keeps_its_rows() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("row", DataType::UInt32, true),
            Field::new("root", DataType::Boolean, true),
        ]));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(vec![Some(7), None])),
            Arc::new(BooleanArray::from(vec![None, Some(true)])),
        ];
        let table = RecordBatch::try_new(schema, columns).unwrap();
        assert_eq!(there_and_back(std::slice::from_ref(&table)), table);
        assert_eq!(there_and_back(&[table.project(&[]).unwrap()]).num_rows(), 2);
    }

    #[test]
    fn batches_with_other_columns_are_refused() {
        let table = table(&rows());
        let narrower = table.project(&[0, 1]).unwrap();
        assert!(table_to_polars(&table.schema(), &[table, narrower]).is_err());
    }

    fn any_rows() -> impl Strategy<Value = Vec<Row>> {
        use proptest::option::of;
        let row = (of(any::<i64>()), of(-1e300..1e300), of(".{0,20}"));
        proptest::collection::vec(row, 0..40)
    }

    proptest! {
        #[test]
        fn any_table_comes_back(rows in any_rows(), cuts in proptest::collection::vec(0_usize..40, 0..4)) {
            let table = table(&rows);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(rows.len())).collect();
            cuts.extend([0, rows.len()]);
            cuts.sort_unstable();
            let batches: Vec<_> =
                cuts.windows(2).map(|cut| table.slice(cut[0], cut[1] - cut[0])).collect();
            let whole = concat_batches(&table.schema(), &batches).unwrap();
            prop_assert_eq!(there_and_back(&batches), whole);
        }
    }
}
