//! The command line, as typed.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use catalog::{AggregatePeriod, Dataset};
use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};
use stage::cli::{CommonArgs, SourceArgs};

/// Draw a reproducible random sample of rows from a dataset's Parquet files
///
/// The same seed gives the same rows on any machine, with any number of workers, and whether the
/// rows stand in files of 15 minutes, a day, a month or a year. Rows are written in the order of the
/// archive, each with its weight in an estimate (`SamplingWeight`). Beside the sample stand its
/// design (`<out>.design.json`) and the list of the files it was drawn from
/// (`<out>.inputs.parquet`). Only the pages that hold chosen rows are read, and before that only the
/// columns that decide.
#[derive(Debug, Parser)]
#[command(name = "gdelt-sample", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Args {
    /// Dataset to draw from, as in events-15min
    #[arg(
        long,
        value_name = "DATASET",
        required_unless_present = "describe",
        help_heading = "Sample"
    )]
    pub dataset: Option<Dataset>,
    /// How rows are drawn
    #[arg(
        long,
        value_name = "MODE",
        required_unless_present = "describe",
        help_heading = "Sample"
    )]
    pub mode: Option<Mode>,
    /// Whole number that decides which rows are drawn
    #[arg(
        long,
        value_name = "NUMBER",
        required_unless_present = "describe",
        help_heading = "Sample"
    )]
    pub seed: Option<u64>,
    /// File to write, as its ending says: .parquet, .csv or .arrow; one that exists is replaced
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "describe",
        help_heading = "Sample"
    )]
    pub out: Option<PathBuf>,
    /// Rows to draw, in all
    #[arg(short = 'n', value_name = "ROWS", value_parser = parse_rows, help_heading = "Sample")]
    pub rows: Option<NonZeroUsize>,
    /// Draw rows with replacement: a row may come several times
    #[arg(long, help_heading = "Sample")]
    pub replace: bool,
    /// Columns to write, separated by commas, in this order [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Sample")]
    pub columns: Option<Vec<String>>,
    /// Leave `SamplingWeight` away
    #[arg(long, help_heading = "Sample")]
    pub no_weights: bool,
    /// Add `SourceFile` and `SourceRow`: the converted file of each row, and its place there, from 0
    #[arg(long, help_heading = "Sample")]
    pub provenance: bool,
    /// Print a paragraph for a methods section on a sample that exists, and do nothing else
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["dataset", "mode", "seed", "out"],
        help_heading = "Sample"
    )]
    pub describe: Option<PathBuf>,
    /// Which rows may be drawn (filtered): JSON, see below
    #[arg(long, value_name = "JSON", conflicts_with = "condition", help_heading = "Filter")]
    pub filter: Option<String>,
    /// The same as a condition of SQL (filtered)
    #[arg(long = "where", value_name = "CONDITION", help_heading = "Filter")]
    pub condition: Option<String>,
    /// Length of the periods by the date in the row: day, month or year (calendar)
    #[arg(long, value_name = "PERIOD", help_heading = "Strata")]
    pub period: Option<AggregatePeriod>,
    /// The column of that date [default: the dataset's own, as Day] (calendar)
    #[arg(long, value_name = "COLUMN", help_heading = "Strata")]
    pub date_column: Option<String>,
    /// Draw from each value of this column (filtered)
    #[arg(long, value_name = "COLUMN", help_heading = "Strata")]
    pub stratify: Option<String>,
    /// Rows to draw from each period or value, over all files; all rows where there are fewer
    #[arg(
        long, value_name = "ROWS", visible_alias = "per-stratum", value_parser = parse_rows,
        help_heading = "Strata"
    )]
    pub per_period: Option<NonZeroUsize>,
    /// How -n is shared out to periods or values [default: proportional]
    #[arg(long, value_name = "ALLOCATION", help_heading = "Strata")]
    pub allocation: Option<Allocation>,
    /// The column whose deviation neyman goes by
    #[arg(long, value_name = "COLUMN", help_heading = "Strata")]
    pub variance_column: Option<String>,
    /// Rows that each period or value gets at least, with -n [default: 1]
    #[arg(long, value_name = "ROWS", help_heading = "Strata")]
    pub min_per_stratum: Option<u64>,
    /// Which files to read.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Flags of every stage.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// How rows are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// -n rows of all rows, each equally likely
    Indexed,
    /// -n rows of those that match --filter or --where; with --stratify from each value of a column
    Filtered,
    /// Rows of each day, month or year
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

/// How the rows of a stratified sample are shared out to the strata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Allocation {
    /// As many from each
    Equal,
    /// By their numbers of rows
    #[default]
    Proportional,
    /// By their numbers of rows times the standard deviation of --variance-column
    Neyman,
}

const EXAMPLES: &str = r#"Filters:
  {"QuadClass": 4}                          equal to
  {"EventRootCode": ["18", "19"]}           one of; codes are text, so they stand in quotes
  {"AvgTone": {"gt": 2.5}}                  equals in_list gt ge lt le between range is_null not_null
  {"Day": {"between": ["2020-01-01", "2020-01-31"]}}
  {"QuadClass": 4, "ActionGeo_CountryCode": "US"}         both
  {"OR": [{"QuadClass": 4}, {"NOT": {"AvgTone": {"ge": 0}}}]}
  --where "(QuadClass = 4 OR NOT AvgTone >= 0) AND ActionGeo_CountryCode IN ('US', 'MX')"
  A missing value (null or NaN) never matches a comparison, nor the NOT of one.

Examples:
  gdelt-sample --root /data --dataset events-15min --mode indexed -n 1000 --seed 42 --out s.parquet
  gdelt-sample --root /data --dataset events --mode filtered --filter '{"QuadClass": [3, 4]}' \
      -n 500 --seed 7 --columns GlobalEventID,Day,EventCode --out conflict.parquet
  gdelt-sample --root /data --dataset events --mode filtered --stratify ActionGeo_CountryCode \
      -n 5000 --allocation neyman --variance-column AvgTone --seed 7 --out countries.parquet
  gdelt-sample --root /data --dataset gkg-v2 --mode calendar --per-period 100 --period day \
      --source aggregated --seed 1 --out daily.parquet
  gdelt-sample --describe daily.parquet"#;

fn parse_rows(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| String::from("expected a whole number of at least 1"))
}
