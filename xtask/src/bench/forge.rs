//! gdeltforge, as its users run it: its inputs, settings and command lines.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::mill::{DATASETS, Mill};
use super::run::{Launch, run_to_success};
use super::scenario::{REQUIRED_COLUMN, ROWS, Scenario};
use super::tree::{Inputs, copy};

/// Where its default settings keep data, below the directory that it is started in.
const DATA: &str = "data";
/// Where the sampled events stand below the data.
const EVENTS: &str = "results/events.parquet";
const RESULTS: &str = "results";
/// Where it leaves its default settings, below that directory, when it finds none.
pub(super) const SETTINGS: &str = "config/settings.yaml";

/// How gdeltforge is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForgeSetting {
    /// As it comes.
    Default,
    /// With `io.max_concurrent_reads: 4`, its documentation's starting point for such storage.
    FourReads,
    /// With that, and CSVs extracted to fast local storage, which its documentation also advises.
    FourReadsLocalCsv,
}

impl ForgeSetting {
    /// Those that make a difference in a scenario.
    pub(super) fn of(scenario: Scenario) -> &'static [Self] {
        match scenario {
            Scenario::Convert | Scenario::ConvertMentions => {
                &[Self::Default, Self::FourReads, Self::FourReadsLocalCsv]
            }
            _ => &[Self::Default, Self::FourReads],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Default => "gdeltforge",
            Self::FourReads => "gdeltforge, 4 reads",
            Self::FourReadsLocalCsv => "gdeltforge, 4 reads, CSVs elsewhere",
        }
    }
}

/// An installed gdeltforge and its copy of the archive with the inputs of each stage.
#[derive(Debug)]
pub(super) struct Forge {
    program: PathBuf,
    data: PathBuf,
    work: PathBuf,
    /// Its own default settings.
    settings: String,
    inputs: Vec<(Scenario, Inputs)>,
}

impl Forge {
    /// Makes the inputs of all stages with the gdeltforge of a Python environment.
    pub(super) fn prepare(environment: &Path, mill: &Mill, scratch: &Path) -> Result<Self> {
        let program = program(environment)?;
        let work = scratch.join("forge");
        let data = work.join(DATA);
        fs::create_dir_all(data.join(RESULTS))?;
        for dataset in DATASETS {
            copy(&mill.raw(dataset), &data.join(folder(dataset)).join("raw"))?;
        }
        fs::copy(mill.events(), data.join(EVENTS))?;
        for dataset in DATASETS {
            let arguments = ["convert", "--quiet", "--dataset", dataset].map(OsString::from);
            let launch = Launch {
                program: program.clone(),
                arguments: arguments.to_vec(),
                variables: Vec::new(),
                directory: work.clone(),
            };
            run_to_success(launch, &work)?;
            // Its marks of finished zips would leave a measured run nothing to do.
            let raw = data.join(folder(dataset)).join("raw");
            fs::remove_dir_all(&raw)?;
            copy(&mill.raw(dataset), &raw)?;
        }
        let settings =
            fs::read_to_string(work.join(SETTINGS)).context("gdeltforge left no settings")?;
        let mut inputs = Vec::new();
        for &scenario in Scenario::all() {
            inputs.push((scenario, Inputs::new(&data, directories(scenario).iter().copied())?));
        }
        Ok(Self { program, data, work, settings, inputs })
    }

    /// What a scenario reads.
    pub(super) fn inputs(&self, scenario: Scenario) -> Inputs {
        let known = self.inputs.iter().find(|(of, _)| *of == scenario);
        let mut inputs = known.map_or_else(
            || Inputs { root: self.data.clone(), directories: Vec::new(), files: 0, bytes: 0 },
            |(_, inputs)| inputs.clone(),
        );
        inputs.directories.push(PathBuf::from(RESULTS));
        inputs
    }

    /// The process of a run of `scenario` on the data at `mount`.
    pub(super) fn launches(
        &self,
        scenario: Scenario,
        setting: ForgeSetting,
        mount: &Path,
    ) -> Result<Vec<Launch>> {
        let config = self.work.join("bench.yaml");
        fs::write(&config, self.settings(setting, mount)?)?;
        let mut arguments: Vec<OsString> = vec!["--config".into(), config.into()];
        arguments.extend(arguments_of(scenario, mount).into_iter().map(OsString::from));
        let directory = self.work.clone();
        let program = self.program.clone();
        Ok(vec![Launch { program, arguments, variables: Vec::new(), directory }])
    }

    /// Its settings, with all data at `mount`; its own log stays elsewhere.
    fn settings(&self, setting: ForgeSetting, mount: &Path) -> Result<String> {
        let local = self.work.join("csv");
        let mut changes = Vec::new();
        if setting == ForgeSetting::FourReadsLocalCsv {
            for dataset in DATASETS {
                let folder = folder(dataset);
                let path = local.join(&folder).display().to_string();
                changes.push((format!("\"./data/{folder}/csv\""), format!("\"{path}\"")));
            }
        }
        changes.push((String::from("\"./data/"), format!("\"{}/", mount.display())));
        changes.push(requirement(REQUIRED_COLUMN));
        if setting != ForgeSetting::Default {
            let [from, to] = ["null", "4"].map(|it| format!("max_concurrent_reads: {it}"));
            changes.push((from, to));
        }
        changed(&self.settings, &changes)
    }
}

/// The program in a Python environment.
pub(super) fn program(environment: &Path) -> Result<PathBuf> {
    Ok(std::path::absolute(environment)?.join("bin").join("gdeltforge"))
}

/// The change of its default settings by which rows of gkg-v2 without a value in `column` go.
pub(super) fn requirement(column: &str) -> (String, String) {
    (String::from("gdelt_gkg_v2: []"), format!("gdelt_gkg_v2: [\"{column}\"]"))
}

/// Settings with other text in all places that hold the first of a pair.
pub(super) fn changed(settings: &str, changes: &[(String, String)]) -> Result<String> {
    let mut settings = settings.to_owned();
    for (from, to) in changes {
        ensure!(settings.contains(from), "gdeltforge's settings have no `{from}`");
        settings = settings.replace(from, to);
    }
    Ok(settings)
}

/// Its name for a dataset's folder.
pub(super) fn folder(dataset: &str) -> String {
    dataset.replace('-', "_")
}

/// The directories of a scenario's inputs, below the data.
fn directories(scenario: Scenario) -> &'static [&'static str] {
    match scenario {
        Scenario::Convert => &["gkg_v2/raw"],
        Scenario::ConvertMentions => &["mentions/raw"],
        Scenario::Clean | Scenario::Aggregate | Scenario::Sample | Scenario::SampleCalendar => {
            &["gkg_v2/parquet"]
        }
        Scenario::Crossref => &["mentions/parquet", "gkg_v2/parquet"],
    }
}

fn arguments_of(scenario: Scenario, mount: &Path) -> Vec<String> {
    let result = mount.join(RESULTS).join("result.parquet").display().to_string();
    let events = mount.join(EVENTS).display().to_string();
    let gkg = ["--dataset", "gkg-v2"];
    let sample = ["--source", "converted", "--seed", "1", "--out", &result];
    let parts: [&[&str]; 4] = match scenario {
        Scenario::Convert => [&["convert"], &gkg, &[], &[]],
        Scenario::ConvertMentions => [&["convert"], &["--dataset", "mentions"], &[], &[]],
        Scenario::Clean => [&["clean"], &gkg, &[], &[]],
        Scenario::Aggregate => {
            [&["aggregate"], &gkg, &["--period", "day", "--source", "converted"], &[]]
        }
        Scenario::Sample => [&["sample"], &gkg, &["--mode", "indexed", "-n", ROWS], &sample],
        Scenario::SampleCalendar => {
            let calendar = ["--mode", "calendar", "--period", "day", "--per-period", ROWS];
            return [&["sample"], &gkg[..], &calendar, &sample]
                .concat()
                .iter()
                .copied()
                .map(String::from)
                .collect();
        }
        Scenario::Crossref => [
            &["crossref"],
            &["--gkg-version", "v2", "--source", "converted"],
            &["--events", &events],
            &["--out", &result],
        ],
    };
    parts.concat().into_iter().map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_changed_everywhere_or_not_at_all() {
        let change = |from: &str, to: &str| (String::from(from), String::from(to));
        let settings = "a:\n  workers: null\nb:\n  workers: null\n  gdelt_gkg_v2: []\n";
        let changes = [change("workers: null", "workers: 2"), requirement("X")];
        let expected = "a:\n  workers: 2\nb:\n  workers: 2\n  gdelt_gkg_v2: [\"X\"]\n";
        assert_eq!(changed(settings, &changes).unwrap(), expected);
        let error = changed(settings, &[change("reads: null", "reads: 4")]).unwrap_err();
        assert_eq!(error.to_string(), "gdeltforge's settings have no `reads: null`");
    }
}
