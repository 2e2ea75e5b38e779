//! What the kernel tells of another process: bytes, memory, processor time. Of one that has ended
//! it keeps what was last told.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::watch::Moved;

/// A process by its number.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    directory: PathBuf,
    last: Arc<Mutex<Told>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Told {
    moved: Moved,
    peak_rss_bytes: Option<u64>,
    cpu_ticks: Option<u64>,
}

impl Process {
    /// The process of this number.
    pub(crate) fn of(id: u32) -> Self {
        Self { directory: PathBuf::from(format!("/proc/{id}")), last: Arc::default() }
    }

    /// Looks at what the kernel tells now.
    pub(crate) fn look(&self) {
        let read = |name| std::fs::read_to_string(self.directory.join(name)).ok();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(moved) = read("io").and_then(|text| moved(&text)) {
            // One that has ended may be shown with nothing.
            last.moved.read = last.moved.read.max(moved.read);
            last.moved.written = last.moved.written.max(moved.written);
        }
        last.peak_rss_bytes =
            read("status").and_then(|text| peak_rss_bytes(&text)).or(last.peak_rss_bytes);
        last.cpu_ticks = read("stat").and_then(|text| cpu_ticks(&text)).or(last.cpu_ticks);
    }

    fn last(&self) -> Told {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that it read and wrote by system calls.
    pub(crate) fn moved(&self) -> Moved {
        self.last().moved
    }

    /// Its largest resident memory.
    pub(crate) fn peak_rss_bytes(&self) -> Option<u64> {
        self.last().peak_rss_bytes
    }

    /// The processor time that it took.
    #[expect(clippy::cast_precision_loss, reason = "ticks are few")]
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        Some(self.last().cpu_ticks? as f64 / ticks as f64)
    }
}

fn moved(io: &str) -> Option<Moved> {
    let value = |name| io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some(Moved { read: value("rchar:")?, written: value("wchar:")? })
}

fn peak_rss_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// User and system time: fields 14 and 15 of proc(5)'s `stat`. The second may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let mut number = || fields.next()?.parse::<u64>().ok();
    number()?.checked_add(number()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_told_of() {
        let own = Process::of(std::process::id());
        own.look();
        assert!(own.moved().read > 0);
        assert!(own.peak_rss_bytes().unwrap() > 1 << 20);
        assert!(own.cpu_seconds().unwrap() < 3_600.0);
    }

    #[test]
    fn the_kernels_forms() {
        let told = moved("rchar: 12\nwchar: 34\nsyscr: 5\n").unwrap();
        assert_eq!(told, Moved { read: 12, written: 34 });
        assert_eq!(moved("rchar: 12\n"), None);
        assert_eq!(peak_rss_bytes("Name:\ta\nVmHWM:\t  2048 kB\n"), Some(2 << 20));
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 1 0 99";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks(""), None);
    }
}
