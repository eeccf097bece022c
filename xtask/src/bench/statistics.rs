//! Statistics of several rounds of one measurement.

use serde::{Deserialize, Serialize};

/// The middle value and the spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// All values, in the order in which they were measured.
    pub(crate) rounds: Vec<f64>,
}

impl Summary {
    /// `None` without any value.
    pub(crate) fn of(rounds: &[f64]) -> Option<Summary> {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        Some(Summary { median, min, max, rounds: rounds.to_vec() })
    }

    /// Round by round, Lustrine by its peer: a disturbance of the machine affects both.
    pub(crate) fn ratio(ours: &Summary, theirs: &Summary) -> Option<Summary> {
        let pairs = ours.rounds.iter().zip(&theirs.rounds);
        Summary::of(&pairs.map(|(our, their)| our / their).collect::<Vec<_>>())
    }
}

/// The middle value and the spread as text, with numbers as `number` writes them.
pub(crate) fn shown(summary: Option<&Summary>, number: fn(f64) -> String) -> String {
    summary.map_or("-".to_owned(), |s| {
        format!("{} ({}..{})", number(s.median), number(s.min), number(s.max))
    })
}

/// A ratio with two digits.
pub(crate) fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_spread_are_computed() {
        let three = Summary::of(&[3.0, 1.0, 2.0]).expect("values");
        assert_eq!((three.median, three.min, three.max), (2.0, 1.0, 3.0));
        assert_eq!(Summary::of(&[4.0, 1.0]).expect("values").median, 2.5);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let ours = Summary::of(&[2.0, 40.0, 6.0]).expect("values");
        let theirs = Summary::of(&[1.0, 10.0, 2.0]).expect("values");
        assert_eq!(Summary::ratio(&ours, &theirs).expect("values").rounds, [2.0, 4.0, 3.0]);
    }
}
