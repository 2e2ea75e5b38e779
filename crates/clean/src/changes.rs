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
use crate::geo::{self, Corrections, Role};
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
        let deciding = Deciding::of(metadata, layout, &changes, dictionaries);
        let positions = deciding.positions(layout);
        if positions.is_empty() {
            return Ok(changes);
        }
        let mut finding = Finding::new(layout, rules, deciding, &changes);
        for_each_batch(file, group, positions, |first, rows| {
            finding.add(first, rows).map_err(|error| TaskError::reading(&error))
        })?;
        let found = finding.finish();
        changes.wrong = found.wrong;
        changes.kept = found.kept;
        changes.points = found.points;
        for (name, count) in found.counts {
            changes.count(name, count);
        }
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

/// The columns that decide what the steps do to a row group, without those of which the footer or a
/// dictionary says that nothing will be found.
struct Deciding<'a> {
    dates: Option<(usize, usize)>,
    markers: [Option<usize>; 3],
    required: Vec<&'a (DataType, Origin)>,
    /// The column of which dates are made.
    day: Option<usize>,
}

impl<'a> Deciding<'a> {
    fn of(
        group: &RowGroupMetaData,
        layout: &'a Layout,
        changes: &Changes,
        dictionaries: &Dictionaries,
    ) -> Self {
        let dates = layout.dates.filter(|(day, added)| {
            let of = |column| range(group, column);
            dates::may_be_wrong(of(*day).as_ref(), of(*added).as_ref())
        });
        let may_be_of_marker = |(place, column): (usize, &Option<usize>)| {
            let is = |value: &str| markers::is_of_marker(place, value);
            column.is_none_or(|column| dictionaries.may_hold(column, is))
        };
        let may_be_marker = layout.markers.iter().enumerate().all(may_be_of_marker);
        let required = layout.required.iter();
        Self {
            dates,
            markers: if may_be_marker { layout.markers } else { [None; 3] },
            required: required.filter(|(_, origin)| changes.may_be_null(group, origin)).collect(),
            day: layout.columns.iter().find_map(|column| match column.origin {
                Origin::EventDate(day) => Some(day),
                _ => None,
            }),
        }
    }

    /// Where they and those of the points stand.
    fn positions(&self, layout: &Layout) -> Vec<usize> {
        let dates = self.dates.into_iter().flat_map(|(day, added)| [day, added]);
        let required = self.required.iter().flat_map(|(_, origin)| origin.sources());
        let points = layout.roles.iter().flat_map(Role::columns);
        let markers = self.markers.into_iter().flatten();
        dates.chain(required).chain(points).chain(markers).chain(self.day).collect()
    }
}

/// What becomes of the points of a role.
#[derive(Default)]
struct Resolved {
    rows: Vec<Resolution>,
    is_change: bool,
}

/// A row group on its way to [`Changes`].
struct Finding<'a> {
    layout: &'a Layout,
    rules: Rules<'a>,
    deciding: Deciding<'a>,
    /// With the columns of text that change.
    changes: &'a Changes,
    wrong: BooleanBufferBuilder,
    kept: BooleanBufferBuilder,
    points: Vec<Resolved>,
    corrections: Corrections,
    markers: u64,
    dropped: u64,
    no_dates: u64,
}

/// What was found.
struct Found {
    wrong: Option<BooleanBuffer>,
    kept: Option<BooleanBuffer>,
    points: BTreeMap<usize, Vec<Resolution>>,
    counts: Vec<(&'static str, u64)>,
}

impl<'a> Finding<'a> {
    fn new(
        layout: &'a Layout,
        rules: Rules<'a>,
        deciding: Deciding<'a>,
        changes: &'a Changes,
    ) -> Self {
        Self {
            layout,
            rules,
            deciding,
            changes,
            wrong: BooleanBufferBuilder::new(0),
            kept: BooleanBufferBuilder::new(0),
            points: layout.roles.iter().map(|_| Resolved::default()).collect(),
            corrections: Corrections::default(),
            markers: 0,
            dropped: 0,
            no_dates: 0,
        }
    }

    /// Looks at some rows, of which the first is row `first`.
    fn add(&mut self, first: usize, rows: &Rows) -> Result<(), ArrowError> {
        let wrong = match self.deciding.dates {
            Some((day, added)) => dates::dates_of_1920(rows.column(day), rows.column(added)),
            None => BooleanBuffer::new_unset(rows.count()),
        };
        let columns = self.deciding.markers.map(|at| at.map(|at| rows.column(at).as_string()));
        let is_marker = markers::rows(columns, rows.count());
        self.markers += is_marker.count_set_bits() as u64;
        self.resolve(rows);
        let batch = Batch {
            rows,
            changes: self.changes,
            rules: self.rules,
            wrong: Some(wrong.clone()),
            points: &|role| self.points.get(role)?.rows.get(first..),
        };
        let stays = if self.rules.steps.drops_markers {
            !&is_marker
        } else {
            BooleanBuffer::new_set(rows.count())
        };
        let mut kept = stays.clone();
        for (data_type, origin) in &self.deciding.required {
            if let Some(nulls) = batch.values(origin, data_type)?.logical_nulls() {
                kept = &kept & nulls.inner();
            }
        }
        if let Some(day) = self.deciding.day {
            self.no_dates += derive::count_no_dates(&batch.days(day)?);
        }
        self.dropped += (stays.count_set_bits() - kept.count_set_bits()) as u64;
        self.kept.append_buffer(&kept);
        self.wrong.append_buffer(&wrong);
        Ok(())
    }

    /// Resolves the points of some rows.
    fn resolve(&mut self, rows: &Rows) {
        let Some(table) = self.rules.table else { return };
        for (role, found) in self.layout.roles.iter().zip(&mut self.points) {
            let normalize = self.rules.steps.normalize;
            let written = role.read(|at| self.changes.text(rows, at, normalize));
            for row in 0..written.count() {
                let resolution = table.resolve(written.point(row));
                found.is_change |= self.corrections.add(table, &written, row, resolution);
                found.rows.push(resolution);
            }
        }
    }

    fn finish(mut self) -> Found {
        let (wrong, kept) = (self.wrong.finish(), self.kept.finish());
        let markers = if self.rules.steps.drops_markers {
            "rows dropped, event code is a marker"
        } else {
            "rows whose event code is a marker"
        };
        let mut counts = vec![
            ("dates of 1920 repaired", wrong.count_set_bits() as u64),
            (markers, self.markers),
            ("rows dropped, null in a required column", self.dropped),
            ("days that are no date", self.no_dates),
        ];
        counts.extend(self.corrections.named());
        let points = self.points.into_iter().enumerate().filter(|(_, found)| found.is_change);
        Found {
            wrong: (wrong.count_set_bits() > 0).then_some(wrong),
            kept: (kept.count_set_bits() < kept.len()).then_some(kept),
            points: points.map(|(role, found)| (role, found.rows)).collect(),
            counts,
        }
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

/// Least and greatest value of a column of whole numbers, as the footer says.
fn range(group: &RowGroupMetaData, column: usize) -> Option<RangeInclusive<i64>> {
    match group.column(column).statistics() {
        Some(Statistics::Int64(found)) => Some(*found.min_opt()?..=*found.max_opt()?),
        _ => None,
    }
}
