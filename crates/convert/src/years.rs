//! The reduced events file, one member for 35 years: rows go to a Parquet file for each year,
//! `Year=1979/…`. The files are closed only once the whole member has been read and is right.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use arrow::array::RecordBatch;
use catalog::{Dataset, ParquetName, Period};
use io_budget::Budget;
use stage::settings::DatasetConversion;
use stage::work::{MadeFile, Task, TaskError};

use crate::output::Output;

/// Rows of a batch: a batch for each of 35 years may be under way.
pub(crate) const BATCH_ROWS: usize = 8_192;
/// Rows of all years' unfinished row groups; above it the longest is ended early. Where the records
/// come in order of time this hardly happens.
const ROWS_IN_MEMORY: usize = 500_000;

/// The years that the file covers: a bound on the files that are open at once.
const YEARS: RangeInclusive<i32> = 1979..=2013;

/// The year of a record: the first four of the eight digits of its date. `None` where there is no
/// date, or one that the file does not cover.
pub(crate) fn year_of(record: &[u8]) -> Option<i32> {
    let date = record.split(|byte| *byte == b'\t').next()?;
    match Period::parse(std::str::from_utf8(date).ok()?)? {
        Period::Day(day) => Some(chrono::Datelike::year(&day)).filter(|year| YEARS.contains(year)),
        _ => None,
    }
}

/// The files of the years seen so far.
#[derive(Debug)]
pub(crate) struct Years {
    budget: Budget,
    task: Task,
    settings: DatasetConversion,
    by_year: BTreeMap<i32, Output>,
}

impl Years {
    pub(crate) fn new(budget: &Budget, task: &Task, settings: &DatasetConversion) -> Self {
        let (budget, task, settings) = (budget.clone(), task.clone(), settings.clone());
        Self { budget, task, settings, by_year: BTreeMap::new() }
    }

    /// Writes rows of a year.
    pub(crate) fn write(&mut self, year: i32, batch: &RecordBatch) -> Result<(), TaskError> {
        if !self.by_year.contains_key(&year) {
            let begun = self.begin(year)?;
            self.by_year.insert(year, begun);
        }
        let Some(output) = self.by_year.get_mut(&year) else { return Ok(()) };
        output.write(batch)?;
        self.bound_memory()
    }

    fn bound_memory(&mut self) -> Result<(), TaskError> {
        let rows = self.by_year.values().map(Output::rows_in_memory).sum::<usize>();
        if rows > ROWS_IN_MEMORY {
            let outputs = self.by_year.values_mut();
            if let Some(longest) = outputs.max_by_key(|output| output.rows_in_memory()) {
                longest.end_row_group()?;
            }
        }
        Ok(())
    }

    fn begin(&self, year: i32) -> Result<Output, TaskError> {
        let (dataset, feed) = (Dataset::EventsReduced, self.task.feed);
        let file = ParquetName { period: Period::Year(year), feed, cleaned: false, dataset };
        let name = format!("Year={year}/{file}");
        Output::begin_among(&self.budget, &self.task, &name, &self.settings)
    }

    /// Closes the files, oldest first.
    pub(crate) fn close(self, source: &str) -> Result<Vec<MadeFile>, TaskError> {
        self.by_year.into_values().map(|output| output.close(source)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_years_of_the_file_count() {
        for (date, year) in [
            ("19790101", Some(1979)),
            ("20131231", Some(2013)),
            ("19781231", None),
            ("99990101", None),
            ("19791301", None),
            ("1979", None),
            ("", None),
        ] {
            assert_eq!(year_of(format!("{date}\tUSA").as_bytes()), year, "{date}");
        }
    }
}
