//! Portals: match entries, and messages parked on lazy portals ([CORE-6], [CORE-9]).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::FixedState;
use lustrine_wire::nid::{Nid, PID_ANY, ProcessId};
use slotmap::{SlotMap, new_key_type};
use smallvec::SmallVec;

use crate::lnd::{Arrival, NiIndex, OpKey, RxId};
use crate::md::{MatchId, MdKey, MeKey, Position};
use crate::wait_queue::{WaitQueue, WaitQueues};

/// Number of portals ([CORE-1]).
pub const PORTALS: u32 = 64;

/// What a descriptor on a portal matches.
#[derive(Clone, Copy, Debug)]
pub struct MatchEntry {
    /// The senders that it accepts.
    pub from: MatchId,
    /// The match bits that it accepts.
    pub match_bits: u64,
    /// Match bits that are ignored.
    pub ignore_bits: u64,
    /// Where in the list it is inserted.
    pub position: Position,
    /// Whether entry and descriptor go when the descriptor is exhausted.
    pub unlink: crate::md::Unlink,
}

impl MatchEntry {
    /// Unique: no ignore bits, one sender. Everything else is a wildcard ([CORE-6]).
    fn kind(&self) -> Kind {
        if self.ignore_bits == 0 && !self.from.nid.is_any() && self.from.pid != PID_ANY {
            Kind::Unique
        } else {
            Kind::Wildcard
        }
    }
}

/// What a portal does with a PUT that no entry matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Laziness {
    /// Park it until an entry that matches is attached.
    Lazy,
    /// Drop it.
    Strict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unique,
    Wildcard,
}

/// A match entry on a list.
#[derive(Debug)]
pub(crate) struct Me {
    pub(crate) portal: u32,
    pub(crate) entry: MatchEntry,
    pub(crate) md: MdKey,
}

new_key_type! {
    pub(crate) struct ParkedKey;
}

/// A PUT that waits for an entry that matches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked {
    pub(crate) header: lustrine_wire::header::Header,
    pub(crate) match_bits: u64,
    pub(crate) origin: Origin,
}

/// Where a parked PUT waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// In a driver.
    Driver(Arrival),
    /// On this node: the message of the sender.
    Loopback(OpKey),
}

impl Origin {
    fn waiter(&self) -> Waiter {
        match self {
            Origin::Driver(arrival) => Waiter::Driver(arrival.ni, arrival.rx),
            Origin::Loopback(op) => Waiter::Loopback(*op),
        }
    }
}

/// Names a parked PUT to withdraw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Waiter {
    Driver(NiIndex, RxId),
    Loopback(OpKey),
}

/// The parked PUTs of a portal, in the order in which they came.
#[derive(Debug)]
pub(crate) struct ParkedList {
    all: WaitQueue<ParkedKey>,
    /// The same by match bits: an entry without ignore bits looks at no others.
    by_bits: HashMap<u64, WaitQueue<ParkedKey>, FixedState>,
}

impl ParkedList {
    fn new(seed: u64) -> ParkedList {
        ParkedList {
            all: WaitQueue::default(),
            by_bits: HashMap::with_hasher(FixedState::with_seed(seed)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn first(&self) -> Option<ParkedKey> {
        self.all.first()
    }
}

/// All parked PUTs of a shard. A driver has at most one per connection.
#[derive(Debug)]
pub(crate) struct ParkedPuts {
    puts: SlotMap<ParkedKey, Parked>,
    /// Links of all PUTs of a portal.
    pub(crate) queues: WaitQueues<ParkedKey>,
    /// Links of those with the same match bits.
    pub(crate) same_bits: WaitQueues<ParkedKey>,
    by_waiter: HashMap<Waiter, ParkedKey, FixedState>,
}

impl ParkedPuts {
    pub(crate) fn new(seed: u64) -> ParkedPuts {
        ParkedPuts {
            puts: SlotMap::with_key(),
            queues: WaitQueues::new(),
            same_bits: WaitQueues::new(),
            by_waiter: HashMap::with_hasher(FixedState::with_seed(seed)),
        }
    }

    /// Adds a PUT at the end of its portal's queues.
    pub(crate) fn park(&mut self, portal: &mut Portal, parked: Parked) {
        let (waiter, bits) = (parked.origin.waiter(), parked.match_bits);
        let key = self.puts.insert(parked);
        self.queues.push_back(&mut portal.parked.all, key);
        self.same_bits.push_back(portal.parked.by_bits.entry(bits).or_default(), key);
        self.by_waiter.insert(waiter, key);
    }

    /// The first PUT that an entry may match, as far as match bits without ignore bits say.
    pub(crate) fn first_for(&self, portal: &Portal, entry: &MatchEntry) -> Option<ParkedKey> {
        match entry.ignore_bits {
            0 => portal.parked.by_bits.get(&entry.match_bits)?.first(),
            _ => portal.parked.all.first(),
        }
    }

    /// The next one behind `key`.
    pub(crate) fn after_for(&self, entry: &MatchEntry, key: ParkedKey) -> Option<ParkedKey> {
        match entry.ignore_bits {
            0 => self.same_bits.after(key),
            _ => self.queues.after(key),
        }
    }

    pub(crate) fn get(&self, key: ParkedKey) -> Parked {
        self.puts[key]
    }

    /// The PUT that `waiter` names.
    pub(crate) fn of(&self, waiter: Waiter) -> Option<(ParkedKey, Parked)> {
        let key = *self.by_waiter.get(&waiter)?;
        Some((key, self.puts[key]))
    }

    /// Removes a PUT that no longer waits.
    pub(crate) fn remove(&mut self, portal: &mut Portal, key: ParkedKey) {
        let Some(parked) = self.puts.remove(key) else { return };
        self.queues.remove(&mut portal.parked.all, key);
        if let Some(queue) = portal.parked.by_bits.get_mut(&parked.match_bits) {
            self.same_bits.remove(queue, key);
            if queue.is_empty() {
                portal.parked.by_bits.remove(&parked.match_bits);
            }
        }
        self.by_waiter.remove(&parked.origin.waiter());
    }
}

#[derive(Debug)]
pub(crate) struct Portal {
    kind: Option<Kind>,
    pub(crate) lazy: bool,
    /// Entries with ignore bits; these are searched first ([CORE-7]).
    ignoring: Vec<MeKey>,
    /// Entries by their exact match bits. Senders are compared one by one: a merged peer has
    /// several NIDs, so they cannot be part of the key.
    exact: HashMap<u64, SmallVec<[MeKey; 1]>, FixedState>,
    pub(crate) parked: ParkedList,
    count: usize,
}

impl Portal {
    pub(crate) fn new(seed: u64) -> Portal {
        Portal {
            kind: None,
            lazy: false,
            ignoring: Vec::new(),
            exact: HashMap::with_hasher(FixedState::with_seed(seed)),
            parked: ParkedList::new(seed),
            count: 0,
        }
    }

    /// Whether an entry of this kind can be added.
    pub(crate) fn admits(&self, entry: &MatchEntry) -> bool {
        self.kind.is_none_or(|kind| kind == entry.kind())
    }

    pub(crate) fn insert(&mut self, key: MeKey, entry: &MatchEntry) {
        self.kind = Some(entry.kind());
        self.count += 1;
        let at_front = entry.position == Position::Before;
        if entry.ignore_bits != 0 {
            let at = if at_front { 0 } else { self.ignoring.len() };
            self.ignoring.insert(at, key);
        } else {
            let list = self.exact.entry(entry.match_bits).or_default();
            let at = if at_front { 0 } else { list.len() };
            list.insert(at, key);
        }
    }

    pub(crate) fn remove(&mut self, key: MeKey, entry: &MatchEntry) {
        if entry.ignore_bits != 0 {
            self.ignoring.retain(|other| *other != key);
        } else if let Entry::Occupied(mut place) = self.exact.entry(entry.match_bits) {
            let list = place.get_mut();
            list.retain(|other| *other != key);
            if list.is_empty() {
                place.remove();
            }
        }
        self.count -= 1;
        if self.count == 0 {
            self.kind = None;
        }
    }

    /// What `look` finds first among the entries that may match these bits, in search order: those
    /// with ignore bits first.
    #[inline]
    fn find(
        &self,
        match_bits: u64,
        mut look: impl FnMut(&MeKey) -> Option<MdKey>,
    ) -> Option<MdKey> {
        let ignoring = self.ignoring.iter().find_map(&mut look);
        if ignoring.is_some() || self.exact.is_empty() {
            return ignoring;
        }
        self.exact.get(&match_bits)?.iter().find_map(look)
    }
}

/// All portals of a shard: match entries and parked PUTs. Numbers of portals are below
/// [`PORTALS`].
#[derive(Debug)]
pub(crate) struct Portals {
    portals: Vec<Portal>,
    entries: SlotMap<MeKey, Me>,
    pub(crate) parked: ParkedPuts,
}

impl Portals {
    pub(crate) fn new(seed: u64) -> Portals {
        Portals {
            portals: (0..PORTALS).map(|index| Portal::new(seed ^ u64::from(index))).collect(),
            entries: SlotMap::with_key(),
            parked: ParkedPuts::new(seed),
        }
    }

    /// Number of entries on a portal.
    #[inline]
    pub(crate) fn entries_on(&self, portal: u32) -> usize {
        self.portals[portal as usize].count
    }

    pub(crate) fn admits(&self, portal: u32, entry: &MatchEntry) -> bool {
        self.portals[portal as usize].admits(entry)
    }

    pub(crate) fn attach(&mut self, portal: u32, entry: MatchEntry, md: MdKey) -> MeKey {
        let key = self.entries.insert(Me { portal, entry, md });
        self.portals[portal as usize].insert(key, &entry);
        key
    }

    pub(crate) fn remove(&mut self, key: MeKey) {
        if let Some(me) = self.entries.remove(key) {
            self.portals[me.portal as usize].remove(key, &me.entry);
        }
    }

    pub(crate) fn set_lazy(&mut self, portal: u32, laziness: Laziness) {
        self.portals[portal as usize].lazy = laziness == Laziness::Lazy;
    }

    /// The descriptor of the first entry that `matches`, of those that may match these bits.
    #[inline]
    pub(crate) fn find(
        &self,
        portal: u32,
        match_bits: u64,
        matches: impl Fn(&Me) -> bool,
    ) -> Option<MdKey> {
        self.portals[portal as usize].find(match_bits, |key| {
            let me = &self.entries[*key];
            matches(me).then_some(me.md)
        })
    }

    pub(crate) fn has_parked(&self, portal: u32) -> bool {
        !self.portals[portal as usize].parked.is_empty()
    }

    /// Parks a PUT if its portal is lazy; whether it did.
    pub(crate) fn park(&mut self, portal: u32, parked: Parked) -> bool {
        let Some(place) = self.portals.get_mut(portal as usize) else { return false };
        if place.lazy {
            self.parked.park(place, parked);
        }
        place.lazy
    }

    pub(crate) fn first_parked(&self, portal: u32) -> Option<ParkedKey> {
        self.portals[portal as usize].parked.first()
    }

    /// The first parked PUT that an entry may match.
    pub(crate) fn first_parked_for(&self, portal: u32, entry: &MatchEntry) -> Option<ParkedKey> {
        self.parked.first_for(&self.portals[portal as usize], entry)
    }

    pub(crate) fn remove_parked(&mut self, portal: u32, key: ParkedKey) {
        self.parked.remove(&mut self.portals[portal as usize], key);
    }
}

/// Whether an entry accepts messages of this sender that come by a connection of `hop`;
/// `same_peer` says whether two NIDs are known to belong to one peer.
#[inline]
pub(crate) fn sender_matches(
    from: &MatchId,
    sender: &ProcessId,
    hop: &ProcessId,
    same_peer: impl Fn(&Nid, &Nid) -> bool,
) -> bool {
    if from.pid != PID_ANY && from.pid != sender.pid {
        return false;
    }
    // A sender that claims to be a node must use a connection of that node.
    let expected = ProcessId { nid: from.nid, pid: sender.pid };
    from.nid.is_any() || is_of(&expected, sender, &same_peer) && is_of(&expected, hop, &same_peer)
}

/// Whether `one` is the process or node that is expected, or another NID of that node. A userland
/// process only equals itself: it is not the node at its address.
pub(crate) fn is_of(
    expected: &ProcessId,
    one: &ProcessId,
    same_peer: impl Fn(&Nid, &Nid) -> bool,
) -> bool {
    if expected.is_userland() || one.is_userland() {
        return expected == one;
    }
    expected.nid == one.nid || same_peer(&expected.nid, &one.nid)
}
