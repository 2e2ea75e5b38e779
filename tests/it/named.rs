//! Files named on the command line, and Make, which then owns the graph.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use tests::{Archive, binary, command};

#[test]
fn named_files_give_what_a_run_over_the_root_gives() -> Result<()> {
    let archive = Archive::bundled()?;
    let name = "20190121220000.export";
    let raw = archive.root().join(format!("events-15min/raw/{name}.CSV.zip"));
    let elsewhere = archive.root().join("elsewhere");
    let run = |stage: &str, input: &Path| -> Result<()> {
        let ended =
            command(stage, archive.root())?.arg(input).arg("--out-dir").arg(&elsewhere).output()?;
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        Ok(())
    };
    run("convert", &raw)?;
    let converted = std::fs::read(elsewhere.join(format!("{name}.parquet")))?;
    assert_eq!(archive.run("convert", &["--dataset", "events-15min"])?.code, 0);
    let of_root = archive.root().join(format!("events-15min/converted/{name}.parquet"));
    assert_eq!(std::fs::read(&of_root)?, converted);
    run("clean", &of_root)?;
    let cleaned = std::fs::read(elsewhere.join(format!("{name}_cleaned.parquet")))?;
    assert_eq!(archive.run("clean", &["--dataset", "events-15min"])?.code, 0);
    let of_root = archive.root().join(format!("events-15min/cleaned/{name}_cleaned.parquet"));
    assert_eq!(std::fs::read(of_root)?, cleaned);
    Ok(())
}

#[test]
fn named_files_need_a_place_for_their_output_and_exist() -> Result<()> {
    let archive = Archive::bundled()?;
    let raw = "events/raw/1979.zip";
    std::os::unix::fs::symlink("target.parquet", archive.root().join("link.parquet"))?;
    assert!(Command::new("mkfifo").arg(archive.root().join("pipe.parquet")).status()?.success());
    for (arguments, message) in [
        (&[raw][..], "--out"),
        (&["events/raw/1980.zip", "--out", "x.parquet"], "1980.zip does not exist"),
        (&[raw, "events/raw/1982.zip", "--out", "x.parquet"], "would both become"),
        (&["Cargo.toml", "--out", "x.parquet"], "Cargo.toml"),
        (&[raw, "--out", "link.parquet"], "link.parquet is a symbolic link"),
        (&[raw, "--out", "pipe.parquet"], "pipe.parquet is no regular file"),
        (&["--root", ".", "--out", "x.parquet"], "none is named"),
    ] {
        let ended = command("convert", archive.root())?.args(arguments).output()?;
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?} {stderr}");
        assert!(stderr.contains(message), "{arguments:?} {stderr}");
    }
    assert!(!archive.root().join("target.parquet").exists());
    Ok(())
}

#[test]
fn a_pipe_named_like_a_zip_fails_and_nothing_waits_for_it() -> Result<()> {
    let archive = Archive::bundled()?;
    let pipe = archive.root().join("19800101.export.CSV.zip");
    assert!(Command::new("mkfifo").arg(&pipe).status()?.success());
    let ended =
        command("convert", archive.root())?.arg(&pipe).args(["--out", "x.parquet"]).output()?;
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("not a regular file"), "{stderr}");
    Ok(())
}

#[test]
fn make_gives_the_same_files_and_the_ledger_knows_them() -> Result<()> {
    if Command::new("make").arg("--version").output().is_err() {
        println!("skipped: make is not installed");
        return Ok(());
    }
    let (made, run) = (Archive::bundled()?, Archive::bundled()?);
    let makefile = format!(
        "ROOT := {root}\n\
         RAW := $(wildcard $(ROOT)/events-15min/raw/*.CSV.zip)\n\
         CONVERTED := $(RAW:$(ROOT)/events-15min/raw/%.CSV.zip=$(ROOT)/events-15min/converted/%.parquet)\n\
         CLEANED := $(CONVERTED:$(ROOT)/events-15min/converted/%.parquet=$(ROOT)/events-15min/cleaned/%_cleaned.parquet)\n\
         all: $(CLEANED)\n\
         $(ROOT)/events-15min/converted/%.parquet: $(ROOT)/events-15min/raw/%.CSV.zip\n\
         \t@{convert} --root $(ROOT) $< --out $@\n\
         $(ROOT)/events-15min/cleaned/%_cleaned.parquet: $(ROOT)/events-15min/converted/%.parquet\n\
         \t@{clean} --root $(ROOT) $< --out $@\n\
         .SECONDARY:\n",
        root = made.root().display(),
        convert = binary("convert")?.display(),
        clean = binary("clean")?.display(),
    );
    std::fs::write(made.root().join("Makefile"), makefile)?;
    let run_make = || Command::new("make").args(["-j4"]).current_dir(made.root()).output();
    let first = run_make()?;
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let second = run_make()?;
    assert!(String::from_utf8_lossy(&second.stdout).contains("Nothing to be done"), "{second:?}");
    for stage in ["convert", "clean"] {
        let ended = run.run(stage, &["--dataset", "events-15min"])?;
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
    std::fs::remove_file(made.root().join("Makefile"))?;
    assert_eq!(made.data()?, run.data()?);
    for stage in ["convert", "clean"] {
        let files = made.run(stage, &["--dataset", "events-15min"])?.summary()?.files;
        assert_eq!((files.made, files.up_to_date), (0, 6), "{stage}");
    }
    Ok(())
}
