//! Which NIDs belong to one peer, by the ping information of several NIDs ("Merging" in
//! docs/protocol/ping-discovery.md).
//!
//! A list of NIDs comes from one NID, the contact, and is a claim of that NID alone. A claim to
//! NIDs that are not in use is accepted, as a kernel does, but stays unverified: such a NID is
//! pinged before its first message, and belongs to the peer only if it agrees ([PING-26]). A NID of
//! a live peer, one with connections or with a discovery under way, moves only when that peer's own
//! ping information names the contact. The same holds for a contact that joins a live peer
//! ([PING-23]). Otherwise any node could take over another one by naming it. So a node that has
//! gained an interface (capture a7) is asked first.

use core::ops::Bound::{Excluded, Unbounded};
use std::collections::HashSet;

use foldhash::fast::FixedState;
use lustrine_wire::nid::Nid;
use smallvec::{SmallVec, smallvec};

use super::{AdvertisedNid, Peer, PeerKey, PeerNiKey, PeerTable, Phase};

/// The ping information of a contact.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerClaim<'a> {
    /// The NID that sent it.
    pub(crate) contact: Nid,
    pub(crate) primary: Nid,
    /// All NIDs of the node, and whether they are up.
    pub(crate) nids: &'a [(Nid, bool)],
}

/// The result of a claim.
#[derive(Debug)]
pub(crate) struct MergeOutcome {
    /// The peer that the contact belongs to now.
    pub(crate) peer: PeerKey,
    /// A live peer whose NIDs were claimed without its consent: it has to be pinged.
    pub(crate) conflicting: Option<PeerKey>,
    /// NIDs with waiting messages that have become peers of their own.
    pub(crate) stranded: SmallVec<[PeerNiKey; 2]>,
}

/// Lists of live peers that are looked at in vain to make room for another list: few enough that a
/// peer that fills the budget cannot make each further claim expensive.
const LIST_LOOKS: usize = 64;

impl PeerTable {
    /// The peer that a NID belongs to, whether it has an entry or is only on a list.
    pub(crate) fn owner(&self, nid: &Nid) -> Option<PeerKey> {
        match self.by_nid.get(nid) {
            Some(key) => Some(self.nis[*key].peer),
            None => self.listed.get(nid).copied(),
        }
    }

    /// Applies a claim. `None` when the contact is not in the table.
    pub(crate) fn learn(&mut self, word: PeerClaim<'_>) -> Option<MergeOutcome> {
        let contact = word.contact;
        let ni = *self.by_nid.get(&contact)?;
        let mut peer = self.separate(ni);
        let mut conflicting = None;
        let about_itself = word.nids.iter().any(|(nid, _)| *nid == contact);
        let itself = [(contact, true)];
        let word = match about_itself {
            true => word,
            // A list without its own sender is about other nodes, and is ignored ([PING-25]).
            false => PeerClaim { primary: contact, nids: &itself, ..word },
        };
        if let Some(other) = self.owner(&word.primary)
            && other != peer
            && self.peers[peer].configured.is_none()
        {
            if self.may_release(other, peer, &contact) {
                if !self.peers[other].live() {
                    // The node that confirmed our information there may be gone.
                    self.peers[other].confirmed = None;
                }
                if !self.confirms(other, &contact) {
                    for member in &self.peers[other].members {
                        self.nis[*member].unverified = true;
                    }
                }
                self.merge_peers(peer, other);
                peer = other;
            } else if self.peers[other].configured.is_none() {
                conflicting = Some(other);
            }
        }
        let (advertised, refused) = self.claim(peer, &word);
        let stranded = self.replace_list(peer, advertised, &contact);
        let named = self.peers[peer].named();
        if !named && self.owner(&word.primary) == Some(peer) {
            self.peers[peer].primary = word.primary;
        }
        if self.owner(&self.peers[peer].primary) != Some(peer) {
            self.peers[peer].primary = contact;
        }
        Some(MergeOutcome { peer, conflicting: conflicting.or(refused), stranded })
    }

    /// Whether NIDs of `owner` may move to the peer `to` of `contact`, or that peer join `owner`.
    fn may_release(&self, owner: PeerKey, to: PeerKey, contact: &Nid) -> bool {
        let own = &self.peers[owner];
        if own.configured.is_some() || own.locked && self.peers[to].locked {
            // The configuration has precedence; or both names are in use.
            return false;
        }
        !own.live() || self.confirms(owner, contact)
    }

    /// Whether the peer's own last ping information names this NID.
    pub(crate) fn confirms(&self, owner: PeerKey, contact: &Nid) -> bool {
        self.peers[owner].nids.iter().any(|advertised| advertised.nid == *contact)
    }

    /// Gives the peer all NIDs of a claim that it may have; also returns the first peer that does
    /// not release its NID.
    fn claim(
        &mut self,
        peer: PeerKey,
        word: &PeerClaim<'_>,
    ) -> (SmallVec<[AdvertisedNid; 1]>, Option<PeerKey>) {
        let mut advertised: SmallVec<[AdvertisedNid; 1]> = SmallVec::new();
        let mut seen: HashSet<Nid, FixedState> = HashSet::with_hasher(self.by_nid.hasher().clone());
        let mut refused: HashSet<PeerKey, FixedState> =
            HashSet::with_hasher(self.by_nid.hasher().clone());
        let mut first = None;
        let own = self.peers[peer].nids.len().saturating_sub(1);
        self.make_room(peer, word.nids.len().saturating_sub(1 + own));
        // The configured primary NID keeps its place.
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
                Some(owner) if self.may_release(owner, peer, &word.contact) => {
                    if self.peers[owner].live() {
                        // By its own ping information it is the same node.
                        self.merge_peers(owner, peer);
                    } else {
                        let agreed = self.confirms(owner, &word.contact);
                        self.move_nid(nid, owner, peer, !agreed);
                    }
                    if self.owner(nid).is_none() {
                        self.listed.insert(*nid, peer);
                    }
                    true
                }
                Some(owner) => {
                    refused.insert(owner);
                    // Its answer could not change the configuration.
                    if self.peers[owner].configured.is_none() {
                        first.get_or_insert(owner);
                    }
                    false
                }
            };
            advertised.push(AdvertisedNid { nid: *nid, up: *up, mine });
        }
        (advertised, first)
    }

    /// Removes lists of peers that are not live until `wanted` NIDs fit.
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
            // It is pinged again before its next message.
            let nids = core::mem::take(&mut self.peers[key].nids);
            self.peers[key].phase = Phase::Unknown;
            self.unlist(key, &nids);
            self.rename(key);
        }
    }

    /// Replaces a peer's list of NIDs: those that are not on the new one leave ([PING-20]).
    pub(super) fn replace_list(
        &mut self,
        peer: PeerKey,
        mut advertised: SmallVec<[AdvertisedNid; 1]>,
        contact: &Nid,
    ) -> SmallVec<[PeerNiKey; 2]> {
        let primary = self.peers[peer].primary;
        if self.peers[peer].configured.is_some()
            && self.listed.get(&primary) == Some(&peer)
            && !advertised.iter().any(|advertised| advertised.nid == primary)
        {
            // A configured primary NID without an entry must stay on the list.
            advertised.push(AdvertisedNid { nid: primary, up: false, mine: true });
        }
        let mut keep: HashSet<Nid, FixedState> = HashSet::with_hasher(self.by_nid.hasher().clone());
        keep.extend(
            advertised.iter().filter(|advertised| advertised.mine).map(|advertised| advertised.nid),
        );
        keep.insert(*contact);
        let entry = &mut self.peers[peer];
        self.extra += advertised.len().saturating_sub(1);
        let before = core::mem::replace(&mut entry.nids, advertised);
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
            self.split_off(key);
            if !self.nis[key].parked.is_empty() {
                stranded.push(key);
            }
        }
        stranded
    }

    /// Merges the peer `from` into another one.
    fn merge_peers(&mut self, from: PeerKey, into: PeerKey) {
        let Some(old) = self.peers.remove(from) else { return };
        self.unlist(from, &old.nids);
        for key in &old.members {
            self.nis[*key].peer = into;
        }
        let peer = &mut self.peers[into];
        peer.members.extend(old.members);
        peer.linked += old.linked;
        // It is the same node: a confirmation by its other NID holds.
        peer.confirmed = peer.confirmed.or(old.confirmed);
        if old.locked {
            peer.primary = old.primary;
            peer.locked = true;
        }
        // Users that wait for the end of a round of either peer see one.
        peer.rounds = peer.rounds.max(old.rounds) + 1;
    }

    /// Moves a NID of a peer that is not live to another peer.
    pub(super) fn move_nid(&mut self, nid: &Nid, from: PeerKey, into: PeerKey, unverified: bool) {
        if let Some(advertised) =
            self.peers[from].nids.iter_mut().find(|advertised| advertised.nid == *nid)
        {
            advertised.mine = false;
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

    /// The peer of a NID that sends or receives a message. An unverified NID becomes a peer of its
    /// own, so that failures of the peer that claimed it do not affect it.
    pub(crate) fn separate(&mut self, key: PeerNiKey) -> PeerKey {
        if self.nis[key].unverified {
            self.split_off(key);
        }
        self.nis[key].peer
    }

    /// Makes a NID a peer of its own.
    pub(super) fn split_off(&mut self, key: PeerNiKey) {
        let ni = &mut self.nis[key];
        ni.unverified = false;
        let (nid, from, linked) = (ni.nid, ni.peer, u32::from(ni.linked()));
        let old = &mut self.peers[from];
        if let Some(advertised) = old.nids.iter_mut().find(|advertised| advertised.nid == nid) {
            advertised.mine = false;
        }
        old.linked -= linked;
        // A name in use goes with its NID.
        let locked = old.locked && old.primary == nid;
        old.locked &= !locked;
        if old.primary == nid {
            old.configured = None;
        }
        // Users that wait for the end of a round compare with the rounds that they have seen.
        let (rounds, outcome) = (old.rounds, old.outcome);
        let members = smallvec![key];
        let alone = Peer { members, linked, locked, rounds, outcome, ..Peer::unknown(nid) };
        self.nis[key].peer = self.peers.insert(alone);
        self.leave_peer(from, key);
    }

    /// Removes an entry from a peer; a peer without entries is removed.
    pub(super) fn leave_peer(&mut self, key: PeerKey, ni: PeerNiKey) {
        let peer = &mut self.peers[key];
        peer.members.retain(|member| *member != ni);
        if !peer.members.is_empty() {
            self.rename(key);
        } else if let Some(old) = self.peers.remove(key) {
            self.unlist(key, &old.nids);
        }
    }

    /// Gives a peer that lost its primary NID another one.
    pub(super) fn rename(&mut self, key: PeerKey) {
        if self.owner(&self.peers[key].primary) != Some(key) {
            let first = self.peers[key].members[0];
            self.peers[key].primary = self.nis[first].nid;
        }
    }

    /// Removes a peer's list from the tables.
    fn unlist(&mut self, key: PeerKey, nids: &[AdvertisedNid]) {
        self.extra -= nids.len().saturating_sub(1);
        self.listers.remove(&key);
        for advertised in nids {
            if self.listed.get(&advertised.nid) == Some(&key) {
                self.listed.remove(&advertised.nid);
            }
        }
    }

    /// Checks the invariants of this module.
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
            for advertised in &peer.nids {
                assert_eq!(
                    advertised.mine,
                    self.owner(&advertised.nid) == Some(key),
                    "{}",
                    advertised.nid
                );
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
            assert!(
                self.peers[*key]
                    .nids
                    .iter()
                    .any(|advertised| advertised.nid == *nid && advertised.mine)
            );
        }
        assert!(self.nis.values().all(|ni| self.by_nid.contains_key(&ni.nid)));
        assert_eq!(self.by_nid.len(), self.nis.len());
    }
}
