//! A stage under a grid of settings: each run is the stage's own program on days that no earlier
//! run touched, with its outputs and its ledger in a scratch directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use catalog::{
    AggregatePeriod, Dataset, DateRange, Directory, FileName, Layout, ParquetName, Period,
};
use chrono::NaiveDate;
use io_budget::Budget;
use rustix::process::{Pid, Signal, kill_process};
use stage::settings::ENVIRONMENT_PREFIX;
use stage::{Error, Summary};

use crate::bench::{Measurement, Running, summary};
use crate::cli::{StageArgs, StageName, Varied};
use crate::complete;
use crate::process::Process;
use crate::record::{Content, Files, InFlight, Measured, Part, Setting, Source, Stage};
use crate::scratch::Scratch;
use crate::watch::{Load, Moved};

/// How long a stage may take to end after it is told, before it is killed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Consecutive days with their files.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Window {
    first: NaiveDate,
    last: NaiveDate,
    parts: Vec<Part>,
}

impl Window {
    /// Its files.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }
}

/// The days of a dataset with the files that a stage would read, where none was touched.
///
/// # Errors
///
/// When the directory cannot be listed, or holds nothing of the dates.
pub(crate) fn days(
    arguments: &StageArgs,
    budget: &Budget,
    touched: &BTreeSet<&Path>,
) -> Result<BTreeMap<NaiveDate, Vec<Part>>, Error> {
    let layout = Layout::new(&arguments.root);
    let dataset = arguments.dataset;
    let range = DateRange { start: arguments.start_date, end: arguments.end_date };
    let (directory, period_of): (_, fn(Dataset, &str) -> Option<Period>) = match arguments.stage {
        StageName::Convert => (Directory::Raw, raw_period),
        StageName::Clean | StageName::Aggregate => (Directory::Converted, parquet_period),
    };
    let directory = layout.directory(dataset, directory);
    let wanted = |name: &str| {
        period_of(dataset, name)
            .is_some_and(|period| period.first_day() == period.last_day() && range.overlaps(period))
    };
    let mut days: BTreeMap<NaiveDate, Vec<Part>> = BTreeMap::new();
    let mut used = BTreeSet::new();
    for entry in budget.list(&directory, wanted)? {
        let Some(period) = period_of(dataset, &entry.name) else { continue };
        let file = directory.join(&entry.name);
        if touched.contains(&*file) {
            used.insert(period.first_day());
        }
        let part = Part { file, offset: 0, bytes: entry.stat.size };
        days.entry(period.first_day()).or_default().push(part);
    }
    days.retain(|day, _| !used.contains(day));
    if days.is_empty() {
        return Err(Error::NoInput {
            message: format!(
                "no files of single days that no earlier run touched in {}",
                directory.display()
            ),
            hint: String::from("check --root, --dataset and the dates, or name other --results"),
        });
    }
    Ok(days)
}

fn raw_period(dataset: Dataset, name: &str) -> Option<Period> {
    FileName::parse(name).ok().filter(|name| name.dataset == dataset).map(|name| name.period)
}

fn parquet_period(dataset: Dataset, name: &str) -> Option<Period> {
    ParquetName::parse(dataset, name).map(|name| name.period)
}

/// Cuts days into `number` windows of about `bytes` each, without a gap in any.
///
/// # Errors
///
/// [`Error::NoInput`] when there are too few days.
pub(crate) fn windows(
    days: BTreeMap<NaiveDate, Vec<Part>>,
    bytes: u64,
    number: usize,
) -> Result<Vec<Window>, Error> {
    let mut windows = Vec::new();
    let mut open: Option<Window> = None;
    for (day, mut parts) in days {
        if windows.len() == number {
            break;
        }
        let follows = |window: &Window| window.last.succ_opt() == Some(day);
        let mut window = match open.take().filter(follows) {
            Some(mut window) => {
                window.parts.append(&mut parts);
                Window { last: day, ..window }
            }
            None => Window { first: day, last: day, parts },
        };
        if window.parts.iter().map(|part| part.bytes).sum::<u64>() >= bytes {
            window.parts.sort();
            windows.push(window);
        } else {
            open = Some(window);
        }
    }
    if windows.len() < number {
        return Err(Error::NoInput {
            message: format!(
                "{number} runs need as many windows of {} MB in consecutive days that no earlier \
                 run touched, and there are {}",
                bytes / 1_000_000,
                windows.len()
            ),
            hint: String::from("lower --run-mib, --repeats or the number of values to vary"),
        });
    }
    Ok(windows)
}

/// All combinations of values, in the order in which they are given.
pub(crate) fn grid(varied: &[Varied]) -> Vec<BTreeMap<String, String>> {
    let mut cells = vec![BTreeMap::new()];
    for Varied { key, values } in varied {
        let with = |cell: &BTreeMap<String, String>, value: &String| {
            let mut cell = cell.clone();
            cell.insert(key.clone(), value.clone());
            cell
        };
        cells = cells.iter().flat_map(|cell| values.iter().map(move |it| with(cell, it))).collect();
    }
    cells
}

/// One run of a stage.
#[derive(Debug)]
pub(crate) struct StageRun {
    setting: Stage,
    window: Window,
    scratch: PathBuf,
    /// What the stage wrote on stdout and stderr, and how it ended; there once it was started.
    ended: Option<Ended>,
}

#[derive(Debug)]
struct Ended {
    stdout: File,
    stderr: File,
    process: Process,
}

impl StageRun {
    /// A run with these settings on this window; `number` tells its outputs from those of others.
    pub(crate) fn new(
        arguments: &StageArgs,
        program: &Path,
        varied: BTreeMap<String, String>,
        window: Window,
        scratch: &Scratch,
        number: usize,
    ) -> Self {
        let stage = arguments.stage.name();
        let dataset = arguments.dataset.name();
        let scratch = scratch.path().join(number.to_string());
        let mut command = vec![program.to_string_lossy().into_owned(), String::from("--json")];
        let mut option = |name: &str, value: &dyn std::fmt::Display| {
            command.push(format!("--{name}={value}"));
        };
        option("root", &arguments.root.display());
        option("dataset", &dataset);
        option("start-date", &window.first);
        option("end-date", &window.last);
        command.extend(arguments.arguments.iter().cloned());
        let mut environment: BTreeMap<String, String> =
            varied.iter().map(|(key, value)| (variable(key), value.clone())).collect();
        for directory in made_by(arguments.stage) {
            let key = directory.to_string().replace('/', "_");
            let path = scratch.join(&key).display().to_string();
            environment.insert(variable(&format!("directories.{dataset}.{key}")), path);
        }
        let setting = Stage {
            stage: stage.to_owned(),
            dataset: dataset.to_owned(),
            first_day: window.first.to_string(),
            last_day: window.last.to_string(),
            varied,
            command,
            environment,
        };
        Self { setting, window, scratch, ended: None }
    }

    fn command(&self) -> Option<Command> {
        let (program, arguments) = self.setting.command.split_first()?;
        let mut command = Command::new(program);
        command.args(arguments).envs(&self.setting.environment);
        Some(command)
    }
}

/// What a stage writes to, its ledger included.
fn made_by(stage: StageName) -> [Directory; 2] {
    let data = match stage {
        StageName::Convert => Directory::Converted,
        StageName::Clean => Directory::Cleaned,
        StageName::Aggregate => Directory::Aggregated(AggregatePeriod::Day),
    };
    [data, Directory::Catalog]
}

/// The environment variable of a setting.
fn variable(key: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}{}", key.to_uppercase().replace('.', "__"))
}

/// The program of a stage: beside this one, else by the search path.
pub(crate) fn program(stage: StageName) -> PathBuf {
    let name = format!("gdelt-{}", stage.name());
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(&name));
    beside.filter(|beside| beside.is_file()).unwrap_or_else(|| name.into())
}

impl Measurement for StageRun {
    fn setting(&self) -> Setting {
        Setting::Stage(self.setting.clone())
    }

    fn inputs(&self) -> &[Part] {
        &self.window.parts
    }

    fn start(&mut self) -> Result<Running, Error> {
        let program = self.setting.command.first().map(PathBuf::from).unwrap_or_default();
        let failed = |source| io_budget::Error::new("start", &program, source);
        let (stdout, stderr) =
            (tempfile::tempfile().map_err(failed)?, tempfile::tempfile().map_err(failed)?);
        let mut command = self.command().ok_or_else(|| Error::Internal("no command".into()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(stdout.try_clone().map_err(failed)?)
            .stderr(stderr.try_clone().map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        let process = Process::of(child.id());
        self.ended = Some(Ended { stdout, stderr, process: process.clone() });
        Ok(Running { load: Box::new(Started { child, process }), reads: None })
    }

    fn finish(&mut self, measured: &mut Measured) -> Result<Files, Vec<String>> {
        let ended = self.ended.take();
        let outputs = outputs(&self.scratch);
        // It may not have been made.
        let _removed = std::fs::remove_dir_all(&self.scratch);
        let Some(Ended { stdout, stderr, process }) = ended else {
            return Err(vec![String::from("it was not started")]);
        };
        measured.peak_rss_bytes = process.peak_rss_bytes();
        measured.cpu_seconds = process.cpu_seconds();
        let summary: Summary = match serde_json::from_str(&text(stdout)) {
            Ok(summary) => summary,
            Err(_) => return Err(vec![last_lines(&text(stderr))]),
        };
        measured.read_bytes = summary.input_bytes;
        measured.written_bytes = summary.output_bytes;
        measured.in_flight = Some(InFlight {
            source: Source::StageReport,
            mean: Some(summary.io.reads.in_flight_seconds / summary.seconds.max(1e-9)),
            most: Some(summary.io.reads.peak_in_flight),
        });
        let mut causes: Vec<String> =
            summary.failures.iter().map(|failure| failure.reason.clone()).collect();
        causes.sort();
        causes.dedup();
        if causes.is_empty() && summary.files.made == 0 {
            causes.push(String::from("the stage made no file"));
        }
        if !causes.is_empty() {
            return Err(causes);
        }
        outputs
    }
}

/// The data files that a stage left in its scratch directory.
fn outputs(scratch: &Path) -> Result<Files, Vec<String>> {
    let mut parts = Vec::new();
    let mut content = Content::default();
    let mut directories = vec![scratch.to_owned()];
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        vec![format!("the output cannot be looked at: {}: {error}", path.display())]
    };
    while let Some(directory) = directories.pop() {
        let Ok(listing) = std::fs::read_dir(&directory) else { continue };
        for entry in listing.flatten() {
            let path = entry.path();
            let kind = entry.file_type().map_err(|error| failed(&path, &error))?;
            let is_ledger = path.file_name().is_some_and(|name| name == "catalog");
            if kind.is_dir() && !is_ledger {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "parquet") {
                let bytes = entry.metadata().map_err(|error| failed(&path, &error))?.len();
                let of_file = complete::content(&path).map_err(|error| failed(&path, &error))?;
                complete::add(&mut content, of_file.unwrap_or_default());
                parts.push(Part { file: path, offset: 0, bytes });
            }
        }
    }
    // They are removed: their names tell nothing.
    let content = (content.complete > 0).then_some(content);
    Ok(Files { parts: Vec::new(), content, ..summary(&parts) })
}

/// A stage that runs.
struct Started {
    child: Child,
    process: Process,
}

impl Started {
    fn status(&mut self) -> Option<ExitStatus> {
        self.process.look();
        self.child.try_wait().ok().flatten()
    }
}

impl Load for Started {
    fn has_ended(&mut self) -> bool {
        self.status().is_some()
    }

    fn bytes(&mut self) -> Moved {
        self.process.look();
        self.process.moved()
    }

    fn stop(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let mut signal = Some(Signal::TERM);
        while self.status().is_none() {
            if let Some(signal) = signal.take() {
                // It may have ended in the meantime.
                let _told = kill_process(Pid::from_child(&self.child), signal);
            }
            if Instant::now() > deadline {
                let _killed = self.child.kill();
                let _ended = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn text(mut file: File) -> String {
    let mut bytes = Vec::new();
    // What cannot be read says nothing.
    let _read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The end of what a program said, where its cause of failure stands.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let last = lines.iter().skip(lines.len().saturating_sub(3));
    last.copied().collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(number: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(2020, 1, number).unwrap()
    }

    fn part(name: &str, bytes: u64) -> Part {
        Part { file: name.into(), offset: 0, bytes }
    }

    #[test]
    fn windows_are_of_similar_size_and_without_gaps() {
        let days: BTreeMap<_, _> = [(1, 6), (2, 6), (3, 20), (5, 6), (6, 6), (8, 3)]
            .map(|(number, bytes)| (day(number), vec![part(&number.to_string(), bytes)]))
            .into();
        let windows = |number| windows(days.clone(), 10, number);
        let found = windows(3).unwrap();
        let ends: Vec<_> = found.iter().map(|window| (window.first, window.last)).collect();
        assert_eq!(ends, [(day(1), day(2)), (day(3), day(3)), (day(5), day(6))]);
        assert_eq!(found[2].parts, [part("5", 6), part("6", 6)]);
        let error = windows(4).unwrap_err().to_string();
        assert!(error.contains("4 runs need as many windows"), "{error}");
        assert!(error.ends_with("there are 3"), "{error}");
    }

    #[test]
    fn a_grid_has_all_combinations() {
        let vary = |text: &str| text.parse::<Varied>().unwrap();
        let cells = grid(&[vary("jobs=1,2"), vary("io.reads=auto,4")]);
        let text: Vec<String> =
            cells.iter().map(|cell| format!("{} {}", cell["jobs"], cell["io.reads"])).collect();
        assert_eq!(text, ["1 auto", "1 4", "2 auto", "2 4"]);
        assert_eq!(grid(&[]), [BTreeMap::new()], "one run without anything varied");
    }

    #[test]
    fn settings_become_variables() {
        assert_eq!(variable("io.reads"), "GDELT_MILL_IO__READS");
        assert_eq!(
            variable("directories.gkg-v2.aggregated_day"),
            "GDELT_MILL_DIRECTORIES__GKG-V2__AGGREGATED_DAY"
        );
    }
}
