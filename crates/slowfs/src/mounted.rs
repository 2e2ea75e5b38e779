//! Starts the `slowfs` binary, waits for its mount, and cleans up whatever happens. For tests.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

/// How long a mount may take to appear.
const START: Duration = Duration::from_secs(10);
/// How long the process may take to end after each time it is told.
const END: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);

/// A running `slowfs`. Dropped, it is told to end, then killed, and the mount is detached.
///
/// The process also ends when this one dies, since its standard input ends then.
#[derive(Debug)]
pub struct Mounted {
    process: Child,
    mountpoint: PathBuf,
    /// The mount that the mount point belonged to before.
    outside: u64,
}

/// Why nothing can be mounted here, where that is so.
pub fn obstacle() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        Some("mounting needs root")
    } else if statx(CWD, "/dev/fuse", AtFlags::empty(), StatxFlags::TYPE).is_err() {
        Some("there is no /dev/fuse")
    } else {
        None
    }
}

/// The id of the mount that `path` belongs to, as `/proc/self/mountinfo` gives it. Asks the kernel
/// alone, so that a mounted `slowfs` neither delays nor counts it.
///
/// # Errors
///
/// When `path` cannot be looked at.
pub fn mount_id(path: &Path) -> io::Result<u64> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    Ok(statx(CWD, path, flags, StatxFlags::MNT_ID)?.stx_mnt_id)
}

impl Mounted {
    /// Starts the binary `program` with `options` and waits until `backing` is shown at
    /// `mountpoint`.
    ///
    /// # Errors
    ///
    /// When the binary cannot be started, ends early, or has not mounted within 10 s.
    pub fn start(
        program: &Path,
        backing: &Path,
        mountpoint: &Path,
        options: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Self> {
        let outside = mount_id(mountpoint)?;
        let process = Command::new(program)
            .args([backing, mountpoint])
            .arg("--unmount-on-eof")
            .args(options)
            .stdin(Stdio::piped())
            .spawn()?;
        let mut mounted = Self { process, mountpoint: mountpoint.to_owned(), outside };
        let deadline = Instant::now() + START;
        while !mounted.is_mounted() {
            if let Some(status) = mounted.process.try_wait()? {
                return Err(io::Error::other(format!("slowfs ended early: {status}")));
            }
            if Instant::now() > deadline {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            thread::sleep(PAUSE);
        }
        Ok(mounted)
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    fn is_mounted(&self) -> bool {
        mount_id(&self.mountpoint).ok() != Some(self.outside)
    }

    fn ends_within(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        loop {
            match self.process.try_wait() {
                Ok(None) if Instant::now() < deadline => thread::sleep(PAUSE),
                Ok(None) => return false,
                Ok(Some(_)) | Err(_) => return true,
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Nothing below can be reported from here; each step makes up for a failure of the last.
        // The first signal waits for open files, the second does not.
        let ended = (0..2).any(|_| {
            let _told = kill_process(Pid::from_child(&self.process), Signal::TERM);
            self.ends_within(END)
        });
        if !ended {
            let _killed = self.process.kill();
            let _ended = self.process.wait();
        }
        if self.is_mounted() {
            let _detached = unmount(&self.mountpoint, UnmountFlags::DETACH);
        }
    }
}
