//! Kinds of storage, and how a file system's own marks tell them. Disks are looked up in `disk`,
//! and what a class permits is the policy's.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What the bytes of a directory lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StorageClass {
    /// Memory.
    Tmpfs,
    /// A local disk that seeks at no cost.
    Ssd,
    /// A local disk that turns.
    Hdd,
    /// A share of an NFS server.
    Nfs,
    /// A share of an SMB server.
    Smb,
    /// A file system in user space that is not known to be an object store.
    Fuse,
    /// A bucket mounted through a file system in user space.
    ObjectStore,
    /// A file system over many servers: Lustre, GPFS, `CephFS`, `BeeGFS`.
    Parallel,
    /// Anything else.
    Unknown,
}

/// A name that no storage class has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no storage class `{name}`; the classes are {}", all_names())]
pub struct UnknownStorageClass {
    /// The name that was asked for.
    pub name: String,
}

// File system magic numbers as statfs(2) gives them: the kernel's `linux/magic.h`, and for file
// systems outside the kernel their own sources.
const TMPFS: u64 = 0x0102_1994;
const NFS: u64 = 0x6969;
const CIFS: u64 = 0xFF53_4D42;
const SMB2: u64 = 0xFE53_4D42;
const FUSE: u64 = 0x6573_5546;
const LUSTRE: u64 = 0x0BD0_0BD0;
const GPFS: u64 = 0x4750_4653;
const CEPH: u64 = 0x00C3_6400;
const BEEGFS: u64 = 0x1983_0326;

/// Programs that mount buckets, as a file system's subtype or source begins.
const BUCKET_MOUNTERS: [&str; 7] =
    ["s3fs", "gcsfuse", "rclone", "mount-s3", "mountpoint-s3", "juicefs", "blobfuse"];

impl StorageClass {
    /// Every class.
    pub const ALL: [Self; 9] = [
        Self::Tmpfs,
        Self::Ssd,
        Self::Hdd,
        Self::Nfs,
        Self::Smb,
        Self::Fuse,
        Self::ObjectStore,
        Self::Parallel,
        Self::Unknown,
    ];

    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tmpfs => "tmpfs",
            Self::Ssd => "ssd",
            Self::Hdd => "hdd",
            Self::Nfs => "nfs",
            Self::Smb => "smb",
            Self::Fuse => "fuse",
            Self::ObjectStore => "object-store",
            Self::Parallel => "parallel",
            Self::Unknown => "unknown",
        }
    }

    /// Whether written data may leave over a wire, so that a flush of many dirty pages becomes
    /// many requests at once. Storage of which nothing is known is taken for such.
    pub fn is_network(self) -> bool {
        match self {
            Self::Tmpfs | Self::Ssd | Self::Hdd => false,
            Self::Nfs
            | Self::Smb
            | Self::Fuse
            | Self::ObjectStore
            | Self::Parallel
            | Self::Unknown => true,
        }
    }

    /// The class that a file system's magic number (`f_type` of statfs), its type and its source
    /// tell; `None` where the block device below decides.
    pub(crate) fn of_file_system(magic: u64, fs_type: &str, source: &str) -> Option<Self> {
        // The field is a signed word: magic numbers with the highest bit may come sign-extended.
        match (magic & 0xFFFF_FFFF, fs_type) {
            // Layers and a virtual machine's host may keep their files anywhere; virtiofs carries
            // the magic number of FUSE.
            (_, "overlay" | "9p" | "virtiofs") => Some(Self::Unknown),
            (TMPFS, _) | (_, "tmpfs") => Some(Self::Tmpfs),
            (NFS, _) | (_, "nfs" | "nfs4") => Some(Self::Nfs),
            (CIFS | SMB2, _) | (_, "cifs" | "smb3") => Some(Self::Smb),
            (LUSTRE | GPFS | CEPH | BEEGFS, _) | (_, "lustre" | "gpfs" | "ceph" | "beegfs") => {
                Some(Self::Parallel)
            }
            (FUSE, _) => Some(Self::of_fuse(fs_type, source)),
            _ if fs_type == "fuse" || fs_type.starts_with("fuse.") => {
                Some(Self::of_fuse(fs_type, source))
            }
            _ => None,
        }
    }

    /// The class of a local disk.
    pub(crate) fn of_disk(rotational: bool) -> Self {
        if rotational { Self::Hdd } else { Self::Ssd }
    }

    /// A program without a subtype, as mount-s3, names itself in the source.
    fn of_fuse(fs_type: &str, source: &str) -> Self {
        let program = fs_type.strip_prefix("fuse.").unwrap_or(source);
        if BUCKET_MOUNTERS.iter().any(|mounter| program.starts_with(mounter)) {
            Self::ObjectStore
        } else {
            Self::Fuse
        }
    }
}

impl fmt::Display for StorageClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for StorageClass {
    type Err = UnknownStorageClass;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownStorageClass { name: name.to_owned() };
        Self::ALL.into_iter().find(|class| class.name() == name).ok_or_else(unknown)
    }
}

fn all_names() -> String {
    StorageClass::ALL.map(StorageClass::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_read_back_from_its_name() {
        for class in StorageClass::ALL {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        let error = "floppy".parse::<StorageClass>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no storage class `floppy`; the classes are tmpfs, ssd, hdd, nfs, smb, fuse, \
             object-store, parallel, unknown"
        );
    }

    #[test]
    fn settings_and_display_use_the_same_names() {
        use serde::de::IntoDeserializer;
        use serde::de::value::{Error, StrDeserializer};
        for class in StorageClass::ALL {
            let name: StrDeserializer<'_, Error> = class.name().into_deserializer();
            assert_eq!(StorageClass::deserialize(name), Ok(class));
        }
    }

    #[test]
    fn file_systems_are_told_by_magic_number_and_by_type() {
        let check = |magic, fs_type, source, class| {
            let told = StorageClass::of_file_system(magic, fs_type, source);
            assert_eq!(told, class, "{magic:#x} {fs_type} {source}");
        };
        check(0x0102_1994, "tmpfs", "tmpfs", Some(StorageClass::Tmpfs));
        check(0x6969, "nfs4", "nas:/export", Some(StorageClass::Nfs));
        check(0, "nfs", "nas:/export", Some(StorageClass::Nfs));
        check(0x6969, "", "", Some(StorageClass::Nfs));
        check(0xFE53_4D42, "cifs", "//files/team", Some(StorageClass::Smb));
        check(0xFFFF_FFFF_FF53_4D42, "", "", Some(StorageClass::Smb));
        check(0x0BD0_0BD0, "lustre", "10.0.0.1@tcp:/scratch", Some(StorageClass::Parallel));
        check(0x1983_0326, "beegfs", "beegfs_nodev", Some(StorageClass::Parallel));
        check(0x6573_5546, "fuse.sshfs", "me@host:/data", Some(StorageClass::Fuse));
        check(0x6573_5546, "fuseblk", "/dev/sdc1", Some(StorageClass::Fuse));
        check(0x6573_5546, "fuse.s3fs", "s3fs", Some(StorageClass::ObjectStore));
        check(0x6573_5546, "fuse.gcsfuse", "bucket", Some(StorageClass::ObjectStore));
        check(0x6573_5546, "fuse.rclone", "remote:bucket", Some(StorageClass::ObjectStore));
        check(0x6573_5546, "fuse.juicefs", "JuiceFS:data", Some(StorageClass::ObjectStore));
        check(0x6573_5546, "fuse.blobfuse2", "blobfuse2", Some(StorageClass::ObjectStore));
        check(0x6573_5546, "fuse", "mountpoint-s3", Some(StorageClass::ObjectStore));
        check(0x6573_5546, "fuse.sshfs", "s3fs:/", Some(StorageClass::Fuse));
        check(0x6573_5546, "virtiofs", "share", Some(StorageClass::Unknown));
        check(0x794C_7630, "overlay", "overlay", Some(StorageClass::Unknown));
        check(0x0102_1997, "9p", "host", Some(StorageClass::Unknown));
        check(0xEF53, "ext4", "/dev/sda1", None);
        check(0x9123_683E, "btrfs", "/dev/nvme0n1p3", None);
    }
}
