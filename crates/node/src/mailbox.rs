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

/// What a loop may find in its mailbox.
pub(crate) enum LoopMessage {
    /// Close everything and end.
    Stop,
    /// Between selftest services.
    CptMessage(Box<CptMessage>),
    /// A connection whose peer lives here.
    Handoff(Box<(Socket, Handoff)>),
    /// Ping a peer that lives here.
    Ping { nid: Nid, timeout: Nanos, reply: mpsc::Sender<ProbeResult> },
    /// Discover a peer that lives here.
    Discover { nid: Nid, timeout: Nanos, reply: mpsc::Sender<ProbeResult> },
    /// Tell about yourself.
    Report(mpsc::Sender<LoopReport>),
    /// Tell of latencies, and of some peers all that there is.
    Snapshot(SnapshotQuery, mpsc::Sender<LoopSnapshot>),
    /// Change something.
    Change(Box<ChangeOrder>),
    /// About a selftest load.
    Load(LoadRequest),
    /// A console's order for a node that lives here, and where its outcome goes.
    ConsoleRpc(Box<ConsoleRpc>, mpsc::Sender<ConsoleMessage>),
}

/// What a loop is to change, all in one turn.
pub(crate) struct ChangeOrder {
    pub(crate) changes: Arc<[Change]>,
    /// Listeners of interfaces that are added; for the loop that has the listeners.
    pub(crate) listeners: Vec<BoundListener>,
    /// How streams are set up from now on, and how the loop waits.
    pub(crate) options: Option<(SocketOptions, i64)>,
    pub(crate) reply: mpsc::Sender<Result<(), PeerTableFull>>,
}

/// What a console's thread may find in its mailbox.
pub(crate) enum ConsoleMessage {
    /// Somebody gives a command.
    Command { key: u32, command: Command, reply: mpsc::Sender<Result<Answer, Refusal>> },
    /// Somebody wants to know whether there is a session.
    InUse(mpsc::Sender<bool>),
    /// An order is over.
    RpcOutcome(RpcOutcome),
    /// End.
    Stop,
}

/// What a selftest client is told.
pub(crate) enum LoadRequest {
    /// Make a session with a node.
    Start(Box<ClientArgs>, mpsc::Sender<Result<(), LoadError>>),
    /// Run a rung.
    LoadStep(LoadStep, mpsc::Sender<Result<(), LoadError>>),
    /// Tell how far you are.
    Progress(mpsc::Sender<LoadReport>),
    /// End the rung and the session.
    Finish,
}

/// Why a load order was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// There is a load already.
    #[error("another selftest load is running on this node")]
    Busy,
    /// There is no load.
    #[error("no selftest load was started")]
    None,
    /// The rung was not taken.
    #[error(transparent)]
    LoadStep(#[from] LoadStepError),
    /// The event loop does not answer.
    #[error("the node does not answer; one of its event loops has failed")]
    Gone,
}

/// How far a selftest load is.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// The session with the node stands.
    pub connected: bool,
    /// No rung runs.
    pub step_finished: bool,
    /// The session is removed, or the client gave up.
    pub finished: bool,
    /// Why it gave up.
    pub error: Option<ClientError>,
    /// Figures of the rung that runs, or of the last one.
    pub snapshot: LoadProgress,
}

/// What one event loop tells about itself.
#[derive(Clone, Debug)]
pub(crate) struct LoopReport {
    /// The CPU partition.
    pub cpt: u16,
    /// Interfaces, with this partition's share of credits.
    pub nis: Vec<NiInfo>,
    /// Peers that live here, as the core knows them.
    pub peers: Vec<PeerInfo>,
    /// The same, as the driver knows them.
    pub links: Vec<DriverPeer>,
    /// The core's counters.
    pub stats: Stats,
    /// The driver's counters.
    pub driver: Vec<DriverCounter>,
    /// TCP connections open.
    pub connections: usize,
    /// Memory mapped for messages, in bytes.
    pub memory_mapped: u64,
}
