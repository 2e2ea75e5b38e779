//! A Parquet file under construction.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use catalog::{Dataset, marks};
use io_budget::{Budget, StagedFile, parquet::footer_start};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use stage::settings::DatasetConversion;
use stage::work::{FileFacts, MadeFile, Task, TaskError};
use stage::{Error, format};

use crate::table::schema;

/// Bytes of a file that are held in memory where many files are written at once.
const HELD_BYTES: usize = 1 << 20;

/// A Parquet file that is being written and has not appeared yet.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    /// Path, relative to the data directory.
    name: String,
    dataset: Dataset,
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
    /// Begins a file of the task, under this name within its data directory.
    pub(crate) fn begin(
        budget: &Budget,
        task: &Task,
        name: &str,
        settings: &DatasetConversion,
    ) -> Result<Self, TaskError> {
        Self::write_to(|staged| staged, budget, task, name, settings)
    }

    /// Begins one of many files that are written at once.
    pub(crate) fn begin_among(
        budget: &Budget,
        task: &Task,
        name: &str,
        settings: &DatasetConversion,
    ) -> Result<Self, TaskError> {
        Self::write_to(|staged| staged.holding(HELD_BYTES), budget, task, name, settings)
    }

    fn write_to(
        hold: impl FnOnce(StagedFile) -> StagedFile,
        budget: &Budget,
        task: &Task,
        name: &str,
        settings: &DatasetConversion,
    ) -> Result<Self, TaskError> {
        let (dataset, path) = (task.dataset, task.directory.join(name));
        let staged = hold(budget.stage_within(&task.directory, &path));
        let notes = format::notes("convert", dataset, task.feed, &task.fingerprint);
        let mut properties = format::writer_properties(dataset, &notes)
            .into_builder()
            .set_compression(settings.codec.compression());
        if let Some(rows) = settings.row_group_rows {
            properties = properties.set_max_row_group_row_count(Some(rows.get()));
        }
        let schema = schema(&settings.output_columns(dataset));
        let staged = Shared(Arc::new(Mutex::new(staged)));
        let writer = ArrowWriter::try_new(staged.clone(), schema, Some(properties.build()))
            .map_err(|error| TaskError::encoding(&path, error))?;
        Ok(Self { path, name: name.to_owned(), dataset, writer, staged, rows: 0 })
    }

    /// Writes rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), TaskError> {
        self.rows += batch.num_rows() as u64;
        self.writer.write(batch).map_err(|error| TaskError::encoding(&self.path, error))
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
    pub(crate) fn close(mut self, source: &str) -> Result<MadeFile, TaskError> {
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
                key_ranges: format::key_ranges(self.dataset, &metadata),
            },
        })
    }
}
