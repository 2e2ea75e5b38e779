//! Says how far the repeats of a measurement lie apart.
//!
//! Nothing is left out as an outlier: the least and the greatest value are always those that were
//! measured.

/// The values of a measurement over its repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// Number of values.
    pub(crate) n: usize,
    /// Their mean.
    pub(crate) mean: f64,
    /// The least.
    pub(crate) least: f64,
    /// The greatest.
    pub(crate) greatest: f64,
    /// Sample standard deviation; none for fewer than two values.
    pub(crate) deviation: Option<f64>,
}

impl Spread {
    /// The spread of values; none where there are none. Values that are not finite do not count.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let least = values.iter().copied().reduce(f64::min)?;
        let greatest = values.iter().copied().reduce(f64::max)?;
        let n = values.len();
        // Sums are of distances from the least value, each divided before it is added: equal
        // values have exactly their own mean, and huge ones a finite one.
        let mean = least + values.iter().map(|value| (value - least) / real(n)).sum::<f64>();
        let deviation = (n > 1).then(|| deviation(&values, mean, greatest - least));
        Some(Self { n, mean, least, greatest, deviation })
    }
}

/// Sample standard deviation of at least two values with this mean and range.
fn deviation(values: &[f64], mean: f64, range: f64) -> f64 {
    if range <= 0.0 {
        return 0.0;
    }
    // In units of the range no square can overflow or vanish.
    let squares = values.iter().map(|value| ((value - mean) / range).powi(2)).sum::<f64>();
    range * (squares / real(values.len() - 1)).sqrt()
}

/// A count as a number to reckon with.
#[expect(clippy::cast_precision_loss, reason = "figures are for reading")]
pub(crate) fn real(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_have_mean_extremes_and_sample_deviation() {
        let spread = Spread::of([65.0, 61.0, 66.0, 68.0]).expect("there are values");
        assert_eq!((spread.n, spread.least, spread.greatest), (4, 61.0, 68.0));
        assert!((spread.mean - 65.0).abs() < 1e-12);
        // Squares of the distances: 0 + 16 + 1 + 9 = 26, over 3.
        let deviation = spread.deviation.expect("four values");
        assert!((deviation - (26.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn one_value_has_no_deviation_and_none_has_no_spread() {
        let one = Spread { n: 1, mean: 7.5, least: 7.5, greatest: 7.5, deviation: None };
        assert_eq!(Spread::of([7.5]), Some(one));
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::INFINITY, f64::NAN]), None);
    }

    #[test]
    fn equal_values_deviate_by_nothing() {
        let spread = Spread::of([0.1; 5]).expect("there are values");
        assert_eq!((spread.mean, spread.deviation), (0.1, Some(0.0)));
    }

    #[test]
    fn huge_values_stay_finite() {
        let spread = Spread::of([0.0, f64::MAX]).expect("there are values");
        assert!(spread.mean.is_finite());
        assert!(spread.deviation.expect("two values").is_finite());
    }
}
