//! Limits on requests as slow storage sees them, not as settings promise them; and storage that
//! fails, stalls or changes during a run. Case numbers are those of the project's list.

mod failing;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use stage::Summary;
use tests::{Archive, Ended, Running, SlowArchive, binary, say_skipped, zip_of};

const STAGES: [&str; 5] = ["convert", "clean", "aggregate", "sample", "crossref"];

/// What a stage is called with beside the root, whose results go below `root`.
fn flags(stage: &str, root: &Path) -> Vec<String> {
    let at = |path: &str| root.join(path).display().to_string();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    match stage {
        "sample" => {
            let flags = ["--dataset", "events-15min", "--mode", "indexed", "-n", "500"];
            words(&[&flags[..], &["--seed", "42", "--out", &at("results/sample.parquet")]].concat())
        }
        "crossref" => {
            let (events, out) = (at("events-15min/cleaned"), at("results/enriched.parquet"));
            words(&["--events", &events, "--gkg-version", "v2", "--out", &out])
        }
        _ => Vec::new(),
    }
}

fn run(slow: &SlowArchive, stage: &str, more: &[&str]) -> Result<Ended> {
    let flags = flags(stage, &slow.root());
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    slow.run(stage, &flags)
}

/// The bundled archive after these stages, which nothing disturbed.
fn made_by(stages: &[&str]) -> Result<Archive> {
    let archive = Archive::bundled()?;
    for stage in stages {
        let flags = flags(stage, archive.root());
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let ended = archive.run(stage, &flags)?;
        assert_eq!(ended.code, 0, "{stage}: {}", ended.stderr);
    }
    Ok(archive)
}

/// An archive of `count` daily events files of a few rows.
fn of_days(count: u32) -> Result<Archive> {
    let archive = Archive::empty()?;
    for number in 0..count {
        let name = day(number);
        let row = |id| format!("{id}\t20200601{}\thttp://ex.com/{id}\n", "\t".repeat(55));
        let text: String = (1..=20).map(|id| row(number * 1_000 + id)).collect();
        let zip = zip_of(&[(&name, text.as_bytes())])?;
        archive.add_raw("events", &format!("{name}.zip"), &zip)?;
    }
    Ok(archive)
}

fn day(number: u32) -> String {
    format!("2020{:02}{:02}.export.CSV", 1 + number / 28, 1 + number % 28)
}

fn raw(number: u32) -> PathBuf {
    PathBuf::from(format!("events/raw/{}.zip", day(number)))
}

/// The bytes that a conversion gives where nothing disturbs it.
fn assert_converted_as_undisturbed(archive: &Archive, files: u32) -> Result<()> {
    let undisturbed = of_days(files)?;
    assert_eq!(undisturbed.run("convert", &[])?.code, 0);
    assert_eq!(archive.data()?, undisturbed.data()?);
    Ok(())
}

fn failed(summary: &Summary) -> BTreeSet<String> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    summary.failures.iter().map(|failure| name(&failure.file)).collect()
}

#[test]
fn no_stage_has_more_reads_in_flight_than_allowed_and_none_escapes_the_count() -> Result<()> {
    // IO-01, IO-03, IO-15, IO-16
    for limit in [1, 2, 4] {
        let archive = Archive::bundled()?;
        for stage in STAGES {
            let Some(slow) = SlowArchive::mount(&archive, &["--latency-ms=4"])? else {
                return Ok(());
            };
            let ended = run(&slow, stage, &["--jobs", "4", "--max-reads", &limit.to_string()])?;
            assert_eq!(ended.code, 0, "{stage}: {}", ended.stderr);
            let (io, log) = (ended.summary()?.io, slow.unmount()?);
            let (reads, writes) = (io.reads, io.writes);
            let context = format!("{stage}, {limit} reads: {reads:?}");
            assert!(log.read_peak <= limit, "{} in flight: {context}", log.read_peak);
            assert_eq!(reads.limit, Some(limit), "{context}");
            assert!(reads.peak_in_flight <= limit, "{context}");
            // A limit that is never reached would show nothing.
            if stage == "convert" {
                assert!(log.read_peak >= limit.min(2), "{} in flight: {context}", log.read_peak);
            }
            assert_eq!(
                (log.count("read"), log.bytes("read")),
                (reads.read, reads.bytes),
                "{context}"
            );
            assert!(Some(log.write_peak) <= writes.limit, "{} written: {writes:?}", log.write_peak);
        }
    }
    Ok(())
}

/// Runs the commands, `at_once` of them at a time as `make -j` does.
fn run_side_by_side(commands: Vec<Command>, at_once: usize) -> Result<()> {
    let queue = Mutex::new(commands.into_iter());
    let next = || queue.lock().unwrap().next();
    let work = || {
        while let Some(mut command) = next() {
            let ended = Running::start(&mut command)?.end()?;
            anyhow::ensure!(ended.code == 0, "{command:?}: {}", ended.stderr);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap())
    })
}

/// The files of `directory` in each dataset, with the path of `place` beside that directory.
fn files_with_place(root: &Path, directory: &str, place: &str) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut files = Vec::new();
    for dataset in fs::read_dir(root)? {
        let dataset = dataset?.path();
        if dataset.join(directory).is_dir() {
            for file in fs::read_dir(dataset.join(directory))? {
                files.push((file?.path(), dataset.join(place)));
            }
        }
    }
    Ok(files)
}

/// A directory that a test leaves outside its own.
struct RemovedAtTheEnd(PathBuf);

impl Drop for RemovedAtTheEnd {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn eight_processes_at_once_keep_to_one_limit_and_make_the_same_bytes() -> Result<()> {
    let archive = Archive::bundled()?;
    let Some(slow) = SlowArchive::mount(&archive, &["--latency-ms=4"])? else { return Ok(()) };
    // The directory that all processes of a host share, unless something else is set.
    let key = format!("it-{}", std::process::id());
    let _left = RemovedAtTheEnd(Path::new("/dev/shm/gdelt-io.0").join(&key));
    let command = |stage: &str, arguments: &[&str]| -> Result<Command> {
        let mut command = slow.command(stage, &["--max-reads", "2", "--max-writes", "1"])?;
        command.env_remove("GDELT_MILL_IO__SHARE").env("GDELT_MILL_IO__BUDGET_KEY", &key);
        command.args(arguments);
        Ok(command)
    };
    for (stage, from, to) in [("convert", "raw", "converted"), ("clean", "converted", "cleaned")] {
        let cleaned =
            |file: &PathBuf| stage == "convert" || file.to_string_lossy().contains("/events");
        let commands = files_with_place(&slow.root(), from, to)?.into_iter();
        let commands = commands.filter(|(file, _)| cleaned(file)).map(|(file, place)| {
            let mut command = command(stage, &[])?;
            command.arg(file).arg("--out-dir").arg(place);
            Ok(command)
        });
        run_side_by_side(commands.collect::<Result<_>>()?, 8)?;
    }
    let mut commands = vec![command("aggregate", &[])?];
    // Looked at behind the mount: the system would read ahead of us on it.
    let results = |number: usize| archive.root().join(format!("results-{number}"));
    for number in 0..7 {
        let stage = if number < 4 { "sample" } else { "crossref" };
        let mut command = command(stage, &[])?;
        for flag in flags(stage, &slow.root()) {
            command.arg(flag.replace("/results/", &format!("/results-{number}/")));
        }
        commands.push(command);
    }
    run_side_by_side(commands, 8)?;
    let names = ["sample.parquet", "enriched.parquet"];
    let results: Vec<_> = (0..7).map(|it| fs::read(results(it).join(names[it / 4]))).collect();
    let log = slow.unmount()?;
    assert_eq!((log.read_peak, log.write_peak), (2, 1));

    let of_one = made_by(&STAGES)?.data()?;
    for (number, result) in results.into_iter().enumerate() {
        assert!(of_one[&Path::new("results").join(names[number / 4])] == result?, "{number}");
    }
    let of_stages = |mut data: BTreeMap<PathBuf, Vec<u8>>| {
        data.retain(|path, _| !path.to_string_lossy().starts_with("results"));
        data
    };
    assert!(of_stages(archive.data()?) == of_stages(of_one));
    Ok(())
}

#[test]
fn a_killed_process_leaves_its_share_to_the_others() -> Result<()> {
    let archive = of_days(3)?;
    let Some(slow) = SlowArchive::mount(&archive, &["--fault=read:STALL=1s:1"])? else {
        return Ok(());
    };
    let start = || slow.start("convert", &["--max-reads", "1"]);
    let killed = start()?;
    thread::sleep(Duration::from_millis(300));
    let other = start()?;
    thread::sleep(Duration::from_millis(200));
    // It is gone once the storage has answered: the system does not take a request back.
    assert_eq!(killed.kill()?.code, -1);
    let ended = other.end()?;
    let summary = ended.summary()?;
    assert_eq!((ended.code, summary.files.made), (0, 3), "{}", ended.stderr);
    let waited = summary.io.reads.waited_seconds;
    assert!((0.1..3.0).contains(&waited), "{waited}");
    assert_converted_as_undisturbed(&archive, 3)
}

/// The number of ledger segments that a stage has left in these datasets.
fn segments(archive: &Archive, stage: &str, datasets: &[&str]) -> Result<u64> {
    let mut count = 0;
    for dataset in datasets {
        for month in fs::read_dir(archive.root().join(dataset).join("catalog").join(stage))? {
            count += fs::read_dir(month?.path())?.count();
        }
    }
    Ok(count as u64)
}

#[test]
fn an_object_store_is_written_side_by_side_and_a_disk_one_file_after_another() -> Result<()> {
    let undisturbed = made_by(&["convert", "clean"])?.data()?;
    for (class, write_peaks) in [("object-store", 2..=16), ("hdd", 1..=1)] {
        let archive = Archive::bundled()?;
        for (stage, files) in [("convert", 25), ("clean", 12)] {
            let Some(slow) = SlowArchive::mount(&archive, &["--latency-ms=15"])? else {
                return Ok(());
            };
            let settings = format!("[io.class]\n{:?} = {class:?}\n", slow.root());
            fs::write(slow.outside().join("gdelt-mill.toml"), settings)?;
            let ledger = match stage {
                "clean" => segments(&archive, "convert", &["events", "events-15min"])?,
                _ => 0,
            };
            let ended = slow.run(stage, &["--jobs", "4"])?;
            assert_eq!(ended.code, 0, "{stage}: {}", ended.stderr);
            let (summary, log) = (ended.summary()?, slow.unmount()?);
            let context = format!("{class}, {stage}: {:?}", summary.io);
            assert_eq!(summary.files.made, files, "{context}");
            assert!(write_peaks.contains(&log.write_peak), "{} {context}", log.write_peak);
            // Whole files, in one request each.
            let reads = summary.io.reads;
            assert_eq!((reads.file_reads, reads.range_reads), (files + ledger, 0), "{context}");
            assert_eq!(reads.read, reads.file_reads, "{context}");
        }
        assert!(archive.data()? == undisturbed, "{class}");
    }
    Ok(())
}

#[test]
fn each_file_costs_a_bounded_number_of_requests_of_each_kind() -> Result<()> {
    const FILES: u32 = 56;
    let archive = of_days(FILES)?;
    let Some(slow) = SlowArchive::mount(&archive, &[])? else { return Ok(()) };
    let ended = slow.run("convert", &[])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let (summary, log) = (ended.summary()?, slow.unmount()?);
    let (io, files) = (summary.io, u64::from(FILES));
    // Two months: each has a segment in the ledger.
    let published = files + segments(&archive, "convert", &["events"])?;
    assert_eq!(published, files + 2);
    let context = format!("{io:?}");
    let once = |operation: &str, files: u64| {
        let by_file = log.by_file(operation);
        assert_eq!(by_file.len() as u64, files, "{operation}: {by_file:?}");
        assert!(by_file.values().all(|count| *count == 1), "{operation}: {by_file:?}");
    };
    once("open", files);
    once("read", files);
    once("fsync", published);
    assert_eq!(log.by_file("write").values().filter(|count| **count == 1).count() as u64, files);
    assert_eq!((log.count("create"), log.count("rename")), (published, published), "{context}");
    assert_eq!((io.reads.file_reads, io.reads.read, io.reads.close), (files, files, files));
    assert_eq!((io.writes.rename, io.writes.close), (published, published), "{context}");
    // A look when it is listed, and beyond the files what directories take.
    assert!(io.reads.stat <= files + 40, "{context}");
    assert!(io.reads.open <= files + 20, "{context}");
    assert!(io.reads.list <= 8, "{context}");
    // IO-12: what is written is the outputs, and a line of the ledger for each.
    let written = log.bytes("write");
    assert_eq!(io.writes.bytes, written, "{context}");
    let lines = written - summary.output_bytes;
    assert!((files * 200..files * 2_000).contains(&lines), "{lines}");
    Ok(())
}

#[test]
fn a_listing_looks_at_the_files_that_are_wanted_only() -> Result<()> {
    // IO-11
    let looks = |others: u32| -> Result<Option<(u64, u64)>> {
        let archive = of_days(10)?;
        for number in 0..others {
            archive.add_raw("events", &format!("{number}.txt"), b"")?;
        }
        let Some(slow) = SlowArchive::mount(&archive, &[])? else { return Ok(None) };
        let ended = slow.run("convert", &["--dry-run"])?;
        let (summary, log) = (ended.summary()?, slow.unmount()?);
        assert_eq!((ended.code, summary.files.made), (0, 10), "{}", ended.stderr);
        Ok(Some((summary.io.reads.stat, log.count("lookup") + log.count("getattr"))))
    };
    let (Some(few), Some(many)) = (looks(0)?, looks(1_990)?) else { return Ok(()) };
    assert_eq!(few.0, many.0);
    // The attributes of the large directory may be asked for once more.
    assert!(many.1 <= few.1 + 2, "{few:?} {many:?}");
    assert!((10..60).contains(&many.0), "{many:?}");
    Ok(())
}

/// Every path below `root`, with its size and time of change.
fn tree(root: &Path) -> Result<BTreeSet<(PathBuf, u64, Duration)>> {
    let mut found = BTreeSet::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let metadata = fs::metadata(&path)?;
        if metadata.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        }
        let changed = metadata.modified()?.duration_since(std::time::UNIX_EPOCH)?;
        found.insert((path, metadata.len(), changed));
    }
    Ok(found)
}

#[test]
fn every_stage_explains_how_storage_would_be_used_and_writes_nothing() -> Result<()> {
    let archive = made_by(&["convert", "clean"])?;
    let Some(slow) = SlowArchive::mount(&archive, &[])? else { return Ok(()) };
    let settings = slow.outside().join("gdelt-mill.toml");
    let before = tree(archive.root())?;
    let directory = slow.root().join("events/converted").display().to_string();
    for stage in STAGES {
        let of_directory = || -> Result<Value> {
            let ended = run(&slow, stage, &["--explain-io"])?;
            assert_eq!(ended.code, 0, "{stage}: {}", ended.stderr);
            let usages: Vec<Value> = serde_json::from_str(&ended.stdout)?;
            let found = usages.into_iter().find(|usage| usage["directory"] == *directory);
            found.with_context(|| format!("{stage}: {}", ended.stdout))
        };
        let seen = of_directory()?;
        assert_eq!((&seen["class"], &seen["reads_up_to"]), (&"fuse".into(), &16.into()), "{seen}");
        assert!(seen["why"].as_str().unwrap().contains("fuse.slowfs"), "{seen}");

        fs::write(&settings, format!("[io]\nreads = 3\nclass.{directory:?} = 'object-store'\n"))?;
        let given = of_directory()?;
        assert_eq!((&given["class"], &given["reads"]), (&"object-store".into(), &3.into()));
        assert!(given["why"].as_str().unwrap().contains("a setting says so"), "{given}");
        fs::remove_file(&settings)?;

        // For people.
        let mut plain = tests::command(stage, slow.outside())?;
        plain.env("GDELT_MILL_IO__SHARE", slow.share()).arg("--root").arg(slow.root());
        plain.arg("--explain-io").args(flags(stage, &slow.root()));
        let ended = Running::start(&mut plain)?.end()?;
        assert_eq!(ended.code, 0, "{stage}: {}", ended.stderr);
        assert!(ended.stdout.contains("  class     fuse: "), "{stage}: {}", ended.stdout);
    }
    assert_eq!(tree(archive.root())?, before);
    let log = slow.unmount()?;
    let changes = ["create", "write", "mkdir", "rename", "unlink", "setattr", "read"];
    assert_eq!(changes.map(|operation| log.count(operation)), [0; 7]);
    Ok(())
}

#[test]
fn threads_are_few_and_no_input_is_mapped() -> Result<()> {
    // IO-02, IO-16. Workers are as many as processors. Before them at most eight threads open files
    // and eight read; besides there are main, writer, governor and progress.
    let allowed = thread::available_parallelism()?.get() + 2 * 8 + 4;
    let archive = Archive::bundled()?;
    for stage in STAGES {
        let Some(slow) = SlowArchive::mount(&archive, &["--latency-ms=15"])? else {
            return Ok(());
        };
        let root = slow.root();
        let flags = flags(stage, &root);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let (mut most, mut looks) = (0, 0);
        let ended = slow.start(stage, &flags)?.watch(|id| {
            // Nothing is to be seen of a process that has just ended.
            let of_process = |name| fs::read_to_string(format!("/proc/{id}/{name}"));
            let Ok(status) = of_process("status") else { return Ok(()) };
            let maps = of_process("maps").unwrap_or_default();
            let threads = status.lines().find_map(|line| line.strip_prefix("Threads:"));
            most = most.max(threads.map_or(Ok(0), |threads| threads.trim().parse::<usize>())?);
            anyhow::ensure!(!maps.contains(&*root.to_string_lossy()), "{stage}: {maps}");
            looks += usize::from(!maps.is_empty());
            Ok(())
        })?;
        assert_eq!(ended.code, 0, "{stage}: {}", ended.stderr);
        assert!(looks > 3, "{stage}: {looks}");
        assert!((2..=allowed).contains(&most), "{stage}: {most} threads, {allowed} allowed");
    }
    Ok(())
}

#[test]
fn a_system_that_grants_few_threads_gets_few_or_one_line_and_no_panic() -> Result<()> {
    // IO-07
    const USER: u32 = 64_321;
    if fs::metadata("/proc/self")?.uid() != 0
        || Command::new("prlimit").arg("--version").output().is_err()
    {
        say_skipped("limiting the threads of a user takes root and prlimit");
        return Ok(());
    }
    let archive = made_by(&["convert", "clean"])?;
    let share = archive.root().join("share");
    fs::create_dir(&share)?;
    let programs = tempfile::tempdir()?;
    fs::set_permissions(programs.path(), fs::Permissions::from_mode(0o755))?;
    let opened = Command::new("chmod").args(["-R", "a+rwX"]).arg(archive.root()).status()?;
    assert!(opened.success());
    fs::set_permissions(&share, fs::Permissions::from_mode(0o700))?;
    std::os::unix::fs::chown(&share, Some(USER), Some(USER))?;
    for stage in ["convert", "aggregate", "sample"] {
        let program = programs.path().join(stage);
        fs::copy(binary(stage)?, &program)?;
        let mut codes = BTreeSet::new();
        for threads in [1, 2, 3, 4, 6, 64] {
            let mut command = Command::new("prlimit");
            for (name, value) in tests::command(stage, archive.root())?.get_envs() {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            command.env("GDELT_MILL_IO__SHARE", &share).current_dir(archive.root());
            command.arg(format!("--nproc={threads}")).arg(&program);
            command.arg("--root").arg(archive.root()).args(["--jobs", "4", "--no-progress"]);
            if stage != "sample" {
                command.arg("--force");
            }
            command.args(flags(stage, archive.root())).uid(USER).gid(USER);
            let ended = Running::start(&mut command)?.end()?;
            let context = format!("{stage} in {threads} threads: {ended:?}");
            assert!(!ended.stderr.contains("panicked"), "{context}");
            if ended.code != 0 {
                assert!(ended.code > 0, "{context}");
                let errors = ended.stderr.lines().filter(|line| line.starts_with("error"));
                assert_eq!(errors.count(), 1, "{context}");
            }
            codes.insert((threads, ended.code));
        }
        assert!(codes.contains(&(64, 0)), "{stage}: {codes:?}");
    }
    Ok(())
}

#[test]
fn a_limit_that_follows_the_latency_stays_in_its_range_and_is_remembered() -> Result<()> {
    let archive = of_days(56)?;
    let Some(slow) = SlowArchive::mount(&archive, &["--latency-ms=20"])? else { return Ok(()) };
    let ended = slow.run("convert", &["--max-reads", "auto"])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let [storage] = &ended.summary()?.io.storages[..] else { panic!("{}", ended.stdout) };
    assert_eq!(storage.class, io_budget::StorageClass::Fuse);
    assert_eq!(storage.writes.governor, None);
    let governor = storage.reads.governor.clone().context("reads are not governed")?;
    assert!(!governor.trace.is_empty(), "{governor:?}");
    assert!(governor.trace.iter().all(|point| (1..=16).contains(&point.limit)), "{governor:?}");
    let idle = governor.idle_ms.with_context(|| format!("no idle latency: {governor:?}"))?;
    assert!((15.0..60.0).contains(&idle), "{idle}");
    let kept = fs::read_dir(slow.outside().join(".state/gdelt-mill"))?;
    let kept: Vec<_> = kept.map(|file| Ok(file?.file_name())).collect::<Result<_>>()?;
    let name = format!("idle-{}-reads.json", storage.key);
    assert_eq!(kept, [name.as_str()]);
    let log = slow.unmount()?;
    assert!((2..=16).contains(&log.read_peak), "{}", log.read_peak);
    assert_converted_as_undisturbed(&archive, 56)
}
