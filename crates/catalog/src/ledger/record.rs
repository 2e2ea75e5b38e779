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
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The output was published.
    Done,
    /// The output was published and has no rows, since its source is empty.
    Empty,
    /// Nothing was published.
    Failed(String),
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
    /// The files of an output that is several, each with a record of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// When the work ended, in nanoseconds after 1970-01-01 UTC.
    pub finished_ns: i64,
    /// Version of the program.
    pub tool: String,
}

impl Record {
    /// Whether the output was published.
    pub fn is_published(&self) -> bool {
        !matches!(self.outcome, Outcome::Failed(_))
    }
}
