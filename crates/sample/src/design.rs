//! The sampling design: what the command line asks for, checked before anything is read.

use std::path::PathBuf;

use catalog::{AggregatePeriod, ColumnType, Dataset};
use serde::{Deserialize, Serialize};
use stage::Error;
use stage::files::SourceChoice;

use crate::cli::{Allocation, Args, Mode};
use crate::columns::{self, DeclaredColumn};
use crate::export::Format;
use crate::filter::{Filter, is_date_column};

/// Rows that each stratum gets at least, of a total.
const MINIMUM: u64 = 1;

/// What is drawn, and where it goes.
#[derive(Debug)]
pub(crate) struct Design {
    /// The dataset to draw from.
    pub(crate) dataset: Dataset,
    /// Which stage's files to read.
    pub(crate) source: SourceChoice,
    /// The length of aggregated files.
    pub(crate) source_period: AggregatePeriod,
    /// How rows are drawn, as the command line has it.
    pub(crate) method: Method,
    /// Which rows may be drawn, if not all.
    pub(crate) filter: Option<Filter>,
    /// What tells the strata apart.
    pub(crate) grouping: Grouping,
    /// The column whose deviation the allocation goes by.
    pub(crate) variance: Option<DeclaredColumn>,
    /// Decides which rows are drawn.
    pub(crate) seed: u64,
    /// The columns named, if any were.
    pub(crate) columns: Option<Vec<DeclaredColumn>>,
    /// Whether rows have their weight beside them.
    pub(crate) weights: bool,
    /// Whether rows have their place in a converted file beside them.
    pub(crate) provenance: bool,
    /// The file to write.
    pub(crate) out: PathBuf,
    /// What it holds.
    pub(crate) format: Format,
}

/// How rows are drawn, as the command line has it; as it is noted beside samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Method {
    pub(crate) mode: Mode,
    /// Whether rows are drawn with replacement.
    pub(crate) replace: bool,
    #[serde(flatten)]
    pub(crate) size: Size,
    /// The filter as typed, in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) filter: Option<String>,
    /// The filter as typed, as a condition.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub(crate) condition: Option<String>,
    /// The length of the periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) period: Option<AggregatePeriod>,
    /// The column that tells the strata apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) strata_column: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) variance_column: Option<String>,
}

/// How many rows are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Size {
    /// This many in all, of the whole population.
    N(u64),
    /// This many of each stratum.
    PerStratum(u64),
    /// This many in all, shared out to the strata.
    Allocated {
        n: u64,
        allocation: Allocation,
        /// Rows that each stratum gets at least.
        minimum: u64,
    },
}

/// What tells the strata apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// Nothing: there is one.
    Whole,
    /// The period of the date in a column.
    Period { column: DeclaredColumn, length: AggregatePeriod },
    /// The value of a column.
    Values(DeclaredColumn),
}

impl Grouping {
    /// The column that has to be read.
    pub(crate) fn column(self) -> Option<DeclaredColumn> {
        match self {
            Self::Whole => None,
            Self::Period { column, .. } | Self::Values(column) => Some(column),
        }
    }
}

impl Design {
    /// Checks the command line.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when flags are missing, do not go together, or name what does not exist.
    pub(crate) fn of(args: Args) -> Result<Self, Error> {
        let missing =
            |flag: &str| Error::usage(format!("{flag} is missing"), format!("add {flag}"));
        let dataset = args.dataset.ok_or_else(|| missing("--dataset"))?;
        let mode = args.mode.ok_or_else(|| missing("--mode"))?;
        let seed = args.seed.ok_or_else(|| missing("--seed"))?;
        let out = args.out.clone().ok_or_else(|| missing("--out"))?;
        let format = Format::of(&out)?;
        refuse_unfitting(&args, mode)?;
        let (source, source_period) = args.source.checked()?;
        let columns = args.columns.as_deref().map(|names| named(dataset, names)).transpose()?;
        let grouping = grouping(&args, dataset, mode)?;
        let size = size(&args, mode, grouping)?;
        let variance = variance(&args, dataset, size)?;
        let filter = match (&args.filter, &args.condition) {
            (Some(json), _) => Some(Filter::parse(dataset, json)?),
            (None, Some(condition)) => Some(Filter::parse_condition(dataset, condition)?),
            (None, None) => None,
        };
        let method = Method {
            mode,
            replace: args.replace,
            size,
            filter: args.filter,
            condition: args.condition,
            period: args.period,
            strata_column: grouping.column().map(|column| column.name.to_owned()),
            variance_column: variance.map(|column| column.name.to_owned()),
        };
        let (weights, provenance) = (!args.no_weights, args.provenance);
        Ok(Self {
            dataset,
            source,
            source_period,
            method,
            filter,
            grouping,
            variance,
            seed,
            columns,
            weights,
            provenance,
            out,
            format,
        })
    }
}

fn needs(mode: Mode, flag: &str) -> Error {
    Error::usage(format!("--mode {} needs {flag}", mode.name()), format!("add {flag}"))
}

fn grouping(args: &Args, dataset: Dataset, mode: Mode) -> Result<Grouping, Error> {
    let find = |name: &str, flag: &str| {
        columns::find(dataset, name).ok_or_else(|| columns::unknown(dataset, name, flag))
    };
    match (mode, &args.stratify) {
        (Mode::Calendar, _) => {
            let length = args.period.ok_or_else(|| needs(mode, "--period PERIOD"))?;
            let name = args.date_column.as_deref().unwrap_or(dataset.date_column());
            let column = find(name, "--date-column")?;
            if !is_date_column(dataset, column.name) {
                let message = format!("--date-column: `{name}` of {dataset} holds no dates");
                let hint = format!("name a column of dates, such as {}", dataset.date_column());
                return Err(Error::usage(message, hint));
            }
            Ok(Grouping::Period { column, length })
        }
        (_, Some(name)) => {
            let column = find(name, "--stratify")?;
            if !matches!(column.column_type, ColumnType::Int64 | ColumnType::Text) {
                let message = format!("--stratify: `{name}` holds no text or whole numbers");
                return Err(Error::usage(message, "choose a column of codes, names or numbers"));
            }
            Ok(Grouping::Values(column))
        }
        _ if mode == Mode::Filtered && args.filter.is_none() && args.condition.is_none() => {
            Err(needs(mode, "--filter JSON, --where CONDITION or --stratify COLUMN"))
        }
        _ => Ok(Grouping::Whole),
    }
}

fn size(args: &Args, mode: Mode, grouping: Grouping) -> Result<Size, Error> {
    let rows = |rows: std::num::NonZeroUsize| rows.get() as u64;
    match (args.rows, args.per_period, grouping) {
        (Some(n), None, Grouping::Whole) => Ok(Size::N(rows(n))),
        (None, _, Grouping::Whole) => Err(needs(mode, "-n ROWS")),
        (None, Some(each), _) => {
            for (flag, is_given) in [
                ("--allocation", args.allocation.is_some()),
                ("--min-per-stratum", args.min_per_stratum.is_some()),
            ] {
                if is_given {
                    let message = format!("{flag} is for -n, which is shared out");
                    return Err(Error::usage(message, "give -n in place of --per-period"));
                }
            }
            Ok(Size::PerStratum(rows(each)))
        }
        (Some(n), None, _) => Ok(Size::Allocated {
            n: rows(n),
            allocation: args.allocation.unwrap_or_default(),
            minimum: args.min_per_stratum.unwrap_or(MINIMUM),
        }),
        (None, None, _) => Err(needs(mode, "--per-period ROWS or -n ROWS")),
        (Some(_), Some(_), _) => {
            let message = "-n and --per-period are both given";
            Err(Error::usage(message, "give the rows in all, or those of each period or value"))
        }
    }
}

fn variance(args: &Args, dataset: Dataset, size: Size) -> Result<Option<DeclaredColumn>, Error> {
    let is_neyman = matches!(size, Size::Allocated { allocation: Allocation::Neyman, .. });
    let Some(name) = &args.variance_column else {
        if is_neyman {
            let message = "--allocation neyman needs --variance-column COLUMN";
            return Err(Error::usage(message, "name the column that is to be estimated"));
        }
        return Ok(None);
    };
    if !is_neyman {
        let message = "--variance-column is given without --allocation neyman";
        return Err(Error::usage(message, "add --allocation neyman, or leave it out"));
    }
    let column = columns::find(dataset, name)
        .ok_or_else(|| columns::unknown(dataset, name, "--variance-column"))?;
    if !matches!(column.column_type, ColumnType::Int64 | ColumnType::Float64) {
        let message = format!("--variance-column: `{name}` holds no numbers");
        return Err(Error::usage(message, "choose a column of numbers, such as AvgTone"));
    }
    Ok(Some(column))
}

/// A flag that another mode has would be ignored, and the sample another one than was thought.
fn refuse_unfitting(args: &Args, mode: Mode) -> Result<(), Error> {
    use Mode::{Calendar, Filtered};
    let stratified = &[Filtered, Calendar][..];
    for (flag, given, modes) in [
        ("--filter", args.filter.is_some(), &[Filtered][..]),
        ("--where", args.condition.is_some(), &[Filtered]),
        ("--stratify", args.stratify.is_some(), &[Filtered]),
        ("--per-period", args.per_period.is_some(), stratified),
        ("--allocation", args.allocation.is_some(), stratified),
        ("--min-per-stratum", args.min_per_stratum.is_some(), stratified),
        ("--variance-column", args.variance_column.is_some(), stratified),
        ("--period", args.period.is_some(), &[Calendar]),
        ("--date-column", args.date_column.is_some(), &[Calendar]),
    ] {
        if given && !modes.contains(&mode) {
            let fitting: Vec<_> = modes.iter().map(|mode| mode.name()).collect();
            return Err(Error::usage(
                format!("{flag} does not go with --mode {}", mode.name()),
                format!("leave {flag} out, or choose --mode {}", fitting.join(" or ")),
            ));
        }
    }
    let is_stratified = mode == Calendar || args.stratify.is_some();
    for (flag, given) in [
        ("--per-period", args.per_period.is_some()),
        ("--allocation", args.allocation.is_some()),
        ("--min-per-stratum", args.min_per_stratum.is_some()),
        ("--variance-column", args.variance_column.is_some()),
    ] {
        if given && !is_stratified {
            let message = format!("{flag} is given without --stratify");
            return Err(Error::usage(message, "add --stratify COLUMN, or leave it out"));
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
        // SA-11
        let filter = r#"--filter {"QuadClass":4}"#;
        for (flags, said) in [
            ("--mode indexed --out a.parquet", "--mode indexed needs -n ROWS"),
            ("--mode filtered -n 1 --out a.parquet", "--mode filtered needs --filter JSON"),
            (&format!("--mode filtered {filter} --out a.parquet"), "--mode filtered needs -n ROWS"),
            ("--mode calendar --period day --out a.parquet", "needs --per-period ROWS or -n"),
            ("--mode calendar --per-period 1 --out a.parquet", "needs --period PERIOD"),
            (
                &format!("--mode indexed -n 1 {filter} --out a.parquet"),
                "--filter does not go with --mode indexed",
            ),
            (
                "--mode calendar -n 1 --period day --per-period 1 --out a.parquet",
                "-n and --per-period are both given",
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
                "--mode calendar -n 1 --period day --stratify QuadClass --out a.parquet",
                "--stratify does not go with --mode calendar",
            ),
            (
                &format!("--mode filtered -n 1 {filter} --allocation equal --out a.parquet"),
                "--allocation is given without --stratify",
            ),
            (
                "--mode filtered --stratify QuadClass --per-stratum 1 --allocation equal --out a.parquet",
                "--allocation is for -n",
            ),
            (
                "--mode filtered --stratify QuadClass -n 1 --allocation neyman --out a.parquet",
                "needs --variance-column",
            ),
            (
                "--mode filtered --stratify QuadClass -n 1 --variance-column AvgTone --out a.parquet",
                "without --allocation neyman",
            ),
            ("--mode filtered --stratify AvgTone -n 1 --out a.parquet", "`AvgTone` holds no text"),
            (
                "--mode calendar --period day --date-column QuadClass -n 1 --out a.parquet",
                "`QuadClass` of events holds no dates",
            ),
            (
                "--mode indexed -n 1 --source-period day --out a.parquet",
                "--source-period is given without --source aggregated",
            ),
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
