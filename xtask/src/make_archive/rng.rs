//! The generator of every random choice: `SplitMix64`, by Steele, Lea and Flood (2014).
//!
//! Each part of the archive draws from a generator of its own, named by numbers, so that a part
//! comes out the same whichever thread makes it and whatever was made before it.

/// The increment of `SplitMix64`: 2^64 over the golden ratio, made odd.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Which family of parts a generator serves, so that equal numbers do not give equal draws.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// One document, by slot and number.
    Document,
    /// The events and mentions of a slot.
    Events,
    /// The GKG records of a slot.
    Gkg,
    /// The three daily files of a day.
    Daily,
}

/// A `SplitMix64` generator.
#[derive(Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Makes the generator of a part.
    pub(crate) fn new(seed: u64, part: Part, numbers: [usize; 2]) -> Self {
        let [first, second] = numbers.map(|number| number as u64);
        [part as u64, first, second].into_iter().fold(Self(seed), |mut rng, number| {
            let state = rng.next();
            Self(state ^ number)
        })
    }

    /// Draws 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number below `bound`, or 0 if `bound` is 0.
    #[expect(clippy::cast_possible_truncation, reason = "the result is below a usize")]
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Draws yes once in `times` draws.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Draws one of `items`, or `None` if there are none.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn gives_the_published_sequence() {
        let mut rng = Rng(1_234_567);
        let drawn = [rng.next(), rng.next(), rng.next()];
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
