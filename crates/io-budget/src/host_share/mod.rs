//! One budget for the processes of a host, kept in files of a directory that they share.
//!
//! | module | holds |
//! |---|---|
//! | [`directory`] | where the processes meet: found or made, and checked |
//! | [`slots`] | the right to have a request in flight, as a file lock |
//! | [`board`] | who leads, and what the leader decided |
//! | [`ring`] | the requests that each process finished, for the leader to read |
//! | [`block`] | 64 checked bytes, the unit of what is written |
//!
//! Every right is a `flock`, which the kernel takes back when its holder dies. Which limit is right
//! is decided elsewhere.

mod block;
mod board;
mod directory;
mod ring;
mod slots;
#[cfg(test)]
mod testing;

use std::fs::File;
use std::io;

pub(crate) use board::{Board, IdleLatency, State};
pub(crate) use directory::{HostDirectory, default_parent};
pub(crate) use ring::Record;
pub(crate) use slots::Slots;

/// Waits for the lock on a file. A signal does not end the wait.
fn lock_file(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            locked => return locked,
        }
    }
}

/// Nanoseconds on the monotonic clock, which all processes of the host read alike.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The monotonic clock starts at zero, so neither part is ever negative.
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}
