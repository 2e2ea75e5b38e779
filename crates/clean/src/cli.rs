//! The command line of `gdelt-clean`.

use stage::cli::{CommonArgs, FileArgs};
use stage::work::{Deletion, Loss};

use crate::audit::Runs;

/// Repair converted GDELT files
///
/// Reads `<root>/<dataset>/converted` and writes a repaired copy of each file to
/// `<root>/<dataset>/cleaned`. Events that GDELT dated 1920 in January 2020 get their true dates,
/// with GDELT's own values kept in `Day_original`, `MonthYear_original`, `Year_original` and
/// `FractionDate_original`; further steps are set in gdelt-mill.toml. Values of columns with codes
/// that no table of codes knows are counted. A dataset without an active step is not copied: later
/// stages then read its converted files.
#[derive(Debug, clap::Parser)]
#[command(name = "gdelt-clean", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Args {
    /// Flags of every stage.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Which files.
    #[command(flatten)]
    pub files: FileArgs,
    /// With --dry-run: read all files and say what the steps would do, and what else is odd: white
    /// space around text, points at (0, 0), damaged names, ids and rows that repeat
    #[arg(long, requires = "dry_run", help_heading = "Cleaning")]
    pub report: bool,
    /// Say what the last run of each dataset did, or with --audit=all what all did, and do nothing
    /// else
    #[arg(
        long,
        value_enum,
        value_name = "RUNS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "last",
        conflicts_with_all = ["files", "files_from", "report", "delete_source"],
        help_heading = "Cleaning"
    )]
    pub audit: Option<Runs>,
    /// Delete each converted file once its output is published, recorded and read again; refused
    /// where a step loses something, unless `allow_lossy_delete_source` is set
    #[arg(long, help_heading = "Cleaning")]
    pub delete_source: bool,
    /// Delete sources whose output has no rows, too
    #[arg(
        long,
        value_name = "LOSS",
        requires = "delete_source",
        value_parser = Loss::only_empty(),
        help_heading = "Cleaning"
    )]
    pub delete_despite: Vec<Loss>,
}

impl Args {
    /// Whether sources are deleted.
    pub(crate) fn deletion(&self) -> Option<Deletion> {
        self.delete_source.then(|| Deletion { despite: self.delete_despite.clone() })
    }
}

const EXAMPLES: &str = "\
Settings, in gdelt-mill.toml; the steps are done in this order:
  [clean.events]
  date_1920 = true                      # the default for events and events-15min
  event_markers = \"drop\"                # drop rows whose event code is no code
  trim_strings = true                   # remove white space around text
  blank_to_null = true                  # text of nothing but white space becomes null
  places_table = \"places.parquet\"       # resolve geographic points by this table
  require = [\"Actor1Code\", \"Day\"]       # drop rows with a null in one of these
  event_date = true                     # add Day as a date, in EventDate
  labels = [\"EventCode\"]                # add what codes mean, in EventCode_Label
  columns = [\"GlobalEventID\", \"Day\"]    # keep only these
  narrow = [\"AvgTone\"]                  # write these with 32 bits

Examples:
  gdelt-clean --root /data/gdelt
  gdelt-clean --root /data/gdelt --dataset events --start-date 2020-01-01 --end-date 2020-01-05
  gdelt-clean --root /data/gdelt --dry-run --report
  gdelt-clean --root /data/gdelt --audit
  gdelt-clean 20200102.export.parquet --out 20200102.export_cleaned.parquet

Exit codes: 0 done or nothing to do, 1 the run stopped, 2 wrong usage or settings or no input,
3 finished with failed files, 130/143 interrupted.";
