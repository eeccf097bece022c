//! What servers ask of clients: callbacks to holders of locks, on portal 15.

use lustrine_fswire::body::{MessageType, PtlrpcBody};
use lustrine_fswire::connect::ConnectFlags2;
use lustrine_fswire::message::{BARE_LEN, Header, HeaderFlags, Message, MessageBuilder};
use lustrine_fswire::opcode::portal;
use lustrine_fswire::xid::{RepMbits, reply_match_bits};
use lustrine_lnet::event::{Event, EventKind, Stray};
use lustrine_lnet::md::{MatchId, Md, MdKey, MdOptions, Position, Unlink};
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::portal::MatchEntry;
use lustrine_lnet::service::Turn;
use lustrine_lnet::shard::{AckWanted, PutArgs};
use lustrine_wire::nid::{Nid, PID_ANY, ProcessId};

use super::{ImportKey, Ptlrpc, RpcEvent};
use crate::import::{Import, errno};

/// Buffers for requests of servers.
const BUFFERS: usize = 4;
/// Length of one, in bytes.
const BUFFER_LEN: u32 = 256 << 10;
/// With so many replies in flight nothing is refused: anybody can send what is to be refused, and
/// not take the answers.
const REFUSALS_MAX: usize = 64;
/// The longest request of a server: a completion can carry a layout of 64 KiB.
const REQUEST_LEN_MAX: u32 = 72 << 10;

/// A request of a server.
#[derive(Debug)]
pub struct Incoming {
    /// The import whose server sent it.
    pub import: ImportKey,
    /// Who sent it, and gets the reply.
    pub peer: ProcessId,
    /// The whole message. Its framing and its body were checked.
    pub message: Vec<u8>,
    /// The body.
    pub body: PtlrpcBody,
    reply_to: ReplyTo,
}

/// Where a reply goes.
#[derive(Clone, Copy, Debug)]
struct ReplyTo {
    peer: ProcessId,
    match_bits: u64,
    /// Where it is to be put in the server's memory.
    offset: u32,
}

impl ReplyTo {
    fn new(
        event: &Event,
        message: &Message<'_>,
        body: &PtlrpcBody,
        rep_mbits: RepMbits,
    ) -> ReplyTo {
        let early = message.header().flags.contains(HeaderFlags::AT_SUPPORT);
        ReplyTo {
            peer: event.peer,
            match_bits: reply_match_bits(event.match_bits, body.mbits, body.opcode, rep_mbits),
            offset: if early { BARE_LEN as u32 } else { 0 },
        }
    }
}

/// The buffers on the callback portal.
#[derive(Debug, Default)]
pub(super) struct RequestBuffers {
    attached: Vec<(MdKey, Span)>,
    /// Replies in flight, with their memory.
    replies: Vec<(MdKey, Span)>,
    /// Whether the last attempt to attach one failed. The next event tries again.
    short: bool,
    /// Whether nothing more is to be received.
    closed: bool,
}

impl RequestBuffers {
    /// Whether there is nothing to attach now.
    pub(super) fn are_attached(&self) -> bool {
        self.closed || self.short || self.attached.len() == BUFFERS
    }

    /// Whether LNet has let go of all memory.
    pub(super) fn are_detached(&self) -> bool {
        self.attached.is_empty() && self.replies.is_empty()
    }
}

impl Ptlrpc {
    /// Attaches the buffers that are missing.
    pub(super) fn attach_buffers(&mut self, turn: &mut Turn<'_>) {
        self.buffers.short = false;
        while !self.buffers.closed && self.buffers.attached.len() < BUFFERS {
            let Some(span) = turn.memory.alloc(BUFFER_LEN) else {
                self.buffers.short = true;
                return;
            };
            let md = Md {
                spans: [span].into_iter().collect(),
                threshold: None,
                max_size: Some(REQUEST_LEN_MAX),
                options: MdOptions::OP_PUT,
                owner: self.owner,
                user: 0,
            };
            let entry = MatchEntry {
                from: MatchId { nid: Nid::ANY, pid: PID_ANY },
                match_bits: 0,
                ignore_bits: u64::MAX,
                position: Position::After,
                unlink: Unlink::Auto,
            };
            let Ok(md) = turn.shard.attach(turn.now, portal::LDLM_CALLBACK, entry, md) else {
                turn.memory.free(span);
                self.buffers.short = true;
                return;
            };
            self.buffers.attached.push((md, span));
        }
    }

    /// Receives nothing more from servers. [`Ptlrpc::is_quiet`] says when LNet has let go of the
    /// buffers.
    pub fn close(&mut self, turn: &mut Turn<'_>) {
        self.buffers.closed = true;
        for (md, _) in &self.buffers.attached {
            turn.shard.unlink(turn.now, *md);
        }
    }

    /// An event of a request buffer, or of a reply to a server.
    pub(super) fn on_buffer_event(&mut self, turn: &mut Turn<'_>, event: &Event) {
        let find = |list: &[(MdKey, Span)]| list.iter().position(|(md, _)| *md == event.md);
        if let Some(at) = find(&self.buffers.attached) {
            let span = self.buffers.attached[at].1;
            if event.kind == EventKind::Put && event.status.is_ok() {
                let mut bytes = vec![0; event.moved as usize];
                turn.memory.read(span.part(event.offset, event.moved), &mut bytes);
                self.on_incoming(turn, event, bytes);
            }
            if event.unlinked {
                self.buffers.attached.swap_remove(at);
                turn.memory.free(span);
                self.attach_buffers(turn);
            }
        } else if let Some(at) = find(&self.buffers.replies)
            && event.unlinked
        {
            let (_, span) = self.buffers.replies.swap_remove(at);
            turn.memory.free(span);
        }
    }

    fn on_incoming(&mut self, turn: &mut Turn<'_>, event: &Event, message: Vec<u8>) {
        if self.take_in(event, &message).is_none() {
            self.counters.requests_dropped += 1;
            // Another client of the node may have the import: all use this portal.
            if Message::parse_request(&message).is_ok() {
                turn.shard.pass_on(Stray { event: *event, message });
            }
        }
    }

    /// Takes a request in if it is for an import of this one.
    pub(super) fn take_in(&mut self, event: &Event, message: &[u8]) -> Option<()> {
        let (parsed, body) = Message::parse_request(message).ok()?;
        // The handle names the import, and only its servers know it.
        let of_server = |import: &&Import| {
            import.client_handle() == body.handle.0 && import.has_peer(&event.peer)
        };
        let (key, import) = self.imports.iter().find(|(_, import)| of_server(import))?;
        self.counters.requests_received += 1;
        let rep_mbits = match import.granted().flags2.contains(ConnectFlags2::REP_MBITS) {
            true => RepMbits::Granted,
            false => RepMbits::Absent,
        };
        let reply_to = ReplyTo::new(event, &parsed, &body, rep_mbits);
        let message = message.to_vec();
        let incoming = Incoming { import: key, peer: event.peer, message, body, reply_to };
        self.events.push_back(RpcEvent::Request(incoming));
        Some(())
    }

    /// Refuses a request for an import that no client of this node has, such as that of a program
    /// that was killed [RPC-23]. Without an answer the server waits for minutes until it evicts
    /// that client, and others wait for the locks of that client.
    pub fn on_unclaimed(&mut self, turn: &mut Turn<'_>, stray: &Stray) {
        let Ok((parsed, body)) = Message::parse_request(&stray.message) else { return };
        let is_idle = self.buffers.replies.len() < REFUSALS_MAX && !self.buffers.closed;
        if stray.event.portal != portal::LDLM_CALLBACK || !is_idle {
            return;
        }
        // Match bits are in the body if the server has granted that they count for replies.
        let granted = if body.mbits == 0 { RepMbits::Absent } else { RepMbits::Granted };
        let to = ReplyTo::new(&stray.event, &parsed, &body, granted);
        let mut refused = PtlrpcBody::reply(body.opcode);
        (refused.kind, refused.status) = (MessageType::ERROR, -errno::ENOTCONN);
        let mut message = Vec::new();
        let mut builder = MessageBuilder::new(&mut message, &Header::default(), 1);
        builder.value(&refused);
        builder.finish();
        self.send_reply(turn, to, &message);
    }

    /// Answers a request of a server. A reply that cannot be sent is lost: the server asks again,
    /// or gives up.
    pub fn reply(&mut self, turn: &mut Turn<'_>, to: &Incoming, message: &[u8]) {
        self.send_reply(turn, to.reply_to, message);
    }

    fn send_reply(&mut self, turn: &mut Turn<'_>, to: ReplyTo, message: &[u8]) {
        let Some(span) = turn.memory.alloc(message.len() as u32) else { return };
        turn.memory.write(span, message);
        let md = Md {
            spans: [span].into_iter().collect(),
            threshold: Some(1),
            max_size: None,
            options: MdOptions::empty(),
            owner: self.owner,
            user: 0,
        };
        let Ok(md) = turn.shard.bind(md) else {
            turn.memory.free(span);
            return;
        };
        self.buffers.replies.push((md, span));
        let put = PutArgs {
            md,
            local: None,
            target: to.peer,
            portal: portal::LDLM_CALLBACK_REPLY,
            match_bits: to.match_bits,
            offset: to.offset,
            hdr_data: 0,
            ack: AckWanted::No,
            timeout: None,
        };
        if turn.shard.put(turn.now, put).is_err() {
            turn.shard.unlink(turn.now, md);
        }
    }
}
