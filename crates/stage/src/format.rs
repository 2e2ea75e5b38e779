//! How Parquet files are written: one table of encodings and pages, for all stages.
//!
//! The constant `RULES` says it by column. For all columns holds:
//!
//! | choice | reason |
//! |---|---|
//! | zstd level 3 | 6 to 8 % smaller GCAM than level 1 for 4 to 11 % more time |
//! | GKG row groups of 8,000 rows | a row's pages lie close together, files decode in parallel |
//! | page statistics on numbers, chunk statistics on text | text would be 80 % of the page index |
//! | no bloom filters | for a thousand keys reading the key column is cheaper |
//!
//! Shares in the table are of a whole file, measured on real rows: 5,000 daily and 10,338
//! 15-minute events, 37,208 mentions, 951 records of GKG 2.1.

use std::collections::BTreeMap;

use catalog::{ColumnType, Dataset, Feed, marks};
use parquet::basic::Encoding;
use parquet::file::metadata::{KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnPath;

use crate::Codec;

/// Bytes of a data page before compression: a few rows can be fetched without their neighbours.
const PAGE_BYTES: usize = 256 << 10;
/// Bytes of a page of a column that nearly makes up the file.
const LONG_PAGE_BYTES: usize = 1 << 20;
/// Rows of a page of numbers of a dictionary, which has a few bytes per row: with the usual 20,000
/// rows it would be far below [`PAGE_BYTES`].
const DICTIONARY_PAGE_ROWS: usize = 65_536;
/// Bytes of a dictionary.
const DICTIONARY_BYTES: usize = 1 << 20;
/// Bytes of a dictionary of addresses: those of a day have some MB.
const ADDRESS_DICTIONARY_BYTES: usize = 16 << 20;
/// Rows of a GKG row group.
const GKG_GROUP_ROWS: usize = 8_000;
/// Rows of a row group of other datasets.
const GROUP_ROWS: usize = 250_000;
/// Compressed bytes at which a row group is full however few its rows: above any real one, and a
/// bound on what a writer holds in memory.
pub const GROUP_BYTES: usize = 128 << 20;
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

/// How the values of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    /// As numbers of a dictionary, until it has this many bytes; one after another from there on.
    Dictionary(usize),
    /// One after another: pages stand alone.
    Plain,
    /// As differences to the one before.
    Delta,
}

/// How some columns of some datasets are written.
#[derive(Debug)]
struct Rule {
    datasets: &'static [Dataset],
    /// Their names; none means all.
    columns: &'static [&'static str],
    values: Values,
    page_bytes: usize,
}

const EVENTS: &[Dataset] = &[Dataset::Events, Dataset::Events15Min];
const GKG: &[Dataset] = &[Dataset::GkgV1, Dataset::GkgV2];

/// The table. Of the rules that a column fits the first holds.
const RULES: &[Rule] = &[
    // Ids of a file follow one another: 4 % smaller than with a dictionary, 1.5 to 2 % than plain.
    Rule {
        datasets: EVENTS,
        columns: &["GlobalEventID"],
        values: Values::Delta,
        page_bytes: PAGE_BYTES,
    },
    // Means and counts compress better without a dictionary: 0.6 to 1.9 % together.
    Rule {
        datasets: EVENTS,
        columns: &["AvgTone", "NumMentions", "NumArticles"],
        values: Values::Plain,
        page_bytes: PAGE_BYTES,
    },
    // A day has more addresses than fit in 1 MiB: with plain ones from there on the file of a made
    // day is a quarter larger.
    Rule {
        datasets: EVENTS,
        columns: &["SOURCEURL"],
        values: Values::Dictionary(ADDRESS_DICTIONARY_BYTES),
        page_bytes: PAGE_BYTES,
    },
    // Codes, places and addresses repeat: dictionaries save 8 to 30 %, of which addresses 5 to 8.
    Rule {
        datasets: EVENTS,
        columns: &[],
        values: Values::Dictionary(DICTIONARY_BYTES),
        page_bytes: PAGE_BYTES,
    },
    // Ids are out of order and offsets nearly random: 13 % smaller without a dictionary, and
    // differences gain nothing.
    Rule {
        datasets: &[Dataset::Mentions],
        columns: &[
            "GLOBALEVENTID",
            "SentenceID",
            "Actor1CharOffset",
            "Actor2CharOffset",
            "ActionCharOffset",
            "Confidence",
            "MentionDocLen",
            "MentionDocTone",
        ],
        values: Values::Plain,
        page_bytes: PAGE_BYTES,
    },
    // An article is mentioned by many events: addresses without a dictionary would add 33 %.
    Rule {
        datasets: &[Dataset::Mentions],
        columns: &["MentionIdentifier"],
        values: Values::Dictionary(ADDRESS_DICTIONARY_BYTES),
        page_bytes: PAGE_BYTES,
    },
    // Sources and times repeat.
    Rule {
        datasets: &[Dataset::Mentions],
        columns: &[],
        values: Values::Dictionary(DICTIONARY_BYTES),
        page_bytes: PAGE_BYTES,
    },
    // Four fifths of a GKG file: in pages of 256 KiB it would be 4.4 % larger.
    Rule {
        datasets: &[Dataset::GkgV2],
        columns: &["V2GCAM"],
        values: Values::Plain,
        page_bytes: LONG_PAGE_BYTES,
    },
    // Few values.
    Rule {
        datasets: GKG,
        columns: &["V2SOURCECOMMONNAME", "V2.1TRANSLATIONINFO", "V2.1DATE", "Date"],
        values: Values::Dictionary(DICTIONARY_BYTES),
        page_bytes: PAGE_BYTES,
    },
    // Long text hardly repeats: a dictionary changes nothing in size, and pages with one can be
    // neither fetched alone nor joined undecoded.
    Rule { datasets: GKG, columns: &[], values: Values::Plain, page_bytes: PAGE_BYTES },
    // Codes and places, and each article in several rows.
    Rule {
        datasets: &[Dataset::EventsReduced, Dataset::GkgV1Counts],
        columns: &[],
        values: Values::Dictionary(DICTIONARY_BYTES),
        page_bytes: PAGE_BYTES,
    },
];

/// The rule of a column; of a column that a stage adds, that of the dataset's rest.
fn rule(dataset: Dataset, column: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| {
        rule.datasets.contains(&dataset)
            && (rule.columns.is_empty() || rule.columns.contains(&column))
    })
}

/// Whether a column is written with a dictionary.
pub fn has_dictionary(dataset: Dataset, column: &str) -> bool {
    rule(dataset, column).is_none_or(|rule| matches!(rule.values, Values::Dictionary(_)))
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
    let mut notes: Vec<_> =
        notes.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())).collect();
    notes.push(KeyValue::new(marks::CITATION.to_owned(), marks::CITATION_TEXT.to_owned()));
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("gdelt-mill version {}", crate::VERSION))
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Codec::default().compression())
        .set_data_page_size_limit(PAGE_BYTES)
        .set_max_row_group_row_count(Some(group_rows(dataset)))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_key_value_metadata(Some(notes));
    for column in dataset.columns() {
        // From its parts: the name as a whole, dots included.
        let path = ColumnPath::new(vec![column.name.to_owned()]);
        if let Some(rule) = rule(dataset, column.name) {
            properties = properties.set_column_data_page_size_limit(path.clone(), rule.page_bytes);
            properties = match rule.values {
                Values::Dictionary(bytes) => properties
                    .set_column_dictionary_page_size_limit(path.clone(), bytes)
                    .set_column_data_page_row_count_limit(path.clone(), DICTIONARY_PAGE_ROWS),
                Values::Plain => properties.set_column_dictionary_enabled(path.clone(), false),
                Values::Delta => properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED),
            };
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_every_dataset_has_a_rule_and_every_name_is_a_column() {
        for dataset in Dataset::ALL {
            for column in dataset.columns() {
                assert!(rule(dataset, column.name).is_some(), "{dataset} {}", column.name);
            }
        }
        for rule in RULES {
            for name in rule.columns {
                let has = |set: &Dataset| set.columns().iter().any(|column| column.name == *name);
                assert!(rule.datasets.iter().any(has), "{name}");
            }
        }
    }

    #[test]
    fn the_first_rule_that_fits_holds() {
        let values = |dataset, name| rule(dataset, name).map(|rule| (rule.values, rule.page_bytes));
        assert_eq!(values(Dataset::GkgV2, "V2GCAM"), Some((Values::Plain, LONG_PAGE_BYTES)));
        assert_eq!(values(Dataset::GkgV2, "V1THEMES"), Some((Values::Plain, PAGE_BYTES)));
        assert_eq!(values(Dataset::Events, "GlobalEventID"), Some((Values::Delta, PAGE_BYTES)));
        assert!(has_dictionary(Dataset::Mentions, "MentionIdentifier"));
        assert!(!has_dictionary(Dataset::Mentions, "GLOBALEVENTID"));
    }
}
