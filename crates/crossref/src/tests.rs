//! The whole stage over small archives.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use arrow::util::display::array_value_to_string;
use catalog::ledger::{FORMAT, Ledger, Outcome, Record, StageName};
use catalog::{Feed, Period};
use clap::Parser as _;
use io_budget::parquet::{ParquetFile, Want};
use io_budget::{Budget, Published};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use stage::{ExitStatus, Session, Summary};

use super::*;

const SLOTS: [&str; 2] = ["20200601000000", "20200601001500"];

type Mention<'a> = (Option<i64>, Option<&'a str>, Option<i64>);

/// An archive in a directory of its own.
struct Archive {
    directory: tempfile::TempDir,
    budget: Budget,
}

impl Archive {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), budget: Budget::private() }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// Writes a table in row groups of three rows.
    fn write(&self, relative: &str, columns: Vec<(&str, ArrayRef)>) -> Published {
        let columns = columns.into_iter().map(|(name, values)| (name, values, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(3)).build();
        let mut staged = self.budget.stage(&self.path(relative));
        let mut writer =
            ArrowWriter::try_new(&mut staged, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        staged.publish().unwrap()
    }

    /// Events, each with `<file>:<row>` as its name.
    fn events(&self, file: &str, ids: &[Option<i64>]) {
        let names = (0..ids.len()).map(|row| format!("{file}:{row}"));
        self.write(
            &format!("events/{file}.parquet"),
            vec![
                ("GlobalEventID", Arc::new(Int64Array::from(ids.to_vec()))),
                ("Actor1Name", Arc::new(StringArray::from_iter_values(names))),
                ("NumArticles", Arc::new(Int64Array::from(vec![5; ids.len()]))),
            ],
        );
    }

    /// Mentions, numbered by their confidence from `first`.
    fn mentions(&self, slot: &str, first: i64, rows: &[Mention<'_>]) -> Published {
        let numbers = (first..).take(rows.len());
        self.write(
            &format!("mentions/converted/{slot}.mentions.parquet"),
            vec![
                ("GLOBALEVENTID", Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>())),
                ("MentionTimeDate", Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>())),
                (
                    "MentionIdentifier",
                    Arc::new(rows.iter().map(|row| row.1).collect::<StringArray>()),
                ),
                ("Confidence", Arc::new(Int64Array::from_iter_values(numbers))),
            ],
        )
    }

    /// Records, named `<slot>-<row>`.
    fn records(&self, slot: &str, addresses: &[Option<&str>]) {
        let names = (0..addresses.len()).map(|row| format!("{slot}-{row}"));
        self.write(
            &format!("gkg-v2/converted/{slot}.gkg.parquet"),
            vec![
                ("V2DOCUMENTIDENTIFIER", Arc::new(StringArray::from(addresses.to_vec()))),
                ("GKGRECORDID", Arc::new(StringArray::from_iter_values(names))),
            ],
        );
    }

    fn records_v1(&self, day: &str, ids: &[Option<&str>]) {
        let numbers = (100..).take(ids.len());
        self.write(
            &format!("gkg-v1/converted/{day}.gkg.parquet"),
            vec![
                ("NumArticles", Arc::new(Int64Array::from_iter_values(numbers))),
                ("EventIds", Arc::new(StringArray::from(ids.to_vec()))),
            ],
        );
    }

    fn args(&self, version: &str, flags: &[&str]) -> Args {
        let [root, events, out] = [".", "events", "out/o.parquet"].map(|path| self.path(path));
        let mut all = vec!["gdelt-crossref", "--gkg-version", version, "--quiet"];
        for (flag, path) in [("--root", &root), ("--events", &events), ("--out", &out)] {
            if !flags.contains(&flag) {
                all.extend([flag, path.to_str().unwrap()]);
            }
        }
        all.extend(flags);
        Args::try_parse_from(all).unwrap()
    }

    fn run(&self, version: &str, flags: &[&str]) -> Result<Summary, Error> {
        let args = self.args(version, flags);
        cross_reference(&Session::start(&args.common, None, &[])?, &args)
    }

    fn output(&self) -> RecordBatch {
        let out =
            ParquetFile::open(&self.budget, &self.path("out/o.parquet"), Want::Whole).unwrap();
        let columns: Vec<usize> = (0..out.schema().fields().len()).collect();
        let groups = out.metadata().num_row_groups();
        let batches: Vec<RecordBatch> = (0..groups)
            .flat_map(|group| out.read_row_group(group, &columns, None, 8_192).unwrap().unwrap())
            .map(Result::unwrap)
            .collect();
        arrow::compute::concat_batches(out.schema(), &batches).unwrap()
    }

    /// The output's rows, as the values of some columns.
    fn rows(&self, columns: &[&str]) -> Vec<String> {
        let output = self.output();
        let value = |name: &&str, row| {
            array_value_to_string(output.column_by_name(name).unwrap(), row).unwrap()
        };
        let text = |row| columns.iter().map(|name| value(name, row)).collect::<Vec<_>>().join(" ");
        (0..output.num_rows()).map(text).collect()
    }
}

const ROW: &[&str] = &["Actor1Name", "Mention_Confidence", "GKG_GKGRECORDID"];

#[test]
fn events_and_articles_join_many_to_many() {
    let archive = Archive::new();
    archive.events("a", &[Some(1), Some(2), Some(3)]);
    let (a, b) = (Some("http://ex.com/a"), Some("http://ex.com/b"));
    archive.mentions(
        SLOTS[0],
        10,
        &[(Some(1), a, Some(1)), (Some(2), a, Some(1)), (Some(1), b, Some(1))],
    );
    archive.records(SLOTS[0], &[a, b]);
    archive.records(SLOTS[1], &[a]);
    let summary = archive.run("v2", &[]).unwrap();
    let [first, second, again] =
        [format!("{}-0", SLOTS[0]), format!("{}-1", SLOTS[0]), format!("{}-0", SLOTS[1])];
    assert_eq!(
        archive.rows(ROW),
        [
            format!("a:0 10 {first}"),
            format!("a:0 10 {again}"),
            format!("a:0 12 {second}"),
            format!("a:1 11 {first}"),
            format!("a:1 11 {again}"),
        ]
    );
    for (name, count) in [
        ("events", 3),
        ("events matched", 2),
        ("mentions matched", 3),
        ("articles", 2),
        ("articles matched", 2),
        ("gkg records", 3),
        ("largest fan out", 3),
        ("rows", 5),
    ] {
        assert_eq!(summary.counts[name], count, "{name}");
    }
}

#[test]
fn a_mention_for_each_sentence_is_a_row_for_each_sentence() {
    let archive = Archive::new();
    archive.events("a", &[Some(1)]);
    let a = Some("http://ex.com/1");
    archive.mentions(SLOTS[0], 20, &[(Some(1), a, Some(5)), (Some(1), a, Some(5))]);
    archive.records(SLOTS[0], &[a]);
    archive.run("v2", &[]).unwrap();
    let record = format!("{}-0", SLOTS[0]);
    assert_eq!(archive.rows(ROW), [format!("a:0 20 {record}"), format!("a:0 21 {record}")]);
}

#[test]
fn event_ids_of_gkg_1_are_lists_with_commas() {
    let archive = Archive::new();
    archive.events("a", &[Some(900_000_001), Some(900_000_002), Some(7)]);
    archive.records_v1(
        "20140601",
        &[
            Some("900000001,900000002"),
            None,
            Some("x1, 900000002 ,900000002,,8"),
            Some(""),
            Some("9000000010"),
        ],
    );
    let summary = archive.run("v1", &[]).unwrap();
    assert_eq!(
        archive.rows(&["Actor1Name", "NumArticles", "GKG_NumArticles"]),
        ["a:0 5 100", "a:1 5 100", "a:1 5 102", "a:1 5 102"],
        "both sides have a NumArticles, and an id listed twice gives two rows"
    );
    assert_eq!(summary.counts["ids unparsable"], 1);
    assert_eq!(summary.counts["ids listed again"], 1);
    assert!(archive.output().column_by_name("Mention_Confidence").is_none());
}

#[test]
fn addresses_are_compared_byte_for_byte() {
    let archive = Archive::new();
    archive.events("a", &[Some(1)]);
    archive.mentions(SLOTS[0], 0, &[(Some(1), Some("http://ex.com/a"), Some(5))]);
    let others = ["https://ex.com/a", "http://ex.com/a/", "http://EX.com/a", "http://ex.com/a#b"];
    archive.records(SLOTS[0], &others.map(Some));
    let summary = archive.run("v2", &[]).unwrap();
    assert_eq!((summary.counts["articles"], summary.counts["articles matched"]), (1, 0));
    let output = archive.output();
    assert_eq!((output.num_rows(), output.num_columns()), (0, 3 + 2 + 27));
}

#[test]
fn long_addresses_that_begin_alike_match_only_themselves() {
    let archive = Archive::new();
    let address = |number: i64| format!("http://ex.com/{}é\u{10ffff}{number:03}", "a".repeat(200));
    let addresses: Vec<String> = (0..300).map(address).collect();
    let ids: Vec<_> = (0..300).step_by(3).map(Some).collect();
    archive.events("a", &ids);
    let mentions: Vec<Mention<'_>> = (0..300)
        .zip(&addresses)
        .map(|(id, address)| (Some(id), Some(address.as_str()), None))
        .collect();
    archive.mentions(SLOTS[0], 0, &mentions);
    archive.records(SLOTS[0], &addresses.iter().map(|a| Some(a.as_str())).collect::<Vec<_>>());
    archive.run("v2", &[]).unwrap();
    let expected: Vec<_> =
        (0..100).map(|row| format!("a:{row} {} {}-{}", row * 3, SLOTS[0], row * 3)).collect();
    assert_eq!(archive.rows(ROW), expected);
}

#[test]
fn the_number_of_workers_changes_no_byte() {
    let archive = Archive::new();
    archive.events("b", &[Some(4), Some(1), None]);
    archive.events("a", &[Some(1), Some(2), Some(1)]);
    for (number, slot) in (0..).zip(["20200601000000", "20200601001500", "20200601003000"]) {
        let urls = ["u0", "u1", "u2"].map(Some);
        let times = [Some(9 - number), None, Some(3)];
        let mentions: Vec<Mention<'_>> = (0..9)
            .map(|row| {
                let at = usize::try_from(row).unwrap();
                (Some(1 + (row + number) % 4), urls[at % 3], times[at / 3])
            })
            .collect();
        archive.mentions(slot, number * 100, &mentions);
        archive.records(slot, &[urls[1], urls[0], urls[1]]);
    }
    let bytes = ["1", "2", "7"].map(|jobs| {
        archive.run("v2", &["--jobs", jobs]).unwrap();
        archive.budget.read_file(&archive.path("out/o.parquet")).unwrap()
    });
    assert_eq!(bytes[0], bytes[1]);
    assert_eq!(bytes[0], bytes[2]);
    let output = archive.output();
    assert!(output.num_rows() > 50);
    // In the order of the files of events by name.
    let names = output.column_by_name("Actor1Name").unwrap().as_string::<i32>();
    assert!(names.value(0).starts_with("a:0") && names.value(output.num_rows() - 1) == "b:1");
}

#[test]
fn mentions_without_a_time_come_last() {
    let archive = Archive::new();
    archive.events("a", &[Some(1)]);
    let a = Some("u");
    let times = [None, Some(30), Some(10), Some(30)];
    archive.mentions(SLOTS[0], 0, &times.map(|time| (Some(1), a, time)));
    archive.records(SLOTS[1], &[a]);
    archive.run("v2", &[]).unwrap();
    let output = archive.output();
    let order = output.column_by_name("Mention_Confidence").unwrap().as_primitive::<Int64Type>();
    assert_eq!(order.values(), &[2, 1, 3, 0]);
}

#[test]
fn an_unreadable_file_is_reported_and_the_others_are_joined() {
    let archive = Archive::new();
    archive.events("a", &[Some(1)]);
    archive.mentions(SLOTS[0], 0, &[(Some(1), Some("u"), Some(1))]);
    archive.records(SLOTS[0], &[Some("u")]);
    let broken = archive.path(&format!("gkg-v2/converted/{}.gkg.parquet", SLOTS[1]));
    let mut staged = archive.budget.stage(&broken);
    staged.write_all(b"PAR1 no Parquet PAR1").unwrap();
    staged.publish().unwrap();
    archive.write(
        &format!("mentions/converted/{}.mentions.parquet", SLOTS[1]),
        vec![("GLOBALEVENTID", Arc::new(Int64Array::from(vec![1])))],
    );
    let summary = archive.run("v2", &[]).unwrap();
    assert_eq!(summary.failures.len(), 2);
    assert!(summary.failures[0].reason.contains("no column MentionIdentifier"));
    assert_eq!(summary.failures[1].file, broken);
    assert_eq!(archive.rows(ROW), [format!("a:0 0 {}-0", SLOTS[0])]);
    let status = run(archive.args("v2", &[])).unwrap();
    assert_eq!(status, ExitStatus::FilesFailed);
}

/// The ledger's record of a file whose ids are all between two.
fn record(output: &str, published: Published, ids: (i64, i64)) -> Record {
    Record {
        format: FORMAT,
        output: output.to_owned(),
        period: Period::parse(SLOTS[0]).unwrap(),
        feed: Feed::English,
        outcome: Outcome::Done,
        sources: Vec::new(),
        fingerprint: String::new(),
        rows: 1,
        size: published.size,
        modified_ns: published.modified_ns,
        footer_start: 4,
        key_ranges: [("GLOBALEVENTID".to_owned(), ids)].into(),
        counts: [].into(),
        rows_read: 0,
        unknown_codes: BTreeMap::new(),
        records: None,
        rejects: None,
        parts: Vec::new(),
        run_ns: 0,
        finished_ns: 1,
        tool: String::new(),
    }
}

#[test]
fn files_whose_ids_are_elsewhere_are_not_read() {
    let archive = Archive::new();
    archive.events("a", &[Some(10), Some(20)]);
    archive.records(SLOTS[0], &[Some("u")]);
    let ledger = Ledger::new(&archive.budget, &archive.path("mentions/catalog"));
    let writer = ledger.writer(StageName::Convert);
    let mut minutes = 0..;
    let mut add = |id: i64, ids: (i64, i64)| {
        let slot = format!("202006010{:02}500", minutes.next().unwrap());
        let published = archive.mentions(&slot, id, &[(Some(id), Some("u"), None)]);
        writer.append(&record(&format!("{slot}.mentions.parquet"), published, ids)).unwrap();
    };
    for (id, ids) in [(5, (1, 9)), (15, (11, 19)), (21, (21, 99)), (10, (1, 10)), (20, (20, 20))] {
        add(id, ids);
    }
    writer.close().unwrap();
    let summary = archive.run("v2", &[]).unwrap();
    assert_eq!(summary.counts["files skipped by id range"], 3);
    assert_eq!(summary.counts["files read"], 2 + 1);
    assert_eq!(archive.rows(&["GlobalEventID", "Mention_Confidence"]), ["10 10", "20 20"]);
    let planned = archive.run("v2", &["--dry-run"]).unwrap();
    assert_eq!(planned.counts["files skipped by id range"], 3);
}

#[test]
fn dates_choose_files_and_no_events() {
    let archive = Archive::new();
    archive.events("a", &[Some(1)]);
    for slot in ["20200601000000", "20200602000000"] {
        archive.mentions(slot, 0, &[(Some(1), Some("u"), None)]);
        archive.records(slot, &[Some("u")]);
    }
    archive.run("v2", &["--start-date", "2020-06-02", "--end-date", "2020-06-02"]).unwrap();
    assert_eq!(archive.rows(ROW), ["a:0 0 20200602000000-0"]);
}

#[test]
fn a_dry_run_changes_nothing() {
    let archive = Archive::new();
    archive.events("a", &[Some(1)]);
    archive.mentions(SLOTS[0], 0, &[(Some(1), Some("u"), None)]);
    archive.records(SLOTS[0], &[Some("u")]);
    let before = archive.budget.list_directories(archive.directory.path()).unwrap();
    let summary = archive.run("v2", &["--dry-run"]).unwrap();
    assert_eq!((summary.files.made, summary.counts["events"]), (1, 1));
    assert_eq!(archive.budget.list_directories(archive.directory.path()).unwrap(), before);
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let archive = Archive::new();
    archive.events("a", &[Some(1)]);
    archive.mentions(SLOTS[0], 0, &[]);
    archive.records(SLOTS[0], &[]);
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    archive.write("other/no-id.parquet", vec![("Id", Arc::clone(&ids))]);
    let twice = vec![("GlobalEventID", Arc::clone(&ids)), ("GKG_V2GCAM", ids)];
    archive.write("other/enriched.parquet", twice);
    let at = |relative: &str| archive.path(relative).to_str().unwrap().to_owned();
    let refused = |flags: &[&str], part: &str, code: u8| {
        let args = archive.args("v2", flags);
        let outcome = run(args);
        let error = outcome.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(error.status().code(), code, "{error}");
    };
    refused(&["--out", &at("events/o.parquet")], "among the inputs", 2);
    refused(&["--out", &at("gkg-v2/converted/o.parquet")], "among the inputs", 2);
    refused(&["--out", &at("o.csv")], "does not end in .parquet", 2);
    refused(&["--out", &at("")], "does not end in .parquet", 2);
    refused(&["--source-period", "day"], "without --source aggregated", 2);
    refused(&["--source", "aggregated"], "no input matched", 2);
    refused(&["--events", &at("none.parquet")], "does not exist", 2);
    refused(&["--events", &at("mentions")], "holds no Parquet files", 2);
    refused(
        &["--events", &at("other/no-id.parquet")],
        "no-id.parquet: it has no column GlobalEventID",
        1,
    );
    refused(&["--events", &at("other/enriched.parquet")], "have a column GKG_V2GCAM already", 1);
    assert!(archive.run("v1", &[]).unwrap_err().to_string().contains("gkg-v1"));
}

/// The join by its definition.
fn naive(
    events: &[(String, Option<i64>)],
    mentions: &[Mention<'_>],
    records: &[(String, Option<&str>)],
) -> Vec<String> {
    let mut rows = Vec::new();
    for (event, id) in events {
        let mut of_event: Vec<_> = mentions
            .iter()
            .enumerate()
            .filter(|(_, mention)| id.is_some() && mention.0 == *id)
            .collect();
        of_event.sort_by_key(|(row, mention)| (mention.2.is_none(), mention.2, *row));
        for (row, (_, address, _)) in of_event {
            for (name, found) in records {
                if address.is_some_and(|address| !address.is_empty()) && found == address {
                    rows.push(format!("{event} {row} {name}"));
                }
            }
        }
    }
    rows
}

const ADDRESSES: [Option<&str>; 5] = [None, Some(""), Some("u"), Some("u/"), Some("v")];

proptest! {
    // Each case syncs a dozen files.
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_result_is_the_join_by_definition(
        events in proptest::collection::vec(proptest::option::of(0_i64..4), 0..8),
        mentions in proptest::collection::vec(
            (proptest::option::of(0_i64..4), 0_usize..5, proptest::option::of(0_i64..3)), 0..14),
        records in proptest::collection::vec(0_usize..5, 0..10),
        cuts in (0_usize..8, 0_usize..14, 0_usize..10),
    ) {
        let archive = Archive::new();
        let mentions: Vec<Mention<'_>> =
            mentions.into_iter().map(|(id, address, time)| (id, ADDRESSES[address], time)).collect();
        let records: Vec<_> = records.into_iter().map(|address| ADDRESSES[address]).collect();
        let (first, second) = events.split_at(cuts.0.min(events.len()));
        let mut named = Vec::new();
        for (file, ids) in [("a", first), ("b", second)] {
            archive.events(file, ids);
            named.extend(ids.iter().enumerate().map(|(row, id)| (format!("{file}:{row}"), *id)));
        }
        let cut = cuts.1.min(mentions.len());
        archive.mentions(SLOTS[0], 0, &mentions[..cut]);
        archive.mentions(SLOTS[1], i64::try_from(cut).unwrap(), &mentions[cut..]);
        let mut listed = Vec::new();
        let (first, second) = records.split_at(cuts.2.min(records.len()));
        for (slot, addresses) in SLOTS.into_iter().zip([first, second]) {
            archive.records(slot, addresses);
            listed.extend(addresses.iter().enumerate().map(|(row, a)| (format!("{slot}-{row}"), *a)));
        }
        archive.run("v2", &["--jobs", "2"]).unwrap();
        prop_assert_eq!(archive.rows(ROW), naive(&named, &mentions, &listed));
    }
}
