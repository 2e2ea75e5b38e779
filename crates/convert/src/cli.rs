//! The command line of `gdelt-convert`.

use stage::cli::{CommonArgs, FileArgs};

/// Turn raw GDELT files into Parquet
///
/// Reads the zips of `<root>/<dataset>/raw` and writes a Parquet file for each to
/// `<root>/<dataset>/converted`, with typed columns under the names of GDELT's codebooks. Nothing
/// is lost silently: records of the wrong width go to `<root>/<dataset>/catalog/rejects`, values
/// that do not parse become null, and all are counted. What is done already is not done again.
#[derive(Debug, clap::Parser)]
#[command(name = "gdelt-convert", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Args {
    /// Flags of every stage.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Which files.
    #[command(flatten)]
    pub files: FileArgs,
    /// Say which files of the archive are missing for no known reason, and do nothing else
    #[arg(long, conflicts_with_all = ["files", "files_from"], help_heading = "Conversion")]
    pub report_gaps: bool,
    /// Largest share of a file's records that may be rejected before the file fails [default: 0.01]
    #[arg(long, value_name = "SHARE", help_heading = "Conversion")]
    pub max_rejects: Option<f64>,
    /// Fail a file for a single rejected record
    #[arg(long, conflicts_with = "max_rejects", help_heading = "Conversion")]
    pub strict: bool,
}

const EXAMPLES: &str = "\
Examples:
  gdelt-convert --root /data/gdelt
  gdelt-convert --root /data/gdelt --dataset gkg-v2 --start-date 2020-01-01 --max-reads 1
  gdelt-convert 20130401.export.CSV.zip --out 20130401.export.parquet

Exit codes: 0 done or nothing to do, 1 the run stopped, 2 wrong usage or settings or no input,
3 finished with failed files, 130/143 interrupted.";

impl Args {
    /// The share of rejected records that these flags ask for.
    pub(crate) fn max_rejects(&self) -> Option<f64> {
        if self.strict { Some(0.0) } else { self.max_rejects }
    }
}
