//! Positioned reads of one open file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::fs::Advice;

use crate::{Budget, Error, REQUEST_BYTES, RequestKind, Stat};

/// Ranges of one file that are no further apart than this are read as one: on the storage this
/// budget is for, a request costs about as much as reading these bytes.
const MERGE_GAP_BYTES: u64 = 512 << 10;

/// A file open for positioned reads under a budget.
#[derive(Debug)]
pub struct BudgetFile {
    budget: Budget,
    path: PathBuf,
    file: File,
    stat: Stat,
}

impl BudgetFile {
    pub(crate) fn open(budget: &Budget, path: &Path) -> Result<Self, Error> {
        // Without waiting: the open of a pipe would wait for a writer. Files never wait.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let open = || File::options().read(true).custom_flags(nonblocking).open(path);
        let file = budget
            .request(RequestKind::Open, |_| 0, open)
            .map_err(|source| Error::new("open", path, source))?;
        let metadata = budget
            .request(RequestKind::Stat, |_| 0, || file.metadata())
            .map_err(|source| Error::new("look at", path, source))?;
        if !metadata.is_file() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
            return Err(Error::new("read", path, source));
        }
        // Without this the kernel reads ahead, in requests that no permit covers. Some file
        // systems do not know the advice, which then changes nothing.
        let _advised = rustix::fs::fadvise(&file, 0, None, Advice::Random);
        Ok(Self { budget: budget.clone(), path: path.to_owned(), file, stat: Stat::of(&metadata) })
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size and time when it was opened.
    pub fn stat(&self) -> Stat {
        self.stat
    }

    /// Reads the whole file.
    ///
    /// # Errors
    ///
    /// [`Error`] when a read fails or the file has become shorter.
    pub fn read_all(&self) -> Result<Bytes, Error> {
        self.read_range(0..self.stat.size)
    }

    /// Reads one range, in requests of at most [`REQUEST_BYTES`].
    ///
    /// # Errors
    ///
    /// [`Error`] when the range goes beyond the end, a read fails, or the file has become shorter.
    pub fn read_range(&self, range: Range<u64>) -> Result<Bytes, Error> {
        let failed = |kind, message| Error::new("read", &self.path, io::Error::new(kind, message));
        if range.start > range.end || range.end > self.stat.size {
            let message = format!(
                "bytes {}..{} were asked for, the file has {}",
                range.start, range.end, self.stat.size
            );
            return Err(failed(io::ErrorKind::InvalidInput, message));
        }
        let length = usize::try_from(range.end - range.start)
            .map_err(|error| failed(io::ErrorKind::OutOfMemory, error.to_string()))?;
        let mut buffer = vec![0; length];
        let mut done = 0;
        while done < length {
            let end = length.min(done + REQUEST_BYTES);
            let offset = range.start + done as u64;
            let unit = &mut buffer[done..end];
            let read = self.budget.request(
                RequestKind::Read,
                |read| *read as u64,
                || self.file.read_at(unit, offset),
            );
            match read {
                Ok(0) => {
                    let message = format!("the file ends at byte {offset}, it has become shorter");
                    return Err(failed(io::ErrorKind::UnexpectedEof, message));
                }
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::new("read", &self.path, source)),
            }
        }
        Ok(Bytes::from(buffer))
    }

    /// Reads several ranges, neighbours together; the answers are in the order asked for.
    ///
    /// # Errors
    ///
    /// As [`Self::read_range`].
    pub fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, Error> {
        let spans = merge(ranges);
        let mut buffers = Vec::with_capacity(spans.len());
        for span in &spans {
            buffers.push(self.read_range(span.clone())?);
        }
        let slice = |range: &Range<u64>| {
            let index = spans.partition_point(|span| span.end < range.end);
            let start = usize::try_from(range.start - spans[index].start).unwrap_or(usize::MAX);
            let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            buffers[index].slice(start..start + length)
        };
        Ok(ranges.iter().map(slice).collect())
    }
}

/// Reads a file from beginning to end or anywhere, a request of [`REQUEST_BYTES`] at a time. For
/// files too large to hold in memory. A storage error comes out inside the reader's error.
#[derive(Debug)]
pub struct FileReader {
    file: BudgetFile,
    position: u64,
    buffer: Bytes,
    buffer_start: u64,
}

impl FileReader {
    /// A reader at the beginning of the file.
    pub fn new(file: BudgetFile) -> Self {
        Self { file, position: 0, buffer: Bytes::new(), buffer_start: 0 }
    }
}

impl io::Read for FileReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let size = self.file.stat.size;
        let buffered = self.buffer_start..self.buffer_start + self.buffer.len() as u64;
        if !buffered.contains(&self.position) {
            let end = size.min(self.position.saturating_add(REQUEST_BYTES as u64));
            if self.position >= end {
                return Ok(0);
            }
            self.buffer = self.file.read_range(self.position..end).map_err(io::Error::other)?;
            self.buffer_start = self.position;
        }
        let from = usize::try_from(self.position - self.buffer_start).unwrap_or(usize::MAX);
        let available = &self.buffer[from..];
        let count = available.len().min(into.len());
        into[..count].copy_from_slice(&available[..count]);
        self.position += count as u64;
        Ok(count)
    }
}

impl io::Seek for FileReader {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let target = match to {
            io::SeekFrom::Start(offset) => Some(offset),
            io::SeekFrom::End(offset) => self.file.stat.size.checked_add_signed(offset),
            io::SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// The spans to read for the ranges asked for: sorted, apart by more than [`MERGE_GAP_BYTES`].
fn merge(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = ranges.to_vec();
    sorted.sort_unstable_by_key(|range| (range.start, range.end));
    let mut spans: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match spans.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(MERGE_GAP_BYTES) => {
                last.end = last.end.max(range.end);
            }
            _ => spans.push(range),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Caps;
    use proptest::prelude::*;

    #[test]
    fn near_ranges_are_one_span_and_far_ones_are_not() {
        let far = 100 + MERGE_GAP_BYTES;
        assert_eq!(merge(&[50..100, 0..10, far..far + 1]), [0..far + 1]);
        assert_eq!(merge(&[0..100, far + 1..far + 2]), [0..100, far + 1..far + 2]);
        assert_eq!(merge(&[]), [0..0; 0]);
    }

    #[test]
    fn a_reader_gives_the_bytes_of_the_file_anywhere() {
        use std::io::{Read as _, Seek as _};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let budget = Budget::new(Caps::default());
        let content: Vec<u8> = (0..3_000_000_u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let mut staged = budget.stage(&path);
        io::Write::write_all(&mut staged, &content).unwrap();
        staged.publish().unwrap();
        let mut reader = FileReader::new(budget.open(&path).unwrap());
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, content);
        assert_eq!(budget.report().reads.read, 3);
        assert_eq!(reader.seek(io::SeekFrom::End(-3)).unwrap(), 2_999_997);
        let mut last = Vec::new();
        reader.read_to_end(&mut last).unwrap();
        assert_eq!(last, content[2_999_997..]);
        assert!(reader.seek(io::SeekFrom::Current(-4_000_000)).is_err());
    }

    #[test]
    fn a_range_beyond_the_end_is_refused_without_a_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let budget = Budget::new(Caps::default());
        let mut staged = budget.stage(&path);
        io::Write::write_all(&mut staged, b"0123456789").unwrap();
        staged.publish().unwrap();
        let file = budget.open(&path).unwrap();
        let error = file.read_range(5..u64::MAX).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(budget.report().reads.read, 0);
        assert_eq!(file.read_range(2..5).unwrap(), "234");
    }

    proptest! {
        #[test]
        fn ranges_read_together_are_the_bytes_asked_for(
            asked in proptest::collection::vec((0_u64..3_000_000, 0_u64..70_000), 0..12),
        ) {
            let content: Vec<u8> = (0..3_100_000_u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("file");
            let budget = Budget::new(Caps::default());
            let mut staged = budget.stage(&path);
            io::Write::write_all(&mut staged, &content).unwrap();
            staged.publish().unwrap();
            let ranges: Vec<_> =
                asked.iter().map(|(start, len)| *start..start + len).collect();
            let answers = budget.open(&path).unwrap().read_ranges(&ranges).unwrap();
            for (range, answer) in ranges.iter().zip(answers) {
                let at = |offset: u64| usize::try_from(offset).unwrap();
                prop_assert_eq!(&answer[..], &content[at(range.start)..at(range.end)]);
            }
        }
    }
}
