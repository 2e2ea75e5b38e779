//! How Parquet files are written: one table of row groups, pages, encodings and statistics, for
//! all stages.
//!
//! | choice | reason |
//! |---|---|
//! | zstd level 3 | 6 to 8 % smaller GCAM than level 1 for 4 to 11 % more time |
//! | pages of 256 KiB | a few rows can be fetched without their neighbours |
//! | GKG row groups of 8,000 rows | a row's pages lie close together, files decode in parallel |
//! | no dictionary on long GKG text | pages stand alone and can be joined undecoded |
//! | no dictionary on ids and offsets of Mentions | 9 % smaller |
//! | page statistics on numbers, chunk statistics on text | text would be 80 % of the page index |

use std::collections::BTreeMap;

use catalog::{ColumnType, Dataset, Feed, marks};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnPath;

/// Level of zstd compression.
const ZSTD_LEVEL: i32 = 3;
/// Bytes of a data page before compression.
const PAGE_BYTES: usize = 256 << 10;
/// Rows of a GKG row group.
const GKG_GROUP_ROWS: usize = 8_000;
/// Rows of a row group of other datasets.
const GROUP_ROWS: usize = 250_000;
/// Bytes at which a row group is full however few its rows: far above any real one, and far below
/// the 2 GiB that readers can take of a column.
const GROUP_BYTES: usize = 512 << 20;
/// Bytes of a decoded batch, about.
const BATCH_BYTES: usize = 16 << 20;
/// Rows of a decoded batch, at most.
const BATCH_ROWS: usize = 16_384;

/// Rows of a full row group.
pub fn group_rows(dataset: Dataset) -> usize {
    match dataset {
        Dataset::GkgV1 | Dataset::GkgV2 => GKG_GROUP_ROWS,
        Dataset::Events
        | Dataset::Events15Min
        | Dataset::EventsReduced
        | Dataset::GkgV1Counts
        | Dataset::Mentions => GROUP_ROWS,
    }
}

/// Rows to decode at once of a row group, so that a batch takes about 16 MiB: a GKG row
/// may hold 100 kB of text.
pub fn batch_rows(group: &RowGroupMetaData) -> usize {
    let rows = usize::try_from(group.num_rows()).unwrap_or(0).max(1);
    let bytes = usize::try_from(group.total_byte_size()).unwrap_or(0);
    (BATCH_BYTES / (bytes / rows).max(1)).clamp(1, BATCH_ROWS)
}

/// Whether a column is written with a dictionary.
pub fn has_dictionary(dataset: Dataset, column: &str) -> bool {
    match dataset {
        Dataset::GkgV1 | Dataset::GkgV2 => {
            matches!(column, "V2SOURCECOMMONNAME" | "V2.1TRANSLATIONINFO" | "V2.1DATE" | "Date")
        }
        Dataset::Mentions => !matches!(
            column,
            "GLOBALEVENTID"
                | "MentionDocTone"
                | "MentionDocLen"
                | "Actor1CharOffset"
                | "Actor2CharOffset"
                | "ActionCharOffset"
        ),
        Dataset::Events | Dataset::Events15Min | Dataset::EventsReduced | Dataset::GkgV1Counts => {
            true
        }
    }
}

/// What every stage notes in its files.
pub fn notes(
    stage: &str,
    dataset: Dataset,
    feed: Feed,
    fingerprint: &str,
) -> Vec<(&'static str, String)> {
    vec![
        (marks::VERSION, crate::VERSION.to_owned()),
        (marks::STAGE, stage.to_owned()),
        (marks::DATASET, dataset.name().to_owned()),
        (marks::FEED, feed.name().to_owned()),
        (marks::FINGERPRINT, fingerprint.to_owned()),
    ]
}

/// How files of a dataset are written; `notes` become the key-value metadata, in their order,
/// followed by the citation.
pub fn writer_properties(dataset: Dataset, notes: &[(&str, String)]) -> WriterProperties {
    let compression =
        ZstdLevel::try_new(ZSTD_LEVEL).map_or(Compression::UNCOMPRESSED, Compression::ZSTD);
    let mut notes: Vec<_> =
        notes.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())).collect();
    notes.push(KeyValue::new(marks::CITATION.to_owned(), marks::CITATION_TEXT.to_owned()));
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("gdelt-mill version {}", crate::VERSION))
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(compression)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_max_row_group_row_count(Some(group_rows(dataset)))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_key_value_metadata(Some(notes));
    for column in dataset.columns() {
        // From its parts: the name as a whole, dots included.
        let path = ColumnPath::new(vec![column.name.to_owned()]);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), has_dictionary(dataset, column.name));
        if column.column_type == ColumnType::Text {
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::Chunk);
        }
    }
    properties.build()
}

/// Least and greatest value of each whole-number join key and of the date column, as the row
/// groups' statistics say. A column without values, or with a row group without statistics, has
/// no range.
pub fn key_ranges(dataset: Dataset, metadata: &ParquetMetaData) -> BTreeMap<String, (i64, i64)> {
    let keys = dataset.join_keys().iter().copied().chain([dataset.date_column()]);
    keys.filter_map(|name| Some((name.to_owned(), key_range(metadata, name)?))).collect()
}

fn key_range(metadata: &ParquetMetaData, name: &str) -> Option<(i64, i64)> {
    let mut range: Option<(i64, i64)> = None;
    for group in metadata.row_groups() {
        let chunk = group.columns().iter().find(|chunk| chunk.column_descr().name() == name)?;
        let Some(Statistics::Int64(statistics)) = chunk.statistics() else { return None };
        let nulls = statistics.null_count_opt()?;
        match (statistics.min_opt(), statistics.max_opt()) {
            (Some(least), Some(greatest)) => {
                let (low, high) = range.unwrap_or((*least, *greatest));
                range = Some((low.min(*least), high.max(*greatest)));
            }
            _ if nulls == u64::try_from(group.num_rows()).unwrap_or(u64::MAX) => {}
            _ => return None,
        }
    }
    range
}
