//! Files named on the command line instead of a root's: which they are, what their names say, and
//! where their outputs go.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use catalog::{Dataset, FileName, ParquetName, Period, marks};
use io_budget::parquet::{ParquetFile, Want};

use crate::cli::FileArgs;
use crate::work::Input;
use crate::{Error, Session};

/// The files named on the command line and in the list of `--files-from`, in that order, each
/// looked at once.
///
/// # Errors
///
/// [`Error::NoInput`] when none is named or one does not exist, [`Error::Usage`] when one is a
/// directory or is named twice, [`Error::Io`] when the storage fails.
pub fn named_files(session: &Session, arguments: &FileArgs) -> Result<Vec<Input>, Error> {
    let mut paths = arguments.files.clone();
    if let Some(list) = &arguments.files_from {
        paths.extend(names_in(&read_list(session, list)?));
    }
    if paths.is_empty() {
        return Err(Error::NoInput {
            message: String::from("the list of files names none"),
            hint: String::from("write a file name on each line of the list"),
        });
    }
    let mut seen: HashMap<(u64, u64), PathBuf> = HashMap::new();
    let mut inputs = Vec::with_capacity(paths.len());
    for path in paths {
        let input = look_at(session, path)?;
        if let Some(other) = seen.insert(input.stat.identity, input.path.clone()) {
            let message = format!("{} and {} are one file", other.display(), input.path.display());
            return Err(Error::usage(message, "name each file once"));
        }
        inputs.push(input);
    }
    Ok(inputs)
}

fn look_at(session: &Session, path: PathBuf) -> Result<Input, Error> {
    let Some(stat) = session.budget.stat(&path)? else {
        return Err(Error::NoInput {
            message: format!("{} does not exist", path.display()),
            hint: String::from("check the name; names are relative to the current directory"),
        });
    };
    let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    match name {
        Some(name) if !stat.is_directory => Ok(Input { path, name, stat }),
        _ => {
            let message = format!("{} is no file with a readable name", path.display());
            Err(Error::usage(message, "name files one by one, or an archive with --root"))
        }
    }
}

fn read_list(session: &Session, list: &Path) -> Result<Vec<u8>, Error> {
    if list == Path::new("-") {
        let mut text = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut text)
            .map_err(|source| io_budget::Error::new("read the list of files from", list, source))?;
        return Ok(text);
    }
    Ok(session.budget.read_file(list)?.to_vec())
}

/// The names in a list: one a line, as bytes, since a file's name may be any; blank lines are
/// passed over.
fn names_in(text: &[u8]) -> impl Iterator<Item = PathBuf> {
    text.split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
        .map(|line| PathBuf::from(OsString::from_vec(line.to_vec())))
}

/// What the name of a named Parquet file says. Names of a slot are of one dataset only; for others
/// the dataset that the file itself notes counts, since a day of `events-15min` is named like one
/// of `events`.
///
/// # Errors
///
/// [`Error::Input`] when neither says what the file is, [`Error::Parquet`] when it has to be asked
/// and cannot be read.
pub fn parquet_name(session: &Session, input: &Input) -> Result<ParquetName, Error> {
    let of = |dataset| ParquetName::parse(dataset, &input.name);
    let by_name = input.name.strip_suffix(".parquet").and_then(|stem| {
        let raw = FileName::parse_stem(stem.strip_suffix("_cleaned").unwrap_or(stem))?;
        of(raw.dataset)
    });
    let found = match by_name {
        Some(name) if matches!(name.period, Period::Slot(_)) => Some(name),
        _ => noted_dataset(session, input)?.and_then(of).or(by_name),
    };
    found.ok_or_else(|| {
        let message = format!(
            "{} is not named like a Parquet file of the archive, as in 20200101.export.parquet",
            input.path.display()
        );
        Error::input(message, "give it the name that it was made under")
    })
}

fn noted_dataset(session: &Session, input: &Input) -> Result<Option<Dataset>, Error> {
    let want = Want::Parts { footer_start: None };
    let file = ParquetFile::open(&session.budget, &input.path, want)?;
    Ok(file.key_value(marks::DATASET).and_then(|name| name.parse().ok()))
}

/// Where the outputs of named files go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedOutput {
    /// To this one file.
    File {
        /// Its directory.
        directory: PathBuf,
        /// Its name.
        name: String,
    },
    /// Into this directory, each under its usual name.
    Directory(PathBuf),
}

impl NamedOutput {
    /// Reads `--out` and `--out-dir`. A directory of outputs must not be one of inputs, where they
    /// would be read as data later.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when neither is given or the output would stand among inputs,
    /// [`Error::Io`] when a path cannot be looked at.
    pub fn of(session: &Session, arguments: &FileArgs, inputs: &[Input]) -> Result<Self, Error> {
        if let Some(directory) = &arguments.out_dir {
            let mut beside: Vec<PathBuf> =
                inputs.iter().map(|input| directory_of(&input.path).to_owned()).collect();
            beside.sort_unstable();
            beside.dedup();
            crate::files::refuse_among_inputs(&session.budget, directory, &beside)?;
            return Ok(Self::Directory(directory.clone()));
        }
        let Some(path) = &arguments.out else {
            return Err(Error::usage(
                "named files have no place for their output",
                "give --out FILE for one output, or --out-dir DIR",
            ));
        };
        crate::files::refuse_irregular(&session.budget, path)?;
        let present = session.budget.stat(path)?;
        let same =
            |input: &&Input| present.is_some_and(|stat| stat.identity == input.stat.identity);
        if let Some(input) = inputs.iter().find(same) {
            let message =
                format!("{} is an input and would be its own output", input.path.display());
            return Err(Error::usage(message, "write the output to another file"));
        }
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            let message = format!("--out {} names no file", path.display());
            return Err(Error::usage(message, "give the name of the file to write"));
        };
        Ok(Self::File { directory: directory_of(path).to_owned(), name: name.to_owned() })
    }
}

impl NamedOutput {
    /// Directory and name of an output whose usual name is given.
    pub fn place(&self, usual_name: &str) -> (PathBuf, String) {
        match self {
            Self::File { directory, name } => (directory.clone(), name.clone()),
            Self::Directory(directory) => (directory.clone(), usual_name.to_owned()),
        }
    }
}

/// The directory that holds a file; the current one for a bare name.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_a_name_a_line() {
        let names: Vec<_> = names_in(b"a.zip\r\n\n b c.zip\nd.zip").collect();
        assert_eq!(names, ["a.zip", " b c.zip", "d.zip"].map(PathBuf::from));
    }
}
