//! What both depths of the simulator can do.

use lustrine_lnet::time::{Nanos, Time};
use lustrine_selftest::{Client, ClientArgs, ClientSlot};

use crate::event_log::EventLog;
use crate::fabric::{Fabric, LinkSpec, SiteId};
use crate::network::HostId;
use crate::node::NodeSpec;
use crate::recording::{RecordFilter, Recording};
use crate::tcp::TcpSpec;

/// What working costs a host: a node that had a turn does nothing else until it is paid.
///
/// One CPU per node; a node of several is one of a lower cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCost {
    /// Per LNet message sent or received.
    pub per_message: Nanos,
    /// Per MiB of payload sent or received.
    pub per_mib: Nanos,
}

impl CpuCost {
    /// What so many messages with so many bytes take.
    pub fn of(&self, messages: u64, bytes: u64) -> Nanos {
        let per_byte = (u128::from(bytes) * u128::from(self.per_mib.0)) >> 20;
        let per_byte = u64::try_from(per_byte).unwrap_or(u64::MAX);
        Nanos(messages.saturating_mul(self.per_message.0).saturating_add(per_byte))
    }
}

/// How a node stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopKind {
    /// The process crashes: its host resets the streams.
    Crash,
    /// The host loses power: it sends nothing until it is back.
    Silence,
    /// The node closes its connections first.
    Orderly,
}

/// Where a node's host stands.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// At which site.
    pub site: SiteId,
    /// Behind which interface.
    pub interface: LinkSpec,
    /// What working costs it.
    pub cost: CpuCost,
    /// TCP of its streams; the message level knows its buffers only.
    pub tcp: TcpSpec,
}

/// For what messages of a node have waited since it started: sums over all messages, in message
/// nanoseconds. Divided by the time it is the mean number that waited (Little's law).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTotals {
    /// For a credit of the peer.
    pub peer_credits: u64,
    /// For a credit of the interface.
    pub ni_credits: u64,
    /// In the driver: for a connection, or for room in its stream.
    pub driver: u64,
    /// Sent without copying, for the other end's word that it has them: they hold their credits.
    pub zero_copy: u64,
    /// Time the host's CPU was at work, in nanoseconds.
    pub cpu: u64,
    /// Messages sent and received.
    pub messages: u64,
}

/// A network in virtual time, at either depth.
pub trait Simulation {
    /// The time.
    fn now(&self) -> Time;

    /// Sites and links.
    fn fabric(&mut self) -> &mut Fabric;

    /// Adds a node behind an interface at a site.
    fn add_node_at(&mut self, spec: NodeSpec, place: Placement) -> HostId;

    /// Ends a node; what it was made from is returned, to start it again.
    fn stop(&mut self, host: HostId, stop_kind: StopKind) -> NodeSpec;

    /// Starts a node where one was stopped.
    fn start(&mut self, host: HostId, spec: NodeSpec);

    /// Starts a load on a node; it acts from the next moment on.
    ///
    /// # Panics
    /// When the node is away, or a client of this slot is not finished.
    fn start_client(&mut self, host: HostId, args: ClientArgs);

    /// A node's client, and a turn for the node afterwards; `None` when the node is away or has
    /// no such client.
    fn client(&mut self, host: HostId, slot: ClientSlot) -> Option<&mut Client>;

    /// Lets time pass until then.
    fn run_to(&mut self, time: Time);

    /// For what a node's messages waited; `None` while it is away.
    fn waits(&self, host: HostId) -> Option<WaitTotals>;

    /// What happened so far.
    fn event_log(&self) -> &EventLog;

    /// Has all nodes that come keep journals, and keeps of them what is wanted. It changes nothing
    /// in what happens.
    ///
    /// # Panics
    /// When there are nodes already: what they did so far nobody has noted.
    fn record(&mut self, wanted: RecordFilter);

    /// What was recorded, if anything was to be; nothing is recorded any more.
    fn take_recording(&mut self) -> Option<Recording>;

    /// What is wrong now that all is to be quiet; empty when nothing is.
    fn leftovers(&self) -> Vec<String>;
}
