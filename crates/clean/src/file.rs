//! One file, from opening to what is to be published.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::new_null_array;
use catalog::Dataset;
use catalog::marks::{self, SourceMark};
use io_budget::parquet::{ParquetFile, footer_start};
use parquet::arrow::add_encoded_arrow_schema_to_metadata;
use parquet::arrow::arrow_writer::ArrowColumnChunk;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedFileWriter;
use stage::chunks::Chunks;
use stage::work::{Crew, FileFacts, Made, MadeFile, Tally, Task, TaskError};
use stage::{Error, Session, files, format, pool};

use crate::changes::{Changes, Rules};
use crate::codes::{CodeAudit, CodedColumn, coded_columns};
use crate::copying::{Copier, Failure};
use crate::dictionaries::Dictionaries;
use crate::layout::{Layout, OutputColumn, root};
use crate::rows::{for_each_batch, rows_of};
use crate::steps::Steps;
use crate::steps::places::Table;

/// Rows of an array of nulls.
const NULL_ROWS: usize = 16_384;

/// Cleans files, one after another or several at once.
#[derive(Debug)]
pub(crate) struct Cleaner<'a> {
    session: &'a Session,
    steps: &'a BTreeMap<Dataset, Steps>,
    /// What was warned of already: thousands of files may lack the same column.
    said: Mutex<HashSet<String>>,
    /// The tables of places, by path; read when the first file needs them.
    tables: Mutex<HashMap<PathBuf, Arc<Table>>>,
}

/// A source, looked at and found to be what its steps need.
#[derive(Debug)]
pub(crate) struct Checked<'a> {
    pub(crate) source: &'a ParquetFile,
    pub(crate) layout: Layout,
    pub(crate) coded: Vec<CodedColumn>,
    steps: &'a Steps,
    table: Option<Arc<Table>>,
}

impl Checked<'_> {
    pub(crate) fn rules(&self) -> Rules<'_> {
        Rules { steps: self.steps, table: self.table.as_deref() }
    }

    /// The dictionaries of the columns that steps and audit look at.
    pub(crate) fn dictionaries(&self, group: usize) -> Result<Dictionaries, TaskError> {
        let coded = self.coded.iter().map(CodedColumn::position);
        let texts = self.layout.texts.iter().copied();
        let columns: BTreeSet<usize> = coded.chain(texts).collect();
        Dictionaries::read(self.source, group, columns)
    }
}

impl<'a> Cleaner<'a> {
    pub(crate) fn new(session: &'a Session, steps: &'a BTreeMap<Dataset, Steps>) -> Self {
        Self { session, steps, said: Mutex::default(), tables: Mutex::default() }
    }

    /// Opens the source of a task.
    pub(crate) fn open(&self, task: &Task) -> Result<ParquetFile, TaskError> {
        let [input] = &task.inputs[..] else {
            return Err(Error::Internal("a cleaned file has one source".into()).into());
        };
        files::open_listed(self.session, input).map_err(|error| TaskError::reading(&error))
    }

    /// Looks at the source of a task.
    pub(crate) fn check<'f>(
        &'f self,
        task: &Task,
        source: &'f ParquetFile,
    ) -> Result<Checked<'f>, TaskError> {
        let steps = self
            .steps
            .get(&task.dataset)
            .ok_or_else(|| Error::Internal("no step is active".into()))?;
        files::check_dataset(source, task.dataset).map_err(TaskError::Failed)?;
        check_rows(source).map_err(TaskError::Failed)?;
        if source.key_value(marks::STAGE) == Some("clean") {
            let path = source.path();
            self.warn_once("files are cleaned already and are cleaned again, such as", path);
        }
        let layout = Layout::of(source, task.dataset, steps).map_err(TaskError::Failed)?;
        for name in &layout.not_required {
            let dataset = task.dataset;
            let message = format!("files of {dataset} lack the required column {name}, such as");
            self.warn_once(&message, source.path());
        }
        let table = steps.places_table.as_deref().map(|path| self.table(path)).transpose()?;
        Ok(Checked { source, layout, coded: coded_columns(source), steps, table })
    }

    fn table(&self, path: &Path) -> Result<Arc<Table>, Error> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = tables.get(path) {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(Table::read(&self.session.budget, path)?);
        tables.insert(path.to_owned(), Arc::clone(&table));
        Ok(table)
    }

    /// Makes the output of a task.
    pub(crate) fn clean(
        &self,
        task: &Task,
        source: &ParquetFile,
        crew: Crew<'_>,
    ) -> Result<Made, TaskError> {
        let checked = self.check(task, source)?;
        let output = task.output_path();
        let mut staged = self.session.budget.stage_within(&task.directory, &output);
        let mut notes = format::notes("clean", task.dataset, task.feed, &task.fingerprint);
        notes.push((marks::STEPS, checked.steps.note()?));
        notes.push((marks::ROWS_READ, source.rows().to_string()));
        let writing = Writing { checked: &checked, output: &output };
        let written = writing.write(&mut staged, task, &notes, crew)?;

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
            counts: counts(&checked.layout, written.counts, written.codes.padded),
            unknown_codes: written.codes.unknown,
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

/// Refuses a footer that contradicts itself about the number of rows.
fn check_rows(source: &ParquetFile) -> Result<(), String> {
    let mut rows: u64 = 0;
    for (number, group) in source.metadata().row_groups().iter().enumerate() {
        let of_group = u64::try_from(group.num_rows());
        let is_whole = group.columns().iter().all(|chunk| chunk.num_values() == group.num_rows());
        match of_group {
            Ok(of_group) if is_whole => rows = rows.saturating_add(of_group),
            _ => {
                return Err(format!(
                    "its footer contradicts itself about the rows of row group {number}: make the \
                     file again"
                ));
            }
        }
    }
    if i64::try_from(rows) == Ok(source.metadata().file_metadata().num_rows()) {
        return Ok(());
    }
    Err(format!("its row groups hold {rows} rows, its footer says otherwise: make the file again"))
}

/// All that is to be said of a file, by name.
pub(crate) fn counts(
    layout: &Layout,
    of_steps: BTreeMap<&'static str, u64>,
    padded: BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let mut counts = layout.counts.clone();
    counts.extend(of_steps.into_iter().map(|(name, count)| (name.to_owned(), count)));
    counts.extend(padded);
    counts
}

/// What was written.
struct Written {
    rows: u64,
    counts: BTreeMap<&'static str, u64>,
    codes: CodeAudit,
    metadata: ParquetMetaData,
}

/// A cleaned file under construction.
struct Writing<'a> {
    checked: &'a Checked<'a>,
    output: &'a Path,
}

/// A row group whose steps are done and which is not written yet.
struct Prepared {
    group: usize,
    rows_kept: usize,
    counts: BTreeMap<&'static str, u64>,
    codes: CodeAudit,
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
        let Checked { source, layout, .. } = self.checked;
        add_encoded_arrow_schema_to_metadata(&layout.schema(), &mut properties);
        let properties = Arc::new(properties);
        let all: Vec<_> = layout.columns.iter().collect();
        let root = root(&all).map_err(encoding)?;
        let mut writer =
            SerializedFileWriter::new(staged, root, Arc::clone(&properties)).map_err(encoding)?;
        let mut rows = 0;
        let (mut counts, mut codes) = (BTreeMap::new(), CodeAudit::default());
        let groups = 0..source.metadata().num_row_groups();
        let prepare = |group| self.prepare(group, &properties);
        pool::map_ordered(crew.threads(), groups, prepare, |prepared| {
            let mut prepared: Prepared = prepared?;
            rows += prepared.rows_kept as u64;
            for (name, count) in std::mem::take(&mut prepared.counts) {
                *counts.entry(name).or_default() += count;
            }
            codes.merge(std::mem::take(&mut prepared.codes));
            if prepared.rows_kept > 0 { self.write_group(&mut writer, prepared) } else { Ok(()) }
        })?;
        let name = source.path().file_name().unwrap_or_default().to_string_lossy();
        let mark = SourceMark { name: name.into_owned(), rows };
        let sources =
            serde_json::to_string(&[mark]).map_err(|error| Error::Internal(error.to_string()))?;
        writer.append_key_value_metadata(KeyValue::new(marks::SOURCES.to_owned(), sources));
        let metadata = writer.close().map_err(encoding)?;
        Ok(Written { rows, counts, codes, metadata })
    }

    fn prepare(
        &self,
        group: usize,
        properties: &WriterPropertiesPtr,
    ) -> Result<Prepared, TaskError> {
        let Checked { source, layout, coded, .. } = self.checked;
        let dictionaries = self.checked.dictionaries(group)?;
        let mut codes = CodeAudit::default();
        codes.add(source, group, coded, &dictionaries)?;
        let rules = self.checked.rules();
        let mut changes = Changes::find(source, group, layout, rules, &dictionaries)?;
        let counts = std::mem::take(&mut changes.counts);
        let rows_kept = changes.rows_kept(rows_of(source.metadata().row_group(group)));
        let copied: Vec<_> =
            layout.columns.iter().map(|column| changes.copied_chunk(column)).collect();
        let of_columns = layout.columns.iter().zip(&copied);
        let anew: Vec<_> =
            of_columns.filter(|(_, copied)| copied.is_none()).map(|(column, _)| column).collect();
        // Rows that are no more than a number in the footer are not written.
        if let Some(column) = copied.iter().copied().flatten().next() {
            Copier::new(source, group, [column]).check_next().map_err(|failure| match failure {
                Failure::Reading(error) => TaskError::reading(&error),
                Failure::Source(reason) => TaskError::Failed(reason),
                Failure::Writing(error) => TaskError::encoding(self.output, error),
            })?;
        }
        let encoded = if rows_kept > 0 && !anew.is_empty() {
            self.encode(&anew, properties, group, &changes)?
        } else {
            Vec::new()
        };
        Ok(Prepared { group, rows_kept, counts, codes, copied, encoded })
    }

    fn write_group<W: Write + Send>(
        &self,
        writer: &mut SerializedFileWriter<W>,
        prepared: Prepared,
    ) -> Result<(), TaskError> {
        let encoding = |error| TaskError::encoding(self.output, error);
        let Prepared { group, copied, encoded, .. } = prepared;
        let mut chunks = encoded.into_iter();
        let mut copier = Copier::new(self.checked.source, group, copied.iter().copied().flatten());
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
        let source = self.checked.source;
        let fields = columns.iter().map(|column| Arc::clone(&column.field)).collect();
        let root = root(columns).map_err(encoding)?;
        let mut chunks = Chunks::begin(fields, root, properties).map_err(encoding)?;
        let positions = changes.sources(columns);
        if positions.is_empty() {
            let mut left = changes.rows_kept(rows_of(source.metadata().row_group(group)));
            while left > 0 {
                let rows = left.min(NULL_ROWS);
                let nulls = |column: &&OutputColumn| new_null_array(column.field.data_type(), rows);
                chunks.write(&columns.iter().map(nulls).collect::<Vec<_>>()).map_err(encoding)?;
                left -= rows;
            }
            return chunks.finish().map_err(encoding);
        }
        for_each_batch(source, group, positions, |first, rows| {
            let arrays = changes
                .values(columns, rows, first, self.checked.rules())
                .map_err(|error| TaskError::reading(&error))?;
            chunks.write(&arrays).map_err(encoding)
        })?;
        chunks.finish().map_err(encoding)
    }
}
