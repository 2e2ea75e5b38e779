//! Which files of the archive are missing here, without those that GDELT never published.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use catalog::{Coverage, Dataset, Directory, Feed, FileName, Layout, ParquetName, Period, absent};
use stage::files::{Nesting, list_parquet};
use stage::{Error, ExitStatus, Session};

/// Prints the gaps of the datasets and dates that are asked for. Raw files count, and converted
/// ones whose raw files were deleted.
pub(crate) fn report(session: &Session) -> Result<ExitStatus, Error> {
    let layout = session.layout()?;
    let named = &session.settings.datasets;
    let datasets = if named.is_empty() { &Dataset::ALL[..] } else { &named[..] };
    let mut reports = Vec::new();
    for dataset in datasets {
        let mut here = files_here(session, &layout, *dataset)?;
        if here.is_empty() && named.is_empty() {
            continue;
        }
        // A feed of which there is nothing at all is not kept here.
        here.entry(Feed::English).or_default();
        for (feed, periods) in here {
            if session.settings.feed.includes(feed) {
                reports.push(Coverage::of(*dataset, feed, session.range, &periods));
            }
        }
    }
    if reports.is_empty() {
        return Err(Error::NoInput {
            message: format!("{} holds no files", layout.root().display()),
            hint: String::from("check --root, or name what should be there with --dataset"),
        });
    }
    let text = if session.json {
        serde_json::to_string(&reports).map_err(|error| Error::Internal(error.to_string()))?
    } else {
        reports.iter().map(lines).collect::<Vec<_>>().join("\n")
    };
    stage::print(&text)?;
    Ok(ExitStatus::Done)
}

fn lines(coverage: &Coverage) -> String {
    let Coverage {
        dataset, feed, expected, present, known_absent, empty_upstream, missing, ..
    } = coverage;
    let audited = if coverage.audited {
        format!("{known_absent} never published (audited through {})", absent::audited_through())
    } else {
        String::from("what was never published is not known")
    };
    let mut text = format!(
        "{dataset} ({}): {present} of {expected} files, {audited}, {empty_upstream} published \
         empty, {missing} missing",
        feed.name()
    );
    for gap in &coverage.gaps {
        let (first, last, files) = (gap.first, gap.last, gap.files);
        // Writing to a string cannot fail.
        let _ok = if files == 1 {
            write!(text, "\n  {first}")
        } else {
            write!(text, "\n  {first} to {last}: {files} files")
        };
    }
    text
}

fn files_here(
    session: &Session,
    layout: &Layout,
    dataset: Dataset,
) -> Result<BTreeMap<Feed, BTreeSet<Period>>, Error> {
    let mut here: BTreeMap<Feed, BTreeSet<Period>> = BTreeMap::new();
    let raw = layout.directory(dataset, Directory::Raw);
    let is_raw = |name: &str| FileName::parse(name).is_ok_and(|name| name.dataset == dataset);
    for entry in unless_missing(session.budget.list(&raw, is_raw).map_err(Error::from))? {
        if let Ok(FileName { feed, period, .. }) = FileName::parse(&entry.name) {
            here.entry(feed).or_default().insert(period);
        }
    }
    let converted = layout.directory(dataset, Directory::Converted);
    let hive = layout.directory(dataset, Directory::Hive);
    let list = |directory: &Path, nesting| {
        unless_missing(list_parquet(&session.budget, dataset, directory, nesting))
    };
    let mut files = list(&converted, Nesting::of(dataset))?;
    if dataset == Dataset::Events {
        files.extend(list(&hive, Nesting::ByPeriod)?);
    }
    for file in files {
        let ParquetName { feed, period, .. } = file.name;
        // The reduced file stands here by years.
        let period =
            if dataset == Dataset::EventsReduced { Period::Years(1979, 2013) } else { period };
        here.entry(feed).or_default().insert(period);
    }
    Ok(here)
}

/// A directory that does not exist holds nothing.
fn unless_missing<T>(listed: Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
    match listed {
        Err(Error::Io(error)) if error.is_not_found() => Ok(Vec::new()),
        listed => listed,
    }
}
