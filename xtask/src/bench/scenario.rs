//! What is measured: a stage on a dataset.

use std::fmt;

use clap::ValueEnum;

/// A stage on a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scenario {
    /// Convert the zips of gkg-v2
    Convert,
    /// Convert the zips of mentions, which are small
    ConvertMentions,
    /// Clean gkg-v2: drop rows without a value in one column
    Clean,
    /// Join the files of gkg-v2 by days
    Aggregate,
    /// Draw 1,000 rows of gkg-v2
    Sample,
    /// Draw 1,000 rows of each day of gkg-v2
    SampleCalendar,
    /// Join a sample of 1,000 events with mentions and gkg-v2
    Crossref,
}

/// Rows drawn by the stages that draw.
pub(super) const ROWS: &str = "1000";
/// The column that a row needs in order to stay when gkg-v2 is cleaned.
pub(super) const REQUIRED_COLUMN: &str = "V1LOCATIONS";

impl Scenario {
    pub(super) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Its line above a table.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Convert => "convert, GKG 2.1",
            Self::ConvertMentions => "convert, Mentions",
            Self::Clean => "clean, GKG 2.1, one column required",
            Self::Aggregate => "aggregate, GKG 2.1 by day",
            Self::Sample => "sample, GKG 2.1, 1,000 rows (indexed)",
            Self::SampleCalendar => "sample, GKG 2.1, 1,000 rows of each day (calendar)",
            Self::Crossref => "crossref, 1,000 events with Mentions and GKG 2.1",
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        formatter.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}
