//! Sums over loads that were measured at the same time.

use super::{LoadOutcome, Outcome, SharedLinks};

/// Rates of one moment add up: the loads have to have this part of the shortest measurement in
/// common. The rest is for clients that begin a little later than others.
const COMMON: f64 = 0.5;

/// Several loads as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Together {
    /// Payload.
    pub mib_per_s: f64,
    /// Operations that succeeded.
    pub ops_per_s: f64,
    /// What the formula allows, in payload; `None` without a limit, or without payload.
    pub formula_mib_per_s: Option<f64>,
    /// What the formula allows, in operations; `None` without a limit.
    pub formula_ops_per_s: Option<f64>,
}

impl Outcome {
    /// All loads together; `None` if they were not measured at the same time.
    pub fn together(&self) -> Option<Together> {
        self.those_together(|_| true)
    }

    /// Some of the loads together; `None` if they were not measured at the same time, or there is
    /// none.
    pub fn those_together(&self, includes: impl Fn(&LoadOutcome) -> bool) -> Option<Together> {
        let loads: Vec<(usize, &LoadOutcome)> =
            self.loads.iter().enumerate().filter(|(_, load)| includes(load)).collect();
        if loads.is_empty() || !at_the_same_time(&loads) {
            return None;
        }
        let data: Vec<(usize, &LoadOutcome)> =
            loads.iter().copied().filter(|(_, load)| load.size > 0).collect();
        let of_bytes = allowed(&data, &self.shared_links, |size| size / f64::from(1 << 20));
        Some(Together {
            mib_per_s: loads.iter().map(|(_, load)| load.mib_per_s).sum(),
            ops_per_s: loads.iter().map(|(_, load)| load.ops_per_s).sum(),
            formula_mib_per_s: of_bytes.filter(|_| !data.is_empty()),
            formula_ops_per_s: allowed(&loads, &self.shared_links, |_| 1.0),
        })
    }
}

/// Whether the loads have been measured in a common time.
fn at_the_same_time(loads: &[(usize, &LoadOutcome)]) -> bool {
    // One that measured nothing adds nothing.
    let windows = loads.iter().filter(|(_, load)| load.ops > 0).map(|(_, load)| load.window_s);
    let windows: Vec<Option<(f64, f64)>> = windows.collect();
    if windows.len() < 2 {
        return true;
    }
    // Files of earlier releases do not say it.
    let Some(windows) = windows.into_iter().collect::<Option<Vec<(f64, f64)>>>() else {
        return false;
    };
    let from = windows.iter().map(|window| window.0).fold(0.0, f64::max);
    let to = windows.iter().map(|window| window.1).fold(f64::INFINITY, f64::min);
    let shortest = windows.iter().map(|window| window.1 - window.0).fold(f64::INFINITY, f64::min);
    to - from >= COMMON * shortest
}

/// What the formula allows these loads together, where an operation of a size counts `value`: the
/// sum of what it allows each of them, and no more than any links carry that they share. On such
/// links the smallest operations come first, as there are most of them: it is an upper bound.
fn allowed(
    loads: &[(usize, &LoadOutcome)],
    shared: &[SharedLinks],
    value: fn(f64) -> f64,
) -> Option<f64> {
    let size = |load: &LoadOutcome| f64::from(load.size);
    let each = |load: &LoadOutcome| Some(load.formula_ops_per_s? * value(size(load)));
    let sum: f64 = loads.iter().map(|(_, load)| each(load)).sum::<Option<f64>>()?;
    let with = |links: &SharedLinks| {
        let passes =
            |(index, load): &&(usize, &LoadOutcome)| load.size > 0 && links.loads.contains(index);
        let mut users: Vec<&LoadOutcome> = loads.iter().filter(passes).map(|one| one.1).collect();
        users.sort_by_key(|load| load.size);
        let (mut best, mut left) = (sum, links.bytes_per_s);
        for load in users {
            let wanted = load.formula_ops_per_s.unwrap_or_default();
            let ops = wanted.min(left / size(load));
            left -= ops * size(load);
            best -= (wanted - ops) * value(size(load));
        }
        best
    };
    Some(shared.iter().map(with).fold(sum, f64::min))
}

#[cfg(test)]
mod tests;
