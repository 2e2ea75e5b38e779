//! Times the requests of many threads. Which requests there are is decided by those who make them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::timeline::{Slice, Total};
use crate::watch::Requests;

/// Counts requests in flight, round trips and bytes.
#[derive(Debug)]
pub(crate) struct Meter {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// When each request in flight was sent; an empty place belongs to none.
    sent: Vec<Option<Instant>>,
    in_flight: usize,
    most: usize,
    bytes: u64,
    rtts: Vec<Duration>,
    /// Since the last slice: answered requests' number and sum of round trips.
    answered: u64,
    waited: Duration,
    /// Since the last slice: requests in flight times time.
    area: Duration,
    changed: Instant,
    sliced: Instant,
}

/// A request in flight.
#[derive(Debug)]
#[must_use]
pub(crate) struct Sent {
    place: usize,
    at: Instant,
}

impl Meter {
    /// A meter at zero.
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let inner = Inner {
            sent: Vec::new(),
            in_flight: 0,
            most: 0,
            bytes: 0,
            rtts: Vec::new(),
            answered: 0,
            waited: Duration::ZERO,
            area: Duration::ZERO,
            changed: now,
            sliced: now,
        };
        Self { inner: Mutex::new(inner) }
    }

    /// A request is sent.
    pub(crate) fn send(&self) -> Sent {
        let mut inner = self.lock();
        let at = Instant::now();
        inner.advance(at);
        let place = inner.sent.iter().position(Option::is_none).unwrap_or(inner.sent.len());
        if place == inner.sent.len() {
            inner.sent.push(None);
        }
        inner.sent[place] = Some(at);
        inner.in_flight += 1;
        inner.most = inner.most.max(inner.in_flight);
        Sent { place, at }
    }

    /// It was answered with so many bytes; none where it failed, and then its time is not counted.
    pub(crate) fn answer(&self, Sent { place, at }: Sent, bytes: Option<u64>) {
        let mut inner = self.lock();
        let now = Instant::now();
        inner.advance(now);
        inner.sent[place] = None;
        inner.in_flight -= 1;
        if let Some(bytes) = bytes {
            let rtt = now.saturating_duration_since(at);
            inner.bytes += bytes;
            inner.answered += 1;
            inner.waited += rtt;
            inner.rtts.push(rtt);
        }
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requests for Meter {
    fn slice(&self) -> Slice {
        let mut inner = self.lock();
        let now = Instant::now();
        inner.advance(now);
        let elapsed = now.saturating_duration_since(inner.sliced).max(Duration::from_nanos(1));
        let oldest = inner.sent.iter().flatten().min();
        let slice = Slice {
            requests: inner.answered,
            waited: inner.waited,
            in_flight: Some(inner.area.div_duration_f64(elapsed)),
            oldest: oldest.map(|sent| now.saturating_duration_since(*sent)),
        };
        (inner.answered, inner.waited, inner.area) = (0, Duration::ZERO, Duration::ZERO);
        inner.sliced = now;
        slice
    }

    fn total(&self) -> Total {
        let inner = self.lock();
        let mut rtts = inner.rtts.clone();
        rtts.sort_unstable();
        Total {
            requests: rtts.len() as u64,
            p50: quantile(&rtts, 0.5),
            p95: quantile(&rtts, 0.95),
            most: inner.most,
        }
    }
}

impl Inner {
    fn advance(&mut self, now: Instant) {
        let requests = u32::try_from(self.in_flight).unwrap_or(u32::MAX);
        let time = now.saturating_duration_since(self.changed);
        self.area = self.area.saturating_add(time.saturating_mul(requests));
        self.changed = self.changed.max(now);
    }
}

/// The round trip that a share of the requests does not exceed; none without requests. They are in
/// order of length.
fn quantile(rtts: &[Duration], share: f64) -> Option<Duration> {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank, rounded up"
    )]
    let rank = (rtts.len() as f64 * share).ceil() as usize;
    rtts.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    #[test]
    fn requests_in_flight_are_counted_over_time() {
        let meter = Meter::new();
        let (one, two) = (meter.send(), meter.send());
        sleep(Duration::from_millis(40));
        meter.answer(one, Some(10));
        meter.answer(two, None);
        sleep(Duration::from_millis(40));
        let slice = meter.slice();
        assert_eq!((slice.requests, meter.bytes(), slice.oldest), (1, 10, None));
        assert!(slice.waited >= Duration::from_millis(40), "{slice:?}");
        let in_flight = slice.in_flight.unwrap();
        assert!((0.3..2.0).contains(&in_flight), "{slice:?}");
        assert_eq!(meter.total().most, 2);
        assert_eq!(meter.slice().requests, 0, "a slice is told once");
    }

    #[test]
    fn a_request_without_an_answer_shows_its_age() {
        let meter = Meter::new();
        let sent = meter.send();
        sleep(Duration::from_millis(10));
        let slice = meter.slice();
        assert_eq!(slice.requests, 0);
        assert!(slice.oldest.unwrap() >= Duration::from_millis(10));
        meter.answer(sent, Some(1));
        assert_eq!(meter.slice().oldest, None);
    }

    #[test]
    fn quantiles_are_round_trips_that_happened() {
        let rtts: Vec<_> = (1..=20).map(Duration::from_millis).collect();
        assert_eq!(quantile(&rtts, 0.5), Some(Duration::from_millis(10)));
        assert_eq!(quantile(&rtts, 0.95), Some(Duration::from_millis(19)));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
