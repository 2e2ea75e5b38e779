//! Ctrl-C and termination: asked for between pieces of work, so that nothing is left half-written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::Error;

/// Whether a signal asked this process to end. Cheap to clone and to ask.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Listens for SIGINT and SIGTERM. The second signal of a kind ends the process at once.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] when the handlers cannot be set.
    pub fn listen() -> Result<Self, Error> {
        let interrupt = Self::default();
        let asked_before = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            let number = usize::try_from(signal).unwrap_or(0);
            // In this order, so that the first signal does not end the process.
            flag::register_conditional_default(signal, Arc::clone(&asked_before))
                .and_then(|_| flag::register(signal, Arc::clone(&asked_before)))
                .and_then(|_| flag::register_usize(signal, Arc::clone(&interrupt.signal), number))
                .map_err(|error| Error::Internal(format!("cannot listen for signals: {error}")))?;
        }
        Ok(interrupt)
    }

    /// Whether the work should end.
    pub fn is_set(&self) -> bool {
        self.signal.load(Relaxed) != 0
    }

    /// Fails when the work should end.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] once a signal has come.
    pub fn check(&self) -> Result<(), Error> {
        match u8::try_from(self.signal.load(Relaxed)) {
            Ok(0) => Ok(()),
            signal => Err(Error::Interrupted { signal: signal.unwrap_or(u8::MAX) }),
        }
    }
}
