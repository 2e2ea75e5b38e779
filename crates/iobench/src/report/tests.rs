use super::html;
use crate::record::{FileSize::Large, FileSize::Small, Idle, Outcome, Run, Second};
use crate::testing::{check, killed, not_measured, raw, stage};

/// The text between two marks of a page.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let start = page.find(from).expect("the first mark");
    let rest = &page[start..];
    &rest[..rest.find(to).expect("the second mark")]
}

fn one_of_each() -> Vec<Run> {
    vec![
        raw(Large, 1, 65, 15.0),
        raw(Large, 2, 83, 25.0),
        raw(Large, 4, 88, 46.0),
        raw(Large, 8, 88, 90.0),
        killed(raw(Large, 16, 58, 185.0), 8),
        raw(Small, 1, 57, 13.0),
        stage("workers", "4", 50, 40),
        stage("workers", "8", 54, 44),
        check(Some(4), 4),
        check(Some(2), 5),
    ]
}

#[test]
fn hostile_names_are_shown_and_do_nothing() {
    let hostile = "</script><script>x</script>\"><img onerror=x>\u{1b}[2J\0\u{9b}\u{202e}'&";
    let mut raw = raw(Large, 1, 65, 15.0);
    raw.target.directory = hostile.into();
    raw.target.mount_point = hostile.into();
    for text in [
        &mut raw.target.class,
        &mut raw.target.why,
        &mut raw.target.fs_type,
        &mut raw.target.source,
        &mut raw.target.mount_options,
        &mut raw.host.kernel,
        &mut raw.version,
        &mut raw.session,
        &mut raw.began,
    ] {
        hostile.clone_into(text);
    }
    let mut failed = raw.clone();
    failed.outcome = Outcome::Failed { causes: vec![hostile.to_owned(); 2] };
    let stage = stage(hostile, hostile, 1, 1);
    let page = html(&[raw, failed, stage]);
    assert!(!page.contains("<script"), "a script");
    assert!(!page.contains("<img"), "an image");
    assert!(page.contains(
        "&lt;/script&gt;&lt;script&gt;x&lt;/script&gt;&quot;&gt;&lt;img onerror=x&gt;\
         \\u{1b}[2J\\u{0}\\u{9b}\\u{202e}'&amp;"
    ));
    assert!(page.chars().all(|character| character == '\n' || !character.is_control()));
    // Every double quote that the record holds is escaped, so that no attribute ends early.
    assert!(!page.contains("</script"), "the end of a script");
}

#[test]
fn the_page_is_closed_to_all_that_it_does_not_hold() {
    let page = html(&one_of_each());
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">"));
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; "));
    for outside in ["http:", "https:", "url(", "@import", "src=\"", "href="] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn killed_runs_stay_visible_and_are_not_joined_like_others() {
    let page = html(&one_of_each());
    let plot = between(&page, "<figcaption>Throughput", "</figure>");
    // Four cells and one after another: three lines; one to the killed cell, which is dashed.
    let lines = |class: &str| plot.matches(&format!("<line class=\"{class}\"")).count();
    assert_eq!((lines("curve"), lines("curve dashed")), (3, 1));
    assert_eq!(plot.matches("class=\"mark hollow\"").count(), 1);
    assert!(plot.contains("<title>large, 1 MiB, N 16: 58.0 MB/s, until killed</title>"));
    assert!(page.contains("Killed since reads took too long: 1 of 1 at N 16."));
    assert!(page.contains("class=\"kill\""), "the moment of the kill in the time series");
}

#[test]
fn counted_and_killed_runs_of_a_cell_have_markers_of_their_own() {
    let runs = [raw(Large, 8, 88, 90.0), killed(raw(Large, 8, 60, 110.0), 12)];
    let page = html(&runs);
    let plot = between(&page, "<figcaption>Throughput", "</figure>");
    assert_eq!(plot.matches("class=\"mark\"").count(), 1);
    assert_eq!(plot.matches("class=\"mark hollow\"").count(), 1);
}

#[test]
fn the_summary_says_where_throughput_stops_growing_and_how_round_trips_grow() {
    let page = html(&one_of_each());
    let summary = between(&page, "What this shows", "</section>");
    for sentence in [
        "Large files, 1 MiB requests: 65.0 MB/s with 1 reader, at most 88.0 MB/s, with 4 readers; \
         from N 2 on, it does not grow by more than a tenth.",
        "The mean round trip goes from 15.0 ms (N 1) to 90.0 ms (N 8): 6.0 times for 8.0 times as \
         many readers, about in proportion to N: further requests wait in a queue.",
        "Small files, 1 MiB requests: 57.0 MB/s with 1 reader.",
        "convert gkg: most input, 54.0 MB/s, with workers=8.",
        "16 threads, limit 4: the limit held in 1 of 1 run; most requests in flight at once: 4.",
        "16 threads, limit 2: the limit held in 0 of 1 run; most requests in flight at once: 5.",
    ] {
        assert!(summary.contains(sentence), "{sentence}\n{summary}");
    }
}

#[test]
fn every_run_has_a_row_and_its_cause() {
    let refused = Outcome::Refused { cause: "7 % cached".to_owned() };
    let failed = Outcome::Failed { causes: vec!["EIO".to_owned(), "ESTALE".to_owned()] };
    let runs = [
        raw(Large, 1, 65, 15.0),
        not_measured(raw(Large, 1, 0, 0.0), refused),
        not_measured(raw(Large, 2, 0, 0.0), failed),
    ];
    let page = html(&runs);
    let table = between(&page, "Every run", "</table>");
    assert_eq!(between(table, "<tbody>", "</tbody>").matches("<tr>").count(), 3);
    assert!(table.contains("refused: 7 % cached") && table.contains("failed: EIO; ESTALE"));
    assert!(page.contains("Without a figure: large, 1 MiB, N 2 (1 failed)."));
}

#[test]
fn odd_records_give_a_page() {
    assert!(html(&[]).contains("No runs."));
    let mut still = raw(Large, 0, 0, 0.0);
    let mut huge = raw(Large, usize::MAX, u32::MAX, f64::MAX);
    let mut tiny = raw(Small, 3, 1, f64::MIN_POSITIVE);
    for (run, seconds) in [(&mut still, 0.0), (&mut huge, f64::MAX), (&mut tiny, 1e-320)] {
        let measured = run.measured.as_mut().expect("measured");
        measured.seconds = seconds;
        measured.series.push(Second {
            at: f64::MAX,
            in_flight: Some(f64::MAX),
            rtt_ms: Some(-1.0),
            ..Second::default()
        });
    }
    huge.repeat = u32::MAX;
    huge.inputs.bytes = u64::MAX;
    let mut silent = raw(Large, 2, 5, 1.0);
    silent.idle_before = None;
    silent.idle_after =
        Some(Idle { request_bytes: 0, reads: 0, p50_ms: 0.0, least_ms: 0.0, most_ms: 0.0 });
    silent.measured.as_mut().expect("measured").latency = None;
    silent.measured.as_mut().expect("measured").series.clear();
    let all = [still, huge, tiny, silent];
    for runs in all.iter().map(std::slice::from_ref).chain([all.as_slice()]) {
        let page = html(runs);
        for no_figure in ["NaN", ">inf", "\"inf", " inf", "-inf"] {
            assert!(!page.contains(no_figure), "{no_figure}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }
}

#[test]
fn runs_of_writes_and_checks_without_limit_have_their_own_words() {
    let page = html(&[check(None, 9)]);
    assert!(page.contains("16 threads, no limit: most requests in flight at once: 9."));
    assert!(!page.contains("class=\"limit\" x1=\"44\""), "no line where there is no limit");
}
