//! Files that GDELT never published, or published with a member of 0 bytes: the holes of the
//! archive that are nobody's fault here.
//!
//! Source: an audit of GDELT's own file lists, published in the documentation of the tool `gdeltforge`. It
//! covers English files through [`audited_through`]; `events-15min`, GKG 1.0 and the translated
//! feed have not been audited.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use chrono::NaiveDate;
use serde::Deserialize;

use crate::{Dataset, Feed, Period};

/// Why a file of the archive is not there, or holds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// GDELT never published it.
    NeverPublished,
    /// GDELT published a zip whose only member has 0 bytes.
    PublishedEmpty,
}

#[derive(Deserialize)]
struct Audit {
    audited_through: Period,
    #[serde(flatten)]
    datasets: BTreeMap<Dataset, Absent>,
}

#[derive(Deserialize)]
struct Absent {
    #[serde(default)]
    never_published: HashSet<Period>,
    #[serde(default)]
    published_empty: HashSet<Period>,
}

static AUDIT: LazyLock<Audit> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/known-absent.json"))
        .expect("the list is part of the program and is read in its tests")
});

/// The last day that the audit covers.
pub fn audited_through() -> NaiveDate {
    AUDIT.audited_through.last_day()
}

/// Whether the absent files of a dataset and feed are known.
pub fn is_audited(dataset: Dataset, feed: Feed) -> bool {
    feed == Feed::English && AUDIT.datasets.contains_key(&dataset)
}

/// What is known of a period for which there is no file, or one without content.
pub fn known_absence(dataset: Dataset, feed: Feed, period: Period) -> Option<Absence> {
    if feed != Feed::English {
        return None;
    }
    let absent = AUDIT.datasets.get(&dataset)?;
    if absent.never_published.contains(&period) {
        Some(Absence::NeverPublished)
    } else if absent.published_empty.contains(&period) {
        Some(Absence::PublishedEmpty)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(dataset: Dataset, digits: &str) -> Option<Absence> {
        known_absence(dataset, Feed::English, Period::parse(digits).expect(digits))
    }

    #[test]
    fn the_audit_is_read_whole() {
        assert_eq!(audited_through(), NaiveDate::from_ymd_opt(2025, 12, 31).unwrap());
        let counts: Vec<_> = AUDIT
            .datasets
            .iter()
            .map(|(dataset, absent)| {
                (*dataset, absent.never_published.len(), absent.published_empty.len())
            })
            .collect();
        let expected =
            [(Dataset::Events, 6, 0), (Dataset::GkgV2, 127, 11), (Dataset::Mentions, 94, 86)];
        assert_eq!(counts, expected);
    }

    #[test]
    fn a_period_is_known_by_dataset_and_feed() {
        use Absence::{NeverPublished, PublishedEmpty};
        assert_eq!(known(Dataset::Events, "20140124"), Some(NeverPublished));
        assert_eq!(known(Dataset::Events, "20140122"), None);
        assert_eq!(known(Dataset::GkgV2, "20150529033000"), Some(NeverPublished));
        assert_eq!(known(Dataset::Mentions, "20150529033000"), None);
        assert_eq!(known(Dataset::Mentions, "20160516140000"), Some(PublishedEmpty));
        let slot = Period::parse("20160516140000").unwrap();
        assert_eq!(known_absence(Dataset::Mentions, Feed::Translation, slot), None);
        assert!(!is_audited(Dataset::Events15Min, Feed::English));
    }
}
