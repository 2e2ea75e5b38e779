//! Groups runs into cells: the repeats of one setting on one directory.
//!
//! Rates and times of a cell are those of the runs that count. Runs that were killed, that failed
//! or that were refused are counted beside them, so that every run is in exactly one cell. The
//! order of cells depends on the settings alone, never on the order of the runs.

use std::cmp::Ordering;
use std::path::Path;

use crate::record::{Direction, Measured, Outcome, Run, Setting, Stage};
use crate::shown::{megabytes, number};
use crate::statistics::Spread;

/// What the runs of one setting on one directory gave.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell<'a> {
    /// The directory that was measured.
    pub(crate) directory: &'a Path,
    /// The setting, as the first of the runs has it.
    pub(crate) setting: &'a Setting,
    /// All its runs, by repeat.
    pub(crate) runs: Vec<&'a Run>,
    /// Runs that did all they were to do.
    pub(crate) complete: usize,
    /// Runs that were ended at the time that a run may take.
    pub(crate) capped: usize,
    /// Runs that were killed.
    pub(crate) killed: Vec<Killed>,
    /// Runs that failed.
    pub(crate) failed: usize,
    /// Runs that were refused.
    pub(crate) refused: usize,
    /// Rate of reading in MB/s, over the runs that count, like all that follow.
    pub(crate) read_mb_s: Option<Spread>,
    /// Rate of writing in MB/s.
    pub(crate) write_mb_s: Option<Spread>,
    /// Mean round trip in milliseconds.
    pub(crate) rtt_ms: Option<Spread>,
    /// Round trip of the worst five seconds, in milliseconds.
    pub(crate) worst_ms: Option<Spread>,
    /// Seconds until the first hundredth of the bytes.
    pub(crate) startup_seconds: Option<Spread>,
    /// Seconds after the last but one hundredth of the bytes.
    pub(crate) tail_seconds: Option<Spread>,
    /// Largest resident memory in MB.
    pub(crate) peak_mb: Option<Spread>,
    /// Mean number of requests in flight, by the program's own count.
    pub(crate) in_flight: Option<Spread>,
    /// The same by the kernel's count, for the whole host.
    pub(crate) kernel_in_flight: Option<Spread>,
    /// The largest number of requests in flight at once by the program's own count, over all
    /// runs, counted or not.
    pub(crate) most_in_flight: Option<usize>,
    /// Median round trip of a read that is alone, in milliseconds, before and after all runs.
    pub(crate) idle_ms: Option<Spread>,
}

/// A run that was killed, as far as it got.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Killed {
    /// Rate until then in MB/s, of reading or of writing as the setting asks.
    pub(crate) mb_s: Option<f64>,
    /// Mean round trip until then, in milliseconds; that of the last five seconds where only this
    /// is known.
    pub(crate) rtt_ms: f64,
    /// When it was killed, in seconds since it began.
    pub(crate) after_seconds: Option<f64>,
}

/// The cells of these runs, in the order of their settings.
pub(crate) fn cells(runs: &[Run]) -> Vec<Cell<'_>> {
    let mut sorted: Vec<&Run> = runs.iter().collect();
    sorted.sort_by(|one, other| {
        by_setting(one, other)
            .then_with(|| one.repeat.cmp(&other.repeat))
            .then_with(|| one.began.cmp(&other.began))
            .then_with(|| one.order.cmp(&other.order))
    });
    sorted.chunk_by(|one, other| by_setting(one, other).is_eq()).map(Cell::of).collect()
}

impl<'a> Cell<'a> {
    fn of(runs: &[&'a Run]) -> Self {
        let outcomes =
            |wanted: fn(&Outcome) -> bool| runs.iter().filter(|run| wanted(&run.outcome)).count();
        let spread = |figure: fn(&Run, &Measured) -> Option<f64>| {
            let counting = runs.iter().filter(|run| run.outcome.counts());
            Spread::of(counting.filter_map(|run| figure(run, run.measured.as_ref()?)))
        };
        let idle = runs.iter().flat_map(|run| [run.idle_before, run.idle_after]).flatten();
        let most = |run: &&Run| run.measured.as_ref()?.in_flight?.most;
        Self {
            directory: &runs[0].target.directory,
            setting: &runs[0].setting,
            runs: runs.to_vec(),
            complete: outcomes(|outcome| matches!(outcome, Outcome::Complete)),
            capped: outcomes(|outcome| matches!(outcome, Outcome::Capped)),
            killed: runs.iter().filter_map(|run| Killed::of(run)).collect(),
            failed: outcomes(|outcome| matches!(outcome, Outcome::Failed { .. })),
            refused: outcomes(|outcome| matches!(outcome, Outcome::Refused { .. })),
            read_mb_s: spread(|run, _| run.read_mb_s()),
            write_mb_s: spread(|run, _| run.write_mb_s()),
            rtt_ms: spread(|_, measured| Some(measured.latency?.mean_ms)),
            worst_ms: spread(|_, measured| Some(measured.latency?.worst_ms)),
            startup_seconds: spread(|_, measured| measured.startup_seconds),
            tail_seconds: spread(|_, measured| measured.tail_seconds),
            peak_mb: spread(|_, measured| measured.peak_rss_bytes.map(megabytes)),
            in_flight: spread(|_, measured| measured.in_flight?.mean),
            kernel_in_flight: spread(|_, measured| measured.kernel_in_flight?.mean),
            most_in_flight: runs.iter().filter_map(most).max(),
            idle_ms: Spread::of(idle.map(|idle| idle.p50_ms)),
        }
    }

    /// Rate in MB/s of what the setting is about: of writing for raw writers, else of reading.
    pub(crate) fn rate(&self) -> Option<Spread> {
        if writes(self.setting) { self.write_mb_s } else { self.read_mb_s }
    }

    /// The same rate of the killed runs, up to where they were killed.
    pub(crate) fn killed_rate(&self) -> Option<Spread> {
        Spread::of(self.killed.iter().filter_map(|killed| killed.mb_s))
    }

    /// Mean round trip of the killed runs, in milliseconds.
    pub(crate) fn killed_rtt(&self) -> Option<Spread> {
        Spread::of(self.killed.iter().map(|killed| killed.rtt_ms))
    }

    /// How the runs ended, as `ok` or `3 ok, 2 killed (58.5 MB/s est., after 8-21 s)`.
    pub(crate) fn status(&self) -> String {
        if self.complete == self.runs.len() {
            return "ok".to_owned();
        }
        let plain = |count: usize, word: &str| (count > 0).then(|| format!("{count} {word}"));
        let killed = (!self.killed.is_empty())
            .then(|| format!("{} killed{}", self.killed.len(), self.until_the_kill()));
        [
            plain(self.complete, "ok"),
            plain(self.capped, "capped"),
            killed,
            plain(self.failed, "failed"),
            plain(self.refused, "refused"),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
    }

    /// What killed runs did before, in brackets.
    fn until_the_kill(&self) -> String {
        let rate = self.killed_rate().map(|rate| format!("{} MB/s est.", number(rate.mean)));
        let after = Spread::of(self.killed.iter().filter_map(|killed| killed.after_seconds));
        let after = after.map(|after| {
            let (first, last) = (format!("{:.0}", after.least), format!("{:.0}", after.greatest));
            if first == last {
                format!("after {first} s")
            } else {
                format!("after {first}-{last} s")
            }
        });
        let known: Vec<_> = [rate, after].into_iter().flatten().collect();
        if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
    }
}

impl Killed {
    fn of(run: &Run) -> Option<Self> {
        let Outcome::Killed { rtt_ms } = run.outcome else { return None };
        let measured = run.measured.as_ref();
        let latency = measured.and_then(|measured| measured.latency);
        Some(Self {
            mb_s: if writes(&run.setting) { run.write_mb_s() } else { run.read_mb_s() },
            rtt_ms: latency.map_or(rtt_ms, |latency| latency.mean_ms),
            after_seconds: measured.map(|measured| measured.seconds),
        })
    }
}

fn writes(setting: &Setting) -> bool {
    matches!(setting, Setting::Raw(raw) if raw.direction == Direction::Write)
}

/// Raw reads, raw writes, stages, checks; in each by directory, then by the setting.
fn by_setting(one: &Run, other: &Run) -> Ordering {
    let kind = |run: &Run| match &run.setting {
        Setting::Raw(_) => (0, writes(&run.setting)),
        Setting::Stage(_) => (1, false),
        Setting::Check(_) => (2, false),
    };
    let directory = |run: &Run| run.target.directory.to_string_lossy().into_owned();
    kind(one)
        .cmp(&kind(other))
        .then_with(|| natural(&directory(one), &directory(other)))
        .then_with(|| one.target.directory.cmp(&other.target.directory))
        .then_with(|| match (&one.setting, &other.setting) {
            (Setting::Raw(one), Setting::Raw(other)) => one.cmp(other),
            (Setting::Stage(one), Setting::Stage(other)) => by_stage(one, other),
            (Setting::Check(one), Setting::Check(other)) => {
                // No limit is more than any.
                let limit = |limit: Option<usize>| (limit.is_none(), limit);
                (one.threads, limit(one.limit)).cmp(&(other.threads, limit(other.limit)))
            }
            _ => Ordering::Equal, // kinds that differ are told apart above
        })
}

fn by_stage(one: &Stage, other: &Stage) -> Ordering {
    let varied = |one: (&String, &String), other: (&String, &String)| {
        natural(one.0, other.0).then_with(|| natural(one.1, other.1))
    };
    natural(&one.stage, &other.stage).then_with(|| natural(&one.dataset, &other.dataset)).then_with(
        || {
            let pairs = one.varied.iter().zip(&other.varied);
            let first = pairs.map(|(one, other)| varied(one, other)).find(|order| order.is_ne());
            first.unwrap_or_else(|| one.varied.len().cmp(&other.varied.len()))
        },
    )
}

/// The order in which people count: digits are compared as the numbers they write.
fn natural(one: &str, other: &str) -> Ordering {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Piece<'a> {
        // A number with more digits is larger, once leading zeros are gone.
        Digits(usize, &'a [u8]),
        Text(&'a [u8]),
    }
    fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
        let alike = |one: &u8, other: &u8| one.is_ascii_digit() == other.is_ascii_digit();
        text.as_bytes().chunk_by(alike).map(|piece| {
            if !piece[0].is_ascii_digit() {
                return Piece::Text(piece);
            }
            let zeros = piece.iter().take_while(|digit| **digit == b'0').count();
            Piece::Digits(piece.len() - zeros, &piece[zeros..])
        })
    }
    pieces(one).cmp(pieces(other)).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests;
