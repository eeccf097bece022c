//! Which steps belong to one message, and which messages to one RPC.
//!
//! A message at its sender and the same message at its receiver are matched by the fields of its
//! header: match bits of replies and bulk transfers are used once, and handles of descriptors
//! identify the GET or PUT that is answered. Requests of selftest are identical; they are matched
//! in their order, which is corrected when the receiver records whose request it took.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use foldhash::fast::FixedState;
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{FRAMEWORK_PORTAL, REPLY_PORTAL, TEST_PORTAL};

use crate::file::Trace;
use crate::format::{FromTo, Hex, MessageKind, Step, TraceLine, Verdict};
use crate::rpc::{Message, Outcome, Rpc, Side, StepOf, explained};

/// All RPCs of a trace, in the order in which they begin.
pub fn link_rpcs(trace: &Trace) -> Vec<Rpc> {
    let mut linker = Linker::default();
    for (at, line) in trace.lines.iter().enumerate() {
        linker.take(at, line);
    }
    linker.finish(trace)
}

type Map<K, V> = HashMap<K, V, FixedState>;

/// One run of one partition of a node.
type Place = (Nid, u16, u32);

/// One message, as far as it is known.
struct Linked {
    rpc: usize,
    part: &'static str,
    header: FromTo,
    /// Lines of the sender and of the receiver.
    sent: Vec<usize>,
    got: Vec<usize>,
}

/// One RPC, as far as it is known.
struct Draft {
    what: String,
    len: u32,
    from: Nid,
    to: Nid,
    began: u64,
    /// Whether its user recorded how it ended.
    recorded: bool,
    over: Option<(u64, Option<String>)>,
    bulk: Option<Hex>,
    reply: Hex,
    /// The message that asks for it.
    request: Option<usize>,
    /// Lines that belong to none of its messages.
    own: Vec<usize>,
}

#[derive(Default)]
struct Linker {
    rpcs: Vec<Draft>,
    messages: Vec<Linked>,
    /// Messages by their numbers, at the sender and at the receiver.
    out: Map<(Place, Hex), usize>,
    into: Map<(Place, Hex), usize>,
    parked: Map<(Place, Hex), usize>,
    /// Messages that have not arrived yet, by their fields on the wire.
    in_flight: Map<FromTo, VecDeque<usize>>,
    /// Requests by the place where they were stored.
    stored: Map<(Place, Hex, u32), usize>,
    /// RPCs by the descriptor of their request.
    requests: Map<(Place, Hex), usize>,
    /// By the caller and the caller's identifier of the RPC.
    called: Map<(Place, Hex), usize>,
    /// By caller and match bits of replies and bulk transfers.
    bits: Map<(Nid, Hex), usize>,
    /// By initiator and handle.
    handles: Map<(Nid, String), usize>,
    /// By descriptors of PUTs and GETs.
    mds: Map<(Place, Hex), usize>,
}

impl Linker {
    fn take(&mut self, at: usize, line: &TraceLine) {
        let place = (line.node, line.cpt, line.boot);
        match &line.step {
            Step::TxCreated { msg, md, header } => {
                let message = self.made(line, place, *md, header);
                self.messages[message].sent.push(at);
                self.out.insert((place, *msg), message);
                self.in_flight.entry(header.clone()).or_default().push_back(message);
            }
            Step::TxQueued { msg, .. } | Step::TxSubmitted { msg } | Step::TxStarted { msg } => {
                if let Some(message) = self.out.get(&(place, *msg)) {
                    self.messages[*message].sent.push(at);
                }
            }
            Step::Completed { msg, error } => self.ended(at, (place, *msg), error.is_some()),
            Step::RxHeader { header, verdict } => {
                let message = self.came(line, header);
                self.messages[message].got.push(at);
                self.becomes(place, message, verdict);
            }
            Step::RxResumed { rx, verdict } => {
                if let Some(message) = self.parked.remove(&(place, *rx)) {
                    self.messages[message].got.push(at);
                    self.becomes(place, message, verdict);
                }
            }
            Step::MdUnlinked { md, error } => {
                if let Some(rpc) = self.mds.get(&(place, *md)).copied() {
                    self.withdrawn(at, line.t, rpc, error);
                }
            }
            Step::RpcStarted { id, bulk, service, peer, len, request } => {
                let rpc = self.rpcs.len();
                self.rpcs.push(Draft {
                    what: service.clone(),
                    len: *len,
                    from: line.node,
                    to: *peer,
                    began: line.t,
                    recorded: true,
                    over: None,
                    bulk: *bulk,
                    reply: *id,
                    request: None,
                    own: vec![at],
                });
                self.requests.insert((place, *request), rpc);
                self.called.insert((place, *id), rpc);
                self.know_bits(line.node, rpc);
            }
            Step::RequestAccepted { id, from, md, offset } => {
                let Some(rpc) = self.bits.get(&(*from, *id)).copied() else { return };
                self.rpcs[rpc].own.push(at);
                if let Some(came) = self.stored.remove(&(place, *md, *offset)) {
                    self.put_right(rpc, came);
                }
            }
            Step::RequestDeferred { id, from, .. } => {
                if let Some(rpc) = self.bits.get(&(*from, *id)) {
                    self.rpcs[*rpc].own.push(at);
                }
            }
            Step::RpcEnded { id, error } => {
                if let Some(rpc) = self.called.remove(&(place, *id)) {
                    self.rpcs[rpc].own.push(at);
                    self.rpcs[rpc].over = Some((line.t, error.clone()));
                }
            }
        }
    }

    /// Replies and bulk transfers to this NID belong to the RPC.
    fn know_bits(&mut self, nid: Nid, rpc: usize) {
        let Draft { bulk, reply, .. } = self.rpcs[rpc];
        for bits in [Some(reply), bulk].into_iter().flatten() {
            self.bits.insert((nid, bits), rpc);
        }
    }

    /// An outgoing message: the RPC that it belongs to, or a new one for it alone.
    fn made(&mut self, line: &TraceLine, place: Place, md: Option<Hex>, header: &FromTo) -> usize {
        let asked = md.and_then(|md| self.requests.remove(&(place, md)));
        let (rpc, part) = match asked {
            Some(rpc) => {
                // The caller's NID is known from here on.
                self.know_bits(header.from, rpc);
                self.rpcs[rpc].request = Some(self.messages.len());
                (rpc, "request")
            }
            None => self.part_of(line, header),
        };
        let initiates = matches!(header.kind, MessageKind::Put | MessageKind::Get);
        if let (Some(md), true) = (md, initiates) {
            self.mds.insert((place, md), rpc);
        }
        self.new_message(rpc, part, header)
    }

    fn new_message(&mut self, rpc: usize, part: &'static str, header: &FromTo) -> usize {
        let message = self.messages.len();
        let initiates = matches!(header.kind, MessageKind::Put | MessageKind::Get);
        if let (Some(handle), true) = (&header.handle, initiates) {
            self.handles.insert((header.from, handle.clone()), message);
        }
        let (sent, got) = (Vec::new(), Vec::new());
        self.messages.push(Linked { rpc, part, header: header.clone(), sent, got });
        message
    }

    /// The RPC of a message that is not the request of one, and the message's part in it.
    fn part_of(&mut self, line: &TraceLine, header: &FromTo) -> (usize, &'static str) {
        let answered = header.handle.as_ref().and_then(|handle| {
            let answers = matches!(header.kind, MessageKind::Reply | MessageKind::Ack);
            self.handles.get(&(header.to, handle.clone())).filter(|_| answers)
        });
        if let Some(message) = answered {
            return (self.messages[*message].rpc, self.messages[*message].part);
        }
        if header.portal == Some(REPLY_PORTAL)
            && let Some(bits) = header.bits
            && let Some(rpc) = self.bits.get(&(header.to, bits))
        {
            let part = if self.rpcs[*rpc].reply == bits { "reply" } else { "bulk" };
            return (*rpc, part);
        }
        let what = match (header.kind, header.portal) {
            (MessageKind::Get, Some(0)) => "LNet ping",
            (MessageKind::Put, Some(0)) => "LNet push",
            (MessageKind::Put, Some(TEST_PORTAL | FRAMEWORK_PORTAL)) => "request",
            (MessageKind::Put, Some(REPLY_PORTAL)) => "part of an RPC",
            (kind, _) => kind.name(),
        };
        self.rpcs.push(Draft {
            what: what.to_owned(),
            len: header.len,
            from: header.from,
            to: header.to,
            began: line.t,
            recorded: false,
            over: None,
            bulk: None,
            reply: Hex(0),
            request: None,
            own: Vec::new(),
        });
        (self.rpcs.len() - 1, "")
    }

    fn ended(&mut self, at: usize, key: (Place, Hex), failed: bool) {
        if let Some(message) = self.into.remove(&key) {
            self.messages[message].got.push(at);
        } else if let Some(message) = self.out.get(&key).copied() {
            // The message stays known, because the bytes of a copied message leave later.
            self.messages[message].sent.push(at);
            if failed && let Some(line) = self.in_flight.get_mut(&self.messages[message].header) {
                line.retain(|other| *other != message);
            }
        }
    }

    /// An incoming message: the first matching one that has not arrived yet.
    fn came(&mut self, line: &TraceLine, header: &FromTo) -> usize {
        if let Some(queue) = self.in_flight.get_mut(header) {
            let first = queue.pop_front();
            if queue.is_empty() {
                self.in_flight.remove(header);
            }
            if let Some(message) = first {
                return message;
            }
        }
        // The steps of its sender are not in the trace.
        let (rpc, part) = self.part_of(line, header);
        self.new_message(rpc, part, header)
    }

    fn becomes(&mut self, place: Place, message: usize, verdict: &Verdict) {
        match verdict {
            Verdict::Into { into, md, offset } => {
                self.into.insert((place, *into), message);
                if is_request(&self.messages[message].header) {
                    self.stored.insert((place, *md, *offset), message);
                }
            }
            Verdict::Parked { rx } => {
                self.parked.insert((place, *rx), message);
            }
            Verdict::Done | Verdict::Dropped { .. } | Verdict::Refused { .. } => {}
        }
    }

    fn withdrawn(&mut self, at: usize, t: u64, rpc: usize, error: &str) {
        let draft = &mut self.rpcs[rpc];
        if !draft.recorded && draft.over.is_none() {
            draft.over = Some((t, Some(error.to_owned())));
            draft.own.push(at);
        }
    }

    /// The request that arrived belongs to `rpc`. If it was matched with an identical one, the
    /// steps that followed from the two are exchanged.
    fn put_right(&mut self, rpc: usize, came: usize) {
        if self.messages[came].rpc == rpc {
            return;
        }
        let Some(right) = self.rpcs[rpc].request else { return };
        let header = self.messages[right].header.clone();
        if let Some(place) = self.in_flight.get_mut(&header) {
            place.iter_mut().filter(|other| **other == right).for_each(|other| *other = came);
        }
        let (one, two) = (came.min(right), came.max(right));
        let (front, back) = self.messages.split_at_mut(two);
        core::mem::swap(&mut front[one].got, &mut back[0].got);
        let exchange = |message: &mut usize| {
            if *message == came {
                *message = right;
            } else if *message == right {
                *message = came;
            }
        };
        exchange_all(&mut self.into, exchange);
        exchange_all(&mut self.parked, exchange);
        exchange_all(&mut self.stored, exchange);
    }

    fn finish(self, trace: &Trace) -> Vec<Rpc> {
        let mut rpcs: Vec<Rpc> = Vec::new();
        let mut steps: Vec<Vec<StepOf>> = Vec::new();
        let mut over = Vec::new();
        for draft in self.rpcs {
            steps.push(draft.own.iter().map(|line| StepOf { line: *line, of: None }).collect());
            over.push((draft.recorded, draft.over));
            rpcs.push(Rpc {
                id: 0,
                what: draft.what,
                len: draft.len,
                from: draft.from,
                to: draft.to,
                began: draft.began,
                ended: None,
                outcome: Outcome::Unfinished,
                messages: Vec::new(),
                steps: Vec::new(),
            });
        }
        for message in self.messages {
            let number = rpcs[message.rpc].messages.len();
            for (side, lines) in [(Side::Sender, &message.sent), (Side::Receiver, &message.got)] {
                let step = |line: &usize| StepOf { line: *line, of: Some((number, side)) };
                steps[message.rpc].extend(lines.iter().map(step));
            }
            let Linked { part, header, .. } = message;
            rpcs[message.rpc].messages.push(Message { part, header });
        }
        for ((rpc, mut steps), (recorded, over)) in rpcs.iter_mut().zip(steps).zip(over) {
            steps.sort_by_key(|step| step.line);
            rpc.steps = steps;
            let end = if recorded { over } else { end_of(rpc, trace, over) };
            if let Some((ended, problems)) = end {
                rpc.ended = Some(ended);
                let failed = |problems: String| Outcome::Failed(explained(problems));
                rpc.outcome = problems.map_or(Outcome::Ok, failed);
            }
            if !recorded {
                // Steps of two requests may have been exchanged since the draft was made.
                let first = rpc.steps.first().map(|step| &trace.lines[step.line]);
                rpc.began = first.map_or(rpc.began, |line| line.t);
                if !is_begun(rpc, trace) {
                    rpc.outcome = Outcome::Incomplete;
                }
            }
        }
        // Nothing is left of an RPC whose steps were exchanged with a request that never arrived.
        rpcs.retain(|rpc| !rpc.steps.is_empty());
        rpcs.sort_by_key(|rpc| rpc.began);
        rpcs.iter_mut().zip(1..).for_each(|(rpc, id)| rpc.id = id);
        rpcs
    }
}

fn is_request(header: &FromTo) -> bool {
    matches!(header.portal, Some(TEST_PORTAL | FRAMEWORK_PORTAL))
}

/// Whether the beginning of an RPC that no user recorded is in the trace. Requests, replies and
/// bulk transfers of selftest have users that recorded their beginning.
fn is_begun(rpc: &Rpc, trace: &Trace) -> bool {
    let first = rpc.steps.first().map(|step| &trace.lines[step.line].step);
    let Some(Step::TxCreated { header, .. }) = first else { return false };
    let initiates = matches!(header.kind, MessageKind::Put | MessageKind::Get);
    initiates && header.portal != Some(REPLY_PORTAL) && !is_request(header)
}

/// These maps hold what is in flight at a time, which is little.
fn exchange_all<K: Eq + Hash>(map: &mut Map<K, usize>, exchange: impl Fn(&mut usize)) {
    map.values_mut().for_each(exchange);
}

/// When and how an RPC ended that no user recorded: with its answer, or with its only message.
fn end_of(
    rpc: &Rpc,
    trace: &Trace,
    withdrawn: Option<(u64, Option<String>)>,
) -> Option<(u64, Option<String>)> {
    let Some(first) = rpc.messages.first() else { return withdrawn };
    let answered = first.header.handle.is_some();
    let (mut sent, mut stored, mut failed) = (None, None, withdrawn);
    for step in &rpc.steps {
        let (line, Some((number, side))) = (&trace.lines[step.line], step.of) else { continue };
        let message = &rpc.messages[number];
        let last =
            !answered || matches!(message.header.kind, MessageKind::Reply | MessageKind::Ack);
        match &line.step {
            Step::Completed { error: Some(error), .. } => {
                failed.get_or_insert_with(|| (line.t, Some(error.clone())));
            }
            Step::Completed { .. } if number == 0 && side == Side::Sender => sent = Some(line.t),
            Step::Completed { .. } if last && side == Side::Receiver => stored = Some(line.t),
            Step::RxHeader { verdict: Verdict::Done, .. } if last => stored = Some(line.t),
            Step::RxHeader {
                verdict: Verdict::Dropped { reason } | Verdict::Refused { reason },
                ..
            } if !answered => {
                failed.get_or_insert_with(|| (line.t, Some(format!("dropped: {reason}"))));
            }
            _ => {}
        }
    }
    match (failed, stored) {
        (None, Some(stored)) => Some((sent.map_or(stored, |sent: u64| sent.max(stored)), None)),
        (Some(failed), Some(stored)) if stored <= failed.0 => Some((stored, None)),
        (failed, _) => failed,
    }
}
