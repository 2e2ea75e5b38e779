use super::*;
use crate::record::{FileSize, Raw};
use crate::testing::{check, killed, not_measured, raw, stage};

use FileSize::{Large, Small};

#[test]
fn only_runs_that_count_are_in_the_spreads_and_none_is_lost() {
    let mut capped = raw(Large, 4, 92, 48.0);
    capped.outcome = Outcome::Capped;
    let runs = [
        raw(Large, 4, 88, 46.0),
        capped,
        killed(raw(Large, 4, 50, 110.0), 8),
        killed(raw(Large, 4, 60, 130.0), 21),
        not_measured(raw(Large, 4, 0, 0.0), Outcome::Refused { cause: "cached".to_owned() }),
        not_measured(raw(Large, 4, 0, 0.0), Outcome::Failed { causes: vec!["EIO".to_owned()] }),
    ];
    let cells = cells(&runs);
    let [cell] = cells.as_slice() else { panic!("one cell, not {}", cells.len()) };
    assert_eq!(cell.runs.len(), 6);
    assert_eq!((cell.complete, cell.capped, cell.failed, cell.refused), (1, 1, 1, 1));
    let rate = cell.rate().expect("two runs count");
    assert_eq!((rate.n, rate.mean, rate.least, rate.greatest), (2, 90.0, 88.0, 92.0));
    assert_eq!(cell.rtt_ms.map(|rtt| rtt.mean), Some(47.0));
    assert_eq!(cell.worst_ms.map(|rtt| rtt.greatest), Some(53.0));
    let until =
        |mb_s, rtt_ms, after| Killed { mb_s: Some(mb_s), rtt_ms, after_seconds: Some(after) };
    assert_eq!(cell.killed, [until(50.0, 110.0, 8.0), until(60.0, 130.0, 21.0)]);
    assert_eq!(
        cell.status(),
        "1 ok, 1 capped, 2 killed (55.0 MB/s est., after 8-21 s), 1 failed, 1 refused"
    );
}

#[test]
fn a_cell_without_a_run_that_counts_has_no_rate() {
    let runs = [killed(raw(Small, 8, 30, 122.0), 9)];
    let cells = cells(&runs);
    assert_eq!(cells[0].rate(), None);
    assert_eq!(cells[0].killed_rate().map(|rate| rate.mean), Some(30.0));
    assert_eq!(cells[0].status(), "1 killed (30.0 MB/s est., after 9 s)");
}

#[test]
fn a_killed_run_that_measured_nothing_is_still_killed() {
    let runs = [not_measured(raw(Small, 8, 0, 0.0), Outcome::Killed { rtt_ms: 140.0 })];
    let cells = cells(&runs);
    assert_eq!(cells[0].status(), "1 killed");
    assert_eq!(cells[0].killed_rtt().map(|rtt| rtt.mean), Some(140.0));
}

#[test]
fn the_rate_of_writers_is_that_of_writing() {
    let mut run = raw(Large, 1, 5, 9.0);
    let Setting::Raw(setting) = &mut run.setting else { unreachable!("a raw run") };
    setting.direction = Direction::Write;
    run.measured.as_mut().expect("measured").written_bytes = 700_000_000;
    let runs = [run];
    assert_eq!(cells(&runs)[0].rate().map(|rate| rate.mean), Some(70.0));
}

#[test]
fn the_order_is_that_of_the_settings_whatever_that_of_the_runs() {
    let mut elsewhere = raw(Large, 1, 60, 15.0);
    elsewhere.target.directory = "/data/gdelt10".into();
    let mut near = raw(Large, 1, 60, 15.0);
    near.target.directory = "/data/gdelt9".into();
    let mut write = raw(Large, 1, 60, 15.0);
    write.setting = Setting::Raw(Raw {
        direction: Direction::Write,
        files: Large,
        request_bytes: 1,
        concurrency: 1,
    });
    let mut runs = vec![
        check(None, 9),
        check(Some(4), 4),
        stage("workers", "16", 1, 1),
        stage("workers", "4", 1, 1),
        write,
        elsewhere,
        near,
        raw(Small, 1, 50, 13.0),
        raw(Large, 16, 50, 13.0),
        raw(Large, 2, 50, 13.0),
    ];
    let names = |runs: &[Run]| {
        cells(runs)
            .iter()
            .map(|cell| match cell.setting {
                Setting::Raw(raw) => format!(
                    "{} {:?} {:?} {}",
                    cell.directory.display(),
                    raw.direction,
                    raw.files,
                    raw.concurrency
                ),
                Setting::Stage(stage) => stage.varied["workers"].clone(),
                Setting::Check(check) => format!("{:?}", check.limit),
            })
            .collect::<Vec<_>>()
    };
    let expected = [
        "/data/gdelt Read Large 2",
        "/data/gdelt Read Large 16",
        "/data/gdelt Read Small 1",
        "/data/gdelt9 Read Large 1",
        "/data/gdelt10 Read Large 1",
        "/data/gdelt Write Large 1",
        "4",
        "16",
        "Some(4)",
        "None",
    ];
    assert_eq!(names(&runs), expected);
    runs.reverse();
    assert_eq!(names(&runs), expected);
}

#[test]
fn digits_are_compared_as_numbers() {
    for (less, more) in [("a9", "a10"), ("a09", "a9"), ("", "0"), ("x2y", "x10"), ("1a", "a1")] {
        assert_eq!(natural(less, more), Ordering::Less, "{less} {more}");
        assert_eq!(natural(more, less), Ordering::Greater, "{more} {less}");
    }
    assert_eq!(natural("a1", "a1"), Ordering::Equal);
}
