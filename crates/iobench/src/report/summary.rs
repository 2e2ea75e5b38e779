//! Says in sentences what the figures show.
//!
//! The sentences are made of means over the runs that count; killed runs are named beside them.

use maud::{Markup, html};

use super::bars::{settings, stage_name, stages};
use super::scaling::{concurrency, line_name, lines, noun};
use crate::cells::Cell;
use crate::check::{Verdict, judge};
use crate::grid::{groups, kind};
use crate::record::{Setting, Source};
use crate::shown::{counted, number};
use crate::statistics::{Spread, real};

/// Throughput that is as good as the most: differences below this share are noise.
const AS_GOOD: f64 = 0.9;

/// A list of what each line, stage and check shows.
pub(crate) fn paragraphs(cells: &[Cell<'_>]) -> Markup {
    html! {
        @for group in groups(cells) {
            p {
                strong { (kind(group[0].setting)) } " on " code { (group[0].directory.display()) }
                @if let Some(idle) = idle(group) {
                    ". A read that is alone takes " (number(idle.mean)) " ms"
                }
            }
            ul {
                @match group[0].setting {
                    Setting::Raw(_) => @for line in lines(group) { li { (raw(line)) } },
                    Setting::Stage(_) => @for cells in stages(group) { li { (stage(cells)) } },
                    Setting::Check(_) => @for cell in group { li { (check(cell)) } },
                }
            }
        }
    }
}

/// The median round trip of a read that is alone, around the runs of these cells.
pub(crate) fn idle(cells: &[Cell<'_>]) -> Option<Spread> {
    Spread::of(cells.iter().filter_map(|cell| cell.idle_ms).map(|idle| idle.mean))
}

/// Where throughput stops growing along a line, and how round trips grow.
fn raw(line: &[Cell<'_>]) -> String {
    let mut sentences = vec![throughput(line)];
    sentences.extend(round_trips(line));
    sentences.extend(killed(line));
    let text = format!("{}: {}.", line_name(line), sentences.join(". "));
    text[..1].to_uppercase() + &text[1..]
}

fn throughput(line: &[Cell<'_>]) -> String {
    let counted_cells: Vec<(usize, f64)> =
        line.iter().filter_map(|cell| Some((concurrency(cell), cell.rate()?.mean))).collect();
    let readers = |count| counted(count, noun(&line[0]));
    let most = counted_cells.iter().copied().reduce(
        |best, next| {
            if next.1 > best.1 { next } else { best }
        },
    );
    let (Some((most_at, most)), [(first_at, first), ..]) = (most, counted_cells.as_slice()) else {
        return "no run counts".to_owned();
    };
    let start = format!("{} MB/s with {}", number(*first), readers(*first_at));
    if counted_cells.len() == 1 {
        return start;
    }
    // The first cell that reaches a share below 1 of the most: the most itself does.
    let enough = counted_cells.iter().find(|(_, rate)| *rate >= most * AS_GOOD);
    let enough = enough.map_or(most_at, |(at, _)| *at);
    let last = counted_cells.last().map_or(most_at, |(at, _)| *at);
    let growth = if enough == last {
        format!("throughput still grows at N {last}, the most that was measured to the end")
    } else {
        format!("from N {enough} on, it does not grow by more than a tenth")
    };
    if most_at == *first_at {
        return format!("{start}, more than with any other number; {growth}");
    }
    format!("{start}, at most {} MB/s, with {}; {growth}", number(most), readers(most_at))
}

fn round_trips(line: &[Cell<'_>]) -> Option<String> {
    let known: Vec<(usize, f64)> =
        line.iter().filter_map(|cell| Some((concurrency(cell), cell.rtt_ms?.mean))).collect();
    let [(first_at, first), .., (last_at, last)] = known.as_slice() else { return None };
    let (times, more) = (last / first, real(*last_at) / real(*first_at));
    let plain = format!(
        "The mean round trip goes from {} ms (N {first_at}) to {} ms (N {last_at})",
        number(*first),
        number(*last)
    );
    if !(times.is_finite() && times > 0.0 && more.is_finite() && more > 1.0) {
        return Some(plain);
    }
    // 1 where round trips grow as N does: each further request waits for those before it.
    let exponent = times.ln() / more.ln();
    let meaning = if exponent > 0.7 {
        "about in proportion to N: further requests wait in a queue"
    } else if exponent > 0.3 {
        "less than N does"
    } else {
        "hardly: further requests are served beside the others"
    };
    Some(format!(
        "{plain}: {} times for {} times as many {}s, {meaning}",
        number(times),
        number(more),
        noun(&line[0])
    ))
}

/// Where runs of a line were killed.
fn killed(line: &[Cell<'_>]) -> Option<String> {
    let killed: Vec<String> = line
        .iter()
        .filter(|cell| !cell.killed.is_empty())
        .map(|cell| {
            format!("{} of {} at N {}", cell.killed.len(), cell.runs.len(), concurrency(cell))
        })
        .collect();
    (!killed.is_empty()).then(|| format!("Killed since reads took too long: {}", killed.join(", ")))
}

/// The fastest setting of a stage, and the one that is gentlest among those as good.
fn stage(cells: &[Cell<'_>]) -> String {
    let name = stage_name(&cells[0]);
    let fast = cells
        .iter()
        .filter_map(|cell| Some((cell, cell.read_mb_s?.mean)))
        .max_by(|one, other| one.1.total_cmp(&other.1));
    let Some((fastest, most)) = fast else { return format!("{name}: no run counts.") };
    let fast = format!("{name}: most input, {} MB/s, with {}.", number(most), settings(fastest));
    let gentle = cells
        .iter()
        .filter(|cell| cell.read_mb_s.is_some_and(|rate| rate.mean >= most * AS_GOOD))
        .filter_map(|cell| Some((cell, cell.worst_ms?.mean)))
        .min_by(|one, other| one.1.total_cmp(&other.1));
    let Some((gentle, worst)) = gentle else { return fast };
    let what = if std::ptr::eq(gentle, fastest) { "it".to_owned() } else { settings(gentle) };
    format!(
        "{fast} Of the settings within a tenth of that, {what} has the shortest worst round trip, \
         {} ms.",
        number(worst)
    )
}

/// Whether the budget held in the runs of a check.
fn check(cell: &Cell<'_>) -> String {
    let most = cell.most_in_flight.map_or_else(|| "not known".to_owned(), |most| most.to_string());
    let Setting::Check(check) = cell.setting else { return String::new() };
    let threads = counted(check.threads, "thread");
    let Some(limit) = check.limit else {
        return format!("{threads}, no limit: most requests in flight at once: {most}.");
    };
    let verdicts: Vec<Verdict> = cell.runs.iter().map(|run| judge(run)).collect();
    let known = verdicts.iter().filter(|verdict| !matches!(verdict, Verdict::Unknown { .. }));
    let held = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Holds { .. }));
    format!(
        "{threads}, limit {limit}: the limit held in {} of {}; most requests in flight at once: \
         {most}.",
        held.count(),
        counted(known.count(), "run")
    )
}

/// Names where figures come from, each source once.
pub(crate) fn source(sources: impl Iterator<Item = Source>) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for source in sources {
        let name = match source {
            Source::Mountstats => "the NFS client's counters",
            Source::Diskstats => "the block device's counters",
            Source::OwnTiming => "the program's own timing",
            Source::ProbeReads => "probe reads beside the run",
            Source::StageReport => "the stage's own report",
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(" and "))
}
