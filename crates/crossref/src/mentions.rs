//! The mentions of the events: which article reports which event, when, how surely.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::AsArray as _;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use io_budget::parquet::ParquetFile;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use stage::files::DataFile;
use stage::work::TaskError;
use stage::{Error, Session, Summary};

use crate::events::Events;
use crate::{archive, rows};

/// The event that a mention is of.
const EVENT_ID: &str = "GLOBALEVENTID";
/// The article that it stands in.
const ARTICLE: &str = "MentionIdentifier";
/// When the article was seen.
pub(crate) const TIME: &str = "MentionTimeDate";
/// How sure the extraction is, in percent.
pub(crate) const CONFIDENCE: &str = "Confidence";

/// Counted: files whose ids are all outside those of the events.
pub(crate) const SKIPPED: &str = "files skipped by id range";

/// Numbers that stand for addresses, in the order in which they are first met.
pub(crate) type Articles = HashMap<String, i64>;

/// The mentions of the events that name an article, in the order of files, then of rows.
#[derive(Debug, Default)]
pub(crate) struct Mentions {
    pub(crate) event_ids: Vec<i64>,
    /// The article's number in `articles`.
    pub(crate) article_numbers: Vec<i64>,
    pub(crate) times: Vec<Option<i64>>,
    pub(crate) confidences: Vec<Option<i64>>,
    pub(crate) articles: Articles,
}

/// A mention of an event.
struct Mention {
    event_id: i64,
    /// Null and empty addresses equal nothing.
    article: Option<String>,
    time: Option<i64>,
    confidence: Option<i64>,
}

/// Whether a file may hold mentions of the events, as far as the ledger knows its ids.
pub(crate) fn may_match(file: &DataFile, events: &Events) -> bool {
    let ranges = file.record.as_ref().map(|record| &record.key_ranges);
    let range = ranges.and_then(|ranges| ranges.get(EVENT_ID));
    range.is_none_or(|range| events.any_between(*range))
}

impl Mentions {
    /// Finds the mentions of the events.
    ///
    /// # Errors
    ///
    /// [`Error`] when the run is interrupted.
    pub(crate) fn find(
        session: &Session,
        files: &[DataFile],
        events: &Events,
        summary: &mut Summary,
    ) -> Result<Self, Error> {
        let matching: Vec<_> = files.iter().filter(|file| may_match(file, events)).collect();
        summary.counts.insert(SKIPPED.into(), (files.len() - matching.len()) as u64);
        let mut mentions = Self::default();
        let (mut matched, mut without_article) = (0, 0);
        let find = |file: &ParquetFile, group, ids| find_in(file, group, ids, events);
        archive::walk(session, &matching, EVENT_ID, summary, find, |found: Vec<Mention>| {
            matched += found.len() as u64;
            for mention in found {
                without_article += mentions.push(mention);
            }
            Ok(())
        })?;
        summary.counts.insert("mentions matched".into(), matched);
        if without_article > 0 {
            summary.counts.insert("mentions without article".into(), without_article);
        }
        summary.counts.insert("articles".into(), mentions.articles.len() as u64);
        Ok(mentions)
    }

    /// Adds a mention, and returns how many were left out since they name no article.
    fn push(&mut self, mention: Mention) -> u64 {
        let Some(article) = mention.article else { return 1 };
        let next = i64::try_from(self.articles.len()).unwrap_or(i64::MAX);
        self.event_ids.push(mention.event_id);
        self.article_numbers.push(*self.articles.entry(article).or_insert(next));
        self.times.push(mention.time);
        self.confidences.push(mention.confidence);
        0
    }
}

fn find_in(
    file: &ParquetFile,
    group: usize,
    ids: ParquetRecordBatchReader,
    events: &Events,
) -> Result<Vec<Mention>, TaskError> {
    rows::column(file, ARTICLE)?;
    let (mut matching_ids, mut matching) = (Vec::new(), Vec::new());
    rows::scan(ids, &DataType::Int64, |first, values| {
        for (row, id) in (first..).zip(values.as_primitive::<Int64Type>()) {
            if let Some(id) = id.filter(|id| events.contains(*id)) {
                matching_ids.push(id);
                matching.push(row);
            }
        }
    })?;
    let mut mentions = Vec::with_capacity(matching.len());
    if matching.is_empty() {
        return Ok(mentions);
    }
    let mut ids = matching_ids.into_iter();
    for batch in rows::fetch(file, group, &matching, &payload())? {
        let times = batch.column(0).as_primitive::<Int64Type>();
        let confidences = batch.column(1).as_primitive::<Int64Type>();
        let articles = batch.column(2).as_string::<i32>();
        let values = times.iter().zip(confidences).zip(articles).zip(&mut ids);
        mentions.extend(values.map(|(((time, confidence), article), event_id)| {
            let article = article.filter(|address| !address.is_empty()).map(str::to_owned);
            Mention { event_id, article, time, confidence }
        }));
    }
    Ok(mentions)
}

fn payload() -> SchemaRef {
    let field = |name, data_type| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![
        field(TIME, DataType::Int64),
        field(CONFIDENCE, DataType::Int64),
        field(ARTICLE, DataType::Utf8),
    ]))
}
