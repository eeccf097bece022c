//! The operations that both fidelities of the simulator have.

use lustrine_lnet::time::Time;
use lustrine_selftest::{Client, ClientArgs, ClientSlot};
use serde::{Deserialize, Serialize};

use crate::costs::{CpuCost, WaitTotals};
use crate::event_log::EventLog;
use crate::fabric::{Fabric, LinkSpec, SiteId};
use crate::network::HostId;
use crate::node::NodeSpec;
use crate::recording::{RecordFilter, Recording};
use crate::tcp::TcpSpec;

/// How a node stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
