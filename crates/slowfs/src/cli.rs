//! The command line, and what it means for the device and the mount.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Parser, ValueEnum};
use fuser::{MountOption, SessionACL};
use slowfs::engine::Background;
use slowfs::fault::{Faults, Rule};
use slowfs::fs::{Client, Options};
use slowfs::model::Config;

/// The longest time that can be given.
const LONGEST: Duration = Duration::from_hours(24);

/// Show a directory through a modelled storage queue and record the load on it
///
/// Needs root and /dev/fuse. SIGTERM or SIGINT unmounts; a second one also ends while files are
/// still open.
#[derive(Debug, Parser)]
#[command(version)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub(crate) struct Args {
    /// Directory to show; keep it on fast local storage
    pub(crate) backing: PathBuf,
    /// Empty directory to mount on
    pub(crate) mountpoint: PathBuf,
    /// Where the CSV row of each second goes [default: stdout]
    #[arg(long, value_name = "FILE", help_heading = "Records")]
    pub(crate) csv: Option<PathBuf>,
    /// Where the line of each request goes [default: nowhere]
    #[arg(long, value_name = "FILE", help_heading = "Records")]
    pub(crate) trace: Option<PathBuf>,
    /// Storage to start from; other options change single parameters
    #[arg(long, value_enum, default_value_t = Profile::NfsHdd1gbe, help_heading = "Device")]
    profile: Profile,
    /// Requests served at the same time
    #[arg(
        long,
        value_name = "N",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=65_536),
        help_heading = "Device"
    )]
    servers: Option<usize>,
    /// Cost of a data request that needs a seek, in milliseconds
    #[arg(long, value_name = "MS", value_parser = milliseconds, help_heading = "Device")]
    seek_ms: Option<Duration>,
    /// Cost of one that continues a stream, in milliseconds
    #[arg(long, value_name = "MS", value_parser = milliseconds, help_heading = "Device")]
    sequential_ms: Option<Duration>,
    /// Cost of a metadata request, in milliseconds; 0 takes metadata out of the queue
    #[arg(long, value_name = "MS", value_parser = milliseconds, help_heading = "Device")]
    meta_ms: Option<Duration>,
    /// Megabytes (10^6 bytes) a second that one server moves; 0 for no limit
    #[arg(long, value_name = "MB", value_parser = not_negative, help_heading = "Device")]
    mb_s: Option<f64>,
    /// Delay after service that takes no server time, in milliseconds
    #[arg(long, value_name = "MS", value_parser = milliseconds, help_heading = "Device")]
    latency_ms: Option<Duration>,
    /// Sequential streams that the device follows without seeking
    #[arg(
        long,
        value_name = "N",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=65_536),
        help_heading = "Device"
    )]
    streams: Option<usize>,
    /// Relative standard deviation of service times
    #[arg(long, value_name = "SHARE", value_parser = not_negative, help_heading = "Noise")]
    jitter: Option<f64>,
    /// Relative extra service time for each request ahead
    #[arg(long, value_name = "SHARE", value_parser = not_negative, help_heading = "Noise")]
    interference: Option<f64>,
    /// Probability of a stall at each request
    #[arg(long, value_name = "SHARE", value_parser = not_negative, help_heading = "Noise")]
    stall_probability: Option<f64>,
    /// Length of such a stall, in milliseconds
    #[arg(long, value_name = "MS", value_parser = milliseconds, help_heading = "Noise")]
    stall_ms: Option<Duration>,
    /// Seed of the noise
    #[arg(long, value_name = "N", help_heading = "Noise")]
    seed: Option<u64>,
    /// Fail or stall requests: read:ESTALE:3 the third read, write:ENOSPC:10:* every write from
    /// the tenth on, read:STALL=2s:5:4 the fifth to the eighth read; the
    /// kernel repeats a failed read of cached files once (can be repeated)
    #[arg(long = "fault", value_name = "OP:ERROR:NTH[:COUNT]", help_heading = "Noise")]
    faults: Vec<Rule>,
    /// Simulated other users, each with one request in flight
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=1_000),
        help_heading = "Other users"
    )]
    bg_users: u32,
    /// What they read at a time, in KiB
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = 64,
        value_parser = clap::value_parser!(u64).range(..=1 << 20), help_heading = "Other users"
    )]
    bg_kib: u64,
    /// How long they pause between reads, in milliseconds
    #[arg(
        long,
        value_name = "MS",
        default_value = "100",
        value_parser = milliseconds,
        help_heading = "Other users"
    )]
    bg_think_ms: Duration,
    /// Largest request, in KiB: NFS's rsize and wsize [default: 1024; 128 for none]
    #[arg(
        long,
        value_name = "KIB",
        value_parser = clap::value_parser!(u32).range(4..=1_024),
        help_heading = "Mount"
    )]
    max_request_kib: Option<u32>,
    /// Kernel read-ahead, in KiB; it also bounds the requests of buffered reads without
    /// read-ahead [default: the largest request, at least 128]
    #[arg(
        long,
        value_name = "KIB",
        value_parser = clap::value_parser!(u32).range(..=1 << 18), help_heading = "Mount"
    )]
    readahead_kib: Option<u32>,
    /// Read-ahead and asynchronous requests that may be outstanding
    #[arg(long, value_name = "N", default_value_t = 512, help_heading = "Mount")]
    max_background: u16,
    /// Bypass the page cache for every file
    #[arg(long, help_heading = "Mount")]
    direct_io: bool,
    /// Keep a file's cached pages across opens, so that not each open starts cold [default: true
    /// for nfs-hdd-1gbe, false for the others]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Mount"
    )]
    keep_cache: Option<bool>,
    /// Let the kernel gather writes
    #[arg(long, help_heading = "Mount")]
    writeback: bool,
    /// Let the kernel send the parts of a large direct read side by side
    #[arg(long, help_heading = "Mount")]
    async_dio: bool,
    /// How long the kernel keeps names and attributes, in milliseconds [default: 3000 for
    /// nfs-hdd-1gbe, 1000 for the others]
    #[arg(long, value_name = "MS", value_parser = milliseconds, help_heading = "Mount")]
    ttl_ms: Option<Duration>,
    /// Threads that take requests from the kernel; more than one may reorder streams
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=64),
        help_heading = "Mount"
    )]
    threads: usize,
    /// Unmount when standard input ends, as it does when the process that holds it dies
    #[arg(long, help_heading = "Mount")]
    pub(crate) unmount_on_eof: bool,
}

/// Read-ahead of a FUSE mount that nobody changed: the kernel's default for all devices.
const DEFAULT_READAHEAD_KIB: u32 = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// NFS over gigabit Ethernet from a server with hard disks
    #[value(name = "nfs-hdd-1gbe", alias = "hdd-nfs")]
    NfsHdd1gbe,
    /// Local hard disk
    Hdd,
    /// Local solid-state disk
    Ssd,
    /// Object store: slow answers, many at once
    ObjectStore,
    /// No delay at all, to record access patterns
    None,
}

impl Profile {
    fn device(self) -> Config {
        match self {
            Self::NfsHdd1gbe => Config::hdd_nfs(),
            Self::Hdd => Config::hdd(),
            Self::Ssd => Config::ssd(),
            Self::ObjectStore => Config::object_store(),
            Self::None => Config::default(),
        }
    }

    fn client(self) -> Client {
        match self {
            Self::NfsHdd1gbe | Self::ObjectStore => Client::Remote,
            Self::Hdd | Self::Ssd | Self::None => Client::Local,
        }
    }

    /// 1 MiB is what NFS servers mostly agree to, about what disks take at once, and the most that
    /// FUSE sends. Without delays it is FUSE's own default.
    fn max_request_kib(self) -> u32 {
        if self == Self::None { DEFAULT_READAHEAD_KIB } else { 1_024 }
    }

    /// NFS clients keep pages of a file that did not change.
    fn keep_cache(self) -> bool {
        self == Self::NfsHdd1gbe
    }

    /// 3 s is the least that NFS clients keep attributes of files by default: nfs(5), `acregmin`.
    fn ttl(self) -> Duration {
        Duration::from_secs(if self == Self::NfsHdd1gbe { 3 } else { 1 })
    }
}

impl Args {
    /// The device behind the mount.
    pub(crate) fn device(&self) -> Config {
        let start = self.profile.device();
        Config {
            servers: self.servers.unwrap_or(start.servers),
            seek: self.seek_ms.unwrap_or(start.seek),
            sequential: self.sequential_ms.unwrap_or(start.sequential),
            meta: self.meta_ms.unwrap_or(start.meta),
            bandwidth: self.mb_s.map_or(start.bandwidth, |megabytes| megabytes * 1e6),
            latency: self.latency_ms.unwrap_or(start.latency),
            streams: self.streams.unwrap_or(start.streams),
            jitter: self.jitter.unwrap_or(start.jitter),
            interference: self.interference.unwrap_or(start.interference),
            stall: (
                self.stall_probability.unwrap_or(start.stall.0),
                self.stall_ms.unwrap_or(start.stall.1),
            ),
            seed: self.seed.unwrap_or(start.seed),
        }
    }

    /// The faults to put in the place of requests.
    pub(crate) fn faults(&self) -> Faults {
        Faults::new(self.faults.clone())
    }

    /// The other users.
    pub(crate) fn background(&self) -> Background {
        Background { users: self.bg_users, bytes: self.bg_kib * 1024, think: self.bg_think_ms }
    }

    /// What the kernel may cache and split.
    pub(crate) fn options(&self) -> Options {
        Options {
            client: self.profile.client(),
            direct_io: self.direct_io,
            keep_cache: self.keep_cache.unwrap_or_else(|| self.profile.keep_cache()),
            writeback: self.writeback,
            async_dio: self.async_dio,
            max_readahead: self.readahead_kib() * 1024,
            max_request: self.max_request_kib() * 1024,
            max_background: self.max_background,
            ttl: self.ttl_ms.unwrap_or_else(|| self.profile.ttl()),
        }
    }

    /// Read-ahead that the mount must be told, in KiB.
    pub(crate) fn changed_readahead_kib(&self) -> Option<u32> {
        Some(self.readahead_kib()).filter(|kib| *kib != DEFAULT_READAHEAD_KIB)
    }

    fn max_request_kib(&self) -> u32 {
        self.max_request_kib.unwrap_or_else(|| self.profile.max_request_kib())
    }

    /// An NFS client sends requests of rsize even when its read-ahead is smaller; FUSE cuts them to
    /// the read-ahead.
    fn readahead_kib(&self) -> u32 {
        self.readahead_kib.unwrap_or_else(|| self.max_request_kib().max(DEFAULT_READAHEAD_KIB))
    }

    /// The options of mount(2), and the threads that serve the mount.
    pub(crate) fn mount(&self) -> fuser::Config {
        let mut mount = fuser::Config::default();
        mount.mount_options = vec![
            MountOption::FSName("slowfs".into()),
            MountOption::DefaultPermissions,
            // Shown as file system type `fuse.slowfs`.
            MountOption::CUSTOM("subtype=slowfs".into()),
            MountOption::CUSTOM(format!("max_read={}", self.max_request_kib() * 1024)),
        ];
        mount.acl = SessionACL::All;
        mount.n_threads = Some(self.threads);
        mount
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(not_negative(text)? / 1e3)
        .ok()
        .filter(|time| *time <= LONGEST)
        .ok_or_else(|| "longer than a day".to_owned())
}

fn not_negative(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number.is_finite() && number >= 0.0 {
        Ok(number)
    } else {
        Err("neither 0 nor a positive number".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;

    fn parse(options: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(["slowfs", "back", "mnt"].iter().chain(options))
    }

    #[test]
    fn profiles_decide_what_a_client_caches_and_sends() {
        let check = |options: &[&str], client, keep_cache, ttl| {
            let mount = parse(options).unwrap().options();
            let expected = (client, keep_cache, Duration::from_millis(ttl));
            assert_eq!((mount.client, mount.keep_cache, mount.ttl), expected, "{options:?}");
        };
        check(&[], Client::Remote, true, 3_000);
        check(&["--profile", "hdd-nfs"], Client::Remote, true, 3_000);
        check(&["--profile=nfs-hdd-1gbe", "--keep-cache=false"], Client::Remote, false, 3_000);
        check(&["--ttl-ms", "5", "--profile=ssd", "--keep-cache"], Client::Local, true, 5);
        check(&["--profile=hdd"], Client::Local, false, 1_000);
        check(&["--profile=object-store"], Client::Remote, false, 1_000);
        check(&["--profile=none"], Client::Local, false, 1_000);
    }

    #[test]
    fn options_change_single_parameters_of_the_device() {
        let device = parse(&["--meta-ms", "0", "--mb-s=50", "--stall-ms=1.5"]).unwrap().device();
        assert!(device.meta.is_zero());
        assert!((device.bandwidth - 50e6).abs() < 1e-3);
        assert_eq!(device.stall.1, Duration::from_micros(1_500));
        assert_eq!(device.seek, Config::hdd_nfs().seek);
    }

    #[test]
    fn read_ahead_is_as_large_as_a_request_unless_given() {
        let check = |options: &[&str], expected| {
            assert_eq!(parse(options).unwrap().changed_readahead_kib(), expected, "{options:?}");
        };
        check(&[], Some(1024));
        check(&["--profile=none"], None);
        check(&["--max-request-kib=64"], None);
        check(&["--profile=none", "--max-request-kib=512"], Some(512));
        check(&["--readahead-kib=128"], None);
        check(&["--readahead-kib=0"], Some(0));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for wrong in [
            "--seek-ms=-1",
            "--seek-ms=nan",
            "--seek-ms=1e300",
            "--mb-s=inf",
            "--servers=0",
            "--threads=0",
            "--max-request-kib=1025",
            "--fault=read:EIO",
            "--fault=read:EWHAT:1",
        ] {
            let error = parse(&[wrong]).unwrap_err();
            assert_eq!(
                (error.kind(), error.exit_code()),
                (ErrorKind::ValueValidation, 2),
                "{wrong}"
            );
        }
    }
}
