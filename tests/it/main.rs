//! Whole-pipeline tests over the real binaries and real GDELT excerpts.
//!
//! | module | shows |
//! |---|---|
//! | `chain` | the bundled archive gives the known numbers, through all stages |
//! | `clean` | what cleaning says of its runs, damaged Parquet, deleted sources |
//! | `convert` | rows that broke other tools, damaged zips, exit codes, messages |
//! | `cases` | kinds of zips, statuses, rejects, settings, deletion of sources |
//! | `again` | a second run does nothing; killed runs end with the same bytes; dry runs |
//! | `iobench` | the storage benchmark on emulated devices: what it refuses, ends, keeps and leaves |
//! | `named` | files named on the command line, and Make |
//! | `settings` | settings from files and environment, wrong ones named |
//! | `storage` | limits on requests, as slow storage sees them; storage that fails, stalls or changes |

#![expect(clippy::unwrap_used, reason = "a value that is missing fails the test")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests prepare and look at archives from outside, as users do"
)]

mod again;
mod cases;
mod chain;
mod clean;
mod convert;
mod iobench;
mod named;
mod settings;
mod storage;
