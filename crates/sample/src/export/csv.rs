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
use stage::pool::{self, Threads, Window};
use stage::Error;

use super::{Deliver, description, lines};

/// Text that is made ahead while the storage takes in what was written before.
const AHEAD_BYTES: u64 = 32 << 20;

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
    let mut staged = budget.stage(path).holding(1 << 20);
    let failed = |source: io::Error| io_budget::Error::new("write", path, source);
    staged.write_all(&lines::header(schema)).map_err(failed)?;
    let mut rows = 0;
    let mut produced = Ok(());
    let outcome = &mut produced;
    thread::scope(|scope| {
        let (send, batches) = sync_channel::<RecordBatch>(0);
        let window = Window { items: usize::MAX, bytes: AHEAD_BYTES };
        let threads = Threads { name: "csv", number: threads.get(), window };
        let weigh = |batch: &RecordBatch| lines::size_hint(batch) as u64;
        let work = |batch: RecordBatch| lines::lines(&batch).map(|text| (batch.num_rows(), text));
        let texts = pool::map(scope, threads, batches, weigh, work);
        // Where it is not taken any more, the error that ended the writing is the one to report.
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
    description::write(budget, path, schema, notes, rows)?;
    Ok(staged.publish()?)
}

fn not_taken(path: &Path) -> Error {
    Error::Internal(format!("cannot write {}: its rows are not taken any more", path.display()))
}
