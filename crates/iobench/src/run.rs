//! From a command line to runs, and from runs to an exit code.

use std::collections::BTreeSet;
use std::path::Path;

use figment::value::Value;
use io_budget::Budget;
use stage::settings::Settings;
use stage::{Cpus, Error, ExitStatus, print};

use crate::bench::{Bench, Measurement};
use crate::check::{CheckRun, Verdict, judge};
use crate::cli::{CheckArgs, Cli, Command, RawArgs, RecommendArgs, Rules, StageArgs};
use crate::raw::RawRun;
use crate::record::{Check, Direction, Raw, Setting};
use crate::results::Results;
use crate::scratch::Scratch;
use crate::stages::{self, StageRun, Window};
use crate::supply::{Supply, sum};
use crate::{recommend, table};

/// Runs a command.
///
/// # Errors
///
/// Whatever keeps it from its end.
pub fn run(arguments: &Cli) -> Result<ExitStatus, Error> {
    match &arguments.command {
        Command::Raw(arguments) => raw(arguments),
        Command::Stage(arguments) => stage(arguments),
        Command::Check(arguments) => check(arguments),
        Command::Recommend(RecommendArgs { results }) => {
            print(&recommend::recommend(Results::load(results)?.runs())?)?;
            Ok(ExitStatus::Done)
        }
    }
}

fn raw(arguments: &RawArgs) -> Result<ExitStatus, Error> {
    let rules = &arguments.rules;
    let budget = Budget::new(io_budget::Options::private());
    let mut bench = Bench::new(&arguments.directory, &budget, rules.clone())?;
    let mut supply = Supply::find(&arguments.directory, bench.results.touched(), rules.seed)?;
    let grid: Vec<Raw> = grid(arguments).collect();
    if grid.is_empty() {
        let message = "there are neither readers nor writers";
        return Err(Error::usage(message, "give numbers of --readers or of --writers"));
    }
    let writes = grid.iter().any(|setting| setting.direction == Direction::Write);
    let scratch =
        (writes && !rules.dry_run).then(|| Scratch::new(&arguments.directory)).transpose()?;
    let out = scratch.as_ref().map_or_else(|| Path::new(""), Scratch::path);
    bench.probe_with(&mut supply)?;
    bench.printer.info("choosing files");
    let mut runs = Vec::new();
    for repeat in 0..rules.repeats {
        for setting in &grid {
            let run = RawRun::new(*setting, rules.run_bytes(), &mut supply, out)?;
            runs.push((repeat, run));
        }
    }
    measure(&mut bench, rules, runs)
}

/// All settings of readers and writers.
fn grid(arguments: &RawArgs) -> impl Iterator<Item = Raw> {
    let directions =
        [(Direction::Read, &arguments.readers), (Direction::Write, &arguments.writers)];
    directions.into_iter().flat_map(move |(direction, numbers)| {
        arguments.files.iter().flat_map(move |files| {
            arguments.request_kib.iter().flat_map(move |kib| {
                numbers.iter().filter(|number| **number > 0).map(move |concurrency| Raw {
                    direction,
                    files: *files,
                    request_bytes: kib << 10,
                    concurrency: *concurrency,
                })
            })
        })
    })
}

fn stage(arguments: &StageArgs) -> Result<ExitStatus, Error> {
    let rules = &arguments.rules;
    let dataset = arguments.root.join(arguments.dataset.name());
    let budget = Budget::new(io_budget::Options::private());
    let mut bench = Bench::new(&dataset, &budget, rules.clone())?;
    let touched: BTreeSet<_> = bench.results.touched().map(|part| part.file.as_path()).collect();
    let days = stages::days(arguments, &budget, &touched)?;
    let cells = stages::grid(&arguments.vary);
    let repeats = usize::try_from(rules.repeats).unwrap_or(usize::MAX);
    let windows = stages::windows(days, rules.run_bytes(), cells.len().saturating_mul(repeats))?;
    if rules.dry_run {
        return say_plan(rules, windows.len(), windows.iter().map(|it| sum(it.parts())).sum());
    }
    let scratch = Scratch::new(arguments.scratch.as_deref().unwrap_or(&dataset))?;
    let mut supply = Supply::find(&dataset, windows.iter().flat_map(Window::parts), rules.seed)?;
    bench.probe_with(&mut supply)?;
    let program = stages::program(arguments.stage);
    let settings = (0..rules.repeats).flat_map(|repeat| cells.iter().map(move |it| (repeat, it)));
    let runs = settings.zip(windows).enumerate().map(|(number, ((repeat, varied), window))| {
        let varied = varied.clone();
        (repeat, StageRun::new(arguments, &program, varied, window, &scratch, number))
    });
    measure(&mut bench, rules, runs.collect())
}

fn check(arguments: &CheckArgs) -> Result<ExitStatus, Error> {
    let rules = &arguments.rules;
    let reads = arguments.max_reads.map(|limit| match limit.0 {
        io_budget::Limit::Fixed(number) => Value::from(number.get()),
        io_budget::Limit::Auto => Value::from("auto"),
        io_budget::Limit::Unlimited => Value::from("unlimited"),
    });
    let flags: Vec<_> = reads.into_iter().map(|reads| ("io.reads", reads)).collect();
    let settings = Settings::load(arguments.config.as_deref(), &flags)?;
    let budget = || Budget::new(settings.io.options(Cpus::detect().count));
    let usage = budget().usage(&arguments.directory);
    let setting = Check {
        threads: arguments.threads.get(),
        limit: usage.reads_up_to.or(usage.reads),
        request_bytes: usage.request_bytes as u64,
    };
    let mut bench = Bench::new(&arguments.directory, &budget(), rules.clone())?;
    let mut supply = Supply::find(&arguments.directory, bench.results.touched(), rules.seed)?;
    bench.probe_with(&mut supply)?;
    let mut runs = Vec::new();
    for repeat in 0..rules.repeats {
        let inputs = supply.any(arguments.threads.get(), rules.run_bytes())?;
        // Each run has counters of its own.
        runs.push((repeat, CheckRun::new(budget(), setting, inputs)));
    }
    let status = measure(&mut bench, rules, runs)?;
    let mut exceeded = false;
    for run in bench.own_runs().iter().filter(|run| matches!(run.setting, Setting::Check(_))) {
        match judge(run) {
            Verdict::Holds { words } => bench.printer.info(format!("the budget holds: {words}")),
            Verdict::Unknown { words } => bench.printer.warn(words),
            Verdict::Exceeded { words } => {
                exceeded = true;
                bench.printer.warn(format!("the budget does not hold: {words}"));
            }
        }
    }
    Ok(if exceeded { ExitStatus::FilesFailed } else { status })
}

/// Makes the runs and shows what they gave, or says what they would be.
fn measure<M: Measurement>(
    bench: &mut Bench,
    rules: &Rules,
    runs: Vec<(u32, M)>,
) -> Result<ExitStatus, Error> {
    if rules.dry_run {
        let bytes = runs.iter().map(|(_, run)| sum(run.inputs())).sum();
        return say_plan(rules, runs.len(), bytes);
    }
    let interrupted = bench.run_all(runs);
    let own = bench.own_runs();
    if rules.json {
        let json = serde_json::json!({ "runs": own, "report": bench.results.report() });
        print(&json.to_string())?;
    } else if !own.is_empty() {
        print(table::table(&own).trim_end())?;
    }
    interrupted?;
    Ok(bench.finish())
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn say_plan(rules: &Rules, runs: usize, bytes: u64) -> Result<ExitStatus, Error> {
    let longest = rules.cap_seconds.saturating_mul(runs as u64);
    let plan = serde_json::json!({ "runs": runs, "read_bytes": bytes, "longest_seconds": longest });
    let words = format!(
        "{runs} runs that read {:.1} GB, of {} s at most each: {:.1} h at most, pauses aside",
        bytes as f64 / 1e9,
        rules.cap_seconds,
        longest as f64 / 3_600.0
    );
    print(&if rules.json { plan.to_string() } else { words })?;
    Ok(ExitStatus::Done)
}
