//! The events to join: their ids, by which they are looked up, and their rows, of which only those
//! with a match are read.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::AsArray as _;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use catalog::marks::SourceMark;
use io_budget::parquet::{ParquetFile, Want};
use stage::work::TaskError;
use stage::{Error, Session, pool};

use crate::rows::{self, Rows};

/// The key of an event.
const ID: &str = "GlobalEventID";

/// The events, by id.
#[derive(Debug)]
pub(crate) struct Events {
    files: Vec<EventFile>,
    /// The columns of all files, in the order in which they first appear.
    pub(crate) schema: SchemaRef,
    /// Rows over all files.
    pub(crate) rows: u64,
    /// Id and row number of the events that have an id, sorted.
    ids: Vec<(i64, u64)>,
    /// The ids, to ask for one quickly.
    known: HashSet<i64>,
}

/// A file of events.
#[derive(Debug)]
struct EventFile {
    path: PathBuf,
    /// Rows of each row group.
    groups: Vec<u64>,
}

/// What the first reading of a file gives.
struct Head {
    file: EventFile,
    schema: SchemaRef,
    /// Id and row number in the file.
    ids: Vec<(i64, u64)>,
}

impl Events {
    /// Reads the ids of all events. Rows are numbered in the order of files, then of rows.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] when a file has no ids, has two columns of one name, or has a column of
    /// another type than an earlier file; [`Error`] when one cannot be read.
    pub(crate) fn read(session: &Session, paths: &[PathBuf]) -> Result<Self, Error> {
        let (mut files, mut ids, mut rows) = (Vec::new(), Vec::new(), 0);
        let mut fields: Vec<Arc<Field>> = Vec::new();
        let head = |path: &PathBuf| {
            session.interrupt.check()?;
            read_head(&open(session, path)?).map_err(|error| fatal(path, error))
        };
        let jobs = session.waiting_jobs(paths.first().map(PathBuf::as_path));
        pool::map_ordered(jobs, paths, head, |head: Result<Head, Error>| {
            let head = head?;
            add_columns(&mut fields, &head.schema, &head.file.path)?;
            ids.extend(head.ids.into_iter().map(|(id, row)| (id, rows + row)));
            rows += head.file.groups.iter().sum::<u64>();
            files.push(head.file);
            Ok::<_, Error>(())
        })?;
        ids.sort_unstable();
        let known = ids.iter().map(|(id, _)| *id).collect();
        Ok(Self { files, schema: Arc::new(Schema::new(fields)), rows, ids, known })
    }

    /// Whether an event has this id.
    pub(crate) fn contains(&self, id: i64) -> bool {
        self.known.contains(&id)
    }

    /// Whether an event has an id between these two, both included.
    pub(crate) fn any_between(&self, (least, greatest): (i64, i64)) -> bool {
        let at = self.ids.partition_point(|(id, _)| *id < least);
        self.ids.get(at).is_some_and(|(id, _)| *id <= greatest)
    }

    /// Id and row number of the events with one of these ids.
    pub(crate) fn with_ids(&self, ids: &HashSet<i64>) -> (Vec<i64>, Vec<u64>) {
        self.ids.iter().copied().filter(|(id, _)| ids.contains(id)).unzip()
    }

    /// What is to be said of the events, by name.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let with_id = self.ids.len() as u64;
        let mut counts = BTreeMap::from([
            ("event ids repeated".to_owned(), with_id - self.known.len() as u64),
            ("events without id".to_owned(), self.rows - with_id),
        ]);
        counts.retain(|_, count| *count > 0);
        counts.insert("events".to_owned(), self.rows);
        counts
    }

    /// The files, each with how many of these rows, ascending, are its own.
    pub(crate) fn sources(&self, numbers: &[u64]) -> Vec<SourceMark> {
        let (mut left, mut first) = (numbers, 0);
        let mut sources = Vec::with_capacity(self.files.len());
        for file in &self.files {
            first += file.groups.iter().sum::<u64>();
            let (here, behind) = left.split_at(left.partition_point(|row| *row < first));
            left = behind;
            let name = file.path.file_name().unwrap_or_default().display().to_string();
            sources.push(SourceMark { name, rows: here.len() as u64 });
        }
        sources
    }

    /// Reads the rows of these numbers, ascending; in the result they are numbered from 0.
    ///
    /// # Errors
    ///
    /// [`Error`] when a file cannot be read.
    pub(crate) fn fetch(&self, session: &Session, numbers: &[u64]) -> Result<Rows, Error> {
        let mut rows = Rows::default();
        let (mut left, mut first) = (numbers, 0);
        let mut wanted = Vec::new();
        for file in &self.files {
            let mut groups = Vec::new();
            for (group, length) in file.groups.iter().enumerate() {
                let (here, behind) =
                    left.split_at(left.partition_point(|row| *row < first + length));
                if !here.is_empty() {
                    let offset = |row: &u64| usize::try_from(row - first).unwrap_or(usize::MAX);
                    groups.push((group, here.iter().map(offset).collect::<Vec<_>>()));
                }
                (left, first) = (behind, first + length);
            }
            if !groups.is_empty() {
                wanted.push((&file.path, groups));
            }
        }
        let read = |(path, groups): (&PathBuf, Vec<(usize, Vec<usize>)>)| {
            session.interrupt.check()?;
            let file = open(session, path)?;
            let batches = groups.iter().map(|(group, rows)| {
                rows::fetch(&file, *group, rows, &self.schema).map_err(|error| fatal(path, error))
            });
            batches.collect::<Result<Vec<_>, Error>>()
        };
        let jobs = session.waiting_jobs(self.files.first().map(|file| file.path.as_path()));
        pool::map_ordered(jobs, wanted, read, |batches: Result<Vec<Vec<_>>, Error>| {
            batches?.into_iter().flatten().for_each(|batch| rows.push(batch));
            Ok::<_, Error>(())
        })?;
        Ok(rows)
    }
}

fn open(session: &Session, path: &Path) -> Result<ParquetFile, Error> {
    Ok(ParquetFile::open(&session.budget, path, Want::Parts { footer_start: None })?)
}

fn read_head(file: &ParquetFile) -> Result<Head, TaskError> {
    let column = file.column(ID).ok_or_else(|| {
        TaskError::Failed(format!("it has no column {ID}, by which events are joined"))
    })?;
    let (mut ids, mut groups, mut first) = (Vec::new(), Vec::new(), 0);
    for (group, metadata) in file.metadata().row_groups().iter().enumerate() {
        if let Some(keys) = rows::read_keys(file, group, column)? {
            rows::scan(keys, &DataType::Int64, |row, values| {
                for (row, id) in (first + row as u64..).zip(values.as_primitive::<Int64Type>()) {
                    ids.extend(id.map(|id| (id, row)));
                }
            })?;
        }
        let length = u64::try_from(metadata.num_rows()).unwrap_or(0);
        groups.push(length);
        first += length;
    }
    let path = file.path().to_owned();
    Ok(Head { file: EventFile { path, groups }, schema: Arc::clone(file.schema()), ids })
}

/// Without the events there is nothing to join.
fn fatal(path: &Path, error: TaskError) -> Error {
    match error {
        TaskError::Failed(reason) => Error::input(
            format!("{}: {reason}", path.display()),
            "name Parquet files of events, as made by gdelt-convert or gdelt-sample",
        ),
        TaskError::Stop(error) => error,
    }
}

/// Adds the columns of a file that no earlier file has.
fn add_columns(fields: &mut Vec<Arc<Field>>, schema: &Schema, path: &Path) -> Result<(), Error> {
    let refuse = |message: String, hint: &str| {
        Err(Error::input(format!("{}: {message}", path.display()), hint))
    };
    let mut seen = HashSet::new();
    for field in schema.fields() {
        let (name, found) = (field.name(), field.data_type());
        if !seen.insert(name) {
            let message = format!("two columns are named {name}");
            return refuse(message, "keep one of them, or give them names of their own");
        }
        match fields.iter().find(|known| known.name() == name) {
            None => fields.push(Arc::new(Field::new(name, found.clone(), true))),
            Some(known) if known.data_type() == found => {}
            Some(known) => {
                let expected = known.data_type();
                let message = format!("column {name} is {found}, in an earlier file {expected}");
                return refuse(message, "join files of one kind at a time");
            }
        }
    }
    Ok(())
}
