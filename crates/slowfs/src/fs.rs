//! The file system: takes the kernel's requests, has them carried out at once on the backing
//! directory, and answers when the modelled device says so.
//!
//! The backing directory should be fast (local and cached), since its own delay is hidden only
//! while it is shorter than the modelled one.
//!
//! | request | costs the device |
//! |---|---|
//! | `read`, `write` | a data request; a read past the end is metadata |
//! | `fsync` | metadata |
//! | `flush` (each close) | nothing; metadata with [`Client::Remote`] when writes are unsynced |
//! | `opendir`, `fsyncdir` | metadata; nothing with [`Client::Remote`] |
//! | `readdir` | metadata; nothing at the end of the listing |
//! | `release`, `releasedir`, `forget` | nothing: no program waits for them |
//! | all others | metadata |

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, TimeOrNow,
    WriteFlags,
};
use rustix::fs::{self as rfs, AtFlags, Mode, OFlags};

use crate::backing::{Backing, Changes, Result};
use crate::engine::{Arrival, Engine};
use crate::fault::Faults;
use crate::model::{Kind, Request};
use crate::operation::Operation;

/// Which requests reach the storage when a program syncs or closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// A local file system: syncing a directory writes its journal, closing a file does nothing.
    Local,
    /// NFS or an object store: changes to directories are durable once they are answered, so
    /// opening and syncing a directory send nothing; closing a file commits its unsynced writes.
    Remote,
}

/// How the kernel may cache and split requests.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the mount")]
pub struct Options {
    /// Which requests reach the storage.
    pub client: Client,
    /// Every open bypasses the page cache, so each `read` reaches the device.
    pub direct_io: bool,
    /// Cached pages survive an open, unless the file's size changed behind the mount; otherwise
    /// each open drops them.
    pub keep_cache: bool,
    /// The kernel may gather writes and send them later.
    pub writeback: bool,
    /// The kernel may send the parts of one large direct read side by side.
    pub async_dio: bool,
    /// Read-ahead that the kernel may use, in bytes.
    pub max_readahead: u32,
    /// Largest read or write request, in bytes.
    pub max_request: u32,
    /// Read-ahead and asynchronous requests that may be outstanding.
    pub max_background: u16,
    /// How long the kernel keeps names and attributes.
    pub ttl: Duration,
}

/// The file system over one backing directory.
#[derive(Debug)]
pub struct SlowFs {
    backing: Backing,
    engine: Arc<Engine>,
    faults: Faults,
    options: Options,
}

/// A request that was carried out, or that failed, and is to be answered.
struct Done<T> {
    request: Request,
    arrival: Arrival,
    result: Result<T>,
}

impl SlowFs {
    /// A file system that shows `backing`.
    ///
    /// # Errors
    ///
    /// When `backing` is not a directory that can be opened.
    pub fn new(
        backing: &Path,
        engine: Arc<Engine>,
        faults: Faults,
        options: Options,
    ) -> io::Result<Self> {
        Ok(Self { backing: Backing::new(backing)?, engine, faults, options })
    }

    /// Carries out `work` as a metadata request, unless a fault takes its place.
    fn carry_out<T>(
        &self,
        operation: Operation,
        caller: &fuser::Request,
        ino: INodeNo,
        work: impl FnOnce(&Backing) -> Result<T>,
    ) -> Done<T> {
        let at = Instant::now();
        let fate = self.faults.next(operation);
        let result = match fate.error {
            Some(error) => Err(error),
            None => work(&self.backing),
        };
        let request = Request { kind: Kind::Meta, file: ino.0, offset: 0, bytes: 0 };
        let arrival = Arrival { operation, pid: caller.pid(), at, stall: fate.stall };
        Done { request, arrival, result }
    }

    /// Has `reply` called with the result when the device is done.
    fn answer<T: Send + 'static>(
        &self,
        done: Done<T>,
        reply: impl FnOnce(std::result::Result<T, Errno>) + Send + 'static,
    ) {
        let Done { request, arrival, result } = done;
        let result = result.map_err(|error| Errno::from_i32(error.raw_os_error()));
        self.engine.submit(request, arrival, move || reply(result));
    }

    fn answer_empty(&self, done: Done<()>, reply: ReplyEmpty) {
        self.answer(done, |result| match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        });
    }

    fn answer_attributes(&self, done: Done<FileAttr>, reply: ReplyAttr) {
        let ttl = self.options.ttl;
        self.answer(done, move |result| match result {
            Ok(attributes) => reply.attr(&ttl, &attributes),
            Err(error) => reply.error(error),
        });
    }

    fn answer_entry(&self, done: Done<FileAttr>, reply: ReplyEntry) {
        let ttl = self.options.ttl;
        self.answer(done, move |result| match result {
            Ok(attributes) => reply.entry(&ttl, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        });
    }

    /// The flags to open the backing file with.
    fn backing_flags(&self, flags: i32) -> OFlags {
        let mut flags = OFlags::from_bits_retain(flags.cast_unsigned());
        // The kernel gives the offset of every write and does its own direct I/O; with
        // write-back it also reads pages of files opened for writing only.
        flags -= OFlags::APPEND | OFlags::DIRECT | OFlags::NOFOLLOW;
        if self.options.writeback && flags & OFlags::ACCMODE == OFlags::WRONLY {
            flags = (flags - OFlags::ACCMODE) | OFlags::RDWR;
        }
        flags | OFlags::CLOEXEC
    }

    fn open_flags(&self) -> FopenFlags {
        let mut flags = FopenFlags::empty();
        flags.set(FopenFlags::FOPEN_DIRECT_IO, self.options.direct_io);
        flags.set(FopenFlags::FOPEN_KEEP_CACHE, self.options.keep_cache);
        flags
    }
}

/// The user and group that new objects get.
fn owner(caller: &fuser::Request) -> (u32, u32) {
    (caller.uid(), caller.gid())
}

fn permissions(mode: u32, umask: u32) -> Mode {
    Mode::from_raw_mode(mode & !umask & 0o7777)
}

impl Filesystem for SlowFs {
    fn init(&mut self, _caller: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each setter answers with the nearest value that the kernel takes.
        if let Err(nearest) = config.set_max_write(self.options.max_request) {
            let _set = config.set_max_write(nearest);
        }
        if let Err(nearest) = config.set_max_readahead(self.options.max_readahead) {
            let _set = config.set_max_readahead(nearest);
        }
        let _set = config.set_max_background(self.options.max_background);
        for (wanted, flag) in [
            (self.options.writeback, InitFlags::FUSE_WRITEBACK_CACHE),
            (self.options.async_dio, InitFlags::FUSE_ASYNC_DIO),
        ] {
            if wanted && config.add_capabilities(flag).is_err() {
                return Err(io::Error::from(io::ErrorKind::Unsupported));
            }
        }
        // Older kernels do without these two.
        let _added = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _added = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        Ok(())
    }

    fn lookup(&self, caller: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let done = self.carry_out(Operation::Lookup, caller, parent, |b| b.find(parent, name));
        self.answer_entry(done, reply);
    }

    fn forget(&self, _caller: &fuser::Request, ino: INodeNo, lookups: u64) {
        self.backing.forget(ino, lookups);
    }

    fn getattr(
        &self,
        caller: &fuser::Request,
        ino: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let done = self.carry_out(Operation::Getattr, caller, ino, |backing| backing.stat(ino));
        self.answer_attributes(done, reply);
    }

    fn setattr(
        &self,
        caller: &fuser::Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _flags_changed: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes { mode, uid, gid, size, accessed, modified };
        let done = self.carry_out(Operation::Setattr, caller, ino, |backing| {
            backing.change(ino, handle, &changes)
        });
        self.answer_attributes(done, reply);
    }

    fn readlink(&self, caller: &fuser::Request, ino: INodeNo, reply: ReplyData) {
        let done = self.carry_out(Operation::Readlink, caller, ino, |backing| {
            backing.with(ino, |fd| rfs::readlinkat(fd, "", Vec::new()))
        });
        self.answer(done, |result| match result {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(error),
        });
    }

    fn mknod(
        &self,
        caller: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let done = self.carry_out(Operation::Mknod, caller, parent, |backing| {
            backing.make(owner(caller), parent, name, |dir| {
                let file_type = rfs::FileType::from_raw_mode(mode);
                rfs::mknodat(dir, name, file_type, permissions(mode, umask), device.into())
            })
        });
        self.answer_entry(done, reply);
    }

    fn mkdir(
        &self,
        caller: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let done = self.carry_out(Operation::Mkdir, caller, parent, |backing| {
            backing.make(owner(caller), parent, name, |dir| {
                rfs::mkdirat(dir, name, permissions(mode, umask))
            })
        });
        self.answer_entry(done, reply);
    }

    fn unlink(&self, caller: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.carry_out(Operation::Unlink, caller, parent, |backing| {
            backing.with(parent, |dir| rfs::unlinkat(dir, name, AtFlags::empty()))
        });
        self.answer_empty(done, reply);
    }

    fn rmdir(&self, caller: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.carry_out(Operation::Rmdir, caller, parent, |backing| {
            backing.with(parent, |dir| rfs::unlinkat(dir, name, AtFlags::REMOVEDIR))
        });
        self.answer_empty(done, reply);
    }

    fn symlink(
        &self,
        caller: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let done = self.carry_out(Operation::Symlink, caller, parent, |backing| {
            backing.make(owner(caller), parent, name, |dir| rfs::symlinkat(target, dir, name))
        });
        self.answer_entry(done, reply);
    }

    fn rename(
        &self,
        caller: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = rfs::RenameFlags::from_bits_retain(flags.bits());
        let done = self.carry_out(Operation::Rename, caller, parent, |backing| {
            backing.with(parent, |from| {
                backing.with(new_parent, |to| rfs::renameat_with(from, name, to, new_name, flags))
            })
        });
        self.answer_empty(done, reply);
    }

    fn link(
        &self,
        caller: &fuser::Request,
        ino: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let done = self.carry_out(Operation::Link, caller, new_parent, |backing| {
            backing.link(ino, new_parent, new_name)
        });
        self.answer_entry(done, reply);
    }

    fn open(&self, caller: &fuser::Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let done = self.carry_out(Operation::Open, caller, ino, |backing| {
            backing.open(ino, self.backing_flags(flags.0))
        });
        let flags = self.open_flags();
        self.answer(done, move |result| match result {
            Ok(handle) => reply.opened(handle, flags),
            Err(error) => reply.error(error),
        });
    }

    fn create(
        &self,
        caller: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let done = self.carry_out(Operation::Create, caller, parent, |backing| {
            let flags = self.backing_flags(flags);
            backing.create(owner(caller), parent, name, flags, permissions(mode, umask))
        });
        let (ttl, flags) = (self.options.ttl, self.open_flags());
        self.answer(done, move |result| match result {
            Ok((attributes, handle)) => {
                reply.created(&ttl, &attributes, Generation(0), handle, flags);
            }
            Err(error) => reply.error(error),
        });
    }

    fn read(
        &self,
        caller: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut done = self.carry_out(Operation::Read, caller, ino, |backing| {
            backing.file(handle)?.read(offset, size)
        });
        let bytes = done.result.as_ref().map_or(0, |data| data.len() as u64);
        let past_the_end = done.result.is_ok() && bytes == 0;
        done.request.kind = if past_the_end { Kind::Meta } else { Kind::Read };
        done.request.offset = offset;
        done.request.bytes = bytes;
        self.answer(done, |result| match result {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(error),
        });
    }

    fn write(
        &self,
        caller: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut done = self.carry_out(Operation::Write, caller, ino, |backing| {
            backing.file(handle)?.write(offset, data)?;
            u32::try_from(data.len()).map_err(|_| rustix::io::Errno::INVAL)
        });
        done.request.kind = Kind::Write;
        done.request.offset = offset;
        done.request.bytes = data.len() as u64;
        self.answer(done, |result| match result {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        });
    }

    fn flush(
        &self,
        caller: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        if !self.backing.file(handle).is_ok_and(|file| file.take_unsynced()) {
            return reply.ok();
        }
        let done = self.carry_out(Operation::Flush, caller, ino, |_| Ok(()));
        let unharmed = done.result.is_ok() && done.arrival.stall.is_zero();
        if unharmed && self.options.client == Client::Local {
            return reply.ok();
        }
        self.answer_empty(done, reply);
    }

    fn release(
        &self,
        _caller: &fuser::Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.backing.close(handle);
        reply.ok();
    }

    fn fsync(
        &self,
        caller: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let done = self.carry_out(Operation::Fsync, caller, ino, |backing| {
            backing.file(handle)?.sync(data_only)
        });
        self.answer_empty(done, reply);
    }

    fn fallocate(
        &self,
        caller: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done = self.carry_out(Operation::Fallocate, caller, ino, |backing| {
            backing.file(handle)?.allocate(offset, length, mode)
        });
        self.answer_empty(done, reply);
    }

    fn opendir(&self, caller: &fuser::Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if self.options.client == Client::Remote {
            return match self.backing.open_directory(ino) {
                Ok(handle) => reply.opened(handle, FopenFlags::empty()),
                Err(error) => reply.error(Errno::from_i32(error.raw_os_error())),
            };
        }
        let done =
            self.carry_out(Operation::Opendir, caller, ino, |backing| backing.open_directory(ino));
        self.answer(done, |result| match result {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error),
        });
    }

    fn readdir(
        &self,
        caller: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let skip = usize::try_from(offset).unwrap_or(usize::MAX);
        let at_the_end =
            self.backing.listing(handle).is_ok_and(|entries| skip > 0 && skip >= entries.len());
        if at_the_end {
            return reply.ok();
        }
        let done =
            self.carry_out(Operation::Readdir, caller, ino, |backing| backing.listing(handle));
        self.answer(done, move |result| match result {
            Ok(entries) => {
                for (next, (name, ino, kind)) in (1..).zip(&*entries).skip(skip) {
                    if reply.add(INodeNo(*ino), next, *kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(error),
        });
    }

    fn releasedir(
        &self,
        _caller: &fuser::Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.backing.close_directory(handle);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        caller: &fuser::Request,
        ino: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        if self.options.client == Client::Remote {
            return reply.ok();
        }
        let done =
            self.carry_out(Operation::Fsyncdir, caller, ino, |backing| backing.sync_directory(ino));
        self.answer_empty(done, reply);
    }

    fn statfs(&self, caller: &fuser::Request, ino: INodeNo, reply: ReplyStatfs) {
        let done = self.carry_out(Operation::Statfs, caller, ino, |backing| {
            backing.with(ino, |fd| rfs::fstatvfs(fd))
        });
        self.answer(done, |result| match result {
            Ok(space) => reply.statfs(
                space.f_blocks,
                space.f_bfree,
                space.f_bavail,
                space.f_files,
                space.f_ffree,
                space.f_bsize.try_into().unwrap_or(u32::MAX),
                space.f_namemax.try_into().unwrap_or(u32::MAX),
                space.f_frsize.try_into().unwrap_or(u32::MAX),
            ),
            Err(error) => reply.error(error),
        });
    }
}
