//! A harness for whole-pipeline tests: it runs the built binaries as a user would and reads what
//! they made. Tests live in `it/`.

#![expect(
    clippy::disallowed_methods,
    reason = "tests prepare and look at archives from outside, as users do"
)]

mod slow;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result};
use arrow::array::RecordBatch;
use catalog::DateRange;
use catalog::ledger::{Ledger, Record, StageName};
use io_budget::Budget;
use io_budget::parquet::{ParquetFile, Want};
use stage::Summary;

pub use slow::{Log, Request, Running, SlowArchive, say_skipped};

/// An archive in a temporary directory, removed with it.
#[derive(Debug)]
pub struct Archive {
    directory: tempfile::TempDir,
}

/// How a stage ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code.
    pub code: i32,
    /// What it printed on stdout.
    pub stdout: String,
    /// What it printed on stderr.
    pub stderr: String,
}

impl Ended {
    /// The summary that `--json` printed.
    ///
    /// # Errors
    ///
    /// When stdout holds none.
    pub fn summary(&self) -> Result<Summary> {
        serde_json::from_str(&self.stdout).with_context(|| format!("no summary: {}", self.stderr))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Path of a stage's binary. `cargo test --release --workspace` has built it beside this test.
///
/// # Errors
///
/// When it is not there.
pub fn binary(stage: &str) -> Result<PathBuf> {
    beside_tests(&format!("gdelt-{stage}"))
}

/// Path of a binary of this workspace.
fn beside_tests(name: &str) -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let directory = test.ancestors().nth(2).context("the test stands in target/release/deps")?;
    let path = directory.join(name);
    anyhow::ensure!(path.exists(), "{} is missing: run cargo test --workspace", path.display());
    Ok(path)
}

/// A command for a stage, untouched by settings of the machine it runs on.
///
/// # Errors
///
/// When the binary is not there.
pub fn command(stage: &str, directory: &Path) -> Result<Command> {
    let mut command = Command::new(binary(stage)?);
    command.current_dir(directory);
    // What is learned of this machine's disks in a test stays there.
    command.env("XDG_STATE_HOME", directory.join(".state"));
    for (name, _) in std::env::vars() {
        if name.starts_with("GDELT_MILL_") || name.starts_with("SLURM_") || name == "MAKELEVEL" {
            command.env_remove(name);
        }
    }
    Ok(command)
}

impl Archive {
    /// An archive without files.
    ///
    /// # Errors
    ///
    /// When no temporary directory can be made.
    pub fn empty() -> Result<Self> {
        Ok(Self { directory: tempfile::tempdir()? })
    }

    /// A copy of the bundled real files.
    ///
    /// # Errors
    ///
    /// When they cannot be copied.
    pub fn bundled() -> Result<Self> {
        let archive = Self::empty()?;
        copy_directory(&fixtures().join("archive"), archive.root())?;
        Ok(archive)
    }

    /// The archive's root.
    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    /// Puts a raw file into the archive.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn add_raw(&self, dataset: &str, name: &str, bytes: &[u8]) -> Result<()> {
        let directory = self.root().join(dataset).join("raw");
        fs::create_dir_all(&directory)?;
        Ok(fs::write(directory.join(name), bytes)?)
    }

    /// Runs a stage on this archive, with a JSON summary.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn run(&self, stage: &str, arguments: &[&str]) -> Result<Ended> {
        let mut command = command(stage, self.root())?;
        command.arg("--root").arg(self.root()).arg("--json").args(arguments);
        Ok(command.output()?.into())
    }

    /// Every file below the root except raw ones and the catalog's, with its bytes.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub fn data(&self) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        let mut files = BTreeMap::new();
        collect(self.root(), self.root(), &mut files)?;
        files.retain(|path, _| path.iter().all(|part| part != "raw" && part != "catalog"));
        Ok(files)
    }

    /// The rejects of a dataset, of all segments.
    ///
    /// # Errors
    ///
    /// When one cannot be read, or something else than finished segments stands there.
    pub fn rejects(&self, dataset: &str) -> Result<RecordBatch> {
        let directory = self.root().join(dataset).join("catalog/rejects");
        let mut batches = Vec::new();
        for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            let finished = path.extension().is_some_and(|extension| extension == "parquet");
            anyhow::ensure!(finished, "{} is no finished segment", path.display());
            batches.push(read_parquet(&path)?);
        }
        let first = batches.first().context("no rejects")?;
        Ok(arrow::compute::concat_batches(&first.schema(), &batches)?)
    }

    /// What the ledger has of a stage's output: the last of its records.
    ///
    /// # Errors
    ///
    /// When the ledger cannot be read or does not know the output.
    pub fn record(&self, dataset: &str, output: &str) -> Result<Record> {
        let catalog = self.root().join(dataset).join("catalog");
        let ledger = Ledger::new(&Budget::private(), &catalog);
        let mut loaded = ledger.load(StageName::Convert, DateRange::default())?;
        loaded.records.remove(output).with_context(|| format!("{output} is not recorded"))
    }

    /// The rows of a Parquet file of this archive.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn rows(&self, relative: &str) -> Result<RecordBatch> {
        read_parquet(&self.root().join(relative))
    }
}

/// The bundled data.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// All rows of a Parquet file as one batch.
///
/// # Errors
///
/// When it cannot be read.
pub fn read_parquet(path: &Path) -> Result<RecordBatch> {
    let file = ParquetFile::open(&Budget::private(), path, Want::Whole)?;
    let columns: Vec<usize> = (0..file.schema().fields().len()).collect();
    let mut batches = Vec::new();
    for group in 0..file.metadata().num_row_groups() {
        if let Some(reader) = file.read_row_group(group, &columns, None, 8_192)? {
            batches.extend(reader.collect::<Result<Vec<_>, _>>()?);
        }
    }
    Ok(arrow::compute::concat_batches(file.schema(), &batches)?)
}

/// Copies a directory with all that is in it.
///
/// # Errors
///
/// When a file cannot be copied.
pub fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

fn collect(root: &Path, at: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    for entry in fs::read_dir(at)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            files.insert(path.strip_prefix(root)?.to_owned(), fs::read(&path)?);
        }
    }
    Ok(())
}

/// A zip with the given members, deflated.
///
/// # Errors
///
/// When it cannot be made.
pub fn zip_of(members: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    use std::io::Write as _;
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated);
    for (name, bytes) in members {
        writer.start_file(*name, options)?;
        writer.write_all(bytes)?;
    }
    Ok(writer.finish()?.into_inner())
}
