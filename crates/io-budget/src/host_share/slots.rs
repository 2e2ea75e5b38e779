//! The right to have a request in flight, as the lock on one of a few files.
//!
//! Slot `i` is free when nobody holds the lock on the file `<lane>.slot.<i>`. A limit of `n` means
//! that the slots below `n` may be taken, so processes that know different limits never hold more
//! than the greatest of them. Who wants a slot first queues for the lock on `<lane>.turnstile`: one
//! process looks for a free slot while the others sleep in the kernel, and each has its turn.
//!
//! What the limit should be is not decided here.

use std::fs::{File, TryLockError};
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use super::directory::HostDirectory;
use super::lock_file;
use crate::gate::Gate;

/// Between two looks for a free slot.
const POLL: Duration = Duration::from_micros(500);

/// More slots than any storage wants requests; keeps a wild limit from using up file descriptors.
const MOST_SLOTS: usize = 256;

/// The slots of one lane of a storage, shared with the other processes of the host.
#[derive(Debug)]
pub(crate) struct Slots {
    directory: HostDirectory,
    lane: &'static str,
    /// A lock belongs to the open file, so the threads of this process do not exclude each other
    /// at the turnstile: one at a time goes there.
    line: Gate,
    turnstile: OnceLock<File>,
    table: Mutex<Table>,
}

/// The slot files that were opened so far, by number.
#[derive(Debug)]
struct Table {
    slots: Vec<Option<SlotFile>>,
    /// Where the next look begins, so that looks seldom meet.
    start: usize,
}

#[derive(Debug)]
struct SlotFile {
    file: File,
    held: bool,
}

/// A held slot; given back when dropped, and by the kernel when the process dies.
#[derive(Debug)]
#[must_use = "a slot that is dropped at once permits nothing"]
pub(crate) struct Slot<'slots> {
    slots: &'slots Slots,
    number: usize,
}

/// This process's turn at the turnstile.
struct Turn<'file> {
    turnstile: &'file File,
}

impl Slots {
    /// The slots of a lane, as in "reads". Files are opened when they are needed.
    pub(crate) fn open(directory: &HostDirectory, lane: &'static str) -> Self {
        let table = Table { slots: Vec::new(), start: std::process::id() as usize };
        Self {
            directory: directory.clone(),
            lane,
            line: Gate::new(1),
            turnstile: OnceLock::new(),
            table: Mutex::new(table),
        }
    }

    /// Waits for a slot below `limit`, which is asked again before each look: it may change, and
    /// may be 0 for a while.
    ///
    /// # Errors
    ///
    /// What the operating system answers when a file cannot be opened or locked.
    pub(crate) fn acquire(&self, limit: impl Fn() -> usize) -> io::Result<Slot<'_>> {
        // Dropped last: the turn has to end before the next thread takes it.
        let _place_in_line = self.line.enter();
        let _turn = Turn::take(self.turnstile()?)?;
        loop {
            if let Some(slot) = self.try_acquire(limit().min(MOST_SLOTS))? {
                return Ok(slot);
            }
            thread::sleep(POLL);
        }
    }

    fn try_acquire(&self, limit: usize) -> io::Result<Option<Slot<'_>>> {
        let mut table = self.lock();
        table.start = table.start.wrapping_add(1);
        let start = table.start;
        if table.slots.len() < limit {
            table.slots.resize_with(limit, || None);
        }
        for offset in 0..limit {
            let number = (start % limit + offset) % limit;
            let slot = match &mut table.slots[number] {
                Some(slot) => slot,
                closed => {
                    let name = format!("{}.slot.{number}", self.lane);
                    closed.insert(SlotFile { file: self.directory.open_file(&name)?, held: false })
                }
            };
            if slot.held {
                continue;
            }
            match slot.file.try_lock() {
                Ok(()) => {
                    slot.held = true;
                    return Ok(Some(Slot { slots: self, number }));
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    fn turnstile(&self) -> io::Result<&File> {
        if let Some(turnstile) = self.turnstile.get() {
            return Ok(turnstile);
        }
        let opened = self.directory.open_file(&format!("{}.turnstile", self.lane))?;
        Ok(self.turnstile.get_or_init(|| opened))
    }

    // A panicking holder leaves the table consistent, so poisoning carries no news.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // Under the lock, so that no thread takes the slot before it is unlocked.
        let mut table = self.slots.lock();
        let entry = &mut table.slots[self.number];
        if let Some(slot) = entry {
            slot.held = false;
            if slot.file.unlock().is_err() {
                // Closing the file unlocks it in any case.
                *entry = None;
            }
        }
    }
}

impl<'file> Turn<'file> {
    /// Waits until no other process has its turn.
    fn take(turnstile: &'file File) -> io::Result<Self> {
        lock_file(turnstile).map(|()| Self { turnstile })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Unlocking what is locked has no way to fail.
        self.turnstile.unlock().ok();
    }
}

#[cfg(test)]
mod tests;
