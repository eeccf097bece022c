//! The network between hosts: sites, and trunks between them, made of links with a rate, a delay
//! and a queue.
//!
//! A host is at a site and reaches it through its interface: a link up and a link down. Sites are
//! connected by trunks of one or more parallel links, among which a hash chooses. The path of a
//! message is the list of its [`Hop`]s; at each of them [`Fabric::pass`] says when the message
//! leaves the far end, or that it is lost. Both fidelities of the simulator use it: the stream
//! fidelity for bursts of segments, the message fidelity for whole messages.

mod link;
mod routes;

use std::collections::HashMap;

use foldhash::fast::FixedState;
use lustrine_lnet::time::{Nanos, Time};
use smallvec::SmallVec;

use crate::host_id::HostId;
use crate::rng::Rng;
use link::Direction;
pub use link::{Burst, LinkSpec, LinkUsage, Rate, Transit};

/// A place with hosts; within it only their interfaces limit traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(pub u32);

/// A connection of two sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrunkId(pub u32);

/// One direction of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop(pub u32);

/// The links of a path, first to last.
pub type Hops = SmallVec<[Hop; 4]>;

/// What chooses among the parallel links of a trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashing {
    /// The two hosts: all traffic between them takes one link.
    Hosts,
    /// The stream: different streams of two hosts may take different links.
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

/// Sites, trunks, and the places of hosts.
#[derive(Debug, Default)]
pub struct Fabric {
    directions: Vec<Direction>,
    sites: u32,
    trunks: Vec<Trunk>,
    stands: HashMap<HostId, Stand, FixedState>,
    /// Known paths from site to site; cleared when a trunk is added.
    routes: HashMap<(SiteId, SiteId), Option<Vec<TrunkId>>, FixedState>,
}

impl Fabric {
    /// Adds a site.
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

    /// Puts a host at a site, behind an interface with the same properties in both directions.
    ///
    /// # Panics
    /// When the host has a place already, or there is no such site.
    pub fn place(&mut self, host: HostId, site: SiteId, interface: LinkSpec) {
        assert!(site.0 < self.sites, "no such site");
        let (up, down) = (self.direction(interface), self.direction(interface));
        let before = self.stands.insert(host, Stand { site, up, down });
        assert!(before.is_none(), "{host:?} has a place already");
    }

    /// Whether a host has a place here.
    pub fn has(&self, host: HostId) -> bool {
        self.stands.contains_key(&host)
    }

    /// The links from one host to another for a stream; `None` when there is no path. The path
    /// within a host has no links.
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

    /// Passes data to a link at `now`, which may not be earlier than at the last call for this
    /// link.
    pub fn pass(&mut self, hop: Hop, now: Time, burst: Burst, rng: &mut Rng) -> Transit {
        self.directions[hop.0 as usize].pass(now, burst, rng)
    }

    /// How many of so many packets a link loses by chance.
    pub fn losses(&self, hop: Hop, packets: u64, rng: &mut Rng) -> u64 {
        self.directions[hop.0 as usize].losses(packets, rng)
    }

    /// Bytes for which a link's queue has room.
    pub fn room(&self, hop: Hop, now: Time) -> u64 {
        self.directions[hop.0 as usize].room(now)
    }

    /// Records that this number of bytes found no room.
    pub fn lose(&mut self, hop: Hop, len: u64) {
        self.directions[hop.0 as usize].lose(len);
    }

    /// As [`Fabric::pass`] for a host's own interface: the sender waits there instead of losing
    /// data.
    pub fn leave(&mut self, hop: Hop, now: Time, burst: Burst, rng: &mut Rng) -> Transit {
        self.directions[hop.0 as usize].leave(now, burst, rng)
    }

    /// When everything that was passed to a link has been sent. It arrives later, by the delay.
    pub fn free_at(&self, hop: Hop) -> Time {
        self.directions[hop.0 as usize].free_at()
    }

    /// The time that a tiny packet would need if it started now; it takes no room. `None` when a
    /// link is cut.
    pub fn glance(&self, hops: &[Hop], now: Time) -> Option<Nanos> {
        hops.iter().try_fold(Nanos::ZERO, |sum, hop| {
            let took = self.directions[hop.0 as usize].glance(Time(now.0 + sum.0))?;
            Some(Nanos(sum.0 + took.0))
        })
    }

    /// Propagation delay along the links, without any queues.
    pub fn delay(&self, hops: &[Hop]) -> Nanos {
        Nanos(hops.iter().map(|hop| self.directions[hop.0 as usize].spec().delay.0).sum())
    }

    /// The smallest rate along the links; `None` if none of them has a limit.
    pub fn rate(&self, hops: &[Hop]) -> Option<Rate> {
        hops.iter().filter_map(|hop| self.directions[hop.0 as usize].spec().rate).min()
    }

    /// The smallest queue along the links, in bytes.
    pub fn queue(&self, hops: &[Hop]) -> u64 {
        let queues = hops.iter().map(|hop| self.directions[hop.0 as usize].spec().queue);
        queues.min().unwrap_or(u64::MAX)
    }

    /// The links of a trunk: both directions of each.
    pub fn links(&self, trunk: TrunkId) -> &[(Hop, Hop)] {
        &self.trunks[trunk.0 as usize].links
    }

    /// The links of a host's interface, up and down.
    pub fn interface(&self, host: HostId) -> Option<(Hop, Hop)> {
        self.stands.get(&host).map(|stand| (stand.up, stand.down))
    }

    /// The current properties of a link.
    pub fn spec(&self, hop: Hop) -> LinkSpec {
        *self.directions[hop.0 as usize].spec()
    }

    /// Changes one direction of a link. Data that is in it already arrives as it would have before;
    /// later data finds the bytes of its queue, which leave at the new rate.
    pub fn change(&mut self, hop: Hop, now: Time, spec: LinkSpec) {
        self.directions[hop.0 as usize].change(now, spec);
    }

    /// Cuts one direction of a link, or restores it; data that is in it already is not lost.
    pub fn cut(&mut self, hop: Hop, cut: bool) {
        self.directions[hop.0 as usize].cut(cut);
    }

    /// The use of a link until `now`.
    pub fn used(&self, hop: Hop, now: Time) -> LinkUsage {
        self.directions[hop.0 as usize].used(now)
    }
}

#[cfg(test)]
mod tests;
