//! Settings from measurements: the fewest requests in flight that give most of the throughput, since
//! more make everybody wait longer for little. Measures nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use io_budget::StorageClass;
use io_budget::storage::{Policy, Storage};
use stage::Error;

use crate::cells::{Cell, cells};
use crate::record::{Direction, FileSize, Raw, Run, Setting, Target};
use crate::shown::{number, visible};

/// Share of the best throughput that is enough.
const ENOUGH: f64 = 0.9;
/// Share of the best throughput of a stage that is enough for its number of workers.
const ENOUGH_JOBS: f64 = 0.95;
/// A ceiling is this many times the round trip at the recommended number of reads, where that is
/// more than the built-in one.
const CEILING: f64 = 2.0;

/// Where throughput stops growing with the number of requests.
#[derive(Debug, Clone, PartialEq)]
struct Knee {
    /// The fewest that give enough.
    requests: usize,
    /// What they give, in MB/s, and the mean round trip by then in milliseconds.
    mb_s: f64,
    rtt_ms: f64,
    /// The best throughput, with how many.
    best: (usize, f64),
    /// The numbers at which a run was killed.
    killed: Vec<usize>,
}

/// A block of settings for each directory that was measured, as TOML.
///
/// # Errors
///
/// [`Error::NoInput`] when no run of readers came to its end.
pub(crate) fn recommend(runs: &[Run]) -> Result<String, Error> {
    let mut directories: BTreeMap<&Path, Vec<Run>> = BTreeMap::new();
    for run in runs {
        directories.entry(&run.target.directory).or_default().push(run.clone());
    }
    let blocks: Vec<String> = directories.values().filter_map(|runs| block(runs)).collect();
    if blocks.is_empty() {
        return Err(Error::NoInput {
            message: String::from("the results hold no run of readers that came to its end"),
            hint: String::from("measure first, as with gdelt-iobench raw DIR"),
        });
    }
    Ok(blocks.join("\n\n"))
}

/// The block for one directory.
fn block(runs: &[Run]) -> Option<String> {
    let target = &runs.last()?.target;
    let cells = cells(runs);
    let reads = knees(&cells, Direction::Read);
    let (_, needed) = reads.iter().max_by_key(|(_, knee)| knee.requests)?;
    let mut text = format!(
        "# {}: {}\n# measured with {} runs, {} of them killed for their latency\n[io]\n",
        visible(&target.directory.display().to_string()),
        visible(&target.why),
        runs.len(),
        cells.iter().map(|cell| cell.killed.len()).sum::<usize>()
    );
    for (files, knee) in &reads {
        let _ok = writeln!(text, "{}", evidence(*files, "readers", knee));
    }
    let range = auto_range(target);
    if range.is_some_and(|(least, most)| (least..=most).contains(&needed.requests)) {
        let (least, most) = range.unwrap_or_default();
        let _ok = writeln!(
            text,
            "reads = \"auto\"  # {least} to {most} here, fewer while others use the storage\n\
             # reads = {}     # instead, for a limit that is never exceeded",
            needed.requests
        );
    } else {
        let _ok = writeln!(
            text,
            "reads = {}  # \"auto\" would be {}",
            needed.requests,
            range.map_or_else(|| String::from("fixed by class"), |(a, b)| format!("{a} to {b}"))
        );
    }
    let writes = knees(&cells, Direction::Write);
    for (files, knee) in &writes {
        let _ok = writeln!(text, "{}", evidence(*files, "writers", knee));
    }
    if let Some((_, knee)) = writes.iter().max_by_key(|(_, knee)| knee.requests) {
        let _ok = writeln!(text, "writes = {}", knee.requests);
    }
    let slowest = reads.iter().map(|(_, knee)| knee.rtt_ms).fold(0.0, f64::max);
    let builtin = io_budget::Options::LATENCY_CEILING.as_millis();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "milliseconds, rounded up to tens"
    )]
    let ceiling = (slowest * CEILING / 10.0).ceil() as u128 * 10;
    if ceiling > builtin {
        let _ok = writeln!(
            text,
            "# a read takes {} ms by then\nlatency_ceiling_ms = {ceiling}  # instead of {builtin}",
            number(slowest)
        );
    }
    if let Some((jobs, words)) = jobs(&cells) {
        // Keys of no section stand before all sections.
        text = format!("{words}\njobs = {jobs}\n\n{text}");
    }
    Some(text.trim_end().to_owned())
}

fn evidence(files: FileSize, who: &str, knee: &Knee) -> String {
    let files = match files {
        FileSize::Large => "large files",
        FileSize::Small => "small files",
    };
    let killed = match &knee.killed[..] {
        [] => String::new(),
        several => {
            let several: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("; killed at {}", several.join(", "))
        }
    };
    format!(
        "# {files}: {} {who} give {} MB/s at {} ms a request, the best is {} MB/s with {}{killed}",
        knee.requests,
        number(knee.mb_s),
        number(knee.rtt_ms),
        number(knee.best.1),
        knee.best.0
    )
}

/// The knee of each size of files, of the largest requests that were measured.
fn knees(cells: &[Cell<'_>], direction: Direction) -> Vec<(FileSize, Knee)> {
    let of = |cell: &Cell<'_>| match cell.setting {
        Setting::Raw(raw) if raw.direction == direction => Some(*raw),
        _ => None,
    };
    let knee = |files| {
        let matching: Vec<(Raw, &Cell<'_>)> = cells
            .iter()
            .filter_map(|cell| Some((of(cell)?, cell)))
            .filter(|(raw, _)| raw.files == files)
            .collect();
        let request = matching.iter().map(|(raw, _)| raw.request_bytes).max()?;
        let of_request = matching.into_iter().filter(|(raw, _)| raw.request_bytes == request);
        Some((files, knee(of_request)?))
    };
    [FileSize::Large, FileSize::Small].into_iter().filter_map(knee).collect()
}

fn knee<'a>(cells: impl Iterator<Item = (Raw, &'a Cell<'a>)>) -> Option<Knee> {
    let mut killed = Vec::new();
    let mut measured = Vec::new();
    for (raw, cell) in cells {
        if cell.killed.is_empty() {
            let rtt_ms = cell.rtt_ms.map_or(0.0, |rtt| rtt.mean);
            measured.extend(cell.rate().map(|rate| (raw.concurrency, rate.mean, rtt_ms)));
        } else {
            // Where some of the runs were killed the others only escaped it.
            killed.push(raw.concurrency);
        }
    }
    let best =
        measured.iter().map(|(n, rate, _)| (*n, *rate)).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let enough = measured.iter().filter(|(_, rate, _)| *rate >= ENOUGH * best.1);
    let (requests, mb_s, rtt_ms) = enough.min_by_key(|(n, ..)| *n).copied()?;
    Some(Knee { requests, mb_s, rtt_ms, best, killed })
}

/// The fewest workers that give most of a stage's throughput, where they were varied, over the
/// stages that were measured.
fn jobs(cells: &[Cell<'_>]) -> Option<(usize, String)> {
    let mut stages: BTreeMap<&str, Vec<(usize, f64)>> = BTreeMap::new();
    for cell in cells {
        if let Setting::Stage(stage) = cell.setting
            && let Some(jobs) = stage.varied.get("jobs").and_then(|jobs| jobs.parse().ok())
            && let Some(rate) = cell.read_mb_s
        {
            stages.entry(&stage.stage).or_default().push((jobs, rate.mean));
        }
    }
    let enough = |rates: &Vec<(usize, f64)>| {
        let best = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        rates.iter().filter(|(_, rate)| *rate >= ENOUGH_JOBS * best).map(|(jobs, _)| *jobs).min()
    };
    let of_stages: Vec<(&str, usize)> =
        stages.iter().filter_map(|(stage, rates)| Some((*stage, enough(rates)?))).collect();
    let most = of_stages.iter().map(|(_, jobs)| *jobs).max()?;
    let words: Vec<String> =
        of_stages.iter().map(|(stage, jobs)| format!("{jobs} of gdelt-{stage}")).collect();
    let share = ENOUGH_JOBS * 100.0;
    Some((
        most,
        format!("# workers that give {share} % of the best input rate: {}", words.join(", ")),
    ))
}

/// Within which numbers of reads `auto` stays on a storage of this class.
fn auto_range(target: &Target) -> Option<(usize, usize)> {
    let class: StorageClass = target.class.parse().ok()?;
    let storage = Storage {
        class,
        fs_type: target.fs_type.clone(),
        source: target.source.clone(),
        mount_point: PathBuf::new(),
        mount_options: String::new(),
        key: String::new(),
        request_bytes: None,
        write_bytes: None,
        disk: None,
        why: String::new(),
    };
    let range = Policy::of(&storage, NonZeroUsize::MIN).reads.auto?;
    Some((range.least.get(), range.most.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{killed, raw};

    /// The first table of a measurement of hard disks behind NFS.
    fn nfs() -> Vec<Run> {
        use FileSize::{Large, Small};
        let mut runs = Vec::new();
        for (files, n, mb_s, rtt) in [
            (Large, 1, 65, 15.0),
            (Large, 2, 83, 25.0),
            (Large, 4, 88, 46.0),
            (Large, 8, 88, 90.0),
            (Small, 1, 57, 13.0),
            (Small, 2, 43, 31.0),
            (Small, 4, 45, 61.0),
        ] {
            runs.push(raw(files, n, mb_s, rtt));
        }
        runs.push(killed(raw(Large, 16, 58, 185.0), 9));
        for run in &mut runs {
            run.target.class = String::from("nfs");
        }
        runs
    }

    #[test]
    fn the_fewest_reads_that_give_most_are_recommended() {
        let text = recommend(&nfs()).unwrap();
        let expected = "\
# /data/gdelt: mountinfo says nfs4
# measured with 8 runs, 1 of them killed for their latency
[io]
# large files: 2 readers give 83.0 MB/s at 25.0 ms a request, the best is 88.0 MB/s with 8; killed at 16
# small files: 1 readers give 57.0 MB/s at 13.0 ms a request, the best is 57.0 MB/s with 1
reads = \"auto\"  # 1 to 4 here, fewer while others use the storage
# reads = 2     # instead, for a limit that is never exceeded";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_the_class_would_not_reach_is_a_number() {
        let mut runs = nfs();
        runs.retain(|run| run.outcome.counts());
        for (n, mb_s) in [(8, 300), (16, 600)] {
            let mut run = raw(FileSize::Large, n, mb_s, 60.0);
            run.target.class = String::from("nfs");
            runs.retain(|other| other.setting != run.setting);
            runs.push(run);
        }
        let text = recommend(&runs).unwrap();
        assert!(text.contains("\nreads = 16  # \"auto\" would be 1 to 4\n"), "{text}");
        assert!(text.contains("latency_ceiling_ms = 120  # instead of 100"), "{text}");
    }

    #[test]
    fn what_is_recommended_is_a_settings_file() {
        let mut runs = nfs();
        for (jobs, mb_s) in [("1", 20), ("2", 39), ("4", 40)] {
            let mut run = crate::testing::stage("jobs", jobs, mb_s, 20);
            run.target = runs[0].target.clone();
            runs.push(run);
        }
        let text = recommend(&runs).unwrap();
        assert!(text.contains("\njobs = 2\n"), "{text}");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mill.toml");
        std::fs::write(&file, text).unwrap();
        let settings = stage::settings::Settings::load(Some(&file), &[]).unwrap();
        assert_eq!(settings.jobs.map(NonZeroUsize::get), Some(2));
    }

    #[test]
    fn without_a_run_that_counts_there_is_nothing_to_recommend() {
        let runs = vec![killed(raw(FileSize::Large, 16, 58, 185.0), 9)];
        assert!(recommend(&runs).is_err());
        assert!(recommend(&[]).is_err());
    }
}
