//! Reads the rows of one text: which records are rows, which are rejected and why, which are none.
//! Where the rows go is the caller's to say.

use std::collections::BTreeMap;

use catalog::Dataset;
use catalog::ledger::RecordCounts;
use memchr::memchr_iter;
use stage::work::TaskError;

use crate::member::Text;
use crate::problem::Problem;
use crate::records::{Place, Record, Splitter, width};
use crate::rejects::Rejects;
use crate::table::Oddity;
use crate::width;

/// What ends the conversion of one file.
#[derive(Debug)]
pub(crate) enum End {
    Problem(Problem),
    Task(TaskError),
}

impl From<Problem> for End {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<TaskError> for End {
    fn from(error: TaskError) -> Self {
        Self::Task(error)
    }
}

/// Where rows go.
pub(crate) trait Sink {
    /// Takes a record of the right width, or says why it is rejected. `odd` is told of each field
    /// that did not become its value.
    fn append(
        &mut self,
        record: &[u8],
        odd: impl FnMut(&'static str, Oddity, &[u8]),
    ) -> Result<Option<&'static str>, TaskError>;
}

/// Reads a text that comes in pieces. Any text, cut anywhere, gives the same rows as in one piece.
#[derive(Debug)]
pub(crate) struct RowReader {
    dataset: Dataset,
    /// Text seen before the width is known.
    head: Vec<u8>,
    width: Option<usize>,
    splitter: Splitter,
    rejects: Rejects,
    seen: Seen,
}

/// Counts over a whole text.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    counts: RecordCounts,
    headers: u64,
    /// Line feeds, counted apart from the records that they end.
    line_feeds: u64,
    text_bytes: u64,
    ends_with_line_feed: bool,
    by_reason: BTreeMap<&'static str, u64>,
    oddities: BTreeMap<(&'static str, &'static str), u64>,
    unusual: BTreeMap<&'static str, u64>,
}

impl Seen {
    fn add_text(&mut self, piece: &[u8]) {
        self.line_feeds += memchr_iter(b'\n', piece).count() as u64;
        self.text_bytes += piece.len() as u64;
        if let Some(last) = piece.last() {
            self.ends_with_line_feed = *last == b'\n';
        }
    }

    /// Lines of the text, whether the last one is ended or not.
    fn lines(&self) -> u64 {
        self.line_feeds + u64::from(self.text_bytes > 0 && !self.ends_with_line_feed)
    }

    /// What became of the records. Their number is that of the lines; the others were counted one
    /// by one.
    pub(crate) fn record_counts(&self) -> RecordCounts {
        RecordCounts { records: self.lines().saturating_sub(self.headers), ..self.counts }
    }

    /// Whether the text has 0 bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.text_bytes == 0
    }

    /// How often anything was met that is worth knowing.
    pub(crate) fn tallies(&self) -> BTreeMap<String, u64> {
        let rejected =
            self.by_reason.iter().map(|(why, count)| (format!("rejected, {why}"), count));
        let odd = self.oddities.iter();
        let odd = odd.map(|((column, oddity), count)| (format!("{column}: {oddity}"), count));
        let unusual = self.unusual.iter().map(|(name, count)| ((*name).to_owned(), count));
        rejected.chain(odd).chain(unusual).map(|(name, count)| (name, *count)).collect()
    }
}

impl RowReader {
    /// A reader of the raw file `source`.
    pub(crate) fn new(dataset: Dataset, source: &str) -> Self {
        Self {
            dataset,
            head: Vec::new(),
            width: None,
            splitter: Splitter::new(),
            rejects: Rejects::new(source),
            seen: Seen::default(),
        }
    }

    /// Takes a text, or a piece of it.
    pub(crate) fn feed(&mut self, text: Text<'_>, sink: &mut impl Sink) -> Result<(), End> {
        let (Text::Whole(piece) | Text::Piece(piece)) = text;
        self.seen.add_text(piece);
        if self.width.is_some() {
            return self.split(piece, sink);
        }
        if self.head.is_empty() && self.decide_width(piece, matches!(text, Text::Whole(_)))? {
            return self.split(piece, sink);
        }
        self.head.extend_from_slice(piece);
        self.split_head(false, sink)
    }

    /// Takes the end of the text.
    pub(crate) fn finish(&mut self, sink: &mut impl Sink) -> Result<(), End> {
        self.split_head(true, sink)?;
        let splitter = std::mem::replace(&mut self.splitter, Splitter::new());
        splitter.finish(|place, record| self.record(place, record, sink))
    }

    /// Splits the text seen before the width was known, once it is.
    fn split_head(&mut self, is_complete: bool, sink: &mut impl Sink) -> Result<(), End> {
        let head = std::mem::take(&mut self.head);
        if self.width.is_some() || self.decide_width(&head, is_complete)? {
            return self.split(&head, sink);
        }
        self.head = head;
        Ok(())
    }

    /// What was met in all, with examples of what was rejected.
    pub(crate) fn into_seen(self) -> (Seen, Rejects) {
        (self.seen, self.rejects)
    }

    /// Refuses a file of which too many records were rejected. Blank lines are no records here: they
    /// would hide the others.
    pub(crate) fn check_share(&self, share: f64) -> Result<(), Problem> {
        let RecordCounts { rows, rejected, .. } = self.seen.counts;
        let records = rows + rejected;
        #[expect(clippy::cast_precision_loss, reason = "a share of a record count")]
        let is_above = rejected as f64 > records as f64 * share;
        if is_above {
            let example = self.rejects.first();
            return Err(Problem::TooManyRejects { rejected, records, share, example });
        }
        Ok(())
    }

    /// Tells the width by the beginning of the text, if that is long enough for it.
    fn decide_width(&mut self, head: &[u8], is_complete: bool) -> Result<bool, Problem> {
        if let Some(sample) = width::sample(head, is_complete) {
            self.width = Some(width::decide(self.dataset, sample)?);
        }
        Ok(self.width.is_some())
    }

    fn split(&mut self, piece: &[u8], sink: &mut impl Sink) -> Result<(), End> {
        let mut splitter = std::mem::replace(&mut self.splitter, Splitter::new());
        splitter.feed(piece, |place, record| self.record(place, record, sink))?;
        self.splitter = splitter;
        Ok(())
    }

    fn record(
        &mut self,
        place: Place,
        record: Record<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), End> {
        let record = match record {
            Record::Whole(record) => record,
            Record::TooLong(start) => {
                self.reject(place, "longer than 64 MiB", start);
                return Ok(());
            }
        };
        if record.is_empty() {
            self.seen.counts.blank += 1;
            return Ok(());
        }
        if place.line == 1 && self.is_header(record) {
            self.seen.headers += 1;
            return Ok(());
        }
        let expected = self.width.unwrap_or(0);
        let found = width(record);
        if found != expected {
            let few = found < expected;
            let reason = if few { "too few fields" } else { "too many fields" };
            self.reject(place, reason, record);
            return Ok(());
        }
        let Self { rejects, seen, .. } = self;
        let odd = |column, oddity: Oddity, raw: &[u8]| {
            *seen.oddities.entry((column, oddity.name())).or_default() += 1;
            rejects.add(place, Some(column), oddity.name(), raw);
        };
        match sink.append(record, odd)? {
            Some(reason) => self.reject(place, reason, record),
            None => self.seen.counts.rows += 1,
        }
        Ok(())
    }

    fn reject(&mut self, place: Place, reason: &'static str, record: &[u8]) {
        self.seen.counts.rejected += 1;
        *self.seen.by_reason.entry(reason).or_default() += 1;
        self.rejects.add(place, None, reason, record);
    }

    /// Whether the first line names columns. Where it does so in other words than GDELT's own files
    /// that is counted.
    fn is_header(&mut self, record: &[u8]) -> bool {
        let Some(expected) = self.dataset.header() else { return false };
        let names: Vec<&[u8]> = record.split(|byte| *byte == b'\t').collect();
        let is_same =
            |(name, expected): (&&[u8], &&str)| name.eq_ignore_ascii_case(expected.as_bytes());
        if !names.iter().zip(expected).take(1).all(is_same) {
            return false;
        }
        if names.len() != expected.len() || !names.iter().zip(expected).all(is_same) {
            *self.seen.unusual.entry("header with other names than expected").or_default() += 1;
        }
        true
    }
}
