//! Request buffers: one descriptor takes many requests, several are in rotation.
//!
//! LNet fills the buffers of a portal in the order they were posted. A full one goes when the last
//! request in it is complete, which is up to its sender: it no longer counts as posted, and a
//! spare takes its place.

use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::{MatchId, Md, MdKey, MdOptions, Position, Unlink};
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::portal::MatchEntry;
use lustrine_wire::nid::{Nid, PID_ANY};
use lustrine_wire::srpc::{MESSAGE_LEN, Message, Service};
use smallvec::smallvec;

use crate::limits::{INBOX_LEN, INBOX_REQUESTS, INBOXES, INBOXES_MAX, MESSAGE_LEN as CELL};
use crate::mark::{Mark, Part, Role};
use crate::turn::Turn;

/// The request buffers of one portal.
///
/// They take whatever match bits arrive: a request for a service that does not exist is dropped
/// here instead of waiting inside LNet for ever, where it would block its connection.
#[derive(Debug)]
pub(crate) struct RequestBuffers {
    portal: u32,
    /// Number of the first buffer; the buffers of all inboxes of a node count on.
    first: u32,
    buffers: Vec<Buffer>,
    /// Buffers that take requests.
    posted: u32,
    /// Number of the next buffer posted.
    next_rpc: u64,
    /// Requests that posted buffers can still take.
    open: u32,
}

#[derive(Debug)]
struct Buffer {
    span: Option<Span>,
    md: Option<MdKey>,
    /// Says which of two buffers was posted first.
    order: u64,
    /// Posted, but nothing more goes into it.
    full: bool,
    /// Requests it can still take.
    left: u32,
}

impl Buffer {
    const EMPTY: Buffer = Buffer { span: None, md: None, order: 0, full: false, left: 0 };

    fn takes_requests(&self) -> bool {
        self.md.is_some() && !self.full
    }
}

/// What a request buffer received.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrived {
    /// A request of the service its match bits name.
    Request(Service, Message),
    /// Something else: counted as received and as dropped, no reply [LST-2].
    Bad,
    /// Nothing: a buffer went away.
    Nothing,
}

impl RequestBuffers {
    /// The inbox of `portal`; its buffers are numbered from `first`.
    pub(crate) fn new(portal: u32, first: u32) -> RequestBuffers {
        RequestBuffers { portal, first, buffers: Vec::new(), posted: 0, next_rpc: 0, open: 0 }
    }

    /// Whether a buffer number of a mark is one of this inbox.
    pub(crate) fn owns(&self, slot: u32) -> bool {
        (self.first..self.first + INBOXES_MAX).contains(&slot)
    }

    /// Whether as many buffers as there are to be take requests.
    pub(crate) fn is_posted(&self) -> bool {
        self.posted == INBOXES
    }

    /// Posts buffers until [`INBOXES`] take requests, as long as together they take at most `room`.
    pub(crate) fn post<M: Memory>(&mut self, turn: &mut Turn<'_, M>, room: u32) {
        let any_peer = MatchId { nid: Nid::ANY, pid: PID_ANY };
        while self.posted < INBOXES && self.open + INBOX_REQUESTS <= room {
            let unused = self.buffers.iter().position(|buffer| buffer.md.is_none());
            let index = unused.unwrap_or(self.buffers.len());
            if index == INBOXES_MAX as usize {
                return;
            }
            if index == self.buffers.len() {
                self.buffers.push(Buffer::EMPTY);
            }
            let buffer = &mut self.buffers[index];
            if buffer.span.is_none() {
                buffer.span = turn.memory.alloc(INBOX_LEN);
            }
            let Some(span) = buffer.span else { return };
            let slot = self.first + index as u32;
            let md = Md {
                spans: smallvec![span],
                threshold: None,
                max_size: Some(CELL),
                options: MdOptions::OP_PUT,
                owner: turn.owner,
                user: Mark { role: Role::RequestBuffers, part: Part::Request, slot }.encode(),
            };
            let entry = MatchEntry {
                from: any_peer,
                match_bits: 0,
                ignore_bits: u64::MAX,
                position: Position::After,
                unlink: Unlink::Auto,
            };
            let attached = turn.shard.attach(turn.now, self.portal, entry, md);
            let buffer = &mut self.buffers[index];
            buffer.md = Some(attached.expect("the portal is selftest's own"));
            buffer.order = self.next_rpc;
            buffer.full = false;
            buffer.left = INBOX_REQUESTS;
            self.next_rpc += 1;
            self.open += INBOX_REQUESTS;
            self.posted += 1;
        }
    }

    /// Reads what an event of one of the buffers brought.
    pub(crate) fn receive(&mut self, memory: &impl Memory, slot: u32, event: &Event) -> Arrived {
        let Some(buffer) = self.buffers.get_mut((slot - self.first) as usize) else {
            return Arrived::Nothing;
        };
        if buffer.md != Some(event.md) {
            return Arrived::Nothing;
        }
        let order = buffer.order;
        let arrived = match (event.kind, buffer.span) {
            (EventKind::Put, Some(span)) => {
                let last = event.offset + event.moved + CELL > INBOX_LEN;
                // Shorter ones use no room for a request: at most INBOX_REQUESTS full ones fit.
                // What completes in a full buffer is no longer counted as open.
                if event.moved == CELL && !buffer.full {
                    buffer.left -= 1;
                    self.open -= 1;
                }
                self.close_full(order, last);
                read_request(memory, span, event)
            }
            _ => Arrived::Nothing,
        };
        if event.unlinked {
            let buffer = &mut self.buffers[(slot - self.first) as usize];
            self.posted -= u32::from(buffer.takes_requests());
            buffer.md = None;
            self.open -= buffer.left;
            buffer.left = 0;
        }
        arrived
    }

    /// Notes which buffers are full once a request went into the buffer of this order: those in
    /// front of it, and itself when it was in the `last` place.
    fn close_full(&mut self, order: u64, last: bool) {
        for buffer in self.buffers.iter_mut().filter(|buffer| buffer.takes_requests()) {
            if buffer.order < order || last && buffer.order == order {
                buffer.full = true;
                self.posted -= 1;
                self.open -= buffer.left;
                buffer.left = 0;
            }
        }
    }

    /// Withdraws all buffers.
    pub(crate) fn close<M: Memory>(&mut self, turn: &mut Turn<'_, M>) {
        for md in self.buffers.iter().filter_map(|buffer| buffer.md) {
            turn.shard.unlink(turn.now, md);
        }
    }
}

/// Checks what can be checked without knowing the service's rules: length, magic, type.
fn read_request(memory: &impl Memory, span: Span, event: &Event) -> Arrived {
    if !event.status.is_ok() || event.requested != CELL || event.moved != CELL {
        return Arrived::Bad;
    }
    let mut raw = [0; MESSAGE_LEN];
    memory.read(span.part(event.offset, CELL), &mut raw);
    let Some(service) = u32::try_from(event.match_bits).ok().and_then(Service::from_id) else {
        return Arrived::Bad;
    };
    match Message::parse(&raw) {
        Ok(message)
            if service.portal() == event.portal
                && message.body.message_type() == service.request() =>
        {
            Arrived::Request(service, message)
        }
        _ => Arrived::Bad,
    }
}
