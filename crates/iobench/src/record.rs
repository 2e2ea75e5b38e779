//! One run as it is kept: everything needed to repeat and to judge it, as one line of JSON.
//!
//! Runs that failed, were killed or were refused are kept like all others. Times are in seconds or
//! milliseconds as the names say; MB are 10^6 bytes. Nothing is measured here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The form of [`Run`] that this program writes.
pub const FORMAT: u32 = 1;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The form of this record: [`FORMAT`].
    pub format: u32,
    /// Version of the program that measured.
    pub version: String,
    /// When the run began: UTC, RFC 3339.
    pub began: String,
    /// The machine that measured.
    pub host: Host,
    /// Names the invocation that the run belongs to.
    pub session: String,
    /// Place of the run in that invocation's shuffled order, from 0.
    pub order: usize,
    /// Which of the repeats of its setting it is, from 0.
    pub repeat: u32,
    /// Seed of the order, and of the choice of files.
    pub seed: u64,
    /// When a run is refused or ended.
    pub care: Care,
    /// The storage that was measured.
    pub target: Target,
    /// What was run.
    pub setting: Setting,
    /// How it ended.
    pub outcome: Outcome,
    /// What it was to read.
    pub inputs: Files,
    /// What it wrote.
    pub outputs: Files,
    /// What it did, as far as it got; none for a run that was refused.
    pub measured: Option<Measured>,
    /// Round trip of a read that is alone, before the run.
    pub idle_before: Option<Idle>,
    /// The same after it.
    pub idle_after: Option<Idle>,
}

/// When a run is refused or ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Care {
    /// Mean round trip of reads over five seconds above which it is ended, in milliseconds.
    pub ceiling_ms: f64,
    /// The longest time that it may take.
    pub cap_seconds: f64,
    /// Share of its input that the page cache may hold before it, 0 to 1.
    pub cached: f64,
}

/// The machine that measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Processors that the program may use.
    pub cpus: usize,
}

/// The storage that was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The directory.
    pub directory: PathBuf,
    /// Storage class, as the budget takes it.
    pub class: String,
    /// Why it is taken for that.
    pub why: String,
    /// Type of the file system.
    pub fs_type: String,
    /// What is mounted.
    pub source: String,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Options of the mount and of the file system.
    pub mount_options: String,
}

/// What was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Setting {
    /// Plain readers or writers.
    Raw(Raw),
    /// A stage.
    Stage(Stage),
    /// Readers under the budget.
    Check(Check),
}

/// Plain readers or writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Raw {
    /// Whether they read or write.
    pub direction: Direction,
    /// Whether their files are large or small.
    pub files: FileSize,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// How many there are, each with one request in flight.
    pub concurrency: usize,
}

/// Whether bytes are read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the storage.
    Read,
    /// To the storage.
    Write,
}

/// Whether files are large or small.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum FileSize {
    /// Files of at least 64 MiB, read in long stretches.
    Large,
    /// Files below 16 MiB, read whole.
    Small,
}

/// A stage with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// The stage, as in `convert`.
    pub stage: String,
    /// The dataset.
    pub dataset: String,
    /// First day of the inputs, as 2020-01-31.
    pub first_day: String,
    /// Last day of the inputs.
    pub last_day: String,
    /// The settings that vary between runs, by key.
    pub varied: BTreeMap<String, String>,
    /// The command, with its arguments.
    pub command: Vec<String>,
    /// The environment variables that are set for it.
    pub environment: BTreeMap<String, String>,
}

/// Readers under the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Threads that ask for reads.
    pub threads: usize,
    /// Reads in flight that the budget may allow; none where it sets no limit.
    pub limit: Option<usize>,
    /// Bytes of a read, at most.
    pub request_bytes: u64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Outcome {
    /// It did all it was to do.
    Complete,
    /// It was ended after the time that a run may take; its rates count.
    Capped,
    /// It was ended since reads took too long, with this mean round trip over five seconds.
    Killed {
        /// The round trip, in milliseconds.
        rtt_ms: f64,
    },
    /// It was not begun.
    Refused {
        /// Why.
        cause: String,
    },
    /// It failed.
    Failed {
        /// Why, each cause once.
        causes: Vec<String>,
    },
}

/// Files of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Files {
    /// Parts of files, in the order in which they were chosen; empty where they are not kept.
    pub parts: Vec<Part>,
    /// Number of files.
    pub files: usize,
    /// Their bytes, or of their parts.
    pub bytes: u64,
    /// Bytes of the smallest.
    pub smallest: u64,
    /// Bytes of the largest.
    pub largest: u64,
    /// Share of the bytes that the page cache held before the run, 0 to 1; none where the system
    /// does not tell.
    pub cached: Option<f64>,
    /// What zip directories and Parquet footers say of them.
    pub content: Option<Content>,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    /// The file.
    pub file: PathBuf,
    /// First byte.
    pub offset: u64,
    /// Bytes from there.
    pub bytes: u64,
}

/// What zip directories and Parquet footers say of files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// Files that were found complete: all their parts lie within them.
    pub complete: usize,
    /// Bytes of compressed data.
    pub compressed_bytes: u64,
    /// Bytes of the same data before compression.
    pub uncompressed_bytes: u64,
    /// Codecs by name, with the number of members or column chunks that use them.
    pub codecs: BTreeMap<String, u64>,
    /// Row groups of Parquet files.
    pub row_groups: u64,
    /// Rows of Parquet files.
    pub rows: u64,
}

/// What a run did, as far as it got.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Wall time.
    pub seconds: f64,
    /// Of that, until the first hundredth of the bytes was read or written.
    pub startup_seconds: Option<f64>,
    /// Of that, after the last but one hundredth was.
    pub tail_seconds: Option<f64>,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Round trips of reads, or of writes where there were no reads.
    pub latency: Option<Latency>,
    /// Requests in flight, as the program that made them counted.
    pub in_flight: Option<InFlight>,
    /// Reads in flight of the whole host, as the kernel counted.
    pub kernel_in_flight: Option<InFlight>,
    /// Requests that the NFS client sent again.
    pub retransmissions: Option<u64>,
    /// Largest resident memory of the process.
    pub peak_rss_bytes: Option<u64>,
    /// Processor time of the process.
    pub cpu_seconds: Option<f64>,
    /// Each second of the run.
    pub series: Vec<Second>,
    /// The same of all reads of the host, as the kernel counts them; empty where it does not. A disk
    /// may be asked for a read in several requests.
    pub kernel_series: Vec<Second>,
}

/// Round trips, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Where the figures come from.
    pub source: Source,
    /// Mean over all requests.
    pub mean_ms: f64,
    /// The largest mean of five seconds; of the whole where that is shorter.
    pub worst_ms: f64,
    /// Half of the requests took less; none where only means are known.
    pub p50_ms: Option<f64>,
    /// Nineteen of twenty took less.
    pub p95_ms: Option<f64>,
}

/// Where figures come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The NFS client's counters: all reads of the host.
    Mountstats,
    /// The block device's counters: all reads of the host.
    Diskstats,
    /// The requests of this program's own readers or writers, timed by it.
    OwnTiming,
    /// A reader beside the run, with one small read in flight now and then.
    ProbeReads,
    /// What the stage says of itself.
    StageReport,
}

/// Requests in flight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct InFlight {
    /// Where the figures come from.
    pub source: Source,
    /// Mean over time; none where it is not known.
    pub mean: Option<f64>,
    /// The largest number at once; none where it is not known.
    pub most: Option<usize>,
}

/// One second of a run; the last may be shorter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Its end, in seconds since the run began.
    pub at: f64,
    /// Mean number of requests in flight, where it is known.
    pub in_flight: Option<f64>,
    /// Mean round trip in milliseconds, where requests were answered.
    pub rtt_ms: Option<f64>,
    /// Requests that this mean is of.
    pub requests: u64,
    /// Rate of bytes read and written.
    pub mb_s: f64,
}

/// Round trip of reads that are alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// Bytes of each.
    pub request_bytes: u64,
    /// Reads.
    pub reads: usize,
    /// Their median round trip.
    pub p50_ms: f64,
    /// The shortest.
    pub least_ms: f64,
    /// The longest.
    pub most_ms: f64,
}

impl fmt::Display for FileSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Large => "large",
            Self::Small => "small",
        })
    }
}

impl Run {
    /// Rate of reading, in MB/s, up to where the run ended.
    pub fn read_mb_s(&self) -> Option<f64> {
        self.measured.as_ref().map(|measured| measured.rate(measured.read_bytes))
    }

    /// Rate of writing, in MB/s, up to where the run ended.
    pub fn write_mb_s(&self) -> Option<f64> {
        self.measured.as_ref().map(|measured| measured.rate(measured.written_bytes))
    }
}

impl Measured {
    #[expect(clippy::cast_precision_loss, reason = "rates are for reading")]
    fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 / 1e6 / self.seconds.max(1e-9)
    }
}

impl Outcome {
    /// Whether the run's rates stand for its setting.
    pub fn counts(&self) -> bool {
        matches!(self, Self::Complete | Self::Capped)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => write!(formatter, "ok"),
            Self::Capped => write!(formatter, "capped"),
            Self::Killed { rtt_ms } => write!(formatter, "killed at {rtt_ms:.0} ms"),
            Self::Refused { cause } => write!(formatter, "refused: {cause}"),
            Self::Failed { causes } => write!(formatter, "failed: {}", causes.join("; ")),
        }
    }
}
