//! Deletes sources whose content stands in published and recorded outputs, and no others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use catalog::ledger::{Outcome, Record, StageName};
use io_budget::parquet::{ParquetFile, Want};

use super::{Input, Task};
use crate::{Error, Session, Summary};

/// Sources that wait for the ledger to be synced, at most.
const TOGETHER: usize = 64;

/// What a source holds and its output does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Loss {
    /// Records that were rejected, and values that became null or U+FFFD.
    Rejects,
    /// Columns that the settings leave out.
    DroppedColumns,
    /// Nothing: the output has no rows.
    Empty,
}

impl Loss {
    /// The name in flags and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rejects => "rejects",
            Self::DroppedColumns => "dropped-columns",
            Self::Empty => "empty",
        }
    }
}

/// That sources are deleted once their outputs are recorded.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// Losses that do not matter.
    pub despite: Vec<Loss>,
}

/// Sources on their way to deletion.
#[derive(Debug)]
pub(super) struct Spent<'a> {
    session: &'a Session,
    stage: StageName,
    deletion: &'a Deletion,
    waiting: Vec<Candidate>,
    /// Sources that stay, by the loss: how many, and one of them with what it would lose.
    kept: BTreeMap<Loss, (u64, String)>,
}

#[derive(Debug)]
struct Candidate {
    inputs: Vec<Input>,
    outputs: Vec<Output>,
}

#[derive(Debug)]
struct Output {
    path: PathBuf,
    rows: u64,
    size: u64,
    footer_start: u64,
}

impl<'a> Spent<'a> {
    pub(super) fn new(session: &'a Session, stage: StageName, deletion: &'a Deletion) -> Self {
        Self { session, stage, deletion, waiting: Vec::new(), kept: BTreeMap::new() }
    }

    /// Considers the sources of an output that is recorded: as a whole and, if it has any, by
    /// parts.
    pub(super) fn add<'r>(
        &mut self,
        task: &Task,
        whole: &'r Record,
        parts: impl Iterator<Item = &'r Record>,
    ) {
        if !whole.is_published() {
            return;
        }
        let losses = losses(self.stage, whole);
        for (loss, what) in losses {
            if !self.deletion.despite.contains(&loss) {
                let name = task.inputs.first().map_or("", |input| input.name.as_str());
                let (kept, _) =
                    self.kept.entry(loss).or_insert_with(|| (0, format!("{name} ({what})")));
                *kept += 1;
                return;
            }
        }
        let output = |record: &Record| Output {
            path: task.directory.join(&record.output),
            rows: record.rows,
            size: record.size,
            footer_start: record.footer_start,
        };
        let mut outputs: Vec<_> = parts.map(output).collect();
        if whole.parts.is_empty() {
            outputs = vec![output(whole)];
        }
        self.waiting.push(Candidate { inputs: task.inputs.clone(), outputs });
    }

    /// Whether enough sources wait to sync the ledger for them.
    pub(super) fn is_much(&self) -> bool {
        self.waiting.len() >= TOGETHER
    }

    /// Deletes the sources that wait, or says in a dry run that it would. Their records have to be
    /// on the storage by now.
    pub(super) fn delete(&mut self, summary: &mut Summary) -> Result<(), Error> {
        for candidate in std::mem::take(&mut self.waiting) {
            self.session.interrupt.check()?;
            if let Err(reason) = self.check_outputs(&candidate) {
                self.session.printer.warn(reason);
                continue;
            }
            for input in &candidate.inputs {
                if !self.is_as_read(input)? {
                    continue;
                }
                summary.files.sources_deleted += 1;
                let path = input.path.display();
                if self.session.dry_run {
                    self.session.printer.detail(format!("would delete {path}"));
                } else {
                    self.session.budget.remove(&input.path)?;
                    self.session.printer.detail(format!("deleted {path}"));
                }
            }
        }
        Ok(())
    }

    /// Opens the outputs again: they have to hold the rows that are recorded.
    fn check_outputs(&self, candidate: &Candidate) -> Result<(), String> {
        for output in &candidate.outputs {
            let want = Want::Parts { footer_start: Some(output.footer_start) };
            let kept = |problem: String| {
                let names: Vec<_> = candidate.inputs.iter().map(|i| i.name.as_str()).collect();
                let path = output.path.display();
                format!("{} is kept, since its output {path} {problem}", names.join(", "))
            };
            let file = ParquetFile::open(&self.session.budget, &output.path, want)
                .map_err(|error| kept(format!("cannot be read: {error}")))?;
            if file.rows() != output.rows || file.stat().size != output.size {
                return Err(kept(format!("has {} rows, not {}", file.rows(), output.rows)));
            }
        }
        Ok(())
    }

    /// Whether the source is the file that was read, and no link: links are followed for reading
    /// only.
    fn is_as_read(&self, input: &Input) -> Result<bool, Error> {
        let budget = &self.session.budget;
        let same = |stat: &io_budget::Stat| {
            (stat.size, stat.modified_ns) == (input.stat.size, input.stat.modified_ns)
        };
        let what = match budget.stat(&input.path)? {
            None => return Ok(false),
            Some(stat) if !same(&stat) => "has changed since it was read",
            Some(_) if budget.is_link(&input.path)? => "is a symbolic link",
            Some(_) => return Ok(true),
        };
        self.session.printer.warn(format!("{} is kept: it {what}", input.path.display()));
        Ok(false)
    }

    /// Deletes what still waits and says what stays.
    pub(super) fn finish(mut self, summary: &mut Summary) -> Result<(), Error> {
        self.delete(summary)?;
        for (loss, (number, example)) in &self.kept {
            let loss = loss.name();
            self.session.printer.warn(format!(
                "{number} sources are kept, such as {example}: deleting them would lose that; \
                 --delete-despite {loss} allows it"
            ));
            *summary.counts.entry(format!("sources kept, {loss}")).or_default() += number;
        }
        Ok(())
    }
}

/// What the source of an output holds beyond it. Dropped columns are a matter of settings and are
/// looked at before the run.
fn losses(stage: StageName, record: &Record) -> Vec<(Loss, String)> {
    let mut losses = Vec::new();
    let rejected = record.records.map_or(0, |records| records.rejected);
    let values = match stage {
        StageName::Convert => record.counts.values().sum::<u64>().saturating_sub(rejected),
        // Counts of other stages are of what there is not, such as slots.
        StageName::Clean | StageName::Aggregate(_) => 0,
    };
    match (rejected, values) {
        (0, 0) => {}
        (1, 0) => losses.push((Loss::Rejects, String::from("1 rejected row"))),
        (rejected, 0) => losses.push((Loss::Rejects, format!("{rejected} rejected rows"))),
        (0, values) => losses.push((Loss::Rejects, format!("{values} replaced values"))),
        (rejected, values) => {
            let what = format!("{rejected} rejected rows and {values} replaced values");
            losses.push((Loss::Rejects, what));
        }
    }
    if record.outcome == Outcome::Empty || record.rows == 0 {
        losses.push((Loss::Empty, String::from("no rows")));
    }
    losses
}
