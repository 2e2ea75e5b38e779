//! The directory of results: `runs.jsonl`, a line for each run, and `report.html`. Runs are only
//! ever added, so that what failed stays in.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use stage::Error;

use crate::record::{Part, Run};
use crate::report;

/// Name of the file of runs.
const RUNS: &str = "runs.jsonl";
/// Name of the report.
const REPORT: &str = "report.html";

/// The results of this and earlier invocations.
#[derive(Debug)]
pub(crate) struct Results {
    directory: PathBuf,
    runs: Vec<Run>,
}

impl Results {
    /// The results in a directory; none where it does not exist.
    ///
    /// # Errors
    ///
    /// When a line is not a run, or the file cannot be read.
    pub(crate) fn load(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(RUNS);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(io_budget::Error::new("read", &path, source).into()),
        };
        // Without its end a line was cut off with the process that wrote it.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut runs = Vec::new();
        for (number, line) in (1..).zip(whole.lines()).filter(|(_, line)| !line.is_empty()) {
            let run = serde_json::from_str(line).map_err(|error| {
                let message = format!("{}, line {number}: no run: {error}", path.display());
                Error::input(message, "remove the line, or name another directory with --results")
            })?;
            runs.push(run);
        }
        Ok(Self { directory: directory.to_owned(), runs })
    }

    /// All runs, in the order in which they were added.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The parts of files that were read.
    pub(crate) fn touched(&self) -> impl Iterator<Item = &Part> {
        self.runs.iter().flat_map(|run| &run.inputs.parts)
    }

    /// Where the report is.
    pub(crate) fn report(&self) -> PathBuf {
        self.directory.join(REPORT)
    }

    /// Adds a run and makes the report again.
    ///
    /// # Errors
    ///
    /// When the files cannot be written.
    pub(crate) fn add(&mut self, run: Run) -> Result<(), Error> {
        let path = self.directory.join(RUNS);
        let line =
            serde_json::to_string(&run).map_err(|error| Error::Internal(error.to_string()))?;
        self.append(&path, &line)
            .map_err(|source| io_budget::Error::new("write to", &path, source))?;
        self.runs.push(run);
        let report = self.report();
        self.publish(&report).map_err(|source| io_budget::Error::new("write", &report, source))?;
        Ok(())
    }

    fn append(&self, path: &Path, line: &str) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let torn = !ends_a_line(&file)?;
        file.write_all(format!("{}{line}\n", if torn { "\n" } else { "" }).as_bytes())?;
        file.sync_data()
    }

    /// A reader never finds half a report.
    fn publish(&self, report: &Path) -> std::io::Result<()> {
        let unfinished = report.with_extension("html.new");
        std::fs::write(&unfinished, report::html(&self.runs))?;
        std::fs::rename(&unfinished, report)
    }
}

fn ends_a_line(file: &File) -> std::io::Result<bool> {
    use std::os::unix::fs::FileExt as _;
    let Some(last) = file.metadata()?.len().checked_sub(1) else { return Ok(true) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FileSize;
    use crate::testing::raw;

    fn run() -> Run {
        raw(FileSize::Large, 1, 65, 15.0)
    }

    #[test]
    fn runs_are_kept_between_invocations() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("new");
        let mut results = Results::load(&at).unwrap();
        assert_eq!(results.runs(), []);
        results.add(run()).unwrap();
        results.add(run()).unwrap();
        let again = Results::load(&at).unwrap();
        assert_eq!(again.runs(), [run(), run()]);
        assert_eq!(again.touched().count(), 2 * run().inputs.parts.len());
        let html = std::fs::read_to_string(at.join(REPORT)).unwrap();
        assert!(html.starts_with("<!DOCTYPE html>"), "{}", &html[..40]);
    }

    #[test]
    fn a_line_that_was_cut_off_is_left_out_and_another_one_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(RUNS);
        Results::load(directory.path()).unwrap().add(run()).unwrap();
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"format\":");
        std::fs::write(&path, &text).unwrap();
        let mut results = Results::load(directory.path()).unwrap();
        assert_eq!(results.runs().len(), 1);
        results.add(run()).unwrap();
        let error = Results::load(directory.path()).unwrap_err().to_string();
        assert!(error.contains("runs.jsonl, line 2: no run"), "{error}");
    }
}
