//! Slow shared storage, emulated: a FUSE file system that shows a directory behind a modelled
//! storage queue, and records what its clients did to that queue.
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | the queue in virtual time, for tests that mount nothing |
//! | [`engine`] | the queue in real time, and the simulated other users |
//! | [`fs`] | the file system |
//! | [`fault`] | errors and stalls put in the place of chosen requests |
//! | [`operation`] | names of the requests |
//! | [`stats`] | a CSV row a second, a line per request |
//! | [`mounted`] | starts the `slowfs` binary from a test and cleans up after it |
//!
//! Command line and signals are the binary's business.

#![expect(clippy::disallowed_types, reason = "emulates storage; reads no archive")]

mod attributes;
mod backing;
mod delay;
pub mod engine;
pub mod fault;
pub mod fs;
pub mod model;
pub mod mounted;
pub mod operation;
pub mod stats;
