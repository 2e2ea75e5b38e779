//! A row's place in the archive, which does not change when files are merged: sampling hashes it.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::{Feed, ParquetName, Period};

/// A number for a converted file within its dataset. Files of other periods or feeds have other
/// numbers, and a later file of the same kind has a greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceNumber(u32);

impl SourceNumber {
    /// The number of a converted file: the second of its beginning after 1979, moved by a second
    /// or two for monthly and yearly files, and doubled for the feed. Fits until the year 2046.
    ///
    /// `None` for a period before 1979 or after 2046.
    pub fn of(name: &ParquetName) -> Option<Self> {
        let epoch = NaiveDate::from_ymd_opt(1979, 1, 1)?.and_time(chrono::NaiveTime::MIN);
        let (begin, kind) = match name.period {
            Period::Slot(moment) => (moment, 0),
            Period::Day(day) => (day.and_time(chrono::NaiveTime::MIN), 0),
            Period::Month(day) => (day.and_time(chrono::NaiveTime::MIN), 1),
            Period::Year(_) | Period::Years(..) => {
                (name.period.first_day().and_time(chrono::NaiveTime::MIN), 2)
            }
        };
        let seconds = (begin - epoch).num_seconds() + kind;
        let feed = match name.feed {
            Feed::English => 0,
            Feed::Translation => 1,
        };
        u32::try_from(seconds.checked_mul(2)? + feed).ok().map(Self)
    }

    /// The position of a row of this file: the number in the upper half, the row in the lower.
    pub fn position(self, row: u32) -> u64 {
        u64::from(self.0) << 32 | u64::from(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;

    fn number(dataset: Dataset, name: &str) -> SourceNumber {
        SourceNumber::of(&ParquetName::parse(dataset, name).expect(name)).expect(name)
    }

    #[test]
    fn numbers_are_distinct_and_rise_with_time() {
        let numbers: Vec<_> = [
            "1979.parquet",
            "200601.parquet",
            "2006.parquet",
            "20130401.export.parquet",
            "20251231.export.parquet",
        ]
        .map(|name| number(Dataset::Events, name))
        .into();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        let english = number(Dataset::GkgV2, "20150218230000.gkg.parquet");
        let translated = number(Dataset::GkgV2, "20150218230000.translation.gkg.parquet");
        let cleaned = number(Dataset::GkgV2, "20150218230000.gkg_cleaned.parquet");
        assert_ne!(english, translated);
        assert_eq!(english, cleaned);
    }

    #[test]
    fn positions_are_stable() {
        // 36 years with 9 leap days, and 48 days, 23 hours.
        let seconds = (36 * 365 + 9 + 48) * 86_400 + 23 * 3_600;
        let slot = number(Dataset::GkgV2, "20150218230000.gkg.parquet");
        assert_eq!(slot.position(7), (seconds * 2) << 32 | 7);
    }
}
