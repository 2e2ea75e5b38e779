//! One storage as a queue: its two lanes of requests, their limits and counters. Which directory
//! stands on which storage is not known here.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::counters::LaneCounters;
use crate::gate::{Gate, Permit};
use crate::governed::Governed;
use crate::host_share::{HostDirectory, Slots};
use crate::options::{Limit, Options};
use crate::storage::{LanePolicy, Policy, Storage, StorageClass};
use crate::{LaneReport, RequestKind};

/// Writes that may be in flight however slow the storage has become, where its class allows them.
const FEW_WRITES: usize = 2;

/// A storage that requests are sent to.
#[derive(Debug)]
pub(crate) struct Device {
    storage: Storage,
    policy: Policy,
    reads: Lane,
    writes: Lane,
    /// Files that are read from beginning to end at once.
    streams: Gate,
    /// Whether the page cache can be asked without waiting; cleared by the first answer that it
    /// cannot.
    tells_hits: AtomicBool,
    traffic: Traffic,
    directories: Mutex<BTreeSet<PathBuf>>,
    shared: Result<PathBuf, String>,
}

/// The right to read a file from beginning to end; given back when dropped.
pub(crate) type Stream<'device> = Permit<'device>;

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

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) bytes: usize,
    /// Whether the page cache had it all.
    pub(crate) cached: bool,
}

/// How a request passed.
#[derive(Debug, Clone, Copy)]
struct Passed {
    /// Until there was a permit.
    waited: Duration,
    /// From there to the answer.
    took: Duration,
    /// Requests of this process in flight by then.
    in_flight: usize,
    /// Whether it was the only one all the time.
    alone: bool,
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
        let reads = lane("reads", options.reads, &policy.reads);
        Self {
            streams: Gate::new(reads.limit.now()),
            reads,
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

    /// Whether limits of this storage are adapted to its latency.
    pub(crate) fn is_governed(&self) -> bool {
        self.reads.limit.governed().is_some()
    }

    /// Lets the governor look at what was answered since the last call, and sets the gates to what
    /// it says.
    pub(crate) fn govern(&self) {
        let Some(reads) = self.reads.limit.governed() else { return };
        reads.tick();
        self.reads.gate.set_limit(reads.limit());
        self.streams.set_limit(reads.limit());
        let writes = match self.writes.limit {
            // What a probe sends is to be alone.
            _ if reads.is_probing() => 0,
            // A storage that bears few reads now bears no more writes; two keep a run going.
            LaneLimit::OfClass(limit) => limit.min(reads.limit().max(FEW_WRITES)),
            _ => self.writes.limit.now(),
        };
        self.writes.gate.set_limit(writes);
    }

    /// Requests of the lane that may ever be in flight at once, from this process.
    pub(crate) fn most(&self, writes: bool) -> usize {
        let lane = if writes { &self.writes } else { &self.reads };
        lane.limit.most()
    }

    /// Waits for a turn to read a whole file. There are as many as reads may be in flight: files
    /// that are read in turns, a request of each, make a disk seek and are all ready late.
    pub(crate) fn stream(&self) -> Stream<'_> {
        self.streams.enter()
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
        let (answer, passed) = self.pass(lane, call)?;
        let moved = answer.as_ref().map_or(0, bytes);
        lane.record(kind, moved, passed);
        answer
    }

    /// Reads under a permit. What the page cache answered is no request of the storage: it is
    /// counted apart and says nothing of the storage's latency.
    pub(crate) fn read(&self, call: impl FnOnce() -> io::Result<Answer>) -> io::Result<Answer> {
        let (answer, passed) = self.pass(&self.reads, call)?;
        match &answer {
            Ok(Answer { bytes, cached: true }) => self.reads.counters.record_hit(*bytes as u64),
            Ok(Answer { bytes, cached: false }) => {
                self.reads.record(RequestKind::Read, *bytes as u64, passed);
            }
            Err(_) => self.reads.record(RequestKind::Read, 0, passed),
        }
        answer
    }

    /// Waits for a permit and calls.
    fn pass<T>(
        &self,
        lane: &Lane,
        call: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<(io::Result<T>, Passed)> {
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
        Ok((answer, Passed { waited: started - arrived, took, in_flight, alone }))
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
    /// Counts an answered request, and tells the governor how long it took.
    fn record(&self, kind: RequestKind, moved: u64, passed: Passed) {
        // What a sync or close sends was counted when it was written.
        let counted =
            if matches!(kind, RequestKind::Read | RequestKind::Write) { moved } else { 0 };
        let Passed { waited, took, in_flight, alone } = passed;
        self.counters.record(kind, counted, waited, took);
        if let Some(governed) = self.limit.governed()
            && kind.moves_data()
            && moved > 0
            && !is_from_cache(took, moved)
        {
            governed.sample(took, moved, in_flight, alone);
        }
    }

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
                LaneLimit::Governed(Box::new(governed))
            }
            (Limit::Auto, None) => LaneLimit::OfClass(divided(policy.cap.get(), options)),
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
        report.governor = self.limit.governed().map(Governed::report);
        report
    }
}

/// What decides how many requests of a lane may be in flight.
#[derive(Debug)]
enum LaneLimit {
    Fixed(usize),
    /// What the storage's class allows at most.
    OfClass(usize),
    Governed(Box<Governed>),
    Unlimited,
}

impl LaneLimit {
    fn now(&self) -> usize {
        match self {
            Self::Fixed(limit) | Self::OfClass(limit) => *limit,
            Self::Governed(governed) => governed.limit(),
            Self::Unlimited => usize::MAX,
        }
    }

    fn most(&self) -> usize {
        match self {
            Self::Governed(governed) => governed.most(),
            Self::Fixed(_) | Self::OfClass(_) | Self::Unlimited => self.now(),
        }
    }

    fn governed(&self) -> Option<&Governed> {
        match self {
            Self::Governed(governed) => Some(governed),
            Self::Fixed(_) | Self::OfClass(_) | Self::Unlimited => None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Sharing;
    use crate::storage::System;
    use std::num::NonZeroUsize;
    use std::sync::atomic::AtomicUsize;

    fn storage(class: StorageClass) -> Storage {
        System::new("/nowhere".into(), "/nowhere".into()).storage(0, 0, (0, 0)).with_class(class)
    }

    fn fixed(number: usize) -> Limit {
        Limit::Fixed(NonZeroUsize::new(number).unwrap())
    }

    /// Sends `number` requests from four threads and returns how many were in flight at most,
    /// over all devices that count with the same `in_flight`.
    fn send(device: &Device, kind: RequestKind, number: usize, in_flight: &AtomicUsize) -> usize {
        let most = AtomicUsize::new(0);
        let left = AtomicUsize::new(number);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                        let call = || {
                            most.fetch_max(in_flight.fetch_add(1, SeqCst) + 1, SeqCst);
                            std::thread::sleep(Duration::from_millis(3));
                            in_flight.fetch_sub(1, SeqCst);
                            Ok(())
                        };
                        device.request(kind, |()| 1, call).unwrap();
                    }
                });
            }
        });
        most.load(SeqCst)
    }

    fn device(options: &Options, class: StorageClass) -> Device {
        Device::new(storage(class), options, Err(String::new()))
    }

    #[test]
    fn each_lane_keeps_to_its_limit() {
        let options = Options { reads: fixed(3), writes: fixed(2), ..Options::private() };
        let device = device(&options, StorageClass::Nfs);
        assert_eq!(send(&device, RequestKind::Read, 40, &AtomicUsize::new(0)), 3);
        assert_eq!(send(&device, RequestKind::Write, 40, &AtomicUsize::new(0)), 2);
        let report = device.report();
        assert_eq!((report.reads.peak_in_flight, report.reads.read), (3, 40));
        assert_eq!((report.writes.peak_in_flight, report.writes.write), (2, 40));
    }

    #[test]
    fn a_disk_is_written_one_request_at_a_time_and_a_bucket_several() {
        let options = Options { writes: Limit::Auto, ..Options::private() };
        let disk = device(&options, StorageClass::Hdd);
        assert_eq!(send(&disk, RequestKind::Write, 20, &AtomicUsize::new(0)), 1);
        let bucket = device(&options, StorageClass::ObjectStore);
        assert_eq!(send(&bucket, RequestKind::Write, 20, &AtomicUsize::new(0)), 4);
    }

    #[test]
    fn hosts_divide_a_limit_and_each_keeps_one() {
        let limit = |hosts: usize| {
            let expected_hosts = NonZeroUsize::new(hosts).unwrap();
            let options = Options { reads: fixed(4), expected_hosts, ..Options::private() };
            device(&options, StorageClass::Nfs).report().reads.limit
        };
        assert_eq!([limit(1), limit(2), limit(3), limit(9)], [Some(4), Some(2), Some(1), Some(1)]);
    }

    #[test]
    fn no_limit_is_no_limit() {
        let options = Options { reads: Limit::Unlimited, ..Options::private() };
        let device = device(&options, StorageClass::Nfs);
        assert_eq!(send(&device, RequestKind::Read, 20, &AtomicUsize::new(0)), 4);
        assert_eq!(device.report().reads.limit, None);
    }

    #[test]
    fn those_who_share_a_directory_share_a_limit() {
        let parent = tempfile::tempdir().unwrap();
        let sharing = Sharing::Directory(parent.path().to_owned());
        let options = Options { reads: fixed(2), sharing, ..Options::private() };
        let share = || HostDirectory::open(&parent.path().join("budget"), "key").unwrap();
        let one = Device::new(storage(StorageClass::Nfs), &options, Ok(share()));
        let other = Device::new(storage(StorageClass::Nfs), &options, Ok(share()));
        let in_flight = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| send(&one, RequestKind::Read, 40, &in_flight));
            let second = send(&other, RequestKind::Read, 40, &in_flight);
            assert_eq!(first.join().unwrap().max(second), 2);
        });
        assert!(one.report().shared.is_some());
    }

    #[test]
    fn a_governed_limit_begins_at_its_start_and_goes_to_one_for_a_probe() {
        let options = Options { reads: Limit::Auto, ..Options::private() };
        let device = device(&options, StorageClass::Nfs);
        assert_eq!(device.most(false), 4);
        // Nothing is known of the storage yet: it is asked one request at a time.
        assert_eq!(device.report().reads.limit, Some(1));
        send(&device, RequestKind::Read, 30, &AtomicUsize::new(0));
        device.govern();
        let report = device.report().reads;
        assert_eq!(report.peak_in_flight, 1);
        let governor = report.governor.unwrap();
        assert!(governor.idle_ms.is_some_and(|ms| (2.9..30.0).contains(&ms)), "{governor:?}");
        assert_eq!(report.limit, Some(2));
    }

    #[test]
    fn an_answer_of_the_page_cache_is_told_from_one_of_a_device() {
        let micros = Duration::from_micros;
        assert!(is_from_cache(micros(150), 4096));
        assert!(is_from_cache(micros(400), 1 << 20));
        assert!(!is_from_cache(micros(600), 1 << 20));
    }
}
