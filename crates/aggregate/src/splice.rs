//! Chunks of one column joined to one: the bytes of their pages one after another, and a footer
//! that is theirs together.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};

use bytes::{Buf as _, Bytes};
use parquet::basic::{EncodingMask, PageType};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{
    ColumnChunkMetaData, LevelHistogram, OffsetIndexBuilder, PageEncodingStats,
};
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::ColumnDescPtr;

use crate::pages::Chunk;
use crate::statistics;

/// A column chunk of the output, made of chunks of the sources.
pub(crate) struct Joined {
    bytes: Parts,
    close: ColumnCloseResult,
}

impl Joined {
    /// Joins chunks. Where there are several, none has a dictionary.
    pub(crate) fn of(column: &ColumnDescPtr, chunks: &[Chunk<'_>]) -> Result<Self> {
        let too_much = || ParquetError::General(String::from("a column of more than 2^63 bytes"));
        let sum = |of: fn(&Chunk<'_>) -> i64| {
            chunks.iter().map(of).try_fold(0, i64::checked_add).ok_or_else(too_much)
        };
        let compressed = sum(|chunk| i64::try_from(chunk.bytes.len()).unwrap_or(i64::MAX))?;
        let rows = sum(|chunk| chunk.rows)?;
        let dictionary = chunks.iter().find_map(|chunk| chunk.dictionary);
        let encodings: Vec<_> =
            chunks.iter().flat_map(|chunk| chunk.metadata.encodings()).collect();
        let mut builder = ColumnChunkMetaData::builder(column.clone())
            .set_encodings_mask(EncodingMask::new_from_encodings(encodings.iter()))
            .set_num_values(rows)
            .set_total_compressed_size(compressed)
            .set_total_uncompressed_size(sum(|chunk| chunk.metadata.uncompressed_size())?)
            .set_dictionary_page_offset(dictionary.map(|_| 0))
            .set_data_page_offset(dictionary.map_or(0, |(length, _)| length))
            .set_page_encoding_stats(encoding_stats(chunks))
            .set_unencoded_byte_array_data_bytes(text_bytes(chunks))
            .set_definition_level_histogram(histogram(chunks));
        if let Some(first) = chunks.first() {
            builder = builder.set_compression_codec(first.metadata.compression_codec());
        }
        if let Some(statistics) = statistics::of_chunks(chunks) {
            builder = builder.set_statistics(statistics);
        }
        let close = ColumnCloseResult {
            bytes_written: u64::try_from(compressed).unwrap_or(0),
            rows_written: u64::try_from(rows).unwrap_or(0),
            metadata: builder.build()?,
            bloom_filter: None,
            column_index: statistics::column_index(chunks)?,
            offset_index: Some(offset_index(chunks)),
        };
        let bytes = Parts(chunks.iter().map(|chunk| chunk.bytes.clone()).collect());
        Ok(Self { bytes, close })
    }

    /// Writes it as the next column of a row group.
    pub(crate) fn append_to<W: Write + Send>(
        self,
        output: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        output.append_column(&self.bytes, self.close)
    }
}

/// How many pages there are of each kind and encoding.
fn encoding_stats(chunks: &[Chunk<'_>]) -> Vec<PageEncodingStats> {
    let mut counts = BTreeMap::new();
    for chunk in chunks {
        let dictionary =
            chunk.dictionary.map(|(_, encoding)| (PageType::DICTIONARY_PAGE, encoding));
        let pages = chunk.pages.iter().map(|page| {
            let kind = if page.is_v2 { PageType::DATA_PAGE_V2 } else { PageType::DATA_PAGE };
            (kind, page.encoding)
        });
        for (kind, encoding) in dictionary.into_iter().chain(pages) {
            counts.entry((kind as i32, encoding)).or_insert((kind, 0)).1 += 1;
        }
    }
    let stats = counts.into_iter().map(|((_, encoding), (page_type, count))| PageEncodingStats {
        page_type,
        encoding,
        count,
    });
    stats.collect()
}

/// Bytes of the text before it is encoded, where all chunks tell theirs.
fn text_bytes(chunks: &[Chunk<'_>]) -> Option<i64> {
    let mut bytes = chunks.iter().map(|chunk| chunk.metadata.unencoded_byte_array_data_bytes());
    bytes.try_fold(0, |sum: i64, bytes| sum.checked_add(bytes?))
}

/// How many values are null and how many are not, where all chunks count both.
fn histogram(chunks: &[Chunk<'_>]) -> Option<LevelHistogram> {
    let mut sum = LevelHistogram::try_new(1)?;
    for chunk in chunks {
        chunk.metadata.definition_level_histogram()?;
        sum.add(&statistics::histogram(chunk.nulls()?, chunk.rows)?);
    }
    Some(sum)
}

/// Where the pages stand among the bytes of all chunks.
fn offset_index(chunks: &[Chunk<'_>]) -> OffsetIndexMetaData {
    let has_text_bytes = chunks.iter().all(|chunk| {
        let bytes = chunk.offset_index.unencoded_byte_array_data_bytes();
        bytes.is_some_and(|bytes| bytes.len() == chunk.pages.len())
    });
    let mut index = OffsetIndexBuilder::new();
    let mut offset = 0;
    for chunk in chunks {
        offset += chunk.dictionary.map_or(0, |(length, _)| length);
        let text_bytes = chunk.offset_index.unencoded_byte_array_data_bytes();
        for (number, page) in chunk.pages.iter().enumerate() {
            index.append_offset_and_size(offset, page.bytes);
            index.append_row_count(page.rows);
            if has_text_bytes {
                let bytes = text_bytes.and_then(|bytes| bytes.get(number)).copied();
                index.append_unencoded_byte_array_data_bytes(bytes);
            }
            offset += i64::from(page.bytes);
        }
    }
    index.build()
}

/// Bytes in several parts, read one after another.
#[derive(Debug, Clone)]
struct Parts(VecDeque<Bytes>);

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.0.front().is_some_and(Bytes::is_empty) {
            self.0.pop_front();
        }
        let Some(part) = self.0.front_mut() else { return Ok(0) };
        let length = part.len().min(buffer.len());
        part.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

impl Length for Parts {
    fn len(&self) -> u64 {
        self.0.iter().map(|part| part.len() as u64).sum()
    }
}

impl ChunkReader for Parts {
    type T = Self;

    fn get_read(&self, start: u64) -> Result<Self> {
        let mut rest = self.clone();
        let mut skip = usize::try_from(start)?;
        for part in &mut rest.0 {
            let length = skip.min(part.len());
            part.advance(length);
            skip -= length;
        }
        Ok(rest)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut bytes = Vec::new();
        self.get_read(start)?.take(length as u64).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }
}
