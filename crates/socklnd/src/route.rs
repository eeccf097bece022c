//! Sending: which connection carries what [FRM-17], and what waits when none can.

use core::cmp::Ordering;

use lustrine_lnet::lnd::{Core, OpKey, SendAction};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_lnet::topology::Identity;
use lustrine_wire::frame::FrameHeader;
use lustrine_wire::header::Body;
use lustrine_wire::hello::{ConnType, Version};

use crate::conn::Conn;
use crate::driver::{Departure, Env, Socklnd};
use crate::format::Format;
use crate::io::Io;
use crate::keys::{ConnKey, PeerKey};
use crate::peer::{Peer, PeerConn, Side};
use crate::tx::{Cookies, SendProgress};

/// What is to be carried.
#[derive(Clone, Copy, Debug)]
enum TxItem {
    /// A NOOP: acknowledgement or keepalive.
    Noop,
    /// An LNet message of this many bytes in all.
    Message(u64),
}

/// How well a connection suits: lower is better, `None` is never (the table of [FRM-17]).
///
/// Acknowledgements prefer BULK_IN, where kernels send theirs; without one they take what other
/// NOOPs may take.
fn rank(item: TxItem, kind: ConnType, version: Version, min_bulk: u64) -> Option<u8> {
    let untyped = version < Version::V3;
    match (item, kind) {
        (_, ConnType::None) => None,
        (TxItem::Noop, ConnType::BulkIn) => Some(0),
        (TxItem::Noop, ConnType::Control) => Some(1),
        (TxItem::Noop, ConnType::BulkOut) => Some(2),
        (TxItem::Noop, ConnType::Any) => untyped.then_some(1),
        (TxItem::Message(size), ConnType::Control) => Some(u8::from(size >= min_bulk)),
        (TxItem::Message(size), ConnType::BulkOut) => Some(u8::from(size < min_bulk)),
        (TxItem::Message(_), ConnType::Any) => untyped.then_some(0),
        (TxItem::Message(_), ConnType::BulkIn) => untyped.then_some(1),
    }
}

/// The connections that may carry `item`, room or not, with their ranks.
#[inline]
fn ranked(
    peer: &Peer,
    item: TxItem,
    version: Version,
    min_bulk: u64,
) -> impl Iterator<Item = (u8, &PeerConn)> {
    peer.members
        .iter()
        .filter_map(move |member| Some((rank(item, member.kind, version, min_bulk)?, member)))
}

impl Socklnd {
    /// The best connection for `item` that has room: by rank, then fewest bytes that the peer has
    /// not acknowledged, then least recently chosen [FRM-18].
    ///
    /// Over a long path the socket holds what the driver has long written: a connection that has
    /// lost packets looks as idle as the others unless its socket is asked.
    #[inline]
    fn choose<I: Io>(&self, io: &I, now: Time, peer: &Peer, item: TxItem) -> Option<ConnKey> {
        let version = peer.history.version?;
        let min_bulk = self.config.tunables.min_bulk as u64;
        let mut best: Option<(u8, ConnKey)> = None;
        let mut equals = false;
        for (rank, member) in ranked(peer, item, version, min_bulk) {
            let order = best.map_or(Ordering::Less, |(least, _)| rank.cmp(&least));
            // A connection of a worse rank than the best so far is not looked at.
            if order == Ordering::Greater || self.usable(now, member).is_none() {
                continue;
            }
            equals = order == Ordering::Equal;
            if !equals {
                best = Some((rank, member.conn));
            }
        }
        let (least, only) = best?;
        if !equals {
            return Some(only);
        }
        // Asking a socket is a system call: only where there is a choice.
        let unacknowledged =
            |conn: &Conn| conn.tx.waiting().saturating_add(io.unacknowledged(conn.sock));
        ranked(peer, item, version, min_bulk)
            .filter(|(rank, _)| *rank == least)
            .filter_map(|(_, member)| Some((member.conn, self.usable(now, member)?)))
            .min_by_key(|(_, (conn, chosen))| (unacknowledged(conn), *chosen))
            .map(|(key, _)| key)
    }

    /// The connection of a member if it can take a message now, and when it was last chosen.
    #[inline]
    fn usable(&self, now: Time, member: &PeerConn) -> Option<(&Conn, u64)> {
        let conn = &self.conns[member.conn];
        let open = conn.open()?;
        let waits = open.received == 0 && now < open.surplus_until;
        (conn.tx.has_room() && !waits).then_some((conn, open.chosen))
    }

    /// Whether any connection may carry messages, room or not.
    pub(crate) fn carriable(&self, peer: &Peer) -> bool {
        let carries = |kind, version| rank(TxItem::Message(0), kind, version, 1).is_some();
        peer.history
            .version
            .is_some_and(|version| peer.members.iter().any(|member| carries(member.kind, version)))
    }

    /// A message of the core: onto a connection, or into the peer's queue.
    pub(crate) fn route<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        send: &SendAction,
        departure: Departure,
    ) {
        if let Some(status) = self.shut {
            return env.core.done(env.now, send.op, status);
        }
        let size = size_of(send);
        let key = if send.to.is_userland() {
            // It is reached over the connections it opened, or not at all.
            let reachable = self.peers.find(send.ni, send.to, Side::Own);
            let reachable = reachable.filter(|key| self.carriable(&self.peers[*key]));
            match reachable {
                Some(key) => key,
                None => {
                    self.counters.unreachable += 1;
                    return env.core.done(env.now, send.op, Status::Unreachable);
                }
            }
        } else {
            // Nodes have one way only, and are spared the call.
            let served = match self.config.identity {
                Identity::Node => None,
                Identity::Userland => self.served(send),
            };
            served.unwrap_or_else(|| self.peers.find_or_add(send.ni, send.to, Side::Own))
        };
        let peer = &self.peers[key];
        let item = TxItem::Message(size);
        let conn =
            if peer.queue.is_empty() { self.choose(env.io, env.now, peer, item) } else { None };
        // Before the message is loaded: what is written at once may find the connection broken, and
        // the peer be gone then.
        if !peer.complete {
            self.request_dial(key);
        }
        match conn {
            Some(conn) => self.load(env, key, conn, send, departure),
            None => self.enqueue_message(key, send.clone()),
        }
    }

    /// The peer's own connections to this userland node, if `send` is to take them: an answer goes
    /// where its request came from, anything else the way on which the peer knows this node by its
    /// NID [USR-9].
    fn served(&mut self, send: &SendAction) -> Option<PeerKey> {
        let key = self.peers.find(send.ni, send.to, Side::Served)?;
        let wanted = match send.header.body {
            Body::Reply { md } | Body::Ack { md, .. } => self.peers[key].take_expected(&md),
            _ => true,
        };
        (wanted && self.carriable(&self.peers[key])).then_some(key)
    }

    /// The connections that a peer had dialled to this userland node are gone: what waits for them
    /// takes this node's own; answers would come from the wrong process there.
    pub(crate) fn route_elsewhere<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: PeerKey,
        status: Status,
    ) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        for send in core::mem::take(&mut peer.queue) {
            match send.header.body {
                Body::Reply { .. } | Body::Ack { .. } => env.core.done(env.now, send.op, status),
                _ => self.route(env, &send, Departure::Flush),
            }
        }
    }

    fn enqueue_message(&mut self, key: PeerKey, send: SendAction) {
        let deadline = send.deadline;
        self.peers[key].queue.push_back(send);
        self.await_until(key, deadline);
    }

    /// Queues a message on a connection.
    fn load<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: PeerKey,
        conn_key: ConnKey,
        send: &SendAction,
        departure: Departure,
    ) {
        let peer = &mut self.peers[key];
        let conn = &mut self.conns[conn_key];
        let open = conn.phase.open_mut().expect("members are open");
        let format = open.reader.format();
        let mut cookies = Cookies::default();
        if format.framed() {
            cookies.ack = peer.acks.pop_front().unwrap_or(0);
            let tunables = &self.config.tunables;
            let zero_copy = tunables.zero_copy != 0
                && i64::from(send.header.payload_len) >= tunables.zc_min_payload;
            if zero_copy && may_ask(peer, format.version) {
                cookies.request = peer.zero_copy.issue(send.op);
            }
        }
        let first = conn.tx.waiting() == 0;
        if first {
            open.last_sent = env.now;
        }
        self.choices += 1;
        open.chosen = self.choices;
        open.has_sent = true;
        if env.core.journal_enabled() {
            conn.tx.watch(send.op);
        }
        let progress =
            conn.tx.push_message(env.io, format, send.op, &send.header, &send.payload, cookies);
        match progress {
            Ok(progress) => {
                self.counters.messages_sent += 1;
                self.counters.payload_sent += u64::from(send.header.payload_len);
                self.counters.zero_copy_sent += u64::from(cookies.request != 0);
                self.counters.zero_copy_acks_carried += u64::from(cookies.ack != 0);
                if progress == SendProgress::Pending {
                    self.enqueue(conn_key);
                } else if first && departure == Departure::AtOnce {
                    self.write_at_once(env, conn_key, send.op);
                } else {
                    env.core.done(env.now, send.op, Status::Ok);
                    self.enqueue(conn_key);
                }
            }
            Err(_) => {
                if cookies.request != 0 {
                    peer.zero_copy.withdraw(cookies.request);
                }
                if cookies.ack != 0 {
                    peer.acks.push_front(cookies.ack);
                }
                self.counters.nids_too_long += 1;
                env.core.done(env.now, send.op, Status::Unreachable);
            }
        }
    }

    /// Writes the only message of a connection, and reports it done after that.
    fn write_at_once<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>, key: ConnKey, op: OpKey) {
        let written = self.write(env, key);
        env.core.done(env.now, op, Status::Ok);
        if let Err(reason) = written {
            // What the peer said before still counts, also if it was not reported yet. The reason
            // is that of the write: the system reports an error once, and then the end of the
            // stream.
            self.conns[key].readable = true;
            let _ = self.receive(env, key);
            self.fail(env, key, reason);
        }
    }

    /// Moves messages from the peer's queue to its connections, in order, as far as they go.
    pub(crate) fn pump<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>, key: PeerKey) {
        while let Some(peer) = self.peers.get_mut(key) {
            let Some(first) = peer.queue.front() else { break };
            let size = size_of(first);
            let Some(conn) = self.choose(env.io, env.now, &self.peers[key], TxItem::Message(size))
            else {
                break;
            };
            let Some(send) = self.peers[key].queue.pop_front() else { break };
            self.load(env, key, conn, &send, Departure::Flush);
        }
        if let Some(peer) = self.peers.get_mut(key)
            && peer.queue.is_empty()
        {
            peer.queue.shrink_to(16);
        }
    }

    /// Fails all messages of a peer that wait for a connection.
    pub(crate) fn fail_queue<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: PeerKey,
        status: Status,
    ) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        for send in core::mem::take(&mut peer.queue) {
            env.core.done(env.now, send.op, status);
        }
    }

    /// Sends what is owed to peers as NOOPs, what did not ride on a message: two cookies at a time
    /// where the version allows (captures f6, f7), on BULK_IN if there is one.
    pub(crate) fn acknowledge_all<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>) {
        for key in core::mem::take(&mut self.acking) {
            let Some(peer) = self.peers.get_mut(key) else { continue };
            peer.acks_requested = false;
            while !self.peers[key].acks.is_empty()
                && let Some(conn) = self.choose(env.io, env.now, &self.peers[key], TxItem::Noop)
            {
                let peer = &mut self.peers[key];
                let Some(first) = peer.acks.pop_front() else { break };
                let merges = peer.history.version >= Some(Version::V3);
                let second = peer.acks.front().copied().filter(|next| merges && *next != first);
                let frame = match second {
                    None => FrameHeader::noop(first),
                    Some(second) => {
                        peer.acks.pop_front();
                        let larger = first.max(second);
                        FrameHeader { zc_request: larger, ..FrameHeader::noop(first.min(second)) }
                    }
                };
                self.counters.zero_copy_acks_sent += 1 + u64::from(second.is_some());
                self.load_noop(env.now, conn, frame);
            }
        }
    }

    /// Sends a keepalive, if a connection may carry it; returns whether it did.
    pub(crate) fn keep_alive<I: Io>(&mut self, io: &I, now: Time, key: PeerKey) -> bool {
        let sent = self.send_noop(io, now, key, FrameHeader::KEEPALIVE);
        self.counters.keepalives_sent += u64::from(sent);
        sent
    }

    /// Sends a NOOP on the connection that suits best; `false` if none has room.
    pub(crate) fn send_noop<I: Io>(
        &mut self,
        io: &I,
        now: Time,
        key: PeerKey,
        frame: FrameHeader,
    ) -> bool {
        let Some(conn) = self.choose(io, now, &self.peers[key], TxItem::Noop) else { return false };
        self.load_noop(now, conn, frame);
        true
    }

    fn load_noop(&mut self, now: Time, key: ConnKey, frame: FrameHeader) {
        let conn = &mut self.conns[key];
        let open = conn.phase.open_mut().expect("members are open");
        if conn.tx.waiting() == 0 {
            open.last_sent = now;
        }
        open.has_sent = true;
        let format: Format = open.reader.format();
        conn.tx.push_noop(format, frame);
        self.enqueue(key);
    }

    /// Has acknowledgements sent in the next flush; until then they may ride on messages.
    pub(crate) fn request_acks(&mut self, key: PeerKey) {
        let peer = &mut self.peers[key];
        if !peer.acks_requested {
            peer.acks_requested = true;
            self.acking.push(key);
        }
    }
}

/// Whether a cookie may be put into a message: a V3 or V4 kernel without a BULK_IN connection, our
/// BULK_OUT, does not acknowledge but closes (capture r_zcreq).
fn may_ask(peer: &Peer, version: Version) -> bool {
    version < Version::V3 || peer.count(ConnType::BulkOut) != 0
}

/// Size of a message as the rule of `min_bulk` counts it: with the headers of V3.
fn size_of(send: &SendAction) -> u64 {
    const HEAD: u64 = 24 + 72;
    HEAD + u64::from(send.header.payload_len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ConnType; 5] =
        [ConnType::BulkIn, ConnType::BulkOut, ConnType::Control, ConnType::Any, ConnType::None];

    fn ranks(item: TxItem, version: Version) -> [Option<u8>; 5] {
        KINDS.map(|kind| rank(item, kind, version, 1024))
    }

    /// [FRM-14], [FRM-17]
    #[test]
    fn the_table_of_wire_3_6() {
        let (small, large) = (TxItem::Message(1023), TxItem::Message(1024));
        for version in [Version::V3, Version::V4] {
            assert_eq!(ranks(small, version), [None, Some(1), Some(0), None, None]);
            assert_eq!(ranks(large, version), [None, Some(0), Some(1), None, None]);
            assert_eq!(ranks(TxItem::Noop, version), [Some(0), Some(2), Some(1), None, None]);
        }
        for version in [Version::V1, Version::V2] {
            assert_eq!(ranks(small, version), [Some(1), Some(1), Some(0), Some(0), None]);
            assert_eq!(ranks(large, version), [Some(1), Some(0), Some(1), Some(0), None]);
            assert_eq!(ranks(TxItem::Noop, version), [Some(0), Some(2), Some(1), Some(1), None]);
        }
    }
}
