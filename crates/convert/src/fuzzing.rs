//! What must hold for any bytes, for fuzz targets (`fuzz/`) and property tests. In no other build.

use std::io::Cursor;

use arrow::array::RecordBatch;
use bytes::Bytes;
use catalog::Dataset;
use catalog::ledger::RecordCounts;
use stage::work::TaskError;

use crate::member::{Limits, Text, read_zip, stream_zip};
use crate::problem::Problem;
use crate::reader::{End, RowReader, Sink};
use crate::table::{Oddity, Table};

/// The name of the zips that [`zip`] opens; a member has to be named like it.
const ZIP: &str = "20200601.export.CSV.zip";
/// Text that a zip may hold here.
const LIMITS: Limits = Limits { expansion: 100, bytes: 64 << 20 };

/// What became of a text: its rows and counts, or the problem with it.
type Read = Result<(RecordBatch, RecordCounts, Vec<(String, u64)>), String>;

impl Sink for Table {
    fn append(
        &mut self,
        record: &[u8],
        odd: impl FnMut(&'static str, Oddity, &[u8]),
    ) -> Result<Option<&'static str>, TaskError> {
        Self::append(self, record, odd);
        Ok(None)
    }
}

/// Reads a text, a piece after the other.
///
/// # Panics
///
/// When the counts do not add up.
fn read<'a>(dataset: Dataset, pieces: impl IntoIterator<Item = Text<'a>>) -> Read {
    let mut reader = RowReader::new(dataset, "source");
    let mut table = Table::new(dataset.columns(), dataset.columns());
    let feed = || {
        for piece in pieces {
            reader.feed(piece, &mut table)?;
        }
        reader.finish(&mut table)
    };
    match feed() {
        Ok(()) => {}
        Err(End::Problem(problem)) => return Err(problem.to_string()),
        Err(End::Task(error)) => panic!("a table refused a row: {error:?}"),
    }
    let (seen, rejects) = reader.into_seen();
    let counts = seen.record_counts();
    assert!(counts.is_complete(), "{counts:?}");
    let examples = rejects.finish().expect("rejects are a batch").num_rows() as u64;
    let tallies: Vec<_> = seen.tallies().into_iter().collect();
    let told: u64 = tallies.iter().map(|(_, count)| count).sum();
    assert!(counts.rejected <= told && examples <= told, "{tallies:?}");
    let batch = table.take().expect("columns have one length");
    assert_eq!(batch.num_rows() as u64, counts.rows);
    Ok((batch, counts, tallies))
}

/// Any text of any dataset becomes rows, rejects and blank lines, the same ones wherever it is cut.
///
/// # Panics
///
/// When it does not.
pub fn rows(dataset: Dataset, text: &[u8], cuts: &[usize]) {
    let mut cuts: Vec<_> =
        cuts.iter().map(|cut| cut.checked_rem(text.len()).unwrap_or(0)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    let pieces = cuts.windows(2).map(|pair| Text::Piece(&text[pair[0]..pair[1]]));
    assert_eq!(read(dataset, pieces), read(dataset, [Text::Whole(text)]));
}

/// Any bytes under the name of a zip give a text within the limits, or a problem; the same in memory
/// and as a stream.
///
/// # Panics
///
/// When they do not.
pub fn zip(bytes: &[u8]) {
    type Read = Result<(Vec<u8>, u64), Problem>;
    let keep = |text: &mut Vec<u8>, piece: Text<'_>| -> Result<(), Problem> {
        let (Text::Whole(piece) | Text::Piece(piece)) = piece;
        text.extend_from_slice(piece);
        assert!(text.len() as u64 <= LIMITS.bytes, "a text of {} bytes", text.len());
        Ok(())
    };
    let whole = |bytes: &[u8]| -> Read {
        let mut text = Vec::new();
        let bytes = Bytes::copy_from_slice(bytes);
        let length = read_zip(&bytes, ZIP, LIMITS, &mut |piece| keep(&mut text, piece))?;
        Ok((text, length))
    };
    let streamed = |bytes: &[u8]| -> Read {
        let mut text = Vec::new();
        let reader = Cursor::new(bytes);
        let length = stream_zip(reader, bytes, ZIP, LIMITS, &mut |piece| keep(&mut text, piece))?;
        Ok((text, length))
    };
    match (whole(bytes), streamed(bytes)) {
        (Ok((whole, length)), Ok(streamed)) => {
            assert_eq!(length, whole.len() as u64);
            assert!((whole, length) == streamed, "two texts of one zip");
        }
        (Err(_), Err(_)) => {}
        (whole, streamed) => panic!("{:?} and {:?}", whole.err(), streamed.err()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    use ::zip::ZipWriter;
    use ::zip::write::SimpleFileOptions;
    use proptest::prelude::*;

    #[test]
    fn a_member_that_goes_beyond_the_end_is_refused_in_memory_and_as_a_stream() {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        writer.start_file("20200601.export.CSV", SimpleFileOptions::default()).unwrap();
        writer.write_all(b"a\tb\n").unwrap();
        let mut bytes = writer.finish().unwrap().into_inner();
        zip(&bytes);
        // The compressed length in the directory, which begins with PK\x01\x02.
        let directory = memchr::memmem::find(&bytes, b"PK\x01\x02").unwrap();
        bytes[directory + 21] = 0xff;
        zip(&bytes);
        let read = read_zip(&Bytes::from(bytes), ZIP, LIMITS, &mut |_| Ok::<_, Problem>(()));
        assert!(matches!(read, Err(Problem::Directory(_))), "{read:?}");
    }

    proptest! {
        #[test]
        fn cuts_do_not_change_rows(
            dataset in proptest::sample::select(&Dataset::ALL[..]),
            records in proptest::collection::vec(
                (-1_isize..2, proptest::collection::vec(any::<u8>(), 0..12), any::<usize>()),
                0..8,
            ),
            cuts in proptest::collection::vec(any::<usize>(), 0..8),
        ) {
            // Records about as wide as the dataset's, with some bytes in one field.
            let mut text = Vec::new();
            for (wider, field, place) in records {
                let width = dataset.columns().len().saturating_add_signed(wider);
                let mut record = vec![b'\t'; width - 1];
                let place = place % width;
                record.splice(place..place, field);
                text.extend(record);
                text.push(b'\n');
            }
            rows(dataset, &text, &cuts);
        }
    }
}
