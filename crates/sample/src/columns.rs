//! Columns by name, and values as the schema declares them, whatever a file's own types are.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, RecordBatch, RecordBatchOptions, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef};
use catalog::{Column, ColumnType, Dataset};
use io_budget::parquet::ParquetFile;
use stage::Error;
use stage::settings::CleanSettings;

/// The greatest whole number up to which a 64-bit floating-point number holds every one.
const EXACT: i64 = 1 << 53;

/// A column as the dataset declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeclaredColumn {
    /// Its exact name.
    pub(crate) name: &'static str,
    /// The type of its values.
    pub(crate) column_type: ColumnType,
    /// Whether a file may do without it; its values are null then.
    pub(crate) optional: bool,
}

impl DeclaredColumn {
    fn of(column: &Column, optional: bool) -> Self {
        Self { name: column.name, column_type: column.column_type, optional }
    }
}

/// All columns of the dataset's codebook, in file order.
pub(crate) fn declared(dataset: Dataset) -> Vec<DeclaredColumn> {
    // Narrower records end earlier: events before April 2013 have no SOURCEURL.
    let always = dataset.widths().iter().copied().min().unwrap_or(0);
    let columns = dataset.columns().iter().enumerate();
    columns.map(|(index, column)| DeclaredColumn::of(column, index >= always)).collect()
}

/// The columns that cleaning can add behind those of the codebook.
pub(crate) fn added(dataset: Dataset) -> Vec<DeclaredColumn> {
    let columns = CleanSettings::addable_columns(dataset);
    columns.map(|column| DeclaredColumn::of(&column, true)).collect()
}

/// The columns that cleaned files have under these settings.
pub(crate) fn of_cleaned(dataset: Dataset, settings: &CleanSettings) -> Vec<DeclaredColumn> {
    let kept = settings.output_columns(dataset);
    let known = declared(dataset).into_iter().chain(added(dataset));
    known.filter(|column| kept.iter().any(|kept| kept.name == column.name)).collect()
}

/// The column of this exact name.
pub(crate) fn find(dataset: Dataset, name: &str) -> Option<DeclaredColumn> {
    let mut columns = declared(dataset).into_iter().chain(added(dataset));
    columns.find(|column| column.name == name)
}

/// The error for a name that no column has.
pub(crate) fn unknown(dataset: Dataset, name: &str, place: &str) -> Error {
    let candidates = dataset.columns().iter().map(|column| column.name).chain(["AND", "OR", "NOT"]);
    let nearest = candidates.min_by_key(|candidate| distance(name, candidate)).unwrap_or_default();
    Error::usage(
        format!("{place}: `{name}` is no column of {dataset}"),
        format!("did you mean `{nearest}`? Names are exact, letter case included"),
    )
}

/// Edits that turn one name into the other; letter case counts for nothing.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, character) in from.to_lowercase().chars().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

/// The arrow schema of columns.
pub(crate) fn schema_of(columns: &[DeclaredColumn]) -> SchemaRef {
    let field =
        |column: &DeclaredColumn| Field::new(column.name, column.column_type.data_type(), true);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Where the columns stand in a file; optional ones may be missing.
///
/// # Errors
///
/// [`Error::Input`] when another one is missing.
pub(crate) fn places(file: &ParquetFile, columns: &[DeclaredColumn]) -> Result<Vec<usize>, Error> {
    let mut places = Vec::with_capacity(columns.len());
    for column in columns {
        match file.column(column.name) {
            Some(place) => places.push(place),
            None if column.optional => {}
            None => {
                let message = format!("{} has no column `{}`", file.path().display(), column.name);
                let hint =
                    "name columns that all files have with --columns, or make the file again";
                return Err(Error::input(message, hint));
            }
        }
    }
    Ok(places)
}

/// The batch with exactly the columns asked for, in their order and of their types.
///
/// # Errors
///
/// [`Error::Input`] when a value cannot be given in the declared type unchanged.
pub(crate) fn conform(
    path: &Path,
    batch: &RecordBatch,
    columns: &[DeclaredColumn],
    schema: &SchemaRef,
) -> Result<RecordBatch, Error> {
    let mut arrays = Vec::with_capacity(columns.len());
    for column in columns {
        let target = column.column_type.data_type();
        let array = match batch.column_by_name(column.name) {
            Some(array) => to_declared(array, column.column_type).map_err(|problem| {
                let message = format!("{}: column `{}` {problem}", path.display(), column.name);
                Error::input(message, "make the file again from its source")
            })?,
            None => new_null_array(&target, batch.num_rows()),
        };
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
        .map_err(|error| Error::Internal(format!("{}: {error}", path.display())))
}

/// The values in the declared type, or what prevents that.
fn to_declared(array: &ArrayRef, declared: ColumnType) -> Result<ArrayRef, String> {
    let target = declared.data_type();
    let found = array.data_type();
    if *found == target {
        return Ok(Arc::clone(array));
    }
    let cast = |array: &ArrayRef, target: &DataType| {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(array, target, &options)
            .map_err(|error| format!("cannot be read as {target}: {error}"))
    };
    match (found, declared) {
        (DataType::Null, _) => Ok(new_null_array(&target, array.len())),
        (found, ColumnType::Int64) if found.is_integer() => cast(array, &target),
        (found, ColumnType::Int64) if found.is_floating() => {
            let numbers = cast(array, &DataType::Float64)?;
            #[expect(clippy::cast_precision_loss, reason = "2^53 is exact")]
            let exact = |value: f64| value.fract() == 0.0 && value.abs() <= EXACT as f64;
            match numbers.as_primitive::<Float64Type>().iter().flatten().find(|v| !exact(*v)) {
                Some(value) => Err(format!("holds {value}, which is no exact whole number")),
                None => cast(&numbers, &target),
            }
        }
        (found, ColumnType::Float64) if found.is_integer() => {
            let numbers = cast(array, &DataType::Int64)?;
            let exact = |value: i64| value.unsigned_abs() <= EXACT.unsigned_abs();
            match numbers.as_primitive::<Int64Type>().iter().flatten().find(|v| !exact(*v)) {
                Some(value) => Err(format!("holds {value}, which a {target} cannot hold exactly")),
                None => cast(&numbers, &target),
            }
        }
        (DataType::Float16 | DataType::Float32, ColumnType::Float64)
        | (DataType::LargeUtf8 | DataType::Utf8View, ColumnType::Text) => cast(array, &target),
        (DataType::Dictionary(_, values), _) if !matches!(**values, DataType::Dictionary(..)) => {
            to_declared(&cast(array, values)?, declared)
        }
        // Numbers never become text: a code 010 that was read as 10 cannot be had back.
        (found, _) => Err(format!("has the type {found}, {target} was expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        DictionaryArray, Float64Array, Int32Array, Int64Array, LargeStringArray, NullArray,
        StringArray, UInt64Array,
    };
    use arrow::datatypes::Int32Type;

    fn check(
        array: impl arrow::array::Array + 'static,
        declared: ColumnType,
    ) -> Result<ArrayRef, String> {
        let array: ArrayRef = Arc::new(array);
        to_declared(&array, declared)
    }

    #[test]
    fn older_types_become_the_declared_ones_when_no_value_changes() {
        let whole: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        assert_eq!(
            &check(Float64Array::from(vec![Some(1.0), None]), ColumnType::Int64).unwrap(),
            &whole
        );
        assert_eq!(
            &check(Int32Array::from(vec![Some(1), None]), ColumnType::Int64).unwrap(),
            &whole
        );
        let fraction: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None]));
        assert_eq!(
            &check(Int64Array::from(vec![Some(1), None]), ColumnType::Float64).unwrap(),
            &fraction
        );
        let text: ArrayRef = Arc::new(StringArray::from(vec!["010"]));
        assert_eq!(&check(LargeStringArray::from(vec!["010"]), ColumnType::Text).unwrap(), &text);
        let dictionary: DictionaryArray<Int32Type> = ["010"].into_iter().collect();
        assert_eq!(&check(dictionary, ColumnType::Text).unwrap(), &text);
        let nulls = check(NullArray::new(2), ColumnType::Text).unwrap();
        assert_eq!((nulls.data_type(), nulls.null_count()), (&DataType::Utf8, 2));
    }

    #[test]
    fn a_value_that_would_change_is_an_error_that_names_it() {
        for (outcome, said) in [
            (check(Float64Array::from(vec![1.5]), ColumnType::Int64), "1.5"),
            (check(Float64Array::from(vec![f64::NAN]), ColumnType::Int64), "NaN"),
            (check(Float64Array::from(vec![1e18]), ColumnType::Int64), "1000000000000000000"),
            (check(UInt64Array::from(vec![u64::MAX]), ColumnType::Int64), "18446744073709551615"),
            (check(Int64Array::from(vec![EXACT + 1]), ColumnType::Float64), "9007199254740993"),
            (check(Int64Array::from(vec![10]), ColumnType::Text), "type Int64, Utf8 was expected"),
            (
                check(StringArray::from(vec!["1"]), ColumnType::Int64),
                "type Utf8, Int64 was expected",
            ),
        ] {
            let problem = outcome.unwrap_err();
            assert!(problem.contains(said), "{problem}");
        }
    }

    #[test]
    fn the_nearest_name_is_suggested() {
        for (name, nearest) in [
            ("eventcode", "EventCode"),
            ("QuadClas", "QuadClass"),
            ("Tone", "AvgTone"),
            ("or", "OR"),
        ] {
            let error = unknown(Dataset::Events, name, "--columns");
            assert!(error.hint().unwrap().contains(&format!("`{nearest}`")), "{error}");
        }
    }

    #[test]
    fn originals_of_repaired_columns_are_known() {
        let original = find(Dataset::Events, "Day_original").unwrap();
        assert_eq!((original.column_type, original.optional), (ColumnType::Int64, true));
        assert!(!find(Dataset::Events, "Day").unwrap().optional);
        assert!(find(Dataset::Events, "SOURCEURL").unwrap().optional);
        assert_eq!(find(Dataset::Events, "Dax_original"), None);
    }
}
