//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use catalog::Dataset;
use chrono::NaiveDate;
use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use stage::settings::RequestLimit;

use crate::record::FileSize;
use crate::watch::Limits;

/// Where results go unless a directory is named.
const RESULTS: &str = "gdelt-iobench";
/// Requests in flight that can be asked for.
const MOST_REQUESTS: u64 = 1_024;

/// Measure how a storage answers to parallel requests, and whether an I/O budget holds on it
///
/// Every run reads files that no earlier run touched and the page cache does not hold, is watched
/// from beside, and is ended as soon as reads take too long for the storage's other users. Runs that
/// fail or are ended stay in the results: a line of JSON for each in `runs.jsonl`, and `report.html`.
#[derive(Debug, Clone, Parser)]
#[command(name = "gdelt-iobench", version)]
pub struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Read or write with N threads, each with one request in flight
    ///
    /// Shows where throughput stops growing with N, and how long each request takes by then.
    Raw(RawArgs),
    /// Run a stage under a grid of settings
    ///
    /// Each run has days of its own as input and writes to a scratch directory, which is removed.
    Stage(StageArgs),
    /// Show whether the budget holds on a mount: own counters against the kernel's
    ///
    /// Reads with many threads under the limits of the settings. The kernel counts reads in flight
    /// on NFS mounts (mountstats) and disks; elsewhere there are own counters only. Ends with 3 when
    /// the budget does not hold.
    Check(CheckArgs),
    /// Print a block of settings, with the measurements that back it
    Recommend(RecommendArgs),
}

/// Plain readers and writers.
#[derive(Debug, Clone, Args)]
pub(crate) struct RawArgs {
    /// Directory whose files are read, with those below it; nothing in it is changed, save that
    /// writers make a scratch directory and remove it
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Numbers of parallel readers; 0 for none
    #[arg(
        long,
        value_name = "N,N,…",
        value_delimiter = ',',
        default_values_t = [1, 2, 4, 8, 16],
        value_parser = RangedU64ValueParser::<usize>::new().range(0..=MOST_REQUESTS),
        help_heading = "Grid"
    )]
    pub(crate) readers: Vec<usize>,
    /// Numbers of parallel writers; nothing is written unless it is given
    #[arg(
        long,
        value_name = "N,N,…",
        value_delimiter = ',',
        value_parser = RangedU64ValueParser::<usize>::new().range(0..=MOST_REQUESTS),
        help_heading = "Grid"
    )]
    pub(crate) writers: Vec<usize>,
    /// Sizes of a request in KiB, multiples of 4
    #[arg(
        long,
        value_name = "KIB,KIB,…",
        value_delimiter = ',',
        default_value = "1024",
        value_parser = request_kib,
        help_heading = "Grid"
    )]
    pub(crate) request_kib: Vec<u64>,
    /// Large files (64 MiB or more, read in stretches), small ones (64 KiB to 16 MiB, read whole)
    /// or both
    #[arg(
        long,
        value_enum,
        value_name = "SIZE,SIZE",
        value_delimiter = ',',
        default_values_t = [FileSize::Large, FileSize::Small],
        help_heading = "Grid"
    )]
    pub(crate) files: Vec<FileSize>,
    #[command(flatten)]
    pub(crate) rules: Rules,
}

/// A stage under a grid of settings.
#[derive(Debug, Clone, Args)]
pub(crate) struct StageArgs {
    /// The stage
    #[arg(value_enum)]
    pub(crate) stage: StageName,
    /// Archive root; nothing in it is changed
    #[arg(long, value_name = "DIR", help_heading = "Archive")]
    pub(crate) root: PathBuf,
    /// Dataset to work on
    #[arg(long, value_name = "DATASET", help_heading = "Archive")]
    pub(crate) dataset: Dataset,
    /// First day that may be used, as 2020-01-31
    #[arg(long, value_name = "DATE", value_parser = stage::cli::parse_date, help_heading = "Archive")]
    pub(crate) start_date: Option<NaiveDate>,
    /// Last day that may be used
    #[arg(long, value_name = "DATE", value_parser = stage::cli::parse_date, help_heading = "Archive")]
    pub(crate) end_date: Option<NaiveDate>,
    /// Directory to make the scratch directory in; outputs that go to other storage than usual are
    /// another measurement [default: the dataset's own]
    #[arg(long, value_name = "DIR", help_heading = "Archive")]
    pub(crate) scratch: Option<PathBuf>,
    /// A setting and its values, as jobs=1,2,4 or io.reads=1,2,auto; all combinations are run (can
    /// be repeated)
    #[arg(long = "vary", value_name = "KEY=VALUE,…", help_heading = "Grid")]
    pub(crate) vary: Vec<Varied>,
    #[command(flatten)]
    pub(crate) rules: Rules,
    /// More arguments for the stage, after `--`
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<String>,
}

/// Stages that make a file for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StageName {
    /// Raw zips to Parquet
    Convert,
    /// Converted Parquet to repaired
    Clean,
    /// Parquet of 15 minutes to Parquet of a day
    Aggregate,
}

impl StageName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Convert => "convert",
            Self::Clean => "clean",
            Self::Aggregate => "aggregate",
        }
    }
}

/// A setting and the values it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Varied {
    pub(crate) key: String,
    pub(crate) values: Vec<String>,
}

impl FromStr for Varied {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, values) = text.split_once('=').ok_or("expected KEY=VALUE,VALUE")?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if key.is_empty() || values.iter().any(String::is_empty) {
            return Err(String::from("expected KEY=VALUE,VALUE"));
        }
        Ok(Self { key: key.to_owned(), values })
    }
}

/// Whether a budget holds.
#[derive(Debug, Clone, Args)]
pub(crate) struct CheckArgs {
    /// Directory whose files are read, with those below it; nothing in it is changed
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Settings file instead of ./gdelt-mill.toml
    #[arg(long, value_name = "FILE", help_heading = "Budget")]
    pub(crate) config: Option<PathBuf>,
    /// Read requests in flight, in place of the settings'
    #[arg(long, value_name = "N", help_heading = "Budget")]
    pub(crate) max_reads: Option<RequestLimit>,
    /// Threads that ask for reads, more than the budget lets through
    #[arg(long, value_name = "N", default_value = "32", help_heading = "Budget")]
    pub(crate) threads: NonZeroUsize,
    #[command(flatten)]
    pub(crate) rules: Rules,
}

/// Settings from measurements.
#[derive(Debug, Clone, Args)]
pub(crate) struct RecommendArgs {
    /// Directory of results
    #[arg(long, value_name = "DIR", default_value = RESULTS)]
    pub(crate) results: PathBuf,
}

/// How runs are made, and where their results go.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub(crate) struct Rules {
    /// Directory of results; files that runs in it touched are not read again
    #[arg(long, value_name = "DIR", default_value = RESULTS, help_heading = "Results")]
    pub(crate) results: PathBuf,
    /// Print the runs of this invocation as one JSON object on stdout instead of a table
    #[arg(long, help_heading = "Results")]
    pub(crate) json: bool,
    /// Print warnings and errors only
    #[arg(short, long, help_heading = "Results")]
    pub(crate) quiet: bool,
    /// Show no progress bar
    #[arg(long, help_heading = "Results")]
    pub(crate) no_progress: bool,
    /// Runs of each setting
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=1_000),
        help_heading = "Runs"
    )]
    pub(crate) repeats: u32,
    /// Seed of the order of runs and of the choice of files
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Runs")]
    pub(crate) seed: u64,
    /// Data of a run in MiB
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 1_200,
        value_parser = clap::value_parser!(u64).range(1..=1 << 20),
        help_heading = "Runs"
    )]
    pub(crate) run_mib: u64,
    /// Longest time of a run in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 170,
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        help_heading = "Care"
    )]
    pub(crate) cap_seconds: u64,
    /// Mean round trip of reads over five seconds, in milliseconds, above which a run is ended
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 100,
        value_parser = clap::value_parser!(u64).range(1..=600_000),
        help_heading = "Care"
    )]
    pub(crate) ceiling_ms: u64,
    /// Pause after such a run, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(0..=3_600),
        help_heading = "Care"
    )]
    pub(crate) pause_seconds: u64,
    /// Say what would be run and how much it would read, and run nothing
    #[arg(long, help_heading = "Care")]
    pub(crate) dry_run: bool,
}

impl Rules {
    /// Bytes of a run.
    pub(crate) fn run_bytes(&self) -> u64 {
        self.run_mib << 20
    }

    /// When a run is ended.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            cap: Duration::from_secs(self.cap_seconds),
            ceiling: Duration::from_millis(self.ceiling_ms),
        }
    }

    /// Pause after a run that was ended for the storage's sake.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_secs(self.pause_seconds)
    }
}

fn request_kib(text: &str) -> Result<u64, String> {
    let kib: u64 = text.parse().map_err(|_| String::from("not a number"))?;
    if kib == 0 || !kib.is_multiple_of(4) || kib > 64 << 10 {
        return Err(String::from("expected a multiple of 4, 65536 at most"));
    }
    Ok(kib)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn a_varied_setting_has_a_key_and_values() {
        let varied: Varied = "io.reads=1, 2,auto".parse().unwrap();
        assert_eq!((varied.key.as_str(), varied.values.join(" ")), ("io.reads", "1 2 auto".into()));
        for wrong in ["jobs", "=1", "jobs=", "jobs=1,,2"] {
            assert!(wrong.parse::<Varied>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn request_sizes_are_whole_pages() {
        assert_eq!(request_kib("64"), Ok(64));
        for wrong in ["0", "6", "131072", "-4", "x"] {
            assert!(request_kib(wrong).is_err(), "{wrong}");
        }
    }
}
