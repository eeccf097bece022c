//! Messages between the framework and the workers: plain values, so that they can travel between
//! CPU partitions.

use lustrine_lnet::stats::Stats;
use lustrine_lnet::time::Nanos;
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::{Body, Message, Sid};

use crate::counters::{RpcTotals, SessionErrors};
use crate::load::Plan;
use crate::measured::Measured;

/// A value on its way from one CPU partition to another. Opaque: hand it to
/// [`Service::accept_cpt_message`](crate::Service::accept_cpt_message) there.
#[derive(Debug)]
pub struct CptMessage(pub(crate) CptMessageBody);

#[derive(Debug)]
pub(crate) enum CptMessageBody {
    Framework(ToFramework),
    Worker(ToWorker),
}

/// A framework request that waits for its answer: the partition it arrived at, and its slot there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) cpt: u16,
    pub(crate) slot: u32,
}

/// Names a client test instance of this node, in all sessions it will ever have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InstanceId(pub(crate) u64);

/// A framework request of a known service, and the NID that it came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameworkRequest {
    pub(crate) ticket: Ticket,
    pub(crate) from: Nid,
    pub(crate) message: Message,
}

#[derive(Debug)]
pub(crate) enum ToFramework {
    /// A framework request.
    Request(FrameworkRequest),
    /// Whether the node of `console` has the NID that the request came from too.
    Compared { console: Nid, same_node: bool, request: Box<FrameworkRequest> },
    /// The destinations of a TEST; `None` when they could not be fetched.
    Fetched { ticket: Ticket, list: Result<Vec<ProcessId>, FetchError> },
    /// So many units of an instance have ended.
    Ended { instance: InstanceId, units: u32 },
    /// A worker's share of a STAT reply.
    Counted { gather: u32, share: Share },
    /// A worker's share of a client's statistics.
    Measured { gather: u32, share: Box<Measured> },
}

/// Why there is no list of destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchError {
    /// The transfer failed: no reply [LST-8].
    Failed,
    /// No memory for it.
    NoMemory,
    /// It holds a NID that is none, or its end is missing [LST-6].
    Bad,
}

/// One worker's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    pub(crate) rpc: RpcTotals,
    pub(crate) errors: SessionErrors,
    pub(crate) lnet: Stats,
}

#[derive(Debug)]
pub(crate) enum ToWorker {
    /// Send this reply.
    Reply { ticket: Ticket, features: u32, body: Body },
    /// Find out whether the node of `console` has the NID that the request came from too.
    Compare { console: Nid, request: Box<FrameworkRequest> },
    /// Send no reply.
    Silence { ticket: Ticket },
    /// Get `count` destinations from the requester.
    Fetch { ticket: Ticket, bulk_bits: u64, count: u32, len: u32, order: ByteOrder },
    /// Make units: for each destination `concurrency` of them.
    Add { instance: InstanceId, work: Work, destinations: Vec<ProcessId> },
    /// Start the units of an instance.
    Run { instance: InstanceId },
    /// Stop them.
    Stop { instance: InstanceId, how: Stop },
    /// Stop them at once and forget the instance.
    Remove { instance: InstanceId },
    /// A session begins: its error counters too.
    NewSession,
    /// Send your counters.
    Count { gather: u32 },
    /// Report what the units of an instance measured.
    Measure { gather: u32, instance: InstanceId },
    /// Put statistics to the console, then reply that they are there.
    Put { ticket: Ticket, features: u32, bulk_bits: u64, sid: Sid, stats: Vec<u8> },
}

/// How units are stopped [LST-27].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// They finish the RPC they are at.
    Gently,
    /// Their RPCs are given up.
    AtOnce,
}

/// What each unit of an instance does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) plan: Plan,
    /// RPCs per unit; `None` is without end.
    pub(crate) loops: Option<u32>,
    pub(crate) concurrency: u32,
    pub(crate) on_error: OnError,
    /// Least time between two RPCs of the instance on one partition; zero for none.
    pub(crate) interval: Nanos,
}

/// What a failed RPC means to its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnError {
    /// Its end.
    Stop,
    /// Nothing; the next one follows after a pause.
    GoOn,
}
