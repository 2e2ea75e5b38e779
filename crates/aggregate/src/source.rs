//! Sources: opened, checked against the declared columns, and taken apart into row groups.

use std::path::Path;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::Schema;
use catalog::Dataset;
use io_budget::parquet::ParquetFile;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use stage::work::{Input, TaskError};
use stage::{Session, files, format};

use crate::groups::Size;

/// Memory that what the footer says of a column chunk takes, about. Thousands of files of a few
/// rows have more of it than of data.
const CHUNK_FOOTER_BYTES: u64 = 2 << 10;

/// A source, open and checked.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) file: ParquetFile,
    /// Its place among the inputs.
    pub(crate) number: usize,
    /// Where the output's columns stand in the file.
    order: Vec<usize>,
}

impl Source {
    /// Opens an input, which has to have the columns of `schema`, in any order.
    pub(crate) fn open(
        session: &Session,
        dataset: Dataset,
        number: usize,
        input: &Input,
        schema: &Schema,
    ) -> Result<Self, TaskError> {
        let file =
            files::open_listed(session, input).map_err(|error| TaskError::reading(&error))?;
        let failed = |reason: String| failure(&input.path, &reason);
        files::check_dataset(&file, dataset).map_err(failed)?;
        check_schema(file.schema(), schema).map_err(failed)?;
        let mut rows: u64 = 0;
        for (group, metadata) in file.metadata().row_groups().iter().enumerate() {
            let of_group = u64::try_from(metadata.num_rows()).map_err(|_| {
                failed(format!(
                    "its footer says that row group {group} has {} rows",
                    metadata.num_rows()
                ))
            })?;
            rows = rows.saturating_add(of_group);
        }
        if rows != file.rows() {
            let message =
                format!("its row groups hold {rows} rows, its footer says {}", file.rows());
            return Err(failed(message));
        }
        let order = schema.fields().iter().filter_map(|field| file.column(field.name())).collect();
        Ok(Self { file, number, order })
    }

    /// Its row groups that have rows.
    pub(crate) fn pieces(self) -> Vec<Piece> {
        let source = Arc::new(self);
        let has_rows = |group: &usize| source.file.metadata().row_group(*group).num_rows() > 0;
        let groups = (0..source.file.metadata().num_row_groups()).filter(has_rows);
        groups.map(|group| Piece { source: Arc::clone(&source), group }).collect()
    }
}

/// A row group of a source.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) source: Arc<Source>,
    pub(crate) group: usize,
}

impl Piece {
    pub(crate) fn metadata(&self) -> &RowGroupMetaData {
        self.source.file.metadata().row_group(self.group)
    }

    /// Where a column of the output stands in the file.
    pub(crate) fn position(&self, column: usize) -> usize {
        self.source.order[column]
    }

    /// What the footer says of the chunk of a column of the output.
    pub(crate) fn chunk(&self, column: usize) -> &ColumnChunkMetaData {
        self.metadata().column(self.position(column))
    }

    pub(crate) fn rows(&self) -> u64 {
        u64::try_from(self.metadata().num_rows()).unwrap_or(0)
    }

    /// What it adds to a row group of the output, and to what is held of it in memory.
    pub(crate) fn size(&self) -> Size {
        let bytes = |chunk: &ColumnChunkMetaData| {
            u64::try_from(chunk.compressed_size()).unwrap_or(0).saturating_add(CHUNK_FOOTER_BYTES)
        };
        let bytes = self.metadata().columns().iter().map(bytes).fold(0, u64::saturating_add);
        Size { rows: self.rows(), bytes }
    }

    /// A failure of the period that is this file's.
    pub(crate) fn failure(&self, reason: &str) -> TaskError {
        failure(self.source.file.path(), reason)
    }

    /// Decodes columns of the output and hands them to `each`, in their order, in batches bounded
    /// in bytes.
    pub(crate) fn for_each_batch(
        &self,
        columns: &[usize],
        mut each: impl FnMut(&[ArrayRef]) -> Result<(), TaskError>,
    ) -> Result<(), TaskError> {
        let positions: Vec<_> = columns.iter().map(|column| self.position(*column)).collect();
        // Batches hold columns in the order of the file.
        let mut sorted = positions.clone();
        sorted.sort_unstable();
        let reader = self
            .source
            .file
            .read_row_group(self.group, &positions, None, format::batch_rows(self.metadata()))
            .map_err(|error| TaskError::reading(&error))?;
        let mut rows = 0;
        for batch in reader.into_iter().flatten() {
            let batch = batch.map_err(|error| self.failure(&error.to_string()))?;
            rows += batch.num_rows() as u64;
            let place = |position: &usize| sorted.partition_point(|other| other < position);
            let arrays = positions.iter().map(|it| Arc::clone(batch.column(place(it))));
            each(&arrays.collect::<Vec<_>>())?;
        }
        let stated = self.rows();
        if rows == stated {
            return Ok(());
        }
        let reason = format!("row group {} holds {rows} rows, but {stated} are stated", self.group);
        Err(self.failure(&reason))
    }
}

/// A failure that names its file, which is not always the first of the task.
fn failure(path: &Path, reason: &str) -> TaskError {
    TaskError::Failed(format!("{}: {reason}", path.display()))
}

/// Refuses a source whose columns are not the declared ones, in any order.
fn check_schema(found: &Schema, declared: &Schema) -> Result<(), String> {
    let mut problems = Vec::new();
    for field in declared.fields() {
        let same: Vec<_> = found.fields().iter().filter(|it| it.name() == field.name()).collect();
        let name = field.name();
        match &same[..] {
            [] => problems.push(format!("column `{name}` is missing")),
            [one] if one.data_type() != field.data_type() => {
                let (is, not) = (one.data_type(), field.data_type());
                problems.push(format!("column `{name}` is {is}, not {not}"));
            }
            [_] => {}
            _ => problems.push(format!("column `{name}` stands there twice")),
        }
    }
    for field in found.fields() {
        if declared.column_with_name(field.name()).is_none() {
            problems.push(format!("column `{}` is not expected", field.name()));
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let problems = problems.join("; ");
    Err(format!("{problems}: make the file again with the settings that hold now"))
}
