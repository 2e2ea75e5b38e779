//! How many rows of a stratified sample each stratum gets.
//!
//! Shares are rounded by the method of largest remainders (Hamilton's). Neyman's allocation, rows in
//! proportion to those of the stratum times its standard deviation, gives the estimated mean the
//! least variance (J. Neyman, *On the two different aspects of the representative method*, 1934;
//! W. G. Cochran, *Sampling Techniques*, 3rd edition, section 5.5).

use stage::Error;

use crate::cli::Allocation;

/// Values are rounded to this part of one for their deviation, so that sums are exact, and the same
/// in whatever order rows are met.
const UNIT: f64 = 65_536.0;
/// The greatest value: with it the sum of the squares of 2^32 values fits in 128 bits.
const GREATEST: f64 = 2_147_483_648.0;

/// What is known of a stratum before rows are drawn from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// Its rows.
    pub(crate) rows: u64,
    values: u64,
    sum: i128,
    squares: i128,
}

impl Census {
    /// Counts a row, with its value in the column whose deviation matters.
    ///
    /// # Errors
    ///
    /// The value, when it is too great.
    pub(crate) fn add(&mut self, value: Option<f64>) -> Result<(), f64> {
        self.rows += 1;
        let Some(value) = value.filter(|value| !value.is_nan()) else { return Ok(()) };
        if value.abs() > GREATEST {
            return Err(value);
        }
        #[expect(clippy::cast_possible_truncation, reason = "it is below 2^47")]
        let units = i128::from((value * UNIT).round() as i64);
        self.values += 1;
        self.sum += units;
        self.squares += units * units;
        Ok(())
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        self.values += other.values;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// The standard deviation of its values, with n - 1; `None` with fewer than two.
    pub(crate) fn deviation(&self) -> Option<f64> {
        if self.values < 2 {
            return None;
        }
        let count = i128::from(self.values);
        // n times the sum of squares about the mean. Below 2^127 for 2^16 values of the greatest
        // kind; of more such values the quotient loses digits that no estimate has.
        let about_mean = match count.checked_mul(self.squares) {
            Some(all) => as_f64(all - self.sum.saturating_mul(self.sum)) / as_f64(count),
            None => as_f64(self.squares) - as_f64(self.sum) * (as_f64(self.sum) / as_f64(count)),
        };
        Some((about_mean.max(0.0) / as_f64(count - 1)).sqrt() / UNIT)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a deviation has no more digits")]
fn as_f64(number: i128) -> f64 {
    number as f64
}

/// Shares `n` rows out to strata. Each gets `minimum` at least, or all that it has; without
/// replacement none gets more than it has. A stratum whose deviation is not known or 0 gets the
/// minimum under Neyman's allocation; if all are such, they share by their rows.
///
/// # Errors
///
/// [`Error::Usage`] when there are fewer rows than `n`, or the minima are more.
pub(crate) fn shared_out(
    n: u64,
    allocation: Allocation,
    minimum: u64,
    replace: bool,
    strata: &[Census],
) -> Result<Vec<u64>, Error> {
    let capacity = |stratum: &Census| match stratum.rows {
        0 => 0,
        _ if replace => u64::MAX,
        rows => rows,
    };
    let capacities: Vec<u64> = strata.iter().map(capacity).collect();
    let available: u64 = capacities.iter().fold(0, |sum, rows| sum.saturating_add(*rows));
    if n > available {
        return Err(Error::usage(
            format!("-n {n} is more than the {available} rows that may be drawn"),
            "ask for fewer rows, take in more files, or add --replace",
        ));
    }
    let minima: Vec<u64> = capacities.iter().map(|rows| minimum.min(*rows)).collect();
    let least: u64 = minima.iter().sum();
    if least > n {
        return Err(Error::usage(
            format!(
                "{minimum} rows at least of each of {} strata are {least}, more than -n {n}",
                strata.len()
            ),
            "raise -n, or lower --min-per-stratum",
        ));
    }
    let bounds: Vec<Bounds> = minima.into_iter().zip(capacities).collect();
    Ok(rounded(n, &filled(n, &weights(allocation, strata), &bounds, strata), &bounds))
}

/// The least and the greatest share of a stratum.
type Bounds = (u64, u64);

/// Shares in proportion to the weights, within the bounds: for one number each is that number times
/// its weight, or the bound that this is beyond. Where all with a weight have all their rows, the
/// others share the rest by their rows.
fn filled(n: u64, weights: &[f64], bounds: &[Bounds], strata: &[Census]) -> Vec<f64> {
    let share = |level: f64, at: usize, weight: f64| {
        let (least, most) = bounds[at];
        (level * weight).clamp(whole(least), whole(most))
    };
    let at_level = |level: f64, weights: &[f64]| -> Vec<f64> {
        weights.iter().enumerate().map(|(at, weight)| share(level, at, *weight)).collect()
    };
    let is_too_low =
        |level: f64, weights: &[f64]| at_level(level, weights).iter().sum::<f64>() < whole(n);
    let mut weights = weights.to_vec();
    if is_too_low(f64::MAX.sqrt(), &weights) {
        for ((weight, stratum), (least, most)) in weights.iter_mut().zip(strata).zip(bounds) {
            // Those at their bound stay there at any level of the others.
            *weight =
                if *weight > 0.0 || least == most { f64::MAX.sqrt() } else { whole(stratum.rows) };
        }
    }
    let (mut low, mut high) = (0.0, 1.0);
    while is_too_low(high, &weights) && high < f64::MAX.sqrt() {
        high *= 2.0;
    }
    // More halvings than a level has digits.
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if is_too_low(middle, &weights) {
            low = middle;
        } else {
            high = middle;
        }
    }
    at_level(high, &weights)
}

/// Whole shares that sum up to `n`: the whole part of each, and what is left goes to the largest
/// remainders, of equal ones to the first.
fn rounded(n: u64, shares: &[f64], bounds: &[Bounds]) -> Vec<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "shares are not negative, and a whole part is meant"
    )]
    let mut wholes: Vec<u64> = shares.iter().map(|share| share.floor() as u64).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    let remainder = |at: &usize| shares[*at] - shares[*at].floor();
    order.sort_by(|one, other| remainder(other).total_cmp(&remainder(one)).then(one.cmp(other)));
    let mut left = n.saturating_sub(wholes.iter().sum());
    while left > 0 {
        let before = left;
        for &at in &order {
            if left > 0 && wholes[at] < bounds[at].1 {
                wholes[at] += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    wholes
}

#[expect(clippy::cast_precision_loss, reason = "more than 2^53 rows are not drawn")]
fn whole(number: u64) -> f64 {
    number as f64
}

/// What the strata share by.
fn weights(allocation: Allocation, strata: &[Census]) -> Vec<f64> {
    let rows = |stratum: &Census| whole(stratum.rows);
    let by_rows = || strata.iter().map(rows).collect();
    match allocation {
        Allocation::Equal => strata.iter().map(|_| 1.0).collect(),
        Allocation::Proportional => by_rows(),
        Allocation::Neyman => {
            let spread = |stratum: &Census| rows(stratum) * stratum.deviation().unwrap_or(0.0);
            let spreads: Vec<f64> = strata.iter().map(spread).collect();
            if spreads.iter().all(|spread| *spread == 0.0) { by_rows() } else { spreads }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn strata(rows: &[u64]) -> Vec<Census> {
        rows.iter().map(|rows| Census { rows: *rows, ..Census::default() }).collect()
    }

    /// Strata of values that repeat.
    fn spread(of: &[(u64, &[f64])]) -> Vec<Census> {
        let stratum = |(rows, values): &(u64, &[f64])| {
            let mut census = Census::default();
            for value in values.iter().cycle().take(usize::try_from(*rows).unwrap()) {
                census.add(Some(*value)).unwrap();
            }
            census
        };
        of.iter().map(stratum).collect()
    }

    fn shares(n: u64, allocation: Allocation, minimum: u64, of: &[Census]) -> Vec<u64> {
        shared_out(n, allocation, minimum, false, of).unwrap()
    }

    #[test]
    fn shares_are_rounded_by_largest_remainders() {
        // Shares of 7 among 21878, 9713 and 4167 are 4.28, 1.90 and 0.82.
        let by_rows = |n, rows: &[u64]| shares(n, Allocation::Proportional, 0, &strata(rows));
        assert_eq!(by_rows(7, &[21_878, 9_713, 4_167]), [4, 2, 1]);
        assert_eq!(by_rows(10, &[100, 100, 100]), [4, 3, 3]);
        assert_eq!(by_rows(0, &[1]), [0]);
    }

    #[test]
    fn each_allocation_shares_by_its_own_measure() {
        let rows = strata(&[600, 300, 100]);
        assert_eq!(shares(30, Allocation::Equal, 0, &rows), [10, 10, 10]);
        assert_eq!(shares(30, Allocation::Proportional, 0, &rows), [18, 9, 3]);
        // Deviations in the ratio 1 : 2 : 6.
        let spreads = spread(&[(600, &[-1.0, 1.0]), (300, &[-2.0, 2.0]), (100, &[-6.0, 6.0])]);
        assert_eq!(shares(18, Allocation::Neyman, 0, &spreads), [6, 6, 6]);
    }

    #[test]
    fn minima_and_what_a_stratum_has_are_kept() {
        let rows = strata(&[1_000, 3, 0, 1]);
        assert_eq!(shares(100, Allocation::Proportional, 1, &rows), [98, 1, 0, 1]);
        let some = strata(&[600, 300, 100]);
        assert_eq!(shares(100, Allocation::Proportional, 1, &some), [60, 30, 10]);
        assert_eq!(shares(100, Allocation::Proportional, 20, &some), [53, 27, 20]);
        assert_eq!(shares(100, Allocation::Equal, 1, &rows), [96, 3, 0, 1]);
        assert_eq!(shares(1_004, Allocation::Equal, 5, &rows), [1_000, 3, 0, 1]);
        let error = shared_out(1_005, Allocation::Equal, 0, false, &rows).unwrap_err();
        assert!(error.to_string().contains("-n 1005 is more than the 1004 rows"), "{error}");
        let error = shared_out(2, Allocation::Equal, 1, false, &rows).unwrap_err();
        assert!(error.to_string().contains("more than -n 2"), "{error}");
        let with = shared_out(3_000, Allocation::Equal, 0, true, &rows).unwrap();
        assert_eq!(with, [1_000, 1_000, 0, 1_000]);
        assert!(shared_out(1, Allocation::Equal, 0, true, &strata(&[0])).is_err());
    }

    #[test]
    fn a_stratum_without_deviation_gets_the_minimum() {
        let spreads = spread(&[(50, &[7.0]), (50, &[0.0, 1.0]), (1, &[3.0])]);
        assert_eq!(shares(20, Allocation::Neyman, 2, &spreads), [2, 17, 1]);
        let none = spread(&[(60, &[7.0]), (30, &[1.0])]);
        assert_eq!(shares(9, Allocation::Neyman, 1, &none), [6, 3]);
    }

    #[test]
    fn a_deviation_is_that_of_the_values() {
        let mut census = Census::default();
        for value in [Some(1.0), Some(2.5), None, Some(f64::NAN), Some(-4.0)] {
            census.add(value).unwrap();
        }
        assert_eq!(census.rows, 5);
        let expected: f64 = ((1.0 + 1.0 / 6.0_f64).powi(2)
            + (2.5 + 1.0 / 6.0_f64).powi(2)
            + (-4.0 + 1.0 / 6.0_f64).powi(2))
            / 2.0;
        assert!((census.deviation().unwrap() - expected.sqrt()).abs() < 1e-9);
        assert_eq!(Census::default().deviation(), None);
        assert_eq!(census.add(Some(-1e12)), Err(-1e12));
    }

    proptest! {
        #[test]
        fn all_rows_are_shared_out_within_the_bounds(
            rows in proptest::collection::vec(0_u64..500, 1..20),
            part in 0.0_f64..1.0,
            minimum in 0_u64..4,
            allocation in proptest::sample::select(vec![
                Allocation::Equal,
                Allocation::Proportional,
                Allocation::Neyman,
            ]),
        ) {
            let of = strata(&rows);
            let least: u64 = rows.iter().map(|rows| minimum.min(*rows)).sum();
            let all: u64 = rows.iter().sum();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                clippy::cast_sign_loss,
                reason = "any number between the two will do"
            )]
            let n = least + ((all - least) as f64 * part) as u64;
            let shares = shared_out(n, allocation, minimum, false, &of).unwrap();
            prop_assert_eq!(shares.iter().sum::<u64>(), n);
            for (share, rows) in shares.iter().zip(&rows) {
                prop_assert!(minimum.min(*rows) <= *share && share <= rows);
            }
        }

        #[test]
        fn a_census_does_not_depend_on_the_order(values in proptest::collection::vec(-1e6_f64..1e6, 0..50), cut in 0_usize..50) {
            let of = |values: &[f64]| {
                let mut census = Census::default();
                for value in values {
                    census.add(Some(*value)).unwrap();
                }
                census
            };
            let (left, right) = values.split_at(cut.min(values.len()));
            let mut merged = of(right);
            merged.merge(of(left));
            prop_assert_eq!(merged, of(&values));
        }
    }
}
