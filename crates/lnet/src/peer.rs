//! Peers: what is known of other nodes, in bounded memory.
//!
//! A [`PeerNi`] is one remote NID, a [`Peer`] the node behind one or several of them, named by its
//! primary NID (lnet-core, terms). Both are a few hundred bytes; any NID a header names gets one,
//! so the table has a limit and the idle entry unused for longest makes room.

use std::collections::{BTreeSet, HashMap, VecDeque};

use foldhash::fast::FixedState;
use lustrine_wire::nid::Nid;
use slotmap::{Key, SlotMap, new_key_type};
use smallvec::SmallVec;

use crate::credits::Credits;
use crate::latency::Latencies;
use crate::lnd::OpKey;
use crate::md::MdKey;
use crate::stats::MessageCounters;
use crate::status::Status;
use crate::time::Time;
use crate::totals::CounterBaseline;
use crate::wait_queue::WaitQueue;

mod configured;
mod merge;

pub use configured::ConfiguredPeer;
pub(crate) use merge::{MergeOutcome, PeerClaim};

new_key_type! {
    pub(crate) struct PeerKey;
    pub(crate) struct PeerNiKey;
}

/// How far this node got in learning about a peer (lnet-core 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is known, or what was known is no longer trusted.
    Unknown,
    /// A ping is on its way; `sink` is the room it offers, in bytes.
    Pinging { sink: u32 },
    /// Our ping information is on its way; `left` more pushes follow this one.
    Pushing { left: u8 },
    /// Messages may flow.
    Ready,
}

/// How a round of discovery begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// Ask the peer about itself.
    Ask,
    /// It told us about itself just now: tell it about us (capture a3).
    Tell,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) primary: Nid,
    /// Its last word: the NIDs of its last ping information; empty before the first.
    pub(crate) nids: SmallVec<[AdvertisedNid; 1]>,
    /// Feature bits of its last ping information.
    pub(crate) features: Option<u32>,
    /// Sequence number of its last ping information.
    pub(crate) sequence: u32,
    /// The sequence number of our own information that it has confirmed.
    pub(crate) confirmed: Option<u32>,
    pub(crate) phase: Phase,
    /// The NID discovery talks to: the one a message was meant for, or that pushed.
    pub(crate) contact: Nid,
    /// A round of discovery that somebody waits for.
    pub(crate) wanted: Option<Round>,
    /// Entries of the table that belong to it; never none.
    pub(crate) members: SmallVec<[PeerNiKey; 2]>,
    /// Of them, those with connections.
    linked: u32,
    /// The primary NID is in use as the peer's name and stays.
    pub(crate) locked: bool,
    /// An administrator described it, and said whether it is multi-rail; its primary NID stays.
    pub(crate) configured: Option<bool>,
    /// It is being asked about itself while messages flow.
    pub(crate) checking: bool,
    /// It is being told about us while messages flow.
    pub(crate) telling: bool,
    /// Discoveries ended, well or not; a waiting command compares it.
    pub(crate) rounds: u64,
    /// How the last one ended.
    pub(crate) outcome: Status,
}

/// A NID on a peer's list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdvertisedNid {
    pub(crate) nid: Nid,
    pub(crate) up: bool,
    /// Whether it belongs to the peer; another one may have it.
    pub(crate) mine: bool,
}

#[derive(Debug)]
pub(crate) struct PeerNi {
    pub(crate) nid: Nid,
    pub(crate) peer: PeerKey,
    pub(crate) credits: Credits,
    /// Since tools last began anew, as its latencies.
    pub(crate) counters: MessageCounters,
    /// Links to the node itself: one per interface of ours with open connections.
    pub(crate) node_links: u32,
    /// Links to userland processes at this address, which are other peers to a driver.
    pub(crate) userland_links: u32,
    /// Its ping information is being received: one at a time, or a peer that stops in the middle
    /// could hold up everybody else's.
    pub(crate) pushing: bool,
    /// Messages to it that wait for its peer's discovery. They stay with the NID, whatever peer
    /// it turns out to belong to.
    pub(crate) parked: WaitQueue<OpKey>,
    /// It belongs to its peer by the word of another NID alone: nothing of that peer counts for
    /// it before it has spoken itself.
    pub(crate) unverified: bool,
    /// When it was last looked up, for eviction.
    pub(crate) used: Time,
    /// Messages that name it.
    pub(crate) messages: u32,
    /// The first descriptor that awaits an answer of it; null if there is none.
    pub(crate) awaiting: MdKey,
    /// From the first operation on whose time was taken.
    pub(crate) latencies: Option<Box<Latencies>>,
    pub(crate) before: CounterBaseline,
}

impl PeerNi {
    fn idle(&self) -> bool {
        self.messages == 0 && !self.linked() && self.credits.idle() && self.awaiting.is_null()
    }

    /// Connections are open.
    pub(crate) fn linked(&self) -> bool {
        self.node_links + self.userland_links > 0
    }
}

const _: () = assert!(
    size_of::<PeerNi>() + size_of::<Peer>() + 2 * size_of::<(Nid, PeerNiKey)>() <= 512,
    "an idle peer must stay within 512 bytes (DESIGN, speed table)"
);

/// All peers of a shard.
#[derive(Debug)]
pub(crate) struct PeerTable {
    pub(crate) peers: SlotMap<PeerKey, Peer>,
    pub(crate) nis: SlotMap<PeerNiKey, PeerNi>,
    by_nid: HashMap<Nid, PeerNiKey, FixedState>,
    /// NIDs that belong to a peer by its word and have no entry yet.
    listed: HashMap<Nid, PeerKey, FixedState>,
    /// Length of all lists together, without the first of each; at most `max`.
    extra: usize,
    /// Peers with such a list.
    listers: BTreeSet<PeerKey>,
    /// The one of them that was last asked to give up its list.
    looked: PeerKey,
    /// The last answer of `find`: a batch of messages mostly comes from one peer.
    recent: Option<(Nid, PeerNiKey)>,
    /// All entries, those looked at for eviction last at the back; and some that are gone.
    clock: VecDeque<(PeerNiKey, Time)>,
    max: usize,
    /// Entries with latencies, and how many there may be.
    timed: usize,
    timed_max: usize,
}

/// Entries looked at for one eviction: enough to find an idle one, few enough that a peer that
/// makes up NIDs cannot make each of its messages expensive.
const EVICTION_LOOKS: usize = 64;

/// Places in the clock that entries removed by an administrator may leave behind, beyond as many as
/// there are entries.
const CLOCK_SLACK: usize = 64;

impl PeerTable {
    pub(crate) fn new(max: usize, timed_max: usize, seed: u64) -> PeerTable {
        PeerTable {
            peers: SlotMap::with_key(),
            nis: SlotMap::with_key(),
            by_nid: HashMap::with_hasher(FixedState::with_seed(seed)),
            listed: HashMap::with_hasher(FixedState::with_seed(seed)),
            extra: 0,
            listers: BTreeSet::new(),
            looked: PeerKey::default(),
            recent: None,
            clock: VecDeque::new(),
            max,
            timed: 0,
            timed_max,
        }
    }

    pub(crate) fn find(&mut self, nid: &Nid) -> Option<PeerNiKey> {
        if let Some((recent, key)) = self.recent
            && recent == *nid
        {
            return Some(key);
        }
        let key = self.by_nid.get(nid).copied()?;
        self.recent = Some((*nid, key));
        Some(key)
    }

    pub(crate) fn peek(&self, nid: &Nid) -> Option<&PeerNi> {
        let key = match &self.recent {
            Some((recent, key)) if recent == nid => key,
            _ => self.by_nid.get(nid)?,
        };
        Some(&self.nis[*key])
    }

    /// Finds or creates the entry of a NID. `None`: the table is full of peers in use.
    pub(crate) fn obtain(
        &mut self,
        now: Time,
        nid: &Nid,
        credits: impl FnOnce() -> u32,
    ) -> Option<PeerNiKey> {
        if let Some(key) = self.find(nid) {
            self.nis[key].used = now;
            return Some(key);
        }
        if self.nis.len() >= self.max && !self.evict() {
            return None;
        }
        let lister = self.listed.remove(nid);
        let peer = lister.unwrap_or_else(|| self.peers.insert(Peer::unknown(*nid)));
        let key = self.add_ni(now, *nid, peer, credits());
        self.nis[key].unverified = lister.is_some();
        Some(key)
    }

    fn add_ni(&mut self, now: Time, nid: Nid, peer: PeerKey, credits: u32) -> PeerNiKey {
        let key = self.nis.insert(PeerNi {
            nid,
            peer,
            credits: Credits::new(credits),
            counters: MessageCounters::default(),
            node_links: 0,
            userland_links: 0,
            pushing: false,
            parked: WaitQueue::default(),
            unverified: false,
            used: now,
            messages: 0,
            awaiting: MdKey::null(),
            latencies: None,
            before: CounterBaseline::default(),
        });
        self.by_nid.insert(nid, key);
        self.clock.push_back((key, now));
        self.peers[peer].members.push(key);
        key
    }

    /// Forgets an idle NID that was not used since it was last looked at, with its peer when it
    /// was the last one: the clock algorithm, an approximation of "unused for longest".
    fn evict(&mut self) -> bool {
        let mut second_choice = None;
        for _ in 0..EVICTION_LOOKS.min(self.clock.len()) {
            let Some((key, looked)) = self.clock.pop_front() else { break };
            let Some(ni) = self.nis.get(key) else { continue };
            let peer = &self.peers[ni.peer];
            let idle = ni.idle() && peer.settled() && !peer.named();
            if idle && ni.used <= looked {
                self.remove_ni(key);
                return true;
            }
            if idle {
                second_choice = Some(key);
            }
            self.clock.push_back((key, ni.used));
        }
        let Some(key) = second_choice else { return false };
        // It was put back just now, so it is near the end.
        if let Some(at) = self.clock.iter().rposition(|(other, _)| *other == key) {
            self.clock.remove(at);
        }
        self.remove_ni(key);
        true
    }

    fn remove_ni(&mut self, key: PeerNiKey) {
        let Some(ni) = self.nis.remove(key) else { return };
        self.timed -= usize::from(ni.latencies.is_some());
        self.by_nid.remove(&ni.nid);
        self.recent = None;
        // Its peer goes on without an entry for it.
        let peer = &self.peers[ni.peer];
        let mine = peer.nids.iter().any(|told| told.mine && told.nid == ni.nid);
        if mine && peer.members.len() > 1 {
            self.listed.insert(ni.nid, ni.peer);
        }
        self.leave_peer(ni.peer, key);
    }

    /// Counts connections: one more or one less to the node, or to a userland process, behind an
    /// entry; how many are left.
    pub(crate) fn count_link(&mut self, key: PeerNiKey, userland: bool, up: bool) -> u32 {
        let ni = &mut self.nis[key];
        let before = ni.linked();
        let links = if userland { &mut ni.userland_links } else { &mut ni.node_links };
        *links = if up { *links + 1 } else { links.saturating_sub(1) };
        let left = *links;
        let peer = &mut self.peers[ni.peer];
        peer.linked = peer.linked + u32::from(ni.linked()) - u32::from(before);
        left
    }

    /// The NID to talk to a peer by: the one that speaks for it, and is there.
    pub(crate) fn contact_nid(&self, key: PeerKey) -> Nid {
        let members = self.peers[key].members.iter().map(|ni| &self.nis[*ni]);
        let best = members.min_by_key(|ni| (ni.unverified, !ni.linked()));
        best.expect("a peer has a NID").nid
    }

    /// The latencies of an entry; `None` when as many others as may have some do.
    #[inline]
    pub(crate) fn latencies(&mut self, key: PeerNiKey) -> Option<&mut Latencies> {
        let place = &mut self.nis[key].latencies;
        if place.is_none() {
            if self.timed >= self.timed_max {
                return None;
            }
            self.timed += 1;
        }
        Some(place.get_or_insert_default())
    }

    #[cfg(test)]
    pub(crate) fn clock_len(&self) -> usize {
        self.clock.len()
    }

    pub(crate) fn peer_of(&self, ni: PeerNiKey) -> PeerKey {
        self.nis[ni].peer
    }

    /// Whether a message of `sender` counts as one of `expected`: both belong to one node, and
    /// neither by the word of the other alone, which anybody could give.
    pub(crate) fn same_peer(&self, expected: &Nid, sender: &Nid) -> bool {
        let agreed =
            |nid: &Nid| self.by_nid.get(nid).map(|key| &self.nis[*key]).filter(|ni| !ni.unverified);
        match (agreed(expected), agreed(sender)) {
            (Some(expected), Some(sender)) => expected.peer == sender.peer,
            _ => false,
        }
    }
}

impl Peer {
    fn unknown(nid: Nid) -> Peer {
        Peer {
            primary: nid,
            nids: SmallVec::new(),
            features: None,
            sequence: 0,
            confirmed: None,
            phase: Phase::Unknown,
            contact: nid,
            wanted: None,
            members: SmallVec::new(),
            linked: 0,
            locked: false,
            configured: None,
            checking: false,
            telling: false,
            rounds: 0,
            outcome: Status::Ok,
        }
    }

    /// Nothing waits for its discovery and none is under way.
    pub(crate) fn settled(&self) -> bool {
        self.wanted.is_none() && matches!(self.phase, Phase::Unknown | Phase::Ready)
    }

    /// It can be talked to, is being asked, or its name is in use: others cannot just take it.
    fn live(&self) -> bool {
        self.linked > 0 || self.named() || !self.settled()
    }

    /// Somebody counts on its primary NID, and on its being here.
    pub(crate) fn named(&self) -> bool {
        self.locked || self.configured.is_some()
    }
}

#[cfg(test)]
mod tests {
    use core::hash::BuildHasher;
    use std::collections::HashSet as Set;

    use lustrine_wire::nid::Net;

    use super::*;

    /// A constant of foldhash's: mixed with a number that equals it, any other number is lost.
    const FOLDED_AWAY: u64 = 0xc0ac_29b7_c97c_50dd;

    #[test]
    fn nids_that_meet_a_constant_of_the_hasher_hash_apart() {
        for seed in [0, 1, 0xfeed_beef] {
            let table = PeerTable::new(10, 10, seed);
            let hostile = |number: u32| {
                let mut address = [0; 16];
                address[..4].copy_from_slice(&number.to_ne_bytes());
                address[4..12].copy_from_slice(&FOLDED_AWAY.to_ne_bytes());
                Nid::new6(Net::TCP, address)
            };
            let hashes: Set<u64> =
                (0..10_000).map(|number| table.by_nid.hasher().hash_one(hostile(number))).collect();
            assert!(hashes.len() > 9990, "{} of 10000", hashes.len());
        }
    }
}
