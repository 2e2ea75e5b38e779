//! The seven datasets of the archive and what sets them apart.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::schema::{self, Column};

/// A dataset of the GDELT archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dataset {
    /// GDELT 1.0 events: yearly files for 1979 to 2005, monthly to March 2013, daily since.
    Events,
    /// GDELT 2.0 events, a file each 15 minutes since 2015-02-18.
    #[serde(rename = "events-15min")]
    Events15Min,
    /// The reduced events file of 1979 to 2013: one row per day, actors and code.
    EventsReduced,
    /// GKG 1.0, daily since 2013-04-01.
    GkgV1,
    /// Counts of GKG 1.0, daily since 2013-04-01.
    GkgV1Counts,
    /// GKG 2.1, a file each 15 minutes since 2015-02-18.
    GkgV2,
    /// Mentions of GDELT 2.0 events, a file each 15 minutes since 2015-02-18.
    Mentions,
}

/// The language side of a 15-minute file. Part of a file's identity: both feeds publish a file
/// for the same slot.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Feed {
    /// Articles in English.
    #[default]
    English,
    /// Articles translated to English by GDELT.
    Translation,
}

impl Feed {
    /// The name in settings and notes.
    pub fn name(self) -> &'static str {
        match self {
            Self::English => "english",
            Self::Translation => "translation",
        }
    }
}

/// Which feeds to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeedChoice {
    /// English only.
    #[default]
    English,
    /// Translation only.
    Translation,
    /// Both, each in files of its own.
    Both,
}

impl FeedChoice {
    /// Whether files of this feed are taken.
    pub fn includes(self, feed: Feed) -> bool {
        match self {
            Self::English => feed == Feed::English,
            Self::Translation => feed == Feed::Translation,
            Self::Both => true,
        }
    }
}

impl Dataset {
    /// All datasets, in the order in which they are worked on.
    pub const ALL: [Self; 7] = [
        Self::Events,
        Self::Events15Min,
        Self::EventsReduced,
        Self::GkgV1,
        Self::GkgV1Counts,
        Self::GkgV2,
        Self::Mentions,
    ];

    /// The name in settings, flags and directories.
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Events15Min => "events-15min",
            Self::EventsReduced => "events-reduced",
            Self::GkgV1 => "gkg-v1",
            Self::GkgV1Counts => "gkg-v1-counts",
            Self::GkgV2 => "gkg-v2",
            Self::Mentions => "mentions",
        }
    }

    /// The columns in file order.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Events => schema::EVENTS,
            Self::Events15Min => schema::EVENTS_15MIN,
            Self::EventsReduced => schema::EVENTS_REDUCED,
            Self::GkgV1 => schema::GKG_V1,
            Self::GkgV1Counts => schema::GKG_V1_COUNTS,
            Self::GkgV2 => schema::GKG_V2,
            Self::Mentions => schema::MENTIONS,
        }
    }

    /// The numbers of fields a record may have. A file is of one width; in a narrower file the
    /// last columns do not exist: events before April 2013 have no `SOURCEURL`.
    pub fn widths(self) -> &'static [usize] {
        match self {
            Self::Events => &[58, 57],
            Self::Events15Min => &[61],
            Self::EventsReduced => &[17],
            Self::GkgV1 => &[11],
            Self::GkgV1Counts => &[15],
            Self::GkgV2 => &[27],
            Self::Mentions => &[16],
        }
    }

    /// The names in the header row, for datasets whose originals have one.
    pub fn header(self) -> Option<&'static [&'static str]> {
        match self {
            Self::GkgV1 => Some(schema::GKG_V1_HEADER),
            Self::GkgV1Counts => Some(schema::GKG_V1_COUNTS_HEADER),
            Self::EventsReduced => Some(schema::EVENTS_REDUCED_HEADER),
            Self::Events | Self::Events15Min | Self::GkgV2 | Self::Mentions => None,
        }
    }

    /// The column that dates a row, as 8 (day) or 14 (second) digits.
    pub fn date_column(self) -> &'static str {
        match self {
            Self::Events | Self::Events15Min => "Day",
            Self::EventsReduced | Self::GkgV1 | Self::GkgV1Counts => "Date",
            Self::GkgV2 => "V2.1DATE",
            Self::Mentions => "MentionTimeDate",
        }
    }

    /// The columns that other datasets are joined by.
    pub fn join_keys(self) -> &'static [&'static str] {
        match self {
            Self::Events | Self::Events15Min => &["GlobalEventID"],
            Self::EventsReduced => &[],
            Self::GkgV1 | Self::GkgV1Counts => &["EventIds"],
            Self::GkgV2 => &["V2DOCUMENTIDENTIFIER"],
            Self::Mentions => &["GLOBALEVENTID", "MentionIdentifier"],
        }
    }

    /// Whether a file is published each 15 minutes, so that period files are worth making.
    pub fn is_quarter_hourly(self) -> bool {
        matches!(self, Self::Events15Min | Self::GkgV2 | Self::Mentions)
    }

    /// The word in file names between time and extension: `export` in `20130401.export.CSV`.
    pub(crate) fn name_part(self) -> Option<&'static str> {
        match self {
            Self::Events | Self::Events15Min => Some("export"),
            Self::EventsReduced => None,
            Self::GkgV1 | Self::GkgV2 => Some("gkg"),
            Self::GkgV1Counts => Some("gkgcounts"),
            Self::Mentions => Some("mentions"),
        }
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that is no dataset's.
#[derive(Debug, thiserror::Error)]
#[error("unknown dataset `{name}`, expected one of {}", Dataset::ALL.map(Dataset::name).join(", "))]
pub struct UnknownDataset {
    name: String,
}

impl FromStr for Dataset {
    type Err = UnknownDataset;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|dataset| dataset.name() == name);
        found.ok_or_else(|| UnknownDataset { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dataset_has_the_columns_of_its_codebook() {
        let widths: Vec<_> = Dataset::ALL.map(|dataset| dataset.columns().len()).into();
        assert_eq!(widths, [58, 61, 17, 11, 15, 27, 16]);
        for dataset in Dataset::ALL {
            assert_eq!(dataset.widths()[0], dataset.columns().len(), "{dataset}");
            let names: Vec<_> = dataset.columns().iter().map(|column| column.name).collect();
            let header = dataset.header().map_or(names.len(), <[_]>::len);
            assert_eq!(header, names.len(), "{dataset}");
            assert!(names.contains(&dataset.date_column()), "{dataset}");
            assert!(dataset.join_keys().iter().all(|key| names.contains(key)), "{dataset}");
        }
    }

    #[test]
    fn names_are_read_back_and_serialised_alike() {
        for dataset in Dataset::ALL {
            assert_eq!(dataset.name().parse::<Dataset>().unwrap(), dataset);
            assert_eq!(serde_json::to_value(dataset).unwrap(), dataset.name());
        }
        let error = "gkg".parse::<Dataset>().unwrap_err().to_string();
        assert!(error.starts_with("unknown dataset `gkg`, expected one of events, events-15min"));
    }
}
