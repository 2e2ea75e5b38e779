//! Makes a GDELT archive of any size out of the bundled real rows.
//!
//! The tables agree as real ones do: events are mentioned, mentioned documents have GKG records.
//! Equal flags give equal bytes. Text and numbers are varied, so that the zips are about as large
//! as real ones. It makes no statement about the news: no row means anything.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the task is no stage: it writes an archive before any budget exists"
)]

mod daily;
mod fixtures;
mod gkg;
mod rng;
mod slot;
mod text;
mod world;
mod zip_file;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};
use chrono::NaiveDate;
use clap::{Args, value_parser};

use self::world::{Shape, World};
use self::zip_file::Zipper;

/// How many jobs, and so how many slots, are in memory at a time.
const THREADS: usize = 2;
/// The datasets, each of which has a folder.
const DATASETS: [&str; 6] =
    ["events", "events-15min", "mentions", "gkg-v2", "gkg-v1", "gkg-v1-counts"];

/// Flags of `make-archive`.
#[derive(Args, Clone, Debug)]
pub(crate) struct MakeArchive {
    /// Write the archive under this folder, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// Make this many days
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = value_parser!(u32).range(1..)
    )]
    days: u32,
    /// Begin on this day
    #[arg(long, value_name = "YYYY-MM-DD", default_value = "2020-06-01")]
    start_date: NaiveDate,
    /// Make this many slots of 15 minutes per day, from midnight on
    #[arg(
        long,
        value_name = "N",
        default_value_t = 96,
        value_parser = value_parser!(u32).range(1..=96)
    )]
    slots: u32,
    /// Make this many events per slot
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2000,
        value_parser = value_parser!(u32).range(1..)
    )]
    events: u32,
    /// Mention each event this many times on average
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4,
        value_parser = value_parser!(u32).range(1..)
    )]
    mentions_per_event: u32,
    /// Make about this many GKG records per slot
    #[arg(
        long,
        value_name = "N",
        default_value_t = 900,
        value_parser = value_parser!(u32).range(1..)
    )]
    gkg: u32,
    /// Put this many events into each daily file
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20_000,
        value_parser = value_parser!(u32).range(1..)
    )]
    daily_events: u32,
    /// Make another archive of the same shape for each number
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

impl MakeArchive {
    /// Makes the archive and prints its size.
    pub(crate) fn run(&self) -> Result<()> {
        let begun = Instant::now();
        let total = self.make(THREADS)?;
        let seconds = begun.elapsed().as_secs_f64();
        let [rows, zips] =
            [total.row_bytes, total.zip_bytes].map(|bytes| bytes.div_ceil(1_000_000));
        writeln!(
            std::io::stdout(),
            "{} files: {rows} MB of rows in {zips} MB of zips, made in {seconds:.1} s",
            total.files
        )?;
        Ok(())
    }

    /// Makes the archive with a number of threads, on which nothing but the time depends.
    fn make(&self, threads: usize) -> Result<Total> {
        let root = &self.root;
        let is_vacant = !root.exists() || fs::read_dir(root)?.next().is_none();
        ensure!(is_vacant, "{} is not empty", root.display());
        let world = World::new(self.shape())?;
        for dataset in DATASETS {
            let folder = root.join(dataset).join("raw");
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }

        let queue = Queue::new(&world.shape);
        thread::scope(|scope| {
            let work = || Worker { world: &world, root, zipper: Zipper::new() }.work(&queue);
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_fold(Total::default(), |total, worker| {
                let made = worker.join().map_err(|_| anyhow!("a worker panicked"))??;
                Ok(total.plus(made))
            })
        })
    }

    fn shape(&self) -> Shape {
        Shape {
            start: self.start_date,
            days: self.days as usize,
            slots: self.slots as usize,
            events: self.events as usize,
            mentions: self.mentions_per_event as usize,
            gkg: self.gkg as usize,
            daily_events: self.daily_events as usize,
            seed: self.seed,
        }
    }
}

/// What was made.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    files: usize,
    row_bytes: usize,
    zip_bytes: usize,
}

impl Total {
    fn plus(self, other: Self) -> Self {
        Self {
            files: self.files + other.files,
            row_bytes: self.row_bytes + other.row_bytes,
            zip_bytes: self.zip_bytes + other.zip_bytes,
        }
    }
}

/// A part of the archive that one thread makes at a time.
enum Job {
    /// The files of a slot, counted over all days.
    Slot(usize),
    /// The daily files of a day.
    Day(usize),
}

/// The jobs that no thread has taken yet.
struct Queue {
    next: AtomicUsize,
    slots_per_day: usize,
    end: usize,
}

impl Queue {
    fn new(shape: &Shape) -> Self {
        let end = shape.days * (shape.slots + 1);
        Self { next: AtomicUsize::new(0), slots_per_day: shape.slots, end }
    }

    /// Takes a job: the slots of a day, then the day.
    fn take(&self) -> Option<Job> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (day, slot) = (number / (self.slots_per_day + 1), number % (self.slots_per_day + 1));
        let job = if slot < self.slots_per_day {
            Job::Slot(day * self.slots_per_day + slot)
        } else {
            Job::Day(day)
        };
        (number < self.end).then_some(job)
    }

    /// Leaves no job to take.
    fn stop(&self) {
        self.next.store(self.end, Ordering::Relaxed);
    }
}

/// What a thread makes its jobs with.
struct Worker<'a> {
    world: &'a World,
    root: &'a Path,
    zipper: Zipper,
}

impl Worker<'_> {
    fn work(mut self, queue: &Queue) -> Result<Total> {
        let mut total = Total::default();
        while let Some(job) = queue.take() {
            let made = match job {
                Job::Slot(slot) => self.make_slot(slot),
                Job::Day(day) => self.make_day(day),
            };
            // The other threads need not finish an archive that is not to be.
            total = total.plus(made.inspect_err(|_| queue.stop())?);
        }
        Ok(total)
    }

    fn make_slot(&mut self, slot: usize) -> Result<Total> {
        let stamp = self.world.slot_stamp(slot);
        let tables = slot::make_slot(self.world, slot);
        let gkg = gkg::make_gkg(self.world, slot);
        self.write_all([
            ("events-15min", format!("{stamp}.export.CSV"), &tables.events),
            ("mentions", format!("{stamp}.mentions.CSV"), &tables.mentions),
            ("gkg-v2", format!("{stamp}.gkg.csv"), &gkg),
        ])
    }

    fn make_day(&mut self, day: usize) -> Result<Total> {
        let stamp = self.world.day_stamp(day);
        let tables = daily::make_day(self.world, day);
        self.write_all([
            ("events", format!("{stamp}.export.CSV"), &tables.events),
            ("gkg-v1", format!("{stamp}.gkg.csv"), &tables.gkg),
            ("gkg-v1-counts", format!("{stamp}.gkgcounts.csv"), &tables.counts),
        ])
    }

    fn write_all(&mut self, files: [(&str, String, &Vec<u8>); 3]) -> Result<Total> {
        let mut total = Total::default();
        for (dataset, member, rows) in files {
            let zip = self.zipper.zip(&member, rows).with_context(|| member.clone())?;
            let path = self.root.join(dataset).join("raw").join(format!("{member}.zip"));
            fs::write(&path, &zip).with_context(|| format!("cannot write {}", path.display()))?;
            total = total.plus(Total { files: 1, row_bytes: rows.len(), zip_bytes: zip.len() });
        }
        Ok(total)
    }
}

#[cfg(test)]
mod tests;
