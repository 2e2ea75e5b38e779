//! Settings from files and environment, through the real binary.

use anyhow::Result;
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
