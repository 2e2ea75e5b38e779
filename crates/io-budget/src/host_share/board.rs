//! Where the processes that share a lane learn its limit: one of them leads and publishes it.
//!
//! The process that holds the lock on `<lane>.leader` leads until it ends. It reads what all
//! processes recorded, and writes its decision to `<lane>.state`. How it decides is not known here.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::block::{self, BLOCK_BYTES};
use super::directory::HostDirectory;
use super::now_ns;
use super::ring::{Collector, Record, Ring, halves};

/// The age from which a state no longer counts: its leader is stuck, or dead and not followed.
const EXPIRY_NS: u64 = 5_000_000_000;

/// What the leader decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct State {
    /// Requests that may be in flight in all.
    pub(crate) limit: u32,
    /// Whether the idle latency is being measured, so that requests are to be sent alone.
    pub(crate) probing: bool,
    /// When it was decided, on the clock of [`now_ns`].
    pub(crate) at_ns: u64,
    /// The latency of the idle storage, if it is known.
    pub(crate) idle: Option<IdleLatency>,
}

/// The round trip of a request that meets no other: a fixed part, and one that grows with its size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct IdleLatency {
    /// Seconds of a request of no bytes.
    pub(crate) seconds: f64,
    /// Seconds that each byte adds.
    pub(crate) seconds_per_byte: f64,
}

const PROBING: u32 = 1;
const IDLE_KNOWN: u32 = 2;

impl State {
    fn to_words(self) -> [u64; 6] {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        let flags = flag(self.probing, PROBING) | flag(self.idle.is_some(), IDLE_KNOWN);
        let [seconds, per_byte] = self
            .idle
            .map_or([0, 0], |idle| [idle.seconds.to_bits(), idle.seconds_per_byte.to_bits()]);
        [u64::from(self.limit) << 32 | u64::from(flags), self.at_ns, seconds, per_byte, 0, 0]
    }

    fn from_words([limit_and_flags, at_ns, seconds, per_byte, _, _]: [u64; 6]) -> Self {
        let [limit, flags] = halves(limit_and_flags);
        let idle = IdleLatency {
            seconds: f64::from_bits(seconds),
            seconds_per_byte: f64::from_bits(per_byte),
        };
        Self {
            limit,
            probing: flags & PROBING != 0,
            at_ns,
            idle: (flags & IDLE_KNOWN != 0 && idle.is_possible()).then_some(idle),
        }
    }
}

impl IdleLatency {
    fn is_possible(self) -> bool {
        [self.seconds, self.seconds_per_byte].iter().all(|part| part.is_finite() && *part >= 0.0)
    }
}

/// What the processes that share a lane tell each other.
#[derive(Debug)]
pub(crate) struct Board {
    state: File,
    leader: File,
    leads: AtomicBool,
    ring: Ring,
    collector: Mutex<Collector>,
}

impl Board {
    /// Takes part in a lane, as in "reads".
    ///
    /// # Errors
    ///
    /// What the operating system answers when a file cannot be opened, made or locked.
    pub(crate) fn open(directory: &HostDirectory, lane: &'static str) -> io::Result<Self> {
        Ok(Self {
            state: directory.open_file(&format!("{lane}.state"))?,
            leader: directory.open_file(&format!("{lane}.leader"))?,
            leads: AtomicBool::new(false),
            ring: Ring::create(directory, lane)?,
            collector: Mutex::new(Collector::new(directory, lane)),
        })
    }

    /// Whether this process leads, which it does from now on if nobody else does.
    pub(crate) fn try_lead(&self) -> bool {
        if self.leads.load(Relaxed) {
            return true;
        }
        let leads = self.leader.try_lock().is_ok();
        if leads {
            self.leads.store(true, Relaxed);
        }
        leads
    }

    /// Tells all processes what was decided. For the leader.
    pub(crate) fn publish(&self, state: State) {
        // A state that cannot be written expires, and the processes do without one.
        self.state.write_all_at(&block::seal(state.to_words()), 0).ok();
    }

    /// What was decided last; none if that is older than five seconds, or cannot be read whole.
    pub(crate) fn read(&self) -> Option<State> {
        let mut bytes = [0; BLOCK_BYTES];
        self.state.read_exact_at(&mut bytes, 0).ok()?;
        let state = State::from_words(block::open(&bytes)?);
        // A time to come was written by another clock, perhaps before the host was started.
        let age_ns = now_ns().checked_sub(state.at_ns)?;
        (age_ns < EXPIRY_NS).then_some(state)
    }

    /// Tells the leader of a finished request.
    pub(crate) fn record(&self, record: Record) {
        self.ring.record(record);
    }

    /// The finished requests of all living processes since the last call, in order of time; at the
    /// first call what their rings still hold. For the leader.
    ///
    /// A process that finished more than 512 requests since then has its last 512 here. Each record
    /// tells how many requests of all processes were in flight when it was sent, as far as these
    /// were answered by now.
    pub(crate) fn collect(&self) -> Vec<Record> {
        self.collector.lock().unwrap_or_else(PoisonError::into_inner).collect()
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if self.leads.load(Relaxed) {
            // Closing alone would leave the lead to a child process that is just being started.
            self.leader.unlock().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Child, Meeting};
    use super::*;
    use proptest::prelude::*;

    const IDLE: IdleLatency = IdleLatency { seconds: 0.011_5, seconds_per_byte: 1.4e-8 };

    fn state(at_ns: u64) -> State {
        State { limit: 3, probing: true, at_ns, idle: Some(IDLE) }
    }

    #[test]
    fn all_read_what_is_published() {
        let meeting = Meeting::new();
        let (leader, other) = (meeting.board("reads"), meeting.board("reads"));
        let writes = meeting.board("writes");
        assert_eq!(other.read(), None);
        let first = state(now_ns());
        leader.publish(first);
        assert_eq!((leader.read(), other.read()), (Some(first), Some(first)));
        let second = State { limit: u32::MAX, probing: false, at_ns: now_ns(), idle: None };
        leader.publish(second);
        assert_eq!((other.read(), writes.read()), (Some(second), None));
    }

    #[test]
    fn a_state_that_is_old_or_of_another_clock_is_none() {
        let meeting = Meeting::new();
        let board = meeting.board("reads");
        for at_ns in [0, now_ns().saturating_sub(EXPIRY_NS), now_ns() + EXPIRY_NS, u64::MAX] {
            board.publish(state(at_ns));
            assert_eq!(board.read(), None, "{at_ns}");
        }
        let fresh = state(now_ns() - EXPIRY_NS / 2);
        board.publish(fresh);
        assert_eq!(board.read(), Some(fresh));
    }

    #[test]
    fn a_state_that_is_torn_or_foreign_is_none() {
        let meeting = Meeting::new();
        let board = meeting.board("reads");
        board.publish(state(now_ns()));
        let later = block::seal(State { limit: 2, ..state(now_ns()) }.to_words());
        board.state.write_all_at(&later[..20], 0).expect("torn");
        assert_eq!(board.read(), None);
        board.publish(state(now_ns()));
        board.state.write_all_at(&[0xff], 0).expect("another version");
        assert_eq!(board.read(), None);
        board.state.set_len(40).expect("cut short");
        assert_eq!(board.read(), None);
    }

    #[test]
    fn an_impossible_idle_latency_is_none() {
        for part in [f64::NAN, f64::INFINITY, -1.0] {
            for idle in [
                IdleLatency { seconds: part, ..IDLE },
                IdleLatency { seconds_per_byte: part, ..IDLE },
            ] {
                let read = State::from_words(State { idle: Some(idle), ..state(7) }.to_words());
                assert_eq!(read, State { idle: None, ..state(7) });
            }
        }
    }

    #[test]
    fn another_leads_when_the_leader_ends() {
        let meeting = Meeting::new();
        let (first, second) = (meeting.board("reads"), meeting.board("reads"));
        assert!(first.try_lead() && first.try_lead());
        assert!(!second.try_lead());
        assert!(meeting.board("writes").try_lead());
        drop(first);
        assert!(second.try_lead());
    }

    #[test]
    fn another_leads_when_the_leader_is_killed() {
        let meeting = Meeting::new();
        let mut child = Child::start(module_path!(), "child_that_leads", &meeting);
        child.expect_line("leads");
        let board = meeting.board("reads");
        assert!(!board.try_lead());
        assert_eq!(board.read().map(|state| state.limit), Some(3));
        let finished = Record { at_ns: now_ns(), rtt_us: 0, bytes: 5, in_flight: 2, alone: false };
        board.record(finished);
        child.kill();
        assert!(board.try_lead());
        // What the old leader published stays until it expires, and what was recorded is read.
        assert_eq!(board.read().map(|state| state.limit), Some(3));
        assert_eq!(board.collect(), [finished]);
    }

    #[test]
    #[ignore = "part of another test, which runs it in a process of its own"]
    fn child_that_leads() {
        let Some(meeting) = Meeting::of_child() else { return };
        let board = meeting.board("reads");
        assert!(board.try_lead());
        board.publish(state(now_ns()));
        Meeting::say("leads");
        Meeting::wait_for_parent();
    }

    proptest! {
        #[test]
        fn a_state_is_read_back(limit: u32, probing: bool, at_ns: u64, idle: Option<(f64, f64)>) {
            let idle = idle
                .map(|(seconds, seconds_per_byte)| IdleLatency { seconds, seconds_per_byte })
                .filter(|idle| idle.is_possible());
            let state = State { limit, probing, at_ns, idle };
            prop_assert_eq!(State::from_words(state.to_words()), state);
        }
    }
}
