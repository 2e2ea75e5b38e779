//! The binary: where its words go, and its exit codes.

use std::process::{Command, Output};

fn gdelt_sample(flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gdelt-sample")).args(flags).output().expect("the binary runs")
}

#[test]
fn help_is_on_stdout_and_wrong_usage_is_2() {
    let help = gdelt_sample(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8(help.stdout).unwrap().contains("--per-period"));
    let sample = ["--dataset", "events", "--mode", "indexed", "-n", "1", "--seed", "1"];
    let out = ["--out", "/nowhere/sample.parquet"];
    for (flags, said) in [
        (&["--frobnicate"][..], "--frobnicate"),
        (&out, "root"),
        (&[&out[..], &["--root", "/nowhere", "--columns", "day"]].concat(), "did you mean `Day`"),
        (&[&out[..], &["--root", "/nowhere"]].concat(), "gdelt-clean"),
    ] {
        let output = gdelt_sample(&[&sample[..], flags].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{flags:?}");
        assert!(stderr.contains(said), "{flags:?}: {stderr}");
    }
}
