//! The memory that programs take, with all processes that they start.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_millis(5);

/// The largest sum of the resident memory of processes and their descendants, in bytes, seen until
/// `done`.
pub(super) fn watch(processes: &[u32], done: &AtomicBool) -> u64 {
    let mut peak = 0;
    while !done.load(Relaxed) {
        peak = peak.max(processes.iter().map(|process| resident(*process)).sum());
        thread::sleep(INTERVAL);
    }
    peak
}

/// Bytes of a process and its descendants; 0 for one that has ended.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    children(process).into_iter().map(resident).sum::<u64>() + resident_in(&status)
}

fn resident_in(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn children(process: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children"));
    let texts = threads.flatten().filter_map(|thread| of_thread(thread).ok());
    texts
        .flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_counts_with_those_that_it_started() {
        assert_eq!(resident_in("VmPeak:\t  9 kB\nVmRSS:\t    1536 kB\n"), 1_572_864);
        assert_eq!(resident_in("Name:\tzombie\n"), 0);
        let me = std::process::id();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(children(me).contains(&child.id()));
        assert!(resident(me) >= resident(child.id()) && resident(child.id()) > 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(resident(child.id()), 0);
    }
}
