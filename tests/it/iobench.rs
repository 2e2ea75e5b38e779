//! The storage benchmark on emulated devices: what it refuses, what it ends, what it keeps, and what
//! it leaves behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use iobench::record::{Outcome, Run, Setting, Source};
use tests::{Archive, Ended, Running, SlowArchive, binary, command, zip_of};

const MIB: u64 = 1 << 20;

/// Files of 1 MiB without bytes in them, which need no room.
fn small_files(count: u32) -> Result<Archive> {
    let archive = Archive::empty()?;
    for number in 0..count {
        sparse(&archive.root().join(format!("file{number}")), MIB)?;
    }
    Ok(archive)
}

#[expect(clippy::disallowed_types, reason = "tests prepare what is measured")]
fn sparse(path: &Path, bytes: u64) -> Result<()> {
    fs::write(path, [])?;
    Ok(fs::OpenOptions::new().write(true).open(path)?.set_len(bytes)?)
}

/// A command of the benchmark, outside of what it measures.
fn bench(outside: &Path, arguments: &[&str]) -> Result<Command> {
    let mut command = command("iobench", outside)?;
    command.args(arguments);
    Ok(command)
}

/// Runs it on what is mounted.
fn on(slow: &SlowArchive, arguments: &[&str]) -> Result<Ended> {
    Running::start(&mut bench(slow.outside(), arguments)?)?.end()
}

/// The runs that are kept in the usual directory.
fn kept(outside: &Path) -> Result<Vec<Run>> {
    let text = fs::read_to_string(outside.join("gdelt-iobench/runs.jsonl"))?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn concurrency(run: &Run) -> usize {
    match &run.setting {
        Setting::Raw(raw) => raw.concurrency,
        other => panic!("{other:?}"),
    }
}

/// Names in a directory that tell of a run that left something behind.
fn left_behind(directory: &Path) -> Result<Vec<PathBuf>> {
    let paths = fs::read_dir(directory)?.map(|entry| Ok(entry?.path()));
    let paths: Vec<PathBuf> = paths.collect::<Result<_>>()?;
    Ok(paths
        .into_iter()
        .filter(|path| path.to_string_lossy().contains(".gdelt-iobench."))
        .collect())
}

#[test]
fn each_setting_is_run_five_times_in_an_order_that_the_seed_shuffles() -> Result<()> {
    let archive = small_files(84)?;
    let Some(slow) = SlowArchive::mount(&archive, &["--seek-ms=2"])? else { return Ok(()) };
    let root = slow.root();
    let root = root.to_str().context("a plain name")?;
    let flags = ["raw", root, "--files=small", "--readers=1,3", "--run-mib=6", "--json"];
    let ended = on(&slow, &flags)?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let runs = kept(slow.outside())?;
    assert_eq!(runs.len(), 10);
    for n in [1, 3] {
        let repeats: BTreeSet<u32> =
            runs.iter().filter(|run| concurrency(run) == n).map(|run| run.repeat).collect();
        assert_eq!(repeats, (0..5).collect());
    }
    let order: Vec<usize> = runs.iter().map(concurrency).collect();
    assert!(order[..5] != [1; 5] && order[..5] != [3; 5], "{order:?}");
    let mut files = BTreeSet::new();
    let mut most = BTreeMap::new();
    for run in &runs {
        assert_eq!(run.outcome, Outcome::Complete);
        assert_eq!(
            (run.inputs.files, run.inputs.bytes, run.inputs.cached),
            (6, 6 * MIB, Some(0.0))
        );
        assert!(run.inputs.parts.iter().all(|part| files.insert(part.file.clone())), "read twice");
        let measured = run.measured.as_ref().context("it ran")?;
        assert_eq!(measured.read_bytes, 6 * MIB);
        let latency = measured.latency.context("reads were timed")?;
        assert_eq!(latency.source, Source::OwnTiming);
        assert!(latency.mean_ms >= 2.0, "{latency:?}");
        let of_run = measured.in_flight.context("counted")?.most;
        let of_all = most.entry(concurrency(run)).or_insert(of_run);
        *of_all = of_run.max(*of_all);
        let idle = run.idle_before.context("a baseline")?;
        assert!(idle.p50_ms >= 2.0 && run.idle_after.is_some(), "{idle:?}");
    }
    // On a busy machine a reader may be done before the last one begins, but not in every run.
    assert_eq!(most, BTreeMap::from([(1, Some(1)), (3, Some(3))]));
    // A later invocation reads what is left.
    let more = on(&slow, &[&flags[..5], &["--repeats=1"]].concat())?;
    assert_eq!(more.code, 0, "{}", more.stderr);
    assert!(more.stdout.contains("small  1    1 MiB"), "{}", more.stdout);
    let runs = kept(slow.outside())?;
    let parts = runs.iter().flat_map(|run| &run.inputs.parts);
    assert_eq!(parts.map(|part| &part.file).collect::<BTreeSet<_>>().len(), 72);
    // Of 84 files 72 are used, and some are for single reads.
    let none_left = on(&slow, &[&flags[..5], &["--repeats=1"]].concat())?;
    assert_eq!(none_left.code, 2, "{}", none_left.stderr);
    assert!(none_left.stderr.contains("no earlier run touched"), "{}", none_left.stderr);
    Ok(())
}

#[test]
fn a_run_is_ended_when_reads_take_too_long_for_others() -> Result<()> {
    let archive = small_files(420)?;
    // Four readers wait for one disk that takes 40 ms: 160 ms each. One alone is within bounds.
    let options = ["--seek-ms=40", "--sequential-ms=40"];
    let Some(slow) = SlowArchive::mount(&archive, &options)? else { return Ok(()) };
    let root = slow.root();
    let root = root.to_str().context("a plain name")?;
    let flags = ["--files=small", "--readers=1,4", "--repeats=1", "--run-mib=200"];
    let care = ["--pause-seconds=1", "--cap-seconds=7"];
    let ended = on(&slow, &[&["raw", root], &flags[..], &care[..]].concat())?;
    assert_eq!(ended.code, 0, "a killed run is a result: {}", ended.stderr);
    let runs = kept(slow.outside())?;
    let run = |n| runs.iter().find(|run| concurrency(run) == n).context("it is kept");
    let Outcome::Killed { rtt_ms } = run(4)?.outcome else { panic!("{:?}", run(4)?.outcome) };
    assert!((120.0..400.0).contains(&rtt_ms), "{rtt_ms}");
    let measured = run(4)?.measured.as_ref().context("it ran")?;
    assert!((5.0..7.0).contains(&measured.seconds), "{}", measured.seconds);
    // At 25 files a second: what was read until then is known.
    assert!((60 * MIB..190 * MIB).contains(&measured.read_bytes), "{}", measured.read_bytes);
    assert!(measured.series.len() >= 5);
    assert!(run(4)?.idle_after.context("a fresh probe")?.p50_ms < 100.0);
    assert_eq!(run(1)?.outcome, Outcome::Capped);
    assert!(ended.stdout.contains("1 killed"), "{}", ended.stdout);
    let report = fs::read_to_string(slow.outside().join("gdelt-iobench/report.html"))?;
    assert!(report.contains("killed"), "the report tells");
    Ok(())
}

#[test]
fn cached_and_incomplete_inputs_are_refused_and_kept_as_such() -> Result<()> {
    let outside = Archive::empty()?;
    // Just written, the page cache holds it.
    let cached = Archive::empty()?;
    for name in ["a", "b", "c"] {
        fs::write(cached.root().join(name), vec![7; 1 << 20])?;
    }
    let cut = Archive::empty()?;
    let zip = zip_of(&[("a.csv", &noise(1_500_000))])?;
    for number in 0..3 {
        fs::write(cut.root().join(format!("{number}.zip")), &zip[..zip.len() - 30])?;
    }
    for (archive, cause) in
        [(cached, "the page cache holds 100.0 % of the input"), (cut, "no whole zip")]
    {
        let root = archive.root().to_str().context("a plain name")?;
        let flags = ["raw", root, "--files=small", "--readers=1", "--repeats=1", "--run-mib=1"];
        let results = ["--results", root];
        let ended: Ended =
            bench(outside.root(), &[&flags[..], &results].concat())?.output()?.into();
        let text = fs::read_to_string(archive.root().join("runs.jsonl"));
        let text = text.with_context(|| ended.stderr.clone())?;
        let run: Run = serde_json::from_str(text.lines().next().context("a run")?)?;
        let Outcome::Refused { cause: told } = &run.outcome else { panic!("{:?}", run.outcome) };
        assert!(told.contains(cause), "{told}");
        assert_eq!((ended.code, run.measured), (3, None), "{}", ended.stderr);
        assert!(ended.stdout.contains("1 refused"), "{}", ended.stdout);
    }
    Ok(())
}

/// Bytes that do not compress.
fn noise(length: u64) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // The upper bits, as a letter or a digit: nothing that ends a field or a record.
        b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[(state >> 58) as usize]
    };
    (0..length).map(next).collect()
}

#[test]
fn writers_remove_what_they_wrote() -> Result<()> {
    let archive = small_files(2)?;
    let Some(slow) = SlowArchive::mount(&archive, &[])? else { return Ok(()) };
    let root = slow.root();
    let root = root.to_str().context("a plain name")?;
    let flags = ["--writers=2", "--files=small,large", "--repeats=1", "--run-mib=8", "--json"];
    // Nothing is read but by the reader beside them.
    let ended = on(&slow, &[&["raw", root, "--readers=1"], &flags[..]].concat())?;
    assert_eq!(ended.code, 2, "there is no large file to read: {}", ended.stderr);
    assert_eq!(left_behind(archive.root())?, Vec::<PathBuf>::new());
    let ended = on(&slow, &[&["raw", root, "--readers=0"], &flags[..]].concat())?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let runs = kept(slow.outside())?;
    assert_eq!(runs.len(), 2);
    for run in &runs {
        let measured = run.measured.as_ref().context("it ran")?;
        assert_eq!((measured.read_bytes, measured.written_bytes), (0, 8 * MIB));
        assert_eq!((run.outputs.files, run.outputs.bytes), (2, 8 * MIB));
        assert_eq!(measured.latency.context("beside")?.source, Source::ProbeReads);
    }
    assert_eq!(fs::read_dir(archive.root())?.count(), 2);
    Ok(())
}

#[test]
fn a_budget_is_checked_against_what_the_storage_sees() -> Result<()> {
    let archive = small_files(40)?;
    let Some(slow) = SlowArchive::mount(&archive, &["--seek-ms=5"])? else { return Ok(()) };
    let root = slow.root();
    let root = root.to_str().context("a plain name")?;
    let flags = ["check", root, "--max-reads=2", "--threads=8", "--repeats=1", "--run-mib=30"];
    let mut command = bench(slow.outside(), &flags)?;
    command.env("GDELT_MILL_IO__SHARE", slow.share());
    let ended = Running::start(&mut command)?.end()?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("the budget holds: at most 2 of 2 requests"), "{}", ended.stderr);
    let told = "the kernel counts no reads in flight on fuse.slowfs";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let runs = kept(slow.outside())?;
    let mean = runs[0].measured.as_ref().and_then(|measured| measured.in_flight?.mean);
    assert!((1.2..=2.05).contains(&mean.context("counted")?), "{mean:?}");
    let log = slow.unmount()?;
    assert_eq!(log.read_peak, 2, "as the storage saw it");
    Ok(())
}

/// An archive of daily events whose zips are about 600 kB.
fn heavy_days(count: u32) -> Result<Archive> {
    let archive = Archive::empty()?;
    let filler = String::from_utf8(noise(800_000))?;
    for number in 1..=count {
        let name = format!("202001{number:02}.export.CSV");
        let row = |id: usize, words: &str| {
            format!("{id}\t20200101{}\thttp://ex.com/{words}\n", "\t".repeat(55))
        };
        let chunks = filler.as_bytes().chunks(400).enumerate();
        let text: String =
            chunks.map(|(id, words)| row(id, &String::from_utf8_lossy(words))).collect();
        archive.add_raw("events", &format!("{name}.zip"), &zip_of(&[(&name, text.as_bytes())])?)?;
    }
    Ok(archive)
}

#[test]
fn a_stage_is_run_under_a_grid_of_settings_and_changes_nothing() -> Result<()> {
    let archive = heavy_days(9)?;
    let Some(slow) = SlowArchive::mount(&archive, &["--seek-ms=1"])? else { return Ok(()) };
    let root = slow.root();
    let root = root.to_str().context("a plain name")?;
    let of = ["stage", "convert", "--root", root, "--dataset=events", "--run-mib=1"];
    let flags = [&of[..], &["--vary=jobs=1,2", "--repeats=2"]].concat();
    let ended = on(&slow, &flags)?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let runs = kept(slow.outside())?;
    let mut days = BTreeSet::new();
    let mut settings = Vec::new();
    for run in &runs {
        let Setting::Stage(stage) = &run.setting else { panic!("{:?}", run.setting) };
        settings.push((stage.varied["jobs"].as_str(), run.repeat));
        assert!(days.insert(stage.first_day.clone()), "{stage:?}");
        assert!(stage.first_day < stage.last_day, "two days make 1 MiB");
        assert_eq!(stage.environment["GDELT_MILL_JOBS"], stage.varied["jobs"]);
        assert_eq!(run.outcome, Outcome::Complete);
        let content = run.inputs.content.as_ref().context("the zips tell")?;
        assert_eq!((content.complete, content.codecs["deflated"]), (2, 2));
        assert!(content.uncompressed_bytes > content.compressed_bytes);
        let made = run.outputs.content.as_ref().context("the footers tell")?;
        assert_eq!((made.complete, made.rows), (2, 4_000));
        assert!(made.codecs["zstd(zstdlevel(1))"] > 0 || !made.codecs.is_empty());
        let measured = run.measured.as_ref().context("it ran")?;
        assert_eq!(measured.read_bytes, run.inputs.bytes);
        assert_eq!(measured.written_bytes, run.outputs.bytes);
        assert!(measured.startup_seconds.context("bytes moved")? <= measured.seconds);
        assert!(measured.tail_seconds.context("bytes moved")? <= measured.seconds);
        assert!(measured.peak_rss_bytes.context("it had memory")? > MIB);
    }
    settings.sort_unstable();
    assert_eq!(settings, [("1", 0), ("1", 1), ("2", 0), ("2", 1)]);
    let names: Vec<_> = fs::read_dir(archive.root().join("events"))?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<Result<_>>()?;
    assert_eq!(names, ["raw"], "neither outputs nor a ledger");
    // What is left is one day, and a setting that does not exist fails with its cause.
    let few = on(&slow, &flags)?;
    assert_eq!(few.code, 2, "{}", few.stderr);
    assert!(few.stderr.contains("4 runs need as many windows"), "{}", few.stderr);
    let wrong =
        on(&slow, &[&of[..], &["--vary=io.raeds=1", "--repeats=1", "--results=w"]].concat())?;
    assert_eq!(wrong.code, 3, "{}", wrong.stderr);
    let run: Run = serde_json::from_str(&fs::read_to_string(slow.outside().join("w/runs.jsonl"))?)?;
    let Outcome::Failed { causes } = &run.outcome else { panic!("{:?}", run.outcome) };
    assert!(causes[0].contains("raeds"), "{causes:?}");
    Ok(())
}

#[test]
fn interrupted_it_keeps_what_was_measured_and_leaves_nothing_behind() -> Result<()> {
    let archive = small_files(30)?;
    let Some(slow) = SlowArchive::mount(&archive, &["--seek-ms=50"])? else { return Ok(()) };
    let root = slow.root();
    let root = root.to_str().context("a plain name")?;
    let flags = ["raw", root, "--files=small", "--readers=0", "--writers=1", "--run-mib=400"];
    let mut told = false;
    let running = Running::start(&mut bench(slow.outside(), &flags)?)?;
    let ended = running.watch(|process| {
        if !told && !left_behind(archive.root())?.is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(700));
            Command::new("kill").args(["-INT", &process.to_string()]).status()?;
            told = true;
        }
        Ok(())
    })?;
    assert_eq!(ended.code, 130, "{}", ended.stderr);
    assert_eq!(left_behind(archive.root())?, Vec::<PathBuf>::new());
    if let Ok(runs) = kept(slow.outside()) {
        let last = runs.last().context("the run that was ended")?;
        assert_eq!(last.outcome, Outcome::Failed { causes: vec!["interrupted".into()] });
    }
    Ok(())
}

#[test]
fn throughput_grows_with_readers_where_the_device_serves_many_and_only_there() -> Result<()> {
    let archive = small_files(60)?;
    let ratio = |profile: &str| -> Result<Option<(f64, f64)>> {
        let options = [profile, "--jitter=0"];
        let Some(slow) = SlowArchive::mount(&archive, &options)? else { return Ok(None) };
        let root = slow.root();
        let root = root.to_str().context("a plain name")?;
        let flags = ["--files=small", "--readers=1,8", "--repeats=1", "--run-mib=24"];
        let ended = on(&slow, &[&["raw", root], &flags[..]].concat())?;
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let runs = kept(slow.outside())?;
        let of = |n| runs.iter().find(|run| concurrency(run) == n).context("it is kept");
        let rate = |n| of(n)?.read_mb_s().context("measured");
        let rtt = |n| Ok::<_, anyhow::Error>(of(n)?.measured.as_ref().and_then(|it| it.latency));
        let rtt = |n| Ok::<_, anyhow::Error>(rtt(n)?.context("timed")?.mean_ms);
        Ok(Some((rate(8)? / rate(1)?, rtt(8)? / rtt(1)?)))
    };
    let Some((rates, rtts)) = ratio("--profile=nfs-hdd-1gbe")? else { return Ok(()) };
    assert!(rates < 2.0, "one queue: {rates}");
    assert!(rtts > 3.0, "each waits for the others: {rtts}");
    let Some((rates, rtts)) = ratio("--profile=object-store")? else { return Ok(()) };
    assert!(rates > 3.0, "many are served at once: {rates}");
    assert!(rtts < 2.0, "nobody waits: {rtts}");
    Ok(())
}

#[test]
fn settings_are_recommended_from_what_was_measured() -> Result<()> {
    let archive = small_files(60)?;
    let Some(slow) = SlowArchive::mount(&archive, &["--profile=object-store"])? else {
        return Ok(());
    };
    let nothing = on(&slow, &["recommend"])?;
    assert_eq!(nothing.code, 2, "{}", nothing.stderr);
    assert!(nothing.stderr.contains("measure first"), "{}", nothing.stderr);
    let root = slow.root();
    let root = root.to_str().context("a plain name")?;
    let flags = ["--files=small", "--readers=1,16", "--repeats=1", "--run-mib=24"];
    assert_eq!(on(&slow, &[&["raw", root], &flags[..]].concat())?.code, 0);
    let ended = on(&slow, &["recommend"])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("\n# reads = 16 "), "{}", ended.stdout);
    fs::write(slow.outside().join("mill.toml"), &ended.stdout)?;
    let mut command = Command::new(binary("convert")?);
    command.current_dir(slow.outside()).args([
        "--config=mill.toml",
        "--explain-io",
        "--root",
        root,
    ]);
    let used: Ended = command.output()?.into();
    assert_eq!(used.code, 0, "{}", used.stderr);
    Ok(())
}
