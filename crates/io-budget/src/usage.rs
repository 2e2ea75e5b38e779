//! How the files of a directory are read and written: what a user is told when they ask why.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::device::Device;
use crate::storage::StorageClass;

/// How the files of a directory are read and written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// The directory.
    pub directory: PathBuf,
    /// The class of its storage.
    pub class: StorageClass,
    /// Why it is taken for one of this class.
    pub why: String,
    /// The name under which processes share its budget.
    pub key: String,
    /// The directory by which they do; none where this process has a budget of its own.
    pub shared: Option<PathBuf>,
    /// Reads in flight now, at most; none where there is no limit.
    pub reads: Option<usize>,
    /// Reads that may ever be in flight where the limit follows the storage's latency.
    pub reads_up_to: Option<usize>,
    /// Writes in flight now, at most; none where there is no limit.
    pub writes: Option<usize>,
    /// Writes that may ever be in flight where the limit follows the storage's latency.
    pub writes_up_to: Option<usize>,
    /// Bytes of a read request, at most.
    pub request_bytes: usize,
    /// Bytes of a write request, at most.
    pub write_bytes: usize,
    /// Bytes written before they are synced.
    pub dirty_bytes: u64,
    /// Bytes up to which a file is read whole where all of it is wanted.
    pub whole_bytes: u64,
    /// Bytes between two stretches up to which they are read as one.
    pub merge_gap_bytes: u64,
    /// Outputs that are written at once.
    pub writers: usize,
}

impl Usage {
    pub(crate) fn of(directory: &Path, device: &Device) -> Self {
        let report = device.report();
        let policy = device.policy();
        let governed = |writes: bool, is: bool| is.then(|| device.most(writes));
        Self {
            directory: directory.to_owned(),
            class: report.class,
            why: report.why,
            key: report.key,
            shared: report.shared,
            reads: report.reads.limit,
            reads_up_to: governed(false, report.reads.governor.is_some()),
            writes: report.writes.limit,
            writes_up_to: governed(true, report.writes.governor.is_some()),
            request_bytes: policy.request_bytes,
            write_bytes: policy.write_bytes,
            dirty_bytes: policy.dirty_bytes,
            whole_bytes: policy.whole_bytes,
            merge_gap_bytes: policy.merge_gap_bytes,
            writers: policy.writers.get().min(report.writes.limit.unwrap_or(usize::MAX)),
        }
    }

    /// Whether files in another directory are used the same way.
    pub fn is_as(&self, other: &Self) -> bool {
        Self { directory: other.directory.clone(), ..self.clone() } == *other
    }

    /// Threads that can keep the reads in flight that there may be; few where there is no limit
    /// to follow.
    pub fn read_threads(&self) -> usize {
        threads(self.reads_up_to.or(self.reads), self.class)
    }
}

/// More threads than this gain nothing: a disk answers no faster, and of an object store the rest
/// of the work does not keep up.
fn threads(limit: Option<usize>, class: StorageClass) -> usize {
    let most = if class == StorageClass::ObjectStore { 64 } else { 8 };
    limit.unwrap_or(most).clamp(1, most)
}

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = |now: Option<usize>, most: Option<usize>| match (now, most) {
            (_, Some(most)) => format!("adapted to the latency, up to {most}"),
            (Some(now), None) => now.to_string(),
            (None, None) => String::from("as many as there are threads"),
        };
        let bytes = |bytes: u64| match bytes {
            0..1_048_576 => format!("{} KiB", bytes >> 10),
            _ => format!("{} MiB", bytes >> 20),
        };
        writeln!(formatter, "{}", self.directory.display())?;
        writeln!(formatter, "  class     {}: {}", self.class, self.why)?;
        writeln!(
            formatter,
            "  reads     in flight: {}; requests of at most {}",
            limit(self.reads, self.reads_up_to),
            bytes(self.request_bytes as u64)
        )?;
        writeln!(
            formatter,
            "            {} are read whole, stretches less than {} apart as one",
            match self.whole_bytes {
                u64::MAX => String::from("all files"),
                whole => format!("files up to {}", bytes(whole)),
            },
            bytes(self.merge_gap_bytes)
        )?;
        let synced = match self.dirty_bytes {
            u64::MAX => String::from("at the end"),
            dirty => format!("every {}", bytes(dirty)),
        };
        writeln!(
            formatter,
            "  writes    in flight: {}; requests of at most {}, synced {synced}{}",
            limit(self.writes, self.writes_up_to),
            bytes(self.write_bytes as u64),
            match self.writers {
                1 => String::from("; one file after another"),
                several => format!("; {several} files at once"),
            }
        )?;
        match &self.shared {
            Some(directory) => write!(
                formatter,
                "  shared    by the processes of this host, as `{}` in {}",
                self.key,
                directory.display()
            ),
            None => write!(formatter, "  shared    no: a budget of this process alone"),
        }
    }
}
