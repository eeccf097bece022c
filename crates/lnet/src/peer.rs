//! Peers: what is known of other nodes, in bounded memory.
//!
//! A [`PeerNi`] is one remote NID, a [`Peer`] the node behind one or several of them, named by its
//! primary NID ([CORE-21]). Both have a few hundred bytes. Each NID that a header names gets an
//! entry, so the table has a limit, and idle entries that were not used for long make room.

use std::collections::{BTreeSet, HashMap, VecDeque};

use foldhash::fast::FixedState;
use lustrine_wire::nid::{Nid, ProcessId};
use slotmap::{Key, SlotMap};
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

pub(crate) use crate::keys::{PeerKey, PeerNiKey};
pub use configured::ConfiguredPeer;
pub(crate) use merge::{MergeOutcome, PeerClaim};

/// State of a peer's discovery ([PING-14]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is known, or the information is outdated.
    Unknown,
    /// A ping is in flight; `sink` is the room for its answer, in bytes.
    Pinging { sink: u32 },
    /// A push is under way; `left` more follow.
    Pushing { left: u8 },
    /// A userland node waits until then before its next push; `left` more follow that one.
    Pausing { left: u8, until: Time },
    /// Messages can be sent.
    Ready,
}

/// How a round of discovery begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// With a ping.
    Ping,
    /// With a push, as the peer has just pushed its own information (capture a3).
    Push,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) primary: Nid,
    /// The NIDs of its last ping information; empty before the first.
    pub(crate) nids: SmallVec<[AdvertisedNid; 1]>,
    /// Feature bits of its last ping information.
    pub(crate) features: Option<u32>,
    /// Sequence number of its last ping information.
    pub(crate) sequence: u32,
    /// The sequence number of our own information that it has confirmed.
    pub(crate) confirmed: Option<u32>,
    pub(crate) phase: Phase,
    /// The NID that discovery pings and pushes to: the one that a message is for, or that pushed.
    pub(crate) contact: Nid,
    /// A round of discovery that is to begin.
    pub(crate) wanted: Option<Round>,
    /// Entries of the table that belong to it; at least one.
    pub(crate) members: SmallVec<[PeerNiKey; 2]>,
    /// Number of members with connections.
    linked: u32,
    /// The primary NID is in use as the peer's name and must not change.
    pub(crate) locked: bool,
    /// Whether it is multi-rail, if an administrator configured it; its primary NID stays.
    pub(crate) configured: Option<bool>,
    /// A ping outside of a round is under way.
    pub(crate) recheck_in_flight: bool,
    /// A push outside of a round is under way.
    pub(crate) update_in_flight: bool,
    /// Rounds of discovery that have ended, well or not; commands that wait compare it.
    pub(crate) rounds: u64,
    /// How the last one ended.
    pub(crate) outcome: Status,
}

/// A NID on the list of a peer's ping information.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdvertisedNid {
    pub(crate) nid: Nid,
    pub(crate) up: bool,
    /// Whether it belongs to the peer; otherwise another peer has it.
    pub(crate) mine: bool,
}

#[derive(Debug)]
pub(crate) struct PeerNi {
    pub(crate) nid: Nid,
    pub(crate) peer: PeerKey,
    pub(crate) credits: Credits,
    /// Credits of userland processes at this address, from the first message to one: a process
    /// that reads no answers must not stop messages to the node.
    userland_credits: Option<Box<Credits>>,
    /// Since the last reset, as the latencies.
    pub(crate) counters: MessageCounters,
    /// Links to the node itself: one per local interface with open connections.
    pub(crate) node_links: u32,
    /// Links to userland processes at this address, which are other peers to a driver.
    pub(crate) userland_links: u32,
    /// Messages to it that wait for discovery. They stay with the NID when it moves to another
    /// peer.
    pub(crate) parked: WaitQueue<OpKey>,
    /// It belongs to its peer only by the claim of another NID. Nothing that is known of the peer
    /// applies to it before it has confirmed that ([PING-26]).
    pub(crate) unverified: bool,
    /// When it was last looked up, for eviction.
    pub(crate) used: Time,
    /// Messages that name it, and those of them that a userland process at this address sent or is
    /// to get.
    pub(crate) messages: u32,
    pub(crate) userland_messages: u32,
    /// The first descriptor that awaits an answer of it; null if there is none.
    pub(crate) awaiting: MdKey,
    /// Present from the first operation that was measured.
    pub(crate) latencies: Option<Box<Latencies>>,
    pub(crate) before: CounterBaseline,
}

impl PeerNi {
    fn idle(&self) -> bool {
        let credits =
            self.credits.idle() && self.userland_credits.as_ref().is_none_or(|c| c.idle());
        self.messages == 0 && !self.linked() && credits && self.awaiting.is_null()
    }

    /// The credits for messages to the node, or to userland processes at its address.
    #[inline]
    pub(crate) fn credits_for(&mut self, hop: &ProcessId) -> &mut Credits {
        if !hop.is_userland() {
            return &mut self.credits;
        }
        let max = self.credits.max();
        self.userland_credits.get_or_insert_with(|| Box::new(Credits::new(max)))
    }

    /// Messages to and from the node, or userland processes at its address.
    pub(crate) fn messages_with(&self, hop: &ProcessId) -> u32 {
        match hop.is_userland() {
            true => self.userland_messages,
            false => self.messages - self.userland_messages,
        }
    }

    /// Changes the number of credits, as soon as no message holds one.
    pub(crate) fn resize_credits(&mut self, max: u32) {
        self.credits.resize(max);
        if let Some(credits) = &mut self.userland_credits {
            credits.resize(max);
        }
    }

    /// Connections are open.
    pub(crate) fn linked(&self) -> bool {
        self.node_links + self.userland_links > 0
    }
}

const _: () = assert!(
    size_of::<PeerNi>() + size_of::<Peer>() + 2 * size_of::<(Nid, PeerNiKey)>() <= 512,
    "an idle peer needs at most 512 bytes"
);

/// All peers of a shard.
#[derive(Debug)]
pub(crate) struct PeerTable {
    pub(crate) peers: SlotMap<PeerKey, Peer>,
    pub(crate) nis: SlotMap<PeerNiKey, PeerNi>,
    by_nid: HashMap<Nid, PeerNiKey, FixedState>,
    /// NIDs that belong to a peer by its ping information and have no entry.
    listed: HashMap<Nid, PeerKey, FixedState>,
    /// Length of all lists together, without the first of each; at most `max`.
    extra: usize,
    /// Peers with a list of more than one NID.
    listers: BTreeSet<PeerKey>,
    /// The peer whose list was considered for removal last.
    looked: PeerKey,
    /// The last result of `find`: a batch of messages mostly comes from one peer.
    recent: Option<(Nid, PeerNiKey)>,
    /// All entries in the order in which eviction looks at them, and some that are gone.
    clock: VecDeque<(PeerNiKey, Time)>,
    max: usize,
    /// Number of entries with latencies, and its limit.
    timed: usize,
    timed_max: usize,
}

/// Entries that one eviction looks at: enough to find an idle one, and few enough that a peer that
/// makes up NIDs cannot make each message expensive.
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

    #[inline]
    pub(crate) fn find(&mut self, nid: &Nid) -> Option<PeerNiKey> {
        match &self.recent {
            Some((recent, key)) if recent == nid => Some(*key),
            _ => self.find_other(nid),
        }
    }

    /// Finds a NID that is not the one of the last look-up.
    fn find_other(&mut self, nid: &Nid) -> Option<PeerNiKey> {
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
    #[inline]
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
        self.create(now, nid, credits())
    }

    #[cold]
    fn create(&mut self, now: Time, nid: &Nid, credits: u32) -> Option<PeerNiKey> {
        if self.nis.len() >= self.max && !self.evict() {
            return None;
        }
        let lister = self.listed.remove(nid);
        let peer = lister.unwrap_or_else(|| self.peers.insert(Peer::unknown(*nid)));
        let key = self.add_ni(now, *nid, peer, credits);
        self.nis[key].unverified = lister.is_some();
        Some(key)
    }

    fn add_ni(&mut self, now: Time, nid: Nid, peer: PeerKey, credits: u32) -> PeerNiKey {
        let key = self.nis.insert(PeerNi {
            nid,
            peer,
            credits: Credits::new(credits),
            userland_credits: None,
            counters: MessageCounters::default(),
            node_links: 0,
            userland_links: 0,
            parked: WaitQueue::default(),
            unverified: false,
            used: now,
            messages: 0,
            userland_messages: 0,
            awaiting: MdKey::null(),
            latencies: None,
            before: CounterBaseline::default(),
        });
        self.by_nid.insert(nid, key);
        self.clock.push_back((key, now));
        self.peers[peer].members.push(key);
        key
    }

    /// Removes an idle NID that was not used since eviction last looked at it; its peer goes with
    /// its last NID. This is the clock algorithm, an approximation of least recently used.
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
        // It was put back at the end a moment ago.
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
        // Its peer stays, without an entry for this NID.
        let peer = &self.peers[ni.peer];
        let mine = peer.nids.iter().any(|advertised| advertised.mine && advertised.nid == ni.nid);
        if mine && peer.members.len() > 1 {
            self.listed.insert(ni.nid, ni.peer);
        }
        self.leave_peer(ni.peer, key);
    }

    /// Counts a link to the node or to a userland process at a NID, up or down; returns the number
    /// of such links.
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

    /// The NID to ping or push a peer by: preferably verified, and with connections.
    pub(crate) fn contact_nid(&self, key: PeerKey) -> Nid {
        let members = self.peers[key].members.iter().map(|ni| &self.nis[*ni]);
        let best = members.min_by_key(|ni| (ni.unverified, !ni.linked()));
        best.expect("a peer has a NID").nid
    }

    /// The latencies of an entry; `None` when the limit on entries with latencies is reached.
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

    /// Whether the entry of a NID belongs to this peer. A message to a NID without an entry creates
    /// one, which may evict any peer that has no round of discovery, and this one too.
    pub(crate) fn is_member(&self, key: PeerKey, nid: &Nid) -> bool {
        self.peek(nid).is_some_and(|ni| ni.peer == key)
    }

    /// Whether a message of `sender` counts as one of `expected`: both belong to one peer, and
    /// neither by an unverified claim, which any node could make.
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
            recheck_in_flight: false,
            update_in_flight: false,
            rounds: 0,
            outcome: Status::Ok,
        }
    }

    /// Whether no discovery is wanted or in flight.
    pub(crate) fn settled(&self) -> bool {
        self.wanted.is_none() && matches!(self.phase, Phase::Unknown | Phase::Ready)
    }

    /// Whether it has connections, a discovery under way, or a name in use: others cannot claim its
    /// NIDs without its consent ([PING-23]).
    fn live(&self) -> bool {
        self.linked > 0 || self.named() || !self.settled()
    }

    /// Whether its primary NID, and the peer itself, must stay in the table.
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

    /// A constant of foldhash: mixed with a number that equals it, every other number is lost.
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
