//! Rows and files that broke other tools, through the real binary. Case numbers are those of the
//! project's list of such inputs.

use anyhow::Result;
use arrow::array::{Array as _, AsArray as _};
use arrow::datatypes::Int64Type;
use tests::{Archive, zip_of};

const DAY: &str = "20200601.export.CSV";

/// A record of a daily events file, 58 fields: the id, then what `fields` puts in.
fn event(id: u32, fields: &[(usize, &str)]) -> String {
    let mut record = vec![String::new(); 58];
    record[0] = id.to_string();
    record[1] = String::from("20200601");
    record[57] = format!("http://ex.com/{id}");
    for (index, value) in fields {
        (*value).clone_into(&mut record[*index]);
    }
    record.join("\t") + "\n"
}

fn events(count: u32) -> String {
    (1..=count).map(|id| event(id, &[])).collect()
}

/// Converts one daily events file that holds `text`.
fn convert(text: &[u8], flags: &[&str]) -> Result<(Archive, tests::Ended)> {
    let archive = Archive::empty()?;
    archive.add_raw("events", &format!("{DAY}.zip"), &zip_of(&[(DAY, text)])?)?;
    let ended = archive.run("convert", flags)?;
    Ok((archive, ended))
}

const OUTPUT: &str = "events/converted/20200601.export.parquet";

#[test]
fn ragged_records_go_to_the_rejects_and_blank_lines_are_counted() -> Result<()> {
    // CV-03, CV-04, CV-05, CV-06, CV-07, CV-28, CV-33
    let long = event(9_002, &[]).replace('\n', "\tEXTRA\n");
    let broken = event(9_003, &[(6, "JOHN\nSMITH")]);
    let text = format!("{}\n{long}{broken}garbage\n{}", events(500), event(501, &[]).trim_end());
    let (archive, ended) = convert(text.as_bytes(), &[])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let rows = ended.summary()?.rows;
    assert_eq!((rows.read, rows.written, rows.rejected, rows.blank), (506, 501, 4, 1));
    assert_eq!(archive.rows(OUTPUT)?.num_rows(), 501);
    let rejects = archive.rejects("events")?;
    let lines: Vec<u64> = rejects
        .column_by_name("line")
        .unwrap()
        .as_primitive::<arrow::datatypes::UInt64Type>()
        .values()
        .to_vec();
    assert_eq!(lines, [502, 503, 504, 505]);
    let reasons: Vec<_> =
        rejects.column_by_name("reason").unwrap().as_string::<i32>().iter().collect();
    let few = Some("too few fields");
    assert_eq!(reasons, [Some("too many fields"), few, few, few]);
    let raw = rejects.column_by_name("raw").unwrap().as_binary::<i32>();
    assert_eq!(raw.value(0), long.trim_end().as_bytes());
    assert_eq!(raw.value(3), b"garbage");
    Ok(())
}

#[test]
fn too_many_rejects_fail_the_file_and_publish_nothing() -> Result<()> {
    let text = format!("{}garbage\n", events(50));
    for (flags, code) in [
        (&[][..], 3),
        (&["--strict"], 3),
        (&["--max-rejects", "0.02"], 0),
        (&["--max-rejects", "0.01"], 3),
    ] {
        let (archive, ended) = convert(text.as_bytes(), flags)?;
        assert_eq!(ended.code, code, "{flags:?} {}", ended.stderr);
        assert_eq!(archive.root().join(OUTPUT).exists(), code == 0, "{flags:?}");
        if code == 3 {
            let message = "1 of 51 records were rejected";
            assert!(ended.stderr.contains(message), "{flags:?} {}", ended.stderr);
            assert!(ended.stderr.contains("line 51, too few fields: garbage"), "{}", ended.stderr);
        }
    }
    Ok(())
}

#[test]
fn values_become_what_they_are() -> Result<()> {
    // CV-01, CV-02, CV-11, CV-12, CV-18, CV-19, CV-20, CV-26
    let odd = event(2, &[(26, "010"), (55, "-2960561"), (31, " 7"), (32, "1e3"), (33, "+4")]);
    let huge = event(3, &[(0, "99999999999999999999"), (6, "\"a")]);
    let mut text = b"\xef\xbb\xbf".to_vec();
    text.extend_from_slice(event(1, &[(6, "JO\0HN")]).as_bytes());
    text.extend_from_slice(odd.as_bytes());
    text.extend_from_slice(huge.as_bytes());
    text.extend_from_slice(
        &event(4, &[(6, "jos?")])
            .into_bytes()
            .iter()
            .map(|byte| if *byte == b'?' { 0xe9 } else { *byte })
            .collect::<Vec<_>>(),
    );
    let (archive, ended) = convert(&text, &[])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let batch = archive.rows(OUTPUT)?;
    let ids = batch.column(0).as_primitive::<Int64Type>();
    assert_eq!(ids.iter().collect::<Vec<_>>(), [Some(1), Some(2), None, Some(4)]);
    let text_of = |name: &str, row| {
        let column = batch.column_by_name(name).unwrap().as_string::<i32>();
        (!column.is_null(row)).then(|| column.value(row).to_owned())
    };
    assert_eq!(text_of("EventCode", 1).as_deref(), Some("010"));
    assert_eq!(text_of("ActionGeo_FeatureID", 1).as_deref(), Some("-2960561"));
    assert_eq!(text_of("Actor1Name", 0).as_deref(), Some("JO\0HN"));
    assert_eq!(text_of("Actor1Name", 2).as_deref(), Some("\"a"));
    assert_eq!(text_of("Actor1Name", 3).as_deref(), Some("jos\u{fffd}"));
    let numbers = ["NumMentions", "NumSources", "NumArticles"].map(|name| {
        let column = batch.column_by_name(name).unwrap().as_primitive::<Int64Type>();
        (!column.is_null(1)).then(|| column.value(1))
    });
    assert_eq!(numbers, [None, None, Some(4)]);
    let counts = ended.summary()?.counts;
    let number = "value is no number, null instead";
    assert_eq!(counts[&format!("GlobalEventID: {number}")], 1);
    assert_eq!(counts[&format!("NumMentions: {number}")], 1);
    assert_eq!(counts["Actor1Name: bytes are no UTF-8, U+FFFD instead"], 1);
    assert_eq!(archive.rejects("events")?.num_rows(), 4);
    Ok(())
}

#[test]
fn the_width_picks_the_schema_and_a_foreign_one_is_named() -> Result<()> {
    // CV-14
    let narrow: String =
        events(3).lines().map(|line| line.rsplit_once('\t').unwrap().0.to_owned() + "\n").collect();
    let (archive, ended) = convert(narrow.as_bytes(), &[])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let batch = archive.rows(OUTPUT)?;
    assert_eq!((batch.num_rows(), batch.num_columns()), (3, 58));
    assert_eq!(batch.column_by_name("SOURCEURL").unwrap().null_count(), 3);
    let wide = events(3).replace('\n', "\t\t\t\n");
    let (_, ended) = convert(wide.as_bytes(), &[])?;
    assert_eq!(ended.code, 3);
    let message = "records have 61 fields, events has 58 or 57; this is the width of events-15min";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
    Ok(())
}

#[test]
fn a_header_is_recognised_by_its_name() -> Result<()> {
    // CV-15
    let archive = Archive::empty()?;
    let header = "DATE\tNUMARTS\tCOUNTS\tTHEMES\tLOCATIONS\tPERSONS\tORGANIZATIONS\tTONE\t\
                  CAMEOEVENTIDS\tSOURCES\tSOURCEURLS\n";
    let row = "20140601\t1\t\tTAX_X\t\t\t\t1,2\t900000001,900000002\tex.com\thttp://ex.com/1\n";
    for (day, text) in [("20140601", format!("{header}{row}")), ("20140602", row.to_owned())] {
        let name = format!("{day}.gkg.csv");
        let zip = zip_of(&[(&name, text.as_bytes())])?;
        archive.add_raw("gkg-v1", &format!("{name}.zip"), &zip)?;
    }
    let ended = archive.run("convert", &[])?;
    assert_eq!((ended.code, ended.summary()?.rows.written), (0, 2), "{}", ended.stderr);
    Ok(())
}

#[test]
fn damaged_files_are_named_with_their_remedy_and_the_others_are_converted() -> Result<()> {
    // ZP-01, ZP-02, ZP-03, ZP-04, ZP-05, ZP-06, ZP-09, ZP-11, ZP-16
    let good = zip_of(&[("20200603.export.CSV", events(3).as_bytes())])?;
    let mut checksum = zip_of(&[("20200609.export.CSV", events(3).as_bytes())])?;
    let directory = checksum.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    checksum[14] ^= 0xff;
    checksum[directory + 16] ^= 0xff;
    let zeros = vec![0; 50_000_000];
    let files: [(&str, Vec<u8>, &str); 9] = [
        ("20200602", good[..good.len() / 2].to_vec(), "the zip is cut short"),
        ("20200604", b"<html>404".to_vec(), "not a zip file, it begins with `<html>404`"),
        ("20200605", Vec::new(), "the file has 0 bytes"),
        ("20200606", zip_of(&[])?, "the zip has no members"),
        ("20200607", good.clone(), "holds `20200603.export.CSV`, which does not belong"),
        (
            "20200608",
            zip_of(&[("20200608.export.CSV", b"a"), ("b", b"b")])?,
            "the zip has several members where one is expected",
        ),
        ("20200609", checksum, "the checksum is wrong"),
        ("20200610", zip_of(&[("../../20200610.export.CSV", b"a")])?, "does not belong"),
        (
            "20200611",
            zip_of(&[("20200611.export.CSV", &zeros)])?,
            "more than the 100 times allowed",
        ),
    ];
    let archive = Archive::empty()?;
    archive.add_raw("events", "20200603.export.CSV.zip", &good)?;
    let empty = zip_of(&[("20160516140000.mentions.CSV", b"")])?;
    archive.add_raw("mentions", "20160516140000.mentions.CSV.zip", &empty)?;
    for (day, bytes, _) in &files {
        archive.add_raw("events", &format!("{day}.export.CSV.zip"), bytes)?;
    }
    let ended = archive.run("convert", &[])?;
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let summary = ended.summary()?;
    assert_eq!((summary.files.made, summary.files.failed, summary.files.empty), (2, 9, 1));
    for (day, _, message) in &files {
        let failure = summary.failures.iter().find(|f| f.file.to_string_lossy().contains(day));
        let reason = &failure.expect(day).reason;
        assert!(reason.contains(message), "{day}: {reason}");
        assert!(reason.contains(": ") || reason.contains("to it"), "{day}: {reason}");
    }
    let outputs: Vec<_> = archive.data()?.into_keys().collect();
    assert_eq!(outputs.len(), 2, "{outputs:?}");
    let empty = archive.rows("mentions/converted/20160516140000.mentions.parquet")?;
    assert_eq!((empty.num_rows(), empty.num_columns()), (0, 16));
    assert!(!archive.root().join(".gdelt-mill-staging").exists());

    // What failed is tried again, what is done is not.
    let again = archive.run("convert", &[])?.summary()?;
    assert_eq!((again.files.up_to_date, again.files.failed), (2, 9));
    Ok(())
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_to_do() -> Result<()> {
    // RS-13
    let archive = Archive::empty()?;
    let nothing = archive.run("convert", &[])?;
    assert_eq!(nothing.code, 2);
    assert!(nothing.stderr.contains("no input matched"), "{}", nothing.stderr);
    assert!(nothing.stderr.contains("put the zips into"), "{}", nothing.stderr);
    let missing = archive.run("convert", &["--dataset", "gkg-v2"])?;
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("gkg-v2/raw does not exist"), "{}", missing.stderr);
    for (flags, message) in [
        (&["--dataset", "gkg"][..], "unknown dataset `gkg`"),
        (&["--nonsense"], "--nonsense"),
        (&["--max-reads", "0"], "--max-reads"),
        (&["--start-date", "2020-02-30"], "--start-date"),
        (&["--start-date", "2020-02-02", "--end-date", "2020-02-01"], "is after"),
        (&["--max-rejects", "2"], "convert.max_rejects"),
    ] {
        let ended = archive.run("convert", flags)?;
        assert_eq!(ended.code, 2, "{flags:?} {}", ended.stderr);
        assert!(ended.stderr.contains(message), "{flags:?} {}", ended.stderr);
    }
    Ok(())
}

#[test]
fn the_reduced_file_becomes_a_file_for_each_year() -> Result<()> {
    let archive = Archive::empty()?;
    let name = "GDELT.MASTERREDUCEDV2.1979-2013";
    let mut text = String::from(
        "Date\tSource\tTarget\tCAMEOCode\tNumEvents\tNumArts\tQuadClass\tGoldstein\tSourceGeoType\t\
         SourceGeoLat\tSourceGeoLong\tTargetGeoType\tTargetGeoLat\tTargetGeoLong\tActionGeoType\t\
         ActionGeoLat\tActionGeoLong\n",
    );
    for (date, code) in [("19790101", "043"), ("19791231", "010"), ("20130331", "190")] {
        text += &[date, "USA", "IRN", code, "3", "4", "1", "2.8"].join("\t");
        text += &("\t".repeat(9) + "\n");
    }
    archive.add_raw(
        "events-reduced",
        &format!("{name}.zip"),
        // The member of GDELT's own zip has no years in its name.
        &zip_of(&[("GDELT.MASTERREDUCEDV2.TXT", text.as_bytes())])?,
    )?;
    let ended = archive.run("convert", &[])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let first =
        archive.rows("events-reduced/converted/Year=1979/GDELT.MASTERREDUCEDV2.1979.parquet")?;
    assert_eq!((first.num_rows(), first.num_columns()), (2, 17));
    let codes = first.column_by_name("CAMEOCode").unwrap().as_string::<i32>();
    assert_eq!(codes.iter().collect::<Vec<_>>(), [Some("043"), Some("010")]);
    let last = "events-reduced/converted/Year=2013/GDELT.MASTERREDUCEDV2.2013.parquet";
    assert_eq!(archive.rows(last)?.num_rows(), 1);
    let again = archive.run("convert", &[])?.summary()?;
    assert_eq!((again.files.made, again.files.up_to_date), (0, 1));
    std::fs::remove_file(archive.root().join(last))?;
    assert_eq!(archive.run("convert", &[])?.summary()?.files.made, 1);
    assert_eq!(archive.rows(last)?.num_rows(), 1);
    Ok(())
}

#[test]
fn gaps_are_told_without_opening_a_file() -> Result<()> {
    // DL-01, DL-06: days that were never published are no gaps, other files are no events.
    let archive = Archive::empty()?;
    for name in ["20140122.export.CSV.zip", "20140126.export.CSV.zip", "2020.csv"] {
        archive.add_raw("events", name, b"no zip at all")?;
    }
    archive.add_raw("mentions", "20160516133000.mentions.CSV.zip", b"")?;
    archive.add_raw("mentions", "20160516143000.mentions.CSV.zip", b"")?;
    let ended = archive.run("convert", &["--report-gaps"])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let told: serde_json::Value = serde_json::from_str(&ended.stdout)?;
    let of = |index: usize, key: &str| told[index][key].clone();
    assert_eq!((of(0, "dataset"), of(0, "expected")), ("events".into(), 5.into()));
    assert_eq!((of(0, "present"), of(0, "known_absent")), (2.into(), 3.into()));
    assert_eq!((of(0, "missing"), of(0, "gaps")), (0.into(), serde_json::json!([])));
    // 14:00 and 14:15 were published empty, 13:45 is missing.
    assert_eq!((of(1, "dataset"), of(1, "empty_upstream")), ("mentions".into(), 2.into()));
    let gap =
        serde_json::json!([{"first": "20160516134500", "last": "20160516134500", "files": 1}]);
    assert_eq!(of(1, "gaps"), gap);
    // Nothing was made, not even a directory.
    assert!(!archive.root().join("events/converted").exists());
    assert!(!archive.root().join("events/catalog").exists());
    let none = archive.run("convert", &["--report-gaps", "--dataset", "gkg-v2"])?;
    assert_eq!(none.code, 2, "{}", none.stderr);
    Ok(())
}
