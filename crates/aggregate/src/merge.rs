//! One output: the rows of its sources, one after another.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use catalog::marks::{self, SourceMark};
use catalog::{AggregatePeriod, Column, ParquetName, Period};
use io_budget::StagedFile;
use io_budget::parquet::{ParquetFile, footer_start};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::{KeyValue, ParquetMetaData, RowGroupMetaData};
use serde::Serialize;
use stage::pool::{self, Threads, Window};
use stage::work::{Crew, FileFacts, Input, Made, MadeFile, Tally, Task, TaskError};
use stage::{Error, Session, files, format};

/// Sources of one period that are read at once, at most.
const READERS: usize = 4;
/// Bytes of sources that are read ahead, and of rows that are decoded ahead.
const AHEAD_BYTES: u64 = 64 << 20;

/// Files of a day that has them all.
const SLOTS_PER_DAY: u64 = 96;

/// What is noted of the work.
#[derive(Serialize)]
struct Note {
    period: AggregatePeriod,
    slots: u64,
    slots_of_a_full_period: u64,
}

/// Makes the output of a task.
pub(crate) fn merge(
    session: &Session,
    task: &Task,
    length: AggregatePeriod,
    crew: Crew<'_>,
) -> Result<Made, TaskError> {
    let slots = task.inputs.len() as u64;
    let note = Note { period: length, slots, slots_of_a_full_period: full_slots(task.period) };
    let steps = serde_json::to_string(&note).map_err(|error| Error::Internal(error.to_string()))?;
    let mut notes = format::notes("aggregate", task.dataset, task.feed, &task.fingerprint);
    notes.push((marks::STEPS, steps));
    let mut staged = session.budget.stage_within(&task.directory, &task.output_path());
    let (rows_by_input, metadata) = write(session, task, &mut staged, &notes, crew)?;

    let mut counts = BTreeMap::new();
    if slots < note.slots_of_a_full_period {
        counts.insert(String::from("periods with missing slots"), 1);
    }
    let rows = rows_by_input.iter().sum();
    let facts = FileFacts {
        output: task.output.clone(),
        rows,
        footer_start: footer_start(&metadata),
        key_ranges: format::key_ranges(task.dataset, &metadata),
    };
    let tally = Tally {
        rows_by_input,
        rows_read: rows,
        is_empty_upstream: rows == 0,
        counts,
        ..Tally::default()
    };
    Ok(Made { files: vec![MadeFile { staged, facts }], tally })
}

/// Slots of a period that has them all.
fn full_slots(period: Period) -> u64 {
    let days = (period.last_day() - period.first_day()).num_days() + 1;
    SLOTS_PER_DAY * u64::try_from(days).unwrap_or(0)
}

/// Writes the rows of all sources; returns how many each gave. Sources are read ahead; where the
/// crew has threads to spare their row groups are decoded side by side.
fn write(
    session: &Session,
    task: &Task,
    staged: &mut StagedFile,
    notes: &[(&str, String)],
    crew: Crew<'_>,
) -> Result<(Vec<u64>, ParquetMetaData), TaskError> {
    let output = task.output_path();
    let encoding = |error| TaskError::encoding(&output, error);
    let schema = declared(session, task);
    let properties = format::writer_properties(task.dataset, notes);
    let mut writer =
        ArrowWriter::try_new(staged, Arc::clone(&schema), Some(properties)).map_err(encoding)?;
    let mut rows_by_input = vec![0; task.inputs.len()];
    let first = task.inputs.first().map(|input| input.path.as_path());
    let readers = session.reader_threads(first).min(READERS);
    let read = Threads {
        name: "reader",
        number: readers,
        window: Window { items: readers + 1, bytes: AHEAD_BYTES },
    };
    let decoders = crew.threads().get();
    let decode = Threads {
        name: "decoder",
        number: decoders,
        window: Window { items: decoders + 1, bytes: AHEAD_BYTES },
    };
    thread::scope(|scope| {
        let open = |number: usize| {
            session.interrupt.check()?;
            let opened = Opened::open(session, task, &task.inputs[number], &schema)?;
            Ok((number, Arc::new(opened)))
        };
        let weight = |number: &usize| task.inputs[*number].stat.size;
        let opened = pool::map(scope, read, 0..task.inputs.len(), weight, open);
        let pieces = opened.flat_map(|opened: Result<_, TaskError>| match opened {
            Ok((number, opened)) => Opened::pieces(number, &opened),
            Err(error) => vec![Err(error)],
        });
        let mut write = |piece: &Piece, batch: &RecordBatch| {
            rows_by_input[piece.number] += batch.num_rows() as u64;
            writer.write(batch).map_err(encoding)
        };
        if decoders == 1 {
            for piece in pieces {
                let piece = piece?;
                piece.decode(&schema, |batch| write(&piece, &batch))?;
            }
            return Ok(());
        }
        let decoded = |piece: Result<Piece, TaskError>| {
            let (piece, mut batches) = (piece?, Vec::new());
            piece.decode(&schema, |batch| {
                batches.push(batch);
                Ok(())
            })?;
            Ok::<_, TaskError>((piece, batches))
        };
        let weight = |piece: &Result<Piece, _>| piece.as_ref().map_or(0, Piece::decoded_bytes);
        for decoded in pool::map(scope, decode, pieces, weight, decoded) {
            let (piece, batches) = decoded?;
            batches.iter().try_for_each(|batch| write(&piece, batch))?;
        }
        Ok::<_, TaskError>(())
    })?;
    let marks = task.inputs.iter().zip(&rows_by_input);
    let marks: Vec<_> =
        marks.map(|(input, rows)| SourceMark { name: input.name.clone(), rows: *rows }).collect();
    let sources =
        serde_json::to_string(&marks).map_err(|error| Error::Internal(error.to_string()))?;
    writer.append_key_value_metadata(KeyValue::new(marks::SOURCES.to_owned(), sources));
    let metadata = writer.close().map_err(encoding)?;
    Ok((rows_by_input, metadata))
}

/// The schema that every source must have: as the settings of conversion and, for cleaned files,
/// of cleaning shape it.
fn declared(session: &Session, task: &Task) -> SchemaRef {
    let is_cleaned = |input: &Input| {
        ParquetName::parse(task.dataset, &input.name).is_some_and(|name| name.cleaned)
    };
    if task.inputs.iter().any(is_cleaned) {
        return Arc::new(session.settings.cleaned_schema(task.dataset));
    }
    let columns = session.settings.convert.of(task.dataset).output_columns(task.dataset);
    let field = |column: &Column| Field::new(column.name, column.column_type.data_type(), true);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// A source, open and checked.
struct Opened {
    file: ParquetFile,
    /// Positions in a batch, which holds columns in file order, by position in the output.
    order: Vec<usize>,
}

/// A row group of a source.
struct Piece {
    source: Arc<Opened>,
    /// The source's place among the inputs.
    number: usize,
    group: usize,
}

impl Opened {
    fn open(
        session: &Session,
        task: &Task,
        input: &Input,
        schema: &SchemaRef,
    ) -> Result<Self, TaskError> {
        let file =
            files::open_listed(session, input).map_err(|error| TaskError::reading(&error))?;
        let failed = |reason: String| TaskError::Failed(about(&input.path, &reason));
        files::check_dataset(&file, task.dataset).map_err(failed)?;
        check_schema(file.schema(), schema).map_err(failed)?;
        let stated = file.metadata().row_groups().iter().map(RowGroupMetaData::num_rows);
        let rows: u64 = stated.map(|rows| u64::try_from(rows).unwrap_or(0)).sum();
        if rows != file.rows() {
            let message =
                format!("its row groups hold {rows} rows, its footer says {}", file.rows());
            return Err(failed(message));
        }
        let order = schema.fields().iter().filter_map(|field| file.column(field.name())).collect();
        Ok(Self { file, order })
    }

    fn pieces(number: usize, opened: &Arc<Self>) -> Vec<Result<Piece, TaskError>> {
        let groups = 0..opened.file.metadata().num_row_groups();
        groups.map(|group| Ok(Piece { source: Arc::clone(opened), number, group })).collect()
    }
}

impl Piece {
    fn metadata(&self) -> &RowGroupMetaData {
        self.source.file.metadata().row_group(self.group)
    }

    fn decoded_bytes(&self) -> u64 {
        u64::try_from(self.metadata().total_byte_size()).unwrap_or(0)
    }

    /// Hands the rows on, in batches bounded in bytes.
    fn decode(
        &self,
        schema: &SchemaRef,
        mut take: impl FnMut(RecordBatch) -> Result<(), TaskError>,
    ) -> Result<(), TaskError> {
        let Opened { file, order } = &*self.source;
        let damaged = |error: ArrowError| TaskError::Failed(about(file.path(), &error.to_string()));
        let all: Vec<_> = (0..file.schema().fields().len()).collect();
        let batch_rows = format::batch_rows(self.metadata());
        let reader = file
            .read_row_group(self.group, &all, None, batch_rows)
            .map_err(|error| TaskError::reading(&error))?;
        let mut rows = 0;
        for batch in reader.into_iter().flatten() {
            let batch = batch.map_err(damaged)?;
            rows += i64::try_from(batch.num_rows()).unwrap_or(0);
            let columns = order.iter().map(|at| Arc::clone(batch.column(*at))).collect();
            take(RecordBatch::try_new(Arc::clone(schema), columns).map_err(damaged)?)?;
        }
        let stated = self.metadata().num_rows();
        if rows == stated {
            return Ok(());
        }
        let reason = format!("row group {} holds {rows} rows, but {stated} are stated", self.group);
        Err(TaskError::Failed(about(file.path(), &reason)))
    }
}

/// A reason that names its file, which is not always the first of the task.
fn about(path: &Path, reason: &str) -> String {
    format!("{}: {reason}", path.display())
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
