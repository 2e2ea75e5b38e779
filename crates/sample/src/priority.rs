//! The random numbers: a row's priority is a hash of the seed and of its position in the archive.
//!
//! The n rows of least priority are a simple random sample of n rows. No stream of numbers is
//! drawn, so nothing depends on the order in which rows are met. `SplitMix64` is by Steele, Lea and
//! Flood (*Fast splittable pseudorandom number generators*, OOPSLA 2014).

/// The algorithm and its version, as noted in samples: a change of any drawn row is a new version.
pub const ALGORITHM: &str = "splitmix64-bottom-k/1";

/// What `SplitMix64` adds to its state at each step: 2^64 divided by the golden ratio, odd.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Gives the priorities of rows for one seed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Priorities {
    start: u64,
}

impl Priorities {
    /// For a seed. It is hashed, so that neighbouring seeds draw unrelated samples.
    pub(crate) fn new(seed: u64) -> Self {
        Self { start: splitmix64(seed) }
    }

    /// The priority of the row at a position. Different positions have different priorities.
    pub(crate) fn of(self, position: u64) -> u64 {
        splitmix64(self.start.wrapping_add(position.wrapping_mul(GAMMA)))
    }
}

/// The output of `SplitMix64` in a given state, a bijection.
fn splitmix64(state: u64) -> u64 {
    let mixed = state.wrapping_add(GAMMA);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_its_published_values() {
        let stream =
            (0..5_u64).map(|step| splitmix64(step.wrapping_mul(GAMMA).wrapping_add(1_234_567)));
        assert_eq!(
            stream.collect::<Vec<_>>(),
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn priorities_follow_the_stream_of_the_hashed_seed() {
        // The seed 0 gives the published first value of the state 0.
        let priorities = Priorities::new(0);
        assert_eq!(priorities.start, 0xE220_A839_7B1D_CDAF);
        assert_eq!(
            priorities.of(3),
            splitmix64(priorities.start.wrapping_add(GAMMA.wrapping_mul(3)))
        );
    }
}
