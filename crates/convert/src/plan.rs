//! Which raw files there are, and what each is to become.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use catalog::ledger::StageName;
use catalog::{Dataset, Directory, FileName, Layout, ParquetName, Period};
use chrono::Datelike as _;
use stage::cli::FileArgs;
use stage::named::{NamedOutput, named_files};
use stage::settings::Order;
use stage::work::{Input, Task};
use stage::{Error, Failure, Session, Summary};

/// Names of files that are left out, shown at most.
const OTHERS_SHOWN: usize = 5;

/// The tasks for the files of a root that dates, feed and datasets ask for. Without any, the files
/// may have been deleted after they were converted.
pub(crate) fn of_root(
    session: &Session,
    fingerprints: &Fingerprints,
    summary: &mut Summary,
) -> Result<Vec<Task>, Error> {
    let layout = session.layout()?;
    let named = &session.settings.datasets;
    let datasets = if named.is_empty() { &Dataset::ALL[..] } else { &named[..] };
    let mut tasks = Vec::new();
    for dataset in datasets {
        match list_raw(session, &layout, *dataset, fingerprints, summary) {
            Ok(of_dataset) => tasks.extend(of_dataset),
            // Without --dataset the root need not hold them all.
            Err(Error::NoInput { .. }) if named.is_empty() => {}
            Err(Error::NoInput { .. }) if has_outputs(session, &layout, *dataset)? => {}
            Err(error) => return Err(error),
        }
    }
    // What was named is there or was.
    if !tasks.is_empty() || !named.is_empty() {
        return Ok(tasks);
    }
    for dataset in datasets {
        if has_outputs(session, &layout, *dataset)? {
            return Ok(tasks);
        }
    }
    let root = layout.root().display();
    let message = if session.budget.stat(layout.root())?.is_none() {
        format!("{root} does not exist")
    } else {
        format!("no raw files of the dates and feed under {root}")
    };
    let hint = "check --root and the dates, and put the zips into <root>/<dataset>/raw";
    Err(Error::NoInput { message, hint: hint.into() })
}

/// Whether the ledger knows outputs whose sources were deleted.
fn has_outputs(session: &Session, layout: &Layout, dataset: Dataset) -> Result<bool, Error> {
    let loaded = session.ledger(layout, dataset).load(StageName::Convert, session.range)?;
    Ok(loaded.records.values().any(|record| {
        record.is_published()
            && session.settings.feed.includes(record.feed)
            && session.range.overlaps(record.period)
    }))
}

/// The settings fingerprint of each dataset.
pub(crate) type Fingerprints = HashMap<Dataset, String>;

fn list_raw(
    session: &Session,
    layout: &Layout,
    dataset: Dataset,
    fingerprints: &Fingerprints,
    summary: &mut Summary,
) -> Result<Vec<Task>, Error> {
    let raw = layout.directory(dataset, Directory::Raw);
    let directory = layout.directory(dataset, Directory::Converted);
    let no_input = |message| Error::NoInput {
        message,
        hint: format!("put the zips of {dataset} there, or set directories.{dataset}.raw"),
    };
    let (others, asked) = (RefCell::new(Vec::new()), RefCell::new(BTreeSet::new()));
    let wanted = |name: &str| match FileName::parse(name) {
        Ok(parsed) if parsed.dataset == dataset => {
            let is_asked = session.settings.feed.includes(parsed.feed)
                && session.range.overlaps(parsed.period);
            if is_asked {
                asked.borrow_mut().insert(name.to_owned());
            }
            is_asked
        }
        _ => {
            others.borrow_mut().push(name.to_owned());
            false
        }
    };
    let entries = match session.budget.list(&raw, wanted) {
        Err(error) if error.is_not_found() => {
            return Err(no_input(format!("{} does not exist", raw.display())));
        }
        listed => listed?,
    };
    tell_others(session, dataset, others.into_inner(), summary);
    let mut asked = asked.into_inner();
    for entry in &entries {
        asked.remove(&entry.name);
    }
    fail_irregular(session, &raw, &asked, summary)?;
    stage::files::refuse_among_inputs(&session.budget, &directory, std::slice::from_ref(&raw))?;
    let hive = layout.directory(dataset, Directory::Hive);
    let mut tasks = Vec::with_capacity(entries.len());
    for entry in entries {
        let Ok(name) = FileName::parse(&entry.name) else { continue };
        let input = Input { path: raw.join(&entry.name), name: entry.name, stat: entry.stat };
        let in_hive = if session.settings.convert.hive { hive_output(name) } else { None };
        let (directory, output) = match in_hive {
            Some(output) => (hive.clone(), output),
            None => (directory.clone(), ParquetName::from(name).to_string()),
        };
        tasks.push(task(name, input, directory, output, fingerprints));
    }
    if tasks.is_empty() {
        return Err(no_input(format!("no files of the dates and feed in {}", raw.display())));
    }
    tasks.sort_by_key(|task| (task.period, task.feed));
    if session.settings.order == Order::Desc {
        tasks.reverse();
    }
    Ok(tasks)
}

/// Counts as failed what is named like a raw file and is none: a link whose disk is not mounted, a
/// pipe, a device. Files that have vanished since they were listed are none of these.
fn fail_irregular(
    session: &Session,
    raw: &Path,
    names: &BTreeSet<String>,
    summary: &mut Summary,
) -> Result<(), Error> {
    for name in names {
        let path = raw.join(name);
        let reason = match session.budget.stat(&path)? {
            Some(stat) if !stat.is_regular => "it is no regular file: remove it",
            None if session.budget.is_link(&path)? => {
                "it is a link to a file that is not there: mount its disk, or remove it"
            }
            _ => continue,
        };
        session.printer.warn(format!("{}: {reason}", path.display()));
        summary.files.failed += 1;
        summary.failures.push(Failure::new(path, reason.to_owned()));
    }
    Ok(())
}

/// Says which files of a raw directory are none of the dataset.
fn tell_others(
    session: &Session,
    dataset: Dataset,
    mut others: Vec<String>,
    summary: &mut Summary,
) {
    others.sort_unstable();
    let Some(first) = others.first() else { return };
    summary.files.ignored += others.len() as u64;
    let shown = others.iter().take(OTHERS_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let message = match others.len() {
        1 => format!("{first} is not named like a file of {dataset} and is left out"),
        number => format!(
            "{number} files are not named like files of {dataset} and are left out: {shown}"
        ),
    };
    session.printer.warn(message);
}

/// Where a file of yearly or monthly events stands in directories named by period. These are not
/// named like columns, whose values a reader would replace by theirs.
fn hive_output(name: FileName) -> Option<String> {
    if name.dataset != Dataset::Events {
        return None;
    }
    let file = ParquetName::from(name);
    match name.period {
        Period::Year(year) => Some(format!("file_year={year}/{file}")),
        Period::Month(first) => {
            let (year, month) = (first.year(), first.month());
            Some(format!("file_year={year}/file_month={month:02}/{file}"))
        }
        _ => None,
    }
}

/// The tasks for files named on the command line.
pub(crate) fn of_named(
    session: &Session,
    files: &FileArgs,
    fingerprints: &Fingerprints,
) -> Result<Vec<Task>, Error> {
    let inputs = named_files(session, files)?;
    let place = NamedOutput::of(session, files, &inputs)?;
    let only = match &session.settings.datasets[..] {
        [] => None,
        [only] => Some(*only),
        _ => return Err(Error::usage("several --dataset with named files", "name one, or none")),
    };
    let mut tasks = Vec::with_capacity(inputs.len());
    for input in inputs {
        let name = FileName::parse(&input.name).map_err(|error| {
            Error::usage(error.to_string(), "convert reads raw files under GDELT's own names")
        })?;
        if let Some(only) = only
            && name.dataset != only
        {
            let message = format!("{} is a file of {}, not of {only}", input.name, name.dataset);
            return Err(Error::usage(message, "leave --dataset away, or name other files"));
        }
        let usual = ParquetName::from(name).to_string();
        let (directory, output) = place.place(&usual);
        tasks.push(task(name, input, directory, output, fingerprints));
    }
    Ok(tasks)
}

fn task(
    name: FileName,
    input: Input,
    directory: PathBuf,
    output: String,
    fingerprints: &Fingerprints,
) -> Task {
    let FileName { period, feed, dataset } = name;
    let fingerprint = fingerprints.get(&dataset).cloned().unwrap_or_default();
    let (inputs, replaces_rejects) = (vec![input], None);
    Task { dataset, feed, period, inputs, directory, output, fingerprint, replaces_rejects }
}
