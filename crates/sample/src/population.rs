//! All rows that may be drawn: which files hold them, and the position of each row in the archive.

use std::ops::Range;
use std::path::{Path, PathBuf};

use catalog::marks::{self, SourceMark};
use catalog::{Dataset, Directory, Layout, ParquetName, Period, SourceNumber};
use io_budget::Stat;
use io_budget::parquet::{ParquetFile, Want};
use stage::files::{DataFile, DataSource, check_dataset};
use stage::{Error, Session, pool};

/// All rows that may be drawn.
#[derive(Debug)]
pub(crate) struct Population {
    /// The files, in order of time.
    pub(crate) files: Vec<PopulationFile>,
    /// Rows that may be drawn.
    pub(crate) rows: u64,
    /// Every stretch with the number of its file, in order of position.
    stretches: Vec<(Stretch, usize)>,
}

/// The file of a 15-minute slot, day, month or year that rows come from, as conversion or cleaning
/// made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowSource {
    /// Its name.
    pub(crate) name: ParquetName,
    /// Its rows.
    pub(crate) rows: u64,
}

/// A file of the population.
#[derive(Debug)]
pub(crate) struct PopulationFile {
    /// Path to open.
    pub(crate) path: PathBuf,
    dataset: Dataset,
    /// Whether it is a cleaned file or made of such: its columns may differ from the codebook's.
    pub(crate) cleaned: bool,
    /// Its rows that may be drawn, in order.
    stretches: Vec<Stretch>,
    /// All its rows.
    pub(crate) rows: u64,
    pub(crate) stat: Stat,
    footer_start: Option<u64>,
}

/// Rows of one source, which follow one another in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    source: ParquetName,
    /// Position of the first row in the archive; the others follow.
    first_position: u64,
    /// The first row in the file.
    first_row: u64,
    rows: u64,
}

impl Stretch {
    fn file_rows(&self) -> Range<u64> {
        self.first_row..self.first_row + self.rows
    }
}

impl Population {
    /// Finds the files that the session asks for. Files that the ledger knows are not opened.
    ///
    /// # Errors
    ///
    /// [`Error::NoInput`] when there are none, [`Error::Parquet`] when one cannot be read, and
    /// [`Error::Input`] when it is not known where a file's rows come from: a sample without them
    /// would be biased.
    pub(crate) fn find(
        session: &Session,
        layout: &Layout,
        dataset: Dataset,
        source: DataSource,
    ) -> Result<Self, Error> {
        let listed = source.list(session, layout, dataset)?;
        let mut files = Vec::with_capacity(listed.len());
        let examine = |file| examine(session, dataset, source, file);
        let jobs = session.waiting_jobs(listed.first().map(|file| file.path.as_path()));
        pool::map_ordered(jobs, listed, examine, |file: Result<_, Error>| {
            session.interrupt.check()?;
            files.push(file?);
            Ok::<_, Error>(())
        })?;
        Self::of(files)
    }

    fn of(files: Vec<PopulationFile>) -> Result<Self, Error> {
        let mut stretches: Vec<(Stretch, usize)> = (files.iter().enumerate())
            .flat_map(|(number, file)| file.stretches.iter().map(move |stretch| (*stretch, number)))
            .collect();
        stretches.sort_unstable_by_key(|(stretch, _)| stretch.first_position);
        for pair in stretches.windows(2) {
            let [(one, first), (other, second)] = pair else { continue };
            if one.first_position == other.first_position {
                let (first, second) = (files[*first].path.display(), files[*second].path.display());
                return Err(Error::input(
                    format!("rows of one source stand twice, in {first} and in {second}"),
                    "remove one of the two files: its rows would be drawn twice as often",
                ));
            }
        }
        let rows = stretches.iter().map(|(stretch, _)| stretch.rows).sum();
        Ok(Self { files, rows, stretches })
    }

    /// The positions of all rows, in order.
    pub(crate) fn positions(&self) -> impl Iterator<Item = u64> {
        let positions =
            |stretch: &Stretch| stretch.first_position..stretch.first_position + stretch.rows;
        self.stretches.iter().flat_map(move |(stretch, _)| positions(stretch))
    }

    /// The files that the rows come from.
    pub(crate) fn sources(&self) -> impl Iterator<Item = RowSource> {
        let source = |stretch: &Stretch| RowSource { name: stretch.source, rows: stretch.rows };
        self.stretches.iter().map(move |(stretch, _)| source(stretch))
    }

    /// The file that the row at a position comes from, and the row in it.
    pub(crate) fn origin(&self, position: u64) -> Option<(ParquetName, u64)> {
        let stretch = self.stretch_of(position)?;
        Some((stretch.0.source, position - stretch.0.first_position))
    }

    fn stretch_of(&self, position: u64) -> Option<&(Stretch, usize)> {
        let after = self.stretches.partition_point(|(s, _)| s.first_position <= position);
        let found = self.stretches.get(after.checked_sub(1)?)?;
        (position - found.0.first_position < found.0.rows).then_some(found)
    }

    /// The file and the row in it that stand at a position.
    pub(crate) fn place(&self, position: u64) -> Option<(usize, u64)> {
        let (stretch, file) = self.stretch_of(position)?;
        Some((*file, stretch.first_row + (position - stretch.first_position)))
    }
}

impl PopulationFile {
    /// Opens the file, for a part of its columns or rows.
    ///
    /// # Errors
    ///
    /// [`Error::Parquet`] when it cannot be read, [`Error::Input`] when it is another one by now.
    pub(crate) fn open(&self, session: &Session) -> Result<ParquetFile, Error> {
        let want = Want::Parts { footer_start: self.footer_start };
        let file = open(session, self.dataset, &self.path, want)?;
        let stat = |stat: Stat| (stat.size, stat.modified_ns);
        if stat(file.stat()) != stat(self.stat) || file.rows() != self.rows {
            return Err(Error::input(
                format!("{} was replaced while it was sampled", self.path.display()),
                "run the same command again",
            ));
        }
        Ok(file)
    }

    /// Whether one of these rows of the file may be drawn.
    pub(crate) fn may_draw(&self, rows: &Range<u64>) -> bool {
        let overlaps = |stretch: &Stretch| {
            stretch.file_rows().start < rows.end && rows.start < stretch.file_rows().end
        };
        self.stretches.iter().any(overlaps)
    }

    /// The position of each of these rows of the file; `None` for those that may not be drawn.
    pub(crate) fn positions(&self, rows: Range<u64>) -> Vec<Option<u64>> {
        let mut stretches = self.stretches.iter().peekable();
        rows.map(|row| {
            while stretches.next_if(|stretch| stretch.file_rows().end <= row).is_some() {}
            let stretch = stretches.peek().filter(|stretch| stretch.file_rows().contains(&row))?;
            Some(stretch.first_position + (row - stretch.first_row))
        })
        .collect()
    }
}

fn examine(
    session: &Session,
    dataset: Dataset,
    source: DataSource,
    file: DataFile,
) -> Result<PopulationFile, Error> {
    let aggregated = matches!(source.directory, Directory::Aggregated(_));
    let named = |rows| vec![SourceMark { name: file.name.to_string(), rows }];
    let (rows, sources, footer_start) = match &file.record {
        Some(record) if !aggregated => (record.rows, named(record.rows), Some(record.footer_start)),
        Some(record) if !record.sources.is_empty() => {
            let mark = |source: &catalog::ledger::Source| SourceMark {
                name: source.name.clone(),
                rows: source.rows,
            };
            let sources = record.sources.iter().map(mark).collect();
            (record.rows, sources, Some(record.footer_start))
        }
        _ => {
            let want = Want::Parts { footer_start: None };
            let opened = open(session, dataset, &file.path, want)?;
            let sources = if aggregated { noted_sources(&opened)? } else { named(opened.rows()) };
            let footer_start = io_budget::parquet::footer_start(opened.metadata());
            (opened.rows(), sources, Some(footer_start))
        }
    };
    let stretches = stretches(session, dataset, &file, rows, &sources)?;
    let is_cleaned = |source: &SourceMark| {
        ParquetName::parse(dataset, &source.name).is_some_and(|name| name.cleaned)
    };
    let cleaned = sources.iter().any(is_cleaned);
    let DataFile { path, stat, .. } = file;
    Ok(PopulationFile { path, dataset, cleaned, stretches, rows, stat, footer_start })
}

fn open(
    session: &Session,
    dataset: Dataset,
    path: &Path,
    want: Want,
) -> Result<ParquetFile, Error> {
    let file = ParquetFile::open(&session.budget, path, want)?;
    check_dataset(&file, dataset).map_err(|problem| {
        let message = format!("{}: {problem}", path.display());
        Error::input(message, "move the file to the directory of its dataset")
    })?;
    Ok(file)
}

/// The sources that an aggregated file itself names.
fn noted_sources(file: &ParquetFile) -> Result<Vec<SourceMark>, Error> {
    let unknown = |problem: String| {
        Error::input(
            format!("{} {problem}: the position of its rows is unknown", file.path().display()),
            "make it again with gdelt-aggregate, or choose another --source",
        )
    };
    let note = file.key_value(marks::SOURCES);
    let note = note.ok_or_else(|| unknown(format!("has no note {}", marks::SOURCES)))?;
    serde_json::from_str(note)
        .map_err(|error| unknown(format!("has a damaged note {}: {error}", marks::SOURCES)))
}

/// The stretches of a file whose sources are of the dates asked for.
fn stretches(
    session: &Session,
    dataset: Dataset,
    file: &DataFile,
    rows: u64,
    sources: &[SourceMark],
) -> Result<Vec<Stretch>, Error> {
    let failed = |problem: String| {
        Error::input(
            format!("{}: {problem}", file.path.display()),
            "make the file again, or choose another --source",
        )
    };
    let mut stretches = Vec::with_capacity(sources.len());
    let mut first_row: u64 = 0;
    for source in sources {
        let name = ParquetName::parse(dataset, &source.name).filter(is_source);
        let position = name.and_then(|name| Some((name, SourceNumber::of(&name)?.position(0))));
        let Some((name, first_position)) = position else {
            return Err(failed(format!("`{}` has no place in the archive", source.name)));
        };
        if u32::try_from(source.rows).is_err() {
            return Err(failed(format!("{} rows are too many for one source", source.rows)));
        }
        if session.range.overlaps(name.period) && source.rows > 0 {
            let rows = source.rows;
            stretches.push(Stretch { source: name, first_position, first_row, rows });
        }
        first_row = first_row.saturating_add(source.rows);
    }
    if first_row != rows {
        return Err(failed(format!("its sources have {first_row} rows, it has {rows}")));
    }
    Ok(stretches)
}

/// Whether files of this name are made of one raw file. A day's file of a 15-minute dataset is
/// not, and has no rows of its own.
fn is_source(name: &ParquetName) -> bool {
    !name.dataset.is_quarter_hourly() || matches!(name.period, Period::Slot(_))
}
