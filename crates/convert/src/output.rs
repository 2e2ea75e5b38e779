//! A Parquet file under construction.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use catalog::{Dataset, Feed, marks};
use io_budget::{Budget, StagedFile, parquet::footer_start};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use stage::settings::DatasetConversion;
use stage::work::{FileFacts, MadeFile, TaskError};
use stage::{Error, format};

use crate::table::Table;

/// What the notes in a file say of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notes<'a> {
    pub(crate) dataset: Dataset,
    pub(crate) feed: Feed,
    pub(crate) fingerprint: &'a str,
    /// How the file is written.
    pub(crate) settings: DatasetConversion,
}

/// A Parquet file that is being written and has not appeared yet.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    /// Path, relative to the data directory.
    name: String,
    writer: ArrowWriter<Shared>,
    staged: Shared,
    rows: u64,
}

/// The staged file, also after the Parquet writer has taken its copy and closed.
#[derive(Debug, Clone)]
struct Shared(Arc<Mutex<StagedFile>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    pub(crate) fn begin(
        budget: &Budget,
        data: &Path,
        name: &str,
        schema: &SchemaRef,
        notes: Notes<'_>,
    ) -> Result<Self, TaskError> {
        let Notes { dataset, feed, fingerprint, settings } = notes;
        let path = data.join(name);
        let pairs = format::notes("convert", dataset, feed, fingerprint);
        let mut properties = format::writer_properties(dataset, &pairs)
            .into_builder()
            .set_compression(settings.codec.compression());
        if let Some(rows) = settings.row_group_rows {
            properties = properties.set_max_row_group_row_count(Some(rows.get()));
        }
        let properties = properties.build();
        let staged = Shared(Arc::new(Mutex::new(budget.stage_within(data, &path))));
        let writer = ArrowWriter::try_new(staged.clone(), Arc::clone(schema), Some(properties))
            .map_err(|error| TaskError::encoding(&path, error))?;
        Ok(Self { path, name: name.to_owned(), writer, staged, rows: 0 })
    }

    /// Writes the rows of a table, which is then empty.
    pub(crate) fn write(&mut self, table: &mut Table) -> Result<(), TaskError> {
        let batch = table.take().map_err(|error| Error::Internal(error.to_string()))?;
        self.rows += batch.num_rows() as u64;
        self.writer.write(&batch).map_err(|error| TaskError::encoding(&self.path, error))
    }

    /// Rows written that are still in memory, since their row group is not full.
    pub(crate) fn rows_in_memory(&self) -> usize {
        self.writer.in_progress_rows()
    }

    /// Ends the row group, which leaves memory.
    pub(crate) fn end_row_group(&mut self) -> Result<(), TaskError> {
        self.writer.flush().map_err(|error| TaskError::encoding(&self.path, error))
    }

    /// Closes the file. `source` is the raw file its rows come from.
    pub(crate) fn close(mut self, dataset: Dataset, source: &str) -> Result<MadeFile, TaskError> {
        let rows = self.rows;
        let mark = marks::SourceMark { name: source.to_owned(), rows };
        let sources =
            serde_json::to_string(&[mark]).map_err(|error| Error::Internal(error.to_string()))?;
        self.writer.append_key_value_metadata(KeyValue::new(marks::SOURCES.to_owned(), sources));
        let metadata =
            self.writer.close().map_err(|error| TaskError::encoding(&self.path, error))?;
        let staged = Arc::into_inner(self.staged.0)
            .ok_or_else(|| Error::Internal("a closed writer keeps its file".into()))?;
        Ok(MadeFile {
            staged: staged.into_inner().unwrap_or_else(PoisonError::into_inner),
            facts: FileFacts {
                output: self.name,
                rows,
                footer_start: footer_start(&metadata),
                key_ranges: format::key_ranges(dataset, &metadata),
            },
        })
    }
}
