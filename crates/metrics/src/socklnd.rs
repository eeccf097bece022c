//! The metrics of the TCP driver's counters. A metric has one unit, so what they count decides.

use crate::table::Metric;

/// The metric of a counter of the TCP driver, by the counter's name, and the value of its label if
/// it has one.
pub fn counter_metric(counter: &'static str) -> (Metric, Option<&'static str>) {
    use Metric::{
        SocklndBytes, SocklndCalls, SocklndConnections, SocklndDials, SocklndEvents,
        SocklndKeepalives, SocklndMessages, SocklndPayload, SocklndZeroCopy, SocklndZeroCopyAcks,
    };
    let (metric, value) = match counter {
        "messages_sent" => (SocklndMessages, "sent"),
        "messages_received" => (SocklndMessages, "received"),
        "zero_copy_sent" => return (SocklndZeroCopy, None),
        "payload_sent" => (SocklndPayload, "sent"),
        "payload_received" => (SocklndPayload, "received"),
        "payload_discarded" => (SocklndPayload, "discarded"),
        "bytes_written" => (SocklndBytes, "written"),
        "bytes_read" => (SocklndBytes, "read"),
        "writes" => (SocklndCalls, "write"),
        "reads" => (SocklndCalls, "read"),
        "zero_copy_acks_sent" => (SocklndZeroCopyAcks, "sent"),
        "zero_copy_acks_carried" => (SocklndZeroCopyAcks, "carried"),
        "zero_copy_acks_received" => (SocklndZeroCopyAcks, "received"),
        "keepalives_sent" => (SocklndKeepalives, "sent"),
        "keepalives_received" => (SocklndKeepalives, "received"),
        "accepted" | "refused_full" | "handshakes_evicted" | "userland_evicted"
        | "opened_passive" | "opened_active" | "closed" | "handed_off" | "adopted" => {
            (SocklndConnections, counter)
        }
        "dialled" => (SocklndDials, "begun"),
        "dials_failed" => (SocklndDials, "failed"),
        "dials_forbidden_ipv6" => (SocklndDials, "forbidden_ipv6"),
        "dials_without_privilege" => (SocklndDials, "without_privilege"),
        other => (SocklndEvents, other),
    };
    (metric, Some(value))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lustrine_socklnd::Counters;

    use super::*;
    use crate::TABLE;

    #[test]
    fn every_counter_has_a_place_of_its_own() {
        let counters = Counters::default();
        let mut places = BTreeSet::new();
        for (name, _) in counters.iter() {
            let (metric, value) = counter_metric(name);
            assert!(places.insert((metric, value)), "{name} is where another one is");
            assert_eq!(metric.row().labels.len(), usize::from(value.is_some()), "{name}");
            let bytes = metric.row().name.ends_with("_bytes_total");
            let of_bytes = ["bytes_", "payload_sent", "payload_received", "payload_discarded"];
            assert_eq!(bytes, of_bytes.iter().any(|of| name.starts_with(of)), "{name}");
        }
        // No name above is of a counter that there is no more.
        let used: BTreeSet<Metric> = places.iter().map(|(metric, _)| *metric).collect();
        let rows = TABLE.iter().filter(|row| row.name.starts_with("lustrine_socklnd_"));
        assert_eq!(used.len(), rows.count());
    }
}
