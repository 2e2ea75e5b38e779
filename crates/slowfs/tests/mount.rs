//! Mounts the file system and looks at it from outside. Needs root and `/dev/fuse`; elsewhere the
//! tests say so and pass.

#![expect(clippy::unwrap_used, reason = "a value that is missing fails the test")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs that know nothing of budgets use the mount"
)]

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;
use slowfs::mounted::{Mounted, mount_id, obstacle};
use tempfile::TempDir;

const MIB: usize = 1 << 20;
/// Presets without their delays, so that tests are about requests and not about time.
const QUICK_NFS: [&str; 4] = ["--meta-ms=0", "--seek-ms=0", "--latency-ms=0", "--mb-s=0"];
const QUICK_LOCAL: [&str; 2] = ["--profile=none", "--max-request-kib=1024"];

/// Held while a process is started or requests are counted: a child holds its parent's open files
/// until it runs its program, and then closes them, which sends a `flush`.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A mount in a directory of its own. Fields drop in this order: the mount first.
struct Fixture {
    mounted: Mounted,
    dir: TempDir,
    _alone: MutexGuard<'static, ()>,
}

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fixture {
    /// A mount with these options, or word on stderr that there can be none.
    fn new(options: &[&str]) -> Option<Self> {
        if let Some(obstacle) = obstacle() {
            // Not `eprintln!`: the harness would keep that to itself, as the test passes.
            let words = format!("SKIPPED: {obstacle}\n");
            let _said = std::io::stderr().write_all(words.as_bytes());
            return None;
        }
        let alone = alone();
        let dir = tempfile::tempdir().unwrap();
        for name in ["back", "mnt"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let records =
            ["csv", "trace"].map(|name| format!("--{name}={}", dir.path().join(name).display()));
        let options = records.iter().map(String::as_str).chain(options.iter().copied());
        let program = Path::new(env!("CARGO_BIN_EXE_slowfs"));
        let (back, mnt) = (dir.path().join("back"), dir.path().join("mnt"));
        let mounted = Mounted::start(program, &back, &mnt, options).unwrap();
        Some(Self { mounted, dir, _alone: alone })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("mnt").join(name)
    }

    fn backing(&self, name: &str) -> PathBuf {
        self.dir.path().join("back").join(name)
    }

    /// Unmounts, and returns the operations of the trace. Attributes of the root directory are left
    /// out: the kernel asks for them to check permissions, at times of its own choice.
    fn operations(self) -> Vec<String> {
        let Self { mounted, dir, _alone } = self;
        drop(mounted);
        let trace = fs::read_to_string(dir.path().join("trace")).unwrap();
        let columns = trace.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
        columns
            .filter(|columns| columns[1..3] != ["getattr", "1"])
            .map(|columns| columns[1].to_owned())
            .collect()
    }
}

fn read_in_units(path: &Path) {
    let file = File::open(path).unwrap();
    fadvise(&file, 0, None, Advice::Random).unwrap();
    let length = file.metadata().unwrap().len();
    let mut unit = vec![0; MIB];
    for offset in (0..length).step_by(MIB) {
        file.read_exact_at(&mut unit, offset).unwrap();
    }
}

fn publish(dir: &Path) {
    let (part, whole) = (dir.join("x.part"), dir.join("x"));
    let file = File::create(&part).unwrap();
    for offset in [0, MIB as u64] {
        file.write_all_at(&vec![7; MIB], offset).unwrap();
    }
    file.sync_data().unwrap();
    assert_eq!(file.metadata().unwrap().len(), 2 * MIB as u64);
    drop(file);
    fs::rename(part, whole).unwrap();
    File::open(dir).unwrap().sync_all().unwrap();
}

#[test]
fn what_is_written_is_read_back() {
    let Some(fixture) = Fixture::new(&["--profile=none"]) else { return };
    fs::create_dir(fixture.path("a")).unwrap();
    let data: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(fixture.path("a/x.part"), &data).unwrap();
    fs::rename(fixture.path("a/x.part"), fixture.path("a/x")).unwrap();
    assert_eq!(fs::read(fixture.path("a/x")).unwrap(), data);
    for number in 0..500 {
        fs::write(fixture.path(&format!("a/{number}")), "").unwrap();
    }
    assert_eq!(fs::read_dir(fixture.path("a")).unwrap().count(), 501);
    fs::remove_dir_all(fixture.path("a")).unwrap();
    assert!(!fixture.path("a").exists());
}

#[test]
fn each_read_of_a_unit_is_one_request() {
    // Reading changed the access time, so the size is asked for again as well.
    let (warm, cold) = (["open", "getattr"], ["open", "getattr", "read", "read", "read"]);
    for (options, again) in [(&QUICK_NFS[..], &warm[..]), (&QUICK_LOCAL, &cold)] {
        let Some(fixture) = Fixture::new(options) else { return };
        fs::write(fixture.backing("x"), vec![7; 3 * MIB]).unwrap();
        read_in_units(&fixture.path("x"));
        read_in_units(&fixture.path("x"));
        let first = ["lookup", "open", "read", "read", "read"];
        assert_eq!(fixture.operations(), [&first, again].concat(), "{options:?}");
    }
}

#[test]
fn a_remote_client_sends_no_sync_of_a_directory() {
    let remote = ["lookup", "create", "write", "write", "fsync", "getattr", "lookup", "rename"];
    let local = [&remote[..], &["opendir", "fsyncdir"]].concat();
    for (options, expected) in [(&QUICK_NFS[..], &remote[..]), (&QUICK_LOCAL, &local)] {
        let Some(fixture) = Fixture::new(options) else { return };
        publish(&fixture.path(""));
        assert_eq!(fixture.operations(), expected, "{options:?}");
    }
}

#[test]
fn a_remote_client_commits_unsynced_writes_when_a_file_is_closed() {
    for (options, commits) in [(&QUICK_NFS[..], 1), (&QUICK_LOCAL, 0)] {
        let Some(fixture) = Fixture::new(options) else { return };
        fs::write(fixture.path("x"), "data").unwrap();
        fs::read(fixture.path("x")).unwrap();
        let flushes = fixture.operations().iter().filter(|name| *name == "flush").count();
        assert_eq!(flushes, commits, "{options:?}");
    }
}

#[test]
fn faults_take_the_place_of_requests() {
    let faults = [
        // The kernel repeats a read that failed in its cache, so two requests fail one read.
        "--fault=read:ESTALE:2:2",
        "--fault=write:ENOSPC:2:*",
        "--fault=open:STALL=150ms:2",
        "--fault=flush:EIO:1",
    ];
    let Some(fixture) = Fixture::new(&[&QUICK_LOCAL[..], &faults].concat()) else { return };
    fs::write(fixture.backing("x"), vec![7; 3 * MIB]).unwrap();
    let file = File::open(fixture.path("x")).unwrap();
    fadvise(&file, 0, None, Advice::Random).unwrap();
    let mut unit = vec![0; MIB];
    file.read_exact_at(&mut unit, 0).unwrap();
    let error = file.read_at(&mut unit, MIB as u64).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::STALE));
    file.read_exact_at(&mut unit, MIB as u64).unwrap();

    let start = Instant::now();
    File::open(fixture.path("x")).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(150));

    let file = File::create(fixture.path("y")).unwrap();
    file.write_all_at(b"fits", 0).unwrap();
    for _ in 0..2 {
        let error = file.write_at(b"does not", 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }
    assert_eq!(fs::read(fixture.backing("y")).unwrap(), b"fits");
}

#[test]
fn parallel_readers_share_the_bandwidth_of_one_server() {
    let options = ["--profile=none", "--mb-s=50", "--direct-io"];
    let Some(fixture) = Fixture::new(&options) else { return };
    let names = ["a", "b", "c", "d"];
    for name in names {
        fs::write(fixture.backing(name), vec![7; 2_500_000]).unwrap();
    }
    let read = |names: &[&str]| {
        let start = Instant::now();
        thread::scope(|scope| {
            for name in names {
                let path = fixture.path(name);
                scope.spawn(move || {
                    let mut buffer = vec![0; 1 << 17];
                    let mut file = File::open(path).unwrap();
                    while file.read(&mut buffer).unwrap() > 0 {}
                });
            }
        });
        start.elapsed()
    };
    // 2.5 MB at 50 MB/s take 50 ms; four files take four times that however they are read.
    let (one, four) = (read(&names[..1]), read(&names));
    assert!(one >= Duration::from_millis(50), "{one:?}");
    assert!(four >= Duration::from_millis(200), "{four:?}");
    let Fixture { mounted, dir, _alone } = fixture;
    drop(mounted);
    let csv = fs::read_to_string(dir.path().join("csv")).unwrap();
    let mut lines = csv.lines();
    let column = lines.next().unwrap().split(',').position(|name| name == "read_inflight_max");
    let peaks = lines.map(|row| row.split(',').nth(column.unwrap()).unwrap());
    assert_eq!(peaks.max(), Some("4"), "{csv}");
}

#[test]
fn the_mount_looks_like_fuse_and_asking_the_kernel_alone_sends_nothing() {
    let Some(fixture) = Fixture::new(&QUICK_LOCAL) else { return };
    let id = mount_id(&fixture.path("")).unwrap();
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table.lines().find(|line| line.split(' ').next() == Some(&id.to_string())).unwrap();
    assert!(line.contains(" - fuse.slowfs slowfs "), "{line}");
    assert_eq!(rustix::fs::statfs(fixture.path("")).unwrap().f_type, 0x6573_5546);
    assert_eq!(fixture.operations(), ["statfs"]);
}

#[test]
fn nothing_stays_mounted_when_slowfs_is_stopped_or_killed() {
    for signal in [None, Some("-KILL"), Some("-STOP")] {
        let Some(fixture) = Fixture::new(&QUICK_LOCAL) else { return };
        let held = File::create(fixture.path("x")).unwrap();
        let inside = mount_id(&fixture.path("")).unwrap();
        if let Some(signal) = signal {
            let id = fixture.mounted.id().to_string();
            assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        }
        let Fixture { mounted, dir, _alone } = fixture;
        // A file that stays open must not keep the mount.
        drop(mounted);
        assert_ne!(mount_id(&dir.path().join("mnt")).unwrap(), inside, "{signal:?}");
        drop(held);
    }
}

#[test]
fn a_wrong_rule_is_refused_before_anything_is_mounted() {
    let _alone = alone();
    let output = Command::new(env!("CARGO_BIN_EXE_slowfs"))
        .args(["/nowhere", "/nowhere", "--fault=read:EWHAT:1"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("no error \"EWHAT\"; there are STALL=TIME, EACCES"), "{message}");
}
