//! What is left to do: the tasks whose outputs are not there as the ledger has them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use catalog::ledger::{Record, Source, StageName};
use catalog::marks::{self, SourceMark};
use catalog::{Dataset, ParquetName};
use io_budget::parquet::{ParquetFile, Want};
use io_budget::{Budget, Stat};

use super::spent::Spent;
use super::{Input, Task};
use crate::files::{Nesting, list_parquet};
use crate::{Error, Failure, Session, Summary};

/// The tasks whose output is not there as the ledger has it, or was made of other inputs or with
/// other settings.
pub(super) fn left_to_do(
    session: &Session,
    stage: StageName,
    tasks: Vec<Task>,
    force: bool,
    spent: Option<&mut Spent<'_>>,
    summary: &mut Summary,
) -> Result<Vec<Task>, Error> {
    let layout = session.layout()?;
    let mut spent = spent;
    let mut by_dataset: BTreeMap<Dataset, Vec<Task>> = BTreeMap::new();
    for task in tasks {
        by_dataset.entry(task.dataset).or_default().push(task);
    }
    let mut left = Vec::new();
    for (dataset, tasks) in by_dataset {
        let mut present: HashMap<PathBuf, HashMap<String, Stat>> = HashMap::new();
        for task in &tasks {
            if !present.contains_key(&task.directory) {
                let files = present_outputs(&session.budget, task)?;
                present.insert(task.directory.clone(), files);
            }
        }
        let loaded = session.ledger(&layout, dataset).load(stage, session.range)?;
        for line in &loaded.unreadable {
            session.printer.warn(format!(
                "{}: line {} is no ledger record and is passed over",
                line.path.display(),
                line.line
            ));
        }
        if !session.dry_run {
            loaded.tidy(&session.budget)?;
            for directory in present.keys() {
                let swept = session.budget.sweep(directory)?;
                if swept > 0 {
                    let message = format!("removed {swept} unfinished files of dead processes");
                    session.printer.info(message);
                }
            }
        }
        for mut task in tasks {
            let there = &present[&task.directory];
            let deletes = spent.is_some();
            let mut found = State::of(&task, &loaded.records, there, force, deletes);
            if let State::ToMake(_) = found
                && !force
                && there.contains_key(&task.output)
                && matches!(stage, StageName::Aggregate(_))
                && let Some(gone) = noted_gone(session, &task)
            {
                found = State::SourceGone(gone);
            }
            match found {
                State::UpToDate => {
                    summary.files.up_to_date += 1;
                    if let (Some(spent), Some(whole)) =
                        (&mut spent, loaded.records.get(&task.output))
                    {
                        let parts = whole.parts.iter().filter_map(|part| loaded.records.get(part));
                        spent.add(&task, whole, parts);
                    }
                }
                State::ToMake(why) => {
                    session.printer.detail(format!("{}: {why}", task.output));
                    let known = loaded.records.get(&task.output);
                    task.replaces_rejects = known.and_then(|record| record.rejects.clone());
                    left.push(task);
                }
                State::SourceGone(name) => {
                    let reason = format!(
                        "{name}, of which it was made, is gone: make that again, or give --force \
                         to make this without it"
                    );
                    summary.files.failed += 1;
                    summary.failures.push(Failure::new(task.output_path(), reason));
                }
            }
        }
    }
    Ok(left)
}

/// What is to be done about an output.
enum State {
    UpToDate,
    /// It has to be made, for this reason.
    ToMake(&'static str),
    /// It stands as it was made, of a file that is gone: made again it would have fewer rows.
    SourceGone(String),
}

impl State {
    fn of(
        task: &Task,
        records: &HashMap<String, Record>,
        present: &HashMap<String, Stat>,
        force: bool,
        deletes: bool,
    ) -> Self {
        let Some(record) = records.get(&task.output) else { return Self::ToMake("not made yet") };
        let is_same = |(source, input): (&Source, &Input)| {
            source.name == input.name
                && source.size == input.stat.size
                && source.modified_ns == input.stat.modified_ns
        };
        let is_known = |input: &Input| record.sources.iter().any(|it| is_same((it, input)));
        let is_as_made = |output: &String| {
            let (record, stat) = (records.get(output)?, present.get(output)?);
            Some((stat.size, stat.modified_ns) == (record.size, record.modified_ns))
        };
        let outputs = if record.parts.is_empty() {
            std::slice::from_ref(&record.output)
        } else {
            &record.parts
        };
        let as_made: Vec<_> = outputs.iter().map(is_as_made).collect();
        let gone = gone_source(record, task);
        if force {
            Self::ToMake("made again as asked")
        } else if !record.is_published() {
            Self::ToMake("failed before")
        } else if let (Some(gone), true) = (&gone, as_made.iter().any(|is| *is != Some(true))) {
            Self::SourceGone(gone.clone())
        } else if as_made.contains(&None) {
            Self::ToMake("the output is gone")
        } else if as_made.contains(&Some(false)) {
            Self::ToMake("the output is not as it was made")
        } else if let Some(gone) = gone {
            // A run that was deleting the sources of this output ended before the last of them.
            let is_rest = deletes
                && record.fingerprint == task.fingerprint
                && task.inputs.iter().all(is_known);
            if is_rest { Self::UpToDate } else { Self::SourceGone(gone) }
        } else if record.fingerprint != task.fingerprint {
            Self::ToMake("the settings have changed")
        } else if record.sources.len() != task.inputs.len()
            || !record.sources.iter().zip(&task.inputs).all(is_same)
        {
            Self::ToMake("the inputs have changed")
        } else {
            Self::UpToDate
        }
    }
}

/// A recorded source of which no input is.
fn gone_source(record: &Record, task: &Task) -> Option<String> {
    first_gone(record.sources.iter().map(|source| source.name.as_str()), task)
}

/// The first of these sources of which no input is. A slot may come under another name, as that of a
/// cleaned file; a raw file has no slot, and its output is made of whatever takes its place.
fn first_gone<'a>(mut sources: impl Iterator<Item = &'a str>, task: &Task) -> Option<String> {
    let slot = |name: &str| {
        let parsed = ParquetName::parse(task.dataset, name)?;
        Some(ParquetName { cleaned: false, ..parsed })
    };
    let inputs: HashSet<_> = task.inputs.iter().filter_map(|input| slot(&input.name)).collect();
    let is_gone = |name: &&str| slot(name).is_some_and(|slot| !inputs.contains(&slot));
    sources.find(is_gone).map(str::to_owned)
}

/// What an output that stands there notes of its sources and what is gone of them: the ledger may not
/// know it, or only an attempt that failed.
fn noted_gone(session: &Session, task: &Task) -> Option<String> {
    let want = Want::Parts { footer_start: None };
    // What cannot be read says nothing.
    let file = ParquetFile::open(&session.budget, &task.output_path(), want).ok()?;
    let marks: Vec<SourceMark> = serde_json::from_str(file.key_value(marks::SOURCES)?).ok()?;
    first_gone(marks.iter().map(|mark| mark.name.as_str()), task)
}

fn present_outputs(budget: &Budget, task: &Task) -> Result<HashMap<String, Stat>, Error> {
    let nested = task.output.contains('/');
    let nesting = if nested { Nesting::ByPeriod } else { Nesting::of(task.dataset) };
    match list_parquet(budget, task.dataset, &task.directory, nesting) {
        Ok(files) => Ok(files.into_iter().map(|file| (file.relative, file.stat)).collect()),
        Err(Error::Io(error)) if error.is_not_found() => Ok(HashMap::new()),
        Err(error) => Err(error),
    }
}
