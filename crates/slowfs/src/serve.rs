//! Runs a mount until a signal, the end of standard input or an unmount from outside, and writes
//! the records meanwhile.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fuser::Session;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use slowfs::engine::Engine;
use slowfs::fs::SlowFs;
use slowfs::stats::{Stats, Trace};

use crate::cli::Args;

/// What is recorded, and where it goes.
pub(crate) struct Records {
    pub(crate) stats: Arc<Stats>,
    pub(crate) trace: Option<Arc<Trace>>,
    pub(crate) csv: Box<dyn Write>,
}

enum Event {
    /// Somebody wants the mount gone.
    Stop,
    /// The mount is gone.
    Ended(io::Result<()>),
}

/// Mounts `fs` and serves it until the mount is gone.
///
/// # Errors
///
/// When the mount fails, cannot be set up or cannot be undone, or when it is to end a second time
/// while files are open.
pub(crate) fn serve(
    fs: SlowFs,
    engine: &Arc<Engine>,
    args: &Args,
    mut records: Records,
) -> Result<()> {
    writeln!(records.csv, "{}", Stats::header())?;
    let (sender, events) = mpsc::channel();
    // Signals are watched before there is a mount that one could leave behind.
    watch_signals(sender.clone())?;
    if args.unmount_on_eof {
        watch_input(sender.clone())?;
    }
    let mountpoint = &args.mountpoint;
    let session = Session::new(fs, mountpoint, &args.mount())
        .with_context(|| format!("mounting on {}", mountpoint.display()))?;
    if let Some(kib) = args.changed_readahead_kib() {
        set_readahead(mountpoint, kib)?;
    }
    engine.start_background(args.background())?;
    spawn("slowfs-session", move || {
        let ended = session.run();
        // Nobody listens after a second stop.
        let _sent = sender.send(Event::Ended(ended));
    })?;
    let served = record(&events, mountpoint, &mut records);
    if let Some(trace) = &records.trace {
        trace.flush();
    }
    if served.is_err() {
        // The mount may be gone already; the error to tell is the first one.
        let _detached = detach(mountpoint);
    }
    served
}

/// Writes a row for each second, and one for the last part of a second.
fn record(events: &Receiver<Event>, mountpoint: &Path, records: &mut Records) -> Result<()> {
    let start = Instant::now();
    let mut seconds = 1;
    let mut stopping = false;
    loop {
        let due = start + Duration::from_secs(seconds);
        match events.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => {
                seconds += 1;
                records.write_row()?;
            }
            Ok(Event::Stop) if stopping => bail!("stopped while files were open"),
            Ok(Event::Stop) => {
                stopping = true;
                detach(mountpoint)?;
            }
            Ok(Event::Ended(ended)) => {
                records.write_row()?;
                return ended.context("serving the mount");
            }
            Err(RecvTimeoutError::Disconnected) => bail!("the serving thread is gone"),
        }
    }
}

impl Records {
    fn write_row(&mut self) -> Result<()> {
        writeln!(self.csv, "{}", self.stats.roll(Instant::now())).context("writing the CSV")?;
        if let Some(trace) = &self.trace {
            trace.flush();
        }
        Ok(())
    }
}

fn watch_signals(events: Sender<Event>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    spawn("slowfs-signals", move || {
        for _signal in signals.forever() {
            if events.send(Event::Stop).is_err() {
                break;
            }
        }
    })
}

fn watch_input(events: Sender<Event>) -> Result<()> {
    spawn("slowfs-input", move || {
        let mut byte = [0];
        // An error ends it as well.
        while io::stdin().read(&mut byte).is_ok_and(|read| read > 0) {}
        let _sent = events.send(Event::Stop);
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work)?;
    Ok(())
}

/// Takes the mount out of sight at once. A program that still has a file open keeps it alive, but
/// not the mount point.
fn detach(mountpoint: &Path) -> Result<()> {
    match unmount(mountpoint, UnmountFlags::DETACH) {
        // Somebody else was faster.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("unmounting {}", mountpoint.display())),
    }
}

/// Sets the mount's read-ahead, which the kernel otherwise caps at 128 KiB.
#[expect(clippy::disallowed_methods, reason = "/sys is not archive storage")]
fn set_readahead(mountpoint: &Path, kib: u32) -> Result<()> {
    // Nobody serves the mount yet: the kernel must answer on its own.
    let stat = statx(CWD, mountpoint, AtFlags::STATX_DONT_SYNC, StatxFlags::empty())?;
    let (major, minor) = (stat.stx_dev_major, stat.stx_dev_minor);
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    std::fs::write(&path, kib.to_string()).with_context(|| format!("writing {path}"))
}
