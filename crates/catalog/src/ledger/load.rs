//! Reads segments, and merges those of a month that has many.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use io_budget::{Budget, Entry, Writer};

use super::segment::{CLOSED_SUFFIX, MERGED_SUFFIX, OPEN_SUFFIX, line};
use super::{Error, FORMAT, MERGE_AT, Record};
use crate::DateRange;

/// A merged segment's text may be this much larger than its compressed bytes; more is no ledger.
const EXPANSION: u64 = 1_000;

/// How often a month is listed again when segments vanish because another process merges them.
const LISTINGS: usize = 5;

/// What a stage has done: of each output the latest record.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The records by output.
    pub records: HashMap<String, Record>,
    /// Lines that are no records of a format this program knows. They count as not recorded.
    pub unreadable: Vec<UnreadableLine>,
    /// Months with segments to close or merge.
    untidy: Vec<PathBuf>,
}

/// A line that is no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableLine {
    /// The segment.
    pub path: PathBuf,
    /// Line number, from 1.
    pub line: usize,
}

impl Loaded {
    fn add(&mut self, record: Record) {
        match self.records.get(&record.output) {
            Some(known) if known.finished_ns > record.finished_ns => {}
            _ => {
                self.records.insert(record.output.clone(), record);
            }
        }
    }

    /// Closes the segments that dead processes left open, and merges those of months that have
    /// many. Loading alone changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error`] when a segment cannot be read, renamed, written or removed.
    pub fn tidy(&self, budget: &Budget) -> Result<(), Error> {
        self.untidy.iter().try_for_each(|month| tidy_month(budget, month))
    }

    /// Reads the lines of a segment. A last line without its end was cut by a crash: the work it
    /// would have recorded is done again.
    fn read_lines(&mut self, path: &Path, text: &[u8]) {
        let lines = text.split_inclusive(|byte| *byte == b'\n').enumerate();
        for (index, line) in lines {
            if !line.ends_with(b"\n") {
                continue;
            }
            match serde_json::from_slice::<Record>(line) {
                Ok(record) if record.format == FORMAT => self.add(record),
                _ => {
                    let path = path.to_owned();
                    self.unreadable.push(UnreadableLine { path, line: index + 1 });
                }
            }
        }
    }
}

pub(super) fn load(budget: &Budget, stage: &Path, range: DateRange) -> Result<Loaded, Error> {
    let mut loaded = Loaded::default();
    let months = match budget.list_directories(stage) {
        Ok(months) => months,
        Err(error) if error.is_not_found() => return Ok(loaded),
        Err(error) => return Err(error.into()),
    };
    for month in months.iter().filter(|month| range.may_hold_month(month)) {
        let of_month = load_month(budget, &stage.join(month))?;
        for record in of_month.records.into_values() {
            loaded.add(record);
        }
        loaded.unreadable.extend(of_month.unreadable);
        loaded.untidy.extend(of_month.untidy);
    }
    Ok(loaded)
}

fn load_month(budget: &Budget, directory: &Path) -> Result<Loaded, Error> {
    let mut attempt = 1;
    loop {
        match try_load_month(budget, directory) {
            Err(Error::Io(error)) if error.is_not_found() && attempt < LISTINGS => attempt += 1,
            outcome => return outcome,
        }
    }
}

fn try_load_month(budget: &Budget, directory: &Path) -> Result<Loaded, Error> {
    let segments = list_segments(budget, directory)?;
    let mut loaded = Loaded::default();
    for path in segments.closed.iter().chain(&segments.abandoned) {
        let bytes = budget.read_file(path)?;
        if path.to_string_lossy().ends_with(MERGED_SUFFIX) {
            loaded.read_lines(path, &decompress(path, &bytes)?);
        } else {
            loaded.read_lines(path, &bytes);
        }
    }
    if segments.closed.len() >= MERGE_AT || !segments.abandoned.is_empty() {
        loaded.untidy.push(directory.to_owned());
    }
    Ok(loaded)
}

/// The segments of a month that count.
struct Segments {
    closed: Vec<PathBuf>,
    /// Open, but their writers are gone.
    abandoned: Vec<PathBuf>,
}

fn list_segments(budget: &Budget, directory: &Path) -> Result<Segments, Error> {
    let mut segments = Segments { closed: Vec::new(), abandoned: Vec::new() };
    for entry in budget.list(directory, is_segment)? {
        let path = directory.join(&entry.name);
        match entry.name.strip_suffix(OPEN_SUFFIX) {
            None => segments.closed.push(path),
            Some(writer) if is_gone(writer, &entry) => segments.abandoned.push(path),
            Some(_) => {}
        }
    }
    Ok(segments)
}

fn is_segment(name: &str) -> bool {
    name.ends_with(CLOSED_SUFFIX) || name.ends_with(MERGED_SUFFIX)
}

fn tidy_month(budget: &Budget, directory: &Path) -> Result<(), Error> {
    // A merge that was killed leaves its unfinished segment.
    budget.sweep(directory)?;
    for path in list_segments(budget, directory)?.abandoned {
        let name = path.to_string_lossy();
        let closed = format!("{}{CLOSED_SUFFIX}", name.trim_end_matches(OPEN_SUFFIX));
        match budget.rename(&path, Path::new(&closed)) {
            // Another process closed it first.
            Err(error) if error.is_not_found() => {}
            renamed => renamed?,
        }
    }
    let closed = list_segments(budget, directory)?.closed;
    let loaded = load_month(budget, directory)?;
    if closed.len() >= MERGE_AT && loaded.unreadable.is_empty() {
        merge(budget, directory, &loaded, &closed)?;
    }
    Ok(())
}

fn is_gone(writer: &str, entry: &Entry) -> bool {
    // A name ends with a dot for the parser, which reads the front of a longer name.
    let writer = Writer::parse_prefix(&format!("{writer}.")).map(|(writer, _)| writer);
    writer.map_or_else(|| entry.stat.is_abandoned(), |writer| writer.is_gone(entry.stat))
}

fn decompress(path: &Path, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let damaged = |source| Error::Damaged { path: path.to_owned(), source };
    let mut text = Vec::new();
    let limit = (bytes.len() as u64).saturating_mul(EXPANSION);
    let decoder = zstd::Decoder::new(bytes).map_err(damaged)?;
    decoder.take(limit).read_to_end(&mut text).map_err(damaged)?;
    Ok(text)
}

/// Writes the records of the closed segments as one and removes those. A crash in between leaves
/// records twice, which changes nothing.
fn merge(
    budget: &Budget,
    directory: &Path,
    loaded: &Loaded,
    closed: &[PathBuf],
) -> Result<(), Error> {
    let merged = directory.join(format!("{}{MERGED_SUFFIX}", Writer::next()));
    let failed = |source| Error::Io(io_budget::Error::new("write", &merged, source));
    let mut outputs: Vec<_> = loaded.records.keys().collect();
    outputs.sort_unstable();
    let mut encoder = zstd::Encoder::new(budget.stage(&merged), 1).map_err(failed)?;
    for output in outputs {
        encoder.write_all(&line(&loaded.records[output])).map_err(failed)?;
    }
    encoder.finish().map_err(failed)?.publish()?;
    for path in closed {
        budget.remove(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger, Outcome, StageName};
    use crate::{Feed, Period};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn record(slot: &str, finished_ns: i64, rows: u64) -> Record {
        Record {
            format: FORMAT,
            output: format!("{slot}.export.parquet"),
            period: Period::parse(slot).unwrap(),
            feed: Feed::English,
            outcome: Outcome::Done,
            sources: Vec::new(),
            fingerprint: String::from("f"),
            rows,
            size: 4,
            modified_ns: 5,
            footer_start: 1,
            key_ranges: BTreeMap::from([(String::from("GlobalEventID"), (1, 2))]),
            counts: BTreeMap::new(),
            rows_read: 0,
            unknown_codes: BTreeMap::new(),
            records: None,
            rejects: None,
            parts: Vec::new(),
            run_ns: 0,
            finished_ns,
            tool: String::from("0"),
        }
    }

    fn ledger(root: &Path) -> Ledger {
        Ledger::new(&Budget::private(), root)
    }

    fn load_all(root: &Path) -> Loaded {
        ledger(root).load(StageName::Convert, DateRange::default()).unwrap()
    }

    fn segments(root: &Path, month: &str) -> Vec<String> {
        let directory = root.join("convert").join(month);
        let listed = Budget::private().list(&directory, |_| true).unwrap();
        listed.into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn closed_work_is_loaded_and_the_latest_record_counts() {
        let root = tempfile::tempdir().unwrap();
        let first = ledger(root.path()).writer(StageName::Convert);
        first.append(&record("20150218230000", 2, 20)).unwrap();
        first.append(&record("20150301000000", 1, 1)).unwrap();
        assert!(load_all(root.path()).records.is_empty(), "the writer is alive and has not closed");
        first.close().unwrap();
        let second = ledger(root.path()).writer(StageName::Convert);
        second.append(&record("20150218230000", 1, 10)).unwrap();
        second.close().unwrap();
        let loaded = load_all(root.path());
        assert_eq!(loaded.records.len(), 2);
        assert_eq!(loaded.records["20150218230000.export.parquet"].rows, 20);
        let range = DateRange { end: Period::parse("20150228").map(Period::last_day), start: None };
        let narrowed = ledger(root.path()).load(StageName::Convert, range).unwrap();
        assert_eq!(narrowed.records.len(), 1);
    }

    #[test]
    fn an_open_segment_of_a_dead_process_counts_up_to_its_torn_end() {
        let root = tempfile::tempdir().unwrap();
        let alive = Writer::next().to_string();
        let dead = format!("{}.2147483646.1.0", alive.split('.').next().unwrap());
        let directory = root.path().join("convert/201502");
        let budget = Budget::private();
        let mut file = budget.append(&directory.join(format!("{dead}.open.jsonl"))).unwrap();
        file.append(&line(&record("20150218230000", 1, 10))).unwrap();
        file.append(b"not json\n").unwrap();
        let torn = line(&record("20150218231500", 1, 10));
        file.append(&torn[..torn.len() / 2]).unwrap();
        drop(file);
        let loaded = load_all(root.path());
        assert_eq!(loaded.records.len(), 1);
        assert_eq!(loaded.unreadable.iter().map(|line| line.line).collect::<Vec<_>>(), [2]);
        assert_eq!(segments(root.path(), "201502"), [format!("{dead}.open.jsonl")]);
        loaded.tidy(&budget).unwrap();
        assert_eq!(segments(root.path(), "201502"), [format!("{dead}.jsonl")]);
        assert_eq!(load_all(root.path()).records, loaded.records);
    }

    #[test]
    fn many_segments_become_one_with_the_same_records() {
        let root = tempfile::tempdir().unwrap();
        let minutes = |number: usize| format!("2015021823{:02}{:02}", number / 60, number % 60);
        for number in 0..MERGE_AT {
            let writer = ledger(root.path()).writer(StageName::Convert);
            writer.append(&record(&minutes(number), 1, number as u64)).unwrap();
            writer.close().unwrap();
        }
        let loaded = load_all(root.path());
        loaded.tidy(&Budget::private()).unwrap();
        let before = loaded.records;
        let names = segments(root.path(), "201502");
        assert_eq!(names.len(), 1);
        assert!(names[0].ends_with(MERGED_SUFFIX));
        assert_eq!(before.len(), MERGE_AT);
        assert_eq!(load_all(root.path()).records, before);
    }

    proptest! {
        // Each case syncs dozens of files.
        #![proptest_config(ProptestConfig::with_cases(24))]

        // Two processes that work on the same outputs in any order, merging or not, leave of each
        // output the record that was finished last.
        #[test]
        fn nothing_is_lost_between_writers(
            work in proptest::collection::vec((0_u8..6, 1_i64..100, any::<bool>()), 1..40),
        ) {
            let root = tempfile::tempdir().unwrap();
            let mut expected: HashMap<String, i64> = HashMap::new();
            for (output, finished, tidy_between) in work {
                let record = record(&format!("2015021823000{output}"), finished, 1);
                let latest = expected.entry(record.output.clone()).or_insert(finished);
                *latest = (*latest).max(finished);
                let writer = ledger(root.path()).writer(StageName::Convert);
                writer.append(&record).unwrap();
                writer.close().unwrap();
                if tidy_between {
                    tidy_month(&Budget::private(), &root.path().join("convert/201502"))
                        .unwrap();
                }
            }
            let loaded = load_all(root.path()).records;
            let finished: HashMap<_, _> =
                loaded.into_iter().map(|(output, record)| (output, record.finished_ns)).collect();
            prop_assert_eq!(finished, expected);
        }
    }
}
