//! Dates of 1920 that stand for 2020: which rows have them, and what they become.

#![expect(clippy::inconsistent_digit_grouping, reason = "dates are read as year, month, day")]

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use arrow::error::ArrowError;
use catalog::DATE_ORIGINALS;

/// Events before this day are wrong: the archive begins with it.
const FIRST_DAY: i64 = 1979_01_01;

/// When GDELT published events of 2020 under dates of 1920, in both forms of `DATEADDED`.
const ADDED_DAYS: RangeInclusive<i64> = 2019_12_31..=2020_01_05;
const ADDED_SECONDS: RangeInclusive<i64> = 2019_12_31_00_00_00..=2020_01_05_23_59_59;

/// The column that dates an event, which decides with [`ADDED`] whether a row is repaired.
pub(crate) const DAY: &str = "Day";
/// The column that says when an event was published.
pub(crate) const ADDED: &str = "DATEADDED";

/// The columns whose dates are repaired; [`DATE_ORIGINALS`] keep their values in the same order.
pub(crate) const DATES: [&str; 4] = [DAY, "MonthYear", "Year", "FractionDate"];

/// The column of [`DATE_ORIGINALS`] that keeps the values of a column of [`DATES`].
pub(crate) fn original_of(date: &str) -> Option<&'static str> {
    let at = DATES.iter().position(|name| *name == date)?;
    Some(DATE_ORIGINALS[at].name)
}

/// The rows whose dates say 1920 and mean 2020.
pub(crate) fn dates_of_1920(day: &ArrayRef, added: &ArrayRef) -> BooleanBuffer {
    let (day, added) = (day.as_primitive::<Int64Type>(), added.as_primitive::<Int64Type>());
    let is_wrong = |row: usize| {
        day.is_valid(row)
            && added.is_valid(row)
            && day.value(row) < FIRST_DAY
            && (ADDED_DAYS.contains(&added.value(row)) || ADDED_SECONDS.contains(&added.value(row)))
    };
    BooleanBuffer::collect_bool(day.len(), is_wrong)
}

/// Whether rows with a day and a publication within these ranges may be wrong. `None` is unknown.
pub(crate) fn may_be_wrong(
    days: Option<&RangeInclusive<i64>>,
    added: Option<&RangeInclusive<i64>>,
) -> bool {
    let overlaps = |window: &RangeInclusive<i64>| {
        added.is_none_or(|it| it.start() <= window.end() && window.start() <= it.end())
    };
    days.is_none_or(|days| *days.start() < FIRST_DAY)
        && (overlaps(&ADDED_DAYS) || overlaps(&ADDED_SECONDS))
}

/// The values of a column of [`DATES`], 100 years later in the wrong rows.
pub(crate) fn repaired(
    date: &str,
    values: &ArrayRef,
    wrong: &BooleanBuffer,
) -> Result<ArrayRef, ArrowError> {
    let century = match date {
        DAY => 100_00_00,
        "MonthYear" => 100_00,
        _ => 100,
    };
    let later: ArrayRef = if *values.data_type() == DataType::Float64 {
        let add = |value: f64| value + 100.0;
        Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(add))
    } else {
        // Any value may stand in a null's place.
        let add = |value: i64| value.wrapping_add(century);
        Arc::new(values.as_primitive::<Int64Type>().unary::<_, Int64Type>(add))
    };
    zip(&wrong.clone().into(), &later, values)
}

/// GDELT's own values in the wrong rows. Elsewhere those that an earlier repair `kept`, or nulls.
pub(crate) fn originals(
    values: &ArrayRef,
    kept: Option<&ArrayRef>,
    wrong: &BooleanBuffer,
) -> Result<ArrayRef, ArrowError> {
    let nothing = new_null_array(values.data_type(), values.len());
    zip(&wrong.clone().into(), values, kept.unwrap_or(&nothing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array};
    use catalog::Dataset;

    fn ints(values: Vec<Option<i64>>) -> ArrayRef {
        Arc::new(Int64Array::from(values))
    }

    fn wrong(day: Option<i64>, added: Option<i64>) -> bool {
        dates_of_1920(&ints(vec![day]), &ints(vec![added])).value(0)
    }

    #[test]
    fn the_window_is_exact_in_both_forms_of_the_date() {
        for (added, is_wrong) in [
            (2019_12_30, false),
            (2019_12_31, true),
            (2020_01_05, true),
            (2020_01_06, false),
            (2019_12_30_23_59_59, false),
            (2019_12_31_00_00_00, true),
            (2020_01_05_23_59_59, true),
            (2020_01_06_00_00_00, false),
        ] {
            assert_eq!(wrong(Some(1920_01_02), Some(added)), is_wrong, "{added}");
        }
    }

    #[test]
    fn a_day_of_the_archive_or_an_unknown_one_is_not_wrong() {
        assert!(wrong(Some(1978_12_31), Some(2020_01_02)));
        assert!(!wrong(Some(1979_01_01), Some(2020_01_02)));
        assert!(!wrong(None, Some(2020_01_02)));
        assert!(!wrong(Some(1920_01_02), None));
    }

    #[test]
    fn ranges_tell_whether_to_look() {
        let (days, added) = (1920_01_02..=2020_01_02, 2020_01_02..=2020_01_02);
        let (days, added) = (Some(&days), Some(&added));
        assert!(may_be_wrong(days, added));
        assert!(may_be_wrong(None, None));
        assert!(may_be_wrong(days, Some(&(2019_12_31_23_59_59..=2021_01_01_00_00_00))));
        assert!(!may_be_wrong(Some(&(1979_01_01..=2020_01_02)), added));
        assert!(!may_be_wrong(days, Some(&(2020_01_06..=2020_01_07))));
    }

    #[test]
    fn a_wrong_row_moves_a_century_and_keeps_its_own_values() {
        let rows = BooleanBuffer::from(vec![true, false, true]);
        for (date, before, after) in
            [(DAY, 1920_01_02, 2020_01_02), ("MonthYear", 1920_01, 2020_01), ("Year", 1920, 2020)]
        {
            let values = ints(vec![Some(before), Some(before), None]);
            let expected = ints(vec![Some(after), Some(before), None]);
            assert_eq!(&repaired(date, &values, &rows).unwrap(), &expected);
            let kept = ints(vec![Some(before), None, None]);
            assert_eq!(&originals(&values, None, &rows).unwrap(), &kept);
        }
        let values: ArrayRef = Arc::new(Float64Array::from(vec![1920.0055; 3]));
        let expected: ArrayRef =
            Arc::new(Float64Array::from(vec![2020.0055, 1920.0055, 2020.0055]));
        assert_eq!(&repaired("FractionDate", &values, &rows).unwrap(), &expected);
    }

    #[test]
    fn a_second_repair_keeps_what_the_first_one_kept() {
        let days = ints(vec![Some(2020_01_02), Some(1920_01_03)]);
        let kept = ints(vec![Some(1920_01_02), None]);
        let rows = BooleanBuffer::from(vec![false, true]);
        let expected = ints(vec![Some(1920_01_02), Some(1920_01_03)]);
        assert_eq!(&originals(&days, Some(&kept), &rows).unwrap(), &expected);
    }

    #[test]
    fn every_repaired_column_has_its_original_of_the_same_type() {
        let columns = Dataset::Events.columns();
        for (date, original) in DATES.iter().zip(DATE_ORIGINALS) {
            assert_eq!(format!("{date}_original"), original.name);
            assert_eq!(original_of(date), Some(original.name));
            let declared = columns.iter().find(|column| column.name == *date).unwrap();
            assert_eq!(declared.column_type, original.column_type);
        }
    }
}
