//! Errors and stalls that take the place of chosen requests, given as rules
//! `OP:ERROR:NTH[:COUNT]`. Noise that strikes at random is the model's business.
//!
//! The rules count requests of the kernel, not calls of programs. A read through the page cache
//! that failed is repeated once, from its first page on: it takes two failing requests to fail it.

use std::num::NonZeroU64;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::io::Errno;

use crate::operation::Operation;

/// The longest stall of a rule: long enough for any time limit, and safe to add to a clock.
const LONGEST_STALL: Duration = Duration::from_hours(24);

const ERRORS: [(&str, Errno); 11] = [
    ("EACCES", Errno::ACCESS),
    ("EAGAIN", Errno::AGAIN),
    ("EDQUOT", Errno::DQUOT),
    ("EINTR", Errno::INTR),
    ("EIO", Errno::IO),
    ("ENOENT", Errno::NOENT),
    ("ENOSPC", Errno::NOSPC),
    ("EPERM", Errno::PERM),
    ("EROFS", Errno::ROFS),
    ("ESTALE", Errno::STALE),
    ("ETIMEDOUT", Errno::TIMEDOUT),
];

/// Which requests fail or stall: `read:ESTALE:3` the third read, `write:ENOSPC:10:*` every write
/// from the tenth on, `read:STALL=2s:5:4` the fifth to the eighth read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    operation: Operation,
    effect: Effect,
    first: NonZeroU64,
    count: Count,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Fail(Errno),
    Stall(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    Times(NonZeroU64),
    Forever,
}

/// Why a rule cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// There are too few or too many parts.
    #[error("expected OP:ERROR:NTH[:COUNT]")]
    Shape,
    /// No request has that name.
    #[error("no operation {0:?}; there are {operations}", operations = operations())]
    Operation(String),
    /// No error has that name.
    #[error("no error {0:?}; there are STALL=TIME, {errors}", errors = errors())]
    Error(String),
    /// The stall is no time from 0 s to a day.
    #[error("{0:?} is no stall; write 250ms or 2s, a day at most")]
    Stall(String),
    /// Number or count is no positive integer.
    #[error("{0:?} is no positive number")]
    Number(String),
}

fn operations() -> String {
    Operation::ALL.map(Operation::name).join(", ")
}

fn errors() -> String {
    ERRORS.map(|(name, _)| name).join(", ")
}

impl Rule {
    /// Whether the rule strikes the request with this number, counted from 1.
    fn strikes(&self, number: u64) -> bool {
        let Some(past) = number.checked_sub(self.first.get()) else {
            return false;
        };
        match self.count {
            Count::Times(count) => past < count.get(),
            Count::Forever => true,
        }
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let parts: Vec<&str> = text.split(':').collect();
        let (operation, effect, first, count) = match parts[..] {
            [operation, effect, first] => (operation, effect, first, "1"),
            [operation, effect, first, count] => (operation, effect, first, count),
            _ => return Err(RuleError::Shape),
        };
        let number = |text: &str| text.parse().map_err(|_| RuleError::Number(text.to_owned()));
        Ok(Self {
            operation: Operation::from_name(operation)
                .ok_or_else(|| RuleError::Operation(operation.to_owned()))?,
            effect: effect.parse()?,
            first: number(first)?,
            count: if count == "*" { Count::Forever } else { Count::Times(number(count)?) },
        })
    }
}

impl FromStr for Effect {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        if let Some(time) = text.strip_prefix("STALL=") {
            return stall(time).map(Self::Stall).ok_or_else(|| RuleError::Stall(time.to_owned()));
        }
        ERRORS
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, error)| Self::Fail(*error))
            .ok_or_else(|| RuleError::Error(text.to_owned()))
    }
}

fn stall(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s')?, 1.0),
    };
    let time = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()?;
    (time <= LONGEST_STALL).then_some(time)
}

/// What the rules have in store for one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// The request is not carried out and gets this answer.
    pub(crate) error: Option<Errno>,
    /// The answer comes later by this time. The device is free meanwhile.
    pub(crate) stall: Duration,
}

/// The rules, and how many requests of each operation there were.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Vec<Rule>,
    seen: [AtomicU64; Operation::ALL.len()],
}

impl Faults {
    /// These rules, with no request seen yet. Of several that fail a request the first decides;
    /// stalls add up.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Counts a request and tells what becomes of it.
    pub(crate) fn next(&self, operation: Operation) -> Fate {
        let number = self.seen[operation as usize].fetch_add(1, Relaxed) + 1;
        let mut fate = Fate::default();
        for rule in &self.rules {
            if rule.operation != operation || !rule.strikes(number) {
                continue;
            }
            match rule.effect {
                Effect::Fail(error) => fate.error = fate.error.or(Some(error)),
                Effect::Stall(time) => {
                    fate.stall = fate.stall.saturating_add(time).min(LONGEST_STALL);
                }
            }
        }
        fate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn faults(rules: &[&str]) -> Faults {
        Faults::new(rules.iter().map(|rule| rule.parse().unwrap()).collect())
    }

    fn fates(faults: &Faults, operation: Operation, requests: usize) -> Vec<Option<Errno>> {
        (0..requests).map(|_| faults.next(operation).error).collect()
    }

    #[test]
    fn a_rule_strikes_its_operation_from_the_nth_on_count_times() {
        let (stale, full) = (Some(Errno::STALE), Some(Errno::NOSPC));
        let rules = faults(&["read:ESTALE:3", "write:ENOSPC:2:*", "open:EIO:2:2"]);
        assert_eq!(fates(&rules, Operation::Read, 4), [None, None, stale, None]);
        assert_eq!(fates(&rules, Operation::Write, 4), [None, full, full, full]);
        let io = Some(Errno::IO);
        assert_eq!(fates(&rules, Operation::Open, 4), [None, io, io, None]);
        assert_eq!(fates(&rules, Operation::Lookup, 2), [None, None]);
    }

    #[test]
    fn the_first_error_decides_and_stalls_add_up() {
        let rules =
            faults(&["read:STALL=250ms:1", "read:EIO:1", "read:ESTALE:1", "read:STALL=2s:1"]);
        let expected = Fate { error: Some(Errno::IO), stall: Duration::from_millis(2_250) };
        assert_eq!(rules.next(Operation::Read), expected);
        assert_eq!(rules.next(Operation::Read), Fate::default());
    }

    #[test]
    fn what_is_wrong_with_a_rule_is_named() {
        let check = |text: &str, expected: RuleError| {
            assert_eq!(text.parse::<Rule>(), Err(expected), "{text}");
        };
        check("read:EIO", RuleError::Shape);
        check("read:EIO:1:2:3", RuleError::Shape);
        check("reed:EIO:1", RuleError::Operation("reed".into()));
        check("read:EWHAT:1", RuleError::Error("EWHAT".into()));
        check("read:STALL=2:1", RuleError::Stall("2".into()));
        check("read:STALL=-1s:1", RuleError::Stall("-1s".into()));
        check("read:STALL=infs:1", RuleError::Stall("infs".into()));
        check("read:STALL=86401s:1", RuleError::Stall("86401s".into()));
        check("read:EIO:0", RuleError::Number("0".into()));
        check("read:EIO:1:0", RuleError::Number("0".into()));
        check("read:EIO:*", RuleError::Number("*".into()));
        let message = RuleError::Error("EWHAT".into()).to_string();
        assert!(message.contains("STALL=TIME, EACCES"), "{message}");
    }

    proptest! {
        #[test]
        fn no_text_and_no_number_of_requests_panics(text in ".{0,40}", first: u64, count: u64) {
            let _parsed = text.parse::<Rule>().is_ok();
            if let Ok(rule) = format!("read:EIO:{first}:{count}").parse::<Rule>() {
                let last = first.saturating_add(count - 1);
                prop_assert!(!rule.strikes(first - 1));
                prop_assert!(rule.strikes(first) && rule.strikes(last));
                prop_assert!(last == u64::MAX || !rule.strikes(last + 1));
            }
        }
    }
}
