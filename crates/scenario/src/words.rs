//! Lengths of time and rates as scenario files have them.

use lustrine_lnet::time::Nanos;
use lustrine_sim::fabric::Rate;

/// Reads a length of time, such as `25.25 ms`.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub fn read_time(text: &str) -> Result<Nanos, String> {
    lustrine_document::read_time(text).map(Nanos)
}

/// A length of time for people, such as `25.25 ms`.
pub fn time_text(time: Nanos) -> String {
    lustrine_document::time_text(time.0)
}

/// A rate for people, such as `10 Gb/s`.
pub fn rate_text(rate: Option<Rate>) -> String {
    rate.map_or_else(|| "unlimited".to_owned(), |rate| rate.to_string())
}
