//! Why a console does not do what it is asked.

use lustrine_wire::nid::Nid;
use serde::{Deserialize, Serialize};

use super::command::NodeState;
use crate::load::HarmfulTest;

/// Why a command was not carried out; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// There is none.
    #[error("no session; begin one with `lst new_session`")]
    NoSession,
    /// It has another key.
    #[error("the session has another key; LST_SESSION must be the one it was made with")]
    OtherKey,
    /// There is one.
    #[error("session {0} exists; end it, or begin the new one with --force")]
    SessionExists(String),
    /// There is no such group.
    #[error("no group {0} in the session")]
    NoGroup(String),
    /// There is no such batch.
    #[error("no batch {0} in the session")]
    NoBatch(String),
    /// There is no such test.
    #[error("batch {batch} has {tests} tests, and no test {test}")]
    NoTest {
        /// The batch.
        batch: String,
        /// The test asked for.
        test: u32,
        /// Those it has.
        tests: u32,
    },
    /// The name is taken.
    #[error("group {0} exists already")]
    GroupExists(String),
    /// The name is taken.
    #[error("batch {0} exists already")]
    BatchExists(String),
    /// Tests have it.
    #[error("group {0} is in use by a test")]
    GroupInUse(String),
    /// It is empty.
    #[error("group {0} has no nodes")]
    EmptyGroup(String),
    /// The batch has no tests.
    #[error("batch {0} has no tests")]
    EmptyBatch(String),
    /// It was started.
    #[error("batch {0} is running; stop it first")]
    BatchRuns(String),
    /// All nodes concerned have to be in the session, and these are not.
    #[error("{} of the nodes concerned {} not active: {}", .0.len(), are(.0), listed(.0))]
    NotActive(Vec<(Nid, NodeState)>),
    /// A name has 1 to 31 bytes.
    #[error("{0:?} is not a valid name: 1 to 31 bytes are allowed, none of them zero")]
    BadName(String),
    /// A value is out of its range.
    #[error("{what} {value}: {allowed} is allowed")]
    OutOfRange {
        /// Of what.
        what: String,
        /// The value.
        value: i64,
        /// The range, for people.
        allowed: String,
    },
    /// A NID that the protocol cannot carry.
    #[error("{0} does not fit into the selftest's messages, which know 4-byte addresses only")]
    LargeNid(Nid),
    /// It would harm kernel nodes.
    #[error("{0}")]
    HarmfulTest(String),
    /// It needs nodes that know more than kernel nodes do.
    #[error(
        "{what} works only with Lustrine nodes; {nid} is not known to be one (`lst ping` finds out)"
    )]
    NotOurs {
        /// The command or option that needs it.
        what: String,
        /// The first such node.
        nid: Nid,
    },
    /// There is no room for more.
    #[error("a session has at most {limit} {what}")]
    TooMany {
        /// Of what.
        what: String,
        /// The limit.
        limit: u32,
    },
    /// Too many commands wait.
    #[error("the console is busy with {0} commands; try again")]
    Busy(u32),
}

impl From<HarmfulTest> for Refusal {
    fn from(danger: HarmfulTest) -> Refusal {
        Refusal::HarmfulTest(danger.to_string())
    }
}

/// Nodes named in an error.
const NAMED_MAX: usize = 3;

fn are(nodes: &[(Nid, NodeState)]) -> &'static str {
    if nodes.len() == 1 { "is" } else { "are" }
}

fn listed(nodes: &[(Nid, NodeState)]) -> String {
    let named = nodes.iter().take(NAMED_MAX);
    let mut text: Vec<String> = named.map(|(nid, state)| format!("{nid} ({state})")).collect();
    if nodes.len() > NAMED_MAX {
        text.push("...".to_owned());
    }
    text.join(", ")
}

impl Refusal {
    /// The errno a kernel console has for it, positive.
    pub fn errno(&self) -> u32 {
        match self {
            Refusal::NoSession => 3,
            Refusal::OtherKey => 13,
            Refusal::SessionExists(_) | Refusal::GroupExists(_) | Refusal::BatchExists(_) => 17,
            Refusal::NoGroup(_) | Refusal::NoBatch(_) | Refusal::NoTest { .. } => 2,
            Refusal::GroupInUse(_) | Refusal::BatchRuns(_) | Refusal::Busy(_) => 16,
            Refusal::EmptyGroup(_)
            | Refusal::EmptyBatch(_)
            | Refusal::BadName(_)
            | Refusal::OutOfRange { .. }
            | Refusal::LargeNid(_)
            | Refusal::HarmfulTest(_) => 22,
            Refusal::NotOurs { .. } => 95,
            Refusal::NotActive(_) => 100,
            Refusal::TooMany { .. } => 12,
        }
    }
}
