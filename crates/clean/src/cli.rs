//! The command line of `gdelt-clean`.

use stage::cli::{CommonArgs, FileArgs};

/// Repair converted GDELT files
///
/// Reads `<root>/<dataset>/converted` and writes a repaired copy of each file to
/// `<root>/<dataset>/cleaned`. Events that GDELT dated 1920 in January 2020 get their true dates,
/// with GDELT's own values kept in `Day_original`, `MonthYear_original`, `Year_original` and
/// `FractionDate_original`; further steps are set in gdelt-mill.toml. A dataset without an active
/// step is not copied: later stages then read its converted files.
#[derive(Debug, clap::Parser)]
#[command(name = "gdelt-clean", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Args {
    /// Flags of every stage.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Which files.
    #[command(flatten)]
    pub files: FileArgs,
}

const EXAMPLES: &str = "\
Settings, in gdelt-mill.toml:
  [clean.events]
  date_1920 = true                      # the default for events and events-15min
  require = [\"Actor1Code\", \"Day\"]       # drop rows with a null in one of these
  columns = [\"GlobalEventID\", \"Day\"]    # keep only these

Examples:
  gdelt-clean --root /data/gdelt
  gdelt-clean --root /data/gdelt --dataset events --start-date 2020-01-01 --end-date 2020-01-05
  gdelt-clean 20200102.export.parquet --out 20200102.export_cleaned.parquet

Exit codes: 0 done or nothing to do, 1 the run stopped, 2 wrong usage or settings or no input,
3 finished with failed files, 130/143 interrupted.";
