//! Writes a table as CSV, as RFC 4180 has it but for the ends of lines. Batches become text on
//! several threads and are written in their order, so that the bytes do not depend on how many
//! threads there are, nor on how the rows come in batches.

use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use io_budget::{Budget, Published};
use parquet::file::metadata::KeyValue;
use stage::Error;
use stage::pool::{self, Threads, Window};

use super::{Deliver, description, lines};

/// Rows, by their bytes, that are made text of while the storage takes in those before.
const AHEAD_BYTES: u64 = 32 << 20;
/// Bytes that are held before they are written: so few are still in the processor's cache then.
const HELD_BYTES: usize = 1 << 20;

/// Writes the batches that `produce` delivers, on a thread of its own, to a file that appears when
/// all went well, and what a reader has to know of it to `<path>.schema.json`.
///
/// # Errors
///
/// Those of `produce`; [`Error::Io`] when the storage fails; [`Error::Input`] when a value has no
/// text.
pub fn write(
    budget: &Budget,
    threads: NonZeroUsize,
    path: &Path,
    schema: &Schema,
    notes: &[KeyValue],
    produce: impl FnOnce(&mut Deliver<'_>) -> Result<(), Error> + Send,
) -> Result<Published, Error> {
    let mut staged = budget.stage(path).holding(HELD_BYTES);
    let failed = |source: io::Error| io_budget::Error::new("write", path, source);
    staged.write_all(&lines::header(schema)).map_err(failed)?;
    let mut rows = 0;
    let mut produced = Ok(());
    let outcome = &mut produced;
    thread::scope(|scope| {
        // A batch for each thread waits, so that none has to be woken for every batch.
        let (send, batches) = sync_channel::<RecordBatch>(threads.get());
        let window = Window { items: usize::MAX, bytes: AHEAD_BYTES };
        let threads = Threads { name: "csv", number: threads.get(), window };
        let weigh = |batch: &RecordBatch| lines::size_hint(batch) as u64;
        let work = |batch: RecordBatch| lines::lines(&batch).map(|text| (batch.num_rows(), text));
        let texts = pool::map(scope, threads, batches, weigh, work);
        // Nobody takes it after an error, which is the one that is reported.
        let mut deliver = move |batch| send.send(batch).map_err(|_| not_taken(path));
        thread::Builder::new()
            .name("csv-source".into())
            .spawn_scoped(scope, move || *outcome = produce(&mut deliver))
            .map_err(|source| io_budget::Error::new("start a thread to write", path, source))?;
        for text in texts {
            let (count, text) = text.map_err(|problem| {
                let message = format!("cannot write {}: {problem}", path.display());
                Error::input(message, "make the files that the rows come from again")
            })?;
            staged.write_all(&text).map_err(failed)?;
            rows += count as u64;
        }
        Ok::<_, Error>(())
    })?;
    produced?;
    // First, so that no table stands without its description.
    description::write(budget, path, schema, notes, rows)?;
    Ok(staged.publish()?)
}

fn not_taken(path: &Path) -> Error {
    Error::Internal(format!("cannot write {}: the writing of its rows has ended", path.display()))
}
