//! Builds columns from records: the rules by which fields become values.
//!
//! - Columns that are not kept are neither parsed nor built.
//! - An empty field is null.
//! - Text is kept byte for byte; bytes that are not UTF-8 become U+FFFD and are counted.
//! - A number is what Rust's parser takes: digits with an optional sign, and for floating-point
//!   columns a fraction and exponent. What it does not take (` 7`, `1e3` in a whole-number column,
//!   a number out of range, `inf`, `nan`) becomes null and is counted.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Builder, Int64Builder, RecordBatch, StringBuilder};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use catalog::{Column, ColumnType};
use memchr::memchr_iter;

/// Rows after which a batch is complete.
const BATCH_ROWS: usize = 65_536;
/// Bytes of fields after which a batch is complete.
const BATCH_BYTES: usize = 4 << 20;

/// The arrow schema of columns.
pub(crate) fn schema(columns: &[Column]) -> SchemaRef {
    let field = |column: &Column| Field::new(column.name, column.column_type.data_type(), true);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// A field that did not become the value it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Oddity {
    /// A number that does not parse, or is none.
    NotANumber,
    /// Bytes that are not UTF-8.
    NotUtf8,
}

impl Oddity {
    /// The name under which it is counted and reported.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotANumber => "value is no number, null instead",
            Self::NotUtf8 => "bytes are no UTF-8, U+FFFD instead",
        }
    }
}

/// Columns under construction.
#[derive(Debug)]
pub(crate) struct Table {
    schema: SchemaRef,
    /// By place in a record, up to the last column that is kept.
    places: Vec<Option<(&'static str, Builder)>>,
    rows: usize,
    bytes: usize,
    batch_rows: usize,
}

#[derive(Debug)]
enum Builder {
    Int64(Int64Builder),
    Float64(Float64Builder),
    Text(StringBuilder),
}

impl Builder {
    fn new(column: &Column) -> Self {
        match column.column_type {
            ColumnType::Int64 => Self::Int64(Int64Builder::new()),
            ColumnType::Float64 => Self::Float64(Float64Builder::new()),
            // No file of GDELT's has a column of dates.
            ColumnType::Text | ColumnType::Date => Self::Text(StringBuilder::new()),
        }
    }

    fn append_null(&mut self) {
        match self {
            Self::Int64(builder) => builder.append_null(),
            Self::Float64(builder) => builder.append_null(),
            Self::Text(builder) => builder.append_null(),
        }
    }

    /// Appends the value of a field; returns what was odd about it.
    fn append(&mut self, field: &str) -> Option<Oddity> {
        if field.is_empty() {
            self.append_null();
            return None;
        }
        match self {
            Self::Text(builder) => {
                builder.append_value(field);
                return None;
            }
            Self::Int64(builder) => {
                let value = field.parse().ok();
                builder.append_option(value);
                value.map(|_| ())
            }
            Self::Float64(builder) => {
                let value = field.parse().ok().filter(|value: &f64| value.is_finite());
                builder.append_option(value);
                value.map(|_| ())
            }
        }
        .is_none()
        .then_some(Oddity::NotANumber)
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int64(builder) => Arc::new(builder.finish()),
            Self::Float64(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
        }
    }
}

impl Table {
    /// A table of some of a dataset's columns: `all` are those of a record, `kept` of these those
    /// of the table, in the same order.
    pub(crate) fn new(all: &[Column], kept: &[Column]) -> Self {
        Self::of_batches(all, kept, BATCH_ROWS)
    }

    /// A table whose batches are complete after fewer rows.
    pub(crate) fn of_batches(all: &[Column], kept: &[Column], batch_rows: usize) -> Self {
        let place =
            |column: &Column| kept.contains(column).then(|| (column.name, Builder::new(column)));
        let mut places: Vec<_> = all.iter().map(place).collect();
        places.truncate(places.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
        Self { schema: schema(kept), places, rows: 0, bytes: 0, batch_rows }
    }

    /// Appends a record that has as many fields as the dataset has columns, or fewer: the last
    /// columns are then null. `odd` is told of each field that did not become its value.
    pub(crate) fn append(
        &mut self,
        record: &[u8],
        mut odd: impl FnMut(&'static str, Oddity, &[u8]),
    ) {
        let text = std::str::from_utf8(record).ok();
        let mut ends = memchr_iter(b'\t', record).chain([record.len()]);
        let mut start = Some(0);
        for place in &mut self.places {
            let end = start.and_then(|_| ends.next());
            let field = start.zip(end).map(|(start, end)| start..end);
            start = end.map(|end| end + 1);
            let Some((name, builder)) = place else { continue };
            let Some(field) = field else {
                builder.append_null();
                continue;
            };
            self.bytes += field.len();
            let raw = &record[field.clone()];
            // A tab is never a part of another character.
            let (value, replaced) = match text {
                Some(text) => (Cow::Borrowed(&text[field]), None),
                None => match String::from_utf8_lossy(raw) {
                    Cow::Borrowed(value) => (Cow::Borrowed(value), None),
                    Cow::Owned(value) => (Cow::Owned(value), Some(Oddity::NotUtf8)),
                },
            };
            for oddity in [builder.append(&value), replaced].into_iter().flatten() {
                odd(name, oddity, raw);
            }
        }
        self.rows += 1;
    }

    /// Whether a batch is complete. Depends on the records only, never on how they were read.
    pub(crate) fn is_full(&self) -> bool {
        self.rows >= self.batch_rows || self.bytes >= BATCH_BYTES
    }

    /// The rows appended so far, of which the table is then empty.
    pub(crate) fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let kept = self.places.iter_mut().flatten();
        let arrays = kept.map(|(_, builder)| builder.finish()).collect();
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array as _, Float64Array, Int64Array, StringArray};

    const COLUMNS: &[Column] = &[
        Column { name: "i", column_type: ColumnType::Int64 },
        Column { name: "f", column_type: ColumnType::Float64 },
        Column { name: "t", column_type: ColumnType::Text },
    ];

    type Odd = (&'static str, Oddity, Vec<u8>);

    fn build(records: &[&[u8]]) -> (RecordBatch, Vec<Odd>) {
        let mut table = Table::new(COLUMNS, COLUMNS);
        let mut odd = Vec::new();
        for record in records {
            table.append(record, |column, kind, raw| odd.push((column, kind, raw.to_vec())));
        }
        (table.take().unwrap(), odd)
    }

    #[test]
    fn fields_become_values_by_the_rules() {
        let (batch, odd) = build(&[
            b"7\t-3.25732899022801\t010",
            b"+4\t1e3\t ",
            b"\t\t",
            b" 7\tinf\t\"",
            b"1e3\tnan\tJO\0HN",
            b"99999999999999999999\t1e999\t\xc2\x9a",
            b"20150218234500\t0.0",
        ]);
        let ints = Int64Array::from(vec![
            Some(7),
            Some(4),
            None,
            None,
            None,
            None,
            Some(20_150_218_234_500),
        ]);
        assert_eq!(batch.column(0).as_ref(), &ints);
        let floats =
            vec![Some(-3.257_328_990_228_01), Some(1_000.0), None, None, None, None, Some(0.0)];
        assert_eq!(batch.column(1).as_ref(), &Float64Array::from(floats));
        let texts =
            vec![Some("010"), Some(" "), None, Some("\""), Some("JO\0HN"), Some("\u{9a}"), None];
        assert_eq!(batch.column(2).as_ref(), &StringArray::from(texts));
        let odd: Vec<_> = odd.iter().map(|(column, _, raw)| (*column, raw.as_slice())).collect();
        let expected: [(&str, &[u8]); 6] = [
            ("i", b" 7"),
            ("f", b"inf"),
            ("i", b"1e3"),
            ("f", b"nan"),
            ("i", b"99999999999999999999"),
            ("f", b"1e999"),
        ];
        assert_eq!(odd, expected);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced_and_told() {
        let (batch, odd) = build(&[b"1\t2\tjos\xe9 lopez", b"\xff\t2\tok"]);
        let texts = StringArray::from(vec!["jos\u{fffd} lopez", "ok"]);
        assert_eq!(batch.column(2).as_ref(), &texts);
        assert!(batch.column(0).is_null(1));
        assert_eq!(
            odd,
            [
                ("t", Oddity::NotUtf8, b"jos\xe9 lopez".to_vec()),
                ("i", Oddity::NotANumber, b"\xff".to_vec()),
                ("i", Oddity::NotUtf8, b"\xff".to_vec()),
            ]
        );
    }

    #[test]
    fn only_kept_columns_are_parsed() {
        let mut table = Table::new(COLUMNS, &COLUMNS[1..2]);
        let mut odd = 0;
        for record in [&b"x\t1.5\ty"[..], b"\xff\tnan\t\xff", b"1"] {
            table.append(record, |column, _, _| {
                assert_eq!(column, "f");
                odd += 1;
            });
        }
        let batch = table.take().unwrap();
        assert_eq!((batch.num_columns(), odd), (1, 1));
        let values = Float64Array::from(vec![Some(1.5), None, None]);
        assert_eq!(batch.column(0).as_ref(), &values);
    }
}
