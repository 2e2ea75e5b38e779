//! What a user may set of a budget. How it becomes limits is the policy's and the governor's work.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::storage::{StorageClass, System};

/// How many requests of a lane may be in flight at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// What the storage's class allows, adapted to its latency where the class is shared.
    Auto,
    /// So many and never more, by all processes that share the budget.
    Fixed(NonZeroUsize),
    /// As many as the program's threads ask for.
    Unlimited,
}

/// Who shares a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sharing {
    /// This process alone.
    Process,
    /// The processes of this user on this host.
    Host,
    /// The processes of this host that name the same directory.
    Directory(PathBuf),
}

/// What a user may set.
#[derive(Debug, Clone)]
pub struct Options {
    /// Reads, listings, opens and stats in flight.
    pub reads: Limit,
    /// Writes, creates, syncs, renames and removals in flight.
    pub writes: Limit,
    /// Mean round trip over five seconds above which the governor goes down to one request.
    pub latency_ceiling: Duration,
    /// Whether files are read past the page cache.
    pub direct: bool,
    /// Classes by directory, where what the system says is wrong.
    pub classes: BTreeMap<PathBuf, StorageClass>,
    /// Hosts that work on the same storage: limits are divided by it.
    pub expected_hosts: NonZeroUsize,
    /// Who shares the budget.
    pub sharing: Sharing,
    /// The name under which processes share it, in place of the storage's own.
    pub key: Option<String>,
    /// Where idle latencies are kept for later runs.
    pub memory: Option<PathBuf>,
    /// Processors that this process may use.
    pub cpus: NonZeroUsize,
    /// Where the system tells of mounts and disks.
    pub system: System,
}

impl Options {
    /// Mean round trip above which other users of a shared disk feel the load.
    pub const LATENCY_CEILING: Duration = Duration::from_millis(100);

    /// A budget of this process alone with two reads and one write in flight, whatever the
    /// storage.
    pub fn private() -> Self {
        let two = NonZeroUsize::MIN.saturating_add(1);
        Self {
            reads: Limit::Fixed(two),
            writes: Limit::Fixed(NonZeroUsize::MIN),
            sharing: Sharing::Process,
            ..Self::default()
        }
    }
}

impl Default for Options {
    /// Adaptive, shared by the processes of this user on this host, with no memory of earlier
    /// runs.
    fn default() -> Self {
        Self {
            reads: Limit::Auto,
            writes: Limit::Auto,
            latency_ceiling: Self::LATENCY_CEILING,
            direct: false,
            classes: BTreeMap::new(),
            expected_hosts: NonZeroUsize::MIN,
            sharing: Sharing::Host,
            key: None,
            memory: None,
            cpus: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            system: System::default(),
        }
    }
}
