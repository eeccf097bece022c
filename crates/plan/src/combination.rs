//! The results of a step by the values that vary in it.

use crate::results::{PointResult, Results, Row};

/// One combination of a step: the results of all its repetitions, or pairs, for one line.
#[derive(Debug)]
pub(crate) struct Cell<'r> {
    pub(crate) row: &'r Row,
    pub(crate) rows: Vec<&'r Row>,
}

/// The points of a step that have the same labels except for pairs and rounds.
pub(crate) struct Combination<'r> {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) points: Vec<&'r PointResult>,
}

impl Combination<'_> {
    /// Whether its points are single pairs.
    pub(crate) fn is_in_turns(&self) -> bool {
        self.points.iter().any(|point| point.turn().is_some())
    }

    /// Its lines, each with all repetitions.
    pub(crate) fn cells(&self) -> Vec<Cell<'_>> {
        let mut cells: Vec<Cell<'_>> = Vec::new();
        for point in &self.points {
            for (index, row) in point.rows.iter().enumerate() {
                match cells.get_mut(index) {
                    Some(cell) => cell.rows.push(row),
                    None => cells.push(Cell { row, rows: vec![row] }),
                }
            }
        }
        cells
    }

    /// The varied values, as text; empty without any.
    pub(crate) fn title(&self) -> String {
        let words = self.labels.iter().map(|(name, value)| format!("{name} {value}"));
        words.collect::<Vec<_>>().join(", ")
    }
}

impl Cell<'_> {
    /// The median repetition by operations per second; of an even number, the lower one.
    pub(crate) fn middle(&self) -> &Row {
        let mut rows = self.rows.clone();
        rows.sort_by(|one, two| one.all.ops_per_s.total_cmp(&two.all.ops_per_s));
        rows.get((rows.len() - 1) / 2).copied().unwrap_or(self.row)
    }

    /// Half of the difference between the best and the worst repetition, relative to the median.
    pub(crate) fn spread(&self) -> f64 {
        let rates = self.rows.iter().map(|row| row.all.ops_per_s);
        let (low, high) = rates
            .fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
        let middle = self.middle().all.ops_per_s;
        if middle > 0.0 { (high - low) / 2.0 / middle } else { 0.0 }
    }

    /// Failed operations of all repetitions.
    pub(crate) fn errors(&self) -> u64 {
        self.rows.iter().fold(0, |all, row| all.saturating_add(row.all.errors))
    }
}

/// The combinations of each step, in order.
pub(crate) fn combinations(results: &Results) -> Vec<(usize, String, Vec<Combination<'_>>)> {
    let mut steps: Vec<(usize, String, Vec<Combination<'_>>)> = Vec::new();
    for point in &results.points {
        if steps.last().is_none_or(|(step, ..)| *step != point.step) {
            steps.push((point.step, point.name.clone(), Vec::new()));
        }
        let Some((_, _, combinations)) = steps.last_mut() else { continue };
        let labels = point.fixed_labels();
        match combinations.iter_mut().find(|known| known.labels == labels) {
            Some(known) => known.points.push(point),
            None => combinations.push(Combination { labels, points: vec![point] }),
        }
    }
    steps
}

impl PointResult {
    /// The varied values, except pairs and rounds.
    pub(crate) fn fixed_labels(&self) -> Vec<(String, String)> {
        let turn = |name: &str| name == "pair" || name == "round";
        self.labels.iter().filter(|(name, _)| !turn(name)).cloned().collect()
    }

    /// Its pair or round, if it has one.
    pub(crate) fn turn(&self) -> Option<&str> {
        let turn = |(name, _): &&(String, String)| name == "pair" || name == "round";
        self.labels.iter().find(turn).map(|(_, value)| value.as_str())
    }
}
