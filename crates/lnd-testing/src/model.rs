//! A model of the core: it answers headers as a test has planned, and checks each call of a driver
//! against the contract.

use std::collections::{BTreeMap, VecDeque};

use lustrine_lnet::lnd::{
    Action, Arrival, Core, GetVerdict, HeaderViolation, LinkEvent, NiIndex, OpKey, RxId,
    SendAction, Verdict,
};
use lustrine_lnet::memory::{Memory, Spans, total_len};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::header::{Body, Header};
use lustrine_wire::nid::ProcessId;
use slotmap::SlotMap;

/// How long the driver may take for a REPLY in place.
const REPLY_PATIENCE: Nanos = Nanos::from_secs(50);

/// What to do with a message that arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedVerdict {
    /// Store the first bytes of the payload in these spans.
    Into(Spans),
    /// Nothing of the payload is wanted.
    Done,
    /// The message is dropped.
    Drop,
    /// The message waits for [`ModelCore::resume`].
    Park,
    /// The peer's connections are closed.
    Refuse(HeaderViolation),
    /// A GET is answered in place with these bytes.
    Reply(Spans),
}

/// A message that has arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// What names it in a test, see [`key_of`].
    pub key: u64,
    /// The header.
    pub header: Header,
    /// The previous hop as the driver named it.
    pub from: ProcessId,
    /// The interface.
    pub ni: NiIndex,
    /// The stored bytes; `None` until the driver is done, and when nothing was to be stored.
    pub bytes: Option<Vec<u8>>,
    /// How storing ended; `None` before.
    pub status: Option<Status>,
}

/// A message of the core that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The message.
    pub op: OpKey,
    /// When it ended.
    pub at: Time,
    /// How it ended.
    pub status: Status,
}

/// A report about the connections with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// The interface.
    pub ni: NiIndex,
    /// The peer.
    pub peer: ProcessId,
    /// What changed.
    pub event: LinkEvent,
}

#[derive(Debug)]
enum Op {
    /// With the payload's memory.
    Sending(Spans),
    /// With its place among the received ones.
    Receiving { index: usize, from: (NiIndex, ProcessId), spans: Spans },
}

#[derive(Debug)]
struct Parked {
    ni: NiIndex,
    rx: RxId,
    from: ProcessId,
    header: Header,
}

/// What names a message in a test: the match bits, of a REPLY the object of its handle.
pub fn key_of(header: &Header) -> u64 {
    match header.body {
        Body::Put { match_bits, .. } | Body::Get { match_bits, .. } => match_bits,
        Body::Ack { match_bits, .. } => match_bits,
        Body::Reply { md } => md.object,
        Body::Hello { incarnation, .. } => incarnation,
    }
}

/// The model. Its panics are violations of the contract.
#[derive(Debug, Default)]
pub struct ModelCore {
    plans: BTreeMap<u64, VecDeque<PlannedVerdict>>,
    ops: SlotMap<OpKey, Op>,
    parked: Vec<Parked>,
    actions: VecDeque<Action>,
    open_links: Vec<(NiIndex, ProcessId)>,
    /// Memory that the driver has returned, and where to keep the bytes of incoming messages.
    returned: Vec<(Spans, Option<usize>)>,
    /// What a message that is forgotten was to be resumed with, one moment earlier.
    decided_too_late: Option<PlannedVerdict>,
    closed: bool,
    /// Messages that have arrived, in that order.
    pub received: Vec<Received>,
    /// Messages of the core that have ended, in that order.
    pub ended: Vec<Ended>,
    /// Reports about connections, in their order.
    pub links: Vec<LinkReport>,
    /// Parked messages whose connection was lost.
    pub forgotten: u64,
}

impl ModelCore {
    /// Plans what is done with the next message of this key; without a plan it is dropped.
    pub fn plan(&mut self, key: u64, plan: PlannedVerdict) {
        self.plans.entry(key).or_default().push_back(plan);
    }

    /// A message to be sent, as the core would put it into its outbox.
    pub fn start(&mut self, send: impl FnOnce(OpKey) -> SendAction) -> OpKey {
        let op = self.ops.insert(Op::Sending(Spans::new()));
        let send = send(op);
        assert_eq!(total_len(&send.payload), send.header.payload_len, "the test is wrong");
        self.ops[op] = Op::Sending(send.payload.clone());
        self.actions.push_back(Action::Send(send));
        op
    }

    /// Asks the driver to close all connections with a peer.
    pub fn close(&mut self, ni: NiIndex, peer: ProcessId, status: Status) {
        self.actions.push_back(Action::Close { ni, peer, status });
    }

    /// Decides about a parked message.
    ///
    /// # Panics
    /// When no message of this key is parked.
    pub fn resume(&mut self, key: u64, plan: PlannedVerdict) {
        let at = self.parked.iter().position(|parked| key_of(&parked.header) == key);
        let parked = self.parked.remove(at.expect("a parked message of this key"));
        self.resume_parked(&parked, plan);
    }

    fn resume_parked(&mut self, parked: &Parked, plan: PlannedVerdict) {
        let verdict = self.carry_out(plan, parked.ni, parked.from, &parked.header);
        self.actions.push_back(Action::Resume { ni: parked.ni, rx: parked.rx, verdict });
    }

    /// Has the next message that is forgotten be resumed all the same: the core decided in the same
    /// turn, just before the connection was lost.
    pub fn resume_when_forgotten(&mut self, plan: PlannedVerdict) {
        self.decided_too_late = Some(plan);
    }

    /// Everything is closed: nothing may arrive any more.
    pub fn note_closed(&mut self) {
        self.closed = true;
    }

    /// The next action for the driver.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether there are actions for the driver.
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Keys of the parked messages.
    pub fn parked(&self) -> Vec<u64> {
        self.parked.iter().map(|parked| key_of(&parked.header)).collect()
    }

    /// How a message of the core ended; `None` before.
    pub fn status(&self, op: OpKey) -> Option<Status> {
        self.ended.iter().find(|ended| ended.op == op).map(|ended| ended.status)
    }

    /// Messages that have not ended.
    pub fn open_ops(&self) -> usize {
        self.ops.len()
    }

    /// Whether the first connection with this peer is open and the last one is not closed.
    pub fn is_up(&self, ni: NiIndex, peer: ProcessId) -> bool {
        self.open_links.contains(&(ni, peer))
    }

    /// Keeps what was stored, and frees the memory of all that has ended: a driver that still uses
    /// it is found out by the memory.
    pub fn settle(&mut self, memory: &mut impl Memory) {
        for (spans, index) in core::mem::take(&mut self.returned) {
            if let Some(index) = index {
                let mut bytes = Vec::new();
                for span in &spans {
                    let from = bytes.len();
                    bytes.resize(from + span.len as usize, 0);
                    memory.read(*span, &mut bytes[from..]);
                }
                self.received[index].bytes = Some(bytes);
            }
            for span in spans {
                memory.free(span);
            }
        }
    }

    fn carry_out(
        &mut self,
        plan: PlannedVerdict,
        ni: NiIndex,
        from: ProcessId,
        header: &Header,
    ) -> Verdict {
        let spans = match plan {
            PlannedVerdict::Into(spans) => spans,
            PlannedVerdict::Done => return Verdict::Done,
            PlannedVerdict::Drop => return Verdict::Drop,
            PlannedVerdict::Park => return Verdict::Park,
            PlannedVerdict::Refuse(violation) => return Verdict::Refuse(violation),
            PlannedVerdict::Reply(_) => panic!("only a GET can be answered in place"),
        };
        assert!(total_len(&spans) <= header.payload_len, "the test is wrong");
        let index = self.received.len();
        let key = key_of(header);
        self.received.push(Received { key, header: *header, from, ni, bytes: None, status: None });
        let op = self.ops.insert(Op::Receiving { index, from: (ni, from), spans: spans.clone() });
        Verdict::Into { op, spans }
    }
}

impl Core for ModelCore {
    fn recv_header(&mut self, _now: Time, arrival: Arrival, header: &Header) -> Verdict {
        let Arrival { ni, from, rx } = arrival;
        assert!(!self.closed, "a message arrived after everything was closed");
        assert!(self.is_up(ni, from), "a message of {from:?} arrived before its link was up");
        let same = self.parked.iter().any(|parked| (parked.ni, parked.rx) == (ni, rx));
        assert!(!same, "{rx:?} names two messages of {ni:?}");
        let key = key_of(header);
        let plan =
            self.plans.get_mut(&key).and_then(VecDeque::pop_front).unwrap_or(PlannedVerdict::Drop);
        let verdict = self.carry_out(plan, ni, from, header);
        match verdict {
            Verdict::Park => self.parked.push(Parked { ni, rx, from, header: *header }),
            Verdict::Into { .. } => {}
            Verdict::Done | Verdict::Drop | Verdict::Refuse(_) => {
                let (header, bytes, status) = (*header, None, None);
                self.received.push(Received { key, header, from, ni, bytes, status });
            }
        }
        verdict
    }

    fn recv_get(&mut self, now: Time, arrival: Arrival, header: &Header) -> GetVerdict {
        let Body::Get { return_md, .. } = header.body else {
            panic!("only GETs are answered in place: {header:?}");
        };
        let key = key_of(header);
        let plans = self.plans.get_mut(&key);
        let next = plans.and_then(|plans| {
            let reply = matches!(plans.front(), Some(PlannedVerdict::Reply(_)));
            reply.then(|| plans.pop_front()).flatten()
        });
        let Some(PlannedVerdict::Reply(payload)) = next else {
            return GetVerdict::Other(self.recv_header(now, arrival, header));
        };
        assert!(!self.closed, "a message arrived after everything was closed");
        let Arrival { ni, from, .. } = arrival;
        assert!(self.is_up(ni, from), "a message of {from:?} arrived before its link was up");
        let (bytes, status) = (None, None);
        self.received.push(Received { key, header: *header, from, ni, bytes, status });
        let body = Body::Reply { md: return_md };
        let payload_len = total_len(&payload);
        let header = Header { dst: header.src, src: header.dst, payload_len, body };
        let op = self.ops.insert(Op::Sending(payload.clone()));
        let deadline = now + REPLY_PATIENCE;
        GetVerdict::Reply(SendAction { op, ni, to: from, header, payload, deadline })
    }

    fn done(&mut self, now: Time, op: OpKey, status: Status) {
        match self.ops.remove(op) {
            None => panic!("{op:?} ended twice, or was never given to the driver"),
            Some(Op::Sending(spans)) => {
                self.ended.push(Ended { op, at: now, status });
                self.returned.push((spans, None));
            }
            Some(Op::Receiving { index, from: (ni, from), spans }) => {
                let whole = !status.is_ok() || self.is_up(ni, from);
                assert!(whole, "a message of {from:?} was stored after its link was down");
                self.received[index].status = Some(status);
                self.returned.push((spans, Some(index)));
            }
        }
    }

    fn journal_enabled(&self) -> bool {
        true
    }

    fn link(&mut self, _now: Time, ni: NiIndex, peer: ProcessId, event: LinkEvent) {
        let up = self.is_up(ni, peer);
        match event {
            LinkEvent::Up => {
                assert!(!up, "the link to {peer:?} is up twice");
                assert!(!self.closed, "a link is up after everything was closed");
                self.open_links.push((ni, peer));
            }
            LinkEvent::Down { status } => {
                assert!(up, "the link to {peer:?} is down twice");
                assert!(!status.is_ok(), "a link is never down with {status:?}");
                self.open_links.retain(|link| *link != (ni, peer));
            }
            LinkEvent::Restarted => {}
        }
        self.links.push(LinkReport { ni, peer, event });
    }

    fn forget(&mut self, ni: NiIndex, rx: RxId) {
        let at = self.parked.iter().position(|parked| (parked.ni, parked.rx) == (ni, rx));
        let parked = self.parked.remove(at.expect("only a parked message can be forgotten"));
        assert!(self.is_up(ni, parked.from), "a message was forgotten after its link was down");
        self.forgotten += 1;
        if let Some(plan) = self.decided_too_late.take() {
            self.resume_parked(&parked, plan);
        }
    }
}
