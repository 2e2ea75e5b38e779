//! Copies of directory trees. Times are kept, since a ledger compares them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The directories that a run needs, and what counts as its input.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    /// The directory that they are below.
    pub(super) root: PathBuf,
    /// Their paths from there; a run gets copies of them.
    pub(super) directories: Vec<PathBuf>,
    /// The data files among them.
    pub(super) files: usize,
    /// Their bytes.
    pub(super) bytes: u64,
}

impl Inputs {
    /// The inputs in `directories` below `root`.
    pub(super) fn new<'a>(
        root: &Path,
        directories: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        let directories: Vec<_> = directories.into_iter().map(PathBuf::from).collect();
        let (mut files, mut bytes) = (0, 0);
        for directory in &directories {
            for path in data_files(&root.join(directory))? {
                files += 1;
                bytes += fs::metadata(&path)?.len();
            }
        }
        Ok(Self { root: root.to_owned(), directories, files, bytes })
    }

    /// Copies them to the same places below `target`.
    pub(super) fn copy_to(&self, target: &Path) -> Result<()> {
        for directory in &self.directories {
            copy(&self.root.join(directory), &target.join(directory))?;
        }
        Ok(())
    }
}

/// The zips and Parquet files of a directory, by name.
pub(super) fn data_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let listing =
        fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    let mut files = Vec::new();
    for entry in listing {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "zip" || extension == "parquet") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Copies a directory with all that is in it.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let listing = fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in listing {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&source, &target)?;
        } else {
            fs::copy(&source, &target)
                .with_context(|| format!("cannot copy {}", source.display()))?;
            File::options()
                .write(true)
                .open(&target)?
                .set_modified(entry.metadata()?.modified()?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_files_and_their_times_and_counts_data_files_only() {
        let dir = tempfile::tempdir().unwrap();
        let raw = dir.path().join("from/gkg-v2/raw");
        fs::create_dir_all(&raw).unwrap();
        fs::write(raw.join("a.zip"), "12345").unwrap();
        fs::write(raw.join(".a.zip.done"), "1").unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        File::options().write(true).open(raw.join("a.zip")).unwrap().set_modified(time).unwrap();
        let inputs = Inputs::new(&dir.path().join("from"), ["gkg-v2/raw"]).unwrap();
        assert_eq!((inputs.files, inputs.bytes), (1, 5));
        let target = dir.path().join("to");
        inputs.copy_to(&target).unwrap();
        let copied = fs::metadata(target.join("gkg-v2/raw/a.zip")).unwrap();
        assert_eq!((copied.len(), copied.modified().unwrap()), (5, time));
        assert_eq!(fs::read(target.join("gkg-v2/raw/.a.zip.done")).unwrap(), b"1");
    }
}
