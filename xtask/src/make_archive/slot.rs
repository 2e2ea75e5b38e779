//! Makes the events and the mentions of a slot.

use chrono::{Datelike as _, Days, NaiveDate};

use super::fixtures::Row;
use super::rng::{Part, Rng};
use super::text::{read_number, write_number};
use super::world::{Document, Role, World, deal_roles};

/// Where the columns begin or end that are copied in one piece.
const FIRST_ACTOR: usize = 5;
const GOLDSTEIN: usize = 30;
const FIRST_PLACE: usize = 35;
/// How many slots back a mentioned event may lie.
const LONGEST_LAG: usize = 12;
/// How many documents lie between the first ones of neighbouring stories, at most.
const VICINITY: usize = 160;
/// How many documents of a story speak of earlier events.
const NEIGHBOURS: usize = 4;
/// About one mention in so many is another one by the first document.
const TWICE: usize = 64;
/// About one row in so many gets an oddity.
const ODDITY: usize = 1000;

/// An event and where its slot speaks of it.
struct Event {
    role: Role,
    mentions: usize,
}

/// What the two files of a slot agree on.
struct Plan<'a> {
    world: &'a World,
    slot: usize,
    stamp: String,
    documents: Vec<Document>,
    /// The first document of each story; its neighbours tell it, too.
    stories: Vec<usize>,
    events: Vec<Event>,
}

/// The rows of the two files of a slot.
#[derive(Debug, Default)]
pub(crate) struct SlotTables {
    /// The events, 61 columns.
    pub(crate) events: Vec<u8>,
    /// The mentions, 16 columns.
    pub(crate) mentions: Vec<u8>,
}

/// Makes the events and mentions of a slot.
pub(crate) fn make_slot(world: &World, slot: usize) -> SlotTables {
    let mut rng = Rng::new(world.shape.seed, Part::Events, [slot, 0]);
    let plan = Plan::new(world, slot, &mut rng);
    SlotTables { events: plan.events(&mut rng), mentions: plan.mentions(&mut rng) }
}

impl<'a> Plan<'a> {
    fn new(world: &'a World, slot: usize, rng: &mut Rng) -> Self {
        let count = world.mentionable();
        let (roles, stories) = deal_roles(&world.fixtures.events, world.shape.events, rng);
        // Stories that are near each other share documents, as the parts of long stories do.
        let mut first = |story| story * count / stories + rng.below(VICINITY);
        let stories = (0..stories).map(&mut first).collect();
        // A quarter of the mentions is left to events of earlier slots.
        let own = world.shape.mentions - world.shape.mentions / 4;
        let event = |role| Event { role, mentions: 1 + rng.below(2 * own - 1) };
        Self {
            world,
            slot,
            stamp: world.slot_stamp(slot),
            documents: (0..count).map(|number| world.document(slot, number)).collect(),
            events: roles.into_iter().map(event).collect(),
            stories,
        }
    }

    /// Returns a document of a story; the 0th is the one that the event's SOURCEURL names.
    fn document(&self, story: usize, number: usize) -> &Document {
        &self.documents[(self.stories[story] + number) % self.documents.len()]
    }

    fn events(&self, rng: &mut Rng) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.events.len() * 450);
        let added = self.world.date(self.slot / self.world.shape.slots);
        for (id, event) in (self.world.first_of_slot(self.slot)..).zip(&self.events) {
            EventRow {
                id,
                template: &self.world.fixtures.events[event.role.template],
                added,
                added_stamp: self.stamp.as_bytes(),
                mentions: event.mentions,
                document: self.document(event.role.story, 0),
            }
            .write(&mut out, rng);
        }
        out
    }

    fn mentions(&self, rng: &mut Rng) -> Vec<u8> {
        let templates = &self.world.fixtures.mentions;
        let mut out = Vec::with_capacity(self.events.len() * self.world.shape.mentions * 220);
        let mut template = rng.below(templates.len());
        let mut write = |id, slot_stamp: &str, document, rng: &mut Rng| {
            // Neighbouring rows have much in common, so templates are neighbours, too.
            template = if rng.one_in(24) { rng.below(templates.len()) } else { template + 1 };
            template %= templates.len();
            self.write_mention(&mut out, &templates[template], (id, slot_stamp), document, rng);
        };
        for (id, event) in (self.world.first_of_slot(self.slot)..).zip(&self.events) {
            let story = event.role.story;
            for number in 0..event.mentions {
                // A document may well speak of an event twice.
                let number = if rng.one_in(TWICE) { 0 } else { number };
                write(id, &self.stamp, self.document(story, number), rng);
            }
            for _ in 0..rng.below(2 * (self.world.shape.mentions / 4) + 1) {
                if let Some((id, stamp)) = self.earlier_event(rng) {
                    write(id, &stamp, self.document(story, rng.below(NEIGHBOURS)), rng);
                }
            }
        }
        out
    }

    /// Draws an event of an earlier slot, with the time of that slot.
    fn earlier_event(&self, rng: &mut Rng) -> Option<(u64, String)> {
        let lag = 1 + rng.below(LONGEST_LAG.min(self.slot));
        let slot = self.slot.checked_sub(lag)?;
        let number = rng.below(self.world.shape.events) as u64;
        Some((self.world.first_of_slot(slot) + number, self.world.slot_stamp(slot)))
    }

    fn write_mention(
        &self,
        out: &mut Vec<u8>,
        template: &Row,
        (event, event_stamp): (u64, &str),
        document: &Document,
        rng: &mut Rng,
    ) {
        write_number(out, event);
        for stamp in [event_stamp, &self.stamp] {
            out.push(b'\t');
            out.extend(stamp.as_bytes());
        }
        let citation =
            if rng.one_in(400) { rng.pick(&self.world.fixtures.citations) } else { None };
        if let Some(citation) = citation {
            out.extend(b"\t2\tBBC Monitoring\t");
            out.extend(citation);
        } else {
            out.extend(b"\t1\t");
            out.extend(&document.source);
            out.push(b'\t');
            out.extend(&document.identifier);
        }
        out.push(b'\t');
        out.extend(template.cells(6, 11));
        out.push(b'\t');
        write_number(out, u64::from(document.words) * 6 + u64::from(document.positive));
        out.push(b'\t');
        out.extend(&document.tone);
        out.extend(b"\t\t\n");
    }
}

/// An event of a 15-minute or a daily file: the width of the template tells which.
pub(crate) struct EventRow<'a> {
    /// `GlobalEventID`.
    pub(crate) id: u64,
    /// The fixture row that most columns come from.
    pub(crate) template: &'a Row,
    /// The day of DATEADDED.
    pub(crate) added: NaiveDate,
    /// DATEADDED as written.
    pub(crate) added_stamp: &'a [u8],
    /// `NumMentions` and `NumArticles`.
    pub(crate) mentions: usize,
    /// The document of SOURCEURL.
    pub(crate) document: &'a Document,
}

impl EventRow<'_> {
    /// Appends the row.
    pub(crate) fn write(&self, out: &mut Vec<u8>, rng: &mut Rng) {
        let template = self.template;
        let added_column = template.width() - 2;
        let odd = rng.one_in(ODDITY);

        write_number(out, self.id);
        self.write_day(out, rng);
        out.push(b'\t');
        // GDELT leaves the Goldstein scale empty where it does not know the event code.
        let kept = if odd { GOLDSTEIN - 1 } else { GOLDSTEIN };
        out.extend(template.cells(FIRST_ACTOR, kept));
        if odd {
            out.push(b'\t');
        }
        for count in [self.mentions, self.mentions.div_ceil(2), self.mentions] {
            out.push(b'\t');
            write_number(out, count as u64);
        }
        out.push(b'\t');
        out.extend(&self.document.tone);
        out.push(b'\t');
        out.extend(template.cells(FIRST_PLACE, FIRST_PLACE));
        out.push(b'\t');
        let name = template.cell(FIRST_PLACE + 1);
        out.extend(if odd && !name.is_empty() { &b"\"\xc2\x92 "[..] } else { b"" });
        out.extend(name);
        out.push(b'\t');
        out.extend(template.cells(FIRST_PLACE + 2, added_column - 1));
        out.push(b'\t');
        out.extend(self.added_stamp);
        out.push(b'\t');
        out.extend(&self.document.identifier);
        out.push(b'\n');
    }

    /// Appends Day to `FractionDate`: as long before DATEADDED as in the template.
    fn write_day(&self, out: &mut Vec<u8>, rng: &mut Rng) {
        let template_added = read_date(self.template.cell(self.template.width() - 2));
        let age = template_added.zip(read_date(self.template.cell(1)));
        let age = age.map_or(0, |(added, day)| (added - day).num_days());
        let back = u64::try_from(age).unwrap_or(0);
        let mut date = self.added.checked_sub_days(Days::new(back)).unwrap_or(self.added);
        let mut year = date.year().unsigned_abs();
        let rate = mistake_rate(self.added_stamp);
        if back < 7 && rate.is_some_and(|rate| rng.one_in(rate)) {
            let new_year = NaiveDate::from_yo_opt(2020, 1).unwrap_or(date);
            date = date.max(new_year);
            year = 1920;
        }
        let (month, day) = (date.month(), date.day());
        // GDELT's own formula: months of 30 days.
        let fraction = f64::from((month - 1) * 30 + day) / 365.0;
        let text = format!("\t{year}{month:02}{day:02}\t{year}{month:02}\t{year}\t");
        out.extend(text.as_bytes());
        out.extend(format!("{:.4}", f64::from(year) + fraction).as_bytes());
    }
}

/// Tells how rarely a new event is dated 1920: GDELT did so from an hour before 2020 until its
/// fifth day, so that only few events of the last daily file of 2019 are concerned.
fn mistake_rate(added_stamp: &[u8]) -> Option<usize> {
    match read_number(added_stamp) {
        20_191_231 => Some(48),
        20_200_101..=20_200_105 | 20_191_231_230_000..=20_200_105_150_000 => Some(2),
        _ => None,
    }
}

/// Reads the date that a time stamp begins with.
fn read_date(stamp: &[u8]) -> Option<NaiveDate> {
    let number = u32::try_from(read_number(stamp.get(..8)?)).ok()?;
    let year = i32::try_from(number / 10_000).ok()?;
    NaiveDate::from_ymd_opt(year, number / 100 % 100, number % 100)
}
