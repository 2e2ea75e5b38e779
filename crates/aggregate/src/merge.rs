//! One output: the rows of its sources, one after another.

use std::thread;

use catalog::AggregatePeriod;
use catalog::marks::{self, SourceMark};
use io_budget::StagedFile;
use io_budget::parquet::footer_start;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use serde::Serialize;
use stage::pool::{self, Threads, Window};
use stage::work::{Crew, FileFacts, Made, MadeFile, Tally, Task, TaskError};
use stage::{Error, Session, format};

use crate::completeness::Completeness;
use crate::groups::{Groups, RowGroups};
use crate::layout::Layout;
use crate::source::{Piece, Source};

/// Sources of one period that are read at once, at most.
const READERS: usize = 4;
/// Bytes of sources that are read ahead.
const AHEAD_BYTES: u64 = 32 << 20;

/// How outputs are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Manner {
    pub(crate) period: AggregatePeriod,
    pub(crate) row_groups: RowGroups,
    /// Whether a last column names the source of each row.
    pub(crate) provenance: bool,
}

/// What is noted of the work.
#[derive(Serialize)]
struct Note {
    #[serde(flatten)]
    manner: Manner,
    #[serde(flatten)]
    completeness: Completeness,
}

/// Makes the output of a task.
pub(crate) fn merge(
    session: &Session,
    task: &Task,
    manner: Manner,
    crew: Crew<'_>,
) -> Result<Made, TaskError> {
    let completeness = Completeness::of(task);
    let counts = completeness.counts();
    let internal = |error: serde_json::Error| Error::Internal(error.to_string());
    let steps = serde_json::to_string(&Note { manner, completeness }).map_err(internal)?;
    let mut notes = format::notes("aggregate", task.dataset, task.feed, &task.fingerprint);
    notes.push((marks::STEPS, steps));
    let mut staged = session.budget.stage_within(&task.directory, &task.output_path());
    let layout = Layout::new(session, task, manner.provenance, &notes)?;
    let (rows_by_input, metadata) = write(session, task, manner, &layout, &mut staged, crew)?;

    let rows = rows_by_input.iter().sum();
    let facts = FileFacts {
        output: task.output.clone(),
        rows,
        footer_start: footer_start(&metadata),
        key_ranges: format::key_ranges(task.dataset, &metadata),
    };
    let tally = Tally {
        rows_by_input,
        rows_read: rows,
        is_empty_upstream: rows == 0,
        counts,
        ..Tally::default()
    };
    Ok(Made { files: vec![MadeFile { staged, facts }], tally })
}

/// Writes the rows of all sources; returns how many each gave. Sources are read ahead.
fn write(
    session: &Session,
    task: &Task,
    manner: Manner,
    layout: &Layout<'_>,
    staged: &mut StagedFile,
    crew: Crew<'_>,
) -> Result<(Vec<u64>, ParquetMetaData), TaskError> {
    let mut writer = layout.begin(staged)?;
    let mut rows_by_input = vec![0; task.inputs.len()];
    let first = task.inputs.first().map(|input| input.path.as_path());
    let readers = session.reader_threads(first).min(READERS);
    let read = Threads {
        name: "reader",
        number: readers,
        window: Window { items: readers + 1, bytes: AHEAD_BYTES },
    };
    thread::scope(|scope| {
        let open = |number: usize| {
            session.interrupt.check()?;
            Source::open(session, task.dataset, number, &task.inputs[number], layout.declared())
        };
        let weight = |number: &usize| task.inputs[*number].stat.size;
        let opened = pool::map(scope, read, 0..task.inputs.len(), weight, open);
        let pieces = opened.flat_map(|opened: Result<Source, TaskError>| match opened {
            Ok(source) => source.pieces().into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        });
        let limit = manner.row_groups.limit(task.dataset);
        for pieces in Groups::new(pieces, limit, Piece::size) {
            session.interrupt.check()?;
            let pieces = pieces?;
            for piece in &pieces {
                rows_by_input[piece.source.number] += piece.rows();
            }
            layout.write_group(&mut writer, &pieces, crew.threads())?;
        }
        Ok::<_, TaskError>(())
    })?;
    let marks = task.inputs.iter().zip(&rows_by_input);
    let marks: Vec<_> =
        marks.map(|(input, rows)| SourceMark { name: input.name.clone(), rows: *rows }).collect();
    let sources =
        serde_json::to_string(&marks).map_err(|error| Error::Internal(error.to_string()))?;
    writer.append_key_value_metadata(KeyValue::new(marks::SOURCES.to_owned(), sources));
    let metadata = writer.close().map_err(|error| layout.encoding(error))?;
    Ok((rows_by_input, metadata))
}
