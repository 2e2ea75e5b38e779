//! Samples drawn from small archives, from the command line to the file.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, Float64Array, Int64Array, RecordBatch, StringArray,
    new_null_array,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Float64Type, Int64Type, Schema, SchemaRef};
use arrow_ipc::reader::FileReader;
use catalog::ledger::{FORMAT, Ledger, Outcome, Record, StageName};
use catalog::marks::{self, SourceMark};
use catalog::{ParquetName, SourceNumber};
use clap::Parser as _;
use io_budget::parquet::{ParquetFile, Want};
use io_budget::{Budget, Published};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::*;
use crate::priority::Priorities;
use crate::strata::Key;

mod designs;

const SET: Dataset = Dataset::Events15Min;

/// Twenty slots of seven days, of 500 rows each.
const SLOTS: [&str; 20] = [
    "20150218230000",
    "20150218231500",
    "20150218233000",
    "20150218234500",
    "20150219000000",
    "20150219001500",
    "20150220000000",
    "20150220001500",
    "20150220003000",
    "20150221000000",
    "20150222120000",
    "20150222121500",
    "20150222123000",
    "20150222124500",
    "20150223000000",
    "20150223001500",
    "20150224000000",
    "20150224001500",
    "20150224003000",
    "20150224004500",
];

/// Rows by their ids, with values that follow from them.
fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let ids: Vec<i64> = ids.collect();
    let column = |column: &catalog::Column| -> ArrayRef {
        match column.name {
            "GlobalEventID" => Arc::new(Int64Array::from(ids.clone())),
            "Day" => {
                let day = |id: &i64| (id % 101 != 7).then_some(20_150_218 + id % 3);
                Arc::new(ids.iter().map(day).collect::<Int64Array>())
            }
            "QuadClass" => Arc::new(ids.iter().map(|id| Some(id % 4 + 1)).collect::<Int64Array>()),
            "AvgTone" => {
                let tone = |id: &i64| f64::from(i32::try_from(*id).unwrap()) / 8.0;
                let tones = ids.iter().map(|id| (id % 10 != 0).then_some(tone(id)));
                Arc::new(tones.collect::<Float64Array>())
            }
            "EventCode" => {
                let codes = ids.iter().map(|id| Some(format!("{:03}", id % 200)));
                Arc::new(codes.collect::<StringArray>())
            }
            "SOURCEURL" => {
                let urls = ids.iter().map(|id| Some(format!("https://example.org/{id:0>40}")));
                Arc::new(urls.collect::<StringArray>())
            }
            _ => new_null_array(&column.column_type.data_type(), ids.len()),
        }
    };
    let arrays = SET.columns().iter().map(column).collect();
    RecordBatch::try_new(columns::schema_of(&columns::declared(SET)), arrays).unwrap()
}

/// The batch with one column replaced, or added at the end.
fn with(batch: &RecordBatch, name: &str, array: ArrayRef) -> RecordBatch {
    let mut fields: Vec<Field> =
        batch.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    let mut arrays = batch.columns().to_vec();
    let field = Field::new(name, array.data_type().clone(), true);
    if let Some(index) = fields.iter().position(|field| field.name() == name) {
        (fields[index], arrays[index]) = (field, array);
    } else {
        fields.push(field);
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Stands for the default in these tests, most of which look at the archive's columns only.
const WEIGHTS: &str = "with weights";

struct Archive {
    root: tempfile::TempDir,
    budget: Budget,
}

impl Archive {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), budget: Budget::private() }
    }

    /// The twenty slots, each a converted file.
    fn of_slots() -> Self {
        let archive = Self::new();
        for (slot, ids) in slots() {
            archive.write(&format!("converted/{slot}.export.parquet"), &[rows(ids)]);
        }
        archive
    }

    fn path(&self, within: &str) -> PathBuf {
        self.root.path().join(SET.name()).join(within)
    }

    fn write(&self, within: &str, batches: &[RecordBatch]) -> Published {
        self.write_noted(within, batches, None)
    }

    fn write_noted(
        &self,
        within: &str,
        batches: &[RecordBatch],
        sources: Option<&[SourceMark]>,
    ) -> Published {
        let note = |sources| {
            let json = serde_json::to_string(sources).unwrap();
            vec![KeyValue::new(marks::SOURCES.to_owned(), json)]
        };
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(1000))
            .set_data_page_row_count_limit(100)
            .set_write_batch_size(50)
            .set_key_value_metadata(sources.map(note))
            .build();
        let path = self.path(within);
        let mut staged = self.budget.stage(&path);
        let schema = batches[0].schema();
        let mut writer = ArrowWriter::try_new(&mut staged, schema, Some(properties)).unwrap();
        for batch in batches {
            writer.write(batch).unwrap();
        }
        writer.close().unwrap();
        staged.publish().unwrap()
    }

    /// Files of longer periods that hold the twenty slots; `label` cuts a slot's name to its period's.
    fn aggregate(&self, within: &str, label: usize, kind: &str) {
        let mut labels: Vec<_> = SLOTS.iter().map(|slot| &slot[..label]).collect();
        labels.dedup();
        for label in labels {
            let slots: Vec<_> = slots().filter(|(slot, _)| slot.starts_with(label)).collect();
            let batches: Vec<_> = slots.iter().map(|(_, ids)| rows(ids.clone())).collect();
            let mark =
                |slot: &str| SourceMark { name: format!("{slot}.{kind}.parquet"), rows: 500 };
            let sources: Vec<_> = slots.iter().map(|(slot, _)| mark(slot)).collect();
            self.write_noted(&format!("{within}/{label}.{kind}.parquet"), &batches, Some(&sources));
        }
    }

    fn args(&self, flags: &[&str]) -> Args {
        let root = self.root.path().to_str().unwrap();
        let out = self.out();
        let fixed = ["gdelt-sample", "--root", root, "--dataset", SET.name(), "--quiet", "--out"];
        let weights = if flags.contains(&WEIGHTS) { &[][..] } else { &["--no-weights"] };
        let flags = flags.iter().filter(|flag| **flag != WEIGHTS).chain(weights).copied();
        let flags = fixed.into_iter().chain([out.to_str().unwrap()]).chain(flags);
        Args::try_parse_from(flags).unwrap()
    }

    fn design(&self, flags: &[&str]) -> Design {
        Design::of(self.args(&[flags, &["--seed", "1"]].concat())).unwrap()
    }

    fn session(&self) -> Session {
        Session::start(&self.args(&["--mode", "indexed", "--seed", "1"]).common, None, &[]).unwrap()
    }

    fn out(&self) -> PathBuf {
        self.root.path().join("samples/sample.parquet")
    }

    fn run(&self, flags: &[&str]) -> Result<ExitStatus, Error> {
        run(self.args(flags))
    }

    fn sample(&self, flags: &[&str]) -> RecordBatch {
        assert_eq!(self.run(flags).unwrap(), ExitStatus::Done, "{flags:?}");
        read(&self.budget, &self.out())
    }

    fn fails_with(&self, flags: &[&str], said: &str) {
        let error = self.run(flags).unwrap_err();
        assert!(error.to_string().contains(said), "{flags:?}: {error}");
    }

    fn fails(&self, flags: &[&str], status: ExitStatus, said: &str) {
        let error = self.run(flags).unwrap_err();
        assert_eq!(error.status(), status, "{flags:?}: {error}");
        assert!(error.to_string().contains(said), "{flags:?}: {error}");
        assert!(self.budget.stat(&self.out()).unwrap().is_none(), "{flags:?}");
    }
}

fn slots() -> impl Iterator<Item = (&'static str, std::ops::Range<i64>)> {
    SLOTS.into_iter().zip((0..).map(|slot| slot * 500..slot * 500 + 500))
}

fn read(budget: &Budget, path: &Path) -> RecordBatch {
    let file = ParquetFile::open(budget, path, Want::Whole).unwrap();
    let schema: SchemaRef = file.schema().clone();
    let columns: Vec<usize> = (0..schema.fields().len()).collect();
    let groups = 0..file.metadata().num_row_groups();
    let batches: Vec<RecordBatch> = groups
        .filter_map(|group| file.read_row_group(group, &columns, None, 1 << 20).unwrap())
        .flat_map(|reader| reader.map(Result::unwrap))
        .collect();
    concat_batches(&schema, &batches).unwrap()
}

fn ids(batch: &RecordBatch) -> Vec<i64> {
    batch["GlobalEventID"].as_primitive::<Int64Type>().values().to_vec()
}

const INDEXED: [&str; 6] = ["--mode", "indexed", "-n", "300", "--seed", "42"];
const FILTERED: [&str; 8] = [
    "--mode",
    "filtered",
    "-n",
    "250",
    "--seed",
    "42",
    "--filter",
    r#"{"QuadClass": [3, 4], "AvgTone": {"gt": 100}}"#,
];
const CALENDAR: [&str; 8] =
    ["--mode", "calendar", "--per-period", "60", "--period", "day", "--seed", "42"];

#[test]
fn the_rows_drawn_do_not_depend_on_files_or_workers() {
    let archive = Archive::of_slots();
    archive.aggregate("aggregated/day", 8, "export");
    archive.aggregate("aggregated/month", 6, "export");
    for mode in [&INDEXED[..], &FILTERED, &CALENDAR] {
        let mut samples = Vec::new();
        for source in [
            &["--source", "converted"][..],
            &["--source", "aggregated"],
            &["--source", "aggregated", "--source-period", "month"],
        ] {
            let mut bytes = Vec::new();
            for jobs in ["1", "2", "7"] {
                let flags = [mode, source, &["--jobs", jobs]].concat();
                samples.push(archive.sample(&flags));
                bytes.push(archive.budget.read_file(&archive.out()).unwrap());
            }
            assert!(bytes.windows(2).all(|pair| pair[0] == pair[1]), "{mode:?} {source:?}");
        }
        assert!(samples.windows(2).all(|pair| pair[0] == pair[1]), "{mode:?}");
        // Each row is one of the input, in all its columns, and none comes twice.
        let drawn = ids(&samples[0]);
        assert!(drawn.is_sorted_by(|one, other| one < other));
        for (row, id) in drawn.into_iter().enumerate() {
            assert_eq!(samples[0].slice(row, 1), rows(id..id + 1));
        }
    }
}

#[test]
fn the_rows_drawn_are_those_of_least_priority() {
    let archive = Archive::of_slots();
    let drawn = |mode: &[&str]| ids(&archive.sample(&[mode, &["--source", "converted"]].concat()));
    let priorities = Priorities::new(42);
    let mut positions: Vec<(u64, i64)> = slots()
        .flat_map(|(slot, ids)| {
            let name = ParquetName::parse(SET, &format!("{slot}.export.parquet")).unwrap();
            let number = SourceNumber::of(&name).unwrap();
            ids.zip(0..).map(move |(id, row)| (number.position(row), id))
        })
        .collect();
    let mut least_of = |priorities: Priorities, accept: &dyn Fn(i64) -> bool, n: usize| {
        positions.sort_unstable_by_key(|(position, _)| priorities.of(*position));
        let mut drawn: Vec<i64> =
            positions.iter().map(|(_, id)| *id).filter(|id| accept(*id)).take(n).collect();
        drawn.sort_unstable();
        drawn
    };
    assert_eq!(drawn(&INDEXED), least_of(priorities, &|_| true, 300));
    let matches = |id: i64| id % 4 >= 2 && id % 10 != 0 && id > 800;
    assert_eq!(drawn(&FILTERED), least_of(priorities, &matches, 250));
    let mut strata: Vec<i64> = (0..3)
        .flat_map(|day| {
            let priorities = priorities.of_stratum(&Key::Whole(20_150_218 + day));
            least_of(priorities, &|id| id % 3 == day && id % 101 != 7, 60)
        })
        .collect();
    strata.sort_unstable();
    assert_eq!(drawn(&CALENDAR), strata);
}

#[test]
fn dates_choose_the_same_rows_whatever_the_files() {
    let archive = Archive::of_slots();
    archive.aggregate("aggregated/month", 6, "export");
    let dates = ["--start-date", "2015-02-20", "--end-date", "2015-02-22", "-n", "1000"];
    let mode = ["--mode", "indexed", "--seed", "9", "--source"];
    let from_slots = archive.sample(&[&mode[..], &["converted"], &dates].concat());
    let month = ["aggregated", "--source-period", "month"];
    let from_month = archive.sample(&[&mode[..], &month, &dates].concat());
    assert_eq!(from_slots, from_month);
    assert!(ids(&from_slots).iter().all(|id| (3000..7000).contains(id)));
}

#[test]
fn rows_of_both_feeds_are_put_in_order() {
    let archive = Archive::new();
    archive.aggregate("aggregated/day", 8, "export");
    archive.aggregate("aggregated/day", 8, "translation.export");
    for (slot, ids) in slots() {
        for feed in ["export", "translation.export"] {
            archive.write(&format!("converted/{slot}.{feed}.parquet"), &[rows(ids.clone())]);
        }
    }
    let flags = [&INDEXED[..], &["--feed", "both", "--source"]].concat();
    let from_slots = archive.sample(&[&flags[..], &["converted"]].concat());
    let from_days = archive.sample(&[&flags[..], &["aggregated"]].concat());
    assert_eq!(from_slots, from_days);
    assert_eq!(from_slots.num_rows(), 300);
}

#[test]
fn a_period_has_its_rows_over_all_files() {
    let archive = Archive::new();
    for slot in 0..96 {
        let name =
            format!("converted/20150218{:02}{:02}00.export.parquet", slot / 4, slot % 4 * 15);
        archive.write(&name, &[rows(slot * 30..slot * 30 + 30)]);
    }
    let flags = ["--mode", "calendar", "--seed", "1", "--source", "converted", "--period"];
    let sample = archive.sample(&[&flags[..], &["day", "--per-period", "10"]].concat());
    assert_eq!(sample.num_rows(), 30);
    let sample = archive.sample(&[&flags[..], &["month", "--per-period", "10"]].concat());
    assert_eq!(sample.num_rows(), 10);
    // Rows without a date are of no period.
    let sample = archive.sample(&[&flags[..], &["year", "--per-period", "100000"]].concat());
    assert_eq!(sample.num_rows(), (0..2880).filter(|id| id % 101 != 7).count());
}

#[test]
fn wrong_dates_are_counted() {
    let archive = Archive::new();
    let days = [Some(20_150_218), Some(19_200_102), Some(20_159_999), None];
    let batch = with(&rows(0..4), "Day", Arc::new(Int64Array::from(days.to_vec())));
    archive.write("converted/20150218230000.export.parquet", &[batch]);
    let session = archive.session();
    let population = Population::find(&session, &session.layout().unwrap(), SET, converted());
    let design = archive.design(&["--mode", "calendar", "--period", "day", "--per-period", "10"]);
    let draw = draw::draw(&session, &design, &population.unwrap()).unwrap().unwrap();
    let strata: Vec<_> = draw.strata.iter().map(|stratum| stratum.key.clone()).collect();
    assert_eq!(strata, [Key::Whole(19_200_102), Key::Whole(20_150_218)]);
    let counts: Vec<_> = draw.counts.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(counts, [("before_1979", 1), ("impossible_date", 1), ("without_date", 1)]);
}

fn converted() -> DataSource {
    DataSource { directory: Directory::Converted, stage: StageName::Convert }
}

#[test]
fn types_and_nulls_are_the_same_for_every_seed() {
    let archive = Archive::new();
    let tones: Float64Array = (0..1000).map(|row| (row != 500).then_some(1.0)).collect();
    let batch = with(&rows(0..1000), "AvgTone", Arc::new(tones));
    archive.write("converted/20150218230000.export.parquet", std::slice::from_ref(&batch));
    for seed in 0..40 {
        let seed = seed.to_string();
        let mode = ["--mode", "indexed", "--source", "converted", "-n", "100", "--seed", &seed];
        let sample = archive.sample(&mode);
        assert_eq!(sample.schema(), batch.schema());
        let null = ids(&sample).contains(&500);
        assert_eq!(sample["AvgTone"].null_count(), usize::from(null));
        assert_eq!(sample["Actor1Code"].null_count(), 100);
    }
}

#[test]
fn missing_numbers_match_no_comparison() {
    let archive = Archive::new();
    let tones = Float64Array::from(vec![Some(1.0), Some(6.0), Some(f64::NAN), None]);
    let batch = with(&rows(0..4), "AvgTone", Arc::new(tones));
    archive.write("converted/20150218230000.export.parquet", &[batch]);
    let filter = r#"{"AvgTone": {"gt": 5}}"#;
    let mode = ["--mode", "filtered", "--source", "converted", "-n", "1", "--seed", "1"];
    let sample = archive.sample(&[&mode[..], &["--filter", filter]].concat());
    assert_eq!(sample["AvgTone"].as_primitive::<Float64Type>().values(), &[6.0]);
}

#[test]
fn rows_at_the_borders_of_groups_and_pages_are_the_right_ones() {
    let archive = Archive::new();
    archive.write("converted/20150218230000.export.parquet", &[rows(0..3000)]);
    let session = archive.session();
    let population =
        Population::find(&session, &session.layout().unwrap(), SET, converted()).unwrap();
    let start = population.positions().next().unwrap();
    let borders = [0, 1, 99, 100, 101, 999, 1000, 1001, 1099, 1100, 1999, 2000, 2950, 2999];
    let single = borders.map(|row| vec![row]);
    for chosen in single.into_iter().chain([borders.to_vec(), (0..3000).collect()]) {
        let positions: Vec<u64> = chosen.iter().map(|row| start + row).collect();
        let files = fetch::by_file(&population, &positions).unwrap();
        let mut fetched = Vec::new();
        fetch::fetch(&session, files, &columns::declared(SET), |batch| {
            fetched.extend(ids(&batch));
            Ok(())
        })
        .unwrap();
        let expected: Vec<i64> = chosen.iter().map(|row| i64::try_from(*row).unwrap()).collect();
        assert_eq!(fetched, expected);
    }
}

#[test]
fn no_match_is_a_table_without_rows() {
    let archive = Archive::of_slots();
    let mode = ["--mode", "filtered", "--source", "converted", "-n", "5", "--seed", "1"];
    let sample = archive.sample(&[&mode[..], &["--filter", r#"{"QuadClass": 9}"#]].concat());
    assert_eq!((sample.num_rows(), sample.schema()), (0, rows(0..0).schema()));
    let file = ParquetFile::open(&archive.budget, &archive.out(), Want::Whole).unwrap();
    let steps = file.key_value(marks::STEPS).unwrap();
    let steps: serde_json::Value = serde_json::from_str(steps).unwrap();
    assert_eq!(steps["algorithm"], "splitmix64-bottom-k/2");
    assert_eq!(
        (&steps["mode"], &steps["n"], &steps["seed"]),
        (&"filtered".into(), &5.into(), &1.into())
    );
    assert_eq!((&steps["population"], &steps["matching"]), (&10_000.into(), &0.into()));
    assert_eq!((&steps["filter"], &steps["sampled"]), (&r#"{"QuadClass": 9}"#.into(), &0.into()));
}

#[test]
fn more_rows_than_there_are_is_an_error_with_both_numbers() {
    let archive = Archive::of_slots();
    let source = ["--source", "converted", "--seed", "1", "-n"];
    let indexed = ["--mode", "indexed"];
    let filter = ["--mode", "filtered", "--filter", r#"{"EventCode": "010"}"#];
    for (mode, n, said) in [
        (&indexed[..], "10001", "-n 10001 is more than the 10000 rows"),
        (&filter, "51", "-n 51 is more than the 50 rows that match"),
        (&filter, "10001", "before any filter"),
    ] {
        archive.fails(&[mode, &source, &[n]].concat(), ExitStatus::Usage, said);
    }
    assert_eq!(archive.sample(&[&indexed[..], &source, &["10000"]].concat()).num_rows(), 10_000);
    assert_eq!(archive.sample(&[&filter[..], &source, &["50"]].concat()).num_rows(), 50);
}

#[test]
fn a_dry_run_changes_nothing() {
    let archive = Archive::of_slots();
    for mode in [&INDEXED[..], &FILTERED, &CALENDAR] {
        let flags = [mode, &["--source", "converted", "--dry-run"]].concat();
        assert_eq!(archive.run(&flags).unwrap(), ExitStatus::Done);
        assert!(archive.budget.stat(archive.out().parent().unwrap()).unwrap().is_none());
    }
}

#[test]
fn columns_come_in_the_order_named() {
    let archive = Archive::of_slots();
    let flags = [&INDEXED[..], &["--source", "converted", "--columns", "EventCode,GlobalEventID"]];
    let sample = archive.sample(&flags.concat());
    let ids = ids(&sample);
    assert_eq!(sample.num_columns(), 2);
    let codes = sample.column(0).as_string::<i32>();
    for (code, id) in codes.iter().zip(ids) {
        assert_eq!(code.unwrap(), format!("{:03}", id % 200));
    }
}

#[test]
fn files_of_older_types_are_sampled_in_any_order() {
    for floating in [0, 1] {
        let archive = Archive::new();
        for (index, slot) in SLOTS[..2].iter().enumerate() {
            let start = i64::try_from(index).unwrap() * 100;
            let mut batch = rows(start..start + 100);
            if index == floating {
                let quads = batch["QuadClass"]
                    .as_primitive::<Int64Type>()
                    .unary::<_, Float64Type>(|quad| f64::from(i32::try_from(quad).unwrap()));
                batch = with(&batch, "QuadClass", Arc::new(quads));
            }
            archive.write(&format!("converted/{slot}.export.parquet"), &[batch]);
        }
        let mode = ["--mode", "filtered", "--seed", "1", "--source", "converted", "-n", "50"];
        let sample = archive.sample(&[&mode[..], &["--filter", r#"{"QuadClass": 4}"#]].concat());
        let expected: Vec<i64> = (0..200).filter(|id| id % 4 == 3).collect();
        assert_eq!((ids(&sample), sample.schema()), (expected, rows(0..0).schema()));
    }
}

#[test]
fn originals_kept_by_cleaning_are_added_wherever_they_stand() {
    let original: ArrayRef = Arc::new(Int64Array::from(vec![19_200_102; 10]));
    for repaired in [0, 1] {
        let archive = Archive::new();
        for (index, slot) in SLOTS[..2].iter().enumerate() {
            let mut batch = rows(0..10);
            if index == repaired {
                batch = with(&batch, "Day_original", Arc::clone(&original));
            }
            archive.write(&format!("cleaned/{slot}.export_cleaned.parquet"), &[batch]);
        }
        let all = ["--mode", "indexed", "-n", "20", "--seed", "1"];
        let sample = archive.sample(&all);
        assert_eq!(sample.num_columns(), 65);
        let kept = sample["Day_original"].slice(repaired * 10, 10);
        assert_eq!((&kept, sample["Day_original"].null_count()), (&original, 10));
        let sample = archive.sample(&[&all[..], &["--columns", "Day_original"]].concat());
        assert_eq!((sample.num_columns(), sample["Day_original"].null_count()), (1, 10));
        let filter = ["--mode", "filtered", "-n", "10", "--seed", "1", "--filter"];
        let sample = archive.sample(&[&filter[..], &[r#"{"Day_original": 19200102}"#]].concat());
        assert_eq!(sample["Day_original"].null_count(), 0);
    }
}

#[test]
fn a_file_without_a_needed_column_or_with_text_turned_to_numbers_is_named() {
    let archive = Archive::of_slots();
    let name = format!("converted/{}.export.parquet", SLOTS[7]);
    let batch = rows(3500..4000);
    let all = ["--mode", "indexed", "--source", "converted", "--seed", "1", "-n", "10000"];
    archive.write(&name, &[batch.project(&(1..61).collect::<Vec<_>>()).unwrap()]);
    archive.fails(
        &all,
        ExitStatus::Stopped,
        "20150220001500.export.parquet has no column `GlobalEventID`",
    );
    let numbers = with(&batch, "EventCode", Arc::new(Int64Array::from(vec![10; 500])));
    archive.write(&name, &[numbers]);
    archive.fails(&all, ExitStatus::Stopped, "column `EventCode` has the type Int64");
    let mut staged = archive.budget.stage(&archive.path(&name));
    std::io::Write::write_all(&mut staged, b"PAR1 torn").unwrap();
    staged.publish().unwrap();
    archive.fails(&all, ExitStatus::Stopped, "20150220001500.export.parquet is not a readable");
}

#[test]
fn rows_whose_place_is_unknown_are_an_error() {
    let archive = Archive::new();
    let aggregated = [&INDEXED[..], &["--source", "aggregated"]].concat();
    let name = "aggregated/day/20150218.export.parquet";
    archive.write(name, &[rows(0..500)]);
    archive.fails(&aggregated, ExitStatus::Stopped, "has no note gdelt-mill.sources");
    let mark = |name: &str, rows| SourceMark { name: name.to_owned(), rows };
    for (marks, said) in [
        (vec![mark("20150218.export.parquet", 500)], "`20150218.export.parquet` has no place"),
        (vec![mark("20150218230000.gkg.parquet", 500)], "has no place in the archive"),
        (vec![mark("20150218230000.export.parquet", 499)], "its sources have 499 rows, it has 500"),
        (
            vec![
                mark("20150218230000.export.parquet", 250),
                mark("20150218230000.export_cleaned.parquet", 250),
            ],
            "stand twice",
        ),
    ] {
        archive.write_noted(name, &[rows(0..500)], Some(&marks));
        archive.fails(&aggregated, ExitStatus::Stopped, said);
    }
}

#[test]
fn an_output_among_the_inputs_is_refused() {
    let archive = Archive::of_slots();
    for within in ["converted/a.parquet", "raw/a.parquet", "aggregated/day/a.parquet"] {
        let mut args = archive.args(&INDEXED);
        args.out = Some(archive.path(within));
        let error = run(args).unwrap_err();
        assert_eq!(error.status(), ExitStatus::Usage, "{error}");
    }
}

#[test]
fn files_that_the_ledger_knows_are_opened_only_for_their_rows() {
    let archive = Archive::new();
    let session = archive.session();
    let layout = session.layout().unwrap();
    let ledger = Ledger::new(&archive.budget, &layout.directory(SET, Directory::Catalog));
    let writer = ledger.writer(StageName::Convert);
    for (slot, ids) in slots() {
        let output = format!("{slot}.export.parquet");
        let published = archive.write(&format!("converted/{output}"), &[rows(ids)]);
        let record = Record {
            format: FORMAT,
            output,
            period: catalog::Period::parse(slot).unwrap(),
            feed: catalog::Feed::English,
            outcome: Outcome::Done,
            sources: Vec::new(),
            fingerprint: String::new(),
            rows: 500,
            size: published.size,
            modified_ns: published.modified_ns,
            footer_start: 0,
            key_ranges: std::collections::BTreeMap::new(),
            counts: std::collections::BTreeMap::new(),
            rows_read: 0,
            unknown_codes: BTreeMap::new(),
            records: None,
            rejects: None,
            parts: Vec::new(),
            run_ns: 0,
            finished_ns: 0,
            tool: String::new(),
        };
        writer.append(&record).unwrap();
    }
    writer.close().unwrap();
    let population = Population::find(&session, &layout, SET, converted()).unwrap();
    assert_eq!(population.rows, 10_000);
    let before = session.budget.report().reads;
    assert!(before.open < 20, "{} files opened for 20 known ones", before.open);
    let design = archive.design(&["--mode", "indexed", "-n", "3"]);
    let draw = draw::draw(&session, &design, &population).unwrap().unwrap();
    let chosen = fetch::by_file(&population, &draw.positions()).unwrap();
    let files = chosen.len() as u64;
    fetch::fetch(&session, chosen, &columns::declared(SET), |_| Ok(())).unwrap();
    let after = session.budget.report().reads;
    // Their directory is opened once.
    assert_eq!((after.open - before.open, after.close - before.close), (files + 1, files));
}

#[test]
fn the_ending_of_the_name_decides_what_is_written() {
    let archive = Archive::of_slots();
    let flags = [&INDEXED[..], &["--source", "converted"]].concat();
    let sample = archive.sample(&flags);
    let notes = ParquetFile::open(&archive.budget, &archive.out(), Want::Whole).unwrap();
    let mut files = Vec::new();
    for ending in ["csv", "arrow"] {
        let mut bytes = Vec::new();
        for jobs in ["1", "2", "7"] {
            let mut args = archive.args(&[&flags[..], &["--jobs", jobs]].concat());
            let out = archive.out().with_extension(ending);
            args.out = Some(out.clone());
            assert_eq!(run(args).unwrap(), ExitStatus::Done);
            bytes.push(archive.budget.read_file(&out).unwrap());
        }
        assert!(bytes.windows(2).all(|pair| pair[0] == pair[1]), "{ending}");
        files.push(bytes.swap_remove(0));
    }
    let text = String::from_utf8(files[0].to_vec()).unwrap();
    let ids_read = text.lines().skip(1).map(|line| line.split(',').next().unwrap());
    assert_eq!(ids_read.map(|id| id.parse().unwrap()).collect::<Vec<i64>>(), ids(&sample));
    let described = archive.budget.read_file(&archive.out().with_extension("csv.schema.json"));
    let described: serde_json::Value = serde_json::from_slice(&described.unwrap()).unwrap();
    assert_eq!(described["rows"], 300);
    let reader = FileReader::try_new(Cursor::new(&files[1]), None).unwrap();
    let schema = reader.schema();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    let read = concat_batches(&sample.schema(), &batches).unwrap();
    assert_eq!(read, sample);
    for mark in [marks::STEPS, marks::FINGERPRINT, marks::CITATION] {
        let note = notes.key_value(mark).unwrap();
        assert_eq!(schema.metadata().get(mark).map(String::as_str), Some(note));
        assert_eq!(described["notes"][mark], note);
    }
}
