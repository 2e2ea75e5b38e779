//! Makes small archives and reads them back.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{Cursor, Read as _};

use clap::Parser;
use zip::ZipArchive;

use super::MakeArchive;

/// Files by dataset and name.
type Files = BTreeMap<String, Vec<u8>>;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    task: MakeArchive,
}

fn make(flags: &str, threads: usize) -> Files {
    let folder = tempfile::tempdir().unwrap();
    let small = "make-archive --slots 3 --events 300 --gkg 60 --daily-events 400";
    let mut words: Vec<_> = small.split(' ').chain(flags.split_whitespace()).collect();
    words.extend(["--root", folder.path().to_str().unwrap()]);
    Cli::parse_from(words).task.make(threads).unwrap();

    let mut files = Files::new();
    for dataset in fs::read_dir(folder.path()).unwrap() {
        let dataset = dataset.unwrap();
        for file in fs::read_dir(dataset.path().join("raw")).unwrap() {
            let file = file.unwrap();
            let [dataset, name] = [dataset.file_name(), file.file_name()];
            let name = format!("{}/{}", dataset.display(), name.display());
            files.insert(name, fs::read(file.path()).unwrap());
        }
    }
    files
}

/// Returns the cells of a dataset's rows, with the stamp of the file before them.
fn rows(files: &Files, dataset: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (path, zip) in files {
        let Some(name) = path.strip_prefix(&format!("{dataset}/")) else {
            continue;
        };
        let mut archive = ZipArchive::new(Cursor::new(zip)).unwrap();
        assert_eq!(archive.len(), 1);
        let mut member = archive.by_index(0).unwrap();
        assert_eq!(format!("{}.zip", member.name().unwrap()), name);
        let mut content = Vec::new();
        member.read_to_end(&mut content).unwrap();
        let content = String::from_utf8_lossy(&content);
        let stamp = name.split('.').next().unwrap();
        let cells =
            |line: &str| [stamp].into_iter().chain(line.split('\t')).map(String::from).collect();
        rows.extend(content.lines().map(cells));
    }
    rows
}

#[test]
fn equal_flags_give_equal_bytes() {
    let files = make("--days 2", 1);
    assert_eq!(files.len(), 2 * (3 * 3 + 3));
    assert!(files == make("--days 2", 2));
    let other = make("--days 2 --seed 2", 2);
    assert!(files.keys().eq(other.keys()));
    assert!(files.iter().all(|(name, bytes)| bytes != &other[name]));
}

#[test]
fn rows_have_the_columns_of_their_dataset() {
    let files = make("", 2);
    let expected = [
        ("events", 58, 400),
        ("events-15min", 61, 900),
        ("mentions", 16, 0),
        ("gkg-v2", 27, 0),
        ("gkg-v1", 11, 0),
        ("gkg-v1-counts", 15, 0),
    ];
    for (dataset, columns, count) in expected {
        let rows = rows(&files, dataset);
        assert!(rows.iter().all(|row| row.len() == columns + 1), "{dataset}");
        assert!(rows.len() > 50 && (count == 0 || rows.len() == count), "{dataset}");
    }
    let header = |dataset| rows(&files, dataset).first().unwrap()[1..].join(" ");
    assert_eq!(
        header("gkg-v1"),
        "DATE NUMARTS COUNTS THEMES LOCATIONS PERSONS ORGANIZATIONS TONE CAMEOEVENTIDS \
         SOURCES SOURCEURLS"
    );
    assert_eq!(
        header("gkg-v1-counts"),
        "DATE NUMARTS COUNTTYPE NUMBER OBJECTTYPE GEO_TYPE GEO_FULLNAME GEO_COUNTRYCODE \
         GEO_ADM1CODE GEO_LAT GEO_LONG GEO_FEATUREID CAMEOEVENTIDS SOURCES SOURCEURLS"
    );
}

#[test]
fn events_mentions_and_documents_join() {
    let files = make("", 2);
    let events = rows(&files, "events-15min");
    let added: HashMap<_, _> = events.iter().map(|event| (&event[1], &event[0])).collect();
    assert_eq!(added.len(), events.len());
    assert!(events.is_sorted_by_key(|event| event[1].parse::<u64>().unwrap()));

    let mentions = rows(&files, "mentions");
    assert!(mentions.iter().all(|mention| *added[&mention[1]] == mention[2]));
    assert!(mentions.iter().all(|mention| mention[0] == mention[3]));
    assert!(mentions.iter().all(|mention| (mention[4] == "1") == mention[6].starts_with("http")));
    let own: HashSet<_> = mentions
        .iter()
        .filter(|mention| mention[2] == mention[3])
        .map(|mention| &mention[1])
        .collect();
    assert_eq!(own.len(), events.len());
    assert!(mentions.iter().any(|mention| mention[2] < mention[3]));

    let mentioned: HashSet<_> = mentions.iter().map(|mention| (&mention[0], &mention[6])).collect();
    let named = events.iter().filter(|event| mentioned.contains(&(&event[0], &event[61]))).count();
    assert!(named * 100 >= events.len() * 99);

    let records = rows(&files, "gkg-v2");
    assert!(records.iter().all(|record| record[0] == record[2]));
    let ids: HashSet<_> = records.iter().map(|record| &record[1]).collect();
    assert_eq!(ids.len(), records.len());
    let documents: HashSet<_> = records.iter().map(|record| (&record[0], &record[5])).collect();
    let found = mentioned.intersection(&documents).count();
    assert!((60..100).contains(&(found * 100 / mentioned.len())));
}

#[test]
fn namesets_name_events_of_their_day() {
    let files = make("--days 2", 2);
    let events: HashSet<_> = rows(&files, "events")
        .into_iter()
        .map(|event| (event[0].clone(), event[1].clone()))
        .collect();
    assert_eq!(events.len(), 800);
    for (dataset, column) in [("gkg-v1", 9), ("gkg-v1-counts", 13)] {
        let rows = rows(&files, dataset);
        let rows = rows.iter().filter(|row| row[1] != "DATE");
        let named: Vec<_> = rows
            .flat_map(|row| row[column].split(',').map(|id| (row[0].clone(), id.to_owned())))
            .filter(|(_, id)| !id.is_empty())
            .collect();
        assert!(named.len() > 50);
        assert!(named.iter().all(|event| events.contains(event)), "{dataset}");
    }
}

#[test]
fn new_events_of_early_2020_are_dated_1920() {
    let files = make("--start-date 2020-01-02", 2);
    for (dataset, added) in [("events", 57), ("events-15min", 60)] {
        let events = rows(&files, dataset);
        assert!(events.iter().all(|event| event[added].starts_with("20200102")));
        let wrong: Vec<_> = events.iter().filter(|event| event[4] == "1920").collect();
        assert!(wrong.len() * 4 > events.len(), "{dataset}");
        let of_the_day = wrong.iter().find(|event| event[2] == "19200102").unwrap();
        assert_eq!(of_the_day[3..6], ["192001", "1920", "1920.0055"]);
    }
    // The first slots of the last day of 2019 were still right.
    let eve = make("--start-date 2019-12-31", 2);
    assert!(rows(&eve, "events-15min").iter().all(|event| event[4] != "1920"));
    assert!(rows(&make("", 2), "events").iter().all(|event| event[4] != "1920"));
}

#[test]
fn refuses_a_folder_that_is_not_empty() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kept"), "").unwrap();
    let words = ["make-archive", "--root", folder.path().to_str().unwrap()];
    assert!(Cli::parse_from(words).task.make(1).is_err());
}
