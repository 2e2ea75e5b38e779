//! Joined pages: the same rows, statistics that are right, footers that lie.

use arrow::array::{Array, Float64Array};
use arrow::datatypes::Float64Type;
use parquet::arrow::add_encoded_arrow_schema_to_metadata;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::properties::{EnabledStatistics, WriterVersion};
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedFileWriter;

use super::*;

/// What a message says, and a lie that it is said of.
type Lie<'a> = (&'a str, &'a dyn Fn(&mut ColumnCloseResult));

/// How a source is written.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of a writer's")]
struct Shape {
    rows: i64,
    group_rows: usize,
    page_rows: usize,
    dictionary: bool,
    delta: bool,
    snappy: bool,
    v2: bool,
    statistics: EnabledStatistics,
}

impl Shape {
    /// As `gdelt-convert` writes, in pages and row groups of a few rows.
    fn usual(rows: i64) -> Self {
        Self {
            rows,
            group_rows: 1_000,
            page_rows: 7,
            dictionary: false,
            delta: false,
            snappy: false,
            v2: false,
            statistics: EnabledStatistics::Page,
        }
    }

    fn properties(&self) -> WriterProperties {
        let codec = if self.snappy { Compression::SNAPPY } else { Compression::UNCOMPRESSED };
        let version = if self.v2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
        let mut properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(self.group_rows))
            .set_data_page_row_count_limit(self.page_rows)
            .set_write_batch_size(1)
            .set_dictionary_enabled(self.dictionary)
            .set_compression(codec)
            .set_writer_version(version)
            .set_statistics_enabled(self.statistics);
        if self.delta {
            let column = parquet::schema::types::ColumnPath::from("GLOBALEVENTID");
            properties = properties.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
        properties.build()
    }
}

prop_compose! {
    fn shapes()(
        rows in 0_i64..60,
        group_rows in 5_usize..80,
        page_rows in 1_usize..30,
        flags in proptest::array::uniform4(proptest::bool::weighted(0.2)),
        statistics in 0..8,
    ) -> Shape {
        let statistics = match statistics {
            0 => EnabledStatistics::None,
            1 => EnabledStatistics::Chunk,
            _ => EnabledStatistics::Page,
        };
        let [dictionary, delta, snappy, v2] = flags;
        Shape { rows, group_rows, page_rows, dictionary, delta, snappy, v2, statistics }
    }
}

/// Mentions with nulls in all types, whole pages of them, and numbers in no order.
fn varied(first: i64, count: i64) -> RecordBatch {
    let batch = mentions(first..first + count);
    let ids = first..first + count;
    let schema = batch.schema();
    let arrays = schema.fields().iter().enumerate().map(|(at, field)| -> ArrayRef {
        let shift = i64::try_from(at).unwrap();
        let is_null = |id: i64| (id / 9 + shift) % 3 == 0;
        let number = |id: i64| (!is_null(id)).then_some((id * 7_919 + shift) % 1_009 - 500);
        match field.data_type() {
            DataType::Int64 if at == 0 => Arc::clone(batch.column(0)),
            DataType::Int64 => Arc::new(ids.clone().map(number).collect::<Int64Array>()),
            DataType::Float64 => {
                let number = |id| number(id).and_then(|it| i32::try_from(it).ok()).map(f64::from);
                Arc::new(ids.clone().map(number).collect::<Float64Array>())
            }
            _ => {
                let text = |id| number(id).map(|it| format!("{it} é"));
                Arc::new(ids.clone().map(text).collect::<StringArray>())
            }
        }
    });
    RecordBatch::try_new(Arc::clone(&schema), arrays.collect()).unwrap()
}

fn int64_range(values: &dyn Array) -> Option<(i64, i64)> {
    let values = values.as_primitive::<Int64Type>();
    arrow::compute::min(values).zip(arrow::compute::max(values))
}

fn float64_range(values: &dyn Array) -> Option<(f64, f64)> {
    let values = values.as_primitive::<Float64Type>();
    arrow::compute::min(values).zip(arrow::compute::max(values))
}

/// Checks what footer and page index say against the values; returns how many pages' statistics
/// were checked.
fn check_statistics(file: &ParquetFile) -> usize {
    let mut checked = 0;
    let values = read(file);
    let mut first = 0;
    for (number, group) in file.metadata().row_groups().iter().enumerate() {
        let rows = usize::try_from(group.num_rows()).unwrap();
        let index = file.metadata().page_index_for_row_group(number);
        for (at, chunk) in group.columns().iter().enumerate() {
            let column = values.column(at).slice(first, rows);
            assert_eq!(chunk.num_values(), group.num_rows());
            check_chunk(chunk.statistics(), &column);
            let Some(pages) = index.offset_index(at) else { continue };
            let locations = pages.page_locations();
            let sizes: i64 =
                locations.iter().map(|page| i64::from(page.compressed_page_size)).sum();
            assert_eq!(locations[0].offset, chunk.data_page_offset());
            let dictionary =
                chunk.dictionary_page_offset().map_or(0, |at| chunk.data_page_offset() - at);
            assert_eq!(sizes + dictionary, chunk.compressed_size());
            let Some(index) = index.column_index(at) else { continue };
            assert_eq!(index.num_pages(), locations.len() as u64);
            for (page, location) in locations.iter().enumerate() {
                let begin = usize::try_from(location.first_row_index).unwrap();
                let end = locations
                    .get(page + 1)
                    .map_or(rows, |next| usize::try_from(next.first_row_index).unwrap());
                let values = column.slice(begin, end - begin);
                let nulls = i64::try_from(values.null_count()).unwrap();
                assert_eq!(index.null_count(page), Some(nulls));
                if let Some(histogram) = index.definition_level_histogram(page) {
                    assert_eq!(histogram, [nulls, i64::try_from(values.len()).unwrap() - nulls]);
                }
                match index {
                    ColumnIndexMetaData::INT64(index) => {
                        let range =
                            index.min_value(page).copied().zip(index.max_value(page).copied());
                        assert_eq!(range, int64_range(&values));
                    }
                    ColumnIndexMetaData::DOUBLE(index) => {
                        let range =
                            index.min_value(page).copied().zip(index.max_value(page).copied());
                        assert_eq!(range, float64_range(&values));
                    }
                    _ => continue,
                }
                checked += 1;
            }
        }
        first += rows;
    }
    checked
}

fn check_chunk(statistics: Option<&Statistics>, values: &ArrayRef) {
    let Some(statistics) = statistics else { return };
    if let Some(nulls) = statistics.null_count_opt() {
        assert_eq!(nulls, values.null_count() as u64);
    }
    let found = statistics.min_bytes_opt().zip(statistics.max_bytes_opt());
    let Some(found) = found else { return };
    let bytes = |range: Option<(Vec<u8>, Vec<u8>)>| range.unwrap();
    let expected = match values.data_type() {
        DataType::Int64 => bytes(
            int64_range(values).map(|(a, b)| (a.to_le_bytes().into(), b.to_le_bytes().into())),
        ),
        DataType::Float64 => bytes(
            float64_range(values).map(|(a, b)| (a.to_le_bytes().into(), b.to_le_bytes().into())),
        ),
        _ => {
            let texts = values.as_string::<i32>();
            let (least, greatest) = (texts.iter().flatten().min(), texts.iter().flatten().max());
            bytes(least.zip(greatest).map(|(a, b)| (a.into(), b.into())))
        }
    };
    assert_eq!((found.0, found.1), (&expected.0[..], &expected.1[..]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn joined_pages_hold_the_rows_of_the_sources(
        shapes in proptest::collection::vec(shapes(), 1..6),
        copy in proptest::bool::weighted(0.3),
        picks in proptest::collection::vec((0_usize..20, 1_usize..20), 1..12),
    ) {
        let root = Root::new();
        let mut batches = Vec::new();
        for (slot, shape) in (0_i64..).zip(&shapes) {
            let batch = varied(slot * 100, shape.rows);
            let name = format!("2015021900{:02}00", slot * 15 % 60);
            let name = if slot < 4 { name } else { format!("2015021901{:02}00", slot * 15 % 60) };
            let relative = format!("mentions/converted/{name}.mentions.parquet");
            root.write_as(&relative, &batch, Some(shape.properties()));
            batches.push(batch);
        }
        let flags = if copy { &["--row-groups", "copy"][..] } else { &[] };
        let bytes = |jobs: &str| {
            let mut flags = flags.to_vec();
            flags.extend(["--force", "--jobs", jobs]);
            assert_eq!(root.run(&flags).unwrap(), ExitStatus::Done);
            root.budget.read_file(&root.path("mentions/aggregated/day/20150219.mentions.parquet"))
        };
        prop_assert_eq!(bytes("3").unwrap(), bytes("1").unwrap());
        let day = root.open_day("20150219");
        let expected = concat_batches(&batches[0].schema(), &batches).unwrap();
        prop_assert_eq!(&read(&day), &expected);
        check_statistics(&day);

        // Pages are found by the index where some rows are asked for.
        let mut first = 0;
        for group in 0..day.metadata().num_row_groups() {
            let rows = usize::try_from(day.metadata().row_group(group).num_rows()).unwrap();
            let (mut selectors, mut slices, mut at) = (Vec::new(), Vec::new(), 0);
            for (skip, take) in &picks {
                let skip = (*skip).min(rows - at);
                let take = (*take).min(rows - at - skip);
                selectors.extend([RowSelector::skip(skip), RowSelector::select(take)]);
                slices.push(expected.slice(first + at + skip, take));
                at += skip + take;
            }
            let all: Vec<_> = (0..16).collect();
            let reader = day.read_row_group(group, &all, Some(RowSelection::from(selectors)), 64);
            let found: Vec<_> =
                reader.unwrap().into_iter().flatten().map(Result::unwrap).collect();
            let schema = expected.schema();
            prop_assert_eq!(
                concat_batches(&schema, &found).unwrap(),
                concat_batches(&schema, &slices).unwrap()
            );
            first += rows;
        }
    }
}

#[test]
fn pages_without_a_dictionary_are_joined_as_they_are() {
    let root = Root::new();
    let names = ["20150218230000", "20150218231500"];
    for (name, first) in names.iter().zip([0, 100]) {
        let relative = format!("mentions/converted/{name}.mentions.parquet");
        root.write_as(&relative, &varied(first, 30), Some(Shape::usual(30).properties()));
    }
    root.run(&[]).unwrap();
    let day = root.open_day("20150218");
    let sources =
        names.map(|name| root.open(&format!("mentions/converted/{name}.mentions.parquet")));
    let group = day.metadata().row_group(0);
    for column in 0..16 {
        let bytes = |file: &ParquetFile| {
            let (start, length) = file.metadata().row_group(0).column(column).byte_range();
            file.read_ranges(&[start..start + length]).unwrap().concat()
        };
        assert_eq!(bytes(&day), sources.iter().map(bytes).collect::<Vec<_>>().concat());
        let of_sources = |what: fn(&ColumnChunkMetaData) -> i64| {
            sources.iter().map(|it| what(it.metadata().row_group(0).column(column))).sum::<i64>()
        };
        let chunk = group.column(column);
        assert_eq!(chunk.uncompressed_size(), of_sources(ColumnChunkMetaData::uncompressed_size));
        assert_eq!(chunk.encodings().collect::<Vec<_>>(), [Encoding::PLAIN, Encoding::RLE]);
        let histogram = chunk.definition_level_histogram().unwrap();
        assert_eq!(histogram.values().iter().sum::<i64>(), 60);
    }
    // Nine columns of numbers of five pages each.
    assert_eq!(check_statistics(&day) % 10, 0);
    assert!(check_statistics(&day) > 50);
}

/// A copy of a file whose footer was changed.
fn with_footer(file: &ParquetFile, change: impl Fn(usize, &mut ColumnCloseResult)) -> Vec<u8> {
    let metadata = file.metadata();
    let mut properties = WriterProperties::default();
    add_encoded_arrow_schema_to_metadata(file.schema(), &mut properties);
    let root = metadata.file_metadata().schema_descr().root_schema_ptr();
    let mut writer = SerializedFileWriter::new(Vec::new(), root, properties.into()).unwrap();
    let bytes = file.read_ranges(&[0..file.stat().size]).unwrap().concat();
    let bytes = bytes::Bytes::from(bytes);
    let index = metadata.page_index_for_row_group(0);
    let mut group = writer.next_row_group().unwrap();
    for (column, chunk) in metadata.row_group(0).columns().iter().enumerate() {
        let mut close = ColumnCloseResult {
            bytes_written: 0,
            rows_written: u64::try_from(metadata.row_group(0).num_rows()).unwrap(),
            metadata: chunk.clone(),
            bloom_filter: None,
            column_index: index.column_index(column).cloned(),
            offset_index: index.offset_index(column).cloned(),
        };
        change(column, &mut close);
        group.append_column(&bytes, close).unwrap();
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn footers_that_lie_fail_their_period_by_name() {
    let root = Root::new();
    let liar = "mentions/converted/20150218231500.mentions.parquet";
    root.write_slot("20150218230000", &varied(0, 30));
    root.write_as(liar, &varied(100, 30), Some(Shape::usual(30).properties()));
    root.write_as(
        "mentions/converted/20150218230000.mentions.parquet",
        &varied(0, 30),
        Some(Shape::usual(30).properties()),
    );
    let file = root.open(liar);
    let locations = |close: &mut ColumnCloseResult, change: &dyn Fn(&mut Vec<_>)| {
        change(&mut close.offset_index.as_mut().unwrap().page_locations);
    };
    let lies: [Lie<'_>; 8] = [
        ("holds 7 values, its index says 8", &|close| {
            locations(close, &|pages: &mut Vec<_>| pages[1].first_row_index += 1);
        }),
        ("one after another", &|close| {
            locations(close, &|pages: &mut Vec<_>| pages[1].offset = pages[0].offset);
        }),
        ("one after another", &|close| {
            locations(close, &|pages: &mut Vec<_>| pages[0].first_row_index = 1);
        }),
        ("out of order", &|close| {
            locations(close, &|pages: &mut Vec<_>| pages[2].first_row_index = 1);
        }),
        ("out of order", &|close| {
            locations(close, &|pages: &mut Vec<_>| pages[2].compressed_page_size = -1);
        }),
        ("fewer bytes", &|close| {
            locations(close, &|pages: &mut Vec<_>| pages.truncate(pages.len() - 1));
        }),
        ("other rows than its row group", &|close| {
            let chunk = close.metadata.clone().into_builder().set_num_values(29);
            close.metadata = chunk.build().unwrap();
        }),
        ("more nulls than rows", &|close| {
            let statistics = Statistics::int64(Some(1), Some(2), None, Some(31), false);
            let chunk = close.metadata.clone().into_builder().set_statistics(statistics);
            close.metadata = chunk.build().unwrap();
        }),
    ];
    for (problem, lie) in lies {
        let bytes = with_footer(&file, |column, close| {
            if column == 0 {
                lie(close);
            }
        });
        root.write_bytes(liar, &bytes);
        assert_eq!(root.run(&[]).unwrap(), ExitStatus::FilesFailed, "{problem}");
        let record = &root.ledger(AggregatePeriod::Day).records["20150218.mentions.parquet"];
        let Outcome::Failed(reason) = &record.outcome else { panic!("{problem}") };
        let is_told =
            reason.contains("20150218231500.mentions.parquet") && reason.contains("GLOBALEVENTID");
        // The last page went, or the rows: the message may be of either.
        assert!(is_told && (reason.contains(problem) || problem == "fewer bytes"), "{reason}");
    }
    root.write_bytes(liar, &with_footer(&file, |_, _| {}));
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::Done);
}

#[test]
fn damaged_bytes_never_stop_the_run() {
    let root = Root::new();
    let bad = "mentions/converted/20150218231500.mentions.parquet";
    root.write_slot("20150218230000", &varied(0, 30));
    root.write_as(bad, &varied(100, 30), Some(Shape::usual(30).properties()));
    let whole = root.budget.read_file(&root.path(bad)).unwrap();
    let mut state = 1_u64;
    let mut failed = 0;
    for _ in 0..150 {
        let mut bytes = whole.to_vec();
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Half of them in the footer and page index, at the end.
        let from = if state & (1 << 40) == 0 { 0 } else { bytes.len() * 2 / 3 };
        let span = u64::try_from(bytes.len() - from).unwrap();
        let at = from + usize::try_from((state >> 33) % span).unwrap();
        bytes[at] ^= 1 << ((state >> 20) % 8);
        root.write_bytes(bad, &bytes);
        match root.run(&["--force"]).unwrap() {
            ExitStatus::FilesFailed => failed += 1,
            other => assert_eq!(other, ExitStatus::Done),
        }
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn kinds_of_pages_are_counted() {
    let root = Root::new();
    for name in ["20150218230000", "20150218231500"] {
        let relative = format!("mentions/converted/{name}.mentions.parquet");
        root.write_as(&relative, &varied(0, 30), Some(Shape::usual(30).properties()));
    }
    root.run(&[]).unwrap();
    let path = root.path("mentions/aggregated/day/20150218.mentions.parquet");
    let bytes = root.budget.read_file(&path).unwrap();
    let options = parquet::file::serialized_reader::ReadOptionsBuilder::new()
        .with_encoding_stats_as_mask(false)
        .build();
    let bytes = bytes::Bytes::from(bytes.to_vec());
    let reader = parquet::file::reader::SerializedFileReader::new_with_options(bytes, options);
    let reader = reader.unwrap();
    let metadata = parquet::file::reader::FileReader::metadata(&reader);
    let stats = metadata.row_group(0).column(0).page_encoding_stats().unwrap();
    let expected = PageEncodingStats {
        page_type: parquet::basic::PageType::DATA_PAGE,
        encoding: Encoding::PLAIN,
        count: 10,
    };
    assert_eq!(stats, &[expected]);
}
