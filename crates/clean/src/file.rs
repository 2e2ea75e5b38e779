//! One file, from opening to what is to be published.

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
use stage::work::{Crew, FileFacts, Made, MadeFile, Tally, Task, TaskError};
use stage::{Error, Session, files, format, pool};

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

    /// Opens the source of a task.
    pub(crate) fn open(&self, task: &Task) -> Result<ParquetFile, TaskError> {
        let [input] = &task.inputs[..] else {
            return Err(Error::Internal("a cleaned file has one source".into()).into());
        };
        files::open_listed(self.session, input).map_err(|error| TaskError::reading(&error))
    }

    /// Makes the output of a task.
    pub(crate) fn clean(
        &self,
        task: &Task,
        source: &ParquetFile,
        crew: Crew<'_>,
    ) -> Result<Made, TaskError> {
        let steps = Steps::of(self.session, task.dataset)
            .ok_or_else(|| Error::Internal("no step is active".into()))?;
        files::check_dataset(source, task.dataset).map_err(TaskError::Failed)?;
        if source.key_value(marks::STAGE) == Some("clean") {
            let path = source.path();
            self.warn_once("files are cleaned already and are cleaned again, such as", path);
        }
        let layout = Layout::of(source, task.dataset, &steps).map_err(TaskError::Failed)?;
        for name in &layout.not_required {
            let dataset = task.dataset;
            let message = format!("files of {dataset} lack the required column {name}, such as");
            self.warn_once(&message, source.path());
        }

        let output = task.output_path();
        let mut staged = self.session.budget.stage_within(&task.directory, &output);
        let mut notes = format::notes("clean", task.dataset, task.feed, &task.fingerprint);
        notes.push((marks::STEPS, steps.note()?));
        let writing = Writing { source, layout: &layout, output: &output };
        let written = writing.write(&mut staged, task, &notes, crew)?;

        let mut counts = layout.counts;
        for (name, count) in [
            ("dates of 1920 repaired", written.repaired),
            ("rows dropped, null in a required column", source.rows() - written.rows),
        ] {
            if count > 0 {
                counts.insert(name.to_owned(), count);
            }
        }
        let facts = FileFacts {
            output: task.output.clone(),
            rows: written.rows,
            footer_start: footer_start(&written.metadata),
            key_ranges: format::key_ranges(task.dataset, &written.metadata),
        };
        let tally = Tally {
            rows_by_input: vec![written.rows],
            rows_read: source.rows(),
            is_empty_upstream: source.rows() == 0,
            counts,
            ..Tally::default()
        };
        Ok(Made { files: vec![MadeFile { staged, facts }], tally })
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

/// A row group whose steps are done and which is not written yet.
struct Prepared {
    group: usize,
    changes: Changes,
    rows_kept: usize,
    /// For each output column the column of the source whose chunk is copied, if it is.
    copied: Vec<Option<usize>>,
    /// The chunks of the others.
    encoded: Vec<ArrowColumnChunk>,
}

impl Writing<'_> {
    /// Writes all row groups; several are prepared at once where the crew has threads to spare.
    fn write<W: Write + Send>(
        &self,
        staged: &mut W,
        task: &Task,
        notes: &[(&str, String)],
        crew: Crew<'_>,
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
        let groups = 0..self.source.metadata().num_row_groups();
        let prepare = |group| self.prepare(group, &properties);
        pool::map_ordered(crew.threads(), groups, prepare, |prepared| {
            let prepared: Prepared = prepared?;
            rows += prepared.rows_kept as u64;
            repaired += prepared.changes.repaired() as u64;
            if prepared.rows_kept > 0 { self.write_group(&mut writer, prepared) } else { Ok(()) }
        })?;
        let name = self.source.path().file_name().unwrap_or_default().to_string_lossy();
        let mark = SourceMark { name: name.into_owned(), rows };
        let sources =
            serde_json::to_string(&[mark]).map_err(|error| Error::Internal(error.to_string()))?;
        writer.append_key_value_metadata(KeyValue::new(marks::SOURCES.to_owned(), sources));
        let metadata = writer.close().map_err(encoding)?;
        Ok(Written { rows, repaired, metadata })
    }

    fn prepare(
        &self,
        group: usize,
        properties: &WriterPropertiesPtr,
    ) -> Result<Prepared, TaskError> {
        let changes = Changes::find(self.source, group, self.layout)?;
        let rows_kept = changes.rows_kept(rows_of(self.source.metadata().row_group(group)));
        let copied: Vec<_> =
            self.layout.columns.iter().map(|column| copied_chunk(column, &changes)).collect();
        let of_columns = self.layout.columns.iter().zip(&copied);
        let anew: Vec<_> =
            of_columns.filter(|(_, copied)| copied.is_none()).map(|(column, _)| column).collect();
        let encoded = if rows_kept > 0 {
            self.encode(&anew, properties, group, &changes)?
        } else {
            Vec::new()
        };
        Ok(Prepared { group, changes, rows_kept, copied, encoded })
    }

    fn write_group<W: Write + Send>(
        &self,
        writer: &mut SerializedFileWriter<W>,
        prepared: Prepared,
    ) -> Result<(), TaskError> {
        let encoding = |error| TaskError::encoding(self.output, error);
        let Prepared { group, copied, encoded, .. } = prepared;
        let mut chunks = encoded.into_iter();
        let mut copier = Copier::new(self.source, group, copied.iter().copied().flatten());
        let mut output = writer.next_row_group().map_err(encoding)?;
        for origin in copied {
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
