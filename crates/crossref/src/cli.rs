//! The command line, as typed.

use std::path::PathBuf;

use catalog::Dataset;
use clap::{Parser, ValueEnum};
use stage::cli::{CommonArgs, SourceArgs};

/// Join events with the GKG records of the articles that report them
///
/// The output has a row for every event, mention and record that belong together: an event that
/// three articles report gives three rows, an article that reports three events gives three rows
/// too, and events without a record give none. Nothing is collapsed and time drops nothing: an
/// article of today may mention an event of years ago.
///
/// Columns are those of the events, then `Mention_MentionTimeDate` and `Mention_Confidence` (v2
/// only), then those of GKG with `GKG_` before their names. Only the columns that decide are read
/// of every file; of the others, the pages that hold matching rows.
#[derive(Debug, Parser)]
#[command(name = "gdelt-crossref", version, after_help = EXAMPLES)]
pub struct Args {
    /// Events to join: a Parquet file with a column `GlobalEventID`, such as a sample, or a
    /// directory of such files
    #[arg(long, value_name = "PATH", help_heading = "Join")]
    pub events: PathBuf,
    /// Generation of GKG to join with
    #[arg(long, value_enum, value_name = "VERSION", help_heading = "Join")]
    pub gkg_version: GkgVersion,
    /// Parquet file to write; one that exists is replaced
    #[arg(long, value_name = "FILE", help_heading = "Join")]
    pub out: PathBuf,
    /// Which files to read.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Flags of every stage.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// A generation of GKG, and how events are joined with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GkgVersion {
    /// GKG 1.0 (since 2013-04-01): a record lists the ids of its events; one that lists an id twice
    /// gives two rows, which the summary counts
    V1,
    /// GKG 2.1 (since 2015-02-18): Mentions name the articles of an event, a record names its
    /// article; the two are compared byte for byte
    V2,
}

impl GkgVersion {
    /// The dataset that holds the records.
    pub fn dataset(self) -> Dataset {
        match self {
            Self::V1 => Dataset::GkgV1,
            Self::V2 => Dataset::GkgV2,
        }
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  gdelt-crossref --root /data --events sample.parquet --gkg-version v2 --out enriched.parquet
  gdelt-crossref --root /data --events sample.parquet --gkg-version v2 \\
      --source aggregated --source-period month --jobs 8 --out enriched.parquet
  gdelt-crossref --root /data --events sample.parquet --gkg-version v1 \\
      --start-date 2014-01-01 --end-date 2014-12-31 --out enriched.parquet

The dates choose files of GKG and Mentions, not events: with dates around the events' own, the
articles that came back to them later are not found.";
