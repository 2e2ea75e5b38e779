//! Which slots a period should have, and which of them it lacks.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Coverage, DateRange, Gap, ParquetName};
use serde::Serialize;
use stage::work::Task;

/// Gaps that an output names; the ledger and `gdelt-convert --report-gaps` know the others.
const NAMED: usize = 10;

/// The slots of an output, as its metadata note them.
#[derive(Debug, Serialize)]
pub(crate) struct Completeness {
    slots: u64,
    /// Without those that GDELT never published.
    slots_expected: u64,
    slots_never_published: u64,
    slots_published_empty: u64,
    /// Not here, for no known reason.
    slots_missing: u64,
    /// The first of the gaps that the missing ones make.
    gaps: Vec<Gap>,
}

impl Completeness {
    /// Compares the sources of a task with the slots of its period. Each feed is judged by itself.
    pub(crate) fn of(task: &Task) -> Self {
        let name = |name: &String| ParquetName::parse(task.dataset, name).map(|it| it.period);
        let here: BTreeSet<_> = task.inputs.iter().filter_map(|it| name(&it.name)).collect();
        let days =
            DateRange { start: Some(task.period.first_day()), end: Some(task.period.last_day()) };
        let mut coverage = Coverage::of(task.dataset, task.feed, days, &here);
        coverage.gaps.truncate(NAMED);
        Self {
            slots: task.inputs.len() as u64,
            slots_expected: coverage.expected.saturating_sub(coverage.known_absent),
            slots_never_published: coverage.known_absent,
            slots_published_empty: coverage.empty_upstream,
            slots_missing: coverage.missing,
            gaps: coverage.gaps,
        }
    }

    /// What is unusual, by name.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let counts = [
            ("periods with missing slots", u64::from(self.slots_missing > 0)),
            ("slots missing for no known reason", self.slots_missing),
            ("slots that GDELT never published", self.slots_never_published),
            ("slots that GDELT published empty and that are not here", self.slots_published_empty),
        ];
        let unusual = counts.into_iter().filter(|(_, count)| *count > 0);
        unusual.map(|(name, count)| (name.to_owned(), count)).collect()
    }
}
