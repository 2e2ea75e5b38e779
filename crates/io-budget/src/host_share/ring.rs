//! The requests that each process finished, in a file of its own that the leader reads.
//!
//! A ring file holds the last [`RING_RECORDS`] requests, each in a block at the place of its number.
//! Its process keeps it locked, so a ring that can be locked belongs to a dead process. What the
//! requests tell about the storage is not judged here.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::block::{self, BLOCK_BYTES};
use super::directory::HostDirectory;
use super::{lock_file, now_ns};

/// Requests that a ring remembers.
const RING_RECORDS: usize = 512;

/// How long the reader remembers answered requests, to count those that were in flight beside ones
/// that are answered later.
const RECENT_NS: u64 = 1_000_000_000;

/// A finished request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    /// When it was answered, on the clock of [`now_ns`].
    pub(crate) at_ns: u64,
    /// How long the storage took, in microseconds.
    pub(crate) rtt_us: u32,
    /// Bytes read or written.
    pub(crate) bytes: u64,
    /// Requests in flight when this one was sent, itself included: those of its process when it is
    /// written, those of all processes when it is collected.
    pub(crate) in_flight: u32,
    /// Whether its process knows that no other request was in flight beside it.
    pub(crate) alone: bool,
}

impl Record {
    fn to_words(self, number: u64) -> [u64; 6] {
        let counts = u64::from(self.rtt_us) << 32 | u64::from(self.in_flight);
        [number, self.at_ns, self.bytes, counts, u64::from(self.alone), 0]
    }

    /// The number and the record; none if no request has these words.
    fn from_words([number, at_ns, bytes, counts, alone, rest]: [u64; 6]) -> Option<(u64, Self)> {
        let alone = match (alone, rest) {
            (0, 0) => false,
            (1, 0) => true,
            _ => return None,
        };
        let [rtt_us, in_flight] = halves(counts);
        Some((number, Self { at_ns, rtt_us, bytes, in_flight, alone }))
    }

    fn sent_ns(&self) -> u64 {
        self.at_ns.saturating_sub(u64::from(self.rtt_us) * 1_000)
    }
}

/// The upper and the lower half of a word.
pub(super) fn halves(word: u64) -> [u32; 2] {
    [word >> 32, word & u64::from(u32::MAX)].map(|half| u32::try_from(half).unwrap_or(u32::MAX))
}

/// The ring of this process, removed when dropped.
#[derive(Debug)]
pub(super) struct Ring {
    directory: HostDirectory,
    name: String,
    file: File,
    written: AtomicU64,
}

impl Ring {
    /// Makes a ring that no other process has.
    pub(super) fn create(directory: &HostDirectory, lane: &str) -> io::Result<Self> {
        loop {
            let name = format!("{}{}.{}", prefix(lane), std::process::id(), now_ns());
            let file = match directory.create_file(&name) {
                // A process of the same number in another name space was at it in this nanosecond.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created?,
            };
            lock_file(&file)?;
            // A reader that saw the file before it was locked took it for a dead one's.
            if rustix::fs::fstat(&file)?.st_nlink > 0 {
                let written = AtomicU64::new(0);
                return Ok(Self { directory: directory.clone(), name, file, written });
            }
        }
    }

    /// Writes a record over the oldest one.
    pub(super) fn record(&self, record: Record) {
        let number = self.written.fetch_add(1, Relaxed);
        let place = number % RING_RECORDS as u64 * BLOCK_BYTES as u64;
        // A measurement that is lost does no harm.
        self.file.write_all_at(&block::seal(record.to_words(number)), place).ok();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // What is left is removed by the next reader.
        self.directory.remove_file(&self.name).ok();
    }
}

/// Reads the rings of all processes.
#[derive(Debug)]
pub(super) struct Collector {
    directory: HostDirectory,
    prefix: String,
    sources: HashMap<String, Source>,
    recent: Vec<Interval>,
}

/// A ring as its reader knows it.
#[derive(Debug)]
struct Source {
    file: File,
    /// By place, the least number that was not read yet: threads may write out of order.
    unread: Vec<u64>,
}

/// The time in which a request was in flight, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Interval {
    sent: u64,
    answered: u64,
}

impl Collector {
    /// A reader that has read nothing yet.
    pub(super) fn new(directory: &HostDirectory, lane: &str) -> Self {
        Self {
            directory: directory.clone(),
            prefix: prefix(lane),
            sources: HashMap::new(),
            recent: Vec::new(),
        }
    }

    /// The records of living processes that were not read yet, in order of time; removes the rings
    /// of the dead.
    pub(super) fn collect(&mut self) -> Vec<Record> {
        // Without a listing the rings that are known are read all the same.
        if let Ok(names) = self.directory.names() {
            self.follow(names.into_iter().filter(|name| name.starts_with(&self.prefix)).collect());
        }
        let mut records = Vec::new();
        let directory = &self.directory;
        self.sources.retain(|name, source| match source.file.try_lock() {
            Ok(()) => {
                directory.remove_file(name).ok();
                false
            }
            Err(TryLockError::WouldBlock) => {
                source.read(&mut records);
                true
            }
            Err(TryLockError::Error(_)) => false,
        });
        let now = now_ns();
        // Times to come were written by another clock.
        records.retain(|record| record.at_ns <= now);
        records.sort_by_key(|record| record.at_ns);
        self.recent.retain(|interval| interval.answered.saturating_add(RECENT_NS) > now);
        self.recent.extend(
            records
                .iter()
                .map(|record| Interval { sent: record.sent_ns(), answered: record.at_ns }),
        );
        count_in_flight(&mut records, &self.recent);
        records
    }

    /// Opens the rings that are new and forgets those that are gone.
    fn follow(&mut self, names: BTreeSet<String>) {
        self.sources.retain(|name, _| names.contains(name));
        for name in names {
            if self.sources.contains_key(&name) {
                continue;
            }
            // It may be gone again, or be none of ours.
            if let Ok(file) = self.directory.open_existing(&name) {
                self.sources.insert(name, Source { file, unread: vec![0; RING_RECORDS] });
            }
        }
    }
}

impl Source {
    fn read(&mut self, records: &mut Vec<Record>) {
        let mut bytes = vec![0; RING_RECORDS * BLOCK_BYTES];
        let Ok(length) = self.file.read_at(&mut bytes, 0) else { return };
        let blocks = bytes[..length].as_chunks::<BLOCK_BYTES>().0;
        for (place, (block, unread)) in blocks.iter().zip(&mut self.unread).enumerate() {
            let Some((number, record)) = block::open(block).and_then(Record::from_words) else {
                continue;
            };
            if number >= *unread && number % RING_RECORDS as u64 == place as u64 {
                *unread = number.saturating_add(1);
                records.push(record);
            }
        }
    }
}

/// Raises each record's count to the requests of all processes that were in flight when it was
/// sent. The count of its own process stands where that is higher, as some may not be answered yet.
///
/// The sum of what each process said last would count those that compute at the moment.
fn count_in_flight(records: &mut [Record], intervals: &[Interval]) {
    let sorted = |time: fn(&Interval) -> u64| {
        let mut times: Vec<u64> = intervals.iter().map(time).collect();
        times.sort_unstable();
        times
    };
    let (sent, answered) = (sorted(|interval| interval.sent), sorted(|interval| interval.answered));
    for record in records {
        let before = |times: &[u64]| times.partition_point(|time| *time <= record.sent_ns());
        let in_flight = before(&sent).saturating_sub(before(&answered));
        record.in_flight = record.in_flight.max(u32::try_from(in_flight).unwrap_or(u32::MAX));
    }
}

fn prefix(lane: &str) -> String {
    format!("{lane}.ring.")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Child, Meeting};
    use super::*;
    use proptest::prelude::*;

    fn request(number: u64) -> Record {
        Record { at_ns: 1_000_000 + number, rtt_us: 0, bytes: number, in_flight: 1, alone: false }
    }

    fn numbers(records: &[Record]) -> Vec<u64> {
        records.iter().map(|record| record.bytes).collect()
    }

    fn rings(directory: &HostDirectory) -> usize {
        let names = directory.names().expect("names");
        names.iter().filter(|name| name.starts_with("reads.ring.")).count()
    }

    #[test]
    fn records_of_all_rings_of_a_lane_come_once_in_order_of_time() {
        let meeting = Meeting::new();
        let (first, second, other) =
            (meeting.ring("reads"), meeting.ring("reads"), meeting.ring("writes"));
        let mut collector = Collector::new(&meeting.directory, "reads");
        assert_eq!(collector.collect(), []);
        for number in 0..10 {
            let ring = if number % 3 == 0 { &first } else { &second };
            ring.record(request(number));
            other.record(request(100 + number));
        }
        assert_eq!(numbers(&collector.collect()), (0..10).collect::<Vec<_>>());
        assert_eq!(collector.collect(), []);
        let alone = Record { at_ns: 5_000_000, rtt_us: 4_000, bytes: 7, in_flight: 1, alone: true };
        second.record(alone);
        assert_eq!(collector.collect(), [alone]);
        drop((first, second));
        assert_eq!(rings(&meeting.directory), 0);
    }

    #[test]
    fn threads_may_record_at_once() {
        let meeting = Meeting::new();
        let ring = meeting.ring("reads");
        let mut collector = Collector::new(&meeting.directory, "reads");
        let mut seen = Vec::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let ring = &ring;
                    scope.spawn(move || {
                        (0..100).for_each(|number| ring.record(request(thread * 100 + number)));
                    })
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                seen.extend(numbers(&collector.collect()));
            }
        });
        seen.extend(numbers(&collector.collect()));
        seen.sort_unstable();
        assert_eq!(seen, (0..400).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_record_is_passed_over() {
        let meeting = Meeting::new();
        let ring = meeting.ring("reads");
        let mut collector = Collector::new(&meeting.directory, "reads");
        (0..3).for_each(|number| ring.record(request(number)));
        ring.file.write_all_at(&[7; 8], BLOCK_BYTES as u64 + 16).expect("torn");
        let misplaced = block::seal(request(9).to_words(9));
        ring.file.write_all_at(&misplaced, 20 * BLOCK_BYTES as u64).expect("misplaced");
        let to_come = Record { at_ns: u64::MAX, ..request(3) };
        ring.record(to_come);
        assert_eq!(numbers(&collector.collect()), [0, 2]);
    }

    #[test]
    fn requests_of_other_processes_are_counted_while_they_are_in_flight() {
        let meeting = Meeting::new();
        let (first, second) = (meeting.ring("reads"), meeting.ring("reads"));
        let mut collector = Collector::new(&meeting.directory, "reads");
        let millisecond = 1_000_000;
        let start = now_ns().saturating_sub(100 * millisecond);
        let send = |ring: &Ring, sent_ms: u64, rtt_ms: u32, in_flight: u32| {
            let at_ns = start + (sent_ms + u64::from(rtt_ms)) * millisecond;
            let (rtt_us, bytes) = (rtt_ms * 1_000, sent_ms);
            ring.record(Record { at_ns, rtt_us, bytes, in_flight, alone: false });
        };
        send(&first, 0, 10, 1);
        send(&second, 5, 10, 1);
        send(&first, 10, 2, 1);
        send(&second, 20, 1, 1);
        send(&first, 30, 1, 3);
        let counts = |records: Vec<Record>| -> Vec<(u64, u32)> {
            records.iter().map(|record| (record.bytes, record.in_flight)).collect()
        };
        // The one sent at 10 ms meets the one of the other process, but not its forerunner.
        assert_eq!(counts(collector.collect()), [(0, 1), (10, 2), (5, 2), (20, 1), (30, 3)]);
        // One that takes long still meets what was collected before.
        send(&second, 6, 60, 1);
        assert_eq!(counts(collector.collect()), [(6, 3)]);
    }

    #[test]
    fn the_ring_of_a_killed_process_is_removed() {
        let meeting = Meeting::new();
        let mut child = Child::start(module_path!(), "child_that_records", &meeting);
        child.expect_line("recorded");
        let mut collector = Collector::new(&meeting.directory, "reads");
        assert_eq!(numbers(&collector.collect()), [1, 2]);
        assert_eq!(rings(&meeting.directory), 1);
        child.kill();
        assert_eq!(collector.collect(), []);
        assert_eq!(rings(&meeting.directory), 0);
        // A reader that never knew it alive removes it as well.
        meeting.directory.create_file("reads.ring.1.1").expect("a file");
        assert_eq!(Collector::new(&meeting.directory, "reads").collect(), []);
        assert_eq!(rings(&meeting.directory), 0);
    }

    #[test]
    #[ignore = "part of another test, which runs it in a process of its own"]
    fn child_that_records() {
        let Some(meeting) = Meeting::of_child() else { return };
        let ring = meeting.ring("reads");
        ring.record(request(1));
        ring.record(request(2));
        Meeting::say("recorded");
        Meeting::wait_for_parent();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn only_what_was_overwritten_is_lost(batches in prop::collection::vec(0..1_200_u64, 1..5)) {
            let meeting = Meeting::new();
            let ring = meeting.ring("reads");
            let mut collector = Collector::new(&meeting.directory, "reads");
            let mut written = 0;
            for batch in batches {
                let first = written;
                written += batch;
                (first..written).for_each(|number| ring.record(request(number)));
                let kept = first.max(written.saturating_sub(RING_RECORDS as u64));
                let expected: Vec<u64> = (kept..written).collect();
                prop_assert_eq!(numbers(&collector.collect()), expected);
            }
        }

        #[test]
        fn any_words_are_read_without_harm(words: [u64; 6]) {
            if let Some((number, record)) = Record::from_words(words) {
                prop_assert_eq!(record.to_words(number), words);
                let mut records = [record];
                let interval = Interval { sent: record.sent_ns(), answered: record.at_ns };
                count_in_flight(&mut records, &[interval]);
            }
        }
    }
}
