//! Counters of a node, as the STAT reply shows them [LST-11].

use lustrine_lnet::stats::Stats;
use lustrine_wire::srpc::{LnetCounters, RpcCounters};

/// Counters of RPCs since the service began. On the wire all but the byte counts are cut to 32
/// bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RpcTotals {
    /// LNet events with an error other than a cancellation.
    pub errors: u64,
    /// Requests sent.
    pub sent: u64,
    /// Requests received, bad ones too.
    pub received: u64,
    /// Requests that were not served with success.
    pub dropped: u64,
    /// Own requests that timed out.
    pub expired: u64,
    /// Bytes pulled as server.
    pub bulk_get: u64,
    /// Bytes pushed as server.
    pub bulk_put: u64,
}

impl RpcTotals {
    /// Adds another partition's.
    pub fn add(&mut self, other: &RpcTotals) {
        self.errors += other.errors;
        self.sent += other.sent;
        self.received += other.received;
        self.dropped += other.dropped;
        self.expired += other.expired;
        self.bulk_get += other.bulk_get;
        self.bulk_put += other.bulk_put;
    }

    pub(crate) fn to_wire(self) -> RpcCounters {
        RpcCounters {
            errors: self.errors as u32,
            sent: self.sent as u32,
            received: self.received as u32,
            dropped: self.dropped as u32,
            expired: self.expired as u32,
            bulk_get: self.bulk_get,
            bulk_put: self.bulk_put,
        }
    }
}

/// Failed client RPCs of the present session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionErrors {
    pub(crate) brw: u64,
    pub(crate) ping: u64,
}

impl SessionErrors {
    pub(crate) fn add(&mut self, other: &SessionErrors) {
        self.brw += other.brw;
        self.ping += other.ping;
    }
}

/// LNet's counters in the form of the STAT reply. This node routes nothing yet.
pub(crate) fn lnet_to_wire(stats: &Stats) -> LnetCounters {
    LnetCounters {
        msgs_alloc: stats.msgs_alloc as u32,
        msgs_max: stats.msgs_max as u32,
        errors: stats.errors as u32,
        send_count: stats.sent.total() as u32,
        recv_count: stats.received.total() as u32,
        route_count: 0,
        drop_count: stats.dropped.total() as u32,
        send_length: stats.send_length,
        recv_length: stats.recv_length,
        route_length: 0,
        drop_length: stats.drop_length,
    }
}
