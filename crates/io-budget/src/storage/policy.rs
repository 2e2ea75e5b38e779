//! What each class of storage permits: a table of numbers. Enforces and measures nothing.

use std::num::NonZeroUsize;

use super::{Storage, StorageClass};

/// How the files of a storage may be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Requests that read, list, open or look.
    pub reads: LanePolicy,
    /// Requests that change something.
    pub writes: LanePolicy,
    /// The largest read request, in bytes.
    pub request_bytes: usize,
    /// The largest write request, in bytes.
    pub write_bytes: usize,
    /// Written bytes of a file after which it is synced.
    pub dirty_bytes: u64,
    /// Files up to this size, in bytes, are read whole.
    pub whole_bytes: u64,
    /// Ranges this far apart, in bytes, are read as one: a request more costs as much time.
    pub merge_gap_bytes: u64,
    /// Files that are written at once: one after another on a disk, two on a network, where one's
    /// name is made or moved while the bytes of the next are on their way, many in a bucket.
    pub writers: NonZeroUsize,
}

/// How many requests of a lane may be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LanePolicy {
    /// The limit where nothing is measured.
    pub cap: NonZeroUsize,
    /// The range within which the limit may follow the latency; `None` where it stays.
    pub auto: Option<AutoRange>,
}

/// The range within which a limit may follow the latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoRange {
    /// The least limit.
    pub least: NonZeroUsize,
    /// The greatest limit.
    pub most: NonZeroUsize,
    /// The first limit.
    pub start: NonZeroUsize,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// No request is split into pieces of less than a page.
const LEAST_REQUEST: u64 = 4 * KIB;
/// A request in service is not preempted, so that a larger one makes others wait longer than it
/// gains; also what a network file system's `rsize` and `wsize` usually are.
const GREATEST_REQUEST: u64 = MIB;
/// A bucket answers a request for a whole object in one stream.
const OBJECT_REQUEST: u64 = 64 * MIB;
/// Dirty pages that a local disk takes in without a stall.
const LOCAL_DIRTY: u64 = 8 * MIB;

impl Policy {
    /// The policy for a storage, where a process may use `cpus` processors.
    pub fn of(storage: &Storage, cpus: NonZeroUsize) -> Self {
        let class = storage.class;
        let (reads, writes) = lanes(class, cpus);
        let (whole_bytes, merge_gap_bytes) = match class {
            StorageClass::Tmpfs => (u64::MAX, 0),
            StorageClass::Ssd => (64 * MIB, 128 * KIB),
            StorageClass::ObjectStore => (64 * MIB, MIB),
            StorageClass::Hdd
            | StorageClass::Nfs
            | StorageClass::Smb
            | StorageClass::Fuse
            | StorageClass::Parallel
            | StorageClass::Unknown => (32 * MIB, MIB),
        };
        let (read_unit, write_unit) = if class.is_network() {
            let stated = |bytes: Option<u64>| bytes.unwrap_or(GREATEST_REQUEST).max(LEAST_REQUEST);
            (stated(storage.request_bytes), stated(storage.write_bytes))
        } else {
            (GREATEST_REQUEST, GREATEST_REQUEST)
        };
        let request_bytes = match class {
            StorageClass::ObjectStore => OBJECT_REQUEST,
            _ => read_unit.min(GREATEST_REQUEST),
        };
        let dirty_bytes = match class {
            // A sync in the middle of a file may send the object before it is whole.
            StorageClass::ObjectStore => u64::MAX,
            // FUSE sends what is written at once, or keeps the dirt of a mount small itself.
            // What is unknown is mostly a container's file system on a local disk.
            StorageClass::Fuse | StorageClass::Unknown => LOCAL_DIRTY,
            // A flush leaves as so many requests at once. As many files may be dirty as there may
            // be writes in flight.
            _ if class.is_network() => write_unit,
            _ => LOCAL_DIRTY,
        };
        Self {
            reads,
            writes,
            request_bytes: usize_of(request_bytes),
            write_bytes: usize_of(write_unit.min(GREATEST_REQUEST)),
            dirty_bytes,
            whole_bytes,
            merge_gap_bytes,
            writers: match class {
                StorageClass::Tmpfs | StorageClass::Ssd | StorageClass::Hdd => NonZeroUsize::MIN,
                _ => writes.cap,
            },
        }
    }
}

/// The limits on reads and on writes.
fn lanes(class: StorageClass, cpus: NonZeroUsize) -> (LanePolicy, LanePolicy) {
    match class {
        StorageClass::Tmpfs => (fixed(cpus), fixed(cpus)),
        StorageClass::Ssd => {
            let twice = cpus.saturating_add(cpus.get());
            (fixed(twice.min(count(32))), fixed(count(2)))
        }
        StorageClass::Hdd => (auto(2, 4, 2), fixed(count(1))),
        StorageClass::Nfs => (auto(2, 4, 2), fixed(count(2))),
        StorageClass::Smb => (auto(2, 8, 2), fixed(count(2))),
        StorageClass::ObjectStore => (auto(16, 64, 16), fixed(count(16))),
        StorageClass::Fuse | StorageClass::Parallel => (auto(4, 16, 2), fixed(count(2))),
        StorageClass::Unknown => (auto(4, 8, 2), fixed(count(2))),
    }
}

fn fixed(cap: NonZeroUsize) -> LanePolicy {
    LanePolicy { cap, auto: None }
}

fn auto(cap: usize, most: usize, start: usize) -> LanePolicy {
    let range = AutoRange { least: NonZeroUsize::MIN, most: count(most), start: count(start) };
    LanePolicy { cap: count(cap), auto: Some(range) }
}

/// `number`, or one in place of zero.
fn count(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN)
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;

    fn storage(class: StorageClass, request: Option<u64>, write: Option<u64>) -> Storage {
        Storage {
            class,
            fs_type: String::from("any"),
            source: String::from("any"),
            mount_point: PathBuf::from("/"),
            mount_options: String::new(),
            key: String::from("any"),
            request_bytes: request,
            write_bytes: write,
            disk: None,
            why: String::from("any"),
        }
    }

    fn policy(class: StorageClass) -> Policy {
        Policy::of(&storage(class, None, None), count(8))
    }

    /// Cap, and least, most and start of the range.
    type Lane = (usize, Option<(usize, usize, usize)>);

    fn lane(policy: LanePolicy) -> Lane {
        let range = |range: AutoRange| (range.least.get(), range.most.get(), range.start.get());
        (policy.cap.get(), policy.auto.map(range))
    }

    #[test]
    fn limits_follow_the_class() {
        let check = |class, reads: Lane, writes: Lane| {
            let policy = policy(class);
            assert_eq!((lane(policy.reads), lane(policy.writes)), (reads, writes), "{class}");
        };
        check(StorageClass::Tmpfs, (8, None), (8, None));
        check(StorageClass::Ssd, (16, None), (2, None));
        check(StorageClass::Hdd, (2, Some((1, 4, 2))), (1, None));
        check(StorageClass::Nfs, (2, Some((1, 4, 2))), (2, None));
        check(StorageClass::Smb, (2, Some((1, 8, 2))), (2, None));
        check(StorageClass::Fuse, (4, Some((1, 16, 2))), (2, None));
        check(StorageClass::ObjectStore, (16, Some((1, 64, 16))), (16, None));
        check(StorageClass::Parallel, (4, Some((1, 16, 2))), (2, None));
        check(StorageClass::Unknown, (4, Some((1, 8, 2))), (2, None));
    }

    #[test]
    fn sizes_follow_the_class() {
        let check = |class, request, dirty, whole, gap| {
            let policy = policy(class);
            let sizes = (
                policy.request_bytes,
                policy.dirty_bytes,
                policy.whole_bytes,
                policy.merge_gap_bytes,
            );
            assert_eq!(sizes, (request, dirty, whole, gap), "{class}");
            assert_eq!(policy.write_bytes, 1 << 20, "{class}");
            let on_disk =
                matches!(class, StorageClass::Hdd | StorageClass::Ssd | StorageClass::Tmpfs);
            assert_eq!(policy.writers.get() == 1, on_disk, "{class}");
        };
        check(StorageClass::Tmpfs, 1 << 20, 8 * MIB, u64::MAX, 0);
        check(StorageClass::Ssd, 1 << 20, 8 * MIB, 64 * MIB, 128 * KIB);
        check(StorageClass::Hdd, 1 << 20, 8 * MIB, 32 * MIB, MIB);
        check(StorageClass::Nfs, 1 << 20, MIB, 32 * MIB, MIB);
        check(StorageClass::Smb, 1 << 20, MIB, 32 * MIB, MIB);
        check(StorageClass::Fuse, 1 << 20, 8 * MIB, 32 * MIB, MIB);
        check(StorageClass::ObjectStore, 64 << 20, u64::MAX, 64 * MIB, MIB);
        check(StorageClass::Parallel, 1 << 20, MIB, 32 * MIB, MIB);
        check(StorageClass::Unknown, 1 << 20, 8 * MIB, 32 * MIB, MIB);
    }

    #[test]
    fn stated_request_sizes_bound_the_requests() {
        let check = |class, request, write, expected| {
            let policy = Policy::of(&storage(class, request, write), count(2));
            let sizes = (policy.request_bytes, policy.write_bytes, policy.dirty_bytes);
            assert_eq!(sizes, expected, "{class} {request:?} {write:?}");
        };
        check(StorageClass::Nfs, Some(65_536), Some(32_768), (65_536, 32_768, 32_768));
        check(StorageClass::Smb, Some(4 << 20), Some(4 << 20), (1 << 20, 1 << 20, 4 << 20));
        check(StorageClass::Fuse, Some(131_072), None, (131_072, 1 << 20, 8 << 20));
        check(StorageClass::ObjectStore, Some(131_072), None, (64 << 20, 1 << 20, u64::MAX));
        // A share that is said to be a disk has a disk's sizes.
        check(StorageClass::Ssd, Some(4_096), Some(4_096), (1 << 20, 1 << 20, 8 << 20));
    }

    #[test]
    fn an_ssd_takes_at_most_32_reads() {
        let many = Policy::of(&storage(StorageClass::Ssd, None, None), count(usize::MAX));
        assert_eq!(lane(many.reads), (32, None));
    }

    proptest! {
        #[test]
        fn ranges_hold_their_start_and_sizes_are_never_zero(
            class in proptest::sample::select(&StorageClass::ALL[..]),
            request: Option<u64>,
            write: Option<u64>,
            cpus in 1_usize..,
        ) {
            let policy = Policy::of(&storage(class, request, write), count(cpus));
            for lane in [policy.reads, policy.writes] {
                if let Some(AutoRange { least, most, start }) = lane.auto {
                    prop_assert!(least <= start && start <= most);
                    prop_assert!(least <= lane.cap && lane.cap <= most);
                }
            }
            prop_assert!((4_096..=64 << 20).contains(&policy.request_bytes));
            prop_assert!((4_096..=1 << 20).contains(&policy.write_bytes));
            prop_assert!(policy.dirty_bytes >= 4_096);
        }
    }
}
