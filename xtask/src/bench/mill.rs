//! The stages of this workspace: their inputs, settings and command lines.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result, ensure};

use super::run::{Launch, run_to_success};
use super::scenario::{REQUIRED_COLUMN, ROWS, Scenario};
use super::tree::{Inputs, copy, data_files};

/// The datasets that the scenarios need.
pub(super) const DATASETS: [&str; 3] = ["events-15min", "mentions", "gkg-v2"];
/// Where results stand below a root.
const RESULTS: &str = "results";
/// The events that `crossref` joins.
const EVENTS: &str = "results/events.parquet";

/// How many reads a stage may have in flight, and in how many processes it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting {
    processes: usize,
    reads: Reads,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    AtMost(usize),
    Auto(Idle),
}

/// Whether a run knows how fast the share is while it is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Idle {
    /// From an earlier run.
    Known,
    /// It has to measure that.
    Unknown,
}

impl Setting {
    /// What the run knows of the idle share.
    pub(super) fn idle(self) -> Idle {
        match self.reads {
            Reads::Auto(idle) => idle,
            Reads::AtMost(_) => Idle::Unknown,
        }
    }

    /// Whether it is measured in a scenario: one is enough to show what several processes do.
    pub(super) fn fits(self, scenario: Scenario) -> bool {
        self.processes == 1 || scenario == Scenario::Convert
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (processes, reads) = match text.strip_prefix("8x") {
            Some(reads) => (8, reads),
            None => (1, text),
        };
        let reads = match reads {
            "auto" => Reads::Auto(Idle::Known),
            "auto-first" => Reads::Auto(Idle::Unknown),
            number => match number.parse() {
                Ok(number) if number > 0 => Reads::AtMost(number),
                _ => return Err(String::from("neither a number of reads nor a kind of auto")),
            },
        };
        Ok(Self { processes, reads })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reads {
            Reads::AtMost(1) => write!(formatter, "1 read")?,
            Reads::AtMost(number) => write!(formatter, "{number} reads")?,
            Reads::Auto(Idle::Known) => write!(formatter, "auto")?,
            Reads::Auto(Idle::Unknown) => write!(formatter, "auto, first run")?,
        }
        if self.processes > 1 {
            write!(formatter, ", {} processes", self.processes)?;
        }
        Ok(())
    }
}

/// The stages and an archive with the inputs of each.
#[derive(Debug)]
pub(super) struct Mill {
    binaries: PathBuf,
    root: PathBuf,
    settings: PathBuf,
    work: PathBuf,
    inputs: Vec<(Scenario, Inputs)>,
    /// Where the last warm-up left what it measured.
    known: Option<PathBuf>,
    runs: usize,
}

impl Mill {
    /// Makes the inputs of all stages from the zips of `archive`.
    pub(super) fn prepare(binaries: &Path, archive: &Path, scratch: &Path) -> Result<Self> {
        let (root, work) = (scratch.join("mill"), scratch.join("mill-work"));
        for directory in [&work, &root.join(RESULTS)] {
            fs::create_dir_all(directory)?;
        }
        for dataset in DATASETS {
            let raw = Path::new(dataset).join("raw");
            copy(&archive.join(&raw), &root.join(&raw))?;
        }
        let settings = work.join("settings.toml");
        fs::write(&settings, requirement(REQUIRED_COLUMN))?;
        let mut mill = Self {
            binaries: binaries.to_owned(),
            root,
            settings,
            work,
            inputs: Vec::new(),
            known: None,
            runs: 0,
        };
        let root = mill.root.clone();
        for (stage, flags) in [
            ("convert", DATASETS.map(|dataset| format!("--dataset={dataset}")).to_vec()),
            ("sample", sample_flags("events-15min", "indexed", &root.join(EVENTS))),
        ] {
            let memory = mill.new_memory();
            let launch = mill.launch(stage, &root, &memory, "prepare", flags);
            run_to_success(launch, &mill.work)?;
        }
        for &scenario in Scenario::all() {
            let inputs = Inputs::new(&root, directories(scenario).iter().copied())?;
            ensure!(inputs.files > 0, "the archive has no input for {scenario}");
            mill.inputs.push((scenario, inputs));
        }
        Ok(mill)
    }

    /// What a scenario reads.
    pub(super) fn inputs(&self, scenario: Scenario) -> Inputs {
        let known = self.inputs.iter().find(|(of, _)| *of == scenario);
        let mut inputs = known.map_or_else(
            || Inputs { root: self.root.clone(), directories: Vec::new(), files: 0, bytes: 0 },
            |(_, inputs)| inputs.clone(),
        );
        inputs.directories.push(PathBuf::from(RESULTS));
        inputs
    }

    /// The archive's zips of a dataset.
    pub(super) fn raw(&self, dataset: &str) -> PathBuf {
        self.root.join(dataset).join("raw")
    }

    /// The sampled events.
    pub(super) fn events(&self) -> PathBuf {
        self.root.join(EVENTS)
    }

    /// A run that leaves what it measures of the idle share, and what is known of it, for later
    /// runs with [`Idle::Known`].
    pub(super) fn warm_up(&mut self, scenario: Scenario, mount: &Path) -> Result<Vec<Launch>> {
        let idle = if self.known.is_some() { Idle::Known } else { Idle::Unknown };
        let setting = Setting { processes: 1, reads: Reads::Auto(idle) };
        let launches = self.launches(scenario, setting, mount)?;
        self.known = Some(self.memory());
        Ok(launches)
    }

    /// The processes of a run of `scenario` on the archive at `mount`.
    pub(super) fn launches(
        &mut self,
        scenario: Scenario,
        setting: Setting,
        mount: &Path,
    ) -> Result<Vec<Launch>> {
        let memory = self.new_memory();
        let key = self.key();
        if setting.idle() == Idle::Known {
            // A copy, so that one run does not teach the next.
            let known = self.known.as_ref().context("there was no warm-up run")?;
            copy(known, &memory).context("the warm-up run did not remember the idle latency")?;
        }
        let reads = match setting.reads {
            Reads::AtMost(number) => number.to_string(),
            Reads::Auto(_) => String::from("auto"),
        };
        let mut flags = flags(scenario, mount);
        flags.extend([format!("--max-reads={reads}"), String::from("--json")]);
        if scenario == Scenario::Clean {
            flags.extend([String::from("--config"), self.settings.display().to_string()]);
        }
        let stage = stage(scenario);
        if setting.processes == 1 {
            return Ok(vec![self.launch(stage, mount, &memory, &key, flags)]);
        }
        let raw = Path::new("gkg-v2").join("raw");
        let files = data_files(&self.root.join(&raw))?;
        let share = files.len().div_ceil(setting.processes).max(1);
        let launch = |files: &[PathBuf]| {
            let mut launch = self.launch(stage, mount, &memory, &key, flags.clone());
            launch.arguments.extend(["--out-dir".into(), mount.join("gkg-v2/converted").into()]);
            let names = files.iter().filter_map(|file| file.file_name());
            launch.arguments.extend(names.map(|name| mount.join(&raw).join(name).into()));
            launch
        };
        Ok(files.chunks(share).map(launch).collect())
    }

    fn launch(
        &self,
        stage: &str,
        root: &Path,
        memory: &Path,
        key: &str,
        flags: Vec<String>,
    ) -> Launch {
        let mut arguments = vec![OsString::from("--root"), root.into()];
        arguments.extend(flags.into_iter().map(OsString::from));
        Launch {
            program: self.binaries.join(format!("gdelt-{stage}")),
            arguments,
            variables: vec![
                ("XDG_STATE_HOME", memory.into()),
                // Runs one after another are to know nothing of each other.
                ("GDELT_MILL_IO__BUDGET_KEY", key.into()),
            ],
            directory: self.work.clone(),
        }
    }

    /// A place for what a run remembers that no run used before.
    fn new_memory(&mut self) -> PathBuf {
        self.runs += 1;
        self.memory()
    }

    fn memory(&self) -> PathBuf {
        self.work.join(format!("state-{}", self.runs))
    }

    fn key(&self) -> String {
        format!("bench-{}-{}", std::process::id(), self.runs)
    }
}

/// Settings by which rows of gkg-v2 without a value in `column` go.
pub(super) fn requirement(column: &str) -> String {
    format!("[clean.gkg-v2]\nrequire = [\"{column}\"]\n")
}

fn stage(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::Convert | Scenario::ConvertMentions => "convert",
        Scenario::Clean => "clean",
        Scenario::Aggregate => "aggregate",
        Scenario::Sample | Scenario::SampleCalendar => "sample",
        Scenario::Crossref => "crossref",
    }
}

/// The directories of a scenario's inputs, below the root.
fn directories(scenario: Scenario) -> &'static [&'static str] {
    match scenario {
        Scenario::Convert => &["gkg-v2/raw"],
        Scenario::ConvertMentions => &["mentions/raw"],
        Scenario::Clean | Scenario::Aggregate | Scenario::Sample | Scenario::SampleCalendar => {
            &["gkg-v2/converted"]
        }
        Scenario::Crossref => &["mentions/converted", "gkg-v2/converted"],
    }
}

fn flags(scenario: Scenario, mount: &Path) -> Vec<String> {
    let result = mount.join(RESULTS).join("result.parquet");
    let of = |flags: &[&str]| flags.iter().copied().map(String::from).collect();
    match scenario {
        Scenario::Convert | Scenario::Clean => of(&["--dataset=gkg-v2"]),
        Scenario::ConvertMentions => of(&["--dataset=mentions"]),
        Scenario::Aggregate => of(&["--dataset=gkg-v2", "--period=day"]),
        Scenario::Sample => sample_flags("gkg-v2", "indexed", &result),
        Scenario::SampleCalendar => sample_flags("gkg-v2", "calendar", &result),
        Scenario::Crossref => {
            let events = mount.join(EVENTS).display().to_string();
            let result = result.display().to_string();
            of(&["--gkg-version=v2", "--events", &events, "--out", &result])
        }
    }
}

fn sample_flags(dataset: &str, mode: &str, result: &Path) -> Vec<String> {
    let count =
        if mode == "calendar" { format!("--per-period={ROWS}") } else { format!("-n{ROWS}") };
    let mut flags = vec![
        format!("--dataset={dataset}"),
        format!("--mode={mode}"),
        count,
        String::from("--source=converted"),
        String::from("--seed=1"),
        format!("--out={}", result.display()),
    ];
    if mode == "calendar" {
        flags.push(String::from("--period=day"));
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_are_written_in_the_flag() {
        let name = |text: &str| text.parse::<Setting>().map(|setting| setting.to_string());
        assert_eq!(name("1"), Ok(String::from("1 read")));
        assert_eq!(name("auto"), Ok(String::from("auto")));
        assert_eq!(name("auto-first"), Ok(String::from("auto, first run")));
        assert_eq!(name("8x2"), Ok(String::from("2 reads, 8 processes")));
        for wrong in ["0", "", "8x", "fast", "-1"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
