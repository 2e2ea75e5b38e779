//! Any bytes under the name of a zip.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| convert::fuzzing::zip(bytes));
