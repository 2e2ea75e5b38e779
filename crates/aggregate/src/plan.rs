//! Which periods there are to make, and the files of each in order of time.

use std::collections::BTreeMap;
use std::path::PathBuf;

use catalog::ledger::StageName;
use catalog::{AggregatePeriod, Dataset, DateRange, Directory, Feed, Layout, ParquetName, Period};
use serde::Serialize;
use stage::cli::FileArgs;
use stage::files::{DataSource, SourceChoice, list_datasets, refuse_among_inputs};
use stage::named::{NamedOutput, named_files, parquet_name};
use stage::settings::Order;
use stage::work::{Input, Task};
use stage::{Error, Session, Summary};

use crate::merge::Manner;

/// Raised when outputs are laid out differently, so that they are made again.
const FORMAT_VERSION: u32 = 2;

/// What shapes an output beside its sources.
#[derive(Serialize)]
struct Shape {
    format: u32,
    manner: Manner,
    cleaned: bool,
}

/// The range with the periods at its ends whole: a month of which only the first half was asked
/// for is not made of that half.
pub(crate) fn whole_periods(range: DateRange, length: AggregatePeriod) -> DateRange {
    DateRange {
        start: range.start.map(|day| length.containing(Period::Day(day)).first_day()),
        end: range.end.map(|day| length.containing(Period::Day(day)).last_day()),
    }
}

/// The tasks for the periods of a root that dates, feed and datasets ask for.
pub(crate) fn of_root(
    session: &Session,
    arguments: &FileArgs,
    choice: SourceChoice,
    manner: Manner,
    summary: &mut Summary,
) -> Result<Vec<Task>, Error> {
    let layout = session.layout()?;
    let length = manner.period;
    let mut sources = Vec::new();
    for dataset in datasets(session, arguments)? {
        let source = DataSource::choose(session, dataset, choice, length);
        if !session.settings.datasets.is_empty() || is_held(session, &layout, dataset, source)? {
            sources.push((dataset, source));
        }
    }
    if sources.is_empty() {
        return Err(Error::NoInput {
            message: format!("{} holds no Parquet of 15-minute files", layout.root().display()),
            hint: String::from("check --root, or run gdelt-convert first"),
        });
    }
    let mut tasks = Vec::new();
    let stage = StageName::Aggregate(length);
    for (dataset, files) in list_datasets(session, &layout, &sources, stage)? {
        let source = DataSource::choose(session, dataset, choice, length);
        let inputs = layout.directory(dataset, source.directory);
        let output = layout.directory(dataset, Directory::Aggregated(length));
        refuse_among_inputs(&session.budget, &output, std::slice::from_ref(&inputs))?;
        refuse_among_inputs(&session.budget, &inputs, std::slice::from_ref(&output))?;
        let cleaned = source.directory == Directory::Cleaned;
        let mut groups = Groups::default();
        for file in &files {
            if is_slot(file.name) && file.name.cleaned == cleaned {
                groups.add(length, file.name, file.input());
            } else {
                summary.files.ignored += 1;
            }
        }
        tasks.extend(groups.tasks(session, manner, |usual| (output.clone(), usual))?);
    }
    Ok(tasks)
}

/// The datasets asked for, or all that can be aggregated.
fn datasets(session: &Session, arguments: &FileArgs) -> Result<Vec<Dataset>, Error> {
    if let Some(other) = arguments.datasets.iter().find(|dataset| !dataset.is_quarter_hourly()) {
        let message = format!("{other} has no 15-minute files to join");
        return Err(Error::usage(message, "choose events-15min, mentions or gkg-v2"));
    }
    // A settings file lists the datasets of all stages.
    let named = &session.settings.datasets;
    let asked = if named.is_empty() { &Dataset::ALL[..] } else { &named[..] };
    let datasets: Vec<_> =
        asked.iter().copied().filter(|dataset| dataset.is_quarter_hourly()).collect();
    if datasets.is_empty() {
        return Err(Error::NoInput {
            message: String::from("none of the datasets in the settings has 15-minute files"),
            hint: String::from("add events-15min, mentions or gkg-v2 to datasets, or --dataset"),
        });
    }
    Ok(datasets)
}

/// Whether the root holds the dataset. One that was converted and not cleaned, though cleaned files
/// are to be read, is not passed over.
fn is_held(
    session: &Session,
    layout: &Layout,
    dataset: Dataset,
    source: DataSource,
) -> Result<bool, Error> {
    let directory = layout.directory(dataset, source.directory);
    let converted = layout.directory(dataset, Directory::Converted);
    if session.budget.stat(&directory)?.is_some() {
        return Ok(true);
    }
    if session.budget.stat(&converted)?.is_some() {
        return Err(Error::NoInput {
            message: format!(
                "{} does not exist, though {} does",
                directory.display(),
                converted.display()
            ),
            hint: format!("run gdelt-clean for {dataset} first, or choose another --source"),
        });
    }
    Ok(false)
}

/// The tasks for files named on the command line.
pub(crate) fn of_named(
    session: &Session,
    arguments: &FileArgs,
    manner: Manner,
) -> Result<Vec<Task>, Error> {
    let inputs = named_files(session, arguments)?;
    let place = NamedOutput::of(session, arguments, &inputs)?;
    let mut groups = Groups::default();
    for input in inputs {
        let name = parquet_name(session, &input)?;
        if !is_slot(name) {
            let message = format!("{} is no 15-minute file", input.path.display());
            return Err(Error::usage(message, "name files of events-15min, mentions or gkg-v2"));
        }
        groups.add(manner.period, name, input);
    }
    if matches!(place, NamedOutput::File { .. }) && groups.0.len() > 1 {
        let labels: Vec<_> = groups.0.keys().take(2).map(GroupKey::usual_name).collect();
        let message =
            format!("--out is one file, but the files belong to {}", labels.join(" and "));
        return Err(Error::usage(message, "give --out-dir, or a longer --period"));
    }
    groups.tasks(session, manner, |usual| place.place(&usual))
}

/// Whether a file is one of 15 minutes, of a dataset that can be aggregated.
fn is_slot(name: ParquetName) -> bool {
    name.dataset.is_quarter_hourly() && matches!(name.period, Period::Slot(_))
}

/// What an output is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    dataset: Dataset,
    period: Period,
    feed: Feed,
}

impl GroupKey {
    fn usual_name(&self) -> String {
        let Self { dataset, period, feed } = *self;
        ParquetName { period, feed, cleaned: false, dataset }.to_string()
    }
}

/// Files by the output that they belong to.
#[derive(Debug, Default)]
struct Groups(BTreeMap<GroupKey, Vec<(ParquetName, Input)>>);

impl Groups {
    fn add(&mut self, length: AggregatePeriod, name: ParquetName, input: Input) {
        let period = length.containing(name.period);
        let key = GroupKey { dataset: name.dataset, period, feed: name.feed };
        self.0.entry(key).or_default().push((name, input));
    }

    /// A task for each output; `place` gives the directory and name for its usual name.
    fn tasks(
        self,
        session: &Session,
        manner: Manner,
        place: impl Fn(String) -> (PathBuf, String),
    ) -> Result<Vec<Task>, Error> {
        let mut tasks = Vec::with_capacity(self.0.len());
        for (key, mut files) in self.0 {
            files.sort_by(|(name, input), (other, its)| {
                (name, &input.name).cmp(&(other, &its.name))
            });
            refuse_twice(&files)?;
            let cleaned = files.iter().any(|(name, _)| name.cleaned);
            let shape = Shape { format: FORMAT_VERSION, manner, cleaned };
            let (directory, output) = place(key.usual_name());
            tasks.push(Task {
                dataset: key.dataset,
                feed: key.feed,
                period: key.period,
                inputs: files.into_iter().map(|(_, input)| input).collect(),
                directory,
                output,
                fingerprint: stage::fingerprint(&shape)?,
                replaces_rejects: None,
            });
        }
        if session.settings.order == Order::Desc {
            tasks.reverse();
        }
        Ok(tasks)
    }
}

/// Refuses two files of one slot, whose rows would count twice. They stand next to each other.
fn refuse_twice(files: &[(ParquetName, Input)]) -> Result<(), Error> {
    for pair in files.windows(2) {
        let [(name, input), (other, its)] = pair else { continue };
        if name.period == other.period {
            let (one, two) = (input.path.display(), its.path.display());
            let message = format!("{one} and {two} are both of slot {}", name.period);
            return Err(Error::usage(message, "name one of the two: their rows would count twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_budget::Stat;

    const STAT: Stat =
        Stat { size: 1, modified_ns: 1, is_regular: true, is_directory: false, identity: (1, 1) };

    fn file(name: &str) -> (ParquetName, Input) {
        let input = Input { path: name.into(), name: name.to_owned(), stat: STAT };
        (ParquetName::parse(Dataset::Mentions, name).unwrap(), input)
    }

    fn range(start: &str, end: &str) -> DateRange {
        let day = |digits| Period::parse(digits).map(Period::first_day);
        DateRange { start: day(start), end: day(end) }
    }

    #[test]
    fn periods_at_the_ends_of_a_range_are_whole() {
        let asked = range("20200210", "20200310");
        assert_eq!(whole_periods(asked, AggregatePeriod::Day), asked);
        let months = range("20200201", "20200331");
        assert_eq!(whole_periods(asked, AggregatePeriod::Month), months);
        let year = range("20200101", "20201231");
        assert_eq!(whole_periods(asked, AggregatePeriod::Year), year);
        let open = DateRange::default();
        assert_eq!(whole_periods(open, AggregatePeriod::Year), open);
    }

    #[test]
    fn files_go_to_their_period_and_feed() {
        let mut groups = Groups::default();
        for name in [
            "20150219000000.mentions.parquet",
            "20150218234500.mentions.parquet",
            "20150218234500.translation.mentions.parquet",
            "20150218001500.mentions.parquet",
        ] {
            let (name, input) = file(name);
            groups.add(AggregatePeriod::Day, name, input);
        }
        let names: Vec<_> = groups.0.keys().map(GroupKey::usual_name).collect();
        assert_eq!(
            names,
            [
                "20150218.mentions.parquet",
                "20150218.translation.mentions.parquet",
                "20150219.mentions.parquet"
            ]
        );
    }

    #[test]
    fn a_slot_counts_once() {
        let one = file("20150218234500.mentions.parquet");
        let cleaned = file("20150218234500.mentions_cleaned.parquet");
        let next = file("20150219000000.mentions.parquet");
        assert!(refuse_twice(&[one.clone(), next]).is_ok());
        let error = refuse_twice(&[one, cleaned]).unwrap_err();
        assert!(error.to_string().contains("20150218234500"), "{error}");
    }
}
