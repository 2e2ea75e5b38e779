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

/// A record longer than this is not one of GDELT's, whose longest fields have some MB. It is told
/// without its end, so that no text takes more memory than this.
pub(crate) const MAX_RECORD_BYTES: usize = 64 << 20;
/// What is kept of a record that is too long.
const START_BYTES: usize = 64 << 10;

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// The beginning of one of more than [`MAX_RECORD_BYTES`].
    TooLong(&'a [u8]),
}

/// Cuts pieces of a text into records.
#[derive(Debug)]
pub(crate) struct Splitter {
    /// The beginning of a record whose end has not come yet.
    rest: Vec<u8>,
    /// Its length so far, of which `rest` may hold less.
    length: usize,
    next: Place,
    limit: usize,
}

/// A UTF-8 byte order mark, which belongs to no field.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Splitter {
    pub(crate) fn new() -> Self {
        Self::with_limit(MAX_RECORD_BYTES)
    }

    fn with_limit(limit: usize) -> Self {
        Self { rest: Vec::new(), length: 0, next: Place { line: 1, offset: 0 }, limit }
    }

    /// Gives the records that end in this piece, without their line feeds.
    pub(crate) fn feed<E>(
        &mut self,
        mut piece: &[u8],
        mut record: impl FnMut(Place, Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = memchr(b'\n', piece) {
            let (line, after) = (&piece[..end], &piece[end + 1..]);
            if self.length == 0 {
                let place = self.advance(line.len());
                record(place, self.told(place, line, line.len()))?;
            } else {
                self.keep(line);
                self.give(&mut record)?;
            }
            piece = after;
        }
        self.keep(piece);
        Ok(())
    }

    /// Gives the last record, if the text does not end with a line feed.
    pub(crate) fn finish<E>(
        mut self,
        mut record: impl FnMut(Place, Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.length == 0 { Ok(()) } else { self.give(&mut record) }
    }

    /// Adds to the record whose end has not come yet.
    fn keep(&mut self, piece: &[u8]) {
        self.length = self.length.saturating_add(piece.len());
        if self.length <= self.limit {
            self.rest.extend_from_slice(piece);
        } else if self.rest.len() < START_BYTES {
            let missing = START_BYTES - self.rest.len();
            self.rest.extend_from_slice(&piece[..piece.len().min(missing)]);
        } else if self.rest.capacity() > START_BYTES {
            self.rest.truncate(START_BYTES);
            self.rest.shrink_to_fit();
        }
    }

    /// Gives the record that was kept.
    fn give<E>(
        &mut self,
        record: &mut impl FnMut(Place, Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let length = std::mem::take(&mut self.length);
        let mut whole = std::mem::take(&mut self.rest);
        let place = self.advance(length);
        record(place, self.told(place, &whole, length))?;
        whole.clear();
        self.rest = whole;
        Ok(())
    }

    fn told<'a>(&self, place: Place, line: &'a [u8], length: usize) -> Record<'a> {
        if length > self.limit {
            Record::TooLong(&line[..line.len().min(START_BYTES)])
        } else if place.line == 1 {
            Record::Whole(line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line))
        } else {
            Record::Whole(line)
        }
    }

    fn advance(&mut self, length: usize) -> Place {
        let place = self.next;
        self.next = Place { line: place.line + 1, offset: place.offset + length as u64 + 1 };
        place
    }
}

/// The number of fields of a record.
pub(crate) fn width(record: &[u8]) -> usize {
    memchr_iter(b'\t', record).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split_within(limit: usize, pieces: &[&[u8]]) -> Vec<(Place, bool, Vec<u8>)> {
        let mut records = Vec::new();
        let mut splitter = Splitter::with_limit(limit);
        let mut push = |place, record: Record<'_>| {
            let (whole, bytes) = match record {
                Record::Whole(bytes) => (true, bytes),
                Record::TooLong(bytes) => (false, bytes),
            };
            records.push((place, whole, bytes.to_vec()));
            Ok::<(), ()>(())
        };
        for piece in pieces {
            splitter.feed(piece, &mut push).unwrap();
        }
        splitter.finish(&mut push).unwrap();
        records
    }

    fn split(pieces: &[&[u8]]) -> Vec<(Place, Vec<u8>)> {
        let records = split_within(MAX_RECORD_BYTES, pieces);
        records.into_iter().map(|(place, _, bytes)| (place, bytes)).collect()
    }

    #[test]
    fn of_a_record_that_is_too_long_only_the_beginning_is_told() {
        let long = vec![b'x'; 3 * START_BYTES];
        let text = [b"a\n", &long[..], b"\nb"].concat();
        let whole = split_within(2 * START_BYTES, &[&text]);
        assert_eq!(
            whole.iter().map(|(_, whole, _)| *whole).collect::<Vec<_>>(),
            [true, false, true]
        );
        assert_eq!(whole[1].2.len(), START_BYTES);
        assert_eq!(whole[2].0, Place { line: 3, offset: 3 + long.len() as u64 });
        for size in [1, 1_000, START_BYTES, START_BYTES + 1] {
            let pieces: Vec<_> = text.chunks(size).collect();
            assert!(split_within(2 * START_BYTES, &pieces) == whole, "{size}");
        }
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
