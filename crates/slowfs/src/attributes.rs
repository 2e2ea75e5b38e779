//! Translates attributes between the backing directory (`rustix`) and the kernel (`fuser`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs as rfs;

/// The attributes to show for an inode.
pub(crate) fn attributes(ino: INodeNo, stat: &rfs::Stat) -> FileAttr {
    FileAttr {
        ino,
        size: stat.st_size.try_into().unwrap_or(0),
        blocks: stat.st_blocks.try_into().unwrap_or(0),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind(rfs::FileType::from_raw_mode(stat.st_mode)),
        perm: u16::try_from(stat.st_mode & 0o7777).unwrap_or(0),
        nlink: stat.st_nlink.try_into().unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev.try_into().unwrap_or(0),
        blksize: stat.st_blksize.try_into().unwrap_or(4096),
        flags: 0,
    }
}

/// The type of a file.
pub(crate) fn kind(file_type: rfs::FileType) -> FileType {
    match file_type {
        rfs::FileType::Directory => FileType::Directory,
        rfs::FileType::Symlink => FileType::Symlink,
        rfs::FileType::Fifo => FileType::NamedPipe,
        rfs::FileType::CharacterDevice => FileType::CharDevice,
        rfs::FileType::BlockDevice => FileType::BlockDevice,
        rfs::FileType::Socket => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

/// A time to set; `None` leaves the one that is there.
pub(crate) fn timespec(time: Option<TimeOrNow>) -> rfs::Timespec {
    let (seconds, nanos) = match time {
        None => (0, rfs::UTIME_OMIT),
        Some(TimeOrNow::Now) => (0, rfs::UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => since_epoch(time),
    };
    rfs::Timespec { tv_sec: seconds, tv_nsec: nanos }
}

/// Whole seconds since the epoch, negative before it, and the nanoseconds that follow them.
fn since_epoch(time: SystemTime) -> (i64, i64) {
    let seconds = |since: Duration| i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (seconds(since), i64::from(since.subsec_nanos())),
        Err(before) => {
            let before = before.duration();
            match i64::from(before.subsec_nanos()) {
                0 => (-seconds(before), 0),
                nanos => (-seconds(before) - 1, 1_000_000_000 - nanos),
            }
        }
    }
}

/// The instant that `stat` gives as seconds and nanoseconds; the epoch where none can be shown.
fn time(seconds: i64, nanos: u64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let at =
        if seconds >= 0 { UNIX_EPOCH.checked_add(whole) } else { UNIX_EPOCH.checked_sub(whole) };
    at.and_then(|at| at.checked_add(Duration::from_nanos(nanos))).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_the_epoch_come_back() {
        for (seconds, nanos) in [(0, 0), (1_700_000_000, 5), (-1, 0), (-2, 999_999_999)] {
            let shown = time(seconds, nanos);
            let set = timespec(Some(TimeOrNow::SpecificTime(shown)));
            assert_eq!((set.tv_sec, set.tv_nsec), (seconds, nanos.cast_signed()));
        }
        assert_eq!(time(i64::MAX, u64::MAX), UNIX_EPOCH);
        assert_eq!(timespec(None).tv_nsec, rfs::UTIME_OMIT);
    }

    #[test]
    fn a_directory_is_shown_with_its_type_and_permissions() {
        let stat = rfs::stat("/").unwrap();
        let shown = attributes(INodeNo(7), &stat);
        assert_eq!((shown.ino, shown.kind), (INodeNo(7), FileType::Directory));
        assert_eq!(u32::from(shown.perm), stat.st_mode & 0o7777);
    }
}
