//! What did not become a row or a value: counted exactly elsewhere, with examples here.
//!
//! While a process runs it appends the examples of each file to a log of its own, `catalog/rejects/
//! <segment>.open.arrows`, before the file is recorded: killed, it loses none of a recorded file. At
//! its end the log becomes `<segment>.parquet`; a later run does that for logs of dead processes.
//! The ledger's record of a file names the segment that counts for it.

mod log;
mod segments;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{BinaryBuilder, RecordBatch, StringBuilder, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

pub(crate) use log::RejectsLog;
pub(crate) use segments::{Current, settle};

use crate::records::Place;

/// Examples kept of each reason and column of a file.
const EXAMPLES: u64 = 100;
/// Bytes kept of an example.
const EXAMPLE_BYTES: usize = 64 << 10;
/// Bytes kept of all examples of a file.
const FILE_BYTES: usize = 16 << 20;

/// Examples of what was rejected of one file.
#[derive(Debug)]
pub(crate) struct Rejects {
    source: String,
    met: BTreeMap<(&'static str, &'static str), u64>,
    sources: StringBuilder,
    lines: UInt64Builder,
    offsets: UInt64Builder,
    columns: StringBuilder,
    reasons: StringBuilder,
    raw: BinaryBuilder,
    bytes: usize,
    rows: u64,
    first: Option<String>,
}

impl Rejects {
    pub(crate) fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            met: BTreeMap::new(),
            sources: StringBuilder::new(),
            lines: UInt64Builder::new(),
            offsets: UInt64Builder::new(),
            columns: StringBuilder::new(),
            reasons: StringBuilder::new(),
            raw: BinaryBuilder::new(),
            bytes: 0,
            rows: 0,
            first: None,
        }
    }

    /// Keeps an example: a whole record, or the field of a column.
    pub(crate) fn add(
        &mut self,
        place: Place,
        column: Option<&'static str>,
        reason: &'static str,
        raw: &[u8],
    ) {
        let met = self.met.entry((column.unwrap_or(""), reason)).or_default();
        *met += 1;
        let raw = &raw[..raw.len().min(EXAMPLE_BYTES)];
        if column.is_none() && self.first.is_none() {
            let shown = &raw[..raw.len().min(80)];
            self.first = Some(format!("line {}, {reason}: {}", place.line, shown.escape_ascii()));
        }
        // Of each kind there is one, whatever the others take.
        if *met > EXAMPLES || (*met > 1 && self.bytes + raw.len() > FILE_BYTES) {
            return;
        }
        self.sources.append_value(&self.source);
        self.lines.append_value(place.line);
        self.offsets.append_value(place.offset);
        self.columns.append_option(column);
        self.reasons.append_value(reason);
        self.raw.append_value(raw);
        self.bytes += raw.len();
        self.rows += 1;
    }

    /// The first rejected record, for a message.
    pub(crate) fn first(&self) -> String {
        self.first.clone().unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The examples as rows.
    pub(crate) fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(
            schema(),
            vec![
                Arc::new(self.sources.finish()),
                Arc::new(self.lines.finish()),
                Arc::new(self.offsets.finish()),
                Arc::new(self.columns.finish()),
                Arc::new(self.reasons.finish()),
                Arc::new(self.raw.finish()),
            ],
        )
    }
}

/// The columns of rejects.
fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, name == "column");
    Arc::new(Schema::new(vec![
        field("source", DataType::Utf8),
        field("line", DataType::UInt64),
        field("byte_offset", DataType::UInt64),
        field("column", DataType::Utf8),
        field("reason", DataType::Utf8),
        field("raw", DataType::Binary),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_capped_by_kind_and_bytes() {
        let mut rejects = Rejects::new("a.zip");
        let place = Place { line: 1, offset: 0 };
        for _ in 0..1_000 {
            rejects.add(place, None, "too few fields", b"x");
        }
        assert_eq!(rejects.rows, EXAMPLES);
        let long = vec![0; 1 << 20];
        for _ in 0..50 {
            for column in ["a", "b", "c", "d", "e", "f"] {
                rejects.add(place, Some(column), "value is no number, null instead", &long);
            }
        }
        assert!(rejects.bytes <= FILE_BYTES, "{}", rejects.bytes);
        rejects.add(place, Some("z"), "value is no number, null instead", &long);
        assert_eq!(rejects.first(), "line 1, too few fields: x");
        let batch = rejects.finish().unwrap();
        assert_eq!(batch.num_columns(), 6);
    }
}
