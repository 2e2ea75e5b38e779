//! A first-come-first-served counting semaphore whose limit may change while it is in use.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Lets at most `limit` holders through at once, in the order in which they arrived.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    limit: usize,
    in_flight: usize,
    peak: usize,
    next_ticket: u64,
    now_serving: u64,
}

/// The right to have one request in flight; given back when dropped.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once permits nothing"]
pub(crate) struct Permit<'gate> {
    gate: &'gate Gate,
    in_flight: usize,
}

impl Permit<'_> {
    /// Holders when this one was let through, itself included.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Gate {
    /// A gate for at most `limit` holders; with 0 nobody passes until that changes.
    pub(crate) fn new(limit: usize) -> Self {
        let state = State { limit, in_flight: 0, peak: 0, next_ticket: 0, now_serving: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for a turn.
    pub(crate) fn enter(&self) -> Permit<'_> {
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        while state.now_serving != ticket || state.in_flight >= state.limit {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.now_serving += 1;
        state.in_flight += 1;
        state.peak = state.peak.max(state.in_flight);
        let in_flight = state.in_flight;
        // The next in line may find room as well.
        self.changed.notify_all();
        Permit { gate: self, in_flight }
    }

    /// Changes how many are let through; those who are through stay.
    pub(crate) fn set_limit(&self, limit: usize) {
        let mut state = self.lock();
        if state.limit != limit {
            state.limit = limit;
            self.changed.notify_all();
        }
    }

    /// How many are let through.
    pub(crate) fn limit(&self) -> usize {
        self.lock().limit
    }

    /// The largest number of holders seen at once.
    pub(crate) fn peak(&self) -> usize {
        self.lock().peak
    }

    // A panicking holder leaves the counts consistent, so poisoning carries no news.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.gate.lock().in_flight -= 1;
        self.gate.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn one_more_than_the_limit_waits_until_a_permit_is_dropped() {
        let gate = Gate::new(2);
        let first = gate.enter();
        let _second = gate.enter();
        let (sent, entered) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _third = gate.enter();
                sent.send(()).expect("the test listens");
            });
            while gate.lock().next_ticket < 3 {
                std::thread::yield_now();
            }
            assert_eq!(entered.try_recv(), Err(mpsc::TryRecvError::Empty));
            drop(first);
            entered.recv().expect("the third enters");
        });
        assert_eq!((gate.limit(), gate.peak()), (2, 2));
    }

    #[test]
    fn a_limit_that_rises_lets_those_who_wait_through() {
        let gate = Gate::new(0);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.enter().in_flight());
            while gate.lock().next_ticket < 1 {
                std::thread::yield_now();
            }
            assert_eq!(gate.peak(), 0);
            gate.set_limit(1);
            assert_eq!(waiting.join().expect("it enters"), 1);
        });
    }

    #[test]
    fn turns_are_given_in_order_of_arrival() {
        let gate = Gate::new(1);
        let holder = gate.enter();
        let (sent, order) = mpsc::channel();
        std::thread::scope(|scope| {
            for number in 0..8_u64 {
                let (gate, sent) = (&gate, sent.clone());
                scope.spawn(move || {
                    let _permit = gate.enter();
                    sent.send(number).expect("the test listens");
                });
                while gate.lock().next_ticket < number + 2 {
                    std::thread::yield_now();
                }
            }
            drop(holder);
        });
        drop(sent);
        assert_eq!(order.iter().collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    }
}
