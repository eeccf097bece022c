//! Messages to 0@lo: a copy within the node, without credits ([CORE-15]).

use lustrine_wire::header::{Body, Header};
use lustrine_wire::nid::{Nid, PID_LUSTRE, ProcessId};

use super::Shard;
use super::matching::{Found, get_wanted, put_wanted};
use crate::event::{Event, EventKind};
use crate::lnd::OpKey;
use crate::md::MdKey;
use crate::memory::{Memory, Span, Spans, part_of};
use crate::portal::Origin;
use crate::status::Status;
use crate::time::Time;

impl Shard {
    /// Delivers the messages sent to 0@lo since the last turn. A message that a delivery causes
    /// waits for the next turn.
    pub(super) fn deliver_loopback(&mut self, now: Time, memory: &mut impl Memory) {
        for _ in 0..self.loopback.len() {
            let Some((op, found)) = self.loopback.pop_front() else { break };
            if let Some(Found::Match { md, .. }) = found {
                // What `matched_loopback` counted.
                self.mds[md].pending -= 1;
            }
            let Some(msg) = self.msgs.get(op) else { continue };
            let header = msg.header;
            let found = found.unwrap_or_else(|| {
                let hop = header.src;
                match put_wanted(&header, hop).or_else(|| get_wanted(&header, hop)) {
                    Some(wanted) => self.find_match(&wanted),
                    None => Found::Nothing,
                }
            });
            match (found, header.body) {
                (Found::Match { md, offset, length }, _) => {
                    self.copy_loopback(now, memory, op, &header, Place { md, offset, length });
                }
                (Found::Nothing, _) if self.park(&header, Origin::Loopback(op)) => {}
                // Dropped without a reply, as on the wire: an awaited answer times out.
                _ => {
                    self.telemetry.stats.dropped.count(&header.body);
                    self.retire(now, op, Status::Ok);
                }
            }
        }
    }

    /// A parked message has matched or is dropped; the next turn handles it. Until then the
    /// descriptor that it matched stays, also when others use it up.
    pub(super) fn matched_loopback(&mut self, op: OpKey, found: Found) {
        if let Found::Match { md, .. } = found {
            self.mds[md].pending += 1;
        }
        let found = if found == Found::Nothing { Found::TooLong } else { found };
        self.loopback.push_back((op, Some(found)));
    }

    fn copy_loopback(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        op: OpKey,
        header: &Header,
        place: Place,
    ) {
        let theirs = part_of(&self.mds[place.md].md.spans, place.offset, place.length);
        let Some(own_md) = self.msgs[op].md else { return };
        let is_get = matches!(header.body, Body::Get { .. });
        if is_get {
            copy_spans(memory, &theirs, &part_of(&self.mds[own_md].md.spans, 0, place.length));
        } else {
            copy_spans(memory, &part_of(&self.msgs[op].payload, 0, place.length), &theirs);
        }
        let kind = if is_get { EventKind::Get } else { EventKind::Put };
        self.telemetry.stats.received.count(&header.body);
        self.telemetry.stats.recv_length += u64::from(place.length);
        self.loopback_event(op, kind, place.md, place);
        let acknowledged = !is_get && self.wants_ack(&self.msgs[op]);
        if (is_get || acknowledged) && !self.mds[own_md].exhausted() {
            self.end_wait_for_answer(own_md);
            self.mds[own_md].count_operation();
            let kind = if is_get { EventKind::Reply } else { EventKind::Ack };
            self.loopback_event(op, kind, own_md, Place { offset: 0, ..place });
        }
        self.retire(now, op, Status::Ok);
    }

    fn loopback_event(&mut self, op: OpKey, kind: EventKind, md: MdKey, place: Place) {
        let msg = &self.msgs[op];
        let lo = ProcessId { nid: Nid::LO, pid: PID_LUSTRE };
        let hdr_data = match msg.header.body {
            Body::Put { hdr_data, .. } => hdr_data,
            _ => 0,
        };
        let state = &self.mds[md];
        let event = Event {
            kind,
            status: Status::Ok,
            owner: state.md.owner,
            user: state.md.user,
            md,
            unlinked: false,
            peer: lo,
            hop: lo,
            local: lo,
            portal: msg.portal,
            match_bits: msg.match_bits,
            hdr_data,
            requested: msg.requested,
            moved: place.length,
            offset: place.offset,
        };
        self.post(event);
    }
}

/// A place in a descriptor.
#[derive(Clone, Copy, Debug)]
struct Place {
    md: MdKey,
    offset: u32,
    length: u32,
}

/// Copies one fragment list to another of the same length.
fn copy_spans(memory: &mut impl Memory, from: &[Span], to: &[Span]) {
    let (mut from, mut to) = (Spans::from_slice(from), Spans::from_slice(to));
    from.retain(|span| span.len > 0);
    to.retain(|span| span.len > 0);
    while let (Some(source), Some(sink)) = (from.first_mut(), to.first_mut()) {
        let len = source.len.min(sink.len);
        memory.copy(source.part(0, len), sink.part(0, len));
        *source = source.part(len, source.len - len);
        *sink = sink.part(len, sink.len - len);
        from.retain(|span| span.len > 0);
        to.retain(|span| span.len > 0);
    }
}
