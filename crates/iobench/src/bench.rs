//! What all measurements have in common: the same care before, during and after each run, and the
//! same record of it. What is measured is told by a [`Measurement`].

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use io_budget::Budget;
use io_budget::storage::{Storage, System};
use stage::{Cpus, Error, ExitStatus, Interrupt, Printer};

use crate::cli::Rules;
use crate::idle::{Beside, Prober};
use crate::meter::Meter;
use crate::record::{
    Care, Content, FORMAT, Files, Host, Idle, Measured, Outcome, Part, Run, Setting, Source, Target,
};
use crate::results::Results;
use crate::supply::{Supply, sum};
use crate::timeline::milliseconds;
use crate::watch::{Eyes, Kernel, Load, Requests, Seen, watch};
use crate::{complete, direct, page_cache};

/// Share of a run's bytes that the page cache may hold before it.
const CACHED_LIMIT: f64 = 0.05;

/// One run to come.
pub(crate) trait Measurement {
    /// What is run.
    fn setting(&self) -> Setting;
    /// What it reads.
    fn inputs(&self) -> &[Part];
    /// Starts it.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    fn start(&mut self) -> Result<Running, Error>;
    /// Completes what was measured when it has ended, and tells what it wrote. `Err` holds the
    /// causes where it failed.
    fn finish(&mut self, measured: &mut Measured) -> Result<Files, Vec<String>>;
}

/// A run that was started.
pub(crate) struct Running {
    /// The run.
    pub(crate) load: Box<dyn Load>,
    /// Its own reads, where they tell how long reads take. Otherwise a reader beside it does.
    pub(crate) reads: Option<Arc<dyn Requests>>,
}

/// An invocation of the benchmark.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) rules: Rules,
    pub(crate) printer: Printer,
    pub(crate) interrupt: Interrupt,
    pub(crate) results: Results,
    system: System,
    storage: Storage,
    target: Target,
    host: Host,
    session: String,
    prober: Arc<Mutex<Prober>>,
}

impl Bench {
    /// Prepares to measure the storage of a directory. `budget` tells what it takes it for.
    ///
    /// # Errors
    ///
    /// When earlier results cannot be read, or the signals cannot be watched.
    pub(crate) fn new(directory: &Path, budget: &Budget, rules: Rules) -> Result<Self, Error> {
        let results = Results::load(&rules.results)?;
        let storage = budget.storage(directory);
        let absolute = std::path::absolute(directory);
        let target = Target {
            directory: absolute.unwrap_or_else(|_| directory.to_owned()),
            class: storage.class.to_string(),
            why: storage.why.clone(),
            fs_type: storage.fs_type.clone(),
            source: storage.source.clone(),
            mount_point: storage.mount_point.clone(),
            mount_options: storage.mount_options.clone(),
        };
        let system = rustix::system::uname();
        let host = Host {
            name: system.nodename().to_string_lossy().into_owned(),
            kernel: system.release().to_string_lossy().into_owned(),
            cpus: Cpus::detect().count.get(),
        };
        Ok(Self {
            printer: Printer::new(rules.quiet, false, rules.no_progress),
            interrupt: Interrupt::listen()?,
            results,
            system: System::default(),
            storage,
            target,
            host,
            session: format!("{}-{}", now(), std::process::id()),
            prober: Arc::new(Mutex::new(Prober::new(&[], 0)?)),
            rules,
        })
    }

    /// Takes files for the idle baseline and for reads beside the runs.
    ///
    /// # Errors
    ///
    /// When one cannot be opened.
    pub(crate) fn probe_with(&mut self, supply: &mut Supply) -> Result<(), Error> {
        let parts = supply.for_single_reads()?;
        if parts.is_empty() {
            self.printer.warn("no file is left for an idle baseline");
        }
        self.prober = Arc::new(Mutex::new(Prober::new(&parts, self.rules.seed)?));
        Ok(())
    }

    /// Runs all of them in an order that the seed shuffles, and adds each to the results. Each comes
    /// with the number of its repeat.
    ///
    /// # Errors
    ///
    /// When the results cannot be written, or a signal asks to end.
    pub(crate) fn run_all<M: Measurement>(&mut self, mut runs: Vec<(u32, M)>) -> Result<(), Error> {
        fastrand::Rng::with_seed(self.rules.seed).shuffle(&mut runs);
        let bar = self.printer.start_bar(runs.len() as u64, "runs");
        let mut idle = self.idle();
        for (order, (repeat, mut measurement)) in runs.into_iter().enumerate() {
            self.interrupt.check()?;
            let began = now();
            let done = self.run(&mut measurement)?;
            if matches!(done.outcome, Some(Outcome::Killed { .. })) {
                self.pause();
            }
            let idle_before = idle;
            idle = self.idle();
            let interrupted = || Outcome::Failed { causes: vec![String::from("interrupted")] };
            let run = Run {
                format: FORMAT,
                version: stage::VERSION.to_owned(),
                began,
                host: self.host.clone(),
                session: self.session.clone(),
                order,
                repeat,
                seed: self.rules.seed,
                care: Care {
                    ceiling_ms: milliseconds(self.rules.limits().ceiling),
                    cap_seconds: self.rules.limits().cap.as_secs_f64(),
                    cached: CACHED_LIMIT,
                },
                target: self.target.clone(),
                setting: measurement.setting(),
                outcome: done.outcome.unwrap_or_else(interrupted),
                inputs: done.inputs,
                outputs: done.outputs,
                measured: done.measured,
                idle_before,
                idle_after: idle,
            };
            self.results.add(run)?;
            bar.advance(1);
        }
        self.interrupt.check()
    }

    /// One run: refused where its inputs are not whole or not cold, else watched to its end.
    fn run(&self, measurement: &mut dyn Measurement) -> Result<Done, Error> {
        let inputs = match examined(measurement.inputs()) {
            (inputs, None) => inputs,
            (inputs, Some(cause)) => {
                let outcome = Some(Outcome::Refused { cause });
                return Ok(Done { outcome, inputs, ..Done::default() });
            }
        };
        let failed = |causes| {
            let outcome = Some(Outcome::Failed { causes });
            Done { outcome, inputs: inputs.clone(), ..Done::default() }
        };
        let Running { mut load, reads } = match measurement.start() {
            Ok(running) => running,
            Err(error) => return Ok(failed(vec![error.to_string()])),
        };
        let mut beside = None;
        let (source, reads) = if let Some(reads) = reads {
            (Source::OwnTiming, reads)
        } else {
            let meter = Arc::new(Meter::new());
            let directory = &self.target.directory;
            let started = Beside::start(&self.prober, &meter)
                .map_err(|source| io_budget::Error::new("watch", directory, source))?;
            beside = Some(started);
            (Source::ProbeReads, meter as Arc<dyn Requests>)
        };
        let kernel = Kernel { system: &self.system, storage: &self.storage };
        let eyes = Eyes { reads: &*reads, source, kernel };
        let Seen { outcome, mut measured } =
            watch(&mut *load, &eyes, self.rules.limits(), &self.interrupt);
        drop((load, beside));
        let (outcome, outputs) = match measurement.finish(&mut measured) {
            Ok(outputs) => (outcome, outputs),
            // What ends a run from outside is no failure of its own.
            Err(causes) if outcome == Some(Outcome::Complete) => {
                (Some(Outcome::Failed { causes }), Files::default())
            }
            Err(_) => (outcome, Files::default()),
        };
        Ok(Done { outcome, inputs, outputs, measured: Some(measured) })
    }

    fn idle(&self) -> Option<Idle> {
        let mut prober = self.prober.lock().unwrap_or_else(PoisonError::into_inner);
        match prober.idle() {
            Ok(idle) => idle,
            Err(error) => {
                self.printer.warn(format!("the idle baseline cannot be read: {error}"));
                None
            }
        }
    }

    /// Leaves the storage alone for a while.
    fn pause(&self) {
        let until = Instant::now() + self.rules.pause();
        while Instant::now() < until && !self.interrupt.is_set() {
            sleep(Duration::from_millis(50).min(self.rules.pause()));
        }
    }

    /// Says where the results are, and how the process ends: with failed runs if there are any of
    /// this invocation.
    pub(crate) fn finish(&self) -> ExitStatus {
        self.printer.info(format!("report: {}", self.results.report().display()));
        let own = self.results.runs().iter().filter(|run| run.session == self.session);
        let failed =
            |run: &Run| matches!(run.outcome, Outcome::Failed { .. } | Outcome::Refused { .. });
        if own.clone().any(failed) { ExitStatus::FilesFailed } else { ExitStatus::Done }
    }

    /// The runs of this invocation.
    pub(crate) fn own_runs(&self) -> Vec<Run> {
        let own = self.results.runs().iter().filter(|run| run.session == self.session);
        own.cloned().collect()
    }
}

/// What became of a run.
#[derive(Default)]
struct Done {
    /// None where the user asked to end.
    outcome: Option<Outcome>,
    inputs: Files,
    outputs: Files,
    measured: Option<Measured>,
}

/// Files of these parts as they are recorded, and why they cannot be measured with, where that is
/// so.
fn examined(parts: &[Part]) -> (Files, Option<String>) {
    let mut files = summary(parts);
    let mut content = Content::default();
    for part in parts {
        match complete::content(&part.file) {
            Ok(Some(of_file)) => complete::add(&mut content, of_file),
            Ok(None) => {}
            Err(why) => return (files, Some(format!("{}: {why}", part.file.display()))),
        }
    }
    files.content = (content.complete > 0).then_some(content);
    match cached_share(parts) {
        Ok(share) => files.cached = share,
        Err(cause) => return (files, Some(cause)),
    }
    let cause = files.cached.filter(|share| *share > CACHED_LIMIT).map(|share| {
        format!(
            "the page cache holds {:.1} % of the input, and may hold {:.0} %",
            share * 100.0,
            CACHED_LIMIT * 100.0
        )
    });
    (files, cause)
}

/// Numbers and sizes of parts.
pub(crate) fn summary(parts: &[Part]) -> Files {
    let sizes = || parts.iter().map(|part| part.bytes);
    let mut names: Vec<&Path> = parts.iter().map(|part| part.file.as_path()).collect();
    names.sort_unstable();
    names.dedup();
    Files {
        parts: parts.to_vec(),
        files: names.len(),
        bytes: sum(parts),
        smallest: sizes().min().unwrap_or(0),
        largest: sizes().max().unwrap_or(0),
        cached: None,
        content: None,
    }
}

/// Share of the parts that the page cache holds; none where the system does not tell.
fn cached_share(parts: &[Part]) -> Result<Option<f64>, String> {
    let mut cached = 0;
    for part in parts {
        let ask = || page_cache::cached_bytes(&direct::open(&part.file)?, part.offset, part.bytes);
        match ask().map_err(|error| format!("{}: {error}", part.file.display()))? {
            Some(bytes) => cached += bytes.min(part.bytes),
            None => return Ok(None),
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
    let share = cached as f64 / sum(parts).max(1) as f64;
    Ok(Some(share))
}

/// Now, as the records have it.
fn now() -> String {
    DateTime::<Utc>::from(SystemTime::now()).to_rfc3339_opts(SecondsFormat::Secs, true)
}
