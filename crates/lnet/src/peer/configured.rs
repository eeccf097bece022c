//! Peers that an administrator configures and removes.
//!
//! A configuration has precedence over the claims of peers: its NIDs belong to the peer at once,
//! other peers cannot claim them, and the peer stays in the table. The peer's own ping information
//! still replaces the list of its NIDs, but never its primary NID.

use lustrine_wire::nid::Nid;
use smallvec::SmallVec;

use super::{AdvertisedNid, CLOCK_SLACK, PeerKey, PeerNiKey, PeerTable};
use crate::time::Time;

/// A peer as an administrator configures it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredPeer {
    /// The primary NID: its name.
    pub primary: Nid,
    /// All its NIDs, the primary NID first.
    pub nids: Vec<Nid>,
    /// Whether they belong to one multi-rail node.
    pub multi_rail: bool,
    /// Whether the primary NID stays whatever the peer's ping information says, as with
    /// `lock_prim_nid`.
    pub locked: bool,
}

/// The table of peers is full of peers in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

/// The result of a configuration.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) peer: PeerKey,
    /// NIDs with waiting messages that have become peers of their own.
    pub(crate) stranded: SmallVec<[PeerNiKey; 2]>,
}

impl PeerTable {
    /// Applies a configuration. Only NIDs whose home is this partition get an entry; `None` when
    /// there is none.
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
        // In a table that is too small, an entry may have been evicted for the next one.
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
        let mut advertised: SmallVec<[AdvertisedNid; 1]> = SmallVec::new();
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
            advertised.push(AdvertisedNid { nid: *nid, up, mine: true });
        }
        self.peers[peer].nids = before;
        let entry = &mut self.peers[peer];
        entry.primary = configured.primary;
        entry.configured = Some(configured.multi_rail);
        entry.locked |= configured.locked;
        let stranded = self.replace_list(peer, advertised, contact);
        for key in self.peers[peer].members.clone() {
            self.nis[key].unverified = false;
        }
        Ok(Some(Described { peer, stranded }))
    }

    /// Removes a configuration. The NIDs stay with the peer until ping information says otherwise.
    pub(crate) fn unconfigure(&mut self, primary: &Nid) {
        if let Some(key) = self.owner(primary) {
            self.peers[key].configured = None;
            self.peers[key].locked = false;
        }
    }

    /// The peer of this NID, if an administrator configured it.
    pub(crate) fn described(&self, nid: &Nid) -> Option<PeerKey> {
        self.owner(nid).filter(|key| self.peers[*key].configured.is_some())
    }

    /// Separates a NID from its peer, and removes it if nothing refers to it.
    pub(crate) fn remove_nid(&mut self, nid: &Nid) {
        let Some(key) = self.find(nid) else {
            let Some(peer) = self.listed.remove(nid) else { return };
            if let Some(advertised) =
                self.peers[peer].nids.iter_mut().find(|advertised| advertised.nid == *nid)
            {
                advertised.mine = false;
            }
            if self.peers[peer].primary == *nid {
                self.peers[peer].configured = None;
                self.peers[peer].locked = false;
            }
            self.rename(peer);
            return;
        };
        self.split_off(key);
        if self.nis[key].idle() {
            // Its place in `clock` is dropped later: removing many must not cost a search for each.
            self.remove_ni(key);
            let nis = &self.nis;
            if self.clock.len() > 2 * nis.len() + CLOCK_SLACK {
                self.clock.retain(|(key, _)| nis.contains_key(*key));
            }
        }
    }
}
