//! Runs jobs at given instants on a few threads.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

type Job = Box<dyn FnOnce() + Send>;

struct Entry {
    due: Instant,
    sequence: u64,
    job: Job,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earliest entry is the greatest, so that the heap pops it first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.sequence).cmp(&(self.due, self.sequence))
    }
}

#[derive(Default)]
struct State {
    heap: BinaryHeap<Entry>,
    sequence: u64,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    // No job runs under the lock, so poisoning carries no news.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    /// Waits for the next job that is due; `None` when the line is closed and empty.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            state = match state.heap.peek().map(|entry| entry.due) {
                Some(due) if due <= now => return state.heap.pop().map(|entry| entry.job),
                Some(due) => {
                    let waited = self.changed.wait_timeout(state, due - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None if state.closed => return None,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Threads that run each job once its instant has come, earliest first. Dropping the line waits for
/// the jobs it still holds.
pub(crate) struct DelayLine {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl DelayLine {
    /// A line with this many threads, at least one.
    ///
    /// # Errors
    ///
    /// When a thread cannot be started.
    pub(crate) fn new(threads: usize) -> io::Result<Self> {
        let mut line = Self { shared: Arc::new(Shared::default()), workers: Vec::new() };
        for _ in 0..threads.max(1) {
            let shared = Arc::clone(&line.shared);
            let worker = Builder::new().name("slowfs-delay".to_owned());
            line.workers.push(worker.spawn(move || shared.work())?);
        }
        Ok(line)
    }

    /// Runs `job` at `due`, or at once when that has passed.
    pub(crate) fn at(&self, due: Instant, job: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.lock();
        let sequence = state.sequence;
        state.sequence += 1;
        let first = state.heap.peek().is_none_or(|top| due < top.due);
        state.heap.push(Entry { due, sequence, job: Box::new(job) });
        drop(state);
        if first {
            self.shared.changed.notify_all();
        }
    }
}

impl Drop for DelayLine {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            // A job that panicked has said so on its own.
            let _joined = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn jobs_run_in_due_order_and_not_early() {
        let line = DelayLine::new(1).unwrap();
        let start = Instant::now();
        let order = Arc::new(Mutex::new(Vec::new()));
        for milliseconds in [40, 10, 30, 20] {
            let order = Arc::clone(&order);
            let due = Duration::from_millis(milliseconds);
            line.at(start + due, move || {
                order.lock().unwrap().push((milliseconds, start.elapsed() >= due));
            });
        }
        drop(line);
        assert_eq!(*order.lock().unwrap(), [(10, true), (20, true), (30, true), (40, true)]);
    }
}
