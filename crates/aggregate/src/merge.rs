//! One output: the rows of its sources, one after another.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use catalog::marks::{self, SourceMark};
use catalog::{AggregatePeriod, Column, ParquetName, Period};
use io_budget::StagedFile;
use io_budget::parquet::{ParquetFile, footer_start};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use serde::Serialize;
use stage::work::{Input, Made, Task, TaskError};
use stage::{Error, Session, files, format};

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
) -> Result<Made, TaskError> {
    let slots = task.inputs.len() as u64;
    let note = Note { period: length, slots, slots_of_a_full_period: full_slots(task.period) };
    let steps = serde_json::to_string(&note).map_err(|error| Error::Internal(error.to_string()))?;
    let mut notes = format::notes("aggregate", task.dataset, task.feed, &task.fingerprint);
    notes.push((marks::STEPS, steps));
    let mut staged = session.budget.stage_within(&task.directory, &task.output_path());
    let (rows_by_input, metadata) = write(session, task, &mut staged, &notes)?;
    let published = staged.publish().map_err(TaskError::writing)?;

    let mut counts = BTreeMap::new();
    if slots < note.slots_of_a_full_period {
        counts.insert(String::from("periods with missing slots"), 1);
    }
    let rows = rows_by_input.iter().sum();
    Ok(Made {
        published,
        rows,
        rows_by_input,
        rows_read: rows,
        rejected: 0,
        blank: 0,
        is_empty_upstream: rows == 0,
        footer_start: footer_start(&metadata),
        key_ranges: format::key_ranges(task.dataset, &metadata),
        counts,
        parts: Vec::new(),
    })
}

/// Slots of a period that has them all.
fn full_slots(period: Period) -> u64 {
    let days = (period.last_day() - period.first_day()).num_days() + 1;
    SLOTS_PER_DAY * u64::try_from(days).unwrap_or(0)
}

/// Writes the rows of all sources; returns how many each gave.
fn write(
    session: &Session,
    task: &Task,
    staged: &mut StagedFile,
    notes: &[(&str, String)],
) -> Result<(Vec<u64>, ParquetMetaData), TaskError> {
    let output = task.output_path();
    let encoding = |error| TaskError::encoding(&output, error);
    let schema = declared(session, task);
    let properties = format::writer_properties(task.dataset, notes);
    let mut writer =
        ArrowWriter::try_new(staged, Arc::clone(&schema), Some(properties)).map_err(encoding)?;
    let mut rows_by_input = Vec::with_capacity(task.inputs.len());
    for input in &task.inputs {
        session.interrupt.check()?;
        let write = |batch: &RecordBatch| writer.write(batch).map_err(encoding);
        rows_by_input.push(read(session, task, input, &schema, write)?);
    }
    let marks = task.inputs.iter().zip(&rows_by_input);
    let marks: Vec<_> =
        marks.map(|(input, rows)| SourceMark { name: input.name.clone(), rows: *rows }).collect();
    let sources =
        serde_json::to_string(&marks).map_err(|error| Error::Internal(error.to_string()))?;
    writer.append_key_value_metadata(KeyValue::new(marks::SOURCES.to_owned(), sources));
    let metadata = writer.close().map_err(encoding)?;
    Ok((rows_by_input, metadata))
}

/// The schema that every source must have: as the catalog declares it or, for cleaned files, as
/// the settings of cleaning shape it.
fn declared(session: &Session, task: &Task) -> SchemaRef {
    let is_cleaned = |input: &Input| {
        ParquetName::parse(task.dataset, &input.name).is_some_and(|name| name.cleaned)
    };
    let columns = if task.inputs.iter().any(is_cleaned) {
        session.settings.clean(task.dataset).output_columns(task.dataset)
    } else {
        task.dataset.columns().to_vec()
    };
    let field = |column: &Column| Field::new(column.name, column.column_type.data_type(), true);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Reads one source and hands its rows on, in batches bounded in bytes; returns how many it has.
fn read(
    session: &Session,
    task: &Task,
    input: &Input,
    schema: &SchemaRef,
    mut write: impl FnMut(&RecordBatch) -> Result<(), TaskError>,
) -> Result<u64, TaskError> {
    let want = files::want_all_rows(input.stat.size);
    let file = ParquetFile::open(&session.budget, &input.path, want)
        .map_err(|error| TaskError::reading(&error))?;
    let failed = |reason: String| TaskError::Failed(about(&input.path, &reason));
    files::check_dataset(&file, task.dataset).map_err(failed)?;
    check_schema(file.schema(), schema).map_err(failed)?;
    // Positions in a batch, which holds columns in file order, by position in the output.
    let order: Vec<_> =
        schema.fields().iter().filter_map(|field| file.column(field.name())).collect();
    let all: Vec<_> = (0..file.schema().fields().len()).collect();
    let damaged = |error: arrow::error::ArrowError| failed(error.to_string());
    let mut rows = 0;
    for group in 0..file.metadata().num_row_groups() {
        let batch_rows = format::batch_rows(file.metadata().row_group(group));
        let reader = file
            .read_row_group(group, &all, None, batch_rows)
            .map_err(|error| TaskError::reading(&error))?;
        for batch in reader.into_iter().flatten() {
            let batch = batch.map_err(damaged)?;
            let columns = order.iter().map(|at| Arc::clone(batch.column(*at))).collect();
            write(&RecordBatch::try_new(Arc::clone(schema), columns).map_err(damaged)?)?;
            rows += batch.num_rows() as u64;
        }
    }
    if rows == file.rows() {
        Ok(rows)
    } else {
        Err(failed(format!("it holds {rows} rows, but its footer says {}", file.rows())))
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
