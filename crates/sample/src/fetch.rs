//! Reads the rows that were drawn, and only the pages that hold them.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use parquet::arrow::arrow_reader::RowSelection;
use stage::{Error, Session, pool};

use crate::columns::{self, DeclaredColumn};
use crate::population::{Population, PopulationFile};
use crate::scan::{row_groups, undecodable};

/// Rows that are decoded, and handed on, at once: some 14 MB of GKG.
pub(crate) const BATCH_ROWS: usize = 1024;

/// The rows drawn of one file, in the order in which they stand there.
#[derive(Debug)]
pub(crate) struct Chosen<'a> {
    pub(crate) file: &'a PopulationFile,
    /// Row in the file, and its position in the archive.
    rows: Vec<(u64, u64)>,
}

impl Chosen<'_> {
    /// The least and the greatest position.
    fn span(&self) -> (u64, u64) {
        let positions = self.rows.iter().map(|(_, position)| *position);
        (positions.clone().min().unwrap_or(0), positions.max().unwrap_or(0))
    }
}

/// The rows at the given positions, by file, and the files in order of time.
///
/// # Errors
///
/// [`Error::Internal`] when a position is not of this population.
pub(crate) fn by_file<'a>(
    population: &'a Population,
    positions: &[u64],
) -> Result<Vec<Chosen<'a>>, Error> {
    let mut files: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
    for position in positions {
        let (file, row) = population
            .place(*position)
            .ok_or_else(|| Error::Internal(format!("no row at position {position}")))?;
        files.entry(file).or_default().push((row, *position));
    }
    let chosen = files.into_iter().map(|(file, mut rows)| {
        rows.sort_unstable();
        Chosen { file: &population.files[file], rows }
    });
    Ok(chosen.collect())
}

/// Reads the columns of the rows chosen, and delivers them in order of position.
///
/// # Errors
///
/// Of the first file that cannot be read, and of `deliver`.
pub(crate) fn fetch(
    session: &Session,
    chosen: Vec<Chosen<'_>>,
    columns: &[DeclaredColumn],
    mut deliver: impl FnMut(RecordBatch) -> Result<(), Error>,
) -> Result<(), Error> {
    let bar = session.printer.start_bar(chosen.len() as u64, "files read");
    let work = |files: Vec<Chosen<'_>>| {
        let mut batches = Vec::new();
        // Position, batch, row in the batch.
        let mut order: Vec<(u64, (usize, usize))> = Vec::new();
        for chosen in &files {
            session.interrupt.check()?;
            let mut positions = chosen.rows.iter().map(|(_, position)| *position);
            for batch in read(session, chosen, columns)? {
                let places = (0..batch.num_rows()).map(|row| (batches.len(), row));
                order.extend(positions.by_ref().zip(places));
                batches.push(batch);
            }
        }
        order.sort_unstable();
        Ok((files.len(), in_order(&batches, &order)?))
    };
    let jobs = session.waiting_jobs(chosen.first().map(|chosen| chosen.file.path.as_path()));
    pool::map_ordered(jobs, interleaved(chosen), work, |done: Result<_, Error>| {
        let (files, batches): (usize, Vec<RecordBatch>) = done?;
        bar.advance(files as u64);
        batches.into_iter().try_for_each(&mut deliver)
    })
}

/// Puts files together whose positions lie between one another's, as those of the two feeds' days
/// do: their rows are put in order with one another.
fn interleaved(mut files: Vec<Chosen<'_>>) -> Vec<Vec<Chosen<'_>>> {
    files.sort_by_cached_key(Chosen::span);
    let mut groups: Vec<Vec<Chosen<'_>>> = Vec::new();
    let mut end = 0;
    for file in files {
        let (first, last) = file.span();
        match groups.last_mut() {
            Some(group) if first < end => group.push(file),
            _ => groups.push(vec![file]),
        }
        end = end.max(last);
    }
    groups
}

/// The rows in the order given, copied, so that nothing keeps what was decoded around them.
fn in_order(
    batches: &[RecordBatch],
    order: &[(u64, (usize, usize))],
) -> Result<Vec<RecordBatch>, Error> {
    let batches: Vec<&RecordBatch> = batches.iter().collect();
    let copied = order.chunks(BATCH_ROWS).map(|rows| {
        let places: Vec<_> = rows.iter().map(|(_, place)| *place).collect();
        interleave_record_batch(&batches, &places)
    });
    copied
        .collect::<Result<_, _>>()
        .map_err(|error| Error::Internal(format!("cannot put rows in order: {error}")))
}

/// The chosen rows of one file, in the order in which they stand there.
fn read(
    session: &Session,
    chosen: &Chosen<'_>,
    columns: &[DeclaredColumn],
) -> Result<Vec<RecordBatch>, Error> {
    let schema = columns::schema_of(columns);
    let file = chosen.file.open(session)?;
    let places = columns::places(&file, columns)?;
    let mut batches = Vec::new();
    let mut rest = chosen.rows.as_slice();
    for (row_group, rows) in row_groups(&file).enumerate() {
        let (here, further) = rest.split_at(rest.partition_point(|(row, _)| *row < rows.end));
        rest = further;
        if here.is_empty() {
            continue;
        }
        let selection = select(here, &rows);
        let reader = file.read_row_group(row_group, &places, Some(selection), BATCH_ROWS)?;
        for batch in reader.into_iter().flatten() {
            let batch = batch.map_err(|error| undecodable(&file, error))?;
            batches.push(columns::conform(file.path(), &batch, columns, &schema)?);
        }
    }
    let read: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if read != chosen.rows.len() {
        let path = file.path().display();
        let asked = chosen.rows.len();
        return Err(Error::Internal(format!("{path}: {asked} rows were asked for, {read} came")));
    }
    Ok(batches)
}

fn select(chosen: &[(u64, u64)], group: &Range<u64>) -> RowSelection {
    let within = |row: u64| usize::try_from(row - group.start).unwrap_or(usize::MAX);
    let runs = chosen.iter().map(|(row, _)| within(*row)..within(*row) + 1);
    RowSelection::from_consecutive_ranges(runs, within(group.end))
}
