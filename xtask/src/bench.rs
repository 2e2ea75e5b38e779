//! Measures the stages, and gdeltforge's beside them.
//!
//! | module | holds |
//! |---|---|
//! | `local` | a stage on local storage, everything in the page cache |
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
mod tree;

use std::fs;

use anyhow::{Context as _, Result};
use clap::Subcommand;
use tempfile::TempDir;

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
    Convert(local::Convert),
    /// Measure every stage on an emulated slow share, beside other users of it
    Share(on_share::OnShare),
}

impl Bench {
    /// Measures, and prints tables.
    pub(crate) fn run(&self) -> Result<()> {
        match &self.what {
            What::Convert(task) => task.run(),
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
