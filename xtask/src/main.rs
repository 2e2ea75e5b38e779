//! Tasks of this workspace, run as `cargo xtask TASK`.

mod make_archive;

use clap::{Parser, Subcommand};

/// Tasks of the gdelt-mill workspace
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Make a GDELT archive of any size from the bundled real rows
    MakeArchive(make_archive::MakeArchive),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::MakeArchive(task) => task.run(),
    }
}
