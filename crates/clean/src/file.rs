//! One file, from opening to publication.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, BooleanArray, new_null_array};
use arrow::compute::filter;
use catalog::marks::{self, SourceMark};
use io_budget::parquet::{ParquetFile, footer_start};
use parquet::arrow::add_encoded_arrow_schema_to_metadata;
use parquet::arrow::arrow_writer::ArrowColumnChunk;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedFileWriter;
use stage::work::{Made, Task, TaskError};
use stage::{Error, Session, files, format};

use crate::copying::{Copier, Failure};
use crate::encoding::Chunks;
use crate::groups::{Changes, for_each_batch, rows_of};
use crate::layout::{Layout, Origin, OutputColumn, root};
use crate::steps::Steps;

/// Rows of an array of nulls.
const NULL_ROWS: usize = 16_384;

/// Cleans files, one after another or several at once.
#[derive(Debug)]
pub(crate) struct Cleaner<'a> {
    session: &'a Session,
    /// What was warned of already: thousands of files may lack the same column.
    said: Mutex<HashSet<String>>,
}

impl<'a> Cleaner<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        Self { session, said: Mutex::default() }
    }

    /// Makes the output of a task.
    pub(crate) fn clean(&self, task: &Task) -> Result<Made, TaskError> {
        let [input] = &task.inputs[..] else {
            return Err(Error::Internal("a cleaned file has one source".into()).into());
        };
        let steps = Steps::of(self.session, task.dataset)
            .ok_or_else(|| Error::Internal("no step is active".into()))?;
        let want = files::want_all_rows(input.stat.size);
        let source = ParquetFile::open(&self.session.budget, &input.path, want)
            .map_err(|error| TaskError::reading(&error))?;
        files::check_dataset(&source, task.dataset).map_err(TaskError::Failed)?;
        if source.key_value(marks::STAGE) == Some("clean") {
            self.warn_once("files are cleaned already and are cleaned again, such as", &input.path);
        }
        let layout = Layout::of(&source, task.dataset, &steps).map_err(TaskError::Failed)?;
        for name in &layout.not_required {
            let dataset = task.dataset;
            let message = format!("files of {dataset} lack the required column {name}, such as");
            self.warn_once(&message, &input.path);
        }

        let output = task.output_path();
        let mut staged = self.session.budget.stage_within(&task.directory, &output);
        let mut notes = format::notes("clean", task.dataset, task.feed, &task.fingerprint);
        notes.push((marks::STEPS, steps.note()?));
        let writing = Writing { source: &source, layout: &layout, output: &output };
        let written = writing.write(&mut staged, task, &notes, &input.name)?;
        let published = staged.publish().map_err(TaskError::writing)?;

        let mut counts = layout.counts;
        for (name, count) in [
            ("dates of 1920 repaired", written.repaired),
            ("rows dropped, null in a required column", source.rows() - written.rows),
        ] {
            if count > 0 {
                counts.insert(name.to_owned(), count);
            }
        }
        Ok(Made {
            published,
            rows: written.rows,
            rows_by_input: vec![written.rows],
            rows_read: source.rows(),
            rejected: 0,
            blank: 0,
            is_empty_upstream: source.rows() == 0,
            footer_start: footer_start(&written.metadata),
            key_ranges: format::key_ranges(task.dataset, &written.metadata),
            counts,
            parts: Vec::new(),
        })
    }

    fn warn_once(&self, message: &str, path: &Path) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.insert(message.to_owned()) {
            self.session.printer.warn(format!("{message} {}", path.display()));
        }
    }
}

/// What was written.
struct Written {
    rows: u64,
    repaired: u64,
    metadata: ParquetMetaData,
}

/// A cleaned file under construction.
struct Writing<'a> {
    source: &'a ParquetFile,
    layout: &'a Layout,
    output: &'a Path,
}

impl Writing<'_> {
    fn write<W: Write + Send>(
        &self,
        staged: &mut W,
        task: &Task,
        notes: &[(&str, String)],
        name: &str,
    ) -> Result<Written, TaskError> {
        let encoding = |error| TaskError::encoding(self.output, error);
        let mut properties = format::writer_properties(task.dataset, notes);
        add_encoded_arrow_schema_to_metadata(&self.layout.schema(), &mut properties);
        let properties = Arc::new(properties);
        let all: Vec<_> = self.layout.columns.iter().collect();
        let root = root(&all).map_err(encoding)?;
        let mut writer =
            SerializedFileWriter::new(staged, root, Arc::clone(&properties)).map_err(encoding)?;
        let (mut rows, mut repaired) = (0, 0);
        for group in 0..self.source.metadata().num_row_groups() {
            let changes = Changes::find(self.source, group, self.layout)?;
            let kept = changes.rows_kept(rows_of(self.source.metadata().row_group(group)));
            if kept > 0 {
                self.write_group(&mut writer, &properties, group, &changes)?;
            }
            rows += kept as u64;
            repaired += changes.repaired() as u64;
        }
        let mark = SourceMark { name: name.to_owned(), rows };
        let sources =
            serde_json::to_string(&[mark]).map_err(|error| Error::Internal(error.to_string()))?;
        writer.append_key_value_metadata(KeyValue::new(marks::SOURCES.to_owned(), sources));
        let metadata = writer.close().map_err(encoding)?;
        Ok(Written { rows, repaired, metadata })
    }

    fn write_group<W: Write + Send>(
        &self,
        writer: &mut SerializedFileWriter<W>,
        properties: &WriterPropertiesPtr,
        group: usize,
        changes: &Changes,
    ) -> Result<(), TaskError> {
        let encoding = |error| TaskError::encoding(self.output, error);
        let origins: Vec<_> =
            self.layout.columns.iter().map(|column| copied_chunk(column, changes)).collect();
        let of_columns = self.layout.columns.iter().zip(&origins);
        let encoded: Vec<_> =
            of_columns.filter(|(_, copied)| copied.is_none()).map(|(column, _)| column).collect();
        let mut chunks = self.encode(&encoded, properties, group, changes)?.into_iter();
        let mut copier = Copier::new(self.source, group, origins.iter().copied().flatten());
        let mut output = writer.next_row_group().map_err(encoding)?;
        for origin in origins {
            match origin {
                Some(_) => copier.append_next(&mut output).map_err(|failure| match failure {
                    Failure::Reading(error) => TaskError::reading(&error),
                    Failure::Source(reason) => TaskError::Failed(reason),
                    Failure::Writing(error) => encoding(error),
                })?,
                None => match chunks.next() {
                    Some(chunk) => chunk.append_to_row_group(&mut output).map_err(encoding)?,
                    None => return Err(Error::Internal("a column was not encoded".into()).into()),
                },
            }
        }
        output.close().map_err(encoding)?;
        Ok(())
    }

    /// Decodes what these columns are made of, a batch at a time, and makes their chunks.
    fn encode(
        &self,
        columns: &[&OutputColumn],
        properties: &WriterPropertiesPtr,
        group: usize,
        changes: &Changes,
    ) -> Result<Vec<ArrowColumnChunk>, TaskError> {
        let encoding = |error| TaskError::encoding(self.output, error);
        let mut chunks = Chunks::begin(columns, properties).map_err(encoding)?;
        let positions: Vec<_> = match (&changes.wrong, &changes.kept) {
            (None, None) => {
                columns.iter().filter_map(|column| column.origin.unrepaired()).collect()
            }
            _ => columns.iter().flat_map(|column| column.origin.sources()).collect(),
        };
        if positions.is_empty() {
            let mut left = changes.rows_kept(rows_of(self.source.metadata().row_group(group)));
            while left > 0 {
                let rows = left.min(NULL_ROWS);
                let nulls = |column: &&OutputColumn| new_null_array(column.field.data_type(), rows);
                chunks.write(&columns.iter().map(nulls).collect::<Vec<_>>()).map_err(encoding)?;
                left -= rows;
            }
            return chunks.finish().map_err(encoding);
        }
        for_each_batch(self.source, group, positions, |first, rows| {
            let wrong = changes.wrong.as_ref().map(|wrong| wrong.slice(first, rows.count()));
            let kept = changes.kept.as_ref().map(|kept| kept.slice(first, rows.count()));
            let kept = kept.map(BooleanArray::from);
            let values = |column: &&OutputColumn| -> Result<ArrayRef, TaskError> {
                let values = column.origin.values(column.field.data_type(), rows, wrong.as_ref());
                values
                    .and_then(|values| match &kept {
                        Some(kept) => filter(&values, kept),
                        None => Ok(values),
                    })
                    .map_err(|error| TaskError::reading(&error))
            };
            let arrays = columns.iter().map(values).collect::<Result<Vec<_>, _>>()?;
            chunks.write(&arrays).map_err(encoding)
        })?;
        chunks.finish().map_err(encoding)
    }
}

/// The column of the source whose chunk is this column's, unless rows of it change.
fn copied_chunk(column: &OutputColumn, changes: &Changes) -> Option<usize> {
    let is_repaired = changes.wrong.is_some() && !matches!(column.origin, Origin::Source(_));
    column.copy_of.filter(|_| changes.kept.is_none() && !is_repaired)
}
