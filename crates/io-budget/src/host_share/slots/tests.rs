use super::super::now_ns;
use super::super::testing::{Child, Meeting};
use super::*;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Instant;

#[test]
fn threads_hold_no_more_than_the_limit() {
    let meeting = Meeting::new();
    // Two of these exclude each other like two processes.
    let both = [meeting.slots(), meeting.slots()];
    let (held, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..16 {
            let (slots, held, peak) = (&both[thread % 2], &held, &peak);
            scope.spawn(move || {
                for _ in 0..20 {
                    let _slot = slots.acquire(|| 3).expect("a slot");
                    peak.fetch_max(held.fetch_add(1, SeqCst) + 1, SeqCst);
                    thread::sleep(Duration::from_micros(200));
                    held.fetch_sub(1, SeqCst);
                }
            });
        }
    });
    assert_eq!((held.into_inner(), peak.into_inner()), (0, 3));
}

#[test]
fn processes_with_different_limits_share_the_low_slots() {
    let meeting = Meeting::new();
    let (few, many) = (meeting.slots(), meeting.slots());
    let low = [few.acquire(|| 2).expect("a slot"), few.acquire(|| 2).expect("a slot")];
    assert!(many.try_acquire(2).expect("files").is_none());
    let high = many.acquire(|| 3).expect("a slot");
    assert_eq!(high.number, 2);
    assert!(many.try_acquire(3).expect("files").is_none());
    drop(low);
    let held = [many.acquire(|| 3).expect("a slot"), many.acquire(|| 3).expect("a slot")];
    assert!(few.try_acquire(2).expect("files").is_none());
    drop((high, held));
    assert!(few.try_acquire(1).expect("files").is_some());
}

#[test]
fn the_limit_is_asked_while_waiting() {
    let meeting = Meeting::new();
    let slots = meeting.slots();
    let (limit, looks) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let ask = || {
        looks.fetch_add(1, SeqCst);
        limit.load(SeqCst)
    };
    let wait_for_looks = |more| {
        let until = looks.load(SeqCst) + more;
        while looks.load(SeqCst) < until {
            thread::yield_now();
        }
    };
    let (sent, entered) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..2 {
            let sent = sent.clone();
            let (slots, ask) = (&slots, &ask);
            scope.spawn(move || {
                let slot = slots.acquire(ask).expect("a slot");
                sent.send(slot).expect("the test listens");
            });
        }
        wait_for_looks(3);
        assert!(entered.try_recv().is_err());
        limit.store(1, SeqCst);
        let first = entered.recv().expect("the first enters");
        wait_for_looks(3);
        assert!(entered.try_recv().is_err());
        limit.store(2, SeqCst);
        let second = entered.recv().expect("the second enters");
        assert_eq!((first.number, second.number), (0, 1));
        // A wild limit opens no more files than are of use.
        limit.store(usize::MAX, SeqCst);
        assert!(slots.acquire(ask).expect("a slot").number < MOST_SLOTS);
    });
}

#[test]
fn the_slots_of_a_killed_process_are_free_at_once() {
    let meeting = Meeting::new();
    let mut child = Child::start(module_path!(), "child_that_holds_two", &meeting);
    child.expect_line("held");
    let slots = meeting.slots();
    assert!(slots.try_acquire(2).expect("files").is_none());
    let killed = Instant::now();
    child.kill();
    let _both = [slots.acquire(|| 2).expect("a slot"), slots.acquire(|| 2).expect("a slot")];
    assert!(killed.elapsed() <= Duration::from_millis(50), "{:?}", killed.elapsed());
    assert!(slots.try_acquire(2).expect("files").is_none());
}

#[test]
#[ignore = "part of another test, which runs it in a process of its own"]
fn child_that_holds_two() {
    let Some(meeting) = Meeting::of_child() else { return };
    let slots = meeting.slots();
    let _both = [slots.acquire(|| 2).expect("a slot"), slots.acquire(|| 2).expect("a slot")];
    Meeting::say("held");
    Meeting::wait_for_parent();
}

#[test]
fn a_process_killed_while_it_waits_lets_the_others_through() {
    let meeting = Meeting::new();
    let mut child = Child::start(module_path!(), "child_that_waits", &meeting);
    child.expect_line("waits");
    let slots = meeting.slots();
    assert!(matches!(slots.turnstile().expect("a file").try_lock(), Err(TryLockError::WouldBlock)));
    child.kill();
    let _slot = slots.acquire(|| 1).expect("a slot");
}

#[test]
#[ignore = "part of another test, which runs it in a process of its own"]
fn child_that_waits() {
    let Some(meeting) = Meeting::of_child() else { return };
    let slots = meeting.slots();
    let begun = Instant::now();
    let told = OnceLock::new();
    let _slot = slots.acquire(|| {
        told.get_or_init(|| Meeting::say("waits"));
        usize::from(begun.elapsed() > Duration::from_secs(10))
    });
}

/// How long eight processes compete.
const CONTEST: Duration = Duration::from_secs(2);

#[test]
fn eight_processes_share_two_slots_evenly() {
    let meeting = Meeting::new();
    let mut children: Vec<Child> =
        (0..8).map(|_| Child::start(module_path!(), "child_that_competes", &meeting)).collect();
    for child in &mut children {
        child.expect_line("ready");
    }
    children.iter_mut().for_each(Child::release);
    let mut counts = Vec::new();
    // Ends sort before beginnings of the same time.
    let mut changes: Vec<(u64, i32)> = Vec::new();
    for child in &mut children {
        let mut holds = 0;
        for line in child.remaining_lines() {
            let Some(times) = line.strip_prefix("held ") else { continue };
            let (from, to) = times.split_once(' ').expect("two times");
            changes.push((from.parse().expect("a time"), 1));
            changes.push((to.parse().expect("a time"), -1));
            holds += 1;
        }
        counts.push(holds);
    }
    changes.sort_unstable();
    let held = changes.iter().scan(0, |held, (_, change)| {
        *held += change;
        Some(*held)
    });
    assert_eq!(held.max(), Some(2));
    let (least, most) = (counts.iter().min().expect("eight"), counts.iter().max().expect("eight"));
    assert!(*least > 0 && 2 * least >= *most, "{counts:?}");
}

#[test]
#[ignore = "part of another test, which runs it in a process of its own"]
fn child_that_competes() {
    let Some(meeting) = Meeting::of_child() else { return };
    let slots = meeting.slots();
    Meeting::say("ready");
    Meeting::wait_for_parent();
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while begun.elapsed() < CONTEST {
                    let slot = slots.acquire(|| 2).expect("a slot");
                    let from = now_ns();
                    thread::sleep(Duration::from_millis(5));
                    let to = now_ns();
                    drop(slot);
                    Meeting::say(&format!("held {from} {to}"));
                }
            });
        }
    });
}
