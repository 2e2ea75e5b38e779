//! How archive storage may be touched.
//!
//! Every open, listing, read, staged write and rename of an archive file goes through a [`Budget`]:
//! a request waits for a permit of its lane (reads or writes), is timed and counted, and gives the
//! permit back when the storage has answered. Nothing is decoded or encoded under a permit.
//!
//! | module | holds |
//! |---|---|
//! | [`Budget`] | the requests: list, stat, open, read, stage, remove |
//! | [`Caps`] | what decides how many requests may be in flight |
//! | [`BudgetFile`] | positioned reads of one open file, neighbouring ranges merged |
//! | [`FileReader`] | a file too large for memory, read a request at a time |
//! | [`StagedFile`] | a file that appears whole or not at all |
//! | [`AppendFile`] | a file that grows by whole records |
//! | [`parquet`] | footers and row groups for `parquet`'s push decoders |
//! | [`IoReport`] | what was asked of the storage, per lane |
//!
//! This crate knows nothing of GDELT, of stages or of settings files.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this crate is the one door to the file system"
)]

mod append;
mod budget;
mod caps;
mod counters;
mod error;
mod file;
mod gate;
mod host;
pub mod parquet;
mod staging;

pub use append::AppendFile;
pub use budget::{Budget, Entry, Stat};
pub use caps::Caps;
pub use counters::{IoReport, LaneReport, LatencyReport, RequestKind};
pub use error::Error;
pub use file::{BudgetFile, FileReader};
pub use host::{Writer, WriterState};
pub use staging::{Published, STAGING_DIRECTORY, StagedFile};

/// Largest single read or write request, in bytes: what a network file system's `rsize` and
/// `wsize` usually allow, so that one permit is one request on the wire.
pub const REQUEST_BYTES: usize = 1 << 20;

/// Written bytes after which the data are synced, so that a burst of dirty pages never floods the
/// storage behind the budget's back.
pub const DIRTY_BYTES: u64 = 8 << 20;
