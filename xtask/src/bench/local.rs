//! A stage and gdeltforge's, in turn on the same input, on local storage with everything in the page
//! cache.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::contender::{Contender, Job};
use super::report::{cell, median};
use super::run::Ended;
use super::stage::Stage;
use super::{copy_binaries, same};

/// Flags of `bench convert`, `bench clean` and `bench aggregate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Local {
    /// Archive to measure with, as `make-archive` makes it
    #[arg(long, value_name = "DIR")]
    archive: PathBuf,
    /// The Python environment in which gdeltforge is installed
    #[arg(long, value_name = "VENV")]
    gdeltforge: PathBuf,
    /// Dataset to work on (can be repeated)
    #[arg(long = "dataset", value_name = "DATASET")]
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
}

impl Measured {
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    fn add(&mut self, ended: &Ended) {
        self.seconds.push(ended.time.as_secs_f64());
        self.memory.push(ended.peak_memory as f64 / f64::from(1 << 20));
    }
}

impl Local {
    /// Measures, compares the outputs, and prints a table.
    pub(crate) fn run(&self, stage: Stage) -> Result<()> {
        let programs = [Stage::Convert, stage].map(Stage::program);
        let binaries = copy_binaries(&programs.each_ref().map(String::as_str))?;
        let workers = self.jobs.unwrap_or(std::thread::available_parallelism()?);
        println!(
            "| {workers} workers | input, MB | s | ratio | peak MiB | ratio | output, MB | values |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|---|");
        for dataset in &self.datasets {
            eprintln!("==> {dataset}");
            let scratch = tempfile::Builder::new()
                .prefix("gdelt-bench-")
                .tempdir_in(std::path::absolute(&self.scratch)?)
                .with_context(|| format!("cannot work in {}", self.scratch.display()))?;
            let (archive, scratch) = (&self.archive, scratch.path());
            let job = Job { stage, dataset, archive, workers, scratch };
            let ours = Contender::ours(job, binaries.path())?;
            let theirs = Contender::theirs(job, &self.gdeltforge)?;
            println!("{}", measure(dataset, &ours, &theirs, self.repeats.get())?);
        }
        Ok(())
    }
}

/// A row of the table for each program.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn measure(dataset: &str, ours: &Contender, theirs: &Contender, repeats: usize) -> Result<String> {
    ours.run()?;
    theirs.run()?;
    let (mut mill, mut forge) = (Measured::default(), Measured::default());
    for _ in 0..repeats {
        mill.add(&ours.run()?);
        forge.add(&theirs.run()?);
    }
    let (our_files, their_files) = (ours.outputs()?, theirs.outputs()?);
    let values = compare(&our_files, &their_files)?;
    let speed = median(&forge.seconds) / median(&mill.seconds);
    let memory = median(&mill.memory) / median(&forge.memory);
    let row = |of: &Contender, measured: Measured, output: u64, ratios: [&str; 3]| {
        let [speed, memory, values] = ratios;
        format!(
            "| {dataset}, {} | {:.1} | {} | {speed} | {} | {memory} | {:.2} | {values} |",
            of.name,
            of.inputs.bytes as f64 / 1e6,
            cell(measured.seconds, 2, true),
            cell(measured.memory, 0, true),
            output as f64 / 1e6
        )
    };
    let (speed, memory) = (format!("{speed:.1} times as fast"), format!("{memory:.2}"));
    let our_row = row(ours, mill, bytes(&our_files)?, [&speed, &memory, &values]);
    let their_row = row(theirs, forge, bytes(&their_files)?, [""; 3]);
    Ok(format!("{our_row}\n{their_row}"))
}

/// Says in which columns the files of both differ.
fn compare(ours: &[PathBuf], theirs: &[PathBuf]) -> Result<String> {
    let times = |paths: &[PathBuf]| paths.iter().map(|path| time(path)).collect::<Vec<_>>();
    ensure!(times(ours) == times(theirs), "{ours:?} are not of the same times as {theirs:?}");
    let mut columns: BTreeMap<String, usize> = BTreeMap::new();
    for (ours, theirs) in ours.iter().zip(theirs) {
        for (name, rows) in same::differences(ours, theirs)? {
            *columns.entry(name).or_default() += rows;
        }
    }
    if columns.is_empty() {
        return Ok(String::from("equal"));
    }
    let texts = columns.iter().map(|(name, rows)| format!("{rows} of {name}"));
    Ok(format!("differ in {}", texts.collect::<Vec<_>>().join(", ")))
}

/// The digits that a file's name begins with. What follows is the program's own affair.
fn time(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.chars().take_while(char::is_ascii_digit).collect()
}

fn bytes(files: &[PathBuf]) -> Result<u64> {
    files.iter().map(|file| Ok(fs::metadata(file)?.len())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_paired_by_the_times_in_their_names() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(time(Path::new("20200601.gkg.parquet")), "20200601");
        assert_eq!(time(Path::new("2019_cleaned.parquet")), "2019");
        assert_eq!(compare(&[], &[]).unwrap(), "equal");
        for theirs in [paths(&["20200602.parquet"]), paths(&[]), paths(&["x.parquet"])] {
            let error = compare(&paths(&["20200601.gkg.parquet"]), &theirs).unwrap_err();
            assert!(error.to_string().contains("not of the same times"), "{error}");
        }
    }
}
