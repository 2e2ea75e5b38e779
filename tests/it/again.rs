//! A second run does nothing; killed and interrupted runs end with the same bytes as undisturbed
//! ones; dry runs change nothing.

use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use tests::{Archive, command};

const CHAIN: [&str; 3] = ["convert", "clean", "aggregate"];

fn run_chain(archive: &Archive) -> Result<()> {
    for stage in CHAIN {
        let ended = archive.run(stage, &[])?;
        assert_eq!(ended.code, 0, "{stage}: {}", ended.stderr);
    }
    Ok(())
}

#[test]
fn a_second_run_does_nothing_and_says_so() -> Result<()> {
    let archive = Archive::bundled()?;
    run_chain(&archive)?;
    let before = archive.data()?;
    for stage in CHAIN {
        let ended = archive.run(stage, &[])?;
        assert_eq!(ended.code, 0, "{stage}: {}", ended.stderr);
        let files = ended.summary()?.files;
        assert_eq!((files.made, files.failed), (0, 0), "{stage}");
        assert_eq!(files.up_to_date, files.planned, "{stage}");
        assert!(ended.stderr.contains("nothing left to do"), "{stage}: {}", ended.stderr);
    }
    assert_eq!(archive.data()?, before);
    Ok(())
}

#[test]
fn nothing_but_parquet_stands_in_a_data_directory() -> Result<()> {
    // RS-07: some readers take every file in a directory.
    let archive = Archive::bundled()?;
    run_chain(&archive)?;
    let mut files = 0;
    for dataset in ["events", "events-15min", "gkg-v2", "mentions"] {
        for directory in ["converted", "cleaned", "aggregated/day"] {
            let directory = archive.root().join(dataset).join(directory);
            for entry in std::fs::read_dir(&directory).into_iter().flatten() {
                let name = entry?.file_name().into_string().unwrap();
                assert!(name.ends_with(".parquet") && !name.starts_with('.'), "{name}");
                files += 1;
            }
        }
    }
    assert!(files > 20, "{files}");
    Ok(())
}

#[test]
fn the_number_of_workers_changes_no_byte() -> Result<()> {
    let (one, seven) = (Archive::bundled()?, Archive::bundled()?);
    for (archive, jobs) in [(&one, "1"), (&seven, "7")] {
        for stage in CHAIN {
            assert_eq!(archive.run(stage, &["--jobs", jobs])?.code, 0, "{stage}");
        }
    }
    assert_eq!(one.data()?, seven.data()?);
    Ok(())
}

#[test]
fn what_is_lost_or_changed_is_made_again() -> Result<()> {
    // RS-01, RS-02
    let archive = Archive::bundled()?;
    run_chain(&archive)?;
    let before = archive.data()?;
    let root = archive.root();
    std::fs::remove_file(root.join("events/converted/1979.parquet"))?;
    std::fs::write(root.join("gkg-v1/converted/20130401.gkg.parquet"), b"PAR1")?;
    let ended = archive.run("convert", &["--verbose"])?;
    assert_eq!(ended.summary()?.files.made, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("1979.parquet: the output is gone"), "{}", ended.stderr);
    assert!(ended.stderr.contains("not as it was made"), "{}", ended.stderr);
    assert_eq!(archive.data()?, before);

    // A corrected zip under the same name reaches the day file.
    let slot = "20200318104500.export.CSV.zip";
    let other = std::fs::read(root.join("events-15min/raw/20190121220000.export.CSV.zip"))?;
    let mut text = Vec::new();
    std::io::copy(&mut zip::ZipArchive::new(std::io::Cursor::new(other))?.by_index(0)?, &mut text)?;
    let corrected = tests::zip_of(&[("20200318104500.export.CSV", &text)])?;
    archive.add_raw("events-15min", slot, &corrected)?;
    run_chain(&archive)?;
    let day = archive.rows("events-15min/aggregated/day/20200318.export.parquet")?;
    assert_eq!(day.num_rows(), 1_629);
    Ok(())
}

#[test]
fn a_converted_file_that_vanished_is_told_before_its_rows_are_missed() -> Result<()> {
    let archive = Archive::bundled()?;
    assert_eq!(archive.run("convert", &["--dataset", "mentions"])?.code, 0);
    let name = "20150218234500.mentions.parquet";
    std::fs::remove_file(archive.root().join("mentions/converted").join(name))?;
    let ended = archive.run("aggregate", &["--dataset", "mentions"])?;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("lacks 1 of the files that the ledger records"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains(name), "{}", ended.stderr);
    Ok(())
}

#[test]
fn a_day_is_not_made_again_without_a_file_that_it_was_made_of() -> Result<()> {
    let archive = Archive::bundled()?;
    let flags = ["--dataset", "mentions"];
    for stage in ["convert", "aggregate"] {
        assert_eq!(archive.run(stage, &flags)?.code, 0);
    }
    let day = "mentions/aggregated/day/20150218.mentions.parquet";
    let name = "20150218234500.mentions.parquet";
    std::fs::remove_file(archive.root().join("mentions/converted").join(name))?;
    let ended = archive.run("aggregate", &flags)?;
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let message = format!("{name}, of which it was made, is gone");
    assert!(ended.stderr.contains(&message), "{}", ended.stderr);
    assert_eq!(archive.rows(day)?.num_rows(), 37_208);
    let forced = archive.run("aggregate", &["--dataset", "mentions", "--force"])?;
    assert_eq!(forced.code, 0, "{}", forced.stderr);
    assert_eq!(archive.rows(day)?.num_rows(), 37_208 - 10_180);
    Ok(())
}

#[test]
fn a_run_that_stops_tells_scripts_why() -> Result<()> {
    let ended = Archive::empty()?.run("convert", &[])?;
    let told: serde_json::Value = serde_json::from_str(&ended.stdout)?;
    assert_eq!((ended.code, told["exit_code"].as_i64()), (2, Some(2)));
    assert!(told["error"].as_str().unwrap().contains("no input matched"), "{told}");
    Ok(())
}

#[test]
fn other_settings_make_files_again() -> Result<()> {
    let archive = Archive::bundled()?;
    assert_eq!(archive.run("convert", &["--dataset", "mentions"])?.summary()?.files.made, 5);
    let again = archive.run("convert", &["--dataset", "mentions", "--strict"])?;
    assert_eq!(again.summary()?.files.made, 5, "{}", again.stderr);
    Ok(())
}

#[test]
fn a_killed_run_continues_to_the_same_bytes() -> Result<()> {
    // RS-04
    let (undisturbed, killed) = (Archive::bundled()?, Archive::bundled()?);
    run_chain(&undisturbed)?;
    for stage in CHAIN {
        for milliseconds in [5, 20, 60, 150] {
            let mut child = command(stage, killed.root())?
                .arg("--root")
                .arg(killed.root())
                .stderr(Stdio::null())
                .spawn()?;
            thread::sleep(Duration::from_millis(milliseconds));
            child.kill()?;
            child.wait()?;
        }
        let ended = killed.run(stage, &[])?;
        assert_eq!(ended.code, 0, "{stage}: {}", ended.stderr);
    }
    assert_eq!(killed.data()?, undisturbed.data()?);
    Ok(())
}

#[test]
fn what_killed_runs_left_is_removed_also_beside_the_rejects() -> Result<()> {
    let archive = Archive::bundled()?;
    let left = ["events", "events/catalog"].map(|beside| {
        let staging = archive.root().join(beside).join(".gdelt-mill-staging");
        // A process of this host that is gone, as the names of temporary files tell it.
        (staging, "2147483646.1.0.1979.parquet.tmp")
    });
    let host = this_host();
    for (staging, rest) in &left {
        std::fs::create_dir_all(staging)?;
        std::fs::write(staging.join(format!("{host}.{rest}")), b"unfinished")?;
    }
    for directory in ["converted", "catalog/rejects"] {
        std::fs::create_dir_all(archive.root().join("events").join(directory))?;
    }
    assert_eq!(archive.run("convert", &["--dataset", "events"])?.code, 0);
    for (staging, rest) in &left {
        assert!(!staging.join(format!("{host}.{rest}")).exists(), "{}", staging.display());
    }
    Ok(())
}

/// The host as it stands in the name of a file that this process would write.
fn this_host() -> String {
    let name = io_budget::Writer::next().to_string();
    name.split('.').next().unwrap_or_default().to_owned()
}

#[test]
fn an_interrupted_run_ends_with_130_and_leaves_nothing_unfinished() -> Result<()> {
    // RS-15
    let archive = Archive::bundled()?;
    let child = command("convert", archive.root())?
        .arg("--root")
        .arg(archive.root())
        .stderr(Stdio::piped())
        .spawn()?;
    thread::sleep(Duration::from_millis(30));
    let status =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
    assert!(status.success());
    let ended = child.wait_with_output()?;
    let message = String::from_utf8_lossy(&ended.stderr);
    // On a fast machine the run may have ended before the signal came.
    assert!(matches!(ended.status.code(), Some(130 | 0)), "{:?} {message}", ended.status);
    assert!(archive.data()?.keys().all(|path| path.extension().is_some_and(|e| e == "parquet")));
    run_chain(&archive)?;
    let undisturbed = Archive::bundled()?;
    run_chain(&undisturbed)?;
    assert_eq!(archive.data()?, undisturbed.data()?);
    Ok(())
}

#[test]
fn a_dry_run_changes_nothing() -> Result<()> {
    let archive = Archive::bundled()?;
    let dry = archive.run("convert", &["--dry-run"])?;
    assert_eq!((dry.code, dry.summary()?.files.made), (0, 25), "{}", dry.stderr);
    assert!(archive.data()?.is_empty());
    assert!(!archive.root().join("events/catalog").exists());
    Ok(())
}
