//! Cleaning as people run it: what it says of its runs, what it does with damaged Parquet, and what
//! it takes for GDELT's own.

use std::fs;

use anyhow::Result;
use arrow::array::{Array as _, AsArray as _};
use arrow::datatypes::{Date32Type, Int64Type};
use serde_json::Value;
use tests::Archive;

/// The bundled events, converted.
fn events() -> Result<Archive> {
    let archive = Archive::bundled()?;
    let ended = archive.run("convert", &["--dataset", "events"])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    Ok(archive)
}

fn settings(archive: &Archive, text: &str) -> Result<String> {
    let path = archive.root().join("settings.toml");
    fs::write(&path, text)?;
    Ok(path.display().to_string())
}

#[test]
fn the_audit_tells_the_last_run_or_all() -> Result<()> {
    let archive = events()?;
    let ended = archive.run("clean", &["--audit"])?;
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let first = archive.run("clean", &["--end-date", "1982-12-31"])?;
    let second = archive.run("clean", &[])?;
    assert_eq!((first.code, second.code), (0, 0), "{}", second.stderr);
    assert_eq!((first.summary()?.files.made, second.summary()?.files.made), (2, 4));

    let audit = |flag: &str| -> Result<Value> {
        let ended = archive.run("clean", &[flag, "--dataset", "events"])?;
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        Ok(serde_json::from_str::<Value>(&ended.stdout)?[0].clone())
    };
    let (last, all) = (audit("--audit")?, audit("--audit=all")?);
    assert_eq!((&last["files"], &all["files"]), (&4.into(), &6.into()));
    // In the daily file of 2013-04-01 every Actor2Code begins with a blank.
    assert_eq!(last["counts"]["padded values in Actor2Code"], 20);
    assert_eq!((&last["rows_read"], &last["rows_written"]), (&5_140.into(), &5_140.into()));
    assert_eq!(all["rows_read"], 5_361);
    Ok(())
}

#[test]
fn a_report_of_the_bundled_archive_changes_nothing() -> Result<()> {
    let archive = events()?;
    let before = archive.data()?;
    let flags = ["--dataset", "events", "--dry-run", "--report"];
    let ended = archive.run("clean", &flags)?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let summary = ended.summary()?;
    assert_eq!((summary.rows.read, summary.files.made), (5_361, 6));
    assert_eq!(summary.counts.get("event ids that stood in the file before"), None);
    for (name, count) in [
        ("text values with white space around them", 11),
        ("blank text values", 9),
        ("points at (0, 0) without an id", 80),
        ("points at (0, 0) with an id", 57),
    ] {
        assert_eq!(summary.counts.get(name), Some(&count), "{name} of {:?}", summary.counts);
    }
    assert_eq!(archive.data()?, before);
    Ok(())
}

#[test]
fn damaged_parquet_fails_by_name_and_the_rest_is_made() -> Result<()> {
    let archive = events()?;
    let converted = archive.root().join("events/converted");
    let whole = fs::read(converted.join("20151207.export.parquet"))?;
    let footer = whole.len() - 8;
    let mut huge = whole.clone();
    huge[footer..footer + 4].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
    let mut pages = whole.clone();
    pages[4..20_000].fill(0xa5);
    let mut thrift = whole.clone();
    let length = usize::try_from(u32::from_le_bytes(whole[footer..footer + 4].try_into()?))?;
    thrift[footer - length..footer].fill(0xff);
    // The addresses stand last; nothing but their page headers is read.
    let mut copied = whole.clone();
    copied[footer - length - 60_000..footer - length - 40_000].fill(0xa5);
    for (name, bytes) in [
        ("copied", &copied[..]),
        ("huge", &huge[..]),
        ("short", &whole[..whole.len() / 2]),
        ("pages", &pages[..]),
        ("thrift", &thrift[..]),
        ("html", &b"<html>404 Not Found</html>"[..]),
        ("empty", &b""[..]),
    ] {
        fs::write(converted.join("20151207.export.parquet"), bytes)?;
        let ended = archive.run("clean", &["--dataset", "events", "--force"])?;
        assert_eq!(ended.code, 3, "{name}: {}", ended.stderr);
        let summary = ended.summary()?;
        assert_eq!((summary.files.made, summary.files.failed), (5, 1), "{name}");
        let failure = &summary.failures[0];
        assert!(failure.file.ends_with("events/converted/20151207.export.parquet"), "{name}");
        assert!(!ended.stderr.contains("panicked"), "{name}: {}", ended.stderr);
        assert!(!archive.root().join("events/cleaned/20151207.export_cleaned.parquet").exists());
    }
    Ok(())
}

#[test]
fn every_step_works_on_real_events_and_later_stages_read_them() -> Result<()> {
    let archive = Archive::bundled()?;
    let settings = settings(
        &archive,
        "[clean.events-15min]\ntrim_strings = true\nblank_to_null = true\nevent_date = true\n\
         event_markers = 'drop'\nrequire = ['ActionGeo_Lat']\nlabels = ['EventCode']\n\
         narrow = ['AvgTone']\n",
    )?;
    let dataset = ["--dataset", "events-15min", "--config", &settings];
    for stage in ["convert", "clean", "aggregate"] {
        let ended = archive.run(stage, &dataset)?;
        assert_eq!(ended.code, 0, "{stage}: {}", ended.stderr);
    }
    let out = archive.root().join("sample.parquet").display().to_string();
    let flags =
        [&dataset[..], &["--mode", "indexed", "-n", "50", "--seed", "1", "--out", &out]].concat();
    let ended = archive.run("sample", &flags)?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let sample = tests::read_parquet(out.as_ref())?;
    assert_eq!(sample.num_rows(), 50);
    let column = |name: &str| sample.column_by_name(name).unwrap();
    assert_eq!(column("ActionGeo_Lat").null_count(), 0);
    let days = column("Day").as_primitive::<Int64Type>();
    let dates = column("EventDate").as_primitive::<Date32Type>();
    for (day, date) in days.iter().zip(dates.iter()) {
        let date = Date32Type::to_naive_date_opt(date.unwrap()).unwrap();
        assert_eq!(date.format("%Y%m%d").to_string(), day.unwrap().to_string());
    }
    let (codes, labels) = (column("EventCode").as_string::<i32>(), column("EventCode_Label"));
    for (code, label) in codes.iter().zip(labels.as_string::<i32>()) {
        assert_eq!(label, catalog::CodeTable::Event.label(code.unwrap()));
    }
    let enriched = archive.root().join("enriched.parquet").display().to_string();
    for stage in ["convert", "clean"] {
        assert_eq!(archive.run(stage, &["--dataset", "gkg-v2", "--dataset", "mentions"])?.code, 0);
    }
    let flags = ["--events", &out, "--gkg-version", "v2", "--out", &enriched];
    let ended = archive.run("crossref", &flags)?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    Ok(())
}

#[test]
fn cleaned_files_among_the_converted_are_told() -> Result<()> {
    let archive = events()?;
    assert_eq!(archive.run("clean", &["--dataset", "events"])?.code, 0);
    let events = archive.root().join("events");
    let copy = events.join("converted/20151208.export.parquet");
    fs::copy(events.join("cleaned/20151207.export_cleaned.parquet"), &copy)?;
    let warning = "made by gdelt-clean";
    let out = archive.root().join("sample.parquet").display().to_string();
    let draw = ["--dataset", "events", "--source", "converted", "--mode", "indexed", "-n", "5"];
    let ended = archive.run("sample", &[&draw[..], &["--seed", "1", "--out", &out]].concat())?;
    assert!(ended.stderr.contains(warning), "{}", ended.stderr);
    fs::remove_file(copy)?;
    fs::copy(
        events.join("cleaned/20151207.export_cleaned.parquet"),
        events.join("converted/20151208.export_cleaned.parquet"),
    )?;
    let ended = archive.run("clean", &["--dataset", "events"])?;
    assert!(ended.stderr.contains(warning), "{}", ended.stderr);
    Ok(())
}

#[test]
fn converted_files_that_were_deleted_are_not_missed() -> Result<()> {
    let archive = events()?;
    let ended = archive.run("clean", &["--dataset", "events", "--delete-source"])?;
    assert_eq!((ended.code, ended.summary()?.files.sources_deleted), (0, 6), "{}", ended.stderr);
    let ended = archive.run("clean", &["--dataset", "events"])?;
    assert_eq!((ended.code, ended.summary()?.files.made), (0, 0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("lacks"), "{}", ended.stderr);
    Ok(())
}

#[test]
fn a_flipped_bit_that_a_decoder_gives_up_on_fails_its_file_alone() -> Result<()> {
    let archive = events()?;
    let source = archive.root().join("events/converted/20200702.export.parquet");
    let settings = settings(&archive, "[clean.events]\ntrim_strings = true\n")?;
    let whole = fs::read(&source)?;
    for at in (4..whole.len() - 4_000).step_by(whole.len() / 12) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&source, &flipped)?;
        let ended =
            archive.run("clean", &["--dataset", "events", "--config", &settings, "--force"])?;
        assert!([0, 3].contains(&ended.code), "byte {at}: {} {}", ended.code, ended.stderr);
        assert!(ended.summary()?.files.made >= 5, "byte {at}: {}", ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "byte {at}: {}", ended.stderr);
    }
    Ok(())
}
