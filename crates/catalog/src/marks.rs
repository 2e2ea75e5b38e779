//! What is noted in the key-value metadata of the Parquet files that the stages make.
//!
//! Nothing that differs between machines or runs is noted: the same input and settings give the
//! same bytes.

use serde::{Deserialize, Serialize};

/// Version of the program that made the file.
pub const VERSION: &str = "gdelt-mill.version";
/// Stage that made the file.
pub const STAGE: &str = "gdelt-mill.stage";
/// Dataset, by its name in settings.
pub const DATASET: &str = "gdelt-mill.dataset";
/// Feed: `english` or `translation`.
pub const FEED: &str = "gdelt-mill.feed";
/// The files it was made of: a JSON list of [`SourceMark`] in the order of the rows.
pub const SOURCES: &str = "gdelt-mill.sources";
/// Rows of its sources, those that it does not have included.
pub const ROWS_READ: &str = "gdelt-mill.rows-read";
/// What the stage did, as JSON.
pub const STEPS: &str = "gdelt-mill.steps";
/// Digest of the settings that shaped the file.
pub const FINGERPRINT: &str = "gdelt-mill.fingerprint";
/// Where the data come from, as GDELT's terms ask.
pub const CITATION: &str = "gdelt-mill.citation";
/// The value of [`CITATION`].
pub const CITATION_TEXT: &str = "Data by the GDELT Project, https://www.gdeltproject.org/";

/// A file whose rows stand in an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceMark {
    /// File name, without its directory.
    pub name: String,
    /// Rows that it gave.
    pub rows: u64,
}
