//! Attempts: what LNet holds of a request that was sent.

use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::{MatchId, Md, MdKey, MdOptions, Position, Unlink};
use lustrine_lnet::memory::{Memory, Span, Spans, total_len};
use lustrine_lnet::portal::MatchEntry;
use lustrine_lnet::service::Turn;
use lustrine_lnet::shard::{AckWanted, PutArgs};
use lustrine_lnet::status::Status;
use lustrine_wire::nid::ProcessId;
use slotmap::{Key, KeyData, new_key_type};

use super::{BulkDirection, ImportKey, LentBulk, MEMORY_PAUSE, Ptlrpc};
use crate::import::{ReplyEvent, SendArgs};
use crate::request::RequestKey;

new_key_type! {
    /// An attempt. Its number is the `user` value of its descriptors.
    pub(super) struct AttemptKey;
}

impl AttemptKey {
    /// The key with this number, which is never below 2^32.
    pub(super) fn from_user(user: u64) -> Option<AttemptKey> {
        (user >> 32 != 0).then(|| AttemptKey::from(KeyData::from_ffi(user)))
    }

    fn user(self) -> u64 {
        self.data().as_ffi()
    }
}

/// A request that was sent. A request that is sent again is another attempt: late answers to the
/// first one go to its own memory.
#[derive(Debug)]
pub(super) struct Attempt {
    import: ImportKey,
    request: RequestKey,
    pub(super) peer: ProcessId,
    /// The descriptor of the message and its memory, until LNet has sent it.
    message: Option<(MdKey, Span)>,
    /// The descriptor of the replies and its memory.
    reply: Option<(MdKey, Span)>,
    /// The descriptors of bulk, in order.
    bulk: Vec<BulkMd>,
    /// Whether it was taken back.
    withdrawn: bool,
}

/// A descriptor of bulk.
#[derive(Debug)]
struct BulkMd {
    md: MdKey,
    /// Bytes that it has room for, and that it has moved.
    len: u32,
    moved: u32,
    /// Whether LNet has not let go of it.
    linked: bool,
}

impl Attempt {
    fn is_over(&self) -> bool {
        let is_linked = self.bulk.iter().any(|bulk| bulk.linked);
        self.message.is_none() && self.reply.is_none() && !is_linked
    }

    /// Bytes that bulk has moved, from the start and without a gap.
    fn bulk_moved(&self) -> u32 {
        let full = self.bulk.iter().take_while(|bulk| bulk.moved == bulk.len).count();
        self.bulk.iter().take(full + 1).map(|bulk| bulk.moved).sum()
    }
}

impl Ptlrpc {
    /// Sends a request: attaches what its answer needs, then PUTs its message.
    pub(super) fn send(&mut self, turn: &mut Turn<'_>, import: ImportKey, args: SendArgs) {
        let key = args.key;
        let message = self.imports[import].message(key);
        let sent = turn.memory.alloc(message.len() as u32);
        let reply = turn.memory.alloc(args.reply_room);
        let (Some(sent), Some(reply)) = (sent, reply) else {
            for span in [sent, reply].into_iter().flatten() {
                turn.memory.free(span);
            }
            self.counters.memory_waits += 1;
            self.short_of_memory.push_back((import, key));
            self.retry_at = self.retry_at.min(turn.now + MEMORY_PAUSE);
            return;
        };
        turn.memory.write(sent, message);
        let attempt = self.attempts.insert(Attempt {
            import,
            request: key,
            peer: args.peer,
            message: None,
            reply: None,
            bulk: Vec::new(),
            withdrawn: false,
        });
        self.current[import].insert(key, attempt);
        self.counters.requests_sent += 1;
        let put = self
            .attach_answer(turn, attempt, &args, reply)
            .and_then(|()| self.put_message(turn, attempt, &args, sent));
        if put.is_err() {
            if self.attempts[attempt].message.is_none() {
                turn.memory.free(sent);
            }
            self.with(turn, import, |import, now, xids| {
                import.on_send_failed(now, xids, key, Status::NoMemory);
            });
        }
    }

    /// Attaches the descriptors of the replies and of bulk. The memory of the replies is the
    /// attempt's, or free again.
    fn attach_answer(
        &mut self,
        turn: &mut Turn<'_>,
        attempt: AttemptKey,
        args: &SendArgs,
        reply: Span,
    ) -> Result<(), NotTaken> {
        let (now, owner, user) = (turn.now, self.owner, attempt.user());
        let state = &mut self.attempts[attempt];
        let entry = |match_bits, unlink| MatchEntry {
            from: MatchId { nid: args.peer.nid, pid: args.peer.pid },
            match_bits,
            ignore_bits: 0,
            position: Position::After,
            unlink,
        };
        let md = |spans: Spans, threshold, options| Md {
            spans,
            threshold,
            max_size: None,
            options,
            owner,
            user,
        };
        // Early replies and the reply have their own places, and may be cut. An ACK is sent if the
        // server asks for one: it keeps locks until then, or until its next commit [RPC-3].
        let options = MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE | MdOptions::TRUNCATE;
        let entry_of_reply = entry(args.reply_bits, Unlink::Retain);
        let md_of_reply = md([reply].into_iter().collect(), None, options);
        match turn.shard.attach(now, args.reply_portal, entry_of_reply, md_of_reply) {
            Ok(md) => state.reply = Some((md, reply)),
            Err(_) => {
                turn.memory.free(reply);
                return Err(NotTaken);
            }
        }
        let request = (state.import, state.request);
        let Some(LentBulk { bulk, descriptors }) = self.bulks.get_mut(&request) else {
            return Ok(());
        };
        let options = match bulk.direction {
            BulkDirection::Sink => MdOptions::OP_PUT,
            BulkDirection::Source => MdOptions::OP_GET,
        };
        for (index, spans) in bulk.pieces.iter().enumerate() {
            let entry = entry(args.bulk_bits + index as u64, Unlink::Auto);
            let md = md(spans.clone(), Some(1), options);
            let md = turn.shard.attach(now, bulk.portal, entry, md).map_err(|_| NotTaken)?;
            state.bulk.push(BulkMd { md, len: total_len(spans), moved: 0, linked: true });
            *descriptors += 1;
        }
        Ok(())
    }

    /// PUTs the message. Its memory is the attempt's unless that has no message afterwards.
    fn put_message(
        &mut self,
        turn: &mut Turn<'_>,
        attempt: AttemptKey,
        args: &SendArgs,
        sent: Span,
    ) -> Result<(), NotTaken> {
        let md = Md {
            spans: [sent].into_iter().collect(),
            threshold: Some(1),
            max_size: None,
            options: MdOptions::empty(),
            owner: self.owner,
            user: attempt.user(),
        };
        let md = turn.shard.bind(md).map_err(|_| NotTaken)?;
        self.attempts[attempt].message = Some((md, sent));
        let put = PutArgs {
            md,
            local: None,
            target: args.peer,
            portal: args.portal,
            match_bits: args.xid,
            offset: 0,
            hdr_data: 0,
            ack: AckWanted::No,
            timeout: None,
        };
        turn.shard.put(turn.now, put).map_err(|_| NotTaken)
    }

    /// Takes back what LNet holds of a request. Its memory becomes free with the last events.
    pub(super) fn withdraw(&mut self, turn: &mut Turn<'_>, import: ImportKey, key: RequestKey) {
        if !self.short_of_memory.is_empty() {
            self.short_of_memory.retain(|request| *request != (import, key));
        }
        if let Some(attempt) = self.current[import].remove(key) {
            self.take_back(turn, attempt);
        }
    }

    /// Takes back what LNet holds of an attempt.
    fn take_back(&mut self, turn: &mut Turn<'_>, attempt: AttemptKey) {
        let state = &mut self.attempts[attempt];
        state.withdrawn = true;
        let message = state.message.map(|(md, _)| md);
        let reply = state.reply.map(|(md, _)| md);
        let bulk = state.bulk.iter().filter(|bulk| bulk.linked).map(|bulk| &bulk.md);
        for md in message.iter().chain(&reply).chain(bulk) {
            turn.shard.unlink(turn.now, *md);
        }
        self.forget_if_over(attempt);
    }

    /// Whether LNet can still touch the bulk memory of a request.
    pub(super) fn holds_bulk(&self, import: ImportKey, key: RequestKey) -> bool {
        self.bulks.get(&(import, key)).is_some_and(|lent| lent.descriptors > 0)
    }

    pub(super) fn on_attempt_event(
        &mut self,
        turn: &mut Turn<'_>,
        attempt: AttemptKey,
        event: &Event,
    ) {
        let state = &mut self.attempts[attempt];
        let (import, key) = (state.import, state.request);
        let mut arrived = None;
        let mut failed = false;
        match (state.reply, state.message) {
            (Some((md, span)), _) if md == event.md => {
                if event.kind == EventKind::Put && event.status.is_ok() && !state.withdrawn {
                    let mut bytes = Vec::new();
                    turn.memory.append(span.part(event.offset, event.moved), &mut bytes);
                    arrived = Some((bytes, state.bulk_moved()));
                    self.counters.replies_received += 1;
                }
                if event.unlinked {
                    state.reply = None;
                    turn.memory.free(span);
                }
            }
            (_, Some((md, span))) if md == event.md => {
                failed = !event.status.is_ok() && !state.withdrawn;
                if event.unlinked {
                    state.message = None;
                    turn.memory.free(span);
                }
            }
            _ => {
                match event.kind {
                    EventKind::Put => self.counters.bulk_received += u64::from(event.moved),
                    EventKind::Get => self.counters.bulk_sent += u64::from(event.moved),
                    _ => {}
                }
                let bulk = state.bulk.iter_mut().find(|bulk| bulk.linked && bulk.md == event.md);
                if let Some(bulk) = bulk {
                    if event.status.is_ok() {
                        bulk.moved = event.moved;
                    }
                    if event.unlinked {
                        bulk.linked = false;
                        if let Some(lent) = self.bulks.get_mut(&(import, key)) {
                            lent.descriptors -= 1;
                        }
                    }
                }
            }
        }
        if let Some((bytes, bulk_moved)) = arrived {
            self.with(turn, import, |import, now, xids| {
                let (offset, sent) = (event.offset, event.requested);
                import.on_reply(now, xids, key, ReplyEvent { offset, bytes, sent, bulk_moved });
            });
            // The import has taken the reply, and says nothing of its own requests. The next one,
            // which it may have sent by now, can have the place of this one among the current ones.
            let is_held = self.attempts.get(attempt).is_some_and(|state| !state.withdrawn);
            if is_held && !self.imports[import].is_sent(key) {
                self.current[import].remove(key);
                self.take_back(turn, attempt);
            }
        } else if failed {
            let status = event.status;
            self.with(turn, import, |import, now, xids| {
                import.on_send_failed(now, xids, key, status);
            });
        }
        self.forget_if_over(attempt);
        self.release_held(import, key);
    }

    /// Forgets an attempt that LNet has let go of.
    fn forget_if_over(&mut self, attempt: AttemptKey) {
        let over = |state: &Attempt| state.withdrawn && state.is_over();
        if self.attempts.get(attempt).is_some_and(over) {
            self.attempts.remove(attempt);
        }
    }
}

/// LNet has not taken a descriptor: it has no room for one more.
struct NotTaken;
