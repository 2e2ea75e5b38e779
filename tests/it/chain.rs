//! The bundled archive gives the known numbers, through all stages.

use std::collections::BTreeMap;

use anyhow::Result;
use arrow::array::{AsArray as _, RecordBatch};
use arrow::compute;
use arrow::datatypes::{Float64Type, Int64Type};
use serde_json::Value;
use tests::{Archive, command, fixtures};

fn expected() -> Result<Value> {
    Ok(serde_json::from_slice(&std::fs::read(fixtures().join("expected.json"))?)?)
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> &'a dyn arrow::array::Array {
    batch.column_by_name(name).unwrap_or_else(|| panic!("no column {name}")).as_ref()
}

fn sum_i64(batch: &RecordBatch, name: &str) -> i64 {
    compute::sum(column(batch, name).as_primitive::<Int64Type>()).unwrap_or(0)
}

fn sum_f64(batch: &RecordBatch, name: &str) -> f64 {
    compute::sum(column(batch, name).as_primitive::<Float64Type>()).unwrap_or(0.0)
}

#[test]
fn the_bundled_archive_gives_the_known_numbers() -> Result<()> {
    let archive = Archive::bundled()?;
    let expected = expected()?;

    let convert = archive.run("convert", &["--max-reads", "1"])?;
    assert_eq!(convert.code, 0, "{}", convert.stderr);
    let mut rows = 0;
    for (dataset, files) in expected["rows_converted"].as_object().unwrap() {
        for (stem, expected_rows) in files.as_object().unwrap() {
            let batch = archive.rows(&format!("{dataset}/converted/{stem}.parquet"))?;
            assert_eq!(batch.num_rows() as u64, expected_rows.as_u64().unwrap(), "{stem}");
            let columns = expected["columns"][dataset].as_u64().unwrap();
            assert_eq!(batch.num_columns() as u64, columns, "{stem}");
            rows += batch.num_rows() as u64;
        }
    }
    let summary = convert.summary()?;
    assert_eq!((summary.rows.written, summary.rows.rejected), (rows, 0));
    assert_eq!(summary.io.reads.peak_in_flight, 1);

    let clean = archive.run("clean", &["--max-reads", "1"])?;
    assert_eq!(clean.code, 0, "{}", clean.stderr);
    assert_eq!(clean.summary()?.files.made, 12);

    let aggregate = archive.run("aggregate", &["--max-reads", "1"])?;
    assert_eq!(aggregate.code, 0, "{}", aggregate.stderr);
    for (dataset, kind) in [("events-15min", "export"), ("mentions", "mentions"), ("gkg-v2", "gkg")]
    {
        for (day, expected_rows) in expected["aggregated_day_rows"][dataset].as_object().unwrap() {
            let batch = archive.rows(&format!("{dataset}/aggregated/day/{day}.{kind}.parquet"))?;
            assert_eq!(batch.num_rows() as u64, expected_rows.as_u64().unwrap(), "{dataset} {day}");
        }
    }
    the_events_sum_up(&archive, &expected)?;
    the_mentions_sum_up(&archive, &expected)?;
    samples_have_the_known_sizes(&archive, &expected)?;
    all_events_meet_their_gkg_records(&archive, &expected)
}

fn the_events_sum_up(archive: &Archive, expected: &Value) -> Result<()> {
    let expected = &expected["events_15min_all_six_files"];
    let (mut rows, mut mentions, mut tone) = (0, 0, 0.0);
    let mut by_day: BTreeMap<String, u64> = BTreeMap::new();
    for day in ["20150218", "20190121", "20200318"] {
        let batch = archive.rows(&format!("events-15min/aggregated/day/{day}.export.parquet"))?;
        rows += batch.num_rows() as u64;
        mentions += sum_i64(&batch, "NumMentions");
        tone += sum_f64(&batch, "AvgTone");
        for day in column(&batch, "Day").as_primitive::<Int64Type>().iter().flatten() {
            *by_day.entry(day.to_string()).or_default() += 1;
        }
        assert_eq!(column(&batch, "Day_original").null_count(), batch.num_rows());
    }
    assert_eq!(rows, expected["rows"].as_u64().unwrap());
    assert_eq!(mentions, expected["sum_NumMentions"].as_i64().unwrap());
    assert!((tone - expected["sum_AvgTone"].as_f64().unwrap()).abs() < 1e-6, "{tone}");
    assert_eq!(serde_json::to_value(by_day)?, expected["rows_by_Day"]);
    Ok(())
}

fn the_mentions_sum_up(archive: &Archive, expected: &Value) -> Result<()> {
    let expected = &expected["mentions_all_five_files"];
    let (mut rows, mut confidence, mut tone) = (0, 0, 0.0);
    for day in ["20150218", "20200318"] {
        let batch = archive.rows(&format!("mentions/aggregated/day/{day}.mentions.parquet"))?;
        rows += batch.num_rows() as u64;
        confidence += sum_i64(&batch, "Confidence");
        tone += sum_f64(&batch, "MentionDocTone");
    }
    assert_eq!(rows, expected["rows"].as_u64().unwrap());
    assert_eq!(confidence, expected["sum_Confidence"].as_i64().unwrap());
    assert!((tone - expected["sum_MentionDocTone"].as_f64().unwrap()).abs() < 1e-6, "{tone}");
    Ok(())
}

fn samples_have_the_known_sizes(archive: &Archive, expected: &Value) -> Result<()> {
    let matching = &expected["events_15min_all_six_files"]["rows_QuadClass_3_or_4_and_ActionGeo_CountryCode_US"];
    let matching = matching.to_string();
    let filter = r#"{"QuadClass": [3, 4], "ActionGeo_CountryCode": "US"}"#;
    let out = archive.root().join("results/filtered.parquet").display().to_string();
    let flags = ["--dataset", "events-15min", "--mode", "filtered", "--filter", filter];
    let sample = |n: &str| {
        let rest = ["-n", n, "--seed", "7", "--out", &out, "--max-reads", "1"];
        archive.run("sample", &[&flags[..], &rest[..]].concat())
    };
    let all = sample(&matching)?;
    assert_eq!(all.code, 0, "{}", all.stderr);
    let rows = archive.rows("results/filtered.parquet")?;
    assert_eq!(rows.num_rows().to_string(), matching);
    assert_eq!(all.summary()?.io.reads.peak_in_flight, 1);
    let more = sample(&(rows.num_rows() + 1).to_string())?;
    assert_eq!(more.code, 2, "{}", more.stderr);
    assert!(more.stderr.contains(&matching), "{}", more.stderr);

    // The same rows from slots and from days: files do not matter, rows do.
    let mut drawn = Vec::new();
    for (source, jobs) in [("cleaned", "1"), ("cleaned", "7"), ("aggregated", "2")] {
        let out = archive.root().join(format!("results/{source}-{jobs}.parquet"));
        let out = out.display().to_string();
        let flags = ["--dataset", "events-15min", "--mode", "indexed", "-n", "500", "--seed", "42"];
        let rest = ["--source", source, "--jobs", jobs, "--out", &out];
        let ended = archive.run("sample", &[&flags[..], &rest[..]].concat())?;
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        drawn.push(tests::read_parquet(out.as_ref())?);
    }
    assert_eq!(drawn[0].num_rows(), 500);
    assert_eq!(drawn[0], drawn[1]);
    assert_eq!(drawn[0], drawn[2]);
    Ok(())
}

fn all_events_meet_their_gkg_records(archive: &Archive, expected: &Value) -> Result<()> {
    let expected = &expected["crossref_v2_all_events_15min"];
    let events = archive.root().join("events-15min/cleaned").display().to_string();
    let out = archive.root().join("results/enriched.parquet").display().to_string();
    let flags = ["--events", &events, "--gkg-version", "v2", "--out", &out, "--max-reads", "1"];
    let ended = archive.run("crossref", &flags)?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.summary()?.io.reads.peak_in_flight, 1);
    let batch = archive.rows("results/enriched.parquet")?;
    assert_eq!(batch.num_rows() as u64, expected["rows"].as_u64().unwrap());
    let mut ids: Vec<_> =
        column(&batch, "GlobalEventID").as_primitive::<Int64Type>().values().to_vec();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len() as u64, expected["distinct_GlobalEventID"].as_u64().unwrap());
    let mut documents: Vec<_> =
        column(&batch, "GKG_V2DOCUMENTIDENTIFIER").as_string::<i32>().iter().flatten().collect();
    documents.sort_unstable();
    documents.dedup();
    let distinct = expected["distinct_V2DOCUMENTIDENTIFIER"].as_u64().unwrap();
    assert_eq!(documents.len() as u64, distinct);
    Ok(())
}

#[test]
fn a_seed_draws_these_rows_wherever_it_is_given() -> Result<()> {
    // SA-03: computed apart from this program, from the published algorithm.
    let archive = Archive::bundled()?;
    assert_eq!(archive.run("convert", &["--dataset", "events-15min"])?.code, 0);
    let out = archive.root().join("sample.parquet").display().to_string();
    let flags = ["--dataset", "events-15min", "--source", "converted", "--seed", "42"];
    let indexed = ["--mode", "indexed", "-n", "6", "--out", &out];
    let ended = archive.run("sample", &[&flags[..], &indexed].concat())?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let sample = tests::read_parquet(out.as_ref())?;
    let drawn = column(&sample, "GlobalEventID").as_primitive::<Int64Type>();
    assert_eq!(
        drawn.values()[..],
        [410_412_399, 410_418_634, 410_419_752, 410_421_719, 410_423_048, 410_423_070]
    );
    let weights = column(&sample, "SamplingWeight").as_primitive::<Float64Type>();
    assert!((weights.values().iter().sum::<f64>() - 10_388.0).abs() < 1e-9);
    let described = command("sample", archive.root())?.args(["--describe", &out]).output()?;
    let paragraph = String::from_utf8(described.stdout)?;
    assert!(paragraph.contains("A simple random sample of 6 rows was drawn without replacement"));
    Ok(())
}
