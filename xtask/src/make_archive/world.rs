//! What the tables of an archive agree on: slots, ids, documents and who tells which story.
//!
//! Everything here follows from the seed and a number, never from rows made before, so that a slot
//! can speak of the events and documents of another without making it.

use anyhow::{Context as _, Result, ensure};
use chrono::{Datelike as _, Days, NaiveDate};

use super::fixtures::{Fixtures, Row};
use super::rng::{Part, Rng};
use super::text::{Remix, write_number};

/// The id of the first event; GDELT gave it out early in 2020.
const FIRST_EVENT: u64 = 900_000_000;
/// A longer run of fixture rows would copy too much, a shorter one lose what neighbours share.
const SHORTEST_RUN: usize = 16;
const LONGEST_RUN: usize = 80;

/// How much is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The first day.
    pub(crate) start: NaiveDate,
    /// The number of days.
    pub(crate) days: usize,
    /// The slots of a day.
    pub(crate) slots: usize,
    /// The events of a slot.
    pub(crate) events: usize,
    /// The mean number of mentions per event.
    pub(crate) mentions: usize,
    /// The GKG records of a slot, about.
    pub(crate) gkg: usize,
    /// The events of a daily file.
    pub(crate) daily_events: usize,
    /// What all random choices follow from.
    pub(crate) seed: u64,
}

/// How the GKG treats a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// One record in the slot of the document.
    Once,
    /// Two records in that slot.
    Twice,
    /// One record in the next slot.
    Late,
    /// No record.
    Never,
}

/// A news article, or now and then a citation of something that is no web page.
#[derive(Debug)]
pub(crate) struct Document {
    /// The URL.
    pub(crate) identifier: Vec<u8>,
    /// The name of the source, such as the domain.
    pub(crate) source: Vec<u8>,
    /// Whether the identifier is a URL.
    pub(crate) is_web: bool,
    /// The length in words.
    pub(crate) words: u32,
    /// How many words are positive.
    pub(crate) positive: u32,
    /// How many words are negative.
    pub(crate) negative: u32,
    /// What percentage of the words is positive less what is negative, as text.
    pub(crate) tone: Vec<u8>,
}

impl Document {
    /// Appends a count of words as a percentage of the document.
    pub(crate) fn write_share(&self, out: &mut Vec<u8>, count: f64) {
        write_tone(out, 100.0 * count / f64::from(self.words));
    }
}

/// The part of an event that its rows in several tables share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    /// Which fixture row it follows.
    pub(crate) template: usize,
    /// Which story of its file it belongs to: events of one story share their documents.
    pub(crate) story: usize,
}

/// The bundled rows, and the rules that the tables of an archive share.
#[derive(Debug)]
pub(crate) struct World {
    /// How much is made.
    pub(crate) shape: Shape,
    /// The bundled rows.
    pub(crate) fixtures: Fixtures,
    dates: Vec<NaiveDate>,
}

impl World {
    /// Loads the bundled rows for an archive of a shape.
    pub(crate) fn new(shape: Shape) -> Result<Self> {
        let after = |days: usize| shape.start.checked_add_days(Days::new(days as u64));
        let dates = (0..shape.days).map(after).collect::<Option<Vec<_>>>();
        let dates = dates.context("the last day is out of range")?;
        let fits = dates.iter().all(|date| (1979..=2100).contains(&date.year()));
        ensure!(fits, "the days are not all between 1979 and 2100");
        Ok(Self { shape, fixtures: Fixtures::load()?, dates })
    }

    /// Returns the date of a day, counted from the first.
    pub(crate) fn date(&self, day: usize) -> NaiveDate {
        self.dates[day]
    }

    /// Returns the name of a day: `YYYYMMDD`.
    pub(crate) fn day_stamp(&self, day: usize) -> String {
        self.date(day).format("%Y%m%d").to_string()
    }

    /// Returns the name of a slot, counted from the first of the archive: `YYYYMMDDHHMMSS`.
    pub(crate) fn slot_stamp(&self, slot: usize) -> String {
        let (day, quarter) = (slot / self.shape.slots, slot % self.shape.slots);
        format!("{}{:02}{:02}00", self.day_stamp(day), quarter / 4, quarter % 4 * 15)
    }

    /// Returns the id of the first event of a slot.
    pub(crate) fn first_of_slot(&self, slot: usize) -> u64 {
        let (day, quarter) = (slot / self.shape.slots, slot % self.shape.slots);
        FIRST_EVENT + (day * self.events_of_day() + quarter * self.shape.events) as u64
    }

    /// Returns the id of the first event of a daily file, which follows the slots of its day.
    pub(crate) fn first_of_daily(&self, day: usize) -> u64 {
        FIRST_EVENT + ((day + 1) * self.events_of_day() - self.shape.daily_events) as u64
    }

    fn events_of_day(&self) -> usize {
        self.shape.slots * self.shape.events + self.shape.daily_events
    }

    /// Returns how many documents a slot has; the GKG has a record of nine in ten.
    pub(crate) fn documents(&self) -> usize {
        (self.shape.gkg * 10).div_ceil(9)
    }

    /// Returns how many documents of a slot, from the first on, events may be found in.
    pub(crate) fn mentionable(&self) -> usize {
        self.documents() - self.documents() / 8
    }

    /// Returns how the GKG treats a document.
    pub(crate) fn fate(&self, slot: usize, number: usize) -> Fate {
        self.start_document(slot, number).1
    }

    fn start_document(&self, slot: usize, number: usize) -> (Rng, Fate) {
        let mut rng = Rng::new(self.shape.seed, Part::Document, [slot, number]);
        let fate = match rng.below(100) {
            // The smallest archive, too, has a record in each slot.
            _ if number == 0 => Fate::Once,
            0..12 => Fate::Never,
            12..14 => Fate::Twice,
            14..17 => Fate::Late,
            _ => Fate::Once,
        };
        (rng, fate)
    }

    /// Returns a document of a slot.
    pub(crate) fn document(&self, slot: usize, number: usize) -> Document {
        let (mut rng, _) = self.start_document(slot, number);
        let words = 60 + rng.below(400) + rng.below(700);
        let [positive, negative] = [(); 2].map(|()| rng.below(words / 14 + 1));
        let is_web = number < self.mentionable() || !rng.one_in(16);
        let (identifier, source) = if is_web {
            self.web_page(slot * self.documents() + number, &mut rng)
        } else {
            let citation = rng.pick(&self.fixtures.citations).cloned().unwrap_or_default();
            (citation, b"BBC Monitoring".to_vec())
        };
        let [words, positive, negative] =
            [words, positive, negative].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let mut document =
            Document { identifier, source, is_web, words, positive, negative, tone: Vec::new() };
        let mut tone = Vec::new();
        document.write_share(&mut tone, f64::from(positive) - f64::from(negative));
        document.tone = tone;
        document
    }

    /// Returns a URL and its domain. The number right after the domain makes it unique.
    fn web_page(&self, serial: usize, rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
        let template =
            rng.pick(&self.fixtures.urls).map_or(&b"http://example.com/"[..], Vec::as_slice);
        let host_start = template.windows(3).position(|part| part == b"://").map_or(0, |at| at + 3);
        let host_length = template[host_start..].iter().take_while(|byte| **byte != b'/').count();
        let (host, path) = template.split_at(host_start + host_length);
        let source = host[host_start..].strip_prefix(b"www.").unwrap_or(&host[host_start..]);

        let mut url = host.to_vec();
        url.push(b'/');
        write_number(&mut url, serial as u64);
        let remix = Remix { words: &self.fixtures.words, share: 10, stamp: b"20200101000000" };
        remix.write(&mut url, path, rng);
        (url, source.to_vec())
    }
}

/// Deals runs of neighbouring fixture rows to `count` events, and returns the number of stories.
///
/// Rows of a run that shared a URL share a story, which keeps what real neighbours have in common.
pub(crate) fn deal_roles(templates: &[Row], count: usize, rng: &mut Rng) -> (Vec<Role>, usize) {
    let mut roles = Vec::with_capacity(count);
    let mut stories = 0;
    while roles.len() < count {
        let length = SHORTEST_RUN + rng.below(LONGEST_RUN - SHORTEST_RUN);
        let start = rng.below(templates.len());
        let mut seen: Vec<(&[u8], usize)> = Vec::new();
        for template in (start..templates.len()).take(length.min(count - roles.len())) {
            let url = templates[template].last();
            let known = seen.iter().rfind(|(other, _)| *other == url);
            let story = known.map_or(stories, |(_, story)| *story);
            if story == stories {
                seen.push((url, story));
                stories += 1;
            }
            roles.push(Role { template, story });
        }
    }
    (roles, stories)
}

/// Appends a tone as GDELT writes numbers: 15 significant digits, no trailing zeros.
fn write_tone(out: &mut Vec<u8>, tone: f64) {
    let decimals = if tone.abs() < 10.0 { 14 } else { 13 };
    let text = format!("{tone:.decimals$}");
    out.extend(text.trim_end_matches('0').trim_end_matches('.').as_bytes());
}
