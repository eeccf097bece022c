//! Values that travel between event loops and from other threads to them.

use std::sync::{Arc, mpsc};

use lustrine_lnet::driver_report::{DriverCounter, DriverPeer};
use lustrine_lnet::shard::{NiInfo, PeerInfo, PeerTableFull};
use lustrine_lnet::stats::Stats;
use lustrine_lnet::time::Nanos;
use lustrine_partition::{Change, ProbeResult};
use lustrine_selftest::console::{Answer, Command, ConsoleRpc, Refusal, RpcOutcome};
use lustrine_selftest::{
    ClientArgs, ClientError, CptMessage, LoadProgress, LoadStep, LoadStepError,
};
use lustrine_socklnd::Handoff;
use lustrine_sys::{Socket, SocketOptions};
use lustrine_wire::nid::Nid;

use crate::event_loop::BoundListener;
use crate::snapshot::{LoopSnapshot, SnapshotQuery};

/// The messages to an event loop.
pub(crate) enum LoopMessage {
    /// Close everything and end.
    Stop,
    /// A message between selftest services.
    CptMessage(Box<CptMessage>),
    /// A connection whose peer belongs to this loop.
    Handoff(Box<(Socket, Handoff)>),
    /// Ping a peer of this loop.
    Ping { nid: Nid, timeout: Nanos, reply: mpsc::Sender<ProbeResult> },
    /// Discover a peer of this loop.
    Discover { nid: Nid, timeout: Nanos, reply: mpsc::Sender<ProbeResult> },
    /// Report the state of the loop.
    Report(mpsc::Sender<LoopReport>),
    /// Report latencies, and everything about some peers.
    Snapshot(SnapshotQuery, mpsc::Sender<LoopSnapshot>),
    /// Apply a change.
    Change(Box<ChangeOrder>),
    /// A command for a selftest load.
    Load(LoadRequest),
    /// A console's RPC to a node of this loop, and the receiver of its result.
    ConsoleRpc(Box<ConsoleRpc>, mpsc::Sender<ConsoleMessage>),
}

/// Changes to a loop, which it applies in one turn.
pub(crate) struct ChangeOrder {
    pub(crate) changes: Arc<[Change]>,
    /// Listeners of interfaces that are added, for the loop that has the listeners.
    pub(crate) listeners: Vec<BoundListener>,
    /// The options of streams from now on, and how the loop waits.
    pub(crate) options: Option<(SocketOptions, i64)>,
    pub(crate) reply: mpsc::Sender<Result<(), PeerTableFull>>,
}

/// The messages to a console's thread.
pub(crate) enum ConsoleMessage {
    /// A command of a caller.
    Command { key: u32, command: Command, reply: mpsc::Sender<Result<Answer, Refusal>> },
    /// A query whether there is a session.
    InUse(mpsc::Sender<bool>),
    /// An RPC has ended.
    RpcOutcome(RpcOutcome),
    /// Stop.
    Stop,
}

/// Commands to a selftest client.
pub(crate) enum LoadRequest {
    /// Make a session with a node.
    Start(Box<ClientArgs>, mpsc::Sender<Result<(), LoadError>>),
    /// Run a step.
    LoadStep(LoadStep, mpsc::Sender<Result<(), LoadError>>),
    /// Report the progress.
    Progress(mpsc::Sender<LoadReport>),
    /// End the step and the session.
    Finish,
}

/// Why a load command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Another load is running.
    #[error("another selftest load is running on this node")]
    Busy,
    /// There is no load.
    #[error("no selftest load was started")]
    None,
    /// The step was refused.
    #[error(transparent)]
    LoadStep(#[from] LoadStepError),
    /// The event loop does not answer.
    #[error("the node does not answer; one of its event loops has failed")]
    Gone,
}

/// The progress of a selftest load.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// Whether the session with the node is established.
    pub connected: bool,
    /// Whether no step is running.
    pub step_finished: bool,
    /// The session is removed, or the client gave up.
    pub finished: bool,
    /// The reason if it gave up.
    pub error: Option<ClientError>,
    /// Results of the running step, or of the last one.
    pub snapshot: LoadProgress,
}

/// The report of one event loop.
#[derive(Clone, Debug)]
pub(crate) struct LoopReport {
    /// The CPU partition.
    pub cpt: u16,
    /// Interfaces, with this partition's share of credits.
    pub nis: Vec<NiInfo>,
    /// Peers of this loop, as the core sees them.
    pub peers: Vec<PeerInfo>,
    /// The same, as the driver sees them.
    pub links: Vec<DriverPeer>,
    /// The core's counters.
    pub stats: Stats,
    /// The driver's counters.
    pub driver: Vec<DriverCounter>,
    /// Number of open TCP connections.
    pub connections: usize,
    /// Memory mapped for messages, in bytes.
    pub memory_mapped: u64,
}
