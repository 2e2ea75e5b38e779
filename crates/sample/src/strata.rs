//! Strata: what tells them apart, and what is gathered of each while the files are scanned.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use arrow::array::{Array, AsArray as _};
use arrow::datatypes::Int64Type;
use catalog::{AggregatePeriod, DateRange, Period};
use chrono::{Datelike as _, NaiveDate};
use serde::{Deserialize, Serialize};

use crate::design::Grouping;

/// The first year of the archive. Rows with an earlier date are dated wrongly.
const FIRST_YEAR: i32 = 1979;

/// A stratum. They are in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Key {
    /// Rows whose column is null; or all rows, where there is one stratum only.
    None,
    /// A period, in 8, 6 or 4 digits, or the whole number in a column.
    Whole(i64),
    /// The text in a column.
    Text(String),
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("(none)"),
            Self::Whole(number) => number.fmt(formatter),
            Self::Text(text) => text.fmt(formatter),
        }
    }
}

/// The strata of some rows.
#[derive(Debug, Default)]
pub(crate) struct Classified {
    /// Each once.
    pub(crate) keys: Vec<Key>,
    /// Of each row its place among the keys; `None` for a row that is in no stratum.
    pub(crate) rows: Vec<Option<usize>>,
    /// What is odd about the dates.
    pub(crate) oddities: Oddities,
}

/// Rows with an odd date.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Oddities {
    without_date: u64,
    impossible_date: u64,
    before_1979: u64,
    outside_range: u64,
}

impl Oddities {
    pub(crate) fn merge(&mut self, other: Self) {
        self.without_date += other.without_date;
        self.impossible_date += other.impossible_date;
        self.before_1979 += other.before_1979;
        self.outside_range += other.outside_range;
    }

    /// Those that there are, by name.
    pub(crate) fn counts(self) -> BTreeMap<String, u64> {
        [
            ("without_date", self.without_date),
            ("impossible_date", self.impossible_date),
            ("before_1979", self.before_1979),
            ("outside_range", self.outside_range),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
    }
}

/// Tells the stratum of each row for which `is_drawable` holds, by the values of the grouping's
/// column, or of `count` rows where there is none.
pub(crate) fn classify(
    grouping: Grouping,
    column: Option<&dyn Array>,
    count: usize,
    is_drawable: impl Fn(usize) -> bool,
    range: DateRange,
) -> Classified {
    let mut classified = Classified { rows: vec![None; count], ..Classified::default() };
    let rows = (0..count).filter(|row| is_drawable(*row));
    match (grouping, column) {
        (Grouping::Whole, _) | (_, None) => {
            classified.keys.push(Key::None);
            rows.for_each(|row| classified.rows[row] = Some(0));
        }
        (Grouping::Period { length, .. }, Some(column)) => {
            let dates = column.as_primitive::<Int64Type>();
            let mut known = HashMap::new();
            for row in rows {
                let Some(date) = dates.is_valid(row).then(|| dates.value(row)) else {
                    classified.oddities.without_date += 1;
                    continue;
                };
                let period = known.entry(date).or_insert_with(|| period_of(date, length, range));
                classified.add_dated(row, *period);
            }
        }
        (Grouping::Values(_), Some(column)) => {
            let mut places: HashMap<Option<Value<'_>>, usize> = HashMap::new();
            for row in rows {
                let value = column.is_valid(row).then(|| Value::of(column, row));
                let place = *places.entry(value).or_insert_with(|| {
                    classified.keys.push(value.map_or(Key::None, Value::key));
                    classified.keys.len() - 1
                });
                classified.rows[row] = Some(place);
            }
        }
    }
    classified
}

impl Classified {
    fn add_dated(&mut self, row: usize, dated: Dated) {
        let Dated::In { label, before_1979, outside_range } = dated else {
            self.oddities.impossible_date += 1;
            return;
        };
        self.oddities.before_1979 += u64::from(before_1979);
        self.oddities.outside_range += u64::from(outside_range);
        let key = Key::Whole(label);
        // A batch has few periods.
        let place = self.keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        });
        self.rows[row] = Some(place);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Value<'a> {
    Whole(i64),
    Text(&'a str),
}

impl<'a> Value<'a> {
    fn of(column: &'a dyn Array, row: usize) -> Self {
        match column.as_string_opt::<i32>() {
            Some(texts) => Self::Text(texts.value(row)),
            None => Self::Whole(column.as_primitive::<Int64Type>().value(row)),
        }
    }

    fn key(self) -> Key {
        match self {
            Self::Whole(number) => Key::Whole(number),
            Self::Text(text) => Key::Text(text.to_owned()),
        }
    }
}

/// What the date of a row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dated {
    /// It is no date.
    Impossible,
    /// It lies in this period.
    In {
        /// 8, 6 or 4 digits.
        label: i64,
        before_1979: bool,
        outside_range: bool,
    },
}

fn period_of(date: i64, length: AggregatePeriod, range: DateRange) -> Dated {
    let day = match Period::parse(&date.to_string()) {
        Some(Period::Day(day)) => day,
        Some(Period::Slot(moment)) => moment.date(),
        _ => return Dated::Impossible,
    };
    let (year, month, number) =
        (i64::from(day.year()), i64::from(day.month()), i64::from(day.day()));
    let label = match length {
        AggregatePeriod::Day => (year * 100 + month) * 100 + number,
        AggregatePeriod::Month => year * 100 + month,
        AggregatePeriod::Year => year,
    };
    let inside = |day: NaiveDate| range.overlaps(Period::Day(day));
    Dated::In { label, before_1979: day.year() < FIRST_YEAR, outside_range: !inside(day) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringArray};
    use catalog::ColumnType;

    use crate::columns::DeclaredColumn;

    #[test]
    fn dates_of_8_and_14_digits_have_periods() {
        let range = DateRange { start: NaiveDate::from_ymd_opt(2015, 2, 18), end: None };
        let period = |date, length| period_of(date, length, range);
        let inside = |label| Dated::In { label, before_1979: false, outside_range: false };
        for (length, label) in [
            (AggregatePeriod::Day, 20_150_218),
            (AggregatePeriod::Month, 201_502),
            (AggregatePeriod::Year, 2015),
        ] {
            assert_eq!(period(20_150_218, length), inside(label));
            assert_eq!(period(20_150_218_234_500, length), inside(label));
        }
        let wrong = Dated::In { label: 19_200_102, before_1979: true, outside_range: true };
        assert_eq!(period(19_200_102, AggregatePeriod::Day), wrong);
        for date in [0, -20_150_218, 20_150_230, 2015, 201_502, 201_502_180] {
            assert_eq!(period(date, AggregatePeriod::Day), Dated::Impossible, "{date}");
        }
    }

    #[test]
    fn rows_are_in_the_stratum_of_their_value_and_nulls_in_one_of_their_own() {
        let column = DeclaredColumn { name: "x", column_type: ColumnType::Text, optional: false };
        let grouping = Grouping::Values(column);
        let texts = StringArray::from(vec![Some("b"), None, Some("a"), Some("b"), Some("c")]);
        let range = DateRange::default();
        let found = classify(grouping, Some(&texts), 5, |row| row != 4, range);
        let text = |text: &str| Key::Text(text.to_owned());
        assert_eq!(found.keys, [text("b"), Key::None, text("a")]);
        assert_eq!(found.rows, [Some(0), Some(1), Some(2), Some(0), None]);
        let numbers = Int64Array::from(vec![Some(4), Some(4), None]);
        let found = classify(grouping, Some(&numbers), 3, |_| true, range);
        assert_eq!(found.keys, [Key::Whole(4), Key::None]);
        let found = classify(Grouping::Whole, None, 2, |_| true, range);
        assert_eq!((found.keys, found.rows), (vec![Key::None], vec![Some(0), Some(0)]));
    }

    #[test]
    fn keys_are_in_order_and_read_back_from_json() {
        let keys = [Key::None, Key::Whole(-1), Key::Whole(7), Key::Text("7".into())];
        assert!(keys.is_sorted());
        let json = serde_json::to_string(&keys).unwrap();
        assert_eq!(json, r#"[null,-1,7,"7"]"#);
        assert_eq!(serde_json::from_str::<Vec<Key>>(&json).unwrap(), keys);
    }
}
