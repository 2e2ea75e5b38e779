//! The geographic points of an event: their columns, and what the columns hold once the points are
//! resolved.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Float64Array, Int64Array, StringArray};
use arrow::datatypes::{Float64Type, Int64Type};
use io_budget::parquet::ParquetFile;

use crate::steps::places::{KeptId, Point, Resolution, Table};

/// The points that an event has.
pub(crate) const ROLES: [&str; 3] = ["Actor1Geo", "Actor2Geo", "ActionGeo"];

/// A column of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Id,
    Lat,
    Long,
    Name,
    Type,
}

impl Part {
    const ALL: [(Self, &str); 5] = [
        (Self::Id, "FeatureID"),
        (Self::Lat, "Lat"),
        (Self::Long, "Long"),
        (Self::Name, "FullName"),
        (Self::Type, "Type"),
    ];
}

/// Where the columns of a point stand in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Role {
    id: usize,
    lat: usize,
    long: usize,
    name: Option<usize>,
    place_type: Option<usize>,
}

/// The points of which a file has what their resolution needs.
pub(crate) fn roles(file: &ParquetFile) -> Vec<Role> {
    let role = |role: &&str| {
        let [id, lat, long, name, place_type] =
            Part::ALL.map(|(_, part)| file.column(&format!("{role}_{part}")));
        Some(Role { id: id?, lat: lat?, long: long?, name, place_type })
    };
    ROLES.iter().filter_map(role).collect()
}

impl Role {
    /// All its columns.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        [self.id, self.lat, self.long].into_iter().chain(self.name).chain(self.place_type)
    }

    /// What the column at this position is to the point.
    pub(crate) fn part_at(&self, position: usize) -> Option<Part> {
        let at = [Some(self.id), Some(self.lat), Some(self.long), self.name, self.place_type];
        let part = Part::ALL.into_iter().zip(at).find(|(_, at)| *at == Some(position));
        part.map(|((part, _), _)| part)
    }

    /// The point's columns of some rows; `column` gives them by position.
    pub(crate) fn read(&self, column: impl Fn(usize) -> ArrayRef) -> Points {
        Points {
            ids: column(self.id).as_string().clone(),
            lats: column(self.lat).as_primitive().clone(),
            longs: column(self.long).as_primitive().clone(),
            names: self.name.map(|at| column(at).as_string().clone()),
            types: self.place_type.map(|at| column(at).as_primitive().clone()),
        }
    }
}

/// The points of some rows, as GDELT wrote them.
#[derive(Debug)]
pub(crate) struct Points {
    ids: StringArray,
    lats: Float64Array,
    longs: Float64Array,
    names: Option<StringArray>,
    types: Option<Int64Array>,
}

impl Points {
    pub(crate) fn count(&self) -> usize {
        self.ids.len()
    }

    /// The point of a row.
    pub(crate) fn point(&self, row: usize) -> Point<'_> {
        let id = self.ids.is_valid(row).then(|| self.ids.value(row));
        let location = self.written_location(row).filter(|at| *at != (0.0, 0.0));
        let types = self.types.as_ref().filter(|types| types.is_valid(row));
        Point { id, location, place_type: types.map(|types| types.value(row)) }
    }

    /// What GDELT wrote of the location of a row.
    pub(crate) fn written_location(&self, row: usize) -> Option<(f64, f64)> {
        let is_whole = self.lats.is_valid(row) && self.longs.is_valid(row);
        is_whole.then(|| (self.lats.value(row), self.longs.value(row)))
    }

    /// The name that GDELT wrote for the point of a row.
    pub(crate) fn name(&self, row: usize) -> Option<&str> {
        let names = self.names.as_ref().filter(|names| names.is_valid(row))?;
        Some(names.value(row))
    }

    /// Whether a row says anything of a point that is none.
    fn says_anything(&self, row: usize) -> bool {
        let has_type = |types: &Int64Array| types.is_null(row) || types.value(row) != 0;
        self.ids.is_valid(row)
            || self.lats.is_valid(row)
            || self.longs.is_valid(row)
            || self.name(row).is_some()
            || self.types.as_ref().is_some_and(has_type)
    }
}

/// Whether an encoding error damaged a name: a `?` or U+FFFD for a letter, or a control character.
pub(crate) fn is_damaged(name: &str) -> bool {
    name.contains(['?', '\u{fffd}']) || name.chars().any(|it| ('\u{80}'..='\u{9f}').contains(&it))
}

/// How points were corrected, by the kind of the correction; one may be of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Corrections {
    resolved: u64,
    changed: u64,
    cleared: u64,
    unknown: u64,
    no_id: u64,
    shared_id: u64,
    other_id: u64,
    moved: u64,
    wrong_point: u64,
    new_point: u64,
    damaged_name: u64,
    no_location: u64,
}

impl Corrections {
    /// Counts what becomes of the point of a row. Returns whether the row changes.
    pub(crate) fn add(
        &mut self,
        table: &Table,
        points: &Points,
        row: usize,
        resolution: Resolution,
    ) -> bool {
        let point = points.point(row);
        let (place, is_exact) = match resolution {
            Resolution::Place { row, is_exact } => (row, is_exact),
            Resolution::Cleared => {
                let says_anything = points.says_anything(row);
                self.cleared += u64::from(says_anything);
                return says_anything;
            }
            Resolution::Kept(id) => {
                self.unknown += 1;
                return id != KeptId::Same && point.id.is_some();
            }
        };
        let id = table.place(place);
        let location = table.place_location(place);
        let count = |counter: &mut u64, is: bool| *counter += u64::from(is);
        let is_renamed = point.id != Some(id);
        let is_moved = points.written_location(row) != Some(location);
        count(&mut self.resolved, true);
        count(&mut self.changed, is_renamed || is_moved);
        let is_at_place = point.location.is_some();
        count(&mut self.no_id, is_at_place && point.has_no_id());
        if let Some(written) = point.id.filter(|_| is_renamed && !point.has_no_id()) {
            let is_shared = id.strip_prefix("US") == Some(written)
                || id.strip_suffix(written).is_some_and(|front| front.ends_with(':'));
            count(if is_shared { &mut self.shared_id } else { &mut self.other_id }, true);
        }
        if is_at_place && is_moved {
            let kind = match is_exact {
                false => &mut self.new_point,
                true if table.is_wrong_point(place) => &mut self.wrong_point,
                true => &mut self.moved,
            };
            count(kind, true);
        }
        count(&mut self.no_location, !is_at_place);
        let name = table.name(place);
        let is_repaired =
            name.is_some_and(|name| !is_damaged(name)) && points.name(row).is_some_and(is_damaged);
        count(&mut self.damaged_name, is_repaired);
        let keeps_name = points.names.is_none() || name.is_none() || name == points.name(row);
        let keeps_type =
            points.types.is_none() || point.place_type == Some(table.place_type(place));
        is_renamed || is_moved || !keeps_name || !keeps_type
    }

    /// The counts by name.
    pub(crate) fn named(&self) -> [(&'static str, u64); 12] {
        [
            ("places: resolved", self.resolved),
            ("places: resolved, id or point changed", self.changed),
            ("places: cleared, no location", self.cleared),
            ("places: kept, not in the table", self.unknown),
            ("places: no id", self.no_id),
            ("places: id of several gazetteers", self.shared_id),
            ("places: another id of the place", self.other_id),
            ("places: another point of the place", self.moved),
            ("places: point of another place", self.wrong_point),
            ("places: point not in the table", self.new_point),
            ("places: name damaged", self.damaged_name),
            ("places: found by id, no location", self.no_location),
        ]
    }
}

/// What a column of a point holds once it is resolved.
pub(crate) fn resolved(
    part: Part,
    written: &ArrayRef,
    resolutions: &[Resolution],
    table: &Table,
) -> ArrayRef {
    let each = || resolutions.iter().copied().enumerate();
    match part {
        Part::Id => {
            let written = written.as_string::<i32>();
            let ids = each().map(|(row, resolution)| {
                let id = written.is_valid(row).then(|| written.value(row));
                match resolution {
                    Resolution::Place { row, .. } => Some(table.place(row).to_owned()),
                    Resolution::Cleared | Resolution::Kept(KeptId::Null) => None,
                    Resolution::Kept(KeptId::Same) => id.map(str::to_owned),
                    Resolution::Kept(KeptId::Prefixed(prefix)) => {
                        id.map(|id| format!("{prefix}{id}"))
                    }
                }
            });
            Arc::new(ids.collect::<StringArray>())
        }
        Part::Name => {
            let written = written.as_string::<i32>();
            let names = each().map(|(row, resolution)| {
                let name = written.is_valid(row).then(|| written.value(row));
                match resolution {
                    Resolution::Place { row, .. } => table.name(row).or(name),
                    Resolution::Cleared => None,
                    Resolution::Kept(_) => name,
                }
            });
            Arc::new(names.collect::<StringArray>())
        }
        Part::Lat | Part::Long => {
            let written = written.as_primitive::<Float64Type>();
            let values = each().map(|(row, resolution)| match resolution {
                Resolution::Place { row, .. } => {
                    let (lat, long) = table.place_location(row);
                    Some(if part == Part::Lat { lat } else { long })
                }
                Resolution::Cleared => None,
                Resolution::Kept(_) => written.is_valid(row).then(|| written.value(row)),
            });
            Arc::new(values.collect::<Float64Array>())
        }
        Part::Type => {
            let written = written.as_primitive::<Int64Type>();
            let values = each().map(|(row, resolution)| match resolution {
                Resolution::Place { row, .. } => Some(table.place_type(row)),
                Resolution::Cleared => Some(0),
                Resolution::Kept(_) => written.is_valid(row).then(|| written.value(row)),
            });
            Arc::new(values.collect::<Int64Array>())
        }
    }
}
