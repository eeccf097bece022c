//! Ending connections: one in its handshake by itself, an open one with all its siblings
//! (wire 4.9).

use lustrine_lnet::lnd::{Core, LinkEvent, NiIndex};
use lustrine_lnet::status::Status;
use lustrine_wire::nid::ProcessId;

use crate::conn::{Conn, ConnKey, Origin, Phase};
use crate::driver::{Outside, Socklnd};
use crate::fault::Why;
use crate::io::{Io, IoError};
use crate::peer::PeerKey;

impl Socklnd {
    /// Something ended a connection.
    pub(crate) fn fail<I: Io, C: Core>(
        &mut self,
        out: &mut Outside<'_, I, C>,
        key: ConnKey,
        why: Why,
    ) {
        let Some(conn) = self.conns.get(key) else { return };
        match conn.phase {
            Phase::Open(ref open) => {
                let peer = open.peer;
                self.close_peer(out, peer, why);
            }
            Phase::Connecting(dialled) | Phase::Answer(dialled) => {
                // Whoever takes the connection and closes it without a HELLO does not want us: our
                // source port, or the NID we asked for (captures r_badport, b5). It may have done
                // so before we heard that the connection was there.
                let silent = why == Why::Io(IoError::Reset);
                self.drop_conn(out, key);
                let why = if silent { Why::Rejected } else { why };
                self.dial_failed(out, dialled.peer, why);
            }
            Phase::Request(_) | Phase::Hello | Phase::Farewell => {
                match why {
                    // Nobody is lost who has not been a peer yet.
                    Why::Io(_) => self.counters.handshakes_broken += 1,
                    _ => self.counters.blame(why),
                }
                self.drop_conn(out, key);
            }
        }
    }

    /// Closes a connection that is not open for messages.
    pub(crate) fn drop_conn<I: Io, C: Core>(&mut self, out: &mut Outside<'_, I, C>, key: ConnKey) {
        if let Some(conn) = self.remove(key) {
            out.io.close(conn.sock);
        }
    }

    /// Takes a connection out of all books but its peer's.
    pub(crate) fn remove(&mut self, key: ConnKey) -> Option<Conn> {
        let conn = self.conns.remove(key)?;
        self.socks.remove(&conn.sock);
        if conn.open().is_none() {
            match conn.origin {
                Origin::Accepted => self.incoming -= 1,
                Origin::Dialled => self.outgoing -= 1,
            }
        }
        Some(conn)
    }

    /// Closes all open connections of a peer. What was being sent or received on them fails; what
    /// waits in the peer's queue is tried again on new ones, if the peer can be dialled.
    pub(crate) fn close_peer<I: Io, C: Core>(
        &mut self,
        out: &mut Outside<'_, I, C>,
        key: PeerKey,
        why: Why,
    ) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        if peer.members.is_empty() {
            return;
        }
        self.counters.blame(why);
        let status = why.status();
        let members = core::mem::take(&mut peer.members);
        peer.acks.clear();
        peer.content = false;
        let (ni, id) = (peer.ni, peer.id);
        if why == Why::Restarted || why == Why::Renegotiated {
            peer.memory.version = None;
        }
        self.recount(key);
        let conns: Vec<(ConnKey, Conn)> = members
            .iter()
            .filter_map(|member| Some((member.conn, self.remove(member.conn)?)))
            .collect();
        // First all streams are closed, so that nothing refers to the memory that is given back.
        for (_, conn) in &conns {
            out.io.close(conn.sock);
        }
        self.counters.closed += conns.len() as u64;
        for (conn_key, mut conn) in conns {
            for op in conn.tx.abandoned() {
                out.core.done(out.now, op, status);
            }
            let Some(open) = conn.phase.open_mut() else { continue };
            if open.reader.parked() {
                out.core.forget(conn_key.rx_id());
            }
            if let Some(op) = open.reader.abandoned() {
                out.core.done(out.now, op, status);
            }
        }
        if let Some(peer) = self.peers.get_mut(key) {
            for op in peer.zero_copy.abandoned() {
                out.core.done(out.now, op, status);
            }
        }
        if why == Why::Restarted {
            out.core.link(out.now, ni, id, LinkEvent::Restarted);
        }
        out.core.link(out.now, ni, id, LinkEvent::Down { status });
        if id.is_userland() {
            self.fail_queue(out, key, status);
        } else if self.peers.get(key).is_some_and(|peer| !peer.queue.is_empty()) {
            self.ask_dial(key);
        }
        self.forget_if_idle(key);
    }

    /// The core closes a peer: everything, with what waits.
    pub(crate) fn close<I: Io, C: Core>(
        &mut self,
        out: &mut Outside<'_, I, C>,
        ni: NiIndex,
        id: ProcessId,
        status: Status,
    ) {
        if let Some(key) = self.peers.find(ni, id) {
            self.close_whole(out, key, status);
        }
    }

    /// Closes a peer with its queue and the dial under way.
    pub(crate) fn close_whole<I: Io, C: Core>(
        &mut self,
        out: &mut Outside<'_, I, C>,
        key: PeerKey,
        status: Status,
    ) {
        self.fail_queue(out, key, status);
        self.abandon_dial(out, key);
        self.close_peer(out, key, Why::Asked(status));
        self.forget_if_idle(key);
    }

    /// Forgets a peer that has nothing left.
    pub(crate) fn forget_if_idle(&mut self, key: PeerKey) {
        if self.peers.get(key).is_some_and(|peer| peer.idle()) {
            self.peers.forget(key);
        }
    }
}
