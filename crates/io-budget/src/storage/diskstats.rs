//! Reads a block device's counters in sysfs. Which device is below a directory is told by `disk`.

use std::path::Path;
use std::time::Duration;

use super::load::{Delta, Operation};

/// Bytes of a sector as the counters have it, whatever the device's own are.
const SECTOR: u64 = 512;

/// The counters of one block device: `Documentation/block/stat.rst` of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    reads: Operation,
    writes: Operation,
}

impl Reading {
    /// The counters of the device of this major and minor number, where there are any.
    pub(super) fn of_disk(sys: &Path, (major, minor): (u32, u32)) -> Option<Self> {
        let path = sys.join(format!("dev/block/{major}:{minor}/stat"));
        Self::parse(&std::fs::read_to_string(path).ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let numbers: Vec<u64> =
            stat.split_ascii_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [reads, _, read_sectors, read_ms, writes, _, write_sectors, write_ms, ..] = numbers[..]
        else {
            return None;
        };
        let operation = |operations, sectors: u64, rtt_ms| Operation {
            operations,
            transmissions: operations,
            bytes: sectors.saturating_mul(SECTOR),
            queued_ms: 0,
            rtt_ms,
        };
        Some(Self {
            reads: operation(reads, read_sectors, read_ms),
            writes: operation(writes, write_sectors, write_ms),
        })
    }

    /// As [`super::Reading::since`].
    pub(super) fn since(&self, earlier: &Self, elapsed: Duration) -> Option<Delta> {
        if elapsed.is_zero() {
            return None;
        }
        Some(Delta {
            reads: self.reads.minus(earlier.reads)?.traffic(elapsed),
            writes: self.writes.minus(earlier.writes)?.traffic(elapsed),
            cached_share: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readings_tell_what_was_in_flight() {
        let before = Reading::parse("  100 7 800 50 20 0 160 40 0 60 90 0 0 0 0 1 2\n").unwrap();
        let after = Reading::parse("  300 7 410400 1650 20 0 160 40 3 900 1700").unwrap();
        let delta = after.since(&before, Duration::from_millis(800)).unwrap();
        assert!((delta.reads.in_flight - 2.0).abs() < 1e-9, "{delta:?}");
        let mean = delta.reads.mean.unwrap();
        assert_eq!((mean.rtt, mean.bytes), (Duration::from_millis(8), 2_048 * SECTOR));
        assert_eq!((delta.reads.operations, delta.reads.retransmissions), (200, 0));
        assert_eq!((delta.writes.operations, delta.writes.mean), (0, None));
        assert_eq!(before.since(&after, Duration::from_secs(1)), None, "counters went back");
        assert_eq!(after.since(&before, Duration::ZERO), None);
    }

    #[test]
    fn other_forms_are_no_reading() {
        for stat in ["", "1 2 3 4 5 6 7", "1 2 3 4 5 6 7 x", "-1 2 3 4 5 6 7 8"] {
            assert_eq!(Reading::parse(stat), None, "{stat:?}");
        }
    }
}
