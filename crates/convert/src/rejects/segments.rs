//! Segments of rejects at rest: logs become Parquet, and what is out of date leaves them.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::error::ArrowError;
use arrow_ipc::reader::StreamReader;
use catalog::ledger::{Record, StageName};
use catalog::{Dataset, DateRange, Layout, marks};
use io_budget::parquet::{ParquetFile, Want};
use io_budget::{Budget, FileReader, Writer};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use stage::{Codec, Error, Session};

use super::log::LOG_SUFFIX;
use super::schema;

const PARQUET_SUFFIX: &str = ".parquet";
/// Rows of a batch read from a segment; an example has 64 KiB at most.
const BATCH_ROWS: usize = 256;
/// Compressed bytes of a row group.
const GROUP_BYTES: usize = 16 << 20;

/// Where the segments of a dataset stand.
pub(super) fn directory(catalog: &Path) -> PathBuf {
    catalog.join("rejects")
}

/// For each source the segment that the ledger names.
#[derive(Debug)]
pub(crate) struct Current {
    by_source: HashMap<String, String>,
    /// Whether the ledger was read whole: otherwise nothing is known to be out of date.
    is_complete: bool,
}

impl Current {
    /// Reads the whole ledger of a dataset.
    pub(crate) fn load(
        session: &Session,
        layout: &Layout,
        dataset: Dataset,
    ) -> Result<Self, Error> {
        let ledger = session.ledger(layout, dataset);
        let loaded = ledger.load(StageName::Convert, DateRange::default())?;
        let segment = |record: Record| {
            let source = record.sources.into_iter().next()?;
            Some((source.name, record.rejects?))
        };
        let is_complete = loaded.unreadable.is_empty();
        let by_source = loaded.records.into_values().filter_map(segment).collect();
        Ok(Self { by_source, is_complete })
    }

    fn is_current(&self, segment: &str, source: &str) -> bool {
        !self.is_complete || self.by_source.get(source).is_some_and(|current| current == segment)
    }
}

/// Brings the rejects of a dataset in order: logs of dead processes become Parquet, and segments
/// lose the rows of files that have been made again. `replaced` are segments known to hold such
/// rows; after a crash all are looked at.
pub(crate) fn settle(
    session: &Session,
    layout: &Layout,
    dataset: Dataset,
    replaced: &BTreeSet<String>,
) -> Result<(), Error> {
    let directory = directory(&layout.directory(dataset, catalog::Directory::Catalog));
    let wanted = |name: &str| name.ends_with(LOG_SUFFIX) || name.ends_with(PARQUET_SUFFIX);
    let entries = match session.budget.list(&directory, wanted) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    session.budget.sweep(&directory)?;
    let mut dead = Vec::new();
    let mut closed = Vec::new();
    for entry in &entries {
        if let Some(segment) = entry.name.strip_suffix(LOG_SUFFIX) {
            let writer = Writer::parse_prefix(&entry.name).map(|(writer, _)| writer);
            if writer.is_some_and(|writer| writer.is_gone(entry.stat)) {
                dead.push(segment);
            }
        } else if let Some(segment) = entry.name.strip_suffix(PARQUET_SUFFIX)
            && Writer::parse_prefix(&entry.name).is_some()
        {
            closed.push(segment);
        }
    }
    let crashed = !dead.is_empty();
    closed.retain(|segment| crashed || replaced.contains(*segment));
    if dead.is_empty() && closed.is_empty() {
        return Ok(());
    }
    let current = Current::load(session, layout, dataset)?;
    for segment in dead {
        close_log(&session.budget, &directory, segment, Some(&current))?;
    }
    for segment in closed {
        filter_segment(&session.budget, &directory, segment, &current)?;
    }
    Ok(())
}

/// Makes a Parquet file of a log and removes that. A log that another process has closed meanwhile
/// is left to it.
pub(super) fn close_log(
    budget: &Budget,
    directory: &Path,
    segment: &str,
    current: Option<&Current>,
) -> Result<(), Error> {
    let path = directory.join(format!("{segment}{LOG_SUFFIX}"));
    let file = match budget.open(&path) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    // A process that was killed may have cut the last batch, whose file was not recorded.
    let batches: Box<dyn Iterator<Item = RecordBatch>> =
        match StreamReader::try_new(FileReader::new(file), None) {
            Ok(reader) if reader.schema() == schema() => Box::new(reader.map_while(Result::ok)),
            _ => Box::new(std::iter::empty()),
        };
    write_segment(budget, directory, segment, batches.map(Ok), current)?;
    Ok(budget.remove(&path)?)
}

/// Writes a segment again without the rows that are out of date, if it has any.
fn filter_segment(
    budget: &Budget,
    directory: &Path,
    segment: &str,
    current: &Current,
) -> Result<(), Error> {
    let path = directory.join(format!("{segment}{PARQUET_SUFFIX}"));
    let file = match budget.open(&path) {
        Ok(file) => ParquetFile::of(file, Want::Whole)?,
        // Another process has removed it.
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let all: Vec<_> = (0..file.schema().fields().len()).collect();
    let Some(source) = file.column("source") else { return Ok(()) };
    let mut is_stale = false;
    for batch in read(&file, &[source]) {
        is_stale |= keeps(&batch?, segment, Some(current)).false_count() > 0;
    }
    if is_stale {
        write_segment(budget, directory, segment, read(&file, &all), Some(current))?;
    }
    Ok(())
}

/// The rows of a segment.
fn read(file: &ParquetFile, columns: &[usize]) -> impl Iterator<Item = Result<RecordBatch, Error>> {
    (0..file.metadata().num_row_groups()).flat_map(|group| {
        match file.read_row_group(group, columns, None, BATCH_ROWS) {
            Ok(reader) => {
                let batches = reader.into_iter().flatten();
                batches.map(|batch| batch.map_err(|e| internal(file.path(), &e))).collect()
            }
            Err(error) => vec![Err(error.into())],
        }
    })
}

/// Publishes the rows that are current as a segment; without any the segment is removed.
fn write_segment(
    budget: &Budget,
    directory: &Path,
    segment: &str,
    batches: impl Iterator<Item = Result<RecordBatch, Error>>,
    current: Option<&Current>,
) -> Result<(), Error> {
    let path = directory.join(format!("{segment}{PARQUET_SUFFIX}"));
    let citation = KeyValue::new(marks::CITATION.to_owned(), marks::CITATION_TEXT.to_owned());
    let properties = WriterProperties::builder()
        .set_compression(Codec::default().compression())
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        .set_key_value_metadata(Some(vec![citation]))
        .build();
    let encoding = |error| Error::encoding(&path, error);
    let mut staged = budget.stage(&path);
    let mut writer =
        ArrowWriter::try_new(&mut staged, schema(), Some(properties)).map_err(encoding)?;
    let mut rows = 0;
    for batch in batches {
        let batch = batch?;
        let keep = keeps(&batch, segment, current);
        let batch = filter_record_batch(&batch, &keep).map_err(|error| internal(&path, &error))?;
        rows += batch.num_rows();
        writer.write(&batch).map_err(encoding)?;
    }
    writer.close().map_err(encoding)?;
    if rows == 0 {
        return Ok(budget.remove(&path)?);
    }
    staged.publish()?;
    Ok(())
}

/// Which rows are current.
fn keeps(batch: &RecordBatch, segment: &str, current: Option<&Current>) -> BooleanArray {
    let sources = batch.column_by_name("source").and_then(|it| it.as_string_opt::<i32>());
    match (sources, current) {
        (Some(sources), Some(current)) => sources
            .iter()
            .map(|source| Some(source.is_some_and(|source| current.is_current(segment, source))))
            .collect(),
        _ => vec![true; batch.num_rows()].into(),
    }
}

fn internal(path: &Path, error: &ArrowError) -> Error {
    Error::Internal(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Place;
    use crate::rejects::{Rejects, RejectsLog};

    fn rejects(source: &str) -> Rejects {
        let mut rejects = Rejects::new(source);
        rejects.add(Place { line: 7, offset: 70 }, None, "too few fields", source.as_bytes());
        rejects
    }

    fn sources(budget: &Budget, path: &Path) -> Vec<String> {
        let file = ParquetFile::open(budget, path, Want::Whole).unwrap();
        let all: Vec<_> = (0..6).collect();
        let batches: Vec<_> = file.read_row_group(0, &all, None, 100).unwrap().unwrap().collect();
        let column = batches[0].as_ref().unwrap().column(0).as_string::<i32>().clone();
        column.iter().map(|source| source.unwrap().to_owned()).collect()
    }

    #[test]
    fn a_log_becomes_parquet_and_loses_what_is_out_of_date() {
        let root = tempfile::tempdir().unwrap();
        let budget = Budget::private();
        let log = RejectsLog::new(&budget, root.path());
        let segment = log.append(rejects("a.zip")).unwrap();
        assert_eq!(log.append(rejects("b.zip")).unwrap(), segment);
        let directory = directory(root.path());
        log.close(None).unwrap();
        let path = directory.join(format!("{segment}.parquet"));
        assert_eq!(sources(&budget, &path), ["a.zip", "b.zip"]);
        let names: Vec<_> = budget.list(&directory, |_| true).unwrap();
        assert_eq!(names.len(), 1, "{names:?}");

        let current = |pairs: &[(&str, &str)]| Current {
            by_source: pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
            is_complete: true,
        };
        let newer = current(&[("a.zip", "another"), ("b.zip", &segment)]);
        filter_segment(&budget, &directory, &segment, &newer).unwrap();
        assert_eq!(sources(&budget, &path), ["b.zip"]);
        filter_segment(&budget, &directory, &segment, &current(&[])).unwrap();
        assert!(budget.stat(&path).unwrap().is_none());
    }

    #[test]
    fn a_log_that_was_cut_gives_its_whole_batches() {
        let root = tempfile::tempdir().unwrap();
        let budget = Budget::private();
        let log = RejectsLog::new(&budget, root.path());
        let segment = log.append(rejects("a.zip")).unwrap();
        log.append(rejects("b.zip")).unwrap();
        drop(log);
        let directory = directory(root.path());
        let path = directory.join(format!("{segment}{LOG_SUFFIX}"));
        let bytes = budget.read_file(&path).unwrap();
        for cut in [bytes.len() - 1, bytes.len() - 200, 10, 0] {
            budget.remove(&path).unwrap();
            let mut file = budget.append(&path).unwrap();
            file.append(&bytes[..cut]).unwrap();
            drop(file);
            close_log(&budget, &directory, &segment, None).unwrap();
            let made = directory.join(format!("{segment}.parquet"));
            if cut > 200 {
                assert_eq!(sources(&budget, &made), ["a.zip"], "{cut}");
                budget.remove(&made).unwrap();
            } else {
                assert!(budget.stat(&made).unwrap().is_none());
            }
            budget.append(&path).unwrap();
        }
    }
}
