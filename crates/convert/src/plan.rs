//! Which raw files there are, and what each is to become.

use std::path::PathBuf;

use catalog::{Dataset, Directory, FileName, Layout, ParquetName};
use stage::cli::FileArgs;
use stage::named::{NamedOutput, named_files};
use stage::settings::Order;
use stage::work::{Input, Task};
use stage::{Error, Session};

use crate::Fingerprints;

/// The tasks for the files of a root that dates, feed and datasets ask for.
pub(crate) fn of_root(session: &Session, fingerprints: &Fingerprints) -> Result<Vec<Task>, Error> {
    let layout = session.layout()?;
    let named = &session.settings.datasets;
    let datasets = if named.is_empty() { &Dataset::ALL[..] } else { &named[..] };
    let mut tasks = Vec::new();
    for dataset in datasets {
        match list_raw(session, &layout, *dataset, fingerprints) {
            Ok(of_dataset) => tasks.extend(of_dataset),
            // Without --dataset the root need not hold them all.
            Err(Error::NoInput { .. }) if named.is_empty() => {}
            Err(error) => return Err(error),
        }
    }
    if tasks.is_empty() {
        let root = layout.root().display();
        let message = if session.budget.stat(layout.root())?.is_none() {
            format!("{root} does not exist")
        } else {
            format!("no raw files of the dates and feed under {root}")
        };
        let hint = "check --root and the dates, and put the zips into <root>/<dataset>/raw";
        return Err(Error::NoInput { message, hint: hint.into() });
    }
    Ok(tasks)
}

fn list_raw(
    session: &Session,
    layout: &Layout,
    dataset: Dataset,
    fingerprints: &Fingerprints,
) -> Result<Vec<Task>, Error> {
    let raw = layout.directory(dataset, Directory::Raw);
    let directory = layout.directory(dataset, Directory::Converted);
    let no_input = |message| Error::NoInput {
        message,
        hint: format!("put the zips of {dataset} there, or set directories.{dataset}.raw"),
    };
    let wanted = |name: &str| {
        FileName::parse(name).is_ok_and(|name| {
            name.dataset == dataset
                && session.settings.feed.includes(name.feed)
                && session.range.overlaps(name.period)
        })
    };
    let entries = match session.budget.list(&raw, wanted) {
        Err(error) if error.is_not_found() => {
            return Err(no_input(format!("{} does not exist", raw.display())));
        }
        listed => listed?,
    };
    stage::files::refuse_among_inputs(&session.budget, &directory, std::slice::from_ref(&raw))?;
    let mut tasks = Vec::with_capacity(entries.len());
    for entry in entries {
        let Ok(name) = FileName::parse(&entry.name) else { continue };
        let input = Input { path: raw.join(&entry.name), name: entry.name, stat: entry.stat };
        tasks.push(task(name, input, directory.clone(), None, fingerprints));
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
        tasks.push(task(name, input, directory, Some(output), fingerprints));
    }
    Ok(tasks)
}

fn task(
    name: FileName,
    input: Input,
    directory: PathBuf,
    output: Option<String>,
    fingerprints: &Fingerprints,
) -> Task {
    let FileName { period, feed, dataset } = name;
    let output = output.unwrap_or_else(|| ParquetName::from(name).to_string());
    let fingerprint = fingerprints.get(&dataset).cloned().unwrap_or_default();
    Task { dataset, feed, period, inputs: vec![input], directory, output, fingerprint }
}
