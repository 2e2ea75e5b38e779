//! The binary: what it prints, its flags and exit codes.

use std::process::Command;

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gdelt-catalog")).args(arguments).output();
    let output = output.expect("the binary is there");
    let text = |bytes| String::from_utf8(bytes).expect("it prints UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn exit_codes_and_messages() {
    for (arguments, code, part) in [
        (&["--help"][..], 0, "codes"),
        (&["--version"], 0, "gdelt-catalog 0."),
        (&[], 2, "Usage: gdelt-catalog <COMMAND>"),
        (&["codes", "Day"], 2, "`Day` is no table of codes and no column with codes; the tables"),
        (&["codes", "--search", "qqqq"], 2, "no code and no meaning has `qqqq` in it"),
    ] {
        let (found, stdout, stderr) = run(arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {stderr}");
        assert!((stdout + &stderr).contains(part), "{arguments:?}: {stderr}");
    }
}

#[test]
fn codes_are_shown_by_table_column_and_term() {
    let (_, tables, _) = run(&["codes"]);
    assert_eq!(tables.lines().count(), 7);
    assert!(tables.contains("event          321 codes  EventCode, EventBaseCode"), "{tables}");
    let (_, religions, _) = run(&["codes", "Actor1Religion1Code"]);
    assert_eq!(religions.lines().count(), 31);
    assert!(religions.starts_with("ADR  African diasporic religions\n"), "{religions}");
    // The exact code comes alone, before what has it in its name.
    assert_eq!(run(&["codes", "geo-country", "--search", "us"]).1, "US  United States\n");
    let (_, everywhere, _) = run(&["codes", "--search", "kurd"]);
    assert!(everywhere.contains("ethnic        kur"), "{everywhere}");
    let (_, json, _) = run(&["codes", "EventCode", "--search", "---", "--json"]);
    let codes: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&codes[0]["table"], &codes[0]["code"]), (&"event".into(), &"---".into()));
    let (_, json, _) = run(&["codes", "--json"]);
    let tables: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(tables.as_array().map(Vec::len), Some(7));
}
