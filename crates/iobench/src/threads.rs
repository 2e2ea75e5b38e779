//! Threads that work side by side until they are done or are told to stop. What they do is the
//! business of those who start them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle};

use stage::Error;

use crate::watch::{Load, Moved};

/// Threads that all do the same work.
pub(crate) struct Threads {
    stop: Arc<AtomicBool>,
    running: Vec<JoinHandle<()>>,
    moved: Box<dyn Fn() -> Moved>,
}

impl Threads {
    /// Starts so many; each calls `work` once, which ends soon after what it is given becomes true.
    /// `moved` tells what they have moved so far.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when the system grants fewer; those that were started have ended.
    pub(crate) fn start(
        number: usize,
        work: impl Fn(&AtomicBool) + Send + Sync + 'static,
        moved: impl Fn() -> Moved + 'static,
    ) -> Result<Self, Error> {
        let work = Arc::new(work);
        let stop = Arc::new(AtomicBool::new(false));
        let mut started = Self { stop, running: Vec::new(), moved: Box::new(moved) };
        for _ in 0..number {
            let (work, stop) = (Arc::clone(&work), Arc::clone(&started.stop));
            match Builder::new().name("iobench".into()).spawn(move || work(&stop)) {
                Ok(thread) => started.running.push(thread),
                Err(error) => {
                    started.stop();
                    let message = format!("the system grants no more threads: {error}");
                    return Err(Error::usage(message, "ask for fewer readers, writers or threads"));
                }
            }
        }
        Ok(started)
    }
}

impl Load for Threads {
    fn has_ended(&mut self) -> bool {
        self.running.iter().all(JoinHandle::is_finished)
    }

    fn bytes(&mut self) -> Moved {
        (self.moved)()
    }

    fn stop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.running.drain(..) {
            // What a thread could not do is told by its work.
            let _ended = thread.join();
        }
    }
}
