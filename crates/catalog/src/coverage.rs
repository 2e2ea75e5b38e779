//! Which files the archive should hold for a range of days, and which of them are missing.

use std::collections::BTreeSet;

use chrono::{DateTime, Datelike as _, Days, NaiveDate, NaiveDateTime, TimeDelta};
use serde::Serialize;

use crate::absent::{Absence, known_absence};
use crate::{Dataset, DateRange, Feed, Period};

/// Seconds of a slot.
const SLOT_SECONDS: i64 = 15 * 60;

/// What there is and what is missing of a dataset and feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// The dataset.
    pub dataset: Dataset,
    /// The feed.
    pub feed: Feed,
    /// Whether files that GDELT never published are known for it.
    pub audited: bool,
    /// Files that the range calls for.
    pub expected: u64,
    /// Files that are here.
    pub present: u64,
    /// Files that GDELT never published.
    pub known_absent: u64,
    /// Files that are not here and that GDELT published empty.
    pub empty_upstream: u64,
    /// Files that are missing for no known reason.
    pub missing: u64,
    /// Where they are missing, in order of time.
    pub gaps: Vec<Gap>,
}

/// Neighbouring files that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The first of them.
    pub first: Period,
    /// The last of them.
    pub last: Period,
    /// How many.
    pub files: u64,
}

impl Coverage {
    /// Compares the files that are here with those of a range. A range without an end ends with the
    /// last file that is here, one without a beginning begins with the first.
    pub fn of(dataset: Dataset, feed: Feed, range: DateRange, here: &BTreeSet<Period>) -> Self {
        let here: BTreeSet<Period> = here.iter().map(|period| on_quarter(*period)).collect();
        let mut coverage = Self {
            dataset,
            feed,
            audited: crate::absent::is_audited(dataset, feed),
            expected: 0,
            present: 0,
            known_absent: 0,
            empty_upstream: 0,
            missing: 0,
            gaps: Vec::new(),
        };
        let mut open: Option<Gap> = None;
        for period in expected(dataset, range, &here) {
            coverage.expected += 1;
            let absence = known_absence(dataset, feed, period);
            let is_missing = !here.contains(&period) && absence.is_none();
            match (here.contains(&period), absence) {
                (true, _) => coverage.present += 1,
                (false, Some(Absence::NeverPublished)) => coverage.known_absent += 1,
                (false, Some(Absence::PublishedEmpty)) => coverage.empty_upstream += 1,
                (false, None) => coverage.missing += 1,
            }
            if is_missing {
                let gap = open.get_or_insert(Gap { first: period, last: period, files: 0 });
                gap.last = period;
                gap.files += 1;
            } else {
                coverage.gaps.extend(open.take());
            }
        }
        coverage.gaps.extend(open);
        coverage
    }
}

/// A few names are a second off the quarter.
fn on_quarter(period: Period) -> Period {
    match period {
        Period::Slot(moment) => {
            let seconds = moment.and_utc().timestamp();
            let floored = seconds - seconds.rem_euclid(SLOT_SECONDS);
            DateTime::from_timestamp(floored, 0).map_or(period, |at| Period::Slot(at.naive_utc()))
        }
        other => other,
    }
}

/// The periods of all files of a range, in order of time.
fn expected(dataset: Dataset, range: DateRange, here: &BTreeSet<Period>) -> Vec<Period> {
    let (Some(first), Some(last)) = (
        range.start.or_else(|| here.first().map(|period| period.first_day())),
        range.end.or_else(|| here.last().map(|period| period.last_day())),
    ) else {
        return Vec::new();
    };
    let within = DateRange { start: Some(first), end: Some(last) };
    // Where the range does not say otherwise, the first and last file are the borders.
    let after = if range.start.is_none() { here.first() } else { None };
    let before = if range.end.is_none() { here.last() } else { None };
    let days = || day_range(first.max(dataset.first_day()), last);
    let mut periods: Vec<Period> = match dataset {
        Dataset::EventsReduced => vec![Period::Years(1979, 2013)],
        Dataset::Events => {
            let years = (1979..=2005).map(Period::Year);
            let months = (2006..=2013).flat_map(|year| (1..=12).map(move |month| (year, month)));
            let months = months
                .take_while(|month| *month <= (2013, 3))
                .filter_map(|(year, month)| NaiveDate::from_ymd_opt(year, month, 1))
                .map(Period::Month);
            let daily = NaiveDate::from_ymd_opt(2013, 4, 1).unwrap_or(NaiveDate::MIN);
            let days = days().filter(|day| *day >= daily).map(Period::Day);
            years.chain(months).chain(days).collect()
        }
        Dataset::GkgV1 | Dataset::GkgV1Counts => days().map(Period::Day).collect(),
        Dataset::Events15Min | Dataset::GkgV2 | Dataset::Mentions => {
            days().flat_map(slots).filter(|slot| *slot >= first_slot()).map(Period::Slot).collect()
        }
    };
    periods.retain(|period| {
        within.overlaps(*period)
            && after.is_none_or(|after| period >= after)
            && before.is_none_or(|before| period <= before)
    });
    periods
}

/// The first slot of GDELT 2.
fn first_slot() -> NaiveDateTime {
    NaiveDate::from_ymd_opt(2015, 2, 18)
        .and_then(|day| day.and_hms_opt(23, 0, 0))
        .unwrap_or(NaiveDateTime::MIN)
}

fn day_range(first: NaiveDate, last: NaiveDate) -> impl Iterator<Item = NaiveDate> {
    let mut next = Some(first);
    std::iter::from_fn(move || {
        let day = next.filter(|day| *day <= last)?;
        next = day.checked_add_days(Days::new(1));
        Some(day)
    })
}

fn slots(day: NaiveDate) -> impl Iterator<Item = NaiveDateTime> {
    let midnight = day.and_time(chrono::NaiveTime::MIN);
    (0..96).map(move |slot| midnight + TimeDelta::seconds(slot * SLOT_SECONDS))
}

impl Dataset {
    /// The first day of which there are files.
    pub fn first_day(self) -> NaiveDate {
        let (year, month, day) = match self {
            Self::Events | Self::EventsReduced => (1979, 1, 1),
            Self::GkgV1 | Self::GkgV1Counts => (2013, 4, 1),
            Self::Events15Min | Self::GkgV2 | Self::Mentions => (2015, 2, 18),
        };
        NaiveDate::from_ymd_opt(year, month, day).unwrap_or(NaiveDate::MIN)
    }
}

impl Period {
    /// Whether GDELT publishes events of this period in one file: years to 2005, months to March
    /// 2013, days since.
    pub(crate) fn is_of_events(self) -> bool {
        match self {
            Self::Year(year) => (1979..=2005).contains(&year),
            Self::Month(first) => {
                (2006..=2013).contains(&first.year()) && (first.year(), first.month()) <= (2013, 3)
            }
            Self::Day(_) => true,
            Self::Slot(_) | Self::Years(..) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(digits: &str) -> Period {
        Period::parse(digits).expect(digits)
    }

    fn coverage(dataset: Dataset, start: &str, end: &str, here: &[&str]) -> Coverage {
        let day = |digits: &str| Period::parse(digits).map(Period::first_day);
        let here = here.iter().map(|digits| period(digits)).collect();
        let range = DateRange { start: day(start), end: day(end) };
        Coverage::of(dataset, Feed::English, range, &here)
    }

    #[test]
    fn days_that_were_never_published_are_no_gaps() {
        // DL-01
        let found = coverage(Dataset::Events, "20140122", "20140126", &["20140122", "20140126"]);
        let counts = (found.expected, found.present, found.known_absent, found.missing);
        assert_eq!(counts, (5, 2, 3, 0));
        assert!(found.gaps.is_empty() && found.audited);
    }

    #[test]
    fn neighbouring_files_that_are_missing_are_one_gap() {
        let here = ["20221110214500", "20221111184501", "20221111190000", "20221111193000"];
        let found = coverage(Dataset::GkgV2, "", "", &here);
        // From 2022-11-10 22:00 to 18:30 the next day nothing was published.
        let counts = (found.expected, found.present, found.known_absent, found.missing);
        assert_eq!(counts, (4 + 83 + 1, 4, 83, 1));
        let slot = period("20221111191500");
        assert_eq!(found.gaps, [Gap { first: slot, last: slot, files: 1 }]);
        let none = coverage(Dataset::Events15Min, "20150218", "20150219", &[]);
        assert_eq!((none.expected, none.missing, none.gaps.len()), (4 + 96, 100, 1));
        assert!(!none.audited);
    }

    #[test]
    fn published_empty_is_told_from_never_published() {
        let found = coverage(Dataset::Mentions, "20160516", "20160516", &[]);
        let counts = (found.expected, found.known_absent, found.empty_upstream, found.missing);
        assert_eq!(counts, (96, 0, 7, 89));
    }

    #[test]
    fn events_come_in_years_months_and_days() {
        let found = coverage(Dataset::Events, "20050101", "20130402", &["2005", "200601"]);
        assert_eq!((found.expected, found.present), (1 + 7 * 12 + 3 + 2, 2));
        assert_eq!(found.gaps[0].first, period("200602"));
        assert_eq!(coverage(Dataset::EventsReduced, "", "", &["1979-2013"]).missing, 0);
        assert_eq!(coverage(Dataset::GkgV1, "", "", &[]).expected, 0);
    }
}
