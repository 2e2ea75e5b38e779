//! `--describe`: a paragraph for a methods section, from what is noted beside a sample.

use std::path::Path;

use catalog::{AggregatePeriod, FeedChoice};
use stage::{Error, ExitStatus, Session, print};

use crate::cli::{Allocation, Mode};
use crate::design::{Method, Size};
use crate::sidecar::DesignRecord;

/// Prints the paragraph, or with `--json` the design itself.
pub(crate) fn describe(session: &Session, sample: &Path) -> Result<ExitStatus, Error> {
    let record = DesignRecord::read(session, sample)?;
    let text = if session.json {
        serde_json::to_string(&record).map_err(|error| Error::Internal(error.to_string()))?
    } else {
        paragraph(&record)
    };
    print(&text)?;
    Ok(ExitStatus::Done)
}

fn paragraph(record: &DesignRecord) -> String {
    let DesignRecord { method, .. } = record;
    let range = match (&record.start_date, &record.end_date) {
        (Some(start), Some(end)) => format!(" from {start} to {end}"),
        (Some(start), None) => format!(" from {start} on"),
        (None, Some(end)) => format!(" to {end}"),
        (None, None) => String::new(),
    };
    let feed = match record.feed {
        FeedChoice::English => "",
        FeedChoice::Translation => ", translated feed",
        FeedChoice::Both => ", English and translated feed",
    };
    let frame = format!(
        "The sampling frame are the {} rows of GDELT's {} dataset{range}{feed} ({} files, {}, digest {}).",
        thousands(record.population),
        record.dataset,
        thousands(record.inputs.files),
        record.source,
        record.inputs.digest
    );
    let filter = match (&method.filter, &method.condition, record.matching) {
        (Some(filter), _, Some(matching)) | (None, Some(filter), Some(matching)) => {
            format!(" Of these, {} rows match the condition {filter}.", thousands(matching))
        }
        _ => String::new(),
    };
    format!(
        "{frame}{filter} {} Row priorities are {} with seed {}; the draw does not depend on how the \
         rows are split into files. Each row's weight is its stratum's number of rows by that of its \
         draws. Drawn with {}. {}",
        drawn(record, method),
        record.algorithm,
        record.seed,
        record.tool,
        record.citation
    )
}

/// How the rows were drawn.
fn drawn(record: &DesignRecord, method: &Method) -> String {
    let sampled = thousands(record.sampled);
    let replacement = if method.replace { "with" } else { "without" };
    let strata = thousands(record.strata.len() as u64);
    let column = method.strata_column.as_deref().unwrap_or_default();
    let by = match (method.mode, method.period) {
        (Mode::Calendar, Some(period)) => {
            let period = match period {
                AggregatePeriod::Day => "day",
                AggregatePeriod::Month => "month",
                AggregatePeriod::Year => "year",
            };
            format!("{strata} strata, each a {period} of {column}")
        }
        _ => format!("{strata} strata, each a value of {column}"),
    };
    match method.size {
        Size::N(_) => {
            format!("A simple random sample of {sampled} rows was drawn {replacement} replacement.")
        }
        Size::PerStratum(each) => format!(
            "A stratified random sample of {sampled} rows was drawn {replacement} replacement: {} \
             rows from each of {by}, or all where there are fewer.",
            thousands(each)
        ),
        Size::Allocated { allocation, minimum, .. } => {
            let allocation = match allocation {
                Allocation::Equal => String::from("equally"),
                Allocation::Proportional => String::from("in proportion to their rows"),
                Allocation::Neyman => format!(
                    "by Neyman's allocation on {}",
                    method.variance_column.as_deref().unwrap_or_default()
                ),
            };
            format!(
                "A stratified random sample of {sampled} rows was drawn {replacement} replacement \
                 from {by}, shared out {allocation}, with largest remainders and at least {minimum} \
                 rows from each."
            )
        }
    }
}

/// A number with its thousands set apart.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let numbers = [0, 999, 1_000, 1_234_567].map(thousands);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
    }
}
