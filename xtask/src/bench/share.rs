//! The emulated share: mounts it, lets programs work on it, and reads its log.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::Value;
use slowfs::mounted::Mounted;

use super::run::{self, Launch};
use super::tree::Inputs;

/// Seconds over which the worst mean round trip is taken.
const WORST_SECONDS: usize = 5;

/// Where the share is mounted and what is behind it.
#[derive(Debug)]
pub(super) struct Share {
    program: PathBuf,
    backing: PathBuf,
    mount: PathBuf,
    log: PathBuf,
    outputs: PathBuf,
}

/// What was seen of a run.
#[derive(Debug, Serialize)]
pub(super) struct Seen {
    /// Wall time, from the first start of a process to the last end.
    pub(super) seconds: f64,
    /// The most memory that the processes took at once, in bytes.
    peak_memory: u64,
    /// In order of the processes' starts; none for one that a signal ended.
    pub(super) exit_codes: Vec<Option<i32>>,
    /// What failed processes said.
    pub(super) words: Vec<String>,
    /// What the share measured.
    pub(super) load: Load,
    /// The processes' own summaries.
    summaries: Vec<Value>,
    /// The share's log: a header, then a row for each second.
    log: Vec<String>,
}

/// The load on the share, by kinds of requests.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub(super) struct Load {
    pub(super) reads: Lane,
    pub(super) writes: Lane,
    pub(super) metadata: Lane,
    /// The simulated other users.
    pub(super) users: Lane,
}

/// The requests of one kind.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub(super) struct Lane {
    pub(super) requests: f64,
    /// In units of 10^6 bytes.
    pub(super) megabytes: f64,
    /// Mean round trip in milliseconds, over all requests.
    pub(super) rtt_ms: f64,
    /// The largest mean of five seconds; of the whole where that is shorter.
    pub(super) worst_rtt_ms: f64,
    /// Mean over time.
    pub(super) in_flight: f64,
    pub(super) most_in_flight: f64,
}

impl Share {
    /// A share that is mounted in `scratch` for each run.
    pub(super) fn new(binaries: &Path, scratch: &Path) -> Result<Self> {
        let share = Self {
            program: binaries.join("slowfs"),
            backing: scratch.join("backing"),
            mount: scratch.join("share"),
            log: scratch.join("share.csv"),
            outputs: scratch.join("outputs"),
        };
        for directory in [&share.backing, &share.mount, &share.outputs] {
            fs::create_dir_all(directory)?;
        }
        Ok(share)
    }

    /// Where programs find it.
    pub(super) fn mount_point(&self) -> &Path {
        &self.mount
    }

    /// Leaves the share to its other users for a while.
    pub(super) fn watch(&self, users: u32, time: Duration) -> Result<Load> {
        let mounted = self.mount(users)?;
        thread::sleep(time);
        drop(mounted);
        load(&fs::read_to_string(&self.log)?)
    }

    /// Lets programs work at once on a fresh mount with copies of `inputs`.
    pub(super) fn run(&self, inputs: &Inputs, users: u32, launches: &[Launch]) -> Result<Seen> {
        fs::remove_dir_all(&self.backing)?;
        inputs.copy_to(&self.backing)?;
        let mounted = self.mount(users)?;
        let ended = run::run(launches, &self.outputs)?;
        drop(mounted);
        let log = fs::read_to_string(&self.log)?;
        Ok(Seen {
            seconds: ended.time.as_secs_f64(),
            peak_memory: ended.peak_memory,
            exit_codes: ended.exit_codes,
            words: ended.words,
            load: load(&log)?,
            summaries: ended.summaries,
            log: log.lines().map(str::to_owned).collect(),
        })
    }

    fn mount(&self, users: u32) -> Result<Mounted> {
        let options = [
            String::from("--profile=nfs-hdd-1gbe"),
            format!("--bg-users={users}"),
            format!("--csv={}", self.log.display()),
        ];
        Mounted::start(&self.program, &self.backing, &self.mount, options)
            .context("cannot mount the emulated share")
    }
}

/// Sums up the share's log.
fn load(log: &str) -> Result<Load> {
    let mut lines = log.lines();
    let header: Vec<_> = lines.next().context("the log is empty")?.split(',').collect();
    let rows: Vec<Vec<f64>> = lines
        .map(|line| line.split(',').map(str::parse).collect())
        .collect::<Result<_, _>>()
        .context("the log has a row that is not of numbers")?;
    ensure!(rows.iter().all(|row| row.len() == header.len()), "the log has a short row");
    let column = |name: &str| -> Result<Vec<f64>> {
        let place = header.iter().position(|column| *column == name);
        let place = place.with_context(|| format!("the log has no column {name}"))?;
        Ok(rows.iter().map(|row| row[place]).collect())
    };
    let seconds = column("seconds")?;
    let lane = |name: &str| -> Result<Lane> {
        let column = |part: &str| column(&format!("{name}_{part}"));
        let (requests, rtts) = (column("ops")?, column("rtt_avg_ms")?);
        let spans = requests.windows(WORST_SECONDS).zip(rtts.windows(WORST_SECONDS));
        let rtt_ms = mean(&rtts, &requests);
        let worst = spans.map(|(requests, rtts)| mean(rtts, requests)).fold(0.0, f64::max);
        Ok(Lane {
            requests: requests.iter().sum(),
            megabytes: product(&column("mb_s")?, &seconds),
            rtt_ms,
            worst_rtt_ms: if requests.len() < WORST_SECONDS { rtt_ms } else { worst },
            in_flight: mean(&column("inflight_avg")?, &seconds),
            most_in_flight: column("inflight_max")?.into_iter().fold(0.0, f64::max),
        })
    };
    Ok(Load {
        reads: lane("read")?,
        writes: lane("write")?,
        metadata: lane("meta")?,
        users: lane("bg")?,
    })
}

fn product(values: &[f64], weights: &[f64]) -> f64 {
    values.iter().zip(weights).map(|(value, weight)| value * weight).sum()
}

/// The weighted mean; 0 where nothing has weight.
fn mean(values: &[f64], weights: &[f64]) -> f64 {
    let weight: f64 = weights.iter().sum();
    if weight > 0.0 { product(values, weights) / weight } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn log(rows: &[[f64; 5]]) -> String {
        let classes = ["read", "write", "meta", "bg"];
        let mut text = String::from("seconds");
        for class in classes {
            for part in ["ops", "mb_s", "rtt_avg_ms", "inflight_avg", "inflight_max"] {
                write!(text, ",{class}_{part}").unwrap();
            }
        }
        for [seconds, requests, rate, rtt, in_flight] in rows {
            write!(text, "\n{seconds}").unwrap();
            for _ in classes {
                write!(text, ",{requests},{rate},{rtt},{in_flight},{in_flight}").unwrap();
            }
        }
        text
    }

    #[test]
    fn means_are_weighted_by_requests_and_by_time() {
        let load = load(&log(&[[1.0, 10.0, 4.0, 20.0, 1.0], [0.5, 30.0, 2.0, 60.0, 4.0]])).unwrap();
        let expected = Lane {
            requests: 40.0,
            megabytes: 5.0,
            rtt_ms: 50.0,
            worst_rtt_ms: 50.0,
            in_flight: 2.0,
            most_in_flight: 4.0,
        };
        assert_eq!(load.reads, expected);
        assert_eq!(load.users, expected);
    }

    #[test]
    fn the_worst_mean_is_of_five_seconds() {
        let mut rows = [[1.0, 1.0, 1.0, 10.0, 1.0]; 8];
        rows[6][3] = 60.0;
        let worst = load(&log(&rows)).unwrap().reads.worst_rtt_ms;
        assert!((worst - 20.0).abs() < 1e-9, "{worst}");
    }

    #[test]
    fn a_log_without_its_columns_is_an_error() {
        assert!(load("").is_err());
        assert!(load("seconds,read_ops\n1,2").is_err());
        assert!(load("seconds,read_ops\n1").is_err());
    }
}
