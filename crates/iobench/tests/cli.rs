//! The binary: its flags and exit codes. What it measures is tested in the package `tests`.

use std::process::Command;

#[test]
fn exit_codes_and_messages() {
    for (flags, code, part) in [
        (&["--help"][..], 0, "recommend"),
        (&["raw", "--help"], 0, "--ceiling-ms <MS>"),
        (&["--version"], 0, "gdelt-iobench 0."),
        (&[], 2, "Usage: gdelt-iobench <COMMAND>"),
        (&["raw"], 2, "<DIR>"),
        (&["raw", "/nowhere"], 1, "/nowhere"),
        (&["raw", ".", "--readers=0"], 2, "neither readers nor writers"),
        (&["raw", ".", "--readers=2000"], 2, "2000 is not in 0..=1024"),
        (&["raw", ".", "--request-kib=6"], 2, "expected a multiple of 4"),
        (&["raw", "."], 2, "large files (64 MiB or more)"),
        (&["check", ".", "--max-reads=none"], 2, "`none` is no number"),
        (&["stage", "convert", "--root=.", "--dataset=event"], 2, "events-15min"),
        (&["recommend"], 2, "measure first"),
    ] {
        let binary = env!("CARGO_BIN_EXE_gdelt-iobench");
        let directory = tempfile::tempdir().unwrap();
        let output = Command::new(binary).args(flags).current_dir(&directory).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {text}");
        assert!(text.contains(part), "{flags:?}: {text}");
    }
}
