//! Cases of the catalogue of what went wrong elsewhere, and what is asked for by flags.

use catalog::ledger::Record;
use serde_json::Value;

use super::*;

fn day_record(root: &Root, day: &str) -> Record {
    root.ledger(AggregatePeriod::Day).records[&format!("{day}.mentions.parquet")].clone()
}

fn failure(root: &Root, day: &str) -> String {
    match day_record(root, day).outcome {
        Outcome::Failed(reason) => reason,
        other => panic!("{day} did not fail: {other:?}"),
    }
}

fn steps(file: &ParquetFile) -> Value {
    serde_json::from_str(file.key_value(marks::STEPS).unwrap()).unwrap()
}

#[test]
fn a_period_says_which_slots_it_lacks() {
    // AG-13
    let root = Root::new();
    let slot = |number: i64| format!("20150301{:02}{:02}00", number / 4, number % 4 * 15);
    for number in (0..96).filter(|number| *number != 40) {
        root.write_slot(&slot(number), &mentions(number..number + 1));
    }
    root.run(&[]).unwrap();
    let noted = steps(&root.open_day("20150301"));
    let counts =
        ["slots", "slots_expected", "slots_missing"].map(|key| noted[key].as_u64().unwrap());
    assert_eq!(counts, [95, 96, 1]);
    assert_eq!(noted["gaps"][0]["first"], "20150301100000");
    assert_eq!((&noted["row_groups"], &noted["provenance"]), (&"splice".into(), &false.into()));
    let record = day_record(&root, "20150301");
    assert_eq!(record.counts.get("slots missing for no known reason"), Some(&1));

    root.write_slot(&slot(40), &mentions(40..41));
    root.run(&[]).unwrap();
    let whole = root.open_day("20150301");
    assert_eq!(ids(&whole), (0..96).collect::<Vec<_>>());
    assert_eq!((&steps(&whole)["slots"], &steps(&whole)["slots_missing"]), (&96.into(), &0.into()));
    assert!(day_record(&root, "20150301").counts.is_empty());
}

#[test]
fn slots_that_were_never_published_explain_a_gap_in_their_feed_only() {
    let root = Root::new();
    let batch = rows(Dataset::GkgV2, 0..1);
    for feed in ["", ".translation"] {
        root.write(&format!("gkg-v2/converted/20221111000000{feed}.gkg.parquet"), &batch);
    }
    root.run(&["--feed", "both"]).unwrap();
    let told = |feed: &str| {
        let noted = steps(&root.open(&format!("gkg-v2/aggregated/day/20221111{feed}.gkg.parquet")));
        ["slots_never_published", "slots_missing"].map(|key| noted[key].as_u64().unwrap())
    };
    // From 2022-11-10 22:00 to 18:30 the next day no English file was published.
    assert_eq!(told(""), [74, 21]);
    assert_eq!(told(".translation"), [0, 95]);
}

#[test]
fn provenance_names_the_source_of_each_row() {
    let root = Root::new();
    root.write_slot("20150218230000", &mentions(0..2));
    root.write_slot("20150218231500", &mentions(2..3));
    root.run(&[]).unwrap();
    assert_eq!(root.open_day("20150218").column("SourceFile"), None);
    root.run(&["--provenance"]).unwrap();
    let day = root.open_day("20150218");
    let names = read(&day).column(16).as_string::<i32>().clone();
    let [first, last] =
        ["20150218230000", "20150218231500"].map(|slot| format!("{slot}.mentions.parquet"));
    assert_eq!(names, StringArray::from_iter_values([&first, &first, &last]));
    assert!(day.metadata().row_group(0).column(16).dictionary_page_offset().is_some());
    assert_eq!(day.schema().field(16).name(), "SourceFile");
}

#[test]
fn copied_row_groups_are_those_of_the_sources() {
    let root = Root::new();
    root.write_slot("20150218230000", &mentions(0..20));
    root.write_slot("20150218231500", &mentions(20..25));
    root.run(&["--row-groups", "copy"]).unwrap();
    let day = root.open_day("20150218");
    let groups = day.metadata().row_groups().iter();
    assert_eq!(groups.map(RowGroupMetaData::num_rows).collect::<Vec<_>>(), [20, 5]);
    assert_eq!(ids(&day), (0..25).collect::<Vec<_>>());
    let source = root.open("mentions/converted/20150218231500.mentions.parquet");
    for column in 0..16 {
        let range = |file: &ParquetFile, group| {
            let (start, length) = file.metadata().row_group(group).column(column).byte_range();
            file.read_ranges(&[start..start + length]).unwrap()
        };
        assert_eq!(range(&day, 1), range(&source, 0), "column {column}");
        assert!(day.metadata().row_group(1).column(column).dictionary_page_offset().is_some());
    }
    // The same period in the other manner is made again.
    root.run(&[]).unwrap();
    assert_eq!(root.open_day("20150218").metadata().num_row_groups(), 1);
}

#[test]
fn a_source_that_cannot_be_read_fails_its_period_by_name_until_it_is_whole_again() {
    // RS-02: the size and time of a source count, not its name alone.
    let root = Root::new();
    root.write_slot("20150218230000", &mentions(0..20));
    root.write_slot("20150218231500", &mentions(20..40));
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::Done);
    let bad = "mentions/converted/20150218231500.mentions.parquet";
    let whole = root.budget.read_file(&root.path(bad)).unwrap();
    let html: &[u8] = b"<html>404 Not Found</html>";
    let huge: &[u8] = b"PAR1\xff\xff\xff\x7fPAR1";
    for bytes in [&whole[..whole.len() / 2], &whole[..whole.len() - 4], html, huge, b""] {
        root.write_bytes(bad, bytes);
        assert_eq!(root.run(&[]).unwrap(), ExitStatus::FilesFailed);
        let reason = failure(&root, "20150218");
        assert!(reason.contains("20150218231500.mentions.parquet"), "{reason}");
        // What stands there is of the run before, and is not taken for done.
        assert_eq!(ids(&root.open_day("20150218")), (0..40).collect::<Vec<_>>());
        assert_eq!(root.run(&[]).unwrap(), ExitStatus::FilesFailed);
    }
    root.write_slot("20150218231500", &mentions(50..51));
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::Done);
    assert_eq!(ids(&root.open_day("20150218")), (0..20).chain(50..51).collect::<Vec<_>>());
}

#[test]
fn sources_are_deleted_once_their_rows_stand_in_the_output() {
    // RS-14
    let root = Root::new();
    let exists = |slot: &str| {
        let path = root.path(&format!("mentions/converted/{slot}.mentions.parquet"));
        root.budget.stat(&path).unwrap().is_some()
    };
    let slots = ["20150218230000", "20150218231500", "20150218233000"];
    for (slot, ids) in slots.iter().zip([0..2, 2..5, 5..5]) {
        root.write_slot(slot, &mentions(ids));
    }
    let flags = ["--delete-source", "--dataset", "mentions"];
    assert_eq!(root.run(&flags).unwrap(), ExitStatus::Done);
    assert!(slots.iter().all(|slot| !exists(slot)));
    for flags in [&flags[..], &[]] {
        assert_eq!(root.run(flags).unwrap(), ExitStatus::Done, "nothing was left to do");
        assert_eq!(ids(&root.open_day("20150218")), [0, 1, 2, 3, 4]);
    }

    // A late file alone would make a day of fewer rows.
    root.write_slot("20150218234500", &mentions(9..10));
    for flags in [&flags[..], &["--provenance"]] {
        assert_eq!(root.run(flags).unwrap(), ExitStatus::FilesFailed);
        assert_eq!(ids(&root.open_day("20150218")), [0, 1, 2, 3, 4]);
        assert!(exists("20150218234500"));
    }
}

#[test]
fn a_deletion_that_was_cut_short_is_finished() {
    let root = Root::new();
    root.write_slot("20150218230000", &mentions(0..2));
    root.write_slot("20150218231500", &mentions(2..5));
    root.run(&[]).unwrap();
    let path = |slot| root.path(&format!("mentions/converted/{slot}.mentions.parquet"));
    root.budget.remove(&path("20150218230000")).unwrap();
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::FilesFailed);
    assert_eq!(root.run(&["--delete-source"]).unwrap(), ExitStatus::Done);
    assert_eq!(root.budget.stat(&path("20150218231500")).unwrap(), None);
    assert_eq!(ids(&root.open_day("20150218")), [0, 1, 2, 3, 4]);
}

#[test]
fn empty_sources_are_deleted_only_where_that_is_allowed() {
    let root = Root::new();
    root.write_slot("20150218230000", &mentions(0..0));
    let path = root.path("mentions/converted/20150218230000.mentions.parquet");
    root.run(&["--delete-source"]).unwrap();
    assert!(root.budget.stat(&path).unwrap().is_some());
    root.run(&["--delete-source", "--delete-despite", "empty"]).unwrap();
    assert_eq!(root.budget.stat(&path).unwrap(), None);
    let flags = ["gdelt-aggregate", "--delete-source", "--delete-despite", "rejects"];
    assert!(Args::try_parse_from(flags).is_err());
}

#[test]
fn rows_belong_to_the_time_of_their_file() {
    // DL-07: a mention of an event of last year stands in today's file.
    let root = Root::new();
    let mut arrays = mentions(0..2).columns().to_vec();
    arrays[1] = Arc::new(Int64Array::from(vec![20_140_218_000_000, 20_150_219_000_000]));
    let batch = RecordBatch::try_new(mentions(0..2).schema(), arrays).unwrap();
    root.write_slot("20150218230000", &batch);
    root.run(&[]).unwrap();
    assert_eq!(read(&root.open_day("20150218")), batch);
    assert_eq!(root.ledger(AggregatePeriod::Day).records.len(), 1);
}

#[test]
fn no_directory_within_is_read() {
    // AG-05, AG-06: nothing is taken from the names of directories.
    let root = Root::new();
    root.write_slot("20150218230000", &mentions(0..2));
    root.write("mentions/converted/Year=2015/20150218231500.mentions.parquet", &mentions(2..4));
    root.run(&[]).unwrap();
    assert_eq!(ids(&root.open_day("20150218")), [0, 1]);
}

#[test]
fn many_small_sources_become_few_row_groups() {
    // AG-17, AG-08: written in another order than that of time.
    let root = Root::new();
    for number in (0..500_i64).rev() {
        let (day, slot) = (1 + number / 96, number % 96);
        let name = format!("201503{day:02}{:02}{:02}00", slot / 4, slot % 4 * 15);
        root.write_slot(&name, &mentions(number * 5..number * 5 + 5));
    }
    root.run(&["--period", "month"]).unwrap();
    let month = root.open("mentions/aggregated/month/201503.mentions.parquet");
    assert_eq!(month.metadata().num_row_groups(), 1);
    assert_eq!(ids(&month), (0..2_500).collect::<Vec<_>>());
}

/// What is left of a day that was made of two slots, one of which was deleted since.
fn day_of_deleted_slots(root: &Root) -> Vec<i64> {
    root.write_slot("20150218230000", &mentions(0..10));
    root.write_slot("20150218231500", &mentions(10..20));
    assert_eq!(root.run(&["--delete-source"]).unwrap(), ExitStatus::Done);
    ids(&root.open_day("20150218"))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "somebody loses the ledger")]
fn late_slots_never_take_the_place_of_deleted_ones() {
    let output = "mentions/aggregated/day/20150218.mentions.parquet";
    let touch = |root: &Root| {
        let bytes = root.budget.read_file(&root.path(output)).unwrap().to_vec();
        root.write_bytes(output, &bytes);
    };
    let forget = |root: &Root| {
        std::fs::remove_dir_all(root.path("mentions/catalog")).unwrap();
    };
    let keep = |_: &Root| {};
    for (what, change) in
        [("as it was", &keep as &dyn Fn(&Root)), ("touched", &touch), ("forgotten", &forget)]
    {
        let root = Root::new();
        let before = day_of_deleted_slots(&root);
        assert_eq!(before.len(), 20);
        change(&root);
        // As many as were deleted, and more.
        for slot in ["20150218233000", "20150218234500", "20150218220000"] {
            root.write_slot(slot, &mentions(50..53));
        }
        for flags in [&[][..], &["--delete-source"]] {
            assert_eq!(root.run(flags).unwrap(), ExitStatus::FilesFailed, "{what}");
            assert_eq!(ids(&root.open_day("20150218")), before, "{what}");
        }
        assert_eq!(root.run(&["--force"]).unwrap(), ExitStatus::Done, "{what}");
        assert_eq!(ids(&root.open_day("20150218")).len(), 9);
    }
}
