//! The number of fields that a file's records have.

use std::collections::BTreeMap;

use catalog::Dataset;
use memchr::{memchr, memchr_iter, memrchr};

use crate::problem::Problem;
use crate::records::{MAX_RECORD_BYTES, width};

/// Bytes in which the records looked at have to end, unless not even one does: hardly a file has more.
const BYTES: usize = 16 << 20;

/// The part of a text by which its width is told: the records that end in its first 16 MiB; the
/// first record alone if it is longer. `None` if more text is needed. It depends on the text only,
/// never on how it came in pieces.
pub(crate) fn sample(text: &[u8], is_complete: bool) -> Option<&[u8]> {
    if text.len() < BYTES {
        return is_complete.then_some(text);
    }
    if let Some(last) = memrchr(b'\n', &text[..BYTES]) {
        return Some(&text[..=last]);
    }
    let first = memchr(b'\n', &text[..text.len().min(MAX_RECORD_BYTES)]);
    match first {
        Some(end) => Some(&text[..=end]),
        None if text.len() > MAX_RECORD_BYTES => Some(&[]),
        None => is_complete.then_some(text),
    }
}

/// The number of fields that most records of a sample have; it has to be one of the dataset's.
pub(crate) fn decide(dataset: Dataset, sample: &[u8]) -> Result<usize, Problem> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let mut start = 0;
    for end in memchr_iter(b'\n', sample).chain([sample.len()]) {
        if end > start {
            *counts.entry(width(&sample[start..end])).or_default() += 1;
        }
        start = end + 1;
    }
    let Some((&found, _)) = counts.iter().max_by_key(|(width, count)| (**count, **width)) else {
        return Ok(dataset.columns().len());
    };
    if dataset.widths().contains(&found) {
        return Ok(found);
    }
    let others: Vec<_> = Dataset::ALL
        .into_iter()
        .filter(|other| other.widths().contains(&found))
        .map(Dataset::name)
        .collect();
    let expected: Vec<_> = dataset.widths().iter().map(ToString::to_string).collect();
    Err(Problem::Width {
        found,
        dataset,
        expected: expected.join(" or "),
        belongs_to: (!others.is_empty()).then(|| others.join(" or ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_records_tell_the_width() {
        let wide = "\t".repeat(60) + "\n";
        let text = format!("{wide}{wide}garbage\n");
        assert_eq!(decide(Dataset::Events15Min, text.as_bytes()).unwrap(), 61);
        let problem = decide(Dataset::Events, text.as_bytes()).unwrap_err().to_string();
        assert!(problem.contains("this is the width of events-15min"), "{problem}");
        assert_eq!(decide(Dataset::Mentions, b"\n\n").unwrap(), 16);
    }

    #[test]
    fn a_sample_depends_on_the_text_only() {
        let short = b"a\tb\n".repeat(100);
        assert_eq!(sample(&short, false), None);
        assert_eq!(sample(&short[..399], true), Some(&short[..399]));
        let many = b"a\tbc\n".repeat(BYTES / 5 + 2);
        assert_eq!(sample(&many, false), Some(&many[..BYTES / 5 * 5]));
        let mut long = vec![b'x'; BYTES + 10];
        assert_eq!(sample(&long, false), None);
        assert_eq!(sample(&long, true).map(<[u8]>::len), Some(BYTES + 10));
        long.push(b'\n');
        long.extend_from_slice(b"rest");
        assert_eq!(sample(&long, false).map(<[u8]>::len), Some(BYTES + 11));
        long[5] = b'\n';
        assert_eq!(sample(&long, true).map(<[u8]>::len), Some(6));
        let endless = vec![b'x'; MAX_RECORD_BYTES + 1];
        assert_eq!(sample(&endless, false), Some(&[][..]));
    }
}
