//! The table of metrics: name, kind, labels and one sentence for each.
//!
//! The name of a metric never changes, since dashboards and alerts use it; a new metric gets a new
//! name. Drivers declare metrics of their own beside these.

use core::fmt::Write;

use lustrine_lnet::driver_report::DriverMetric;

/// What a value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A count that only grows, from the node's start on.
    Counter,
    /// The current value.
    Gauge,
    /// Buckets, sum and count that only grow.
    Histogram,
}

impl MetricKind {
    /// Its name in the exposition format.
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name in Prometheus; a histogram's series add `_bucket`, `_sum`, `_count`.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts or measures.
    pub help: &'static str,
}

/// Declares the metrics of a page: an enum, and the table with a row for each of its values.
macro_rules! metrics {
    (
        $all:ident $table:ident
        $($metric:ident $kind:ident $name:literal [$($label:literal)*] $help:literal)*
    ) => {
        /// A metric: its row in the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is documented by its row in the table")]
        pub enum $all { $($metric,)* }

        /// All metrics, in the order of the page and of the reference.
        pub const $table: &[$crate::table::Row] = &[$($crate::table::Row {
            name: $name,
            kind: $crate::table::MetricKind::$kind,
            labels: &[$($label),*],
            help: $help,
        },)*];

        impl $all {
            /// Its row.
            pub fn row(self) -> &'static $crate::table::Row {
                &$table[self as usize]
            }
        }
    };
}
pub(crate) use metrics;

metrics! {
    Metric TABLE
    BuildInfo Gauge "lustrine_build_info" ["version" "identity"]
        "Always 1; the version of the program and how the node dials its peers."
    StartTime Gauge "lustrine_start_time_seconds" []
        "When the node began to serve metrics, as Unix time."
    CpuSeconds Counter "lustrine_cpu_seconds_total" []
        "CPU time of the process, user and system."
    ResidentMemory Gauge "lustrine_resident_memory_bytes" []
        "Memory of the process that is in RAM."
    MappedMemory Gauge "lustrine_message_memory_bytes" []
        "Memory mapped for messages, and for received data that are kept."
    Partitions Gauge "lustrine_cpu_partitions" []
        "CPU partitions, one event loop each."
    Nis Gauge "lustrine_nis" []
        "Interfaces of the node."
    NisLeftOut Gauge "lustrine_nis_left_out" []
        "Interfaces without series here: only the 32 that the node had first have any."
    NiCredits Gauge "lustrine_ni_credits" ["nid"]
        "Send credits of an interface: messages that may be in flight at once."
    NiCreditsFree Gauge "lustrine_ni_credits_free" ["nid"]
        "Send credits of an interface that are free."
    NiCreditsMin Gauge "lustrine_ni_credits_min" ["nid"]
        "The lowest number of free send credits of an interface; below 0 while messages wait."
    NiWaiting Gauge "lustrine_ni_waiting_messages" ["nid"]
        "Messages that wait for a credit of the interface."
    NiMessages Counter "lustrine_ni_messages_total" ["nid" "event"]
        "Messages by interface; event is sent, received, or dropped after it was received."
    NiLatency Histogram "lustrine_ni_latency_seconds" ["nid" "operation"]
        "How long operations of an interface took, with all peers together (docs/metrics.md)."
    Messages Counter "lustrine_messages_total" ["type" "event"]
        "LNet messages; type is put, get, reply or ack, event sent, received or dropped."
    MessageBytes Counter "lustrine_message_bytes_total" ["event"]
        "Payload of PUT and REPLY; event is sent, received and stored, or dropped."
    MessagesActive Gauge "lustrine_messages_active" []
        "Messages in progress."
    MessagesActiveMax Gauge "lustrine_messages_active_max" []
        "The highest number of messages in progress, summed over the partitions."
    FailedMessages Counter "lustrine_failed_messages_total" ["class"]
        "Messages that ended with an error; class is LNet's health class: local_error, \
         remote_dropped, remote_error, network_timeout, or none."
    ResponseTimeouts Counter "lustrine_response_timeouts_total" []
        "ACKs and REPLYs that did not arrive in time."
    ResponsesRefused Counter "lustrine_responses_refused_total" []
        "Responses that were not sent because too many were waiting, for peers that do not read."
    Misbehaved Counter "lustrine_misbehaved_headers_total" []
        "LNet headers for which the connections of a peer were closed."
    LatenciesLeftOut Counter "lustrine_latencies_left_out_total" []
        "Operations that count for the interface only, because latency_peers peers have histograms."
    WaitingMessages Gauge "lustrine_waiting_messages" ["credit"]
        "Messages that wait for a credit of their peer (peer) or of the interface (ni)."
    Connections Gauge "lustrine_connections" ["type"]
        "Open connections of peers; type is control, bulk_in, bulk_out or any."
    Streams Gauge "lustrine_tcp_connections" []
        "TCP connections of the node, including those in their HELLO."
    SelftestRpcs Counter "lustrine_selftest_rpcs_total" ["event"]
        "RPCs of the selftest service; event is sent, received, dropped, expired or error."
    SelftestBytes Counter "lustrine_selftest_bulk_bytes_total" ["direction"]
        "Bulk data of selftest as server; direction is get (pulled) or put (pushed)."
    Peers Gauge "lustrine_peers" []
        "Known peer NIDs."
    PeersLeftOut Gauge "lustrine_peers_left_out" []
        "Peer NIDs without series here: only the 128 with most messages have any."
    PeerReady Gauge "lustrine_peer_ready" ["peer"]
        "1 when messages may flow to a peer NID, 0 before its discovery has ended."
    PeerCredits Gauge "lustrine_peer_credits" ["peer"]
        "Send credits of a peer NID."
    PeerCreditsFree Gauge "lustrine_peer_credits_free" ["peer"]
        "Send credits of a peer NID that are free."
    PeerCreditsMin Gauge "lustrine_peer_credits_min" ["peer"]
        "The lowest number of free send credits of a peer NID; below 0 while messages wait."
    PeerWaiting Gauge "lustrine_peer_waiting_messages" ["peer"]
        "Messages that wait for a credit of the peer NID."
    PeerWindow Gauge "lustrine_peer_window_bytes" ["peer"]
        "Bytes of selftest's RPCs that may be in flight to a peer NID with tuning: auto \
         (docs/auto-tuning.md); 0 while none are."
    PeerWindowUsed Gauge "lustrine_peer_window_used_bytes" ["peer"]
        "Bytes of selftest's RPCs that are in flight to a peer NID with tuning: auto."
    PeerMessages Counter "lustrine_peer_messages_total" ["peer" "event"]
        "Messages by peer NID; event is sent, received, or dropped."
    PeerConnections Gauge "lustrine_peer_connections" ["peer" "type"]
        "Open connections of a peer NID; type is control, bulk_in, bulk_out or any."
    PeerQueuedBytes Gauge "lustrine_peer_queued_bytes" ["peer"]
        "Bytes that wait in the driver for TCP."
    PeerQueuedMessages Gauge "lustrine_peer_queued_messages" ["peer"]
        "Messages that wait in the driver, for TCP or for a connection."
    PeerLatency Histogram "lustrine_peer_latency_seconds" ["peer" "operation"]
        "How long operations with a peer NID took (docs/metrics.md)."
    Callers Counter "lustrine_metrics_callers_total" ["event"]
        "Connections to the metrics server; event is answered, or dropped: too slow, not HTTP, or \
         too many."
}

impl From<&'static DriverMetric> for Row {
    fn from(metric: &'static DriverMetric) -> Row {
        let DriverMetric { name, label, help } = metric;
        Row { name, kind: MetricKind::Counter, labels: label.as_slice(), help }
    }
}

/// The rows of [`TABLE`], and behind them the metrics that drivers declare.
pub fn rows(drivers: &[&'static DriverMetric]) -> Vec<Row> {
    TABLE.iter().copied().chain(drivers.iter().map(|metric| Row::from(*metric))).collect()
}

/// The text of `docs/metrics.md`, with the metrics that drivers declare.
pub fn metrics_page(drivers: &[&'static DriverMetric]) -> String {
    let mut page = String::from(HEAD);
    for Row { name, kind, labels, help } in rows(drivers) {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "-".to_owned() } else { labels.join(", ") };
        let kind = kind.name();
        writeln!(page, "| `{name}` | {kind} | {labels} | {help} |")
            .expect("a String can be written to");
    }
    page + TAIL
}

const HEAD: &str = include_str!("reference/head.md");

const TAIL: &str = include_str!("reference/tail.md");

#[cfg(test)]
mod tests;
