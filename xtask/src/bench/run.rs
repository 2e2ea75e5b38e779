//! Starts programs, several at once where asked, and waits for them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::memory;

/// Variables with this prefix are settings of the stages.
const SETTINGS_PREFIX: &str = "GDELT_MILL_";
/// How much of what a failed program said is kept, in bytes.
const KEPT_WORDS: usize = 2000;

/// A program to start.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) variables: Vec<(&'static str, OsString)>,
    /// Where it works; no settings file stands there unless it is meant.
    pub(super) directory: PathBuf,
}

/// How programs that ran at once ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// From the first start to the last end.
    pub(super) time: Duration,
    /// The most memory that they took at once, with the processes that they started, in bytes.
    pub(super) peak_memory: u64,
    /// In order of their starts; none for one that a signal ended.
    pub(super) exit_codes: Vec<Option<i32>>,
    /// What they printed on stdout, where it is JSON.
    pub(super) summaries: Vec<Value>,
    /// The end of what those that failed said on stderr.
    pub(super) words: Vec<String>,
}

impl Ended {
    pub(super) fn succeeded(&self) -> bool {
        self.exit_codes.iter().all(|code| *code == Some(0))
    }
}

/// Runs programs at the same time. What they print is kept in `outputs` meanwhile.
pub(super) fn run(launches: &[Launch], outputs: &Path) -> Result<Ended> {
    let stream = |name: &str, number: usize| outputs.join(format!("{name}.{number}"));
    let begun = Instant::now();
    let mut children = Vec::new();
    for (number, launch) in launches.iter().enumerate() {
        let mut command = Command::new(&launch.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with(SETTINGS_PREFIX) {
                command.env_remove(name);
            }
        }
        let child = command
            .args(&launch.arguments)
            .envs(launch.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(&launch.directory)
            .stdout(File::create(stream("stdout", number))?)
            .stderr(File::create(stream("stderr", number))?)
            .spawn()
            .with_context(|| format!("cannot start {}", launch.program.display()))?;
        children.push(child);
    }
    let (done, processes) = (AtomicBool::new(false), children.iter().map(Child::id));
    let processes: Vec<_> = processes.collect();
    let (codes, time, peak_memory) = thread::scope(|scope| {
        let memory = scope.spawn(|| memory::watch(&processes, &done));
        let codes = children.iter_mut().map(|child| Ok(child.wait()?.code()));
        let codes: Result<Vec<_>> = codes.collect();
        let time = begun.elapsed();
        done.store(true, Relaxed);
        (codes, time, memory.join().unwrap_or_default())
    });
    let exit_codes = codes?;
    let (mut summaries, mut words) = (Vec::new(), Vec::new());
    for (number, code) in exit_codes.iter().enumerate() {
        summaries.extend(serde_json::from_slice(&fs::read(stream("stdout", number))?).ok());
        if *code != Some(0) {
            let said = fs::read(stream("stderr", number))?;
            let end = &said[said.len().saturating_sub(KEPT_WORDS)..];
            words.push(String::from_utf8_lossy(end).into_owned());
        }
    }
    Ok(Ended { time, peak_memory, exit_codes, summaries, words })
}

/// Runs a program whose result is needed.
pub(super) fn run_to_success(launch: Launch, outputs: &Path) -> Result<Ended> {
    let program = launch.program.clone();
    let ended = run(&[launch], outputs)?;
    let said = ended.words.first().map(String::as_str).unwrap_or_default();
    ensure!(ended.succeeded(), "{} failed: {said}", program.display());
    Ok(ended)
}
