//! `lustrine show latency`: a line per peer and operation.

use std::fmt::Write as _;

use lustrine_control::{Answer, LatencyRow, OperationLatency};
use lustrine_report::numbers::counted;

use super::STRING;

const HEAD: &str = "    operation      samples       p50       p90       p99     p99.9       max\n";

const NOTES: &str = "\
Times in microseconds, from when a message is handed to the driver: put_egress: until the driver
no longer needs the memory of a PUT; get_rtt: until the REPLY to a GET is stored; put_ack: until
the ACK of a PUT is there. A percentile is at most 12.5 % above the true value. 0 and 0.13: the
operation ended in the event loop iteration in which it began, as a PUT sent without zero copy does.
";

/// The answer as text; empty for another kind of answer.
pub(super) fn text(answer: &Answer) -> String {
    let Answer::Latency { nets, peers, peers_left_out, samples_left_out } = answer else {
        return String::new();
    };
    let timed = |row: &&LatencyRow| !row.operations.is_empty();
    let of_nets = nets.iter().filter(timed).map(|row| rows_text("all peers of", row));
    let of_peers = peers.iter().filter(timed).map(|row| rows_text("peer", row));
    let mut text: String = of_nets.chain(of_peers).collect();
    if text.is_empty() {
        return "no latencies yet\n".to_owned();
    }
    text += NOTES;
    if *peers_left_out > 0 {
        let peers = counted(*peers_left_out, "peer");
        writeln!(text, "Left out: {peers} with fewer messages; --nid shows one").expect(STRING);
    }
    if *samples_left_out > 0 {
        writeln!(
            text,
            "Counted for the interface alone: {}, because there are more peers than latency_peers",
            counted(*samples_left_out, "operation")
        )
        .expect(STRING);
    }
    text
}

fn rows_text(what: &str, row: &LatencyRow) -> String {
    let mut text = format!("{what} {}\n{HEAD}", row.nid);
    for (name, latency) in &row.operations {
        let OperationLatency { summary, p50_nsec, p90_nsec, p99_nsec, p999_nsec, .. } = latency;
        write!(text, "    {name:11} {:10}", summary.samples).expect(STRING);
        for nsec in [*p50_nsec, *p90_nsec, *p99_nsec, *p999_nsec, summary.max_nsec] {
            write!(text, " {:>9}", micros(nsec)).expect(STRING);
        }
        text.push('\n');
    }
    text
}

/// Three significant digits.
fn micros(nsec: u64) -> String {
    let micros = nsec as f64 / 1e3;
    match nsec {
        0 => "0".to_owned(),
        1..10_000 => format!("{micros:.2}"),
        10_000..100_000 => format!("{micros:.1}"),
        _ => format!("{micros:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lustrine_control::SummaryRow;

    use super::*;

    fn row(nid: &str) -> LatencyRow {
        let summary =
            SummaryRow { samples: 12, min_nsec: 900, max_nsec: 1_234_567, avg_nsec: 50_000 };
        let latency = OperationLatency {
            summary,
            p50_nsec: 0,
            p90_nsec: 9_999,
            p99_nsec: 81_919,
            p999_nsec: 1_234_567,
            buckets: Vec::new(),
        };
        let operations = BTreeMap::from([("get_rtt".to_owned(), latency)]);
        LatencyRow { nid: nid.parse().unwrap(), operations }
    }

    #[test]
    fn there_is_a_line_per_peer_and_operation() {
        let answer = Answer::Latency {
            nets: vec![row("10.0.0.1@tcp")],
            peers: vec![row("10.0.0.2@tcp")],
            peers_left_out: 3,
            samples_left_out: 0,
        };
        let text = text(&answer);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "all peers of 10.0.0.1@tcp");
        assert_eq!(lines[3], "peer 10.0.0.2@tcp");
        let line = "    get_rtt             12         0     10.00      81.9      1235      1235";
        assert_eq!(lines[5], line);
        assert_eq!(lines[1].len(), line.len());
        assert!(text.ends_with("\nLeft out: 3 peers with fewer messages; --nid shows one\n"));
        assert!(lines.iter().all(|line| line.len() <= 100), "{text}");
    }

    #[test]
    fn the_absence_of_latencies_is_reported() {
        let (nets, peers) = (Vec::new(), Vec::new());
        let none = Answer::Latency { nets, peers, peers_left_out: 0, samples_left_out: 0 };
        assert_eq!(text(&none), "no latencies yet\n");
    }
}
