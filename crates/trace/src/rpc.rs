//! One RPC with its messages.

use lustrine_selftest::errno;
use lustrine_wire::nid::Nid;
use serde::{Serialize, Serializer};

use crate::format::FromTo;
use lustrine_document::format_bytes;

/// How an RPC ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It succeeded.
    Ok,
    /// It failed.
    Failed(String),
    /// The trace ends before the RPC does.
    Unfinished,
    /// Its beginning is not in the trace, so its times are unknown.
    Incomplete,
}

/// Several messages that are one operation: an RPC of selftest, a ping or push of LNet itself, or a
/// PUT or GET of another user.
#[derive(Clone, Debug, Serialize)]
pub struct Rpc {
    /// Its number in the trace, from 1, in the order in which RPCs begin.
    pub id: usize,
    /// `read`, `write`, `ping` and so on; `LNet ping`, `LNet push`; `PUT`, `GET` for others.
    pub what: String,
    /// Bytes of data it moves.
    pub len: u32,
    /// The node that began it.
    #[serde(serialize_with = "nid")]
    pub from: Nid,
    /// The other node.
    #[serde(serialize_with = "nid")]
    pub to: Nid,
    /// Nanoseconds since the simulation began; of an incomplete one, its first step in the trace.
    pub began: u64,
    /// When it ended.
    pub ended: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// Its messages in the order in which they were created.
    #[serde(skip)]
    pub messages: Vec<Message>,
    /// Its steps ordered by time.
    #[serde(skip)]
    pub(super) steps: Vec<StepOf>,
}

/// A step of an RPC.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepOf {
    /// The index of the line in the trace.
    pub(super) line: usize,
    /// The message that the step belongs to, and at which end.
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
    /// Its part: `request`, `bulk`, `reply`, or the kind of the RPC.
    pub part: &'static str,
    /// The fields on the wire.
    pub header: FromTo,
}

impl Message {
    /// The name for people: `request PUT`.
    pub fn name(&self) -> String {
        match self.part {
            "" => self.header.kind.name().to_owned(),
            part => format!("{part} {}", self.header.kind.name()),
        }
    }
}

impl Rpc {
    /// Its duration in nanoseconds; `None` if it is unfinished or incomplete.
    pub fn duration(&self) -> Option<u64> {
        let ended = self.ended.filter(|_| self.outcome != Outcome::Incomplete);
        ended.map(|ended| ended.saturating_sub(self.began))
    }

    /// Its kind for people, with its size if it moves data: `read 1 MiB`.
    pub fn label(&self) -> String {
        match self.what.as_str() {
            "read" | "write" => format!("{} {}", self.what, format_bytes(u64::from(self.len))),
            what => printable(what),
        }
    }

    /// Whether it ended with an answer that reports an error, rather than without an answer.
    pub fn refused(&self) -> bool {
        matches!(&self.outcome, Outcome::Failed(why) if why.starts_with(ANSWERED))
    }

    /// Whether it failed.
    pub fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }
}

/// How selftest words a status in a reply.
const ANSWERED: &str = "the peer answered with status ";

/// The errors, with the name and meaning of a status.
pub(super) fn explained(problems: String) -> String {
    let status = problems.strip_prefix(ANSWERED).and_then(|status| status.parse().ok());
    match status.and_then(|status: u32| Some((errno::name(status)?, meaning(status)))) {
        Some((name, meaning)) => format!("{problems} ({name}: {meaning})"),
        None => problems,
    }
}

fn meaning(status: u32) -> &'static str {
    match status {
        errno::ESRCH => "it has no such session",
        errno::ENOENT => "it has no such session, batch or test",
        errno::ENOMEM => "one of its limits is reached",
        errno::EBUSY => "it has another session, or a batch that runs",
        errno::EINVAL => "a value is out of its range",
        errno::EPROTO => "versions or features do not agree",
        errno::EBADMSG => "the data do not match the pattern",
        _ => "unknown",
    }
}

/// Text of a trace as it may be shown on a terminal: control characters are replaced by their
/// codes.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // These are not control characters, but they change the order in which text is shown.
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}');
        if c.is_control() || turns {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

fn nid<S: Serializer>(nid: &Nid, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(nid)
}
