//! The table of places, and what becomes of a geographic point that GDELT wrote.
//!
//! GDELT writes one place under several ids and points, and one id for places of several
//! gazetteers. The table is the Parquet file that `GdeltForge` ships
//! (`gdeltforge/data/places.parquet` in its package): `FeatureID`, `Lat`, `Long` as GDELT wrote them, the first empty where it wrote
//! none, the others null where a point has no location; and what they stand for: `place` (an id
//! that is unique), `place_type`, `place_lat`, `place_lon`, `place_name`, `wrong_point` (whether
//! the point is another place's).

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;

use arrow::array::{
    Array, ArrayRef, AsArray as _, BooleanArray, Float64Array, Int64Array, StringArray,
    new_empty_array,
};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use arrow::error::ArrowError;
use hashbrown::HashTable;
use io_budget::Budget;
use io_budget::parquet::{ParquetFile, Want};
use serde::Serialize;
use stage::{Error, describe};

/// Where the file's own metadata say what it was made of.
const ABOUT_KEY: &str = "gdeltforge:places";
/// Its columns.
const COLUMNS: [&str; 9] = [
    "FeatureID",
    "Lat",
    "Long",
    "place",
    "place_type",
    "place_lat",
    "place_lon",
    "place_name",
    "wrong_point",
];
/// Rows of a batch of the table while it is read.
const BATCH_ROWS: usize = 1 << 16;

/// By what a table is told from another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TableIdentity {
    bytes: u64,
    rows: u64,
    about: Option<String>,
}

impl TableIdentity {
    /// The identity of a table, from its footer.
    pub(crate) fn of(budget: &Budget, path: &Path) -> Result<Self, Error> {
        let file = ParquetFile::open(budget, path, Want::Parts { footer_start: None })
            .map_err(|error| no_table(path, &describe(&error)))?;
        if let Some(name) = COLUMNS.into_iter().find(|name| file.column(name).is_none()) {
            return Err(no_table(path, &format!("it has no column `{name}`")));
        }
        let about = file.key_value(ABOUT_KEY).map(str::to_owned);
        Ok(Self { bytes: file.stat().size, rows: file.rows(), about })
    }
}

/// The gazetteer that an id is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gazetteer {
    Country,
    State,
    Gnis,
    Gns,
}

impl Gazetteer {
    /// By the type of a point, as GDELT's codebook has it: 1 country, 2 US state, 3 US city, 4 world
    /// city, 5 world state.
    fn of_type(place_type: i64) -> Option<Self> {
        Some(match place_type {
            1 => Self::Country,
            2 => Self::State,
            3 => Self::Gnis,
            4 | 5 => Self::Gns,
            _ => return None,
        })
    }

    /// What tells the id of a place the table does not have from another gazetteer's.
    fn prefix(self, id: &str) -> &'static str {
        match self {
            Self::State if is_two_capitals(id) => "US",
            Self::State => "state:",
            Self::Country => "country:",
            Self::Gnis => "gnis:",
            Self::Gns => "gns:",
        }
    }
}

fn is_two_capitals(text: &str) -> bool {
    text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// A point as GDELT wrote it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point<'a> {
    /// `FeatureID`.
    pub(crate) id: Option<&'a str>,
    /// `Lat` and `Long`, where there is a location: (0, 0) is none.
    pub(crate) location: Option<(f64, f64)>,
    /// `Type`.
    pub(crate) place_type: Option<i64>,
}

impl Point<'_> {
    /// Whether its id says nothing.
    pub(crate) fn has_no_id(&self) -> bool {
        self.id.is_none_or(|id| id.is_empty() || id == "0")
    }
}

/// What becomes of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// It is the place of this row of the table.
    Place {
        /// The row.
        row: u32,
        /// Whether the table has the point as it was written.
        is_exact: bool,
    },
    /// It is none: id, location and name become null and the type 0.
    Cleared,
    /// The table does not know it: it stays, with its id in this form.
    Kept(KeptId),
}

/// The id of a point that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptId {
    /// As it is.
    Same,
    /// It said nothing, or names places of several gazetteers.
    Null,
    /// With this in front, since it is the id of another gazetteer's place.
    Prefixed(&'static str),
}

/// The table, with its rows found by point and by place.
#[derive(Debug)]
pub(crate) struct Table {
    ids: StringArray,
    lats: Float64Array,
    longs: Float64Array,
    places: StringArray,
    types: Int64Array,
    place_lats: Float64Array,
    place_longs: Float64Array,
    names: StringArray,
    wrong: BooleanArray,
    hasher: RandomState,
    by_point: HashTable<u32>,
    by_place: HashTable<u32>,
}

impl Table {
    /// Reads the table.
    ///
    /// # Errors
    ///
    /// [`Error`] when it cannot be read or is no such table.
    pub(crate) fn read(budget: &Budget, path: &Path) -> Result<Self, Error> {
        let file = ParquetFile::open(budget, path, Want::Whole)?;
        // One column after another: all of them at once would be there twice for a moment.
        Self::of(|name, data_type| column(&file, name, data_type))
            .map_err(|problem| no_table(path, &problem))
    }

    /// The table of these columns, which `column` gives by name and type.
    fn of(column: impl Fn(&str, &DataType) -> Result<ArrayRef, String>) -> Result<Self, String> {
        let text = |name| Ok::<_, String>(column(name, &DataType::Utf8)?.as_string().clone());
        let fractions = |name| {
            let column = column(name, &DataType::Float64)?;
            Ok::<_, String>(column.as_primitive::<Float64Type>().clone())
        };
        let ids = text("FeatureID")?;
        let count = u32::try_from(ids.len()).map_err(|_| "it has too many rows")?;
        let mut table = Self {
            lats: fractions("Lat")?,
            longs: fractions("Long")?,
            places: text("place")?,
            types: column("place_type", &DataType::Int64)?.as_primitive::<Int64Type>().clone(),
            place_lats: fractions("place_lat")?,
            place_longs: fractions("place_lon")?,
            names: text("place_name")?,
            wrong: column("wrong_point", &DataType::Boolean)?.as_boolean().clone(),
            hasher: RandomState::new(),
            by_point: HashTable::with_capacity(ids.len()),
            by_place: HashTable::with_capacity(ids.len()),
            ids,
        };
        for row in 0..count {
            table.insert(row);
        }
        Ok(table)
    }

    fn insert(&mut self, row: u32) {
        let at = row as usize;
        let hash = self.hash_of_point(self.ids.value(at), self.location(at));
        let Self { hasher, by_point, by_place, places, ids, lats, longs, .. } = self;
        let hash_of = |id: &str, location| hash_of_point(hasher, id, location);
        by_point.insert_unique(hash, row, |other| {
            let other = *other as usize;
            hash_of(ids.value(other), location(lats, longs, other))
        });
        let place = places.value(at);
        let hash = hasher.hash_one(place);
        if by_place.find(hash, |other| places.value(*other as usize) == place).is_none() {
            let hash_of = |other: &u32| hasher.hash_one(places.value(*other as usize));
            by_place.insert_unique(hash, row, hash_of);
        }
    }

    fn location(&self, row: usize) -> Option<(f64, f64)> {
        location(&self.lats, &self.longs, row)
    }

    fn hash_of_point(&self, id: &str, location: Option<(f64, f64)>) -> u64 {
        hash_of_point(&self.hasher, id, location)
    }

    /// What becomes of a point.
    pub(crate) fn resolve(&self, point: Point<'_>) -> Resolution {
        let id = point.id.unwrap_or_default();
        let is_it = |row: &u32| {
            let row = *row as usize;
            self.ids.value(row) == id && self.location(row) == point.location
        };
        let hash = self.hash_of_point(id, point.location);
        if let Some(row) = self.by_point.find(hash, is_it) {
            return Resolution::Place { row: *row, is_exact: true };
        }
        if point.location.is_none() {
            return Resolution::Cleared;
        }
        let gazetteer = point.place_type.and_then(Gazetteer::of_type);
        let mut named = self.places_of_id(id).into_iter().flatten();
        let first = named.next();
        let found = match gazetteer {
            None if named.next().is_none() => first,
            None => None,
            Some(_) => first.into_iter().chain(named).find(|row| self.gazetteer(*row) == gazetteer),
        };
        match (found, gazetteer) {
            (Some(row), _) => Resolution::Place { row, is_exact: false },
            _ if point.has_no_id() => Resolution::Kept(KeptId::Null),
            _ if first.is_none() => Resolution::Kept(KeptId::Same),
            (None, None) => Resolution::Kept(KeptId::Null),
            (None, Some(gazetteer)) => Resolution::Kept(KeptId::Prefixed(gazetteer.prefix(id))),
        }
    }

    fn gazetteer(&self, row: u32) -> Option<Gazetteer> {
        let row = row as usize;
        self.types.is_valid(row).then(|| self.types.value(row)).and_then(Gazetteer::of_type)
    }

    /// A row of each place that has this id in its gazetteer. The places of several have ids with
    /// something in front.
    fn places_of_id(&self, id: &str) -> [Option<u32>; 4] {
        let of_form = |prefix: &str| {
            if id.is_empty() {
                return None;
            }
            let place = format!("{prefix}{id}");
            let hash = self.hasher.hash_one(place.as_str());
            let is_it = |row: &u32| self.places.value(*row as usize) == place;
            let row = *self.by_place.find(hash, is_it)?;
            (self.written_id(row) == id).then_some(row)
        };
        ["", "US", "gns:", "gnis:"].map(of_form)
    }

    /// The id that GDELT writes for the place of a row.
    fn written_id(&self, row: u32) -> &str {
        let place = self.place(row);
        let is_prefix = |prefix: &str| {
            !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_lowercase())
        };
        match place.split_once(':') {
            Some((prefix, id)) if is_prefix(prefix) => id,
            Some(_) => place,
            None => match place.strip_prefix("US") {
                Some(state)
                    if self.gazetteer(row) == Some(Gazetteer::State) && is_two_capitals(state) =>
                {
                    state
                }
                _ => place,
            },
        }
    }

    /// The id of a row's place.
    pub(crate) fn place(&self, row: u32) -> &str {
        self.places.value(row as usize)
    }

    /// Where a row's place is.
    pub(crate) fn place_location(&self, row: u32) -> (f64, f64) {
        (self.place_lats.value(row as usize), self.place_longs.value(row as usize))
    }

    /// The name of a row's place, if it has one that can be used.
    pub(crate) fn name(&self, row: u32) -> Option<&str> {
        let row = row as usize;
        self.names.is_valid(row).then(|| self.names.value(row))
    }

    /// The type of a row's place.
    pub(crate) fn place_type(&self, row: u32) -> i64 {
        self.types.value(row as usize)
    }

    /// Whether the point of a row is another place's.
    pub(crate) fn is_wrong_point(&self, row: u32) -> bool {
        self.wrong.value(row as usize)
    }
}

/// A column of a file, in this type.
fn column(file: &ParquetFile, name: &str, data_type: &DataType) -> Result<ArrayRef, String> {
    let position = file.column(name).ok_or_else(|| format!("it has no column `{name}`"))?;
    let wrong = |error: ArrowError| format!("its column `{name}`: {error}");
    let mut parts = Vec::new();
    for group in 0..file.metadata().num_row_groups() {
        let reader = file
            .read_row_group(group, &[position], None, BATCH_ROWS)
            .map_err(|error| describe(&error))?;
        for batch in reader.into_iter().flatten() {
            parts.push(cast(batch.map_err(wrong)?.column(0), data_type).map_err(wrong)?);
        }
    }
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    if parts.is_empty() { Ok(new_empty_array(data_type)) } else { concat(&parts).map_err(wrong) }
}

fn location(lats: &Float64Array, longs: &Float64Array, row: usize) -> Option<(f64, f64)> {
    (lats.is_valid(row) && longs.is_valid(row)).then(|| (lats.value(row), longs.value(row)))
}

fn hash_of_point(hasher: &RandomState, id: &str, location: Option<(f64, f64)>) -> u64 {
    // Both zeros are one number.
    let bits = |value: f64| (value + 0.0).to_bits();
    hasher.hash_one((id, location.map(|(lat, long)| (bits(lat), bits(long)))))
}

fn no_table(path: &Path, problem: &str) -> Error {
    Error::usage(
        format!("places_table: `{}` is no table of places: {problem}", path.display()),
        "name places.parquet of the gdeltforge package in places_table, or leave it unset",
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::RecordBatch;

    /// A table with an id of two gazetteers, a state, and a place of two points.
    pub(crate) fn rows() -> RecordBatch {
        let text = |values: &[&str]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
        let fractions =
            |values: &[Option<f64>]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
        let some = |values: [f64; 6]| values.map(Some);
        RecordBatch::try_from_iter([
            ("FeatureID", text(&["449676", "449676", "CA", "", "-1", "FR"])),
            ("Lat", fractions(&[Some(39.1), Some(34.5), Some(36.1), Some(48.8), Some(1.0), None])),
            (
                "Long",
                fractions(&[Some(-86.5), Some(69.1), Some(-119.7), Some(2.3), Some(2.0), None]),
            ),
            ("place", text(&["449676", "gns:449676", "USCA", "-2", "-2", "FR"])),
            ("place_type", Arc::new(Int64Array::from(vec![3, 4, 2, 4, 4, 1])) as ArrayRef),
            ("place_lat", fractions(&some([39.1, 34.5, 36.1, 48.8, 48.8, 46.0]))),
            ("place_lon", fractions(&some([-86.5, 69.1, -119.7, 2.3, 2.3, 2.0]))),
            (
                "place_name",
                Arc::new(StringArray::from(vec![
                    Some("Indiana University"),
                    Some("Kula"),
                    Some("California"),
                    None,
                    None,
                    Some("France"),
                ])) as ArrayRef,
            ),
            (
                "wrong_point",
                Arc::new(BooleanArray::from(vec![false, false, false, false, true, false]))
                    as ArrayRef,
            ),
        ])
        .unwrap()
    }

    fn table(rows: &RecordBatch) -> Result<Table, String> {
        Table::of(|name, data_type| {
            let column = rows.column_by_name(name);
            let column = column.ok_or_else(|| format!("it has no column `{name}`"))?;
            Ok(cast(column, data_type).unwrap())
        })
    }

    #[test]
    fn a_point_is_found_by_itself_by_its_id_or_stays() {
        let table = table(&rows()).unwrap();
        let place = |row, is_exact| Resolution::Place { row, is_exact };
        let kept = Resolution::Kept;
        for (id, location, place_type, expected) in [
            // As the table has it.
            (Some("449676"), Some((34.5, 69.1)), Some(4), place(1, true)),
            (None, Some((48.8, 2.3)), Some(4), place(3, true)),
            (Some("-1"), Some((1.0, 2.0)), None, place(4, true)),
            // Without a location: by id or none.
            (Some("FR"), None, Some(1), place(5, true)),
            (Some("CA"), None, Some(2), Resolution::Cleared),
            (None, None, Some(0), Resolution::Cleared),
            // At another point: the place of the id in the gazetteer of the type.
            (Some("449676"), Some((5.0, 5.0)), Some(3), place(0, false)),
            (Some("449676"), Some((5.0, 5.0)), Some(5), place(1, false)),
            (Some("CA"), Some((5.0, 5.0)), Some(2), place(2, false)),
            (Some("CA"), Some((5.0, 5.0)), None, place(2, false)),
            // Not known: several gazetteers, none, another one's.
            (Some("449676"), Some((5.0, 5.0)), None, kept(KeptId::Null)),
            (Some("9"), Some((5.0, 5.0)), Some(4), kept(KeptId::Same)),
            (Some("0"), Some((5.0, 5.0)), Some(4), kept(KeptId::Null)),
            (Some("CA"), Some((5.0, 5.0)), Some(1), kept(KeptId::Prefixed("country:"))),
            (Some("FR"), Some((5.0, 5.0)), Some(2), kept(KeptId::Prefixed("US"))),
        ] {
            let point = Point { id, location, place_type };
            assert_eq!(table.resolve(point), expected, "{point:?}");
        }
        assert_eq!((table.place(4), table.place_location(4)), ("-2", (48.8, 2.3)));
        assert_eq!((table.name(3), table.name(5)), (None, Some("France")));
        assert!(table.is_wrong_point(4) && !table.is_wrong_point(3));
        let zero = table.hash_of_point("", Some((0.0, 1.0)));
        assert_eq!(zero, table.hash_of_point("", Some((-0.0, 1.0))));
    }

    #[test]
    fn what_is_no_table_says_so() {
        let rows = rows();
        let error = table(&rows.project(&[0, 1, 2]).unwrap()).unwrap_err();
        assert_eq!(error, "it has no column `place`");
    }
}
