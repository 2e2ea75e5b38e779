//! Writes the rows of the join.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use catalog::marks::{self, SourceMark};
use catalog::{Dataset, FeedChoice};
use io_budget::Published;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use serde::Serialize;
use stage::{Error, Failure, Session, format};

use crate::Found;
use crate::cli::GkgVersion;
use crate::events::Events;
use crate::join::Joined;
use crate::mentions::{CONFIDENCE, TIME};
use crate::plan::Plan;
use crate::rows::Rows;

/// Stands before the names of columns of GKG.
const GKG_PREFIX: &str = "GKG_";
/// Stands before the names of columns of Mentions.
const MENTION_PREFIX: &str = "Mention_";
/// Rows gathered at once: some 15 MB of GKG.
const BATCH_ROWS: usize = 1_024;

/// All that the output is made of.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) schema: SchemaRef,
    pub(crate) events: &'a Events,
    /// The events that have rows, ascending.
    pub(crate) matched: Vec<u64>,
    /// The rows of those.
    pub(crate) event_rows: Rows,
    pub(crate) found: Found,
    pub(crate) joined: Joined,
}

/// What is noted of the join.
#[derive(Serialize)]
struct JoinNote<'a> {
    gkg_version: &'a str,
    source: &'a str,
    feed: FeedChoice,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_date: Option<String>,
    /// Files whose rows are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<String>,
}

/// The columns of records: those of the codebook, whichever of them a file has.
pub(crate) fn record_schema(dataset: Dataset) -> SchemaRef {
    let field =
        |column: &catalog::Column| Field::new(column.name, column.column_type.data_type(), true);
    Arc::new(Schema::new(dataset.columns().iter().map(field).collect::<Vec<_>>()))
}

/// The columns of the output: of events, of mentions, of records.
///
/// # Errors
///
/// [`Error::Input`] when the events have a column of a name that the output gives.
pub(crate) fn schema(events: &Schema, version: GkgVersion) -> Result<SchemaRef, Error> {
    let mut fields: Vec<Arc<Field>> = events.fields().iter().cloned().collect();
    let mut added = Vec::new();
    if version == GkgVersion::V2 {
        for name in [TIME, CONFIDENCE] {
            added.push(Field::new(format!("{MENTION_PREFIX}{name}"), DataType::Int64, true));
        }
    }
    for field in record_schema(version.dataset()).fields() {
        let name = format!("{GKG_PREFIX}{}", field.name());
        added.push(Field::new(name, field.data_type().clone(), true));
    }
    if let Some(taken) = added.iter().find(|field| events.index_of(field.name()).is_ok()) {
        let message = format!("the events have a column {} already", taken.name());
        return Err(Error::input(message, "join the events as they were before the last join"));
    }
    fields.extend(added.into_iter().map(Arc::new));
    Ok(Arc::new(Schema::new(fields)))
}

impl Output<'_> {
    /// Writes the file, which appears when it is whole. `unreadable` are the files whose rows are
    /// missing.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the storage fails, [`Error::Interrupted`] between two batches.
    pub(crate) fn write(
        &self,
        session: &Session,
        unreadable: &[Failure],
    ) -> Result<Published, Error> {
        let path = &self.plan.out;
        let properties = self.properties(session, unreadable)?;
        let mut staged = session.budget.stage(path);
        let mut writer =
            ArrowWriter::try_new(&mut staged, Arc::clone(&self.schema), Some(properties))
                .map_err(|error| Error::encoding(path, error))?;
        let length = self.joined.len();
        for from in (0..length).step_by(BATCH_ROWS) {
            session.interrupt.check()?;
            let batch = self.batch(from, length.min(from + BATCH_ROWS));
            let batch = batch.map_err(|error| Error::encoding(path, error.into()))?;
            writer.write(&batch).map_err(|error| Error::encoding(path, error))?;
        }
        writer.close().map_err(|error| Error::encoding(path, error))?;
        Ok(staged.publish()?)
    }

    /// The rows from one to, not including, another.
    fn batch(&self, from: usize, to: usize) -> Result<RecordBatch, arrow::error::ArrowError> {
        let place = |event: &u64| self.matched.partition_point(|other| other < event) as u64;
        let events: Vec<u64> = self.joined.events[from..to].iter().map(place).collect();
        let mut columns = self.event_rows.gather(&events)?;
        if let Some(mentions) = &self.found.mentions {
            let numbers = &self.joined.mentions[from..to];
            for values in [&mentions.times, &mentions.confidences] {
                columns.push(pick(values, numbers));
            }
        }
        columns.extend(self.found.records.rows.gather(&self.joined.records[from..to])?);
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }

    fn properties(
        &self,
        session: &Session,
        unreadable: &[Failure],
    ) -> Result<WriterProperties, Error> {
        let json = |error: serde_json::Error| Error::Internal(error.to_string());
        let file_name =
            |failure: &Failure| failure.file.file_name().unwrap_or_default().display().to_string();
        let note = JoinNote {
            gkg_version: self.plan.version.name(),
            source: &self.plan.source,
            feed: session.settings.feed,
            start_date: session.range.start.map(|day| day.to_string()),
            end_date: session.range.end.map(|day| day.to_string()),
            unreadable: unreadable.iter().map(file_name).collect(),
        };
        let sources: Vec<SourceMark> = self.events.sources(&self.joined.events);
        let notes = [
            (marks::VERSION, stage::VERSION.to_owned()),
            (marks::STAGE, "crossref".to_owned()),
            (marks::SOURCES, serde_json::to_string(&sources).map_err(json)?),
            (marks::STEPS, serde_json::to_string(&note).map_err(json)?),
            (marks::FINGERPRINT, stage::fingerprint(&note)?),
        ];
        let dataset = self.plan.version.dataset();
        let mut properties = format::writer_properties(dataset, &notes).into_builder();
        for field in self.schema.fields() {
            let path = ColumnPath::new(vec![field.name().clone()]);
            if let Some(column) = field.name().strip_prefix(GKG_PREFIX) {
                let dictionary = format::has_dictionary(dataset, column);
                properties = properties.set_column_dictionary_enabled(path.clone(), dictionary);
            }
            if field.data_type() == &DataType::Utf8 {
                properties =
                    properties.set_column_statistics_enabled(path, EnabledStatistics::Chunk);
            }
        }
        Ok(properties.build())
    }
}

fn pick(values: &[Option<i64>], numbers: &[u64]) -> ArrayRef {
    let value = |number: &u64| values[usize::try_from(*number).unwrap_or(usize::MAX)];
    Arc::new(numbers.iter().map(value).collect::<Int64Array>())
}
