//! Positioned reads of one open file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::{Advice, Mode, OFlags, openat};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::budget::{is_stale, parent, stale_pauses, unless_stale};
use crate::device::{Answer, Device};
use crate::storage::StorageClass;
use crate::{Budget, Error, RequestKind, Stat};

/// What reads past the page cache have to be aligned to, on every block device in use.
const ALIGNMENT: usize = 4096;

/// How often a file of a network storage is looked at that is not as it was listed, and the time
/// between: clients keep attributes for some seconds.
const LOOKS: usize = 11;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// Bytes that a reader of a file too large for memory holds.
const READER_BYTES: usize = 8 << 20;

/// A file open for positioned reads under a budget.
#[derive(Debug)]
pub struct BudgetFile {
    budget: Budget,
    device: Arc<Device>,
    path: PathBuf,
    handle: Handle,
    stat: Stat,
    /// What was read of it before.
    known: Arc<KnownPages>,
    /// Whether nobody will read the file again soon.
    once: bool,
    /// Whether some of it was read from the storage, not from the page cache.
    brought_in: AtomicBool,
}

/// The open file; another one of the same content after the server has forgotten the first.
#[derive(Debug)]
struct Handle {
    /// None only while the file is being closed.
    current: Mutex<Option<Arc<File>>>,
    direct: bool,
}

/// The parts of a file that were read and are probably in the page cache. A request that reached
/// across one would leave as two at once, around it.
#[derive(Debug, Default)]
pub(crate) struct KnownPages {
    /// Beginning and end of each, apart from one another, multiples of a page.
    parts: Mutex<BTreeMap<u64, u64>>,
}

impl KnownPages {
    /// Bytes from `offset` to the next beginning or end of a part.
    fn next_edge(&self, offset: u64) -> u64 {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let within = parts.range(..=offset).next_back().filter(|(_, end)| **end > offset);
        let edge = within.map(|(_, end)| *end);
        let edge = edge.or_else(|| parts.range(offset..).next().map(|(start, _)| *start));
        edge.map_or(u64::MAX, |edge| edge - offset)
    }

    fn add(&self, part: Range<u64>) {
        let page = ALIGNMENT as u64;
        let (mut start, mut end) =
            (part.start - part.start % page, part.end.next_multiple_of(page));
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((other, its_end)) =
            parts.range(..=end).next_back().map(|(start, end)| (*start, *end))
            && its_end >= start
        {
            parts.remove(&other);
            (start, end) = (start.min(other), end.max(its_end));
        }
        parts.insert(start, end);
    }
}

impl BudgetFile {
    pub(crate) fn open(budget: &Budget, path: &Path) -> Result<Self, Error> {
        let place = budget.places().of_directory(parent(path));
        let direct = budget.places().options().direct;
        let (opened, metadata) = open(budget, &place.device, direct, path)?;
        let device = if metadata.dev() == place.number {
            place.device
        } else {
            budget.places().of_file(&opened.file)
        };
        if !metadata.is_file() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
            return Err(Error::new("read", path, source));
        }
        // A bucket's file system fetches a whole object best with the kernel's help.
        if device.storage().class != StorageClass::ObjectStore {
            // Without this the kernel reads ahead, in requests that no permit covers. Some file
            // systems do not know the advice, which then changes nothing.
            let _advised = rustix::fs::fadvise(&opened.file, 0, None, Advice::Random);
        }
        let Opened { file, direct } = opened;
        Ok(Self {
            budget: budget.clone(),
            device,
            path: path.to_owned(),
            handle: Handle { current: Mutex::new(Some(Arc::new(file))), direct },
            known: budget.known_pages(&metadata),
            stat: Stat::of(&metadata),
            once: false,
            brought_in: AtomicBool::new(false),
        })
    }

    pub(crate) fn open_listed(budget: &Budget, path: &Path, listed: Stat) -> Result<Self, Error> {
        let mut file = Self::open(budget, path)?;
        let is_listed =
            |stat: Stat| (stat.size, stat.modified_ns) == (listed.size, listed.modified_ns);
        for _ in 1..LOOKS {
            if is_listed(file.stat) || !file.device.storage().class.is_network() {
                break;
            }
            std::thread::sleep(BETWEEN_LOOKS);
            file = Self::open(budget, path)?;
        }
        if is_listed(file.stat) {
            return Ok(file);
        }
        let message = format!(
            "it was changed after it was listed (it had {} bytes and has {}): run again when \
             nothing writes it",
            listed.size, file.stat.size
        );
        Err(Error::new("read", path, io::Error::other(message)))
    }

    /// Says that nobody will read this file again soon: once it is closed the page cache forgets
    /// what was read of it, unless all of that was there before.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size and time when it was opened.
    pub fn stat(&self) -> Stat {
        self.stat
    }

    /// Whether the file is small enough for its storage to be read at once where all of it is
    /// wanted.
    pub fn is_read_whole(&self) -> bool {
        self.stat.size <= self.device.policy().whole_bytes
    }

    /// Whether the file is small enough for its storage to be read at once even where a part of
    /// it is wanted: one request brings it.
    pub fn is_one_request(&self) -> bool {
        self.stat.size <= self.device.policy().request_bytes as u64
    }

    /// Reads the whole file.
    ///
    /// # Errors
    ///
    /// [`Error`] when a read fails or the file has become shorter.
    pub fn read_all(&self) -> Result<Bytes, Error> {
        self.device.read_counters().record_file_read();
        let _turn = self.device.stream();
        self.read(0..self.stat.size)
    }

    /// Reads one range, in requests no larger than the storage's policy allows.
    ///
    /// # Errors
    ///
    /// [`Error`] when the range goes beyond the end, a read fails, or the file has become shorter.
    pub fn read_range(&self, range: Range<u64>) -> Result<Bytes, Error> {
        self.device.read_counters().record_range_read();
        self.read(range)
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, Error> {
        let failed = |kind, message| Error::new("read", &self.path, io::Error::new(kind, message));
        if range.start > range.end || range.end > self.stat.size {
            let message = format!(
                "bytes {}..{} were asked for, the file has {}",
                range.start, range.end, self.stat.size
            );
            return Err(failed(io::ErrorKind::InvalidInput, message));
        }
        // Past the page cache, what is read begins and ends at a multiple of the alignment.
        let alignment = if self.handle.direct { ALIGNMENT } else { 1 };
        let first = range.start - range.start % alignment as u64;
        let memory = |length: u64| {
            usize::try_from(length)
                .map_err(|error| failed(io::ErrorKind::OutOfMemory, error.to_string()))
        };
        let (skip, wanted) = (memory(range.start - first)?, memory(range.end - first)?);
        let length = wanted.next_multiple_of(alignment);
        let mut buffer = vec![0; length + alignment - 1];
        let begin = buffer.as_ptr().align_offset(alignment);
        let mut done = 0;
        while done < wanted {
            let offset = first + done as u64;
            let unit = self.device.policy().request_bytes;
            let unit = memory(self.known.next_edge(offset))?.min(unit);
            let end = length.min(done.saturating_add(unit));
            let unit = &mut buffer[begin + done..begin + end];
            match self.read_unit(unit, offset)? {
                0 => {
                    let message = format!("the file ends at byte {offset}, it has become shorter");
                    return Err(failed(io::ErrorKind::UnexpectedEof, message));
                }
                read => done += read,
            }
        }
        self.known.add(first..first + wanted as u64);
        Ok(Bytes::from(buffer).slice(begin + skip..begin + wanted))
    }

    /// Reads once, in one request.
    fn read_unit(&self, unit: &mut [u8], offset: u64) -> Result<usize, Error> {
        let mut pauses = stale_pauses();
        loop {
            let file = self.handle.file();
            match self.device.read(|| self.read_at(&file, unit, offset)) {
                Ok(Answer { bytes, cached }) => {
                    if !cached {
                        self.brought_in.store(true, Relaxed);
                    }
                    return Ok(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => match pauses.next().filter(|_| is_stale(&source)) {
                    Some(pause) => {
                        std::thread::sleep(pause);
                        self.reopen(&file)?;
                    }
                    None => return Err(Error::new("read", &self.path, source)),
                },
            }
        }
    }

    /// Asks the page cache first, where it can be told what it holds. The kernel begins to read what
    /// is not there even if nobody waits for it: this, too, needs a permit.
    fn read_at(&self, file: &File, unit: &mut [u8], offset: u64) -> io::Result<Answer> {
        if !self.handle.direct && self.device.tells_hits() {
            match preadv2(file, &mut [IoSliceMut::new(unit)], offset, ReadWriteFlags::NOWAIT) {
                Ok(0) | Err(Errno::AGAIN | Errno::INTR) => {}
                Ok(bytes) => {
                    let rest = file.read_at(&mut unit[bytes..], offset + bytes as u64)?;
                    return Ok(Answer { bytes: bytes + rest, cached: rest == 0 });
                }
                Err(_) => self.device.cannot_tell_hits(),
            }
        }
        let bytes = file.read_at(unit, offset)?;
        Ok(Answer { bytes, cached: false })
    }

    /// Opens the file again after its name has come to lead to another one, which must have the
    /// same size and time: two versions are never mixed.
    fn reopen(&self, stale: &Arc<File>) -> Result<(), Error> {
        let mut current = self.handle.current.lock().unwrap_or_else(PoisonError::into_inner);
        if !current.as_ref().is_some_and(|current| Arc::ptr_eq(current, stale)) {
            return Ok(());
        }
        // The directory may be another one too.
        self.budget.forget_directory(parent(&self.path));
        let (opened, metadata) = open(&self.budget, &self.device, self.handle.direct, &self.path)?;
        let stat = Stat::of(&metadata);
        if (stat.size, stat.modified_ns) != (self.stat.size, self.stat.modified_ns) {
            let message = "it was replaced by another version while it was read: run again";
            return Err(Error::new("read", &self.path, io::Error::other(message)));
        }
        *current = Some(Arc::new(opened.file));
        Ok(())
    }

    /// Reads several ranges, neighbours together; the answers are in the order asked for.
    ///
    /// # Errors
    ///
    /// As [`Self::read_range`].
    pub fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, Error> {
        let spans = merge(ranges, self.device.policy().merge_gap_bytes);
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

impl Handle {
    fn file(&self) -> Arc<File> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(current.as_ref().expect("a file is open until it is dropped"))
    }
}

impl Drop for BudgetFile {
    fn drop(&mut self) {
        let current = self.handle.current.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = current.take().and_then(Arc::into_inner) else { return };
        let close = || {
            if self.once && self.brought_in.load(Relaxed) {
                // Where this is not known the cache keeps the pages, which does no harm.
                let _advised = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
            }
            nix::unistd::close(file).map_err(io::Error::from)
        };
        // Nothing was written: an error has no consequence.
        let _closed = self.device.request(RequestKind::Close, |()| 0, close);
    }
}

/// A file as it was opened.
struct Opened {
    file: File,
    direct: bool,
}

/// Opens a file and looks at it, in one request: the answer to an open brings size and time along.
fn open(
    budget: &Budget,
    device: &Device,
    direct: bool,
    path: &Path,
) -> Result<(Opened, std::fs::Metadata), Error> {
    let attempt = |direct: bool| {
        unless_stale(|| {
            let directory = budget.existing_directory(parent(path))?;
            let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
            // Without waiting: the open of a pipe would wait for a writer. Files never wait.
            let past_cache = if direct { OFlags::DIRECT } else { OFlags::empty() };
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | past_cache;
            let look = || {
                let file = File::from(openat(&directory, name, flags, Mode::empty())?);
                let metadata = file.metadata()?;
                Ok((Opened { file, direct }, metadata))
            };
            let opened = device.request(RequestKind::Open, |_| 0, look);
            if opened.as_ref().is_err_and(is_stale) {
                budget.forget_directory(parent(path));
            }
            opened
        })
    };
    let answer = match attempt(direct) {
        // This file system has no way past the page cache.
        Err(error) if direct && error.kind() == io::ErrorKind::InvalidInput => attempt(false),
        answer => answer,
    };
    answer.map_err(|source| Error::new("open", path, source))
}

/// Reads a file from beginning to end or anywhere, a request at a time. For files too large to hold in memory. A storage error comes out inside the reader's error.
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
            let unit = self.file.device.policy().request_bytes.min(READER_BYTES) as u64;
            let end = size.min(self.position.saturating_add(unit));
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

/// The spans to read for the ranges asked for: sorted, apart by more than `gap` bytes, which cost
/// less than a request of their own.
fn merge(ranges: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = ranges.to_vec();
    sorted.sort_unstable_by_key(|range| (range.start, range.end));
    let mut spans: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match spans.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => {
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
    use crate::Options;
    use proptest::prelude::*;

    #[test]
    fn a_request_ends_where_something_known_begins_or_ends() {
        let known = KnownPages::default();
        assert_eq!(known.next_edge(5), u64::MAX);
        known.add(10_000..10_001);
        known.add(20_000..30_000);
        assert_eq!((known.next_edge(0), known.next_edge(8_192)), (8_192, 4_096));
        assert_eq!((known.next_edge(12_288), known.next_edge(20_480)), (4_096, 12_288));
        assert_eq!(known.next_edge(32_768), u64::MAX);
        known.add(12_288..16_384);
        assert_eq!(known.next_edge(8_192), 32_768 - 8_192, "what touches is one part");
    }

    /// A file of this length of which the page cache holds nothing; none where it holds all files.
    fn cold_file(directory: &Path, length: usize) -> Option<PathBuf> {
        let cold = |name| {
            let path = directory.join(name);
            std::fs::write(&path, vec![7; length]).unwrap();
            let file = File::open(&path).unwrap();
            file.sync_all().unwrap();
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            (path, file)
        };
        // Asking begins to read: another file tells what the system does.
        (!is_cached(&cold("other").1)).then(|| cold("cold").0)
    }

    fn is_cached(file: &File) -> bool {
        let mut byte = [0];
        preadv2(file, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT).is_ok()
    }

    #[test]
    fn a_read_that_waits_for_its_permit_has_not_begun() {
        // Beside the sources: a directory for temporary files may be in memory.
        let directory = tempfile::tempdir_in(".").unwrap();
        let Some(path) = cold_file(directory.path(), 1 << 20) else { return };
        let one = std::num::NonZeroUsize::MIN;
        let budget = Budget::new(Options { reads: crate::Limit::Fixed(one), ..Options::private() });
        let file = budget.open(&path).unwrap();
        let (release, held) = std::sync::mpsc::channel();
        let holder = budget.device_of(&path);
        std::thread::scope(|scope| {
            let (sender, in_flight) = std::sync::mpsc::channel();
            scope.spawn(move || {
                holder.request(
                    RequestKind::Read,
                    |()| 0,
                    || {
                        sender.send(()).unwrap();
                        held.recv().unwrap();
                        Ok(())
                    },
                )
            });
            in_flight.recv().unwrap();
            let reader = scope.spawn(|| file.read_range(0..1 << 20).unwrap());
            std::thread::sleep(Duration::from_millis(100));
            let is_begun = is_cached(&File::open(&path).unwrap());
            release.send(()).unwrap();
            assert_eq!(reader.join().unwrap().len(), 1 << 20);
            assert!(!is_begun, "it was begun without a permit");
        });
    }

    #[test]
    fn near_ranges_are_one_span_and_far_ones_are_not() {
        assert_eq!(merge(&[50..100, 0..10, 150..151], 50), [0..151]);
        assert_eq!(merge(&[0..100, 151..152], 50), [0..100, 151..152]);
        assert_eq!(merge(&[], 50), [0..0; 0]);
    }

    #[test]
    fn a_reader_gives_the_bytes_of_the_file_anywhere() {
        use std::io::{Read as _, Seek as _};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let budget = Budget::private();
        let content: Vec<u8> = (0..3_000_000_u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let mut staged = budget.stage(&path);
        io::Write::write_all(&mut staged, &content).unwrap();
        staged.publish().unwrap();
        let mut reader = FileReader::new(budget.open(&path).unwrap());
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, content);
        let reads = budget.report().reads;
        assert_eq!(reads.read + reads.cache_hits, 3);
        assert_eq!(reader.seek(io::SeekFrom::End(-3)).unwrap(), 2_999_997);
        let mut last = Vec::new();
        reader.read_to_end(&mut last).unwrap();
        assert_eq!(last, content[2_999_997..]);
        assert!(reader.seek(io::SeekFrom::Current(-4_000_000)).is_err());
    }

    /// A budget that takes everything in `directory` for one class of storage.
    fn budget_of(directory: &Path, class: StorageClass, direct: bool) -> Budget {
        let classes = [(directory.to_owned(), class)].into();
        Budget::new(Options { direct, classes, ..Options::private() })
    }

    fn write(budget: &Budget, path: &Path, content: &[u8]) {
        let mut staged = budget.stage(path);
        io::Write::write_all(&mut staged, content).unwrap();
        staged.publish().unwrap();
    }

    #[test]
    fn a_file_of_a_bucket_is_one_request_and_one_of_a_disk_is_several() {
        for (class, requests) in [(StorageClass::ObjectStore, 1), (StorageClass::Hdd, 5)] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("file");
            let budget = budget_of(directory.path(), class, true);
            let content: Vec<u8> =
                (0..5_000_000_u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
            write(&budget, &path, &content);
            let file = budget.open(&path).unwrap();
            assert!(file.is_read_whole());
            assert_eq!(file.read_all().unwrap(), content);
            let reads = budget.report().reads;
            // Where there is no way past the page cache, it answers.
            assert_eq!(reads.read + reads.cache_hits, requests, "{class}");
            assert_eq!((reads.file_reads, reads.range_reads), (1, 0));
            file.read_ranges(&[0..10, 4_000_000..4_000_010]).unwrap();
            assert_eq!(budget.report().reads.range_reads, 2);
        }
    }

    #[test]
    fn what_the_page_cache_has_is_no_request() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let budget = Budget::private();
        write(&budget, &path, &vec![7; 100_000]);
        budget.open(&path).unwrap().read_all().unwrap();
        let reads = budget.report().reads;
        // Some file systems, such as FUSE ones, do not tell.
        assert_eq!(reads.read + reads.cache_hits, 1);
        assert_eq!(reads.bytes + reads.cache_hit_bytes, 100_000);
    }

    #[test]
    fn a_file_is_the_listed_one_or_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let budget = budget_of(directory.path(), StorageClass::Ssd, false);
        write(&budget, &path, b"content");
        let listed = budget.stat(&path).unwrap().unwrap();
        assert_eq!(budget.open_listed(&path, listed).unwrap().read_all().unwrap(), "content");
        let error = budget.open_listed(&path, Stat { size: 9, ..listed }).unwrap_err();
        assert!(error.source.to_string().contains("it had 9 bytes and has 7"), "{error:?}");
    }

    #[test]
    fn a_network_is_given_time_to_show_the_listed_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let budget = budget_of(directory.path(), StorageClass::Nfs, false);
        write(&budget, &path, b"the new content");
        let listed = budget.stat(&path).unwrap().unwrap();
        let new = directory.path().join("new");
        std::fs::rename(&path, &new).unwrap();
        write(&budget, &path, b"old");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(BETWEEN_LOOKS / 2);
                std::fs::rename(&new, &path).unwrap();
            });
            let file = budget.open_listed(&path, listed).unwrap();
            assert_eq!(file.read_all().unwrap(), "the new content");
        });
    }

    #[test]
    fn a_range_beyond_the_end_is_refused_without_a_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let budget = Budget::private();
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
            direct: bool,
            asked in proptest::collection::vec((0_u64..3_000_000, 0_u64..70_000), 0..12),
        ) {
            let content: Vec<u8> = (0..3_100_000_u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("file");
            let budget = budget_of(directory.path(), StorageClass::Ssd, direct);
            write(&budget, &path, &content);
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
