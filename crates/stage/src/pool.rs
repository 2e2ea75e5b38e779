//! Pools of named threads that work ahead of whoever takes their results. Items go in and results
//! come out in the same order; how far the threads run ahead is bounded in items and in bytes.
//! Pools are iterators, so that one can feed the next: reading, decoding, writing.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Fuse;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};

use crossbeam_channel::{Receiver, Sender, unbounded};

/// How far a pool runs ahead: what is under way or waits to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Items, at most.
    pub items: usize,
    /// Bytes, at most, by the weights of the items; a single item may be heavier.
    pub bytes: u64,
}

impl Window {
    /// Bytes that are read or made ahead, at most.
    pub const BYTES: u64 = 256 << 20;

    /// A window of so many items, and [`Self::BYTES`].
    pub const fn of_items(items: usize) -> Self {
        Self { items, bytes: Self::BYTES }
    }
}

/// Threads that open files ahead of those that read them, at most.
pub const OPENERS: usize = 4;

/// The threads of a pool.
#[derive(Debug, Clone, Copy)]
pub struct Threads {
    /// What they are named, with a number behind it.
    pub name: &'static str,
    /// How many, at least one.
    pub number: usize,
    /// How far they run ahead.
    pub window: Window,
}

/// The results of a pool, in the order of its items. Dropped early, it ends the pool.
pub struct Ordered<'scope, R> {
    results: Receiver<Finished<R>>,
    /// Where no thread was granted: does the next item on the thread that asks for it.
    alone: Option<Box<dyn FnMut() -> Option<R> + Send + 'scope>>,
    /// Results that came before their turn.
    early: BTreeMap<u64, (u64, R)>,
    next: u64,
    ahead: Arc<Ahead>,
}

#[derive(Debug)]
struct Finished<R> {
    number: u64,
    weight: u64,
    result: R,
}

/// Starts a pool in `scope`: `work` is done on each item; `weigh` tells the bytes that an item, or
/// what becomes of it, holds.
///
/// Where the system grants fewer threads than asked for, the work is done by those; where it grants
/// none, by whoever asks for the results.
pub fn map<'scope, I, R>(
    scope: &'scope Scope<'scope, '_>,
    threads: Threads,
    items: I,
    weigh: impl Fn(&I::Item) -> u64 + Send + Sync + 'scope,
    work: impl Fn(I::Item) -> R + Send + Sync + 'scope,
) -> Ordered<'scope, R>
where
    I: IntoIterator,
    I::IntoIter: Send + 'scope,
    R: Send + 'scope,
{
    let ahead = Arc::new(Ahead { window: threads.window, ..Ahead::default() });
    let (send, results) = unbounded();
    let line = Arc::new(Line {
        source: Mutex::new(Source { items: items.into_iter().fuse(), taken: 0 }),
        ahead: Arc::clone(&ahead),
        weigh,
        work,
    });
    let mut granted = false;
    for number in 0..threads.number.max(1) {
        let (line, send) = (Arc::clone(&line), send.clone());
        let builder = thread::Builder::new().name(format!("{}-{number}", threads.name));
        granted |= builder.spawn_scoped(scope, move || line.run(&send)).is_ok();
    }
    let alone: Option<Box<dyn FnMut() -> Option<R> + Send + 'scope>> =
        if granted { None } else { Some(Box::new(move || line.next_alone())) };
    Ordered { results, alone, early: BTreeMap::new(), next: 0, ahead }
}

/// Runs `work` over `items` on `threads` threads and hands each result to `deliver`, on the
/// calling thread and in the order of the items. At most two items a thread are under way or
/// waiting to be delivered; a single thread is the caller's own.
///
/// # Errors
///
/// The first error of `deliver`; items not begun by then are not begun.
pub fn map_ordered<T: Send, R: Send, E>(
    threads: NonZeroUsize,
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> R + Send + Sync,
    deliver: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let number = threads.get();
    if number == 1 {
        return items.into_iter().map(work).try_for_each(deliver);
    }
    let threads = Threads { name: "worker", number, window: Window::of_items(number * 2) };
    thread::scope(|scope| map(scope, threads, items, |_| 0, work).try_for_each(deliver))
}

impl<R> Iterator for Ordered<'_, R> {
    type Item = R;

    fn next(&mut self) -> Option<R> {
        if let Some(next) = &mut self.alone {
            return next();
        }
        loop {
            if let Some((weight, result)) = self.early.remove(&self.next) {
                self.next += 1;
                self.ahead.leave(weight);
                return Some(result);
            }
            // The threads have ended. After a panic in one of them a result is missing; the scope
            // passes the panic on.
            let Finished { number, weight, result } = self.results.recv().ok()?;
            self.early.insert(number, (weight, result));
        }
    }
}

impl<R> fmt::Debug for Ordered<'_, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ordered").field("next", &self.next).finish_non_exhaustive()
    }
}

impl<R> Drop for Ordered<'_, R> {
    fn drop(&mut self) {
        self.ahead.close();
    }
}

/// What the threads of a pool share.
struct Line<I: Iterator, W, F> {
    source: Mutex<Source<I>>,
    ahead: Arc<Ahead>,
    weigh: W,
    work: F,
}

struct Source<I: Iterator> {
    items: Fuse<I>,
    taken: u64,
}

impl<I: Iterator, W: Fn(&I::Item) -> u64, F> Line<I, W, F> {
    fn run<R>(&self, send: &Sender<Finished<R>>)
    where
        F: Fn(I::Item) -> R,
    {
        // A thread that panics will not deliver: the others must not wait for room for ever.
        let mut closing = CloseOnDrop { ahead: &self.ahead, armed: true };
        while let Some((number, weight, item)) = self.take() {
            let finished = Finished { number, weight, result: (self.work)(item) };
            if send.send(finished).is_err() {
                break;
            }
        }
        closing.armed = false;
    }

    /// The next result, made by the thread that asks.
    fn next_alone<R>(&self) -> Option<R>
    where
        F: Fn(I::Item) -> R,
    {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let item = source.items.next()?;
        drop(source);
        Some((self.work)(item))
    }

    /// The next item, once there is room for it. Items are taken one after another, so that the
    /// order of numbers is the order of items.
    fn take(&self) -> Option<(u64, u64, I::Item)> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let item = source.items.next()?;
        let weight = (self.weigh)(&item);
        if !self.ahead.enter(weight) {
            return None;
        }
        let number = source.taken;
        source.taken += 1;
        Some((number, weight, item))
    }
}

/// Counts what is under way or waits to be taken.
#[derive(Debug)]
struct Ahead {
    window: Window,
    held: Mutex<Held>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    items: usize,
    bytes: u64,
    closed: bool,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { window: Window::of_items(1), held: Mutex::default(), changed: Condvar::new() }
    }
}

impl Ahead {
    /// Waits for room; false when there will be none.
    fn enter(&self, weight: u64) -> bool {
        let mut held = self.lock();
        let Window { items, bytes } = self.window;
        while !held.closed
            && held.items > 0
            && (held.items >= items || held.bytes.saturating_add(weight) > bytes)
        {
            held = self.changed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        held.items += 1;
        held.bytes = held.bytes.saturating_add(weight);
        !held.closed
    }

    fn leave(&self, weight: u64) {
        let mut held = self.lock();
        held.items -= 1;
        held.bytes = held.bytes.saturating_sub(weight);
        drop(held);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct CloseOnDrop<'a> {
    ahead: &'a Ahead,
    armed: bool,
}

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.ahead.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    fn threads(number: usize) -> NonZeroUsize {
        NonZeroUsize::new(number).unwrap()
    }

    #[test]
    fn results_come_in_order_whatever_the_threads_do() {
        for number in [1, 2, 7] {
            let mut seen = Vec::new();
            let uneven = |item: u64| {
                std::thread::sleep(Duration::from_micros((item * 7919) % 500));
                item * 2
            };
            map_ordered(threads(number), 0..200, uneven, |result| {
                seen.push(result);
                Ok::<_, Error>(())
            })
            .unwrap();
            assert_eq!(seen, (0..200).map(|item| item * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_threads_do_not_run_far_ahead() {
        let begun = AtomicUsize::new(0);
        let mut delivered = 0;
        let work = |_| begun.fetch_add(1, SeqCst);
        map_ordered(threads(2), 0..100, work, |_| {
            delivered += 1;
            assert!(begun.load(SeqCst) <= delivered + 4);
            Ok::<_, Error>(())
        })
        .unwrap();
        assert_eq!(delivered, 100);
    }

    #[test]
    fn bytes_bound_a_pool_as_well_and_a_heavy_item_passes_alone() {
        let (held, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let window = Window { items: 100, bytes: 50 };
        let weights = [10, 20, 30, 400, 10, 10, 10, 10, 10, 10];
        std::thread::scope(|scope| {
            let pool = Threads { name: "test", number: 8, window };
            let work = |weight: u64| {
                most.fetch_max(held.fetch_add(weight, SeqCst) + weight, SeqCst);
                weight
            };
            let results = map(scope, pool, weights, |weight| *weight, work);
            for weight in results {
                std::thread::sleep(Duration::from_millis(2));
                held.fetch_sub(weight, SeqCst);
            }
        });
        // One item may be taken while the one before it is still counted here.
        assert!(most.load(SeqCst) <= 400 + 50, "{most:?}");
    }

    #[test]
    fn pools_feed_one_another_in_order() {
        let sum = std::thread::scope(|scope| {
            let pool = |name, number| Threads { name, number, window: Window::of_items(3) };
            let read = map(scope, pool("read", 2), 0..500_u64, |_| 0, |item| item + 1);
            let made = map(scope, pool("make", 3), read, |_| 0, |item| item * 2);
            let written = map(scope, pool("write", 1), made, |_| 0, |item| item);
            written.collect::<Vec<_>>()
        });
        assert_eq!(sum, (1..=500).map(|item| item * 2).collect::<Vec<_>>());
    }

    #[test]
    fn an_error_ends_the_work() {
        let begun = AtomicUsize::new(0);
        let work = |item: usize| {
            begun.fetch_add(1, SeqCst);
            item
        };
        let outcome = map_ordered(threads(2), 0..1_000, work, |item| {
            if item == 10 { Err(Error::Interrupted { signal: 2 }) } else { Ok(()) }
        });
        assert!(matches!(outcome, Err(Error::Interrupted { signal: 2 })));
        assert!(begun.load(SeqCst) <= 20);
    }

    #[test]
    fn a_panic_ends_the_pool_and_is_passed_on() {
        let outcome = std::panic::catch_unwind(|| {
            let work = |item: i32| assert_ne!(item, 3, "three");
            map_ordered(threads(2), 0..1_000, work, |()| Ok::<_, Error>(()))
        });
        assert!(outcome.is_err());
    }

    #[test]
    fn nothing_to_do_is_done() {
        map_ordered(threads(3), 0..0, |item: i32| item, |_| Ok::<_, Error>(())).unwrap();
    }
}
