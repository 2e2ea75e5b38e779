//! Plain readers and writers: N threads, each with one request in flight. Nothing is decoded, and
//! no budget holds anybody back.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stage::Error;

use crate::bench::{Measurement, Running, summary};
use crate::direct::{self, Buffer};
use crate::meter::Meter;
use crate::record::{Direction, FileSize, Files, Measured, Part, Raw, Setting};
use crate::supply::Supply;
use crate::threads::Threads;
use crate::watch::{Moved, Requests};

/// Bytes of a small file that is written.
const SMALL_FILE: u64 = 4 << 20;

/// One run of readers or writers.
#[derive(Debug)]
pub(crate) struct RawRun {
    setting: Raw,
    /// What is read; empty for writers.
    inputs: Vec<Part>,
    /// What is to be written; empty for readers.
    to_write: Vec<Part>,
    failures: Arc<Mutex<Vec<String>>>,
}

impl RawRun {
    /// A run of about `bytes`, with inputs from the supply or outputs in `scratch`.
    ///
    /// # Errors
    ///
    /// [`Error::NoInput`] when the supply has too little.
    pub(crate) fn new(
        setting: Raw,
        bytes: u64,
        supply: &mut Supply,
        scratch: &Path,
    ) -> Result<Self, Error> {
        let (inputs, to_write) = match (setting.direction, setting.files) {
            (Direction::Read, FileSize::Small) => (supply.small(bytes)?, Vec::new()),
            (Direction::Read, FileSize::Large) => {
                (supply.large(setting.concurrency, bytes)?, Vec::new())
            }
            (Direction::Write, files) => {
                let each = match files {
                    FileSize::Small => SMALL_FILE,
                    FileSize::Large => bytes / setting.concurrency as u64,
                };
                let each = each.next_multiple_of(setting.request_bytes);
                let number = bytes.div_ceil(each);
                let part = |number| Part {
                    file: scratch.join(number_name(number)),
                    offset: 0,
                    bytes: each,
                };
                (Vec::new(), (0..number).map(part).collect())
            }
        };
        Ok(Self { setting, inputs, to_write, failures: Arc::default() })
    }
}

fn number_name(number: u64) -> PathBuf {
    PathBuf::from(format!("{number:06}"))
}

impl Measurement for RawRun {
    fn setting(&self) -> Setting {
        Setting::Raw(self.setting)
    }

    fn inputs(&self) -> &[Part] {
        &self.inputs
    }

    fn start(&mut self) -> Result<Running, Error> {
        let (parts, is_read) = match self.setting.direction {
            Direction::Read => (&self.inputs, true),
            Direction::Write => (&self.to_write, false),
        };
        let meter = Arc::new(Meter::new());
        let shared = Shared {
            parts: Mutex::new(parts.iter().cloned().collect()),
            setting: self.setting,
            meter: Arc::clone(&meter),
            failures: Arc::clone(&self.failures),
        };
        let counted = Arc::clone(&meter);
        let moved = move || match (counted.bytes(), is_read) {
            (read, true) => Moved { read, written: 0 },
            (written, false) => Moved { read: 0, written },
        };
        let work = move |stop: &AtomicBool| shared.work(stop);
        let threads = Threads::start(self.setting.concurrency, work, moved)?;
        let reads = is_read.then_some(meter as Arc<dyn Requests>);
        Ok(Running { load: Box::new(threads), reads })
    }

    fn finish(&mut self, _measured: &mut Measured) -> Result<Files, Vec<String>> {
        let mut causes = std::mem::take(&mut *lock(&self.failures));
        let mut written = Vec::new();
        for part in &self.to_write {
            match std::fs::metadata(&part.file) {
                Ok(metadata) => written.push(Part { bytes: metadata.len(), ..part.clone() }),
                // A run that was ended did not come to it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => causes.push(cause(&part.file, &error)),
            }
            if let Err(error) = std::fs::remove_file(&part.file) {
                causes.push(cause(&part.file, &error));
            }
        }
        if !causes.is_empty() {
            causes.sort();
            causes.dedup();
            return Err(causes);
        }
        // They are gone: their names tell nothing.
        Ok(Files { parts: Vec::new(), ..summary(&written) })
    }
}

/// What the threads of a run share.
#[derive(Debug)]
struct Shared {
    /// Parts that no thread has begun. Each thread takes the next, so that all have work to the
    /// end.
    parts: Mutex<VecDeque<Part>>,
    setting: Raw,
    meter: Arc<Meter>,
    failures: Arc<Mutex<Vec<String>>>,
}

impl Shared {
    fn work(&self, stop: &AtomicBool) {
        while !stop.load(Relaxed) {
            let Some(part) = lock(&self.parts).pop_front() else { return };
            let moved = match self.setting.direction {
                Direction::Read => self.read(&part, stop),
                Direction::Write => self.write(&part, stop),
            };
            if let Err(error) = moved {
                lock(&self.failures).push(cause(&part.file, &error));
            }
        }
    }

    fn read(&self, part: &Part, stop: &AtomicBool) -> io::Result<()> {
        let file = direct::open(&part.file)?;
        self.each_request(part, stop, |buffer, offset, wanted| {
            let read = file.read_at(buffer.bytes(), offset)?.min(wanted);
            if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(read) }
        })
    }

    fn write(&self, part: &Part, stop: &AtomicBool) -> io::Result<()> {
        let file: File = direct::create(&part.file)?;
        self.each_request(part, stop, |buffer, offset, wanted| {
            // No two requests are alike: a storage that looks for such must not find any.
            buffer.bytes()[..8].copy_from_slice(&offset.to_le_bytes());
            let written = file.write_at(&buffer.bytes()[..wanted], offset)?;
            file.sync_data()?;
            Ok(written)
        })
    }

    /// Moves a part, a timed request at a time.
    fn each_request(
        &self,
        part: &Part,
        stop: &AtomicBool,
        request: impl Fn(&mut Buffer, u64, usize) -> io::Result<usize>,
    ) -> io::Result<()> {
        let unit = usize::try_from(self.setting.request_bytes).unwrap_or(usize::MAX);
        let mut buffer = Buffer::new(unit);
        fastrand::Rng::with_seed(part.bytes).fill(buffer.bytes());
        let mut done = 0;
        while done < part.bytes && !stop.load(Relaxed) {
            let wanted = usize::try_from(part.bytes - done).unwrap_or(usize::MAX).min(unit);
            let sent = self.meter.send();
            let moved = request(&mut buffer, part.offset + done, wanted);
            self.meter.answer(sent, moved.as_ref().ok().map(|moved| *moved as u64));
            match moved {
                Ok(moved) => done += moved as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a file failed. Hundreds of files may fail for one reason: it is told once.
fn cause(file: &Path, error: &io::Error) -> String {
    let directory = file.parent().unwrap_or(file);
    format!("{}: {error}", directory.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Total;
    use std::time::Duration;

    const MIB: u64 = 1 << 20;

    /// What was moved, and the requests that were timed as reads.
    fn drive(run: &mut RawRun) -> (Moved, Option<Total>) {
        let Running { mut load, reads } = run.start().unwrap();
        while !load.has_ended() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let moved = load.bytes();
        load.stop();
        (moved, reads.map(|reads| reads.total()))
    }

    fn setting(direction: Direction, files: FileSize, concurrency: usize) -> Raw {
        Raw { direction, files, request_bytes: MIB, concurrency }
    }

    #[test]
    fn readers_read_what_they_are_given_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            let file = File::create(directory.path().join(name)).unwrap();
            file.set_len(2 * MIB + 100).unwrap();
        }
        let mut supply = Supply::find(directory.path(), [], 1).unwrap();
        let read = setting(Direction::Read, FileSize::Small, 2);
        let mut run = RawRun::new(read, 6 * MIB, &mut supply, directory.path()).unwrap();
        let (moved, total) = drive(&mut run);
        assert_eq!(moved, Moved { read: 6 * MIB + 300, written: 0 });
        let total = total.unwrap();
        assert_eq!(total.requests, 9);
        assert!(total.most <= 2, "{total:?}");
        assert_eq!(run.finish(&mut Measured::default()).unwrap(), Files::default());
    }

    #[test]
    fn writers_leave_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let mut supply = Supply::find(directory.path(), [], 1).unwrap();
        for (files, number, each) in [(FileSize::Small, 2, 4 * MIB), (FileSize::Large, 3, 3 * MIB)]
        {
            let write = setting(Direction::Write, files, 3);
            let mut run = RawRun::new(write, 8 * MIB, &mut supply, directory.path()).unwrap();
            let (moved, total) = drive(&mut run);
            assert_eq!(moved, Moved { read: 0, written: number * each });
            assert_eq!(total, None, "these are no reads");
            let outputs = run.finish(&mut Measured::default()).unwrap();
            assert_eq!((outputs.files as u64, outputs.bytes), (number, number * each));
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_file_that_became_shorter_is_a_failure_with_its_cause() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let file = File::create(&path).unwrap();
        file.set_len(3 * MIB).unwrap();
        let mut supply = Supply::find(directory.path(), [], 1).unwrap();
        let read = setting(Direction::Read, FileSize::Small, 1);
        let mut run = RawRun::new(read, MIB, &mut supply, directory.path()).unwrap();
        file.set_len(MIB).unwrap();
        drive(&mut run);
        let causes = run.finish(&mut Measured::default()).unwrap_err();
        assert_eq!(causes, [format!("{}: unexpected end of file", directory.path().display())]);
    }
}
