//! Which files of the archive are missing, said before anything is converted. What should be there
//! is the catalog's to know.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use catalog::{
    Coverage, Dataset, Directory, Feed, FileName, Gap, Layout, ParquetName, Period, absent,
};
use stage::files::{Nesting, list_parquet};
use stage::{Error, ExitStatus, Session};

/// Gaps that are told one by one; a script reads all of them with `--json`.
const TOLD: usize = 20;

/// Compares the files that are here, raw or converted, with those that the dates call for.
///
/// # Errors
///
/// [`Error::NoInput`] when there is no dataset to look at, [`Error::Io`] when a directory cannot be
/// listed or stdout is closed.
pub(crate) fn report(session: &Session) -> Result<ExitStatus, Error> {
    let layout = session.layout()?;
    let named = &session.settings.datasets;
    let datasets = if named.is_empty() { &Dataset::ALL[..] } else { &named[..] };
    let mut coverages = Vec::new();
    for dataset in datasets {
        let Some(mut here) = files(session, &layout, *dataset)? else { continue };
        // A translated feed of which there is nothing at all is not kept here.
        here.entry(Feed::English).or_default();
        for (feed, periods) in here {
            if session.settings.feed.includes(feed) {
                coverages.push(Coverage::of(*dataset, feed, session.range, &periods));
            }
        }
    }
    if coverages.is_empty() {
        return Err(Error::NoInput {
            message: format!("no raw or converted files under {}", layout.root().display()),
            hint: String::from("check --root and --dataset"),
        });
    }
    if session.json {
        let json = serde_json::to_string(&coverages)
            .map_err(|error| Error::Internal(error.to_string()))?;
        stage::print(&json)?;
    } else {
        let text: Vec<String> = coverages.iter().map(told).collect();
        stage::print(&text.join("\n"))?;
    }
    Ok(ExitStatus::Done)
}

/// Periods of the files that are here, by feed, raw or converted: a raw file may have been deleted
/// since. None where there is no directory at all.
fn files(
    session: &Session,
    layout: &Layout,
    dataset: Dataset,
) -> Result<Option<BTreeMap<Feed, BTreeSet<Period>>>, Error> {
    let raw = session.budget.list_names(&layout.directory(dataset, Directory::Raw));
    let raw = unless_missing(raw.map_err(Error::from))?;
    let converted = |directory, nesting| {
        let directory = layout.directory(dataset, directory);
        unless_missing(list_parquet(&session.budget, dataset, &directory, nesting))
    };
    let plain = converted(Directory::Converted, Nesting::of(dataset))?;
    let hive = match dataset {
        Dataset::Events => converted(Directory::Hive, Nesting::ByPeriod)?,
        _ => None,
    };
    if raw.is_none() && plain.is_none() && hive.is_none() {
        return Ok(None);
    }
    let of_raw = raw.into_iter().flatten().filter_map(|name| FileName::parse(&name).ok());
    let of_raw = of_raw.filter(|name| name.dataset == dataset).map(|it| (it.feed, it.period));
    let of_converted = plain.into_iter().chain(hive).flatten().map(|file| {
        let ParquetName { feed, period, .. } = file.name;
        // The one raw file of all years became a file for each.
        let reduced = dataset == Dataset::EventsReduced;
        (feed, if reduced { Period::Years(1979, 2013) } else { period })
    });
    let mut here: BTreeMap<Feed, BTreeSet<Period>> = BTreeMap::new();
    for (feed, period) in of_raw.chain(of_converted) {
        here.entry(feed).or_default().insert(period);
    }
    Ok(Some(here))
}

/// None for a directory that does not exist.
fn unless_missing<T>(listed: Result<T, Error>) -> Result<Option<T>, Error> {
    match listed {
        Err(Error::Io(error)) if error.is_not_found() => Ok(None),
        listed => listed.map(Some),
    }
}

/// A dataset's line, and a line for each of its gaps.
fn told(coverage: &Coverage) -> String {
    let Coverage { dataset, feed, expected, present, missing, .. } = coverage;
    let mut text = format!(
        "{dataset}, {}: {present} of {expected} files are here, {missing} missing for no known \
         reason",
        feed.name()
    );
    for (count, words) in
        [(coverage.known_absent, "never published"), (coverage.empty_upstream, "published empty")]
    {
        if count > 0 {
            let _ok = write!(text, ", {count} {words}");
        }
    }
    if coverage.audited {
        let _ok = write!(text, " (known to {})", absent::audited_through());
    } else {
        text.push_str(" (what GDELT never published of these is not known)");
    }
    for Gap { first, last, files } in coverage.gaps.iter().take(TOLD) {
        let _ok = match files {
            1 => write!(text, "\n  {first}"),
            files => write!(text, "\n  {first} to {last}: {files} files"),
        };
    }
    let more = coverage.gaps.len().saturating_sub(TOLD);
    if more > 0 {
        let _ok = write!(text, "\n  and {more} gaps more: --json lists them all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::DateRange;

    fn coverage(dataset: Dataset, start: &str, end: &str, here: &[&str]) -> Coverage {
        let period = |digits: &&str| Period::parse(digits).unwrap();
        let day = |digits: &str| Period::parse(digits).map(Period::first_day);
        let range = DateRange { start: day(start), end: day(end) };
        Coverage::of(dataset, Feed::English, range, &here.iter().map(period).collect())
    }

    #[test]
    fn gaps_are_told_with_what_is_known_of_them() {
        // DL-01
        let days = coverage(Dataset::Events, "20140122", "20140129", &["20140122", "20140126"]);
        let expected = "\
events, english: 2 of 8 files are here, 3 missing for no known reason, 3 never published (known to \
                        2025-12-31)
  20140127 to 20140129: 3 files";
        assert_eq!(told(&days), expected);
        let slots = ["20200601000000", "20200601003000"];
        let slots = coverage(Dataset::Events15Min, "", "", &slots);
        let expected = "\
events-15min, english: 2 of 3 files are here, 1 missing for no known reason (what GDELT never \
                        published of these is not known)
  20200601001500";
        assert_eq!(told(&slots), expected);
    }

    #[test]
    fn many_gaps_are_told_in_part() {
        let odd_days: Vec<String> = (0..60)
            .map(|number| format!("2019{:02}{:02}", 1 + number / 14, 1 + number % 14 * 2))
            .collect();
        let here: Vec<&str> = odd_days.iter().map(String::as_str).collect();
        let text = told(&coverage(Dataset::GkgV1, "", "", &here));
        assert_eq!(text.lines().count(), 1 + TOLD + 1);
        assert!(text.ends_with("gaps more: --json lists them all"), "{text}");
    }
}
