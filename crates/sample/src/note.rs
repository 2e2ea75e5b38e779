//! What is noted in a sample: how it was drawn, and from what.

use catalog::{FeedChoice, marks};
use parquet::file::properties::WriterProperties;
use serde::Serialize;
use stage::files::DataSource;
use stage::{Error, Session, format};

use crate::design::{Design, Method};
use crate::draw::Draw;
use crate::priority::ALGORITHM;

/// The design, without what came of it.
#[derive(Serialize)]
struct DesignNote<'a> {
    algorithm: &'a str,
    #[serde(flatten)]
    method: &'a Method,
    seed: u64,
    source: String,
    feed: FeedChoice,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_date: Option<String>,
}

#[derive(Serialize)]
struct SampleNote<'a> {
    #[serde(flatten)]
    design: &'a DesignNote<'a>,
    #[serde(flatten)]
    draw: &'a Draw,
    sampled: usize,
}

/// How a sample of these columns is written, with what is noted in it.
///
/// # Errors
///
/// [`Error::Internal`] when a note cannot be serialised.
pub(crate) fn properties(
    session: &Session,
    design: &Design,
    source: DataSource,
    columns: &[&str],
    draw: &Draw,
) -> Result<WriterProperties, Error> {
    let note = DesignNote {
        algorithm: ALGORITHM,
        method: &design.method,
        seed: design.seed,
        source: source.directory.to_string(),
        feed: session.settings.feed,
        start_date: session.range.start.map(|day| day.to_string()),
        end_date: session.range.end.map(|day| day.to_string()),
    };
    let fingerprint = stage::fingerprint(&(design.dataset, &note, columns))?;
    let note = SampleNote { design: &note, draw, sampled: draw.positions.len() };
    let steps = serde_json::to_string(&note).map_err(|error| Error::Internal(error.to_string()))?;
    let notes = [
        (marks::VERSION, stage::VERSION.to_owned()),
        (marks::STAGE, "sample".to_owned()),
        (marks::DATASET, design.dataset.name().to_owned()),
        (marks::STEPS, steps),
        (marks::FINGERPRINT, fingerprint),
    ];
    Ok(format::writer_properties(design.dataset, &notes))
}
