//! How much of a file the page cache holds: cachestat(2) where the kernel has it, else mincore(2).
//! What follows from it is decided by those who ask. All `unsafe` code of this crate is here.

#![expect(unsafe_code, reason = "the two system calls have no safe wrapper in rustix")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr;

/// Number of cachestat(2), the same on all architectures; in the kernel since 6.5.
const SYS_CACHESTAT: libc::c_long = 451;

/// Bytes that are mapped at a time to be asked about with mincore(2).
const MAPPED: u64 = 1 << 30;

/// `struct cachestat_range` of `linux/mman.h`.
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// `struct cachestat` of `linux/mman.h`, in pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Bytes of `length` from `offset` on that the page cache holds, in whole pages; `None` where the
/// system does not tell this user, which it does to a file's owner and to those who may write it.
///
/// # Errors
///
/// When the file cannot be asked about.
pub(crate) fn cached_bytes(file: &File, offset: u64, length: u64) -> io::Result<Option<u64>> {
    if length == 0 {
        return Ok(Some(0));
    }
    match cachestat(file, offset, length) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.raw_os_error() {
            Some(libc::EPERM) => Ok(None),
            Some(libc::ENOSYS | libc::EOPNOTSUPP) => mincore(file, offset, length),
            _ => Err(error),
        },
    }
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

fn cachestat(file: &File, offset: u64, length: u64) -> io::Result<u64> {
    let range = Range { offset, length };
    let mut pages = Pages::default();
    // SAFETY: both structures have the kernel's layout and live until the call returns.
    let answer = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut pages, 0_u32)
    };
    if answer == 0 {
        Ok(pages.cached.saturating_mul(page_bytes()))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// mincore(2) says that all is cached to those whom cachestat(2) tells nothing: then nothing is
/// known.
fn mincore(file: &File, offset: u64, length: u64) -> io::Result<Option<u64>> {
    if !may_be_asked(file)? {
        return Ok(None);
    }
    let end = offset.saturating_add(length).min(file.metadata()?.len());
    let mut start = offset - offset % page_bytes();
    let mut cached = 0;
    while start < end {
        let mapped = (end - start).min(MAPPED);
        cached += mapped_pages(file, start, mapped)?.saturating_mul(page_bytes());
        start += mapped;
    }
    Ok(Some(cached))
}

/// The kernel's own rule: the owner, or who may write.
fn may_be_asked(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::geteuid();
    Ok(user.is_root() || file.metadata()?.uid() == user.as_raw())
}

fn mapped_pages(file: &File, start: u64, length: u64) -> io::Result<u64> {
    let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let bytes = usize::try_from(length).map_err(too_large)?;
    let offset = libc::off_t::try_from(start).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut resident = vec![0_u8; bytes.div_ceil(rustix::param::page_size())];
    // SAFETY: a new mapping at a place of the kernel's choice, which is never read through.
    let address = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            offset,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is `bytes` long, and `resident` has a byte for each of its pages.
    let answer = unsafe { libc::mincore(address, bytes, resident.as_mut_ptr()) };
    let failed = (answer != 0).then(io::Error::last_os_error);
    // SAFETY: the mapping was made above and nothing points into it.
    unsafe { libc::munmap(address, bytes) };
    match failed {
        Some(error) => Err(error),
        None => Ok(resident.iter().map(|page| u64::from(page & 1)).sum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    const MIB: u64 = 1 << 20;

    /// A file of 4 MiB of which the page cache holds the second MiB; none where it keeps more.
    fn partly_cached() -> Option<File> {
        let file = tempfile::tempfile_in(".").unwrap();
        file.write_all_at(&vec![7; 4 << 20], 0).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
        file.read_exact_at(&mut vec![0; 1 << 20], MIB).unwrap();
        (cachestat(&file, 0, MIB).unwrap_or(0) == 0).then_some(file)
    }

    #[test]
    fn both_calls_tell_what_was_read() {
        // A directory in memory is always cached.
        let Some(file) = partly_cached() else { return };
        for (offset, length, expected) in
            [(0, MIB, 0), (MIB, MIB, MIB), (0, 4 * MIB, MIB), (MIB / 2, MIB, MIB / 2), (0, 0, 0)]
        {
            assert_eq!(cached_bytes(&file, offset, length).unwrap(), Some(expected));
            if length > 0 {
                assert_eq!(mincore(&file, offset, length).unwrap(), Some(expected));
            }
        }
    }

    #[test]
    fn beyond_the_end_there_is_nothing() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(cached_bytes(&file, MIB, MIB).unwrap(), Some(0));
        assert_eq!(mincore(&file, MIB, MIB).unwrap(), Some(0));
    }
}
