//! Peers that an administrator describes, and takes away (lnet-core 7).
//!
//! What is described so counts more than what peers say of each other: its NIDs are the peer's at
//! once, nobody else can claim them, and the peer stays in the table. What the peer says of itself
//! still replaces the list of its NIDs, but never its primary NID.

use lustrine_wire::nid::Nid;
use smallvec::SmallVec;

use super::{AdvertisedNid, CLOCK_SLACK, PeerKey, PeerNiKey, PeerTable};
use crate::time::Time;

/// A peer as an administrator describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredPeer {
    /// What it is called by.
    pub primary: Nid,
    /// All its NIDs, the primary one first.
    pub nids: Vec<Nid>,
    /// Whether they belong to one multi-rail node.
    pub multi_rail: bool,
    /// Whether the primary NID stays whatever the peer says, as with `lock_prim_nid`.
    pub locked: bool,
}

/// There is no room for one more peer: the rest of the table is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

/// What became of a description.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) peer: PeerKey,
    /// NIDs with waiting messages that are peers of their own now.
    pub(crate) stranded: SmallVec<[PeerNiKey; 2]>,
}

impl PeerTable {
    /// Takes in a description. Only the NIDs that live here get an entry; `None` when none does.
    pub(crate) fn configure(
        &mut self,
        now: Time,
        configured: &ConfiguredPeer,
        lives_here: impl Fn(&Nid) -> bool,
        credits: impl Fn(&Nid) -> u32,
    ) -> Result<Option<Described>, TableFull> {
        let here: Vec<Nid> =
            configured.nids.iter().copied().filter(|nid| lives_here(nid)).collect();
        let Some(contact) = here.first() else { return Ok(None) };
        for nid in &here {
            self.obtain(now, nid, || credits(nid)).ok_or(TableFull)?;
        }
        // In a table that is too small one may have made room for the next.
        let keys: Option<Vec<PeerNiKey>> = here.iter().map(|nid| self.find(nid)).collect();
        let keys = keys.ok_or(TableFull)?;
        let peer = self.separate(keys[0]);
        let own = self.peers[peer].nids.len().saturating_sub(1);
        let wanted = configured.nids.len() - 1;
        self.make_room(peer, wanted.saturating_sub(own));
        if self.extra - own + wanted > self.max {
            return Err(TableFull);
        }
        let before = core::mem::take(&mut self.peers[peer].nids);
        let mut told: SmallVec<[AdvertisedNid; 1]> = SmallVec::new();
        for nid in &configured.nids {
            match self.owner(nid) {
                None => {
                    self.listed.insert(*nid, peer);
                }
                Some(owner) if owner == peer => {}
                Some(owner) => {
                    if self.peers[owner].locked && self.peers[owner].primary == *nid {
                        self.peers[owner].locked = false;
                        self.peers[peer].locked = true;
                    }
                    self.move_nid(nid, owner, peer, false);
                }
            }
            let up = before.iter().find(|old| old.nid == *nid).is_none_or(|old| old.up);
            told.push(AdvertisedNid { nid: *nid, up, mine: true });
        }
        self.peers[peer].nids = before;
        let entry = &mut self.peers[peer];
        entry.primary = configured.primary;
        entry.configured = Some(configured.multi_rail);
        entry.locked |= configured.locked;
        let stranded = self.replace_list(peer, told, contact);
        for key in self.peers[peer].members.clone() {
            self.nis[key].unverified = false;
        }
        Ok(Some(Described { peer, stranded }))
    }

    /// Takes a description back; NIDs stay with the peer until it, or another, says otherwise.
    pub(crate) fn unconfigure(&mut self, primary: &Nid) {
        if let Some(key) = self.owner(primary) {
            self.peers[key].configured = None;
            self.peers[key].locked = false;
        }
    }

    /// The peer of this NID, if an administrator described it.
    pub(crate) fn described(&self, nid: &Nid) -> Option<PeerKey> {
        self.owner(nid).filter(|key| self.peers[*key].configured.is_some())
    }

    /// A NID is its peer's no more, and is forgotten if nothing refers to it.
    pub(crate) fn strike(&mut self, nid: &Nid) {
        let Some(key) = self.find(nid) else {
            let Some(peer) = self.listed.remove(nid) else { return };
            if let Some(told) = self.peers[peer].nids.iter_mut().find(|told| told.nid == *nid) {
                told.mine = false;
            }
            if self.peers[peer].primary == *nid {
                self.peers[peer].configured = None;
                self.peers[peer].locked = false;
            }
            self.rename(peer);
            return;
        };
        self.part(key);
        if self.nis[key].idle() {
            // Its place in `clock` is found and dropped later: no search for each of many.
            self.remove_ni(key);
            let nis = &self.nis;
            if self.clock.len() > 2 * nis.len() + CLOCK_SLACK {
                self.clock.retain(|(key, _)| nis.contains_key(*key));
            }
        }
    }
}
