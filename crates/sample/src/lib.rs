//! Draws reproducible samples from the Parquet files of a dataset.
//!
//! Input: the converted, cleaned or aggregated files of one dataset, of the dates and feed asked
//! for, and what the ledger knows of them. Output: one file, its design and the list of the files
//! that it was drawn from.
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
//! | `strata` | what tells strata apart |
//! | `allocation` | how many rows each stratum gets |
//! | `draw` | which rows are drawn |
//! | `fetch` | reads them |
//! | `rows`, `provenance` | what stands beside them: weights, and their places in converted files |
//! | `output` | writes them |
//! | [`export`] | the kinds of file that they are written to |
//! | `sidecar`, `describe` | what is noted of a sample, and that as a paragraph |
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

mod allocation;
mod bottom_k;
pub mod cli;
mod columns;
mod describe;
mod design;
mod draw;
pub mod export;
mod fetch;
mod filter;
mod output;
mod population;
mod priority;
mod provenance;
mod report;
mod rows;
mod scan;
mod sidecar;
mod strata;

use std::path::PathBuf;

use catalog::{AggregatePeriod, Dataset, Directory, Layout};
use stage::files::{DataSource, refuse_among_inputs, refuse_irregular};
use stage::{Error, ExitStatus, Session, Summary};

use cli::Args;
use columns::DeclaredColumn;
use design::Design;
use draw::Draw;
use fetch::Chosen;
use population::Population;
pub use priority::ALGORITHM;
use rows::Rows;
use sidecar::DesignRecord;

/// Draws a sample as the command line asks.
///
/// # Errors
///
/// [`Error`] when the command line does not fit the dataset, when fewer rows are there than were
/// asked for, or when a file cannot be read or written.
pub fn run(args: Args) -> Result<ExitStatus, Error> {
    let common = args.common.clone();
    if let Some(sample) = &args.describe {
        return describe::describe(&Session::start(&common, None, &[])?, sample);
    }
    let design = Design::of(args)?;
    let session = Session::start(&common, None, &[])?;
    if let Some(status) = session.explain_io([&design.out])? {
        return Ok(status);
    }
    polars_bridge::limit_threads(session.jobs());
    let layout = session.layout()?;
    refuse_bad_output(&session, &layout, &design)?;
    for unknown in design.filter.iter().flat_map(filter::unknown_codes) {
        session.printer.warn(unknown);
    }
    let source = DataSource::choose(&session, design.dataset, design.source, design.source_period);
    let population = Population::find(&session, &layout, design.dataset, source)?;
    report::warn_of_source(&session, &design, source, &population);
    if design.provenance {
        provenance::check(&session, &layout, design.dataset, &population)?;
    }
    let Some(draw) = draw::draw(&session, &design, &population)? else {
        return plan(&session, &population);
    };
    report::warn(&session, &design, &draw);
    let chosen = fetch::by_file(&population, &draw.positions())?;
    let mut summary = Summary::new("sample");
    summary.counts = report::counts(&draw);
    (summary.files.planned, summary.files.made) = (1, 1);
    summary.rows.written = draw.sampled();
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

/// Writes the sample and what is noted of it, and returns the length of the file.
fn write(
    session: &Session,
    design: &Design,
    source: DataSource,
    population: &Population,
    draw: &Draw,
    chosen: Vec<Chosen<'_>>,
) -> Result<u64, Error> {
    let columns = columns_of(session, design, population);
    let schema = columns::schema_of(&columns);
    let mut rows = Rows::new(design, population, draw, &schema);
    let schema = rows.schema().clone();
    let names = schema.fields().iter().map(|field| field.name().clone()).collect();
    let record = DesignRecord::of(session, design, source, population, draw, names)?;
    record.write(session, &design.out, population)?;
    let published = output::write(
        session,
        &design.out,
        design.format,
        record.properties()?,
        &schema,
        |deliver| fetch::fetch(session, chosen, &columns, |batch| deliver(rows.make(&batch)?)),
    )?;
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
