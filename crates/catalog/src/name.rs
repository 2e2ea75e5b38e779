//! The grammar of archive file names, in any letter case.
//!
//! ```text
//! 1979.zip                              events, a year to 2005
//! 200601.zip                            events, a month from 2006 to March 2013
//! 20130401.export.CSV.zip               events, a day
//! 20150218230000.export.CSV.zip         events-15min
//! 20150218224500.translation.gkg.csv.zip
//! 20130401.gkg.csv.zip                  gkg-v1
//! 20130401.gkgcounts.csv.zip            gkg-v1-counts
//! GDELT.MASTERREDUCEDV2.1979-2013.zip   events-reduced
//! ```
//!
//! The same without `.zip` is a bare text file. Parquet made of them is named after them:
//! `20150218230000.export.parquet`, cleaned `20150218230000.export_cleaned.parquet`.

use std::fmt;

use crate::{Dataset, Feed, Period};

const REDUCED: &str = "GDELT.MASTERREDUCEDV2.";
const TRANSLATION: &str = "translation.";
const CLEANED: &str = "_cleaned";

/// What a raw file's name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileName {
    /// The time it covers.
    pub period: Period,
    /// The feed it belongs to.
    pub feed: Feed,
    /// The dataset it belongs to.
    pub dataset: Dataset,
}

/// A name that is not a raw archive file's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not named like a file of the GDELT archive, as in 20150218230000.export.CSV.zip")]
pub struct NameError(String);

impl FileName {
    /// Reads the name of a raw file, zipped or not.
    ///
    /// # Errors
    ///
    /// [`NameError`] when the name follows no pattern of the archive.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        let zipped = strip_suffix_ignoring_case(name, ".zip");
        let plain = zipped.unwrap_or(name);
        let without_csv = strip_suffix_ignoring_case(plain, ".csv");
        // The member of the reduced file ends with `.TXT`.
        let without_txt = || {
            let stem = strip_suffix_ignoring_case(plain, ".txt")?;
            strip_prefix_ignoring_case(stem, REDUCED).map(|_| stem)
        };
        // `1979` alone would be a bare file without any extension.
        let stem = without_csv.or_else(without_txt).or(zipped);
        stem.and_then(Self::parse_stem).ok_or_else(|| NameError(name.to_owned()))
    }

    /// Reads a name without its extensions: what [`Self::stem`] returns, in any letter case.
    pub fn parse_stem(stem: &str) -> Option<Self> {
        if let Some(years) = strip_prefix_ignoring_case(stem, REDUCED) {
            let period = Period::parse(years)?;
            let Period::Years(..) = period else {
                return None;
            };
            return Some(Self { period, feed: Feed::English, dataset: Dataset::EventsReduced });
        }
        let (digits, kind) = stem.split_once('.').unwrap_or((stem, ""));
        let period = Period::parse(digits)?;
        let translated = strip_prefix_ignoring_case(kind, TRANSLATION);
        let feed = if translated.is_some() { Feed::Translation } else { Feed::English };
        let kind = translated.unwrap_or(kind).to_ascii_lowercase();
        let dataset = match (period, kind.as_str(), feed) {
            (Period::Year(_) | Period::Month(_), "", Feed::English)
            | (Period::Day(_), "export", Feed::English)
                if period.is_of_events() =>
            {
                Dataset::Events
            }
            (Period::Day(_), "gkg", Feed::English) => Dataset::GkgV1,
            (Period::Day(_), "gkgcounts", Feed::English) => Dataset::GkgV1Counts,
            (Period::Slot(_), "export", _) => Dataset::Events15Min,
            (Period::Slot(_), "gkg", _) => Dataset::GkgV2,
            (Period::Slot(_), "mentions", _) => Dataset::Mentions,
            _ => return None,
        };
        Some(Self { period, feed, dataset })
    }

    /// The name without extensions, in one spelling: files made of this one are named after it.
    pub fn stem(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { period, feed, dataset } = self;
        if *dataset == Dataset::EventsReduced {
            return write!(formatter, "{REDUCED}{period}");
        }
        write!(formatter, "{period}")?;
        if *feed == Feed::Translation {
            write!(formatter, ".translation")?;
        }
        match (period, dataset.name_part()) {
            (Period::Year(_) | Period::Month(_), _) | (_, None) => Ok(()),
            (_, Some(part)) => write!(formatter, ".{part}"),
        }
    }
}

/// The name of a Parquet file of a dataset: converted, cleaned, or of a longer period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParquetName {
    /// The time it covers.
    pub period: Period,
    /// The feed it belongs to.
    pub feed: Feed,
    /// Whether it is a cleaned file.
    pub cleaned: bool,
    /// The dataset it belongs to, which is known from the directory it stands in.
    pub dataset: Dataset,
}

impl ParquetName {
    /// Reads the name of a Parquet file that stands in a directory of `dataset`.
    pub fn parse(dataset: Dataset, name: &str) -> Option<Self> {
        let stem = name.strip_suffix(".parquet")?;
        let uncleaned = stem.strip_suffix(CLEANED);
        let (cleaned, stem) = (uncleaned.is_some(), uncleaned.unwrap_or(stem));
        let raw =
            if dataset == Dataset::EventsReduced { stem.strip_prefix(REDUCED)? } else { stem };
        let (digits, kind) = raw.split_once('.').unwrap_or((raw, ""));
        let period = Period::parse(digits)?;
        let translated = kind.strip_prefix(TRANSLATION);
        let feed = if translated.is_some() { Feed::Translation } else { Feed::English };
        let name = Self { period, feed, cleaned, dataset };
        (translated.unwrap_or(kind) == name.kind()).then_some(name)
    }

    /// The word between time and extension, empty for yearly and monthly events as published.
    fn kind(&self) -> &'static str {
        match (self.dataset, self.period) {
            (Dataset::Events, Period::Year(_) | Period::Month(_)) => "",
            (dataset, _) => dataset.name_part().unwrap_or(""),
        }
    }
}

impl From<FileName> for ParquetName {
    fn from(name: FileName) -> Self {
        let FileName { period, feed, dataset } = name;
        Self { period, feed, cleaned: false, dataset }
    }
}

impl fmt::Display for ParquetName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dataset == Dataset::EventsReduced {
            formatter.write_str(REDUCED)?;
        }
        write!(formatter, "{}", self.period)?;
        if self.feed == Feed::Translation {
            formatter.write_str(".translation")?;
        }
        if !self.kind().is_empty() {
            write!(formatter, ".{}", self.kind())?;
        }
        if self.cleaned {
            formatter.write_str(CLEANED)?;
        }
        formatter.write_str(".parquet")
    }
}

fn strip_suffix_ignoring_case<'a>(text: &'a str, suffix: &str) -> Option<&'a str> {
    let at = text.len().checked_sub(suffix.len())?;
    text.get(at..)?.eq_ignore_ascii_case(suffix).then(|| &text[..at])
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.get(..prefix.len())?.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_archive_are_understood() {
        let english = Feed::English;
        for (name, dataset, feed, stem) in [
            ("1979.zip", Dataset::Events, english, "1979"),
            ("200601.zip", Dataset::Events, english, "200601"),
            ("200601.CSV", Dataset::Events, english, "200601"),
            ("20130401.export.CSV.zip", Dataset::Events, english, "20130401.export"),
            ("20130401.EXPORT.csv.ZIP", Dataset::Events, english, "20130401.export"),
            ("20150218230000.export.CSV", Dataset::Events15Min, english, "20150218230000.export"),
            ("20130401.gkg.csv.zip", Dataset::GkgV1, english, "20130401.gkg"),
            ("20130401.gkgcounts.csv.zip", Dataset::GkgV1Counts, english, "20130401.gkgcounts"),
            ("20150218230000.gkg.csv.zip", Dataset::GkgV2, english, "20150218230000.gkg"),
            (
                "20150218224500.translation.gkg.csv.zip",
                Dataset::GkgV2,
                Feed::Translation,
                "20150218224500.translation.gkg",
            ),
            (
                "20150218224500.translation.mentions.CSV.zip",
                Dataset::Mentions,
                Feed::Translation,
                "20150218224500.translation.mentions",
            ),
            (
                "GDELT.MASTERREDUCEDV2.1979-2013.zip",
                Dataset::EventsReduced,
                english,
                "GDELT.MASTERREDUCEDV2.1979-2013",
            ),
            (
                "gdelt.masterreducedv2.1979-2013.TXT",
                Dataset::EventsReduced,
                english,
                "GDELT.MASTERREDUCEDV2.1979-2013",
            ),
        ] {
            let parsed = FileName::parse(name).expect(name);
            assert_eq!((parsed.dataset, parsed.feed, parsed.stem()), (dataset, feed, stem.into()));
            let parquet = ParquetName::from(parsed);
            assert_eq!(parquet.to_string(), format!("{stem}.parquet"));
            assert_eq!(ParquetName::parse(dataset, &parquet.to_string()), Some(parquet));
            let cleaned = ParquetName { cleaned: true, ..parquet };
            assert_eq!(cleaned.to_string(), format!("{stem}_cleaned.parquet"));
            assert_eq!(ParquetName::parse(dataset, &cleaned.to_string()), Some(cleaned));
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "1979",
            "masterfilelist.txt",
            "20130401.zip",
            "2020.csv",
            "2006.zip",
            "201304.zip",
            "20130401.export.CSV.zip.part",
            "20130401.translation.export.CSV.zip",
            "20130401.mentions.CSV.zip",
            ".20130401.export.CSV.zip",
            "20139901.export.CSV.zip",
            "../20130401.export.CSV.zip",
            "GDELT.MASTERREDUCEDV2.1979.zip",
            "20130401.export.txt",
            "é.zip",
        ] {
            assert!(FileName::parse(name).is_err(), "{name}");
        }
    }

    #[test]
    fn parquet_of_longer_periods_keeps_dataset_and_feed() {
        for (dataset, name) in [
            (Dataset::GkgV2, "20150218.gkg.parquet"),
            (Dataset::GkgV2, "201502.translation.gkg.parquet"),
            (Dataset::Events15Min, "2015.export_cleaned.parquet"),
        ] {
            let parsed = ParquetName::parse(dataset, name).expect(name);
            assert_eq!(parsed.to_string(), name);
        }
        assert_eq!(ParquetName::parse(Dataset::GkgV2, "20150218.mentions.parquet"), None);
        assert_eq!(ParquetName::parse(Dataset::GkgV2, "20150218.gkg.parquet.tmp"), None);
    }
}
