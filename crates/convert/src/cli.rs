//! The command line of `gdelt-convert`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use catalog::Dataset;
use stage::Codec;
use stage::cli::{CommonArgs, FileArgs};
use stage::settings::Value;
use stage::work::{Deletion, Loss};

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
    /// Check raw files against a list of GDELT's, by size and MD5 sum, and do nothing else (can be
    /// repeated)
    #[arg(
        long,
        value_name = "LIST",
        conflicts_with_all = ["report_gaps", "delete_source"],
        help_heading = "Conversion"
    )]
    pub verify: Vec<PathBuf>,
    /// Largest share of a file's records that may be rejected before the file fails [default: 0.01]
    #[arg(long, value_name = "SHARE", help_heading = "Conversion")]
    pub max_rejects: Option<f64>,
    /// Fail a file for a single rejected record
    #[arg(long, conflicts_with = "max_rejects", help_heading = "Conversion")]
    pub strict: bool,
    /// Compression of the output: zstd:LEVEL, snappy, lz4 or none [default: zstd:3]
    #[arg(long, value_name = "CODEC", help_heading = "Conversion")]
    pub codec: Option<Codec>,
    /// Rows of a row group [default: 8000 for GKG, 250000 for other datasets]
    #[arg(long, value_name = "N", help_heading = "Conversion")]
    pub row_group_rows: Option<NonZeroUsize>,
    /// Delete each raw file once its output is published, recorded and read again; files of which
    /// something would be lost stay
    #[arg(long, help_heading = "Conversion")]
    pub delete_source: bool,
    /// Delete raw files although this would be lost with them (can be repeated)
    #[arg(
        long,
        value_enum,
        value_name = "LOSS",
        requires = "delete_source",
        help_heading = "Conversion"
    )]
    pub delete_despite: Vec<Loss>,
}

const EXAMPLES: &str = "\
Examples:
  gdelt-convert --root /data/gdelt
  gdelt-convert --root /data/gdelt --dataset gkg-v2 --start-date 2020-01-01 --max-reads 1
  gdelt-convert --root /data/gdelt --dataset mentions --report-gaps
  gdelt-convert --root /data/gdelt --dataset mentions --verify masterfilelist.txt
  gdelt-convert 20130401.export.CSV.zip --out 20130401.export.parquet

Exit codes: 0 done or nothing to do, 1 the run stopped, 2 wrong usage or settings or no input,
3 finished with failed files, 130/143 interrupted.";

impl Args {
    /// The settings that these flags give, by key.
    pub(crate) fn settings(&self) -> Vec<(String, Value)> {
        let max_rejects = if self.strict { Some(0.0) } else { self.max_rejects };
        let mut settings = Vec::new();
        let mut set = |key: String, value: Option<Value>| settings.extend(Some(key).zip(value));
        set(String::from("convert.max_rejects"), max_rejects.map(Value::from));
        for dataset in Dataset::ALL {
            let key = |name: &str| format!("convert.datasets.{dataset}.{name}");
            set(key("codec"), self.codec.map(|codec| codec.to_string().into()));
            set(key("row_group_rows"), self.row_group_rows.map(|rows| rows.get().into()));
        }
        settings
    }

    /// Whether raw files are deleted.
    pub(crate) fn deletion(&self) -> Option<Deletion> {
        self.delete_source.then(|| Deletion { despite: self.delete_despite.clone() })
    }
}
