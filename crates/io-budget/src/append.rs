//! A file that grows by whole records and is closed by a rename.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::budget::parent;
use crate::device::Device;
use crate::{Budget, Error, RequestKind};

/// A new file open for appending. What is appended survives the death of this process; it is
/// synced to the storage when the file is closed.
#[derive(Debug)]
pub struct AppendFile {
    budget: Budget,
    device: Arc<Device>,
    path: PathBuf,
    file: File,
}

impl AppendFile {
    pub(crate) fn create(budget: &Budget, path: &Path) -> Result<Self, Error> {
        let directory = parent(path);
        budget
            .directory(directory)
            .map_err(|source| Error::new("make the directory", directory, source))?;
        let create = || File::options().append(true).create_new(true).open(path);
        let device = budget.device_of(path);
        let file = device
            .request(RequestKind::Create, |_| 0, create)
            .map_err(|source| Error::new("create", path, source))?;
        Ok(Self { budget: budget.clone(), device, path: path.to_owned(), file })
    }

    /// Appends records in one write, so that a reader sees them whole or, at the very end of the
    /// file after a crash, cut.
    ///
    /// # Errors
    ///
    /// [`Error`] when the write fails or is cut short.
    pub fn append(&mut self, records: &[u8]) -> Result<(), Error> {
        let file = &mut self.file;
        self.device
            .request(
                RequestKind::Write,
                |written| *written as u64,
                || match file.write(records)? {
                    written if written == records.len() => Ok(written),
                    _ => Err(io::ErrorKind::WriteZero.into()),
                },
            )
            .map_err(|source| Error::new("append to", &self.path, source))?;
        Ok(())
    }

    /// Syncs what was appended to the storage.
    ///
    /// # Errors
    ///
    /// [`Error`] when the sync fails.
    pub fn sync(&self) -> Result<(), Error> {
        self.device
            .request(RequestKind::Sync, |()| 0, || self.file.sync_data())
            .map_err(|source| Error::new("sync", &self.path, source))
    }

    /// Syncs and closes the file under its own name.
    ///
    /// # Errors
    ///
    /// [`Error`] when one of these fails.
    pub fn close(self) -> Result<(), Error> {
        self.sync()?;
        let Self { device, path, file, .. } = self;
        let close = || nix::unistd::close(file).map_err(io::Error::from);
        device
            .request(RequestKind::CloseWritten, |()| 0, close)
            .map_err(|source| Error::new("close", &path, source))
    }

    /// Syncs, closes and renames the file: it will not grow any more.
    ///
    /// # Errors
    ///
    /// [`Error`] when one of these fails.
    pub fn close_as(self, closed: &Path) -> Result<(), Error> {
        let (budget, path) = (self.budget.clone(), self.path.clone());
        self.close()?;
        budget.rename(&path, closed)
    }
}
