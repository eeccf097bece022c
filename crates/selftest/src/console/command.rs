//! What a console is asked, and what it answers.

use core::fmt;

use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{ClientStats, Counters, Sid};
use serde::{Deserialize, Serialize};

use super::times::{ACTION, END_MAX, QUERY_MAX, QUESTION_MAX, QUESTION_MIN};
use crate::load::Test;

/// What an administrator wants of a console with `lst`. Names of groups and batches have 1 to
/// 31 bytes, as the session's has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Begins a session.
    NewSession {
        /// Its name, which other consoles see.
        name: String,
        /// Seconds without a command after which it ends; 0 for never.
        timeout: u32,
        /// Ends the session that this console has, and those of others that nodes are in.
        force: bool,
        /// The features to have; nodes may have less.
        features: u32,
    },
    /// Shows the session, whatever key the caller has; it does not keep the session alive.
    ShowSession,
    /// Ends the session, on all nodes. Batches that run are stopped first, and waited for: for
    /// about 70 s at most, and not for clients that do not answer. A node that left while its tests
    /// ran answers [`Detail::Active`]. The command once more, or [`Command::EndSessionAtOnce`],
    /// ends the waiting.
    EndSession,
    /// The same without waiting for batches that run.
    EndSessionAtOnce,
    /// Makes an empty group.
    AddGroup {
        /// Its name.
        group: String,
    },
    /// Adds nodes to a group, and takes them into the session.
    AddNodes {
        /// The group.
        group: String,
        /// The nodes.
        nids: Vec<Nid>,
    },
    /// Removes a group; nodes that are in no other leave the session.
    DeleteGroup {
        /// The group.
        group: String,
    },
    /// Takes those nodes of a group into the session that are not in it.
    RefreshGroup {
        /// The group.
        group: String,
    },
    /// Forgets nodes of a group by their states, without telling them.
    CleanGroup {
        /// The group.
        group: String,
        /// The states of the nodes that are removed.
        states: Vec<NodeState>,
    },
    /// Removes nodes from a group; those that are in no other leave the session.
    RemoveNodes {
        /// The group.
        group: String,
        /// The nodes; those that are not in it are passed over.
        nids: Vec<Nid>,
    },
    /// Names the groups.
    ListGroups,
    /// Shows the nodes of a group.
    ShowGroup {
        /// The group.
        group: String,
    },
    /// Makes an empty batch.
    AddBatch {
        /// Its name.
        batch: String,
    },
    /// Names the batches.
    ListBatches,
    /// Shows the tests of a batch.
    ShowBatch {
        /// The batch.
        batch: String,
    },
    /// Adds a test to a batch.
    AddTest(NewTest),
    /// Starts the tests of a batch.
    Run {
        /// The batch.
        batch: String,
        /// Seconds after which nodes are to stop by themselves, 0 for never. It is sent, but
        /// kernel nodes pass it over.
        timeout: u32,
    },
    /// Stops the tests of a batch, also at clients that did not answer before; [`Command::Query`]
    /// shows when they have stopped.
    Stop {
        /// The batch.
        batch: String,
        /// Whether RPCs in flight are given up.
        force: bool,
    },
    /// Asks the clients of a batch what still runs.
    Query {
        /// The batch.
        batch: String,
        /// A test, counted from 1; 0 for the whole batch.
        test: u32,
        /// Seconds to wait, 3 to 3600.
        timeout: u32,
    },
    /// Asks those clients of a test that are ours what they measured. Others are left out.
    ClientStats {
        /// The batch.
        batch: String,
        /// The test, counted from 1.
        test: u32,
        /// Seconds to wait, 3 to 30.
        timeout: u32,
    },
    /// Asks nodes which session they are in.
    Ping {
        /// The nodes that are queried.
        target: Target,
        /// Seconds to wait, 3 to 30.
        timeout: u32,
    },
    /// Asks nodes for their counters.
    Stat {
        /// The nodes that are queried.
        target: Target,
        /// Seconds to wait, 3 to 30.
        timeout: u32,
    },
}

impl Command {
    /// Whether it asks nodes, and changes nothing.
    pub(super) fn is_question(&self) -> bool {
        matches!(
            self,
            Command::Query { .. }
                | Command::ClientStats { .. }
                | Command::Ping { .. }
                | Command::Stat { .. }
        )
    }

    /// Whether the console answers it from what it knows, and changes nothing.
    pub(super) fn is_look(&self) -> bool {
        matches!(
            self,
            Command::ShowSession
                | Command::ListGroups
                | Command::ShowGroup { .. }
                | Command::ListBatches
                | Command::ShowBatch { .. }
        )
    }

    /// The longest time that a console takes for it, once it has begun.
    pub fn duration_max(&self) -> Nanos {
        let seconds = |seconds: u32| Nanos::from_secs(u64::from(seconds));
        match self {
            Command::EndSession | Command::NewSession { force: true, .. } => END_MAX,
            // Servers are asked first, and clients then.
            Command::AddTest(_) => Nanos(2 * ACTION.0),
            Command::Query { timeout, .. } => seconds(*timeout).clamp(QUESTION_MIN, QUERY_MAX),
            Command::ClientStats { .. } | Command::Ping { .. } | Command::Stat { .. } => {
                QUESTION_MAX
            }
            _ => ACTION,
        }
    }
}

/// A test to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewTest {
    /// The batch.
    pub batch: String,
    /// The group of the clients.
    pub from: String,
    /// The group of the servers.
    pub to: String,
    /// What each RPC does.
    pub test: Test,
    /// Where in a page the clients' data begin, in bytes: a multiple of 8.
    pub offset: u32,
    /// RPCs of each client to each of its servers; -1 for no end, never 0.
    pub loops: i32,
    /// RPCs at once of each client to each of its servers, 1 to 1024.
    pub concurrency: u32,
    /// How clients and servers come together.
    pub spread: Distribution,
    /// Whether a failed RPC ends the unit it is of, one of `concurrency` to one server.
    pub stop_on_error: bool,
    /// Most RPCs per second of each client; 0 for as many as there can be. Only nodes of ours
    /// know it, and only those that were seen to be so ([`NodeView::ours`]) are asked.
    #[serde(default)]
    pub rate: u32,
}

/// So many clients in a row share so many servers in a row (`--distribute`) [LST-23].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// Clients, at least 1.
    pub clients: u32,
    /// Servers, at least 1, at most as many as the group has.
    pub servers: u32,
}

impl Distribution {
    /// Each client has one server.
    pub const ONE_TO_ONE: Distribution = Distribution { clients: 1, servers: 1 };
}

/// The nodes of a batch that are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchSide {
    /// Those that send RPCs.
    Clients,
    /// Those that answer them.
    Servers,
}

/// The nodes a question goes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// All of the session.
    Session,
    /// Those of a group.
    Group(String),
    /// Those of a batch.
    Batch(String, BatchSide),
    /// These, in the session or not.
    Nodes(Vec<Nid>),
}

/// What a console knows of a node [LST-20].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// In this session.
    Active,
    /// In another one.
    Busy,
    /// It did not answer in time.
    Down,
    /// It has not been asked, or is in no session.
    Unknown,
}

/// What a console answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", content = "value", rename_all = "snake_case")]
pub enum Answer {
    /// It is done, and no node had to be asked.
    Done,
    /// The session.
    Session(SessionView),
    /// Names of groups or batches, the oldest first.
    Names(Vec<String>),
    /// Nodes of a group.
    Nodes(Vec<NodeView>),
    /// A batch.
    Batch(BatchView),
    /// What each node said that was asked.
    Replies(Vec<NodeReply>),
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its name.
    pub name: String,
    /// The console's short NID in its id.
    pub console: u64,
    /// The stamp in its id.
    pub stamp: i64,
    /// Its key.
    pub key: u32,
    /// Its features.
    pub features: u32,
    /// Seconds without a command after which it ends.
    pub timeout: u32,
    /// Whether it takes nodes away from other sessions.
    pub force: bool,
    /// Nodes known.
    pub nodes: u32,
}

impl SessionView {
    /// Its id on the wire.
    pub fn sid(&self) -> Sid {
        Sid { nid: self.console, stamp: self.stamp }
    }
}

/// A node, as far as the console knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its NID.
    pub nid: Nid,
    /// Its state, as far as the console knows it.
    pub state: NodeState,
    /// Whether it was seen to be a Lustrine node, which reports statistics and keeps to rates: its
    /// answer to [`Command::Ping`] says so.
    #[serde(default)]
    pub ours: bool,
}

/// A batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchView {
    /// Its name.
    pub name: String,
    /// Whether it was started, and not seen to have stopped since.
    pub running: bool,
    /// All clients of its tests.
    pub clients: Vec<NodeView>,
    /// All servers of its tests.
    pub servers: Vec<NodeView>,
    /// Its tests, in the order in which they came.
    pub tests: Vec<TestView>,
}

/// A test of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestView {
    /// The test, as the user added it.
    pub asked: NewTest,
    /// Its clients.
    pub clients: Vec<NodeView>,
    /// Its servers.
    pub servers: Vec<NodeView>,
}

/// What a node said, and how it stands since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReply {
    /// The node.
    pub nid: Nid,
    /// The state of the node.
    pub state: NodeState,
    /// The answer.
    pub reply: Reply,
    /// The session that keeps a busy node, where it says so.
    pub holder: Option<SessionHolder>,
}

/// A session that a node is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionHolder {
    /// Its name.
    pub name: String,
    /// The NID of its console.
    pub console: Nid,
}

impl NodeReply {
    /// Whether the node did what it was asked for.
    pub fn is_good(&self) -> bool {
        matches!(self.reply, Reply::Good(_))
    }
}

/// What came back of an RPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Nothing: the RPC failed.
    None {
        /// A negative errno, as LNet's consoles have it.
        errno: i32,
        /// What happened, for people.
        why: String,
        /// The status of LNet, if that is the reason; for the owner of the console, which can say
        /// more in `why`. It is not part of an encoded answer.
        #[serde(skip)]
        status: Option<Status>,
    },
    /// The node refused, with an errno.
    Refused(u32),
    /// It did it.
    Good(Detail),
}

/// What comes with an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// There is no detail.
    None,
    /// The session the node is in.
    Session(SessionHolder),
    /// Tests of the batch that run, or units of the test; at the end of a session, tests that ran
    /// when the node left.
    Active(u32),
    /// Its counters.
    Counters(Box<Counters>),
    /// What it measured in a test, as a client.
    ClientStats(Box<ClientStats>),
}

impl fmt::Display for NodeState {
    /// As `lst` has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeState::Active => "Active",
            NodeState::Busy => "Busy",
            NodeState::Down => "Down",
            NodeState::Unknown => "Unknown",
        })
    }
}
