//! Whole-pipeline tests.
