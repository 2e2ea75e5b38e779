//! Whole runs over small roots.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, Int64Array, RecordBatch, StringArray, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use catalog::ledger::{Ledger, Loaded, Outcome, StageName};
use catalog::marks::{self, SourceMark};
use catalog::{AggregatePeriod, DATE_ORIGINALS, Dataset, DateRange};
use clap::Parser as _;
use io_budget::Budget;
use io_budget::parquet::{ParquetFile, Want};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use stage::{Error, ExitStatus};

use crate::{Args, run};

mod cases;
mod splice;

/// A root that goes when it is dropped.
struct Root {
    directory: tempfile::TempDir,
    budget: Budget,
}

impl Root {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, budget: Budget::private() }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join("root").join(relative)
    }

    fn write(&self, relative: &str, batch: &RecordBatch) {
        self.write_as(relative, batch, None);
    }

    fn write_as(&self, relative: &str, batch: &RecordBatch, how: Option<WriterProperties>) {
        let mut staged = self.budget.stage(&self.path(relative));
        let mut writer = ArrowWriter::try_new(&mut staged, batch.schema(), how).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        staged.publish().unwrap();
    }

    fn write_bytes(&self, relative: &str, bytes: &[u8]) {
        let mut staged = self.budget.stage(&self.path(relative));
        std::io::Write::write_all(&mut staged, bytes).unwrap();
        staged.publish().unwrap();
    }

    /// A converted file of mentions.
    fn write_slot(&self, slot: &str, batch: &RecordBatch) {
        self.write(&format!("mentions/converted/{slot}.mentions.parquet"), batch);
    }

    fn run(&self, flags: &[&str]) -> Result<ExitStatus, Error> {
        let root = self.path("");
        let mut all = vec!["gdelt-aggregate", "--quiet", "--root", root.to_str().unwrap()];
        all.extend(flags);
        run(Args::try_parse_from(all).unwrap())
    }

    fn open(&self, relative: &str) -> ParquetFile {
        ParquetFile::open(&self.budget, &self.path(relative), Want::Whole).unwrap()
    }

    fn open_day(&self, day: &str) -> ParquetFile {
        self.open(&format!("mentions/aggregated/day/{day}.mentions.parquet"))
    }

    fn ledger(&self, period: AggregatePeriod) -> Loaded {
        let ledger = Ledger::new(&self.budget, &self.path("mentions/catalog"));
        ledger.load(StageName::Aggregate(period), DateRange::default()).unwrap()
    }
}

/// Rows with these ids. Other columns tell the id as well, or are null.
fn rows(dataset: Dataset, ids: std::ops::Range<i64>) -> RecordBatch {
    let text = |id: i64| (id % 3 != 0).then(|| format!("text {id}"));
    let columns = dataset.columns().iter().map(|column| {
        let data_type = column.column_type.data_type();
        let array: ArrayRef = match data_type {
            DataType::Int64 => Arc::new(ids.clone().collect::<Int64Array>()),
            DataType::Utf8 => Arc::new(ids.clone().map(text).collect::<StringArray>()),
            _ => new_null_array(&data_type, usize::try_from(ids.end - ids.start).unwrap()),
        };
        (Field::new(column.name, data_type, true), array)
    });
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn mentions(ids: std::ops::Range<i64>) -> RecordBatch {
    rows(Dataset::Mentions, ids)
}

fn read(file: &ParquetFile) -> RecordBatch {
    let all: Vec<_> = (0..file.schema().fields().len()).collect();
    let groups = (0..file.metadata().num_row_groups())
        .filter_map(|group| file.read_row_group(group, &all, None, 1_000).unwrap());
    let batches: Vec<_> = groups.flatten().map(Result::unwrap).collect();
    concat_batches(file.schema(), &batches).unwrap()
}

fn ids(file: &ParquetFile) -> Vec<i64> {
    read(file).column(0).as_primitive::<Int64Type>().values().to_vec()
}

fn sources(file: &ParquetFile) -> Vec<(String, u64)> {
    let marks: Vec<SourceMark> =
        serde_json::from_str(file.key_value(marks::SOURCES).unwrap()).unwrap();
    marks.into_iter().map(|mark| (mark.name, mark.rows)).collect()
}

#[test]
fn rows_are_in_order_of_time_and_a_late_file_is_taken_in() {
    let root = Root::new();
    // Written in another order than that of time.
    root.write_slot("20150218234500", &mentions(20..30));
    root.write_slot("20150219000000", &mentions(30..31));
    root.write_slot("20150218000000", &mentions(0..10));
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::Done);
    let first = root.open_day("20150218");
    assert_eq!(ids(&first), (0..10).chain(20..30).collect::<Vec<_>>());
    assert_eq!(ids(&root.open_day("20150219")), [30]);

    root.write_slot("20150218120000", &mentions(10..20));
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::Done);
    let second = root.open_day("20150218");
    assert_eq!(ids(&second), (0..30).collect::<Vec<_>>());
    let names = ["20150218000000", "20150218120000", "20150218234500"];
    let expected = names.map(|slot| (format!("{slot}.mentions.parquet"), 10));
    assert_eq!(sources(&second), expected);
    let record = &root.ledger(AggregatePeriod::Day).records["20150218.mentions.parquet"];
    let recorded: Vec<_> =
        record.sources.iter().map(|source| (source.name.clone(), source.rows)).collect();
    assert_eq!(recorded, expected);
    assert_eq!((record.rows, record.key_ranges["GLOBALEVENTID"]), (30, (0, 29)));
    assert_eq!(record.counts.get("periods with missing slots"), Some(&1));

    let stat = second.stat();
    root.run(&[]).unwrap();
    assert_eq!(root.open_day("20150218").stat(), stat, "nothing was left to do");
}

#[test]
fn each_feed_has_files_of_its_own() {
    let root = Root::new();
    root.write_slot("20150218230000", &mentions(0..2));
    root.write_slot("20150218230000.translation", &mentions(2..5));
    root.run(&["--feed", "both"]).unwrap();
    assert_eq!(ids(&root.open_day("20150218")), [0, 1]);
    assert_eq!(ids(&root.open_day("20150218.translation")), [2, 3, 4]);
}

#[test]
fn a_period_that_the_dates_touch_is_made_whole() {
    let root = Root::new();
    root.write_slot("20150218230000", &mentions(0..2));
    root.write_slot("20150227230000", &mentions(2..5));
    root.write_slot("20150301230000", &mentions(5..6));
    let flags = ["--period", "month", "--start-date", "2015-02-20", "--end-date", "2015-02-21"];
    root.run(&flags).unwrap();
    let february = root.open("mentions/aggregated/month/201502.mentions.parquet");
    assert_eq!(ids(&february), [0, 1, 2, 3, 4]);
    let march = root.path("mentions/aggregated/month/201503.mentions.parquet");
    assert_eq!(root.budget.stat(&march).unwrap(), None);
}

#[test]
fn a_column_without_values_and_a_file_without_rows_change_nothing() {
    let root = Root::new();
    let schema = mentions(0..1).schema();
    let nulls = schema.fields().iter().map(|field| new_null_array(field.data_type(), 2));
    let nulls = RecordBatch::try_new(Arc::clone(&schema), nulls.collect()).unwrap();
    let day = |slots: [(&str, &RecordBatch); 3]| {
        for (slot, batch) in slots {
            root.write_slot(slot, batch);
        }
        root.run(&[]).unwrap();
        root.open_day("20150218")
    };
    let (empty, some) = (mentions(0..0), mentions(0..2));
    let slots = ["20150218230000", "20150218231500", "20150218233000"];
    let one = day([(slots[0], &empty), (slots[1], &nulls), (slots[2], &some)]);
    let other = day([(slots[0], &some), (slots[1], &nulls), (slots[2], &empty)]);
    assert_eq!(one.schema(), other.schema());
    assert_eq!(one.schema().as_ref(), schema.as_ref());
    let texts = |file: &ParquetFile, row| read(file).column(5).slice(row, 2);
    assert_eq!(&texts(&one, 2), &texts(&other, 0));
    assert_eq!(sources(&other).iter().map(|source| source.1).collect::<Vec<_>>(), [2, 2, 0]);
}

#[test]
fn a_source_of_other_columns_fails_its_period_by_name() {
    let root = Root::new();
    let whole = mentions(0..2);
    let mut fields: Vec<_> = whole.schema().fields().iter().cloned().collect();
    let mut arrays = whole.columns().to_vec();
    fields.swap(3, 4);
    arrays.swap(3, 4);
    let swapped = RecordBatch::try_new(Arc::new(Schema::new(fields.clone())), arrays.clone());
    fields[0] = Arc::new(Field::new("GLOBALEVENTID", DataType::Float64, true));
    arrays[0] = new_null_array(&DataType::Float64, 2);
    let floats = RecordBatch::try_new(Arc::new(Schema::new(fields.clone())), arrays.clone());
    fields[0] = Arc::new(Field::new("Mine", DataType::Float64, true));
    let mine = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
    for (day, batch) in [
        ("18", swapped.unwrap()),
        ("19", floats.unwrap()),
        ("20", mine.unwrap()),
        ("21", whole.project(&[0, 1, 2]).unwrap()),
    ] {
        root.write_slot(&format!("201502{day}230000"), &whole);
        root.write_slot(&format!("201502{day}231500"), &batch);
    }
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::FilesFailed);
    // Columns in another order are the same columns.
    assert_eq!(ids(&root.open_day("20150218")), [0, 1, 0, 1]);
    assert_eq!(root.open_day("20150218").schema().as_ref(), whole.schema().as_ref());
    let records = root.ledger(AggregatePeriod::Day).records;
    for (day, problem) in [
        ("19", "`GLOBALEVENTID` is Float64, not Int64"),
        ("20", "`Mine` is not expected"),
        ("21", "`MentionType` is missing"),
    ] {
        let Outcome::Failed(reason) = &records[&format!("201502{day}.mentions.parquet")].outcome
        else {
            panic!("{day} did not fail");
        };
        let file = format!("201502{day}231500.mentions.parquet");
        assert!(reason.contains(problem) && reason.contains(&file), "{reason}");
        let output = root.path(&format!("mentions/aggregated/day/201502{day}.mentions.parquet"));
        assert_eq!(root.budget.stat(&output).unwrap(), None);
    }
}

#[test]
fn cleaned_files_are_read_where_cleaning_is_active() {
    let root = Root::new();
    let converted = rows(Dataset::Events15Min, 0..3);
    root.write("events-15min/converted/20150218230000.export.parquet", &converted);
    let error = root.run(&[]).unwrap_err();
    assert_eq!(error.status(), ExitStatus::Usage);
    assert!(error.hint().unwrap().contains("gdelt-clean"), "{error}");

    let mut fields: Vec<_> = converted.schema().fields().iter().cloned().collect();
    let mut arrays = converted.columns().to_vec();
    for column in DATE_ORIGINALS {
        let data_type = column.column_type.data_type();
        arrays.push(new_null_array(&data_type, 3));
        fields.push(Arc::new(Field::new(column.name, data_type, true)));
    }
    let cleaned = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    root.write("events-15min/cleaned/20150218230000.export_cleaned.parquet", &cleaned);
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::Done);
    let day = "events-15min/aggregated/day/20150218.export.parquet";
    assert_eq!(read(&root.open(day)), cleaned);
    let source = (String::from("20150218230000.export_cleaned.parquet"), 3);
    assert_eq!(sources(&root.open(day)), [source]);

    // The same period of the other source is made again.
    assert_eq!(root.run(&["--source", "converted"]).unwrap(), ExitStatus::Done);
    assert_eq!(read(&root.open(day)), converted);
}

#[test]
fn row_groups_are_filled_across_sources() {
    let root = Root::new();
    for slot in 0..20 {
        let batch = rows(Dataset::GkgV2, slot * 450..(slot + 1) * 450);
        let name = format!("201502{:02}{:02}0000", 10 + slot / 10, slot % 10);
        root.write(&format!("gkg-v2/converted/{name}.gkg.parquet"), &batch);
    }
    root.run(&["--period", "month"]).unwrap();
    let month = root.open("gkg-v2/aggregated/month/201502.gkg.parquet");
    let groups = month.metadata().row_groups().iter();
    assert_eq!(groups.map(RowGroupMetaData::num_rows).collect::<Vec<_>>(), [4_500, 4_500]);
    let dates = read(&month).column(1).as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(dates, (0..9_000).collect::<Vec<_>>());
}

#[test]
fn the_number_of_workers_changes_no_byte() {
    let root = Root::new();
    for day in 10..16 {
        for hour in 0..3 {
            let first = day * 1_000 + hour * 100;
            root.write_slot(&format!("201502{day}{hour:02}0000"), &mentions(first..first + 70));
        }
    }
    let bytes = |jobs: &str| {
        root.run(&["--force", "--jobs", jobs]).unwrap();
        let path =
            |day| root.path(&format!("mentions/aggregated/day/201502{day}.mentions.parquet"));
        (10..16).map(|day| root.budget.read_file(&path(day)).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(bytes("1"), bytes("7"));
}

#[test]
fn named_files_go_to_one_file_or_to_a_directory() {
    let root = Root::new();
    root.write_slot("20150218230000", &mentions(0..2));
    root.write_slot("20150219230000", &mentions(2..5));
    let slot = |slot: &str| {
        root.path(&format!("mentions/converted/{slot}.mentions.parquet")).display().to_string()
    };
    let (one, two) = (slot("20150218230000"), slot("20150219230000"));
    let out = root.path("out.parquet").display().to_string();
    let error = root.run(&[&two, &one, "--out", &out]).unwrap_err();
    assert!(error.to_string().contains("20150219.mentions.parquet"), "{error}");
    assert_eq!(error.status(), ExitStatus::Usage);
    root.run(&[&two, &one, "--out", &out, "--period", "month"]).unwrap();
    assert_eq!(ids(&root.open("out.parquet")), [0, 1, 2, 3, 4]);

    let list = root.path("list.txt");
    root.write_bytes("list.txt", format!("{one}\n{two}\n").as_bytes());
    let days = root.path("days").display().to_string();
    root.run(&["--files-from", list.to_str().unwrap(), "--out-dir", &days]).unwrap();
    assert_eq!(ids(&root.open("days/20150218.mentions.parquet")), [0, 1]);
    assert_eq!(ids(&root.open("days/20150219.mentions.parquet")), [2, 3, 4]);
    assert!(root.ledger(AggregatePeriod::Day).records.is_empty(), "they stand elsewhere");

    let inside = root.path("mentions/converted").display().to_string();
    let error = root.run(&[&one, "--out-dir", &inside]).unwrap_err();
    assert!(error.to_string().contains("among the inputs"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn an_output_is_its_sources_one_after_another(
        sizes in proptest::collection::btree_map(0_u32..96, 0_i64..40, 1..12),
    ) {
        let root = Root::new();
        let mut batches = Vec::new();
        for (slot, size) in &sizes {
            let batch = mentions(i64::from(*slot) * 100..i64::from(*slot) * 100 + size);
            root.write_slot(&format!("20150218{:02}{:02}00", slot / 4, slot % 4 * 15), &batch);
            batches.push(batch);
        }
        prop_assert_eq!(root.run(&[]).unwrap(), ExitStatus::Done);
        let day = root.open_day("20150218");
        let expected = concat_batches(&batches[0].schema(), &batches).unwrap();
        prop_assert_eq!(read(&day), expected);
        let given: Vec<_> = sources(&day).into_iter().map(|source| source.1).collect();
        let written: Vec<_> = sizes.values().map(|size| u64::try_from(*size).unwrap()).collect();
        prop_assert_eq!(given, written);
    }
}
