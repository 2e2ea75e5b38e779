//! Looks things up in what is known of the GDELT archive: `gdelt-catalog`.
//!
//! | module | holds |
//! |---|---|
//! | `cli` | the command line |
//! | `codes` | what the codes in columns mean |
//!
//! It prints results and changes nothing.

mod cli;
mod codes;

use stage::{Error, ExitStatus};

pub use cli::Cli;
use cli::Command;

/// Does what the command line asks for.
///
/// # Errors
///
/// [`Error`] when nothing is found, or stdout is closed.
pub fn run(cli: &Cli) -> Result<ExitStatus, Error> {
    match &cli.command {
        Command::Codes(args) => codes::run(args),
    }
}
