//! Requests, replies, bulk and callbacks of a server on LNet.

use std::collections::VecDeque;

use bytes::Bytes;
use lustrine_fswire::body::{PtlrpcBody, early_reply_checksum};
use lustrine_fswire::codec::Wire;
use lustrine_fswire::message::{BARE_LEN, Header, HeaderFlags, Message, MessageBuilder};
use lustrine_fswire::opcode::portal;
use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::{FRAGMENTS_MAX, MatchId, Md, MdKey, MdOptions, Owner, Position, Unlink};
use lustrine_lnet::memory::{Memory, Spans, copy_of, total_len};
use lustrine_lnet::portal::{Laziness, MatchEntry};
use lustrine_lnet::service::Turn;
use lustrine_lnet::shard::{AckWanted, GetArgs, PutArgs};
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::nid::{Nid, PID_ANY, ProcessId};
use slotmap::{Key, KeyData, SlotMap, new_key_type};

use crate::xid::XidSource;

new_key_type! {
    /// A descriptor of the server. Its number is the `user` value of the descriptor.
    struct HeldKey;
    /// A bulk transfer.
    pub struct BulkKey;
    /// A request to a client.
    pub struct CallKey;
}

/// Buffers on each portal.
const BUFFERS: usize = 2;
/// Length of one, in bytes.
const BUFFER_LEN: u32 = 1 << 20;
/// The longest request in bytes: a change with a value of 64 KiB, or one with many niobufs.
const REQUEST_LEN_MAX: u32 = 258 << 10;
/// Room for the answer to a callback: a body and the value of a lock.
const ANSWER_ROOM: u32 = 1024;
/// What a GET brings is handed over in blocks of so many bytes, which a store can keep as they are.
const BLOCK_LEN: u32 = 64 << 10;
/// How long to wait for memory.
const MEMORY_PAUSE: Nanos = Nanos::from_millis(10);

/// A request of a client.
#[derive(Clone, Debug)]
pub struct Received {
    /// Who sent it, and gets the reply.
    pub peer: ProcessId,
    /// The NID that it was sent to, from which the reply comes.
    pub local: Nid,
    /// The portal that it came to.
    pub portal: u32,
    /// Its number.
    pub xid: u64,
    /// The whole message. Its framing and its body were checked.
    pub message: Vec<u8>,
    /// The body.
    pub body: PtlrpcBody,
    /// When it arrived.
    pub arrived: Time,
    /// Whether there is room for early replies in front of the reply [RPC-14].
    pub early_replies: bool,
}

/// What happened to requests, bulk and callbacks.
#[derive(Debug)]
pub enum ServerEvent {
    /// A request.
    Request(Box<Received>),
    /// A bulk transfer is over. What a GET brought, in blocks of up to 64 KiB that follow each
    /// other; none if it failed.
    Bulk(BulkKey, Option<Vec<Bytes>>),
    /// A client has answered a callback; none if it did not, or the callback did not reach it.
    Answer(CallKey, Option<Vec<u8>>),
}

/// What a descriptor is for.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// Requests arrive there, on a portal.
    Requests(u32),
    /// A reply, or a callback.
    Message,
    /// A piece of a bulk transfer.
    Bulk(BulkKey, usize),
    /// The answer to a callback.
    Answer(CallKey),
}

#[derive(Debug)]
struct Held {
    md: MdKey,
    spans: Spans,
    usage: Use,
}

#[derive(Debug)]
struct Bulk {
    left: usize,
    failed: bool,
    /// The blocks of each piece.
    pieces: Vec<Vec<Bytes>>,
}

#[derive(Debug)]
struct Call {
    deadline: Time,
    answer: Option<HeldKey>,
    /// Where the answer is to be put.
    offset: u32,
}

/// Lends parts of data to the memory; `None` if there is no room for them. A short part is copied,
/// since it would keep a whole block; all are if there are more than a descriptor can have.
fn lend(turn: &mut Turn<'_>, parts: Vec<Bytes>) -> Option<Spans> {
    let parts = match parts.len() {
        0..=FRAGMENTS_MAX => parts,
        _ => vec![parts.concat().into()],
    };
    let mut spans = Spans::new();
    for part in parts {
        let span = match part.len() >= LENT_MIN {
            true => turn.memory.lend(part),
            false => turn.memory.alloc(part.len() as u32).inspect(|span| {
                turn.memory.write(*span, &part);
            }),
        };
        let Some(span) = span else {
            spans.into_iter().for_each(|span| turn.memory.free(span));
            return None;
        };
        spans.push(span);
    }
    Some(spans)
}

/// Memory for data of a client, in blocks of up to 64 KiB; `None` if there is none.
fn alloc_blocks(turn: &mut Turn<'_>, len: u32) -> Option<Spans> {
    let mut spans = Spans::new();
    for at in (0..len).step_by(BLOCK_LEN as usize) {
        let Some(span) = turn.memory.alloc((len - at).min(BLOCK_LEN)) else {
            spans.into_iter().for_each(|span| turn.memory.free(span));
            return None;
        };
        spans.push(span);
    }
    Some(spans)
}

/// The shortest part of data that is lent, in bytes: it keeps a block of 64 KiB at most.
const LENT_MIN: usize = 16 << 10;

/// How long the data of a request are awaited: as long as its client waits, and not longer than
/// 100 s.
fn bulk_timeout(received: &Received) -> Nanos {
    Nanos::from_secs(u64::from(received.body.timeout.clamp(1, 100)))
}

/// Requests, replies, bulk and callbacks of the servers of a node.
#[derive(Debug)]
pub struct RpcServer {
    owner: Owner,
    portals: Vec<u32>,
    held: SlotMap<HeldKey, Held>,
    bulks: SlotMap<BulkKey, Bulk>,
    calls: SlotMap<CallKey, Call>,
    xids: XidSource,
    events: VecDeque<ServerEvent>,
    closed: bool,
    /// When to try again to attach buffers for which there was no memory.
    retry_at: Time,
    lazy: bool,
}

/// All portals that clients send requests to [RPC-11].
pub(crate) const ALL_PORTALS: [u32; 12] = [
    portal::OST_IO,
    portal::OST_STATFS,
    portal::MDS,
    portal::MDS_IO,
    portal::LDLM_CANCEL,
    portal::MDS_READPAGE,
    portal::OUT,
    portal::MGS,
    portal::OST,
    portal::FLD,
    portal::SEQ_METADATA,
    portal::SEQ_DATA,
];

impl RpcServer {
    /// A server without targets. `owner` is that of the service that it is a part of;
    /// `wall_seconds`, the time since 1970, makes the numbers of its callbacks new ones.
    pub fn new(owner: Owner, wall_seconds: u64) -> RpcServer {
        RpcServer {
            owner,
            portals: ALL_PORTALS.to_vec(),
            held: SlotMap::with_key(),
            bulks: SlotMap::with_key(),
            calls: SlotMap::with_key(),
            xids: XidSource::new(wall_seconds, 127),
            events: VecDeque::new(),
            closed: false,
            retry_at: Time::ZERO,
            lazy: false,
        }
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// Whether there is one.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Attaches buffers for requests, and ends callbacks that are not answered.
    pub fn drive(&mut self, turn: &mut Turn<'_>) {
        if self.retry_at <= turn.now {
            self.attach_buffers(turn);
        }
        let overdue = self.calls.iter().filter(|(_, call)| call.deadline <= turn.now);
        for key in overdue.map(|(key, _)| key).collect::<Vec<_>>() {
            self.end_call(turn, key, None);
        }
    }

    /// When [`RpcServer::drive`] has something to do next.
    pub fn next_deadline(&self) -> Time {
        let calls = self.calls.values().map(|call| call.deadline).min();
        let retry = if self.closed { Time::NEVER } else { self.retry_at };
        calls.unwrap_or(Time::NEVER).min(retry)
    }

    /// Takes no more requests, and gives everything back. [`RpcServer::is_quiet`] says when LNet
    /// has let go of it.
    pub fn close(&mut self, turn: &mut Turn<'_>) {
        self.closed = true;
        for held in self.held.values() {
            turn.shard.unlink(turn.now, held.md);
        }
        if self.lazy {
            for portal in &self.portals {
                // The portals are known.
                let _ = turn.shard.set_lazy(*portal, Laziness::Strict);
            }
        }
    }

    /// Whether LNet has nothing of it.
    pub fn is_quiet(&self) -> bool {
        self.held.is_empty()
    }

    fn attach_buffers(&mut self, turn: &mut Turn<'_>) {
        self.retry_at = Time::NEVER;
        if self.closed {
            return;
        }
        for portal in self.portals.clone() {
            if !self.lazy {
                // The portals are known.
                let _ = turn.shard.set_lazy(portal, Laziness::Lazy);
            }
            let there = |held: &&Held| matches!(held.usage, Use::Requests(at) if at == portal);
            let missing = BUFFERS - self.held.values().filter(there).count();
            for _ in 0..missing {
                if !self.attach_buffer(turn, portal) {
                    self.retry_at = turn.now + MEMORY_PAUSE;
                }
            }
        }
        self.lazy = true;
    }

    fn attach_buffer(&mut self, turn: &mut Turn<'_>, portal: u32) -> bool {
        let entry = MatchEntry {
            from: MatchId { nid: Nid::ANY, pid: PID_ANY },
            match_bits: 0,
            ignore_bits: u64::MAX,
            position: Position::After,
            unlink: Unlink::Auto,
        };
        self.hold(turn, BUFFER_LEN, Use::Requests(portal), |turn, md| {
            let md = Md { max_size: Some(REQUEST_LEN_MAX), options: MdOptions::OP_PUT, ..md };
            turn.shard.attach(turn.now, portal, entry, md).ok()
        })
        .is_some()
    }

    /// Makes a descriptor with memory of its own.
    fn hold(
        &mut self,
        turn: &mut Turn<'_>,
        len: u32,
        usage: Use,
        make: impl FnOnce(&mut Turn<'_>, Md) -> Option<MdKey>,
    ) -> Option<HeldKey> {
        let span = turn.memory.alloc(len)?;
        self.hold_spans(turn, Spans::from_slice(&[span]), usage, make)
    }

    /// Makes a descriptor with this memory, which is freed with it.
    fn hold_spans(
        &mut self,
        turn: &mut Turn<'_>,
        spans: Spans,
        usage: Use,
        make: impl FnOnce(&mut Turn<'_>, Md) -> Option<MdKey>,
    ) -> Option<HeldKey> {
        let key = self.held.insert(Held { md: MdKey::null(), spans: copy_of(&spans), usage });
        let md = Md {
            spans,
            threshold: None,
            max_size: None,
            options: MdOptions::empty(),
            owner: self.owner,
            user: key.data().as_ffi(),
        };
        match make(turn, md) {
            Some(md) => {
                self.held[key].md = md;
                Some(key)
            }
            None => {
                let held = self.held.remove(key).expect("it was just there");
                held.spans.into_iter().for_each(|span| turn.memory.free(span));
                None
            }
        }
    }

    /// PUTs a message to a client. One that cannot be sent is lost: the client asks again.
    fn put(
        &mut self,
        turn: &mut Turn<'_>,
        (target, local): (ProcessId, Option<Nid>),
        (portal, match_bits, offset): (u32, u64, u32),
        message: &[u8],
    ) -> Option<HeldKey> {
        let key = self.hold(turn, message.len() as u32, Use::Message, |turn, md| {
            turn.memory.write(md.spans[0], message);
            turn.shard.bind(Md { threshold: Some(1), ..md }).ok()
        })?;
        self.send(turn, key, (target, local), (portal, match_bits, offset), None);
        Some(key)
    }

    /// PUTs the memory of a descriptor. Bulk, of which the acknowledgement is awaited, has a
    /// time-out.
    fn send(
        &self,
        turn: &mut Turn<'_>,
        key: HeldKey,
        (target, local): (ProcessId, Option<Nid>),
        (portal, match_bits, offset): (u32, u64, u32),
        timeout: Option<Nanos>,
    ) {
        let md = self.held[key].md;
        let ack = if timeout.is_some() { AckWanted::Yes } else { AckWanted::No };
        let args =
            PutArgs { md, local, target, portal, match_bits, offset, hdr_data: 0, ack, timeout };
        if turn.shard.put(turn.now, args).is_err() {
            turn.shard.unlink(turn.now, md);
        }
    }

    /// Answers a request; `match_bits` are those of [`Received`], or of a later attempt of it.
    pub fn reply(&mut self, turn: &mut Turn<'_>, to: &Received, match_bits: u64, message: &[u8]) {
        let Some(portal) = portal::reply_to(to.portal) else { return };
        let offset = if to.early_replies { BARE_LEN as u32 } else { 0 };
        let target = (to.peer, Some(to.local));
        self.put(turn, target, (portal, match_bits, offset), message);
    }

    /// Tells a client that its request takes longer: `estimate` seconds from its start
    /// [RPC-16].
    pub fn early_reply(
        &mut self,
        turn: &mut Turn<'_>,
        to: &Received,
        match_bits: u64,
        estimate: u32,
    ) {
        let Some(portal) = portal::reply_to(to.portal).filter(|_| to.early_replies) else {
            return;
        };
        let elapsed = (turn.now.since(to.arrived).0 / 1_000_000_000) as u32;
        let body = PtlrpcBody {
            timeout: estimate,
            service_time: elapsed.max(1),
            ..PtlrpcBody::reply(to.body.opcode)
        };
        let cksum = early_reply_checksum(&body.to_bytes());
        let mut bytes = Vec::new();
        let header = Header { cksum, ..Header::default() };
        let mut message = MessageBuilder::new(&mut bytes, &header, 1);
        message.value(&body);
        message.finish();
        let target = (to.peer, Some(to.local));
        self.put(turn, target, (portal, match_bits, 0), &bytes);
    }

    /// PUTs data into the memory of a client, for each piece its match bits and its bytes, in parts
    /// that follow each other. [`ServerEvent::Bulk`] follows.
    pub fn put_bulk(
        &mut self,
        turn: &mut Turn<'_>,
        to: &Received,
        portal: u32,
        pieces: Vec<(u64, Vec<Bytes>)>,
    ) -> BulkKey {
        let bulk = Bulk { left: pieces.len(), failed: false, pieces: Vec::new() };
        let key = self.bulks.insert(bulk);
        for (index, (match_bits, parts)) in pieces.into_iter().enumerate() {
            let held = lend(turn, parts).and_then(|spans| {
                self.hold_spans(turn, spans, Use::Bulk(key, index), |turn, md| {
                    turn.shard.bind(Md { threshold: Some(2), ..md }).ok()
                })
            });
            let Some(held) = held else {
                self.piece_over(key, None);
                continue;
            };
            let timeout = Some(bulk_timeout(to));
            self.send(turn, held, (to.peer, Some(to.local)), (portal, match_bits, 0), timeout);
        }
        key
    }

    /// GETs data from the memory of a client, for each piece its match bits and length in bytes.
    /// [`ServerEvent::Bulk`] follows.
    pub fn get_bulk(
        &mut self,
        turn: &mut Turn<'_>,
        from: &Received,
        portal: u32,
        pieces: &[(u64, u32)],
    ) -> BulkKey {
        let bytes = vec![Vec::new(); pieces.len()];
        let bulk = Bulk { left: pieces.len(), failed: false, pieces: bytes };
        let key = self.bulks.insert(bulk);
        for (index, (match_bits, len)) in pieces.iter().enumerate() {
            let held = alloc_blocks(turn, *len).and_then(|spans| {
                self.hold_spans(turn, spans, Use::Bulk(key, index), |turn, md| {
                    turn.shard.bind(Md { threshold: Some(2), ..md }).ok()
                })
            });
            let Some(held) = held else {
                self.piece_over(key, None);
                continue;
            };
            let md = self.held[held].md;
            let args = GetArgs {
                md,
                local: Some(from.local),
                target: from.peer,
                portal,
                match_bits: *match_bits,
                offset: 0,
                timeout: Some(bulk_timeout(from)),
            };
            if turn.shard.get(turn.now, args).is_err() {
                turn.shard.unlink(turn.now, md);
            }
        }
        key
    }

    /// Gives a transfer up. No event follows.
    pub fn abandon_bulk(&mut self, turn: &mut Turn<'_>, key: BulkKey) {
        self.bulks.remove(key);
        let of_bulk = |held: &&Held| matches!(held.usage, Use::Bulk(bulk, _) if bulk == key);
        for held in self.held.values().filter(of_bulk) {
            turn.shard.unlink(turn.now, held.md);
        }
    }

    /// A piece of a transfer is over: the bytes that it brought, or none if it failed.
    fn piece_over(&mut self, key: BulkKey, brought: Option<(usize, Vec<Bytes>)>) {
        let Some(bulk) = self.bulks.get_mut(key) else { return };
        bulk.left -= 1;
        match brought {
            Some((index, bytes)) => {
                if let Some(piece) = bulk.pieces.get_mut(index) {
                    *piece = bytes;
                }
            }
            None => bulk.failed = true,
        }
        if bulk.left == 0 {
            let bulk = self.bulks.remove(key).expect("it was just there");
            let blocks = || bulk.pieces.into_iter().flatten().collect();
            let result = (!bulk.failed).then(blocks);
            self.events.push_back(ServerEvent::Bulk(key, result));
        }
    }

    /// Asks a client for something, on portal 15. `message` is built with the xid that it gets, to
    /// which the answer comes. [`ServerEvent::Answer`] follows, at `deadline` without an answer.
    pub fn call(
        &mut self,
        turn: &mut Turn<'_>,
        (client, local): (ProcessId, Nid),
        deadline: Time,
        message: impl FnOnce(u64) -> Vec<u8>,
    ) -> CallKey {
        let xid = self.xids.next_xid();
        let message = message(xid);
        let early = Message::parse(&message)
            .is_ok_and(|message| message.header().flags.contains(HeaderFlags::AT_SUPPORT));
        let offset = if early { BARE_LEN as u32 } else { 0 };
        let key = self.calls.insert(Call { deadline, answer: None, offset });
        let entry = MatchEntry {
            from: MatchId { nid: client.nid, pid: client.pid },
            match_bits: xid,
            ignore_bits: 0,
            position: Position::After,
            unlink: Unlink::Retain,
        };
        let answer = self.hold(turn, ANSWER_ROOM, Use::Answer(key), |turn, md| {
            let options = MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE | MdOptions::TRUNCATE;
            let md = Md { options, ..md };
            turn.shard.attach(turn.now, portal::LDLM_CALLBACK_REPLY, entry, md).ok()
        });
        self.calls[key].answer = answer;
        let place = (portal::LDLM_CALLBACK, xid, 0);
        let sent = self.put(turn, (client, Some(local)), place, &message);
        if answer.is_none() || sent.is_none() {
            // It ends with the next call of `drive`: the caller does not know the key yet.
            self.calls[key].deadline = turn.now;
        }
        key
    }

    fn end_call(&mut self, turn: &mut Turn<'_>, key: CallKey, answer: Option<Vec<u8>>) {
        let Some(call) = self.calls.remove(key) else { return };
        if let Some(held) = call.answer.and_then(|held| self.held.get(held)) {
            turn.shard.unlink(turn.now, held.md);
        }
        self.events.push_back(ServerEvent::Answer(key, answer));
    }

    /// An event of a descriptor of the service.
    pub fn on_event(&mut self, turn: &mut Turn<'_>, event: &Event) {
        let key = HeldKey::from(KeyData::from_ffi(event.user));
        let Some(held) = self.held.get_mut(key) else { return };
        let (first, usage) = (held.spans.first().copied(), held.usage);
        let ok = event.status.is_ok();
        let part = |turn: &Turn<'_>, offset: u32, len: u32| {
            let mut bytes = Vec::new();
            if let Some(span) = first {
                turn.memory.append(span.part(offset, len), &mut bytes);
            }
            bytes
        };
        let bytes = |turn: &Turn<'_>, offset: u32| part(turn, offset, event.moved);
        match usage {
            Use::Requests(portal) => {
                if event.kind == EventKind::Put && ok {
                    let message = bytes(turn, event.offset);
                    self.on_request(turn.now, portal, event, message);
                }
            }
            Use::Message => {}
            Use::Bulk(bulk, index) if event.unlinked => {
                let brought = match event.kind {
                    EventKind::Reply if ok && event.moved == total_len(&held.spans) => {
                        let blocks = core::mem::take(&mut held.spans).into_iter();
                        Some((index, blocks.map(|span| turn.memory.take(span)).collect()))
                    }
                    EventKind::Ack if ok => Some((index, Vec::new())),
                    _ => None,
                };
                self.piece_over(bulk, brought);
            }
            Use::Bulk(..) => {}
            Use::Answer(call) => {
                let wanted = self.calls.get(call).map(|call| call.offset);
                if event.kind == EventKind::Put && ok && wanted == Some(event.offset) {
                    let answer = bytes(turn, event.offset);
                    self.end_call(turn, call, Some(answer));
                }
            }
        }
        if event.unlinked {
            let held = self.held.remove(key).expect("it was just there");
            held.spans.into_iter().for_each(|span| turn.memory.free(span));
            if let Use::Requests(_) = usage {
                self.attach_buffers(turn);
            }
        }
    }

    fn on_request(&mut self, now: Time, portal: u32, event: &Event, message: Vec<u8>) {
        // What is no request is dropped without a word [RPC-5].
        let Ok((parsed, body)) = Message::parse_request(&message) else { return };
        let early_replies = parsed.header().flags.contains(HeaderFlags::AT_SUPPORT);
        self.events.push_back(ServerEvent::Request(Box::new(Received {
            peer: event.peer,
            local: event.local.nid,
            portal,
            xid: event.match_bits,
            body,
            arrived: now,
            early_replies,
            message,
        })));
    }
}

#[cfg(test)]
mod tests {
    use lustrine_lnet::memory::Span;
    use lustrine_lnet::service::AnyMemory;
    use lustrine_lnet::tunables::Tunables;
    use lustrine_lnet_testing::Net;

    use super::*;

    #[test]
    fn parts_are_lent_or_copied() {
        let mut net = Net::new(1, &Tunables::default());
        let node = &mut net.nodes[0];
        let memory = AnyMemory(&mut node.memory);
        let mut turn = Turn { now: Time(1), shard: &mut node.shard, memory };
        for (len, parts, spans) in [
            (10, 1, 1),
            (LENT_MIN, 3, 3),
            (LENT_MIN - 1, 3, 3),
            (10, FRAGMENTS_MAX, FRAGMENTS_MAX),
            (10, FRAGMENTS_MAX + 1, 1),
        ] {
            let data: Vec<Bytes> = (0..parts).map(|part| vec![part as u8; len].into()).collect();
            let lent = lend(&mut turn, data.clone()).expect("memory");
            assert_eq!((lent.len(), total_len(&lent)), (spans, (len * parts) as u32));
            let mut bytes = Vec::new();
            lent.iter().for_each(|span: &Span| turn.memory.append(*span, &mut bytes));
            assert_eq!(bytes, data.concat());
            lent.into_iter().for_each(|span| turn.memory.free(span));
        }
    }
}
