//! The append-only record of finished work.
//!
//! Finished work is recorded in segments, `<dataset>/catalog/<stage>/<YYYYMM>/<segment>`, a JSON
//! object a line. Each process writes segments of its own (`<writer>.open.jsonl`); a segment
//! counts once it is closed by a rename (`<writer>.jsonl`) or its writer is gone. When a month has
//! many closed segments they are merged into one, compressed, `<writer>.merged.jsonl.zst`, and
//! removed. No lock decides anything: a record that stands in two segments is the same record, and
//! of two records of one output the later one counts.
//!
//! The ledger says what was done. Whether the files are still as recorded is for the caller to
//! compare, with one listing per directory.

mod load;
mod record;
mod segment;

use std::path::{Path, PathBuf};

use io_budget::Budget;

pub use load::{Loaded, UnreadableLine};
pub use record::{CodeCounts, Damage, FORMAT, Outcome, Record, RecordCounts, Source, StageName};
pub use segment::LedgerWriter;

use crate::DateRange;

/// Closed segments of a month that are left unmerged.
const MERGE_AT: usize = 64;

/// Why the ledger cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The storage failed.
    #[error(transparent)]
    Io(#[from] io_budget::Error),
    /// A merged segment cannot be decompressed.
    #[error("{} is a damaged ledger segment; remove it, and the files it records are examined again", path.display())]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// What the decompressor said.
        source: std::io::Error,
    },
}

/// The ledger of one dataset.
#[derive(Debug, Clone)]
pub struct Ledger {
    directory: PathBuf,
    budget: Budget,
}

impl Ledger {
    /// The ledger that stands in a dataset's catalog directory; nothing is read or made yet.
    pub fn new(budget: &Budget, catalog_directory: &Path) -> Self {
        Self { directory: catalog_directory.to_owned(), budget: budget.clone() }
    }

    /// Loads what a stage has done in the months that the range touches.
    ///
    /// # Errors
    ///
    /// [`Error`] when a segment cannot be read. No ledger at all is an empty one.
    pub fn load(&self, stage: StageName, range: DateRange) -> Result<Loaded, Error> {
        load::load(&self.budget, &self.directory.join(stage.name()), range)
    }

    /// Starts to record work of a stage. Nothing is created before the first record.
    pub fn writer(&self, stage: StageName) -> LedgerWriter {
        LedgerWriter::new(&self.budget, &self.directory.join(stage.name()))
    }
}
