//! Tasks of this workspace, run as `cargo xtask TASK`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "tasks talk to people")]

mod bench;
mod make_archive;
mod run_archive;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the gdelt-mill workspace
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure the stages, beside gdeltforge and beside other users of a storage
    Bench(bench::Bench),
    /// Make a GDELT archive of any size from the bundled real rows
    MakeArchive(make_archive::MakeArchive),
    /// Run the whole chain on the bundled archive, or on one of yours
    RunArchive(run_archive::RunArchive),
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().task {
        Task::Bench(task) => task.run().map(|()| ExitCode::SUCCESS),
        Task::MakeArchive(task) => task.run().map(|()| ExitCode::SUCCESS),
        Task::RunArchive(task) => task.run().map(ExitCode::from),
    }
}
