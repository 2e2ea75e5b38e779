//! The GKG records of event ids or of articles.

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use io_budget::parquet::ParquetFile;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use stage::files::DataFile;
use stage::work::TaskError;
use stage::{Error, Session, Summary};

use crate::archive;
use crate::events::Events;
use crate::mentions::Articles;
use crate::rows::{self, Rows};

/// What records are looked for by.
#[derive(Debug)]
pub(crate) enum Wanted<'a> {
    /// GKG 1.0: ids of events, of which a record lists several.
    EventIds(&'a Events),
    /// GKG 2.1: addresses, of which a record has one.
    Articles(&'a Articles),
}

/// The records that belong to events.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Key (the event's id or the article's number) and number of the record.
    pub(crate) links: Vec<(i64, u64)>,
    /// The records, in the order of files, then of rows.
    pub(crate) rows: Rows,
}

/// What one row group has.
#[derive(Default)]
struct GroupRecords {
    /// As [`Records::links`], numbered within the group.
    links: Vec<(i64, u64)>,
    batches: Vec<RecordBatch>,
    ids_unparsable: u64,
}

impl Wanted<'_> {
    fn column(&self) -> &'static str {
        match self {
            Self::EventIds(_) => "EventIds",
            Self::Articles(_) => "V2DOCUMENTIDENTIFIER",
        }
    }

    /// Adds the keys of a record that are wanted, as often as it lists them. Returns how many ids
    /// are no numbers.
    fn add_keys(&self, value: &str, keys: &mut Vec<i64>) -> u64 {
        match self {
            Self::Articles(articles) => {
                keys.extend(articles.get(value));
                0
            }
            Self::EventIds(events) => {
                let mut unparsable = 0;
                for id in value.split(',').map(str::trim).filter(|id| !id.is_empty()) {
                    match id.parse() {
                        Err(_) => unparsable += 1,
                        Ok(id) if events.contains(id) => keys.push(id),
                        Ok(_) => {}
                    }
                }
                unparsable
            }
        }
    }
}

impl Records {
    /// Finds the records that are wanted, in the columns of `schema`.
    ///
    /// # Errors
    ///
    /// [`Error`] when the run is interrupted.
    pub(crate) fn find(
        session: &Session,
        files: &[DataFile],
        wanted: &Wanted<'_>,
        schema: &SchemaRef,
        summary: &mut Summary,
    ) -> Result<Self, Error> {
        let files: Vec<_> = files.iter().collect();
        let mut records = Self::default();
        let mut ids_unparsable = 0;
        let find = |file: &ParquetFile, group, keys| find_in(file, group, keys, wanted, schema);
        archive::walk(session, &files, wanted.column(), summary, find, |found: GroupRecords| {
            let first = records.rows.len();
            records.links.extend(found.links.into_iter().map(|(key, row)| (key, first + row)));
            found.batches.into_iter().for_each(|batch| records.rows.push(batch));
            ids_unparsable += found.ids_unparsable;
            Ok(())
        })?;
        summary.counts.insert("gkg records".into(), records.rows.len());
        if let Wanted::EventIds(_) = wanted {
            let again = records.links.len() - distinct(records.links.clone());
            summary.counts.insert("ids listed again".into(), again as u64);
            summary.counts.insert("ids unparsable".into(), ids_unparsable);
        } else {
            let found = records.links.iter().map(|(article, _)| *article).collect();
            summary.counts.insert("articles matched".into(), distinct(found) as u64);
        }
        Ok(records)
    }
}

fn distinct<T: Ord>(mut values: Vec<T>) -> usize {
    values.sort_unstable();
    values.dedup();
    values.len()
}

fn find_in(
    file: &ParquetFile,
    group: usize,
    keys: ParquetRecordBatchReader,
    wanted: &Wanted<'_>,
    schema: &SchemaRef,
) -> Result<GroupRecords, TaskError> {
    let (mut found, mut records) = (GroupRecords::default(), 0);
    let (mut of_record, mut matching) = (Vec::new(), Vec::new());
    rows::scan(keys, &DataType::Utf8, |first, values| {
        for (row, value) in (first..).zip(values.as_string::<i32>()) {
            found.ids_unparsable += wanted.add_keys(value.unwrap_or_default(), &mut of_record);
            if !of_record.is_empty() {
                found.links.extend(of_record.drain(..).map(|key| (key, records)));
                records += 1;
                matching.push(row);
            }
        }
    })?;
    if !matching.is_empty() {
        found.batches = rows::fetch(file, group, &matching, schema)?;
    }
    Ok(found)
}
