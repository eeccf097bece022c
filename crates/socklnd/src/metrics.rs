//! How the counters are published: as which metric, and in the log. A metric has one unit, so what
//! a counter counts decides.

use lustrine_lnet::driver_report::{DriverCounter, DriverMetric};

use crate::counters::Counters;

/// The name of this driver in reports.
const DRIVER: &str = "socklnd";

macro_rules! metrics {
    ($($metric:ident $name:literal $label:expr, $help:literal)*) => {
        $(static $metric: DriverMetric =
            DriverMetric { name: $name, label: $label, help: $help };)*

        /// The metrics of this driver.
        pub static METRICS: &[&DriverMetric] = &[$(&$metric),*];
    };
}

metrics! {
    MESSAGES "lustrine_socklnd_messages_total" Some("event"),
        "Messages of the TCP driver; event is sent or received."
    ZERO_COPY "lustrine_socklnd_zero_copy_messages_total" None,
        "Sent messages whose payload was handed to the kernel without a copy."
    ZERO_COPY_COPIED "lustrine_socklnd_zero_copy_copied_total" None,
        "Writes of zero-copy messages that the kernel copied after all."
    PAYLOAD "lustrine_socklnd_payload_bytes_total" Some("event"),
        "Payload of the TCP driver's messages; event is sent, received and stored, or discarded."
    BYTES "lustrine_socklnd_tcp_bytes_total" Some("event"),
        "Bytes of TCP connections; event is written or read."
    CALLS "lustrine_socklnd_calls_total" Some("call"),
        "System calls on TCP connections; call is write or read."
    ZERO_COPY_ACKS "lustrine_socklnd_zero_copy_acks_total" Some("event"),
        "Acknowledgements of zero-copy messages; event is sent, carried by a message, or received."
    KEEPALIVES "lustrine_socklnd_keepalives_total" Some("event"),
        "Keepalives of LNet; event is sent or received."
    CONNECTIONS "lustrine_socklnd_connections_total" Some("event"),
        "Events of TCP connections; event is accepted (before any check), refused_full, \
         opened_passive or opened_active (after the HELLO), closed, handed_off to another CPU \
         partition, or adopted there."
    DIALS "lustrine_socklnd_dials_total" Some("event"),
        "Dials; event is begun or failed, or for dials that were not made forbidden_ipv6 or \
         without_privilege."
    EVENTS "lustrine_socklnd_events_total" Some("event"),
        "Other events of the TCP driver: answers to a HELLO, lost connections, time-outs, protocol \
         violations; event is the name in `lustrine show stats --all`."
}

impl Counters {
    /// The counters as reports have them, in the order of declaration.
    pub fn rows(&self) -> impl Iterator<Item = DriverCounter> {
        self.iter().map(|(name, value)| {
            let (metric, label) = metric_of(name);
            DriverCounter { driver: DRIVER, name, value, metric, label, log: log_of(name) }
        })
    }
}

/// The metric of a counter, and the value of its label if it has one.
fn metric_of(counter: &'static str) -> (&'static DriverMetric, Option<&'static str>) {
    let (metric, value) = match counter {
        "messages_sent" => (&MESSAGES, "sent"),
        "messages_received" => (&MESSAGES, "received"),
        "zero_copy_sent" => return (&ZERO_COPY, None),
        "zero_copy_copied" => return (&ZERO_COPY_COPIED, None),
        "payload_sent" => (&PAYLOAD, "sent"),
        "payload_received" => (&PAYLOAD, "received"),
        "payload_discarded" => (&PAYLOAD, "discarded"),
        "bytes_written" => (&BYTES, "written"),
        "bytes_read" => (&BYTES, "read"),
        "writes" => (&CALLS, "write"),
        "reads" => (&CALLS, "read"),
        "zero_copy_acks_sent" => (&ZERO_COPY_ACKS, "sent"),
        "zero_copy_acks_carried" => (&ZERO_COPY_ACKS, "carried"),
        "zero_copy_acks_received" => (&ZERO_COPY_ACKS, "received"),
        "keepalives_sent" => (&KEEPALIVES, "sent"),
        "keepalives_received" => (&KEEPALIVES, "received"),
        "accepted" | "refused_full" | "handshakes_evicted" | "userland_evicted"
        | "nodes_evicted" | "opened_passive" | "opened_active" | "closed" | "handed_off"
        | "adopted" => (&CONNECTIONS, counter),
        "dialled" => (&DIALS, "begun"),
        "dials_failed" => (&DIALS, "failed"),
        "dials_forbidden_ipv6" => (&DIALS, "forbidden_ipv6"),
        "dials_without_privilege" => (&DIALS, "without_privilege"),
        other => (&EVENTS, other),
    };
    (metric, Some(value))
}

/// What the log says when a counter grows.
pub(crate) fn log_of(counter: &str) -> Option<&'static str> {
    let what = match counter {
        "refused_full"
        | "handshakes_evicted"
        | "claims_refused"
        | "foreign_address"
        | "bad_source_port"
        | "bad_request_magic"
        | "bad_request_version"
        | "bad_request_target"
        | "wrong_target"
        | "slow_handshake"
        | "bad_hello_magic"
        | "bad_hello_version"
        | "bad_hello_kind"
        | "bad_hello_source"
        | "bad_hello" => "connections refused",
        "handshakes_broken"
        | "dials_failed"
        | "dials_forbidden_ipv6"
        | "dials_without_privilege"
        | "rejected"
        | "busy"
        | "timeouts_dial"
        | "bad_answer_identity"
        | "bad_answer_kind" => "connections not made",
        // Most peers that close between two messages have just ended ("closed_by_peer").
        "broken" | "closed_midway" | "restarts_seen" | "displaced" | "userland_evicted"
        | "nodes_evicted" | "timeouts_receive" | "timeouts_send" | "timeouts_zero_copy" => {
            "peers lost"
        }
        "bad_frame"
        | "bad_header"
        | "bad_keepalive"
        | "unknown_cookie"
        | "ack_backlog"
        | "bad_checksum"
        | "truncated"
        | "wrong_destination"
        | "payload_on_ack_or_get"
        | "payload_too_long"
        | "unexpected_hello"
        | "bad_source" => "protocol violations",
        _ => return None,
    };
    Some(what)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_counter_has_a_place_of_its_own() {
        let mut places = BTreeSet::new();
        for row in Counters::default().rows() {
            let name = row.name;
            assert!(places.insert((row.metric, row.label)), "{name} is where another one is");
            assert_eq!(row.metric.label.is_some(), row.label.is_some(), "{name}");
            let bytes = row.metric.name.ends_with("_bytes_total");
            let of_bytes = ["bytes_", "payload_sent", "payload_received", "payload_discarded"];
            assert_eq!(bytes, of_bytes.iter().any(|of| name.starts_with(of)), "{name}");
        }
        let used: BTreeSet<&DriverMetric> = places.iter().map(|(metric, _)| *metric).collect();
        assert_eq!(used, METRICS.iter().copied().collect());
    }

    /// Every name that the log has is that of a counter: a counter that is renamed would be
    /// missing in the log otherwise.
    #[test]
    fn the_log_mentions_as_many_counters_as_it_names() {
        let mut logged: Vec<(&str, usize)> = Vec::new();
        for what in Counters::default().rows().filter_map(|row| row.log) {
            match logged.iter_mut().find(|(other, _)| *other == what) {
                Some((_, count)) => *count += 1,
                None => logged.push((what, 1)),
            }
        }
        logged.sort_unstable();
        let expected = [
            ("connections not made", 9),
            ("connections refused", 15),
            ("peers lost", 9),
            ("protocol violations", 12),
        ];
        assert_eq!(logged, expected);
    }
}
