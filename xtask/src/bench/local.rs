//! A stage and gdeltforge's, in turn on the same input, on local storage with everything in the page
//! cache.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::forge::folder;
use super::report::cell;
use super::run::{Ended, Launch, run_to_success};
use super::tree::{copy, data_files};
use super::{copy_binaries, same};

const PROGRAM: &str = "gdelt-convert";
/// Where gdeltforge leaves its default settings, below the directory that it is started in.
const FORGE_SETTINGS: &str = "config/settings.yaml";

/// Flags of `bench convert`.
#[derive(Debug, clap::Args)]
pub(crate) struct Convert {
    /// Archive to measure with, as `make-archive` makes it
    #[arg(long, value_name = "DIR")]
    archive: PathBuf,
    /// The Python environment in which gdeltforge is installed
    #[arg(long, value_name = "VENV")]
    gdeltforge: PathBuf,
    /// Dataset to convert (can be repeated)
    #[arg(
        long = "dataset",
        value_name = "DATASET",
        default_values = ["gkg-v2", "mentions", "events", "events-15min"]
    )]
    datasets: Vec<String>,
    /// Measure each so often, after a run that does not count
    #[arg(long, value_name = "N", default_value = "5")]
    repeats: NonZeroUsize,
    /// Workers of both [default: one per processor]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Keep copies of the archive here
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    scratch: PathBuf,
}

/// What was measured of one program.
#[derive(Debug, Default)]
struct Measured {
    seconds: Vec<f64>,
    /// In units of 2^20 bytes.
    memory: Vec<f64>,
    /// Bytes of the Parquet files.
    output: u64,
}

impl Measured {
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    fn add(&mut self, ended: &Ended) {
        self.seconds.push(ended.time.as_secs_f64());
        self.memory.push(ended.peak_memory as f64 / f64::from(1 << 20));
    }
}

impl Convert {
    /// Measures, compares the outputs, and prints a table.
    pub(crate) fn run(&self) -> Result<()> {
        let binaries = copy_binaries(&[PROGRAM])?;
        let scratch = tempfile::Builder::new()
            .prefix("gdelt-bench-")
            .tempdir_in(std::path::absolute(&self.scratch)?)
            .with_context(|| format!("cannot work in {}", self.scratch.display()))?;
        let cpus = std::thread::available_parallelism()?;
        let jobs = self.jobs.unwrap_or(cpus);
        println!(
            "| {jobs} workers | zips, MB | s | ratio | peak MiB | ratio | Parquet, MB | values |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|---|");
        for dataset in &self.datasets {
            eprintln!("==> {dataset}");
            let pair = Pair::prepare(self, binaries.path(), &scratch, dataset, jobs)?;
            println!("{}", pair.measure(self.repeats.get())?);
        }
        Ok(())
    }
}

/// Both programs with the zips of a dataset.
struct Pair<'a> {
    dataset: &'a str,
    /// Where the zips are copied from.
    raw: PathBuf,
    mill: Launch,
    mill_root: PathBuf,
    forge: Launch,
    forge_data: PathBuf,
    outputs: PathBuf,
}

impl<'a> Pair<'a> {
    fn prepare(
        task: &Convert,
        binaries: &Path,
        scratch: &TempDir,
        dataset: &'a str,
        jobs: NonZeroUsize,
    ) -> Result<Self> {
        let scratch = scratch.path().join(dataset);
        let (mill_root, forge_work) = (scratch.join("mill"), scratch.join("forge"));
        let raw = task.archive.join(dataset).join("raw");
        copy(&raw, &mill_root.join(dataset).join("raw"))?;
        let forge_data = forge_work.join("data").join(folder(dataset));
        fs::create_dir_all(&forge_data)?;
        let mill = Launch {
            program: binaries.join(PROGRAM),
            arguments: ["--root".into(), mill_root.clone().into(), "--jobs".into()]
                .into_iter()
                .chain([jobs.to_string(), "--dataset".into(), dataset.into()].map(Into::into))
                .collect(),
            variables: vec![("XDG_STATE_HOME", scratch.join("state").into())],
            directory: scratch.clone(),
        };
        let program = std::path::absolute(&task.gdeltforge)?.join("bin").join("gdeltforge");
        let forge = Launch {
            program,
            arguments: ["convert", "--quiet", "--dataset", dataset].map(Into::into).to_vec(),
            variables: Vec::new(),
            directory: forge_work.clone(),
        };
        let pair = Self { dataset, raw, mill, mill_root, forge, forge_data, outputs: scratch };
        // It leaves its default settings there when it finds none.
        pair.run_forge()?;
        let settings = forge_work.join(FORGE_SETTINGS);
        let text = fs::read_to_string(&settings).context("gdeltforge left no settings")?;
        ensure!(text.contains("max_workers: null"), "gdeltforge's settings name no workers");
        let text = text.replace("max_workers: null", &format!("max_workers: {jobs}"));
        fs::write(&settings, text)?;
        pair.run_mill()?;
        Ok(pair)
    }

    fn run_mill(&self) -> Result<Ended> {
        for made in ["converted", "catalog"] {
            remove(&self.mill_root.join(self.dataset).join(made))?;
        }
        run_to_success(self.mill.clone(), &self.outputs)
    }

    fn run_forge(&self) -> Result<Ended> {
        // Beside the zips stand its marks of those that are done.
        for made in ["raw", "parquet", "csv"] {
            remove(&self.forge_data.join(made))?;
        }
        copy(&self.raw, &self.forge_data.join("raw"))?;
        run_to_success(self.forge.clone(), &self.outputs)
    }

    /// A row of the table for each program.
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    fn measure(&self, repeats: usize) -> Result<String> {
        let (mut mill, mut forge) = (Measured::default(), Measured::default());
        for _ in 0..repeats {
            mill.add(&self.run_mill()?);
            forge.add(&self.run_forge()?);
        }
        let (ours, theirs) = (self.converted()?, data_files(&self.forge_data.join("parquet"))?);
        mill.output = bytes(&ours)?;
        forge.output = bytes(&theirs)?;
        let values = compare(&ours, &theirs)?;
        let input = bytes(&data_files(&self.raw)?)? as f64 / 1e6;
        let median = |values: &[f64]| {
            let mut values = values.to_vec();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let speed = median(&forge.seconds) / median(&mill.seconds);
        let memory = median(&mill.memory) / median(&forge.memory);
        let row = |name: &str, of: &Measured, speed: &str, memory: &str, values: &str| {
            format!(
                "| {}, {name} | {input:.1} | {} | {speed} | {} | {memory} | {:.2} | {values} |",
                self.dataset,
                cell(of.seconds.clone(), 2, true),
                cell(of.memory.clone(), 0, true),
                of.output as f64 / 1e6
            )
        };
        let (speed, memory) = (format!("{speed:.1} times as fast"), format!("{memory:.2}"));
        let ours = row("gdelt-convert", &mill, &speed, &memory, &values);
        Ok(format!("{ours}\n{}", row("gdeltforge", &forge, "", "", "")))
    }

    fn converted(&self) -> Result<Vec<PathBuf>> {
        data_files(&self.mill_root.join(self.dataset).join("converted"))
    }
}

/// Says in which columns the files of both differ.
fn compare(ours: &[PathBuf], theirs: &[PathBuf]) -> Result<String> {
    let names = |paths: &[PathBuf]| -> Vec<_> {
        paths.iter().map(|path| path.file_name().map(ToOwned::to_owned)).collect()
    };
    ensure!(names(ours) == names(theirs), "{ours:?} are not named like {theirs:?}");
    let mut columns: Vec<(String, usize)> = Vec::new();
    for (ours, theirs) in ours.iter().zip(theirs) {
        for (name, rows) in same::differences(ours, theirs)? {
            match columns.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known += rows,
                None => columns.push((name, rows)),
            }
        }
    }
    if columns.is_empty() {
        return Ok(String::from("equal"));
    }
    let texts = columns.iter().map(|(name, rows)| format!("{rows} of {name}"));
    Ok(format!("differ in {}", texts.collect::<Vec<_>>().join(", ")))
}

fn bytes(files: &[PathBuf]) -> Result<u64> {
    files.iter().map(|file| Ok(fs::metadata(file)?.len())).sum()
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
