//! The command line of `gdelt-aggregate`.

use catalog::AggregatePeriod;
use clap::ValueEnum as _;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use stage::cli::{CommonArgs, FileArgs};
use stage::files::SourceChoice;
use stage::work::{Deletion, Loss};

use crate::groups::RowGroups;

/// Join 15-minute GDELT files into files of days, months or years
///
/// Puts all rows of a period, in order of time, into one file in
/// `<root>/<dataset>/aggregated/<period>`: thousands of small files are slow to read anywhere. Works
/// on events-15min, mentions and gkg-v2. A period is made again when one of its files changes or a
/// late one comes; a period that the dates touch is always made whole. Each output notes its
/// sources with their rows, so that every row can be traced.
#[derive(Debug, clap::Parser)]
#[command(name = "gdelt-aggregate", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Args {
    /// Flags of every stage.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Which files.
    #[command(flatten)]
    pub files: FileArgs,
    /// Time that an output covers
    #[arg(
        long, value_name = "PERIOD", default_value = "day", help_heading = "Aggregation",
        value_parser = periods()
    )]
    pub period: AggregatePeriod,
    /// Files to join; auto: the cleaned ones where the dataset has an active cleaning step
    #[arg(
        long, value_name = "SOURCE", default_value = "auto", help_heading = "Aggregation",
        value_parser = sources()
    )]
    pub source: SourceChoice,
    /// How row groups are made
    #[arg(
        long,
        value_enum,
        value_name = "MANNER",
        default_value = "splice",
        help_heading = "Aggregation"
    )]
    pub row_groups: RowGroups,
    /// Add a last column `SourceFile` that names the file each row came from
    #[arg(long, help_heading = "Aggregation")]
    pub provenance: bool,
    /// Delete the files of each period once its output is published, recorded and read again
    #[arg(long, help_heading = "Aggregation")]
    pub delete_source: bool,
    /// Delete files although their output has no rows
    #[arg(
        long, value_name = "LOSS", requires = "delete_source", help_heading = "Aggregation",
        value_parser = Loss::only_empty()
    )]
    pub delete_despite: Vec<Loss>,
}

impl Args {
    /// Whether the files of a period are deleted.
    pub(crate) fn deletion(&self) -> Option<Deletion> {
        self.delete_source.then(|| Deletion { despite: self.delete_despite.clone() })
    }
}

const EXAMPLES: &str = "\
Examples:
  gdelt-aggregate --root /data/gdelt
  gdelt-aggregate --root /data/gdelt --dataset gkg-v2 --period month --start-date 2020-01-01
  gdelt-aggregate --root /data/gdelt --dataset mentions --provenance --delete-source
  gdelt-aggregate 20150218*.mentions.parquet --out 20150218.mentions.parquet
  gdelt-aggregate --files-from slots.txt --out-dir days

Exit codes: 0 done or nothing to do, 1 the run stopped, 2 wrong usage or settings or no input,
3 finished with failed files, 130/143 interrupted.";

fn periods() -> impl TypedValueParser<Value = AggregatePeriod> {
    PossibleValuesParser::new(AggregatePeriod::ALL.map(AggregatePeriod::name)).try_map(|name| {
        let found = AggregatePeriod::ALL.into_iter().find(|period| period.name() == name);
        found.ok_or("no such period")
    })
}

/// Aggregated files are outputs here, not a source.
fn sources() -> impl TypedValueParser<Value = SourceChoice> {
    PossibleValuesParser::new(["auto", "cleaned", "converted"])
        .try_map(|name| SourceChoice::from_str(&name, false))
}
