//! What every stage binary shares, so that a stage holds only its own work.
//!
//! | module | holds |
//! |---|---|
//! | [`cli`] | flags that all stages have |
//! | [`settings`] | settings from defaults, files, environment and flags |
//! | [`Session`] | all that a run needs: settings, budget, printer, interrupt |
//! | [`files`] | the Parquet files of a dataset, and which stage's files to read |
//! | [`named`] | files named on the command line, and where their outputs go |
//! | [`mod@format`] | how Parquet files are written |
//! | [`chunks`] | column chunks made of decoded rows |
//! | [`Codec`] | how their pages are compressed |
//! | [`work`] | tasks from inputs to outputs: what is left to do, doing it, recording it |
//! | [`pool`] | a pool of named threads that gives results in order |
//! | [`print()`] | what a user asked for, on stdout |
//! | [`Printer`] | the one voice on stderr, and the progress bar |
//! | [`Summary`] | what a run did, for people and for scripts |
//! | [`Error`], [`ExitStatus`], [`describe`] | why a run stopped, and the exit codes |
//!
//! It knows datasets and the ledger through `catalog`, and nothing of what a stage does to rows.

pub mod chunks;
pub mod cli;
mod codec;
mod cpus;
mod error;
pub mod files;
pub mod format;
mod guard;
mod interrupt;
pub mod named;
pub mod pool;
mod printer;
mod session;
pub mod settings;
mod summary;
pub mod work;

pub use codec::Codec;
pub use cpus::Cpus;
pub use error::{Error, ExitStatus, describe};
pub use interrupt::Interrupt;
pub use printer::{Bar, Printer};
pub use session::{Session, main, print};
pub use summary::{Failure, FileCounts, RowCounts, Summary};

/// Version of the program, as noted in files and the ledger.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A short digest of what shaped an output. Equal settings give equal digests on any machine.
///
/// # Errors
///
/// [`Error::Internal`] when the settings cannot be serialised.
pub fn fingerprint(settings: &impl serde::Serialize) -> Result<String, Error> {
    use sha2::Digest as _;
    use std::fmt::Write as _;
    let json = serde_json::to_vec(settings).map_err(|error| Error::Internal(error.to_string()))?;
    let digest = sha2::Sha256::digest(&json);
    Ok(digest.iter().take(12).fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ok = write!(text, "{byte:02x}");
        text
    }))
}
