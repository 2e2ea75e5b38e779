//! Files that appear whole or not at all, and the removal of what dead processes left behind.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use crate::budget::parent;
use crate::device::Device;
use crate::{Budget, Error, RequestKind, Stat, Writer};

/// Name of the directory in which files are written before they appear. It stands beside the data
/// directory, so that data directories never hold an unfinished file.
pub const STAGING_DIRECTORY: &str = ".gdelt-mill-staging";

/// Bytes of a file that are held in memory before it is begun to be written, so that most files
/// are written in one go, one after another.
const HELD_BYTES: usize = 16 << 20;

/// How often a file is tried to be made in a staging directory that others remove when it is empty.
const CREATE_ATTEMPTS: usize = 32;

const TEMPORARY_SUFFIX: &str = ".tmp";

/// A file being written. Dropped before [`Self::publish`], it leaves nothing behind.
#[derive(Debug)]
pub struct StagedFile {
    budget: Budget,
    device: Arc<Device>,
    data: PathBuf,
    target: PathBuf,
    buffer: Vec<u8>,
    held_bytes: usize,
    written: u64,
    dirty: u64,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    path: PathBuf,
}

/// A file that has appeared at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Length in bytes.
    pub size: u64,
    /// Last modification, in nanoseconds after 1970-01-01 UTC.
    pub modified_ns: i64,
}

impl StagedFile {
    pub(crate) fn new(budget: Budget, data: &Path, target: &Path) -> Self {
        let device = budget.places().of_directory(data).device;
        let (data, target) = (data.to_owned(), target.to_owned());
        let (buffer, held_bytes) = (Vec::new(), HELD_BYTES);
        Self { budget, device, data, target, buffer, held_bytes, written: 0, dirty: 0, open: None }
    }

    /// Holds fewer bytes in memory before they are written: for a writer of many files at once.
    #[must_use]
    pub fn holding(mut self, bytes: usize) -> Self {
        self.held_bytes = bytes;
        self
    }

    /// Bytes written so far.
    pub fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes the file appear at its place: writes what is left, syncs, closes with its error,
    /// renames, and syncs the directory.
    ///
    /// # Errors
    ///
    /// [`Error`] when one of these fails; then nothing has appeared and the temporary file is
    /// removed.
    pub fn publish(mut self) -> Result<Published, Error> {
        let target = self.target.clone();
        let failed = |operation, source| Error::new(operation, &target, source);
        self.write_out().map_err(|source| failed("write", source))?;
        let (file, path) = match &self.open {
            Some(open) => (&open.file, open.path.clone()),
            None => return Err(failed("write", io::Error::other("nothing was opened"))),
        };
        // The answer to a sync brings size and time along.
        let dirty = self.dirty;
        let sync = || file.sync_data().and_then(|()| file.metadata());
        let stat = self
            .device
            .request(RequestKind::Sync, |_| dirty, sync)
            .map(|metadata| Stat::of(&metadata))
            .map_err(|source| failed("sync", source))?;
        if let Some(open) = self.open.take() {
            let cleanup = RemoveOnDrop { budget: &self.budget, path: &path, armed: true };
            let close = || nix::unistd::close(open.file).map_err(io::Error::from);
            self.device
                .request(RequestKind::CloseWritten, |()| self.written, close)
                .map_err(|source| failed("close", source))?;
            self.budget.directory(parent(&target)).map_err(|s| failed("make a place for", s))?;
            self.budget.rename(&path, &target)?;
            cleanup.disarm();
        }
        Ok(Published { size: stat.size, modified_ns: stat.modified_ns })
    }

    /// Writes the buffer in requests no larger than the storage's policy allows, and syncs
    /// whenever so much is written that the storage would be flooded behind the budget's back.
    fn write_out(&mut self) -> io::Result<()> {
        if self.open.is_none() {
            self.open = Some(create(&self.budget, &self.data, &self.target)?);
        }
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let policy = self.device.policy();
        for unit in self.buffer.chunks(policy.write_bytes) {
            let mut rest = unit;
            while !rest.is_empty() {
                let file = &mut open.file;
                let wrote =
                    self.device.request(RequestKind::Write, |n| *n as u64, || file.write(rest));
                match wrote {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => rest = &rest[count..],
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            self.written += unit.len() as u64;
            self.dirty += unit.len() as u64;
            if self.dirty >= policy.dirty_bytes {
                let dirty = self.dirty;
                self.device.request(RequestKind::Sync, |()| dirty, || open.file.sync_data())?;
                self.dirty = 0;
            }
        }
        self.buffer.clear();
        Ok(())
    }
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= self.held_bytes {
            self.write_out()?;
        }
        Ok(bytes.len())
    }

    /// Does nothing: what is written counts only once it is published.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if let Some(Open { file, path }) = self.open.take() {
            drop(file);
            drop(RemoveOnDrop { budget: &self.budget, path: &path, armed: true });
        }
    }
}

struct RemoveOnDrop<'a> {
    budget: &'a Budget,
    path: &'a Path,
    armed: bool,
}

impl RemoveOnDrop<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            // The error that led here is the one to report; a later sweep removes the rest.
            let _removed = self.budget.remove(self.path);
        }
    }
}

/// Creates the temporary file, in the first staging directory that lets us.
fn create(budget: &Budget, data: &Path, target: &Path) -> io::Result<Open> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    budget.directory(data)?;
    let temporary = format!("{}.{}{TEMPORARY_SUFFIX}", Writer::next(), name.display());
    let mut refused = io::Error::from(io::ErrorKind::PermissionDenied);
    for staging in budget.staging_directories(data)? {
        match create_in(budget, &staging, &temporary) {
            Err(error) if is_refusal(&error) => refused = error,
            created => {
                let created = created?;
                budget.stage_in(data, &staging);
                return Ok(created);
            }
        }
    }
    Err(refused)
}

fn create_in(budget: &Budget, staging: &Path, temporary: &str) -> io::Result<Open> {
    let path = staging.join(temporary);
    let create = || {
        let directory = budget.directory(staging)?;
        let open = || {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o666);
            Ok(File::from(rustix::fs::openat(&directory, temporary, flags, mode)?))
        };
        budget.device_of(&path).request(RequestKind::Create, |_| 0, open)
    };
    // Another process may remove the empty staging directory at any moment before.
    for _ in 0..CREATE_ATTEMPTS {
        match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                budget.forget_directory(staging);
            }
            created => return Ok(Open { file: created?, path }),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

impl Budget {
    /// Removes the temporary files for `data` that dead processes of this host left, and very old
    /// ones of any host; returns how many. Looks once per directory and process.
    ///
    /// # Errors
    ///
    /// [`Error`] when the staging directory cannot be listed or a file cannot be removed.
    pub fn sweep(&self, data: &Path) -> Result<usize, Error> {
        let Some(exists) = self.stat(data)? else {
            return Ok(0);
        };
        if !exists.is_directory {
            return Ok(0);
        }
        let candidates = self
            .staging_directories(data)
            .map_err(|source| Error::new("look for leavings beside", data, source))?;
        let mut removed = 0;
        for staging in candidates {
            if self.first_sweep(&staging) {
                removed += self.sweep_directory(&staging)?;
            }
        }
        Ok(removed)
    }

    fn sweep_directory(&self, staging: &Path) -> Result<usize, Error> {
        let left = match self.list(staging, |name| name.ends_with(TEMPORARY_SUFFIX)) {
            Ok(left) => left,
            Err(error) if error.is_not_found() => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut removed = 0;
        for entry in left {
            let Some((writer, _)) = Writer::parse_prefix(&entry.name) else { continue };
            if writer.is_gone(entry.stat) {
                self.remove(&staging.join(&entry.name))?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MIB: usize = 1 << 20;

    fn names(directory: &Path) -> Vec<String> {
        let budget = Budget::private();
        let mut names: Vec<_> =
            budget.list(directory, |_| true).unwrap().into_iter().map(|e| e.name).collect();
        names.extend(budget.list_directories(directory).unwrap());
        names
    }

    #[test]
    fn a_file_appears_when_published_and_leaves_no_staging_directory() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("converted");
        let budget = Budget::private();
        let mut staged = budget.stage(&data.join("a.parquet"));
        staged.write_all(&vec![7; 20 * MIB]).unwrap();
        assert_eq!(names(&data), [""; 0]);
        let published = staged.publish().unwrap();
        drop(budget);
        let budget = Budget::private();
        assert_eq!(published.size, 20 * MIB as u64);
        assert_eq!(names(&data), ["a.parquet"]);
        assert_eq!(names(root.path()), ["converted"]);
        let stat = budget.stat(&data.join("a.parquet")).unwrap().unwrap();
        assert_eq!(stat.modified_ns, published.modified_ns);
    }

    #[test]
    fn a_file_within_a_data_directory_is_staged_beside_that() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("converted");
        let budget = Budget::private();
        let mut staged = budget.stage_within(&data, &data.join("Year=1979/a.parquet"));
        staged.write_all(&vec![7; 20 * MIB]).unwrap();
        assert_eq!(names(&data), [""; 0]);
        assert_eq!(names(&root.path().join(STAGING_DIRECTORY)).len(), 1);
        staged.publish().unwrap();
        assert_eq!(names(&data.join("Year=1979")), ["a.parquet"]);
    }

    #[test]
    fn a_dropped_file_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("converted");
        let mut staged = Budget::private().stage(&data.join("a.parquet"));
        staged.write_all(&vec![7; 20 * MIB]).unwrap();
        drop(staged);
        assert_eq!(names(root.path()), ["converted"]);
        assert_eq!(names(&data), [""; 0]);
    }

    #[test]
    fn a_small_file_costs_few_requests() {
        let root = tempfile::tempdir().unwrap();
        let budget = Budget::private();
        let mut staged = budget.stage(&root.path().join("converted/a.parquet"));
        staged.write_all(b"content").unwrap();
        staged.publish().unwrap();
        let writes = budget.report().writes;
        assert_eq!((writes.write, writes.rename, writes.peak_in_flight), (1, 1, 1));
        // The data and the directory.
        assert_eq!(writes.sync, 2);
    }

    #[test]
    fn a_staging_directory_that_others_remove_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        let staging = root.path().join(STAGING_DIRECTORY);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::SeqCst) {
                    let _removed = std::fs::remove_dir(&staging);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let outcome: Result<Vec<_>, _> = (0..200)
                .map(|number| {
                    let budget = Budget::private();
                    let mut staged = budget.stage(&root.path().join(format!("data/{number}")));
                    staged.write_all(b"content").unwrap();
                    staged.publish()
                })
                .collect();
            done.store(true, std::sync::atomic::Ordering::SeqCst);
            assert_eq!(outcome.unwrap().len(), 200);
        });
    }

    #[test]
    fn only_leavings_of_the_dead_are_swept() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("converted");
        let staging = root.path().join(STAGING_DIRECTORY);
        let budget = Budget::private();
        budget.directory(&data).unwrap();
        budget.directory(&staging).unwrap();
        let alive = format!("{}.a.parquet.tmp", Writer::next());
        let (host, _) = alive.split_once('.').unwrap();
        let dead = format!("{host}.2147483646.1.0.a.parquet.tmp");
        let elsewhere = String::from("other.1.1.0.a.parquet.tmp");
        for name in [&alive, &dead, &elsewhere] {
            File::create_new(staging.join(name)).unwrap();
        }
        assert_eq!(budget.sweep(&data).unwrap(), 1);
        let mut left = names(&staging);
        left.sort();
        let mut expected = vec![alive, elsewhere];
        expected.sort();
        assert_eq!(left, expected);
    }
}
