//! Where the files of a dataset stand.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Dataset, Period};

/// The length of an aggregated file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AggregatePeriod {
    /// A calendar day.
    Day,
    /// A calendar month.
    Month,
    /// A calendar year.
    Year,
}

impl AggregatePeriod {
    /// All lengths.
    pub const ALL: [Self; 3] = [Self::Day, Self::Month, Self::Year];

    /// The name in settings, flags and directories.
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The period of this length that holds the beginning of `period`.
    pub fn containing(self, period: Period) -> Period {
        use chrono::Datelike as _;
        let day = period.first_day();
        match self {
            Self::Day => Period::Day(day),
            Self::Month => Period::Month(day.with_day(1).unwrap_or(day)),
            Self::Year => Period::Year(day.year()),
        }
    }
}

impl FromStr for AggregatePeriod {
    type Err = UnknownPeriod;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|period| period.name() == name).ok_or(UnknownPeriod)
    }
}

/// A name that is no length of period.
#[derive(Debug, thiserror::Error)]
#[error("expected day, month or year")]
pub struct UnknownPeriod;

impl fmt::Display for AggregatePeriod {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A directory of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Directory {
    /// The zips as published.
    Raw,
    /// Parquet, a file per raw file.
    Converted,
    /// Parquet of yearly and monthly events where these are to stand in directories named by year
    /// and month.
    Hive,
    /// Repaired Parquet, a file per converted file.
    Cleaned,
    /// Parquet of longer periods.
    Aggregated(AggregatePeriod),
    /// The ledger and the rejects: never any data.
    Catalog,
}

impl Directory {
    /// Every directory of a dataset.
    pub const ALL: [Self; 8] = [
        Self::Raw,
        Self::Converted,
        Self::Hive,
        Self::Cleaned,
        Self::Aggregated(AggregatePeriod::Day),
        Self::Aggregated(AggregatePeriod::Month),
        Self::Aggregated(AggregatePeriod::Year),
        Self::Catalog,
    ];
}

impl fmt::Display for Directory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raw => formatter.write_str("raw"),
            Self::Converted => formatter.write_str("converted"),
            Self::Hive => formatter.write_str("hive"),
            Self::Cleaned => formatter.write_str("cleaned"),
            Self::Aggregated(period) => write!(formatter, "aggregated/{period}"),
            Self::Catalog => formatter.write_str("catalog"),
        }
    }
}

/// The archive's root, with the directories that stand elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
    elsewhere: BTreeMap<(Dataset, Directory), PathBuf>,
}

impl Layout {
    /// `<root>/<dataset>/{raw,converted,cleaned,aggregated/{day,month,year},catalog}`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), elsewhere: BTreeMap::new() }
    }

    /// Puts one directory elsewhere.
    #[must_use]
    pub fn with_directory(mut self, dataset: Dataset, directory: Directory, path: &Path) -> Self {
        self.elsewhere.insert((dataset, directory), path.to_owned());
        self
    }

    /// The archive's root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where files of this kind stand.
    pub fn directory(&self, dataset: Dataset, directory: Directory) -> PathBuf {
        match self.elsewhere.get(&(dataset, directory)) {
            Some(path) => path.clone(),
            None => self.root.join(dataset.name()).join(directory.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_follow_the_layout_unless_put_elsewhere() {
        let day = Directory::Aggregated(AggregatePeriod::Day);
        let layout = Layout::new(Path::new("/data")).with_directory(
            Dataset::GkgV2,
            Directory::Raw,
            Path::new("/nfs/gkg"),
        );
        assert_eq!(layout.directory(Dataset::GkgV2, Directory::Raw), Path::new("/nfs/gkg"));
        assert_eq!(
            layout.directory(Dataset::Events, Directory::Raw),
            Path::new("/data/events/raw")
        );
        assert_eq!(
            layout.directory(Dataset::Mentions, day),
            Path::new("/data/mentions/aggregated/day")
        );
    }

    #[test]
    fn a_slot_belongs_to_its_day_month_and_year() {
        let slot = Period::parse("20150218234500").unwrap();
        let labels = AggregatePeriod::ALL.map(|length| length.containing(slot).to_string());
        assert_eq!(labels, ["20150218", "201502", "2015"]);
    }
}
