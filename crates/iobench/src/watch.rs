//! Watches a run: takes down what happens each second, and ends it when reads take too long, when
//! its time is over or when the user asks. What runs is the business of those who start it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use io_budget::storage::{Reading, Storage, System};
use stage::Interrupt;

use crate::record::{InFlight, Measured, Outcome, Source};
use crate::timeline::{Slice, Timeline, Total, milliseconds};

/// How often progress is looked at: what is seen of a process that has ended is at most so old.
const TICK: Duration = Duration::from_millis(10);
/// How often round trips are averaged, and judged.
const SECOND: Duration = Duration::from_secs(1);

/// Something that runs until it is done or stopped.
pub(crate) trait Load {
    /// Whether it has ended.
    fn has_ended(&mut self) -> bool;
    /// Bytes read and written so far.
    fn bytes(&mut self) -> Moved;
    /// Tells it to end soon, and waits until it has.
    fn stop(&mut self);
}

/// Reads that are timed.
pub(crate) trait Requests {
    /// What happened since the last slice.
    fn slice(&self) -> Slice;
    /// Everything so far.
    fn total(&self) -> Total;
}

/// Bytes read and written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl Moved {
    fn total(self) -> u64 {
        self.read + self.written
    }
}

/// When a run is ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The longest time a run may take.
    pub(crate) cap: Duration,
    /// Mean round trip of reads over five seconds above which a run is ended.
    pub(crate) ceiling: Duration,
}

/// Where the round trips of reads are seen.
pub(crate) struct Eyes<'a> {
    /// Reads that this program makes and times.
    pub(crate) reads: &'a dyn Requests,
    /// Whether these are the run's own, or those of a reader beside it.
    pub(crate) source: Source,
    /// What the kernel counts.
    pub(crate) kernel: Kernel<'a>,
}

/// The kernel's counters of a storage, if it has any.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel<'a> {
    pub(crate) system: &'a System,
    pub(crate) storage: &'a Storage,
}

impl Kernel<'_> {
    fn read(self) -> Option<(Instant, Reading)> {
        Some((Instant::now(), self.system.reading(self.storage)?))
    }
}

/// How a run ended, and what was seen of it.
#[derive(Debug)]
pub(crate) struct Seen {
    /// How it ended; none when the user asked for it.
    pub(crate) outcome: Option<Outcome>,
    /// What was measured.
    pub(crate) measured: Measured,
}

/// Watches a run to its end.
pub(crate) fn watch(
    load: &mut dyn Load,
    eyes: &Eyes<'_>,
    limits: Limits,
    interrupt: &Interrupt,
) -> Seen {
    let begun = Instant::now();
    let mut run = Run {
        own: Timeline::default(),
        kernel: Timeline::default(),
        kernel_source: None,
        retransmissions: None,
        kernel_bytes: 0,
        last: eyes.kernel.read(),
        progress: vec![(Duration::ZERO, 0)],
    };
    let mut due = SECOND;
    let outcome = loop {
        let ended = load.has_ended();
        let elapsed = begun.elapsed();
        let bytes = load.bytes().total();
        run.progress.push((elapsed, bytes));
        if ended || elapsed >= due {
            due = elapsed + SECOND;
            run.slice(eyes, elapsed, bytes);
        }
        if ended {
            break Some(Outcome::Complete);
        }
        if let Some(rtt) = run.of_reads(eyes).verdict(limits.ceiling) {
            break Some(Outcome::Killed { rtt_ms: milliseconds(rtt) });
        }
        if elapsed >= limits.cap {
            break Some(Outcome::Capped);
        }
        if interrupt.is_set() {
            break None;
        }
        sleep(TICK);
    };
    // The rates are of the time before it was told to end.
    let (seconds, moved) = (begun.elapsed(), load.bytes());
    load.stop();
    Seen { outcome, measured: run.measured(eyes, seconds, moved) }
}

/// What was seen so far.
struct Run {
    own: Timeline,
    kernel: Timeline,
    kernel_source: Option<Source>,
    retransmissions: Option<u64>,
    /// Bytes of the reads that the kernel counted.
    kernel_bytes: u64,
    last: Option<(Instant, Reading)>,
    /// Bytes moved by a time.
    progress: Vec<(Duration, u64)>,
}

impl Run {
    fn slice(&mut self, eyes: &Eyes<'_>, at: Duration, bytes: u64) {
        self.own.push(at, bytes, eyes.reads.slice());
        let Some((now, reading)) = eyes.kernel.read() else { return };
        if let Some((before, earlier)) = &self.last
            && let Some(delta) = reading.since(earlier, now.saturating_duration_since(*before))
        {
            let reads = &delta.reads;
            let rtt = reads.mean.map(|mean| mean.rtt).unwrap_or_default();
            let each = reads.mean.map_or(0, |mean| mean.bytes);
            self.kernel_bytes += each.saturating_mul(reads.operations);
            self.kernel.push(
                at,
                self.kernel_bytes,
                Slice {
                    requests: reads.operations,
                    waited: rtt.saturating_mul(u32::try_from(reads.operations).unwrap_or(u32::MAX)),
                    in_flight: Some(reads.in_flight),
                    oldest: None,
                },
            );
            let is_nfs = matches!(reading, Reading::Nfs(_));
            self.kernel_source = Some(if is_nfs { Source::Mountstats } else { Source::Diskstats });
            if is_nfs {
                let again = reads.retransmissions + delta.writes.retransmissions;
                *self.retransmissions.get_or_insert(0) += again;
            }
        }
        self.last = Some((now, reading));
    }

    /// Where the round trips of reads are taken from: of NFS the client's counters know them all.
    fn of_reads(&self, eyes: &Eyes<'_>) -> &Timeline {
        match self.source(eyes) {
            Source::Mountstats => &self.kernel,
            _ => &self.own,
        }
    }

    fn source(&self, eyes: &Eyes<'_>) -> Source {
        let of_nfs = self.kernel_source.filter(|source| *source == Source::Mountstats);
        of_nfs.unwrap_or(eyes.source)
    }

    fn measured(&self, eyes: &Eyes<'_>, seconds: Duration, moved: Moved) -> Measured {
        let source = self.source(eyes);
        let timeline = self.of_reads(eyes);
        let mut latency = timeline.latency(source);
        let total = eyes.reads.total();
        if let Some(latency) = latency.as_mut().filter(|_| source != Source::Mountstats) {
            latency.p50_ms = total.p50.map(milliseconds);
            latency.p95_ms = total.p95.map(milliseconds);
        }
        let own = (eyes.source == Source::OwnTiming).then(|| InFlight {
            source: Source::OwnTiming,
            mean: self.own.in_flight(),
            most: Some(total.most),
        });
        let (startup_seconds, tail_seconds) = edges(&self.progress);
        Measured {
            seconds: seconds.as_secs_f64(),
            startup_seconds,
            tail_seconds,
            read_bytes: moved.read,
            written_bytes: moved.written,
            latency,
            in_flight: own,
            kernel_in_flight: self.kernel_source.map(|source| InFlight {
                source,
                mean: self.kernel.in_flight(),
                most: None,
            }),
            retransmissions: self.retransmissions,
            series: timeline.series(),
            kernel_series: self.kernel.series(),
            ..Measured::default()
        }
    }
}

/// Seconds until the first hundredth of all bytes had moved, and seconds after the last but one
/// had; none where nothing did.
fn edges(progress: &[(Duration, u64)]) -> (Option<f64>, Option<f64>) {
    let Some((end, all)) = progress.last().copied().filter(|(_, all)| *all > 0) else {
        return (None, None);
    };
    let reached =
        |bytes: u64| progress.iter().find(|(_, moved)| *moved >= bytes).map(|(at, _)| *at);
    let startup = reached(all.div_ceil(100));
    let tail = reached(all - all / 100).map(|at| end.saturating_sub(at));
    (startup.map(|time| time.as_secs_f64()), tail.map(|time| time.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Meter;
    use io_budget::Budget;

    /// Moves a megabyte each time it is asked, and ends after so many.
    struct Steps {
        left: u64,
        moved: Moved,
        stopped: bool,
    }

    impl Load for Steps {
        fn has_ended(&mut self) -> bool {
            self.left = self.left.saturating_sub(1);
            self.left == 0
        }

        fn bytes(&mut self) -> Moved {
            self.moved.read += 1_000_000;
            self.moved
        }

        fn stop(&mut self) {
            self.stopped = true;
        }
    }

    fn run(load: &mut dyn Load, meter: &Meter, limits: Limits) -> Seen {
        let (system, directory) = (System::default(), std::env::temp_dir());
        let storage = Budget::private().storage(&directory);
        let kernel = Kernel { system: &system, storage: &storage };
        let eyes = Eyes { reads: meter, source: Source::OwnTiming, kernel };
        watch(load, &eyes, limits, &Interrupt::default())
    }

    /// A kernel whose NFS client answers 4 reads of 40 ms each time that bytes are asked for.
    struct Nfs {
        proc: tempfile::TempDir,
        reads: u64,
    }

    impl Nfs {
        fn new() -> Self {
            let nfs = Self { proc: tempfile::tempdir().unwrap(), reads: 0 };
            std::fs::create_dir(nfs.proc.path().join("self")).unwrap();
            nfs.write(
                "mountinfo",
                "50 22 0:60 / /mnt/nas rw shared:1 - nfs4 nas:/export rw,rsize=1048576\n",
            );
            nfs.count();
            nfs
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.proc.path().join("self").join(name), text).unwrap();
        }

        fn count(&self) {
            let (reads, rtt_ms) = (self.reads, self.reads * 40);
            self.write(
                "mountstats",
                &format!(
                    "device nas:/export mounted on /mnt/nas with fstype nfs4 statvers=1.1\n\
                     \tbytes:\t0 0 0 0 0 0 0 0\n\
                     \t        READ: {reads} {sent} 0 0 {bytes} 5 {rtt_ms} {rtt_ms} 0\n\
                     \t       WRITE: 0 0 0 0 0 0 0 0 0\n",
                    sent = reads + 3 * reads / 20,
                    bytes = reads << 20,
                ),
            );
        }
    }

    impl Load for Nfs {
        fn has_ended(&mut self) -> bool {
            false
        }

        fn bytes(&mut self) -> Moved {
            self.reads += 4;
            self.count();
            Moved { read: self.reads << 20, written: 0 }
        }

        fn stop(&mut self) {}
    }

    #[test]
    fn on_nfs_round_trips_are_the_clients_own() {
        let mut nfs = Nfs::new();
        let system = System::new(nfs.proc.path().to_owned(), "/nowhere".into());
        let storage = system.storage(50, 0x6969, (0, 60));
        let kernel = Kernel { system: &system, storage: &storage };
        let meter = Meter::new();
        let eyes = Eyes { reads: &meter, source: Source::ProbeReads, kernel };
        let ceiling = Duration::from_millis(30);
        let limits = Limits { cap: Duration::from_mins(1), ceiling };
        let seen = watch(&mut nfs, &eyes, limits, &Interrupt::default());
        // No read of this program's own was needed to see it.
        let Some(Outcome::Killed { rtt_ms }) = seen.outcome else { panic!("{:?}", seen.outcome) };
        assert!((rtt_ms - 40.0).abs() < 1e-6, "{rtt_ms}");
        let latency = seen.measured.latency.unwrap();
        assert_eq!((latency.source, latency.p50_ms), (Source::Mountstats, None));
        assert!((5.0..7.0).contains(&seen.measured.seconds), "{}", seen.measured.seconds);
        let kernel = seen.measured.kernel_in_flight.unwrap();
        assert_eq!(kernel.source, Source::Mountstats);
        // 4 reads of 40 ms about every 10 ms.
        assert!((4.0..=16.5).contains(&kernel.mean.unwrap()), "{kernel:?}");
        assert!(seen.measured.retransmissions.unwrap() > 200);
        assert_eq!(seen.measured.series.len(), seen.measured.kernel_series.len());
    }

    fn limits(cap_ms: u64) -> Limits {
        Limits { cap: Duration::from_millis(cap_ms), ceiling: Duration::from_millis(100) }
    }

    #[test]
    fn a_run_that_ends_by_itself_is_complete() {
        let mut steps = Steps { left: 25, moved: Moved::default(), stopped: false };
        let seen = run(&mut steps, &Meter::new(), limits(60_000));
        assert_eq!(seen.outcome, Some(Outcome::Complete));
        assert!(seen.measured.read_bytes >= 5_000_000);
        assert!(seen.measured.seconds >= 0.2, "{:?}", seen.measured);
        assert_eq!(seen.measured.series.len(), 1, "a part of a second");
    }

    #[test]
    fn a_run_is_ended_after_its_time() {
        let mut steps = Steps { left: u64::MAX, moved: Moved::default(), stopped: false };
        let seen = run(&mut steps, &Meter::new(), limits(300));
        assert_eq!(seen.outcome, Some(Outcome::Capped));
        assert!(steps.stopped);
        assert!((0.3..5.0).contains(&seen.measured.seconds), "{:?}", seen.measured);
    }

    #[test]
    fn edges_are_a_hundredth_of_the_bytes() {
        let at = Duration::from_secs;
        let progress =
            [(at(0), 0), (at(1), 9), (at(2), 10), (at(5), 989), (at(7), 991), (at(9), 1_000)];
        assert_eq!(edges(&progress), (Some(2.0), Some(2.0)));
        assert_eq!(edges(&[(at(0), 0), (at(3), 0)]), (None, None));
        assert_eq!(edges(&[(at(0), 0), (at(3), 5)]), (Some(3.0), Some(0.0)));
    }
}
