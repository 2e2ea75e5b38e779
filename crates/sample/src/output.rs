//! Writes the sample: which columns, and the file.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{Metadata, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_ipc::writer::FileWriter;
use catalog::Dataset;
use io_budget::Published;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use stage::{Error, Session};

use crate::columns::{self, DeclaredColumn};
use crate::export::{Deliver, Format, csv};
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

/// Writes the batches that `produce` delivers to a file that appears when all went well. Its bytes
/// do not depend on how the rows came in batches.
///
/// # Errors
///
/// Those of `produce`; [`Error::Io`] when the storage fails.
pub(crate) fn write(
    session: &Session,
    path: &Path,
    format: Format,
    properties: WriterProperties,
    schema: &SchemaRef,
    produce: impl FnOnce(&mut Deliver<'_>) -> Result<(), Error> + Send,
) -> Result<Published, Error> {
    let notes = properties.key_value_metadata().cloned().unwrap_or_default();
    match format {
        Format::Parquet => write_parquet(session, path, properties, schema, produce),
        Format::Csv => csv::write(&session.budget, session.jobs(), path, schema, &notes, produce),
        Format::Arrow => write_arrow(session, path, schema, notes, produce),
    }
}

fn write_parquet(
    session: &Session,
    path: &Path,
    properties: WriterProperties,
    schema: &SchemaRef,
    produce: impl FnOnce(&mut Deliver<'_>) -> Result<(), Error>,
) -> Result<Published, Error> {
    let mut staged = session.budget.stage(path);
    let failed = |error| Error::encoding(path, error);
    let mut writer =
        ArrowWriter::try_new(&mut staged, Arc::clone(schema), Some(properties)).map_err(failed)?;
    in_whole_batches(path, schema, produce, |batch| writer.write(batch).map_err(failed))?;
    writer.close().map_err(failed)?;
    Ok(staged.publish()?)
}

/// Writes Arrow's file format, whose schema has the notes.
fn write_arrow(
    session: &Session,
    path: &Path,
    schema: &SchemaRef,
    notes: Vec<KeyValue>,
    produce: impl FnOnce(&mut Deliver<'_>) -> Result<(), Error>,
) -> Result<Published, Error> {
    let notes = notes.into_iter().filter_map(|note| Some((note.key, note.value?)));
    let with_notes = Schema::clone(schema).with_metadata(notes.collect::<Metadata>());
    let mut staged = session.budget.stage(path);
    let failed = |error| match error {
        ArrowError::IoError(_, source) => io_budget::Error::new("write", path, source).into(),
        other => Error::encoding(path, other.into()),
    };
    let mut writer = FileWriter::try_new(&mut staged, &with_notes).map_err(failed)?;
    in_whole_batches(path, schema, produce, |batch| writer.write(batch).map_err(failed))?;
    writer.finish().map_err(failed)?;
    drop(writer);
    Ok(staged.publish()?)
}

/// Hands on what `produce` delivers in batches of [`BATCH_ROWS`], the last excepted.
fn in_whole_batches(
    path: &Path,
    schema: &SchemaRef,
    produce: impl FnOnce(&mut Deliver<'_>) -> Result<(), Error>,
    mut write: impl FnMut(&RecordBatch) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |error: ArrowError| Error::encoding(path, error.into());
    let mut coalescer = BatchCoalescer::new(Arc::clone(schema), BATCH_ROWS);
    produce(&mut |batch| {
        coalescer.push_batch(batch).map_err(failed)?;
        while let Some(batch) = coalescer.next_completed_batch() {
            write(&batch)?;
        }
        Ok(())
    })?;
    coalescer.finish_buffered_batch().map_err(failed)?;
    while let Some(batch) = coalescer.next_completed_batch() {
        write(&batch)?;
    }
    Ok(())
}
