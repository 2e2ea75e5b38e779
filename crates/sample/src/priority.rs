//! The random numbers: a row's priority is a hash of the seed, of its stratum and of its position in
//! the archive.
//!
//! The n rows of least priority are a simple random sample of n rows. No stream of numbers is
//! drawn, so nothing depends on the order in which rows are met. Draws with replacement are numbers
//! of a stream, one for each draw of a stratum. `SplitMix64` is by Steele, Lea and
//! Flood (*Fast splittable pseudorandom number generators*, OOPSLA 2014).

use crate::strata::Key;

/// The algorithm and its version, as noted in samples: a change of any drawn row is a new version.
pub const ALGORITHM: &str = "splitmix64-bottom-k/2";

/// What `SplitMix64` adds to its state at each step: 2^64 divided by the golden ratio, odd.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// What tells the stream of draws from that of priorities, which begins at the hashed seed.
const DRAWS: u64 = 0x6A09_E667_F3BC_C908;

/// Gives the priorities of rows for one seed, and one stratum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Priorities {
    start: u64,
}

impl Priorities {
    /// For a seed. It is hashed, so that neighbouring seeds draw unrelated samples.
    pub(crate) fn new(seed: u64) -> Self {
        Self { start: splitmix64(seed) }
    }

    /// For a stratum: by the FNV-1a hash of its key, where there is one.
    pub(crate) fn of_stratum(self, key: &Key) -> Self {
        let hash = match key {
            Key::None => return self,
            Key::Whole(number) => fnv1a(&number.to_le_bytes()),
            Key::Text(text) => fnv1a(text.as_bytes()),
        };
        Self { start: splitmix64(self.start ^ hash) }
    }

    /// Numbers below `bound`, each with the same probability: the upper half of a product, where
    /// products are drawn again that would favour some (D. Lemire, *Fast random integer generation
    /// in an interval*, 2019). `bound` is not 0.
    pub(crate) fn draws(self, bound: u64) -> impl Iterator<Item = u64> {
        let mut state = self.start ^ DRAWS;
        let favoured = bound.wrapping_neg() % bound.max(1);
        std::iter::repeat_with(move || {
            loop {
                let product = u128::from(splitmix64(state)) * u128::from(bound);
                state = state.wrapping_add(GAMMA);
                #[expect(clippy::cast_possible_truncation, reason = "the two halves are meant")]
                let (number, rest) = ((product >> 64) as u64, product as u64);
                if rest >= favoured {
                    return number;
                }
            }
        })
    }

    /// The priority of the row at a position. Different positions have different priorities.
    pub(crate) fn of(self, position: u64) -> u64 {
        splitmix64(self.start.wrapping_add(position.wrapping_mul(GAMMA)))
    }
}

/// The hash FNV-1a of 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, add)
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
    fn fnv1a_gives_its_published_values() {
        assert_eq!(fnv1a(b""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_F739_67E8);
    }

    #[test]
    fn draws_are_below_their_bound_and_each_number_is_as_frequent() {
        let draws = |bound, n| Priorities::new(7).draws(bound).take(n).collect::<Vec<_>>();
        assert_eq!(draws(1, 5), [0; 5]);
        let mut counts = [0_i64; 6];
        for number in draws(6, 60_000) {
            counts[usize::try_from(number).unwrap()] += 1;
        }
        // Chi-square with 5 degrees of freedom: 20.5 is passed once in a thousand.
        let chi: f64 = counts
            .iter()
            .map(|it| f64::from(i32::try_from((it - 10_000).pow(2)).unwrap()) / 1e4)
            .sum();
        assert!(chi < 20.5, "{counts:?}");
        assert_ne!(
            draws(1 << 40, 3),
            Priorities::new(8).draws(1 << 40).take(3).collect::<Vec<_>>()
        );
    }

    #[test]
    fn strata_have_priorities_of_their_own() {
        let seed = Priorities::new(1);
        let of = |key: Key| seed.of_stratum(&key).of(5);
        assert_eq!(of(Key::None), seed.of(5));
        let all = [seed.of(5), of(Key::Whole(5)), of(Key::Whole(6)), of(Key::Text("5".into()))];
        let distinct: std::collections::BTreeSet<_> = all.into_iter().collect();
        assert_eq!(distinct.len(), 4);
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
