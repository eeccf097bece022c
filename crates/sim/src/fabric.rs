//! What hosts are connected by: sites, and trunks between them, made of links with a rate, a delay
//! and a queue.
//!
//! A host stands at a site and reaches it by its interface: a link up and a link down. Sites are
//! connected by trunks of one or more parallel links, among which a hash chooses. The way of a
//! message is the list of its [`Hop`]s; at each of them [`Fabric::pass`] says when it comes out at
//! the far end, or that it is lost. Both depths of the simulator use it: streams in bursts of
//! segments, the message level in whole messages.

mod link;
mod routes;

use std::collections::HashMap;

use foldhash::fast::FixedState;
use lustrine_lnet::time::{Nanos, Time};
use smallvec::SmallVec;

use crate::network::HostId;
use crate::rng::Rng;
use link::Direction;
pub use link::{LinkSpec, LinkUsage, Rate, Transit};

/// A place where hosts stand; within it only their interfaces are in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(pub u32);

/// A connection of two sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrunkId(pub u32);

/// One direction of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop(pub u32);

/// The links that something takes, first to last.
pub type Hops = SmallVec<[Hop; 4]>;

/// What chooses among the parallel links of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashing {
    /// The two hosts: everything between them takes one link.
    Hosts,
    /// The stream: several streams of two hosts may take several links.
    Streams,
}

#[derive(Debug)]
struct Trunk {
    sites: (SiteId, SiteId),
    hashing: Hashing,
    /// Per parallel link: from the first site to the second, and back.
    links: Vec<(Hop, Hop)>,
}

#[derive(Clone, Copy, Debug)]
struct Stand {
    site: SiteId,
    up: Hop,
    down: Hop,
}

/// Sites, trunks, and where hosts stand.
#[derive(Debug, Default)]
pub struct Fabric {
    directions: Vec<Direction>,
    sites: u32,
    trunks: Vec<Trunk>,
    stands: HashMap<HostId, Stand, FixedState>,
    /// Ways from site to site, as far as they were asked for; emptied when a way is added.
    routes: HashMap<(SiteId, SiteId), Option<Vec<TrunkId>>, FixedState>,
}

impl Fabric {
    /// A new site.
    pub fn add_site(&mut self) -> SiteId {
        self.sites += 1;
        SiteId(self.sites - 1)
    }

    /// Connects two sites by parallel links.
    ///
    /// # Panics
    /// When there is no link, or no such site.
    pub fn add_trunk(
        &mut self,
        sites: (SiteId, SiteId),
        links: &[LinkSpec],
        hashing: Hashing,
    ) -> TrunkId {
        assert!(!links.is_empty(), "a trunk of no links");
        assert!(sites.0.0 < self.sites && sites.1.0 < self.sites, "no such site");
        let links = links.iter().map(|spec| (self.direction(*spec), self.direction(*spec)));
        let links = links.collect();
        self.trunks.push(Trunk { sites, hashing, links });
        self.routes.clear();
        TrunkId(self.trunks.len() as u32 - 1)
    }

    fn direction(&mut self, spec: LinkSpec) -> Hop {
        self.directions.push(Direction::new(spec));
        Hop(self.directions.len() as u32 - 1)
    }

    /// Puts a host at a site, behind an interface whose two directions are alike.
    ///
    /// # Panics
    /// When it stands somewhere already, or there is no such site.
    pub fn place(&mut self, host: HostId, site: SiteId, interface: LinkSpec) {
        assert!(site.0 < self.sites, "no such site");
        let (up, down) = (self.direction(interface), self.direction(interface));
        let before = self.stands.insert(host, Stand { site, up, down });
        assert!(before.is_none(), "{host:?} stands somewhere already");
    }

    /// Whether a host has a place here.
    pub fn has(&self, host: HostId) -> bool {
        self.stands.contains_key(&host)
    }

    /// The links from one host to another for a stream; `None` when there is no way. Within a host
    /// there are none.
    pub fn hops(&mut self, from: HostId, to: HostId, stream: u64) -> Option<Hops> {
        let (start, end) = (*self.stands.get(&from)?, *self.stands.get(&to)?);
        let mut hops = Hops::new();
        if from == to {
            return Some(hops);
        }
        hops.push(start.up);
        let mut site = start.site;
        for trunk in self.route(start.site, end.site)? {
            let trunk = &self.trunks[trunk.0 as usize];
            let key = match trunk.hashing {
                Hashing::Hosts => u64::from(from.0.min(to.0)) << 32 | u64::from(from.0.max(to.0)),
                Hashing::Streams => stream,
            };
            // Both directions of a stream take the same link, as with a symmetric hash.
            let link = trunk.links[(Rng::new(key).draw() % trunk.links.len() as u64) as usize];
            let forward = trunk.sites.0 == site;
            hops.push(if forward { link.0 } else { link.1 });
            site = if forward { trunk.sites.1 } else { trunk.sites.0 };
        }
        hops.push(end.down);
        Some(hops)
    }

    /// Something of `len` bytes wants to pass a link at `now`, which may not be earlier than at the
    /// last call for this link.
    pub fn pass(&mut self, hop: Hop, now: Time, len: u64, rng: &mut Rng) -> Transit {
        self.directions[hop.0 as usize].pass(now, len, rng)
    }

    /// Bytes that find room in a link's queue.
    pub fn room(&self, hop: Hop, now: Time) -> u64 {
        self.directions[hop.0 as usize].room(now)
    }

    /// So many bytes found none.
    pub fn lose(&mut self, hop: Hop, len: u64) {
        self.directions[hop.0 as usize].lose(len);
    }

    /// As [`Fabric::pass`] for a host's own interface: who sends waits there rather than lose.
    pub fn leave(&mut self, hop: Hop, now: Time, len: u64, rng: &mut Rng) -> Transit {
        self.directions[hop.0 as usize].leave(now, len, rng)
    }

    /// How long something tiny that starts now would take; it takes no room. `None` when a link is
    /// cut.
    pub fn glance(&self, hops: &[Hop], now: Time) -> Option<Nanos> {
        hops.iter().try_fold(Nanos::ZERO, |sum, hop| {
            let took = self.directions[hop.0 as usize].glance(Time(now.0 + sum.0))?;
            Some(Nanos(sum.0 + took.0))
        })
    }

    /// Propagation along the links, without anything in the way.
    pub fn delay(&self, hops: &[Hop]) -> Nanos {
        Nanos(hops.iter().map(|hop| self.directions[hop.0 as usize].spec().delay.0).sum())
    }

    /// The smallest rate along the links; `None` if none has one.
    pub fn rate(&self, hops: &[Hop]) -> Option<Rate> {
        hops.iter().filter_map(|hop| self.directions[hop.0 as usize].spec().rate).min()
    }

    /// The smallest queue along the links, in bytes.
    pub fn queue(&self, hops: &[Hop]) -> u64 {
        let queues = hops.iter().map(|hop| self.directions[hop.0 as usize].spec().queue);
        queues.min().unwrap_or(u64::MAX)
    }

    /// The links of a way: there and back for each.
    pub fn links(&self, trunk: TrunkId) -> &[(Hop, Hop)] {
        &self.trunks[trunk.0 as usize].links
    }

    /// The links of a host's interface, up and down.
    pub fn interface(&self, host: HostId) -> Option<(Hop, Hop)> {
        self.stands.get(&host).map(|stand| (stand.up, stand.down))
    }

    /// How a link is now.
    pub fn spec(&self, hop: Hop) -> LinkSpec {
        *self.directions[hop.0 as usize].spec()
    }

    /// Changes one direction of a link; what is in it already leaves as it would have.
    pub fn change(&mut self, hop: Hop, spec: LinkSpec) {
        self.directions[hop.0 as usize].change(spec);
    }

    /// Cuts one direction of a link, or mends it; what is in it already is not lost.
    pub fn cut(&mut self, hop: Hop, cut: bool) {
        self.directions[hop.0 as usize].cut(cut);
    }

    /// What a link has carried, until `now`.
    pub fn used(&self, hop: Hop, now: Time) -> LinkUsage {
        self.directions[hop.0 as usize].used(now)
    }
}

#[cfg(test)]
mod tests;
