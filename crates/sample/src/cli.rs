//! The command line, as typed.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use catalog::{AggregatePeriod, Dataset};
use clap::{Parser, ValueEnum};
use stage::cli::{CommonArgs, SourceArgs};

/// Draw a reproducible random sample of rows from a dataset's Parquet files
///
/// The same seed gives the same rows on any machine, with any number of workers, and whether the
/// rows stand in files of 15 minutes, a day, a month or a year. Rows are drawn without replacement
/// and written in the order of the archive. Only the pages that hold chosen rows are read, and
/// before that only the columns that decide.
#[derive(Debug, Parser)]
#[command(name = "gdelt-sample", version, after_help = EXAMPLES)]
pub struct Args {
    /// Dataset to draw from, as in events-15min
    #[arg(long, value_name = "DATASET", help_heading = "Sample")]
    pub dataset: Dataset,
    /// How rows are drawn
    #[arg(long, value_name = "MODE", help_heading = "Sample")]
    pub mode: Mode,
    /// Whole number that decides which rows are drawn
    #[arg(long, value_name = "NUMBER", help_heading = "Sample")]
    pub seed: u64,
    /// File to write, as its ending says: .parquet, .csv or .arrow; one that exists is replaced
    #[arg(long, value_name = "FILE", help_heading = "Sample")]
    pub out: PathBuf,
    /// Rows to draw (indexed, filtered)
    #[arg(short = 'n', value_name = "ROWS", value_parser = parse_rows, help_heading = "Sample")]
    pub rows: Option<NonZeroUsize>,
    /// Which rows may be drawn (filtered): JSON, see below
    #[arg(long, value_name = "JSON", help_heading = "Sample")]
    pub filter: Option<String>,
    /// Rows to draw from each period, over all files; all rows of a period that has fewer (calendar)
    #[arg(long, value_name = "ROWS", value_parser = parse_rows, help_heading = "Sample")]
    pub per_period: Option<NonZeroUsize>,
    /// Length of the periods by the date in the row: day, month or year (calendar)
    #[arg(long, value_name = "PERIOD", help_heading = "Sample")]
    pub period: Option<AggregatePeriod>,
    /// Columns to write, separated by commas, in this order [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Sample")]
    pub columns: Option<Vec<String>>,
    /// Which files to read.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Flags of every stage.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// How rows are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// -n rows of all rows, each equally likely
    Indexed,
    /// -n rows of those that match --filter, each equally likely
    Filtered,
    /// --per-period rows of each day, month or year
    Calendar,
}

impl Mode {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Indexed => "indexed",
            Self::Filtered => "filtered",
            Self::Calendar => "calendar",
        }
    }
}

const EXAMPLES: &str = r#"Filters:
  {"QuadClass": 4}                          equal to
  {"EventRootCode": ["18", "19"]}           one of; codes are text, so they stand in quotes
  {"AvgTone": {"gt": 2.5}}                  equals in_list gt ge lt le between is_null not_null
  {"Day": {"between": ["2020-01-01", "2020-01-31"]}}
  {"QuadClass": 4, "ActionGeo_CountryCode": "US"}         both
  {"OR": [{"QuadClass": 4}, {"NOT": {"AvgTone": {"ge": 0}}}]}
  A missing value (null or NaN) never matches a comparison, nor the NOT of one.

Examples:
  gdelt-sample --root /data --dataset events-15min --mode indexed -n 1000 --seed 42 --out s.parquet
  gdelt-sample --root /data --dataset events --mode filtered --filter '{"QuadClass": [3, 4]}' \
      -n 500 --seed 7 --columns GlobalEventID,Day,EventCode --out conflict.parquet
  gdelt-sample --root /data --dataset gkg-v2 --mode calendar --per-period 100 --period day \
      --source aggregated --seed 1 --out daily.parquet"#;

fn parse_rows(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| String::from("expected a whole number of at least 1"))
}
