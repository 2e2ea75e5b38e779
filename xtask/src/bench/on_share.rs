//! Measures every stage on an emulated slow share: how fast it is, and what its load does to other
//! users of the share. Optionally the same for gdeltforge.
//!
//! Each run gets a mount and a copy of the archive of its own, so that it begins cold. What the
//! share saw is read from its own log, not from what a stage says of itself.
use std::fs::OpenOptions;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::copy_binaries;
use super::forge::{Forge, ForgeSetting};
use super::mill::{Idle, Mill, Setting};
use super::report::{Record, table};
use super::scenario::Scenario;
use super::share::Share;

/// The programs that are run.
const PROGRAMS: [&str; 6] =
    ["gdelt-convert", "gdelt-clean", "gdelt-aggregate", "gdelt-sample", "gdelt-crossref", "slowfs"];
/// How long the share is left to its other users to see how they fare without us.
const ALONE: Duration = Duration::from_secs(15);

/// Flags of `bench share`.
#[derive(Debug, clap::Args)]
pub(crate) struct OnShare {
    /// Archive to measure with, as `make-archive` makes it: raw zips of gkg-v2, mentions and
    /// events-15min
    #[arg(long, value_name = "DIR")]
    archive: PathBuf,
    /// Stage to measure (can be repeated) [default: all]
    #[arg(long = "stage", value_name = "STAGE")]
    scenarios: Vec<Scenario>,
    /// Settings to measure: reads in flight, `auto` (idle latency known from an earlier run) or
    /// `auto-first` (not known); `8x` before it for eight processes at once (convert only)
    #[arg(
        long = "reads",
        value_name = "SETTINGS",
        value_delimiter = ',',
        default_value = "1,2,4,8,auto,auto-first,8x2,8xauto"
    )]
    settings: Vec<Setting>,
    /// Numbers of simulated other users of the share
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "0,4")]
    users: Vec<u32>,
    /// Measure each so often; tables show medians
    #[arg(long, value_name = "N", default_value = "1")]
    repeats: NonZeroUsize,
    /// Also measure the gdeltforge that is installed in this Python environment
    #[arg(long, value_name = "VENV")]
    gdeltforge: Option<PathBuf>,
    /// Keep copies of the archive here, on storage that is much faster than the emulated one
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    scratch: PathBuf,
    /// Append a JSON line for each run to this file
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
}

/// What is compared on a share.
#[derive(Debug, Clone, Copy)]
enum Contender {
    Mill(Setting),
    Forge(ForgeSetting),
}

impl Contender {
    fn name(self) -> String {
        match self {
            Self::Mill(setting) => setting.to_string(),
            Self::Forge(setting) => setting.name().to_owned(),
        }
    }
}

impl OnShare {
    /// Measures, and prints a table for each stage and number of other users.
    pub(crate) fn run(&self) -> Result<()> {
        if let Some(obstacle) = slowfs::mounted::obstacle() {
            bail!("{obstacle}");
        }
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        let binaries = copy_binaries(&PROGRAMS)?;
        let binaries = binaries.path();
        let scratch = tempfile::Builder::new()
            .prefix("gdelt-bench-")
            .tempdir_in(std::path::absolute(&self.scratch)?)
            .with_context(|| format!("cannot work in {}", self.scratch.display()))?;
        let share = Share::new(binaries, scratch.path())?;
        eprintln!("==> preparing the inputs of the stages");
        let mill = Mill::prepare(binaries, &self.archive, scratch.path())?;
        let forge = self
            .gdeltforge
            .as_ref()
            .map(|environment| Forge::prepare(environment, &mill, scratch.path()))
            .transpose()?;
        let mut session = Session { bench: self, stop, share, mill, forge, warm: false };
        let alone = session.users_alone()?;
        for scenario in self.scenarios() {
            let records = session.measure(scenario)?;
            for (users, alone) in &alone {
                let of_users = records.iter().filter(|record| record.users == *users);
                println!("{}", table(scenario, *users, *alone, of_users));
            }
        }
        Ok(())
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let asked = self.scenarios.clone();
        if asked.is_empty() { Scenario::all().to_vec() } else { asked }
    }
}

/// What all measurements share.
struct Session<'a> {
    bench: &'a OnShare,
    stop: Arc<AtomicBool>,
    share: Share,
    mill: Mill,
    forge: Option<Forge>,
    /// Whether a run measured the idle latency.
    warm: bool,
}

impl Session<'_> {
    /// For each number of other users, their mean round trip in milliseconds without us.
    fn users_alone(&mut self) -> Result<Vec<(u32, Option<f64>)>> {
        let mut alone = Vec::new();
        for &users in &self.bench.users {
            let round_trip = if users == 0 {
                None
            } else {
                let load = self.share.watch(users, ALONE)?;
                Some(load.users.rtt_ms)
            };
            alone.push((users, round_trip));
        }
        Ok(alone)
    }

    fn measure(&mut self, scenario: Scenario) -> Result<Vec<Record>> {
        let contenders = self.contenders(scenario);
        let needs_idle = |contender: &Contender| matches!(contender, Contender::Mill(setting) if setting.idle() == Idle::Known);
        if contenders.iter().any(needs_idle) {
            self.warm_up(scenario)?;
        }
        let mut records = Vec::new();
        for repeat in 1..=self.bench.repeats.get() {
            for &users in &self.bench.users {
                for &contender in &contenders {
                    let record = self.run(scenario, contender, users, repeat)?;
                    eprintln!("==> {record}");
                    self.keep(&record)?;
                    records.push(record);
                }
            }
        }
        Ok(records)
    }

    /// Lets the stages up to this one learn how fast the share is while it is idle. Not every
    /// stage reads enough to learn that, but converting does.
    fn warm_up(&mut self, scenario: Scenario) -> Result<()> {
        let first = (!self.warm && scenario != Scenario::Convert).then_some(Scenario::Convert);
        for scenario in first.into_iter().chain([scenario]) {
            eprintln!("==> {scenario}: a run that measures the idle latency");
            let launches = self.mill.warm_up(scenario, self.share.mount_point())?;
            let seen = self.share.run(&self.mill.inputs(scenario), 0, &launches)?;
            let failed = seen.exit_codes.iter().any(|code| *code != Some(0));
            ensure!(!failed, "it failed: {}", seen.words.concat());
            self.warm = true;
        }
        Ok(())
    }

    fn contenders(&self, scenario: Scenario) -> Vec<Contender> {
        let settings = self.bench.settings.iter().copied();
        let ours = settings.filter(|setting| setting.fits(scenario)).map(Contender::Mill);
        let theirs = self.forge.iter().flat_map(|_| ForgeSetting::of(scenario));
        ours.chain(theirs.copied().map(Contender::Forge)).collect()
    }

    fn run(
        &mut self,
        scenario: Scenario,
        contender: Contender,
        users: u32,
        repeat: usize,
    ) -> Result<Record> {
        ensure!(!self.stop.load(Relaxed), "stopped by a signal");
        let mount = self.share.mount_point();
        let (inputs, launches) = match (contender, &self.forge) {
            (Contender::Mill(setting), _) => {
                (self.mill.inputs(scenario), self.mill.launches(scenario, setting, mount)?)
            }
            (Contender::Forge(setting), Some(forge)) => {
                (forge.inputs(scenario), forge.launches(scenario, setting, mount)?)
            }
            (Contender::Forge(_), None) => bail!("there is no gdeltforge to run"),
        };
        let seen = self.share.run(&inputs, users, &launches)?;
        ensure!(!self.stop.load(Relaxed), "stopped by a signal");
        Ok(Record {
            stage: scenario.to_string(),
            contender: contender.name(),
            users,
            repeat,
            input_files: inputs.files,
            input_bytes: inputs.bytes,
            seen,
        })
    }

    fn keep(&self, record: &Record) -> Result<()> {
        let Some(path) = &self.bench.records else { return Ok(()) };
        let mut line = serde_json::to_string(record)?;
        line.push('\n');
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        file.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
    }
}
