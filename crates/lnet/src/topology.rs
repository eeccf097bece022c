//! Configuration of the local node, as a shard sees it.

use core::ops::Index;

use lustrine_wire::nid::{Net, Nid, PID_LUSTRE, ProcessId};

use crate::lnd::NiIndex;
use crate::tunables::Tunables;

/// How this node appears to its peers ([USR-2], [USR-8]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// It dials from privileged source ports. A peer accepts its NID and can dial back.
    Node,
    /// It dials from unprivileged ports. Peers give it another identity and reach it only over the
    /// connections that it opened, so it pushes its information first ([USR-4]).
    Userland,
}

/// One local network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ni {
    /// Its NID; [`Nid::ANY`] after it was removed, until another one gets its index.
    pub nid: Nid,
    /// This CPU partition's share of the send credits, in messages.
    pub credits: u32,
    /// Send credits per peer, in messages.
    pub peer_credits: u32,
}

/// The interfaces of a node without the loopback. [`NiIndex`] names an interface until that is
/// removed; then another one may get the index. The order of the interfaces is therefore not that
/// of their indices: it is the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces {
    places: Vec<Ni>,
    /// Interfaces in the order in which they were added.
    order: Vec<NiIndex>,
}

impl Interfaces {
    /// Adds an interface, the last in order, at the first free index.
    ///
    /// # Panics
    /// When there are 65,536 interfaces already.
    pub fn push(&mut self, ni: Ni) -> NiIndex {
        let free = self.places.iter().position(|ni| ni.nid.is_any());
        let place = free.unwrap_or(self.places.len());
        let index = NiIndex(u16::try_from(place).expect("an index for the interface"));
        match self.places.get_mut(place) {
            Some(free) => *free = ni,
            None => self.places.push(ni),
        }
        self.order.push(index);
        index
    }

    /// Removes an interface.
    pub fn remove(&mut self, index: NiIndex) {
        self.places[usize::from(index.0)].nid = Nid::ANY;
        self.order.retain(|other| *other != index);
    }

    /// The interfaces in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (NiIndex, &Ni)> {
        self.order.iter().map(|index| (*index, &self[*index]))
    }

    /// All places by index. Free ones have [`Nid::ANY`].
    pub fn places(&self) -> &[Ni] {
        &self.places
    }
}

impl Index<NiIndex> for Interfaces {
    type Output = Ni;

    fn index(&self, index: NiIndex) -> &Ni {
        &self.places[usize::from(index.0)]
    }
}

impl FromIterator<Ni> for Interfaces {
    fn from_iter<I: IntoIterator<Item = Ni>>(nis: I) -> Interfaces {
        let mut interfaces = Interfaces::default();
        for ni in nis {
            interfaces.push(ni);
        }
        interfaces
    }
}

/// Configuration of the local node, as a shard sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Local interfaces without the loopback. The first one is primary.
    pub nis: Interfaces,
    /// Node or userland.
    pub identity: Identity,
    /// Differs between two starts of the node; also the interface cookie of handles.
    pub incarnation: u64,
    /// Seed of the hash tables that peers fill, drawn at each start of the node. It must be secret,
    /// which the incarnation is not: a peer that knows it can choose NIDs whose hashes collide.
    pub hash_seed: u64,
    /// Number of this shard's CPU partition, below `cpts`.
    pub cpt: u16,
    /// Number of CPU partitions, at least 1.
    pub cpts: u16,
    /// The current tunables.
    pub tunables: Tunables,
}

impl Topology {
    /// The interface with this NID.
    pub fn ni_of(&self, nid: &Nid) -> Option<NiIndex> {
        self.nis.iter().find(|(_, ni)| ni.nid == *nid).map(|(index, _)| index)
    }

    /// The first interface on a network.
    pub fn ni_on(&self, net: Net) -> Option<NiIndex> {
        self.nis.iter().find(|(_, ni)| ni.nid.net() == net).map(|(index, _)| index)
    }

    /// Send credits for a peer on a network: those of the first interface there.
    pub(crate) fn peer_credits_on(&self, net: Net) -> u32 {
        match self.ni_on(net) {
            Some(ni) => self.ni(ni).peer_credits,
            None => self.tunables.peer_credits as u32,
        }
    }

    /// Send credits for a peer on the network of an interface.
    pub(crate) fn peer_credits_of(&self, seen_by: NiIndex) -> u32 {
        self.peer_credits_on(self.ni(seen_by).nid.net())
    }

    /// The interface with an index.
    ///
    /// # Panics
    /// When the index was never used.
    pub fn ni(&self, index: NiIndex) -> &Ni {
        &self.nis[index]
    }

    /// This node's process id on an interface.
    pub fn process(&self, index: NiIndex) -> ProcessId {
        ProcessId { nid: self.ni(index).nid, pid: PID_LUSTRE }
    }
}

/// The CPU partition that owns a peer: the sum of its NID's bytes modulo the number of partitions
/// ([CORE-20]).
pub fn home_of(nid: &Nid, cpts: u16) -> u16 {
    let sum: u32 = nid.to_long().iter().map(|byte| u32::from(*byte)).sum();
    (sum % u32::from(cpts.max(1))) as u16
}

/// One CPU partition's share of an interface's credits ([CORE-13]).
pub fn credits_per_cpt(credits: u32, peer_credits: u32, cpts: u16) -> u32 {
    if cpts <= 1 {
        return credits;
    }
    (credits / u32::from(cpts)).max(peer_credits.saturating_mul(8)).min(credits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_reused_and_the_order_is_that_of_addition() {
        let ni = |last: u32| Ni { nid: Nid::new4(Net::TCP, last), credits: 1, peer_credits: 1 };
        let mut nis: Interfaces = [ni(1), ni(2), ni(3)].into_iter().collect();
        nis.remove(NiIndex(0));
        nis.remove(NiIndex(1));
        assert_eq!((nis.push(ni(4)), nis.push(ni(5))), (NiIndex(0), NiIndex(1)));
        assert_eq!(nis.push(ni(6)), NiIndex(3));
        let order: Vec<_> = nis.iter().map(|(index, ni)| (index.0, ni.nid)).collect();
        assert_eq!(order, [(2, ni(3).nid), (0, ni(4).nid), (1, ni(5).nid), (3, ni(6).nid)]);
        for round in 0..200_000 {
            let gone = nis.iter().next().map(|(index, _)| index).unwrap();
            nis.remove(gone);
            assert_eq!(nis.push(ni(round)), gone);
        }
        assert_eq!(nis.places().len(), 4);
    }

    #[test]
    fn credits_divide_as_lnet_does() {
        assert_eq!(credits_per_cpt(256, 8, 1), 256);
        assert_eq!(credits_per_cpt(256, 8, 2), 128);
        assert_eq!(credits_per_cpt(256, 8, 8), 64);
        assert_eq!(credits_per_cpt(16, 8, 4), 16);
    }
}
