//! Columns that are made of others.

#![expect(clippy::inconsistent_digit_grouping, reason = "dates are read as year, month, day")]

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Date32Array, StringArray};
use arrow::datatypes::{Date32Type, Int64Type};
use catalog::CodeTable;
use chrono::NaiveDate;

/// The first day of 8 digits.
const FIRST_DAY: u32 = 1000_01_01;

/// Days as dates. A number that is no day of 8 digits becomes null.
pub(crate) fn event_dates(days: &ArrayRef) -> ArrayRef {
    let dates = days.as_primitive::<Int64Type>().iter().map(|day| date(day?));
    Arc::new(dates.collect::<Date32Array>())
}

fn date(day: i64) -> Option<i32> {
    let number = u32::try_from(day).ok().filter(|number| *number >= FIRST_DAY)?;
    let year = i32::try_from(number / 10_000).ok().filter(|year| *year <= 9_999)?;
    let date = NaiveDate::from_ymd_opt(year, number / 100 % 100, number % 100)?;
    Some(Date32Type::from_naive_date(date))
}

/// Days that are there and are no date.
pub(crate) fn count_no_dates(days: &ArrayRef) -> u64 {
    let days = days.as_primitive::<Int64Type>().iter().flatten();
    days.filter(|day| date(*day).is_none()).count() as u64
}

/// What codes mean; null for a code that the table does not know.
pub(crate) fn labels(codes: &ArrayRef, table: CodeTable) -> ArrayRef {
    let codes = codes.as_string::<i32>();
    // A table that is asked in any letter case takes longer than this one.
    let mut known: HashMap<&str, Option<&str>> = HashMap::new();
    let mut label = |code| *known.entry(code).or_insert_with(|| table.label(code));
    let labels = (0..codes.len()).map(|row| codes.is_valid(row).then(|| codes.value(row)));
    Arc::new(labels.map(|code| label(code?)).collect::<StringArray>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;

    #[test]
    fn a_day_becomes_a_date_and_what_is_none_null() {
        let days =
            vec![Some(1970_01_02), Some(2020_02_29), Some(2021_02_29), Some(0), Some(-1), None];
        let days: ArrayRef = Arc::new(Int64Array::from(days));
        let expected = Date32Array::from(vec![Some(1), Some(18_321), None, None, None, None]);
        assert_eq!(event_dates(&days).as_primitive::<Date32Type>(), &expected);
        assert_eq!(count_no_dates(&days), 3);
        let odd: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, 999_12_31, 10_000_01_01]));
        assert_eq!(count_no_dates(&odd), 3);
    }

    #[test]
    fn codes_are_known_in_any_letter_case() {
        // CL-09
        let codes: ArrayRef =
            Arc::new(StringArray::from(vec![Some("kur"), Some("KUR"), Some("no such"), None]));
        let labels = labels(&codes, CodeTable::Ethnic);
        let labels: Vec<_> = labels.as_string::<i32>().iter().collect();
        assert_eq!(labels[0], CodeTable::Ethnic.label("KUR"));
        assert_eq!(labels[..2], [labels[1], labels[0]]);
        assert!(labels[0].is_some());
        assert_eq!(labels[2..], [None, None]);
    }
}
