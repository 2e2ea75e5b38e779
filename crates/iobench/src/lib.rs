//! A storage benchmark for those who set a budget's numbers: how a storage answers to parallel
//! requests, how a stage does under a grid of settings, and whether a budget holds on a mount.
//!
//! | module | holds |
//! |---|---|
//! | `cli` | the command line |
//! | `bench` | the care before, during and after each run, the same for all measurements |
//! | `raw`, `stages`, `check` | what is measured: readers and writers, a stage, readers under a budget |
//! | `supply`, `complete`, `page_cache` | inputs: untouched, whole, cold |
//! | `watch`, `timeline` | a run second by second, the cap and the rule that ends it |
//! | `threads`, `meter`, `idle`, `process`, `direct` | work side by side, requests in flight, single reads, another process, files past the page cache |
//! | `scratch` | a directory for outputs |
//! | [`record`], `results` | a run as it is kept, and where |
//! | `statistics`, `cells`, `grid`, `shown` | repeats of a setting together |
//! | `table`, `report` | the results as text and as a page with plots |
//! | `recommend` | settings from results |
//!
//! It measures storage as such, so that it does not go through the budget, save where the budget is
//! what is measured.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "measures the storage itself: a budget would be what is measured"
)]

mod bench;
mod cells;
mod check;
mod cli;
mod complete;
mod direct;
mod grid;
mod idle;
mod meter;
mod page_cache;
mod process;
mod raw;
mod recommend;
pub mod record;
mod report;
mod results;
mod run;
mod scratch;
mod shown;
mod stages;
mod statistics;
mod supply;
mod table;
#[cfg(test)]
mod testing;
mod threads;
mod timeline;
mod watch;

pub use cli::Cli;
pub use run::run;
