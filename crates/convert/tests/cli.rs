//! The binary: its flags and exit codes. What it makes is tested in the package `tests`.

use std::process::Command;

#[test]
fn exit_codes_and_messages() {
    for (flags, code, part) in [
        (&["--help"][..], 0, "gdelt-convert --root"),
        (&["--version"], 0, "gdelt-convert 0."),
        (&["--no-such-flag"], 2, "--no-such-flag"),
        (&[], 2, "no archive root is set"),
        (&["--root", "/nowhere"], 2, "/nowhere does not exist"),
        (&["--root", "/nowhere", "--dataset", "event"], 2, "events-15min"),
        (&["--root", "/nowhere", "--jobs", "100000"], 2, "100000 threads are more than 1024"),
    ] {
        let binary = env!("CARGO_BIN_EXE_gdelt-convert");
        let directory = tempfile::tempdir().unwrap();
        let output = Command::new(binary).args(flags).current_dir(&directory).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {text}");
        assert!(text.contains(part), "{flags:?}: {text}");
    }
}
