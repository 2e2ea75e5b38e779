//! The sampling design: what the command line asks for, checked before anything is read.

use std::path::PathBuf;

use catalog::{AggregatePeriod, Dataset};
use serde::Serialize;
use stage::Error;
use stage::files::SourceChoice;

use crate::cli::{Args, Mode};
use crate::columns::{self, DeclaredColumn};
use crate::export::Format;
use crate::filter::Filter;

/// What is drawn, and where it goes.
#[derive(Debug)]
pub(crate) struct Design {
    /// The dataset to draw from.
    pub(crate) dataset: Dataset,
    /// Which stage's files to read.
    pub(crate) source: SourceChoice,
    /// The length of aggregated files.
    pub(crate) source_period: AggregatePeriod,
    /// How rows are drawn.
    pub(crate) method: Method,
    /// Decides which rows are drawn.
    pub(crate) seed: u64,
    /// The columns named, if any were.
    pub(crate) columns: Option<Vec<DeclaredColumn>>,
    /// The file to write.
    pub(crate) out: PathBuf,
    /// What it holds.
    pub(crate) format: Format,
}

/// How rows are drawn; as it is noted in samples.
#[derive(Debug, Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub(crate) enum Method {
    /// A simple random sample of all rows.
    Indexed {
        /// Rows to draw.
        n: usize,
    },
    /// A simple random sample of the rows that match.
    Filtered {
        /// Rows to draw.
        n: usize,
        /// The filter as typed.
        #[serde(rename = "filter")]
        text: String,
        /// The filter as understood.
        #[serde(skip)]
        filter: Filter,
    },
    /// A random sample of each period.
    Calendar {
        /// Rows to draw of each.
        per_period: usize,
        /// Their length.
        period: AggregatePeriod,
    },
}

impl Design {
    /// Checks the command line.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when flags are missing, do not go together, or name what does not exist.
    pub(crate) fn of(args: Args) -> Result<Self, Error> {
        let dataset = args.dataset;
        let format = Format::of(&args.out)?;
        let (source, source_period) = args.source.checked()?;
        let columns = args.columns.as_deref().map(|names| named(dataset, names)).transpose()?;
        let (seed, out) = (args.seed, args.out.clone());
        let method = method(args)?;
        Ok(Self { dataset, source, source_period, method, seed, columns, out, format })
    }
}

fn method(args: Args) -> Result<Method, Error> {
    let mode = args.mode;
    refuse_unfitting(&args)?;
    let missing = |flag: &str| {
        Error::usage(format!("--mode {} needs {flag}", mode.name()), format!("add {flag}"))
    };
    match mode {
        Mode::Indexed => {
            let n = args.rows.ok_or_else(|| missing("-n ROWS"))?.get();
            Ok(Method::Indexed { n })
        }
        Mode::Filtered => {
            let n = args.rows.ok_or_else(|| missing("-n ROWS"))?.get();
            let text = args.filter.ok_or_else(|| missing("--filter JSON"))?;
            let filter = Filter::parse(args.dataset, &text)?;
            Ok(Method::Filtered { n, text, filter })
        }
        Mode::Calendar => {
            let per_period = args.per_period.ok_or_else(|| missing("--per-period ROWS"))?.get();
            let period = args.period.ok_or_else(|| missing("--period PERIOD"))?;
            Ok(Method::Calendar { per_period, period })
        }
    }
}

/// A flag that another mode has would be ignored, and the sample another one than was thought.
fn refuse_unfitting(args: &Args) -> Result<(), Error> {
    use Mode::{Calendar, Filtered, Indexed};
    for (flag, given, modes) in [
        ("-n", args.rows.is_some(), &[Indexed, Filtered][..]),
        ("--filter", args.filter.is_some(), &[Filtered]),
        ("--per-period", args.per_period.is_some(), &[Calendar]),
        ("--period", args.period.is_some(), &[Calendar]),
    ] {
        if given && !modes.contains(&args.mode) {
            let fitting: Vec<_> = modes.iter().map(|mode| mode.name()).collect();
            return Err(Error::usage(
                format!("{flag} does not go with --mode {}", args.mode.name()),
                format!("leave {flag} out, or choose --mode {}", fitting.join(" or ")),
            ));
        }
    }
    Ok(())
}

fn named(dataset: Dataset, names: &[String]) -> Result<Vec<DeclaredColumn>, Error> {
    let mut columns: Vec<DeclaredColumn> = Vec::with_capacity(names.len());
    for name in names {
        let column = columns::find(dataset, name)
            .ok_or_else(|| columns::unknown(dataset, name, "--columns"))?;
        if columns.contains(&column) {
            let message = format!("--columns names `{name}` twice");
            return Err(Error::usage(message, "name each column once"));
        }
        columns.push(column);
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn design(flags: &str) -> Result<Design, Error> {
        let flags = format!("gdelt-sample --dataset events --seed 1 {flags}");
        Design::of(Args::try_parse_from(flags.split(' ')).unwrap())
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused_by_name() {
        let filter = r#"--filter {"QuadClass":4}"#;
        for (flags, said) in [
            ("--mode indexed --out a.parquet", "--mode indexed needs -n ROWS"),
            ("--mode filtered -n 1 --out a.parquet", "--mode filtered needs --filter JSON"),
            (&format!("--mode filtered {filter} --out a.parquet"), "--mode filtered needs -n ROWS"),
            ("--mode calendar --period day --out a.parquet", "needs --per-period ROWS"),
            ("--mode calendar --per-period 1 --out a.parquet", "needs --period PERIOD"),
            (
                &format!("--mode indexed -n 1 {filter} --out a.parquet"),
                "--filter does not go with --mode indexed",
            ),
            (
                "--mode calendar -n 1 --period day --per-period 1 --out a.parquet",
                "-n does not go with --mode calendar",
            ),
            (
                "--mode indexed -n 1 --per-period 1 --out a.parquet",
                "--per-period does not go with --mode indexed",
            ),
            (
                "--mode filtered -n 1 --period day --out a.parquet",
                "--period does not go with --mode filtered",
            ),
            (
                "--mode indexed -n 1 --source-period day --out a.parquet",
                "--source-period is given without --source aggregated",
            ),
            ("--mode indexed -n 1 --out a.txt", "does not end in .parquet, .csv or .arrow"),
            (
                "--mode indexed -n 1 --out a.parquet --columns Day,Dai",
                "`Dai` is no column of events",
            ),
            ("--mode indexed -n 1 --out a.parquet --columns Day,Day", "names `Day` twice"),
        ] {
            let error = design(flags).unwrap_err();
            assert_eq!(error.status(), stage::ExitStatus::Usage, "{flags}");
            assert!(error.to_string().contains(said), "{flags}: {error}");
        }
        design("--mode indexed -n 1 --out a.parquet --source aggregated --source-period month")
            .unwrap();
    }

    #[test]
    fn numbers_of_rows_and_seeds_are_whole_and_rows_at_least_one() {
        for flags in [
            "--seed 1 -n 0",
            "--seed 1 -n -1",
            "--seed 1 -n 1.5",
            "--seed -1 -n 1",
            "--seed 18446744073709551616 -n 1",
            "--seed x -n 1",
            "-n 1",
        ] {
            let flags =
                format!("gdelt-sample --dataset events --mode indexed --out a.parquet {flags}");
            assert!(Args::try_parse_from(flags.split(' ')).is_err(), "{flags}");
        }
    }
}
