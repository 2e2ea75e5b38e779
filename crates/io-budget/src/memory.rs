//! Remembers the idle latency of storages across runs, a small JSON file each. It is a hint: what
//! cannot be read or written does without.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::Writer;
use crate::governor::Idle;

/// After this a storage may have become another one.
const EXPIRES_AFTER: Duration = Duration::from_hours(30 * 24);

/// Where the idle latency of one lane of one storage is kept.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    idle: Idle,
    /// Seconds after 1970-01-01 UTC.
    measured_at: u64,
}

impl Memory {
    /// The memory of a lane of the storage with this key, in `directory`.
    pub(crate) fn new(directory: &Path, key: &str, lane: &str) -> Self {
        Self { path: directory.join(format!("idle-{key}-{lane}.json")) }
    }

    /// What an earlier run measured, unless it is too old.
    pub(crate) fn load(&self) -> Option<Idle> {
        let kept: Kept = serde_json::from_slice(&std::fs::read(&self.path).ok()?).ok()?;
        let age = now().saturating_sub(kept.measured_at);
        (age < EXPIRES_AFTER.as_secs()).then_some(kept.idle)
    }

    /// Keeps a measurement, whole or not at all.
    pub(crate) fn store(&self, idle: Idle) {
        let kept = Kept { idle, measured_at: now() };
        let Ok(json) = serde_json::to_vec(&kept) else { return };
        let temporary = self.path.with_extension(format!("{}.tmp", Writer::next()));
        let written = self
            .path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&temporary, json))
            .and_then(|()| std::fs::rename(&temporary, &self.path));
        if written.is_err() {
            let _removed = std::fs::remove_file(&temporary);
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
