//! Values that travel between event loops and from other threads to them.

use std::sync::{Arc, mpsc};

use lustrine_lnet::shard::PeerTableFull;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::home_of;
use lustrine_partition::{Change, NodePartition, ProbeResult};
use lustrine_selftest::console::{Answer, Command, ConsoleRpc, Refusal, RpcOutcome};
use lustrine_selftest::{
    ClientArgs, ClientError, ClientSlot, CptMessage, LoadProgress, LoadStep, ServicePolicy,
};
use lustrine_socklnd::Handoff;
use lustrine_sys::{Socket, SocketOptions};
use lustrine_wire::nid::Nid;

use crate::error::LoadError;
use crate::listener::Bound;
use crate::loop_io::LoopIo;
use crate::snapshot::{LoopConns, LoopReport, LoopSnapshot, SnapshotQuery};

/// The slot of the one load that an event loop has at once.
pub(crate) const LOAD_SLOT: ClientSlot = ClientSlot(1);

/// Something that an event loop does between two turns.
pub(crate) type Work = Box<dyn FnOnce(Time, &mut NodePartition, &mut LoopIo) + Send>;

/// The messages to an event loop.
pub(crate) enum LoopMessage {
    /// Close everything and end.
    Stop,
    /// Answer with the number of the loop's CPT: the loop is alive.
    Heartbeat(mpsc::Sender<u16>),
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
    /// Report open connections, those of one peer NID only if one is named.
    Conns(Option<Nid>, mpsc::Sender<LoopConns>),
    /// Apply a change.
    Change(Box<ChangeOrder>),
    /// A command for a selftest load.
    Load(LoadRequest),
    /// A console's RPC to a node of this loop, and the receiver of its result.
    ConsoleRpc(Box<ConsoleRpc>, mpsc::Sender<ConsoleMessage>),
    /// The console does not need an RPC any more.
    CancelConsoleRpc(u64),
    /// Something to do with the partition: services of users are registered and called so.
    Work(Work),
}

/// Changes to a loop, which it applies in one turn.
pub(crate) struct ChangeOrder {
    pub(crate) changes: Arc<[Change]>,
    /// The consoles that the selftest service accepts from now on.
    pub(crate) selftest: Option<Arc<ServicePolicy>>,
    /// Listeners and claims of interfaces that are added; for the loop that has all of them.
    pub(crate) bound: Bound,
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
    /// The loop closes its connections and ends.
    Stop,
}

/// A load, among all of a node. An event loop ignores requests of a load that another one has
/// replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadId(pub(crate) u64);

/// Commands to a selftest client, from the owner of the load.
pub(crate) enum LoadRequest {
    /// Make a session with a node.
    Start { args: Box<ClientArgs>, load: LoadId, reply: mpsc::Sender<Result<(), LoadError>> },
    /// Run a step.
    LoadStep { step: LoadStep, load: LoadId, reply: mpsc::Sender<Result<(), LoadError>> },
    /// Report the progress.
    Progress { load: LoadId, reply: mpsc::Sender<Result<LoadReport, LoadError>> },
    /// End the step and the session.
    Finish { load: LoadId },
}

/// The progress of a selftest load.
#[derive(Clone, Debug)]
pub(crate) struct LoadReport {
    /// Whether the session with the node is established.
    pub(crate) connected: bool,
    /// Whether no step is running.
    pub(crate) step_finished: bool,
    /// Whether an RPC of the step has succeeded, also before the measured time.
    pub(crate) has_progressed: bool,
    /// The session is removed, or the client gave up.
    pub(crate) finished: bool,
    /// The reason if it gave up.
    pub(crate) error: Option<ClientError>,
    /// Results of the running step, or of the last one.
    pub(crate) snapshot: LoadProgress,
}

/// The loop that owns a peer.
pub(crate) fn home_loop(nid: &Nid, loops: usize) -> usize {
    usize::from(home_of(nid, loops as u16))
}
