//! A limit under a governor: brings it samples, of this process or of all that share the budget,
//! and carries its decisions to them. How it decides is the governor's own work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::counters::{GovernorReport, TracePoint};
use crate::device::divided;
use crate::governor::{Bounds, DelayTarget, Idle, Sample};
use crate::host_share::{Board, HostDirectory, IdleLatency, Record, State, now_ns};
use crate::memory::Memory;
use crate::mount_sampler::MountSampler;
use crate::options::Options;
use crate::storage::{AutoRange, Storage, StorageClass};

/// A probe in which nothing was read for so long holds nobody back: all that is wanted is in the
/// page cache.
const LULL_NS: u64 = 150_000_000;

/// Points of a trace; beyond it every second one is left out.
const TRACE_POINTS: usize = 400;

const MIB: f64 = 1_048_576.0;

/// A limit that follows the latency of its storage.
#[derive(Debug)]
pub(crate) struct Governed {
    limit: AtomicUsize,
    probing: AtomicBool,
    most: usize,
    state: Mutex<Watch>,
}

/// What the governor's turns go on with.
#[derive(Debug)]
struct Watch {
    target: DelayTarget,
    /// The board that processes share; none where this one is alone.
    board: Option<Board>,
    /// Answers since the last turn, where no board takes them.
    own: Vec<Record>,
    /// The kernel's counters, which see all requests of the host.
    mount: Option<MountSampler>,
    memory: Option<Memory>,
    kept: Option<Idle>,
    /// What the one who leads knows of the idle storage.
    idle: Option<IdleLatency>,
    /// The limit while nobody leads.
    unled: usize,
    started_ns: u64,
    /// When the last request was answered.
    answered_ns: u64,
    trace: Trace,
}

impl Governed {
    /// A limit in this range for a lane of a storage.
    pub(crate) fn new(
        lane: &'static str,
        range: AutoRange,
        storage: &Storage,
        options: &Options,
        share: Option<&HostDirectory>,
    ) -> Self {
        let bound = |limit: std::num::NonZeroUsize| {
            std::num::NonZeroUsize::new(divided(limit.get(), options)).unwrap_or(limit)
        };
        let bounds = Bounds {
            least: bound(range.least),
            start: bound(range.start),
            most: bound(range.most),
        };
        let memory =
            options.memory.as_deref().map(|directory| Memory::new(directory, &storage.key, lane));
        let kept = memory.as_ref().and_then(Memory::load);
        // Processes that start together do not probe together.
        let seed = u64::from(std::process::id());
        let is_read_lane_of_nfs = storage.class == StorageClass::Nfs && lane == "reads";
        let watch = Watch {
            target: DelayTarget::new(bounds, options.latency_ceiling, kept, seed),
            board: share.and_then(|directory| Board::open(directory, lane).ok()),
            own: Vec::new(),
            mount: is_read_lane_of_nfs
                .then(|| MountSampler::new(options.system.clone(), storage.clone())),
            memory,
            kept,
            idle: kept.map(Idle::latency),
            unled: bounds.start.get(),
            started_ns: now_ns(),
            answered_ns: 0,
            trace: Trace::default(),
        };
        Self {
            limit: AtomicUsize::new(watch.target.limit()),
            probing: AtomicBool::new(false),
            most: bounds.most.get(),
            state: Mutex::new(watch),
        }
    }

    /// Requests that may be in flight now.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(SeqCst)
    }

    /// Requests that may ever be in flight.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Whether the storage is being asked how fast it is when idle.
    pub(crate) fn is_probing(&self) -> bool {
        self.probing.load(SeqCst)
    }

    /// Takes note of an answered request.
    pub(crate) fn sample(&self, rtt: Duration, bytes: u64, in_flight: usize, alone: bool) {
        let record = Record {
            at_ns: now_ns(),
            rtt_us: u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX),
            bytes,
            in_flight: u32::try_from(in_flight).unwrap_or(u32::MAX),
            alone,
        };
        let mut watch = self.lock();
        match &watch.board {
            Some(board) => board.record(record),
            None => watch.own.push(record),
        }
    }

    /// Looks at what was answered since the last turn, by all processes if this one leads them,
    /// and decides; otherwise follows the one that leads.
    pub(crate) fn tick(&self) {
        let mut watch = self.lock();
        let (limit, probing) = watch.turn();
        self.limit.store(limit, SeqCst);
        self.probing.store(probing, SeqCst);
    }

    /// How the limit was adapted so far.
    pub(crate) fn report(&self) -> GovernorReport {
        let watch = self.lock();
        let idle_ms = |idle: IdleLatency| (idle.seconds + idle.seconds_per_byte * MIB) * 1e3;
        GovernorReport {
            idle_ms: watch.idle.map(idle_ms),
            ceiling_trips: watch.target.trips(),
            trace: watch.trace.points.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Watch> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// The limit, and whether it is a probe's.
    fn turn(&mut self) -> (usize, bool) {
        let now = now_ns();
        let leads = self.board.as_ref().is_none_or(Board::try_lead);
        if !leads {
            let state = self.board.as_ref().and_then(Board::read);
            let (limit, probing) = state.map_or((self.unled, false), |state| {
                (usize::try_from(state.limit).unwrap_or(usize::MAX), state.probing)
            });
            self.idle = state.and_then(|state| state.idle);
            self.trace.add(self.started_ns, now, limit, None);
            return (limit, probing);
        }
        self.feed(now);
        let target = &self.target;
        let (limit, idle) = (target.limit(), target.idle());
        let probing = target.is_probing() && now.saturating_sub(self.answered_ns) < LULL_NS;
        self.idle = idle.map(Idle::latency);
        if let Some(board) = &self.board {
            board.publish(State {
                limit: u32::try_from(limit).unwrap_or(u32::MAX),
                probing,
                at_ns: now,
                idle: self.idle,
            });
        }
        if idle != self.kept
            && let (Some(memory), Some(idle)) = (&self.memory, idle)
        {
            memory.store(idle);
            self.kept = Some(idle);
        }
        let stretch = target.trace().last().map(|step| step.stretch);
        self.trace.add(self.started_ns, now, limit, stretch);
        (limit, probing)
    }

    /// Hands the governor what was answered.
    fn feed(&mut self, now: u64) {
        let records = match &self.board {
            Some(board) => board.collect(),
            None => std::mem::take(&mut self.own),
        };
        if let Some(last) = records.last() {
            self.answered_ns = last.at_ns;
        }
        // The kernel counts these requests too, and those of other programs.
        let of_host = self.mount.as_mut().and_then(|it| it.samples(Duration::from_nanos(now)));
        let samples = of_host.unwrap_or_else(|| records.into_iter().map(sample).collect());
        for sample in samples {
            self.target.sample(sample);
        }
        self.target.tick(Duration::from_nanos(now));
    }
}

fn sample(record: Record) -> Sample {
    Sample {
        at: Duration::from_nanos(record.at_ns),
        rtt: Duration::from_micros(u64::from(record.rtt_us)),
        bytes: record.bytes,
        in_flight: usize::try_from(record.in_flight).unwrap_or(usize::MAX),
        alone: record.alone,
    }
}

/// The limit over time, a point a second at first.
#[derive(Debug, Default)]
struct Trace {
    points: Vec<TracePoint>,
    /// Doubled whenever the points become too many.
    spacing_doublings: u32,
}

impl Trace {
    fn add(&mut self, started_ns: u64, now_ns: u64, limit: usize, stretch: Option<f64>) {
        let seconds = Duration::from_nanos(now_ns.saturating_sub(started_ns)).as_secs_f64();
        let spacing = f64::from(1_u32 << self.spacing_doublings.min(30));
        if self.points.last().is_some_and(|last| seconds - last.seconds < spacing) {
            return;
        }
        self.points.push(TracePoint { seconds, limit, stretch });
        if self.points.len() > TRACE_POINTS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.spacing_doublings += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leads_and_the_other_follows_until_it_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let memory = parent.path().join("memory");
        let options = Options { memory: Some(memory.clone()), ..Options::private() };
        let system = crate::storage::System::new("/nowhere".into(), "/nowhere".into());
        let storage = system.storage(0, 0, (0, 0)).with_class(StorageClass::Fuse);
        let range = crate::storage::Policy::of(&storage, std::num::NonZeroUsize::MIN).reads.auto;
        let governed = || {
            let share = HostDirectory::open(&parent.path().join("budget"), "key").unwrap();
            Governed::new("reads", range.unwrap(), &storage, &options, Some(&share))
        };
        let (one, other) = (governed(), governed());
        one.tick();
        // Reads of the other are samples for the one who leads.
        for _ in 0..12 {
            other.sample(Duration::from_millis(10), 1 << 20, 1, true);
        }
        assert_eq!((one.limit(), other.limit()), (1, 1));
        one.tick();
        other.tick();
        assert_eq!((one.limit(), other.limit()), (2, 2));
        assert_eq!(other.report().idle_ms, Some(10.0));
        assert_eq!(other.report().trace.last().unwrap().stretch, None);
        // What was measured is known to the next run.
        drop(one);
        drop(other);
        let next = governed();
        assert_eq!(next.report().idle_ms, Some(10.0));
        assert_eq!(next.limit(), 2);
    }

    #[test]
    fn a_trace_of_days_stays_short_and_keeps_its_beginning() {
        let mut trace = Trace::default();
        for second in 0..200_000_u64 {
            trace.add(0, second * 1_000_000_000, 2, None);
        }
        assert!(trace.points.len() <= TRACE_POINTS, "{}", trace.points.len());
        assert!(trace.points.len() > TRACE_POINTS / 4, "{}", trace.points.len());
        assert!(trace.points[0].seconds.abs() < 1e-9);
    }
}
