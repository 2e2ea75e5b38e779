//! One storage as a queue: its two lanes of requests, their limits and counters. Which directory
//! stands on which storage is not known here.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::counters::LaneCounters;
use crate::gate::Gate;
use crate::governed::Governed;
use crate::host_share::{HostDirectory, Slots};
use crate::options::{Limit, Options};
use crate::storage::{LanePolicy, Policy, Storage, StorageClass};
use crate::{LaneReport, RequestKind};

/// A storage that requests are sent to.
#[derive(Debug)]
pub(crate) struct Device {
    storage: Storage,
    policy: Policy,
    reads: Lane,
    writes: Lane,
    /// Whether the page cache can be asked without waiting; cleared by the first answer that it
    /// cannot.
    tells_hits: AtomicBool,
    traffic: Traffic,
    directories: Mutex<BTreeSet<PathBuf>>,
    shared: Result<PathBuf, String>,
}

/// One of the two kinds of requests.
#[derive(Debug)]
struct Lane {
    gate: Gate,
    counters: LaneCounters,
    slots: Option<Slots>,
    limit: LaneLimit,
}

/// Tells whether a request was alone.
#[derive(Debug, Default)]
struct Traffic {
    in_flight: AtomicU64,
    begun: AtomicU64,
}

impl Device {
    /// A storage under the user's options. Processes that find the same `share` keep its limits
    /// together.
    pub(crate) fn new(
        storage: Storage,
        options: &Options,
        share: Result<HostDirectory, String>,
    ) -> Self {
        let policy = Policy::of(&storage, options.cpus);
        let directory = share.as_ref().ok();
        let lane = |name, limit, policy: &LanePolicy| {
            Lane::new(name, limit, policy, &storage, options, directory)
        };
        Self {
            reads: lane("reads", options.reads, &policy.reads),
            writes: lane("writes", options.writes, &policy.writes),
            policy,
            tells_hits: AtomicBool::new(true),
            traffic: Traffic::default(),
            directories: Mutex::default(),
            shared: share.map(|directory| directory.path().to_owned()),
            storage,
        }
    }

    /// How this storage is used.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What the system says of it.
    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Whether a limit of this storage is adapted to its latency.
    pub(crate) fn is_governed(&self) -> bool {
        self.governed().next().is_some()
    }

    fn governed(&self) -> impl Iterator<Item = &Arc<Governed>> {
        self.reads.limit.governed().into_iter().chain(self.writes.limit.governed())
    }

    /// Lets the governors look at what was answered since the last call, and sets the gates to
    /// what they say.
    pub(crate) fn govern(&self) {
        self.governed().for_each(|governed| governed.tick());
        self.reads.gate.set_limit(self.reads.limit.now());
        let reads_probe = self.reads.limit.governed().is_some_and(|reads| reads.is_probing());
        // What a probe sends is to be alone.
        self.writes.gate.set_limit(if reads_probe { 0 } else { self.writes.limit.now() });
    }

    /// Requests of the lane that may ever be in flight at once, from this process.
    pub(crate) fn most(&self, writes: bool) -> usize {
        let lane = if writes { &self.writes } else { &self.reads };
        lane.limit.most()
    }

    /// Notes a directory that stands here.
    pub(crate) fn note_directory(&self, directory: PathBuf) {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner).insert(directory);
    }

    /// Runs one request under a permit of its lane; `bytes` tells how much it moved.
    pub(crate) fn request<T>(
        &self,
        kind: RequestKind,
        bytes: impl FnOnce(&T) -> u64,
        call: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let lane = if kind.is_write() { &self.writes } else { &self.reads };
        let arrived = Instant::now();
        let permit = lane.gate.enter();
        let slot =
            lane.slots.as_ref().map(|slots| slots.acquire(|| lane.gate.limit())).transpose()?;
        let started = Instant::now();
        let (first, begun) = self.traffic.begin();
        let answer = call();
        let took = started.elapsed();
        let alone = self.traffic.end(begun) && first;
        drop(slot);
        let in_flight = permit.in_flight();
        drop(permit);
        let moved = answer.as_ref().map_or(0, bytes);
        // What a sync or close sends was counted when it was written.
        let counted =
            if matches!(kind, RequestKind::Read | RequestKind::Write) { moved } else { 0 };
        lane.counters.record(kind, counted, started - arrived, took);
        if let Some(governed) = lane.limit.governed()
            && kind.moves_data()
            && moved > 0
            && !is_from_cache(took, moved)
        {
            governed.sample(took, moved, in_flight, alone);
        }
        answer
    }

    /// Counts a request that was made before it was known to be one of this storage's.
    pub(crate) fn count(&self, kind: RequestKind, took: Duration) {
        self.reads.counters.record(kind, 0, Duration::ZERO, took);
    }

    /// The counters of reads, for what is no request.
    pub(crate) fn read_counters(&self) -> &LaneCounters {
        &self.reads.counters
    }

    /// Whether it is worth asking for cached bytes without waiting.
    pub(crate) fn tells_hits(&self) -> bool {
        self.tells_hits.load(SeqCst)
    }

    /// Notes that this storage cannot tell cached bytes.
    pub(crate) fn cannot_tell_hits(&self) {
        self.tells_hits.store(false, SeqCst);
    }

    /// What was asked of this storage so far.
    pub(crate) fn report(&self) -> StorageReport {
        let directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        StorageReport {
            directories: directories.iter().cloned().collect(),
            class: self.storage.class,
            why: self.storage.why.clone(),
            key: self.storage.key.clone(),
            shared: self.shared.as_ref().ok().cloned(),
            reads: self.reads.report(),
            writes: self.writes.report(),
        }
    }

    /// Why processes do not share this storage's budget, if they were to.
    pub(crate) fn not_shared(&self) -> Option<&str> {
        self.shared.as_ref().err().map(String::as_str).filter(|reason| !reason.is_empty())
    }

    /// Adds the counts of the two lanes.
    pub(crate) fn add_to(&self, reads: &LaneCounters, writes: &LaneCounters) {
        reads.add(&self.reads.counters);
        writes.add(&self.writes.counters);
    }
}

impl Lane {
    fn new(
        name: &'static str,
        limit: Limit,
        policy: &LanePolicy,
        storage: &Storage,
        options: &Options,
        share: Option<&HostDirectory>,
    ) -> Self {
        let limit = match (limit, policy.auto) {
            (Limit::Auto, Some(range)) => {
                let governed = Governed::new(name, range, storage, options, share);
                LaneLimit::Governed(Arc::new(governed))
            }
            (Limit::Auto, None) => LaneLimit::Fixed(divided(policy.cap.get(), options)),
            (Limit::Fixed(cap), _) => LaneLimit::Fixed(divided(cap.get(), options)),
            (Limit::Unlimited, _) => LaneLimit::Unlimited,
        };
        let share = share.filter(|_| !matches!(limit, LaneLimit::Unlimited));
        Self {
            gate: Gate::new(limit.now()),
            counters: LaneCounters::new(),
            slots: share.map(|directory| Slots::open(directory, name)),
            limit,
        }
    }

    fn report(&self) -> LaneReport {
        let limit = Some(self.limit.now()).filter(|limit| *limit != usize::MAX);
        let mut report = self.counters.report(limit, self.gate.peak());
        report.governor = self.limit.governed().map(|governed| governed.report());
        report
    }
}

/// What decides how many requests of a lane may be in flight.
#[derive(Debug)]
enum LaneLimit {
    Fixed(usize),
    Governed(Arc<Governed>),
    Unlimited,
}

impl LaneLimit {
    fn now(&self) -> usize {
        match self {
            Self::Fixed(limit) => *limit,
            Self::Governed(governed) => governed.limit(),
            Self::Unlimited => usize::MAX,
        }
    }

    fn most(&self) -> usize {
        match self {
            Self::Governed(governed) => governed.most(),
            Self::Fixed(_) | Self::Unlimited => self.now(),
        }
    }

    fn governed(&self) -> Option<&Arc<Governed>> {
        match self {
            Self::Governed(governed) => Some(governed),
            Self::Fixed(_) | Self::Unlimited => None,
        }
    }
}

/// A limit of all hosts, for this one.
pub(crate) fn divided(limit: usize, options: &Options) -> usize {
    (limit / options.expected_hosts).max(1)
}

impl Traffic {
    fn begin(&self) -> (bool, u64) {
        let begun = self.begun.fetch_add(1, SeqCst) + 1;
        (self.in_flight.fetch_add(1, SeqCst) == 0, begun)
    }

    /// Whether no other request began since this one did.
    fn end(&self, begun: u64) -> bool {
        self.in_flight.fetch_sub(1, SeqCst);
        self.begun.load(SeqCst) == begun
    }
}

/// Whether an answer came sooner than any device or network gives it: 200 µs and 3 GB/s.
fn is_from_cache(took: Duration, bytes: u64) -> bool {
    took < Duration::from_micros(200) + Duration::from_nanos(bytes / 3)
}

/// What a process asked of one storage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageReport {
    /// Directories on it that were used.
    pub directories: Vec<PathBuf>,
    /// Its class.
    pub class: StorageClass,
    /// Why it is taken for one of this class.
    pub why: String,
    /// The name under which processes share its budget.
    pub key: String,
    /// The directory by which they do; none where this process has a budget of its own.
    pub shared: Option<PathBuf>,
    /// Reads, listings, opens, stats and closes.
    pub reads: LaneReport,
    /// Writes, creates, syncs, renames and removals.
    pub writes: LaneReport,
}

/// What a process asked of all storages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IoReport {
    /// Over all storages; limit and peak are those of the storage with the greatest peak.
    pub reads: LaneReport,
    /// Over all storages, as [`Self::reads`].
    pub writes: LaneReport,
    /// Each storage by itself.
    pub storages: Vec<StorageReport>,
}
