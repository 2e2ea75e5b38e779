//! What the dictionaries of column chunks hold: the values that rows can have, found without
//! decoding any row.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use io_budget::parquet::ParquetFile;
use parquet::basic::{Encoding, PageType};
use parquet::column::page::{Page, PageReader as _};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use stage::work::TaskError;

use crate::parts::Parts;

/// The dictionaries of some text columns of a row group, by the columns' positions.
#[derive(Debug, Default)]
pub(crate) struct Dictionaries(BTreeMap<usize, Dictionary>);

impl Dictionaries {
    /// Reads those of the columns that have nothing but pages with a dictionary. A dictionary that
    /// cannot be read is left out: decoding the rows will say what is wrong.
    pub(crate) fn read(
        file: &ParquetFile,
        group: usize,
        columns: impl IntoIterator<Item = usize>,
    ) -> Result<Self, TaskError> {
        let chunks = file.metadata().row_group(group).columns();
        let size = file.stat().size;
        let (positions, ranges): (Vec<usize>, Vec<Range<u64>>) = columns
            .into_iter()
            .filter_map(|column| Some((column, place(chunks.get(column)?, size)?)))
            .unzip();
        let read = file.read_ranges(&ranges).map_err(|error| TaskError::reading(&error))?;
        let found = positions.into_iter().zip(ranges.iter().zip(read));
        let of_column = |(column, (range, bytes)): (usize, (&Range<u64>, Bytes))| {
            let dictionary = Dictionary::of(&chunks[column], Parts::new([(range.start, bytes)]))?;
            Some((column, dictionary))
        };
        Ok(Self(found.filter_map(of_column).collect()))
    }

    /// Whether a row of a column may hold a value of which `is` is true: some value of the
    /// dictionary is, or there is none to tell.
    pub(crate) fn may_hold(&self, column: usize, is: impl Fn(&str) -> bool) -> bool {
        self.0.get(&column).is_none_or(|dictionary| dictionary.values().any(is))
    }
}

/// Where the dictionary of a chunk stands, if all its pages have one.
fn place(chunk: &ColumnChunkMetaData, size: u64) -> Option<Range<u64>> {
    let pages = chunk.page_encoding_stats()?;
    let is_data = |kind| matches!(kind, PageType::DATA_PAGE | PageType::DATA_PAGE_V2);
    let has_dictionary =
        |encoding| matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
    if pages.iter().any(|page| is_data(page.page_type) && !has_dictionary(page.encoding)) {
        return None;
    }
    let start = u64::try_from(chunk.dictionary_page_offset()?).ok()?;
    let end = u64::try_from(chunk.data_page_offset()).ok()?;
    (start < end && end <= size).then_some(start..end)
}

/// The values of a dictionary: each four bytes of length and its text.
#[derive(Debug)]
struct Dictionary(Bytes);

impl Dictionary {
    fn of(chunk: &ColumnChunkMetaData, parts: Parts) -> Option<Self> {
        let rows = usize::try_from(chunk.num_values()).ok()?;
        let mut pages = SerializedPageReader::new(Arc::new(parts), chunk, rows, None).ok()?;
        let Page::DictionaryPage { buf, .. } = pages.get_next_page().ok()?? else { return None };
        let mut rest = &buf[..];
        while let Some((value, after)) = split(rest) {
            std::str::from_utf8(value).ok()?;
            rest = after;
        }
        rest.is_empty().then_some(Self(buf))
    }

    fn values(&self) -> impl Iterator<Item = &str> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (value, after) = split(rest)?;
            rest = after;
            std::str::from_utf8(value).ok()
        })
    }
}

/// The first value and what follows it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
}
