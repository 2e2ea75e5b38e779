//! The binary: flags, exit codes, where its text goes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

fn crossref(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gdelt-crossref")).args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn help_goes_to_stdout_and_ends_well() {
    let output = crossref(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["--gkg-version", "Examples:", "--events sample.parquet"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(output.stderr.is_empty());
}

#[test]
fn an_unknown_flag_is_wrong_usage() {
    let output = crossref(&["--gkg-version", "v2", "--keep-latest"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(stderr(&output).contains("--keep-latest"));
}

#[test]
fn a_missing_root_is_wrong_usage() {
    let arguments = ["--events", "e.parquet", "--gkg-version", "v2", "--out", "o.parquet"];
    let output = crossref(&arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no archive root is set"));
    assert!(stderr(&output).contains("hint: give --root DIR"));
    let output = crossref(&[&arguments[..], &["--root", "/nonexistent"]].concat());
    assert_eq!(output.status.code(), Some(2));
}
