//! Which files there are to clean, and what each is to become.

use std::collections::BTreeMap;
use std::path::PathBuf;

use catalog::ledger::StageName;
use catalog::{Dataset, Directory, Layout, ParquetName};
use stage::cli::FileArgs;
use stage::files::{DataFile, DataSource, Nesting, list_datasets, refuse_among_inputs};
use stage::named::{NamedOutput, named_files, parquet_name};
use stage::settings::Order;
use stage::work::{Input, Task};
use stage::{Error, Session};

use crate::steps::Steps;

const CONVERTED: DataSource =
    DataSource { directory: Directory::Converted, stage: StageName::Convert };

/// The tasks for the files of a root that dates, feed and datasets ask for.
pub(crate) fn of_root(
    session: &Session,
    steps: &BTreeMap<Dataset, Steps>,
) -> Result<Vec<Task>, Error> {
    let layout = session.layout()?;
    let mut sources = Vec::new();
    for dataset in datasets(session, &layout)? {
        if steps.contains_key(&dataset) {
            sources.push((dataset, CONVERTED));
        } else {
            say_not_copied(session, dataset);
        }
    }
    let mut tasks = Vec::new();
    for (dataset, files) in list_datasets(session, &layout, &sources, StageName::Clean)? {
        let Some(steps) = steps.get(&dataset) else { continue };
        tasks.extend(tasks_of(session, &layout, dataset, steps, &files)?);
    }
    Ok(tasks)
}

/// The datasets asked for, or all that the root holds converted.
fn datasets(session: &Session, layout: &Layout) -> Result<Vec<Dataset>, Error> {
    if !session.settings.datasets.is_empty() {
        return Ok(session.settings.datasets.clone());
    }
    let mut held = Vec::new();
    for dataset in Dataset::ALL {
        let converted = layout.directory(dataset, Directory::Converted);
        if session.budget.stat(&converted)?.is_some_and(|stat| stat.is_directory) {
            held.push(dataset);
        }
    }
    if held.is_empty() {
        return Err(Error::NoInput {
            message: format!("{} holds no converted files", layout.root().display()),
            hint: String::from("check --root, or run gdelt-convert first"),
        });
    }
    Ok(held)
}

fn say_not_copied(session: &Session, dataset: Dataset) {
    session.printer.info(format!(
        "{dataset}: no cleaning step is active, so there are no cleaned copies; \
         later stages read the converted files"
    ));
}

fn tasks_of(
    session: &Session,
    layout: &Layout,
    dataset: Dataset,
    steps: &Steps,
    files: &[DataFile],
) -> Result<Vec<Task>, Error> {
    let directory = layout.directory(dataset, Directory::Cleaned);
    let inputs = layout.directory(dataset, Directory::Converted);
    refuse_among_inputs(&session.budget, &directory, std::slice::from_ref(&inputs))?;
    refuse_among_inputs(&session.budget, &inputs, std::slice::from_ref(&directory))?;
    let mut tasks = Vec::with_capacity(files.len());
    for file in files {
        let usual = usual_name(file.name);
        // A year of the reduced file stands in a directory of its own, and so does its copy. Other
        // copies stand side by side, where later stages look for them.
        let output = match file.relative.rsplit_once('/') {
            Some((within, _)) if Nesting::of(dataset) == Nesting::ByPeriod => {
                format!("{within}/{usual}")
            }
            _ => usual,
        };
        tasks.push(task(file.name, steps, file.input(), directory.clone(), output)?);
    }
    if session.settings.order == Order::Desc {
        tasks.reverse();
    }
    Ok(tasks)
}

/// The tasks for files named on the command line.
pub(crate) fn of_named(
    session: &Session,
    arguments: &FileArgs,
    steps: &BTreeMap<Dataset, Steps>,
) -> Result<Vec<Task>, Error> {
    let inputs = named_files(session, arguments)?;
    let place = NamedOutput::of(session, arguments, &inputs)?;
    if matches!(place, NamedOutput::File { .. }) && inputs.len() > 1 {
        let message = format!("--out is one file, for one input; {} are named", inputs.len());
        return Err(Error::usage(message, "give --out-dir for several"));
    }
    let mut tasks = Vec::with_capacity(inputs.len());
    for input in inputs {
        let name = parquet_name(session, &input)?;
        let (directory, output) = place.place(&usual_name(name));
        match steps.get(&name.dataset) {
            Some(steps) => tasks.push(task(name, steps, input, directory, output)?),
            None => say_not_copied(session, name.dataset),
        }
    }
    Ok(tasks)
}

fn usual_name(name: ParquetName) -> String {
    ParquetName { cleaned: true, ..name }.to_string()
}

/// The task for a file.
fn task(
    name: ParquetName,
    steps: &Steps,
    input: Input,
    directory: PathBuf,
    output: String,
) -> Result<Task, Error> {
    let ParquetName { period, feed, dataset, .. } = name;
    let fingerprint = steps.fingerprint()?;
    let inputs = vec![input];
    let replaces_rejects = None;
    Ok(Task { dataset, feed, period, inputs, directory, output, fingerprint, replaces_rejects })
}
