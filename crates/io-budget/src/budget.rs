//! The requests that a budget lets through, one permit each.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::counters::LaneCounters;
use crate::device::Device;
use crate::file::KnownPages;
use crate::places::Places;
use crate::storage::{Storage, StorageClass};
use crate::usage::Usage;
use crate::{
    AppendFile, BudgetFile, Error, IoReport, LaneReport, Options, RequestKind, STAGING_DIRECTORY,
    StagedFile, StorageReport,
};

/// Files of which it is remembered what was read, before those that are closed are forgotten.
const KNOWN_FILES: usize = 10_000;

/// Threads that look at the files of one directory, at most, and the files that are worth one.
const STAT_THREADS: usize = 8;
const STATS_OF_A_THREAD: usize = 4;

/// How often a request is tried whose name leads to a file that was replaced.
const STALE_ATTEMPTS: u32 = 6;
/// Time before the second attempt; doubled after each.
const STALE_PAUSE: Duration = Duration::from_millis(20);

/// The right to use a storage: every request of a process goes through one of these.
///
/// Cheap to clone; clones share the same limits and counters.
#[derive(Debug, Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    places: Places,
    /// Directories made or seen by this process, with a handle to sync them by.
    directories: Mutex<HashMap<PathBuf, Arc<File>>>,
    /// Where files for a data directory are staged.
    staging: Mutex<HashMap<PathBuf, PathBuf>>,
    swept: Mutex<HashSet<PathBuf>>,
    /// What was read of files that are open, or were lately, by device and inode.
    known_pages: Mutex<HashMap<(u64, u64), Arc<KnownPages>>>,
}

impl Drop for Shared {
    /// Leaves no empty staging directory behind. One in which another process writes stays.
    fn drop(&mut self) {
        let staging = self.staging.get_mut().unwrap_or_else(PoisonError::into_inner);
        for directory in staging.values() {
            let _removed = std::fs::remove_dir(directory);
        }
    }
}

/// Size and time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Length in bytes.
    pub size: u64,
    /// Last modification, in nanoseconds after 1970-01-01 UTC.
    pub modified_ns: i64,
    /// Whether this is a regular file: no directory, device, pipe or socket.
    pub is_regular: bool,
    /// Whether this is a directory.
    pub is_directory: bool,
    /// Device and inode: equal for two names of one file.
    pub identity: (u64, u64),
}

impl Stat {
    pub(crate) fn of(metadata: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self {
            size: metadata.len(),
            modified_ns: metadata.modified().map_or(0, nanoseconds_after_epoch),
            is_regular: metadata.is_file(),
            is_directory: metadata.is_dir(),
            identity: (metadata.dev(), metadata.ino()),
        }
    }
}

fn nanoseconds_after_epoch(time: SystemTime) -> i64 {
    let signed = |nanoseconds: u128| i64::try_from(nanoseconds).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => signed(after.as_nanos()),
        Err(before) => -signed(before.duration().as_nanos()),
    }
}

/// A name in a listed directory, with what a look at it told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// File name without its directory.
    pub name: String,
    /// Size and time.
    pub stat: Stat,
}

impl Budget {
    /// A budget as the user set it.
    pub fn new(options: Options) -> Self {
        let shared = Shared {
            places: Places::new(options),
            directories: Mutex::default(),
            staging: Mutex::default(),
            swept: Mutex::default(),
            known_pages: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A budget of this process alone, see [`Options::private`].
    pub fn private() -> Self {
        Self::new(Options::private())
    }

    /// What was asked of the storages so far.
    pub fn report(&self) -> IoReport {
        let (reads, writes) = (LaneCounters::new(), LaneCounters::new());
        let devices = self.shared.places.devices();
        for device in &devices {
            device.add_to(&reads, &writes);
        }
        let storages: Vec<_> = devices.iter().map(|device| device.report()).collect();
        let busiest = |lane: fn(&StorageReport) -> &LaneReport| {
            let lanes = storages.iter().map(lane);
            lanes
                .max_by_key(|lane| lane.peak_in_flight)
                .map(|lane| (lane.limit, lane.peak_in_flight))
        };
        let (read_limit, read_peak) = busiest(|storage| &storage.reads).unwrap_or_default();
        let (write_limit, write_peak) = busiest(|storage| &storage.writes).unwrap_or_default();
        IoReport {
            reads: reads.report(read_limit, read_peak),
            writes: writes.report(write_limit, write_peak),
            storages,
        }
    }

    /// What a directory stands on, as this budget takes it.
    pub fn storage(&self, directory: &Path) -> Storage {
        self.shared.places.of_directory(directory).device.storage().clone()
    }

    /// How files in a directory are read and written, and why.
    pub fn usage(&self, directory: &Path) -> Usage {
        let device = self.shared.places.of_directory(directory).device;
        Usage::of(directory, &device)
    }

    /// Why processes do not share the budget of a storage although they are to, for each storage
    /// used so far.
    pub fn not_shared(&self) -> Vec<String> {
        let devices = self.shared.places.devices();
        devices.iter().filter_map(|device| device.not_shared().map(str::to_owned)).collect()
    }

    /// The places of directories and files.
    pub(crate) fn places(&self) -> &Places {
        &self.shared.places
    }

    /// The storage on which a file is, or would be, by the directory that holds it.
    pub(crate) fn device_of(&self, file: &Path) -> Arc<Device> {
        self.shared.places.of_directory(parent(file)).device
    }

    /// Lists the regular files (and links to such) of `directory` whose name is wanted, in name
    /// order, with size and time. Names that are not UTF-8 are never wanted.
    ///
    /// # Errors
    ///
    /// [`Error`] when the directory or one of the wanted files cannot be looked at. A file that
    /// vanishes meanwhile is left out.
    pub fn list(
        &self,
        directory: &Path,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<Entry>, Error> {
        let mut names = self.list_names(directory)?;
        names.retain(|name| wanted(name));
        let device = self.shared.places.existing(directory)?.device;
        let stats = self.stat_all(&device, directory, &names)?;
        let entries = names.into_iter().zip(stats).filter_map(|(name, stat)| {
            let stat = stat.filter(|stat| stat.is_regular)?;
            Some(Entry { name, stat })
        });
        Ok(entries.collect())
    }

    /// Lists the names of the files (and links) of a directory, in name order, in one request: none
    /// of them is looked at. Names that are not UTF-8 are left out.
    ///
    /// # Errors
    ///
    /// [`Error`] when the directory cannot be listed.
    pub fn list_names(&self, directory: &Path) -> Result<Vec<String>, Error> {
        let device = self.shared.places.existing(directory)?.device;
        let list = || device.request(RequestKind::List, |_| 0, || file_names(directory));
        let mut names =
            unless_stale(list).map_err(|source| Error::new("list", directory, source))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Looks at files of a directory, as many at once as its storage allows where it is far away.
    fn stat_all(
        &self,
        device: &Device,
        directory: &Path,
        names: &[String],
    ) -> Result<Vec<Option<Stat>>, Error> {
        let stat = |name: &String| self.stat(&directory.join(name));
        let threads = if device.storage().class.is_network() { device.most(false) } else { 1 };
        let share = names.len().div_ceil(threads.clamp(1, STAT_THREADS)).max(STATS_OF_A_THREAD);
        if names.len() <= share {
            return names.iter().map(stat).collect();
        }
        let look = |names: &[String]| names.iter().map(stat).collect::<Result<Vec<_>, Error>>();
        std::thread::scope(|scope| {
            let look = &look;
            let spawn = |names| {
                let thread = std::thread::Builder::new().name("lister".into());
                // Where the system grants no more threads this one does the work, in its turn.
                (names, thread.spawn_scoped(scope, move || look(names)).ok())
            };
            let shares: Vec<_> = names.chunks(share).map(spawn).collect();
            let mut stats = Vec::with_capacity(names.len());
            for (names, thread) in shares {
                let looked = thread.map_or_else(
                    || look(names),
                    |thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                );
                stats.extend(looked?);
            }
            Ok(stats)
        })
    }

    /// Lists the names of the directories inside `directory`, in name order.
    ///
    /// # Errors
    ///
    /// [`Error`] when the directory cannot be listed.
    pub fn list_directories(&self, directory: &Path) -> Result<Vec<String>, Error> {
        let place = self.shared.places.existing(directory)?;
        let list = || place.device.request(RequestKind::List, |_| 0, || directory_names(directory));
        let mut names =
            unless_stale(list).map_err(|source| Error::new("list", directory, source))?;
        names.sort_unstable();
        self.shared.places.inherit(directory, &place, names.iter());
        Ok(names)
    }

    /// Looks at a file or directory, through links; `None` when there is nothing of that name.
    ///
    /// # Errors
    ///
    /// [`Error`] when it exists but cannot be looked at.
    pub fn stat(&self, path: &Path) -> Result<Option<Stat>, Error> {
        let device = self.device_of(path);
        let look = || device.request(RequestKind::Stat, |_| 0, || std::fs::metadata(path));
        match unless_stale(look) {
            Ok(metadata) => Ok(Some(Stat::of(&metadata))),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::new("look at", path, source)),
        }
    }

    /// Whether a path is a symbolic link, whatever it points to.
    ///
    /// # Errors
    ///
    /// [`Error`] when it exists but cannot be looked at.
    pub fn is_link(&self, path: &Path) -> Result<bool, Error> {
        let device = self.device_of(path);
        match device.request(RequestKind::Stat, |_| 0, || std::fs::symlink_metadata(path)) {
            Ok(metadata) => Ok(metadata.is_symlink()),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(Error::new("look at", path, source)),
        }
    }

    /// The absolute path without links of the longest existing part of `path`, followed by the
    /// rest as written: tells whether two paths name the same place, existing or not.
    ///
    /// # Errors
    ///
    /// [`Error`] when a part of the path cannot be looked at.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf, Error> {
        let absolute =
            std::path::absolute(path).map_err(|source| Error::new("resolve", path, source))?;
        let device = self.device_of(&absolute);
        let mut missing: Vec<OsString> = Vec::new();
        let mut existing = absolute.as_path();
        loop {
            match device.request(RequestKind::Stat, |_| 0, || std::fs::canonicalize(existing)) {
                Ok(resolved) => {
                    return Ok(missing.into_iter().rev().fold(resolved, |at, part| at.join(part)));
                }
                Err(source) if source.kind() == io::ErrorKind::NotFound => {
                    let (Some(parent), Some(name)) = (existing.parent(), existing.file_name())
                    else {
                        return Err(Error::new("resolve", path, source));
                    };
                    missing.push(name.to_owned());
                    existing = parent;
                }
                Err(source) => return Err(Error::new("resolve", path, source)),
            }
        }
    }

    /// Opens a file for positioned reads.
    ///
    /// # Errors
    ///
    /// [`Error`] when the file cannot be opened, or is not a regular file.
    pub fn open(&self, path: &Path) -> Result<BudgetFile, Error> {
        BudgetFile::open(self, path)
    }

    /// Opens a file that was listed with this size and time. On a network storage, whose
    /// attributes may be old, a difference is looked at again for some seconds.
    ///
    /// # Errors
    ///
    /// [`Error`] when the file cannot be opened, is not a regular file or is another one by now.
    pub fn open_listed(&self, path: &Path, listed: Stat) -> Result<BudgetFile, Error> {
        BudgetFile::open_listed(self, path, listed)
    }

    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// [`Error`] when the file cannot be opened or read.
    pub fn read_file(&self, path: &Path) -> Result<Bytes, Error> {
        self.open(path)?.read_all()
    }

    /// Starts a file that is to appear at `target`: it is written in a staging directory on the
    /// same file system and shows up, whole, when [`StagedFile::publish`] is called.
    pub fn stage(&self, target: &Path) -> StagedFile {
        StagedFile::new(self.clone(), parent(target), target)
    }

    /// As [`Self::stage`], for a target in a directory within the data directory `data`: it is
    /// staged beside `data` as well, which holds finished files only.
    pub fn stage_within(&self, data: &Path, target: &Path) -> StagedFile {
        StagedFile::new(self.clone(), data, target)
    }

    /// Creates a file to append records to, with the directories above it.
    ///
    /// # Errors
    ///
    /// [`Error`] when it exists already or cannot be created.
    pub fn append(&self, path: &Path) -> Result<AppendFile, Error> {
        AppendFile::create(self, path)
    }

    /// Removes a file; one that is gone already is no error. A link is removed, never its target.
    ///
    /// # Errors
    ///
    /// [`Error`] when the file is there and cannot be removed.
    pub fn remove(&self, path: &Path) -> Result<(), Error> {
        let device = self.device_of(path);
        match device.request(RequestKind::Remove, |()| 0, || std::fs::remove_file(path)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::new("remove", path, source))
            }
            _ => Ok(()),
        }
    }

    /// Renames a file within its file system and syncs the directory it arrives in.
    ///
    /// # Errors
    ///
    /// [`Error`] when the rename or the sync fails.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let device = self.device_of(to);
        let failed = |source| Error::new("rename a finished file to", to, source);
        let (above, directory) = (parent(from), parent(to));
        let (Some(old), Some(new)) = (from.file_name(), to.file_name()) else {
            return Err(failed(io::ErrorKind::InvalidFilename.into()));
        };
        let above = self.existing_directory(above).map_err(failed)?;
        let handle = self.directory(directory).map_err(failed)?;
        let rename = || Ok(rustix::fs::renameat(&above, old, &handle, new)?);
        device.request(RequestKind::Rename, |()| 0, rename).map_err(failed)?;
        if device.storage().class == StorageClass::Nfs {
            // Linux's client answers a rename once the server has it on disk, and sends nothing
            // for a sync of a directory.
            return Ok(());
        }
        device
            .request(RequestKind::Sync, |()| 0, || handle.sync_all())
            .map_err(|source| Error::new("sync the directory", directory, source))
    }

    /// A handle to a directory, which is made with its parents if it does not exist. Asks the
    /// storage only the first time. What is done relative to a handle does not look at the
    /// directories above it again.
    pub(crate) fn directory(&self, directory: &Path) -> io::Result<Arc<File>> {
        self.handle(directory, |device| {
            device.request(RequestKind::Create, |()| 0, || std::fs::create_dir_all(directory))
        })
    }

    /// A handle to a directory that exists.
    pub(crate) fn existing_directory(&self, directory: &Path) -> io::Result<Arc<File>> {
        self.handle(directory, |_| Err(io::ErrorKind::NotFound.into()))
    }

    fn handle(
        &self,
        directory: &Path,
        make: impl FnOnce(&Device) -> io::Result<()>,
    ) -> io::Result<Arc<File>> {
        // Locked throughout: two threads that made one directory would look at it a second time,
        // in a request that is counted as a write.
        let mut known = self.shared.directories.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = known.get(directory) {
            return Ok(Arc::clone(handle));
        }
        let device = self.shared.places.of_directory(directory).device;
        let open = || device.request(RequestKind::Open, |_| 0, || File::open(directory));
        let handle = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(&device)?;
                open()?
            }
            opened => opened?,
        };
        let handle = Arc::new(handle);
        known.insert(directory.to_owned(), Arc::clone(&handle));
        Ok(handle)
    }

    /// The directories in which files for `data` may be staged, best first: beside it, so that it
    /// never holds an unfinished file; or inside it, where it is the root of a mounted file system,
    /// since a rename does not cross file systems, and where its parent is not ours to write in.
    pub(crate) fn staging_directories(&self, data: &Path) -> io::Result<Vec<PathBuf>> {
        use std::os::unix::fs::MetadataExt as _;
        if let Some(staging) = self.staging().get(data) {
            return Ok(vec![staging.clone()]);
        }
        let device = |directory: &Path| {
            let handle = self.directory(directory)?;
            let device = self.shared.places.of_directory(directory).device;
            device.request(RequestKind::Stat, |_| 0, || handle.metadata()).map(|stat| stat.dev())
        };
        let absolute = std::path::absolute(data)?;
        let mut candidates = vec![absolute.join(STAGING_DIRECTORY)];
        if let Some(above) = absolute.parent()
            && device(above)? == device(data)?
        {
            candidates.insert(0, above.join(STAGING_DIRECTORY));
        }
        Ok(candidates)
    }

    /// Notes where files for `data` are staged, so that it is looked for only once.
    pub(crate) fn stage_in(&self, data: &Path, staging: &Path) {
        self.staging().insert(data.to_owned(), staging.to_owned());
    }

    fn staging(&self) -> MutexGuard<'_, HashMap<PathBuf, PathBuf>> {
        self.shared.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a directory that was removed.
    pub(crate) fn forget_directory(&self, directory: &Path) {
        let mut known = self.shared.directories.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(directory);
    }

    /// What was read of a file before, in this process.
    pub(crate) fn known_pages(&self, metadata: &std::fs::Metadata) -> Arc<KnownPages> {
        let mut files = self.shared.known_pages.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= KNOWN_FILES {
            files.retain(|_, known| Arc::strong_count(known) > 1);
        }
        Arc::clone(files.entry(Stat::of(metadata).identity).or_default())
    }

    /// Whether this is the first call for `directory`.
    pub(crate) fn first_sweep(&self, directory: &Path) -> bool {
        let mut swept = self.shared.swept.lock().unwrap_or_else(PoisonError::into_inner);
        swept.insert(directory.to_owned())
    }
}

/// Tries again, a few times and after growing pauses, while the server says that the name leads to
/// a file which was replaced meanwhile.
pub(crate) fn unless_stale<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for pause in stale_pauses() {
        match attempt() {
            Err(error) if is_stale(&error) => std::thread::sleep(pause),
            answer => return answer,
        }
    }
    attempt()
}

/// The pauses between attempts at something that was replaced, as many as are worth making.
pub(crate) fn stale_pauses() -> impl Iterator<Item = Duration> {
    (0..STALE_ATTEMPTS - 1).map(|attempt| STALE_PAUSE * 2_u32.pow(attempt))
}

/// Whether a name, or an open file, has come to lead to something that was replaced.
pub(crate) fn is_stale(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StaleNetworkFileHandle
}

/// The directory that holds `path`; the current one for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn file_names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    Ok(names)
}

fn directory_names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_holds_wanted_files_in_name_order_and_one_stat_each() {
        let directory = tempfile::tempdir().unwrap();
        let budget = Budget::private();
        for name in ["b.zip", "a.zip", "c.txt"] {
            let mut file = budget.stage(&directory.path().join("raw").join(name));
            io::Write::write_all(&mut file, name.as_bytes()).unwrap();
            file.publish().unwrap();
        }
        let before = budget.report().reads.stat;
        let listed = budget.list(&directory.path().join("raw"), |n| n.ends_with(".zip")).unwrap();
        let names: Vec<_> = listed.iter().map(|e| (e.name.as_str(), e.stat.size)).collect();
        assert_eq!(names, [("a.zip", 5), ("b.zip", 5)]);
        assert_eq!(budget.report().reads.stat - before, 2);
    }

    #[test]
    fn a_pipe_is_no_file_to_read_and_nothing_waits_for_its_writer() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe.zip");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let budget = Budget::private();
        assert_eq!(budget.list(directory.path(), |_| true).unwrap(), []);
        let error = budget.open(&pipe).unwrap_err();
        assert_eq!(error.source.to_string(), "not a regular file");
    }

    #[test]
    fn what_is_missing_is_none_or_an_error_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        let budget = Budget::private();
        assert_eq!(budget.stat(&missing).unwrap(), None);
        let error = budget.list(&missing, |_| true).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot list {}", missing.display()));
        assert!(error.is_not_found());
        budget.remove(&missing).unwrap();
    }

    #[test]
    fn a_path_resolves_through_links_though_its_end_does_not_exist() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().join("real");
        let budget = Budget::private();
        budget.directory(&real).unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(
            budget.resolve(&link.join("new/file")).unwrap(),
            budget.resolve(&real).unwrap().join("new/file")
        );
    }
}
