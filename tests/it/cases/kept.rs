//! What stays of earlier runs and of raw files: rejects, settings, deletion of sources, the layout by
//! year and month.

use std::process::Stdio;

use anyhow::Result;
use catalog::ledger::RecordCounts;
use tests::{Archive, command, zip_of};

use super::{converted, events, gkg, ints, record, texts};

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
    settings("'GKGRECORDID', 'V1THEMES'")?;
    assert_eq!(archive.run("convert", &[])?.summary()?.files.up_to_date, 1);
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
    let dry = archive.run("convert", &[&flags[..], &["--dry-run"]].concat())?;
    assert_eq!((dry.code, dry.summary()?.files.sources_deleted), (0, 2), "{}", dry.stderr);
    assert_eq!(raw()?, ["02", "03"]);
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
    for (source, out) in [("converted", "a.parquet"), ("cleaned", "b.parquet")] {
        let out = archive.root().join(out).display().to_string();
        let flags = ["--dataset", "events", "--mode", "indexed", "-n", "4", "--seed", "1"];
        let flags = [&flags[..], &["--source", source, "--out", &out]].concat();
        let sampled = archive.run("sample", &flags)?;
        assert_eq!(sampled.code, 0, "{}", sampled.stderr);
        assert_eq!(sampled.summary()?.counts["population"], 4, "{source}");
    }
    Ok(())
}

#[test]
fn sources_are_deleted_only_where_their_outputs_are_recorded() -> Result<()> {
    let archive = Archive::empty()?;
    let raw = archive.root().join("20200601.export.CSV");
    std::fs::write(&raw, events(1))?;
    let run = |root: &[&str]| -> Result<i32> {
        let mut command = command("convert", archive.root())?;
        command.args(root).args(["--delete-source", "20200601.export.CSV", "--out", "a.parquet"]);
        Ok(command.output()?.status.code().unwrap_or(-1))
    };
    assert_eq!(run(&[])?, 2);
    assert_eq!(run(&["--root", "."])?, 0);
    assert!(raw.exists());
    Ok(())
}
