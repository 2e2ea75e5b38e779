//! Tells who writes: names of temporary files and ledger segments carry it, so that the leavings
//! of dead processes can be told from the work of living ones.

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, test_kill_process};

use crate::Stat;

/// What a process of another host wrote last, which cannot be seen from here, is left alone for
/// this long.
const ABANDONED_AFTER: Duration = Duration::from_hours(7 * 24);

/// A writing process: its host (with its process-id name space), id, start time and a running
/// number within the process. Shown as `host.pid.start.number`; the host holds no dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    host: String,
    process: i32,
    started: u64,
    number: u64,
}

/// What is known of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterState {
    /// It runs on this host.
    Alive,
    /// It ran on this host and is gone.
    Dead,
    /// It belongs to another host, where this process cannot look.
    Elsewhere,
}

impl Writer {
    /// This process, with a number that no earlier call returned.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id().cast_signed();
        Self {
            host: this_host().to_owned(),
            process,
            started: start_time(process).unwrap_or(0),
            number: NEXT.fetch_add(1, Relaxed),
        }
    }

    /// Reads the writer off the front of a file name, and returns what follows its last dot.
    pub fn parse_prefix(name: &str) -> Option<(Self, &str)> {
        let mut parts = name.splitn(5, '.');
        let writer = Self {
            host: parts.next()?.to_owned(),
            process: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
            number: parts.next()?.parse().ok()?,
        };
        Some((writer, parts.next()?))
    }

    /// Whether the writing process still runs, as far as this host can tell.
    pub fn state(&self) -> WriterState {
        if self.host != this_host() {
            return WriterState::Elsewhere;
        }
        let exists = Pid::from_raw(self.process)
            .is_some_and(|process| test_kill_process(process) != Err(rustix::io::Errno::SRCH));
        // Process ids are used again: another start time is another process.
        if exists && start_time(self.process).is_some_and(|started| started == self.started) {
            WriterState::Alive
        } else {
            WriterState::Dead
        }
    }

    /// Whether the writing process is gone: dead if it ran on this host, silent for seven days if
    /// it ran elsewhere. `file` is what it wrote.
    pub fn is_gone(&self, file: Stat) -> bool {
        match self.state() {
            WriterState::Alive => false,
            WriterState::Dead => true,
            WriterState::Elsewhere => file.is_abandoned(),
        }
    }
}

impl Stat {
    /// Whether nothing was written for seven days.
    pub fn is_abandoned(self) -> bool {
        let modified = Duration::from_nanos(u64::try_from(self.modified_ns).unwrap_or(0));
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .is_ok_and(|now| now.saturating_sub(modified) > ABANDONED_AFTER)
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, process, started, number } = self;
        write!(formatter, "{host}.{process}.{started}.{number}")
    }
}

/// The node name and the process-id name space, so that containers that share a node name are
/// told apart.
fn this_host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let plain: String =
            node.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let space = match rustix::fs::readlink("/proc/self/ns/pid", Vec::new()) {
            Ok(link) => link.to_string_lossy().chars().filter(char::is_ascii_digit).collect(),
            Err(_) => String::from("0"),
        };
        format!("{plain}-{space}")
    })
}

/// Clock ticks after boot at which the process started: field 22 of `/proc/PID/stat`, proc(5).
fn start_time(process: i32) -> Option<u64> {
    let stat = read_proc(&Path::new("/proc").join(process.to_string()).join("stat"))?;
    // The second field is the command in parentheses and may hold spaces.
    let (_, after_command) = stat.rsplit_once(')')?;
    after_command.split_whitespace().nth(19)?.parse().ok()
}

fn read_proc(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_read_back_from_a_file_name() {
        let writer = Writer::next();
        let name = format!("{writer}.20150218.export.parquet.tmp");
        let (read, rest) = Writer::parse_prefix(&name).expect("a writer");
        assert_eq!((read, rest), (writer, "20150218.export.parquet.tmp"));
        assert_eq!(Writer::parse_prefix("20150218230000.export.parquet"), None);
    }

    #[test]
    fn the_living_are_told_from_the_dead_and_the_distant() {
        let here = Writer::next();
        assert_eq!(here.state(), WriterState::Alive);
        let restarted = Writer { started: here.started + 1, ..here.clone() };
        assert_eq!(restarted.state(), WriterState::Dead);
        let gone = Writer { process: i32::MAX, ..here.clone() };
        assert_eq!(gone.state(), WriterState::Dead);
        let elsewhere = Writer { host: String::from("other-1"), ..here };
        assert_eq!(elsewhere.state(), WriterState::Elsewhere);
    }
}
