//! Where each column of an output comes from, decided from the source's footer.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::error::ArrowError;
use catalog::{Column, Dataset};
use io_budget::parquet::ParquetFile;
use parquet::arrow::ArrowSchemaConverter;
use parquet::errors::ParquetError;
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use crate::groups::Rows;
use crate::steps::{self, ADDED, DATES, DAY, Steps};

/// What to do about a source that is not as this program's files are.
const MAKE_AGAIN: &str = "make the file again with gdelt-convert";

/// Where the values of a column come from. Numbers are positions in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A column as it is.
    Source(usize),
    /// A column of dates with the wrong ones repaired.
    Repaired { date: &'static str, source: usize },
    /// What a column of dates said in repaired rows.
    Original { source: usize, kept: Option<usize> },
    /// The source has no such column.
    Nothing,
}

impl Origin {
    /// The columns of the source that have to be read.
    pub(crate) fn sources(&self) -> impl Iterator<Item = usize> {
        let (first, second) = match self {
            Self::Source(source) | Self::Repaired { source, .. } => (Some(*source), None),
            Self::Original { source, kept } => (Some(*source), *kept),
            Self::Nothing => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// The column of the source that this one equals as long as no row is repaired.
    pub(crate) fn unrepaired(&self) -> Option<usize> {
        match self {
            Self::Source(source) | Self::Repaired { source, .. } => Some(*source),
            Self::Original { kept, .. } => *kept,
            Self::Nothing => None,
        }
    }

    /// The values for some rows, of which the `wrong` ones are repaired.
    pub(crate) fn values(
        &self,
        data_type: &DataType,
        rows: &Rows,
        wrong: Option<&BooleanBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        match (self, wrong) {
            (Self::Repaired { date, source }, Some(wrong)) => {
                steps::repaired(date, rows.column(*source), wrong)
            }
            (Self::Original { source, kept }, Some(wrong)) => {
                let kept = kept.map(|kept| rows.column(kept));
                steps::originals(rows.column(*source), kept, wrong)
            }
            _ => Ok(match self.unrepaired() {
                Some(source) => Arc::clone(rows.column(source)),
                None => new_null_array(data_type, rows.count()),
            }),
        }
    }
}

/// A column of the output.
#[derive(Debug)]
pub(crate) struct OutputColumn {
    pub(crate) field: FieldRef,
    /// The column in the output's Parquet schema: the source's own where its chunks can be copied,
    /// since other writers describe the same type in other words.
    pub(crate) node: TypePtr,
    pub(crate) origin: Origin,
    /// The column whose chunks can be copied while no row of theirs changes.
    pub(crate) copy_of: Option<usize>,
}

/// Where everything comes from.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) columns: Vec<OutputColumn>,
    /// `Day` and `DATEADDED`, if dates are to be repaired and the source has what that needs.
    pub(crate) dates: Option<(usize, usize)>,
    /// The columns in which a null drops the row.
    pub(crate) required: Vec<(DataType, Origin)>,
    /// The required columns that the source does not have.
    pub(crate) not_required: Vec<String>,
    /// What the source lacks, by name.
    pub(crate) counts: BTreeMap<String, u64>,
}

impl Layout {
    /// Decides for one source; the error says what is wrong with it and what to do.
    pub(crate) fn of(file: &ParquetFile, dataset: Dataset, steps: &Steps) -> Result<Self, String> {
        check_columns(file, dataset, steps)?;
        let mut counts = BTreeMap::new();
        let lacking = DATES.into_iter().chain([ADDED]).find(|name| file.column(name).is_none());
        if let Some(name) = lacking.filter(|_| steps.date_1920) {
            counts.insert(format!("files with dates not looked at, no column {name}"), 1);
        }
        let repairs = steps.date_1920 && lacking.is_none();
        let dates = if repairs { file.column(DAY).zip(file.column(ADDED)) } else { None };
        let origin_of = |name: &str| origin(file, name, repairs);

        let mut columns = Vec::with_capacity(steps.output.len());
        let declared = declared_nodes(&steps.output).map_err(|error| error.to_string())?;
        for (column, declared) in steps.output.iter().zip(declared) {
            let origin = origin_of(column.name);
            if matches!(origin, Origin::Nothing) && !is_added(column) {
                counts
                    .insert(format!("files without column {}, filled with nulls", column.name), 1);
            }
            let schema = file.metadata().file_metadata().schema_descr();
            let copy_of = origin.unrepaired().filter(|source| is_plain(schema, *source));
            let node = copy_of.map_or(declared, |source| schema.column(source).self_type_ptr());
            let field = Arc::new(Field::new(column.name, column.column_type.data_type(), true));
            columns.push(OutputColumn { field, node, origin, copy_of });
        }

        let mut required = Vec::new();
        let mut not_required = Vec::new();
        for name in &steps.require {
            let known = steps.known.iter().find(|column| column.name == name);
            match (origin_of(name), known) {
                (Origin::Nothing, _) | (_, None) => not_required.push(name.clone()),
                (origin, Some(column)) => required.push((column.column_type.data_type(), origin)),
            }
        }
        if required.is_empty() && !not_required.is_empty() {
            let names = not_required.join(", ");
            return Err(format!("it has none of the required columns {names}: {MAKE_AGAIN}"));
        }
        Ok(Self { columns, dates, required, not_required, counts })
    }

    /// The arrow schema of the output.
    pub(crate) fn schema(&self) -> Schema {
        Schema::new(self.columns.iter().map(|column| Arc::clone(&column.field)).collect::<Vec<_>>())
    }
}

/// The Parquet schema of columns.
pub(crate) fn root(columns: &[&OutputColumn]) -> Result<TypePtr, ParquetError> {
    let nodes = columns.iter().map(|column| Arc::clone(&column.node)).collect();
    Ok(Arc::new(Type::group_type_builder("arrow_schema").with_fields(nodes).build()?))
}

fn origin(file: &ParquetFile, name: &str, repairs: bool) -> Origin {
    let found = file.column(name);
    if repairs {
        let repaired = DATES.into_iter().find(|date| *date == name);
        if let (Some(date), Some(source)) = (repaired, found) {
            return Origin::Repaired { date, source };
        }
        let of = DATES.into_iter().find(|date| steps::original_of(date) == Some(name));
        if let Some(source) = of.and_then(|date| file.column(date)) {
            return Origin::Original { source, kept: found };
        }
    }
    found.map_or(Origin::Nothing, Origin::Source)
}

/// Refuses columns that the dataset does not have, twice the same, and other types than declared:
/// the output's schema depends on the settings, never on a file.
fn check_columns(file: &ParquetFile, dataset: Dataset, steps: &Steps) -> Result<(), String> {
    let fields = file.schema().fields();
    if file.metadata().file_metadata().schema_descr().num_columns() != fields.len() {
        return Err(format!("it has nested columns, which no GDELT file has: {MAKE_AGAIN}"));
    }
    for (position, field) in fields.iter().enumerate() {
        let name = field.name();
        if file.column(name) != Some(position) {
            return Err(format!("it has two columns `{name}`: {MAKE_AGAIN}"));
        }
        match steps.known.iter().find(|column| column.name == name) {
            Some(column) if !steps::has_declared_type(column, field.data_type()) => {
                return Err(format!(
                    "its column `{name}` is {}, not {}: {MAKE_AGAIN}",
                    field.data_type(),
                    column.column_type.data_type()
                ));
            }
            None if steps.keeps_all() => {
                return Err(format!(
                    "its column `{name}` is none of {dataset} and would be lost: \
                     list the columns to keep in clean.{dataset}.columns, or {MAKE_AGAIN}"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a column is one of those that the repair adds.
fn is_added(column: &Column) -> bool {
    catalog::DATE_ORIGINALS.contains(column)
}

/// Whether the chunks of a column are what the output's are: optional values, not repeated.
fn is_plain(schema: &SchemaDescriptor, position: usize) -> bool {
    let column = schema.column(position);
    (column.max_def_level(), column.max_rep_level()) == (1, 0)
}

fn declared_nodes(columns: &[Column]) -> Result<Vec<TypePtr>, ParquetError> {
    let field = |column: &Column| Field::new(column.name, column.column_type.data_type(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let converted = ArrowSchemaConverter::new().convert(&schema)?;
    Ok(converted.root_schema().get_fields().to_vec())
}
