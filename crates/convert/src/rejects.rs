//! What did not become a row or a value: counted exactly, with examples in a Parquet file beside
//! the ledger, one for each raw file that has any.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{BinaryBuilder, RecordBatch, StringBuilder, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema};
use catalog::marks;
use io_budget::Budget;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use stage::work::TaskError;
use stage::{Error, Session};

use crate::records::Place;

/// Examples kept of each reason and column.
const EXAMPLES: u64 = 100;
/// Bytes kept of an example.
const EXAMPLE_BYTES: usize = 64 << 10;

/// What was rejected of one file.
#[derive(Debug)]
pub(crate) struct Rejects {
    source: String,
    kept: BTreeMap<(&'static str, &'static str), u64>,
    sources: StringBuilder,
    lines: UInt64Builder,
    offsets: UInt64Builder,
    columns: StringBuilder,
    reasons: StringBuilder,
    raw: BinaryBuilder,
    rows: u64,
    first: Option<String>,
}

impl Rejects {
    pub(crate) fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            kept: BTreeMap::new(),
            sources: StringBuilder::new(),
            lines: UInt64Builder::new(),
            offsets: UInt64Builder::new(),
            columns: StringBuilder::new(),
            reasons: StringBuilder::new(),
            raw: BinaryBuilder::new(),
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
        let kept = self.kept.entry((column.unwrap_or(""), reason)).or_default();
        *kept += 1;
        if *kept > EXAMPLES {
            return;
        }
        let raw = &raw[..raw.len().min(EXAMPLE_BYTES)];
        self.sources.append_value(&self.source);
        self.lines.append_value(place.line);
        self.offsets.append_value(place.offset);
        self.columns.append_option(column);
        self.reasons.append_value(reason);
        self.raw.append_value(raw);
        self.rows += 1;
        if column.is_none() && self.first.is_none() {
            let shown = &raw[..raw.len().min(80)];
            self.first = Some(format!("line {}, {reason}: {}", place.line, shown.escape_ascii()));
        }
    }

    /// The first rejected record, for a message.
    pub(crate) fn first(&self) -> String {
        self.first.clone().unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    fn finish(&mut self) -> Result<RecordBatch, ParquetError> {
        let field = |name: &str, data_type| Field::new(name, data_type, name == "column");
        let schema = Schema::new(vec![
            field("source", DataType::Utf8),
            field("line", DataType::UInt64),
            field("byte_offset", DataType::UInt64),
            field("column", DataType::Utf8),
            field("reason", DataType::Utf8),
            field("raw", DataType::Binary),
        ]);
        Ok(RecordBatch::try_new(
            Arc::new(schema),
            vec![
                Arc::new(self.sources.finish()),
                Arc::new(self.lines.finish()),
                Arc::new(self.offsets.finish()),
                Arc::new(self.columns.finish()),
                Arc::new(self.reasons.finish()),
                Arc::new(self.raw.finish()),
            ],
        )?)
    }
}

/// The rejects of a dataset: a directory beside its ledger.
#[derive(Debug)]
pub(crate) struct RejectsDirectory {
    budget: Budget,
    directory: PathBuf,
    /// Files of earlier runs.
    present: HashSet<String>,
}

impl RejectsDirectory {
    /// Looks which files earlier runs left, and removes what killed ones did not finish.
    pub(crate) fn open(session: &Session, catalog: &Path) -> Result<Self, Error> {
        let (budget, directory) = (&session.budget, catalog.join("rejects"));
        let present = match budget.list(&directory, |name| name.ends_with(".parquet")) {
            Ok(entries) => {
                if !session.dry_run {
                    budget.sweep(&directory)?;
                }
                entries.into_iter().map(|entry| entry.name).collect()
            }
            Err(error) if error.is_not_found() => HashSet::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(Self { budget: budget.clone(), directory, present })
    }

    /// Publishes the rejects of a file, or removes those of an earlier run if it has none now.
    pub(crate) fn replace(&self, stem: &str, rejects: &mut Rejects) -> Result<(), TaskError> {
        let name = format!("{stem}.parquet");
        let path = self.directory.join(&name);
        if rejects.is_empty() {
            if self.present.contains(&name) {
                self.budget.remove(&path).map_err(TaskError::writing)?;
            }
            return Ok(());
        }
        let internal = |error: ParquetError| TaskError::Stop(Error::Internal(error.to_string()));
        let batch = rejects.finish().map_err(internal)?;
        let citation = KeyValue::new(marks::CITATION.to_owned(), marks::CITATION_TEXT.to_owned());
        let level = ZstdLevel::default();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_key_value_metadata(Some(vec![citation]))
            .build();
        let mut bytes = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).map_err(internal)?;
        writer.write(&batch).map_err(internal)?;
        writer.close().map_err(internal)?;
        let mut staged = self.budget.stage(&path);
        std::io::Write::write_all(&mut staged, &bytes)
            .map_err(|source| TaskError::writing(io_budget::Error::new("write", &path, source)))?;
        staged.publish().map_err(TaskError::writing)?;
        Ok(())
    }
}
