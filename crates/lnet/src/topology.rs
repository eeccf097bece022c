//! What a shard knows of its own node: an immutable snapshot, replaced whole between loop turns.

use core::ops::Index;

use lustrine_wire::nid::{Net, Nid, PID_LUSTRE, ProcessId};

use crate::lnd::NiIndex;
use crate::tunables::Tunables;

/// How this node appears to its peers (DESIGN "Identity decides interoperability").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// Dials from a privileged source port: a peer takes its NID at its word and may dial back.
    Node,
    /// Dials from any port: peers rename it, so it pushes first and is only reached over the
    /// connections it opened.
    Userland,
}

/// One local network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ni {
    /// Its NID; [`Nid::ANY`] once it was taken away, until another one has its place.
    pub nid: Nid,
    /// Send credits of this CPU partition's share, in messages.
    pub credits: u32,
    /// Send credits per peer, in messages.
    pub peer_credits: u32,
}

/// The interfaces of a node without the loopback; [`NiIndex`] counts them. An index is one
/// interface's as long as it is there; then another one may get it. So indices have no order, but
/// the interfaces have: that in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces {
    places: Vec<Ni>,
    /// Those that are there, in the order in which they came.
    order: Vec<NiIndex>,
}

impl Interfaces {
    /// One more, the last in order, at the first place that is free.
    ///
    /// # Panics
    /// When there are 65,536 already.
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

    /// One less: its place is free.
    pub fn remove(&mut self, index: NiIndex) {
        self.places[usize::from(index.0)].nid = Nid::ANY;
        self.order.retain(|other| *other != index);
    }

    /// Those that are there, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (NiIndex, &Ni)> {
        self.order.iter().map(|index| (*index, &self[*index]))
    }

    /// All places by index, the free ones too, which have [`Nid::ANY`].
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

/// The snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Local interfaces without the loopback. The first one is primary.
    pub nis: Interfaces,
    /// Node or userland.
    pub identity: Identity,
    /// Tells this life of the node from earlier ones; also the interface cookie of handles.
    pub incarnation: u64,
    /// What the tables that peers fill hash with, drawn anew for each life of the node. No peer may
    /// know it (each is told the incarnation): whoever does can choose NIDs that hash alike.
    pub hash_seed: u64,
    /// Which CPU partition this shard is, below `cpts`.
    pub cpt: u16,
    /// Number of CPU partitions, at least 1.
    pub cpts: u16,
    /// Values in force.
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

    /// Messages under way at once to one peer of a network, as its first interface has it.
    pub(crate) fn peer_credits_on(&self, net: Net) -> u32 {
        match self.ni_on(net) {
            Some(ni) => self.ni(ni).peer_credits,
            None => self.tunables.peer_credits as u32,
        }
    }

    /// The same for a peer that is seen by an interface.
    pub(crate) fn peer_credits_of(&self, seen_by: NiIndex) -> u32 {
        self.peer_credits_on(self.ni(seen_by).nid.net())
    }

    /// The interface at an index the shard handed out.
    pub fn ni(&self, index: NiIndex) -> &Ni {
        &self.nis[index]
    }

    /// This node's process id on an interface.
    pub fn process(&self, index: NiIndex) -> ProcessId {
        ProcessId { nid: self.ni(index).nid, pid: PID_LUSTRE }
    }
}

/// The CPU partition that owns a peer: the sum of its NID's bytes modulo the number of partitions
/// (lnet-core 9.3 for short NIDs, used here for long ones too; purely local).
pub fn home_of(nid: &Nid, cpts: u16) -> u16 {
    let sum: u32 = nid.to_long().iter().map(|byte| u32::from(*byte)).sum();
    (sum % u32::from(cpts.max(1))) as u16
}

/// One CPU partition's share of an interface's credits (lnet-core 3).
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
    fn places_are_used_again_and_the_order_is_that_of_coming() {
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
