//! Whole runs over small roots.

#![expect(clippy::inconsistent_digit_grouping, reason = "dates are read as year, month, day")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use catalog::ledger::{Ledger, Loaded, StageName};
use catalog::{DATE_ORIGINALS, Dataset, DateRange, marks};
use clap::Parser as _;
use io_budget::Budget;
use io_budget::parquet::{ParquetFile, Want};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use proptest::prelude::*;
use stage::work::Options;
use stage::{Error, ExitStatus, Session, Summary};

use crate::file::Cleaner;
use crate::steps::Steps;
use crate::{Args, plan, report, run};

mod steps;

const NAME: &str = "20200102.export";

/// A root that goes when it is dropped.
struct Root {
    directory: tempfile::TempDir,
    budget: Budget,
}

impl Root {
    fn new(settings: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = Self { directory, budget: Budget::private() };
        let mut file = root.budget.stage(&root.path("settings.toml"));
        std::io::Write::write_all(&mut file, settings.as_bytes()).unwrap();
        file.publish().unwrap();
        root
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join("root").join(relative)
    }

    fn write(&self, relative: &str, batch: &RecordBatch, properties: WriterProperties) {
        let mut staged = self.budget.stage(&self.path(relative));
        let mut writer =
            ArrowWriter::try_new(&mut staged, batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        staged.publish().unwrap();
    }

    fn write_converted(&self, stem: &str, batch: &RecordBatch) {
        let relative = format!("events/converted/{stem}.parquet");
        self.write(&relative, batch, WriterProperties::new());
    }

    fn args(&self, config: &str, flags: &[&str]) -> Args {
        let root = self.path("");
        let mut all = vec!["gdelt-clean", "--quiet", "--root", root.to_str().unwrap()];
        all.extend(["--config", config]);
        all.extend(flags);
        Args::try_parse_from(all).unwrap()
    }

    fn run(&self, flags: &[&str]) -> Result<ExitStatus, Error> {
        self.run_with(self.path("settings.toml").to_str().unwrap(), flags)
    }

    fn run_with(&self, config: &str, flags: &[&str]) -> Result<ExitStatus, Error> {
        run(self.args(config, flags))
    }

    /// What a dry run with a report finds.
    fn report(&self) -> Summary {
        let settings = self.path("settings.toml");
        let args = self.args(settings.to_str().unwrap(), &["--dry-run", "--report"]);
        let session = Session::start(&args.common, Some(&args.files), &[]).unwrap();
        let steps = Steps::by_dataset(&session).unwrap();
        let tasks = plan::of_root(&session, &steps).unwrap();
        let cleaner = Cleaner::new(&session, &steps);
        let options = Options::of(&session, &args.files);
        let mut summary = Summary::new("clean");
        report::measure(&session, &cleaner, tasks, &options, &mut summary).unwrap();
        summary
    }

    fn open(&self, relative: &str) -> ParquetFile {
        ParquetFile::open(&self.budget, &self.path(relative), Want::Whole).unwrap()
    }

    fn open_cleaned(&self, stem: &str) -> ParquetFile {
        self.open(&format!("events/cleaned/{stem}_cleaned.parquet"))
    }

    fn ledger(&self) -> Loaded {
        let ledger = Ledger::new(&self.budget, &self.path("events/catalog"));
        ledger.load(StageName::Clean, DateRange::default()).unwrap()
    }
}

fn bytes(budget: &Budget, path: &Path) -> Vec<u8> {
    budget.read_file(path).unwrap().to_vec()
}

/// Events with these days and times of publication. Other numbers count up from the row's, every
/// third text is null.
fn events(rows: &[(Option<i64>, Option<i64>)]) -> RecordBatch {
    let day = |row: usize| rows[row].0;
    let column = |name: &str, data_type: &DataType| -> ArrayRef {
        let ints = |value: &dyn Fn(usize) -> Option<i64>| -> ArrayRef {
            Arc::new((0..rows.len()).map(value).collect::<Int64Array>())
        };
        let count = |row: usize| i64::try_from(row * 7).ok();
        match (name, data_type) {
            ("Day", _) => ints(&day),
            ("MonthYear", _) => ints(&|row| Some(day(row)? / 100)),
            ("Year", _) => ints(&|row| Some(day(row)? / 10_000)),
            ("DATEADDED", _) => ints(&|row| rows[row].1),
            ("AvgTone", _) => Arc::new(Float64Array::from(vec![-3.257_328_990_228_01; rows.len()])),
            ("FractionDate", _) => {
                let fraction = |row| Some(f64::from(i32::try_from(day(row)?).unwrap()) / 1e4);
                Arc::new((0..rows.len()).map(fraction).collect::<Float64Array>())
            }
            (_, DataType::Int64) => ints(&count),
            (_, DataType::Float64) => {
                Arc::new(Float64Array::from_iter_values((0..rows.len()).map(|_| 0.5)))
            }
            _ => {
                let text = |row| (row % 3 != 0).then(|| format!("{name} {row}"));
                Arc::new((0..rows.len()).map(text).collect::<StringArray>())
            }
        }
    };
    let columns = Dataset::Events.columns().iter().map(|it| (it.name, it.column_type.data_type()));
    let (fields, arrays): (Vec<_>, Vec<_>) = columns
        .map(|(name, data_type)| {
            let array = column(name, &data_type);
            (Field::new(name, data_type, true), array)
        })
        .unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn ordinary(rows: usize) -> Vec<(Option<i64>, Option<i64>)> {
    vec![(Some(2020_03_18), Some(2020_03_18)); rows]
}

fn read(file: &ParquetFile) -> RecordBatch {
    let all: Vec<_> = (0..file.schema().fields().len()).collect();
    let groups = (0..file.metadata().num_row_groups())
        .filter_map(|group| file.read_row_group(group, &all, None, 1_000).unwrap());
    let batches: Vec<_> = groups.flatten().map(Result::unwrap).collect();
    concat_batches(file.schema(), &batches).unwrap()
}

fn ints<'a>(batch: &'a RecordBatch, name: &str) -> Vec<Option<i64>> {
    let column: &'a Int64Array = batch.column_by_name(name).unwrap().as_primitive::<Int64Type>();
    column.iter().collect()
}

#[test]
fn dates_of_1920_are_repaired_kept_and_counted() {
    let root = Root::new("");
    let rows = [
        (Some(1920_01_02), Some(2020_01_02)),
        (Some(2020_01_02), Some(2020_01_02)),
        (Some(1920_01_02), Some(2020_01_06)),
        (None, Some(2020_01_02)),
        (Some(1919_12_31), Some(2020_01_05_15_00_00)),
    ];
    root.write_converted(NAME, &events(&rows));
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::Done);
    let file = root.open_cleaned(NAME);
    let cleaned = read(&file);
    let some = |values: [i64; 5]| values.map(|value| (value != 0).then_some(value)).to_vec();
    let days = [2020_01_02, 2020_01_02, 1920_01_02, 0, 2019_12_31];
    assert_eq!(ints(&cleaned, "Day"), some(days));
    assert_eq!(ints(&cleaned, "MonthYear"), some(days.map(|day| day / 100)));
    assert_eq!(ints(&cleaned, "Year"), some(days.map(|day| day / 10_000)));
    let kept = [1920_01_02, 0, 0, 0, 1919_12_31];
    assert_eq!(ints(&cleaned, "Day_original"), some(kept));
    assert_eq!(ints(&cleaned, "MonthYear_original"), some(kept.map(|day| day / 100)));
    assert_eq!(ints(&cleaned, "Year_original"), some(kept.map(|day| day / 10_000)));
    let fractions = cleaned.column_by_name("FractionDate").unwrap().as_primitive::<Float64Type>();
    assert_eq!(fractions.value(0).to_bits(), (1920.0102_f64 + 100.0).to_bits());
    let original = cleaned.column_by_name("FractionDate_original").unwrap();
    assert_eq!(original.as_primitive::<Float64Type>().iter().next(), Some(Some(1920.0102)));
    assert_eq!(original.null_count(), 3);

    let record = root.ledger().records.remove("20200102.export_cleaned.parquet").unwrap();
    assert_eq!(record.counts.get("dates of 1920 repaired"), Some(&2));
    assert_eq!((record.rows, record.sources[0].rows), (5, 5));
    assert_eq!(file.key_value(marks::STAGE), Some("clean"));
    let sources = file.key_value(marks::SOURCES);
    assert_eq!(sources, Some(r#"[{"name":"20200102.export.parquet","rows":5}]"#));
    assert_eq!(file.key_value(marks::FINGERPRINT), Some(record.fingerprint.as_str()));
}

#[test]
fn what_is_done_is_done_once_and_again_after_a_change() {
    let root = Root::new("");
    root.write_converted(NAME, &events(&ordinary(3)));
    root.run(&[]).unwrap();
    let cleaned = root.path("events/cleaned/20200102.export_cleaned.parquet");
    let first = (root.budget.stat(&cleaned).unwrap(), bytes(&root.budget, &cleaned));
    root.run(&[]).unwrap();
    assert_eq!(root.budget.stat(&cleaned).unwrap(), first.0);
    root.run(&["--force", "--jobs", "7"]).unwrap();
    assert_eq!(bytes(&root.budget, &cleaned), first.1);
    assert_ne!(root.budget.stat(&cleaned).unwrap(), first.0);
    root.write_converted(NAME, &events(&ordinary(4)));
    root.run(&[]).unwrap();
    assert_eq!(root.open_cleaned(NAME).rows(), 4);
}

#[test]
fn an_empty_list_of_required_columns_keeps_all_rows() {
    let root = Root::new("[clean.events]\nrequire = []");
    root.write_converted(NAME, &events(&ordinary(10)));
    root.run(&[]).unwrap();
    assert_eq!(root.open_cleaned(NAME).rows(), 10);
}

#[test]
fn rows_with_a_null_in_a_required_column_go_and_are_counted() {
    let root = Root::new("[clean.events]\nrequire = ['Actor1Code', 'Day']");
    let mut rows = ordinary(9);
    rows[1].0 = None;
    root.write_converted(NAME, &events(&rows));
    root.run(&[]).unwrap();
    let cleaned = read(&root.open_cleaned(NAME));
    assert_eq!(ints(&cleaned, "GlobalEventID"), [2, 4, 5, 7, 8].map(|row| Some(row * 7)));
    let names = cleaned.column_by_name("Actor1Code").unwrap().as_string::<i32>();
    assert_eq!(names.value(1), "Actor1Code 4");
    let record = root.ledger().records.remove("20200102.export_cleaned.parquet").unwrap();
    assert_eq!(record.counts.get("rows dropped, null in a required column"), Some(&4));
    assert_eq!((record.rows, record.sources[0].rows), (5, 5));
}

#[test]
fn a_file_without_rows_or_that_loses_all_is_empty_and_whole() {
    let root = Root::new("[clean.events]\nrequire = ['Day']");
    root.write_converted(NAME, &events(&[]));
    root.write_converted("20200103.export", &events(&[(None, Some(2020_01_03))]));
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::Done);
    for stem in [NAME, "20200103.export"] {
        let file = root.open_cleaned(stem);
        assert_eq!(file.rows(), 0);
        assert_eq!(file.schema().fields().len(), 62);
    }
}

#[test]
fn only_listed_columns_are_kept_in_file_order() {
    let root = Root::new("[clean.events]\ncolumns = ['Day_original', 'SOURCEURL', 'Day']");
    root.write_converted(NAME, &events(&[(Some(1920_01_02), Some(2020_01_02))]));
    root.run(&[]).unwrap();
    let cleaned = read(&root.open_cleaned(NAME));
    let schema = cleaned.schema();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["Day", "SOURCEURL", "Day_original"]);
    assert_eq!(ints(&cleaned, "Day"), [Some(2020_01_02)]);
    assert_eq!(ints(&cleaned, "Day_original"), [Some(1920_01_02)]);
}

#[test]
fn a_file_that_lacks_columns_has_the_same_schema_and_is_counted() {
    let root = Root::new("");
    let whole = events(&ordinary(4));
    let some: Vec<_> = (0..whole.num_columns()).filter(|at| !matches!(*at, 1 | 7 | 56)).collect();
    root.write_converted(NAME, &whole);
    root.write_converted("20200103.export", &whole.project(&some).unwrap());
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::Done);
    let (one, other) = (root.open_cleaned(NAME), root.open_cleaned("20200103.export"));
    assert_eq!(one.schema(), other.schema());
    assert_eq!(one.schema().fields().len(), 58 + DATE_ORIGINALS.len());
    assert_eq!(read(&other).column_by_name("Day").unwrap().null_count(), 4);
    let record = root.ledger().records.remove("20200103.export_cleaned.parquet").unwrap();
    let counts: Vec<_> = record.counts.keys().map(String::as_str).collect();
    assert_eq!(
        counts,
        [
            "files with dates not looked at, no column Day",
            "files without column Actor1CountryCode, filled with nulls",
            "files without column DATEADDED, filled with nulls",
            "files without column Day, filled with nulls",
        ]
    );
}

#[test]
fn a_file_of_other_columns_fails_and_the_others_are_made() {
    let root = Root::new("[clean.events]\nrequire = ['Actor1Code']");
    let whole = events(&ordinary(4));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"; 4]));
    let with = |name: &str, add: bool| {
        let mut fields: Vec<_> = whole.schema().fields().iter().cloned().collect();
        let mut arrays = whole.columns().to_vec();
        if add {
            fields.push(Arc::new(Field::new(name, DataType::Utf8, true)));
            arrays.push(Arc::clone(&text));
        } else {
            fields[1] = Arc::new(Field::new(name, DataType::Utf8, true));
            arrays[1] = Arc::clone(&text);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
    };
    root.write_converted("20200103.export", &with("Mine", true));
    root.write_converted("20200104.export", &with("Day", false));
    root.write_converted("20200105.export", &whole.project(&[0, 1, 2]).unwrap());
    root.write_converted(NAME, &whole);
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::FilesFailed);
    assert_eq!(root.open_cleaned(NAME).rows(), 2);
    let records = root.ledger().records;
    for (day, problem) in [("03", "`Mine`"), ("04", "`Day` is Utf8"), ("05", "Actor1Code")] {
        let record = &records[&format!("202001{day}.export_cleaned.parquet")];
        let outcome = format!("{:?}", record.outcome);
        assert!(outcome.contains("Failed") && outcome.contains(problem), "{outcome}");
    }
}

#[test]
fn untouched_chunks_are_the_same_bytes_with_their_indexes_and_filters() {
    let root = Root::new("");
    let mut rows = ordinary(5_000);
    rows[4_321] = (Some(1920_01_02), Some(2020_01_02));
    let batch = events(&rows);
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(2_000))
        .set_data_page_size_limit(1_000)
        .set_write_batch_size(100)
        .set_column_bloom_filter_enabled(ColumnPath::from("GlobalEventID"), true)
        .build();
    let relative = format!("events/converted/{NAME}.parquet");
    root.write(&relative, &batch, properties);
    root.run(&[]).unwrap();
    let (source, cleaned) = (root.open(&relative), root.open_cleaned(NAME));
    assert_eq!(cleaned.metadata().num_row_groups(), 3);
    let dates = [1, 2, 3, 4];
    for group in 0..3 {
        let index_of = |file: &ParquetFile| file.metadata().page_index_for_row_group(group);
        let (index, copied) = (index_of(&source), index_of(&cleaned));
        for column in 0..batch.num_columns() {
            if group == 2 && dates.contains(&column) {
                continue;
            }
            let chunk_of = |file: &ParquetFile| {
                let chunk = file.metadata().row_group(group).column(column).clone();
                let (start, length) = chunk.byte_range();
                let bytes = file.read_ranges(&[start..start + length]).unwrap();
                (chunk.statistics().cloned(), bytes)
            };
            assert_eq!(chunk_of(&source), chunk_of(&cleaned), "{group} {column}");
            assert!(index.column_index(column).is_some());
            assert_eq!(index.column_index(column), copied.column_index(column));
            let pages = copied.page_locations(column).map(Vec::len);
            assert_eq!(index.page_locations(column).map(Vec::len), pages);
        }
        let chunk = cleaned.metadata().row_group(group).column(0);
        assert!(chunk.bloom_filter_offset().is_some());
    }
    let whole = read(&cleaned);
    for column in (0..batch.num_columns()).filter(|column| !dates.contains(column)) {
        assert_eq!(whole.column(column), batch.column(column));
    }
    // By pages: rows 1,777 and 1,778 of the last group.
    let selection = RowSelection::from(vec![RowSelector::skip(321), RowSelector::select(2)]);
    let all: Vec<_> = (0..cleaned.schema().fields().len()).collect();
    let reader = cleaned.read_row_group(2, &all, Some(selection), 10).unwrap().unwrap();
    let batches: Vec<_> = reader.map(Result::unwrap).collect();
    assert_eq!(concat_batches(cleaned.schema(), &batches).unwrap(), whole.slice(4_321, 2));
    assert_eq!(ints(&whole.slice(4_321, 2), "Day"), [Some(2020_01_02), Some(2020_03_18)]);
}

#[test]
fn row_groups_shared_out_among_workers_give_the_same_bytes() {
    // A file for eight workers: its row groups are prepared side by side.
    let rows: Vec<_> =
        (0..900).map(|row| (Some(1920_03_18), (row % 7 > 0).then_some(2020_03_18))).collect();
    let batch = events(&rows);
    let groups = WriterProperties::builder().set_max_row_group_row_count(Some(100)).build();
    let cleaned = ["1", "8"].map(|jobs| {
        let root = Root::new("[clean.events]\nrequire = ['DATEADDED']\n");
        root.write(&format!("events/converted/{NAME}.parquet"), &batch, groups.clone());
        assert_eq!(root.run(&["--jobs", jobs]).unwrap(), ExitStatus::Done);
        let file = root.open_cleaned(NAME);
        assert_eq!((file.metadata().num_row_groups(), file.rows()), (9, 771));
        bytes(&root.budget, file.path())
    });
    assert!(cleaned[0] == cleaned[1]);
}

#[test]
fn a_float_survives_bit_for_bit() {
    for settings in ["", "[clean.events]\nrequire = ['Actor1Code']"] {
        let root = Root::new(settings);
        root.write_converted(NAME, &events(&ordinary(4)));
        root.run(&[]).unwrap();
        let cleaned = read(&root.open_cleaned(NAME));
        let tones = cleaned.column_by_name("AvgTone").unwrap().as_primitive::<Float64Type>();
        assert_eq!(tones.value(0).to_bits(), (-3.257_328_990_228_01_f64).to_bits());
    }
}

#[test]
fn a_cleaned_file_cleaned_again_keeps_its_originals() {
    let root = Root::new("");
    root.write_converted(NAME, &events(&[(Some(1920_01_02), Some(2020_01_02))]));
    root.run(&[]).unwrap();
    let cleaned = root.path("events/cleaned/20200102.export_cleaned.parquet");
    let again = root.path("again.parquet");
    let flags = [cleaned.to_str().unwrap(), "--out", again.to_str().unwrap()];
    assert_eq!(root.run(&flags).unwrap(), ExitStatus::Done);
    assert_eq!(read(&root.open("again.parquet")), read(&root.open_cleaned(NAME)));
}

#[test]
fn wrong_usage_is_told_and_nothing_is_made() {
    let root = Root::new("");
    root.write_converted(NAME, &events(&ordinary(1)));
    root.write_converted("20200103.export", &events(&ordinary(1)));
    let converted = root.path("events/converted");
    let file = |stem: &str| converted.join(format!("{stem}.parquet")).display().to_string();
    let (one, two) = (file(NAME), file("20200103.export"));
    for (flags, part) in [
        (vec![one.as_str(), two.as_str(), "--out", "/nowhere/x.parquet"], "--out is one file"),
        (vec![one.as_str()], "no place for their output"),
        (vec![one.as_str(), one.as_str(), "--out-dir", "/nowhere"], "are one file"),
        (vec![one.as_str(), "--out", one.as_str()], "its own output"),
        (vec![one.as_str(), "--out-dir", converted.to_str().unwrap()], "among the inputs"),
        (vec!["/nowhere/20200102.export.parquet", "--out", "x"], "does not exist"),
        (vec!["--dataset", "events-15min"], "events-15min/converted does not exist"),
        (vec!["--start-date", "2021-01-01"], "of the dates and feed asked for"),
    ] {
        let error = root.run(&flags).unwrap_err();
        assert_eq!(error.status(), ExitStatus::Usage, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(root.budget.stat(&root.path("events/cleaned")).unwrap(), None);
}

#[test]
fn a_dataset_without_an_active_step_is_not_copied() {
    let root = Root::new("[clean.events]\ndate_1920 = false");
    root.write_converted(NAME, &events(&ordinary(1)));
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::Done);
    assert_eq!(root.budget.stat(&root.path("events/cleaned")).unwrap(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn without_require_every_row_stays_in_its_place(
        rows in proptest::collection::vec(
            (
                proptest::option::of(1919_12_30_i64..1920_01_04),
                proptest::option::of(2019_12_29_i64..2020_01_08),
            ),
            0..200,
        ),
        group_rows in 1_usize..80,
    ) {
        let root = Root::new("");
        let batch = events(&rows);
        let properties =
            WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
        root.write(&format!("events/converted/{NAME}.parquet"), &batch, properties);
        prop_assert_eq!(root.run(&[]).unwrap(), ExitStatus::Done);
        let cleaned = read(&root.open_cleaned(NAME));
        for (position, column) in batch.columns().iter().enumerate() {
            if !(1..=4).contains(&position) {
                prop_assert_eq!(column, cleaned.column(position));
            }
        }
        let (day, original) = (ints(&cleaned, "Day"), ints(&cleaned, "Day_original"));
        for (row, (before, _)) in rows.iter().enumerate() {
            // What was there is in one of the two places.
            prop_assert_eq!(original[row].or(day[row]), *before);
            prop_assert!(original[row].is_none() || day[row] == before.map(|day| day + 100_00_00));
        }
    }
}
