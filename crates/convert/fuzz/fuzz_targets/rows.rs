//! Any text of any dataset, cut anywhere.
#![no_main]

use catalog::Dataset;
use libfuzzer_sys::fuzz_target;

// The first byte chooses the dataset, the next two where the text is cut: seeds are easily made.
fuzz_target!(|data: &[u8]| {
    let [dataset, first, second, text @ ..] = data else { return };
    let dataset = Dataset::ALL[usize::from(*dataset) % Dataset::ALL.len()];
    let cut = |byte: &u8| text.len() * usize::from(*byte) / 256;
    convert::fuzzing::rows(dataset, text, &[cut(first), cut(second)]);
});
