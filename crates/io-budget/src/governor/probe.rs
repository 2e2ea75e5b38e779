//! When the storage is measured idle: the times of probes, and their share of all time.

use std::time::Duration;

use super::idle::Probe;

/// Time between probes, before the jitter that keeps hosts from probing together,
const EVERY: Duration = Duration::from_secs(30);
/// which is this share of it, up or down.
const JITTER: f64 = 0.15;
/// Reads that end a probe.
const READS: usize = 12;
/// Time that ends a probe.
const LONGEST: Duration = Duration::from_secs(1);
/// Wait after a probe that did not count; doubled each time, up to [`EVERY`].
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// Probes may take this share of the time, once an idle value is known.
const SHARE: f64 = 0.03;
/// A probe begins only if it may take this long: [`SHARE`] of the shortest wait.
const LEAST_CREDIT: Duration = Duration::from_millis(750);

/// Decides when a probe begins and ends.
#[derive(Debug)]
pub(super) struct Schedule {
    state: State,
    retry: Duration,
    /// Since when an idle value is known.
    known_since: Option<Duration>,
    /// Time spent in probes since then.
    spent: Duration,
    random: u64,
}

#[derive(Debug)]
enum State {
    Waiting { due: Duration },
    Probing { began: Duration, longest: Duration, probe: Probe },
}

impl Schedule {
    /// A schedule that begins at time zero: with a probe, unless an idle value is known.
    pub(super) fn new(is_known: bool, seed: u64) -> Self {
        let mut schedule = Self {
            state: State::Probing {
                began: Duration::ZERO,
                longest: LONGEST,
                probe: Probe::default(),
            },
            retry: FIRST_RETRY,
            known_since: is_known.then_some(Duration::ZERO),
            spent: Duration::ZERO,
            random: seed,
        };
        if is_known {
            schedule.state = State::Waiting { due: schedule.jittered() };
        }
        schedule
    }

    /// The running probe.
    pub(super) fn probe(&mut self) -> Option<&mut Probe> {
        match &mut self.state {
            State::Waiting { .. } => None,
            State::Probing { probe, .. } => Some(probe),
        }
    }

    /// Whether a probe runs.
    pub(super) fn is_probing(&self) -> bool {
        matches!(self.state, State::Probing { .. })
    }

    /// Begins a probe if one is due at `now`.
    pub(super) fn begin_if_due(&mut self, now: Duration) {
        let State::Waiting { due } = self.state else { return };
        let longest = self.credit(now).min(LONGEST);
        if now >= due && longest >= LEAST_CREDIT {
            self.state = State::Probing { began: now, longest, probe: Probe::default() };
        }
    }

    /// Ends the running probe if it has its reads or its time is over; the probe, if it counts.
    pub(super) fn end_if_done(&mut self, now: Duration) -> Option<Probe> {
        let State::Probing { began, longest, probe } = &mut self.state else { return None };
        let took = now.saturating_sub(*began);
        if probe.len() < READS && took < *longest {
            return None;
        }
        let probe = std::mem::take(probe);
        if self.known_since.is_some() {
            self.spent = self.spent.saturating_add(took);
        }
        let wait = if probe.counts() {
            self.known_since.get_or_insert(now);
            self.retry = FIRST_RETRY;
            self.jittered()
        } else {
            let wait = self.retry;
            self.retry = (2 * wait).min(EVERY);
            wait
        };
        self.state = State::Waiting { due: now.saturating_add(wait) };
        probe.counts().then_some(probe)
    }

    /// How long a probe that begins at `now` may take.
    fn credit(&self, now: Duration) -> Duration {
        let Some(since) = self.known_since else { return LONGEST };
        now.saturating_sub(since).mul_f64(SHARE).saturating_sub(self.spent)
    }

    /// The wait until the next probe.
    fn jittered(&mut self) -> Duration {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        let [high, ..] = bits.to_be_bytes();
        EVERY.mul_f64(1.0 + JITTER * (f64::from(high) / 127.5 - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_probe_that_does_not_count_is_tried_again_ever_later() {
        let mut schedule = Schedule::new(false, 1);
        let mut began = vec![Duration::ZERO];
        for now in (0..=100_000).map(ms) {
            assert!(schedule.end_if_done(now).is_none());
            let probed = schedule.is_probing();
            schedule.begin_if_due(now);
            if !probed && schedule.is_probing() {
                began.push(now);
            }
        }
        assert_eq!(began, [0, 6_000, 17_000, 38_000, 69_000, 100_000].map(ms));
    }

    #[test]
    fn a_probe_ends_with_its_twelfth_read_and_the_next_is_half_a_minute_away() {
        for seed in 0..20 {
            let mut schedule = Schedule::new(false, seed);
            for _ in 0..READS {
                assert!(schedule.end_if_done(ms(200)).is_none());
                schedule.probe().unwrap().add(1 << 20, ms(20));
            }
            assert_eq!(schedule.end_if_done(ms(300)).unwrap().len(), READS);
            schedule.begin_if_due(ms(25_700));
            assert!(!schedule.is_probing());
            schedule.begin_if_due(ms(34_900));
            assert!(schedule.is_probing());
        }
    }

    #[test]
    fn waits_differ_by_seed() {
        let mut waits: Vec<_> = (0..20).map(|seed| Schedule::new(true, seed).jittered()).collect();
        waits.sort();
        assert!(waits[0] < ms(27_500) && waits[19] > ms(32_500), "{waits:?}");
        assert!(waits[0] >= ms(25_500) && waits[19] <= ms(34_500), "{waits:?}");
    }
}
