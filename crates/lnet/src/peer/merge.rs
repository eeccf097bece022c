//! Which NIDs belong together: what a peer says of itself, against what others say (lnet-core 7,
//! `docs/protocol/ping-discovery.md`, "Merging").
//!
//! A list comes from one NID, the contact, and is its word alone. What it says about NIDs that
//! nobody uses is believed, as a kernel does, but is unverified: such a NID is asked itself before
//! its first message, and speaks for the peer only if it agrees. A NID of a peer that is there,
//! with connections or with a discovery under way, changes hands, and a contact joins such a
//! peer, only when that peer's own word names the contact too: otherwise any node could take over
//! another one by naming it. So a node that has gained an interface (capture a7) is asked first.

use core::ops::Bound::{Excluded, Unbounded};
use std::collections::HashSet;

use foldhash::fast::FixedState;
use lustrine_wire::nid::Nid;
use smallvec::{SmallVec, smallvec};

use super::{AdvertisedNid, Peer, PeerKey, PeerNiKey, PeerTable, Phase};

/// What the ping information of a contact says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerClaim<'a> {
    /// The NID that said it.
    pub(crate) contact: Nid,
    pub(crate) primary: Nid,
    /// All NIDs of the node, and whether they are up.
    pub(crate) nids: &'a [(Nid, bool)],
}

/// What became of a word.
#[derive(Debug)]
pub(crate) struct MergeOutcome {
    /// The peer the contact belongs to now.
    pub(crate) peer: PeerKey,
    /// A peer that is there and whose NIDs were claimed without its consent: ask it.
    pub(crate) conflicting: Option<PeerKey>,
    /// NIDs with waiting messages that are peers of their own now.
    pub(crate) stranded: SmallVec<[PeerNiKey; 2]>,
}

/// Lists of peers that are there looked at, in vain, to make room for another one: few enough
/// that whoever fills the budget cannot make each further word expensive.
const LIST_LOOKS: usize = 64;

impl PeerTable {
    /// The peer a NID belongs to, whether it has an entry or is only on a list.
    pub(crate) fn owner(&self, nid: &Nid) -> Option<PeerKey> {
        match self.by_nid.get(nid) {
            Some(key) => Some(self.nis[*key].peer),
            None => self.listed.get(nid).copied(),
        }
    }

    /// Takes in a word. `None`: the contact is not known any more.
    pub(crate) fn learn(&mut self, word: PeerClaim<'_>) -> Option<MergeOutcome> {
        let contact = word.contact;
        let ni = *self.by_nid.get(&contact)?;
        let mut peer = self.separate(ni);
        let mut conflicting = None;
        let about_itself = word.nids.iter().any(|(nid, _)| *nid == contact);
        let itself = [(contact, true)];
        let word = match about_itself {
            true => word,
            // Whoever does not name itself speaks of others, which is worth nothing.
            false => PeerClaim { primary: contact, nids: &itself, ..word },
        };
        if let Some(other) = self.owner(&word.primary)
            && other != peer
            && self.peers[peer].configured.is_none()
        {
            if self.yields(other, peer, &contact) {
                if !self.peers[other].live() {
                    // Who confirmed our information there may be gone.
                    self.peers[other].confirmed = None;
                }
                if !self.agrees(other, &contact) {
                    for member in &self.peers[other].members {
                        self.nis[*member].unverified = true;
                    }
                }
                self.dissolve(peer, other);
                peer = other;
            } else if self.peers[other].configured.is_none() {
                conflicting = Some(other);
            }
        }
        let (told, refused) = self.claim(peer, &word);
        let stranded = self.replace_list(peer, told, &contact);
        let named = self.peers[peer].named();
        if !named && self.owner(&word.primary) == Some(peer) {
            self.peers[peer].primary = word.primary;
        }
        if self.owner(&self.peers[peer].primary) != Some(peer) {
            self.peers[peer].primary = contact;
        }
        Some(MergeOutcome { peer, conflicting: conflicting.or(refused), stranded })
    }

    /// Whether a peer's NIDs may go to, or be joined by, the peer that `contact` speaks for.
    fn yields(&self, owner: PeerKey, to: PeerKey, contact: &Nid) -> bool {
        let own = &self.peers[owner];
        if own.configured.is_some() || own.locked && self.peers[to].locked {
            // What an administrator says counts more; or both names are in use.
            return false;
        }
        !own.live() || self.agrees(owner, contact)
    }

    /// Whether a peer's own last word names this NID.
    fn agrees(&self, owner: PeerKey, contact: &Nid) -> bool {
        self.peers[owner].nids.iter().any(|told| told.nid == *contact)
    }

    /// Makes all NIDs of a word the peer's that it can have; also the first owner that refused.
    fn claim(
        &mut self,
        peer: PeerKey,
        word: &PeerClaim<'_>,
    ) -> (SmallVec<[AdvertisedNid; 1]>, Option<PeerKey>) {
        let mut told: SmallVec<[AdvertisedNid; 1]> = SmallVec::new();
        let mut seen: HashSet<Nid, FixedState> = HashSet::with_hasher(self.by_nid.hasher().clone());
        let mut refused: HashSet<PeerKey, FixedState> =
            HashSet::with_hasher(self.by_nid.hasher().clone());
        let mut first = None;
        let own = self.peers[peer].nids.len().saturating_sub(1);
        self.make_room(peer, word.nids.len().saturating_sub(1 + own));
        // The name that an administrator gave has its place.
        let name = usize::from(self.peers[peer].configured.is_some());
        let mut room = (self.max.saturating_sub(self.extra - own) + 1).saturating_sub(name);
        for (nid, up) in word.nids {
            if !seen.insert(*nid) || (room <= 1 && *nid != word.contact) {
                continue;
            }
            room = room.saturating_sub(1);
            let mine = match self.owner(nid) {
                None => {
                    self.listed.insert(*nid, peer);
                    true
                }
                Some(owner) if owner == peer => true,
                Some(owner) if refused.contains(&owner) => false,
                Some(owner) if self.yields(owner, peer, &word.contact) => {
                    if self.peers[owner].live() {
                        // By its own word it is the same node, with everything it has.
                        self.dissolve(owner, peer);
                    } else {
                        let agreed = self.agrees(owner, &word.contact);
                        self.move_nid(nid, owner, peer, !agreed);
                    }
                    if self.owner(nid).is_none() {
                        self.listed.insert(*nid, peer);
                    }
                    true
                }
                Some(owner) => {
                    refused.insert(owner);
                    // Nothing that it says would change what an administrator has said.
                    if self.peers[owner].configured.is_none() {
                        first.get_or_insert(owner);
                    }
                    false
                }
            };
            told.push(AdvertisedNid { nid: *nid, up: *up, mine });
        }
        (told, first)
    }

    /// The lists of peers that are not there give way to another one.
    pub(super) fn make_room(&mut self, peer: PeerKey, wanted: usize) {
        let mut in_vain = 0;
        while self.extra + wanted > self.max && in_vain < LIST_LOOKS {
            let after = self.listers.range((Excluded(self.looked), Unbounded)).next();
            let Some(key) = after.or(self.listers.first()).copied() else { return };
            self.looked = key;
            if key == peer || self.peers[key].live() {
                in_vain += 1;
                continue;
            }
            // It must say again who it is before its next message.
            let nids = core::mem::take(&mut self.peers[key].nids);
            self.peers[key].phase = Phase::Unknown;
            self.unlist(key, &nids);
            self.rename(key);
        }
    }

    /// The new list is in force: NIDs that are not on it leave (lnet-core 7).
    pub(super) fn replace_list(
        &mut self,
        peer: PeerKey,
        mut told: SmallVec<[AdvertisedNid; 1]>,
        contact: &Nid,
    ) -> SmallVec<[PeerNiKey; 2]> {
        let primary = self.peers[peer].primary;
        if self.peers[peer].configured.is_some()
            && self.listed.get(&primary) == Some(&peer)
            && !told.iter().any(|told| told.nid == primary)
        {
            // A name that stays stays on the list, where nothing else knows of it.
            told.push(AdvertisedNid { nid: primary, up: false, mine: true });
        }
        let mut keep: HashSet<Nid, FixedState> = HashSet::with_hasher(self.by_nid.hasher().clone());
        keep.extend(told.iter().filter(|told| told.mine).map(|told| told.nid));
        keep.insert(*contact);
        let entry = &mut self.peers[peer];
        self.extra += told.len().saturating_sub(1);
        let before = core::mem::replace(&mut entry.nids, told);
        self.extra -= before.len().saturating_sub(1);
        match self.peers[peer].nids.len() {
            0 | 1 => self.listers.remove(&peer),
            _ => self.listers.insert(peer),
        };
        for old in before.iter().filter(|old| old.mine && !keep.contains(&old.nid)) {
            if self.listed.get(&old.nid) == Some(&peer) {
                self.listed.remove(&old.nid);
            }
        }
        if self.peers[peer].named() {
            keep.insert(self.peers[peer].primary);
        }
        let mut stranded = SmallVec::new();
        for key in self.peers[peer].members.clone() {
            if keep.contains(&self.nis[key].nid) {
                continue;
            }
            self.part(key);
            if !self.nis[key].parked.is_empty() {
                stranded.push(key);
            }
        }
        stranded
    }

    /// One peer turns out to be another: everything it has goes there.
    fn dissolve(&mut self, from: PeerKey, into: PeerKey) {
        let Some(old) = self.peers.remove(from) else { return };
        self.unlist(from, &old.nids);
        for key in &old.members {
            self.nis[*key].peer = into;
        }
        let peer = &mut self.peers[into];
        peer.members.extend(old.members);
        peer.linked += old.linked;
        // It is the same node: what it confirmed under its other NID holds.
        peer.confirmed = peer.confirmed.or(old.confirmed);
        if old.locked {
            peer.primary = old.primary;
            peer.locked = true;
        }
        // Whoever waits for the end of a round of either shall see it.
        peer.rounds = peer.rounds.max(old.rounds) + 1;
    }

    /// One NID of a peer that is not there goes to another one.
    pub(super) fn move_nid(&mut self, nid: &Nid, from: PeerKey, into: PeerKey, unverified: bool) {
        if let Some(told) = self.peers[from].nids.iter_mut().find(|told| told.nid == *nid) {
            told.mine = false;
        }
        let Some(key) = self.by_nid.get(nid).copied() else {
            self.listed.insert(*nid, into);
            self.rename(from);
            return;
        };
        self.nis[key].peer = into;
        self.nis[key].unverified |= unverified;
        let linked = u32::from(self.nis[key].linked());
        self.peers[into].members.push(key);
        self.peers[into].linked += linked;
        self.peers[from].linked -= linked;
        self.leave_peer(from, key);
    }

    /// A NID that speaks, or is to be spoken to, is a peer of its own unless it agreed to belong
    /// to another one: that peer's trouble, or silence, is not its own.
    pub(crate) fn separate(&mut self, key: PeerNiKey) -> PeerKey {
        if self.nis[key].unverified {
            self.part(key);
        }
        self.nis[key].peer
    }

    /// A NID leaves its peer and becomes one of its own.
    pub(super) fn part(&mut self, key: PeerNiKey) {
        let ni = &mut self.nis[key];
        ni.unverified = false;
        let (nid, from, linked) = (ni.nid, ni.peer, u32::from(ni.linked()));
        let old = &mut self.peers[from];
        if let Some(told) = old.nids.iter_mut().find(|told| told.nid == nid) {
            told.mine = false;
        }
        old.linked -= linked;
        // A name in use goes where its NID goes.
        let locked = old.locked && old.primary == nid;
        old.locked &= !locked;
        if old.primary == nid {
            old.configured = None;
        }
        // Whoever waits for the end of a round counts from the rounds it has seen.
        let (rounds, outcome) = (old.rounds, old.outcome);
        let members = smallvec![key];
        let alone = Peer { members, linked, locked, rounds, outcome, ..Peer::unknown(nid) };
        self.nis[key].peer = self.peers.insert(alone);
        self.leave_peer(from, key);
    }

    /// A peer has one entry less; without any it is forgotten.
    pub(super) fn leave_peer(&mut self, key: PeerKey, ni: PeerNiKey) {
        let peer = &mut self.peers[key];
        peer.members.retain(|member| *member != ni);
        if !peer.members.is_empty() {
            self.rename(key);
        } else if let Some(old) = self.peers.remove(key) {
            self.unlist(key, &old.nids);
        }
    }

    /// A peer that lost its primary NID is named by another one.
    pub(super) fn rename(&mut self, key: PeerKey) {
        if self.owner(&self.peers[key].primary) != Some(key) {
            let first = self.peers[key].members[0];
            self.peers[key].primary = self.nis[first].nid;
        }
    }

    /// The list a peer had counts no more.
    fn unlist(&mut self, key: PeerKey, nids: &[AdvertisedNid]) {
        self.extra -= nids.len().saturating_sub(1);
        self.listers.remove(&key);
        for told in nids {
            if self.listed.get(&told.nid) == Some(&key) {
                self.listed.remove(&told.nid);
            }
        }
    }

    /// Every rule of this module, for tests.
    #[cfg(test)]
    pub(crate) fn assert_whole(&self) {
        let mut entries = 0;
        let mut extra = 0;
        for (key, peer) in &self.peers {
            assert!(!peer.members.is_empty(), "a peer without a NID");
            assert_eq!(self.owner(&peer.primary), Some(key), "{} is elsewhere", peer.primary);
            for member in &peer.members {
                assert_eq!(self.nis[*member].peer, key);
                assert!(!self.listed.contains_key(&self.nis[*member].nid));
            }
            for told in &peer.nids {
                assert_eq!(told.mine, self.owner(&told.nid) == Some(key), "{}", told.nid);
            }
            let linked = peer.members.iter().filter(|member| self.nis[**member].linked()).count();
            assert_eq!(peer.linked as usize, linked);
            entries += peer.members.len();
            extra += peer.nids.len().saturating_sub(1);
            assert_eq!(self.listers.contains(&key), peer.nids.len() > 1);
        }
        assert!(self.listers.iter().all(|key| self.peers.contains_key(*key)));
        assert_eq!((entries, extra), (self.nis.len(), self.extra));
        assert!(self.nis.len() <= self.max && self.extra <= self.max);
        for (nid, key) in &self.listed {
            assert!(self.peers[*key].nids.iter().any(|told| told.nid == *nid && told.mine));
        }
        assert!(self.nis.values().all(|ni| self.by_nid.contains_key(&ni.nid)));
        assert_eq!(self.by_nid.len(), self.nis.len());
    }
}
