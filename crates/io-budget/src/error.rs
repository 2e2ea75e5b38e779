//! What can go wrong with a storage request.

use std::io;
use std::path::{Path, PathBuf};

/// A failed storage request: what was attempted, where, and why it failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}", path.display())]
pub struct Error {
    /// The attempt as a verb, as in "open" or "list".
    pub operation: &'static str,
    /// The file or directory that was asked for.
    pub path: PathBuf,
    /// What the operating system answered.
    pub source: io::Error,
}

impl Error {
    /// A failed `operation` on `path`.
    pub fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self { operation, path: path.to_owned(), source }
    }

    /// Whether the storage has no room left: the disk is full or a quota is used up.
    pub fn is_out_of_space(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// Whether the file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}
