//! Ending connections: one in its handshake by itself, an open one with all its siblings
//! [SOCK-9], [SOCK-10].

use lustrine_lnet::driver_report::OtherEnd;
use lustrine_lnet::lnd::{Core, LinkEvent, NiIndex};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_wire::nid::ProcessId;

use crate::close_reason::CloseReason;
use crate::conn::{Conn, Origin, Phase};
use crate::driver::{Env, Socklnd};
use crate::io::{Io, IoError};
use crate::keys::{ConnKey, PeerKey};
use crate::peer::Side;
use crate::shares::Source;

impl Socklnd {
    /// An event ended a connection.
    pub(crate) fn fail<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        reason: CloseReason,
    ) {
        let Some(conn) = self.conns.get(key) else { return };
        match conn.phase {
            Phase::Open(ref open) => {
                let peer = open.peer;
                if self.ends_alone(key, reason) {
                    return self.close_surplus(env, peer, key);
                }
                self.close_peer(env, peer, reason);
            }
            Phase::Connecting(dialled) | Phase::Answer(dialled) => {
                // A peer that accepts the connection and closes it without a HELLO rejects the
                // source port or the NID in the request (captures r_badport, b5), or has no room.
                // It may have done so before the connection was reported to this node.
                let silent = reason == CloseReason::Io(IoError::Reset);
                let mut reason = if silent { CloseReason::Rejected } else { reason };
                if silent && self.peers[dialled.peer].may_accept_later() {
                    match self.refused(env, key, dialled) {
                        Ok(()) => return,
                        Err(busy) => reason = busy,
                    }
                }
                self.drop_conn(env, key);
                self.dial_failed(env, dialled.peer, reason);
            }
            Phase::Request(_) | Phase::Hello | Phase::Claim(_) | Phase::Closing => {
                let who = OtherEnd::Address(conn.remote_ip());
                match reason {
                    // It was not a peer yet, so no peer is lost.
                    CloseReason::Io(_) => {
                        self.counters.handshakes_broken += 1;
                        self.offenders.add("handshakes_broken", who);
                    }
                    _ => self.count_end(reason, who),
                }
                self.drop_conn(env, key);
            }
        }
    }

    /// Whether the peer has closed an open connection that is one too many by its own limit, and
    /// that has carried nothing [SOCK-21].
    fn ends_alone(&self, key: ConnKey, reason: CloseReason) -> bool {
        let closed = matches!(reason, CloseReason::Eof | CloseReason::Io(IoError::Reset));
        let Some(open) = self.conns[key].open() else { return false };
        let members = &self.peers[open.peer].members;
        let Some(kind) = members.iter().find(|member| member.conn == key) else { return false };
        let others = members.iter().filter(|member| member.kind == kind.kind).count() > 1;
        closed && others && open.received == 0 && !open.has_sent
    }

    fn close_surplus<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        peer: PeerKey,
        key: ConnKey,
    ) {
        self.peers[peer].members.retain(|member| member.conn != key);
        self.drop_conn(env, key);
        // Those that are left are not too many: nothing has to wait for what they bring.
        for member in &self.peers[peer].members {
            if let Some(open) = self.conns[member.conn].phase.open_mut() {
                open.surplus_until = Time::ZERO;
            }
        }
        self.pump(env, peer);
        self.counters.closed += 1;
        self.counters.surplus_closed += 1;
        self.recount(peer);
    }

    /// Closes a connection that is not open for messages.
    pub(crate) fn drop_conn<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>, key: ConnKey) {
        if let Some(conn) = self.remove(key) {
            env.io.close(conn.sock);
        }
    }

    /// Removes a connection from all tables except its peer's.
    pub(crate) fn remove(&mut self, key: ConnKey) -> Option<Conn> {
        let conn = self.conns.remove(key)?;
        self.socks.remove(&conn.sock);
        if conn.origin == Origin::Dialled && conn.open().is_none() {
            self.outgoing -= 1;
        }
        if let Some(place) = conn.place {
            self.places.remove(Source::of(conn.remote), place);
        }
        if let Phase::Claim(claim) = &conn.phase
            && let Some(peer) = self.peers.find(conn.ni, claim.id, self.side_of(&claim.id))
        {
            self.forget_if_idle(peer);
        }
        Some(conn)
    }

    /// Closes all open connections of a peer. What was being sent or received on them fails; what
    /// waits in the peer's queue is tried again on new ones, if the peer can be dialled.
    pub(crate) fn close_peer<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: PeerKey,
        reason: CloseReason,
    ) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        if peer.members.is_empty() {
            return;
        }
        let id = peer.id;
        self.count_end(reason, OtherEnd::Peer(id.nid));
        let status = reason.status();
        let peer = &mut self.peers[key];
        let members = core::mem::take(&mut peer.members);
        peer.acks.clear();
        peer.unanswered.clear();
        peer.at_limit = false;
        let (ni, side, incarnation) = (peer.ni, peer.side, peer.history.incarnation);
        if reason == CloseReason::Restarted || reason == CloseReason::Renegotiated {
            peer.history.version = None;
        }
        self.recount(key);
        let conns: Vec<(ConnKey, Conn)> = members
            .iter()
            .filter_map(|member| Some((member.conn, self.remove(member.conn)?)))
            .collect();
        // First all streams are closed, so that no stream refers to the memory that is returned.
        for (_, conn) in &conns {
            env.io.close(conn.sock);
        }
        self.counters.closed += conns.len() as u64;
        let mut is_midway = self.peers.get(key).is_some_and(|peer| !peer.queue.is_empty());
        for (conn_key, mut conn) in conns {
            // Small messages are done once their bytes are staged.
            is_midway |= conn.tx.waiting() != 0;
            for op in conn.tx.abandoned() {
                env.core.done(env.now, op, status);
            }
            let ni = conn.ni;
            let Some(open) = conn.phase.open_mut() else { continue };
            if open.reader.parked() {
                env.core.forget(ni, conn_key.rx_id());
            }
            if let Some(op) = open.reader.abandoned() {
                env.core.done(env.now, op, status);
            }
        }
        if let Some(peer) = self.peers.get_mut(key) {
            for op in peer.zero_copy.abandoned() {
                is_midway = true;
                env.core.done(env.now, op, status);
            }
        }
        if is_midway && reason == CloseReason::Eof {
            self.counters.closed_midway += 1;
            self.offenders.add("closed_midway", OtherEnd::Peer(id.nid));
        }
        let nis = self.config.nis.len();
        if reason == CloseReason::Restarted
            && incarnation.is_some_and(|incarnation| self.peers.note(id, nis, incarnation))
        {
            env.core.link(env.now, ni, id, LinkEvent::Restarted);
        }
        env.core.link(env.now, ni, id, LinkEvent::Down { status });
        if side == Side::Served {
            self.route_elsewhere(env, key, status);
        } else if id.is_userland() {
            self.fail_queue(env, key, status);
        } else if self.peers.get(key).is_some_and(|peer| !peer.queue.is_empty()) {
            self.request_dial(key);
        }
        self.forget_if_idle(key);
    }

    /// The core closes a peer, with its connections and waiting messages.
    pub(crate) fn close<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        ni: NiIndex,
        id: ProcessId,
        status: Status,
    ) {
        for side in [Side::Served, Side::Own] {
            if let Some(key) = self.peers.find(ni, id, side) {
                self.close_everything(env, key, status);
            }
        }
    }

    /// Closes a peer with its queue and the dial in progress.
    pub(crate) fn close_everything<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: PeerKey,
        status: Status,
    ) {
        self.fail_queue(env, key, status);
        self.abandon_dial(env, key);
        self.close_peer(env, key, CloseReason::Asked(status));
        self.forget_if_idle(key);
    }

    /// Removes a peer that has no state left.
    pub(crate) fn forget_if_idle(&mut self, key: PeerKey) {
        if self.peers.get(key).is_some_and(|peer| peer.idle()) {
            self.peers.forget(key);
        }
    }
}
