//! Draws rows of each period, by the date that stands in the row.

use std::collections::BTreeMap;

use arrow::array::AsArray as _;
use arrow::datatypes::Int64Type;
use catalog::{AggregatePeriod, Dataset, DateRange, Period};
use chrono::{Datelike as _, NaiveDate};
use stage::{Error, Session};

use crate::bottom_k::BottomK;
use crate::columns::DeclaredColumn;
use crate::draw::{Draw, Stratum};
use crate::population::Population;
use crate::priority::Priorities;
use crate::scan::scan;

/// The first year of the archive. Rows with an earlier date are dated wrongly.
const FIRST_YEAR: i32 = 1979;

/// Draws `per_period` rows of each period, all of a period that has fewer, reading the date column.
/// Rows without a date are left out and counted.
///
/// # Errors
///
/// Those of [`scan`].
pub(crate) fn calendar(
    session: &Session,
    dataset: Dataset,
    population: &Population,
    priorities: Priorities,
    per_period: usize,
    period: AggregatePeriod,
) -> Result<Draw, Error> {
    let date = DeclaredColumn {
        name: dataset.date_column(),
        column_type: catalog::ColumnType::Int64,
        optional: false,
    };
    let mut all = Periods::default();
    scan(
        session,
        population,
        &[date],
        Periods::default,
        |periods, batch, positions| {
            let mut known = None;
            for (value, position) in
                batch.column(0).as_primitive::<Int64Type>().iter().zip(positions)
            {
                let Some(position) = *position else { continue };
                let Some(value) = value else {
                    periods.without_date += 1;
                    continue;
                };
                // Rows of a file are of few dates, mostly in runs.
                let stratum = match known {
                    Some((same, stratum)) if same == value => stratum,
                    _ => period_of(value, period, session.range),
                };
                known = Some((value, stratum));
                periods.add(stratum, priorities.of(position), position, per_period);
            }
            Ok(())
        },
        |periods| all.merge(periods, per_period),
    )?;
    Ok(all.into_draw(population.rows))
}

/// What the date of a row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dated {
    /// It is no date.
    Impossible,
    /// It lies in this period.
    In {
        /// 8, 6 or 4 digits.
        label: u32,
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
    let Ok(year) = u32::try_from(day.year()) else { return Dated::Impossible };
    let label = match length {
        AggregatePeriod::Day => (year * 100 + day.month()) * 100 + day.day(),
        AggregatePeriod::Month => year * 100 + day.month(),
        AggregatePeriod::Year => year,
    };
    let inside = |day: NaiveDate| range.overlaps(Period::Day(day));
    Dated::In { label, before_1979: day.year() < FIRST_YEAR, outside_range: !inside(day) }
}

/// What was met of each period.
#[derive(Debug, Default)]
struct Periods {
    strata: BTreeMap<u32, (u64, BottomK)>,
    without_date: u64,
    impossible_date: u64,
    before_1979: u64,
    outside_range: u64,
}

impl Periods {
    fn add(&mut self, dated: Dated, priority: u64, position: u64, per_period: usize) {
        let Dated::In { label, before_1979, outside_range } = dated else {
            self.impossible_date += 1;
            return;
        };
        self.before_1979 += u64::from(before_1979);
        self.outside_range += u64::from(outside_range);
        let (rows, drawn) =
            self.strata.entry(label).or_insert_with(|| (0, BottomK::new(per_period)));
        *rows += 1;
        drawn.push(priority, position);
    }

    fn merge(&mut self, other: Self, per_period: usize) {
        self.without_date += other.without_date;
        self.impossible_date += other.impossible_date;
        self.before_1979 += other.before_1979;
        self.outside_range += other.outside_range;
        for (label, (found, kept)) in other.strata {
            let (rows, drawn) =
                self.strata.entry(label).or_insert_with(|| (0, BottomK::new(per_period)));
            *rows += found;
            drawn.merge(kept);
        }
    }

    fn into_draw(self, population: u64) -> Draw {
        let mut draw = Draw { population, ..Draw::default() };
        for (label, (rows, drawn)) in self.strata {
            let positions = drawn.into_positions();
            draw.strata.insert(label, Stratum { rows, sampled: positions.len() as u64 });
            draw.positions.extend(positions);
        }
        draw.positions.sort_unstable();
        draw.counts = [
            ("without_date", self.without_date),
            ("impossible_date", self.impossible_date),
            ("before_1979", self.before_1979),
            ("outside_range", self.outside_range),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.to_owned(), count))
        .collect();
        draw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
