//! The log to which a process appends rejects, a batch of arrow's stream format for each file.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use arrow::error::ArrowError;
use arrow_ipc::writer::StreamWriter;
use io_budget::{AppendFile, Budget, Writer};
use stage::Error;

use super::segments::{self, Current};
use super::{Rejects, schema};

/// The suffix of logs.
pub(super) const LOG_SUFFIX: &str = ".open.arrows";

/// The log of this process for one dataset. May be shared by threads.
pub(crate) struct RejectsLog {
    budget: Budget,
    /// `catalog/rejects`.
    directory: PathBuf,
    open: Mutex<Option<Open>>,
}

struct Open {
    segment: String,
    file: AppendFile,
    encoder: StreamWriter<Vec<u8>>,
}

impl RejectsLog {
    /// A log in the catalog directory of a dataset. Nothing is created before the first reject.
    pub(crate) fn new(budget: &Budget, catalog: &Path) -> Self {
        let directory = segments::directory(catalog);
        Self { budget: budget.clone(), directory, open: Mutex::new(None) }
    }

    /// Appends the rejects of a file; returns the segment, for the ledger.
    pub(crate) fn append(&self, rejects: Rejects) -> Result<String, Error> {
        let internal = |error: ArrowError| Error::Internal(error.to_string());
        let batch = rejects.finish().map_err(internal)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let log = match &mut *open {
            Some(log) => log,
            none => none.insert(self.begin()?),
        };
        log.encoder.write(&batch).map_err(internal)?;
        let bytes = std::mem::take(log.encoder.get_mut());
        log.file.append(&bytes)?;
        Ok(log.segment.clone())
    }

    fn begin(&self) -> Result<Open, Error> {
        let segment = Writer::next().to_string();
        let file = self.budget.append(&self.directory.join(format!("{segment}{LOG_SUFFIX}")))?;
        // The head of the stream is written with the first batch.
        let encoder = StreamWriter::try_new(Vec::new(), &schema())
            .map_err(|error| Error::Internal(error.to_string()))?;
        Ok(Open { segment, file, encoder })
    }

    /// Makes a Parquet file of the log. `current` tells which sources were recorded, where that is
    /// in doubt.
    pub(crate) fn close(self, current: Option<&Current>) -> Result<(), Error> {
        let open = self.open.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Some(Open { segment, file, .. }) = open else { return Ok(()) };
        file.close()?;
        segments::close_log(&self.budget, &self.directory, &segment, current)
    }
}
