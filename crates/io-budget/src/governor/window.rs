//! Answers gathered into rounds, and the mean round trip of the last seconds. Judges neither.

use std::collections::VecDeque;
use std::time::Duration;

use super::median;

/// Samples of which one round keeps the stretch; later ones are only counted.
const MOST_STRETCHES: usize = 4096;
/// The mean of the last seconds is kept in slots of this length,
const SLOT: Duration = Duration::from_millis(500);
/// and reaches over this many, five seconds.
const SLOTS: u128 = 10;

/// Whether samples tell enough: many within a short time, or some from storage so slow that
/// many would take too long.
fn is_enough(samples: usize, span: Duration) -> bool {
    let quick = samples >= 16 && span >= Duration::from_millis(500);
    quick || (samples >= 4 && span >= Duration::from_secs(2))
}

/// What was seen in a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Round {
    /// Median stretch.
    pub(super) stretch: f64,
    /// Answers a second.
    pub(super) rate: f64,
    /// The largest number of requests in flight.
    pub(super) in_flight: usize,
}

/// The samples of the current round.
#[derive(Debug, Default)]
pub(super) struct Window {
    start: Duration,
    samples: usize,
    stretches: Vec<f64>,
    in_flight: usize,
}

impl Window {
    /// Begins a round at `now`, without what was gathered.
    pub(super) fn restart(&mut self, now: Duration) {
        *self = Self { start: now, ..Self::default() };
    }

    /// Adds a sample answered at `now`; the round, when this one ends it.
    pub(super) fn add(&mut self, now: Duration, stretch: f64, in_flight: usize) -> Option<Round> {
        self.samples += 1;
        self.in_flight = self.in_flight.max(in_flight);
        if self.stretches.len() < MOST_STRETCHES {
            self.stretches.push(stretch);
        }
        let span = now.saturating_sub(self.start);
        if !is_enough(self.samples, span) {
            return None;
        }
        let stretch = median(&mut self.stretches)?;
        #[expect(clippy::cast_precision_loss, reason = "a count of requests in a short time")]
        let rate = self.samples as f64 / span.as_secs_f64();
        let round = Round { stretch, rate, in_flight: self.in_flight };
        self.restart(now);
        Some(round)
    }
}

/// The round trips of the last five seconds.
#[derive(Debug, Default)]
pub(super) struct Recent {
    slots: VecDeque<Slot>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    number: u128,
    samples: usize,
    total: Duration,
}

impl Recent {
    /// Adds a round trip that ended at `now`; the mean, when there are enough.
    pub(super) fn add(&mut self, now: Duration, rtt: Duration) -> Option<Duration> {
        let number = now.as_nanos() / SLOT.as_nanos();
        match self.slots.back_mut() {
            // Answers may be told a little out of order.
            Some(slot) if slot.number >= number => {
                slot.samples += 1;
                slot.total = slot.total.saturating_add(rtt);
            }
            _ => self.slots.push_back(Slot { number, samples: 1, total: rtt }),
        }
        self.slots.retain(|slot| slot.number + SLOTS > number);
        let samples: usize = self.slots.iter().map(|slot| slot.samples).sum();
        let total = self.slots.iter().fold(Duration::ZERO, |sum, s| sum.saturating_add(s.total));
        let oldest = self.slots.front()?.number.saturating_mul(SLOT.as_nanos());
        let span = now.as_nanos().saturating_sub(oldest);
        let span = Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX));
        if !is_enough(samples, span) {
            return None;
        }
        total.checked_div(u32::try_from(samples).unwrap_or(u32::MAX))
    }

    /// Forgets what was added.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_round_needs_half_a_second_and_sixteen_samples() {
        let mut window = Window::default();
        for number in 1..=49_u32 {
            let round = window.add(ms(10) * number, f64::from(number), 3);
            assert_eq!(round, None, "{number}");
        }
        let round = window.add(ms(500), 50.0, 2).unwrap();
        assert_eq!(round, Round { stretch: 26.0, rate: 100.0, in_flight: 3 });
        for number in 1..=15 {
            assert_eq!(window.add(ms(500 + 100 * number), 1.0, 1), None, "{number}");
        }
        let round = window.add(ms(2_100), 1.0, 1).unwrap();
        assert!((round.rate - 10.0).abs() < 1e-9, "{round:?}");
    }

    #[test]
    fn slow_storage_has_a_round_every_two_seconds() {
        let mut window = Window::default();
        let rounds = (1..=20).filter(|number| window.add(ms(500 * number), 1.0, 1).is_some());
        assert_eq!(rounds.count(), 5);
    }

    #[test]
    fn the_mean_reaches_back_five_seconds() {
        let mut recent = Recent::default();
        let means: Vec<_> = (0..100)
            .map(|number| recent.add(ms(100 * number), ms(if number < 50 { 200 } else { 20 })))
            .collect();
        assert_eq!(means[14], None);
        assert_eq!(means[49], Some(ms(200)));
        assert_eq!(means[74], Some(ms(110)));
        assert_eq!(means[99], Some(ms(20)));
        recent.clear();
        assert_eq!(recent.add(ms(10_000), ms(20)), None);
    }
}
