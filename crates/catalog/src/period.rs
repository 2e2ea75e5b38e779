//! The time that a file covers, as its name says. All times are UTC, whatever `TZ` says.

use std::cmp::Ordering;
use std::fmt;

use chrono::{Datelike as _, Days, Months, NaiveDate, NaiveDateTime, Timelike as _};
use serde::{Deserialize, Serialize};

/// The time that a file covers.
///
/// Ordered by beginning, then by end. As text, the digits that stand in file names: `1979`,
/// `201011`, `20130401`, `20150218230000`, `1979-2013`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Period {
    /// A calendar year.
    Year(i32),
    /// A calendar month: the first day of it.
    Month(NaiveDate),
    /// A day.
    Day(NaiveDate),
    /// The 15 minutes that GDELT names by this moment. A few names are a second off the quarter.
    Slot(NaiveDateTime),
    /// Calendar years, both included.
    Years(i32, i32),
}

impl Period {
    /// Reads the digits of a file name. `None` when they name no time.
    pub fn parse(digits: &str) -> Option<Self> {
        if let Some((first, last)) = digits.split_once('-') {
            let (Self::Year(first), Self::Year(last)) = (Self::parse(first)?, Self::parse(last)?)
            else {
                return None;
            };
            return (first <= last).then_some(Self::Years(first, last));
        }
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = |from: usize, to: usize| digits.get(from..to)?.parse::<u32>().ok();
        let year = i32::try_from(number(0, 4)?).ok()?;
        match digits.len() {
            4 => NaiveDate::from_ymd_opt(year, 1, 1).map(|_| Self::Year(year)),
            6 => NaiveDate::from_ymd_opt(year, number(4, 6)?, 1).map(Self::Month),
            8 => NaiveDate::from_ymd_opt(year, number(4, 6)?, number(6, 8)?).map(Self::Day),
            14 => NaiveDate::from_ymd_opt(year, number(4, 6)?, number(6, 8)?)?
                .and_hms_opt(number(8, 10)?, number(10, 12)?, number(12, 14)?)
                .map(Self::Slot),
            _ => None,
        }
    }

    /// The first day that is at least partly covered.
    pub fn first_day(self) -> NaiveDate {
        match self {
            Self::Year(year) | Self::Years(year, _) => january_first(year),
            Self::Month(day) | Self::Day(day) => day,
            Self::Slot(moment) => moment.date(),
        }
    }

    /// The last day that is at least partly covered.
    pub fn last_day(self) -> NaiveDate {
        match self {
            Self::Year(year) | Self::Years(_, year) => december_last(year),
            Self::Month(day) => last_of_month(day),
            Self::Day(day) => day,
            Self::Slot(moment) => moment.date(),
        }
    }

    /// Beginning and end (exclusive) in the sense of ordering.
    fn bounds(self) -> (NaiveDateTime, NaiveDateTime) {
        let midnight = |day: NaiveDate| day.and_time(chrono::NaiveTime::MIN);
        match self {
            Self::Slot(moment) => (moment, moment + chrono::TimeDelta::minutes(15)),
            other => (
                midnight(other.first_day()),
                midnight(other.last_day().checked_add_days(Days::new(1)).unwrap_or(NaiveDate::MAX)),
            ),
        }
    }

    /// The month of the first day, as `YYYYMM`: ledger segments are kept by it.
    pub fn month_label(self) -> String {
        let day = self.first_day();
        format!("{:04}{:02}", day.year(), day.month())
    }
}

fn january_first(year: i32) -> NaiveDate {
    NaiveDate::from_ymd_opt(year, 1, 1).unwrap_or(NaiveDate::MIN)
}

fn december_last(year: i32) -> NaiveDate {
    NaiveDate::from_ymd_opt(year, 12, 31).unwrap_or(NaiveDate::MAX)
}

fn last_of_month(day: NaiveDate) -> NaiveDate {
    day.checked_add_months(Months::new(1))
        .and_then(|next| next.pred_opt())
        .unwrap_or(NaiveDate::MAX)
}

impl PartialOrd for Period {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Period {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bounds().cmp(&other.bounds())
    }
}

impl fmt::Display for Period {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Year(year) => write!(formatter, "{year:04}"),
            Self::Month(day) => write!(formatter, "{:04}{:02}", day.year(), day.month()),
            Self::Day(day) => {
                write!(formatter, "{:04}{:02}{:02}", day.year(), day.month(), day.day())
            }
            Self::Slot(at) => {
                let day = at.date();
                write!(formatter, "{:04}{:02}{:02}", day.year(), day.month(), day.day())?;
                write!(formatter, "{:02}{:02}{:02}", at.hour(), at.minute(), at.second())
            }
            Self::Years(first, last) => write!(formatter, "{first:04}-{last:04}"),
        }
    }
}

impl From<Period> for String {
    fn from(period: Period) -> Self {
        period.to_string()
    }
}

impl TryFrom<String> for Period {
    type Error = String;

    fn try_from(digits: String) -> Result<Self, Self::Error> {
        Self::parse(&digits).ok_or_else(|| format!("`{digits}` names no time"))
    }
}

/// A choice of days, both ends included; an open end is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DateRange {
    /// The first day wanted.
    pub start: Option<NaiveDate>,
    /// The last day wanted.
    pub end: Option<NaiveDate>,
}

impl DateRange {
    /// Whether a file of this period covers at least a part of the range.
    pub fn overlaps(self, period: Period) -> bool {
        self.start.is_none_or(|start| period.last_day() >= start)
            && self.end.is_none_or(|end| period.first_day() <= end)
    }

    /// Whether a month of the ledger, `YYYYMM`, may hold records of files that overlap the range.
    /// A year's file is recorded under its January, so months before the range are read too.
    pub fn may_hold_month(self, label: &str) -> bool {
        let Some(Period::Month(month)) = Period::parse(label) else {
            return false;
        };
        self.end.is_none_or(|end| month <= end)
            && self.start.is_none_or(|start| {
                // The reduced file begins in 1979 and is recorded there, whatever the range.
                month.year() == 1979 || month >= january_first(start.year())
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn period(digits: &str) -> Period {
        Period::parse(digits).expect(digits)
    }

    fn range(start: &str, end: &str) -> DateRange {
        let day = |digits| Some(period(digits).first_day());
        DateRange { start: day(start), end: day(end) }
    }

    #[test]
    fn digits_that_name_no_time_are_refused() {
        for digits in
            ["", "20", "20201", "202013", "20200230", "20200101240000", "2013-1979", "２０２０"]
        {
            assert_eq!(Period::parse(digits), None, "{digits}");
        }
    }

    #[test]
    fn a_period_covers_its_first_and_last_day() {
        for (digits, first, last) in [
            ("1979", "19790101", "19791231"),
            ("202002", "20200201", "20200229"),
            ("20130401", "20130401", "20130401"),
            ("20230323131501", "20230323", "20230323"),
            ("1979-2013", "19790101", "20131231"),
        ] {
            assert_eq!(period(digits).first_day(), period(first).first_day());
            assert_eq!(period(digits).last_day(), period(last).first_day());
            assert_eq!(period(digits).to_string(), digits);
        }
    }

    #[test]
    fn selection_is_by_overlap() {
        let range = range("20200210", "20200310");
        for (digits, overlaps) in [
            ("2020", true),
            ("2019", false),
            ("202002", true),
            ("202001", false),
            ("202003", true),
            ("20200209", false),
            ("20200210", true),
            ("20200310234500", true),
            ("20200311000000", false),
        ] {
            assert_eq!(range.overlaps(period(digits)), overlaps, "{digits}");
        }
        assert!(DateRange::default().overlaps(period("1979")));
    }

    #[test]
    fn a_month_that_may_hold_an_overlapping_file_is_read() {
        let range = range("20050610", "20050710");
        let held: Vec<_> = ["200412", "200501", "200506", "200507", "200508"]
            .into_iter()
            .filter(|label| range.may_hold_month(label))
            .collect();
        assert_eq!(held, ["200501", "200506", "200507"]);
        assert!(!DateRange::default().may_hold_month(".gdelt-mill-staging"));
    }

    proptest! {
        #[test]
        fn files_of_the_days_of_a_range_lie_in_months_that_are_read(
            start in 0_u64..13_000, length in 0_u64..800, at in 0_u64..15_000, kind in 0..3,
        ) {
            let date = |days| NaiveDate::from_ymd_opt(1979, 1, 1).unwrap() + Days::new(days);
            let range = DateRange { start: Some(date(start)), end: Some(date(start + length)) };
            let period = match kind {
                0 => Period::Year(date(at).year()),
                1 => Period::Month(date(at).with_day(1).unwrap()),
                _ => Period::Day(date(at)),
            };
            prop_assert!(!range.overlaps(period) || range.may_hold_month(&period.month_label()));
        }
    }
}
