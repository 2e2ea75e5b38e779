//! Whole storages, told from fixture files.

use super::*;
use proptest::prelude::*;
use std::fs;
use std::time::Duration;

/// A system with the fixtures' mounts: `/` on a disk that does not turn, `/archive` on a volume
/// over two disks that do, btrfs on one of them and on another volume, and shares.
struct Fixture {
    _directory: tempfile::TempDir,
    system: System,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().expect("a directory");
    let (proc, sys) = (directory.path().join("proc"), directory.path().join("sys"));
    fs::create_dir_all(proc.join("self")).expect("created");
    let mountinfo = include_bytes!("fixtures/mountinfo");
    fs::write(proc.join("self/mountinfo"), mountinfo).expect("written");
    let mountstats = include_bytes!("fixtures/mountstats-before");
    fs::write(proc.join("self/mountstats"), mountstats).expect("written");
    disk::fake::disk(&sys, "nvme0n1", "259:0", ("nvme0n1p1", "259:1"), "0");
    disk::fake::disk(&sys, "sda", "8:0", ("sda1", "8:1"), "1");
    disk::fake::disk(&sys, "sdb", "8:16", ("sdb1", "8:17"), "1");
    disk::fake::mapping(&sys, "md0", "9:0", "", &["sda1", "sdb1"]);
    disk::fake::mapping(&sys, "dm-0", "253:0", "vg-archive", &["md0"]);
    disk::fake::mapping(&sys, "dm-1", "253:1", "vg-fast", &["nvme0n1p1"]);
    Fixture { system: System::new(proc, sys), _directory: directory }
}

/// Class, key and reason.
type Told = (StorageClass, &'static str, &'static str);

/// Compares what is told of the file with this mount id, magic number and device.
fn check(fixture: &Fixture, (mount_id, magic, device): (u64, u64, (u32, u32)), expected: Told) {
    let storage = fixture.system.storage(mount_id, magic, device);
    let told = (storage.class, storage.key.as_str(), storage.why.as_str());
    assert_eq!(told, expected, "mount {mount_id}");
}

#[test]
fn local_file_systems_are_told_by_their_disk() {
    let fixture = fixture();
    let check = |mount_id, magic, device, told| check(&fixture, (mount_id, magic, device), told);
    let on_nvme = "ext4 on block device 259:0, which says it is not rotational";
    check(27, 0xEF53, (259, 1), (StorageClass::Ssd, "259:0", on_nvme));
    let on_raid = "xfs on block device 9:0, which says it is rotational";
    check(40, 0x5846_5342, (253, 0), (StorageClass::Hdd, "9:0", on_raid));
    check(41, 0x5846_5342, (253, 0), (StorageClass::Hdd, "9:0", on_raid));
    let btrfs_on_disk = "btrfs on block device 8:0, which says it is rotational";
    check(42, 0x9123_683E, (0, 99), (StorageClass::Hdd, "8:0", btrfs_on_disk));
    let btrfs_on_volume = "btrfs on block device 259:0, which says it is not rotational";
    check(43, 0x9123_683E, (0, 98), (StorageClass::Ssd, "259:0", btrfs_on_volume));
    let unsaid = "vfat on block device 8:65, which does not say whether it is rotational";
    check(45, 0x4D44, (8, 65), (StorageClass::Unknown, "8:65", unsaid));
    let memory = "tmpfs, mounted on /dev/shm";
    check(25, 0x0102_1994, (0, 23), (StorageClass::Tmpfs, "tmpfs:_dev_shm", memory));
}

#[test]
fn shares_are_told_by_their_file_system() {
    let fixture = fixture();
    let check = |mount_id, magic, device, told| check(&fixture, (mount_id, magic, device), told);
    let nfs = "nfs4 from nas:/export, mounted on /mnt/nas";
    check(60, 0x6969, (0, 52), (StorageClass::Nfs, "nas", nfs));
    let nfs_by_address = "nfs4 from [fd00::5]:/export, mounted on /mnt/six";
    check(65, 0x6969, (0, 56), (StorageClass::Nfs, "fd00::5", nfs_by_address));
    let smb = "cifs from //files.example.org/team data, mounted on /mnt/team";
    check(64, 0xFE53_4D42, (0, 55), (StorageClass::Smb, "files.example.org", smb));
    let sshfs = "fuse.sshfs from me@login.example.org:/data, mounted on /mnt/remote";
    check(70, 0x6573_5546, (0, 61), (StorageClass::Fuse, "fuse.sshfs:_mnt_remote", sshfs));
    let bucket = "fuse from mountpoint-s3, mounted on /mnt/s3";
    check(73, 0x6573_5546, (0, 64), (StorageClass::ObjectStore, "fuse:_mnt_s3", bucket));
}

#[test]
fn what_may_lie_anywhere_is_unknown() {
    let fixture = fixture();
    let check = |mount_id, magic, device, key, begin| {
        let why = format!("{begin}, which may keep its files anywhere");
        let storage = fixture.system.storage(mount_id, magic, device);
        assert_eq!(storage.class, StorageClass::Unknown, "mount {mount_id}");
        assert_eq!((storage.key.as_str(), storage.why), (key, why), "mount {mount_id}");
    };
    let overlay = "overlay, mounted on /var/lib/docker/overlay2/4f1c/merged";
    check(50, 0x794C_7630, (0, 48), "overlay:_var_lib_docker_overlay2_4f1c_merged", overlay);
    check(51, 0x0102_1997, (0, 49), "9p:_mnt_wsl_drive", r"9p from C:\, mounted on /mnt/wsl drive");
    let virtiofs = "virtiofs from hostshare, mounted on /mnt/host";
    check(52, 0x6573_5546, (0, 50), "virtiofs:_mnt_host", virtiofs);
    check(44, 0x2FC1_2FC1, (0, 42), "zfs:_tank", "zfs from tank/gdelt, mounted on /tank");
}

#[test]
fn shared_file_systems_of_all_kinds_are_told_apart() {
    let fixture = fixture();
    let class = |mount_id, magic| fixture.system.storage(mount_id, magic, (0, 0)).class;
    let fuse = 0x6573_5546;
    assert_eq!(class(61, 0x6969), StorageClass::Nfs);
    assert_eq!(class(63, 0x6969), StorageClass::Nfs);
    assert_eq!(class(66, 0x0BD0_0BD0), StorageClass::Parallel);
    assert_eq!(class(67, 0x4750_4653), StorageClass::Parallel);
    assert_eq!(class(68, 0x00C3_6400), StorageClass::Parallel);
    assert_eq!(class(69, 0x1983_0326), StorageClass::Parallel);
    for bucket in [71, 72, 73, 74, 75] {
        assert_eq!(class(bucket, fuse), StorageClass::ObjectStore, "mount {bucket}");
    }
    assert_eq!(class(46, fuse), StorageClass::Fuse);
}

#[test]
fn keys_of_mounts_with_long_paths_end_as_the_paths_do() {
    let parent = "/scratch".repeat(20);
    let mount = Mount {
        mount_point: PathBuf::from(format!("{parent}/gdelt")),
        ..fixture().system.mounts().remove(0)
    };
    let key = mount_key(&mount);
    assert!(key.len() == KEY_BYTES && key.ends_with("_scratch_gdelt"), "{key}");
}

#[test]
fn mounts_of_one_server_have_one_key() {
    let fixture = fixture();
    let key = |mount_id| fixture.system.storage(mount_id, 0x6969, (0, 0)).key;
    assert_eq!([key(60), key(61), key(62)], ["nas", "nas", "nas"]);
    assert_eq!(key(63), "old.example.org");
}

#[test]
fn request_sizes_come_from_the_mount() {
    let fixture = fixture();
    let sizes = |mount_id| {
        let storage = fixture.system.storage(mount_id, 0, (0, 0));
        (storage.request_bytes, storage.write_bytes)
    };
    assert_eq!(sizes(60), (Some(1 << 20), Some(1 << 20)));
    assert_eq!(sizes(70), (Some(131_072), None));
    assert_eq!(sizes(27), (None, None));
}

#[test]
fn a_mount_without_an_id_is_found_by_its_device() {
    let fixture = fixture();
    let storage = fixture.system.storage(0, 0x6969, (0, 54));
    assert_eq!(storage.mount_point, PathBuf::from("/mnt/old"));
}

#[test]
fn an_unreadable_system_tells_what_statfs_does() {
    let system = System::new(PathBuf::from("/nonexistent"), PathBuf::from("/nonexistent"));
    assert_eq!(system.mounts(), []);
    let nfs = system.storage(60, 0x6969, (0, 52));
    assert_eq!((nfs.class, nfs.key.as_str()), (StorageClass::Nfs, "mount-60"));
    assert_eq!(nfs.why, "a file system of type 0x6969, not among the mounts");
    assert_eq!(system.reading(&nfs), None);
    let disk = system.storage(27, 0xEF53, (8, 1));
    assert_eq!((disk.class, disk.key.as_str()), (StorageClass::Unknown, "8:1"));
    let nothing = system.storage(0, 0, (0, 0));
    assert_eq!((nothing.class, nothing.key.as_str()), (StorageClass::Unknown, "mount-0"));
}

#[test]
fn a_setting_overrides_the_class_and_says_so() {
    let storage = fixture().system.storage(60, 0x6969, (0, 52)).with_class(StorageClass::Hdd);
    assert_eq!(storage.class, StorageClass::Hdd);
    assert_eq!(
        storage.why,
        "nfs4 from nas:/export, mounted on /mnt/nas, taken for hdd because a setting says so"
    );
    assert_eq!(storage.key, "nas");
}

#[test]
fn the_counters_of_a_storage_are_those_of_its_server() {
    let fixture = fixture();
    let storage = fixture.system.storage(61, 0x6969, (0, 52));
    let before = fixture.system.reading(&storage).expect("counters");
    let after = include_bytes!("fixtures/mountstats-after");
    fs::write(fixture.system.proc.join("self/mountstats"), after).expect("written");
    let after = fixture.system.reading(&storage).expect("counters");
    let delta = after.since(&before, Duration::from_secs(1)).expect("a delta");
    assert_eq!(delta.reads.operations, 100);
    let remote = fixture.system.storage(70, 0x6573_5546, (0, 61));
    assert_eq!(fixture.system.reading(&remote), None);
}

#[test]
fn the_root_of_this_machine_has_a_storage() {
    let storage = System::default().storage(0, 0, (0, 0));
    assert!(!storage.why.is_empty());
    assert_ne!(System::default().mounts(), []);
}

#[test]
fn keys_are_fit_for_file_names() {
    assert_eq!(key("nas.example.org"), "nas.example.org");
    assert_eq!(key("fe80::1%eth0"), "fe80::1_eth0");
    assert_eq!(key("../etc"), "_._etc");
    assert_eq!(key(".."), "_.");
    assert_eq!(key("näs"), "n_s");
    assert_eq!(key(""), "_");
}

proptest! {
    #[test]
    fn every_key_is_fit_for_a_file_name(name: String) {
        let key = key(&name);
        prop_assert!((1..=KEY_BYTES).contains(&key.len()));
        prop_assert!(!key.starts_with('.'));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        prop_assert!(key.bytes().all(plain));
    }
}
