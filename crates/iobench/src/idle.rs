//! Single small reads, one at a time: how long the storage takes when this program asks for nothing
//! else, and what a run makes another user of the storage wait.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use stage::Error;

use crate::direct::{self, Buffer};
use crate::meter::Meter;
use crate::record::{Idle, Part};
use crate::timeline::milliseconds;

/// Bytes of a read.
const REQUEST: usize = 64 << 10;
/// Reads of an idle baseline, and the time after which fewer will do.
const READS: usize = 12;
const LONGEST: Duration = Duration::from_secs(5);
/// Reads begin this far apart, so that the storage's own read-ahead does not serve the next.
const STRIDE: u64 = 1 << 20;
/// Pause between reads beside a run.
const PAUSE: Duration = Duration::from_millis(250);

/// Places to read from, in an order that follows nothing.
#[derive(Debug)]
pub(crate) struct Prober {
    files: Vec<File>,
    spots: Vec<(usize, u64)>,
    next: usize,
}

impl Prober {
    /// A prober that reads from these parts, which nothing else reads.
    ///
    /// # Errors
    ///
    /// When a file cannot be opened.
    pub(crate) fn new(parts: &[Part], seed: u64) -> Result<Self, Error> {
        let open = |part: &Part| {
            direct::open(&part.file)
                .map_err(|source| io_budget::Error::new("open", &part.file, source))
        };
        let files = parts.iter().map(open).collect::<Result<_, _>>()?;
        let mut spots = Vec::new();
        // The places of a round are apart; each round has others, and does not follow the last.
        let mut rounds: Vec<u64> = (0..STRIDE / REQUEST as u64).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut rounds);
        for round in rounds {
            let mut of_round = Vec::new();
            for (file, part) in parts.iter().enumerate() {
                let end = part.offset + part.bytes;
                let first = part.offset.next_multiple_of(STRIDE) + round * REQUEST as u64;
                let offsets = (first..end).step_by(1 << 20);
                of_round
                    .extend(offsets.filter(|at| at + REQUEST as u64 <= end).map(|at| (file, at)));
            }
            fastrand::Rng::with_seed(seed ^ round).shuffle(&mut of_round);
            spots.append(&mut of_round);
        }
        Ok(Self { files, spots, next: 0 })
    }

    /// Reads once.
    fn read(&mut self) -> io::Result<()> {
        let Some((file, offset)) = self.spots.get(self.next % self.spots.len().max(1)) else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        self.next += 1;
        let mut buffer = Buffer::new(REQUEST);
        self.files[*file].read_exact_at(buffer.bytes(), *offset)
    }

    /// The idle baseline: none where there is nothing to read.
    ///
    /// # Errors
    ///
    /// When a read fails.
    pub(crate) fn idle(&mut self) -> io::Result<Option<Idle>> {
        if self.spots.is_empty() {
            return Ok(None);
        }
        let mut rtts = Vec::with_capacity(READS);
        let first = Instant::now();
        while rtts.len() < READS && first.elapsed() < LONGEST {
            let begun = Instant::now();
            self.read()?;
            rtts.push(begun.elapsed());
        }
        rtts.sort_unstable();
        Ok(Some(Idle {
            request_bytes: REQUEST as u64,
            reads: rtts.len(),
            p50_ms: milliseconds(rtts[rtts.len() / 2]),
            least_ms: milliseconds(rtts[0]),
            most_ms: milliseconds(rtts[rtts.len() - 1]),
        }))
    }
}

/// A reader beside a run, with one small read now and then. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Beside {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Beside {
    /// Starts it; what it reads is timed by `meter`. A read that fails is not counted: the run's
    /// own tell what is wrong.
    ///
    /// # Errors
    ///
    /// When the system grants no thread.
    pub(crate) fn start(prober: &Arc<Mutex<Prober>>, meter: &Arc<Meter>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (prober, meter, told) = (Arc::clone(prober), Arc::clone(meter), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("iobench-probe".into()).spawn(move || {
            while !told.load(Relaxed) {
                let mut prober = prober.lock().unwrap_or_else(PoisonError::into_inner);
                if prober.spots.is_empty() {
                    return;
                }
                let sent = meter.send();
                let read = prober.read();
                meter.answer(sent, read.is_ok().then_some(REQUEST as u64));
                drop(prober);
                sleep(PAUSE);
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // It panics nowhere, and there is nothing to be done if it did.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Requests as _;

    #[test]
    fn places_lie_apart_and_within_the_parts() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a");
        File::create(&file).unwrap().set_len(5 << 20).unwrap();
        let parts = [Part { file, offset: 100, bytes: (4 << 20) - 100 }];
        let mut prober = Prober::new(&parts, 3).unwrap();
        assert_eq!(prober.spots.len(), 3 * 16);
        let mut first_round: Vec<u64> = prober.spots[..3].iter().map(|(_, at)| *at).collect();
        first_round.sort_unstable();
        let apart = first_round.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
        assert_eq!(apart, [1 << 20, 1 << 20]);
        assert!(first_round[0] >= 1 << 20, "{first_round:?}");
        let mut all = prober.spots.clone();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 48, "no place twice");
        let idle = prober.idle().unwrap().unwrap();
        assert_eq!((idle.reads, prober.next), (12, 12));
        assert!(idle.least_ms <= idle.p50_ms && idle.p50_ms <= idle.most_ms, "{idle:?}");
    }

    #[test]
    fn without_files_there_is_no_baseline() {
        let mut prober = Prober::new(&[], 1).unwrap();
        assert_eq!(prober.idle().unwrap(), None);
        let (prober, meter) = (Arc::new(Mutex::new(prober)), Arc::new(Meter::new()));
        drop(Beside::start(&prober, &meter).unwrap());
        assert_eq!(meter.total().requests, 0);
    }
}
