//! Chains the stage binaries over an archive: convert, clean, aggregate, sample, crossref.
//!
//! Without a root it runs on a copy of the bundled real archive. It builds the binaries, starts
//! them one after another, so that one process at a time uses the storage, and shows what each
//! did. Failed files (exit 3) do not stop it; any other failure does.

#![expect(clippy::disallowed_methods, reason = "looks at directories before a stage runs")]

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Exit code of a stage that finished with failed files.
const FILES_FAILED: i32 = 3;
/// Events drawn of each day for the sample.
const EVENTS_A_DAY: &str = "1000";

/// Flags of `run-archive`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArchive {
    /// Archive root [default: a copy of the bundled archive in the target directory]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Settings file, passed on to every stage
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Dataset to work on (can be repeated) [default: all that the root holds]
    #[arg(long = "dataset", value_name = "DATASET")]
    datasets: Vec<String>,
    /// First day, as 2020-01-31
    #[arg(long, value_name = "DATE")]
    start_date: Option<String>,
    /// Last day, included
    #[arg(long, value_name = "DATE")]
    end_date: Option<String>,
    /// Worker threads of each stage
    #[arg(short, long, value_name = "N")]
    jobs: Option<String>,
    /// Read requests in flight
    #[arg(long, value_name = "N")]
    max_reads: Option<String>,
    /// Write requests in flight
    #[arg(long, value_name = "N")]
    max_writes: Option<String>,
}

/// A stage's command line and where its results go.
struct Step {
    stage: &'static str,
    arguments: Vec<String>,
}

impl RunArchive {
    /// Runs the chain and returns the exit code.
    pub(crate) fn run(&self) -> Result<u8> {
        let binaries = build_binaries()?;
        let root = match &self.root {
            Some(root) => root.clone(),
            None => copy_bundled_archive(&binaries)?,
        };
        let mut lines = vec![HEADINGS.map(str::to_owned)];
        let mut results = Vec::new();
        let mut failed = false;
        for step in self.steps(&root) {
            eprintln!("==> gdelt-{} {}", step.stage, step.arguments.join(" "));
            let (status, summary) = run_stage(&binaries, &step)?;
            match status.code() {
                Some(0) => {}
                Some(FILES_FAILED) => failed = true,
                Some(code) => {
                    eprint!("{}", table(&lines));
                    eprintln!("gdelt-{} ended with {code}: the chain stops here", step.stage);
                    return Ok(u8::try_from(code).unwrap_or(1));
                }
                None => bail!("gdelt-{} was killed ({status})", step.stage),
            }
            let summary: Value = serde_json::from_str(&summary)
                .with_context(|| format!("gdelt-{} printed no summary", step.stage))?;
            lines.push(line(step.stage, &summary));
            results.extend(outputs(&summary));
        }
        println!("{}", table(&lines));
        println!("results:");
        for result in results {
            println!("  {result}");
        }
        Ok(if failed { 3 } else { 0 })
    }

    fn steps(&self, root: &Path) -> Vec<Step> {
        let holds = |dataset: &str| {
            let wanted = self.datasets.is_empty() || self.datasets.iter().any(|d| d == dataset);
            wanted && (!self.datasets.is_empty() || root.join(dataset).is_dir())
        };
        let mut steps = vec![self.step("convert", root, &self.datasets)];
        steps.push(self.step("clean", root, &self.datasets));
        let quarter_hourly: Vec<_> = ["events-15min", "mentions", "gkg-v2"]
            .into_iter()
            .filter(|dataset| holds(dataset))
            .map(str::to_owned)
            .collect();
        if !quarter_hourly.is_empty() {
            steps.push(self.step("aggregate", root, &quarter_hourly));
        }
        let Some(events) = ["events-15min", "events"].into_iter().find(|set| holds(set)) else {
            return steps;
        };
        let sample = root.join("results/sample.parquet").display().to_string();
        let mut step = self.step("sample", root, &[events.to_owned()]);
        let design = ["--mode", "calendar", "--period", "day", "--per-period", EVENTS_A_DAY];
        step.arguments.extend(design.map(str::to_owned));
        step.arguments.extend(["--seed", "1", "--out", &sample].map(str::to_owned));
        steps.push(step);
        let version = if holds("mentions") && holds("gkg-v2") {
            "v2"
        } else if holds("gkg-v1") {
            "v1"
        } else {
            return steps;
        };
        let mut step = self.step("crossref", root, &[]);
        let enriched = root.join("results/enriched.parquet").display().to_string();
        let flags = ["--events", &sample, "--gkg-version", version, "--out", &enriched];
        step.arguments.extend(flags.map(str::to_owned));
        steps.push(step);
        steps
    }

    fn step(&self, stage: &'static str, root: &Path, datasets: &[String]) -> Step {
        let mut arguments = vec!["--root".to_owned(), root.display().to_string()];
        let mut add = |flag: &str, value: Option<String>| {
            if let Some(value) = value {
                arguments.extend([flag.to_owned(), value]);
            }
        };
        add("--config", self.config.as_ref().map(|path| path.display().to_string()));
        add("--start-date", self.start_date.clone());
        add("--end-date", self.end_date.clone());
        add("--jobs", self.jobs.clone());
        add("--max-reads", self.max_reads.clone());
        add("--max-writes", self.max_writes.clone());
        for dataset in datasets {
            add("--dataset", Some(dataset.clone()));
        }
        Step { stage, arguments }
    }
}

/// Builds the binaries as `cargo test --release --workspace` does, so that nothing is built twice,
/// and returns the directory they are in: this program's own.
pub(crate) fn build_binaries() -> Result<PathBuf> {
    eprintln!("==> cargo build --release --workspace --bins");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--workspace", "--bins"])
        .current_dir(workspace())
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("the binaries were not built");
    }
    let this = env::current_exe().context("cannot find this program's own directory")?;
    Ok(this.parent().map(Path::to_owned).unwrap_or_default())
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Copies the bundled raw files to `demo` beside the binaries' directory, in place of an earlier
/// copy and what was made of it.
fn copy_bundled_archive(binaries: &Path) -> Result<PathBuf> {
    let demo = binaries.parent().unwrap_or(binaries).join("demo");
    if demo.exists() {
        fs::remove_dir_all(&demo).with_context(|| format!("cannot remove {}", demo.display()))?;
    }
    let bundled = workspace().join("tests/fixtures/archive");
    copy_directory(&bundled, &demo)
        .with_context(|| format!("cannot copy {} to {}", bundled.display(), demo.display()))?;
    Ok(demo)
}

fn copy_directory(from: &Path, to: &Path) -> std::io::Result<()> {
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

/// Runs a stage to its end. A signal to this process ends the stage, which ends in order.
fn run_stage(binaries: &Path, step: &Step) -> Result<(ExitStatus, String)> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let terminated = Arc::new(AtomicBool::new(false));
    // A terminal sends Ctrl-C to the stage as well; this process only has to outlive it.
    signal_hook::flag::register(SIGINT, interrupted)?;
    signal_hook::flag::register(SIGTERM, Arc::clone(&terminated))?;
    let binary = binaries.join(format!("gdelt-{}", step.stage));
    let mut child = Command::new(&binary)
        .args(&step.arguments)
        .arg("--json")
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", binary.display()))?;
    let stdout = child.stdout.take().context("the stage has no output")?;
    let reader = thread::Builder::new()
        .name(String::from("summary"))
        .spawn(move || std::io::read_to_string(stdout))?;
    let mut passed_on = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if terminated.load(Relaxed) && !passed_on {
            passed_on = true;
            let stage = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(stage, rustix::process::Signal::TERM)?;
        }
        thread::sleep(Duration::from_millis(20));
    };
    let Ok(summary) = reader.join() else { bail!("the summary was not read") };
    Ok((status, summary?))
}

const HEADINGS: [&str; 8] =
    ["stage", "files", "up to date", "failed", "rows", "seconds", "MB/s in", "reads in flight"];

fn line(stage: &str, summary: &Value) -> [String; 8] {
    let number = |pointer: &str| summary.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let seconds = summary["seconds"].as_f64().unwrap_or(0.0);
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let rate = number("/io/reads/bytes") as f64 / 1e6 / seconds.max(1e-9);
    [
        stage.to_owned(),
        number("/files/made").to_string(),
        number("/files/up_to_date").to_string(),
        number("/files/failed").to_string(),
        number("/rows/written").to_string(),
        format!("{seconds:.2}"),
        format!("{rate:.1}"),
        format!("{} of {}", number("/io/reads/peak_in_flight"), number("/io/reads/limit")),
    ]
}

fn outputs(summary: &Value) -> Vec<String> {
    let listed = summary["outputs"].as_array().map(Vec::as_slice).unwrap_or_default();
    listed.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The lines in columns of equal width, numbers to the right.
fn table(lines: &[[String; 8]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let mut text = String::from("\n");
    for line in lines {
        let _ok = write!(text, "{:<width$}", line[0], width = width(0));
        for (column, cell) in line.iter().enumerate().skip(1) {
            let _ok = write!(text, "  {cell:>width$}", width = width(column));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(root: &Path, datasets: &[&str]) -> Vec<&'static str> {
        let run = RunArchive {
            root: None,
            config: None,
            datasets: datasets.iter().map(ToString::to_string).collect(),
            start_date: None,
            end_date: None,
            jobs: None,
            max_reads: None,
            max_writes: None,
        };
        run.steps(root).into_iter().map(|step| step.stage).collect()
    }

    #[test]
    fn the_chain_has_the_stages_that_the_datasets_allow() {
        let bundled = workspace().join("tests/fixtures/archive");
        let all = ["convert", "clean", "aggregate", "sample", "crossref"];
        assert_eq!(stages(&bundled, &[]), all);
        assert_eq!(stages(&bundled, &["gkg-v1"]), ["convert", "clean"]);
        assert_eq!(stages(&bundled, &["events"]), ["convert", "clean", "sample"]);
        let first_generation = ["convert", "clean", "sample", "crossref"];
        assert_eq!(stages(&bundled, &["events", "gkg-v1"]), first_generation);
    }

    #[test]
    fn columns_are_aligned() {
        let row = |first: &str, rest: &str| {
            let mut row = [const { String::new() }; 8];
            row[0] = first.to_owned();
            row[1] = rest.to_owned();
            row
        };
        let text = table(&[row("stage", "files"), row("convert", "7")]);
        assert!(text.starts_with("\nstage    files  "), "{text}");
        assert!(text.contains("\nconvert      7  "), "{text}");
    }
}
