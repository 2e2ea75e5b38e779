//! Storage that fails, stalls, fills up or changes while a stage works on it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use tests::{Archive, SlowArchive, read_parquet};

use super::{assert_converted_as_undisturbed, day, failed, made_by, of_days, raw};

#[test]
fn a_file_that_was_replaced_on_the_server_is_opened_again() -> Result<()> {
    // IO-08
    // The kernel sends an open or a read that failed so a second time by itself.
    for (fault, opens) in [("--fault=open:ESTALE:2:2", 7), ("--fault=read:ESTALE:2:2", 6)] {
        let archive = of_days(5)?;
        let Some(slow) = SlowArchive::mount(&archive, &[fault])? else { return Ok(()) };
        let ended = slow.run("convert", &["--max-reads", "1"])?;
        assert_eq!(ended.code, 0, "{fault} {}", ended.stderr);
        let log = slow.unmount()?;
        assert_eq!(log.count("open"), opens, "{fault}");
        assert_converted_as_undisturbed(&archive, 5)?;
    }
    Ok(())
}

#[test]
fn a_file_that_stays_stale_fails_alone() -> Result<()> {
    // IO-08: tried six times, and the kernel sends each attempt twice.
    for fault in ["--fault=open:ESTALE:2:12", "--fault=read:ESTALE:2:12"] {
        let archive = of_days(3)?;
        let Some(slow) = SlowArchive::mount(&archive, &[fault])? else { return Ok(()) };
        let ended = slow.run("convert", &["--max-reads", "1"])?;
        let summary = ended.summary()?;
        assert_eq!((ended.code, summary.files.made), (3, 2), "{fault} {}", ended.stderr);
        assert_eq!(failed(&summary), BTreeSet::from([format!("{}.zip", day(1))]), "{fault}");
        let reason = &summary.failures[0].reason;
        assert!(reason.contains("Stale file handle"), "{fault} {reason}");
    }
    Ok(())
}

#[test]
fn a_storage_on_which_every_read_is_stale_ends_the_run() -> Result<()> {
    // IO-08
    let archive = of_days(2)?;
    let Some(slow) = SlowArchive::mount(&archive, &["--fault=read:ESTALE:1:*"])? else {
        return Ok(());
    };
    let ended = slow.run("convert", &[])?;
    assert_eq!((ended.code, ended.summary()?.files.failed), (3, 2), "{}", ended.stderr);
    Ok(())
}

#[test]
fn a_file_that_is_not_as_listed_is_waited_for_and_named_if_it_stays_so() -> Result<()> {
    // IO-09
    let archive = of_days(4)?;
    let options = ["--ttl-ms=0", "--fault=read:STALL=800ms:1"];
    let Some(slow) = SlowArchive::mount(&archive, &options)? else { return Ok(()) };
    let running = slow.start("convert", &["--max-reads", "1"])?;
    // All are listed, the first is being read: another host replaces two of the others.
    thread::sleep(Duration::from_millis(400));
    let aside = |number| archive.root().join(format!("{number}.aside"));
    let place = |number| archive.root().join(raw(number));
    for number in [1, 2] {
        fs::rename(place(number), aside(number))?;
        fs::write(place(number), b"half a file")?;
    }
    thread::sleep(Duration::from_millis(1_200));
    fs::rename(aside(1), place(1))?;
    let ended = running.end()?;
    let summary = ended.summary()?;
    assert_eq!((ended.code, summary.files.made), (3, 3), "{}", ended.stderr);
    assert_eq!(failed(&summary), BTreeSet::from([format!("{}.zip", day(2))]));
    let reason = &summary.failures[0].reason;
    assert!(reason.contains("and has 11): run again"), "{reason}");
    assert!((4.0..10.0).contains(&summary.seconds), "{}", summary.seconds);
    drop(slow);

    fs::rename(aside(2), place(2))?;
    assert_eq!(archive.run("convert", &[])?.summary()?.files.made, 1);
    assert_converted_as_undisturbed(&archive, 4)
}

#[test]
fn a_file_that_is_cut_while_it_is_read_fails_and_is_named() -> Result<()> {
    // IO-10. The storage stalls when some of the file is read: `clean` has read the ledger before.
    for (stage, input, stall) in [
        ("convert", "events/raw/20151207.export.CSV.zip", "--fault=read:STALL=1s:10"),
        ("clean", "events/converted/20151207.export.parquet", "--fault=read:STALL=1s:22"),
    ] {
        let archive = made_by(if stage == "clean" { &["convert"] } else { &[] })?;
        let options = ["--max-request-kib=16", "--ttl-ms=0", stall];
        let Some(slow) = SlowArchive::mount(&archive, &options)? else { return Ok(()) };
        let running = slow.start(stage, &["--dataset", "events", "--max-reads", "1"])?;
        thread::sleep(Duration::from_millis(500));
        let path = archive.root().join(input);
        let bytes = fs::read(&path)?;
        fs::write(&path, &bytes[..bytes.len() / 8])?;
        let ended = running.end()?;
        let summary = ended.summary()?;
        assert_eq!((ended.code, summary.files.made), (3, 5), "{stage}: {}", ended.stderr);
        assert!(Path::new(input).ends_with(failed(&summary).first().unwrap()), "{stage}");
        let reason = &summary.failures[0].reason;
        assert!(reason.contains("it has become shorter"), "{stage}: {reason}");
    }
    Ok(())
}

#[test]
fn stalls_change_no_byte() -> Result<()> {
    // IO-13
    let chain = ["convert", "clean", "aggregate"];
    let undisturbed = made_by(&chain)?.data()?;
    let options = [
        "--latency-ms=1",
        "--stall-probability=0.05",
        "--stall-ms=150",
        "--fault=read:STALL=500ms:3:2",
        "--fault=write:STALL=500ms:2",
        "--fault=open:STALL=300ms:4",
    ];
    for reads in ["1", "4"] {
        let archive = Archive::bundled()?;
        let Some(slow) = SlowArchive::mount(&archive, &options)? else { return Ok(()) };
        for stage in chain {
            let ended = slow.run(stage, &["--max-reads", reads])?;
            assert_eq!(ended.code, 0, "{stage}: {}", ended.stderr);
        }
        drop(slow);
        assert!(archive.data()? == undisturbed, "{reads}");
    }
    Ok(())
}

#[test]
fn a_disk_that_fills_up_ends_the_run_with_what_is_whole() -> Result<()> {
    // RS-09, RS-10: whichever step of writing meets it, also the last.
    for (fault, words) in [
        ("write:ENOSPC:4:*", "No space left on device"),
        ("write:EDQUOT:4:*", "Disk quota exceeded"),
        ("create:ENOSPC:4:*", "No space left on device"),
        ("fsync:EIO:3:*", "Input/output error"),
        ("rename:ENOSPC:3:*", "No space left on device"),
    ] {
        let archive = of_days(8)?;
        let fault = format!("--fault={fault}");
        let Some(slow) = SlowArchive::mount(&archive, &[&fault])? else { return Ok(()) };
        let ended = slow.run("convert", &[])?;
        assert_eq!(ended.code, 1, "{fault} {}", ended.stderr);
        let named = ended.stderr.contains(words) && ended.stderr.contains("events/");
        assert!(named, "{fault} {}", ended.stderr);
        slow.unmount()?;
        for entry in fs::read_dir(archive.root().join("events/converted"))? {
            let path = entry?.path();
            assert_eq!(path.extension().and_then(|name| name.to_str()), Some("parquet"), "{fault}");
            assert!(read_parquet(&path)?.num_rows() > 0, "{fault}");
        }
        // With room again the rest is made.
        let again = archive.run("convert", &[])?;
        assert_eq!(again.code, 0, "{fault} {}", again.stderr);
        assert_converted_as_undisturbed(&archive, 8)?;
    }
    Ok(())
}

#[test]
fn nothing_is_kept_in_a_directory_for_temporary_files() -> Result<()> {
    // RS-11: there is none, so that nothing is renamed from one file system to another.
    let archive = of_days(2)?;
    let mut command = tests::command("convert", archive.root())?;
    let missing = Path::new("/does/not/exist");
    let ended = command.env("TMPDIR", missing).arg("--root").arg(archive.root()).output()?;
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_converted_as_undisturbed(&archive, 2)
}
