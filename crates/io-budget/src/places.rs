//! Which storage a directory or file stands on. Each mount is examined once; of each directory one
//! look at its mount is enough.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, fstatfs, statfs, statx};

use crate::device::Device;
use crate::host_share::{HostDirectory, default_parent};
use crate::options::{Options, Sharing};
use crate::storage::{Storage, StorageClass};
use crate::{Error, RequestKind};

/// Time between two turns of the governors.
const TURN: Duration = Duration::from_millis(50);

/// Where something stands.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The storage.
    pub(crate) device: Arc<Device>,
    /// The system's number of the file system: files with another one stand elsewhere.
    pub(crate) number: u64,
}

/// All places that were asked for.
#[derive(Debug)]
pub(crate) struct Places {
    options: Options,
    known: Mutex<Known>,
    governors: Mutex<Option<Governors>>,
}

#[derive(Debug, Default)]
struct Known {
    directories: HashMap<PathBuf, Place>,
    /// By mount, and by the class that the user gave.
    mounts: HashMap<(u64, Option<StorageClass>), Arc<Device>>,
    /// By the name under which a budget is shared: two mounts of one server are one storage.
    devices: HashMap<(String, StorageClass), Arc<Device>>,
    /// Last parts of the paths of all mount points.
    mount_points: Option<BTreeSet<PathBuf>>,
}

impl Places {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, known: Mutex::default(), governors: Mutex::default() }
    }

    /// What the user set.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Where a directory stands; one that does not exist yet will stand where the one above it
    /// does.
    pub(crate) fn of_directory(&self, directory: &Path) -> Place {
        self.look_at(directory).0
    }

    /// As [`Self::of_directory`], and whether the directory was just seen to be missing.
    fn look_at(&self, directory: &Path) -> (Place, bool) {
        let mut known = self.known();
        let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        if let Some(place) = known.directories.get(&absolute) {
            return (place.clone(), false);
        }
        let class = self.class_of(&absolute);
        let started = Instant::now();
        let mut looks = 0;
        let mut found = None;
        for at in absolute.ancestors() {
            // What is missing below a directory will be made there, on its storage.
            if looks > 0
                && let Some(place) = known.directories.get(at).filter(|_| class.is_none())
            {
                found = Some(place.clone());
                break;
            }
            looks += 1;
            if let Ok(seen) = statx(CWD, at, AtFlags::empty(), StatxFlags::MNT_ID) {
                let f_type = || statfs(at).ok().map(|stat| magic(stat.f_type));
                found = Some(self.place(&mut known, &seen, class, f_type));
                break;
            }
        }
        let place = found.unwrap_or_else(|| self.place_unknown(&mut known, class));
        // They were asked for before it was known of which storage.
        let took = started.elapsed() / looks;
        (0..looks).for_each(|_| place.device.count(RequestKind::Stat, took));
        place.device.note_directory(absolute.clone());
        known.directories.insert(absolute, place.clone());
        (place, looks > 1)
    }

    /// Where a directory stands that is to be listed.
    ///
    /// # Errors
    ///
    /// [`Error`] when it was just seen to be missing: it need not be asked for again.
    pub(crate) fn existing(&self, directory: &Path) -> Result<Place, Error> {
        match self.look_at(directory) {
            (_, true) => Err(Error::new("list", directory, io::ErrorKind::NotFound.into())),
            (place, false) => Ok(place),
        }
    }

    /// Where an open file stands that is not on the file system of its directory, as behind a
    /// link.
    pub(crate) fn of_file(&self, file: &File) -> Arc<Device> {
        let mut known = self.known();
        let seen = statx(file.as_fd(), c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID);
        match seen {
            Ok(seen) => {
                let f_type = || fstatfs(file).ok().map(|stat| magic(stat.f_type));
                self.place(&mut known, &seen, None, f_type).device
            }
            Err(_) => self.place_unknown(&mut known, None).device,
        }
    }

    /// Notes that these directories, which were listed as such, stand where the one that holds
    /// them does. One that may be a mount point is looked at when it is used.
    pub(crate) fn inherit<'a>(
        &self,
        above: &Path,
        place: &Place,
        names: impl Iterator<Item = &'a String>,
    ) {
        let mut known = self.known();
        let Known { directories, mount_points, .. } = &mut *known;
        let mount_points = mount_points.get_or_insert_with(|| {
            let mounts = self.options.system.mounts();
            mounts.iter().filter_map(|mount| Some(mount.mount_point.file_name()?.into())).collect()
        });
        let above = std::path::absolute(above).unwrap_or_else(|_| above.to_owned());
        for name in names {
            let path = above.join(name);
            if !mount_points.contains(Path::new(name)) && self.class_of(&path).is_none() {
                directories.entry(path).or_insert_with(|| place.clone());
            }
        }
    }

    /// All storages that were asked for.
    pub(crate) fn devices(&self) -> Vec<Arc<Device>> {
        let mut devices: Vec<_> = self.known().devices.values().map(Arc::clone).collect();
        devices.sort_by(|one, other| one.storage().key.cmp(&other.storage().key));
        devices
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The class that the user gave to a directory or to the nearest one above it.
    fn class_of(&self, directory: &Path) -> Option<StorageClass> {
        directory.ancestors().find_map(|at| self.options.classes.get(at).copied())
    }

    fn place(
        &self,
        known: &mut Known,
        seen: &Statx,
        class: Option<StorageClass>,
        f_type: impl FnOnce() -> Option<u64>,
    ) -> Place {
        let number = rustix::fs::makedev(seen.stx_dev_major, seen.stx_dev_minor);
        let mount = (seen.stx_mnt_id, class);
        let device = known.mounts.get(&mount).cloned().unwrap_or_else(|| {
            let device = (seen.stx_dev_major, seen.stx_dev_minor);
            let f_type = f_type().unwrap_or(0);
            let storage = self.options.system.storage(seen.stx_mnt_id, f_type, device);
            let device = self.device(known, storage, class);
            known.mounts.insert(mount, Arc::clone(&device));
            device
        });
        Place { device, number }
    }

    fn place_unknown(&self, known: &mut Known, class: Option<StorageClass>) -> Place {
        let storage = self.options.system.storage(0, 0, (0, 0));
        Place { device: self.device(known, storage, class), number: 0 }
    }

    fn device(
        &self,
        known: &mut Known,
        storage: Storage,
        class: Option<StorageClass>,
    ) -> Arc<Device> {
        let storage = match class {
            Some(class) => storage.with_class(class),
            None => storage,
        };
        let key = self.options.key.clone().unwrap_or_else(|| storage.key.clone());
        let named = (key.clone(), storage.class);
        if let Some(device) = known.devices.get(&named) {
            return Arc::clone(device);
        }
        let device = Arc::new(Device::new(storage, &self.options, self.share(&key)));
        if device.is_governed() {
            self.govern(&device);
        }
        known.devices.insert(named, Arc::clone(&device));
        device
    }

    /// The directory by which processes share a budget of this name, or why they do not: empty
    /// where nobody asked for it.
    fn share(&self, key: &str) -> Result<HostDirectory, String> {
        let parent = match &self.options.sharing {
            Sharing::Process => return Err(String::new()),
            Sharing::Host => default_parent(),
            Sharing::Directory(directory) => directory.clone(),
        };
        HostDirectory::open(&parent, key).map_err(|error| error.to_string())
    }

    fn govern(&self, device: &Arc<Device>) {
        let mut governors = self.governors.lock().unwrap_or_else(PoisonError::into_inner);
        if governors.is_none() {
            *governors = Governors::start();
        }
        if let Some(governors) = &*governors {
            governors.watch(device);
        }
    }
}

fn magic(f_type: rustix::fs::FsWord) -> u64 {
    // The kernel's word may be signed; the magic number has 32 bits.
    u64::try_from(f_type & 0xffff_ffff).unwrap_or(0)
}

/// The thread on which governors take their turns. It ends when this is dropped.
#[derive(Debug)]
struct Governors {
    devices: Option<Sender<Arc<Device>>>,
    thread: Option<JoinHandle<()>>,
}

impl Governors {
    /// None where the system grants no thread: limits then stay as they are.
    fn start() -> Option<Self> {
        let (send, receive) = channel::<Arc<Device>>();
        let run = move || {
            let mut devices = Vec::new();
            loop {
                match receive.recv_timeout(TURN) {
                    Ok(device) => devices.push(device),
                    Err(RecvTimeoutError::Timeout) => devices.iter().for_each(|it| it.govern()),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        };
        let thread = std::thread::Builder::new().name("governor".into()).spawn(run).ok()?;
        Some(Self { devices: Some(send), thread: Some(thread) })
    }

    fn watch(&self, device: &Arc<Device>) {
        if let Some(devices) = &self.devices {
            // The thread ends only after this sender is gone.
            let _sent = devices.send(Arc::clone(device));
        }
    }
}

impl Drop for Governors {
    fn drop(&mut self) {
        self.devices = None;
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
