//! Archives on slow storage: `slowfs` shows an archive as storage that answers late, fails or
//! stalls, and records what is asked of it. What it emulates is the business of that crate.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use slowfs::mounted::{Mounted, obstacle};

use crate::{Archive, Ended, beside_tests, command};

/// Held while an archive is mounted: what overlaps in one test is measured there, and a process
/// that another test starts must not hold its files.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Longer than any run of these tests takes, and short enough to wait for.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(2);

/// No delays but those that options add, and requests as large as the budget's unless they say
/// otherwise.
const PLAIN: [&str; 2] = ["--profile=none", "--max-request-kib=1024"];

/// An archive shown through `slowfs`. Fields drop in this order: the mount first.
#[derive(Debug)]
pub struct SlowArchive {
    mounted: Mounted,
    directory: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl SlowArchive {
    /// Shows an archive with these options of `slowfs` beside `PLAIN`; none, with word on stderr,
    /// where nothing can be mounted.
    ///
    /// # Errors
    ///
    /// When the mount fails although it should not.
    pub fn mount(archive: &Archive, options: &[&str]) -> Result<Option<Self>> {
        if let Some(obstacle) = obstacle() {
            say_skipped(obstacle);
            return Ok(None);
        }
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir()?;
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("mnt"))?;
        fs::create_dir(at("share"))?;
        let records = ["csv", "trace"].map(|name| format!("--{name}={}", at(name).display()));
        let name = |option: &str| option.split('=').next().map(ToOwned::to_owned);
        let is_given = |plain: &str| options.iter().any(|option| name(option) == name(plain));
        let plain = PLAIN.into_iter().filter(|plain| !is_given(plain));
        let options: Vec<&str> = records
            .iter()
            .map(String::as_str)
            .chain(plain)
            .chain(options.iter().copied())
            .collect();
        let program = beside_tests("slowfs")?;
        let mounted = Mounted::start(&program, archive.root(), &at("mnt"), options)?;
        Ok(Some(Self { mounted, directory, _alone: alone }))
    }

    /// The archive's root, as the mount shows it.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("mnt")
    }

    /// A directory outside the mount: the current one of the stages, where they also find their
    /// settings and keep what they learn.
    pub fn outside(&self) -> &Path {
        self.directory.path()
    }

    /// The directory by which the stages on this mount share their limits, with nobody else.
    pub fn share(&self) -> PathBuf {
        self.outside().join("share")
    }

    /// A command for a stage on this archive, with a JSON summary, under the limits of
    /// [`Self::share`].
    ///
    /// # Errors
    ///
    /// When the binary is not there.
    pub fn command(&self, stage: &str, arguments: &[&str]) -> Result<Command> {
        let mut command = command(stage, self.outside())?;
        command.env("GDELT_MILL_IO__SHARE", self.share());
        command.arg("--root").arg(self.root()).arg("--json").args(arguments);
        Ok(command)
    }

    /// Starts a stage.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(&self, stage: &str, arguments: &[&str]) -> Result<Running> {
        Running::start(&mut self.command(stage, arguments)?)
    }

    /// Runs a stage.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or does not end.
    pub fn run(&self, stage: &str, arguments: &[&str]) -> Result<Ended> {
        self.start(stage, arguments)?.end()
    }

    /// Unmounts, and returns what was recorded.
    ///
    /// # Errors
    ///
    /// When the records cannot be read.
    pub fn unmount(self) -> Result<Log> {
        let Self { mounted, directory, _alone } = self;
        drop(mounted);
        let read = |name| fs::read_to_string(directory.path().join(name));
        Log::parse(&read("csv")?, &read("trace")?)
    }
}

/// Says on stderr that a test shows nothing here.
pub fn say_skipped(why: &str) {
    // Not `eprintln!`: the test runner would keep that to itself, as the test passes.
    let _said = std::io::stderr().write_all(format!("SKIPPED: {why}\n").as_bytes());
}

/// A running stage. Dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    child: Option<Child>,
}

impl Running {
    /// Starts a command.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { child: Some(child) })
    }

    /// Waits until it ends, and calls `look` with its process id meanwhile, again and again.
    ///
    /// # Errors
    ///
    /// When it does not end, or what `look` returns.
    pub fn watch(mut self, mut look: impl FnMut(u32) -> Result<()>) -> Result<Ended> {
        let deadline = Instant::now() + PATIENCE;
        while let Some(child) = &mut self.child
            && child.try_wait()?.is_none()
        {
            ensure!(Instant::now() < deadline, "it has not ended after {PATIENCE:?}");
            look(child.id())?;
            thread::sleep(PAUSE);
        }
        let child = self.child.take().context("it is waited for once")?;
        Ok(child.wait_with_output()?.into())
    }

    /// Waits until it ends.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn end(self) -> Result<Ended> {
        self.watch(|_| Ok(()))
    }

    /// Kills it at once, as `kill -9` does.
    ///
    /// # Errors
    ///
    /// When that is refused.
    pub fn kill(mut self) -> Result<Ended> {
        let mut child = self.child.take().context("it runs until it is waited for")?;
        child.kill()?;
        Ok(child.wait_with_output()?.into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _killed = child.kill();
            let _ended = child.wait();
        }
    }
}

/// What was asked of the storage, as the storage saw it.
#[derive(Debug)]
pub struct Log {
    /// Reads in flight at once, at most.
    pub read_peak: usize,
    /// Writes in flight at once, at most.
    pub write_peak: usize,
    /// All requests, in the order of their answers.
    pub requests: Vec<Request>,
}

/// A request of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its name, as in `read`.
    pub operation: String,
    /// The number of the file, or of the directory that holds the name that is asked for.
    pub file: u64,
    /// Bytes that it moved.
    pub bytes: u64,
}

impl Log {
    fn parse(csv: &str, trace: &str) -> Result<Self> {
        let peak = |name| {
            let seconds = column(csv, name)?.into_iter().map(|peak| Ok(peak.parse()?));
            Ok::<usize, anyhow::Error>(
                seconds.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(0),
            )
        };
        let (operations, files) = (column(trace, "op")?, column(trace, "file")?);
        let bytes = column(trace, "bytes")?;
        let requests =
            operations.into_iter().zip(files).zip(bytes).map(|((operation, file), bytes)| {
                let operation = operation.to_owned();
                Ok(Request { operation, file: file.parse()?, bytes: bytes.parse()? })
            });
        Ok(Self {
            read_peak: peak("read_inflight_max")?,
            write_peak: peak("write_inflight_max")?,
            requests: requests.collect::<Result<_>>()?,
        })
    }

    fn of<'a>(&'a self, operation: &'a str) -> impl Iterator<Item = &'a Request> {
        self.requests.iter().filter(move |request| request.operation == operation)
    }

    /// Requests of this name.
    pub fn count(&self, operation: &str) -> u64 {
        self.of(operation).count() as u64
    }

    /// Bytes that requests of this name moved.
    pub fn bytes(&self, operation: &str) -> u64 {
        self.of(operation).map(|request| request.bytes).sum()
    }

    /// Requests of this name by file.
    pub fn by_file(&self, operation: &str) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        for request in self.of(operation) {
            *counts.entry(request.file).or_default() += 1;
        }
        counts
    }
}

/// A column of a table with a header.
fn column<'a>(table: &'a str, name: &str) -> Result<Vec<&'a str>> {
    let mut lines = table.lines();
    let header = lines.next().unwrap_or_default();
    let index = header.split(',').position(|column| column == name);
    let index = index.with_context(|| format!("no column {name} in {header}"))?;
    lines.map(|line| line.split(',').nth(index).with_context(|| format!("cut: {line}"))).collect()
}
