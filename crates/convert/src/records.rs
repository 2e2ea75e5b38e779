//! Splits text into records. Only the byte 0x0A ends a record and only 0x09 a field; nothing is
//! quoted. Any bytes, cut anywhere, give the same records as in one piece.

use memchr::{memchr, memchr_iter};

/// Where a record stands in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Line number, from 1.
    pub(crate) line: u64,
    /// Offset of its first byte.
    pub(crate) offset: u64,
}

/// Cuts pieces of a text into records.
#[derive(Debug)]
pub(crate) struct Splitter {
    /// The beginning of a record whose end has not come yet.
    rest: Vec<u8>,
    next: Place,
}

/// A UTF-8 byte order mark, which belongs to no field.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Splitter {
    pub(crate) fn new() -> Self {
        Self { rest: Vec::new(), next: Place { line: 1, offset: 0 } }
    }

    /// Gives the records that end in this piece, without their line feeds.
    pub(crate) fn feed<E>(
        &mut self,
        mut piece: &[u8],
        mut record: impl FnMut(Place, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = memchr(b'\n', piece) {
            let (line, after) = (&piece[..end], &piece[end + 1..]);
            if self.rest.is_empty() {
                let place = self.advance(line.len());
                record(place, without_mark(place, line))?;
            } else {
                let mut whole = std::mem::take(&mut self.rest);
                whole.extend_from_slice(line);
                let place = self.advance(whole.len());
                record(place, without_mark(place, &whole))?;
                whole.clear();
                self.rest = whole;
            }
            piece = after;
        }
        self.rest.extend_from_slice(piece);
        Ok(())
    }

    /// Gives the last record, if the text does not end with a line feed.
    pub(crate) fn finish<E>(
        mut self,
        mut record: impl FnMut(Place, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let whole = std::mem::take(&mut self.rest);
        let place = self.advance(whole.len());
        record(place, without_mark(place, &whole))
    }

    fn advance(&mut self, length: usize) -> Place {
        let place = self.next;
        self.next = Place { line: place.line + 1, offset: place.offset + length as u64 + 1 };
        place
    }
}

fn without_mark(place: Place, line: &[u8]) -> &[u8] {
    if place.line == 1 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line }
}

/// The number of fields of a record.
pub(crate) fn width(record: &[u8]) -> usize {
    memchr_iter(b'\t', record).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(pieces: &[&[u8]]) -> Vec<(Place, Vec<u8>)> {
        let mut records = Vec::new();
        let mut splitter = Splitter::new();
        let mut push = |place, record: &[u8]| {
            records.push((place, record.to_vec()));
            Ok::<(), ()>(())
        };
        for piece in pieces {
            splitter.feed(piece, &mut push).unwrap();
        }
        splitter.finish(&mut push).unwrap();
        records
    }

    #[test]
    fn records_end_at_line_feeds_only() {
        let records = split(&[b"\xef\xbb\xbfa\tb\r\x0b\x85\n\n\"c\n\"d"]);
        let expected: [(u64, u64, &[u8]); 4] =
            [(1, 0, b"a\tb\r\x0b\x85"), (2, 10, b""), (3, 11, b"\"c"), (4, 14, b"\"d")];
        let expected: Vec<_> =
            expected.map(|(line, offset, record)| (Place { line, offset }, record.to_vec())).into();
        assert_eq!(records, expected);
        assert_eq!(split(&[b""]), []);
        assert_eq!(width(b""), 1);
        assert_eq!(width(b"\t\t"), 3);
    }

    proptest! {
        #[test]
        fn cuts_do_not_change_records(
            text in proptest::collection::vec(
                prop_oneof![Just(b'\n'), Just(b'\t'), Just(0xef), Just(0xbb), Just(0xbf), any::<u8>()],
                0..200,
            ),
            cuts in proptest::collection::vec(0_usize..200, 0..8),
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(split(&pieces), split(&[&text]));
        }
    }
}
