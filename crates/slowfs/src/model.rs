//! The storage device as a queueing model in virtual time.
//!
//! [`Device::admit`] depends on its inputs and the device's state alone: it takes the arrival time
//! of a request and tells when the request starts, finishes and is answered. It never sleeps and
//! never reads a clock, so the file system (real time) and tests (simulated time) share it.
//!
//! The model is a first-come first-served queue in front of `servers` identical servers, followed
//! by a delay that is not queued (the network):
//!
//! ```text
//! service = fixed + bytes / bandwidth            fixed = sequential or seek cost, or meta cost
//! start   = max(arrival, earliest free server)
//! finish  = start + service * noise * (1 + interference * requests ahead)
//! reply   = finish + latency
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// The longest service of one request, in seconds, so that no parameters overflow the clock.
const LONGEST_SERVICE_SECONDS: f64 = 24.0 * 3600.0;

/// What a request asks of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Data from a file.
    Read,
    /// Data to a file.
    Write,
    /// Look-up, open, directory listing, and other requests without data.
    Meta,
}

/// One request as the device sees it.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// What is asked.
    pub kind: Kind,
    /// Identifies the file, to tell sequential requests from seeks.
    pub file: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// When an admitted request is served, as time since the device's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// When a server takes it up.
    pub start: Duration,
    /// When the server is done with it.
    pub finish: Duration,
    /// When the client has the answer.
    pub reply: Duration,
    /// Requests waiting or in service when it arrived.
    pub ahead: usize,
}

/// The parameters of a [`Device`].
#[derive(Debug, Clone)]
pub struct Config {
    /// Requests served at the same time.
    pub servers: usize,
    /// Fixed cost of a data request that does not continue a stream the device follows.
    pub seek: Duration,
    /// Fixed cost of a data request that does.
    pub sequential: Duration,
    /// Fixed cost of a metadata request; zero takes metadata out of the queue.
    pub meta: Duration,
    /// Bytes a second that one server moves; zero means no per-byte cost.
    pub bandwidth: f64,
    /// Delay after service that takes no server time.
    pub latency: Duration,
    /// Sequential streams the device follows before it must seek.
    pub streams: usize,
    /// Relative standard deviation of the service time.
    pub jitter: f64,
    /// Relative extra service time for each request ahead in the queue.
    pub interference: f64,
    /// Probability of a stall, and its length.
    pub stall: (f64, Duration),
    /// Seed of the noise.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            servers: 1,
            seek: Duration::ZERO,
            sequential: Duration::ZERO,
            meta: Duration::ZERO,
            bandwidth: 0.0,
            latency: Duration::ZERO,
            streams: 8,
            jitter: 0.0,
            interference: 0.0,
            stall: (0.0, Duration::ZERO),
            seed: 1,
        }
    }
}

impl Config {
    /// NFS over gigabit Ethernet from hard disks, fitted to `dd` on such a share: about 13 ms
    /// for an idle 64 KiB read, 88 MB/s at most for large sequential files, about 12 files a second
    /// for 4 MB files.
    pub fn hdd_nfs() -> Self {
        Self {
            servers: 1,
            seek: Duration::from_millis(10),
            meta: Duration::from_millis(14),
            bandwidth: 88.5e6,
            latency: Duration::from_millis(3),
            streams: 16,
            ..Self::default()
        }
    }

    /// A local hard disk: typical figures of a 7200 rpm disk, fitted to nothing.
    pub fn hdd() -> Self {
        Self {
            servers: 1,
            seek: Duration::from_micros(8_500),
            meta: Duration::from_millis(4),
            bandwidth: 180e6,
            ..Self::default()
        }
    }

    /// A local solid-state disk: typical figures, fitted to nothing.
    pub fn ssd() -> Self {
        Self {
            servers: 8,
            seek: Duration::from_micros(80),
            sequential: Duration::from_micros(80),
            meta: Duration::from_micros(80),
            bandwidth: 400e6,
            ..Self::default()
        }
    }

    /// An object store: long round trips, many at once. Typical figures, fitted to nothing.
    pub fn object_store() -> Self {
        Self {
            servers: 64,
            seek: Duration::from_millis(15),
            sequential: Duration::from_millis(15),
            meta: Duration::from_millis(10),
            bandwidth: 80e6,
            latency: Duration::from_millis(15),
            jitter: 0.2,
            ..Self::default()
        }
    }
}

/// A device and its queue.
#[derive(Debug)]
pub struct Device {
    config: Config,
    free_at: BinaryHeap<Reverse<Duration>>,
    in_system: BinaryHeap<Reverse<Duration>>,
    streams: VecDeque<(u64, u64)>,
    noise: SplitMix,
}

impl Device {
    /// An idle device at time zero.
    pub fn new(config: Config) -> Self {
        Self {
            free_at: (0..config.servers.max(1)).map(|_| Reverse(Duration::ZERO)).collect(),
            in_system: BinaryHeap::new(),
            streams: VecDeque::new(),
            noise: SplitMix(config.seed),
            config,
        }
    }

    /// The parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Queues a request that arrives at `now`. Arrivals must not go back in time.
    pub fn admit(&mut self, now: Duration, request: &Request) -> Admission {
        while self.in_system.peek().is_some_and(|Reverse(t)| *t <= now) {
            self.in_system.pop();
        }
        let ahead = self.in_system.len();
        let service = self.service(request, ahead);
        let Reverse(free) = self.free_at.pop().unwrap_or(Reverse(Duration::ZERO));
        let start = free.max(now);
        let finish = start.saturating_add(service);
        self.free_at.push(Reverse(finish));
        self.in_system.push(Reverse(finish));
        Admission { start, finish, reply: finish.saturating_add(self.config.latency), ahead }
    }

    fn service(&mut self, request: &Request, ahead: usize) -> Duration {
        let fixed = match request.kind {
            Kind::Meta => self.config.meta,
            Kind::Read | Kind::Write if self.follows(request) => self.config.sequential,
            Kind::Read | Kind::Write => self.config.seek,
        };
        #[expect(clippy::cast_precision_loss, reason = "bytes and requests are far below 2^53")]
        let (bytes, ahead) = (request.bytes as f64, ahead as f64);
        let transfer =
            if self.config.bandwidth > 0.0 { bytes / self.config.bandwidth } else { 0.0 };
        let crowd = 1.0 + self.config.interference * ahead;
        let mut seconds =
            (fixed.as_secs_f64() + transfer) * crowd * self.noise.factor(self.config.jitter);
        let (probability, stall) = self.config.stall;
        if probability > 0.0 && self.noise.uniform() < probability {
            seconds += stall.as_secs_f64();
        }
        if seconds.is_nan() {
            return fixed;
        }
        Duration::from_secs_f64(seconds.clamp(0.0, LONGEST_SERVICE_SECONDS))
    }

    /// Whether the request continues a stream; remembers where it ends either way.
    fn follows(&mut self, request: &Request) -> bool {
        let known = self.streams.iter().position(|s| *s == (request.file, request.offset));
        if let Some(i) = known {
            self.streams.remove(i);
        }
        self.streams.push_back((request.file, request.offset.saturating_add(request.bytes)));
        while self.streams.len() > self.config.streams.max(1) {
            self.streams.pop_front();
        }
        known.is_some()
    }
}

/// A small seeded generator (`SplitMix64`), enough for service-time noise.
#[derive(Debug, Clone)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in `[0, 1)`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double")]
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A factor with mean 1 and the given relative standard deviation: the sum of three
    /// uniform numbers, scaled, and never below 0.1.
    pub fn factor(&mut self, deviation: f64) -> f64 {
        if deviation <= 0.0 {
            return 1.0;
        }
        let sum: f64 = (0..3).map(|_| self.uniform()).sum();
        (1.0 + deviation * 2.0 * (sum - 1.5)).max(0.1)
    }
}

#[cfg(test)]
mod tests;
