//! One RPC with its messages.

use lustrine_wire::nid::Nid;
use serde::{Serialize, Serializer};

use super::format::FromTo;

/// How an RPC ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It went well.
    Ok,
    /// It failed.
    Failed(String),
    /// The trace ends before it does.
    Unfinished,
}

/// Several messages that are one operation: an RPC of selftest, a ping or push of LNet's own, or a
/// PUT or GET of somebody's.
#[derive(Clone, Debug, Serialize)]
pub struct Rpc {
    /// Its number in the trace, from 1, in the order in which RPCs begin.
    pub id: usize,
    /// `read`, `write`, `ping` and so on; `LNet ping`, `LNet push`; `PUT`, `GET` for others.
    pub what: String,
    /// Bytes of data it moves.
    pub len: u32,
    /// Who began it.
    #[serde(serialize_with = "nid")]
    pub from: Nid,
    /// With whom.
    #[serde(serialize_with = "nid")]
    pub to: Nid,
    /// Nanoseconds since the simulation began.
    pub began: u64,
    /// When it was over.
    pub ended: Option<u64>,
    /// How.
    pub outcome: Outcome,
    /// Its messages in the order they were made.
    #[serde(skip)]
    pub messages: Vec<Message>,
    /// Its steps in the order of their times.
    #[serde(skip)]
    pub(super) steps: Vec<StepOf>,
}

/// A step of an RPC.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepOf {
    /// Where in the trace.
    pub(super) line: usize,
    /// The message it is about, and where.
    pub(super) of: Option<(usize, Side)>,
}

/// The ends of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Who sent it.
    Sender,
    /// Who received it.
    Receiver,
}

/// One message of an RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its part: `request`, `bulk`, `reply`, or what the RPC is.
    pub part: &'static str,
    /// What is on the wire.
    pub header: FromTo,
}

impl Message {
    /// For people: `request PUT`.
    pub fn name(&self) -> String {
        match self.part {
            "" => self.header.kind.name().to_owned(),
            part => format!("{part} {}", self.header.kind.name()),
        }
    }
}

impl Rpc {
    /// How long it took, in nanoseconds; `None` while it is unfinished.
    pub fn took(&self) -> Option<u64> {
        self.ended.map(|ended| ended - self.began)
    }

    /// Whether it failed.
    pub fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }
}

fn nid<S: Serializer>(nid: &Nid, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(nid)
}
