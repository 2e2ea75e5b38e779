//! Measures the stages, and gdeltforge's beside them.
//!
//! | module | holds |
//! |---|---|
//! | `local` | a stage on local storage, everything in the page cache |
//! | `stage`, `contender` | for `local`: what is run, by whom, and on what |
//! | `on_share` | all stages on an emulated slow share, beside other users of it |
//! | `scenario`, `mill`, `forge`, `share` | for `on_share`: what is run, by us and by them, and where |
//! | `run`, `memory`, `tree` | starting programs, the memory they take, copies of what they read |
//! | `same` | whether two Parquet files hold the same |
//! | `report` | tables |
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the task is no stage: it copies archives and reads logs, and the stages have budgets"
)]

mod contender;
mod forge;
mod local;
mod memory;
mod mill;
mod on_share;
mod report;
mod run;
mod same;
mod scenario;
mod share;
mod stage;
mod tree;

use std::fs;

use anyhow::{Context as _, Result};
use clap::Subcommand;
use tempfile::TempDir;

use self::stage::Stage;
use crate::run_archive::build_binaries;

/// Flags of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Measure `gdelt-convert` beside `gdeltforge convert` on local storage, all in the page cache
    #[command(mut_arg("datasets", |datasets| {
        datasets.default_values(["gkg-v2", "mentions", "events", "events-15min"])
    }))]
    Convert(local::Local),
    /// Measure `gdelt-clean` beside `gdeltforge clean`, likewise
    #[command(mut_arg("datasets", |datasets| {
        datasets.default_values(["events", "events-15min", "gkg-v2"])
    }))]
    Clean(local::Local),
    /// Measure `gdelt-aggregate` beside `gdeltforge aggregate`, by days, likewise
    #[command(mut_arg("datasets", |datasets| {
        datasets.default_values(["gkg-v2", "mentions", "events-15min"])
    }))]
    Aggregate(local::Local),
    /// Measure every stage on an emulated slow share, beside other users of it
    Share(on_share::OnShare),
}

impl Bench {
    /// Measures, and prints tables.
    pub(crate) fn run(&self) -> Result<()> {
        match &self.what {
            What::Convert(task) => task.run(Stage::Convert),
            What::Clean(task) => task.run(Stage::Clean),
            What::Aggregate(task) => task.run(Stage::Aggregate),
            What::Share(task) => task.run(),
        }
    }
}

/// Copies programs to a place beside them, so that a build meanwhile does not change what is
/// measured.
fn copy_binaries(names: &[&str]) -> Result<TempDir> {
    let built = build_binaries()?;
    let copies = TempDir::with_prefix_in("bench-", &built)?;
    for name in names {
        let from = built.join(name);
        fs::copy(&from, copies.path().join(name))
            .with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(copies)
}
