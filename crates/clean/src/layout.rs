//! Where each column of an output comes from, decided from the source's footer.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use catalog::{CodeTable, Dataset, EVENT_DATE};
use io_budget::parquet::ParquetFile;
use parquet::arrow::ArrowSchemaConverter;
use parquet::errors::ParquetError;
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use crate::geo::{self, Part, Role};
use crate::steps::dates::{self, ADDED, DATES, DAY};
use crate::steps::{Steps, markers};

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
    /// A column of a geographic point, of the place that it is; `role` is its place in
    /// [`Layout::roles`].
    Place { role: usize, part: Part, source: usize },
    /// The days of a column, repaired where that is done, as dates.
    EventDate(usize),
    /// What the codes of a column mean.
    Labels { source: usize, table: CodeTable },
    /// The source has no such column.
    Nothing,
}

impl Origin {
    /// The columns of the source that have to be read.
    pub(crate) fn sources(&self) -> impl Iterator<Item = usize> {
        let (first, second) = match self {
            Self::Source(source)
            | Self::Repaired { source, .. }
            | Self::Place { source, .. }
            | Self::EventDate(source)
            | Self::Labels { source, .. } => (Some(*source), None),
            Self::Original { source, kept } => (Some(*source), *kept),
            Self::Nothing => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// The column of the source that this one equals as long as no step changes a row.
    pub(crate) fn unchanged(&self) -> Option<usize> {
        match self {
            Self::Source(source) | Self::Repaired { source, .. } | Self::Place { source, .. } => {
                Some(*source)
            }
            Self::Original { kept, .. } => *kept,
            Self::EventDate(_) | Self::Labels { .. } | Self::Nothing => None,
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
    /// The columns of [`markers::COLUMNS`].
    pub(crate) markers: [Option<usize>; 3],
    /// The columns of text, if white space in it is to be changed.
    pub(crate) texts: Vec<usize>,
    /// The geographic points, if they are to be resolved.
    pub(crate) roles: Vec<Role>,
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
        let roles = if steps.places_table.is_some() { geo::roles(file) } else { Vec::new() };
        if steps.places_table.is_some() && roles.len() < geo::ROLES.len() {
            counts.insert(String::from("files with places not looked at, columns missing"), 1);
        }
        let origins = Origins { file, repairs, roles: &roles };
        let columns = columns(&origins, dataset, steps, &mut counts)?;

        let mut required = Vec::new();
        let mut not_required = Vec::new();
        for name in &steps.require {
            let known = steps.known.iter().find(|column| column.name == name);
            match (origins.of(name), known) {
                (Origin::Nothing, _) | (_, None) => not_required.push(name.clone()),
                (origin, Some(column)) => required.push((column.column_type.data_type(), origin)),
            }
        }
        if required.is_empty() && !not_required.is_empty() {
            let names = not_required.join(", ");
            return Err(format!("it has none of the required columns {names}: {MAKE_AGAIN}"));
        }
        let is_text = |(at, field): (usize, &FieldRef)| {
            (steps.normalize.is_some() && *field.data_type() == DataType::Utf8).then_some(at)
        };
        let texts = file.schema().fields().iter().enumerate().filter_map(is_text).collect();
        let markers = markers::COLUMNS.map(|name| file.column(name));
        Ok(Self { columns, dates, markers, texts, roles, required, not_required, counts })
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

/// Tells where columns come from, by name.
struct Origins<'a> {
    file: &'a ParquetFile,
    /// Whether dates are repaired.
    repairs: bool,
    roles: &'a [Role],
}

impl Origins<'_> {
    fn of(&self, name: &str) -> Origin {
        let found = self.file.column(name);
        if self.repairs {
            let repaired = DATES.into_iter().find(|date| *date == name);
            if let (Some(date), Some(source)) = (repaired, found) {
                return Origin::Repaired { date, source };
            }
            let of = DATES.into_iter().find(|date| dates::original_of(date) == Some(name));
            if let Some(source) = of.and_then(|date| self.file.column(date)) {
                return Origin::Original { source, kept: found };
            }
        }
        if let Some(source) = found {
            let of_role = self
                .roles
                .iter()
                .enumerate()
                .find_map(|(role, columns)| Some((role, columns.part_at(source)?)));
            return match of_role {
                Some((role, part)) => Origin::Place { role, part, source },
                None => Origin::Source(source),
            };
        }
        self.derived(name).unwrap_or(Origin::Nothing)
    }

    /// A column that the source does not have and that can be made of one that it has.
    fn derived(&self, name: &str) -> Option<Origin> {
        if name == EVENT_DATE.name {
            return self.file.column(DAY).map(Origin::EventDate);
        }
        let of = name.strip_suffix("_Label")?;
        let (source, table) = (self.file.column(of)?, CodeTable::of_column(of)?);
        Some(Origin::Labels { source, table })
    }
}

/// The columns of the output. What the source lacks is counted.
fn columns(
    origins: &Origins<'_>,
    dataset: Dataset,
    steps: &Steps,
    counts: &mut BTreeMap<String, u64>,
) -> Result<Vec<OutputColumn>, String> {
    let mut columns = Vec::with_capacity(steps.output.len());
    let declared = declared_nodes(&steps.fields).map_err(|error| error.to_string())?;
    for ((column, field), declared) in steps.output.iter().zip(&steps.fields).zip(declared) {
        let origin = origins.of(column.name);
        if matches!(origin, Origin::Nothing) && dataset.columns().contains(column) {
            counts.insert(format!("files without column {}, filled with nulls", column.name), 1);
        }
        let schema = origins.file.metadata().file_metadata().schema_descr();
        let keeps_type = *field.data_type() == column.column_type.data_type();
        let copy_of = origin.unchanged().filter(|source| keeps_type && is_plain(schema, *source));
        let node = copy_of.map_or(declared, |source| schema.column(source).self_type_ptr());
        columns.push(OutputColumn { field: Arc::new(field.clone()), node, origin, copy_of });
    }
    Ok(columns)
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
            Some(column) if *field.data_type() != column.column_type.data_type() => {
                return Err(format!(
                    "its column `{name}` is {}, not {}: {MAKE_AGAIN}",
                    field.data_type(),
                    column.column_type.data_type()
                ));
            }
            None if steps.keeps_all => {
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

/// Whether the chunks of a column are what the output's are: optional values, not repeated.
fn is_plain(schema: &SchemaDescriptor, position: usize) -> bool {
    let column = schema.column(position);
    (column.max_def_level(), column.max_rep_level()) == (1, 0)
}

fn declared_nodes(fields: &[Field]) -> Result<Vec<TypePtr>, ParquetError> {
    let converted = ArrowSchemaConverter::new().convert(&Schema::new(fields.to_vec()))?;
    Ok(converted.root_schema().get_fields().to_vec())
}
