//! What the file system saw: a CSV row for each second, and a line for each request.

#![expect(clippy::cast_precision_loss, reason = "rates and averages are for reading")]

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::engine::Arrival;
use crate::model::Request;

/// Which load a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Reads of the mounted file system.
    Read,
    /// Writes to it.
    Write,
    /// Its metadata requests.
    Meta,
    /// The simulated other users.
    Background,
}

const CLASSES: [Class; 4] = [Class::Read, Class::Write, Class::Meta, Class::Background];

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Meta => "meta",
            Self::Background => "bg",
        }
    }
}

/// The counters of one class over one interval.
#[derive(Debug, Clone, Default)]
struct Window {
    rtts: Vec<Duration>,
    bytes: u64,
    in_flight_max: usize,
    /// Seconds times requests in flight.
    area: f64,
    /// Seconds with at least one request in flight.
    busy: f64,
}

#[derive(Debug)]
struct Gauge {
    in_flight: usize,
    changed: Instant,
    window: Window,
}

impl Gauge {
    fn advance(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.changed).as_secs_f64();
        self.window.area += seconds * self.in_flight as f64;
        if self.in_flight > 0 {
            self.window.busy += seconds;
        }
        self.changed = self.changed.max(now);
    }
}

#[derive(Debug)]
struct Inner {
    gauges: [Gauge; 4],
    rolled: Instant,
}

/// Counts requests in flight, round trips and bytes.
#[derive(Debug)]
pub struct Stats {
    inner: Mutex<Inner>,
}

impl Stats {
    /// Counters at zero.
    pub fn new() -> Self {
        let now = Instant::now();
        let gauge = || Gauge { in_flight: 0, changed: now, window: Window::default() };
        Self { inner: Mutex::new(Inner { gauges: std::array::from_fn(|_| gauge()), rolled: now }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request arrived.
    pub fn begin(&self, class: Class, now: Instant) {
        let gauge = &mut self.lock().gauges[class as usize];
        gauge.advance(now);
        gauge.in_flight += 1;
        gauge.window.in_flight_max = gauge.window.in_flight_max.max(gauge.in_flight);
    }

    /// It was answered.
    pub fn end(&self, class: Class, arrived: Instant, now: Instant, bytes: u64) {
        let gauge = &mut self.lock().gauges[class as usize];
        gauge.advance(now);
        gauge.in_flight = gauge.in_flight.saturating_sub(1);
        gauge.window.bytes += bytes;
        gauge.window.rtts.push(now.saturating_duration_since(arrived));
    }

    /// The CSV header of [`Stats::roll`]'s rows.
    pub fn header() -> String {
        let mut header = String::from("unix_s,seconds");
        for class in CLASSES {
            let name = class.name();
            let _written = write!(
                header,
                ",{name}_ops,{name}_mb_s,{name}_avg_kib,{name}_rtt_avg_ms,{name}_rtt_p95_ms,\
                 {name}_rtt_max_ms,{name}_inflight_avg,{name}_inflight_max,{name}_busy"
            );
        }
        header
    }

    /// Ends the interval and gives its row.
    pub fn roll(&self, now: Instant) -> String {
        let mut inner = self.lock();
        let seconds = now.saturating_duration_since(inner.rolled).as_secs_f64().max(1e-9);
        inner.rolled = now;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut row = format!("{:.3},{seconds:.3}", unix.as_secs_f64());
        for class in CLASSES {
            let gauge = &mut inner.gauges[class as usize];
            gauge.advance(now);
            let next = Window { in_flight_max: gauge.in_flight, ..Window::default() };
            let window = std::mem::replace(&mut gauge.window, next);
            push_window(&mut row, window, seconds);
        }
        row
    }
}

impl Default for Stats {
    fn default() -> Self {
        Self::new()
    }
}

fn push_window(row: &mut String, mut window: Window, seconds: f64) {
    window.rtts.sort_unstable();
    let ops = window.rtts.len();
    let per_op = |total: f64| if ops == 0 { 0.0 } else { total / ops as f64 };
    let p95 = window.rtts.get((ops * 95 / 100).min(ops.saturating_sub(1))).copied();
    let _written = write!(
        row,
        ",{ops},{:.2},{:.1},{:.2},{:.2},{:.2},{:.2},{},{:.3}",
        window.bytes as f64 / 1e6 / seconds,
        per_op(window.bytes as f64 / 1024.0),
        per_op(milliseconds(window.rtts.iter().sum())),
        milliseconds(p95.unwrap_or_default()),
        milliseconds(window.rtts.last().copied().unwrap_or_default()),
        window.area / seconds,
        window.in_flight_max,
        window.busy / seconds,
    );
}

/// A line for each request, for looking at access patterns.
pub struct Trace {
    out: Mutex<Box<dyn Write + Send>>,
    start: Instant,
}

impl Trace {
    /// Writes the header to `out`; `start` is the trace's time zero.
    ///
    /// # Errors
    ///
    /// When `out` cannot be written.
    pub fn new(mut out: Box<dyn Write + Send>, start: Instant) -> io::Result<Self> {
        writeln!(out, "arrived_ms,op,file,offset,bytes,ahead,rtt_ms,pid")?;
        Ok(Self { out: Mutex::new(out), start })
    }

    /// Writes one request's line; a failure to write is not the client's problem.
    pub(crate) fn record(&self, request: &Request, arrival: &Arrival, ahead: usize, rtt: Duration) {
        let at = milliseconds(arrival.at.saturating_duration_since(self.start));
        let Arrival { operation, pid, .. } = arrival;
        let Request { file, offset, bytes, .. } = request;
        let rtt = milliseconds(rtt);
        let mut out = self.lock();
        let _written =
            writeln!(out, "{at:.3},{operation},{file},{offset},{bytes},{ahead},{rtt:.3},{pid}");
    }

    /// Hands on the lines so far.
    pub fn flush(&self) {
        let _flushed = self.lock().flush();
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn Write + Send>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Trace").field("start", &self.start).finish_non_exhaustive()
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-9, "{got} instead of {expected}");
    }

    #[test]
    fn a_row_has_the_columns_of_the_header_and_time_weighted_averages() {
        let stats = Stats::new();
        let t0 = stats.lock().rolled;
        let ms = |n| t0 + Duration::from_millis(n);
        stats.begin(Class::Read, ms(0));
        stats.begin(Class::Read, ms(0));
        stats.end(Class::Read, ms(0), ms(250), 1_000_000);
        stats.end(Class::Read, ms(0), ms(500), 1_000_000);
        let row = stats.roll(ms(1000));
        let header = Stats::header();
        let get = |name: &str| -> f64 {
            let i = header.split(',').position(|h| h == name).unwrap();
            row.split(',').nth(i).unwrap().parse().unwrap()
        };
        assert_eq!(header.split(',').count(), row.split(',').count());
        assert_close(get("read_ops"), 2.0);
        assert_close(get("read_mb_s"), 2.0);
        assert_close(get("read_rtt_avg_ms"), 375.0);
        assert_close(get("read_rtt_max_ms"), 500.0);
        assert_close(get("read_inflight_avg"), 0.75);
        assert_close(get("read_inflight_max"), 2.0);
        assert_close(get("read_busy"), 0.5);
        assert_close(get("write_ops"), 0.0);
    }

    #[test]
    fn a_request_across_intervals_counts_in_both() {
        let stats = Stats::new();
        let t0 = stats.lock().rolled;
        stats.begin(Class::Write, t0);
        let first = stats.roll(t0 + Duration::from_secs(1));
        let second = stats.roll(t0 + Duration::from_secs(2));
        let column = Stats::header().split(',').position(|h| h == "write_inflight_avg").unwrap();
        for row in [first, second] {
            assert_eq!(row.split(',').nth(column), Some("1.00"));
        }
    }
}
