//! Writes segments, one per month that a process works on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use io_budget::{AppendFile, Budget, Writer};

use super::{Error, Record};

pub(super) const OPEN_SUFFIX: &str = ".open.jsonl";
pub(super) const CLOSED_SUFFIX: &str = ".jsonl";
pub(super) const MERGED_SUFFIX: &str = ".merged.jsonl.zst";

/// Segments open at once; the least recently begun one is closed for another.
const OPEN_AT_MOST: usize = 16;

/// Records that follow one another within this time are written together: where each write is a
/// request to the storage, small files would cost one more each.
const TOGETHER: Duration = Duration::from_secs(1);

/// Records finished work. May be shared by threads.
#[derive(Debug)]
pub struct LedgerWriter {
    budget: Budget,
    directory: PathBuf,
    open: Mutex<Segments>,
}

#[derive(Debug, Default)]
struct Segments {
    by_month: BTreeMap<String, Segment>,
    begun: u64,
}

#[derive(Debug)]
struct Segment {
    file: AppendFile,
    closed_path: PathBuf,
    order: u64,
    /// Lines that are not written yet.
    pending: Vec<u8>,
    written: Option<Instant>,
}

impl Segment {
    fn append(&mut self, line: &[u8]) -> Result<(), Error> {
        self.pending.extend_from_slice(line);
        if self.written.is_none_or(|written| written.elapsed() >= TOGETHER) {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Error> {
        if !self.pending.is_empty() {
            self.file.append(&self.pending)?;
            self.pending.clear();
            self.written = Some(Instant::now());
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.write()?;
        Ok(self.file.sync()?)
    }

    fn close(mut self) -> Result<(), Error> {
        self.write()?;
        Ok(self.file.close_as(&self.closed_path)?)
    }
}

impl LedgerWriter {
    pub(super) fn new(budget: &Budget, directory: &Path) -> Self {
        let (budget, directory) = (budget.clone(), directory.to_owned());
        Self { budget, directory, open: Mutex::default() }
    }

    /// Records that an output was published, or that it could not be. What is recorded within a
    /// second is written together, at the next record after it or when the ledger is closed.
    ///
    /// # Errors
    ///
    /// [`Error`] when the segment cannot be written.
    pub fn append(&self, record: &Record) -> Result<(), Error> {
        let line = line(record);
        let mut segments = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let month = record.period.month_label();
        if !segments.by_month.contains_key(&month) {
            if segments.by_month.len() >= OPEN_AT_MOST {
                segments.close_oldest()?;
            }
            let segment = self.begin(&month, segments.begun)?;
            segments.begun += 1;
            segments.by_month.insert(month.clone(), segment);
        }
        match segments.by_month.get_mut(&month) {
            Some(segment) => segment.append(&line),
            None => Ok(()),
        }
    }

    /// Writes and syncs what has been recorded so far: it outlives this process and its host.
    ///
    /// # Errors
    ///
    /// [`Error`] when a segment cannot be written or synced.
    pub fn sync(&self) -> Result<(), Error> {
        let mut segments = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        segments.by_month.values_mut().try_for_each(Segment::sync)
    }

    /// Closes all segments, so that they count for other processes.
    ///
    /// # Errors
    ///
    /// [`Error`] when a segment cannot be synced or renamed. Its records count all the same once
    /// this process is gone.
    pub fn close(self) -> Result<(), Error> {
        let segments = self.open.into_inner().unwrap_or_else(PoisonError::into_inner);
        segments.by_month.into_values().try_for_each(Segment::close)
    }

    fn begin(&self, month: &str, order: u64) -> Result<Segment, Error> {
        let writer = Writer::next();
        let directory = self.directory.join(month);
        let file = self.budget.append(&directory.join(format!("{writer}{OPEN_SUFFIX}")))?;
        let closed_path = directory.join(format!("{writer}{CLOSED_SUFFIX}"));
        Ok(Segment { file, closed_path, order, pending: Vec::new(), written: None })
    }
}

impl Segments {
    fn close_oldest(&mut self) -> Result<(), Error> {
        let oldest = self.by_month.iter().min_by_key(|(_, segment)| segment.order);
        if let Some(month) = oldest.map(|(month, _)| month.clone())
            && let Some(segment) = self.by_month.remove(&month)
        {
            segment.close()?;
        }
        Ok(())
    }
}

/// A record as it stands in a segment.
pub(super) fn line(record: &Record) -> Vec<u8> {
    // Serialising into memory fails only for maps with keys that are no strings.
    let mut line = serde_json::to_vec(record).expect("a record has string keys only");
    line.push(b'\n');
    line
}
