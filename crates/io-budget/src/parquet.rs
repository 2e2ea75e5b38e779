//! Reads Parquet under a budget: footers in one or two requests, row groups with all their ranges
//! known before the first is read, for `parquet`'s push decoders. The decoders never touch storage.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, RowSelection,
    RowSelectionPolicy,
};
use parquet::arrow::push_decoder::ParquetPushDecoderBuilder;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    PageIndexPolicy, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataPushDecoder,
    RowGroupMetaData,
};

use crate::{Budget, BudgetFile, Stat};

/// Bytes read from the end of a file whose footer's place is not known.
const TAIL_BYTES: u64 = 64 << 10;

/// Length of the footer's length and the closing magic number.
const FOOTER_END_BYTES: u64 = 8;

/// Why a Parquet file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The storage failed.
    #[error(transparent)]
    Io(#[from] crate::Error),
    /// The bytes are not a Parquet file that can be read.
    #[error("{} is not a readable Parquet file and has to be made again", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the decoder said.
        source: ParquetError,
    },
}

/// How much of a file the caller will want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// All of it: it is read at once and decoded from memory, or where it is too large for that,
    /// a row group at a time.
    Whole,
    /// Some columns or rows: only their bytes are read. `footer_start` is where the page index or
    /// the footer begins, if known, so that one request fetches both.
    Parts {
        /// Byte at which page index and footer begin.
        footer_start: Option<u64>,
    },
}

/// A Parquet file open under a budget, its footer and page index read.
#[derive(Debug)]
pub struct ParquetFile {
    path: PathBuf,
    stat: Stat,
    source: Source,
    metadata: ArrowReaderMetadata,
}

#[derive(Debug)]
enum Source {
    Memory(Bytes),
    File(BudgetFile),
}

impl Source {
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, crate::Error> {
        match self {
            Self::File(file) => file.read_ranges(ranges),
            Self::Memory(bytes) => Ok(ranges.iter().map(|range| slice(bytes, range)).collect()),
        }
    }
}

/// The part of `bytes` in `range`; shorter where the range goes beyond the end, which the decoder
/// then reports.
fn slice(bytes: &Bytes, range: &Range<u64>) -> Bytes {
    let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    bytes.slice(clamp(range.start)..clamp(range.end).max(clamp(range.start)))
}

impl ParquetFile {
    /// Opens a file and reads its footer and page index.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the storage fails, [`Error::Parquet`] when the file is not Parquet.
    pub fn open(budget: &Budget, path: &Path, want: Want) -> Result<Self, Error> {
        Self::of(budget.open(path)?, want)
    }

    /// Reads footer and page index of a file that is open.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn of(file: BudgetFile, want: Want) -> Result<Self, Error> {
        let (path, stat) = (file.path().to_owned(), file.stat());
        let (source, footer_start) = match want {
            Want::Whole if file.is_read_whole() => (Source::Memory(file.read_all()?), None),
            Want::Whole => (Source::File(file), None),
            Want::Parts { .. } if file.is_one_request() => (Source::Memory(file.read_all()?), None),
            Want::Parts { footer_start } => (Source::File(file), footer_start),
        };
        let metadata = read_metadata(&source, stat.size, footer_start)
            .and_then(|metadata| Ok(with_plain_schema(metadata)?));
        let metadata = metadata.map_err(|error| error.of(&path))?;
        Ok(Self { path, stat, source, metadata })
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size and time when it was opened.
    pub fn stat(&self) -> Stat {
        self.stat
    }

    /// Footer and, where the file has one, page index.
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.metadata.metadata()
    }

    /// The arrow schema in which columns are decoded; without the file's key-value metadata.
    pub fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Rows according to the footer.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// The file's own value for a key of its key-value metadata.
    pub fn key_value(&self, key: &str) -> Option<&str> {
        let pairs = self.metadata().file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
    }

    /// Position of a column, by its exact name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.schema().fields().iter().position(|field| field.name() == name)
    }

    /// Reads and decodes columns of one row group: first all bytes are read, merged into few
    /// requests, then the returned reader decodes them without touching storage.
    ///
    /// `columns` are positions in the schema; the batches hold them in file order. `selection`
    /// picks rows of this row group, and then only the pages that hold them are read.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the storage fails, [`Error::Parquet`] when the bytes cannot be decoded.
    pub fn read_row_group(
        &self,
        row_group: usize,
        columns: &[usize],
        selection: Option<RowSelection>,
        batch_rows: usize,
    ) -> Result<Option<ParquetRecordBatchReader>, Error> {
        self.decode_row_group(row_group, columns, selection, batch_rows)
            .map_err(|error| error.of(&self.path))
    }

    fn decode_row_group(
        &self,
        row_group: usize,
        columns: &[usize],
        selection: Option<RowSelection>,
        batch_rows: usize,
    ) -> Result<Option<ParquetRecordBatchReader>, Failure> {
        // By position: column names of GKG hold dots, which a lookup by name takes for nesting.
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied());
        let mut builder = ParquetPushDecoderBuilder::new_with_metadata(self.metadata.clone())
            .with_row_groups(vec![row_group])
            .with_projection(mask)
            .with_batch_size(batch_rows)
            // The default may turn a sparse selection into a mask and read every page.
            .with_row_selection_policy(RowSelectionPolicy::Selectors);
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        let mut decoder = builder.build()?;
        loop {
            match decoder.try_next_reader()? {
                DecodeResult::NeedsData(ranges) => {
                    let data = self.source.read_ranges(&ranges)?;
                    decoder.push_ranges(ranges, data)?;
                }
                DecodeResult::Data(reader) => return Ok(Some(reader)),
                DecodeResult::Finished => return Ok(None),
            }
        }
    }

    /// The bytes of the given ranges of the file, neighbours read together.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the storage fails.
    pub fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, Error> {
        Ok(self.source.read_ranges(ranges)?)
    }
}

/// The byte at which a file's page index and footer begin: behind the last column chunk. One read
/// from there to the end brings all that [`ParquetFile::open`] needs.
pub fn footer_start(metadata: &ParquetMetaData) -> u64 {
    let chunks = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let end = |start: Option<i64>, length: Option<i32>| {
        Some(u64::try_from(start?).ok()? + u64::try_from(length?).ok()?)
    };
    chunks
        .map(|chunk| {
            let (start, length) = chunk.byte_range();
            let bloom = end(chunk.bloom_filter_offset(), chunk.bloom_filter_length());
            bloom.unwrap_or(0).max(start.saturating_add(length))
        })
        .max()
        .unwrap_or(0)
}

/// A failure that does not know its file yet.
#[derive(Debug)]
enum Failure {
    Io(crate::Error),
    Parquet(ParquetError),
}

impl Failure {
    fn of(self, path: &Path) -> Error {
        match self {
            Self::Io(error) => Error::Io(error),
            Self::Parquet(source) => Error::Parquet { path: path.to_owned(), source },
        }
    }
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ParquetError> for Failure {
    fn from(error: ParquetError) -> Self {
        Self::Parquet(error)
    }
}

fn read_metadata(
    source: &Source,
    size: u64,
    footer_start: Option<u64>,
) -> Result<ParquetMetaData, Failure> {
    // A file made elsewhere may lack the page index, or have it for some columns only.
    // Which encodings the pages of a chunk have is kept page by page, as a copy is to have it.
    let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
    let mut decoder = ParquetMetaDataPushDecoder::try_new(size)?
        .with_page_index_policy(PageIndexPolicy::Optional)
        .with_metadata_options(Some(Arc::new(options)));
    let first = footer_start
        .filter(|start| start.saturating_add(FOOTER_END_BYTES) <= size)
        .unwrap_or(size.saturating_sub(TAIL_BYTES));
    let mut ranges = Vec::from([first..size]);
    loop {
        for range in &ranges {
            // A corrupt footer may point anywhere.
            if range.start > range.end || range.end > size {
                let message = format!("bytes {}..{} of {size}", range.start, range.end);
                return Err(Failure::Parquet(ParquetError::EOF(message)));
            }
        }
        let data = source.read_ranges(&ranges)?;
        decoder.push_ranges(ranges, data)?;
        match decoder.try_decode()? {
            DecodeResult::NeedsData(needed) => ranges = needed,
            DecodeResult::Data(metadata) => return Ok(metadata),
            DecodeResult::Finished => {
                return Err(Failure::Parquet(ParquetError::General("no footer".into())));
            }
        }
    }
}

/// Decodes text as `Utf8` whatever the writer's arrow schema says: views of a few rows would keep
/// whole pages alive. Drops the schema's own metadata, which is not the data's.
fn with_plain_schema(metadata: ParquetMetaData) -> Result<ArrowReaderMetadata, ParquetError> {
    use arrow::datatypes::{DataType, Field};
    let metadata = Arc::new(metadata);
    let read = ArrowReaderMetadata::try_new(Arc::clone(&metadata), ArrowReaderOptions::new())?;
    let plain: Vec<Field> = read
        .schema()
        .fields()
        .iter()
        .map(|field| {
            let data_type = match field.data_type() {
                DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
                other => other.clone(),
            };
            Field::new(field.name(), data_type, field.is_nullable())
        })
        .collect();
    let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(plain)));
    ArrowReaderMetadata::try_new(metadata, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, RecordBatch, StringArray};
    use arrow::datatypes::{DataType, Field};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::RowSelector;
    use parquet::file::properties::WriterProperties;

    const ROWS: i64 = 60_000;

    /// Two columns, one with a dot in its name, in row groups of 20,000 rows and small pages.
    /// Returns where page index and footer begin.
    fn write_file(budget: &Budget, path: &Path) -> u64 {
        let schema = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("V1.5TEXT", DataType::Utf8, true),
        ]));
        let ids = Int64Array::from_iter_values(0..ROWS);
        let texts = StringArray::from_iter_values((0..ROWS).map(|i| format!("{:064x}", i * i)));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(ids), Arc::new(texts)])
            .unwrap();
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(20_000))
            .set_data_page_size_limit(16 << 10)
            .set_dictionary_enabled(false)
            .build();
        let mut staged = budget.stage(path);
        let mut writer = ArrowWriter::try_new(&mut staged, schema, Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        let metadata = writer.close().unwrap();
        staged.publish().unwrap();
        footer_start(&metadata)
    }

    #[test]
    fn a_few_rows_cost_a_few_pages_and_are_the_right_ones() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file.parquet");
        let budget = Budget::private();
        write_file(&budget, &path);
        let size = budget.stat(&path).unwrap().unwrap().size;
        let before = budget.report().reads;
        let file = ParquetFile::open(&budget, &path, Want::Parts { footer_start: None }).unwrap();
        assert_eq!((file.rows(), file.column("V1.5TEXT")), (60_000, Some(1)));
        let selection = RowSelection::from(vec![RowSelector::skip(777), RowSelector::select(1)]);
        let reader = file.read_row_group(2, &[0, 1], Some(selection), 1024).unwrap().unwrap();
        let batches: Vec<_> = reader.map(Result::unwrap).collect();
        assert_eq!(batches.len(), 1);
        let row = &batches[0];
        assert_eq!(row.column(0).as_ref(), &Int64Array::from(vec![40_777]));
        let text = format!("{:064x}", 40_777_i64 * 40_777);
        assert_eq!(row.column(1).as_ref(), &StringArray::from(vec![text]));
        let after = budget.report().reads;
        assert!(after.bytes - before.bytes < size / 4, "{} of {size}", after.bytes - before.bytes);
        assert_eq!(after.open - before.open, 1);
    }

    #[test]
    fn a_known_footer_is_one_read_and_a_wrong_hint_does_no_harm() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file.parquet");
        let budget = Budget::private();
        write_file(&budget, &path);
        let size = budget.stat(&path).unwrap().unwrap().size;
        for (hint, reads) in [(Some(size - 200_000), 1), (Some(size - 4), 3), (Some(u64::MAX), 3)] {
            let before = budget.report().reads.read;
            let want = Want::Parts { footer_start: hint };
            let file = ParquetFile::open(&budget, &path, want).unwrap();
            assert_eq!(file.rows(), 60_000);
            assert!(budget.report().reads.read - before <= reads, "{hint:?}");
        }
    }

    #[test]
    fn what_is_not_parquet_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let budget = Budget::private();
        for (name, bytes) in [
            ("empty", Vec::new()),
            ("text", b"<html>404</html>".to_vec()),
            ("huge-footer", b"PAR1\xff\xff\xff\x7fPAR1".to_vec()),
        ] {
            let path = directory.path().join(name);
            let mut staged = budget.stage(&path);
            std::io::Write::write_all(&mut staged, &bytes).unwrap();
            staged.publish().unwrap();
            let error = ParquetFile::open(&budget, &path, Want::Whole).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
