//! The number of places that each address holds, and which of them is freed when all are taken.
//!
//! The numbers of incoming handshakes and of connections are limited. A single address must not
//! lock out all others by holding all of them, so the address that holds most gives one up.

use crate::keys::ConnKey;
use core::cmp::Reverse;
use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;

/// Source ports up to this one need privilege [ACC-14].
pub(crate) const PRIVILEGED_PORT_MAX: u16 = 1023;

/// Who shares one allowance: an IPv4 address, or an IPv6 network of 64 bits, which is what one
/// host is usually given.
///
/// Ports that need privilege count separately: an ordinary user of a host must not use up the
/// places of that host's own node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Source {
    network: u64,
    v6: bool,
    privileged: bool,
}

impl Source {
    /// The allowance that a remote address counts against.
    pub(crate) fn of(remote: SocketAddr) -> Source {
        let (network, v6) = match remote.ip().to_canonical() {
            IpAddr::V4(ip) => (u64::from(ip.to_bits()), false),
            IpAddr::V6(ip) => ((ip.to_bits() >> 64) as u64, true),
        };
        Source { network, v6, privileged: remote.port() <= PRIVILEGED_PORT_MAX }
    }
}

/// The place of one connection in a [`Shares`] table: tickets count up, so a lower one is older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// Places, by who holds them. All operations take logarithmic time.
#[derive(Debug)]
pub(crate) struct Shares {
    places: BTreeMap<(Source, Ticket), ConnKey>,
    counts: HashMap<Source, u32, FixedState>,
    /// Sources from the one to give up a place last to the one to do so first: by the number of
    /// places, then those without privilege, then by the age of the oldest place.
    order: BTreeSet<(u32, bool, Reverse<Ticket>, Source)>,
    next: u64,
}

impl Shares {
    /// An empty table. Peers choose the addresses in it, so `seed` must not be known to them.
    pub(crate) fn new(seed: u64) -> Shares {
        Shares {
            places: BTreeMap::new(),
            counts: HashMap::with_hasher(FixedState::with_seed(seed)),
            order: BTreeSet::new(),
            next: 0,
        }
    }

    /// The number of places taken.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The number of places that `source` holds.
    pub(crate) fn count(&self, source: Source) -> u32 {
        self.counts.get(&source).copied().unwrap_or(0)
    }

    /// Gives a connection a place.
    pub(crate) fn add(&mut self, source: Source, conn: ConnKey) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.unlist(source);
        self.places.insert((source, ticket), conn);
        *self.counts.entry(source).or_insert(0) += 1;
        self.list(source);
        ticket
    }

    /// Frees a place.
    pub(crate) fn remove(&mut self, source: Source, ticket: Ticket) {
        self.unlist(source);
        let removed = self.places.remove(&(source, ticket));
        assert!(removed.is_some(), "{source:?} holds no place {ticket:?}");
        match self.counts.get_mut(&source) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.counts.remove(&source)),
        }
        self.list(source);
    }

    /// The source that is to give up a place so that `newcomer` can have one: the one that would
    /// hold most then. That is the newcomer itself if no other holds as many as it would.
    pub(crate) fn greediest(&self, newcomer: Option<Source>) -> Option<Source> {
        let (most, _, _, source) = *self.order.last()?;
        match newcomer {
            Some(own) if self.count(own) >= most => Some(own),
            _ => Some(source),
        }
    }

    /// The oldest place of a source.
    pub(crate) fn oldest(&self, source: Source) -> Option<(Ticket, ConnKey)> {
        let (ticket, conn) = self.places.range((source, Ticket(0))..).next()?;
        (ticket.0 == source).then_some((ticket.1, *conn))
    }

    fn rank(&self, source: Source) -> Option<(u32, bool, Reverse<Ticket>, Source)> {
        let (oldest, _) = self.oldest(source)?;
        Some((self.count(source), !source.privileged, Reverse(oldest), source))
    }

    fn unlist(&mut self, source: Source) {
        if let Some(rank) = self.rank(source) {
            self.order.remove(&rank);
        }
    }

    fn list(&mut self, source: Source) {
        if let Some(rank) = self.rank(source) {
            self.order.insert(rank);
        }
    }
}

/// What connections are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pool {
    /// Handshakes of incoming connections.
    Incoming,
    /// Open connections that userland peers have dialled.
    Userland,
    /// Open connections that peers have dialled from another address than the one in their NID.
    Foreign,
    /// Open connections with the address in the NID of the peer, dialled by either side.
    Nodes,
}

impl Pool {
    /// The pools of open connections, in the order in which they give up places.
    pub(crate) const OPEN: [Pool; 3] = [Pool::Userland, Pool::Foreign, Pool::Nodes];
}

/// The place of a connection in its pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pool: Pool,
    ticket: Ticket,
}

/// The places of all connections, except those that this node is dialling.
#[derive(Debug)]
pub(crate) struct Places([Shares; 4]);

impl Places {
    /// Empty pools; see [`Shares::new`].
    pub(crate) fn new(seed: u64) -> Places {
        Places(core::array::from_fn(|_| Shares::new(seed)))
    }

    /// The shares of a pool.
    pub(crate) fn of(&self, pool: Pool) -> &Shares {
        &self.0[pool as usize]
    }

    /// Gives a connection a place.
    pub(crate) fn add(&mut self, pool: Pool, source: Source, conn: ConnKey) -> Place {
        Place { pool, ticket: self.0[pool as usize].add(source, conn) }
    }

    /// Moves a place to the end of its source's list.
    pub(crate) fn renew(&mut self, source: Source, place: Place, conn: ConnKey) -> Place {
        self.remove(source, place);
        self.add(place.pool, source, conn)
    }

    /// Frees a place.
    pub(crate) fn remove(&mut self, source: Source, place: Place) {
        self.0[place.pool as usize].remove(source, place.ticket);
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    fn at(address: &str) -> Source {
        Source::of(address.parse().expect("an address and a port"))
    }

    fn keys(count: usize) -> Vec<ConnKey> {
        let mut slots: SlotMap<ConnKey, ()> = SlotMap::with_key();
        (0..count).map(|_| slots.insert(())).collect()
    }

    #[test]
    fn one_host_has_one_allowance_and_its_node_another() {
        assert_eq!(at("10.0.0.1:2000"), at("10.0.0.1:65000"));
        assert_eq!(at("10.0.0.1:2000"), at("[::ffff:10.0.0.1]:2000"));
        assert_ne!(at("10.0.0.1:2000"), at("10.0.0.1:1023"));
        assert_ne!(at("10.0.0.1:2000"), at("10.0.0.2:2000"));
        assert_eq!(at("[2001:db8:0:1::7]:2000"), at("[2001:db8:0:1:f::1]:2000"));
        assert_ne!(at("[2001:db8:0:1::7]:2000"), at("[2001:db8:0:2::7]:2000"));
        assert_ne!(at("[::1.2.3.4]:2000"), at("1.2.3.4:2000"));
    }

    #[test]
    fn the_source_with_most_loses_its_oldest_place() {
        let mut shares = Shares::new(1);
        let keys = keys(4);
        let (few, many, new) = (at("10.0.0.1:2000"), at("10.0.0.2:2000"), at("10.0.0.3:2000"));
        assert_eq!((shares.greediest(None), shares.greediest(Some(new))), (None, None));
        shares.add(few, keys[0]);
        let first = shares.add(many, keys[1]);
        shares.add(many, keys[2]);
        shares.add(many, keys[3]);
        assert_eq!((shares.count(few), shares.count(many), shares.count(new)), (1, 3, 0));
        for newcomer in [None, Some(new), Some(few), Some(many)] {
            assert_eq!(shares.greediest(newcomer), Some(many));
        }
        assert_eq!(shares.oldest(many), Some((first, keys[1])));
        shares.remove(many, first);
        assert_eq!(shares.oldest(many).map(|(_, key)| key), Some(keys[2]));
        assert_eq!(shares.oldest(new), None);
    }

    /// Otherwise the sources whose addresses sort last would always be chosen.
    #[test]
    fn among_equals_the_unprivileged_is_chosen_first_and_then_the_oldest() {
        let mut shares = Shares::new(1);
        let keys = keys(4);
        let node = at("10.0.0.9:1000");
        let (old, young) = (at("10.0.0.1:2000"), at("10.0.0.8:2000"));
        shares.add(node, keys[0]);
        let ticket = shares.add(old, keys[1]);
        shares.add(young, keys[2]);
        assert_eq!(shares.greediest(Some(at("10.0.0.7:2000"))), Some(old));
        shares.remove(old, ticket);
        shares.add(old, keys[1]);
        assert_eq!(shares.greediest(None), Some(young), "its place is the older one now");
    }

    #[test]
    fn sources_without_places_leave_no_state() {
        let mut shares = Shares::new(1);
        let key = keys(1)[0];
        for number in 0..1000_u16 {
            let source = at(&format!("10.0.{}.{}:2000", number / 200, number % 200));
            let ticket = shares.add(source, key);
            shares.remove(source, ticket);
        }
        assert!(shares.places.is_empty() && shares.counts.is_empty() && shares.order.is_empty());
    }
}
