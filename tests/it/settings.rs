//! Settings from files and environment, through the real binary.

use std::collections::BTreeSet;

use anyhow::Result;
use io_budget::Budget;
use io_budget::parquet::{ParquetFile, Want};
use tests::{Archive, Ended, binary, command};

#[test]
fn a_settings_file_in_the_current_directory_is_read() -> Result<()> {
    let archive = Archive::bundled()?;
    std::fs::write(archive.root().join("gdelt-mill.toml"), "root = '.'\ndatasets = ['events']\n")?;
    let ended = command("convert", archive.root())?.arg("--json").output()?;
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(archive.root().join("events/converted/1979.parquet").exists());
    assert!(!archive.root().join("mentions/converted").exists());
    Ok(())
}

#[test]
fn wrong_keys_are_named_with_their_source() -> Result<()> {
    let archive = Archive::bundled()?;
    std::fs::write(archive.root().join("gdelt-mill.toml"), "[io]\nreeds = 1\n")?;
    let ended = archive.run("convert", &[])?;
    assert_eq!(ended.code, 2);
    assert!(
        ended.stderr.contains("gdelt-mill.toml: unknown key `reeds` in [io]"),
        "{}",
        ended.stderr
    );
    std::fs::remove_file(archive.root().join("gdelt-mill.toml"))?;
    let ended = command("convert", archive.root())?
        .env("GDELT_MILL_IO__READS", "many")
        .arg("--root")
        .arg(archive.root())
        .output()?;
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("GDELT_MILL_*: io.reads"), "{stderr}");
    Ok(())
}

#[test]
fn the_environment_sets_what_flags_do_not() -> Result<()> {
    let archive = Archive::bundled()?;
    let ended = command("convert", archive.root())?
        .env("GDELT_MILL_IO__READS", "7")
        .args(["--json", "--root"])
        .arg(archive.root())
        .output()?;
    let summary = tests::Ended::from(ended).summary()?;
    assert_eq!(summary.io.reads.limit, Some(7));
    let ended = command("convert", archive.root())?
        .env("GDELT_MILL_IO__READS", "7")
        .args(["--json", "--max-reads", "3", "--root"])
        .arg(archive.root())
        .output()?;
    assert_eq!(tests::Ended::from(ended).summary()?.io.reads.limit, Some(3));
    Ok(())
}

#[test]
fn processors_that_are_not_granted_are_not_used() -> Result<()> {
    // IO-06
    let archive = Archive::bundled()?;
    let convert = binary("convert")?;
    let ended: Ended = std::process::Command::new("taskset")
        .args(["-c", "0"])
        .arg(convert)
        .args(["--json", "-v", "--dataset", "events", "--root"])
        .arg(archive.root())
        .output()?
        .into();
    assert_eq!(ended.summary()?.jobs, 1);
    let said = "processors: 1 (affinity mask and cgroup quota)";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    Ok(())
}

#[test]
fn codec_and_row_groups_are_set_by_dataset() -> Result<()> {
    let archive = Archive::bundled()?;
    let set = "[convert.datasets.gkg-v2]\ncodec = 'snappy'\nrow_group_rows = 20\n";
    let datasets = ["--dataset", "gkg-v2", "--dataset", "mentions"];
    let shape = |path: &str| -> Result<(Vec<i64>, BTreeSet<String>)> {
        let path = archive.root().join(path);
        let file =
            ParquetFile::open(&Budget::private(), &path, Want::Parts { footer_start: None })?;
        let (mut groups, mut codecs) = (Vec::new(), BTreeSet::new());
        for group in file.metadata().row_groups() {
            groups.push(group.num_rows());
            codecs.extend(group.columns().iter().map(|chunk| chunk.compression().to_string()));
        }
        Ok((groups, codecs))
    };
    let gkg = "gkg-v2/converted/20200318104500.gkg.parquet";
    let mentions = "mentions/converted/20200318104500.mentions.parquet";
    assert_eq!(archive.run("convert", &datasets)?.code, 0);
    let (groups, codecs) = shape(gkg)?;
    let rows: i64 = groups.iter().sum();
    assert_eq!((groups.len(), codecs), (1, BTreeSet::from(["ZSTD(ZstdLevel(1))".to_owned()])));
    std::fs::write(archive.root().join("gdelt-mill.toml"), set)?;
    let summary = archive.run("convert", &datasets)?.summary()?;
    // Files of a dataset without such settings are what they were.
    assert_eq!((summary.files.made, summary.files.up_to_date), (2, 5));
    let (groups, codecs) = shape(gkg)?;
    assert_eq!(codecs, BTreeSet::from(["SNAPPY".to_owned()]));
    assert_eq!(i64::try_from(groups.len())?, (rows + 19) / 20);
    assert_eq!((groups[0], groups.iter().sum::<i64>()), (20, rows));
    assert_eq!(shape(mentions)?.1, BTreeSet::from(["ZSTD(ZstdLevel(1))".to_owned()]));
    // The stages that follow take them as they are.
    assert_eq!(archive.run("aggregate", &["--dataset", "gkg-v2"])?.code, 0);
    let sums = shape("gkg-v2/aggregated/day/20200318.gkg.parquet")?.0;
    assert_eq!(sums.iter().sum::<i64>(), rows);
    Ok(())
}
