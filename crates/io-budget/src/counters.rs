//! Counts what was asked of the storage. Decides nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One kind of storage request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A directory listing.
    List,
    /// An open of an existing file.
    Open,
    /// A look at size and time.
    Stat,
    /// A positioned read.
    Read,
    /// A created file or directory.
    Create,
    /// A write.
    Write,
    /// A flush of data or of a directory to the storage.
    Sync,
    /// A rename.
    Rename,
    /// A removal.
    Remove,
    /// The close of a file that was read.
    Close,
    /// The close of a file that was written, which on some storages sends what was written.
    CloseWritten,
}

impl RequestKind {
    pub(crate) fn is_write(self) -> bool {
        !matches!(self, Self::List | Self::Open | Self::Stat | Self::Read | Self::Close)
    }

    /// Whether the time that such a request takes tells how busy the storage is: it moves data.
    pub(crate) fn moves_data(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Sync | Self::CloseWritten)
    }
}

const KINDS: usize = 11;
/// Four buckets an octave from 1 µs to over an hour.
const BUCKETS: usize = 128;

/// The counters of one lane.
#[derive(Debug)]
pub(crate) struct LaneCounters {
    requests: [AtomicU64; KINDS],
    bytes: AtomicU64,
    waited_ns: AtomicU64,
    in_flight_ns: AtomicU64,
    latency: [AtomicU64; BUCKETS],
    latency_max_us: AtomicU64,
    file_reads: AtomicU64,
    range_reads: AtomicU64,
    cache_hits: AtomicU64,
    cache_hit_bytes: AtomicU64,
}

impl LaneCounters {
    pub(crate) fn new() -> Self {
        Self {
            requests: [const { AtomicU64::new(0) }; KINDS],
            bytes: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            in_flight_ns: AtomicU64::new(0),
            latency: [const { AtomicU64::new(0) }; BUCKETS],
            latency_max_us: AtomicU64::new(0),
            file_reads: AtomicU64::new(0),
            range_reads: AtomicU64::new(0),
            cache_hits: AtomicU64::new(0),
            cache_hit_bytes: AtomicU64::new(0),
        }
    }

    /// Counts a read that the page cache answered: no request.
    pub(crate) fn record_hit(&self, bytes: u64) {
        self.cache_hits.fetch_add(1, Relaxed);
        self.cache_hit_bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts a file that is read whole.
    pub(crate) fn record_file_read(&self) {
        self.file_reads.fetch_add(1, Relaxed);
    }

    /// Counts a stretch of a file that is read by itself.
    pub(crate) fn record_range_read(&self) {
        self.range_reads.fetch_add(1, Relaxed);
    }

    /// Adds what another lane counted.
    pub(crate) fn add(&self, other: &Self) {
        let pairs = self.requests.iter().zip(&other.requests);
        let pairs = pairs.chain(self.latency.iter().zip(&other.latency));
        let single = [
            (&self.bytes, &other.bytes),
            (&self.waited_ns, &other.waited_ns),
            (&self.in_flight_ns, &other.in_flight_ns),
            (&self.file_reads, &other.file_reads),
            (&self.range_reads, &other.range_reads),
            (&self.cache_hits, &other.cache_hits),
            (&self.cache_hit_bytes, &other.cache_hit_bytes),
        ];
        for (own, others) in pairs.chain(single) {
            own.fetch_add(others.load(Relaxed), Relaxed);
        }
        self.latency_max_us.fetch_max(other.latency_max_us.load(Relaxed), Relaxed);
    }

    /// Counts one answered request.
    pub(crate) fn record(&self, kind: RequestKind, bytes: u64, waited: Duration, took: Duration) {
        self.requests[kind as usize].fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.waited_ns.fetch_add(nanoseconds(waited), Relaxed);
        self.in_flight_ns.fetch_add(nanoseconds(took), Relaxed);
        let took_us = nanoseconds(took) / 1_000;
        self.latency[bucket(took_us)].fetch_add(1, Relaxed);
        self.latency_max_us.fetch_max(took_us, Relaxed);
    }

    /// What was counted so far, beside the gate's `limit` and `peak`.
    pub(crate) fn report(&self, limit: Option<usize>, peak: usize) -> LaneReport {
        let count = |kind: RequestKind| self.requests[kind as usize].load(Relaxed);
        let buckets: Vec<u64> = self.latency.iter().map(|count| count.load(Relaxed)).collect();
        let quantile = |share: f64| quantile_us(&buckets, share);
        #[expect(clippy::cast_precision_loss, reason = "seconds and milliseconds are for reading")]
        LaneReport {
            limit,
            peak_in_flight: peak,
            requests: self.requests.iter().map(|count| count.load(Relaxed)).sum(),
            list: count(RequestKind::List),
            open: count(RequestKind::Open),
            stat: count(RequestKind::Stat),
            read: count(RequestKind::Read),
            create: count(RequestKind::Create),
            write: count(RequestKind::Write),
            sync: count(RequestKind::Sync),
            rename: count(RequestKind::Rename),
            remove: count(RequestKind::Remove),
            close: count(RequestKind::Close) + count(RequestKind::CloseWritten),
            file_reads: self.file_reads.load(Relaxed),
            range_reads: self.range_reads.load(Relaxed),
            cache_hits: self.cache_hits.load(Relaxed),
            cache_hit_bytes: self.cache_hit_bytes.load(Relaxed),
            governor: None,
            bytes: self.bytes.load(Relaxed),
            waited_seconds: self.waited_ns.load(Relaxed) as f64 / 1e9,
            in_flight_seconds: self.in_flight_ns.load(Relaxed) as f64 / 1e9,
            latency: LatencyReport {
                p50_ms: quantile(0.5) as f64 / 1e3,
                p95_ms: quantile(0.95) as f64 / 1e3,
                max_ms: self.latency_max_us.load(Relaxed) as f64 / 1e3,
            },
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The bucket of a latency: its octave, in quarters.
fn bucket(microseconds: u64) -> usize {
    let octave = microseconds.max(1).ilog2() as usize;
    let quarter = if octave < 2 {
        0
    } else {
        usize::try_from((microseconds >> (octave - 2)) & 3).unwrap_or(0)
    };
    (octave * 4 + quarter).min(BUCKETS - 1)
}

/// The lower edge of the bucket in which the given share of the requests is reached.
fn quantile_us(buckets: &[u64], share: f64) -> u64 {
    let total: u64 = buckets.iter().sum();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a request count, rounded up"
    )]
    let rank = (total as f64 * share).ceil() as u64;
    let mut seen = 0;
    for (index, count) in buckets.iter().enumerate() {
        seen += count;
        if seen >= rank && *count > 0 {
            let (octave, quarter) = (index / 4, index as u64 % 4);
            return if octave < 2 { 1 << octave } else { (4 + quarter) << (octave - 2) };
        }
    }
    0
}

/// What one lane asked of the storage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneReport {
    /// The cap on requests in flight at the end; none where there is no cap.
    pub limit: Option<usize>,
    /// The largest number of requests that were in flight at once.
    pub peak_in_flight: usize,
    /// Requests of all kinds.
    pub requests: u64,
    /// Directory listings.
    pub list: u64,
    /// Opens.
    pub open: u64,
    /// Looks at size and time.
    pub stat: u64,
    /// Reads.
    pub read: u64,
    /// Created files and directories.
    pub create: u64,
    /// Writes.
    pub write: u64,
    /// Flushes to the storage.
    pub sync: u64,
    /// Renames.
    pub rename: u64,
    /// Removals.
    pub remove: u64,
    /// Closes.
    pub close: u64,
    /// Files that were read whole.
    pub file_reads: u64,
    /// Stretches of files that were read by themselves, neighbours as one.
    pub range_reads: u64,
    /// Reads that the page cache answered, without a request.
    pub cache_hits: u64,
    /// Bytes of those.
    pub cache_hit_bytes: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// Seconds that requests waited for a permit, summed over threads.
    pub waited_seconds: f64,
    /// Seconds that requests were in flight, summed over them: divided by a time, the mean number in
    /// flight during it.
    pub in_flight_seconds: f64,
    /// How long the storage took to answer.
    pub latency: LatencyReport,
    /// How the limit was adapted; none where it is fixed.
    pub governor: Option<GovernorReport>,
}

/// How a limit was adapted to the storage's latency.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GovernorReport {
    /// Round trip of a request of 1 MiB that is alone, in milliseconds, if it is known.
    pub idle_ms: Option<f64>,
    /// How often the mean round trip of five seconds went above the ceiling.
    pub ceiling_trips: u64,
    /// The limit over time, at most a few hundred points.
    pub trace: Vec<TracePoint>,
}

/// A limit at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TracePoint {
    /// Seconds since the storage was first used.
    pub seconds: f64,
    /// Requests that might be in flight.
    pub limit: usize,
    /// Median round trip as a multiple of the idle one, in the processes that share the budget;
    /// none while another process watches it.
    pub stretch: Option<f64>,
}

/// How long the storage took to answer, in milliseconds; quantiles to within a fifth.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Half of the requests took less.
    pub p50_ms: f64,
    /// Nineteen of twenty requests took less.
    pub p95_ms: f64,
    /// The slowest request.
    pub max_ms: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_rise_by_quarter_octaves() {
        assert_eq!(bucket(0), bucket(1));
        assert_eq!(bucket(4), 8);
        assert_eq!(bucket(5), 9);
        assert_eq!(bucket(7), 11);
        assert_eq!(bucket(8), 12);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_within_a_fifth() {
        let lane = LaneCounters::new();
        for milliseconds in 1..=100 {
            let took = Duration::from_millis(milliseconds);
            lane.record(RequestKind::Read, 10, Duration::from_millis(1), took);
        }
        let report = lane.report(Some(2), 1);
        assert_eq!((report.requests, report.read, report.bytes), (100, 100, 1_000));
        assert!((report.waited_seconds - 0.1).abs() < 1e-9);
        assert!((report.in_flight_seconds - 5.05).abs() < 1e-9);
        assert!((40.0..=50.0).contains(&report.latency.p50_ms), "{:?}", report.latency);
        assert!((76.0..=95.0).contains(&report.latency.p95_ms), "{:?}", report.latency);
        assert!((report.latency.max_ms - 100.0).abs() < 1e-9);
    }
}
