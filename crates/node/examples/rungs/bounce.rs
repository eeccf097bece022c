//! The layer "socklnd": almost nothing on the driver.

use std::collections::VecDeque;

use lustrine_lnet::lnd::{
    Action, Arrival, Core, LinkEvent, NiIndex, OpKey, RxId, SendAction, Verdict,
};
use lustrine_lnet::memory::Spans;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::Identity;
use lustrine_node::loop_io::LoopIo;
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::nid::{Nid, ProcessId};
use slotmap::SlotMap;

use crate::layer::{Arrived, Buffers, Layer, PORTAL};

/// The deadline of a message in LNet.
const DEADLINE: Nanos = Nanos::from_secs(50);

/// Receives every PUT into the buffer of its slot.
pub(crate) struct Bounce {
    own: ProcessId,
    buffers: Buffers,
    /// The slot that each operation receives; `None` for operations that send.
    ops: SlotMap<OpKey, Option<Arrived>>,
    actions: VecDeque<Action>,
    arrived: VecDeque<Arrived>,
    errors: u64,
}

impl Core for Bounce {
    fn recv_header(&mut self, _now: Time, arrival: Arrival, header: &Header) -> Verdict {
        let Body::Put { match_bits: slot, .. } = header.body else { return Verdict::Drop };
        match self.buffers.incoming(slot) {
            Some(span) if header.payload_len <= span.len => {
                let op = self.ops.insert(Some(Arrived { from: arrival.from, slot }));
                let spans = Spans::from_slice(&[span.part(0, header.payload_len)]);
                Verdict::Into { op, spans }
            }
            _ => Verdict::Drop,
        }
    }

    fn done(&mut self, _now: Time, op: OpKey, status: Status) {
        let received = self.ops.remove(op).expect("a known operation");
        if status.is_ok() {
            self.arrived.extend(received);
        } else {
            self.errors += 1;
        }
    }

    fn link(&mut self, _now: Time, _ni: NiIndex, _peer: ProcessId, _event: LinkEvent) {}

    fn forget(&mut self, _ni: NiIndex, _rx: RxId) {}
}

impl Layer for Bounce {
    type Core = Bounce;

    fn new(own: Nid, _identity: Identity, buffers: Buffers, _io: &mut LoopIo) -> Bounce {
        Bounce {
            own: ProcessId::lustre(own),
            buffers,
            ops: SlotMap::with_key(),
            actions: VecDeque::new(),
            arrived: VecDeque::new(),
            errors: 0,
        }
    }

    fn core(&mut self) -> &mut Bounce {
        self
    }

    fn send(&mut self, now: Time, to: ProcessId, slot: u64) {
        let span = self.buffers.outgoing(slot);
        let body = Body::Put {
            ack_md: MdHandle::NONE,
            match_bits: slot,
            hdr_data: 0,
            portal: PORTAL,
            offset: 0,
        };
        self.actions.push_back(Action::Send(SendAction {
            op: self.ops.insert(None),
            ni: NiIndex(0),
            to,
            header: Header { dst: to, src: self.own, payload_len: span.len, body },
            payload: Spans::from_slice(&[span]),
            deadline: now + DEADLINE,
        }));
    }

    fn drive(&mut self, _now: Time, _io: &mut LoopIo) {}

    fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_arrived(&mut self) -> Option<Arrived> {
        self.arrived.pop_front()
    }

    fn errors(&self) -> u64 {
        self.errors
    }

    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
}
