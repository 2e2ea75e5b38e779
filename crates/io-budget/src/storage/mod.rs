//! What an archive's directories lie on, and what that permits.
//!
//! | module | holds |
//! |---|---|
//! | `class` | the kinds of storage, by a file system's marks |
//! | `disk` | the disk below a block device |
//! | `load` | what the kernel counts of a storage |
//! | `mountstats`, `diskstats` | where those counters are: the NFS client's, a block device's |
//! | `mountinfo` | the mounts of this process's name space |
//! | `policy` | limits and sizes by class |
//!
//! Only the kernel's own files are read here, never the storage itself.

mod class;
mod disk;
mod diskstats;
mod load;
mod mountinfo;
mod mountstats;
mod policy;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use class::{StorageClass, UnknownStorageClass};
pub use load::{Delta, Mean, Reading, Traffic};
pub use mountinfo::Mount;
pub use policy::{AutoRange, LanePolicy, Policy};

use disk::Disk;

/// Where the kernel tells of mounts and disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    proc: PathBuf,
    sys: PathBuf,
}

/// What a directory lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// Its kind.
    pub class: StorageClass,
    /// Type of the file system, as `nfs4`; empty where the mount is not listed.
    pub fs_type: String,
    /// What is mounted, as `nas:/export`; empty where the mount is not listed.
    pub source: String,
    /// Where it is mounted; empty where the mount is not listed.
    pub mount_point: PathBuf,
    /// Options of the mount and of its file system, separated by commas.
    pub mount_options: String,
    /// Name of what all users of the storage wait for: the server, else the disk, else the mount.
    /// Fit for a file name: 1 to 100 of the characters `A-Z a-z 0-9 . _ : -`, no dot in front.
    pub key: String,
    /// The largest read request that the file system sends, in bytes, where it says so.
    pub request_bytes: Option<u64>,
    /// The largest write request that the file system sends, in bytes, where it says so.
    pub write_bytes: Option<u64>,
    /// Major and minor number of the whole disk below, where there is one.
    pub disk: Option<(u32, u32)>,
    /// What the class follows from, in words.
    pub why: String,
}

/// Length of a key in bytes, so that it and a suffix make a file name.
const KEY_BYTES: usize = 100;

impl Default for System {
    fn default() -> Self {
        Self::new(PathBuf::from("/proc"), PathBuf::from("/sys"))
    }
}

impl System {
    /// A system whose procfs and sysfs are at other places than the usual.
    pub fn new(proc: PathBuf, sys: PathBuf) -> Self {
        Self { proc, sys }
    }

    /// The mounts of this process's name space; none where they cannot be read.
    pub fn mounts(&self) -> Vec<Mount> {
        std::fs::read(self.proc.join("self/mountinfo"))
            .map(|text| mountinfo::parse(&text))
            .unwrap_or_default()
    }

    /// The storage of a file: `mount_id` and `device` (major, minor) as statx(2) gives them,
    /// `magic` as statfs(2) does (`f_type`). What cannot be found out leaves the class unknown.
    pub fn storage(&self, mount_id: u64, magic: u64, device: (u32, u32)) -> Storage {
        let mounts = self.mounts();
        // Kernels before 5.8 give no id, but all mounts of a device are of one file system.
        let mount = mounts
            .iter()
            .find(|mount| mount.id == mount_id)
            .or_else(|| mounts.iter().rfind(|mount| mount.device() == device));
        let (fs_type, source) =
            mount.map_or(("", ""), |mount| (mount.fs_type.as_str(), mount.source.as_str()));
        let told = StorageClass::of_file_system(magic, fs_type, source);
        let disk = if told.is_none() { self.disk(device, source) } else { None };
        let class = told
            .or_else(|| disk?.rotational.map(StorageClass::of_disk))
            .unwrap_or(StorageClass::Unknown);
        let key = match (mountinfo::server(fs_type, source), disk) {
            (Some(server), _) => key(server),
            (None, Some(Disk { number: (major, minor), .. })) => format!("{major}:{minor}"),
            (None, None) => mount.map_or_else(|| format!("mount-{mount_id}"), mount_key),
        };
        Storage {
            class,
            fs_type: fs_type.to_owned(),
            source: source.to_owned(),
            mount_point: mount.map(|mount| mount.mount_point.clone()).unwrap_or_default(),
            mount_options: mount.map(Mount::all_options).unwrap_or_default(),
            key,
            request_bytes: mount.and_then(Mount::read_bytes),
            write_bytes: mount.and_then(Mount::write_bytes),
            disk: disk.map(|disk| disk.number),
            why: why(class, magic, mount, disk),
        }
    }

    /// What the kernel counts of a storage, where it does: for NFS of the server, for a disk of the
    /// whole disk.
    pub fn reading(&self, storage: &Storage) -> Option<Reading> {
        if let Some(disk) = storage.disk {
            return diskstats::Reading::of_disk(&self.sys, disk).map(Reading::Disk);
        }
        let server = mountinfo::server(&storage.fs_type, &storage.source)?;
        let mountstats = std::fs::read(self.proc.join("self/mountstats")).ok()?;
        mountstats::Reading::of_server(&mountstats, &self.mounts(), server).map(Reading::Nfs)
    }

    /// The disk of a file system. Some file systems, as btrfs, show a device of their own making
    /// (major number 0) and name the disk as their source.
    fn disk(&self, device: (u32, u32), source: &str) -> Option<Disk> {
        if device.0 == 0 {
            return Disk::by_name(&self.sys, source);
        }
        let unsaid = Disk { number: device, rotational: None };
        Some(Disk::by_number(&self.sys, device).unwrap_or(unsaid))
    }
}

impl Storage {
    /// The same storage, taken for another class because a setting says so.
    #[must_use]
    pub fn with_class(self, class: StorageClass) -> Self {
        let why = format!("{}, taken for {class} because a setting says so", self.why);
        Self { class, why, ..self }
    }
}

/// What a class follows from.
fn why(class: StorageClass, magic: u64, mount: Option<&Mount>, disk: Option<Disk>) -> String {
    let file_system = mount
        .map_or_else(|| format!("a file system of type {magic:#x}"), |mount| mount.fs_type.clone());
    if let Some(Disk { number: (major, minor), rotational }) = disk {
        let says = match rotational {
            Some(true) => "says it is rotational",
            Some(false) => "says it is not rotational",
            None => "does not say whether it is rotational",
        };
        return format!("{file_system} on block device {major}:{minor}, which {says}");
    }
    let origin = mount
        .filter(|mount| !mount.source.is_empty() && mount.source != mount.fs_type)
        .map_or_else(String::new, |mount| format!(" from {}", mount.source));
    let place = mount.map_or_else(
        || String::from(", not among the mounts"),
        |mount| format!(", mounted on {}", mount.mount_point.display()),
    );
    let doubt =
        if class == StorageClass::Unknown { ", which may keep its files anywhere" } else { "" };
    format!("{file_system}{origin}{place}{doubt}")
}

/// A mount as a key that is the same in later runs, though ids are given anew.
fn mount_key(mount: &Mount) -> String {
    let mount_point = mount.mount_point.to_string_lossy();
    // The end of a long path tells more than its beginning.
    let room = KEY_BYTES.saturating_sub(mount.fs_type.len() + 1);
    let skipped = mount_point.chars().count().saturating_sub(room);
    let end: String = mount_point.chars().skip(skipped).collect();
    key(&format!("{}:{end}", mount.fs_type))
}

/// A server's name as a key. A dot in front would hide the file or leave the directory.
fn key(name: &str) -> String {
    let plain = |character: char| {
        let kept = character.is_ascii_alphanumeric() || "._:-".contains(character);
        if kept { character } else { '_' }
    };
    let key: String = name.chars().map(plain).take(KEY_BYTES).collect();
    match key.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None if key.is_empty() => String::from("_"),
        None => key,
    }
}
