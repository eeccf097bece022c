//! What is said before it begins.

use std::time::Duration;

use lustrine_report::numbers::{counted, grouped_count};
use lustrine_tune::bytes_text;
use lustrine_watch::{Plan, span_text};

use super::{RunArgs, ms};

/// What will be sent, and what is kept.
pub(super) fn announcement(args: &RunArgs, plan: &Plan) -> String {
    let cost = plan.per_hour();
    let peers = counted(plan.peers, "peer");
    let path = match args.path_every.0 {
        Some(every) => {
            format!("the path every {}: full segments both ways and 36 ICMP messages", time(every))
        }
        None => "no checks of the path".to_owned(),
    };
    let bandwidth = match args.bandwidth_every {
        Some(every) => format!(
            "bandwidth every {}: {} of LNet selftest, half of them reads",
            time(every),
            bytes_text(args.bandwidth_bytes)
        ),
        None => "no bandwidth".to_owned(),
    };
    let most = match cost.bytes_max > cost.bytes {
        true => format!("; at most {} where packets disappear", bytes_text(cost.bytes_max)),
        false => String::new(),
    };
    format!(
        "{peers}: {} every {}; {path}; {bandwidth}\nin an hour: {} messages{}, {} sent and \
         received{most}\n",
        counted(plan.pings, "ping"),
        time(args.every),
        grouped_count(cost.messages),
        match cost.load_bytes {
            0 => "",
            _ => " and those of the bandwidth",
        },
        bytes_text(cost.bytes),
    )
}

fn time(time: Duration) -> String {
    match ms(time) {
        short @ ..1000 => format!("{short} ms"),
        long => {
            let text = span_text(long);
            // Whole minutes and hours.
            let text = text.strip_suffix(" 0 s").or(text.strip_suffix(" 0 min")).unwrap_or(&text);
            text.strip_suffix(" 0 h").unwrap_or(text).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_short() {
        let times =
            [500, 10_000, 300_000, 90_000, 3_600_000, 86_400_000].map(Duration::from_millis);
        assert_eq!(times.map(time), ["500 ms", "10 s", "5 min", "1 min 30 s", "1 h", "1 d"]);
        let sizes = [1536, 64 << 20, 46_083 << 20].map(bytes_text);
        assert_eq!(sizes, ["1.50 KiB", "64.0 MiB", "45.0 GiB"]);
    }
}
