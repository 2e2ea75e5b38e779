//! How long the storage takes for a read while it does nothing else, fitted to reads of several
//! sizes. When to measure that is decided elsewhere.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::median;
use crate::host_share::IdleLatency;

/// Reads are told apart by the nearest of these sizes, in bytes.
const SIZES: [u64; 3] = [64 << 10, 256 << 10, 1 << 20];
/// Probes remembered for each size.
const KEPT: usize = 10;
/// Reads that make a median.
const LEAST_READS: usize = 4;
/// An answer that seems to take less is taken for this long, in seconds.
const LEAST_SECONDS: f64 = 1e-6;
/// What a stored parameter may be, in seconds.
const PLAUSIBLE_SECONDS: RangeInclusive<f64> = 0.0..=3600.0;

/// The idle round trip of a read: a fixed part and a part for each byte, neither negative.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parameters", into = "Parameters")]
pub(crate) struct Idle {
    fixed: f64,
    per_byte: f64,
    sizes: (u64, u64),
}

/// An [`Idle`] as it is written down.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Parameters {
    fixed_seconds: f64,
    seconds_per_byte: f64,
    /// The smallest and the largest size measured; for others the line is a guess.
    least_bytes: u64,
    most_bytes: u64,
}

impl TryFrom<Parameters> for Idle {
    type Error = &'static str;

    fn try_from(parameters: Parameters) -> Result<Self, Self::Error> {
        let Parameters { fixed_seconds: fixed, seconds_per_byte: per_byte, .. } = parameters;
        if PLAUSIBLE_SECONDS.contains(&fixed) && PLAUSIBLE_SECONDS.contains(&per_byte) {
            Ok(Self { fixed, per_byte, sizes: (parameters.least_bytes, parameters.most_bytes) })
        } else {
            Err("an idle round trip lies between zero and an hour")
        }
    }
}

impl From<Idle> for Parameters {
    fn from(Idle { fixed, per_byte, sizes: (least_bytes, most_bytes) }: Idle) -> Self {
        Self { fixed_seconds: fixed, seconds_per_byte: per_byte, least_bytes, most_bytes }
    }
}

impl Idle {
    /// The idle round trip of a read of `bytes`, never zero.
    pub(crate) fn of(&self, bytes: u64) -> Duration {
        Duration::try_from_secs_f64(self.seconds(float(bytes))).unwrap_or(Duration::MAX)
    }

    /// The two parts.
    pub(crate) fn latency(self) -> IdleLatency {
        IdleLatency { seconds: self.fixed, seconds_per_byte: self.per_byte }
    }

    fn seconds(&self, bytes: f64) -> f64 {
        // A read smaller than any that was measured may have to seek like those: it is not taken
        // to be faster.
        let bytes = bytes.max(float(self.sizes.0));
        (self.fixed + self.per_byte * bytes).max(LEAST_SECONDS)
    }

    /// Whether a size was measured, as an index into [`SIZES`].
    fn covers(&self, size: usize) -> bool {
        let (least, most) = self.sizes;
        (nearest_size(least)..=nearest_size(most)).contains(&size)
    }

    /// The least-squares line through `points`, kept from falling and from starting below zero.
    /// Sizes within a factor of two say nothing of the slope; a flat line is then the safe guess:
    /// too high for small reads by a little, and too low for large ones, which only slows them.
    fn fit(points: &[Point]) -> Option<Self> {
        let least = points.iter().min_by(|a, b| a.bytes.total_cmp(&b.bytes))?;
        let most = points.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes))?;
        let fastest = points.iter().map(|point| point.seconds).fold(f64::INFINITY, f64::min);
        let sum = |term: fn(&Point) -> f64| points.iter().map(term).sum::<f64>();
        let (bytes, seconds) = (sum(|p| p.bytes), sum(|p| p.seconds));
        let (squares, products) = (sum(|p| p.bytes * p.bytes), sum(|p| p.bytes * p.seconds));
        let count = sum(|_| 1.0);
        let slope = (count * products - bytes * seconds) / (count * squares - bytes * bytes);
        let fixed = (seconds - slope * bytes) / count;
        let (fixed, per_byte) = if most.bytes < 2.0 * least.bytes || slope <= 0.0 {
            (fastest, 0.0)
        } else if fixed < 0.0 {
            (0.0, products / squares)
        } else {
            (fixed, slope)
        };
        Some(Self { fixed, per_byte, sizes: (least.whole_bytes(), most.whole_bytes()) })
    }
}

/// Seconds that reads of some size took.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    bytes: f64,
    seconds: f64,
}

impl Point {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of byte counts; the cast saturates"
    )]
    fn whole_bytes(&self) -> u64 {
        self.bytes as u64
    }
}

/// The reads of one probe.
#[derive(Debug, Default)]
pub(super) struct Probe {
    reads: [Vec<Point>; SIZES.len()],
}

impl Probe {
    /// Adds a read that had the storage, as far as we know, to itself.
    pub(super) fn add(&mut self, bytes: u64, rtt: Duration) {
        let seconds = rtt.as_secs_f64().max(LEAST_SECONDS);
        self.reads[nearest_size(bytes)].push(Point { bytes: float(bytes), seconds });
    }

    /// Reads so far.
    pub(super) fn len(&self) -> usize {
        self.reads.iter().map(Vec::len).sum()
    }

    /// Whether the reads of some size suffice for a median.
    pub(super) fn counts(&self) -> bool {
        self.reads.iter().any(|reads| reads.len() >= LEAST_READS)
    }
}

/// The medians of the last probes, and the value of earlier runs.
#[derive(Debug)]
pub(super) struct History {
    stored: Option<Idle>,
    medians: [VecDeque<Point>; SIZES.len()],
}

impl History {
    /// No probes yet.
    pub(super) fn new(stored: Option<Idle>) -> Self {
        Self { stored, medians: Default::default() }
    }

    /// Takes up a probe. The median counts, not the least read: with noisy service that would be
    /// so low that any use of the storage would seem too much.
    pub(super) fn record(&mut self, probe: &Probe) {
        for (medians, reads) in self.medians.iter_mut().zip(&probe.reads) {
            if reads.len() < LEAST_READS {
                continue;
            }
            let bytes =
                reads.iter().map(|read| read.bytes).sum::<f64>() / float(reads.len() as u64);
            let mut seconds: Vec<f64> = reads.iter().map(|read| read.seconds).collect();
            medians.extend(median(&mut seconds).map(|seconds| Point { bytes, seconds }));
            while medians.len() > KEPT {
                medians.pop_front();
            }
        }
    }

    /// The idle round trip, if any is known. For each size the least of its last medians and of
    /// the stored value counts, so that probes beside others' load do not raise it.
    pub(super) fn idle(&self) -> Option<Idle> {
        let points: Vec<Point> = (0..SIZES.len()).filter_map(|size| self.least(size)).collect();
        Idle::fit(&points)
    }

    fn least(&self, size: usize) -> Option<Point> {
        let stored = self.stored.filter(|stored| stored.covers(size));
        let measured =
            self.medians[size].iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds)).copied();
        let bytes = measured.map_or(float(SIZES[size]), |point| point.bytes);
        let stored = stored.map(|stored| Point { bytes, seconds: stored.seconds(bytes) });
        [measured, stored].into_iter().flatten().min_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }
}

/// The index of the nearest of [`SIZES`].
fn nearest_size(bytes: u64) -> usize {
    let distance = |size: &usize| SIZES[*size].abs_diff(bytes);
    (0..SIZES.len()).min_by_key(distance).unwrap_or(0)
}

#[expect(clippy::cast_precision_loss, reason = "sizes of requests are far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIB: u64 = 1 << 10;

    fn probe(reads: &[(u64, u64)]) -> Probe {
        let mut probe = Probe::default();
        for (bytes, micros) in reads {
            probe.add(*bytes, Duration::from_micros(*micros));
        }
        probe
    }

    fn after(stored: Option<Idle>, probes: &[&[(u64, u64)]]) -> Option<Idle> {
        let mut history = History::new(stored);
        for reads in probes {
            history.record(&probe(reads));
        }
        history.idle()
    }

    fn milliseconds(idle: Option<Idle>, kib: u64) -> f64 {
        idle.map_or(0.0, |idle| idle.of(kib * KIB).as_secs_f64() * 1e3)
    }

    #[test]
    fn two_sizes_give_a_line_and_one_size_a_constant() {
        let small: &[_] = &[(64 * KIB, 12_000); 4];
        let large: &[_] = &[(1024 * KIB, 27_000); 4];
        let idle = after(None, &[small]);
        assert!((milliseconds(idle, 1024) - 12.0).abs() < 1e-3, "{idle:?}");
        let idle = after(None, &[small, large]);
        for (kib, expected) in [(4, 12.0), (64, 12.0), (512, 19.0), (1024, 27.0), (2048, 43.0)] {
            assert!((milliseconds(idle, kib) - expected).abs() < 1e-3, "{kib} {idle:?}");
        }
    }

    #[test]
    fn the_median_of_a_probe_and_the_least_of_the_probes_count() {
        let read = |micros| (1024 * KIB, micros);
        let noisy = [read(1_000), read(20_000), read(21_000), read(22_000), read(900_000)];
        let loaded = [read(60_000); 5];
        let idle = after(None, &[&loaded, &noisy, &loaded]);
        assert!((milliseconds(idle, 1024) - 21.0).abs() < 1e-3, "{idle:?}");
        let forgotten: Vec<&[_]> =
            std::iter::once(&noisy).chain([&loaded; KEPT]).map(|p| &p[..]).collect();
        assert!((milliseconds(after(None, &forgotten), 1024) - 60.0).abs() < 1e-3);
    }

    #[test]
    fn three_reads_of_a_size_do_not_count() {
        let reads = [(64 * KIB, 9_000), (64 * KIB, 9_000), (64 * KIB, 9_000)];
        assert!(!probe(&reads).counts());
        assert_eq!(after(None, &[&reads]), None);
    }

    #[test]
    fn a_stored_value_counts_for_the_sizes_it_was_measured_at() {
        let small = after(None, &[&[(64 * KIB, 12_000); 4]]);
        let idle = after(small, &[&[(64 * KIB, 30_000); 4], &[(1024 * KIB, 27_000); 4]]);
        assert!((milliseconds(idle, 64) - 12.0).abs() < 1e-3, "{idle:?}");
        assert!((milliseconds(idle, 1024) - 27.0).abs() < 1e-3, "{idle:?}");
        let idle = after(idle, &[&[(1024 * KIB, 90_000); 4]]);
        assert!((milliseconds(idle, 1024) - 27.0).abs() < 1e-3, "{idle:?}");
    }

    #[test]
    fn sizes_that_contradict_each_other_give_no_negative_part() {
        let faster_when_large: &[&[_]] = &[&[(64 * KIB, 20_000); 4], &[(1024 * KIB, 10_000); 4]];
        let idle = after(None, faster_when_large);
        assert!((milliseconds(idle, 64) - 10.0).abs() < 1e-3, "{idle:?}");
        let nothing_fixed: &[&[_]] = &[&[(64 * KIB, 100); 4], &[(1024 * KIB, 10_000); 4]];
        let idle = after(None, nothing_fixed);
        assert!((milliseconds(idle, 1024) - 10.0).abs() < 0.1, "{idle:?}");
        assert!(milliseconds(idle, 0) > 0.0, "{idle:?}");
    }

    #[test]
    fn a_stored_value_is_read_back_and_a_negative_one_refused() {
        let idle = after(None, &[&[(64 * KIB, 12_000); 4]]).unwrap();
        let written = Parameters::from(idle);
        assert_eq!(Idle::try_from(written), Ok(idle));
        for fixed_seconds in [-0.012, f64::NAN, f64::INFINITY] {
            Idle::try_from(Parameters { fixed_seconds, ..written }).unwrap_err();
        }
    }

    proptest! {
        #[test]
        fn any_reads_give_a_line_that_rises_from_above_zero(
            reads in prop::collection::vec((any::<u64>(), any::<u64>()), 0..40),
            stored in prop::option::of((0.0..3600.0, 0.0..3600.0, any::<(u64, u64)>())),
        ) {
            let stored = stored.map(|(fixed, per_byte, sizes)| Idle { fixed, per_byte, sizes });
            if let Some(idle) = after(stored, &[&reads]) {
                prop_assert!(idle.fixed >= 0.0 && idle.per_byte >= 0.0, "{idle:?}");
                prop_assert!(idle.of(0) > Duration::ZERO);
                prop_assert!(idle.of(0) <= idle.of(u64::MAX));
            }
        }
    }
}
