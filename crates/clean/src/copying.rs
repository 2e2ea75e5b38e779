//! Column chunks copied as they are: their bytes, statistics, page index and bloom filter. Neither
//! decodes nor decompresses: of each page the header is read, to see that the chunk is one.

use std::collections::VecDeque;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use io_budget::parquet::ParquetFile;
use parquet::basic::CompressionCodec;
use parquet::bloom_filter::Sbbf;
use parquet::column::page::PageReader as _;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::writer::SerializedRowGroupWriter;

use crate::parts::Parts;

/// Bytes of neighbouring chunks that are read together, at most.
const READ_BYTES: u64 = 32 << 20;

/// Why a chunk is not copied.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The source cannot be read.
    Reading(io_budget::parquet::Error),
    /// What the source says of the chunk is wrong.
    Source(String),
    /// The output cannot be written.
    Writing(ParquetError),
}

/// Copies chunks of a row group, in the order in which they were announced.
#[derive(Debug)]
pub(crate) struct Copier<'a> {
    file: &'a ParquetFile,
    group: usize,
    waiting: VecDeque<usize>,
    read: VecDeque<(usize, Parts)>,
}

impl<'a> Copier<'a> {
    /// A copier of these columns, by their positions in the source.
    pub(crate) fn new(
        file: &'a ParquetFile,
        group: usize,
        columns: impl IntoIterator<Item = usize>,
    ) -> Self {
        let waiting = columns.into_iter().collect();
        Self { file, group, waiting, read: VecDeque::new() }
    }

    /// Copies the next chunk. It must be the output's next column, of the same type.
    pub(crate) fn append_next<W: Write + Send>(
        &mut self,
        output: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), Failure> {
        if self.read.is_empty() {
            self.read_ahead()?;
        }
        let Some((column, parts)) = self.read.pop_front() else {
            return Err(Failure::Source(String::from("more chunks are copied than announced")));
        };
        let group = self.file.metadata().row_group(self.group);
        let chunk = group.column(column);
        let parts = Arc::new(parts);
        let damaged = |error: ParquetError| damage(chunk, &error.to_string());
        check_pages(chunk, group.num_rows(), &parts)?;
        let index = self.file.metadata().page_index_for_row_group(self.group);
        let close = ColumnCloseResult {
            bytes_written: u64::try_from(chunk.compressed_size()).unwrap_or(0),
            rows_written: u64::try_from(group.num_rows()).unwrap_or(0),
            metadata: chunk.clone(),
            bloom_filter: Sbbf::read_from_column_chunk(chunk, parts.as_ref()).map_err(damaged)?,
            column_index: index.column_index(column).cloned(),
            offset_index: index.offset_index(column).cloned(),
        };
        output.append_column(parts.as_ref(), close).map_err(Failure::Writing)
    }

    /// Checks the next chunk without copying it.
    pub(crate) fn check_next(&mut self) -> Result<(), Failure> {
        self.read_ahead()?;
        let group = self.file.metadata().row_group(self.group);
        let next = self.read.pop_front();
        next.map_or(Ok(()), |(column, parts)| {
            check_pages(group.column(column), group.num_rows(), &Arc::new(parts))
        })
    }

    /// Reads the next chunk, and those after it up to [`READ_BYTES`], in few requests.
    fn read_ahead(&mut self) -> Result<(), Failure> {
        let metadata = self.file.metadata().row_group(self.group);
        let (mut ranges, mut owners) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while let Some(column) = self.waiting.front().copied() {
            let of_column = ranges_of(metadata.column(column), self.file.stat().size)?;
            bytes += of_column.iter().map(|range| range.end - range.start).sum::<u64>();
            if bytes > READ_BYTES && !ranges.is_empty() {
                break;
            }
            self.waiting.pop_front();
            owners.push((column, of_column.len()));
            ranges.extend(of_column);
        }
        let read = self.file.read_ranges(&ranges).map_err(Failure::Reading)?;
        let mut read = ranges.iter().map(|range| range.start).zip(read);
        for (column, count) in owners {
            self.read.push_back((column, Parts::new(read.by_ref().take(count))));
        }
        Ok(())
    }
}

/// Whether the pages of a chunk are its bytes, all of them, and hold a value for each row.
fn check_pages(chunk: &ColumnChunkMetaData, rows: i64, parts: &Arc<Parts>) -> Result<(), Failure> {
    let count = || {
        // Without a codec the reader leaves pages compressed.
        let alone = chunk.clone().into_builder();
        let alone = alone.set_compression_codec(CompressionCodec::UNCOMPRESSED).build()?;
        let mut pages = SerializedPageReader::new(Arc::clone(parts), &alone, 0, None)?;
        let mut values: i64 = 0;
        while let Some(page) = pages.get_next_page()? {
            if page.is_data_page() {
                values = values.saturating_add(page.num_values().into());
            }
        }
        Ok(values)
    };
    match count().map_err(|error: ParquetError| damage(chunk, &error.to_string()))? {
        values if values == rows => Ok(()),
        values => Err(damage(chunk, &format!("it holds {values} values in {rows} rows"))),
    }
}

fn damage(chunk: &ColumnChunkMetaData, what: &str) -> Failure {
    let name = chunk.column_path().string();
    Failure::Source(format!("column `{name}` is damaged: {what}: make the file again"))
}

/// Where a chunk and its bloom filter stand in a file of `size` bytes.
fn ranges_of(chunk: &ColumnChunkMetaData, size: u64) -> Result<Vec<Range<u64>>, Failure> {
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let mut wanted = vec![(start, Some(chunk.compressed_size()))];
    if let Some(offset) = chunk.bloom_filter_offset() {
        // Older writers do not say how long it is.
        wanted.push((offset, chunk.bloom_filter_length().map(i64::from)));
    }
    let range = |(start, length): (i64, Option<i64>)| {
        let start = u64::try_from(start).ok()?;
        let end = match length {
            Some(length) => start.checked_add(u64::try_from(length).ok()?)?,
            None => size,
        };
        (start <= end && end <= size).then_some(start..end)
    };
    wanted.into_iter().map(range).collect::<Option<Vec<_>>>().ok_or_else(|| {
        let name = chunk.column_path().string();
        Failure::Source(format!("column `{name}` lies outside the file, says its footer"))
    })
}
