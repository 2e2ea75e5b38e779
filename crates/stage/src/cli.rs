//! Flags that all stages have. Each stage flattens these into its own.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use catalog::{AggregatePeriod, Dataset, FeedChoice};
use chrono::NaiveDate;
use clap::Args;
use figment::value::Value;

use crate::Error;
use crate::files::SourceChoice;
use crate::settings::{NumberOrWord, Order, RequestLimit};

/// Flags of every stage.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub struct CommonArgs {
    /// Archive root: `<root>/<dataset>/{raw,converted,cleaned,aggregated}`
    #[arg(long, value_name = "DIR", help_heading = "Archive")]
    pub root: Option<PathBuf>,
    /// Feed of 15-minute files: english, translation or both [default: english]
    #[arg(long, value_name = "FEED", value_parser = parse_feed, help_heading = "Archive")]
    pub feed: Option<FeedChoice>,
    /// First day, as 2020-01-31; files that cover a part of the range are taken
    #[arg(long, value_name = "DATE", value_parser = parse_date, help_heading = "Archive")]
    pub start_date: Option<NaiveDate>,
    /// Last day, included
    #[arg(long, value_name = "DATE", value_parser = parse_date, help_heading = "Archive")]
    pub end_date: Option<NaiveDate>,
    /// Settings file instead of ./gdelt-mill.toml
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub config: Option<PathBuf>,
    /// Worker threads [default: processors this process may use]
    #[arg(short, long, value_name = "N", help_heading = "Run")]
    pub jobs: Option<NonZeroUsize>,
    /// Read requests in flight, listings and opens included: a number that is never exceeded by all
    /// processes of this host together, `auto` (by the storage's class and latency) or `unlimited`
    /// [default: auto]
    #[arg(long, value_name = "N", help_heading = "Storage")]
    pub max_reads: Option<RequestLimit>,
    /// Write requests in flight, renames and syncs included [default: auto]
    #[arg(long, value_name = "N", help_heading = "Storage")]
    pub max_writes: Option<RequestLimit>,
    /// Say how the storage of each directory would be used, and why, and do nothing
    #[arg(long, help_heading = "Storage")]
    pub explain_io: bool,
    /// Say what would be done and change nothing
    #[arg(long, help_heading = "Run")]
    pub dry_run: bool,
    /// Print the summary as one JSON object on stdout
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print warnings and errors only
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// Print a line for every file
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
    /// Show no progress bar
    #[arg(long, help_heading = "Output")]
    pub no_progress: bool,
}

impl CommonArgs {
    /// The flags that are settings, by key.
    pub(crate) fn settings(&self) -> Vec<(&'static str, Value)> {
        let number = |number: NonZeroUsize| Value::from(number.get());
        let limit = |limit: RequestLimit| match limit.into() {
            NumberOrWord::Number(number) => Value::from(number),
            NumberOrWord::Word(word) => Value::from(word),
        };
        let feed = |feed| match feed {
            FeedChoice::English => "english",
            FeedChoice::Translation => "translation",
            FeedChoice::Both => "both",
        };
        let path = |path: &PathBuf| Value::from(path.to_string_lossy().into_owned());
        [
            ("root", self.root.as_ref().map(path)),
            ("feed", self.feed.map(|choice| Value::from(feed(choice)))),
            ("jobs", self.jobs.map(number)),
            ("io.reads", self.max_reads.map(limit)),
            ("io.writes", self.max_writes.map(limit)),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect()
    }
}

/// Flags of the stages that make a file for a file: convert, clean, aggregate.
#[derive(Debug, Clone, Args)]
pub struct FileArgs {
    /// Dataset to work on (can be repeated) [default: all that the root holds]
    #[arg(long = "dataset", value_name = "DATASET", help_heading = "Archive")]
    pub datasets: Vec<Dataset>,
    /// Begin with the oldest or the newest file [default: asc]
    #[arg(long, value_name = "ORDER", help_heading = "Run")]
    pub order: Option<Order>,
    /// Make again what is done already
    #[arg(long, help_heading = "Run")]
    pub force: bool,
    /// Files to work on instead of a root's: they are always made again, by one worker; with
    /// --root the root's ledger records those that go to its own directories
    #[arg(value_name = "FILE", help_heading = "Named files")]
    pub files: Vec<PathBuf>,
    /// Read more file names from a text file, one a line; `-` is stdin
    #[arg(long, value_name = "FILE", help_heading = "Named files")]
    pub files_from: Option<PathBuf>,
    /// Write the output of the named files here
    #[arg(long, value_name = "FILE", conflicts_with = "out_dir", help_heading = "Named files")]
    pub out: Option<PathBuf>,
    /// Write outputs of named files into this directory, under their usual names
    #[arg(long, value_name = "DIR", help_heading = "Named files")]
    pub out_dir: Option<PathBuf>,
}

impl FileArgs {
    /// The flags that are settings, by key.
    pub(crate) fn settings(&self) -> Vec<(&'static str, Value)> {
        let datasets: Vec<Value> =
            self.datasets.iter().map(|set| Value::from(set.name())).collect();
        let order = self.order.map(|order| match order {
            Order::Asc => "asc",
            Order::Desc => "desc",
        });
        let mut settings = Vec::new();
        if !datasets.is_empty() {
            settings.push(("datasets", Value::from(datasets)));
        }
        settings.extend(order.map(|order| ("order", Value::from(order))));
        settings
    }

    /// The files and directories that are named on the command line.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().chain(&self.out).chain(&self.out_dir)
    }

    /// Whether files are named on the command line.
    pub fn names_files(&self) -> bool {
        !self.files.is_empty() || self.files_from.is_some()
    }
}

/// Flags of the stages that read what several others made: sample, crossref.
#[derive(Debug, Clone, Copy, Args)]
pub struct SourceArgs {
    /// Which stage's files to read
    #[arg(
        long,
        value_enum,
        value_name = "SOURCE",
        default_value = "auto",
        help_heading = "Archive"
    )]
    pub source: SourceChoice,
    /// Length of the files of --source aggregated: day, month or year [default: day]
    #[arg(long, value_name = "PERIOD", help_heading = "Archive")]
    pub source_period: Option<AggregatePeriod>,
}

impl SourceArgs {
    /// The choice, and the length of aggregated files.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when a length is given for files that have none.
    pub fn checked(self) -> Result<(SourceChoice, AggregatePeriod), Error> {
        if self.source_period.is_some() && self.source != SourceChoice::Aggregated {
            return Err(Error::usage(
                "--source-period is given without --source aggregated",
                "add --source aggregated, or leave --source-period out",
            ));
        }
        Ok((self.source, self.source_period.unwrap_or(AggregatePeriod::Day)))
    }
}

/// Refuses an output that is not named as a Parquet file.
///
/// # Errors
///
/// [`Error::Usage`] that names it.
pub fn check_parquet_name(out: &Path) -> Result<(), Error> {
    if out.extension().is_none_or(|extension| extension != "parquet") {
        let message = format!("--out {} does not end in .parquet", out.display());
        return Err(Error::usage(message, "name a Parquet file, as in --out sample.parquet"));
    }
    Ok(())
}

/// Reads a day as `2020-01-31` or `20200131`.
///
/// # Errors
///
/// A message for the user.
pub fn parse_date(text: &str) -> Result<NaiveDate, String> {
    ["%Y-%m-%d", "%Y%m%d"]
        .into_iter()
        .find_map(|format| NaiveDate::parse_from_str(text, format).ok())
        .ok_or_else(|| String::from("expected a day as in 2020-01-31"))
}

fn parse_feed(text: &str) -> Result<FeedChoice, String> {
    match text {
        "english" => Ok(FeedChoice::English),
        "translation" => Ok(FeedChoice::Translation),
        "both" => Ok(FeedChoice::Both),
        _ => Err(String::from("expected english, translation or both")),
    }
}
