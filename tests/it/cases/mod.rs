//! What the archive holds beside ordinary files, through the real binary: kinds of zips, statuses,
//! records and values. Case numbers are those of the
//! project's list of inputs that broke other tools.

mod kept;

use std::io::{Cursor, Write as _};
use std::path::Path;

use anyhow::Result;
use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use catalog::ledger::{Damage, Outcome, RecordCounts};
use tests::{Archive, command, zip_of};
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

/// A record: the fields by place, all others empty.
fn record(width: usize, fields: &[(usize, &str)]) -> String {
    let mut record = vec![""; width];
    for (place, value) in fields {
        record[*place] = value;
    }
    record.join("\t") + "\n"
}

fn event(id: u32) -> String {
    let (id, url) = ((900_000_000 + id).to_string(), format!("http://ex.com/{id}"));
    record(58, &[(0, &id), (1, "20200601"), (56, "20200601"), (57, &url)])
}

fn events(count: u32) -> String {
    (0..count).map(event).collect()
}

fn gkg(fields: &[(usize, &str)]) -> String {
    let base = [(0, "20200601001500-1"), (1, "20200601001500"), (4, "http://ex.com/1")];
    record(27, &[&base, fields].concat())
}

fn texts(batch: &RecordBatch, column: &str) -> Vec<Option<String>> {
    let column = batch.column_by_name(column).unwrap().as_string::<i32>();
    column.iter().map(|value| value.map(str::to_owned)).collect()
}

fn ints(batch: &RecordBatch, column: &str) -> Vec<Option<i64>> {
    batch.column_by_name(column).unwrap().as_primitive::<Int64Type>().iter().collect()
}

/// An archive with one raw file, converted with success.
fn converted(dataset: &str, name: &str, bytes: &[u8], flags: &[&str]) -> Result<Archive> {
    let archive = Archive::empty()?;
    archive.add_raw(dataset, name, bytes)?;
    let ended = archive.run("convert", flags)?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    Ok(archive)
}

fn zip_with(name: &str, text: &[u8], options: SimpleFileOptions) -> Result<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file(name, options)?;
    writer.write_all(text)?;
    Ok(writer.finish()?.into_inner())
}

/// A zip whose sizes stand behind the data.
fn zip_stream(name: &str, text: &[u8]) -> Result<Vec<u8>> {
    let mut writer = ZipWriter::new_stream(Vec::new());
    writer.start_file(name, SimpleFileOptions::default())?;
    writer.write_all(text)?;
    Ok(writer.finish()?.into_inner())
}

/// Changes bytes of both headers of a zip's member: the local one, which begins the file, and that
/// of the directory.
fn patched(mut zip: Vec<u8>, local: usize, central: usize, value: u8) -> Vec<u8> {
    let directory = zip.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    zip[local] = value;
    zip[directory + central] = value;
    zip
}

#[test]
fn zips_of_every_kind_are_read() -> Result<()> {
    // ZP-12, ZP-13
    let name = "20200610.export.CSV";
    let text = events(10);
    let options = SimpleFileOptions::default();
    let stored = options.compression_method(CompressionMethod::Stored);
    for zip in [
        zip_of(&[(name, text.as_bytes())])?,
        zip_with(name, text.as_bytes(), stored)?,
        zip_with(name, text.as_bytes(), options.large_file(true))?,
        zip_stream(name, text.as_bytes())?,
    ] {
        let archive = converted("events", &format!("{name}.zip"), &zip, &[])?;
        let batch = archive.rows("events/converted/20200610.export.parquet")?;
        assert_eq!(batch.num_rows(), 10);
        assert_eq!(ints(&batch, "GlobalEventID")[9], Some(900_000_009));
    }
    for (raw, bytes) in [
        ("20200610.EXPORT.csv.ZIP", zip_of(&[("20200610.Export.Csv", text.as_bytes())])?),
        ("20200610.export.CSV", text.clone().into_bytes()),
        ("20200610.export.csv", text.clone().into_bytes()),
    ] {
        let archive = converted("events", raw, &bytes, &[])?;
        assert_eq!(archive.rows("events/converted/20200610.export.parquet")?.num_rows(), 10);
    }
    let mentions = "20160516140000.mentions.CSV";
    let empty = zip_stream(mentions, b"")?;
    let archive = converted("mentions", &format!("{mentions}.zip"), &empty, &[])?;
    let batch = archive.rows("mentions/converted/20160516140000.mentions.parquet")?;
    assert_eq!((batch.num_rows(), batch.num_columns()), (0, 16));
    let outcome = archive.record("mentions", "20160516140000.mentions.parquet")?.outcome;
    assert_eq!(outcome, Outcome::Empty);
    Ok(())
}

#[test]
fn every_input_has_a_status_in_ledger_and_summary() -> Result<()> {
    // ZP-01, ZP-02, ZP-03, ZP-05, ZP-06, ZP-09, ZP-16, ZP-17
    let archive = Archive::empty()?;
    let member = |day: u32| format!("202006{day:02}.export.CSV");
    let good = |day| zip_of(&[(&member(day), events(10).as_bytes())]);
    let bad_checksum = {
        let zip = good(6)?;
        let value = zip[14] ^ 0xff;
        patched(zip, 14, 16, value)
    };
    let long = vec![b'\n'; 50_000_000];
    let files = [
        (1, good(1)?, None),
        (2, good(2)?[..120].to_vec(), Some(Damage::Truncated)),
        (3, b"<html><body>404 Not Found</body></html>".to_vec(), Some(Damage::NotAZip)),
        (4, Vec::new(), Some(Damage::NoBytes)),
        (5, zip_of(&[])?, Some(Damage::NoMember)),
        (6, bad_checksum, Some(Damage::Checksum)),
        (7, good(8)?, Some(Damage::ForeignMember)),
        (
            8,
            zip_of(&[(&member(8), events(1).as_bytes()), ("other", b"")])?,
            Some(Damage::SeveralMembers),
        ),
        (9, patched(good(9)?, 6, 8, 1), Some(Damage::Encrypted)),
        (10, patched(good(10)?, 8, 10, 12), Some(Damage::Method)),
        (11, patched(good(11)?, 22, 24, 7), Some(Damage::Data)),
    ];
    for (day, bytes, _) in &files {
        archive.add_raw("events", &format!("{}.zip", member(*day)), bytes)?;
    }
    archive.add_raw("events", &format!("{}.zip", member(12)), &zip_of(&[(&member(12), &long)])?)?;
    // The answer of a server to a request for a day that was never published.
    archive.add_raw("events", "20140124.export.CSV.zip", b"<html>404")?;
    let ended = archive.run("convert", &[])?;
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let summary = ended.summary()?;
    let counts = &summary.files;
    assert_eq!(counts.made, 1, "{}", ended.stderr);
    let unmade = (counts.failed, counts.damaged, counts.too_large, counts.known_absent);
    assert_eq!(unmade, (11, 10, 1, 1));
    for (day, _, damage) in &files {
        let outcome = archive.record("events", &format!("202006{day:02}.export.parquet"))?.outcome;
        let kind = match &outcome {
            Outcome::Damaged { kind, .. } => Some(*kind),
            _ => None,
        };
        assert_eq!(kind, *damage, "{day}: {outcome:?}");
        let told = summary.failures.iter().find(|it| it.file.ends_with(member(*day) + ".zip"));
        assert_eq!(told.and_then(|failure| failure.damage), *damage, "{day}");
    }
    let too_large = archive.record("events", "20200612.export.parquet")?.outcome;
    assert_eq!(too_large.name(), "too-large");
    let absent = archive.record("events", "20140124.export.parquet")?.outcome;
    assert_eq!(absent.name(), "known-absent", "{absent:?}");
    assert!(ended.stderr.contains("such as"), "{}", ended.stderr);
    let html = summary.failures.iter().find(|it| it.damage == Some(Damage::NotAZip)).unwrap();
    assert!(html.reason.contains("<html><body>404"), "{}", html.reason);
    assert_eq!(archive.data()?.len(), 1);

    // Who trusts it can have it.
    std::fs::write(archive.root().join("gdelt-mill.toml"), "[convert]\nmax_expansion = 10000\n")?;
    let day = ["--start-date", "20200612"];
    let trusted = archive.run("convert", &day)?;
    assert_eq!(trusted.code, 0, "{}", trusted.stderr);
    let rows = trusted.summary()?.rows;
    assert_eq!((rows.read, rows.written, rows.blank), (50_000_000, 0, 50_000_000));
    std::fs::write(
        archive.root().join("gdelt-mill.toml"),
        "[convert]\nmax_expansion = 10000\nmax_member_bytes = 49999999\n",
    )?;
    let refused = archive.run("convert", &["--start-date", "20200612", "--force"])?;
    assert!(refused.stderr.contains("more than the 49999999 allowed"), "{}", refused.stderr);
    Ok(())
}

#[test]
fn members_of_one_name_are_several_and_a_zip_begins_where_its_file_does() -> Result<()> {
    let name = |day: u32| format!("2020060{day}.export.CSV");
    let two = zip_of(&[(&name(1), events(5).as_bytes()), (&name(9), events(1).as_bytes())])?;
    let mut alike = two.clone();
    while let Some(at) = alike.windows(8).position(|bytes| bytes == b"20200609") {
        alike[at..at + 8].copy_from_slice(b"20200601");
    }
    let one = zip_of(&[(&name(2), events(5).as_bytes())])?;
    let joined = [one.clone(), one].concat();
    let archive = Archive::empty()?;
    for (day, bytes) in [(1, &alike[..]), (2, &joined), (3, b"")] {
        let zip = if day == 3 { "" } else { ".zip" };
        archive.add_raw("events", &format!("{}{zip}", name(day)), bytes)?;
    }
    let raw = archive.root().join("events/raw");
    std::os::unix::fs::symlink("/does/not/exist", raw.join("20200604.export.CSV.zip"))?;
    std::os::unix::fs::symlink("/dev/null", raw.join("20200605.export.CSV.zip"))?;
    let ended = archive.run("convert", &["--delete-source", "--delete-despite", "empty"])?;
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let summary = ended.summary()?;
    let mut failures: Vec<_> = summary.failures.iter().map(|failure| failure.damage).collect();
    failures.sort_by_key(|damage| format!("{damage:?}"));
    let expected = [None, None, Some(Damage::Directory), Some(Damage::NoBytes)];
    assert_eq!(failures, [&expected[..], &[Some(Damage::SeveralMembers)]].concat());
    assert!(ended.stderr.contains("a link to a file that is not there"), "{}", ended.stderr);
    assert!(ended.stderr.contains("it is no regular file"), "{}", ended.stderr);
    assert_eq!((summary.files.made, summary.files.sources_deleted), (0, 0));
    assert_eq!(std::fs::read_dir(raw)?.count(), 5);
    Ok(())
}

#[test]
fn records_are_rows_rejects_and_blank_lines() -> Result<()> {
    // CV-07, CV-32: counted from the lines of the text and from the rows written.
    let text = format!("{}\n\nshort\n{}", events(300), event(7).trim_end());
    let zip = zip_of(&[("20200601.export.CSV", text.as_bytes())])?;
    let archive = converted("events", "20200601.export.CSV.zip", &zip, &[])?;
    let record = archive.record("events", "20200601.export.parquet")?;
    let expected = RecordCounts { records: 304, rows: 301, rejected: 1, blank: 2 };
    assert_eq!((record.records, record.rows), (Some(expected), 301));
    assert_eq!(record.counts["rejected, too few fields"], 1);
    assert_eq!(text.matches('\n').count() + 1, 304);
    let rejects = archive.rejects("events")?;
    let (segment, rows) = (record.rejects.unwrap(), rejects.num_rows());
    assert!(archive.root().join(format!("events/catalog/rejects/{segment}.parquet")).exists());
    assert_eq!(rows, 1);
    let offsets = rejects.column_by_name("byte_offset").unwrap();
    let offset = offsets.as_primitive::<arrow::datatypes::UInt64Type>().value(0);
    assert_eq!(&text.as_bytes()[usize::try_from(offset)?..][..5], b"short");
    Ok(())
}

#[test]
fn fields_keep_what_other_readers_lose() -> Result<()> {
    // CV-08, CV-24: trailing empty fields, a field of 200,000 bytes.
    let long = "wc:1,".repeat(40_000);
    let text = gkg(&[]) + &gkg(&[(17, &long), (26, "<PAGE_TITLE>\"a")]) + &gkg(&[(26, "b\"")]);
    let name = "20200601001500.gkg.csv";
    let zip = zip_of(&[(name, text.as_bytes())])?;
    let archive = converted("gkg-v2", &format!("{name}.zip"), &zip, &[])?;
    let batch = archive.rows("gkg-v2/converted/20200601001500.gkg.parquet")?;
    assert_eq!((batch.num_rows(), batch.num_columns()), (3, 27));
    assert_eq!(texts(&batch, "V2GCAM"), [None, Some(long), None]);
    let xml = texts(&batch, "V2EXTRASXML");
    assert_eq!(xml, [None, Some("<PAGE_TITLE>\"a".into()), Some("b\"".into())]);
    assert_eq!(ints(&batch, "V2.1DATE")[0], Some(20_200_601_001_500));

    // CV-16, CV-25: sixteen columns, a fractional tone.
    let mention = |id: &str, tone: &str, info: &str| {
        let url = "http://ex.com/1";
        record(16, &[(0, id), (3, "1"), (5, url), (13, tone), (14, info)])
    };
    let info = "srclc:spa;eng:Moses 2.1.1";
    let text = mention("1", "-3.25732899022801", "") + &mention("2", "-1.5", info);
    let name = "20200601001500.mentions.CSV";
    let zip = zip_of(&[(name, text.as_bytes())])?;
    let archive = converted("mentions", &format!("{name}.zip"), &zip, &[])?;
    let batch = archive.rows("mentions/converted/20200601001500.mentions.parquet")?;
    assert_eq!(ints(&batch, "GLOBALEVENTID"), [Some(1), Some(2)]);
    assert!(texts(&batch, "MentionIdentifier").iter().flatten().all(|it| it.starts_with("http")));
    let tones = batch.column_by_name("MentionDocTone").unwrap().as_primitive::<Float64Type>();
    assert_eq!(tones.values(), &[-3.257_328_990_228_01, -1.5]);
    assert_eq!(texts(&batch, "MentionDocTranslationInfo"), [None, Some(info.into())]);

    // CV-17, CV-23, CV-30: DATEADDED blank, of 8 and of 14 digits; bytes that are no UTF-8.
    let mut text = record(58, &[(0, "1")]).into_bytes();
    text.extend_from_slice(b"2\t20130901\t\t\t\t\t\xff");
    text.extend_from_slice(&[b'\t'; 51]);
    text.push(b'\n');
    text.extend_from_slice(record(58, &[(0, "3"), (56, "20130901")]).as_bytes());
    let zip = zip_of(&[("20130901.export.CSV", &text)])?;
    let archive = converted("events", "20130901.export.CSV.zip", &zip, &[])?;
    let batch = archive.rows("events/converted/20130901.export.parquet")?;
    assert_eq!(ints(&batch, "DATEADDED"), [None, None, Some(20_130_901)]);
    assert_eq!(texts(&batch, "Actor1Name"), [None, Some("\u{fffd}".into()), None]);
    let slot = record(61, &[(0, "1"), (59, "20200102001500")]);
    let name = "20200102001500.export.CSV";
    let zip = zip_of(&[(name, slot.as_bytes())])?;
    let archive = converted("events-15min", &format!("{name}.zip"), &zip, &[])?;
    let batch = archive.rows("events-15min/converted/20200102001500.export.parquet")?;
    assert_eq!(ints(&batch, "DATEADDED"), [Some(20_200_102_001_500)]);
    Ok(())
}

#[test]
fn any_bytes_give_a_result_or_a_reason() -> Result<()> {
    // CV-34
    let archive = Archive::empty()?;
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    for day in 1..=30 {
        let bytes: Vec<u8> = (0..4_000)
            .map(|_| match random() % 4 {
                0 => b'\t',
                1 if day % 2 == 0 => b'\n',
                _ => random(),
            })
            .collect();
        let name = format!("202004{day:02}.export.CSV");
        archive.add_raw("events", &name, &bytes)?;
        archive.add_raw("events", &format!("202005{day:02}.export.CSV.zip"), &bytes)?;
        let mut zip = zip_of(&[(&format!("202006{day:02}.export.CSV"), events(20).as_bytes())])?;
        for _ in 0..3 {
            let at = (usize::from(random()) << 8 | usize::from(random())) % zip.len();
            zip[at] = random();
        }
        archive.add_raw("events", &format!("202006{day:02}.export.CSV.zip"), &zip)?;
    }
    let ended = archive.run("convert", &[])?;
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let files = ended.summary()?.files;
    assert_eq!(files.made + files.failed, 90);
    assert!(!ended.stderr.contains("panicked") && !ended.stderr.contains("internal error"));
    Ok(())
}

#[test]
fn a_download_that_was_cut_later_is_noticed() -> Result<()> {
    // DL-03, RS-02
    let name = "20200601.export.CSV";
    let zip = zip_of(&[(name, events(50).as_bytes())])?;
    let archive = converted("events", &format!("{name}.zip"), &zip, &[])?;
    archive.add_raw("events", &format!("{name}.zip"), &zip[..zip.len() / 2])?;
    let ended = archive.run("convert", &[])?;
    assert_eq!((ended.code, ended.summary()?.files.damaged), (3, 1), "{}", ended.stderr);
    // What was made of the whole file stays.
    assert_eq!(archive.rows("events/converted/20200601.export.parquet")?.num_rows(), 50);
    Ok(())
}

#[test]
fn raw_files_are_checked_against_the_lists_of_gdelt() -> Result<()> {
    // DL-03
    let archive = Archive::empty()?;
    for (day, bytes) in [(1, "abc"), (2, "abX"), (3, "ab"), (4, "abc"), (5, "abc")] {
        archive.add_raw("events", &format!("2020060{day}.export.CSV.zip"), bytes.as_bytes())?;
    }
    let sum = "900150983cd24fb0d6963f7d28e17f72";
    let list = archive.root().join("list.txt");
    let lines = (1..=3).map(|day| format!("3 {sum} http://x/y/2020060{day}.export.CSV.zip\n"));
    std::fs::write(&list, lines.collect::<String>() + "no line of a list\n")?;
    let sizes = archive.root().join("sizes.txt");
    std::fs::write(&sizes, "3 20200604.export.CSV.zip\n9 20200609.export.CSV.zip\n")?;
    let (list, sizes) = (list.to_string_lossy(), sizes.to_string_lossy());
    let ended = archive.run("convert", &["--verify", &list, "--verify", &sizes])?;
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout)?;
    let counts = ["right", "right_by_size", "not_listed"].map(|key| report[key].as_u64());
    assert_eq!(counts, [Some(1), Some(1), Some(1)]);
    let reason = |index: usize| report["wrong"][index]["reason"].as_str().unwrap();
    assert!(reason(0).starts_with("the MD5 sum is ") && reason(0).contains(sum), "{}", reason(0));
    assert_eq!(reason(1), "2 bytes, the list says 3: fetch it again");
    assert_eq!(report["wrong"].as_array().map(Vec::len), Some(2));
    assert!(!archive.root().join("events/converted").exists());
    let good = archive.run("convert", &["--verify", &list, "--end-date", "20200601"])?;
    assert_eq!(good.code, 0, "{}", good.stderr);
    let other = archive.root().join("events/raw/20200601.export.CSV.zip");
    let none = archive.run("convert", &["--verify", &other.to_string_lossy()])?;
    assert_eq!(none.code, 2, "{}", none.stderr);
    assert!(none.stderr.contains("is no list of GDELT's files"), "{}", none.stderr);
    Ok(())
}

#[test]
fn the_time_zone_changes_nothing() -> Result<()> {
    // DL-05
    let mut made = Vec::new();
    for zone in ["UTC", "America/New_York", "Asia/Kolkata"] {
        let archive = Archive::empty()?;
        for slot in ["20200308233000", "20200309000000"] {
            let name = format!("{slot}.mentions.CSV");
            let text = record(16, &[(0, "1"), (2, slot)]);
            archive.add_raw(
                "mentions",
                &format!("{name}.zip"),
                &zip_of(&[(&name, text.as_bytes())])?,
            )?;
        }
        for stage in ["convert", "aggregate"] {
            let mut command = command(stage, archive.root())?;
            let ended = command.env("TZ", zone).arg("--root").arg(archive.root()).output()?;
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        }
        made.push(archive.data()?);
    }
    let days = "mentions/aggregated/day";
    assert!(made[0].contains_key(&Path::new(days).join("20200308.mentions.parquet")));
    assert!(made[0].contains_key(&Path::new(days).join("20200309.mentions.parquet")));
    assert!(made[0] == made[1] && made[1] == made[2]);
    Ok(())
}

#[test]
fn files_of_other_kinds_are_named_and_left_out() -> Result<()> {
    // DL-06, RS-05
    let archive = Archive::empty()?;
    let day = "20200601.export.CSV";
    archive.add_raw("events", &format!("{day}.zip"), &zip_of(&[(day, events(1).as_bytes())])?)?;
    for other in
        ["GDELT.MASTERREDUCEDV2.1979-2013.zip", "2020.csv", ".20200602.export.CSV.zip.part"]
    {
        archive.add_raw("events", other, b"x")?;
    }
    let left = archive.root().join("events/converted/20200602.export.parquet.tmp");
    std::fs::create_dir_all(left.parent().unwrap())?;
    std::fs::write(&left, b"")?;
    let ended = archive.run("convert", &[])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let files = ended.summary()?.files;
    assert_eq!((files.made, files.ignored), (1, 3));
    let message = "3 files are not named like files of events and are left out: \
                   .20200602.export.CSV.zip.part, 2020.csv, GDELT.MASTERREDUCEDV2.1979-2013.zip";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
    Ok(())
}

#[test]
fn two_inputs_of_one_output_stop_the_run_before_anything_is_written() -> Result<()> {
    // ZP-06
    let archive = Archive::empty()?;
    let day = "20200601.export.CSV";
    archive.add_raw("events", &format!("{day}.zip"), &zip_of(&[(day, events(1).as_bytes())])?)?;
    archive.add_raw("events", "20200601.export.csv", events(2).as_bytes())?;
    archive.add_raw("events", "20200602.export.csv", events(2).as_bytes())?;
    let ended = archive.run("convert", &[])?;
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("would both become"), "{}", ended.stderr);
    let made: Vec<_> = std::fs::read_dir(archive.root().join("events"))?.collect();
    assert_eq!(made.len(), 1, "only raw: {made:?}");
    Ok(())
}

#[test]
fn records_longer_than_any_of_gdelt_are_rejected_and_others_kept() -> Result<()> {
    let name = "20200601001500.gkg.csv";
    let field = "x".repeat(50_000_000);
    let mut text = gkg(&[(17, &field)]);
    text += &"y".repeat(70_000_000);
    text += "\n";
    for _ in 0..200 {
        text += &gkg(&[(7, "TAX")]);
    }
    let archive = Archive::empty()?;
    archive.add_raw("gkg-v2", name, text.as_bytes())?;
    let ended = archive.run("convert", &[])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let batch = archive.rows("gkg-v2/converted/20200601001500.gkg.parquet")?;
    assert_eq!(batch.num_rows(), 201);
    let gcam = batch.column_by_name("V2GCAM").unwrap().as_string::<i32>();
    assert_eq!(gcam.value(0).len(), 50_000_000);
    assert_eq!(ended.summary()?.counts["rejected, longer than 64 MiB"], 1);
    let rejects = archive.rejects("gkg-v2")?;
    assert_eq!(rejects.column_by_name("raw").unwrap().as_binary::<i32>().value(0).len(), 64 << 10);
    Ok(())
}

#[test]
fn a_dry_run_and_help_leave_the_tree_as_it_is() -> Result<()> {
    // RS-12
    let archive = Archive::bundled()?;
    assert_eq!(archive.run("convert", &["--dataset", "events"])?.code, 0);
    let tree = || {
        let mut names = Vec::new();
        let mut left = vec![archive.root().to_owned()];
        while let Some(directory) = left.pop() {
            for entry in std::fs::read_dir(directory)? {
                let entry = entry?;
                let metadata = entry.metadata()?;
                if metadata.is_dir() {
                    left.push(entry.path());
                }
                names.push((entry.path(), metadata.len(), metadata.modified()?));
            }
        }
        names.sort_unstable();
        Ok::<_, anyhow::Error>(names)
    };
    let before = tree()?;
    for flags in [&["--dry-run"][..], &["--dry-run", "--strict", "--delete-source"], &["--help"]] {
        assert_eq!(archive.run("convert", flags)?.code, 0, "{flags:?}");
    }
    assert!(tree()? == before);
    Ok(())
}
