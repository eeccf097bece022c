//! Rates of counters.

/// How much a counter grew, if it did not begin again.
pub(crate) fn growth(then: u64, now: u64) -> Option<u64> {
    now.checked_sub(then)
}

/// Growth per second; `None` if the counter has begun again or no time has passed.
pub(crate) fn per_second(then: u64, now: u64, seconds: f64) -> Option<f64> {
    let grown = growth(then, now)?;
    (seconds > 0.0).then(|| grown as f64 / seconds)
}
