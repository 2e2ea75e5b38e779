//! A run second by second, and the rule that ends it. Looks at no clock and measures nothing: it is
//! told what was answered in each slice of time.

use std::time::Duration;

use crate::record::{Latency, Second, Source};

/// The stretch of time over which round trips are averaged before a run is ended for them.
const WINDOW: Duration = Duration::from_secs(5);

/// What was answered in a slice of time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Slice {
    /// Requests that were answered.
    pub(crate) requests: u64,
    /// Their round trips' sum.
    pub(crate) waited: Duration,
    /// Mean number of requests in flight, where it is known.
    pub(crate) in_flight: Option<f64>,
    /// Age of the oldest request that is still in flight, where it is known.
    pub(crate) oldest: Option<Duration>,
}

/// Everything that was answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Total {
    /// Requests.
    pub(crate) requests: u64,
    /// Half of them took no longer.
    pub(crate) p50: Option<Duration>,
    /// Nineteen of twenty took no longer.
    pub(crate) p95: Option<Duration>,
    /// The largest number of requests in flight.
    pub(crate) most: usize,
}

/// The slices of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    /// Each with its end, since the run began, and the bytes moved by then.
    slices: Vec<(Duration, u64, Slice)>,
}

impl Timeline {
    /// Adds what happened since the last slice, until `at`; `bytes` were moved in all by then.
    pub(crate) fn push(&mut self, at: Duration, bytes: u64, slice: Slice) {
        self.slices.push((at, bytes, slice));
    }

    /// The kill rule: the mean round trip of the last five seconds, where it is above the ceiling.
    /// Where nothing was answered in five seconds, the age of the oldest request stands for it.
    pub(crate) fn verdict(&self, ceiling: Duration) -> Option<Duration> {
        let (now, _, last) = self.slices.last()?;
        let since = now.checked_sub(WINDOW)?;
        let window = self.slices.iter().rev().take_while(|(at, ..)| *at > since);
        let mean = mean(window.map(|(.., slice)| slice)).or(last.oldest)?;
        (mean > ceiling).then_some(mean)
    }

    /// Round trips over the whole run; quantiles are added by those who know them.
    pub(crate) fn latency(&self, source: Source) -> Option<Latency> {
        let all = mean(self.slices.iter().map(|(.., slice)| slice))?;
        let mut worst = None;
        for (last, (end, ..)) in self.slices.iter().enumerate() {
            let Some(since) = end.checked_sub(WINDOW) else { continue };
            let first = self.slices[..=last].partition_point(|(at, ..)| *at <= since);
            worst = worst.max(mean(self.slices[first..=last].iter().map(|(.., slice)| slice)));
        }
        Some(Latency {
            source,
            mean_ms: milliseconds(all),
            worst_ms: milliseconds(worst.unwrap_or(all)),
            p50_ms: None,
            p95_ms: None,
        })
    }

    /// Mean number of requests in flight over the whole run, where it is known throughout.
    pub(crate) fn in_flight(&self) -> Option<f64> {
        let mut begin = Duration::ZERO;
        let mut area = 0.0;
        for (end, _, slice) in &self.slices {
            area += slice.in_flight? * end.saturating_sub(begin).as_secs_f64();
            begin = *end;
        }
        (!begin.is_zero()).then(|| area / begin.as_secs_f64())
    }

    /// The slices as they are kept.
    pub(crate) fn series(&self) -> Vec<Second> {
        let mut before = (Duration::ZERO, 0);
        let second = |(end, bytes, slice): &(Duration, u64, Slice)| {
            let elapsed = end.saturating_sub(before.0).as_secs_f64().max(1e-9);
            #[expect(clippy::cast_precision_loss, reason = "a rate is for reading")]
            let megabytes = bytes.saturating_sub(before.1) as f64 / 1e6;
            before = (*end, *bytes);
            Second {
                at: end.as_secs_f64(),
                in_flight: slice.in_flight,
                rtt_ms: mean([slice]).map(milliseconds),
                requests: slice.requests,
                mb_s: megabytes / elapsed,
            }
        };
        self.slices.iter().map(second).collect()
    }
}

/// The mean round trip over slices, by requests.
fn mean<'a>(slices: impl IntoIterator<Item = &'a Slice>) -> Option<Duration> {
    let sum = |(requests, waited): (u64, Duration), slice: &Slice| {
        (requests + slice.requests, waited.saturating_add(slice.waited))
    };
    let (requests, waited) = slices.into_iter().fold((0, Duration::ZERO), sum);
    (requests > 0).then(|| waited.div_f64(precise(requests)))
}

#[expect(clippy::cast_precision_loss, reason = "requests are far below 2^53")]
fn precise(requests: u64) -> f64 {
    requests as f64
}

/// As the records have it.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const CEILING: Duration = Duration::from_millis(100);

    fn answered(requests: u64, each_ms: u64) -> Slice {
        let waited = Duration::from_millis(each_ms * requests);
        Slice { requests, waited, in_flight: Some(2.0), oldest: None }
    }

    /// A timeline of whole seconds.
    fn timeline(slices: impl IntoIterator<Item = Slice>) -> Timeline {
        let mut timeline = Timeline::default();
        for (second, slice) in (1..).zip(slices) {
            timeline.push(Duration::from_secs(second), second * 1_000_000, slice);
        }
        timeline
    }

    #[test]
    fn the_rule_waits_for_five_seconds() {
        assert_eq!(timeline([answered(10, 500); 4]).verdict(CEILING), None);
        let verdict = timeline([answered(10, 500); 5]).verdict(CEILING);
        assert_eq!(verdict, Some(Duration::from_millis(500)));
    }

    #[test]
    fn the_rule_is_about_the_mean_of_all_requests() {
        let mut slices = vec![answered(10, 20); 9];
        slices.push(answered(10, 400));
        // (40 * 20 + 10 * 400) / 50 = 96 ms.
        assert_eq!(timeline(slices.clone()).verdict(CEILING), None);
        slices.push(answered(10, 60));
        // (30 * 20 + 10 * 400 + 10 * 60) / 50 = 104 ms.
        assert_eq!(timeline(slices.clone()).verdict(CEILING), Some(Duration::from_millis(104)));
        slices.extend([answered(10, 20); 5]);
        assert_eq!(timeline(slices).verdict(CEILING), None, "it has passed");
        // Exactly the ceiling is no reason.
        assert_eq!(timeline([answered(3, 100); 8]).verdict(CEILING), None);
    }

    #[test]
    fn storage_that_answers_nothing_ends_a_run() {
        let stalled =
            |seconds| Slice { oldest: Some(Duration::from_secs(seconds)), ..Slice::default() };
        let slices = [answered(10, 20)].into_iter().chain((1..=5).map(stalled));
        assert_eq!(timeline(slices).verdict(CEILING), Some(Duration::from_secs(5)));
        assert_eq!(timeline([Slice::default(); 9]).verdict(CEILING), None, "nothing was asked");
    }

    #[test]
    fn means_and_the_worst_five_seconds() {
        let mut slices = vec![answered(10, 10); 10];
        slices[6] = answered(10, 60);
        let latency = timeline(slices).latency(Source::OwnTiming).unwrap();
        assert!((latency.mean_ms - 15.0).abs() < 1e-6, "{latency:?}");
        assert!((latency.worst_ms - 20.0).abs() < 1e-6, "{latency:?}");
        let short = timeline([answered(1, 30); 2]).latency(Source::OwnTiming).unwrap();
        assert!((short.worst_ms - 30.0).abs() < 1e-6, "{short:?}");
        assert_eq!(timeline([Slice::default()]).latency(Source::OwnTiming), None);
    }

    #[test]
    fn seconds_have_rates_of_their_own() {
        let mut timeline = timeline([answered(4, 25), Slice::default()]);
        let half = Duration::from_millis(2_500);
        timeline.push(half, 3_000_000, Slice { in_flight: Some(4.0), ..Slice::default() });
        let series = timeline.series();
        let rates: Vec<f64> = series.iter().map(|second| second.mb_s).collect();
        assert_eq!(rates, [1.0, 1.0, 2.0]);
        assert_eq!((series[0].requests, series[0].rtt_ms), (4, Some(25.0)));
        assert_eq!(series[1].rtt_ms, None);
        assert_eq!(timeline.in_flight(), None, "one second does not tell");
    }
}
