//! Every metric, declared once: name, kind, labels, one sentence.
//!
//! Names are kept: dashboards and alarms are built on them. What is new gets a new name.

use core::fmt::Write;

/// What a value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, from the node's start on.
    Counter,
    /// What is now.
    Gauge,
    /// Buckets, sum and count that only grow.
    Histogram,
}

impl Kind {
    /// Its name in the exposition format.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name as Prometheus knows it; a histogram's series add `_bucket`, `_sum`, `_count`.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($metric:ident $kind:ident $name:literal [$($label:literal)*] $help:literal)*) => {
        /// A metric: its row in [`TABLE`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is documented by its row in TABLE")]
        pub enum Metric { $($metric,)* }

        /// All metrics, in the order of the page and of the reference.
        pub const TABLE: &[Row] = &[$(Row {
            name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help,
        },)*];
    };
}

metrics! {
    BuildInfo Gauge "lustrine_build_info" ["version" "identity"]
        "Always 1; the version of the program and how the node appears to peers."
    StartTime Gauge "lustrine_start_time_seconds" []
        "When the node began to serve metrics, as Unix time."
    CpuSeconds Counter "lustrine_cpu_seconds_total" []
        "CPU time of the process, user and system."
    ResidentMemory Gauge "lustrine_resident_memory_bytes" []
        "Memory of the process that is in RAM."
    MappedMemory Gauge "lustrine_message_memory_bytes" []
        "Memory mapped for messages."
    Partitions Gauge "lustrine_cpu_partitions" []
        "CPU partitions, one event loop each."
    Nis Gauge "lustrine_nis" []
        "Interfaces of the node."
    NisLeftOut Gauge "lustrine_nis_left_out" []
        "Interfaces that have no series here: only the 32 that the node had first have."
    NiCredits Gauge "lustrine_ni_credits" ["nid"]
        "Send credits of an interface: messages that may be under way at once."
    NiCreditsFree Gauge "lustrine_ni_credits_free" ["nid"]
        "Send credits of an interface that are free."
    NiCreditsMin Gauge "lustrine_ni_credits_min" ["nid"]
        "Fewest send credits of an interface that were free; below 0 by as many messages as waited."
    NiWaiting Gauge "lustrine_ni_waiting_messages" ["nid"]
        "Messages that wait for a credit of the interface."
    NiMessages Counter "lustrine_ni_messages_total" ["nid" "event"]
        "Messages by interface; event is sent, received, or dropped: received and not wanted."
    NiLatency Histogram "lustrine_ni_latency_seconds" ["nid" "operation"]
        "How long operations by an interface took, all peers together (docs/metrics.md)."
    Messages Counter "lustrine_messages_total" ["type" "event"]
        "LNet messages; type is put, get, reply or ack, event sent, received or dropped."
    MessageBytes Counter "lustrine_message_bytes_total" ["event"]
        "Payload of PUT and REPLY; event is sent, received and stored, or dropped."
    MessagesActive Gauge "lustrine_messages_active" []
        "Messages alive."
    MessagesActiveMax Gauge "lustrine_messages_active_max" []
        "Most messages alive at once, all partitions added up."
    FailedMessages Counter "lustrine_failed_messages_total" ["class"]
        "Messages that ended with an error; class is LNet's of its health: local_error, \
         remote_dropped, remote_error, network_timeout, or none."
    ResponseTimeouts Counter "lustrine_response_timeouts_total" []
        "Answers (ACK, REPLY) that never came."
    ResponsesRefused Counter "lustrine_responses_refused_total" []
        "Responses not sent as too many waited: peers that ask and do not read."
    Misbehaved Counter "lustrine_misbehaved_headers_total" []
        "LNet headers that cost a peer its connections."
    LatenciesLeftOut Counter "lustrine_latencies_left_out_total" []
        "Operations timed for the interface only, as latency_peers other peers have histograms."
    WaitingMessages Gauge "lustrine_waiting_messages" ["credit"]
        "Messages that wait for a credit: of their peer, or of the interface (ni)."
    Connections Gauge "lustrine_connections" ["type"]
        "Open connections of peers; type is control, bulk_in, bulk_out or any."
    Streams Gauge "lustrine_tcp_connections" []
        "TCP connections of the node, those in their HELLO included."
    SocklndMessages Counter "lustrine_socklnd_messages_total" ["event"]
        "Messages of the TCP driver; event is sent or received."
    SocklndZeroCopy Counter "lustrine_socklnd_zero_copy_messages_total" []
        "Messages, of those sent, whose payload went out without a copy."
    SocklndPayload Counter "lustrine_socklnd_payload_bytes_total" ["event"]
        "Payload of the TCP driver's messages; event is sent, received and stored, or discarded."
    SocklndBytes Counter "lustrine_socklnd_tcp_bytes_total" ["event"]
        "Bytes that the TCP driver gave to TCP and took from it; event is written or read."
    SocklndCalls Counter "lustrine_socklnd_calls_total" ["call"]
        "Calls that moved bytes of TCP connections; call is write or read."
    SocklndZeroCopyAcks Counter "lustrine_socklnd_zero_copy_acks_total" ["event"]
        "Acknowledgements of zero-copy messages; event is sent, carried by a message, or received."
    SocklndKeepalives Counter "lustrine_socklnd_keepalives_total" ["event"]
        "Keepalives of LNet; event is sent or received."
    SocklndConnections Counter "lustrine_socklnd_connections_total" ["event"]
        "What became of TCP connections; event is accepted (before any check), refused_full, \
         opened_passive or opened_active (after the HELLO), closed, handed_off to another CPU \
         partition, or adopted there."
    SocklndDials Counter "lustrine_socklnd_dials_total" ["event"]
        "Dials; event is begun, failed, or, of those not made: forbidden_ipv6, without_privilege."
    SocklndEvents Counter "lustrine_socklnd_events_total" ["event"]
        "What else happens to the TCP driver: answers to a HELLO, losses, time-outs, wrongs of \
         peers; event is its name in `lustrine show stats --all`."
    SelftestRpcs Counter "lustrine_selftest_rpcs_total" ["event"]
        "RPCs of the selftest service; event is sent, received, dropped, expired or error."
    SelftestBytes Counter "lustrine_selftest_bulk_bytes_total" ["direction"]
        "Bulk data of selftest as server; direction is get (pulled) or put (pushed)."
    Peers Gauge "lustrine_peers" []
        "Peer NIDs that are known."
    PeersLeftOut Gauge "lustrine_peers_left_out" []
        "Peer NIDs that have no series here: only the 128 with most messages have."
    PeerReady Gauge "lustrine_peer_ready" ["peer"]
        "1 when messages may flow to a peer NID, 0 before its discovery has ended."
    PeerCredits Gauge "lustrine_peer_credits" ["peer"]
        "Send credits of a peer NID."
    PeerCreditsFree Gauge "lustrine_peer_credits_free" ["peer"]
        "Send credits of a peer NID that are free."
    PeerCreditsMin Gauge "lustrine_peer_credits_min" ["peer"]
        "Fewest send credits of a peer NID that were free; below 0 by as many messages as waited."
    PeerWaiting Gauge "lustrine_peer_waiting_messages" ["peer"]
        "Messages that wait for a credit of the peer NID."
    PeerMessages Counter "lustrine_peer_messages_total" ["peer" "event"]
        "Messages by peer NID; event is sent, received, or dropped."
    PeerConnections Gauge "lustrine_peer_connections" ["peer" "type"]
        "Open connections of a peer NID; type is control, bulk_in, bulk_out or any."
    PeerQueuedBytes Gauge "lustrine_peer_queued_bytes" ["peer"]
        "Bytes that the driver has and TCP has not taken yet."
    PeerQueuedMessages Gauge "lustrine_peer_queued_messages" ["peer"]
        "Messages of which something waits in the driver, for TCP or for a connection."
    PeerLatency Histogram "lustrine_peer_latency_seconds" ["peer" "operation"]
        "How long operations with a peer NID took (docs/metrics.md)."
    Callers Counter "lustrine_metrics_callers_total" ["event"]
        "Connections to this page's server; event is answered, or dropped: slow, rude or too many."
}

impl Metric {
    /// Its row.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

/// The text of `docs/metrics.md`.
pub fn metrics_page() -> String {
    let mut page = String::from(HEAD);
    for Row { name, kind, labels, help } in TABLE {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "-".to_owned() } else { labels.join(", ") };
        let kind = kind.name();
        writeln!(page, "| `{name}` | {kind} | {labels} | {help} |").expect("a String takes all");
    }
    page + TAIL
}

const HEAD: &str = include_str!("reference/head.md");

const TAIL: &str = include_str!("reference/tail.md");

#[cfg(test)]
mod tests;
