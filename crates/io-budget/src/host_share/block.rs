//! 64 bytes that tell whether they are whole: a version, six words and a checksum.
//!
//! A block is written and read with one call each, but neither is atomic: a reader may see the
//! front of one block and the back of another. The checksum finds that out. It is no protection
//! against forgery.

/// The length of a block in bytes: a cache line.
pub(crate) const BLOCK_BYTES: usize = 64;

/// Changes with the meaning of the words of any block, so that programs of different versions do
/// not misread each other.
const VERSION: u64 = 0x6764_6c74_696f_0001;

/// Packs six words into a block.
pub(crate) fn seal(words: [u64; 6]) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; BLOCK_BYTES];
    let whole = [VERSION].into_iter().chain(words).chain([checksum(words)]);
    for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(whole) {
        *place = word.to_le_bytes();
    }
    bytes
}

/// The six words of a block; none if it is torn, foreign or was never written.
pub(crate) fn open(bytes: &[u8; BLOCK_BYTES]) -> Option<[u64; 6]> {
    let mut words = [0; 8];
    for (word, place) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*place);
    }
    let [version, words @ .., sum] = words;
    (version == VERSION && sum == checksum(words)).then_some(words)
}

/// FNV-1a over words. Each step is one to one, so a change in a single word never goes unseen.
fn checksum(words: [u64; 6]) -> u64 {
    words.into_iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| {
        let mixed = (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        // Products carry upwards only: bring the high bits down for the next word.
        mixed ^ (mixed >> 32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_written_is_no_block() {
        assert_eq!(open(&[0; BLOCK_BYTES]), None);
    }

    #[test]
    fn another_version_is_no_block() {
        let mut bytes = seal([1, 2, 3, 4, 5, 6]);
        bytes[0] += 1;
        assert_eq!(open(&bytes), None);
    }

    proptest! {
        #[test]
        fn a_block_is_read_back(words: [u64; 6]) {
            prop_assert_eq!(open(&seal(words)), Some(words));
        }

        #[test]
        fn a_block_with_one_wrong_byte_is_refused(
            words: [u64; 6], place in 0..BLOCK_BYTES, change in 1..=u8::MAX,
        ) {
            let mut bytes = seal(words);
            bytes[place] ^= change;
            prop_assert_eq!(open(&bytes), None);
        }

        #[test]
        fn a_block_torn_between_two_is_refused(
            front: [u64; 6], back: [u64; 6], at in 2..7_usize,
        ) {
            let mut torn = seal(front);
            torn[at * 8..].copy_from_slice(&seal(back)[at * 8..]);
            prop_assume!(torn != seal(front) && torn != seal(back));
            prop_assert_eq!(open(&torn), None);
        }
    }
}
