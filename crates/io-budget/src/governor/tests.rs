//! The governor on a device in virtual time: equal seeds give equal runs.

#![expect(clippy::cast_precision_loss, reason = "counts and limits of a test are small")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;
use slowfs::model::{Config, Device, Kind, Request, SplitMix};

use super::{Bounds, DelayTarget, Idle, MOST_STEPS, Sample};

const MIB: u64 = 1 << 20;
const CEILING: Duration = Duration::from_millis(100);
const SEEDS: Range<u64> = 1..5;

fn seconds(count: f64) -> Duration {
    Duration::from_secs_f64(count)
}

fn bounds([least, start, most]: [usize; 3]) -> Bounds {
    let [least, start, most] = [least, start, most].map(|limit| NonZeroUsize::new(limit).unwrap());
    Bounds { least, start, most }
}

/// A governor for disks behind a network.
fn governor(stored: Option<Idle>, seed: u64) -> Policy {
    Policy::Governed(Box::new(DelayTarget::new(bounds([1, 2, 8]), CEILING, stored, seed)))
}

enum Policy {
    Fixed(usize),
    Governed(Box<DelayTarget>),
}

/// Who uses the device, and for how long, in seconds.
#[derive(Clone)]
struct Scenario {
    device: Config,
    length: f64,
    /// Threads of each host; each reads 1 MiB, works on it for about 20 ms, and reads on.
    workers: usize,
    /// Share of reads that a cache answers.
    hits: f64,
    /// When four others read 64 KiB blocks.
    others: Range<f64>,
}

/// Disks behind a network, with noise and stalls.
fn disks(seed: u64) -> Scenario {
    let stall = (0.005, Duration::from_millis(200));
    let device = Config { jitter: 0.3, stall, seed, ..Config::hdd_nfs() };
    Scenario { device, length: 180.0, workers: 32, hits: 0.0, others: 0.0..0.0 }
}

/// A read that the device answered.
struct Read {
    at: f64,
    rtt: f64,
    /// The limit of its host when it was answered.
    limit: usize,
}

struct Outcome {
    /// The reads of each host.
    hosts: Vec<Vec<Read>>,
    others: Vec<Read>,
    policies: Vec<Policy>,
}

impl Outcome {
    /// MB/s of the first host within a time.
    fn rate(&self, within: Range<f64>) -> f64 {
        let reads = self.hosts[0].iter().filter(|read| within.contains(&read.at)).count();
        (reads as u64 * MIB) as f64 / 1e6 / (within.end - within.start)
    }

    fn governor(&self) -> &DelayTarget {
        match &self.policies[0] {
            Policy::Governed(governor) => governor,
            Policy::Fixed(limit) => panic!("the limit is fixed at {limit}"),
        }
    }
}

/// Mean of a property of the reads answered from some second on.
fn mean(reads: &[Read], from: f64, property: impl Fn(&Read) -> f64) -> f64 {
    let values: Vec<f64> = reads.iter().filter(|read| read.at >= from).map(property).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

struct Host {
    policy: Policy,
    /// Workers that want to read.
    waiting: VecDeque<usize>,
    offsets: Vec<u64>,
    in_flight: usize,
    issued: u64,
    reads: Vec<Read>,
}

impl Host {
    fn new(policy: Policy, workers: usize) -> Self {
        let waiting = (0..workers).collect();
        let offsets = vec![0; workers];
        Self { policy, waiting, offsets, in_flight: 0, issued: 0, reads: Vec::new() }
    }

    fn limit(&self) -> usize {
        match &self.policy {
            Policy::Fixed(limit) => *limit,
            Policy::Governed(governor) => governor.limit(),
        }
    }

    fn answered(&mut self, now: Duration, pending: Pending) {
        self.in_flight -= 1;
        if pending.hit {
            return;
        }
        let Pending { asked, in_flight, number, .. } = pending;
        let (rtt, alone) = (now.saturating_sub(asked), in_flight == 1 && number == self.issued);
        if let Policy::Governed(governor) = &mut self.policy {
            governor.sample(Sample { at: now, rtt, bytes: MIB, in_flight, alone });
        }
        let (at, rtt) = (now.as_secs_f64(), rtt.as_secs_f64());
        self.reads.push(Read { at, rtt, limit: self.limit() });
    }
}

/// A read under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    asked: Duration,
    in_flight: usize,
    /// Reads that its host had issued by then.
    number: u64,
    hit: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wants { host: usize, worker: usize },
    Answered { host: usize, worker: usize, pending: Pending },
    OtherAsks { user: u64 },
    Tick,
}

fn simulate(scenario: &Scenario, policies: Vec<Policy>) -> Outcome {
    let mut device = Device::new(scenario.device.clone());
    let mut random = SplitMix(scenario.device.seed.wrapping_add(41));
    let mut hosts: Vec<Host> =
        policies.into_iter().map(|policy| Host::new(policy, scenario.workers)).collect();
    let mut others = Vec::new();
    let ask = |user| Reverse((seconds(scenario.others.start), Event::OtherAsks { user }));
    let mut events: BinaryHeap<_> = (0..4).map(ask).collect();
    events.push(Reverse((Duration::ZERO, Event::Tick)));
    while let Some(Reverse((now, event))) = events.pop() {
        if now.as_secs_f64() > scenario.length {
            break;
        }
        match event {
            Event::Wants { host, worker } => hosts[host].waiting.push_back(worker),
            Event::Answered { host, worker, pending } => {
                hosts[host].answered(now, pending);
                let work = seconds(0.02 * random.factor(0.3));
                events.push(Reverse((now + work, Event::Wants { host, worker })));
            }
            Event::OtherAsks { user } if scenario.others.contains(&now.as_secs_f64()) => {
                let offset = random.next_u64() >> 20;
                let (kind, file, bytes) = (Kind::Read, u64::MAX - user, 64 << 10);
                let reply = device.admit(now, &Request { kind, file, offset, bytes }).reply;
                let (at, rtt) = (now.as_secs_f64(), reply.saturating_sub(now).as_secs_f64());
                others.push(Read { at, rtt, limit: 1 });
                let think = seconds(0.05 * random.factor(0.5));
                events.push(Reverse((reply + think, Event::OtherAsks { user })));
            }
            Event::OtherAsks { .. } => {}
            Event::Tick => {
                for host in &mut hosts {
                    if let Policy::Governed(governor) = &mut host.policy {
                        governor.tick(now);
                    }
                }
                events.push(Reverse((now + Duration::from_millis(100), Event::Tick)));
            }
        }
        for (number, host) in hosts.iter_mut().enumerate() {
            while host.in_flight < host.limit() {
                let Some(worker) = host.waiting.pop_front() else { break };
                host.in_flight += 1;
                host.issued += 1;
                let hit = random.uniform() < scenario.hits;
                let reply = if hit {
                    now + Duration::from_micros(60)
                } else {
                    let next = &mut host.offsets[worker];
                    let offset = *next;
                    *next += MIB;
                    let (kind, file) = (Kind::Read, (number * 1_000 + worker) as u64);
                    device.admit(now, &Request { kind, file, offset, bytes: MIB }).reply
                };
                let (in_flight, issued) = (host.in_flight, host.issued);
                let pending = Pending { asked: now, in_flight, number: issued, hit };
                events.push(Reverse((reply, Event::Answered { host: number, worker, pending })));
            }
        }
    }
    let (hosts, policies) = hosts.into_iter().map(|host| (host.reads, host.policy)).unzip();
    Outcome { hosts, others, policies }
}

/// The idle round pending as an earlier run alone on the device left it.
fn stored(seed: u64) -> Option<Idle> {
    let earlier =
        simulate(&Scenario { length: 100.0, ..disks(seed + 100) }, vec![governor(None, seed)]);
    earlier.governor().idle()
}

#[test]
fn alone_it_has_nearly_all_the_throughput_at_short_round_trips() {
    for seed in SEEDS {
        let outcome = simulate(&disks(seed), vec![governor(None, seed)]);
        let fixed = simulate(&disks(seed), vec![Policy::Fixed(8)]);
        let idle = mean(&simulate(&disks(seed), vec![Policy::Fixed(1)]).hosts[0], 0.0, |r| r.rtt);
        let share = outcome.rate(0.0..180.0) / fixed.rate(0.0..180.0);
        let stretch = mean(&outcome.hosts[0], 5.0, |read| read.rtt) / idle;
        assert!(share >= 0.95, "{share}");
        assert!(stretch <= 2.5, "{stretch}");
    }
}

#[test]
fn beside_four_users_it_yields_and_recovers_when_they_stop() {
    for seed in SEEDS {
        let scenario = Scenario { others: 60.0..120.0, ..disks(seed) };
        let outcome = simulate(&scenario, vec![governor(None, seed)]);
        let without = simulate(&scenario, vec![Policy::Fixed(0)]);
        let theirs = mean(&outcome.others, 0.0, |r| r.rtt) / mean(&without.others, 0.0, |r| r.rtt);
        let fixed = simulate(&scenario, vec![Policy::Fixed(8)]);
        let again = outcome.rate(155.0..180.0) / fixed.rate(155.0..180.0);
        assert!(theirs <= 2.7, "{theirs}");
        assert!(again >= 0.95, "{again}");
    }
}

#[test]
fn an_object_store_is_used_widely_within_seconds() {
    for seed in [1, 2] {
        let device = Config { seed, ..Config::object_store() };
        let scenario = Scenario { device, workers: 64, length: 60.0, ..disks(seed) };
        let wide = DelayTarget::new(bounds([1, 16, 64]), CEILING, None, seed);
        let outcome = simulate(&scenario, vec![Policy::Governed(Box::new(wide))]);
        let fixed = simulate(&scenario, vec![Policy::Fixed(64)]);
        let share = outcome.rate(0.0..60.0) / fixed.rate(0.0..60.0);
        assert!(share >= 0.9, "{share}");
        assert_eq!(outcome.governor().trips(), 0);
    }
}

#[test]
fn cache_hits_do_not_change_the_limit() {
    let limit = |hits| {
        let run = |seed| simulate(&Scenario { hits, ..disks(seed) }, vec![governor(None, seed)]);
        let limits = SEEDS.map(|seed| mean(&run(seed).hosts[0], 5.0, |read| read.limit as f64));
        limits.sum::<f64>() / SEEDS.count() as f64
    };
    let (none, half) = (limit(0.0), limit(0.5));
    assert!((none - half).abs() < 0.3, "{none} {half}");
}

#[test]
fn a_late_comer_with_a_stored_idle_value_stays_small() {
    for seed in SEEDS {
        let scenario = Scenario { others: 0.0..180.0, ..disks(seed) };
        let outcome = simulate(&scenario, vec![governor(stored(seed), seed)]);
        let limit = outcome.hosts[0].iter().map(|read| read.limit).max();
        assert!(limit <= Some(2), "{limit:?}");
    }
}

#[test]
fn two_hosts_with_stored_idle_values_share_evenly() {
    for seed in SEEDS {
        let hosts = [1, 2].map(|host| governor(stored(seed), 10 * seed + host));
        let outcome = simulate(&disks(seed), hosts.into());
        let [first, second] = [0, 1].map(|host| outcome.hosts[host].len() as f64);
        let share = first / (first + second);
        assert!((0.4..=0.6).contains(&share), "{share}");
    }
}

/// Answers of `rtt(bytes)` one after the other, at the limit and with ticks, for some seconds.
fn feed(governor: &mut DelayTarget, from: f64, to: f64, rtt: impl Fn(u64, usize) -> f64) {
    let mut at = from;
    for number in 0_u64.. {
        let (bytes, limit) =
            (if number.is_multiple_of(2) { 64 << 10 } else { MIB }, governor.limit());
        let rtt = rtt(bytes, limit);
        at += rtt / limit as f64;
        if at > to {
            break;
        }
        let (at, rtt) = (seconds(at), seconds(rtt));
        governor.sample(Sample { at, rtt, bytes, in_flight: limit, alone: limit == 1 });
        governor.tick(at);
    }
}

#[test]
fn reads_of_mixed_sizes_on_an_idle_device_are_not_stretched() {
    let mut governor = DelayTarget::new(bounds([1, 2, 8]), CEILING, None, 1);
    feed(&mut governor, 0.0, 60.0, |bytes, _| 0.012 + bytes as f64 * 15e-9);
    assert!(!governor.trace().is_empty());
    for step in governor.trace() {
        assert!((step.stretch - 1.0).abs() < 0.01, "{step:?}");
    }
    assert_eq!(governor.limit(), 8);
}

#[test]
fn slow_storage_has_rounds_as_well() {
    let mut governor = DelayTarget::new(bounds([1, 1, 8]), Duration::from_secs(1), None, 1);
    feed(&mut governor, 0.0, 10.0, |_, _| 0.1);
    assert!(governor.trace().len() >= 4, "{:?}", governor.trace());
    assert!(governor.limit() >= 4);
}

#[test]
fn a_mean_above_the_ceiling_takes_the_limit_down_at_once_and_growth_resumes() {
    let mut governor = DelayTarget::new(bounds([1, 4, 8]), CEILING, None, 1);
    feed(&mut governor, 0.0, 10.0, |_, _| 0.02);
    assert_eq!((governor.limit(), governor.trips()), (8, 0));
    // One answer of a jammed storage is enough to raise the mean.
    let (at, rtt) = (seconds(10.1), seconds(300.0));
    governor.sample(Sample { at, rtt, bytes: MIB, in_flight: 8, alone: false });
    assert_eq!((governor.limit(), governor.trips()), (1, 1));
    feed(&mut governor, 10.1, 12.5, |_, _| 0.02);
    assert!((4..8).contains(&governor.limit()), "{}", governor.limit());
}

#[test]
fn a_slow_idle_storage_is_kept_below_the_ceiling_without_trips() {
    let mut governor = DelayTarget::new(bounds([1, 1, 8]), CEILING, None, 1);
    feed(&mut governor, 0.0, 100.0, |_, limit| 0.06 * limit as f64);
    assert_eq!((governor.limit(), governor.trips()), (1, 0));
    let mut governor = DelayTarget::new(bounds([1, 8, 8]), CEILING, None, 1);
    feed(&mut governor, 0.0, 100.0, |_, limit| 0.2 * limit as f64);
    assert_eq!((governor.limit(), governor.trips()), (1, 1));
}

#[test]
fn a_probe_without_samples_ends_and_leaves_the_limit_at_its_start() {
    let mut governor = DelayTarget::new(bounds([1, 4, 8]), CEILING, None, 1);
    governor.tick(seconds(50.0));
    assert_eq!((governor.limit(), governor.is_probing()), (1, true));
    governor.tick(seconds(51.0));
    assert_eq!((governor.limit(), governor.is_probing()), (4, false));
    // Nothing is read: there is nothing to measure.
    governor.tick(seconds(100.0));
    assert_eq!((governor.limit(), governor.is_probing()), (4, false));
    let (at, rtt) = (seconds(101.0), seconds(0.02));
    governor.sample(Sample { at, rtt, bytes: MIB, in_flight: 1, alone: true });
    assert!(governor.is_probing());
    assert_eq!((governor.idle(), governor.trace()), (None, &[][..]));
}

#[test]
fn the_trace_of_a_long_run_is_thinned_out_evenly() {
    let mut governor = DelayTarget::new(bounds([1, 2, 8]), CEILING, None, 1);
    feed(&mut governor, 0.0, 1_000.0, |_, _| 0.02);
    let trace = governor.trace();
    assert!((MOST_STEPS / 2..=MOST_STEPS).contains(&trace.len()), "{}", trace.len());
    assert!(trace[0].at < seconds(2.0));
    let gaps = trace.windows(2).map(|pair| pair[1].at.saturating_sub(pair[0].at));
    assert!(gaps.clone().max().unwrap() < seconds(8.0), "{:?}", gaps.max());
}

prop_compose! {
    fn any_sample()(
        steps in 0..200_u64,
        rtt in prop_oneof![0..1_000_000_u64, any::<u64>()],
        bytes in prop_oneof![0..2 * MIB, any::<u64>()],
        in_flight in prop_oneof![0..80_usize, any::<usize>()],
        alone in any::<bool>(),
    ) -> (u64, Sample) {
        let rtt = Duration::from_micros(rtt);
        (steps, Sample { at: Duration::ZERO, rtt, bytes, in_flight, alone })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_samples_keep_the_limit_in_bounds_and_probes_short(
        samples in prop::collection::vec(any_sample(), 1..600),
        limits in [1..20_usize, 1..20_usize, 1..20_usize],
        stored in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let [least, start, more] = limits;
        let most = least + more;
        let stored = if stored { known_idle() } else { None };
        let mut governor = DelayTarget::new(bounds([least, start, most]), CEILING, stored, seed);
        let step = Duration::from_millis(10);
        let (mut now, mut known, mut probing) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for (steps, sample) in samples {
            for _ in 0..steps {
                now += step;
                if governor.idle().is_none() {
                    (known, probing) = (now, Duration::ZERO);
                } else if governor.is_probing() {
                    probing += step;
                }
                governor.tick(now);
            }
            governor.sample(Sample { at: now, ..sample });
            if governor.is_probing() {
                prop_assert_eq!(governor.limit(), 1);
            } else {
                prop_assert!((least..=most).contains(&governor.limit()), "{}", governor.limit());
            }
            prop_assert!(probing <= now.saturating_sub(known).mul_f64(0.03) + step, "{probing:?} of {now:?}");
        }
    }

    #[test]
    fn samples_out_of_order_or_at_the_end_of_time_do_no_harm(
        samples in prop::collection::vec((any::<u64>(), any_sample()), 1..100),
    ) {
        let mut governor = DelayTarget::new(bounds([1, 2, 8]), CEILING, None, 1);
        for (at, (_, sample)) in samples {
            governor.tick(Duration::from_secs(at));
            governor.sample(Sample { at: Duration::from_nanos(at), ..sample });
            prop_assert!((1..=8).contains(&governor.limit()));
        }
        governor.tick(Duration::MAX);
    }
}

/// A known idle round pending of 20 ms.
fn known_idle() -> Option<Idle> {
    let mut governor = DelayTarget::new(bounds([1, 2, 8]), CEILING, None, 1);
    feed(&mut governor, 0.0, 1.0, |_, _| 0.02);
    governor.idle()
}
