//! The style sheet of the report.
//!
//! Plots take their colours from it, one set for light pages and one for dark ones. Wide tables
//! scroll in their own box, so that the page never does sideways.

/// The style sheet.
pub(crate) const STYLE: &str = include_str!("style.css");
