//! The files that a sample can be written as.

pub mod csv;
mod description;
mod lines;

use std::path::Path;

use arrow::array::RecordBatch;
use stage::Error;

/// Takes the batches of a table, one after another.
pub type Deliver<'a> = dyn FnMut(RecordBatch) -> Result<(), Error> + 'a;

/// What a file holds, as the ending of its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Parquet.
    Parquet,
    /// Text with commas, and a description beside it.
    Csv,
    /// Arrow's file format for IPC, which is also Feather, version 2.
    Arrow,
}

impl Format {
    /// The format of the file that `--out` names.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when its name has another ending.
    pub(crate) fn of(out: &Path) -> Result<Self, Error> {
        match out.extension().and_then(|extension| extension.to_str()) {
            Some("parquet") => Ok(Self::Parquet),
            Some("csv") => Ok(Self::Csv),
            Some("arrow") => Ok(Self::Arrow),
            _ => Err(Error::usage(
                format!("--out {} does not end in .parquet, .csv or .arrow", out.display()),
                "the ending decides what is written, as in --out sample.parquet",
            )),
        }
    }
}

#[cfg(test)]
mod tests;
