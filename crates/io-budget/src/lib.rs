//! How archive storage may be touched.
//!
//! Every open, listing, read, staged write and rename of an archive file goes through a [`Budget`].
//! It knows on which storage a file stands, and how that is best used. A request waits for a permit
//! of its lane (reads or writes) of its storage, is timed and counted, and gives the permit back
//! when the storage has answered. Nothing is decoded or encoded under a permit. The processes of a
//! host share the permits, and where others use the storage too their number follows its latency.
//!
//! | module | holds |
//! |---|---|
//! | [`Budget`] | the requests: list, stat, open, read, stage, remove |
//! | [`Options`] | what a user may set |
//! | [`storage`] | which kind of storage a directory stands on, and the policy for it |
//! | `places`, `device` | the storages in use: lanes, limits, counters |
//! | `governor`, `governed` | a limit that follows the storage's latency, and what it is fed with |
//! | `host_share` | one budget for the processes of a host |
//! | `mount_sampler` | the NFS client's counters, for the governor |
//! | `memory` | idle latencies kept for later runs |
//! | [`BudgetFile`] | positioned reads of one open file, neighbouring ranges merged |
//! | [`FileReader`] | a file too large for memory, read a request at a time |
//! | [`StagedFile`] | a file that appears whole or not at all |
//! | [`AppendFile`] | a file that grows by whole records |
//! | [`parquet`] | footers and row groups for `parquet`'s push decoders |
//! | [`Usage`], [`IoReport`] | how storages are used, what was asked of them |
//!
//! This crate knows nothing of GDELT, of stages or of settings files.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this crate is the one door to the file system"
)]

mod append;
mod budget;
mod counters;
mod device;
mod error;
mod file;
mod gate;
mod governed;
mod governor;
mod host;
mod host_share;
mod memory;
mod mount_sampler;
mod options;
pub mod parquet;
mod places;
mod staging;
pub mod storage;
mod usage;

pub use append::AppendFile;
pub use budget::{Budget, Entry, Stat};
pub use counters::{GovernorReport, LaneReport, LatencyReport, RequestKind, TracePoint};
pub use device::{IoReport, StorageReport};
pub use error::Error;
pub use file::{BudgetFile, FileReader};
pub use host::{Writer, WriterState};
pub use options::{Limit, Options, Sharing};
pub use staging::{Published, STAGING_DIRECTORY, StagedFile};
pub use storage::StorageClass;
pub use usage::Usage;
