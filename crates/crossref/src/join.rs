//! Which event, mention and record make a row, and in which order.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::UInt64Type;
use polars::prelude::{IntoLazy as _, LazyFrame, SortMultipleOptions, col};
use polars_bridge::{table_from_polars, table_to_polars};
use stage::Error;

use crate::events::Events;
use crate::mentions::Mentions;

/// The rows of the output, each by the numbers of what it is made of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) events: Vec<u64>,
    /// Empty for GKG 1.0.
    pub(crate) mentions: Vec<u64>,
    pub(crate) records: Vec<u64>,
}

impl Joined {
    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The events that have rows, ascending.
    pub(crate) fn distinct_events(&self) -> Vec<u64> {
        let mut events = self.events.clone();
        events.dedup();
        events
    }

    /// The most rows of one event.
    pub(crate) fn largest_fan_out(&self) -> usize {
        self.events.chunk_by(|one, next| one == next).map(<[u64]>::len).max().unwrap_or(0)
    }
}

/// Joins events with records: by event id, or where there are mentions through these by article.
/// `links` are key and number of records.
///
/// # Errors
///
/// [`Error::Internal`] when polars refuses.
pub(crate) fn join(
    events: &Events,
    mentions: Option<&Mentions>,
    links: &[(i64, u64)],
) -> Result<Joined, Error> {
    let (keys, numbers): (Vec<i64>, Vec<u64>) = links.iter().copied().unzip();
    let matched: HashSet<i64> = match mentions {
        None => keys.iter().copied().collect(),
        Some(mentions) => mentions.event_ids.iter().copied().collect(),
    };
    let (ids, event_numbers) = events.with_ids(&matched);
    let event_numbers: ArrayRef = Arc::new(UInt64Array::from(event_numbers));
    let key = if mentions.is_some() { "article" } else { "id" };
    let records = table([(key, int(keys)), ("record", Arc::new(UInt64Array::from(numbers)))])?;
    let events = table([("id", int(ids)), ("event", event_numbers)])?;
    let (joined, order): (_, &[&str]) = match mentions {
        None => (events.inner_join(records, col("id"), col("id")), &["event", "record"]),
        Some(mentions) => {
            let numbers = UInt64Array::from_iter_values(0..mentions.times.len() as u64);
            let mentions = table([
                ("id", int(mentions.event_ids.clone())),
                ("article", int(mentions.article_numbers.clone())),
                ("time", Arc::new(Int64Array::from(mentions.times.clone()))),
                ("mention", Arc::new(numbers)),
            ])?;
            let joined = events.inner_join(mentions, col("id"), col("id")).inner_join(
                records,
                col("article"),
                col("article"),
            );
            (joined, &["event", "time", "mention", "record"])
        }
    };
    let sorted = joined
        .sort(order.iter().copied(), SortMultipleOptions::new().with_nulls_last(true))
        .select(order.iter().copied().map(col).collect::<Vec<_>>())
        .collect();
    let joined = sorted.and_then(table_from_polars).map_err(|error| internal(&error))?;
    let numbers = |name| {
        let column = joined.column_by_name(name);
        column.map_or_else(Vec::new, |array| array.as_primitive::<UInt64Type>().values().to_vec())
    };
    Ok(Joined {
        events: numbers("event"),
        mentions: numbers("mention"),
        records: numbers("record"),
    })
}

fn int(values: Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

fn table<const N: usize>(columns: [(&str, ArrayRef); N]) -> Result<LazyFrame, Error> {
    let batch = RecordBatch::try_from_iter(columns).map_err(|error| internal(&error))?;
    let frame = table_to_polars(&batch.schema(), &[batch]).map_err(|error| internal(&error))?;
    Ok(frame.lazy())
}

fn internal(error: &dyn std::error::Error) -> Error {
    Error::Internal(format!("the join failed: {error}"))
}
