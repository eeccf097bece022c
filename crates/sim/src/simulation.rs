//! The operations that both fidelities of the simulator have.

use lustrine_lnet::time::{Nanos, Time};
use lustrine_selftest::{Client, ClientArgs, ClientSlot};

use crate::event_log::EventLog;
use crate::fabric::{Fabric, LinkSpec, SiteId};
use crate::network::HostId;
use crate::node::NodeSpec;
use crate::recording::{RecordFilter, Recording};
use crate::tcp::TcpSpec;

/// The CPU time of a host's work: after a turn the node does nothing else until that time has
/// passed.
///
/// There is one CPU per node; several CPUs are modelled as one with a lower cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCost {
    /// Per LNet message sent or received.
    pub per_message: Nanos,
    /// Per MiB of payload sent or received.
    pub per_mib: Nanos,
}

impl CpuCost {
    /// The CPU time of this number of messages with this number of bytes.
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

/// The place of a node's host.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Its site.
    pub site: SiteId,
    /// Its interface.
    pub interface: LinkSpec,
    /// The CPU time of its work.
    pub cost: CpuCost,
    /// The TCP of its streams; the message fidelity uses only its buffers.
    pub tcp: TcpSpec,
}

/// What messages of a node have waited for since it started: sums over all messages, in message
/// nanoseconds. Divided by the time, they are mean numbers of waiting messages (Little's law).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTotals {
    /// For a credit of the peer.
    pub peer_credits: u64,
    /// For a credit of the interface.
    pub ni_credits: u64,
    /// In the driver: for a connection, or for room in its stream.
    pub driver: u64,
    /// Sent without copying, for the peer's acknowledgement; these messages hold their credits.
    pub zero_copy: u64,
    /// Time in which the host's CPU was busy, in nanoseconds.
    pub cpu: u64,
    /// Messages sent and received.
    pub messages: u64,
}

/// A network in virtual time, at either fidelity.
pub trait Simulation {
    /// The time.
    fn now(&self) -> Time;

    /// Sites and links.
    fn fabric(&mut self) -> &mut Fabric;

    /// Adds a node behind an interface at a site.
    fn add_node_at(&mut self, spec: NodeSpec, place: Placement) -> HostId;

    /// Ends a node; returns its specification, to start it again.
    fn stop(&mut self, host: HostId, stop_kind: StopKind) -> NodeSpec;

    /// Starts a node where one was stopped.
    fn start(&mut self, host: HostId, spec: NodeSpec);

    /// Starts a load on a node; it begins with the next event.
    ///
    /// # Panics
    /// When the node is away, or a client of this slot is not finished.
    fn start_client(&mut self, host: HostId, args: ClientArgs);

    /// A node's client, and a turn for the node afterwards; `None` when the node is away or has no
    /// such client.
    fn client(&mut self, host: HostId, slot: ClientSlot) -> Option<&mut Client>;

    /// Lets time pass until `end`.
    fn run_to(&mut self, time: Time);

    /// What a node's messages waited for; `None` while it is away.
    fn waits(&self, host: HostId) -> Option<WaitTotals>;

    /// The events so far.
    fn event_log(&self) -> &EventLog;

    /// Makes all nodes that are added keep journals, and records what `wanted` describes. This does
    /// not affect the simulation.
    ///
    /// # Panics
    /// When there are nodes already, because their past is not in any journal.
    fn record(&mut self, wanted: RecordFilter);

    /// What was recorded, if anything was requested; the recording ends.
    fn take_recording(&mut self) -> Option<Recording>;

    /// Violations when everything should be quiet; empty if there are none.
    fn leftovers(&self) -> Vec<String>;
}
