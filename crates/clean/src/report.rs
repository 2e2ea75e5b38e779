//! What the steps would do, measured without writing anything, and what the optional ones would
//! meet.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use arrow::array::AsArray as _;
use arrow::datatypes::{DataType, Int64Type};
use arrow::row::{RowConverter, SortField};
use catalog::Dataset;
use io_budget::parquet::ParquetFile;
use stage::work::{Options, Task, TaskError, add_codes};
use stage::{Error, Failure, Session, Summary, pool};

use crate::changes::Changes;
use crate::codes::CodeAudit;
use crate::file::{Cleaner, counts};
use crate::geo::{self, Points};
use crate::rows::{for_each_batch, rows_of};
use crate::steps::text::is_padded;

/// Measures the files of the tasks and adds what was found to the summary.
pub(crate) fn measure(
    session: &Session,
    cleaner: &Cleaner<'_>,
    tasks: Vec<Task>,
    options: &Options,
    summary: &mut Summary,
) -> Result<(), Error> {
    summary.files.planned = tasks.len() as u64;
    let bar = session.printer.start_bar(tasks.len() as u64, "files");
    let measured = |task: Task| {
        let go_on = session.interrupt.check().map_err(TaskError::Stop);
        let found = go_on.and_then(|()| Measured::of(cleaner, &task));
        (task, found)
    };
    pool::map_ordered(options.jobs, tasks, measured, |(task, found)| {
        bar.advance(1);
        match found {
            Ok(found) => {
                summary.files.made += 1;
                summary.rows.read += found.rows_read;
                summary.rows.written += found.rows;
                for (name, count) in found.counts {
                    *summary.counts.entry(name).or_default() += count;
                }
                add_codes(&mut summary.unknown_codes, &found.codes.unknown);
                Ok(())
            }
            Err(TaskError::Failed(reason)) => {
                let file = task.inputs.first().map(|input| input.path.clone());
                summary.files.failed += 1;
                summary.failures.push(Failure::new(file.unwrap_or_default(), reason));
                Ok(())
            }
            Err(TaskError::Stop(error)) => Err(error),
        }
    })
}

/// What was found in a file.
#[derive(Default)]
struct Measured {
    rows_read: u64,
    rows: u64,
    counts: BTreeMap<String, u64>,
    codes: CodeAudit,
}

impl Measured {
    fn of(cleaner: &Cleaner<'_>, task: &Task) -> Result<Self, TaskError> {
        let source = cleaner.open(task)?;
        let checked = cleaner.check(task, &source)?;
        let mut found = Self { rows_read: source.rows(), ..Self::default() };
        let mut of_steps = BTreeMap::new();
        for group in 0..source.metadata().num_row_groups() {
            let dictionaries = checked.dictionaries(group)?;
            found.codes.add(&source, group, &checked.coded, &dictionaries)?;
            let (layout, rules) = (&checked.layout, checked.rules());
            let changes = Changes::find(&source, group, layout, rules, &dictionaries)?;
            found.rows += changes.rows_kept(rows_of(source.metadata().row_group(group))) as u64;
            for (name, count) in changes.counts {
                *of_steps.entry(name).or_default() += count;
            }
        }
        for (name, count) in Oddities::of(&source, task.dataset)?.named() {
            if count > 0 {
                of_steps.insert(name, count);
            }
        }
        // The columns with padded codes are among those of all text.
        found.counts = counts(&checked.layout, of_steps, std::mem::take(&mut found.codes.padded));
        Ok(found)
    }
}

/// What optional steps, or a reader, would stumble over.
#[derive(Default)]
struct Oddities {
    padded: u64,
    blank: u64,
    zero_without_id: u64,
    zero_with_id: u64,
    damaged_names: u64,
    repeated_ids: u64,
    repeated_rows: u64,
}

impl Oddities {
    fn of(file: &ParquetFile, dataset: Dataset) -> Result<Self, TaskError> {
        let fields = file.schema().fields();
        let is_text = |at: &usize| *fields[*at].data_type() == DataType::Utf8;
        let all: Vec<usize> = (0..fields.len()).collect();
        let texts: Vec<usize> = all.iter().copied().filter(is_text).collect();
        let roles = geo::roles(file);
        // An id of Mentions stands in many rows; it is the event's.
        let has_ids = matches!(dataset, Dataset::Events | Dataset::Events15Min);
        let id = dataset.columns().first().and_then(|column| file.column(column.name));
        let id = id.filter(|_| has_ids);
        let sorts = fields.iter().map(|field| SortField::new(field.data_type().clone()));
        let failed = |error| TaskError::reading(&error);
        let converter = RowConverter::new(sorts.collect()).map_err(failed)?;
        let hashers = [RandomState::new(), RandomState::new()];
        let (mut ids, mut seen) = (HashSet::new(), HashSet::new());
        let mut found = Self::default();
        for group in 0..file.metadata().num_row_groups() {
            for_each_batch(file, group, all.clone(), |_, rows| {
                for &column in &texts {
                    for value in rows.column(column).as_string::<i32>().iter().flatten() {
                        let is_blank = value.trim().is_empty();
                        found.blank += u64::from(is_blank);
                        found.padded += u64::from(!is_blank && is_padded(value));
                    }
                }
                for role in &roles {
                    found.add_points(&role.read(|at| rows.column(at).clone()));
                }
                if let Some(id) = id {
                    for id in rows.column(id).as_primitive::<Int64Type>().iter().flatten() {
                        found.repeated_ids += u64::from(!ids.insert(id));
                    }
                }
                let columns: Vec<_> = all.iter().map(|at| rows.column(*at).clone()).collect();
                let whole = converter.convert_columns(&columns).map_err(failed)?;
                for row in &whole {
                    let hash = hashers.each_ref().map(|hasher| hasher.hash_one(row.as_ref()));
                    found.repeated_rows += u64::from(!seen.insert(hash));
                }
                Ok(())
            })?;
        }
        Ok(found)
    }

    fn add_points(&mut self, points: &Points) {
        for row in 0..points.count() {
            if points.written_location(row) == Some((0.0, 0.0)) {
                let counter = if points.point(row).has_no_id() {
                    &mut self.zero_without_id
                } else {
                    &mut self.zero_with_id
                };
                *counter += 1;
            }
            self.damaged_names += u64::from(points.name(row).is_some_and(geo::is_damaged));
        }
    }

    fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("text values with white space around them", self.padded),
            ("blank text values", self.blank),
            ("points at (0, 0) without an id", self.zero_without_id),
            ("points at (0, 0) with an id", self.zero_with_id),
            ("place names damaged", self.damaged_names),
            ("event ids that stood in the file before", self.repeated_ids),
            ("rows equal to one before in the file", self.repeated_rows),
        ]
    }
}
