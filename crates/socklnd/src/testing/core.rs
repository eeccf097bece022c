//! A model of the core: handles headers as the test planned, and records the results.

use std::collections::VecDeque;

use lustrine_lnet::lnd::{
    Action, Arrival, Core, HeaderViolation, LinkEvent, NiIndex, OpKey, RxId, Verdict,
};
use lustrine_lnet::memory::{Span, Spans};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_wire::header::Header;
use lustrine_wire::nid::ProcessId;
use slotmap::SlotMap;

use super::net::Memory;

/// What to do with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Store the whole payload, in pieces of at most so many bytes.
    Store {
        piece: u32,
    },
    /// Store so many bytes of it.
    Truncate(u32),
    /// No byte of it is wanted.
    Done,
    Drop,
    /// Wait; the test resumes.
    Park,
    Refuse(HeaderViolation),
}

/// A message that arrived, and its result.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) from: ProcessId,
    pub(crate) header: Header,
    pub(crate) spans: Spans,
    /// `None` until it is reported; messages that want nothing are never reported.
    pub(crate) status: Option<Status>,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Receiving(usize),
    Sending,
}

/// The model.
#[derive(Debug)]
pub(crate) struct TestCore {
    pub(crate) memory: Memory,
    /// Plans for the next headers, and the default after them.
    pub(crate) plans: VecDeque<Plan>,
    pub(crate) plan: Plan,
    pub(crate) arrived: Vec<Arrived>,
    /// The results of messages sent, in the order of their ends.
    pub(crate) sent: Vec<(OpKey, Status)>,
    pub(crate) links: Vec<(NiIndex, ProcessId, LinkEvent)>,
    pub(crate) parked: VecDeque<(RxId, Header, ProcessId)>,
    pub(crate) forgotten: Vec<RxId>,
    pub(crate) outbox: VecDeque<Action>,
    ops: SlotMap<OpKey, Op>,
}

impl TestCore {
    pub(crate) fn new(memory: &Memory) -> TestCore {
        TestCore {
            memory: memory.clone(),
            plans: VecDeque::new(),
            plan: Plan::Store { piece: u32::MAX },
            arrived: Vec::new(),
            sent: Vec::new(),
            links: Vec::new(),
            parked: VecDeque::new(),
            forgotten: Vec::new(),
            outbox: VecDeque::new(),
            ops: SlotMap::with_key(),
        }
    }

    /// A key for a message to send.
    pub(crate) fn sending(&mut self) -> OpKey {
        self.ops.insert(Op::Sending)
    }

    /// Operations that have not ended.
    pub(crate) fn open_ops(&self) -> usize {
        self.ops.len()
    }

    /// The payload of a message that arrived.
    pub(crate) fn payload(&self, index: usize) -> Vec<u8> {
        let memory = self.memory.borrow();
        self.arrived[index].spans.iter().flat_map(|span| memory.bytes(*span).to_vec()).collect()
    }

    fn verdict(&mut self, plan: Plan, header: &Header, from: ProcessId) -> Verdict {
        let len = header.payload_len;
        let spans = match plan {
            Plan::Store { piece } => self.spans(len, piece),
            Plan::Truncate(wanted) => self.spans(wanted.min(len), u32::MAX),
            Plan::Done => return Verdict::Done,
            Plan::Drop => return Verdict::Drop,
            Plan::Park => return Verdict::Park,
            Plan::Refuse(misbehaviour) => return Verdict::Refuse(misbehaviour),
        };
        let op = self.ops.insert(Op::Receiving(self.arrived.len()));
        self.arrived.push(Arrived { from, header: *header, spans: spans.clone(), status: None });
        Verdict::Into { op, spans }
    }

    fn spans(&mut self, len: u32, piece: u32) -> Spans {
        let mut memory = self.memory.borrow_mut();
        let mut left = len;
        let mut spans = Spans::new();
        while left != 0 {
            let span: Span = memory.alloc(left.min(piece));
            left -= span.len;
            spans.push(span);
        }
        spans
    }

    /// Decides about the message parked first.
    pub(crate) fn resume(&mut self, plan: Plan) {
        let (rx, header, from) = self.parked.pop_front().expect("a parked message");
        let verdict = self.verdict(plan, &header, from);
        self.outbox.push_back(Action::Resume { ni: NiIndex(0), rx, verdict });
    }
}

impl Core for TestCore {
    fn recv_header(&mut self, _now: Time, arrival: Arrival, header: &Header) -> Verdict {
        let plan = self.plans.pop_front().unwrap_or(self.plan);
        let verdict = self.verdict(plan, header, arrival.from);
        if verdict == Verdict::Park {
            self.parked.push_back((arrival.rx, *header, arrival.from));
        }
        verdict
    }

    fn done(&mut self, _now: Time, op: OpKey, status: Status) {
        match self.ops.remove(op).expect("done once per operation") {
            Op::Receiving(index) => self.arrived[index].status = Some(status),
            Op::Sending => self.sent.push((op, status)),
        }
    }

    fn link(&mut self, _now: Time, ni: NiIndex, peer: ProcessId, event: LinkEvent) {
        self.links.push((ni, peer, event));
    }

    fn forget(&mut self, _ni: NiIndex, rx: RxId) {
        self.forgotten.push(rx);
        self.parked.retain(|(parked, ..)| *parked != rx);
    }
}
