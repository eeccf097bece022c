//! Changes of a running driver: tunables, interfaces, peers to remove.

use core::net::SocketAddr;

use crate::keys::{ConnKey, PeerKey};
use crate::tunables::Tunables;
use lustrine_lnet::lnd::{Core, NiIndex};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_wire::nid::Nid;

use crate::config::{NiConfig, Timing};
use crate::driver::{Env, Socklnd};
use crate::io::Io;

impl Socklnd {
    /// Puts other values in force; handshakes and dials under way keep their deadlines.
    pub fn set_tunables(
        &mut self,
        now: Time,
        tunables: Tunables,
        lnet_tunables: lustrine_lnet::tunables::Tunables,
    ) {
        self.timing = Timing::new(&tunables, &lnet_tunables);
        (self.config.tunables, self.config.lnet_tunables) = (tunables, lnet_tunables);
        if self.scan_at != Time::NEVER {
            self.scan_at = self.scan_at.min(now + self.timing.scan);
        }
    }

    /// Sets the number of BULK_IN and of BULK_OUT connections to each peer of this interface.
    /// Missing ones are dialled now if the peer is connected; none is closed if there are more.
    ///
    /// # Panics
    /// When it is 0.
    pub fn set_conns_per_peer(&mut self, ni: NiIndex, conns_per_peer: u16) {
        assert!(conns_per_peer >= 1, "conns_per_peer is 0");
        self.config.nis[usize::from(ni.0)].conns_per_peer = conns_per_peer;
        for key in self.of_ni(ni) {
            // The peer may accept more than it did.
            self.peers[key].at_limit = false;
            self.recount(key);
            let peer = &self.peers[key];
            if !peer.complete && !peer.members.is_empty() {
                self.request_dial(key);
            }
        }
    }

    /// Ends all operations and connections with these NIDs, of nodes and of userland processes
    /// there, and removes what is kept of a peer without connections.
    pub fn close_nids<I: Io, C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut I,
        nids: &[Nid],
        status: Status,
    ) {
        let of_them = self.peers.iter().filter(|(_, peer)| nids.contains(&peer.id.nid));
        let of_them: Vec<PeerKey> = of_them.map(|(key, _)| key).collect();
        let mut env = Env { now, core, io };
        for key in of_them {
            self.close_everything(&mut env, key, status);
        }
        self.peers.forget_absent(|_, id| nids.contains(&id.nid));
    }

    /// Adds an interface at the index that the core has for it. Indices of other drivers'
    /// interfaces are left out.
    ///
    /// # Panics
    /// When it allows no connections, or there is an interface at this index.
    pub fn add_ni(&mut self, index: NiIndex, ni: NiConfig) {
        assert!(ni.conns_per_peer >= 1, "conns_per_peer is 0");
        let (nis, place) = (&mut self.config.nis, usize::from(index.0));
        while nis.len() <= place {
            nis.push(NiConfig { nid: Nid::ANY, ..ni.clone() });
        }
        assert!(nis[place].nid.is_any(), "{index:?} is an interface already");
        nis[place] = ni;
    }

    /// Ends all operations and connections of an interface that was removed. Its listeners are
    /// closed already.
    pub fn remove_ni<I: Io, C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut I,
        ni: NiIndex,
        status: Status,
    ) {
        let mut env = Env { now, core, io };
        for key in self.of_ni(ni) {
            self.close_everything(&mut env, key, status);
        }
        let rest = self.conns.iter().filter(|(_, conn)| conn.ni == ni);
        let rest: Vec<ConnKey> = rest.map(|(key, _)| key).collect();
        for key in rest {
            self.drop_conn(&mut env, key);
        }
        self.handoffs.retain(|handoff| {
            if handoff.ni == ni {
                env.io.close(handoff.sock);
            }
            handoff.ni != ni
        });
        self.peers.forget_absent(|of, _| of == ni);
        self.config.nis[usize::from(ni.0)].nid = Nid::ANY;
    }

    /// Whether an interface still has this NID.
    pub(crate) fn is_there(&self, ni: NiIndex, nid: &Nid) -> bool {
        self.config.nis.get(usize::from(ni.0)).is_some_and(|found| found.nid == *nid)
    }

    /// The first interface with this address.
    pub fn ni_at(&self, addr: SocketAddr) -> Option<NiIndex> {
        self.nis_at(addr).next()
    }

    fn nis_at(&self, addr: SocketAddr) -> impl Iterator<Item = NiIndex> {
        let nis = self.config.nis.iter().enumerate();
        let there = nis.filter(move |(_, ni)| {
            let ports = [ni.port, ni.port_bulk];
            !ni.nid.is_any() && ni.local_ip == Some(addr.ip()) && ports.contains(&addr.port())
        });
        there.map(|(index, _)| NiIndex(index as u16))
    }

    /// The interface with the NID that a connection request names; the connection arrived at a port
    /// of `ni`'s address. Several networks may share one address, and one listener.
    pub(crate) fn asked_for(&self, ni: NiIndex, port: u16, target: &Nid) -> Option<NiIndex> {
        if self.is_there(ni, target) {
            return Some(ni);
        }
        let mut there = self.nis_at(SocketAddr::new(self.ni(ni).local_ip?, port));
        there.find(|ni| self.is_there(*ni, target))
    }

    fn of_ni(&self, ni: NiIndex) -> Vec<PeerKey> {
        self.peers.iter().filter(|(_, peer)| peer.ni == ni).map(|(key, _)| key).collect()
    }
}
