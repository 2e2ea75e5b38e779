//! The Parquet files of a dataset: which there are, and which stage's files to read.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use catalog::ledger::{Record, StageName};
use catalog::{
    AggregatePeriod, Dataset, DateRange, Directory, FeedChoice, Layout, ParquetName, Period, marks,
};
use io_budget::parquet::{ParquetFile, Want};
use io_budget::{Budget, Stat};

use crate::work::Input;
use crate::{Error, Session};

/// A Parquet file in a data directory.
#[derive(Debug, Clone)]
pub struct DataFile {
    /// What its name says.
    pub name: ParquetName,
    /// Path relative to the data directory.
    pub relative: String,
    /// Path to open.
    pub path: PathBuf,
    /// Size and time.
    pub stat: Stat,
    /// What the ledger knows of it, if that is about the file as it stands there.
    pub record: Option<Record>,
}

impl DataFile {
    /// The file as the input of a task.
    pub fn input(&self) -> Input {
        let name = self.relative.rsplit('/').next().unwrap_or(&self.relative).to_owned();
        Input { path: self.path.clone(), name, stat: self.stat }
    }
}

/// Which stage's files to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SourceChoice {
    /// Cleaned files where the dataset has an active cleaning step, converted files otherwise.
    #[default]
    Auto,
    /// Cleaned files.
    Cleaned,
    /// Converted files.
    Converted,
    /// Files of longer periods.
    Aggregated,
}

/// A data directory, and the stage whose ledger knows its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSource {
    /// The directory.
    pub directory: Directory,
    /// The stage.
    pub stage: StageName,
}

impl DataSource {
    /// Resolves a choice for a dataset; `period` is the length of aggregated files.
    pub fn choose(
        session: &Session,
        dataset: Dataset,
        choice: SourceChoice,
        period: AggregatePeriod,
    ) -> Self {
        let converted = Self { directory: Directory::Converted, stage: StageName::Convert };
        let cleaned = Self { directory: Directory::Cleaned, stage: StageName::Clean };
        match choice {
            SourceChoice::Auto if session.settings.clean(dataset).is_active(dataset) => cleaned,
            SourceChoice::Auto | SourceChoice::Converted => converted,
            SourceChoice::Cleaned => cleaned,
            SourceChoice::Aggregated => {
                let stage = StageName::Aggregate(period);
                Self { directory: Directory::Aggregated(period), stage }
            }
        }
    }

    /// The command that makes files of this kind.
    fn made_by(self) -> &'static str {
        match self.directory {
            Directory::Cleaned => "gdelt-clean",
            Directory::Aggregated(_) => "gdelt-aggregate",
            Directory::Raw | Directory::Converted | Directory::Hive | Directory::Catalog => {
                "gdelt-convert"
            }
        }
    }

    /// Lists the files of this source that the session's feed and dates ask for, in order of
    /// time, each with its record in the ledger. One listing per directory; no file is opened
    /// that the ledger knows.
    ///
    /// # Errors
    ///
    /// [`Error::NoInput`] when there are none, [`Error::Io`] and [`Error::Ledger`] when the
    /// storage or the ledger fails.
    pub fn list(
        self,
        session: &Session,
        layout: &Layout,
        dataset: Dataset,
    ) -> Result<Vec<DataFile>, Error> {
        self.list_for(session, layout, dataset, None)
    }

    /// As [`Self::list`], for a stage that may have deleted what it has taken in: then there may be
    /// none left.
    ///
    /// # Errors
    ///
    /// As [`Self::list`].
    pub fn list_left(
        self,
        session: &Session,
        layout: &Layout,
        dataset: Dataset,
        stage: StageName,
    ) -> Result<Vec<DataFile>, Error> {
        self.list_for(session, layout, dataset, Some(stage))
    }

    fn list_for(
        self,
        session: &Session,
        layout: &Layout,
        dataset: Dataset,
        stage: Option<StageName>,
    ) -> Result<Vec<DataFile>, Error> {
        let directory = layout.directory(dataset, self.directory);
        let missing = |message: String| Error::NoInput {
            message,
            hint: format!("run {} for {dataset} first, or choose another --source", self.made_by()),
        };
        let hive = self.directory == Directory::Converted
            && dataset == Dataset::Events
            && session.settings.convert.hive;
        let listed = list_parquet(&session.budget, dataset, &directory, Nesting::of(dataset));
        let mut files = match listed {
            Err(Error::Io(error)) if error.is_not_found() && hive => Vec::new(),
            Err(Error::Io(error)) if error.is_not_found() => {
                return Err(missing(format!("{} does not exist", directory.display())));
            }
            listed => listed?,
        };
        if hive {
            // What was made of years and months before the setting was given would count twice.
            files.retain(|file| matches!(file.name.period, Period::Day(_)));
            let hive = layout.directory(dataset, Directory::Hive);
            match list_parquet(&session.budget, dataset, &hive, Nesting::ByPeriod) {
                Err(Error::Io(error)) if error.is_not_found() => {}
                listed => files.extend(listed?),
            }
            files.sort_by_key(|file| file.name);
        }
        retain(&mut files, session.settings.feed, session.range);
        let mut known = session.ledger(layout, dataset).load(self.stage, session.range)?.records;
        // The records of the other layout are of no interest.
        known.retain(|output, record| {
            dataset != Dataset::Events
                || matches!(record.period, Period::Day(_))
                || self.directory != Directory::Converted
                || output.contains('/') == hive
        });
        let mut failed = BTreeSet::new();
        for file in &mut files {
            let record = known.remove(&file.relative);
            if record.as_ref().is_some_and(|record| !record.is_published()) {
                failed.insert(file.relative.clone());
            }
            file.record = record.filter(|record| {
                record.is_published()
                    && record.size == file.stat.size
                    && record.modified_ns == file.stat.modified_ns
            });
        }
        if let Some(first) = failed.first() {
            session.printer.warn(format!(
                "{} files in {} are of an earlier run, such as {first}: making them again has \
                 failed since; run {} for {dataset} to see why",
                failed.len(),
                directory.display(),
                self.made_by()
            ));
        }
        self.warn_of_cleaned(session, dataset, &directory, &files);
        let range = session.range;
        let vanished = known.into_values().filter(|record| {
            let taken = session.settings.feed.includes(record.feed);
            record.is_published()
                && record.parts.is_empty()
                && taken
                && range.overlaps(record.period)
        });
        let mut vanished: BTreeSet<String> = vanished.map(|record| record.output).collect();
        let mut is_all_taken_in = false;
        if !vanished.is_empty() || files.is_empty() {
            for later in self.later_stages() {
                let spent = sources_of(session, layout, dataset, later)?;
                let is_spent = |output: &String| spent.contains(file_name(output));
                is_all_taken_in |=
                    Some(later) == stage && !spent.is_empty() && vanished.iter().all(is_spent);
                vanished.retain(|output| !is_spent(output));
            }
        }
        if files.is_empty() && !is_all_taken_in {
            let directory = directory.display();
            return Err(missing(format!(
                "no files of the dates and feed asked for in {directory}"
            )));
        }
        if let Some(first) = vanished.first() {
            session.printer.warn(format!(
                "{} lacks {} of the files that the ledger records, such as {first}: their rows \
                 are missing from what is made now; run {} for {dataset} to make them again",
                directory.display(),
                vanished.len(),
                self.made_by()
            ));
        }
        Ok(files)
    }

    /// The stages that may delete these files once they have taken them in.
    fn later_stages(self) -> Vec<StageName> {
        let aggregate = AggregatePeriod::ALL.map(StageName::Aggregate);
        match self.stage {
            StageName::Convert => [StageName::Clean].into_iter().chain(aggregate).collect(),
            StageName::Clean => aggregate.to_vec(),
            StageName::Aggregate(_) => Vec::new(),
        }
    }

    /// Warns of cleaned files among those that are taken for GDELT's own: by their names, and by
    /// what the first one notes that the ledger does not know.
    fn warn_of_cleaned(
        self,
        session: &Session,
        dataset: Dataset,
        directory: &Path,
        files: &[DataFile],
    ) {
        if self.stage != StageName::Convert {
            return;
        }
        let is_cleaned = |file: &DataFile| {
            let want = Want::Parts { footer_start: None };
            // What cannot be read is told by whoever needs it.
            let opened = ParquetFile::open(&session.budget, &file.path, want).ok();
            opened.is_some_and(|opened| opened.key_value(marks::STAGE) == Some("clean"))
        };
        let by_name = files.iter().find(|file| file.name.cleaned);
        let stranger = || files.iter().find(|file| file.record.is_none());
        if let Some(file) = by_name.or_else(|| stranger().filter(|file| is_cleaned(file))) {
            session.printer.warn(format!(
                "{} holds files of {dataset} made by gdelt-clean, such as {}, which are taken for \
                 GDELT's own: move them away",
                directory.display(),
                file.relative
            ));
        }
    }
}

/// The files of which the published outputs of a stage were made, by name.
fn sources_of(
    session: &Session,
    layout: &Layout,
    dataset: Dataset,
    stage: StageName,
) -> Result<HashSet<String>, Error> {
    let records = session.ledger(layout, dataset).load(stage, session.range)?.records;
    let published = records.into_values().filter(Record::is_published);
    Ok(published.flat_map(|record| record.sources).map(|source| source.name).collect())
}

/// The last part of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Lists the files of several datasets for a stage that may have deleted what it has taken in. Where
/// `settings.datasets` names the datasets each of them must have files, or have had them, otherwise
/// those that have some are taken.
///
/// # Errors
///
/// [`Error::NoInput`] when files are missing, otherwise as [`DataSource::list`].
pub fn list_datasets(
    session: &Session,
    layout: &Layout,
    sources: &[(Dataset, DataSource)],
    stage: StageName,
) -> Result<Vec<(Dataset, Vec<DataFile>)>, Error> {
    let named = !session.settings.datasets.is_empty();
    let mut found = Vec::new();
    for &(dataset, source) in sources {
        match source.list_left(session, layout, dataset, stage) {
            Ok(files) => found.push((dataset, files)),
            Err(Error::NoInput { message, .. }) if !named => session.printer.detail(message),
            Err(error) => return Err(error),
        }
    }
    if found.is_empty() && !sources.is_empty() {
        let made_by = sources[0].1.made_by();
        let wanted: Vec<_> = sources.iter().map(|(dataset, _)| dataset.name()).collect();
        let (wanted, root) = (wanted.join(", "), layout.root().display());
        return Err(Error::NoInput {
            message: format!("{root} has no files of {wanted} of the dates and feed asked for"),
            hint: format!("check --root, --feed and the dates, or run {made_by} first"),
        });
    }
    Ok(found)
}

/// Opens an input of which all rows are wanted.
///
/// # Errors
///
/// When the storage fails, the file is not as it was listed, or it is not Parquet.
pub fn open_listed(
    session: &Session,
    input: &Input,
) -> Result<ParquetFile, io_budget::parquet::Error> {
    ParquetFile::of(session.budget.open_listed(&input.path, input.stat)?, Want::Whole)
}

/// Refuses a file that notes itself to be of another dataset.
///
/// # Errors
///
/// The reason, for the user.
pub fn check_dataset(file: &ParquetFile, dataset: Dataset) -> Result<(), String> {
    match file.key_value(marks::DATASET) {
        Some(noted) if noted != dataset.name() => {
            Err(format!("it is named like a file of {dataset}, but notes that it is of {noted}"))
        }
        _ => Ok(()),
    }
}

fn retain(files: &mut Vec<DataFile>, feed: FeedChoice, range: DateRange) {
    files.retain(|file| feed.includes(file.name.feed) && range.overlaps(file.name.period));
}

/// How the files of a data directory stand in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nesting {
    /// In the directory itself.
    Flat,
    /// In directories named by period, as in `Year=1979`.
    ByPeriod,
}

impl Nesting {
    /// How the files of a dataset stand unless a setting has it otherwise.
    pub fn of(dataset: Dataset) -> Self {
        if dataset == Dataset::EventsReduced { Self::ByPeriod } else { Self::Flat }
    }
}

/// Lists the Parquet files of a dataset in a data directory, in order of time. Names that are not
/// of the dataset are left out.
///
/// # Errors
///
/// [`Error::Io`] when the directory cannot be listed.
pub fn list_parquet(
    budget: &Budget,
    dataset: Dataset,
    directory: &Path,
    nesting: Nesting,
) -> Result<Vec<DataFile>, Error> {
    let mut files = Vec::new();
    match nesting {
        Nesting::Flat => list_into(budget, dataset, directory, "", &mut files)?,
        Nesting::ByPeriod => {
            // A year, and in it a month.
            for year in periods_in(budget, directory)? {
                list_into(budget, dataset, directory, &format!("{year}/"), &mut files)?;
                for month in periods_in(budget, &directory.join(&year))? {
                    list_into(budget, dataset, directory, &format!("{year}/{month}/"), &mut files)?;
                }
            }
        }
    }
    files.sort_by_key(|file| file.name);
    Ok(files)
}

/// The directories that are named by a period.
fn periods_in(budget: &Budget, directory: &Path) -> Result<Vec<String>, Error> {
    let mut names = budget.list_directories(directory)?;
    names.retain(|name| name.contains('='));
    Ok(names)
}

fn list_into(
    budget: &Budget,
    dataset: Dataset,
    directory: &Path,
    within: &str,
    files: &mut Vec<DataFile>,
) -> Result<(), Error> {
    let wanted = |name: &str| ParquetName::parse(dataset, name).is_some();
    for entry in budget.list(&directory.join(within), wanted)? {
        if let Some(name) = ParquetName::parse(dataset, &entry.name) {
            let relative = format!("{within}{}", entry.name);
            let path = directory.join(&relative);
            files.push(DataFile { name, relative, path, stat: entry.stat, record: None });
        }
    }
    Ok(())
}

/// Refuses an output in whose place something stands that is no regular file: a device, a pipe, a
/// link. Publishing would replace it.
///
/// # Errors
///
/// [`Error::Usage`] that names it, [`Error::Io`] when it cannot be looked at.
pub fn refuse_irregular(budget: &Budget, output: &Path) -> Result<(), Error> {
    let what = if budget.is_link(output)? {
        "a symbolic link"
    } else {
        match budget.stat(output)? {
            Some(stat) if stat.is_directory => "a directory",
            Some(stat) if !stat.is_regular => "no regular file",
            _ => return Ok(()),
        }
    };
    let message = format!("the output {} is {what}, which it would replace", output.display());
    Err(Error::usage(message, "name a file to write"))
}

/// Refuses an output that would stand among inputs, where the next run would read it as data, or
/// that is one of them. Links are followed.
///
/// # Errors
///
/// [`Error::Usage`] that names both, [`Error::Io`] when a path cannot be resolved.
pub fn refuse_among_inputs(
    budget: &Budget,
    output: &Path,
    input_directories: &[PathBuf],
) -> Result<(), Error> {
    let resolved = budget.resolve(output)?;
    for directory in input_directories {
        if resolved.starts_with(budget.resolve(directory)?) {
            let (output, directory) = (output.display(), directory.display());
            let message =
                format!("the output {output} would stand among the inputs in {directory}");
            return Err(Error::usage(message, "write it to a directory of its own"));
        }
    }
    Ok(())
}
