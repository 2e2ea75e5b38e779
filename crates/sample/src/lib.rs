//! Draws reproducible samples from the Parquet files of a dataset.
//!
//! Input: the converted, cleaned or aggregated files of one dataset, of the dates and feed asked
//! for, and what the ledger knows of them. Output: one Parquet, CSV or Arrow file.
//!
//! | module | holds |
//! |---|---|
//! | [`cli`] | the command line |
//! | `design` | what it asks for, checked |
//! | `columns` | columns by name, values in their declared types |
//! | `filter` | which rows may be drawn |
//! | `priority` | the random numbers |
//! | `bottom_k` | the k rows of least priority |
//! | `population` | the files, and the position of each row in the archive |
//! | `scan` | a few columns of all rows |
//! | `draw`, `calendar` | which rows are drawn |
//! | `fetch` | reads them |
//! | `output` | writes them |
//! | [`export`] | the kinds of file that they are written to |
//! | `note` | what is noted in the file |
//! | `report` | what the user is told |
//!
//! Invariants:
//!
//! - Which rows are drawn depends on the seed, the design and the rows of the sources alone: not
//!   on workers, on the order of files, or on which files of longer periods the rows stand in.
//! - Rows stand in the output in the order of their positions. The same command gives the same
//!   bytes.
//! - A file that cannot be read stops the run: without its rows the sample would be biased.
//! - Memory follows the number of rows drawn, 32 bytes each while they are chosen, and holds per
//!   worker one row group of the columns read and the chosen rows of two files; 256 MiB of row
//!   groups are read ahead, and 32 MiB of CSV made ahead, at most.

mod bottom_k;
mod calendar;
pub mod cli;
mod columns;
mod design;
mod draw;
pub mod export;
mod fetch;
mod filter;
mod note;
mod output;
mod population;
mod priority;
mod report;
mod scan;

use std::path::PathBuf;

use catalog::{AggregatePeriod, Dataset, Directory, Layout};
use stage::files::{DataSource, refuse_among_inputs, refuse_irregular};
use stage::{Error, ExitStatus, Session, Summary};

use cli::Args;
use columns::DeclaredColumn;
use design::{Design, Method};
use draw::Draw;
use fetch::Chosen;
use population::Population;
pub use priority::ALGORITHM;
use priority::Priorities;

/// Draws a sample as the command line asks.
///
/// # Errors
///
/// [`Error`] when the command line does not fit the dataset, when fewer rows are there than were
/// asked for, or when a file cannot be read or written.
pub fn run(args: Args) -> Result<ExitStatus, Error> {
    let common = args.common.clone();
    let design = Design::of(args)?;
    let session = Session::start(&common, None, &[])?;
    if let Some(status) = session.explain_io([&design.out])? {
        return Ok(status);
    }
    polars_bridge::limit_threads(session.jobs());
    let layout = session.layout()?;
    refuse_bad_output(&session, &layout, &design)?;
    if let Method::Filtered { filter, .. } = &design.method {
        for unknown in filter::unknown_codes(filter) {
            session.printer.warn(unknown);
        }
    }
    let source = DataSource::choose(&session, design.dataset, design.source, design.source_period);
    let population = Population::find(&session, &layout, design.dataset, source)?;
    let Some(draw) = draw(&session, &design, &population)? else {
        return plan(&session, &population);
    };
    report::warn(&session, &design, &draw);
    let chosen = fetch::by_file(&population, &draw.positions)?;
    let mut summary = Summary::new("sample");
    summary.counts = report::counts(&draw);
    (summary.files.planned, summary.files.made) = (1, 1);
    summary.rows.written = draw.positions.len() as u64;
    if session.dry_run {
        let files = chosen.len();
        session.printer.info(format!("rows would be read from {files} files"));
    } else {
        summary.output_bytes = write(&session, &design, source, &population, &draw, chosen)?;
        summary.outputs.push(design.out.clone());
        summary.input_bytes = session.budget.report().reads.bytes;
    }
    summary.finish(&session, session.jobs().get())
}

/// Draws rows; `None` in a dry run of a draw that reads all files.
fn draw(
    session: &Session,
    design: &Design,
    population: &Population,
) -> Result<Option<Draw>, Error> {
    let priorities = Priorities::new(design.seed);
    Ok(match &design.method {
        Method::Indexed { n } => Some(draw::indexed(population, priorities, *n)?),
        _ if session.dry_run => None,
        Method::Filtered { n, filter, .. } => {
            Some(draw::filtered(session, population, priorities, filter, *n)?)
        }
        Method::Calendar { per_period, period } => {
            let (dataset, period) = (design.dataset, *period);
            let draw =
                calendar::calendar(session, dataset, population, priorities, *per_period, period)?;
            Some(draw)
        }
    })
}

/// Says what a draw that reads all files would read.
fn plan(session: &Session, population: &Population) -> Result<ExitStatus, Error> {
    let mut summary = Summary::new("sample");
    (summary.files.planned, summary.files.made) = (1, 1);
    summary.counts.insert("population".into(), population.rows);
    session.printer.info(format!(
        "all {} files would be scanned to see which of {} rows to draw",
        population.files.len(),
        population.rows
    ));
    summary.finish(session, session.jobs().get())
}

/// Writes the sample, and returns the length of the file.
fn write(
    session: &Session,
    design: &Design,
    source: DataSource,
    population: &Population,
    draw: &Draw,
    chosen: Vec<Chosen<'_>>,
) -> Result<u64, Error> {
    let columns = columns_of(session, design, population);
    let names: Vec<_> = columns.iter().map(|column| column.name).collect();
    let properties = note::properties(session, design, source, &names, draw)?;
    let schema = columns::schema_of(&columns);
    let published =
        output::write(session, &design.out, design.format, properties, &schema, |deliver| {
            fetch::fetch(session, chosen, &columns, deliver)
        })?;
    Ok(published.size)
}

/// The columns of the output: those named, or all.
fn columns_of(session: &Session, design: &Design, population: &Population) -> Vec<DeclaredColumn> {
    let all = || output::all_columns(session, design.dataset, &population.files);
    design.columns.clone().unwrap_or_else(all)
}

/// Refuses an output among the archive's files, or where a directory stands.
fn refuse_bad_output(session: &Session, layout: &Layout, design: &Design) -> Result<(), Error> {
    let out = &design.out;
    let fixed = [Directory::Raw, Directory::Converted, Directory::Cleaned, Directory::Catalog];
    let aggregated = AggregatePeriod::ALL.map(Directory::Aggregated);
    let own = fixed.into_iter().chain(aggregated);
    let own = own.map(|directory| layout.directory(design.dataset, directory));
    // Those under the root are in the directories of the datasets.
    let own = own.filter(|directory| !directory.starts_with(layout.root()));
    let datasets = Dataset::ALL.into_iter().map(|dataset| layout.root().join(dataset.name()));
    let inputs: Vec<PathBuf> = own.chain(datasets).collect();
    refuse_among_inputs(&session.budget, out, &inputs)?;
    refuse_irregular(&session.budget, out)?;
    Ok(())
}

#[cfg(test)]
mod tests;
