//! The backing directory: which inodes the kernel knows, which files and directories are open, and
//! the work that is carried out on them. Knows nothing of time.
//!
//! Each known inode holds an `O_PATH` descriptor of its file, so renames and removals behind it do
//! no harm.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{FileAttr, FileHandle, FileType, INodeNo, TimeOrNow};
use rustix::fs::{self as rfs, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::attributes::{attributes, kind, timespec};

/// The outcome of work on the backing directory.
pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// Name, inode number and type of the entries of a directory, as they were when it was opened.
pub(crate) type Listing = Arc<[(OsString, u64, FileType)]>;

/// The backing directory and what is open in it.
#[derive(Debug)]
pub(crate) struct Backing {
    table: Mutex<Table>,
    files: Mutex<HashMap<u64, Arc<OpenFile>>>,
    directories: Mutex<HashMap<u64, Listing>>,
    next_handle: AtomicU64,
}

#[derive(Debug)]
struct Table {
    inodes: HashMap<u64, Inode>,
    numbers: HashMap<(u64, u64), u64>,
    next: u64,
}

#[derive(Debug)]
struct Inode {
    path_fd: OwnedFd,
    /// Device and inode number in the backing directory.
    key: (u64, u64),
    /// References that the kernel holds.
    lookups: u64,
}

/// An open file, and whether anything was written to it that was not synced.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: File,
    unsynced: AtomicBool,
}

/// The changes of one `setattr`; `None` leaves things as they are.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) accessed: Option<TimeOrNow>,
    pub(crate) modified: Option<TimeOrNow>,
}

impl OpenFile {
    /// Reads up to `size` bytes at `offset`; fewer at the end of the file only.
    pub(crate) fn read(&self, offset: u64, size: u32) -> Result<Vec<u8>> {
        let mut data = vec![0; usize::try_from(size).map_err(|_| Errno::INVAL)?];
        let (mut filled, mut at) = (0, offset);
        while filled < data.len() {
            match self.file.read_at(&mut data[filled..], at) {
                Ok(0) => break,
                Ok(read) => {
                    filled += read;
                    at += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(&error)),
            }
        }
        data.truncate(filled);
        Ok(data)
    }

    /// Writes all of `data` at `offset`.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.unsynced.store(true, Relaxed);
        self.file.write_all_at(data, offset).map_err(|error| errno(&error))
    }

    /// Syncs the file, or its data alone.
    pub(crate) fn sync(&self, data_only: bool) -> Result<()> {
        if data_only {
            rfs::fdatasync(&self.file)?;
        } else {
            rfs::fsync(&self.file)?;
        }
        self.unsynced.store(false, Relaxed);
        Ok(())
    }

    /// Whether there were writes since the last sync, or since this was last asked.
    pub(crate) fn take_unsynced(&self) -> bool {
        self.unsynced.swap(false, Relaxed)
    }

    /// Allocates or frees space, as fallocate(2) does with this `mode`.
    pub(crate) fn allocate(&self, offset: u64, length: u64, mode: i32) -> Result<()> {
        let flags = rfs::FallocateFlags::from_bits_retain(mode.cast_unsigned());
        rfs::fallocate(&self.file, flags, offset, length)
    }
}

impl Backing {
    /// The directory at `path`, with nothing open.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let root =
            rfs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rfs::fstat(&root)?;
        let key = (stat.st_dev, stat.st_ino);
        let number = INodeNo::ROOT.0;
        let table = Table {
            inodes: HashMap::from([(number, Inode { path_fd: root, key, lookups: 1 })]),
            numbers: HashMap::from([(key, number)]),
            next: number + 1,
        };
        Ok(Self {
            table: Mutex::new(table),
            files: Mutex::default(),
            directories: Mutex::default(),
            next_handle: AtomicU64::new(1),
        })
    }

    /// Calls `work` with the `O_PATH` descriptor of an inode.
    pub(crate) fn with<T>(
        &self,
        ino: INodeNo,
        work: impl FnOnce(BorrowedFd<'_>) -> Result<T>,
    ) -> Result<T> {
        let fd = {
            let table = lock(&self.table);
            let inode = table.inodes.get(&ino.0).ok_or(Errno::STALE)?;
            rustix::io::fcntl_dupfd_cloexec(&inode.path_fd, 0)?
        };
        work(fd.as_fd())
    }

    /// Finds `name` in a directory and counts the reference that the kernel gets.
    pub(crate) fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = self.with(parent, |dir| rfs::openat(dir, name, flags, Mode::empty()))?;
        let stat = rfs::statat(&fd, "", AtFlags::EMPTY_PATH)?;
        let key = (stat.st_dev, stat.st_ino);
        let mut table = lock(&self.table);
        let Table { inodes, numbers, next } = &mut *table;
        let number = *numbers.entry(key).or_insert_with(|| {
            *next += 1;
            *next - 1
        });
        match inodes.entry(number) {
            Entry::Occupied(known) => known.into_mut().lookups += 1,
            Entry::Vacant(new) => {
                new.insert(Inode { path_fd: fd, key, lookups: 1 });
            }
        }
        Ok(attributes(INodeNo(number), &stat))
    }

    /// Takes back references that the kernel no longer holds.
    pub(crate) fn forget(&self, ino: INodeNo, lookups: u64) {
        let mut table = lock(&self.table);
        let Some(inode) = table.inodes.get_mut(&ino.0) else {
            return;
        };
        inode.lookups = inode.lookups.saturating_sub(lookups);
        if inode.lookups == 0 && ino != INodeNo::ROOT {
            let key = inode.key;
            table.inodes.remove(&ino.0);
            table.numbers.remove(&key);
        }
    }

    /// The attributes of an inode.
    pub(crate) fn stat(&self, ino: INodeNo) -> Result<FileAttr> {
        self.with(ino, |fd| Ok(attributes(ino, &rfs::statat(fd, "", AtFlags::EMPTY_PATH)?)))
    }

    /// Makes an object with `make`, gives it to `owner` (user and group), and looks it up.
    pub(crate) fn make(
        &self,
        owner: (u32, u32),
        parent: INodeNo,
        name: &OsStr,
        make: impl FnOnce(BorrowedFd<'_>) -> Result<()>,
    ) -> Result<FileAttr> {
        self.with(parent, |dir| {
            make(dir)?;
            give(dir, name, owner)
        })?;
        self.find(parent, name)
    }

    /// Makes a hard link to an inode.
    pub(crate) fn link(
        &self,
        ino: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
    ) -> Result<FileAttr> {
        self.with(ino, |fd| {
            self.with(new_parent, |dir| {
                let from = magic_link(fd);
                rfs::linkat(rfs::CWD, from, dir, new_name, AtFlags::SYMLINK_FOLLOW)
            })
        })?;
        self.find(new_parent, new_name)
    }

    /// Changes attributes, through the open file `handle` where there is one.
    pub(crate) fn change(
        &self,
        ino: INodeNo,
        handle: Option<FileHandle>,
        changes: &Changes,
    ) -> Result<FileAttr> {
        self.with(ino, |fd| {
            if let Some(mode) = changes.mode {
                rfs::chmod(magic_link(fd), Mode::from_raw_mode(mode & 0o7777))?;
            }
            if changes.uid.is_some() || changes.gid.is_some() {
                let uid = changes.uid.map(rfs::Uid::from_raw);
                let gid = changes.gid.map(rfs::Gid::from_raw);
                rfs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH)?;
            }
            if let Some(size) = changes.size {
                if let Some(handle) = handle {
                    rfs::ftruncate(&self.file(handle)?.file, size)?;
                } else {
                    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                    rfs::ftruncate(rfs::open(magic_link(fd), flags, Mode::empty())?, size)?;
                }
            }
            if changes.accessed.is_some() || changes.modified.is_some() {
                let times = rfs::Timestamps {
                    last_access: timespec(changes.accessed),
                    last_modification: timespec(changes.modified),
                };
                rfs::utimensat(rfs::CWD, magic_link(fd), &times, AtFlags::empty())?;
            }
            Ok(())
        })?;
        self.stat(ino)
    }

    /// Opens a file.
    pub(crate) fn open(&self, ino: INodeNo, flags: OFlags) -> Result<FileHandle> {
        let flags = flags - OFlags::TRUNC - OFlags::CREATE - OFlags::EXCL;
        let fd = self.with(ino, |fd| rfs::open(magic_link(fd), flags, Mode::empty()))?;
        Ok(self.keep(fd))
    }

    /// Makes and opens a file for `owner` (user and group).
    pub(crate) fn create(
        &self,
        owner: (u32, u32),
        parent: INodeNo,
        name: &OsStr,
        flags: OFlags,
        mode: Mode,
    ) -> Result<(FileAttr, FileHandle)> {
        let fd = self.with(parent, |dir| {
            let fd = rfs::openat(dir, name, flags | OFlags::CREATE | OFlags::NOFOLLOW, mode)?;
            give(dir, name, owner)?;
            Ok(fd)
        })?;
        Ok((self.find(parent, name)?, self.keep(fd)))
    }

    fn keep(&self, fd: OwnedFd) -> FileHandle {
        let file = OpenFile { file: File::from(fd), unsynced: AtomicBool::new(false) };
        let handle = self.next_handle.fetch_add(1, Relaxed);
        lock(&self.files).insert(handle, Arc::new(file));
        FileHandle(handle)
    }

    /// The open file of a handle.
    pub(crate) fn file(&self, handle: FileHandle) -> Result<Arc<OpenFile>> {
        lock(&self.files).get(&handle.0).cloned().ok_or(Errno::BADF)
    }

    /// Closes a file.
    pub(crate) fn close(&self, handle: FileHandle) {
        lock(&self.files).remove(&handle.0);
    }

    /// Opens a directory and takes down its entries.
    pub(crate) fn open_directory(&self, ino: INodeNo) -> Result<FileHandle> {
        let listing: Listing = rfs::Dir::new(self.directory(ino)?)?
            .map(|entry| {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_os_string();
                Ok((name, entry.ino(), kind(entry.file_type())))
            })
            .collect::<Result<_>>()?;
        let handle = self.next_handle.fetch_add(1, Relaxed);
        lock(&self.directories).insert(handle, listing);
        Ok(FileHandle(handle))
    }

    /// The entries of an open directory.
    pub(crate) fn listing(&self, handle: FileHandle) -> Result<Listing> {
        lock(&self.directories).get(&handle.0).cloned().ok_or(Errno::BADF)
    }

    /// Closes a directory.
    pub(crate) fn close_directory(&self, handle: FileHandle) {
        lock(&self.directories).remove(&handle.0);
    }

    /// Syncs a directory.
    pub(crate) fn sync_directory(&self, ino: INodeNo) -> Result<()> {
        rfs::fsync(self.directory(ino)?)
    }

    fn directory(&self, ino: INodeNo) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.with(ino, |fd| rfs::open(magic_link(fd), flags, Mode::empty()))
    }
}

// A panicking holder leaves the maps consistent, so poisoning carries no news.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// A path to an `O_PATH` descriptor's file, for calls that take no such descriptor.
fn magic_link(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn give(dir: BorrowedFd<'_>, name: &OsStr, (user, group): (u32, u32)) -> Result<()> {
    let (user, group) = (rfs::Uid::from_raw(user), rfs::Gid::from_raw(group));
    rfs::chownat(dir, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)
}

#[cfg(test)]
mod tests;
