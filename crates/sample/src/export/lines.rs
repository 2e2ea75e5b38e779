//! The lines of a batch: a null is an empty field, empty text is `""`.

use std::io::Write as _;
use std::ops::Range;

use arrow::array::{
    Array, AsArray as _, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType as _, DataType, Date32Type, Float64Type, Int64Type, Schema};
use chrono::NaiveDate;
use memchr::{memchr, memchr_iter, memchr3};

/// Stands between fields.
pub(super) const SEPARATOR: u8 = b',';
/// Stands around fields that hold a [`SEPARATOR`], a quote or an end of line, and around empty
/// text; within such a field it is doubled.
pub(super) const QUOTE: u8 = b'"';
/// Stands after each line.
pub(super) const LINE_END: u8 = b'\n';

/// The line of the columns' names.
pub(super) fn header(schema: &Schema) -> Vec<u8> {
    let mut line = Vec::new();
    for field in schema.fields() {
        let name = field.name().as_bytes();
        let quoted = FINDERS.iter().any(|find| find(name).is_some());
        push_text(name, quoted, &mut line);
        line.push(SEPARATOR);
    }
    end_line(&mut line);
    line
}

/// The lines of the rows.
///
/// # Errors
///
/// A message when a column's type or a value has no text.
pub(super) fn lines(batch: &RecordBatch) -> Result<Vec<u8>, String> {
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    let mut columns = columns
        .map(|(field, array)| Column::of(field.name(), array))
        .collect::<Result<Vec<_>, _>>()?;
    let mut text = Vec::with_capacity(batch.get_array_memory_size());
    for row in 0..batch.num_rows() {
        for column in &mut columns {
            column.push_field(row, &mut text)?;
            text.push(SEPARATOR);
        }
        end_line(&mut text);
    }
    Ok(text)
}

/// Puts the end of the line in the place of the last separator.
fn end_line(text: &mut [u8]) {
    if let Some(last) = text.last_mut() {
        *last = LINE_END;
    }
}

/// A column whose fields are asked for from the first row to the last.
struct Column<'a> {
    name: &'a str,
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    Whole(&'a Int64Array),
    Fraction(&'a Float64Array),
    Day(&'a Date32Array),
    Text(Text<'a>),
}

impl<'a> Column<'a> {
    fn of(name: &'a str, array: &'a dyn Array) -> Result<Self, String> {
        let values = match array.data_type() {
            DataType::Int64 => Values::Whole(array.as_primitive::<Int64Type>()),
            DataType::Float64 => Values::Fraction(array.as_primitive::<Float64Type>()),
            DataType::Date32 => Values::Day(array.as_primitive::<Date32Type>()),
            DataType::Utf8 => Values::Text(Text::of(array.as_string::<i32>())),
            other => return Err(format!("column `{name}` has the type {other}, which has no text")),
        };
        Ok(Self { name, nulls: array.nulls(), values })
    }

    fn push_field(&mut self, row: usize, text: &mut Vec<u8>) -> Result<(), String> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(());
        }
        match &mut self.values {
            Values::Whole(array) => {
                let mut digits = itoa::Buffer::new();
                text.extend_from_slice(digits.format(array.value(row)).as_bytes());
            }
            Values::Fraction(array) => {
                let mut digits = zmij::Buffer::new();
                text.extend_from_slice(digits.format(array.value(row)).as_bytes());
            }
            Values::Day(array) => {
                let days = array.value(row);
                let written = NaiveDate::from_epoch_days(days).map(|day| write!(text, "{day}"));
                if !matches!(written, Some(Ok(()))) {
                    let name = self.name;
                    return Err(format!("column `{name}` holds day {days}, which has no date"));
                }
            }
            Values::Text(column) => {
                let (bytes, quoted) = column.field(row);
                push_text(bytes, quoted, text);
            }
        }
        Ok(())
    }
}

fn push_text(bytes: &[u8], quoted: bool, text: &mut Vec<u8>) {
    if !quoted && !bytes.is_empty() {
        text.extend_from_slice(bytes);
        return;
    }
    text.push(QUOTE);
    let mut copied = 0;
    for quote in memchr_iter(QUOTE, bytes) {
        text.extend_from_slice(&bytes[copied..=quote]);
        // The quote is copied once more with what follows it.
        copied = quote;
    }
    text.extend_from_slice(&bytes[copied..]);
    text.push(QUOTE);
}

/// A column of text. Its rows lie one behind another, so that one search passes over all of them
/// up to the next that has to be quoted.
struct Text<'a> {
    bytes: &'a [u8],
    offsets: &'a [i32],
    marks: [Mark; 2],
}

impl<'a> Text<'a> {
    fn of(array: &'a StringArray) -> Self {
        let offsets = array.value_offsets();
        let [start, end] = [offsets.first(), offsets.last()]
            .map(|offset| offset.map_or(0, |offset| offset.as_usize()));
        let bytes = &array.value_data()[..end];
        let marks = FINDERS.map(|find| Mark { find, at: next(find, bytes, start) });
        Self { bytes, offsets, marks }
    }

    /// The bytes of a row behind those asked for before, and whether they have to be quoted.
    fn field(&mut self, row: usize) -> (&'a [u8], bool) {
        let place = self.offsets[row].as_usize()..self.offsets[row + 1].as_usize();
        let quoted = self.marks.iter_mut().any(|mark| mark.is_in(&place, self.bytes));
        (&self.bytes[place], quoted)
    }
}

/// Finds the first of some bytes that a field has to be quoted for.
type Finder = fn(&[u8]) -> Option<usize>;

/// All those bytes. Carriage returns are rare, so that the search for them passes over all rows.
const FINDERS: [Finder; 2] =
    [|bytes| memchr3(SEPARATOR, QUOTE, LINE_END, bytes), |bytes| memchr(b'\r', bytes)];

/// Where the next of these bytes stands, of those not before `from`.
fn next(find: Finder, bytes: &[u8], from: usize) -> usize {
    find(&bytes[from..]).map_or(usize::MAX, |found| from + found)
}

/// The next of some bytes in the text of a column.
struct Mark {
    find: Finder,
    at: usize,
}

impl Mark {
    fn is_in(&mut self, place: &Range<usize>, bytes: &[u8]) -> bool {
        if self.at < place.start {
            self.at = next(self.find, bytes, place.start);
        }
        self.at < place.end
    }
}
