//! Keeps the k rows of least priority, in memory for 2k.

/// The k rows of least priority of those met so far. Which they are does not depend on the order.
#[derive(Debug, Clone)]
pub(crate) struct BottomK {
    k: usize,
    /// Priorities above this one are among the least no more.
    threshold: u64,
    /// Priority and position.
    candidates: Vec<(u64, u64)>,
}

impl BottomK {
    /// For k rows.
    pub(crate) fn new(k: usize) -> Self {
        Self { k, threshold: u64::MAX, candidates: Vec::new() }
    }

    /// Meets a row.
    pub(crate) fn push(&mut self, priority: u64, position: u64) {
        if priority > self.threshold || self.k == 0 {
            return;
        }
        self.candidates.push((priority, position));
        if self.candidates.len() >= self.k.saturating_mul(2) {
            self.cut();
        }
    }

    /// Meets the rows that another one kept.
    pub(crate) fn merge(&mut self, other: Self) {
        for (priority, position) in other.candidates {
            self.push(priority, position);
        }
    }

    /// The positions of the rows kept, in order.
    pub(crate) fn into_positions(mut self) -> Vec<u64> {
        self.cut();
        let mut positions: Vec<u64> =
            self.candidates.into_iter().map(|(_, position)| position).collect();
        positions.sort_unstable();
        positions
    }

    /// The positions of the rows kept, in the order of their priorities.
    pub(crate) fn into_ranked(mut self) -> Vec<u64> {
        self.cut();
        self.candidates.sort_unstable();
        self.candidates.into_iter().map(|(_, position)| position).collect()
    }

    fn cut(&mut self) {
        if self.candidates.len() > self.k {
            self.candidates.select_nth_unstable(self.k);
            self.candidates.truncate(self.k);
            self.threshold =
                self.candidates.iter().map(|(priority, _)| *priority).max().unwrap_or(u64::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priority::Priorities;
    use proptest::prelude::*;

    fn sample(seed: u64, k: usize, positions: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let priorities = Priorities::new(seed);
        let mut bottom = BottomK::new(k);
        for position in positions {
            bottom.push(priorities.of(position), position);
        }
        bottom.into_positions()
    }

    #[test]
    fn seed_42_draws_these_five_of_a_thousand() {
        // Computed apart from this program; a change is a new version of the algorithm.
        assert_eq!(sample(42, 5, 0..1000), GOLDEN);
        assert_eq!(sample(42, 5, (0..1000).rev()), GOLDEN);
    }

    const GOLDEN: [u64; 5] = [204, 267, 670, 728, 896];

    #[test]
    fn every_row_is_drawn_equally_often() {
        // Inclusion counts over 20,000 seeds; drawing without replacement makes the sum of squares
        // smaller by (N - k) / (N - 1), so that the statistic has N - 1 degrees of freedom. 43.82
        // is the 0.999 quantile for 19.
        for k in [1, 5, 19] {
            let mut counts = [0_u32; 20];
            for seed in 0..20_000 {
                for position in sample(seed, k, 0..20) {
                    counts[usize::try_from(position).unwrap()] += 1;
                }
            }
            let k = f64::from(u32::try_from(k).unwrap());
            let expected = 20_000.0 * k / 20.0;
            let squares: f64 =
                counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
            let chi_square = squares * 19.0 / (20.0 - k);
            assert!(chi_square < 43.82, "k = {k}: {chi_square}");
        }
    }

    proptest! {
        #[test]
        fn the_rows_kept_are_the_first_when_sorted(
            priorities in proptest::collection::vec(0_u64..100, 0..200),
            k in 1_usize..50,
            cut in 0_usize..200,
        ) {
            // Priorities of a seed are distinct.
            let rows: Vec<(u64, u64)> =
                priorities.iter().zip(0..).map(|(priority, row)| (priority << 8 | row, row)).collect();
            let mut sorted = rows.clone();
            sorted.sort_unstable();
            let mut expected: Vec<u64> = sorted.into_iter().take(k).map(|(_, row)| row).collect();
            expected.sort_unstable();
            let (mut first, mut second) = (BottomK::new(k), BottomK::new(k));
            let cut = cut.min(rows.len());
            rows[..cut].iter().for_each(|(priority, row)| first.push(*priority, *row));
            rows[cut..].iter().for_each(|(priority, row)| second.push(*priority, *row));
            second.merge(first);
            prop_assert_eq!(second.into_positions(), expected);
        }
    }
}
