//! Makes the three files of a day: events, GKG 1.0 and its counts.

use super::fixtures::Lists;
use super::gkg::{write_count, write_tones};
use super::rng::{Part, Rng};
use super::slot::EventRow;
use super::text::{Remix, write_number};
use super::world::{Document, World, deal_roles};

/// The header line of a GKG 1.0 file.
const GKG_HEADER: &[u8] =
    b"DATE\tNUMARTS\tCOUNTS\tTHEMES\tLOCATIONS\tPERSONS\tORGANIZATIONS\tTONE\t\
    CAMEOEVENTIDS\tSOURCES\tSOURCEURLS\n";
/// The header line of a counts file.
const COUNTS_HEADER: &[u8] =
    b"DATE\tNUMARTS\tCOUNTTYPE\tNUMBER\tOBJECTTYPE\tGEO_TYPE\tGEO_FULLNAME\t\
    GEO_COUNTRYCODE\tGEO_ADM1CODE\tGEO_LAT\tGEO_LONG\tGEO_FEATUREID\t\
    CAMEOEVENTIDS\tSOURCES\tSOURCEURLS\n";
/// How many of 16 words of names are replaced.
const SHARE: usize = 5;

/// The files of a day.
#[derive(Debug)]
pub(crate) struct DayTables {
    /// The events, 58 columns.
    pub(crate) events: Vec<u8>,
    /// GKG 1.0, 11 columns with a header line.
    pub(crate) gkg: Vec<u8>,
    /// GKG 1.0 counts, 15 columns with a header line.
    pub(crate) counts: Vec<u8>,
}

/// A story of a day: where it was told, and the events that it tells of.
struct Story {
    slot: usize,
    number: usize,
    events: Vec<u64>,
}

/// Makes the files of a day.
pub(crate) fn make_day(world: &World, day: usize) -> DayTables {
    let mut rng = Rng::new(world.shape.seed, Part::Daily, [day, 0]);
    let mut tables =
        DayTables { events: Vec::new(), gkg: GKG_HEADER.to_vec(), counts: COUNTS_HEADER.to_vec() };
    let stories = make_events(world, day, &mut tables.events, &mut rng);
    let stamp = world.day_stamp(day);
    for (number, story) in stories.iter().enumerate() {
        let mut events = story.events.clone();
        // Several namesets tell of one event, and some of none.
        if rng.one_in(6) {
            events.extend(rng.pick(&stories[..=number]).iter().flat_map(|other| &other.events));
        } else if rng.one_in(4) {
            events.clear();
        }
        let articles = if rng.one_in(6) { 2 + rng.below(4) } else { 1 };
        let number_in_slot = |more| (story.number + more) % world.mentionable();
        let documents = (0..articles).map(|more| world.document(story.slot, number_in_slot(more)));
        let documents: Vec<_> = documents.collect();
        Nameset { world, stamp: &stamp, documents: &documents, events: &events }
            .write(&mut tables, &mut rng);
    }
    tables
}

/// Writes the events of a day and returns the stories that they belong to.
fn make_events(world: &World, day: usize, out: &mut Vec<u8>, rng: &mut Rng) -> Vec<Story> {
    let templates = &world.fixtures.daily_events;
    let (roles, count) = deal_roles(templates, world.shape.daily_events, rng);
    let mut story = || Story {
        slot: day * world.shape.slots + rng.below(world.shape.slots),
        number: rng.below(world.mentionable()),
        events: Vec::new(),
    };
    let mut stories: Vec<_> = (0..count).map(|_| story()).collect();
    let documents: Vec<_> =
        stories.iter().map(|story| world.document(story.slot, story.number)).collect();

    let stamp = world.day_stamp(day);
    for (id, role) in (world.first_of_daily(day)..).zip(roles) {
        stories[role.story].events.push(id);
        let mentions = 1 + rng.below(2 * world.shape.mentions - 1);
        EventRow {
            id,
            template: &templates[role.template],
            added: world.date(day),
            added_stamp: stamp.as_bytes(),
            mentions,
            document: &documents[role.story],
        }
        .write(out, rng);
    }
    stories
}

/// A row of GKG 1.0: the names that one or more articles have in common.
struct Nameset<'a> {
    world: &'a World,
    stamp: &'a str,
    documents: &'a [Document],
    events: &'a [u64],
}

impl Nameset<'_> {
    fn write(&self, tables: &mut DayTables, rng: &mut Rng) {
        let lists = &self.world.fixtures.gkg1_lists;
        let counts = self.draw_counts(rng);
        let gkg = &mut tables.gkg;
        self.write_start(gkg);
        for count in &counts {
            gkg.extend(count);
            gkg.push(b';');
        }
        gkg.push(b'\t');
        write_list(gkg, &lists.themes.shuffle(rng));
        gkg.push(b'\t');
        write_list(gkg, &lists.locations.shuffle(rng));
        for names in [&lists.persons, &lists.organizations] {
            gkg.push(b'\t');
            self.write_names(gkg, names, rng);
        }
        gkg.push(b'\t');
        if let Some(document) = self.documents.first() {
            write_tones(gkg, document);
        }
        self.write_end(gkg);

        for count in counts {
            self.write_start(&mut tables.counts);
            let fields = count.iter().map(|&byte| if byte == b'#' { b'\t' } else { byte });
            tables.counts.extend(fields);
            self.write_end(&mut tables.counts);
        }
    }

    /// Draws counts for one row in three.
    fn draw_counts(&self, rng: &mut Rng) -> Vec<Vec<u8>> {
        if !rng.one_in(3) {
            return Vec::new();
        }
        let mut counts = Vec::new();
        for template in self.world.fixtures.gkg1_lists.counts.shuffle(rng) {
            let mut count = Vec::with_capacity(template.len());
            write_count(&mut count, template, rng);
            counts.push(count);
        }
        counts
    }

    fn write_start(&self, out: &mut Vec<u8>) {
        out.extend(self.stamp.as_bytes());
        out.push(b'\t');
        write_number(out, self.documents.len() as u64);
        out.push(b'\t');
    }

    fn write_end(&self, out: &mut Vec<u8>) {
        let mut separator = b'\t';
        if self.events.is_empty() {
            out.push(separator);
        }
        // GDELT repeats the events for each article.
        for event in self.documents.iter().flat_map(|_| self.events) {
            out.push(separator);
            write_number(out, *event);
            separator = b',';
        }
        let mut separator = b'\t';
        for document in self.documents {
            out.push(separator);
            out.extend(&document.source);
            separator = b';';
        }
        let mut separator: &[u8] = b"\t";
        for document in self.documents {
            out.extend(separator);
            out.extend(&document.identifier);
            separator = b"<UDIV>";
        }
        out.push(b'\n');
    }

    fn write_names(&self, out: &mut Vec<u8>, names: &Lists, rng: &mut Rng) {
        let words = &self.world.fixtures.names;
        let remix = Remix { words, share: SHARE, stamp: self.stamp.as_bytes() };
        let mut separator: &[u8] = b"";
        for name in names.shuffle(rng) {
            out.extend(separator);
            let start = out.len();
            remix.write(out, name, rng);
            out[start..].make_ascii_lowercase();
            separator = b";";
        }
    }
}

fn write_list(out: &mut Vec<u8>, elements: &[&[u8]]) {
    let mut separator: &[u8] = b"";
    for element in elements {
        out.extend(separator);
        out.extend(*element);
        separator = b";";
    }
}
