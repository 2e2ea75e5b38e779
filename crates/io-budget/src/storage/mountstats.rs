//! Reads the NFS client's counters of `/proc/self/mountstats` and tells what happened between two
//! readings, for all programs of the host. Looks at no clock.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::load::{Delta, Operation};
use super::mountinfo::{self, Mount};

/// The counters of all file systems that this host has mounted from one NFS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// By device: several mounts of one file system show the same counters.
    file_systems: BTreeMap<(u32, u32), Counters>,
}

/// The cumulative counters of one file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    reads: Operation,
    writes: Operation,
    /// Bytes that programs read through the page cache.
    cached_read_bytes: u64,
    /// Bytes that programs read with `O_DIRECT`.
    direct_read_bytes: u64,
    /// Bytes that the server was asked for.
    server_read_bytes: u64,
}

/// One mount's counters, with what names the mount.
struct Block {
    source: String,
    mount_point: PathBuf,
    counters: Counters,
}

impl Reading {
    /// The counters that `mountstats` shows for the file systems of `server`; `None` where it
    /// shows none. `mounts` tells which mounts are of one file system.
    pub(super) fn of_server(mountstats: &[u8], mounts: &[Mount], server: &str) -> Option<Self> {
        let file_systems: BTreeMap<_, _> = parse(mountstats)
            .into_iter()
            .filter_map(|block| {
                let mount = mounts.iter().find(|mount| {
                    mount.mount_point == block.mount_point && mount.source == block.source
                })?;
                let named = mountinfo::server(&mount.fs_type, &mount.source) == Some(server);
                named.then_some((mount.device(), block.counters))
            })
            .collect();
        (!file_systems.is_empty()).then_some(Self { file_systems })
    }

    /// What happened in the `elapsed` time since an `earlier` reading. `None` where the two cannot
    /// be compared: something was mounted or unmounted, counters went back, or no time passed.
    pub(super) fn since(&self, earlier: &Self, elapsed: Duration) -> Option<Delta> {
        if elapsed.is_zero() || !self.file_systems.keys().eq(earlier.file_systems.keys()) {
            return None;
        }
        let mut total = Counters::default();
        for (now, before) in self.file_systems.values().zip(earlier.file_systems.values()) {
            total = total.plus(now.minus(before)?);
        }
        Some(Delta {
            reads: total.reads.traffic(elapsed),
            writes: total.writes.traffic(elapsed),
            cached_share: total.cached_share(),
        })
    }
}

impl Counters {
    /// Reads the lines after a `device` line.
    fn parse(lines: &[&[u8]]) -> Option<Self> {
        let [cached_read_bytes, _, direct_read_bytes, _, server_read_bytes, ..] =
            numbers(lines, b"bytes:")?[..]
        else {
            return None;
        };
        let read = |name| operation(lines, name, |_sent, received| received);
        // NFS 4.2 may read by an operation that leaves out holes.
        let reads = read(b"READ:")?.plus(read(b"READ_PLUS:").unwrap_or_default());
        Some(Self {
            reads,
            writes: operation(lines, b"WRITE:", |sent, _received| sent)?,
            cached_read_bytes,
            direct_read_bytes,
            server_read_bytes,
        })
    }

    fn plus(self, other: Self) -> Self {
        let sum = u64::saturating_add;
        Self {
            reads: self.reads.plus(other.reads),
            writes: self.writes.plus(other.writes),
            cached_read_bytes: sum(self.cached_read_bytes, other.cached_read_bytes),
            direct_read_bytes: sum(self.direct_read_bytes, other.direct_read_bytes),
            server_read_bytes: sum(self.server_read_bytes, other.server_read_bytes),
        }
    }

    fn minus(&self, earlier: &Self) -> Option<Self> {
        let growth = u64::checked_sub;
        Some(Self {
            reads: self.reads.minus(earlier.reads)?,
            writes: self.writes.minus(earlier.writes)?,
            cached_read_bytes: growth(self.cached_read_bytes, earlier.cached_read_bytes)?,
            direct_read_bytes: growth(self.direct_read_bytes, earlier.direct_read_bytes)?,
            server_read_bytes: growth(self.server_read_bytes, earlier.server_read_bytes)?,
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
    fn cached_share(&self) -> Option<f64> {
        // Direct reads always ask the server; read-ahead may ask for more than was read.
        let asked = self.server_read_bytes.saturating_sub(self.direct_read_bytes);
        let read = self.cached_read_bytes;
        (read > 0).then(|| 1.0 - asked.min(read) as f64 / read as f64)
    }
}

/// Reads `NAME: operations transmissions timeouts sent received queued rtt execute [errors]`:
/// `rpc_iostats` of the kernel's `sunrpc/metrics.h`.
fn operation(lines: &[&[u8]], name: &[u8], payload: fn(u64, u64) -> u64) -> Option<Operation> {
    let [operations, transmissions, _, sent, received, queued_ms, rtt_ms, _, ..] =
        numbers(lines, name)?[..]
    else {
        return None;
    };
    Some(Operation { operations, transmissions, bytes: payload(sent, received), queued_ms, rtt_ms })
}

impl Block {
    fn parse(lines: &[&[u8]]) -> Option<Self> {
        let (device, lines) = lines.split_first()?;
        let fields: Vec<&[u8]> = device.trim_ascii().split(|byte| *byte == b' ').collect();
        match fields[..] {
            [
                b"device",
                source,
                b"mounted",
                b"on",
                mount_point,
                b"with",
                b"fstype",
                b"nfs" | b"nfs4",
                b"statvers=1.1",
            ] => Some(Self {
                source: String::from_utf8_lossy(&mountinfo::unescape(source)).into_owned(),
                mount_point: mountinfo::path(mount_point),
                counters: Counters::parse(lines)?,
            }),
            _ => None,
        }
    }
}

/// The NFS mounts that `mountstats` shows. A block of another form is passed over.
fn parse(mountstats: &[u8]) -> Vec<Block> {
    let begins = |line: &[u8]| line.starts_with(b"device ") || line.starts_with(b"no device ");
    let lines: Vec<&[u8]> = mountstats.split(|byte| *byte == b'\n').collect();
    lines.chunk_by(|_, next| !begins(next)).filter_map(Block::parse).collect()
}

/// The numbers of the line that starts with `name`.
fn numbers(lines: &[&[u8]], name: &[u8]) -> Option<Vec<u64>> {
    let rest = lines.iter().find_map(|line| line.trim_ascii_start().strip_prefix(name))?;
    std::str::from_utf8(rest).ok()?.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::load::Mean;
    use proptest::prelude::*;

    const BEFORE: &[u8] = include_bytes!("fixtures/mountstats-before");
    const AFTER: &[u8] = include_bytes!("fixtures/mountstats-after");
    const MOUNTINFO: &[u8] = include_bytes!("fixtures/mountinfo");
    const SECOND: Duration = Duration::from_secs(1);

    fn reading(mountstats: &[u8], server: &str) -> Option<Reading> {
        Reading::of_server(mountstats, &mountinfo::parse(MOUNTINFO), server)
    }

    #[test]
    fn cumulative_counters_are_read() {
        let blocks = parse(BEFORE);
        let shown: Vec<_> = blocks
            .iter()
            .map(|block| (block.source.as_str(), block.mount_point.as_path()))
            .collect();
        assert_eq!(
            shown,
            [
                ("nas:/export", "/mnt/nas".as_ref()),
                ("nas:/export/gdelt", "/srv/my archive".as_ref()),
                ("nas:/home", "/home".as_ref()),
                ("old.example.org:/vol0", "/mnt/old".as_ref()),
            ]
        );
        let counters = Counters {
            reads: Operation {
                operations: 50_010,
                transmissions: 50_013,
                bytes: 52_436_840_560,
                queued_ms: 10_402,
                rtt_ms: 1_250_250,
            },
            writes: Operation {
                operations: 1_200,
                transmissions: 1_200,
                bytes: 1_258_526_400,
                queued_ms: 9_600,
                rtt_ms: 36_000,
            },
            cached_read_bytes: 60_000_000_000,
            direct_read_bytes: 1_048_576_000,
            server_read_bytes: 52_429_000_000,
        };
        assert_eq!(blocks[0].counters, counters);
    }

    #[test]
    fn mounts_of_one_file_system_are_counted_once() {
        let nas = reading(BEFORE, "nas").expect("counters");
        let devices: Vec<_> = nas.file_systems.keys().copied().collect();
        assert_eq!(devices, [(0, 52), (0, 53)]);
        assert_eq!(reading(BEFORE, "files"), None);
        assert_eq!(Reading::of_server(BEFORE, &[], "nas"), None);
    }

    #[test]
    fn two_readings_tell_what_the_host_asked_for() {
        let before = reading(BEFORE, "nas").expect("counters");
        let after = reading(AFTER, "nas").expect("counters");
        let delta = after.since(&before, SECOND).expect("a delta");
        // 80 reads on /mnt/nas, 20 of them by READ_PLUS, and 20 on /home.
        assert_eq!((delta.reads.operations, delta.reads.retransmissions), (100, 1));
        assert!((delta.reads.in_flight - 2.0).abs() < 1e-9, "{}", delta.reads.in_flight);
        let mean = Mean {
            rtt: Duration::from_millis(20),
            queued: Duration::from_micros(500),
            bytes: 860_013,
        };
        assert_eq!(delta.reads.mean, Some(mean));
        assert_eq!((delta.writes.operations, delta.writes.mean), (0, None));
        assert!(delta.writes.in_flight.abs() < 1e-9);
        let share = delta.cached_share.expect("bytes were read");
        assert!((share - 0.25).abs() < 1e-9, "{share}");
    }

    #[test]
    fn older_kernels_show_no_errors_column() {
        let before = reading(BEFORE, "old.example.org").expect("counters");
        let after = reading(AFTER, "old.example.org").expect("counters");
        let delta = after.since(&before, SECOND * 2).expect("a delta");
        assert_eq!((delta.reads.operations, delta.cached_share), (0, None));
        assert_eq!(delta.writes.operations, 10);
        assert!((delta.writes.in_flight - 0.25).abs() < 1e-9, "{}", delta.writes.in_flight);
        let mean = Mean {
            rtt: Duration::from_millis(50),
            queued: Duration::from_millis(2),
            bytes: 32_944,
        };
        assert_eq!(delta.writes.mean, Some(mean));
    }

    #[test]
    fn readings_that_cannot_be_compared_give_no_delta() {
        let before = reading(BEFORE, "nas").expect("counters");
        let after = reading(AFTER, "nas").expect("counters");
        assert_eq!(before.since(&after, SECOND), None, "counters went back");
        assert_eq!(after.since(&before, Duration::ZERO), None, "no time passed");
        let mut fewer = before;
        fewer.file_systems.pop_last();
        assert_eq!(after.since(&fewer, SECOND), None, "something was mounted");
    }

    #[test]
    fn blocks_of_another_form_are_passed_over() {
        const BYTES: &str = "bytes: 1 2 3 4 5 6 7 8\n";
        const READ: &str = "READ: 1 1 0 1 1 1 1 1 0\n";
        const WRITE: &str = "WRITE: 1 1 0 1 1 1 1 1 0\n";
        let blocks = |rest: String| {
            let text = format!("device nas:/x mounted on /x with fstype nfs4 {rest}");
            parse(text.as_bytes()).len()
        };
        assert_eq!(blocks(format!("statvers=1.1\n{BYTES}{READ}{WRITE}")), 1);
        assert_eq!(blocks(format!("statvers=2.0\n{BYTES}{READ}{WRITE}")), 0);
        assert_eq!(blocks(format!("statvers=1.1\nbytes: 1 2 3 4\n{READ}{WRITE}")), 0);
        assert_eq!(blocks(format!("statvers=1.1\n{READ}{WRITE}")), 0);
        assert_eq!(blocks(format!("statvers=1.1\n{BYTES}{READ}")), 0);
        assert_eq!(blocks(format!("statvers=1.1\n{BYTES}READ: 1 1 0 -1 1 1 1 1 0\n{WRITE}")), 0);
        assert_eq!(parse(b"no device mounted on /x with fstype nfs4\n").len(), 0);
        assert_eq!(parse(b"device tmpfs mounted on /dev/shm with fstype tmpfs\n").len(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, numbers: [u64; 9], later: [u64; 9]) {
            parse(&bytes);
            let block = |numbers: [u64; 9]| {
                let words = numbers.map(|number| number.to_string()).join(" ");
                let text = format!(
                    "device nas:/export mounted on /mnt/nas with fstype nfs4 statvers=1.1\n\
                     bytes: {words}\nREAD: {words}\nREAD_PLUS: {words}\nWRITE: {words}\n"
                );
                reading(text.as_bytes(), "nas").expect("counters")
            };
            let delta = block(later).since(&block(numbers), SECOND);
            if let Some(share) = delta.and_then(|delta| delta.cached_share) {
                prop_assert!((0.0..=1.0).contains(&share));
            }
        }
    }
}
