//! Events and values as text.

use lustrine_report::numbers::{latency_text, three_digits};

use crate::alarm::{AlarmEnd, Event};

/// Nanoseconds in a suitable unit, with three digits.
pub fn time_text(ns: u64) -> String {
    latency_text(ns as f64 / 1e3)
}

/// Bits per second in a suitable unit, with three digits.
pub fn rate_text(rate: u64) -> String {
    let rate = rate as f64;
    match rate {
        ..1e6 => three_digits(rate / 1e3) + " kb/s",
        ..1e9 => three_digits(rate / 1e6) + " Mb/s",
        _ => three_digits(rate / 1e9) + " Gb/s",
    }
}

/// How long something lasted, in its two largest units.
pub fn span_text(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes} min {rest} s"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// An event as one line, without its time. `since`: the beginning of the change as text.
pub fn line(peer: &str, event: &Event, since: &str) -> String {
    let alarm = event.alarm();
    let name = alarm.kind.name();
    match (event, alarm.over) {
        (Event::Over(_), Some((at_ms, end))) => {
            let lasted = span_text(at_ms.saturating_sub(alarm.since_ms));
            let how = match end {
                AlarmEnd::Back => format!("as before ({})", alarm.before),
                AlarmEnd::Changed => "it has changed again".to_owned(),
                AlarmEnd::Accepted => {
                    "the values have not returned, and are the new baseline".to_owned()
                }
            };
            format!("{peer}: {name} is over: {how}; {} since {since}, for {lasted}", alarm.what)
        }
        _ => format!(
            "{peer}: {name}: {} since {since}; seen: {}; do: `lustrine doctor --to {peer}`; {}",
            alarm.what,
            alarm.evidence,
            alarm.kind.advice()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_and_a_unit() {
        assert_eq!(time_text(10_130_000), "10.1 ms");
        assert_eq!(
            [5_000, 94_100_000, 9_410_000_000].map(rate_text),
            ["5.00 kb/s", "94.1 Mb/s", "9.41 Gb/s"]
        );
        let spans = [4_000, 64_000, 3_660_000, 90_000_000].map(span_text);
        assert_eq!(spans, ["4 s", "1 min 4 s", "1 h 1 min", "1 d 1 h"]);
    }
}
