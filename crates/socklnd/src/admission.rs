//! Admission when places are scarce: for a handshake, and for an open connection.
//!
//! A handshake is not refused while another one can make room: the source that holds most
//! handshakes loses its oldest. An honest handshake takes a few round trips, so it is over
//! long before its turn comes. When open connections are short, an idle userland connection of the
//! source that holds most of them goes; connections of nodes are never closed for that.

use lustrine_lnet::lnd::Core;

use crate::close_reason::CloseReason;
use crate::driver::{Env, Socklnd};
use crate::io::Io;
use crate::keys::ConnKey;
use crate::notices::Incident;
use crate::shares::Source;

/// The part of all connections that only handshakes may use: 1/8, or `handshakes_max` if that is
/// less. Without it a node full of open connections could not even answer that it is full.
const HANDSHAKE_PART: usize = 8;

/// The number of userland connections that are checked for an idle one before a busy one is closed.
const LOOKS: usize = 16;

impl Socklnd {
    /// The largest number of connections on this CPU partition: its share of the node's.
    pub(crate) fn connections_max(&self) -> usize {
        let of_node = usize::try_from(self.config.tunables.connections_max).unwrap_or(0);
        of_node.div_ceil(usize::from(self.config.cpts))
    }

    fn handshakes_max(&self) -> usize {
        usize::try_from(self.config.tunables.handshakes_max).unwrap_or(0)
    }

    /// The largest number of connections that are open or being dialled.
    fn established_max(&self) -> usize {
        let all = self.connections_max();
        all.saturating_sub(self.handshakes_max().min(all / HANDSHAKE_PART).max(1))
    }

    /// Makes room for one more incoming handshake; `false` if there is no room.
    pub(crate) fn admit_handshake<I: Io>(&mut self, io: &mut I, newcomer: Source) -> bool {
        if self.shut.is_some() {
            return false;
        }
        if self.incoming.len() < self.handshakes_max() && self.conns.len() < self.connections_max()
        {
            return true;
        }
        let greediest = self.incoming.greediest(Some(newcomer));
        let Some((_, key)) = greediest.and_then(|source| self.incoming.oldest(source)) else {
            return false;
        };
        let Some(conn) = self.remove(key) else { return false };
        io.close(conn.sock);
        self.counters.handshakes_evicted += 1;
        self.notices.add(Incident::HandshakeEvicted, conn.remote_ip());
        true
    }

    /// Makes room for one more connection that is open or being dialled; `false` if there is no
    /// room. `newcomer` is its source, `None` if this node dials.
    pub(crate) fn admit_established<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        newcomer: Option<Source>,
    ) -> bool {
        if self.conns.len() - self.incoming.len() < self.established_max() {
            return true;
        }
        let Some(greediest) = self.userland.greediest(newcomer) else { return false };
        for _ in 0..LOOKS {
            let Some((_, key)) = self.userland.oldest(greediest) else { break };
            if self.is_idle(key) {
                self.evict(env, key);
                return true;
            }
            self.defer_eviction(env, key, greediest);
        }
        let own = newcomer.map_or(0, |own| self.userland.count(own));
        match self.userland.oldest(greediest) {
            Some((_, key)) if self.userland.count(greediest) > own + 1 => {
                self.evict(env, key);
                true
            }
            _ => false,
        }
    }

    /// Whether a userland connection has nothing in transit, and nothing arrived since the last
    /// check.
    fn is_idle(&self, key: ConnKey) -> bool {
        let conn = &self.conns[key];
        let Some(open) = conn.open() else { return false };
        let peer = &self.peers[open.peer];
        open.last_received <= open.looked_at
            && conn.tx.waiting() == 0
            && conn.input.len() == 0
            && !open.reader.within_message()
            && peer.queue.is_empty()
            && peer.zero_copy.len() == 0
    }

    /// A connection that was used since the last check goes to the end of its source's list.
    fn defer_eviction<I, C>(&mut self, env: &Env<'_, I, C>, key: ConnKey, source: Source) {
        let conn = &mut self.conns[key];
        if let Some(open) = conn.phase.open_mut() {
            open.looked_at = env.now;
        }
        if let Some(ticket) = conn.ticket {
            self.userland.remove(source, ticket);
            conn.ticket = Some(self.userland.add(source, key));
        }
    }

    fn evict<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>, key: ConnKey) {
        let conn = &self.conns[key];
        self.notices.add(Incident::UserlandEvicted, conn.remote_ip());
        if let Some(open) = conn.open() {
            let peer = open.peer;
            self.close_peer(env, peer, CloseReason::Evicted);
        }
    }
}
