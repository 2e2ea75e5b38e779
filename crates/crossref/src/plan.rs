//! What the command line asks for, checked: which events, which files, which output.

use std::path::{Path, PathBuf};

use catalog::Dataset;
use stage::cli::check_parquet_name;
use stage::files::{DataFile, DataSource, SourceChoice, refuse_among_inputs, refuse_irregular};
use stage::{Error, Session};

use crate::cli::{Args, GkgVersion};

/// What to join with what.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Files of events, in the order of their rows.
    pub(crate) events: Vec<PathBuf>,
    pub(crate) version: GkgVersion,
    /// Files of Mentions, in order of time; none for GKG 1.0.
    pub(crate) mentions: Vec<DataFile>,
    /// Files of GKG, in order of time.
    pub(crate) records: Vec<DataFile>,
    /// The kind of files of GKG, as in `aggregated/day`.
    pub(crate) source: String,
    pub(crate) out: PathBuf,
}

/// Refuses flags that do not fit together, before anything is looked at.
///
/// # Errors
///
/// [`Error::Usage`] that says what to change.
pub(crate) fn check(args: &Args) -> Result<(), Error> {
    check_parquet_name(&args.out)?;
    let (source, _) = args.source.checked()?;
    if source == SourceChoice::Aggregated && !args.gkg_version.dataset().is_quarter_hourly() {
        let message = "GKG 1.0 is published by the day and has no aggregated files";
        return Err(Error::usage(message, "choose another --source"));
    }
    Ok(())
}

impl Plan {
    /// Finds the inputs.
    ///
    /// # Errors
    ///
    /// [`Error::NoInput`] when one is missing, [`Error::Usage`] when the output would stand among
    /// them.
    pub(crate) fn make(session: &Session, args: &Args) -> Result<Self, Error> {
        let layout = session.layout()?;
        let (choice, period) = args.source.checked()?;
        let source = |dataset| DataSource::choose(session, dataset, choice, period);
        let version = args.gkg_version;
        let datasets: &[Dataset] = match version {
            GkgVersion::V1 => &[Dataset::GkgV1],
            GkgVersion::V2 => &[Dataset::Mentions, Dataset::GkgV2],
        };
        let mut inputs: Vec<PathBuf> = datasets
            .iter()
            .map(|dataset| layout.directory(*dataset, source(*dataset).directory))
            .collect();
        inputs.push(args.events.clone());
        refuse_among_inputs(&session.budget, &args.out, &inputs)?;
        refuse_irregular(&session.budget, &args.out)?;
        let events = event_files(session, &args.events)?;
        let mut mentions = Vec::new();
        if version == GkgVersion::V2 {
            mentions = source(Dataset::Mentions).list(session, &layout, Dataset::Mentions)?;
        }
        let records = source(version.dataset()).list(session, &layout, version.dataset())?;
        let source = source(version.dataset()).directory.to_string();
        Ok(Self { events, version, mentions, records, source, out: args.out.clone() })
    }

    /// The files to look into, for people.
    pub(crate) fn archive_files(&self) -> String {
        let records = format!("{} files of {}", self.records.len(), self.version.dataset());
        match self.version {
            GkgVersion::V1 => records,
            GkgVersion::V2 => format!("{} files of mentions and {records}", self.mentions.len()),
        }
    }
}

/// The files of events: the one named, or those of the directory named, by name.
fn event_files(session: &Session, path: &Path) -> Result<Vec<PathBuf>, Error> {
    let missing = |message: String| Error::NoInput {
        message,
        hint: "name a Parquet file of events, or a directory of such files, with --events".into(),
    };
    let Some(stat) = session.budget.stat(path)? else {
        return Err(missing(format!("{} does not exist", path.display())));
    };
    if !stat.is_directory {
        return Ok(vec![path.to_owned()]);
    }
    let entries = session.budget.list(path, |name| name.ends_with(".parquet"))?;
    if entries.is_empty() {
        return Err(missing(format!("{} holds no Parquet files", path.display())));
    }
    Ok(entries.into_iter().map(|entry| path.join(entry.name)).collect())
}
