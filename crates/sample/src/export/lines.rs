//! The lines of a batch. A null is an empty field, empty text is `""`; a number is the shortest text
//! that reads back to the same bits, or `NaN`, `inf` or `-inf`; a day is one of ISO 8601.

use std::ops::Range;

use arrow::array::{
    Array, AsArray as _, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowNativeType as _, DataType, Date32Type, Float64Type, Int64Type, Schema,
};
use chrono::{Datelike as _, NaiveDate};
use memchr::{memchr, memchr_iter, memchr3};

/// Stands between fields.
pub(super) const SEPARATOR: u8 = b',';
/// Stands around fields that hold a [`SEPARATOR`], a quote or an end of line, and around empty
/// text; within such a field it is doubled.
pub(super) const QUOTE: u8 = b'"';
/// Stands after each line.
pub(super) const LINE_END: u8 = b'\n';

/// Bytes of the longest text that is short: two moves of a processor.
const SHORT: usize = 32;
const DIGITS: [u8; 10] = *b"0123456789";

/// The line of the columns' names.
pub(super) fn header(schema: &Schema) -> Vec<u8> {
    let names: StringArray = schema.fields().iter().map(|field| Some(field.name())).collect();
    let mut text = Text::of(&names);
    let mut line = Vec::new();
    for column in 0..names.len() {
        text.push_field(column, &mut line);
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
    let mut text = Vec::with_capacity(size_hint(batch));
    for row in 0..batch.num_rows() {
        for column in &mut columns {
            column.push_field(row, &mut text)?;
            text.push(SEPARATOR);
        }
        end_line(&mut text);
    }
    Ok(text)
}

/// About the bytes that the values take up, as text as in memory.
pub(super) fn size_hint(batch: &RecordBatch) -> usize {
    // Whatever else is in the buffers that arrays share does not count.
    let sizes = batch.columns().iter().map(|array| array.to_data().get_slice_memory_size());
    sizes.map(|size| size.unwrap_or(0)).sum()
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
            other => {
                return Err(format!("column `{name}` has the type {other}, which has no text"));
            }
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
                let day = NaiveDate::from_epoch_days(days).ok_or_else(|| {
                    format!("column `{}` holds day {days}, which has no date", self.name)
                })?;
                push_day(day, text);
            }
            Values::Text(column) => column.push_field(row, text),
        }
        Ok(())
    }
}

/// A day in the form of ISO 8601; years of other than four digits have a sign.
fn push_day(day: NaiveDate, text: &mut Vec<u8>) {
    let year @ 0..=9999 = day.year() else {
        text.extend_from_slice(day.to_string().as_bytes());
        return;
    };
    let pair = |number: u32| [number / 10 % 10, number % 10].map(|digit| DIGITS[digit as usize]);
    let year = year.unsigned_abs();
    let [century, year, month, day] = [year / 100, year, day.month(), day.day()].map(pair);
    text.extend_from_slice(&century);
    text.extend_from_slice(&[year[0], year[1], b'-', month[0], month[1], b'-', day[0], day[1]]);
}

/// Text in quotes, those within it doubled.
fn push_quoted(bytes: &[u8], text: &mut Vec<u8>) {
    text.push(QUOTE);
    let mut copied = 0;
    for quote in memchr_iter(QUOTE, bytes) {
        text.extend_from_slice(&bytes[copied..=quote]);
        // It is copied once more with what follows.
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
    breaks: Mark,
    quotes: Mark,
}

impl<'a> Text<'a> {
    fn of(array: &'a StringArray) -> Self {
        let offsets = array.value_offsets();
        let [start, end] = [offsets.first(), offsets.last()]
            .map(|offset| offset.map_or(0, |offset| offset.as_usize()));
        let bytes = &array.value_data()[..end];
        let [breaks, quotes] = [find_break, find_quote].map(|find| Mark::from(start, bytes, find));
        Self { bytes, offsets, breaks, quotes }
    }

    /// Rows are asked for in their order.
    fn push_field(&mut self, row: usize, text: &mut Vec<u8>) {
        let place = self.offsets[row].as_usize()..self.offsets[row + 1].as_usize();
        if self.quotes.is_in(&place, self.bytes) {
            push_quoted(&self.bytes[place], text);
        } else if place.is_empty() || self.breaks.is_in(&place, self.bytes) {
            text.push(QUOTE);
            self.copy(place, text);
            text.push(QUOTE);
        } else {
            self.copy(place, text);
        }
    }

    /// Copies short text as [`SHORT`] bytes, and drops those behind it: most fields are short, and
    /// a copy whose length is known beforehand takes a fraction of the time.
    fn copy(&self, place: Range<usize>, text: &mut Vec<u8>) {
        match self.bytes[place.start..].first_chunk::<SHORT>() {
            Some(chunk) if place.len() <= SHORT => {
                let end = text.len() + place.len();
                text.extend_from_slice(chunk);
                text.truncate(end);
            }
            _ => text.extend_from_slice(&self.bytes[place]),
        }
    }
}

/// The place of the first byte that a field has to be quoted for, other than quotes.
fn find_break(bytes: &[u8]) -> Option<usize> {
    memchr3(SEPARATOR, LINE_END, b'\r', bytes)
}

fn find_quote(bytes: &[u8]) -> Option<usize> {
    memchr(QUOTE, bytes)
}

/// Where the next of some bytes stands in the text of a column.
struct Mark {
    find: fn(&[u8]) -> Option<usize>,
    at: usize,
}

impl Mark {
    /// The first that does not stand before `start`.
    fn from(start: usize, bytes: &[u8], find: fn(&[u8]) -> Option<usize>) -> Self {
        let at = find(&bytes[start..]).map_or(usize::MAX, |found| start + found);
        Self { find, at }
    }

    /// Whether one stands in this place, which is behind those asked for before.
    fn is_in(&mut self, place: &Range<usize>, bytes: &[u8]) -> bool {
        if self.at < place.start {
            *self = Self::from(place.start, bytes, self.find);
        }
        self.at < place.end
    }
}
