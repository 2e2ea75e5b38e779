//! What the kernel counts of a storage, whoever asked for it: the difference of two readings tells
//! how many requests were in flight and how long they took. Where the counters stand is told by
//! `mountstats` and `diskstats`. Looks at no clock.

use std::time::Duration;

use super::{diskstats, mountstats};

/// The kernel's counters of a storage at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// The NFS client's, `/proc/self/mountstats`.
    Nfs(mountstats::Reading),
    /// A block device's, `/sys/dev/block/*/stat`.
    Disk(diskstats::Reading),
}

impl Reading {
    /// What happened in the `elapsed` time since an `earlier` reading. `None` where the two cannot
    /// be compared: something was mounted or unmounted, counters went back, or no time passed.
    pub fn since(&self, earlier: &Self, elapsed: Duration) -> Option<Delta> {
        match (self, earlier) {
            (Self::Nfs(now), Self::Nfs(before)) => now.since(before, elapsed),
            (Self::Disk(now), Self::Disk(before)) => now.since(before, elapsed),
            _ => None,
        }
    }
}

/// What this host asked of a storage between two readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Delta {
    /// Reads of data.
    pub reads: Traffic,
    /// Writes of data.
    pub writes: Traffic,
    /// Share of the bytes read through the page cache that the storage was not asked for, from 0
    /// to 1; `None` where nothing was read through it, or it is not counted.
    pub cached_share: Option<f64>,
}

/// One kind of operation between two readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Operations that were answered.
    pub operations: u64,
    /// Requests that were sent again.
    pub retransmissions: u64,
    /// Mean number of requests in flight: by Little's law the round trips' sum over the time.
    pub in_flight: f64,
    /// Means over the operations; `None` where there was none.
    pub mean: Option<Mean>,
}

/// Means over the operations between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mean {
    /// Time from the sending of a request to its answer.
    pub rtt: Duration,
    /// Time that a request waited in the client.
    pub queued: Duration,
    /// Bytes of a reply (reads) or a request (writes), headers included.
    pub bytes: u64,
}

/// The cumulative counters of one kind of operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) operations: u64,
    pub(super) transmissions: u64,
    pub(super) bytes: u64,
    pub(super) queued_ms: u64,
    pub(super) rtt_ms: u64,
}

impl Operation {
    pub(super) fn plus(self, other: Self) -> Self {
        self.with(other, |own, others| Some(own.saturating_add(others))).unwrap_or(self)
    }

    /// `None` where a counter went back.
    pub(super) fn minus(self, earlier: Self) -> Option<Self> {
        self.with(earlier, u64::checked_sub)
    }

    fn with(self, other: Self, combine: fn(u64, u64) -> Option<u64>) -> Option<Self> {
        Some(Self {
            operations: combine(self.operations, other.operations)?,
            transmissions: combine(self.transmissions, other.transmissions)?,
            bytes: combine(self.bytes, other.bytes)?,
            queued_ms: combine(self.queued_ms, other.queued_ms)?,
            rtt_ms: combine(self.rtt_ms, other.rtt_ms)?,
        })
    }

    pub(super) fn traffic(&self, elapsed: Duration) -> Traffic {
        let each = |total: u64| total.checked_div(self.operations);
        let each_ms = |total: u64| each(total.saturating_mul(1_000)).map(Duration::from_micros);
        let mean = || {
            Some(Mean {
                rtt: each_ms(self.rtt_ms)?,
                queued: each_ms(self.queued_ms)?,
                bytes: each(self.bytes)?,
            })
        };
        Traffic {
            operations: self.operations,
            retransmissions: self.transmissions.saturating_sub(self.operations),
            in_flight: Duration::from_millis(self.rtt_ms).div_duration_f64(elapsed),
            mean: mean(),
        }
    }
}
