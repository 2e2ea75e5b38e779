//! Files that no earlier run touched, handed out in parts. Sizes are looked at as they are needed,
//! since a directory may hold hundreds of thousands of files.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use stage::Error;

use crate::record::{FileSize, Part};

/// Bytes from which a file is large.
pub(crate) const LARGE: u64 = 64 << 20;
/// Bytes below which a file is small.
pub(crate) const SMALL: u64 = 16 << 20;
/// Smaller files are passed over: opening them is most of the work.
const LEAST: u64 = 64 << 10;
/// Parts of large files begin and end at multiples of this.
const STEP: u64 = 1 << 20;

/// Untouched files below a directory.
#[derive(Debug)]
pub(crate) struct Supply {
    directory: PathBuf,
    /// Files whose size is not known yet, in random order.
    unseen: Vec<PathBuf>,
    /// Ends of what was touched, by file.
    touched: HashMap<PathBuf, u64>,
    small: VecDeque<(PathBuf, u64)>,
    large: VecDeque<Rest>,
}

/// The untouched rest of a large file.
#[derive(Debug)]
struct Rest {
    file: PathBuf,
    offset: u64,
    size: u64,
}

impl Rest {
    fn left(&self) -> u64 {
        self.size.saturating_sub(self.offset)
    }
}

impl Supply {
    /// Lists a directory and those below it; names that begin with a dot are passed over, and links
    /// are not followed. `touched` are the parts that earlier runs read.
    ///
    /// # Errors
    ///
    /// When a directory cannot be listed.
    pub(crate) fn find<'a>(
        directory: &Path,
        touched: impl IntoIterator<Item = &'a Part>,
        seed: u64,
    ) -> Result<Self, Error> {
        let failed = |path: &Path, source| Error::from(io_budget::Error::new("list", path, source));
        let mut unseen = Vec::new();
        let mut directories = vec![directory.to_owned()];
        while let Some(above) = directories.pop() {
            for entry in std::fs::read_dir(&above).map_err(|source| failed(&above, source))? {
                let (path, kind) = entry
                    .and_then(|entry| Ok((entry.path(), entry.file_type()?)))
                    .map_err(|source| failed(&above, source))?;
                let hidden =
                    path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
                match kind {
                    _ if hidden => {}
                    kind if kind.is_dir() => directories.push(path),
                    kind if kind.is_file() => unseen.push(path),
                    _ => {}
                }
            }
        }
        // The order of a listing differs between file systems.
        unseen.sort_unstable();
        fastrand::Rng::with_seed(seed).shuffle(&mut unseen);
        let mut ends = HashMap::new();
        for part in touched {
            let end = ends.entry(part.file.clone()).or_default();
            *end = part.offset.saturating_add(part.bytes).max(*end);
        }
        Ok(Self {
            directory: directory.to_owned(),
            unseen,
            touched: ends,
            small: VecDeque::new(),
            large: VecDeque::new(),
        })
    }

    /// Takes whole small files, together of `bytes` at least.
    ///
    /// # Errors
    ///
    /// [`Error::NoInput`] when there are not as many.
    pub(crate) fn small(&mut self, bytes: u64) -> Result<Vec<Part>, Error> {
        let mut parts = Vec::new();
        let mut sum = 0;
        while sum < bytes {
            if let Some((file, size)) = self.small.pop_front() {
                sum += size;
                parts.push(Part { file, offset: 0, bytes: size });
            } else if !self.look_at_one()? {
                return Err(self.too_few(FileSize::Small, bytes, sum));
            }
        }
        Ok(parts)
    }

    /// Takes parts of large files, one for each of `readers` at least, together of `bytes` about: of
    /// as many files as there are, and none longer than the smallest large file.
    ///
    /// # Errors
    ///
    /// [`Error::NoInput`] when there are not as many bytes left.
    pub(crate) fn large(&mut self, readers: usize, bytes: u64) -> Result<Vec<Part>, Error> {
        let number = (readers as u64).max(bytes.div_ceil(LARGE));
        let each = bytes.div_ceil(number.max(1)).next_multiple_of(STEP).max(STEP);
        let mut parts = Vec::new();
        while (parts.len() as u64) < number {
            let enough = |rest: &Rest| rest.left() >= each;
            let is_new = |rest: &Rest| parts.iter().all(|part: &Part| part.file != rest.file);
            let mut place = self.large.iter().position(|rest| enough(rest) && is_new(rest));
            if place.is_none() && self.look_at_one()? {
                continue;
            }
            place = place.or_else(|| self.large.iter().position(enough));
            let Some(mut rest) = place.and_then(|place| self.large.remove(place)) else {
                return Err(self.too_few(FileSize::Large, each * number, sum(&parts)));
            };
            parts.push(Part { file: rest.file.clone(), offset: rest.offset, bytes: each });
            rest.offset += each;
            self.large.push_back(rest);
        }
        Ok(parts)
    }

    /// Takes parts of large files, or whole small files where there is no large one.
    ///
    /// # Errors
    ///
    /// [`Error::NoInput`] when there are not as many bytes left.
    pub(crate) fn any(&mut self, readers: usize, bytes: u64) -> Result<Vec<Part>, Error> {
        let large = self.large(readers, bytes);
        if large.is_err() && self.large.is_empty() { self.small(bytes) } else { large }
    }

    /// Takes files to be read in single small reads: a large one where there is one, else some of
    /// the small ones.
    ///
    /// # Errors
    ///
    /// When a file cannot be looked at.
    pub(crate) fn for_single_reads(&mut self) -> Result<Vec<Part>, Error> {
        let wanted = ((self.unseen.len() + self.small.len()) / 20).clamp(1, 8);
        loop {
            if let Some(Rest { file, offset, size }) = self.large.pop_back() {
                return Ok(vec![Part { file, offset, bytes: size.saturating_sub(offset) }]);
            }
            // A few dozen files tell whether there are large ones.
            if self.small.len() >= 8 * wanted || !self.look_at_one()? {
                let first = self.small.len().saturating_sub(wanted);
                let taken = self.small.drain(first..);
                return Ok(taken.map(|(file, bytes)| Part { file, offset: 0, bytes }).collect());
            }
        }
    }

    /// Looks at one more file; whether there was one.
    fn look_at_one(&mut self) -> Result<bool, Error> {
        let Some(file) = self.unseen.pop() else { return Ok(false) };
        let size = match std::fs::metadata(&file) {
            Ok(metadata) => metadata.len(),
            // It is gone since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(source) => return Err(io_budget::Error::new("look at", &file, source).into()),
        };
        let touched = self.touched.get(&file).copied();
        if size >= LARGE {
            let offset = touched.unwrap_or(0).next_multiple_of(STEP);
            self.large.push_back(Rest { file, offset, size });
        } else if (LEAST..SMALL).contains(&size) && touched.is_none() {
            self.small.push_back((file, size));
        }
        Ok(true)
    }

    fn too_few(&self, files: FileSize, wanted: u64, found: u64) -> Error {
        let (kind, limit) = match files {
            FileSize::Large => ("large", format!("{} MiB or more", LARGE >> 20)),
            FileSize::Small => ("small", format!("{} KiB to {} MiB", LEAST >> 10, SMALL >> 20)),
        };
        Error::NoInput {
            message: format!(
                "a run needs {} MB in {kind} files ({limit}) that no earlier run touched, and of \
                 those {} MB are left below {}",
                wanted / 1_000_000,
                found / 1_000_000,
                self.directory.display()
            ),
            hint: String::from(
                "lower --run-mib, --repeats or the numbers of readers, choose --files large or \
                 small, or name a directory that holds more",
            ),
        }
    }
}

/// Bytes of parts together.
pub(crate) fn sum(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Files of these sizes, without bytes in them.
    fn directory(sizes: &[(&str, u64)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, size) in sizes {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::File::create(path).unwrap().set_len(*size).unwrap();
        }
        directory
    }

    fn names(parts: &[Part]) -> Vec<String> {
        let name = |part: &Part| part.file.file_name().unwrap().to_string_lossy().into_owned();
        let mut names: Vec<String> = parts.iter().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn small_files_are_taken_whole_and_once() {
        let files = [
            ("a", 2 * MIB),
            ("deep/down/b", 3 * MIB),
            ("c", 2 * MIB),
            (".hidden", 2 * MIB),
            ("tiny", 100),
            ("medium", 32 * MIB),
            ("large", 64 * MIB),
        ];
        let directory = directory(&files);
        let mut supply = Supply::find(directory.path(), [], 1).unwrap();
        let mut parts = supply.small(4 * MIB).unwrap();
        assert_eq!(parts.len(), 2);
        parts.extend(supply.small(1).unwrap());
        assert_eq!(names(&parts), ["a", "b", "c"]);
        let error = supply.small(1).unwrap_err().to_string();
        assert!(error.contains("in small files (64 KiB to 16 MiB)"), "{error}");
    }

    #[test]
    fn readers_of_large_files_get_parts_that_do_not_overlap() {
        let directory = directory(&[("a", 64 * MIB), ("b", 66 * MIB)]);
        let mut supply = Supply::find(directory.path(), [], 1).unwrap();
        let parts = supply.large(2, 20 * MIB).unwrap();
        assert_eq!(names(&parts), ["a", "b"], "a file for each reader");
        let more = supply.large(4, 96 * MIB).unwrap();
        assert_eq!(names(&more), ["a", "a", "b", "b"]);
        let mut all = [parts, more].concat();
        all.sort();
        for pair in all.windows(2) {
            let end = pair[0].offset + pair[0].bytes;
            assert!(pair[0].file != pair[1].file || end <= pair[1].offset, "{pair:?}");
        }
        assert!(supply.large(1, 10 * MIB).is_err(), "8 MiB are left of the larger");
        assert!(supply.any(1, 10 * MIB).is_err(), "there are large files, but too little of them");
        assert_eq!(supply.large(1, 8 * MIB).unwrap()[0].offset, 58 * MIB);
    }

    #[test]
    fn a_run_may_need_more_of_each_reader_than_a_file_has() {
        let files = [("a", 70 * MIB), ("b", 70 * MIB), ("c", 70 * MIB)];
        let directory = directory(&files);
        let mut supply = Supply::find(directory.path(), [], 1).unwrap();
        let parts = supply.any(1, 180 * MIB).unwrap();
        assert_eq!(names(&parts), ["a", "b", "c"]);
        assert!(parts.iter().all(|part| part.bytes == 60 * MIB), "{parts:?}");
    }

    #[test]
    fn what_earlier_runs_touched_is_left_out() {
        let directory = directory(&[("a", MIB), ("b", MIB), ("c", 70 * MIB)]);
        let part = |name, offset, bytes| Part { file: directory.path().join(name), offset, bytes };
        let touched = [part("a", 0, MIB), part("c", MIB, 3 * MIB + 5), part("c", 0, MIB)];
        let mut supply = Supply::find(directory.path(), &touched, 1).unwrap();
        assert_eq!(names(&supply.small(1).unwrap()), ["b"]);
        assert_eq!(supply.large(1, MIB).unwrap(), [part("c", 5 * MIB, MIB)]);
        assert!(supply.small(1).is_err());
    }

    #[test]
    fn the_seed_decides_the_choice() {
        let files: Vec<(String, u64)> = (0..30).map(|i| (format!("{i}"), MIB)).collect();
        let files: Vec<(&str, u64)> = files.iter().map(|(name, size)| (&name[..], *size)).collect();
        let directory = directory(&files);
        let take =
            |seed| Supply::find(directory.path(), [], seed).unwrap().small(10 * MIB).unwrap();
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }
}
