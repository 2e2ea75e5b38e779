//! Column chunks of the sources whose pages are taken as they are: which can be, and whether they
//! are what the footer says. Pages are neither decompressed nor decoded; of each its header is
//! read.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{CompressionCodec, Encoding};
use parquet::column::page::{Page, PageReader as _};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;

use crate::source::Piece;

/// Encodings of which a page can be read without the pages before it.
const STANDALONE: [Encoding; 6] = [
    Encoding::PLAIN,
    Encoding::RLE,
    Encoding::DELTA_BINARY_PACKED,
    Encoding::DELTA_LENGTH_BYTE_ARRAY,
    Encoding::DELTA_BYTE_ARRAY,
    Encoding::BYTE_STREAM_SPLIT,
];

/// Whether the chunks of a column can be joined undecoded, as far as the footers say. A single one
/// may have a dictionary.
pub(crate) fn can_be_joined(pieces: &[Piece], column: usize, declared: &ColumnDescPtr) -> bool {
    let codec = pieces.first().map(|piece| piece.chunk(column).compression_codec());
    pieces.iter().all(|piece| {
        let chunk = piece.chunk(column);
        let is_kept = if chunk.dictionary_page_offset().is_some() {
            pieces.len() == 1
        } else {
            chunk.encodings().all(|encoding| STANDALONE.contains(&encoding))
        };
        chunk.column_descr() == declared.as_ref()
            && Some(chunk.compression_codec()) == codec
            && offset_index(piece, column).is_some()
            && is_kept
    })
}

/// Where the pages of a chunk stand, where the file has that.
fn offset_index(piece: &Piece, column: usize) -> Option<&OffsetIndexMetaData> {
    let indexes = piece.source.file.metadata().page_index()?;
    indexes.offset_index(piece.group, piece.position(column))
}

/// Where a chunk stands in its file.
pub(crate) fn range(piece: &Piece, column: usize) -> Result<Range<u64>, String> {
    let chunk = piece.chunk(column);
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let range = || {
        let start = u64::try_from(start).ok()?;
        let end = start.checked_add(u64::try_from(chunk.compressed_size()).ok()?)?;
        (end <= piece.source.file.stat().size).then_some(start..end)
    };
    range().ok_or_else(|| lies(chunk, "its bytes lie outside the file"))
}

/// Says in which way a footer is wrong of a column.
fn lies(chunk: &ColumnChunkMetaData, what: &str) -> String {
    let name = chunk.column_path().string();
    format!("what its footer says of column `{name}` is wrong: {what}; make the file again")
}

/// A data page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataPage {
    pub(crate) rows: i64,
    /// Bytes, with the header.
    pub(crate) bytes: i32,
    pub(crate) encoding: Encoding,
    pub(crate) is_v2: bool,
}

/// A chunk that was read and whose pages are where the footer has them, with as many rows.
#[derive(Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) metadata: &'a ColumnChunkMetaData,
    pub(crate) bytes: Bytes,
    pub(crate) rows: i64,
    /// Bytes and encoding of the page with the dictionary.
    pub(crate) dictionary: Option<(i64, Encoding)>,
    pub(crate) pages: Vec<DataPage>,
    pub(crate) offset_index: &'a OffsetIndexMetaData,
    pub(crate) column_index: Option<&'a ColumnIndexMetaData>,
}

impl<'a> Chunk<'a> {
    /// Checks the bytes of a chunk against its footer.
    pub(crate) fn of(piece: &'a Piece, column: usize, bytes: Bytes) -> Result<Self, String> {
        let metadata = piece.chunk(column);
        let failed = |what: &str| lies(metadata, what);
        let offset_index =
            offset_index(piece, column).ok_or_else(|| failed("it has no offset index"))?;
        let indexes = piece.source.file.metadata().page_index();
        let column_index =
            indexes.and_then(|it| it.column_index(piece.group, piece.position(column)));
        let rows = piece.metadata().num_rows();
        if metadata.num_values() != rows || metadata.uncompressed_size() < 0 {
            return Err(failed("it has other rows than its row group, or a size below 0"));
        }
        let damaged = |error: ParquetError| failed(&error.to_string());
        let mut rest = bytes.clone();
        let mut offset = metadata.data_page_offset();
        let dictionary = match metadata.dictionary_page_offset() {
            None => None,
            Some(start) => {
                let length =
                    offset.checked_sub(start).and_then(|length| usize::try_from(length).ok());
                let length = length.filter(|length| *length <= rest.len());
                let length = length.ok_or_else(|| failed("its dictionary lies elsewhere"))?;
                match page(metadata, rest.split_to(length)).map_err(damaged)? {
                    Some(Page::DictionaryPage { encoding, .. }) => {
                        Some((i64::try_from(length).unwrap_or(i64::MAX), encoding))
                    }
                    _ => return Err(failed("its dictionary lies elsewhere")),
                }
            }
        };
        let locations = offset_index.page_locations();
        let mut pages = Vec::with_capacity(locations.len());
        for (number, location) in locations.iter().enumerate() {
            let next = locations.get(number + 1).map_or(rows, |next| next.first_row_index);
            let rows_of_page = next.checked_sub(location.first_row_index).filter(|rows| *rows >= 0);
            let length = usize::try_from(location.compressed_page_size).ok();
            let (Some(rows_of_page), Some(length)) = (rows_of_page, length) else {
                return Err(failed("its pages are out of order"));
            };
            let is_first = number > 0 || location.first_row_index == 0;
            if location.offset != offset || length > rest.len() || !is_first {
                return Err(failed("its pages are not one after another"));
            }
            let read = page(metadata, rest.split_to(length)).map_err(damaged)?;
            let (num_values, encoding, is_v2) = match read {
                Some(Page::DataPage { num_values, encoding, .. }) => (num_values, encoding, false),
                Some(Page::DataPageV2 { num_values, encoding, .. }) => (num_values, encoding, true),
                Some(Page::DictionaryPage { .. }) | None => {
                    return Err(failed("a page holds no values"));
                }
            };
            if i64::from(num_values) != rows_of_page {
                let what = format!(
                    "page {number} holds {num_values} values, its index says {rows_of_page}"
                );
                return Err(failed(&what));
            }
            if dictionary.is_none() && !STANDALONE.contains(&encoding) {
                return Err(failed(&format!(
                    "page {number} needs a dictionary, and there is none"
                )));
            }
            offset = offset.saturating_add(i64::from(location.compressed_page_size));
            let bytes = location.compressed_page_size;
            pages.push(DataPage { rows: rows_of_page, bytes, encoding, is_v2 });
        }
        if !rest.is_empty() || pages.is_empty() {
            return Err(failed("its pages have fewer bytes than it"));
        }
        let chunk = Self { metadata, bytes, rows, dictionary, pages, offset_index, column_index };
        chunk.check_counts().map_err(failed)?;
        Ok(chunk)
    }

    /// Checks the numbers of nulls, as far as the footer tells any.
    fn check_counts(&self) -> Result<(), &'static str> {
        let nulls = self.nulls();
        if nulls.is_some_and(|nulls| nulls > self.rows) {
            return Err("it has more nulls than rows");
        }
        let Some(index) = self.column_index else { return Ok(()) };
        if index.num_pages() != self.pages.len() as u64 {
            return Err("its column index is of other pages");
        }
        let Some(by_page) = index.null_counts() else { return Ok(()) };
        let mut sum: i64 = 0;
        for (number, (page, nulls)) in self.pages.iter().zip(by_page).enumerate() {
            if *nulls < 0
                || *nulls > page.rows
                || (index.is_null_page(number) && *nulls < page.rows)
            {
                return Err("a page has other nulls than its column index says");
            }
            sum = sum.saturating_add(*nulls);
        }
        if nulls.is_some_and(|nulls| nulls != sum) {
            return Err("its pages have other nulls than it has");
        }
        Ok(())
    }

    /// How many values are null, if the footer says.
    pub(crate) fn nulls(&self) -> Option<i64> {
        let nulls = self.metadata.statistics()?.null_count_opt()?;
        Some(i64::try_from(nulls).unwrap_or(i64::MAX))
    }
}

/// Reads the header of the page that `bytes` hold, and nothing beside it.
fn page(chunk: &ColumnChunkMetaData, bytes: Bytes) -> Result<Option<Page>, ParquetError> {
    // Without a codec the reader leaves the page as it is.
    let alone = ColumnChunkMetaData::builder(chunk.column_descr_ptr())
        .set_compression_codec(CompressionCodec::UNCOMPRESSED)
        .set_data_page_offset(0)
        .set_total_compressed_size(i64::try_from(bytes.len())?)
        .build()?;
    let mut reader = SerializedPageReader::new(Arc::new(bytes), &alone, 0, None)?;
    let page = reader.get_next_page()?;
    // What follows in the same bytes would be a page that no index knows.
    if reader.get_next_page()?.is_some() { Ok(None) } else { Ok(page) }
}
