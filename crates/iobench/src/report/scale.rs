//! Places values along an axis and chooses where it is marked.

use crate::shown::number;
use crate::statistics::real;

/// An axis from 0 to a round number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Linear {
    step: f64,
    steps: usize,
}

impl Linear {
    /// The axis on which all these values find place, marked at about this many steps.
    pub(crate) fn upto(values: impl IntoIterator<Item = f64>, wanted: usize) -> Self {
        let greatest = values.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max);
        if greatest <= 0.0 {
            return Self { step: 1.0, steps: 1 };
        }
        // Beyond these no power of ten is a number to reckon with.
        let greatest = greatest.clamp(1e-9, 1e300);
        let rough = greatest / real(wanted.max(1));
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .map(|round| round * power)
            .into_iter()
            .find(|step| *step >= rough * (1.0 - 1e-9))
            .unwrap_or(10.0 * power);
        let mut steps = 1;
        // At most `wanted` rounds, since a step is at least the rough one.
        while real(steps) * step < greatest * (1.0 - 1e-9) {
            steps += 1;
        }
        Self { step, steps }
    }

    /// Where a value lies: 0 at the start of the axis, 1 at its end, never beyond.
    pub(crate) fn share(self, value: f64) -> f64 {
        (value / (self.step * real(self.steps))).clamp(0.0, 1.0)
    }

    /// The marks, from 0 to the end of the axis.
    pub(crate) fn ticks(self) -> Vec<(f64, String)> {
        (0..=self.steps)
            .map(|tick| (real(tick) / real(self.steps), self.label(real(tick) * self.step)))
            .collect()
    }

    /// The last mark.
    pub(crate) fn end(self) -> String {
        self.label(self.step * real(self.steps))
    }

    /// All marks get the digits that the step needs.
    fn label(self, value: f64) -> String {
        if !(1e-3..1e6).contains(&value) {
            return number(value);
        }
        let decimals = (0..6).find(|&decimals| {
            let scaled = self.step * 10_f64.powi(decimals);
            (scaled - scaled.round()).abs() < 1e-6 * scaled
        });
        let decimals = decimals.and_then(|decimals| usize::try_from(decimals).ok()).unwrap_or(6);
        format!("{value:.decimals$}")
    }
}

/// An axis on which each doubling takes the same room, marked at the numbers that were measured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Doubling {
    measured: Vec<usize>,
}

impl Doubling {
    /// The axis for these numbers.
    pub(crate) fn of(numbers: impl IntoIterator<Item = usize>) -> Self {
        let mut measured: Vec<usize> = numbers.into_iter().collect();
        measured.sort_unstable();
        measured.dedup();
        Self { measured }
    }

    /// Where a number lies: 0 at the least that was measured, 1 at the greatest; in the middle
    /// where there is but one.
    pub(crate) fn share(&self, number: usize) -> f64 {
        let log = |number: usize| real(number.max(1)).log2();
        let (Some(&first), Some(&last)) = (self.measured.first(), self.measured.last()) else {
            return 0.5;
        };
        let range = log(last) - log(first);
        if range > 0.0 { ((log(number) - log(first)) / range).clamp(0.0, 1.0) } else { 0.5 }
    }

    /// The numbers that can be written on an axis of this length without touching each other.
    pub(crate) fn ticks(&self, length: f64) -> Vec<(f64, String)> {
        let mut ticks: Vec<(f64, String)> = Vec::new();
        let mut free_from = f64::NEG_INFINITY;
        for &measured in &self.measured {
            let label = crate::shown::concurrency(measured);
            let (share, half) = (self.share(measured), real(label.len()) * 4.0);
            if share * length - half >= free_from {
                free_from = share * length + half + 4.0;
                ticks.push((share, label));
            }
        }
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(greatest: f64, wanted: usize) -> Vec<String> {
        Linear::upto([greatest], wanted).ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn steps_are_round_and_hold_the_greatest() {
        assert_eq!(labels(88.5, 5), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(258.0, 5), ["0", "100", "200", "300"]);
        assert_eq!(labels(9.0, 4), ["0", "2.5", "5.0", "7.5", "10.0"]);
        assert_eq!(labels(0.32, 4), ["0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(labels(4.0, 4), ["0", "1", "2", "3", "4"]);
        assert_eq!(labels(3e7, 3), ["0", "1.0e7", "2.0e7", "3.0e7"]);
    }

    #[test]
    fn odd_values_have_an_axis() {
        assert_eq!(labels(0.0, 5), ["0", "1"]);
        for odd in [f64::MAX, f64::INFINITY, f64::NAN, -1.0, f64::MIN_POSITIVE, 1e-320] {
            let axis = Linear::upto([odd], 4);
            assert!(axis.ticks().len() <= 6, "{odd}: {axis:?}");
            assert!((0.0..=1.0).contains(&axis.share(odd)) || odd.is_nan(), "{odd}: {axis:?}");
        }
    }

    #[test]
    fn a_value_lies_in_proportion() {
        let axis = Linear::upto([88.5], 5);
        assert_eq!((axis.share(0.0), axis.share(50.0), axis.share(200.0)), (0.0, 0.5, 1.0));
        assert_eq!(axis.end(), "100");
    }

    #[test]
    fn each_doubling_takes_the_same_room() {
        let axis = Doubling::of([16, 1, 4, 1, 2, 8]);
        let percent = [1, 2, 4, 16].map(|number| format!("{:.0}", 100.0 * axis.share(number)));
        assert_eq!(percent, ["0", "25", "50", "100"]);
        let labels: Vec<_> = axis.ticks(360.0).into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["1", "2", "4", "8", "16"]);
    }

    #[test]
    fn one_number_stands_in_the_middle_and_crowded_ones_are_left_out() {
        assert_eq!(Doubling::of([3]).ticks(300.0), [(0.5, "3".to_owned())]);
        let middle = [(Doubling::of([]), 1), (Doubling::of([0]), 0), (Doubling::of([0, 1]), 1)];
        for (axis, number) in middle {
            assert!((axis.share(number) - 0.5).abs() < 1e-9, "{axis:?}");
        }
        assert_eq!(Doubling::of([1, 100, 101]).ticks(300.0).len(), 2);
        assert!((Doubling::of([1, usize::MAX]).share(usize::MAX) - 1.0).abs() < 1e-9);
    }
}
