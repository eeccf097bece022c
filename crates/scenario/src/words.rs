//! Durations and rates as scenario files write them.

use lustrine_lnet::time::Nanos;
use lustrine_sim::fabric::Rate;

/// Reads a duration, such as `25.25 ms`.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub fn parse_duration(text: &str) -> Result<Nanos, String> {
    lustrine_document::parse_duration(text).map(Nanos)
}

/// A duration for people, such as `25.25 ms`.
pub fn format_duration(time: Nanos) -> String {
    lustrine_document::format_duration(time.0)
}

/// A rate for people, such as `10 Gb/s`.
pub fn rate_text(rate: Option<Rate>) -> String {
    rate.map_or_else(|| "unlimited".to_owned(), |rate| rate.to_string())
}
