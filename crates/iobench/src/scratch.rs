//! A directory for what runs write, removed when it is dropped.

use std::path::{Path, PathBuf};

use stage::Error;

/// A directory of this process, made anew.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one in `directory`, under a name that tools pass over.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or is there already.
    pub(crate) fn new(directory: &Path) -> Result<Self, Error> {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let path = directory.join(format!(".gdelt-iobench.{node}.{}", std::process::id()));
        std::fs::create_dir(&path)
            .map_err(|source| io_budget::Error::new("create", &path, source))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is found under its telling name.
        let _removed = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(directory.path()).unwrap();
        std::fs::write(scratch.path().join("a"), "b").unwrap();
        assert!(Scratch::new(directory.path()).is_err(), "one at a time");
        drop(scratch);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
