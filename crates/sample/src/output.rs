//! Writes the sample: which columns, and the file.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use catalog::Dataset;
use io_budget::Published;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use stage::{Error, Session};

use crate::columns::{self, DeclaredColumn};
use crate::fetch::BATCH_ROWS;
use crate::population::PopulationFile;

/// The columns of a sample of which none were named: those of the codebook that conversion
/// keeps, or where the files are cleaned those that the cleaning settings keep and add. No file is opened for it.
pub(crate) fn all_columns(
    session: &Session,
    dataset: Dataset,
    files: &[PopulationFile],
) -> Vec<DeclaredColumn> {
    let mut columns = if files.iter().any(|file| file.cleaned) {
        columns::of_cleaned(dataset, &session.settings.clean(dataset))
    } else {
        columns::declared(dataset)
    };
    let dropped = session.settings.convert.of(dataset).dropped_columns(dataset);
    columns.retain(|column| !dropped.contains(&column.name));
    columns
}

/// Writes the batches that `produce` hands on to a file that appears when all went well. Its bytes
/// do not depend on how the rows came in batches.
///
/// # Errors
///
/// Those of `produce`; [`Error::Io`] when the storage fails.
pub(crate) fn write(
    session: &Session,
    path: &Path,
    properties: WriterProperties,
    schema: &SchemaRef,
    produce: impl FnOnce(&mut dyn FnMut(RecordBatch) -> Result<(), Error>) -> Result<(), Error>,
) -> Result<Published, Error> {
    let mut staged = session.budget.stage(path);
    let mut writer = ArrowWriter::try_new(&mut staged, Arc::clone(schema), Some(properties))
        .map_err(|error| Error::encoding(path, error))?;
    let mut coalescer = BatchCoalescer::new(Arc::clone(schema), BATCH_ROWS);
    produce(&mut |batch| {
        coalescer.push_batch(batch).map_err(|error| Error::encoding(path, error.into()))?;
        while let Some(batch) = coalescer.next_completed_batch() {
            writer.write(&batch).map_err(|error| Error::encoding(path, error))?;
        }
        Ok(())
    })?;
    coalescer.finish_buffered_batch().map_err(|error| Error::encoding(path, error.into()))?;
    while let Some(batch) = coalescer.next_completed_batch() {
        writer.write(&batch).map_err(|error| Error::encoding(path, error))?;
    }
    writer.close().map_err(|error| Error::encoding(path, error))?;
    Ok(staged.publish()?)
}
