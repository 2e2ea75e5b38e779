//! Writes segments, one per month that a process works on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use io_budget::{AppendFile, Budget, Writer};

use super::{Error, Record};

pub(super) const OPEN_SUFFIX: &str = ".open.jsonl";
pub(super) const CLOSED_SUFFIX: &str = ".jsonl";
pub(super) const MERGED_SUFFIX: &str = ".merged.jsonl.zst";

/// Segments open at once; the least recently begun one is closed for another.
const OPEN_AT_MOST: usize = 16;

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
}

impl LedgerWriter {
    pub(super) fn new(budget: &Budget, directory: &Path) -> Self {
        let (budget, directory) = (budget.clone(), directory.to_owned());
        Self { budget, directory, open: Mutex::default() }
    }

    /// Records that an output was published, or that it could not be.
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
            Some(segment) => Ok(segment.file.append(&line)?),
            None => Ok(()),
        }
    }

    /// Closes all segments, so that they count for other processes.
    ///
    /// # Errors
    ///
    /// [`Error`] when a segment cannot be synced or renamed. Its records count all the same once
    /// this process is gone.
    pub fn close(self) -> Result<(), Error> {
        let segments = self.open.into_inner().unwrap_or_else(PoisonError::into_inner);
        for segment in segments.by_month.into_values() {
            segment.file.close_as(&segment.closed_path)?;
        }
        Ok(())
    }

    fn begin(&self, month: &str, order: u64) -> Result<Segment, Error> {
        let writer = Writer::next();
        let directory = self.directory.join(month);
        let file = self.budget.append(&directory.join(format!("{writer}{OPEN_SUFFIX}")))?;
        let closed_path = directory.join(format!("{writer}{CLOSED_SUFFIX}"));
        Ok(Segment { file, closed_path, order })
    }
}

impl Segments {
    fn close_oldest(&mut self) -> Result<(), Error> {
        let oldest = self.by_month.iter().min_by_key(|(_, segment)| segment.order);
        if let Some(month) = oldest.map(|(month, _)| month.clone())
            && let Some(segment) = self.by_month.remove(&month)
        {
            segment.file.close_as(&segment.closed_path)?;
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
