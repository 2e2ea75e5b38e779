//! Readers under a budget: what the budget says it let through, against what the kernel saw.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use io_budget::{Budget, LaneReport};
use stage::Error;

use crate::bench::{Measurement, Running};
use crate::record::{Check, Files, InFlight, Measured, Part, Run, Second, Setting, Source};
use crate::threads::Threads;
use crate::timeline::{Slice, Total};
use crate::watch::{Moved, Requests};

/// What the kernel may count above the limit: requests are timed at another place, and whole
/// milliseconds are counted.
const TOLERANCE: f64 = 0.1;

/// One run of readers under a budget.
#[derive(Debug)]
pub(crate) struct CheckRun {
    budget: Budget,
    setting: Check,
    inputs: Vec<Part>,
    failures: Arc<Mutex<Vec<String>>>,
}

impl CheckRun {
    /// Readers of these files, as many as the setting has threads.
    pub(crate) fn new(budget: Budget, setting: Check, inputs: Vec<Part>) -> Self {
        Self { budget, setting, inputs, failures: Arc::default() }
    }
}

impl Measurement for CheckRun {
    fn setting(&self) -> Setting {
        Setting::Check(self.setting)
    }

    fn inputs(&self) -> &[Part] {
        &self.inputs
    }

    fn start(&mut self) -> Result<Running, Error> {
        let shared = Shared {
            parts: Mutex::new(self.inputs.iter().cloned().collect()),
            budget: self.budget.clone(),
            failures: Arc::clone(&self.failures),
        };
        let counted = Counted::new(self.budget.clone());
        let budget = self.budget.clone();
        let moved = move || Moved { read: budget.report().reads.bytes, written: 0 };
        let work = move |stop: &AtomicBool| shared.work(stop);
        let readers = Threads::start(self.setting.threads, work, moved)?;
        Ok(Running { load: Box::new(readers), reads: Some(Arc::new(counted)) })
    }

    fn finish(&mut self, measured: &mut Measured) -> Result<Files, Vec<String>> {
        let lane = self.budget.report().reads;
        if let Some(latency) = measured.latency.as_mut().filter(|it| it.source == Source::OwnTiming)
        {
            (latency.p50_ms, latency.p95_ms) =
                (Some(lane.latency.p50_ms), Some(lane.latency.p95_ms));
        }
        let causes =
            std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner));
        if causes.is_empty() { Ok(Files::default()) } else { Err(causes) }
    }
}

/// What the readers share.
#[derive(Debug)]
struct Shared {
    parts: Mutex<VecDeque<Part>>,
    budget: Budget,
    failures: Arc<Mutex<Vec<String>>>,
}

impl Shared {
    fn work(&self, stop: &AtomicBool) {
        while !stop.load(Relaxed) {
            let next = self.parts.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(part) = next else { return };
            if let Err(error) = self.read(&part, stop) {
                let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
                failures.push(error.to_string());
            }
        }
    }

    /// Reads a part as the stages read a file: opened, read past in pieces, dropped from the cache.
    fn read(&self, part: &Part, stop: &AtomicBool) -> Result<(), io_budget::Error> {
        /// Bytes of a piece, so that a thread soon sees that it is to end.
        const PIECE: u64 = 8 << 20;
        let file = self.budget.open(&part.file)?.once();
        let end = part.offset + part.bytes;
        let mut at = part.offset;
        while at < end && !stop.load(Relaxed) {
            let next = at.saturating_add(PIECE).min(end);
            drop(file.read_range(at..next)?);
            at = next;
        }
        Ok(())
    }
}

/// The budget's own counters, as requests that are timed.
#[derive(Debug)]
struct Counted {
    budget: Budget,
    last: Mutex<(Instant, LaneReport)>,
}

impl Counted {
    fn new(budget: Budget) -> Self {
        let last = Mutex::new((Instant::now(), budget.report().reads));
        Self { budget, last }
    }
}

impl Requests for Counted {
    fn slice(&self) -> Slice {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, lane) = (Instant::now(), self.budget.report().reads);
        let elapsed = now.saturating_duration_since(last.0).as_secs_f64().max(1e-9);
        let in_flight = (lane.in_flight_seconds - last.1.in_flight_seconds).max(0.0);
        let requests = lane.requests.saturating_sub(last.1.requests);
        *last = (now, lane);
        Slice {
            requests,
            waited: Duration::try_from_secs_f64(in_flight).unwrap_or_default(),
            in_flight: Some(in_flight / elapsed),
            oldest: None,
        }
    }

    fn total(&self) -> Total {
        let lane = self.budget.report().reads;
        // The quantiles are the budget's own, added at the end.
        Total { requests: lane.requests, p50: None, p95: None, most: lane.peak_in_flight }
    }
}

/// Whether a budget held in a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// The kernel saw no more than the limit, or, where it counts nothing, the budget itself did.
    Holds { words: String },
    /// More was in flight than the limit.
    Exceeded { words: String },
    /// Nothing can be said.
    Unknown { words: String },
}

/// Judges a run of this measurement.
pub(crate) fn judge(run: &Run) -> Verdict {
    let (Setting::Check(Check { limit, request_bytes, .. }), Some(measured)) =
        (&run.setting, &run.measured)
    else {
        return Verdict::Unknown { words: format!("the run did not take place: {}", run.outcome) };
    };
    let Some(limit) = *limit else {
        let words = String::from("the settings set no limit: there is nothing to hold");
        return Verdict::Unknown { words };
    };
    let own = measured.in_flight.and_then(|in_flight| in_flight.most).unwrap_or(0);
    let words = format!("at most {own} of {limit} requests in flight by the budget's own count");
    let seen = seen_by_kernel(measured, *request_bytes);
    let kernel = seen.map_or_else(
        || format!("the kernel counts no reads in flight on {}", run.target.fs_type),
        |seen| format!("{seen}, of all programs of this host"),
    );
    let words = format!("{words}; {kernel}");
    #[expect(clippy::cast_precision_loss, reason = "requests in flight are few")]
    let bound = limit as f64 * (1.0 + TOLERANCE);
    if own > limit || seen.is_some_and(|seen| seen.busiest > bound) {
        Verdict::Exceeded { words }
    } else {
        Verdict::Holds { words }
    }
}

/// Reads in flight by the kernel's count.
#[derive(Debug, Clone, Copy)]
struct Seen {
    source: Source,
    /// Requests of the kernel for a whole read.
    split: f64,
    mean: f64,
    busiest: f64,
}

fn seen_by_kernel(measured: &Measured, request_bytes: u64) -> Option<Seen> {
    let InFlight { source, mean, .. } = measured.kernel_in_flight?;
    let split = split(measured, request_bytes);
    let of_seconds = in_reads(measured, request_bytes).into_iter();
    let busiest = of_seconds.filter_map(|second| second.in_flight).fold(0.0, f64::max);
    Some(Seen { source, split, mean: mean? / split, busiest })
}

/// The kernel's seconds of a run, with its requests in flight as reads of `request_bytes`.
pub(crate) fn in_reads(measured: &Measured, request_bytes: u64) -> Vec<Second> {
    let split = split(measured, request_bytes);
    let in_reads = |second: &Second| Second {
        in_flight: second.in_flight.map(|in_flight| in_flight / split),
        ..*second
    };
    measured.kernel_series.iter().map(in_reads).collect()
}

/// Requests of the kernel that make a read of `request_bytes`: a disk may be asked for one in
/// several, an NFS server is asked as the budget asks.
fn split(measured: &Measured, request_bytes: u64) -> f64 {
    let series = &measured.kernel_series;
    let begins = std::iter::once(0.0).chain(series.iter().map(|second| second.at));
    let bytes: f64 =
        series.iter().zip(begins).map(|(it, begin)| it.mb_s * 1e6 * (it.at - begin)).sum();
    #[expect(clippy::cast_precision_loss, reason = "a ratio needs few digits")]
    let (requests, whole) =
        (series.iter().map(|second| second.requests).sum::<u64>() as f64, request_bytes as f64);
    match measured.kernel_in_flight {
        Some(InFlight { source: Source::Diskstats, .. }) if bytes > 0.0 => {
            (whole * requests / bytes).max(1.0)
        }
        _ => 1.0,
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.source {
            Source::Mountstats => "the NFS client",
            _ => "the block device",
        };
        write!(
            formatter,
            "{who} counted {:.2} reads in flight on average and {:.2} in the busiest second",
            self.mean, self.busiest
        )?;
        if self.split > 1.0 {
            write!(formatter, ", where {:.1} of its requests make a read", self.split)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FileSize, Outcome};
    use crate::testing;

    fn checked(limit: Option<usize>, own: usize, kernel: &[f64]) -> Run {
        let mut run = testing::raw(FileSize::Large, 1, 65, 15.0);
        run.setting = Setting::Check(Check { threads: 32, limit, request_bytes: 1 << 20 });
        let second = |in_flight: &f64| Second { in_flight: Some(*in_flight), ..Second::default() };
        let source = Source::Mountstats;
        run.measured = Some(Measured {
            in_flight: Some(InFlight {
                source: Source::OwnTiming,
                mean: Some(1.5),
                most: Some(own),
            }),
            kernel_in_flight: (!kernel.is_empty()).then_some(InFlight {
                source,
                mean: Some(1.25),
                most: None,
            }),
            kernel_series: kernel.iter().map(second).collect(),
            ..Measured::default()
        });
        run
    }

    #[test]
    fn a_budget_holds_when_nobody_saw_more() {
        let Verdict::Holds { words } = judge(&checked(Some(2), 2, &[1.0, 2.1])) else { panic!() };
        assert!(words.starts_with("at most 2 of 2 requests in flight"), "{words}");
        assert!(
            words.contains("the NFS client counted 1.25 reads in flight on average"),
            "{words}"
        );
        let Verdict::Holds { words } = judge(&checked(Some(4), 3, &[])) else { panic!() };
        assert!(words.contains("the kernel counts no reads in flight on"), "{words}");
    }

    #[test]
    fn it_does_not_when_either_saw_more() {
        for run in [checked(Some(2), 3, &[1.0]), checked(Some(2), 2, &[1.0, 2.3])] {
            assert!(matches!(judge(&run), Verdict::Exceeded { .. }), "{run:?}");
        }
    }

    #[test]
    fn a_disk_that_is_asked_in_parts_is_counted_in_reads() {
        let mut run = checked(Some(3), 3, &[20.0, 24.0]);
        let measured = run.measured.as_mut().unwrap();
        measured.kernel_in_flight =
            Some(InFlight { source: Source::Diskstats, mean: Some(20.8), most: None });
        for (number, second) in (1_u32..).zip(&mut measured.kernel_series) {
            (second.at, second.requests, second.mb_s) = (number.into(), 1_000, 131.072);
        }
        let Verdict::Holds { words } = judge(&run) else { panic!("{:?}", judge(&run)) };
        let told = "the block device counted 2.60 reads in flight on average and 3.00 in the busiest \
                    second, where 8.0 of its requests make a read";
        assert!(words.contains(told), "{words}");
        run.setting = Setting::Check(Check { threads: 32, limit: Some(2), request_bytes: 1 << 20 });
        assert!(matches!(judge(&run), Verdict::Exceeded { .. }));
    }

    #[test]
    fn without_a_limit_or_a_run_nothing_can_be_said() {
        assert!(matches!(judge(&checked(None, 9, &[9.0])), Verdict::Unknown { .. }));
        let mut run = checked(Some(2), 2, &[]);
        run.measured = None;
        run.outcome = Outcome::Refused { cause: "cached".into() };
        let Verdict::Unknown { words } = judge(&run) else { panic!() };
        assert_eq!(words, "the run did not take place: refused: cached");
    }

    #[test]
    fn the_budget_counts_what_its_readers_ask_for() {
        let directory = tempfile::tempdir().unwrap();
        let part = |name: &str| {
            let file = directory.path().join(name);
            std::fs::File::create(&file).unwrap().set_len(9 << 20).unwrap();
            Part { file, offset: 0, bytes: 9 << 20 }
        };
        let setting = Check { threads: 4, limit: Some(2), request_bytes: 1 << 20 };
        let inputs = vec![part("a"), part("b"), part("c")];
        let mut run = CheckRun::new(Budget::private(), setting, inputs);
        let Running { mut load, reads } = run.start().unwrap();
        while !load.has_ended() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let total = reads.as_ref().unwrap().total();
        assert!(total.requests >= 3, "three opens at least: {total:?}");
        assert!(total.most <= 2, "{total:?}");
        assert_eq!(reads.unwrap().slice().requests, total.requests);
        load.stop();
        assert_eq!(run.finish(&mut Measured::default()).unwrap(), Files::default());
    }
}
