//! A program that runs a stage on a dataset, again and again on the same input.

use std::ffi::OsString;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::run::{Ended, Launch, run_to_success};
use super::stage::{REQUIRED_COLUMN, Stage};
use super::tree::{Inputs, data_files};
use super::{forge, mill};

/// What both programs do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) stage: Stage,
    pub(super) dataset: &'a str,
    /// Where the dataset's zips are, in a directory of its name.
    pub(super) archive: &'a Path,
    /// Workers of each.
    pub(super) workers: NonZeroUsize,
    /// An empty directory.
    pub(super) scratch: &'a Path,
}

/// A program with what it reads.
#[derive(Debug)]
pub(super) struct Contender {
    /// For the table.
    pub(super) name: String,
    /// What each run finds in `home`.
    pub(super) inputs: Inputs,
    launch: Launch,
    /// The dataset's directory.
    home: PathBuf,
    /// Where its output is, below `home`.
    output: &'static str,
}

/// The directories of a stage, below the dataset's.
struct Places {
    /// What it needs of what `convert` made.
    inputs: &'static [&'static str],
    output: &'static str,
}

impl Contender {
    /// The stage of this workspace.
    pub(super) fn ours(job: Job<'_>, binaries: &Path) -> Result<Self> {
        let work = job.scratch.join("mill");
        fs::create_dir_all(&work)?;
        let (root, settings) = (work.join("root"), work.join("settings.toml"));
        fs::write(&settings, mill::requirement(REQUIRED_COLUMN))?;
        let launch = |stage: Stage| {
            let workers = job.workers.to_string();
            let mut arguments: Vec<OsString> = vec!["--root".into(), root.clone().into()];
            arguments.extend(["--config".into(), settings.clone().into()]);
            arguments.extend(["--jobs".into(), workers.into()]);
            arguments.extend(stage.flags(job.dataset).into_iter().map(OsString::from));
            Launch {
                program: binaries.join(stage.program()),
                arguments,
                variables: vec![("XDG_STATE_HOME", work.join("state").into())],
                directory: work.clone(),
            }
        };
        let inputs = &["converted", "catalog"];
        let places = |stage| match stage {
            Stage::Convert => Places { inputs, output: "converted" },
            Stage::Clean => Places { inputs, output: "cleaned" },
            Stage::Aggregate => Places { inputs, output: "aggregated/day" },
        };
        Self::prepare(job, &job.stage.program(), &root.join(job.dataset), launch, places)
    }

    /// The same stage of the gdeltforge in a Python environment.
    pub(super) fn theirs(job: Job<'_>, environment: &Path) -> Result<Self> {
        let program = forge::program(environment)?;
        let work = job.scratch.join("forge");
        fs::create_dir_all(&work)?;
        let launch = |stage: Stage| {
            let mut arguments = vec![stage.command(), "--quiet"];
            arguments.extend(stage.flags(job.dataset));
            Launch {
                program: program.clone(),
                arguments: arguments.into_iter().map(OsString::from).collect(),
                variables: Vec::new(),
                directory: work.clone(),
            }
        };
        // For its default settings.
        let mut dry_run = launch(Stage::Convert);
        dry_run.arguments.push("--dry-run".into());
        run_to_success(dry_run, &work)?;
        let settings = work.join(forge::SETTINGS);
        let text = fs::read_to_string(&settings).context("gdeltforge left no settings")?;
        let workers = ["null", &job.workers.to_string()].map(|it| format!("max_workers: {it}"));
        let changes = [workers.into(), forge::requirement(REQUIRED_COLUMN)];
        fs::write(&settings, forge::changed(&text, &changes)?)?;
        let inputs = &["parquet"];
        let places = |stage| match stage {
            Stage::Convert => Places { inputs, output: "parquet" },
            Stage::Clean => Places { inputs, output: "cleaned" },
            Stage::Aggregate => Places { inputs, output: "aggregated_day" },
        };
        let home = work.join("data").join(forge::folder(job.dataset));
        Self::prepare(job, "gdeltforge", &home, launch, places)
    }

    /// Makes the inputs of the stage, with the program itself.
    fn prepare(
        job: Job<'_>,
        name: &str,
        home: &Path,
        launch: impl Fn(Stage) -> Launch,
        places: impl Fn(Stage) -> Places,
    ) -> Result<Self> {
        let contender = |stage: Stage, inputs: Inputs| Self {
            name: name.to_owned(),
            inputs,
            launch: launch(stage),
            home: home.to_owned(),
            output: places(stage).output,
        };
        let zips = Inputs::new(&job.archive.join(job.dataset), ["raw"])?;
        let convert = contender(Stage::Convert, zips);
        if job.stage == Stage::Convert {
            return Ok(convert);
        }
        convert.run()?;
        let converted = convert.launch.directory.join("converted");
        fs::rename(home, &converted)?;
        let inputs = places(job.stage).inputs;
        Ok(contender(job.stage, Inputs::new(&converted, inputs.iter().copied())?))
    }

    /// Runs once, with nothing left of an earlier run: neither outputs nor notes of what is done.
    pub(super) fn run(&self) -> Result<Ended> {
        if self.home.exists() {
            fs::remove_dir_all(&self.home)?;
        }
        self.inputs.copy_to(&self.home)?;
        let ended = run_to_success(self.launch.clone(), &self.launch.directory)?;
        let nothing = || format!("{} made nothing in {}", self.name, self.home.display());
        ensure!(!self.outputs().with_context(nothing)?.is_empty(), nothing());
        Ok(ended)
    }

    /// What the last run made, by name.
    pub(super) fn outputs(&self) -> Result<Vec<PathBuf>> {
        data_files(&self.home.join(self.output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that is a shell script, started in `dir`.
    fn script(dir: &Path, script: &str) -> Contender {
        let raw = dir.join("archive/raw");
        fs::create_dir_all(&raw).unwrap();
        fs::write(raw.join("a.zip"), "a").unwrap();
        let launch = Launch {
            program: "/bin/sh".into(),
            arguments: ["-c", script].map(OsString::from).to_vec(),
            variables: Vec::new(),
            directory: dir.to_owned(),
        };
        let inputs = Inputs::new(&dir.join("archive"), ["raw"]).unwrap();
        let home = dir.join("home");
        Contender { name: String::from("script"), inputs, launch, home, output: "made" }
    }

    #[test]
    fn every_run_finds_its_input_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let made = "test \"$(ls -A home)\" = raw && mkdir home/made && cd home && \
                    mv raw/a.zip made/a.parquet && touch raw/.done";
        let contender = script(dir.path(), made);
        for _ in 0..2 {
            contender.run().unwrap();
            assert_eq!(contender.outputs().unwrap(), [dir.path().join("home/made/a.parquet")]);
        }
    }

    #[test]
    fn a_run_that_fails_or_makes_nothing_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        for (text, error) in [
            ("mkdir home/made && touch home/made/a.parquet && exit 3", "failed"),
            ("mkdir home/made && touch home/made/.done", "script made nothing in"),
            ("true", "script made nothing in"),
        ] {
            let said = script(dir.path(), text).run().unwrap_err().to_string();
            assert!(said.contains(error), "{text}: {said}");
        }
    }
}
