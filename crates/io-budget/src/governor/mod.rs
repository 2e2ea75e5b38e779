//! The limit on reads in flight, steered so that the median round trip stays at twice that of the
//! idle storage: others who use it then wait little longer than without us. Pure arithmetic on
//! samples: no clock, thread or request here.

mod idle;
mod probe;
mod window;

#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::time::Duration;

pub(crate) use idle::Idle;

use idle::History;
use probe::Schedule;
use window::{Recent, Round, Window};

/// The round trip to keep, in idle round trips.
const TARGET: f64 = 2.0;
/// Stretches that miss the target by less than this share change nothing.
const HOLD: f64 = 0.15;
/// Growth of the rate that makes another doubling worth while.
const WORTH_DOUBLING: f64 = 1.25;
/// Without an answer for this long nothing reads, and a probe would measure nothing.
const PAUSE: Duration = Duration::from_secs(1);
/// The trace is thinned out when it gets this long.
const MOST_STEPS: usize = 256;

/// A finished request as the governor sees it. Answers of a cache are none of its business.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// When it was answered, since any fixed origin.
    pub(crate) at: Duration,
    /// How long the answer took.
    pub(crate) rtt: Duration,
    /// Bytes moved.
    pub(crate) bytes: u64,
    /// Requests of its lane in flight when it was issued, itself included.
    pub(crate) in_flight: usize,
    /// Whether no other request of ours, read or write, was in flight meanwhile.
    pub(crate) alone: bool,
}

/// Between which values the limit moves, and where it begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The least limit, save that probes go one by one.
    pub(crate) least: NonZeroUsize,
    /// The limit until the storage is known.
    pub(crate) start: NonZeroUsize,
    /// The largest limit.
    pub(crate) most: NonZeroUsize,
}

impl Bounds {
    fn clamp(&self, limit: f64) -> f64 {
        limit.min(float(self.most)).max(float(self.least))
    }
}

/// What a round came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    /// When the round ended, since the origin of the samples.
    pub(crate) at: Duration,
    /// The limit from then on.
    pub(crate) limit: usize,
    /// Median of round trip over idle round trip.
    pub(crate) stretch: f64,
}

/// Keeps the median round trip near a target.
///
/// The idle round trip is measured by probes: now and then a dozen reads are sent one by one. At
/// the end of a round of answers the limit shrinks in proportion if they were stretched beyond
/// the target, and grows if they were well below it and the limit was used up.
#[derive(Debug)]
pub(crate) struct DelayTarget {
    bounds: Bounds,
    ceiling: Duration,
    limit: f64,
    /// The rate before the last doubling, while the limit still doubles.
    startup: Option<f64>,
    schedule: Schedule,
    history: History,
    idle: Option<Idle>,
    window: Window,
    recent: Recent,
    trips: u64,
    trace: Trace,
    /// Time of the first sample or tick.
    origin: Option<Duration>,
    last_sample: Option<Duration>,
}

impl DelayTarget {
    /// A governor that knows the `stored` idle round trip, or begins with a probe. A mean round
    /// trip of five seconds above `ceiling` takes the limit to its least. `seed` scatters the
    /// times of probes.
    pub(crate) fn new(bounds: Bounds, ceiling: Duration, stored: Option<Idle>, seed: u64) -> Self {
        Self {
            bounds,
            ceiling,
            limit: bounds.clamp(float(bounds.start)),
            startup: Some(0.0),
            schedule: Schedule::new(stored.is_some(), seed),
            history: History::new(stored),
            idle: stored,
            window: Window::default(),
            recent: Recent::default(),
            trips: 0,
            trace: Trace::default(),
            origin: None,
            last_sample: None,
        }
    }

    /// Takes a finished request into account.
    pub(crate) fn sample(&mut self, sample: Sample) {
        let now = self.since_origin(sample.at);
        self.last_sample = Some(now);
        self.guard(now, sample.rtt);
        if let Some(probe) = self.schedule.probe() {
            if sample.alone {
                probe.add(sample.bytes, sample.rtt);
            }
            self.end_probe(now);
            return;
        }
        if let Some(stretch) = self.stretch(&sample)
            && let Some(round) = self.window.add(now, stretch, sample.in_flight)
        {
            self.adjust(round);
            let Round { stretch, .. } = round;
            self.trace.push(Step { at: sample.at, limit: self.whole_limit(), stretch });
        }
        self.schedule.begin_if_due(now);
    }

    /// Begins and ends probes whose time has come. To be called several times a second, since
    /// there may be no samples.
    pub(crate) fn tick(&mut self, now: Duration) {
        let now = self.since_origin(now);
        if self.schedule.is_probing() {
            self.end_probe(now);
        } else if self.last_sample.is_some_and(|last| now.saturating_sub(last) < PAUSE) {
            self.schedule.begin_if_due(now);
        }
    }

    /// How many requests may be in flight.
    pub(crate) fn limit(&self) -> usize {
        if self.is_probing() { 1 } else { self.whole_limit() }
    }

    /// Whether the idle storage is being measured: writes are to wait meanwhile.
    pub(crate) fn is_probing(&self) -> bool {
        self.schedule.is_probing()
    }

    /// The idle round trip as known by now, to be stored for later runs.
    pub(crate) fn idle(&self) -> Option<Idle> {
        self.idle
    }

    /// How often the limit was taken to its least because of the ceiling.
    pub(crate) fn trips(&self) -> u64 {
        self.trips
    }

    /// The rounds so far, thinned out evenly when there are many.
    pub(crate) fn trace(&self) -> &[Step] {
        &self.trace.steps
    }

    fn since_origin(&mut self, at: Duration) -> Duration {
        at.saturating_sub(*self.origin.get_or_insert(at))
    }

    fn end_probe(&mut self, now: Duration) {
        if let Some(probe) = self.schedule.end_if_done(now) {
            self.history.record(&probe);
            self.idle = self.history.idle();
        }
        if !self.schedule.is_probing() {
            self.window.restart(now);
        }
    }

    /// Round trip over idle round trip. An idle round trip so long that the target would lie
    /// above the ceiling is cut, so that the limit settles below the ceiling.
    fn stretch(&self, sample: &Sample) -> Option<f64> {
        let longest = self.ceiling.as_secs_f64() / (TARGET * (1.0 + HOLD));
        let idle = self.idle?.of(sample.bytes).as_secs_f64().min(longest.max(1e-6));
        Some(sample.rtt.as_secs_f64() / idle)
    }

    fn guard(&mut self, now: Duration, rtt: Duration) {
        let mean = self.recent.add(now, rtt);
        let least = self.bounds.clamp(0.0);
        if mean.is_some_and(|mean| mean > self.ceiling) && self.limit > least {
            self.limit = least;
            self.startup = None;
            self.trips += 1;
            self.recent.clear();
            self.window.restart(now);
        }
    }

    fn adjust(&mut self, round: Round) {
        let is_full = round.in_flight >= self.whole_limit();
        if round.stretch > TARGET * (1.0 + HOLD) {
            self.startup = None;
            // The round trip is about proportional to the limit: one step leads to the target.
            self.limit *= (TARGET / round.stretch).max(0.5);
        } else if round.stretch < TARGET * (1.0 - HOLD) && is_full {
            match self.startup {
                Some(before) if round.rate > before * WORTH_DOUBLING => {
                    self.startup = Some(round.rate);
                    self.limit *= 2.0;
                }
                _ => {
                    self.startup = None;
                    // The same step upwards, but no leap: near the target a fraction is enough.
                    self.limit += (self.limit * (TARGET / round.stretch - 1.0)).min(1.0);
                }
            }
        }
        self.limit = self.bounds.clamp(self.limit);
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a limit is at least one, and is to be rounded down"
    )]
    fn whole_limit(&self) -> usize {
        self.limit as usize
    }
}

/// Rounds, of which every second is dropped when they get too many.
#[derive(Debug)]
struct Trace {
    steps: Vec<Step>,
    /// Rounds seen, and of how many one is kept.
    seen: u64,
    stride: u64,
}

impl Default for Trace {
    fn default() -> Self {
        Self { steps: Vec::new(), seen: 0, stride: 1 }
    }
}

impl Trace {
    fn push(&mut self, step: Step) {
        if self.seen.is_multiple_of(self.stride) {
            if self.steps.len() >= MOST_STEPS {
                let mut keep = false;
                self.steps.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride *= 2;
            }
            self.steps.push(step);
        }
        self.seen += 1;
    }
}

#[expect(clippy::cast_precision_loss, reason = "limits are far below 2^53")]
fn float(limit: NonZeroUsize) -> f64 {
    limit.get() as f64
}

/// The middle one of `values`, in no order; the upper of two.
fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}
