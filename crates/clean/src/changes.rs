//! What the steps do to a row group, found by decoding the columns that decide, and what its
//! columns then hold.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, BooleanArray, BooleanBufferBuilder, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{cast, filter};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use io_budget::parquet::ParquetFile;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;
use stage::work::TaskError;

use crate::dictionaries::Dictionaries;
use crate::geo::{self, Corrections};
use crate::layout::{Layout, Origin, OutputColumn};
use crate::rows::{Rows, for_each_batch};
use crate::steps::places::{Resolution, Table};
use crate::steps::text::{Normalize, Normalized};
use crate::steps::{Steps, dates, derive, markers};

/// The steps of a dataset with the table of places, if they need it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) steps: &'a Steps,
    pub(crate) table: Option<&'a Table>,
}

/// What the steps do to a row group.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The rows whose dates are repaired, if there are any.
    wrong: Option<BooleanBuffer>,
    /// The rows that stay, if some do not.
    kept: Option<BooleanBuffer>,
    /// The columns of text that have white space to be changed.
    texts: BTreeSet<usize>,
    /// What becomes of the points of each row, for the roles in which any changes.
    points: BTreeMap<usize, Vec<Resolution>>,
    /// What the steps did, by name.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

/// Points of a row group on their way to [`Changes`].
#[derive(Default)]
struct Resolving {
    resolutions: Vec<Resolution>,
    changes: bool,
}

impl Changes {
    /// Finds them. `dictionaries` are those of the columns of codes and text.
    pub(crate) fn find(
        file: &ParquetFile,
        group: usize,
        layout: &Layout,
        rules: Rules<'_>,
        dictionaries: &Dictionaries,
    ) -> Result<Self, TaskError> {
        let mut changes = Self::default();
        if let Some(normalize) = rules.steps.normalize {
            changes.find_texts(file, group, layout, normalize, dictionaries)?;
        }
        let metadata = file.metadata().row_group(group);
        let dates = layout.dates.filter(|(day, added)| {
            let of = |column| range(metadata, column);
            dates::may_be_wrong(of(*day), of(*added))
        });
        let markers = layout.markers.into_iter().enumerate();
        let may_be_marker = markers.clone().all(|(place, column)| {
            let is = |value: &str| markers::is_of_marker(place, value);
            column.is_none_or(|column| dictionaries.may_hold(column, is))
        });
        let markers = if may_be_marker { layout.markers } else { [None; 3] };
        let required: Vec<_> = layout
            .required
            .iter()
            .filter(|(_, origin)| changes.may_be_null(metadata, origin))
            .collect();

        let mut positions: Vec<usize> =
            dates.into_iter().flat_map(|(day, added)| [day, added]).collect();
        positions.extend(markers.into_iter().flatten());
        positions.extend(layout.roles.iter().flat_map(geo::Role::columns));
        positions.extend(required.iter().flat_map(|(_, origin)| origin.sources()));
        positions.extend(day_of_event(layout));
        if positions.is_empty() {
            return Ok(changes);
        }
        let mut all_wrong = BooleanBufferBuilder::new(0);
        let mut all_kept = BooleanBufferBuilder::new(0);
        let mut points: Vec<_> = layout.roles.iter().map(|_| Resolving::default()).collect();
        let mut corrections = Corrections::default();
        let (mut marked, mut dropped, mut no_dates) = (0, 0, 0);
        for_each_batch(file, group, positions, |first, rows| {
            let wrong = match dates {
                Some((day, added)) => dates::dates_of_1920(rows.column(day), rows.column(added)),
                None => BooleanBuffer::new_unset(rows.count()),
            };
            let is_marker = {
                let columns = markers.map(|at| at.map(|at| rows.column(at).as_string::<i32>()));
                markers::rows(columns, rows.count())
            };
            marked += is_marker.count_set_bits() as u64;
            for (role, found) in layout.roles.iter().zip(&mut points) {
                let Some(table) = rules.table else { continue };
                let read = role.read(|at| changes.text(rows, at, rules.steps.normalize));
                for row in 0..read.count() {
                    let resolution = table.resolve(read.point(row));
                    found.changes |= corrections.add(table, &read, row, resolution);
                    found.resolutions.push(resolution);
                }
            }
            let batch = Batch {
                rows,
                changes: &changes,
                rules,
                wrong: Some(wrong.clone()),
                points: &|role: usize| points.get(role).and_then(|it| it.resolutions.get(first..)),
            };
            let stays = if rules.steps.drops_markers {
                !&is_marker
            } else {
                BooleanBuffer::new_set(rows.count())
            };
            let mut kept = stays.clone();
            for (data_type, origin) in &required {
                let values =
                    batch.values(origin, data_type).map_err(|error| TaskError::reading(&error))?;
                if let Some(nulls) = values.logical_nulls() {
                    kept = &kept & nulls.inner();
                }
            }
            dropped += (stays.count_set_bits() - kept.count_set_bits()) as u64;
            if let Some(day) = day_of_event(layout) {
                let days = batch.days(day).map_err(|error| TaskError::reading(&error))?;
                no_dates += derive::count_no_dates(&days);
            }
            all_kept.append_buffer(&kept);
            all_wrong.append_buffer(&wrong);
            Ok(())
        })?;
        let (wrong, kept) = (all_wrong.finish(), all_kept.finish());
        let marker = if rules.steps.drops_markers {
            "rows dropped, event code is a marker"
        } else {
            "rows whose event code is a marker"
        };
        changes.count("dates of 1920 repaired", wrong.count_set_bits() as u64);
        changes.count(marker, marked);
        changes.count("rows dropped, null in a required column", dropped);
        changes.count("days that are no date", no_dates);
        corrections.named().into_iter().for_each(|(name, count)| changes.count(name, count));
        changes.wrong = (wrong.count_set_bits() > 0).then_some(wrong);
        changes.kept = (kept.count_set_bits() < kept.len()).then_some(kept);
        let changed = points.into_iter().enumerate().filter(|(_, found)| found.changes);
        changes.points = changed.map(|(role, found)| (role, found.resolutions)).collect();
        Ok(changes)
    }

    /// Finds the columns with white space to be changed.
    fn find_texts(
        &mut self,
        file: &ParquetFile,
        group: usize,
        layout: &Layout,
        normalize: Normalize,
        dictionaries: &Dictionaries,
    ) -> Result<(), TaskError> {
        let is = |value: &str| normalize.changes(value);
        for &column in layout.texts.iter().filter(|column| dictionaries.may_hold(**column, is)) {
            let mut found = Normalized::default();
            for_each_batch(file, group, vec![column], |_, rows| {
                let of_batch = normalize.count(rows.column(column).as_string());
                found.trimmed += of_batch.trimmed;
                found.made_null += of_batch.made_null;
                Ok(())
            })?;
            if found != Normalized::default() {
                self.texts.insert(column);
            }
            self.count("text values trimmed", found.trimmed);
            self.count("blank text values made null", found.made_null);
        }
        Ok(())
    }

    fn count(&mut self, name: &'static str, count: u64) {
        if count > 0 {
            *self.counts.entry(name).or_default() += count;
        }
    }

    /// The rows that stay, of a group with `rows` rows.
    pub(crate) fn rows_kept(&self, rows: usize) -> usize {
        self.kept.as_ref().map_or(rows, BooleanBuffer::count_set_bits)
    }

    /// The column of the source whose chunk is this column's, unless rows of it change.
    pub(crate) fn copied_chunk(&self, column: &OutputColumn) -> Option<usize> {
        column.copy_of.filter(|_| self.kept.is_none() && !self.touches(&column.origin))
    }

    /// Whether values of a column change.
    fn touches(&self, origin: &Origin) -> bool {
        let is_text = origin.unchanged().is_some_and(|source| self.texts.contains(&source));
        is_text
            || match origin {
                Origin::Source(_) => false,
                Origin::Place { role, .. } => self.points.contains_key(role),
                Origin::Repaired { .. } | Origin::Original { .. } => self.wrong.is_some(),
                Origin::EventDate(_) | Origin::Labels { .. } | Origin::Nothing => true,
            }
    }

    /// The columns of the source that have to be decoded to make columns of the output.
    pub(crate) fn sources(&self, columns: &[&OutputColumn]) -> Vec<usize> {
        let of_column = |column: &&OutputColumn| match &column.origin {
            Origin::Original { kept, .. } if self.wrong.is_none() => {
                kept.iter().copied().collect::<Vec<_>>()
            }
            origin => origin.sources().collect(),
        };
        columns.iter().flat_map(of_column).collect()
    }

    /// The values of columns of the output in some rows, of which the first is row `first`; without
    /// the rows that go.
    pub(crate) fn values(
        &self,
        columns: &[&OutputColumn],
        rows: &Rows,
        first: usize,
        rules: Rules<'_>,
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        let part = |all: &BooleanBuffer| all.slice(first, rows.count());
        let batch = Batch {
            rows,
            changes: self,
            rules,
            wrong: self.wrong.as_ref().map(part),
            points: &|role: usize| self.points.get(&role)?.get(first..),
        };
        let kept = self.kept.as_ref().map(part).map(BooleanArray::from);
        let values = |column: &&OutputColumn| {
            let values = batch.values(&column.origin, column.field.data_type())?;
            match &kept {
                Some(kept) => filter(&values, kept),
                None => Ok(values),
            }
        };
        columns.iter().map(values).collect()
    }

    /// A column of the source with white space changed where that is to be.
    fn text(&self, rows: &Rows, column: usize, normalize: Option<Normalize>) -> ArrayRef {
        let values = rows.column(column);
        match normalize.filter(|_| self.texts.contains(&column)) {
            Some(normalize) => normalize.apply(values),
            None => Arc::clone(values),
        }
    }

    /// Whether a required column may hold nulls once the steps are done, as far as the footer says.
    fn may_be_null(&self, group: &RowGroupMetaData, origin: &Origin) -> bool {
        let (Origin::Source(source) | Origin::Repaired { source, .. }) = origin else {
            return true;
        };
        let statistics = group.column(*source).statistics();
        self.texts.contains(source) || statistics.and_then(Statistics::null_count_opt) != Some(0)
    }
}

/// Some rows of a row group with what the steps do to them.
struct Batch<'a> {
    rows: &'a Rows,
    changes: &'a Changes,
    rules: Rules<'a>,
    /// Which of the rows have their dates repaired.
    wrong: Option<BooleanBuffer>,
    /// What becomes of the points of a role, from the first of the rows on.
    points: &'a dyn Fn(usize) -> Option<&'a [Resolution]>,
}

impl Batch<'_> {
    fn source(&self, column: usize) -> ArrayRef {
        self.changes.text(self.rows, column, self.rules.steps.normalize)
    }

    /// The values of a column of the output, of its type.
    fn values(&self, origin: &Origin, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let values = match (origin, &self.wrong) {
            (Origin::Repaired { date, source }, Some(wrong)) => {
                dates::repaired(date, self.rows.column(*source), wrong)?
            }
            (Origin::Original { source, kept }, Some(wrong)) => {
                let kept = kept.map(|kept| self.rows.column(kept));
                dates::originals(self.rows.column(*source), kept, wrong)?
            }
            (Origin::Place { role, part, source }, _) => {
                let written = self.source(*source);
                let found = (self.points)(*role).and_then(|all| all.get(..self.rows.count()));
                match found.zip(self.rules.table) {
                    Some((found, table)) => geo::resolved(*part, &written, found, table),
                    None => written,
                }
            }
            (Origin::EventDate(day), _) => derive::event_dates(&self.days(*day)?),
            (Origin::Labels { source, table }, _) => derive::labels(&self.source(*source), *table),
            _ => match origin.unchanged() {
                Some(source) => self.source(source),
                None => new_null_array(data_type, self.rows.count()),
            },
        };
        if values.data_type() == data_type { Ok(values) } else { cast(&values, data_type) }
    }

    /// The days of events, the wrong ones repaired.
    fn days(&self, column: usize) -> Result<ArrayRef, ArrowError> {
        let days = self.rows.column(column);
        match &self.wrong {
            Some(wrong) => dates::repaired(dates::DAY, days, wrong),
            None => Ok(Arc::clone(days)),
        }
    }
}

/// The column of which dates are made, if they are to be.
fn day_of_event(layout: &Layout) -> Option<usize> {
    layout.columns.iter().find_map(|column| match column.origin {
        Origin::EventDate(day) => Some(day),
        _ => None,
    })
}

/// Least and greatest value of a column of whole numbers, as the footer says.
fn range(group: &RowGroupMetaData, column: usize) -> Option<RangeInclusive<i64>> {
    match group.column(column).statistics() {
        Some(Statistics::Int64(found)) => Some(*found.min_opt()?..=*found.max_opt()?),
        _ => None,
    }
}
