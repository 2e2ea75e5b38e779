//! A pool of named threads. Items go in and results come out in the same order; how far the
//! threads may run ahead is bounded.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::thread;

use crossbeam_channel::bounded;

use crate::Error;

/// Runs `work` over `items` on `threads` threads and hands each result to `deliver`, on the
/// calling thread and in the order of the items. At most two items a thread are under way or
/// waiting to be delivered.
///
/// Where the system grants fewer threads than asked for, the work is done by those.
///
/// # Errors
///
/// The first error of `deliver`; items not begun by then are not begun. [`Error::Internal`] when
/// no thread can be started.
pub fn map_ordered<T: Send, R: Send>(
    threads: NonZeroUsize,
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
    mut deliver: impl FnMut(R) -> Result<(), Error>,
) -> Result<(), Error> {
    let window = threads.get() * 2;
    let (send_item, items_to_do) = bounded::<(usize, T)>(window);
    let (send_result, results) = bounded::<(usize, R)>(window);
    thread::scope(|scope| {
        // Dropped when this closure ends, however it ends: that is what ends the threads.
        let (send_item, results) = (send_item, results);
        let mut started = 0;
        let mut refused = None;
        for number in 0..threads.get() {
            let (items_to_do, send_result, work) =
                (items_to_do.clone(), send_result.clone(), &work);
            let run = move || {
                for (index, item) in items_to_do {
                    if send_result.send((index, work(item))).is_err() {
                        break;
                    }
                }
            };
            let builder = thread::Builder::new().name(format!("worker-{number}"));
            match builder.spawn_scoped(scope, run) {
                Ok(_) => started += 1,
                Err(error) => refused = Some(error),
            }
        }
        drop((items_to_do, send_result));
        if started == 0 {
            let error = refused.unwrap_or_else(|| io::Error::other("no threads were asked for"));
            return Err(Error::Internal(format!("cannot start a thread: {error}")));
        }
        let mut items = items.into_iter().enumerate().fuse();
        let mut waiting = BTreeMap::new();
        let (mut sent, mut delivered) = (0, 0);
        loop {
            while sent - delivered < window {
                let Some(item) = items.next() else { break };
                if send_item.send(item).is_err() {
                    return Err(Error::Internal("a worker thread ended early".into()));
                }
                sent += 1;
            }
            if sent == delivered {
                return Ok(());
            }
            // A panic in a worker closes the channel once the others are done; the scope then
            // passes it on.
            let Ok((index, result)) = results.recv() else {
                return Err(Error::Internal("a worker thread ended early".into()));
            };
            waiting.insert(index, result);
            while let Some(result) = waiting.remove(&delivered) {
                delivered += 1;
                deliver(result)?;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
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
                Ok(())
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
            Ok(())
        })
        .unwrap();
        assert_eq!(delivered, 100);
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
    fn nothing_to_do_is_done() {
        map_ordered(threads(3), 0..0, |item: i32| item, |_| Ok(())).unwrap();
    }
}
