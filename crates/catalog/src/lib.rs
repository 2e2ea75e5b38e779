//! What the GDELT archive is, and what has been done with it.
//!
//! | module | holds |
//! |---|---|
//! | [`Dataset`] | the seven datasets: cadence, header, keys, columns |
//! | [`Column`] | names and types of columns, as in GDELT's codebooks |
//! | [`Period`] | the time a file covers, and selection by date |
//! | [`FileName`] | the grammar of archive file names |
//! | [`ListedFile`] | the lines of GDELT's lists of its files |
//! | [`Layout`] | where files of a dataset stand |
//! | [`SourceNumber`] | a file's place in the archive, whatever the layout |
//! | [`absent`] | what GDELT never published |
//! | [`CodeTable`] | what the codes in columns mean |
//! | [`Coverage`] | which files are missing |
//! | [`marks`] | the keys of what is noted in Parquet files |
//! | [`ledger`] | the append-only record of finished work |
//!
//! This crate runs nothing and knows no stage. It reads the storage through `io-budget` only, and
//! only for the ledger.

pub mod absent;
mod codes;
mod coverage;
mod dataset;
mod layout;
pub mod ledger;
mod listed;
pub mod marks;
mod name;
mod period;
mod position;
mod schema;

pub use codes::{Code, CodeTable, UnknownCodes, label_column};
pub use coverage::{Coverage, Gap};
pub use dataset::{Dataset, Feed, FeedChoice, UnknownDataset};
pub use layout::{AggregatePeriod, Directory, Layout, UnknownPeriod};
pub use listed::ListedFile;
pub use name::{FileName, NameError, ParquetName};
pub use period::{DateRange, Period};
pub use position::SourceNumber;
pub use schema::{Column, ColumnType, DATE_ORIGINALS, EVENT_DATE};
