//! The time line of an RPC, and where its time went.
//!
//! An RPC is in exactly one phase at every moment: the phase of the message in flight that will be
//! complete last or, if no message is in flight, the work of the host that acts next. So the phases
//! add up to the duration of the RPC.

use std::cmp::Reverse;

use lustrine_wire::nid::Nid;
use serde::{Serialize, Serializer};

use crate::file::Trace;
use crate::format::{FromTo, MessageKind, Step, TraceLine, Verdict, WaitKind};
use crate::rpc::{Outcome, Rpc, Side};
use lustrine_document::format_bytes;
use lustrine_report::numbers::latency_text;

/// The phases of an RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseKind {
    /// A message waits for discovery of its peer.
    Discovery,
    /// A message waits for a credit of its peer.
    PeerCredit,
    /// A message waits for a credit of the interface.
    NiCredit,
    /// The driver has the message, which waits for a connection or for its turn on one.
    Driver,
    /// From the first byte that leaves to the header at the receiver: streams, links, and the
    /// receiver's turn.
    InTransit,
    /// The message arrived and waits for a buffer.
    Parked,
    /// The payload arrives.
    Payload,
    /// The message is stored, and the sender's driver waits for the acknowledgement of its
    /// zero-copy message.
    Acknowledgement,
    /// A host is working: its CPU, its memory, its programs.
    AtWork,
    /// A host has accepted a request and defers it.
    Deferred,
}

impl PhaseKind {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            PhaseKind::Discovery => "discovery",
            PhaseKind::PeerCredit => "peer credits",
            PhaseKind::NiCredit => "NI credits",
            PhaseKind::Driver => "driver",
            PhaseKind::InTransit => "in transit",
            PhaseKind::Parked => "parked",
            PhaseKind::Payload => "payload",
            PhaseKind::Acknowledgement => "acknowledgement",
            PhaseKind::AtWork => "at work",
            PhaseKind::Deferred => "deferred by the peer",
        }
    }
}

/// The time that an RPC spent in one phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// What kind of thing.
    pub kind: PhaseKind,
    /// The phase with nodes and message, as text.
    pub what: String,
    /// The duration, in nanoseconds.
    pub ns: u64,
}

/// One line of a time line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimelineEntry {
    /// Nanoseconds since the RPC began.
    pub at_ns: u64,
    /// The node.
    #[serde(serialize_with = "nid")]
    pub node: Nid,
    /// What happened.
    pub what: String,
    /// The wait that ended with this step.
    pub waited: Option<Wait>,
}

/// A wait that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// Its length, in nanoseconds.
    pub ns: u64,
    /// What was waited for.
    pub what: &'static str,
}

/// The state of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    Made,
    Waits(WaitKind),
    Driver,
    InTransit,
    Parked,
    Payload,
    Stored,
    /// It failed or was dropped.
    Dead,
}

/// The state of a message while the steps of its RPC are processed.
struct Going {
    at: At,
    since: u64,
    sent: bool,
}

impl Going {
    fn over(&self) -> bool {
        self.at == At::Dead || (self.at == At::Stored && self.sent)
    }

    fn turn(&mut self, at: At, now: u64) {
        (self.at, self.since) = (at, now);
    }
}

impl Rpc {
    /// Its steps as text.
    pub fn timeline(&self, trace: &Trace) -> Vec<TimelineEntry> {
        let mut course = Course::new(self, trace);
        let moments = self.steps.iter().map(|step| {
            let line = &trace.lines[step.line];
            let (what, waited) = course.advance(line, step.of);
            let at_ns = line.t.saturating_sub(self.began);
            let waited = waited.map(|(ns, what)| Wait { ns, what });
            TimelineEntry { at_ns, node: line.node, what, waited }
        });
        moments.collect()
    }

    /// The phases in the order of their first occurrence. Their sum is the duration of the RPC; of
    /// an unfinished RPC, the time until the end of the trace. An incomplete RPC has none.
    pub fn phases(&self, trace: &Trace) -> Vec<Phase> {
        if self.outcome == Outcome::Incomplete {
            return Vec::new();
        }
        let end = self.ended.or_else(|| trace.lines.last().map(|line| line.t));
        let end = end.unwrap_or(self.began);
        let mut course = Course::new(self, trace);
        let mut phases: Vec<Phase> = Vec::new();
        let mut now = self.began;
        let mut add = |kind: PhaseKind, what: String, ns: u64| match phases
            .iter_mut()
            .find(|phase| phase.what == what)
        {
            Some(phase) => phase.ns += ns,
            None => phases.push(Phase { kind, what, ns }),
        };
        for step in &self.steps {
            let line = &trace.lines[step.line];
            let until = line.t.min(end);
            if until > now {
                let (kind, what) = course.phase();
                add(kind, what, until - now);
                now = until;
            }
            if line.t > end {
                break;
            }
            course.advance(line, step.of);
        }
        if end > now {
            let (kind, what) = course.phase();
            add(kind, what, end - now);
        }
        phases
    }

    /// The errors of an RPC that did not succeed, and its last phase, as text.
    pub fn problems(&self, trace: &Trace) -> Vec<String> {
        if self.outcome == Outcome::Ok {
            return Vec::new();
        }
        let mut course = Course::new(self, trace);
        let end = self.ended.or_else(|| trace.lines.last().map(|line| line.t)).unwrap_or(0);
        let (mut reported, mut last) = (Vec::new(), (course.phase().1, self.began));
        for step in &self.steps {
            let line = &trace.lines[step.line];
            if line.t >= end {
                break;
            }
            let before = course.problems.len();
            course.advance(line, step.of);
            if let Some(problems) = course.problems.get(before) {
                reported.push(format!("at {} {problems}", us(line.t.saturating_sub(self.began))));
            }
            let now = course.phase().1;
            if now != last.0 {
                last = (now, line.t);
            }
        }
        if let (Outcome::Failed(why), true) = (&self.outcome, self.refused()) {
            reported.push(format!("{}: {why}", self.to));
        } else if self.outcome != Outcome::Incomplete {
            let length = us(end.saturating_sub(last.1));
            reported.push(format!("for the last {length} of it: {}", last.0));
        }
        reported
    }
}

/// The state of an RPC while its steps are processed.
struct Course<'a> {
    rpc: &'a Rpc,
    messages: Vec<Option<Going>>,
    /// When each message will be complete: [`u64::MAX`] for never.
    over: Vec<u64>,
    /// The host that acts when no message is in flight.
    host: Nid,
    deferred: Option<String>,
    problems: Vec<String>,
}

impl<'a> Course<'a> {
    fn new(rpc: &'a Rpc, trace: &Trace) -> Course<'a> {
        let fresh = |over: Vec<u64>| {
            let messages = rpc.messages.iter().map(|_| None).collect();
            let (deferred, problems) = (None, Vec::new());
            Course { rpc, messages, over, host: rpc.from, deferred, problems }
        };
        let mut over = vec![u64::MAX; rpc.messages.len()];
        let mut ahead = fresh(Vec::new());
        for step in &rpc.steps {
            let line = &trace.lines[step.line];
            ahead.advance(line, step.of);
            if let Some((number, _)) = step.of
                && over[number] == u64::MAX
                && ahead.messages[number].as_ref().is_some_and(Going::over)
            {
                over[number] = line.t;
            }
        }
        fresh(over)
    }

    /// The phase that the RPC is in.
    fn phase(&self) -> (PhaseKind, String) {
        let in_flight = |going: &Option<Going>| going.as_ref().is_some_and(|going| !going.over());
        let last = (0..self.messages.len())
            .filter(|number| in_flight(&self.messages[*number]))
            .max_by_key(|number| (self.over[*number], Reverse(*number)));
        let Some(last) = last else {
            return match &self.deferred {
                Some(reason) => (
                    PhaseKind::Deferred,
                    format!("{} defers the request: it waits for {reason}", self.host),
                ),
                None => (PhaseKind::AtWork, format!("{} at work", self.host)),
            };
        };
        let message = &self.rpc.messages[last];
        let (name, from, to) = (message.name(), message.header.from, message.header.to);
        let at = self.messages[last].as_ref().map_or(&At::Made, |going| &going.at);
        let (kind, what) = match at {
            At::Waits(WaitKind::Discovery) => (PhaseKind::Discovery, format!("discovery of {to}")),
            At::Waits(WaitKind::PeerCredit) => {
                (PhaseKind::PeerCredit, format!("{from} waits for a peer credit for {to}"))
            }
            At::Waits(WaitKind::NiCredit) => {
                (PhaseKind::NiCredit, format!("{from} waits for an NI credit"))
            }
            At::Made | At::Driver => (
                PhaseKind::Driver,
                format!("in the driver of {from}, for its turn on a connection"),
            ),
            At::InTransit => (PhaseKind::InTransit, format!("in transit {from} -> {to}")),
            At::Parked => (PhaseKind::Parked, format!("parked at {to}, for a buffer")),
            At::Payload => (PhaseKind::Payload, format!("payload arrives at {to}")),
            At::Stored | At::Dead => (
                PhaseKind::Acknowledgement,
                format!("stored; {from} waits for the acknowledgement"),
            ),
        };
        (kind, format!("{name}: {what}"))
    }

    /// Processes one step. Returns the step as text, and the wait that ended with it.
    fn advance(
        &mut self,
        line: &TraceLine,
        of: Option<(usize, Side)>,
    ) -> (String, Option<(u64, &'static str)>) {
        self.host = line.node;
        let Some((number, side)) = of else { return self.advance_own(line) };
        let message = &self.rpc.messages[number];
        let (name, header) = (message.name(), &message.header);
        // If the sender is not in the trace, no more steps of it will follow.
        let sent = side == Side::Receiver;
        let going =
            self.messages[number].get_or_insert(Going { at: At::Made, since: line.t, sent });
        let waited = |going: &Going| line.t - going.since;
        match &line.step {
            Step::TxCreated { .. } => {
                self.deferred = None;
                (format!("{name} to {}", target(header)), None)
            }
            Step::TxQueued { wait, .. } => {
                let before = waited_for(going, line.t);
                going.turn(At::Waits(*wait), line.t);
                let what = match wait {
                    WaitKind::Discovery => "waits for discovery of its peer",
                    WaitKind::PeerCredit => "waits for a peer credit",
                    WaitKind::NiCredit => "waits for an NI credit",
                };
                (format!("{name} {what}"), before)
            }
            Step::TxSubmitted { .. } => {
                let before = waited_for(going, line.t);
                going.turn(At::Driver, line.t);
                (format!("{name} goes to the driver"), before)
            }
            Step::TxStarted { .. } => {
                let waited = (waited(going), "its turn on a connection");
                going.turn(At::InTransit, line.t);
                (format!("{name} starts to be sent"), (waited.0 > 0).then_some(waited))
            }
            Step::Completed { error: Some(error), .. } => {
                going.turn(At::Dead, line.t);
                self.problems.push(format!("{name} failed at {}: {error}", line.node));
                (format!("{name} fails: {error}"), None)
            }
            Step::Completed { .. } if side == Side::Sender => {
                going.sent = true;
                if going.at == At::Made {
                    // The message is to its own node: a copy.
                    going.turn(At::Stored, line.t);
                }
                (format!("{name} is complete at its sender"), None)
            }
            Step::Completed { .. } => {
                let waited = (waited(going), "its payload");
                going.turn(At::Stored, line.t);
                (format!("{name} is stored"), (waited.0 > 0).then_some(waited))
            }
            Step::RxHeader { verdict, .. } | Step::RxResumed { verdict, .. } => {
                let waited = match going.at {
                    At::InTransit => Some((waited(going), "the transfer")),
                    At::Parked => Some((waited(going), "a buffer")),
                    _ => None,
                };
                let what = match verdict {
                    Verdict::Into { .. } => {
                        going.turn(At::Payload, line.t);
                        "arrives and matches".to_owned()
                    }
                    Verdict::Done => {
                        going.turn(At::Stored, line.t);
                        "arrives and matches".to_owned()
                    }
                    Verdict::Parked { .. } => {
                        going.turn(At::Parked, line.t);
                        "arrives and is parked: no buffer is posted".to_owned()
                    }
                    Verdict::Dropped { reason } => {
                        going.turn(At::Dead, line.t);
                        self.problems
                            .push(format!("{name} was dropped by {}: {reason}", line.node));
                        format!("is dropped: {reason}")
                    }
                    Verdict::Refused { reason } => {
                        going.turn(At::Dead, line.t);
                        self.problems
                            .push(format!("{name} was refused by {}: {reason}", line.node));
                        format!("is refused, connections are closed: {reason}")
                    }
                };
                (format!("{name} {what}"), waited)
            }
            _ => (String::new(), None),
        }
    }

    /// A step that belongs to none of the messages.
    fn advance_own(&mut self, line: &TraceLine) -> (String, Option<(u64, &'static str)>) {
        let what = match &line.step {
            Step::RpcStarted { service, peer, len: 0, .. } => format!("calls {peer}: {service}"),
            Step::RpcStarted { service, peer, len, .. } => {
                format!("calls {peer}: {service} of {}", format_bytes(u64::from(*len)))
            }
            Step::RequestAccepted { .. } => "accepts the request".to_owned(),
            Step::RequestDeferred { reason, .. } => {
                self.deferred = Some(reason.clone());
                format!("defers the request: it waits for {reason}")
            }
            Step::RpcEnded { error: None, .. } => "complete: no errors".to_owned(),
            Step::RpcEnded { error: Some(error), .. } => format!("ended: {error}"),
            Step::MdUnlinked { error, .. } => format!("gives up: {error}"),
            _ => String::new(),
        };
        (what, None)
    }
}

/// The destination of a message and its purpose.
fn target(header: &FromTo) -> String {
    let mut out = header.to.to_string();
    if let Some(portal) = header.portal {
        out += &format!(", portal {portal}");
    }
    if let Some(bits) = header.bits {
        out += &format!(", match bits {bits}");
    }
    match (header.kind, header.len) {
        (_, 0) => {}
        (MessageKind::Get, len) => out += &format!(", for {}", format_bytes(u64::from(len))),
        (_, len) => out += &format!(", {}", format_bytes(u64::from(len))),
    }
    out
}

fn waited_for(going: &Going, now: u64) -> Option<(u64, &'static str)> {
    let what = match going.at {
        At::Waits(WaitKind::Discovery) => "discovery",
        At::Waits(WaitKind::PeerCredit) => "a peer credit",
        At::Waits(WaitKind::NiCredit) => "an NI credit",
        _ => return None,
    };
    Some((now - going.since, what))
}

fn us(ns: u64) -> String {
    latency_text(ns as f64 / 1e3)
}

fn nid<S: Serializer>(nid: &Nid, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(nid)
}
