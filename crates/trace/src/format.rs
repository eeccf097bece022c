//! The lines of a trace file: a [`TraceHeader`], then [`TraceLine`]s ordered by time. Readers
//! ignore fields that they do not know.

use core::fmt;
use core::str::FromStr;

use lustrine_lnet::journal;
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::nid::Nid;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The version of the format.
pub const VERSION: u32 = 2;

/// The longest line that is read, in bytes.
pub const LINE_MAX: usize = 4096;

/// Steps that a trace keeps by default: about 100 MB while it is recorded, and 120 bytes each in
/// the file.
pub const LIMIT_DEFAULT: u32 = 1_000_000;

/// The largest number of steps of a trace: about 1 GB while it is read.
pub const LIMIT_MAX: u32 = 5_000_000;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceHeader {
    /// [`VERSION`].
    pub lustrine_trace: u32,
    /// The release that wrote it.
    pub release: String,
    /// What was simulated.
    pub scenario: String,
    /// Changes to the scenario on the command line.
    pub changes: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// `stream` or `message`.
    pub fidelity: String,
    /// Steps that follow.
    pub steps: u64,
    /// Older steps that were dropped for lack of room.
    pub dropped: u64,
}

/// One step at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceLine {
    /// Nanoseconds since the simulation began.
    pub t: u64,
    /// The first NID of the node.
    #[serde(with = "text")]
    pub node: Nid,
    /// The number of the CPU partition.
    #[serde(default, skip_serializing_if = "is_zero_u16")]
    pub cpt: u16,
    /// The number of its run, from 0: a restart adds 1.
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    pub boot: u32,
    /// What happened.
    #[serde(flatten)]
    pub step: Step,
}

/// What happened; each as in [`journal::Step`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(missing_docs, reason = "journal::Step says it")]
pub enum Step {
    TxCreated {
        msg: Hex,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        md: Option<Hex>,
        #[serde(flatten)]
        header: FromTo,
    },
    TxQueued {
        msg: Hex,
        #[serde(rename = "for")]
        wait: WaitKind,
    },
    TxSubmitted {
        msg: Hex,
    },
    TxStarted {
        msg: Hex,
    },
    Completed {
        msg: Hex,
        /// Absent when there was no error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    RxHeader {
        #[serde(flatten)]
        header: FromTo,
        #[serde(flatten)]
        verdict: Verdict,
    },
    RxResumed {
        rx: Hex,
        #[serde(flatten)]
        verdict: Verdict,
    },
    MdUnlinked {
        md: Hex,
        error: String,
    },
    RpcStarted {
        id: Hex,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bulk: Option<Hex>,
        service: String,
        #[serde(with = "text")]
        peer: Nid,
        len: u32,
        request: Hex,
    },
    RequestAccepted {
        id: Hex,
        #[serde(with = "text")]
        from: Nid,
        md: Hex,
        offset: u32,
    },
    RequestDeferred {
        id: Hex,
        #[serde(with = "text")]
        from: Nid,
        reason: String,
    },
    RpcEnded {
        id: Hex,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// Types of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "LNet's words")]
pub enum MessageKind {
    Put,
    Get,
    Reply,
    Ack,
    Hello,
}

impl MessageKind {
    /// The name in capital letters.
    pub fn name(self) -> &'static str {
        match self {
            MessageKind::Put => "PUT",
            MessageKind::Get => "GET",
            MessageKind::Reply => "REPLY",
            MessageKind::Ack => "ACK",
            MessageKind::Hello => "HELLO",
        }
    }
}

/// The fields of a header that are relevant here.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FromTo {
    /// Its type.
    pub kind: MessageKind,
    /// The initiator of the message.
    #[serde(with = "text")]
    pub from: Nid,
    /// Its destination.
    #[serde(with = "text")]
    pub to: Nid,
    /// Bytes of payload; of a GET, the bytes that it requests.
    pub len: u32,
    /// Portal of a PUT or GET.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portal: Option<u32>,
    /// Match bits, of all but a REPLY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<Hex>,
    /// The initiator's descriptor, both halves in hex; absent when no answer is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

/// What a message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "journal::Wait says it")]
pub enum WaitKind {
    Discovery,
    PeerCredit,
    NiCredit,
}

/// What happens to an incoming message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
#[expect(missing_docs, reason = "journal::HeaderOutcome says it")]
pub enum Verdict {
    Into { into: Hex, md: Hex, offset: u32 },
    Done,
    Parked { rx: Hex },
    Dropped { reason: String },
    Refused { reason: String },
}

/// A number written as `0x1f`, because some readers of JSON have no 64-bit numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hex(pub u64);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl FromStr for Hex {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Hex, &'static str> {
        let digits = text.strip_prefix("0x").ok_or("a number such as 0x1f is due")?;
        u64::from_str_radix(digits, 16).map(Hex).map_err(|_| "a number such as 0x1f is due")
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Hex, D::Error> {
        text::deserialize(from)
    }
}

/// Values that are written in their text form.
mod text {
    use super::*;

    pub(super) fn serialize<T: fmt::Display, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: fmt::Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(from)?;
        text.parse().map_err(|error| de::Error::custom(format!("{text:?}: {error}")))
    }
}

fn is_zero_u16(number: &u16) -> bool {
    *number == 0
}

fn is_zero_u32(number: &u32) -> bool {
    *number == 0
}

impl From<&journal::Step> for Step {
    fn from(step: &journal::Step) -> Step {
        let hex = |number: &journal::JournalId| Hex(number.0);
        match step {
            journal::Step::TxCreated(created) => Step::TxCreated {
                msg: hex(&created.msg),
                md: created.md.as_ref().map(hex),
                header: FromTo::from(&created.header),
            },
            journal::Step::TxQueued { msg, wait } => Step::TxQueued {
                msg: hex(msg),
                wait: match wait {
                    journal::Wait::Discovery => WaitKind::Discovery,
                    journal::Wait::PeerCredit => WaitKind::PeerCredit,
                    journal::Wait::NiCredit => WaitKind::NiCredit,
                },
            },
            journal::Step::TxSubmitted { msg } => Step::TxSubmitted { msg: hex(msg) },
            journal::Step::TxStarted { msg } => Step::TxStarted { msg: hex(msg) },
            journal::Step::Completed { msg, status } => Step::Completed {
                msg: hex(msg),
                error: (!status.is_ok()).then(|| status.to_string()),
            },
            journal::Step::RxHeader(received) => Step::RxHeader {
                header: FromTo::from(&received.header),
                verdict: Verdict::from(&received.outcome),
            },
            journal::Step::RxResumed { rx, outcome } => {
                Step::RxResumed { rx: Hex(rx.0), verdict: Verdict::from(outcome) }
            }
            journal::Step::MdUnlinked { md, status } => {
                Step::MdUnlinked { md: hex(md), error: status.to_string() }
            }
            journal::Step::RpcStarted(started) => Step::RpcStarted {
                id: Hex(started.reply_bits),
                bulk: started.bulk_bits.map(Hex),
                service: started.service.to_owned(),
                peer: started.peer.nid,
                len: started.bulk_len,
                request: hex(&started.request),
            },
            journal::Step::RequestAccepted { reply_bits, from, md, offset } => {
                Step::RequestAccepted {
                    id: Hex(*reply_bits),
                    from: from.nid,
                    md: hex(md),
                    offset: *offset,
                }
            }
            journal::Step::RequestDeferred { reply_bits, from, reason } => Step::RequestDeferred {
                id: Hex(*reply_bits),
                from: from.nid,
                reason: (*reason).to_owned(),
            },
            journal::Step::RpcEnded { reply_bits, error } => {
                Step::RpcEnded { id: Hex(*reply_bits), error: error.as_deref().map(str::to_owned) }
            }
        }
    }
}

impl From<&Header> for FromTo {
    fn from(header: &Header) -> FromTo {
        let (kind, portal, bits, handle, len) = match header.body {
            Body::Put { ack_md, match_bits, portal, .. } => {
                (MessageKind::Put, Some(portal), Some(match_bits), ack_md, header.payload_len)
            }
            Body::Get { return_md, match_bits, portal, sink_len, .. } => {
                (MessageKind::Get, Some(portal), Some(match_bits), return_md, sink_len)
            }
            Body::Reply { md } => (MessageKind::Reply, None, None, md, header.payload_len),
            Body::Ack { md, match_bits, .. } => {
                (MessageKind::Ack, None, Some(match_bits), md, header.payload_len)
            }
            Body::Hello { .. } => (MessageKind::Hello, None, None, MdHandle::NONE, 0),
        };
        let handle_text = |md: MdHandle| format!("{:x}:{:x}", md.interface, md.object);
        FromTo {
            kind,
            from: header.src.nid,
            to: header.dst.nid,
            len,
            portal,
            bits: bits.map(Hex),
            handle: (!handle.is_none()).then(|| handle_text(handle)),
        }
    }
}

impl From<&journal::HeaderOutcome> for Verdict {
    fn from(outcome: &journal::HeaderOutcome) -> Verdict {
        use journal::DropReason;
        match outcome {
            journal::HeaderOutcome::Into { msg, md, offset } => {
                Verdict::Into { into: Hex(msg.0), md: Hex(md.0), offset: *offset }
            }
            journal::HeaderOutcome::Done => Verdict::Done,
            journal::HeaderOutcome::Parked { rx } => Verdict::Parked { rx: Hex(rx.0) },
            journal::HeaderOutcome::Dropped(why) => {
                let reason = match why {
                    DropReason::NotForUs => "it is for another node",
                    DropReason::TooManyPeers => "there are too many peers",
                    DropReason::NoMatch => "nothing matches",
                    DropReason::TooLong => "it is too long for what matches",
                    DropReason::TooManyResponses => "too many responses wait",
                    DropReason::NotAwaited => "no descriptor awaits it",
                    DropReason::UnwantedPush => "a push that is not wanted",
                    DropReason::ConnectionGone => "its connection went while it was parked",
                };
                Verdict::Dropped { reason: reason.to_owned() }
            }
            journal::HeaderOutcome::Refused(wrong) => {
                Verdict::Refused { reason: format!("{wrong:?}") }
            }
        }
    }
}
