//! What the archive holds beside ordinary files, through the real binary: kinds of zips, statuses,
//! rejects over several runs, settings, deletion of sources. Case numbers are those of the
//! project's list of inputs that broke other tools.

use std::io::{Cursor, Write as _};
use std::path::Path;
use std::process::Stdio;

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
fn gaps_are_reported_without_what_was_never_published() -> Result<()> {
    // DL-01
    let archive = Archive::empty()?;
    for day in ["20140122", "20140126", "20140129"] {
        archive.add_raw("events", &format!("{day}.export.CSV.zip"), b"")?;
    }
    let ended = archive.run(
        "convert",
        &[
            "--report-gaps",
            "--dataset",
            "events",
            "--start-date",
            "20140122",
            "--end-date",
            "20140126",
        ],
    )?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let reports: serde_json::Value = serde_json::from_str(&ended.stdout)?;
    let of = |key: &str| reports[0][key].as_u64();
    assert_eq!((of("present"), of("known_absent"), of("missing")), (Some(2), Some(3), Some(0)));
    let all = command("convert", archive.root())?
        .args(["--report-gaps", "--root"])
        .arg(archive.root())
        .output()?;
    let text = String::from_utf8_lossy(&all.stdout);
    assert!(
        text.contains("3 of 8 files, 3 never published (audited through 2025-12-31)"),
        "{text}"
    );
    assert!(text.contains("2 missing\n  20140127 to 20140128: 2 files"), "{text}");
    assert!(!archive.root().join("events/converted").exists());
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
fn rejects_are_those_of_the_files_as_they_are_now() -> Result<()> {
    let archive = Archive::empty()?;
    let day = |day: u32, bad: bool| {
        let member = format!("202006{day:02}.export.CSV");
        let text = if bad { events(200) + "garbage\n" } else { events(200) };
        archive.add_raw("events", &format!("{member}.zip"), &zip_of(&[(&member, text.as_bytes())])?)
    };
    let sources = || -> Result<Vec<Option<String>>> {
        let mut sources = texts(&archive.rejects("events")?, "source");
        sources.sort_unstable();
        Ok(sources)
    };
    for number in 1..=3 {
        day(number, true)?;
    }
    assert_eq!(archive.run("convert", &["--jobs", "3"])?.code, 0);
    let name = |day: u32| Some(format!("202006{day:02}.export.CSV.zip"));
    assert_eq!(sources()?, [name(1), name(2), name(3)]);
    // One segment for the process.
    assert_eq!(std::fs::read_dir(archive.root().join("events/catalog/rejects"))?.count(), 1);
    // Made again without rejects, and made again with the same.
    day(1, false)?;
    std::fs::remove_file(archive.root().join("events/converted/20200602.export.parquet"))?;
    assert_eq!(archive.run("convert", &[])?.summary()?.files.made, 2);
    assert_eq!(sources()?, [name(2), name(3)]);
    assert_eq!(archive.record("events", "20200601.export.parquet")?.rejects, None);
    // A file that fails for its rejects keeps examples of them.
    let strict = archive.run("convert", &["--strict"])?;
    assert_eq!((strict.code, strict.summary()?.files.failed), (3, 2), "{}", strict.stderr);
    assert_eq!(sources()?, [name(2), name(3)]);
    let failed = archive.record("events", "20200602.export.parquet")?;
    let counts = RecordCounts { records: 201, rows: 200, rejected: 1, blank: 0 };
    assert_eq!(failed.records, Some(counts));
    Ok(())
}

#[test]
fn a_killed_run_loses_no_reject_of_a_recorded_file() -> Result<()> {
    let archive = Archive::empty()?;
    for number in 0..400 {
        let member = format!("2020{:02}{:02}.export.CSV", 1 + number / 28, 1 + number % 28);
        if number / 28 >= 12 {
            break;
        }
        let text = events(200) + "garbage\n";
        archive.add_raw(
            "events",
            &format!("{member}.zip"),
            &zip_of(&[(&member, text.as_bytes())])?,
        )?;
    }
    for milliseconds in [40, 80, 160, 320, 640] {
        let mut child = command("convert", archive.root())?
            .arg("--root")
            .arg(archive.root())
            .stderr(Stdio::null())
            .spawn()?;
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        child.kill()?;
        child.wait()?;
    }
    let ended = archive.run("convert", &[])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let sources = texts(&archive.rejects("events")?, "source");
    let distinct: std::collections::BTreeSet<_> = sources.iter().collect();
    assert_eq!((sources.len(), distinct.len()), (12 * 28, 12 * 28));
    Ok(())
}

#[test]
fn only_the_columns_asked_for_are_built_and_a_lost_key_is_told() -> Result<()> {
    // RS-03
    let name = "20200601001500.gkg.csv";
    let zip = zip_of(&[(name, gkg(&[(7, "TAX")]).as_bytes())])?;
    let archive = converted("gkg-v2", &format!("{name}.zip"), &zip, &[])?;
    let settings = |columns: &str| {
        let toml = format!("[convert.datasets.gkg-v2]\ncolumns = [{columns}]\n");
        std::fs::write(archive.root().join("gdelt-mill.toml"), toml)
    };
    settings("'V1THEMES', 'GKGRECORDID'")?;
    let ended = archive.run("convert", &[])?;
    assert_eq!((ended.code, ended.summary()?.files.made), (0, 1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("V2DOCUMENTIDENTIFIER is left out of gkg-v2"),
        "{}",
        ended.stderr
    );
    let batch = archive.rows("gkg-v2/converted/20200601001500.gkg.parquet")?;
    let names: Vec<_> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["GKGRECORDID", "V1THEMES"]);
    assert_eq!(texts(&batch, "V1THEMES"), [Some("TAX".into())]);
    settings("'V1THEMES', 'GKGRECORDID', 'V2DOCUMENTIDENTIFIER'")?;
    let ended = archive.run("convert", &[])?;
    assert_eq!(ended.summary()?.files.made, 1);
    assert!(!ended.stderr.contains("left out"), "{}", ended.stderr);
    assert_eq!(archive.run("aggregate", &["--dataset", "gkg-v2"])?.code, 0);
    let day = archive.rows("gkg-v2/aggregated/day/20200601.gkg.parquet")?;
    assert_eq!((day.num_rows(), day.num_columns()), (1, 3));
    Ok(())
}

#[test]
fn codec_and_row_groups_are_settings_that_make_files_again() -> Result<()> {
    let name = "20200601.export.CSV";
    let zip = zip_of(&[(name, events(1_000).as_bytes())])?;
    let archive = converted("events", &format!("{name}.zip"), &zip, &[])?;
    let output = archive.root().join("events/converted/20200601.export.parquet");
    let of_default = std::fs::metadata(&output)?.len();
    for (flags, codec, groups) in [
        (&["--codec", "none", "--row-group-rows", "300"][..], "UNCOMPRESSED", 4),
        (&["--codec", "zstd:9"], "ZSTD", 1),
        (&["--codec", "snappy"], "SNAPPY", 1),
    ] {
        let ended = archive.run("convert", flags)?;
        assert_eq!(ended.summary()?.files.made, 1, "{}", ended.stderr);
        let file = io_budget::parquet::ParquetFile::open(
            &io_budget::Budget::private(),
            &output,
            io_budget::parquet::Want::Whole,
        )?;
        assert_eq!(file.metadata().num_row_groups(), groups, "{flags:?}");
        let found = format!("{:?}", file.metadata().row_group(0).column(0).compression());
        assert!(found.starts_with(codec), "{found}");
        assert_eq!(archive.run("convert", flags)?.summary()?.files.up_to_date, 1);
    }
    assert!(std::fs::metadata(&output)?.len() > of_default);
    let wrong = archive.run("convert", &["--codec", "gzip"])?;
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("`gzip` is no codec"), "{}", wrong.stderr);
    Ok(())
}

#[test]
fn sources_are_deleted_only_where_nothing_is_lost() -> Result<()> {
    // RS-14
    let archive = Archive::empty()?;
    let add = |day: u32, text: &str| {
        let member = format!("202006{day:02}.export.CSV");
        archive.add_raw("events", &format!("{member}.zip"), &zip_of(&[(&member, text.as_bytes())])?)
    };
    add(1, &events(200))?;
    add(2, &(events(200) + "garbage\n"))?;
    add(3, "")?;
    archive.add_raw("events", "20200604.export.CSV.zip", b"damaged")?;
    let target = archive.root().join("elsewhere.zip");
    std::fs::write(&target, zip_of(&[("20200605.export.CSV", events(3).as_bytes())])?)?;
    let link = archive.root().join("events/raw/20200605.export.CSV.zip");
    std::os::unix::fs::symlink(&target, &link)?;
    let raw = || -> Result<Vec<String>> {
        let listed = std::fs::read_dir(archive.root().join("events/raw"))?;
        let mut names: Vec<String> = listed
            .map(|entry| Ok(entry?.file_name().to_string_lossy()[6..8].to_owned()))
            .collect::<Result<_>>()?;
        names.sort_unstable();
        Ok(names)
    };
    let ended = archive.run("convert", &["--delete-source"])?;
    assert_eq!((ended.code, ended.summary()?.files.sources_deleted), (3, 1), "{}", ended.stderr);
    assert_eq!(raw()?, ["02", "03", "04", "05"]);
    for message in ["20200602.export.CSV.zip (1 rejected row)", "(no rows)", "is a symbolic link"] {
        assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
    }
    assert!(target.exists());
    assert_eq!(archive.rows("events/converted/20200601.export.parquet")?.num_rows(), 200);
    std::fs::remove_file(archive.root().join("events/raw/20200604.export.CSV.zip"))?;
    std::fs::remove_file(&link)?;
    // What is up to date already is deleted as well, once its losses are allowed by name.
    let flags = ["--delete-source", "--delete-despite", "rejects", "--delete-despite", "empty"];
    let ended = archive.run("convert", &flags)?;
    let files = ended.summary()?.files;
    assert_eq!((ended.code, files.made, files.sources_deleted), (0, 0, 2), "{}", ended.stderr);
    assert_eq!(raw()?, [""; 0]);
    let ended = archive.run("convert", &[])?;
    assert_eq!(ended.code, 0, "nothing is left to do: {}", ended.stderr);
    Ok(())
}

#[test]
fn sources_are_not_deleted_for_a_part_of_their_columns_or_a_lost_output() -> Result<()> {
    let name = "20200601.export.CSV";
    let zip = zip_of(&[(name, events(5).as_bytes())])?;
    let archive = converted("events", &format!("{name}.zip"), &zip, &[])?;
    std::fs::write(
        archive.root().join("gdelt-mill.toml"),
        "[convert.datasets.events]\ncolumns = ['GlobalEventID', 'Day']\n",
    )?;
    let ended = archive.run("convert", &["--delete-source"])?;
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("would lose 56 columns of events"), "{}", ended.stderr);
    let raw = archive.root().join("events/raw").join(format!("{name}.zip"));
    assert!(raw.exists());
    let despite = ["--delete-source", "--delete-despite", "dropped-columns"];
    assert_eq!(archive.run("convert", &despite)?.code, 0);
    assert!(!raw.exists());
    Ok(())
}

#[test]
fn yearly_and_monthly_events_stand_in_directories_of_their_own_if_asked_for() -> Result<()> {
    let archive = Archive::empty()?;
    let old = |id: &str| record(57, &[(0, id), (1, "20060102"), (3, "2006")]);
    for (name, member) in [("1979", "1979.csv"), ("200601", "200601.csv")] {
        let zip = zip_of(&[(member, old("1").as_bytes())])?;
        archive.add_raw("events", &format!("{name}.zip"), &zip)?;
    }
    let day = "20200601.export.CSV";
    archive.add_raw("events", &format!("{day}.zip"), &zip_of(&[(day, events(2).as_bytes())])?)?;
    assert_eq!(archive.run("convert", &[])?.code, 0);
    std::fs::write(archive.root().join("gdelt-mill.toml"), "[convert]\nhive = true\n")?;
    let ended = archive.run("convert", &[])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let files = ended.summary()?.files;
    assert_eq!((files.made, files.up_to_date), (2, 1));
    let month = "events/hive/file_year=2006/file_month=01/200601.parquet";
    let batch = archive.rows(month)?;
    assert_eq!(ints(&batch, "Year"), [Some(2006)]);
    assert!(archive.root().join("events/hive/file_year=1979/1979.parquet").exists());
    assert_eq!(archive.run("convert", &[])?.summary()?.files.up_to_date, 3);
    // The next stage reads each row once, whichever layout it was made in before.
    let cleaned = archive.run("clean", &["--dataset", "events"])?;
    assert_eq!(cleaned.code, 0, "{}", cleaned.stderr);
    assert_eq!(cleaned.summary()?.rows.read, 4);
    assert!(!cleaned.stderr.contains("lacks"), "{}", cleaned.stderr);
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
