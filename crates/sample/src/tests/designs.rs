//! Strata, allocation, replacement, and what stands in and beside a sample.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use catalog::ledger::Record;

use super::*;
use crate::sidecar::design_path;

const CONVERTED: [&str; 4] = ["--source", "converted", "--seed", "3"];

fn floats(batch: &RecordBatch, name: &str) -> Vec<f64> {
    batch.column_by_name(name).unwrap().as_primitive::<Float64Type>().values().to_vec()
}

fn flags<'a>(parts: &[&[&'a str]]) -> Vec<&'a str> {
    parts.concat().into_iter().chain(CONVERTED).collect()
}

fn design(archive: &Archive) -> serde_json::Value {
    let bytes = archive.budget.read_file(&design_path(&archive.out())).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// How many rows of the sample are of each class.
fn by_class(sample: &RecordBatch) -> BTreeMap<i64, usize> {
    let mut counts = BTreeMap::new();
    for id in ids(sample) {
        *counts.entry(id % 4 + 1).or_insert(0) += 1;
    }
    counts
}

#[test]
fn weights_add_up_to_the_population() {
    let archive = Archive::of_slots();
    let close = |one: f64, other: f64| (one - other).abs() < 1e-6;
    for (design, population) in [
        (&["--mode", "indexed", "-n", "300"][..], 10_000.0),
        (&["--mode", "indexed", "-n", "300", "--replace"], 10_000.0),
        (&["--mode", "filtered", "--where", "QuadClass = 4", "-n", "77"], 2_500.0),
        (&["--mode", "filtered", "--stratify", "EventCode", "-n", "999"], 10_000.0),
        (&["--mode", "calendar", "--period", "day", "--per-period", "10"], 9_901.0),
        (&["--mode", "calendar", "--period", "day", "--per-period", "9", "--replace"], 9_901.0),
    ] {
        let sample = archive.sample(&flags(&[design, &[WEIGHTS]]));
        let sum: f64 = floats(&sample, "SamplingWeight").iter().sum();
        assert!(close(sum, population), "{design:?}: {sum}");
    }
    let sample = archive.sample(&flags(&[&["--mode", "indexed", "-n", "9"]]));
    assert!(sample.column_by_name("SamplingWeight").is_none());
}

#[test]
fn rows_are_shared_out_to_the_values_of_a_column() {
    let archive = Archive::new();
    // 600, 300 and 100 rows; the deviation of AvgTone is the same in all.
    let class = |id: i64| match id {
        0..600 => 1,
        600..900 => 2,
        _ => 3,
    };
    let classes: Int64Array = (0..1000).map(|id| Some(class(id))).collect();
    let batch = with(&rows(0..1000), "QuadClass", Arc::new(classes));
    archive.write("converted/20150218230000.export.parquet", &[batch]);
    let drawn = |design: &[&str]| {
        let stratify = ["--mode", "filtered", "--stratify", "QuadClass"];
        let sample = archive.sample(&flags(&[&stratify, design]));
        let mut counts = BTreeMap::new();
        for id in ids(&sample) {
            *counts.entry(class(id)).or_insert(0) += 1;
        }
        counts.into_values().collect::<Vec<u32>>()
    };
    assert_eq!(drawn(&["-n", "100"]), [60, 30, 10]);
    assert_eq!(drawn(&["-n", "100", "--allocation", "equal"]), [34, 33, 33]);
    assert_eq!(drawn(&["-n", "20", "--min-per-stratum", "5"]), [10, 5, 5]);
    assert_eq!(drawn(&["--per-stratum", "150"]), [150, 150, 100]);
    let neyman = ["-n", "60", "--allocation", "neyman", "--variance-column", "AvgTone"];
    let shares = drawn(&neyman);
    assert_eq!(shares.iter().sum::<u32>(), 60);
    // The tones of the first class spread most: 600 eighths against 300 and 100.
    assert!(shares[0] > 40 && shares[1] > 8 && shares[2] >= 1, "{shares:?}");
    let strata = &design(&archive)["strata"];
    assert_eq!((&strata[0]["key"], &strata[0]["population"]), (&1.into(), &600.into()));
    assert!(strata[0]["deviation"].as_f64().unwrap() > 20.0);
    archive.fails_with(
        &flags(&[&["--mode", "filtered", "--stratify", "QuadClass", "-n", "1001"]]),
        "-n 1001 is more than the 1000 rows",
    );
}

#[test]
fn strata_do_not_depend_on_the_files() {
    let archive = Archive::of_slots();
    archive.aggregate("aggregated/day", 8, "export");
    archive.aggregate("aggregated/month", 6, "export");
    for design in [
        &["--mode", "filtered", "--stratify", "EventCode", "-n", "700"][..],
        &["--mode", "calendar", "--period", "day", "-n", "100", "--allocation", "equal"],
        &["--mode", "indexed", "-n", "500", "--replace"],
        &[
            "--mode",
            "filtered",
            "--stratify",
            "QuadClass",
            "-n",
            "90",
            "--allocation",
            "neyman",
            "--variance-column",
            "AvgTone",
            "--replace",
        ],
    ] {
        let sample = |source: &[&str], jobs: &str| {
            let seed = ["--seed", "5", "--jobs", jobs, WEIGHTS, "--source"];
            archive.sample(&[design, &seed, source].concat())
        };
        let one = sample(&["converted"], "1");
        assert_eq!(one, sample(&["converted"], "7"));
        assert_eq!(one, sample(&["aggregated"], "2"));
        assert_eq!(one, sample(&["aggregated", "--source-period", "month"], "1"));
    }
}

#[test]
fn with_replacement_each_draw_is_any_row() {
    let archive = Archive::new();
    archive.write("converted/20150218230000.export.parquet", &[rows(0..20)]);
    let mut counts = [0_u32; 20];
    let mut repeated = 0;
    for seed in 0..150 {
        let seed = seed.to_string();
        let flags =
            ["--mode", "indexed", "-n", "40", "--replace", "--source", "converted", "--seed"];
        let sample = archive.sample(&[&flags[..], &[&seed]].concat());
        let drawn = ids(&sample);
        assert_eq!(drawn.len(), 40);
        assert!(drawn.is_sorted());
        repeated += drawn.windows(2).filter(|pair| pair[0] == pair[1]).count();
        for id in drawn {
            counts[usize::try_from(id).unwrap()] += 1;
        }
    }
    // 6,000 draws of 20 rows. Chi-square with 19 degrees of freedom: 43.8 is passed once in 1,000.
    let chi: f64 = counts.iter().map(|count| (f64::from(*count) - 300.0).powi(2) / 300.0).sum();
    assert!(chi < 43.8, "{counts:?}");
    // Of 20 rows 40 draws leave 20 * (1 - (19/20)^40) = 17.4 different ones, so 22.6 repeat.
    let mean = f64::from(u32::try_from(repeated).unwrap()) / 150.0;
    assert!((mean - 22.57).abs() < 0.5, "{mean}");
}

#[test]
fn without_replacement_each_row_and_each_pair_is_as_likely() {
    // SA-05: 20 rows, 20,000 seeds.
    for k in [1, 5, 19] {
        let mut single = [0_u32; 20];
        let mut pairs: HashMap<(u64, u64), u32> = HashMap::new();
        for seed in 0..20_000 {
            let priorities = Priorities::new(seed);
            let mut drawn = crate::bottom_k::BottomK::new(k);
            (0..20).for_each(|row| drawn.push(priorities.of(row << 32 | 7), row));
            let drawn = drawn.into_positions();
            for (place, row) in drawn.iter().enumerate() {
                single[usize::try_from(*row).unwrap()] += 1;
                for other in &drawn[place + 1..] {
                    *pairs.entry((*row, *other)).or_default() += 1;
                }
            }
        }
        let k = f64::from(u32::try_from(k).unwrap());
        let expected = 20_000.0 * k / 20.0;
        let about = |count: &u32, expected: f64| (f64::from(*count) - expected).powi(2) / expected;
        let chi: f64 = single.iter().map(|count| about(count, expected)).sum();
        // Draws without replacement vary less than independent ones, by 1 - k / 20.
        let chi = chi / (1.0 - k / 20.0);
        assert!((5.0..46.0).contains(&chi), "k {k}: {chi} of {single:?}");
        if k > 1.0 {
            let expected = 20_000.0 * k * (k - 1.0) / (20.0 * 19.0);
            assert_eq!(pairs.len(), 190);
            let worst = pairs.values().map(|count| about(count, expected)).fold(0.0, f64::max);
            assert!(worst < 16.0, "k {k}: {worst}");
        }
    }
}

#[test]
fn each_row_says_where_it_stands() {
    let archive = Archive::of_slots();
    archive.aggregate("aggregated/day", 8, "export");
    for source in ["converted", "aggregated"] {
        let mode = ["--mode", "indexed", "-n", "200", "--seed", "2", "--provenance", "--source"];
        let sample = archive.sample(&[&mode[..], &[source]].concat());
        let files = sample.column_by_name("SourceFile").unwrap().as_string::<i32>();
        let numbers = sample.column_by_name("SourceRow").unwrap().as_primitive::<Int64Type>();
        for ((id, file), row) in ids(&sample).into_iter().zip(files).zip(numbers.values()) {
            let (slot, first) = (usize::try_from(id / 500).unwrap(), id / 500 * 500);
            assert_eq!(file.unwrap(), format!("{}.export.parquet", SLOTS[slot]));
            assert_eq!(*row, id - first);
        }
    }
}

#[test]
fn rows_behind_dropped_ones_have_no_place() {
    let archive = Archive::new();
    let name = "20150218230000.export_cleaned.parquet";
    let published = archive.write(&format!("cleaned/{name}"), &[rows(0..500)]);
    let mode = ["--mode", "indexed", "-n", "5", "--source", "cleaned", "--seed", "1"];
    let provenance = [&mode[..], &["--provenance"]].concat();
    archive.fails_with(&provenance, "does not say whether cleaning dropped rows");
    let record = |rows_read| Record {
        format: FORMAT,
        output: name.to_owned(),
        period: catalog::Period::parse("20150218230000").unwrap(),
        feed: catalog::Feed::English,
        outcome: Outcome::Done,
        sources: Vec::new(),
        fingerprint: String::new(),
        rows: 500,
        size: published.size,
        modified_ns: published.modified_ns,
        footer_start: 0,
        key_ranges: BTreeMap::new(),
        counts: BTreeMap::new(),
        rows_read,
        unknown_codes: BTreeMap::new(),
        records: None,
        rejects: None,
        parts: Vec::new(),
        run_ns: 0,
        finished_ns: i64::try_from(rows_read).unwrap(),
        tool: String::new(),
    };
    for (rows_read, said) in [(503, Some("cleaning dropped 3 rows of it")), (500, None)] {
        let layout = archive.session().layout().unwrap();
        let catalog = layout.directory(SET, Directory::Catalog);
        // The later record counts.
        let mut record = record(rows_read);
        record.finished_ns += i64::from(said.is_none()) * 1_000;
        let writer = Ledger::new(&archive.budget, &catalog).writer(StageName::Clean);
        writer.append(&record).unwrap();
        writer.close().unwrap();
        match said {
            Some(said) => archive.fails_with(&provenance, said),
            None => assert_eq!(archive.sample(&provenance).num_rows(), 5),
        }
    }
}

#[test]
fn the_design_and_the_inputs_stand_beside_the_sample() {
    let archive = Archive::of_slots();
    let mode = ["--mode", "calendar", "--period", "month", "--per-period", "7", WEIGHTS];
    archive.sample(&flags(&[&mode]));
    let noted = design(&archive);
    assert_eq!((&noted["per_stratum"], &noted["seed"]), (&7.into(), &3.into()));
    assert_eq!((&noted["population"], &noted["sampled"]), (&10_000.into(), &7.into()));
    assert_eq!(
        noted["strata"][0],
        serde_json::json!({
            "key": 201_502, "population": 9_901, "sample": 7
        })
    );
    let columns = noted["columns"].as_array().unwrap();
    assert_eq!(columns.last().unwrap(), "SamplingWeight");
    let mut inputs = archive.out().into_os_string();
    inputs.push(".inputs.parquet");
    let inputs = read(&archive.budget, &PathBuf::from(inputs));
    assert_eq!((inputs.num_rows(), noted["inputs"]["files"].as_u64()), (20, Some(20)));
    let first = noted["inputs"]["digest"].clone();
    // Another file is another list.
    archive.write("converted/20150224010000.export.parquet", &[rows(10_000..10_001)]);
    archive.sample(&flags(&[&mode]));
    assert_ne!(design(&archive)["inputs"]["digest"], first);
}

#[test]
fn a_condition_draws_what_its_filter_draws() {
    let archive = Archive::of_slots();
    let filtered = ["--mode", "filtered", "-n", "30"];
    let json = archive.sample(&flags(&[
        &filtered,
        &["--filter", r#"{"QuadClass": [3, 4], "AvgTone": {"range": [10, 50]}}"#],
    ]));
    let condition = archive.sample(&flags(&[
        &filtered,
        &["--where", "QuadClass IN (3, 4) AND AvgTone BETWEEN 10 AND 50"],
    ]));
    assert_eq!(json, condition);
    assert_eq!(by_class(&json).keys().copied().collect::<Vec<_>>(), [3, 4]);
}
