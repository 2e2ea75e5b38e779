//! Parts of a file that were read, for readers of `parquet` that ask by place in the file.

use bytes::{Buf as _, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Parts of a file, each with its place there.
#[derive(Debug)]
pub(crate) struct Parts(Vec<(u64, Bytes)>);

impl Parts {
    pub(crate) fn new(parts: impl IntoIterator<Item = (u64, Bytes)>) -> Self {
        Self(parts.into_iter().collect())
    }

    /// The bytes from `start` to the end of the part that holds it.
    fn from(&self, start: u64) -> Result<Bytes> {
        let found = self.0.iter().find_map(|(offset, bytes)| {
            let skip = usize::try_from(start.checked_sub(*offset)?).ok()?;
            (skip <= bytes.len()).then(|| bytes.slice(skip..))
        });
        found.ok_or_else(|| ParquetError::EOF(format!("byte {start} was not read")))
    }
}

impl Length for Parts {
    fn len(&self) -> u64 {
        let end = |(start, bytes): &(u64, Bytes)| start + bytes.len() as u64;
        self.0.iter().map(end).max().unwrap_or(0)
    }
}

impl ChunkReader for Parts {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes = self.from(start)?;
        if bytes.len() < length {
            let read = bytes.len();
            return Err(ParquetError::EOF(format!("{length} bytes at {start}, {read} were read")));
        }
        Ok(bytes.slice(..length))
    }
}
