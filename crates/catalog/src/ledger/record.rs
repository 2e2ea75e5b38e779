//! What is recorded of one output.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{AggregatePeriod, Feed, Period};

/// The version of the record format that this program writes and reads.
pub const FORMAT: u32 = 1;

/// A stage as the ledger knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StageName {
    /// Raw files to Parquet.
    Convert,
    /// Repairs.
    Clean,
    /// Files of longer periods.
    Aggregate(AggregatePeriod),
}

impl StageName {
    /// The name of its directory in the catalog.
    pub fn name(self) -> &'static str {
        match self {
            Self::Convert => "convert",
            Self::Clean => "clean",
            Self::Aggregate(AggregatePeriod::Day) => "aggregate-day",
            Self::Aggregate(AggregatePeriod::Month) => "aggregate-month",
            Self::Aggregate(AggregatePeriod::Year) => "aggregate-year",
        }
    }
}

/// How the work on an output ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The output was published.
    Done,
    /// The output was published and has no rows, since its source is empty.
    Empty,
    /// Nothing was published: the source is damaged.
    Damaged {
        /// In which way.
        kind: Damage,
        /// What was found, and what to do.
        reason: String,
    },
    /// Nothing was published: the source would be larger, unpacked, than the settings allow.
    TooLarge(String),
    /// Nothing was published: GDELT never published the source, and what stands in its place is
    /// none.
    KnownAbsent(String),
    /// Nothing was published, for another reason.
    Failed(String),
}

impl Outcome {
    /// The name of the status.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Empty => "empty",
            Self::Damaged { .. } => "damaged",
            Self::TooLarge(_) => "too-large",
            Self::KnownAbsent(_) => "known-absent",
            Self::Failed(_) => "failed",
        }
    }

    /// Why nothing was published; `None` if something was.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Done | Self::Empty => None,
            Self::Damaged { reason, .. }
            | Self::TooLarge(reason)
            | Self::KnownAbsent(reason)
            | Self::Failed(reason) => Some(reason),
        }
    }
}

/// What is wrong with a damaged source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// The file has 0 bytes.
    NoBytes,
    /// The file is cut short.
    Truncated,
    /// The file is no zip.
    NotAZip,
    /// The directory of the zip contradicts itself or the file.
    Directory,
    /// The zip has no member.
    NoMember,
    /// The zip has several members where one is expected.
    SeveralMembers,
    /// The member is not named like the zip: it may be another day's.
    ForeignMember,
    /// The member is encrypted.
    Encrypted,
    /// The member is packed in a way that GDELT does not use.
    Method,
    /// The compressed data do not unpack.
    Data,
    /// The member has another length than the zip states.
    Size,
    /// The checksum is wrong.
    Checksum,
}

/// What became of the records of a raw file: `records` = `rows` + `rejected` + `blank`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordCounts {
    /// Lines of the file, without a header.
    pub records: u64,
    /// Records that became rows.
    pub rows: u64,
    /// Records that were rejected.
    pub rejected: u64,
    /// Lines without a character.
    pub blank: u64,
}

impl RecordCounts {
    /// Whether every record is accounted for.
    pub fn is_complete(self) -> bool {
        self.rows + self.rejected + self.blank == self.records
    }
}

/// A file that an output was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// File name, without its directory.
    pub name: String,
    /// Length in bytes.
    pub size: u64,
    /// Last modification, in nanoseconds after 1970-01-01 UTC.
    pub modified_ns: i64,
    /// Rows that it gave to the output.
    pub rows: u64,
}

/// How many rows hold a code, by column and code.
pub type CodeCounts = BTreeMap<String, BTreeMap<String, u64>>;

/// What is recorded of one output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this format, [`FORMAT`].
    pub format: u32,
    /// Path of the output, relative to the stage's data directory.
    pub output: String,
    /// The time it covers.
    pub period: Period,
    /// The feed it belongs to.
    pub feed: Feed,
    /// How the work ended.
    pub outcome: Outcome,
    /// What it was made of, in the order of its rows.
    pub sources: Vec<Source>,
    /// Digest of the settings that shaped it.
    pub fingerprint: String,
    /// Rows of the output.
    pub rows: u64,
    /// Length of the output in bytes.
    pub size: u64,
    /// Last modification of the output, in nanoseconds after 1970-01-01 UTC.
    pub modified_ns: i64,
    /// Byte at which the output's page index and footer begin.
    pub footer_start: u64,
    /// Least and greatest value of the whole-number keys and dates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub key_ranges: BTreeMap<String, (i64, i64)>,
    /// Counts of everything unusual that was met.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// Rows and records of its sources, those that are not in the output included.
    #[serde(default)]
    pub rows_read: u64,
    /// Values of columns with codes that no table of codes knows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown_codes: CodeCounts,
    /// What became of the records of a raw file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordCounts>,
    /// Where examples of what was rejected stand: a segment in `catalog/rejects`,
    /// `<segment>.parquet`. What other segments hold of the same source is out of date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejects: Option<String>,
    /// The files of an output that is several, each with a record of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// When the run that made it began, in nanoseconds after 1970-01-01 UTC.
    #[serde(default)]
    pub run_ns: i64,
    /// When the work ended, in nanoseconds after 1970-01-01 UTC.
    pub finished_ns: i64,
    /// Version of the program.
    pub tool: String,
}

impl Record {
    /// Whether the output was published.
    pub fn is_published(&self) -> bool {
        self.outcome.reason().is_none()
    }
}
