//! Finds the disk below a block device in sysfs, and whether it turns.

use std::path::{Path, PathBuf};

/// The disk below a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Disk {
    /// Major and minor number of the whole disk. A mapping that lies on one disk counts as that
    /// disk; one that lies on several stands for them.
    pub(crate) number: (u32, u32),
    /// Whether any of it turns, as far as the system says.
    pub(crate) rotational: Option<bool>,
}

/// Mappings may lie on mappings: no real system stacks more.
const DEEPEST: usize = 16;

impl Disk {
    /// The disk below the block device of this major and minor number.
    pub(crate) fn by_number(sys: &Path, (major, minor): (u32, u32)) -> Option<Self> {
        Self::below(&sys.join(format!("dev/block/{major}:{minor}")), DEEPEST)
    }

    /// The disk below a block device that is named as `/dev/sda1` or `/dev/mapper/vg-data`.
    pub(crate) fn by_name(sys: &Path, device: &str) -> Option<Self> {
        let name = device.strip_prefix("/dev/")?;
        let blocks = sys.join("class/block");
        if let Some(mapped) = name.strip_prefix("mapper/") {
            let block = entries(&blocks)
                .into_iter()
                .find(|block| text(&block.join("dm/name")).is_some_and(|name| name == mapped))?;
            return Self::below(&block, DEEPEST);
        }
        // The kernel's own names hold no slash: sysfs shows `cciss/c0d0` with a mark in its place.
        Self::below(&blocks.join(name.replace('/', "!")), DEEPEST)
    }

    /// `directory` is a block device's in sysfs.
    fn below(directory: &Path, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let directory = std::fs::canonicalize(directory).ok()?;
        let whole = if text(&directory.join("partition")).is_some() {
            directory.parent()?
        } else {
            &directory
        };
        let below: Vec<Self> = entries(&whole.join("slaves"))
            .iter()
            .filter_map(|slave| Self::below(slave, depth))
            .collect();
        if let [only] = below[..] {
            return Some(only);
        }
        let rotational = below
            .iter()
            .filter_map(|disk| disk.rotational)
            .reduce(|one, other| one || other)
            .or_else(|| flag(&text(&whole.join("queue/rotational"))?));
        Some(Self { number: number(&text(&whole.join("dev"))?)?, rotational })
    }
}

/// The paths in a directory, in order of name; none where it cannot be listed.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(listing) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

fn text(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim_end().to_owned())
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Builds block devices as sysfs shows them.
#[cfg(test)]
pub(crate) mod fake {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// Adds a device: its directory under `devices`, the links to it, and its files.
    fn add(sys: &Path, place: &str, number: &str, files: &[(&str, &str)]) {
        let directory = sys.join("devices").join(place);
        for (name, text) in [("dev", number)].iter().chain(files) {
            let file = directory.join(name);
            fs::create_dir_all(file.parent().expect("in the device")).expect("created");
            fs::write(file, format!("{text}\n")).expect("written");
        }
        let name = place.rsplit('/').next().expect("a name");
        for link in [sys.join("dev/block").join(number), sys.join("class/block").join(name)] {
            fs::create_dir_all(link.parent().expect("in sysfs")).expect("created");
            symlink(&directory, link).expect("linked");
        }
    }

    /// A disk with one partition, given by name and number.
    pub(crate) fn disk(sys: &Path, name: &str, number: &str, partition: (&str, &str), flag: &str) {
        let place = format!("pci0000:00/{name}");
        add(sys, &place, number, &[("queue/rotational", flag)]);
        let (partition, partition_number) = partition;
        add(sys, &format!("{place}/{partition}"), partition_number, &[("partition", "1")]);
    }

    /// A mapping over other devices. The device mapper's have a `dm_name`; for others it is empty.
    pub(crate) fn mapping(sys: &Path, name: &str, number: &str, dm_name: &str, over: &[&str]) {
        let place = format!("virtual/block/{name}");
        let files = [("queue/rotational", "0"), ("dm/name", dm_name)];
        add(sys, &place, number, if dm_name.is_empty() { &files[..1] } else { &files });
        let slaves = sys.join("devices").join(&place).join("slaves");
        fs::create_dir_all(&slaves).expect("created");
        for slave in over {
            symlink(sys.join("class/block").join(slave), slaves.join(slave)).expect("linked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two disks that turn (8:0, 8:16), one that does not (259:0), a RAID over the first two, a
    /// volume on it, one on the third disk's partition, and one over all kinds.
    fn tree() -> tempfile::TempDir {
        let sys = tempfile::tempdir().expect("a directory");
        fake::disk(sys.path(), "sda", "8:0", ("sda1", "8:1"), "1");
        fake::disk(sys.path(), "sdb", "8:16", ("sdb1", "8:17"), "1");
        fake::disk(sys.path(), "nvme0n1", "259:0", ("nvme0n1p1", "259:1"), "0");
        fake::mapping(sys.path(), "md0", "9:0", "", &["sda1", "sdb1"]);
        fake::mapping(sys.path(), "dm-0", "253:0", "vg-archive", &["md0"]);
        fake::mapping(sys.path(), "dm-1", "253:1", "vg-fast", &["nvme0n1p1"]);
        fake::mapping(sys.path(), "dm-2", "253:2", "mixed", &["nvme0n1p1", "sda1"]);
        sys
    }

    fn disk(number: (u32, u32), rotational: bool) -> Disk {
        Disk { number, rotational: Some(rotational) }
    }

    #[test]
    fn a_partition_is_its_disk() {
        let sys = tree();
        assert_eq!(Disk::by_number(sys.path(), (8, 0)), Some(disk((8, 0), true)));
        assert_eq!(Disk::by_number(sys.path(), (8, 1)), Some(disk((8, 0), true)));
        assert_eq!(Disk::by_number(sys.path(), (259, 1)), Some(disk((259, 0), false)));
        assert_eq!(Disk::by_number(sys.path(), (7, 7)), None);
    }

    #[test]
    fn a_mapping_is_what_it_lies_on() {
        let sys = tree();
        assert_eq!(Disk::by_number(sys.path(), (9, 0)), Some(disk((9, 0), true)));
        assert_eq!(
            Disk::by_number(sys.path(), (253, 0)),
            Some(disk((9, 0), true)),
            "a volume on RAID"
        );
        assert_eq!(Disk::by_number(sys.path(), (253, 1)), Some(disk((259, 0), false)));
        assert_eq!(
            Disk::by_number(sys.path(), (253, 2)),
            Some(disk((253, 2), true)),
            "any that turns"
        );
    }

    #[test]
    fn devices_are_found_by_name() {
        let sys = tree();
        assert_eq!(Disk::by_name(sys.path(), "/dev/nvme0n1p1"), Some(disk((259, 0), false)));
        assert_eq!(Disk::by_name(sys.path(), "/dev/mapper/vg-archive"), Some(disk((9, 0), true)));
        for name in ["/dev/mapper/none", "/dev/sdz", "/dev/", "/dev/..", "/dev/root", "sda", ""] {
            assert_eq!(Disk::by_name(sys.path(), name), None, "{name}");
        }
    }

    #[test]
    fn a_missing_flag_and_a_circle_are_survived() {
        let sys = tree();
        fake::disk(sys.path(), "sdc", "8:32", ("sdc1", "8:33"), "?");
        let unsaid = Disk { number: (8, 32), rotational: None };
        assert_eq!(Disk::by_number(sys.path(), (8, 33)), Some(unsaid));
        fake::mapping(sys.path(), "dm-3", "253:3", "circle", &["dm-3"]);
        assert_eq!(Disk::by_number(sys.path(), (253, 3)), Some(disk((253, 3), false)));
    }
}
