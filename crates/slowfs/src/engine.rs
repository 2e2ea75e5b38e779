//! Passes requests through the modelled device in real time, and plays the other users.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::delay::DelayLine;
use crate::model::{Device, Kind, Request, SplitMix};
use crate::operation::Operation;
use crate::stats::{Class, Stats, Trace};

/// Threads that answer requests when their time has come: one may be busy answering.
const ANSWERING_THREADS: usize = 2;

/// A device, its clock, and the record of what passed.
pub struct Engine {
    device: Mutex<Device>,
    start: Instant,
    line: DelayLine,
    stats: Arc<Stats>,
    trace: Option<Arc<Trace>>,
    queue_meta: bool,
}

/// How a request came in.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// What it is called in the trace.
    pub operation: Operation,
    /// The process that asked.
    pub pid: u32,
    /// When it reached the file system.
    pub at: Instant,
    /// How much later than the device's answer it is answered.
    pub stall: Duration,
}

/// Simulated other users: each asks for a random block, waits for it, thinks, and asks again.
#[derive(Debug, Clone, Copy)]
pub struct Background {
    /// Users, each with one request in flight.
    pub users: u32,
    /// Bytes they ask for.
    pub bytes: u64,
    /// Time between an answer and the next request, on average.
    pub think: Duration,
}

impl Engine {
    /// An engine whose clock starts now.
    ///
    /// # Errors
    ///
    /// When its threads cannot be started.
    pub fn new(device: Device, stats: Arc<Stats>, trace: Option<Arc<Trace>>) -> io::Result<Self> {
        let queue_meta = device.config().meta > Duration::ZERO;
        Ok(Self {
            device: Mutex::new(device),
            start: Instant::now(),
            line: DelayLine::new(ANSWERING_THREADS)?,
            stats,
            trace,
            queue_meta,
        })
    }

    /// Queues a request and calls `answer` when the device is done with it.
    pub fn submit(
        &self,
        request: Request,
        arrival: Arrival,
        answer: impl FnOnce() + Send + 'static,
    ) {
        let class = match request.kind {
            Kind::Read => Class::Read,
            Kind::Write => Class::Write,
            Kind::Meta => Class::Meta,
        };
        self.stats.begin(class, arrival.at);
        let (done, ahead) = if class == Class::Meta && !self.queue_meta {
            (arrival.at, 0)
        } else {
            self.admit(&request, arrival.at)
        };
        let due = done.checked_add(arrival.stall).unwrap_or(done);
        let (stats, trace) = (Arc::clone(&self.stats), self.trace.clone());
        let finish = move || {
            // Recorded before the answer: the client may ask again before `answer` returns.
            let now = Instant::now();
            stats.end(class, arrival.at, now, request.bytes);
            if let Some(trace) = trace {
                trace.record(&request, &arrival, ahead, now.saturating_duration_since(arrival.at));
            }
            answer();
        };
        if due <= Instant::now() {
            finish();
        } else {
            self.line.at(due, finish);
        }
    }

    /// The instant of the answer, and the requests ahead in the queue.
    fn admit(&self, request: &Request, arrived: Instant) -> (Instant, usize) {
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        let admission = device.admit(arrived.saturating_duration_since(self.start), request);
        (self.start.checked_add(admission.reply).unwrap_or(arrived), admission.ahead)
    }

    /// Starts the simulated other users. Their threads end with the process.
    ///
    /// # Errors
    ///
    /// When a thread cannot be started.
    pub fn start_background(self: &Arc<Self>, load: Background) -> io::Result<()> {
        for user in 0..load.users {
            let engine = Arc::clone(self);
            thread::Builder::new()
                .name("slowfs-user".to_owned())
                .spawn(move || engine.play_user(u64::from(user), load))?;
        }
        Ok(())
    }

    fn play_user(&self, user: u64, load: Background) {
        let mut random = SplitMix(user + 1);
        loop {
            let request = Request {
                kind: Kind::Read,
                file: u64::MAX - user,
                offset: random.next_u64() >> 20,
                bytes: load.bytes,
            };
            let arrived = Instant::now();
            self.stats.begin(Class::Background, arrived);
            let (due, _) = self.admit(&request, arrived);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            self.stats.end(Class::Background, arrived, Instant::now(), load.bytes);
            let think = load.think.as_secs_f64() * random.factor(0.5);
            thread::sleep(Duration::try_from_secs_f64(think).unwrap_or(load.think));
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Engine")
            .field("device", &self.device)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Config;
    use std::sync::mpsc;

    #[test]
    fn an_answer_comes_when_the_device_and_the_stall_are_over() {
        let milliseconds = Duration::from_millis;
        let config = Config { seek: milliseconds(20), ..Config::default() };
        let engine = Engine::new(Device::new(config), Arc::new(Stats::new()), None).unwrap();
        let (sent, answers) = mpsc::channel();
        let submit = |kind, file, stall| {
            let at = Instant::now();
            let arrival = Arrival { operation: Operation::Read, pid: 1, at, stall };
            let sent = sent.clone();
            engine.submit(Request { kind, file, offset: 0, bytes: 1 }, arrival, move || {
                sent.send((file, at.elapsed())).unwrap();
            });
        };
        submit(Kind::Read, 1, milliseconds(50));
        submit(Kind::Read, 2, Duration::ZERO);
        submit(Kind::Meta, 3, Duration::ZERO);
        let got: Vec<_> = answers.iter().take(3).collect();
        assert_eq!(got.iter().map(|(file, _)| *file).collect::<Vec<_>>(), [3, 2, 1]);
        assert!(got[1].1 >= milliseconds(39), "{got:?}");
        assert!(got[2].1 >= milliseconds(70), "{got:?}");
    }
}
