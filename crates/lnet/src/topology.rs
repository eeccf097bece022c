//! What a shard knows of its own node: an immutable snapshot, replaced whole between loop turns.

use lustrine_wire::nid::{Net, Nid, PID_LUSTRE, ProcessId};

use crate::seam::NiIndex;
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
    /// Its NID; [`Nid::ANY`] once it was taken away, for indices of others stay.
    pub nid: Nid,
    /// Send credits of this CPU partition's share, in messages.
    pub credits: u32,
    /// Send credits per peer, in messages.
    pub peer_credits: u32,
}

/// The snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Local interfaces without the loopback; [`NiIndex`] counts here. The first one that is there
    /// is primary.
    pub nis: Vec<Ni>,
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
        self.live().find(|(_, ni)| ni.nid == *nid).map(|(index, _)| index)
    }

    /// The first interface on a network.
    pub fn ni_on(&self, net: Net) -> Option<NiIndex> {
        self.live().find(|(_, ni)| ni.nid.net() == net).map(|(index, _)| index)
    }

    /// The interfaces that are there, in their order.
    pub fn live(&self) -> impl Iterator<Item = (NiIndex, &Ni)> {
        let all = self.nis.iter().enumerate().filter(|(_, ni)| !ni.nid.is_any());
        all.map(|(index, ni)| (NiIndex(index as u16), ni))
    }

    /// The interface at an index the shard handed out.
    pub fn ni(&self, index: NiIndex) -> &Ni {
        &self.nis[usize::from(index.0)]
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
    fn credits_divide_as_lnet_does() {
        assert_eq!(credits_per_cpt(256, 8, 1), 256);
        assert_eq!(credits_per_cpt(256, 8, 2), 128);
        assert_eq!(credits_per_cpt(256, 8, 8), 64);
        assert_eq!(credits_per_cpt(16, 8, 4), 16);
    }
}
