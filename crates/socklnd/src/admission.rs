//! Admission when places are scarce: for a handshake, and for an open connection.
//!
//! A handshake is not refused while another one can make room: the source that holds most
//! handshakes loses its oldest. An honest handshake takes a few round trips, so it is over
//! long before its turn comes. When open connections are short, a connection of the source that
//! holds most of them goes: first of userland peers, then of those whose NID is not their address,
//! then of nodes, dialled by either side. Idle ones go first, and nodes lose only idle ones: they
//! dial again when they have something to send [SOCK-17].

use lustrine_lnet::driver_report::OtherEnd;
use lustrine_lnet::lnd::Core;

use crate::close_reason::CloseReason;
use crate::conn::Conn;
use crate::driver::{Env, Socklnd};
use crate::io::Io;
use crate::keys::{ConnKey, PeerKey};
use crate::notices::Incident;
use crate::shares::{Pool, Source};

/// The part of all connections that only handshakes may use: 1/8, or `handshakes_max` if that is
/// less. Without it a node full of open connections could not even answer that it is full.
const HANDSHAKE_PART: usize = 8;

/// The number of connections that are checked for an idle one before a busy one is closed.
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

    /// The number of incoming connections in their handshake.
    pub(crate) fn handshakes_held(&self) -> usize {
        self.places.of(Pool::Incoming).len()
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
        let incoming = self.places.of(Pool::Incoming);
        // There are more connections than the largest number after that was lowered. Handshakes
        // have their part all the same; each that succeeds has another connection closed.
        let reserved = self.connections_max().saturating_sub(self.established_max());
        let is_room = self.conns.len() < self.connections_max() || incoming.len() < reserved;
        if incoming.len() < self.handshakes_max() && is_room {
            return true;
        }
        let greediest = incoming.greediest(Some(newcomer));
        let Some((_, key)) = greediest.and_then(|source| incoming.oldest(source)) else {
            return false;
        };
        let Some(conn) = self.remove(key) else { return false };
        io.close(conn.sock);
        self.counters.handshakes_evicted += 1;
        self.notices.add(Incident::HandshakeEvicted, conn.remote_ip());
        self.offenders.add("handshakes_evicted", OtherEnd::Address(conn.remote_ip()));
        true
    }

    /// Whether there is room for one more connection that is open or being dialled.
    pub(crate) fn has_room(&self) -> bool {
        self.conns.len() - self.handshakes_held() < self.established_max()
    }

    /// Makes room for one more connection that is open or being dialled; `false` if there is no
    /// room. `newcomer` is its pool and source, `None` if this node dials; `peer` is its peer,
    /// whose other connections stay. No other peer loses its own for a second connection of a type:
    /// two nodes with room for less than `conns_per_peer` would dial each other for ever.
    pub(crate) fn admit_established<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        newcomer: Option<(Pool, Source)>,
        peer: PeerKey,
    ) -> bool {
        if self.has_room() {
            return true;
        }
        if self.peers[peer].has_each_type() {
            return false;
        }
        let last = newcomer.map_or(Pool::Nodes, |(pool, _)| pool);
        Pool::OPEN.into_iter().filter(|pool| *pool <= last).any(|pool| {
            let own = newcomer.filter(|(of, _)| *of == pool).map(|(_, source)| source);
            self.free_place(env, pool, own, peer)
        })
    }

    /// Closes a peer of the source that holds most places of a pool, if there is one that may be
    /// closed for a newcomer. `own` is the newcomer's source if it is to have a place of this pool,
    /// `kept` its peer.
    fn free_place<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        pool: Pool,
        own: Option<Source>,
        kept: PeerKey,
    ) -> bool {
        let Some(mut greediest) = self.places.of(pool).greediest(own) else { return false };
        for _ in 0..LOOKS {
            // Of several sources that hold as many places it is another one each time.
            greediest = self.places.of(pool).greediest(own).unwrap_or(greediest);
            let Some((_, key)) = self.places.of(pool).oldest(greediest) else { break };
            if self.conns[key].open().is_some_and(|open| open.looked_at == env.now) {
                // All were checked by now.
                break;
            }
            if self.is_idle(key) && self.peer_of(key) != Some(kept) {
                self.evict(env, key, pool);
                return true;
            }
            self.defer_eviction(env, key, greediest);
        }
        let shares = self.places.of(pool);
        let held = own.map_or(0, |own| shares.count(own));
        match shares.oldest(greediest) {
            Some((_, key))
                if pool != Pool::Nodes
                    && shares.count(greediest) > held + 1
                    && self.peer_of(key) != Some(kept) =>
            {
                self.evict(env, key, pool);
                true
            }
            _ => false,
        }
    }

    fn peer_of(&self, key: ConnKey) -> Option<PeerKey> {
        self.conns[key].open().map(|open| open.peer)
    }

    /// Whether the peer of a connection has nothing in transit, and nothing arrived since the last
    /// check of this connection.
    fn is_idle(&self, key: ConnKey) -> bool {
        let Some(open) = self.conns[key].open() else { return false };
        let peer = &self.peers[open.peer];
        let still = |conn: &Conn| {
            conn.tx.waiting() == 0
                && conn.input.len() == 0
                && conn.open().is_some_and(|open| !open.reader.within_message())
        };
        peer.last_received <= open.looked_at
            && peer.members.iter().all(|member| still(&self.conns[member.conn]))
            && peer.queue.is_empty()
            && peer.zero_copy.len() == 0
    }

    /// A connection that was used since the last check goes to the end of its source's list.
    fn defer_eviction<I, C>(&mut self, env: &Env<'_, I, C>, key: ConnKey, source: Source) {
        let conn = &mut self.conns[key];
        if let Some(open) = conn.phase.open_mut() {
            open.looked_at = env.now;
        }
        if let Some(place) = conn.place {
            conn.place = Some(self.places.renew(source, place, key));
        }
    }

    fn evict<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>, key: ConnKey, pool: Pool) {
        let conn = &self.conns[key];
        let (incident, reason) = match pool {
            Pool::Userland => (Incident::UserlandEvicted, CloseReason::UserlandEvicted),
            _ => (Incident::NodeEvicted, CloseReason::Evicted),
        };
        self.notices.add(incident, conn.remote_ip());
        if let Some(open) = conn.open() {
            let peer = open.peer;
            self.close_peer(env, peer, reason);
        }
    }
}
