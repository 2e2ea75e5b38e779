//! Makes the GKG 2.1 records of a slot.

use std::collections::HashSet;

use super::fixtures::{Lists, Row};
use super::rng::{Part, Rng};
use super::text::{Remix, read_number, split_at_last, write_digits, write_number};
use super::world::{Document, Fate, World};

/// About one row in so many has a byte that is no UTF-8.
const INVALID: usize = 2000;
/// Quotes and control characters are less rare.
const ODDITY: usize = 200;
/// How many of 16 words of names and other text are replaced.
const SHARE: usize = 8;
/// The largest number that the places in a text are moved by.
const LARGEST_SHIFT: usize = 400;
/// Digits of a floating-point number that tell where it lies; the rest are noise.
const KEPT_DIGITS: usize = 4;

/// How a V1 column follows from its V2 partner.
#[derive(Clone, Copy)]
enum Partner {
    Counts,
    Themes,
    Locations,
    Names,
}

/// Makes the GKG records of a slot.
pub(crate) fn make_gkg(world: &World, slot: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(world.shape.gkg * 14_000);
    let stamp = world.slot_stamp(slot);
    let remix = |words| Remix { words, share: SHARE, stamp: stamp.as_bytes() };
    let mut records = Records {
        world,
        stamp: &stamp,
        text: remix(&world.fixtures.words),
        names: remix(&world.fixtures.names),
        rng: Rng::new(world.shape.seed, Part::Gkg, [slot, 0]),
        written: 0,
        scratch: Vec::new(),
    };
    for number in 0..world.documents() {
        let times = match world.fate(slot, number) {
            Fate::Once => 1,
            Fate::Twice => 2,
            Fate::Late | Fate::Never => 0,
        };
        for _ in 0..times {
            records.write(&mut out, &world.document(slot, number));
        }
        let before = slot.checked_sub(1);
        let late = before.filter(|before| world.fate(*before, number) == Fate::Late);
        if let Some(before) = late {
            records.write(&mut out, &world.document(before, number));
        }
    }
    out
}

/// The records of a slot, while they are written.
struct Records<'a> {
    world: &'a World,
    stamp: &'a str,
    text: Remix<'a>,
    names: Remix<'a>,
    rng: Rng,
    written: u64,
    scratch: Vec<u8>,
}

impl Records<'_> {
    fn write(&mut self, out: &mut Vec<u8>, document: &Document) {
        let world = self.world;
        let (fixtures, lists) = (&world.fixtures, &world.fixtures.gkg_lists);
        let shift = self.rng.below(LARGEST_SHIFT) as u64;

        out.extend(self.stamp.as_bytes());
        out.push(b'-');
        write_number(out, self.written);
        self.written += 1;
        out.push(b'\t');
        out.extend(self.stamp.as_bytes());
        out.extend(if document.is_web { b"\t1\t" } else { b"\t2\t" });
        out.extend(&document.source);
        out.push(b'\t');
        out.extend(&document.identifier);

        let pairs = [
            (&lists.counts, Partner::Counts),
            (&lists.themes, Partner::Themes),
            (&lists.locations, Partner::Locations),
            (&lists.persons, Partner::Names),
            (&lists.organizations, Partner::Names),
        ];
        for (lists, partner) in pairs {
            self.write_pair(out, lists, partner, shift);
        }
        out.push(b'\t');
        write_tones(out, document);
        out.push(b',');
        write_number(out, u64::from(document.words));
        if let Some(dates) = self.rng.pick(&fixtures.gkg) {
            out.push(b'\t');
            write_dates(out, dates.cell(16), shift);
        }
        out.push(b'\t');
        write_gcam(out, lists.gcam.draw(&mut self.rng), document.words, &mut self.rng);

        // Pictures go together, and so do links and the title; quotations stand alone.
        self.write_text(out, 18, 21);
        self.write_text(out, 22, 22);
        out.push(b'\t');
        self.write_oddity(out);
        self.write_names(out, &lists.names, shift);
        out.push(b'\t');
        for amount in lists.amounts.shuffle(&mut self.rng) {
            let (text, offset) = split_at_last(amount, b',');
            self.text.write(out, text, &mut self.rng);
            out.push(b',');
            write_number(out, read_number(offset) + shift);
            out.push(b';');
        }
        self.write_text(out, 25, 26);
        out.push(b'\n');
    }

    /// Appends a V1 and a V2 column that tell the same.
    fn write_pair(&mut self, out: &mut Vec<u8>, lists: &Lists, partner: Partner, shift: u64) {
        let mark =
            if matches!(partner, Partner::Counts | Partner::Locations) { b'#' } else { b',' };
        let ends_in_separator = matches!(partner, Partner::Counts | Partner::Themes);
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let mut names = Vec::new();
        for element in lists.shuffle(&mut self.rng) {
            let (name, offset) = split_at_last(element, mark);
            if !scratch.is_empty() && !ends_in_separator {
                scratch.push(b';');
            }
            let start = scratch.len();
            match partner {
                Partner::Names => self.names.write(&mut scratch, name, &mut self.rng),
                Partner::Counts => write_count(&mut scratch, name, &mut self.rng),
                Partner::Themes | Partner::Locations => scratch.extend(name),
            }
            names.push(start..scratch.len());
            scratch.push(mark);
            write_number(&mut scratch, read_number(offset) + shift);
            if ends_in_separator {
                scratch.push(b';');
            }
        }

        out.push(b'\t');
        let mut seen = HashSet::new();
        let mut is_first = true;
        for name in names.into_iter().map(|range| &scratch[range]) {
            if !matches!(partner, Partner::Counts) && !seen.insert(name) {
                continue;
            }
            if !is_first && !ends_in_separator {
                out.push(b';');
            }
            is_first = false;
            let start = out.len();
            match partner {
                Partner::Locations => write_without_adm2(out, name),
                Partner::Names | Partner::Counts | Partner::Themes => out.extend(name),
            }
            if matches!(partner, Partner::Names) {
                out[start..].make_ascii_lowercase();
            }
            if ends_in_separator {
                out.push(b';');
            }
        }
        out.push(b'\t');
        out.extend(&scratch);
        self.scratch = scratch;
    }

    /// Appends a range of columns of one real row, with other words and digits.
    fn write_text(&mut self, out: &mut Vec<u8>, first: usize, last: usize) {
        out.push(b'\t');
        let text = self
            .rng
            .pick(&self.world.fixtures.gkg)
            .map_or(&b""[..], |row: &Row| row.cells(first, last));
        self.text.write(out, text, &mut self.rng);
    }

    fn write_names(&mut self, out: &mut Vec<u8>, names: &Lists, shift: u64) {
        let mut separator: &[u8] = b"";
        for element in names.shuffle(&mut self.rng) {
            let (name, offset) = split_at_last(element, b',');
            out.extend(separator);
            self.names.write(out, name, &mut self.rng);
            out.push(b',');
            write_number(out, read_number(offset) + shift);
            separator = b";";
        }
    }

    /// Appends, now and then, what careless readers stumble over.
    fn write_oddity(&mut self, out: &mut Vec<u8>) {
        if self.rng.one_in(INVALID) {
            out.extend(b"Caf\xe9,1;");
        }
        match self.rng.below(ODDITY) {
            0 => out.extend(b"\"Big Al,2;"),
            1 => out.extend(b"O\xc2\x92Neill,3;"),
            _ => {}
        }
    }
}

/// Appends the six shares of a document's tone.
pub(crate) fn write_tones(out: &mut Vec<u8>, document: &Document) {
    let [positive, negative, words] =
        [document.positive, document.negative, document.words].map(f64::from);
    out.extend(&document.tone);
    let activity = (words / 5.0).round() + (positive / 3.0).round();
    for count in [positive, negative, positive + negative, activity, (negative / 4.0).round()] {
        out.push(b',');
        document.write_share(out, count);
    }
}

/// Appends a count, its second field being the number, with other digits.
pub(crate) fn write_count(out: &mut Vec<u8>, count: &[u8], rng: &mut Rng) {
    let mut fields = count.splitn(3, |&byte| byte == b'#');
    out.extend(fields.next().unwrap_or_default());
    if let Some(number) = fields.next() {
        out.push(b'#');
        write_digits(out, number, 1, rng);
    }
    if let Some(rest) = fields.next() {
        out.push(b'#');
        out.extend(rest);
    }
}

/// Appends a location without the field that only the V2 column has.
fn write_without_adm2(out: &mut Vec<u8>, location: &[u8]) {
    let fields = location.split(|&byte| byte == b'#').enumerate();
    for (number, field) in fields.filter(|(number, _)| *number != 4) {
        if number > 0 {
            out.push(b'#');
        }
        out.extend(field);
    }
}

/// Appends dates with their places in the text moved.
fn write_dates(out: &mut Vec<u8>, dates: &[u8], shift: u64) {
    let mut separator: &[u8] = b"";
    for date in dates.split(|&byte| byte == b';').filter(|date| !date.is_empty()) {
        let (date, offset) = split_at_last(date, b'#');
        out.extend(separator);
        out.extend(date);
        out.push(b'#');
        write_number(out, read_number(offset) + shift);
        separator = b";";
    }
}

/// Appends a GCAM list, its counts scaled to the length of the document.
fn write_gcam(out: &mut Vec<u8>, template: &[Vec<u8>], words: u32, rng: &mut Rng) {
    let template_words =
        template.first().map_or(1, |first| read_number(split_at_last(first, b':').1)).max(1);
    out.extend(b"wc:");
    write_number(out, u64::from(words));
    for element in template.iter().skip(1) {
        if rng.one_in(32) {
            continue;
        }
        let (key, value) = split_at_last(element, b':');
        out.push(b',');
        out.extend(key);
        out.push(b':');
        if key.starts_with(b"v") {
            write_digits(out, value, KEPT_DIGITS, rng);
        } else {
            let scaled =
                (read_number(value) * u64::from(words) + template_words / 2) / template_words;
            write_number(out, scaled.max(1));
        }
    }
}
