//! What a reader of a CSV file has to know, in a file of JSON beside it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use arrow::datatypes::{DataType, Field, Schema};
use catalog::marks;
use io_budget::{Budget, Published};
use parquet::file::metadata::KeyValue;
use serde::Serialize;
use stage::Error;

use super::lines::{LINE_END, QUOTE, SEPARATOR};

/// What stands behind the name of the file that is described.
const SUFFIX: &str = ".schema.json";

#[derive(Serialize)]
struct Description<'a> {
    rows: u64,
    columns: Vec<Column<'a>>,
    encoding: &'static str,
    header: bool,
    separator: char,
    quote: char,
    quoting: &'static str,
    null: &'static str,
    line_end: char,
    citation: &'static str,
    /// What is noted in the metadata of a Parquet file.
    notes: BTreeMap<&'a str, Option<&'a str>>,
}

#[derive(Serialize)]
struct Column<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    data_type: String,
    form: &'static str,
}

/// Where the description of a file stands.
pub(super) fn path_of(described: &Path) -> PathBuf {
    let mut path = described.as_os_str().to_owned();
    path.push(SUFFIX);
    path.into()
}

/// Describes a CSV file.
///
/// # Errors
///
/// [`Error::Io`] when the storage fails.
pub(super) fn write(
    budget: &Budget,
    described: &Path,
    schema: &Schema,
    notes: &[KeyValue],
    rows: u64,
) -> Result<Published, Error> {
    let columns = schema.fields().iter().map(|field| Column::of(field));
    let notes = notes.iter().map(|note| (note.key.as_str(), note.value.as_deref()));
    let description = Description {
        rows,
        columns: columns.collect(),
        encoding: "UTF-8",
        header: true,
        separator: char::from(SEPARATOR),
        quote: char::from(QUOTE),
        quoting: "fields that hold a separator, a quote, a line feed or a carriage return, and \
                  empty text; a quote within is doubled",
        null: "an empty field without quotes; empty text has quotes",
        line_end: char::from(LINE_END),
        citation: marks::CITATION_TEXT,
        notes: notes.collect(),
    };
    let internal = |error: serde_json::Error| Error::Internal(error.to_string());
    let json = serde_json::to_vec_pretty(&description).map_err(internal)?;
    let path = path_of(described);
    let mut staged = budget.stage(&path);
    let failed = |source| io_budget::Error::new("write", &path, source);
    staged.write_all(&json).and_then(|()| staged.write_all(b"\n")).map_err(failed)?;
    Ok(staged.publish()?)
}

impl<'a> Column<'a> {
    fn of(field: &'a Field) -> Self {
        let form = match field.data_type() {
            DataType::Int64 => "decimal digits",
            DataType::Float64 => {
                "the shortest decimal number that reads back to the same 64 bits; NaN, inf or -inf"
            }
            DataType::Date32 => "ISO 8601, as in 2015-02-18",
            _ => "text",
        };
        Self { name: field.name(), data_type: field.data_type().to_string(), form }
    }
}
