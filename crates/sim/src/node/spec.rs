//! The specification of a node.

use core::net::{IpAddr, SocketAddr};

use lustrine_lnet::time::{Nanos, WallClock};
use lustrine_lnet::topology::{Identity, Ni, Topology, credits_per_cpt};
use lustrine_partition::PartitionConfig;
use lustrine_partition::tunables::Tunables;
use lustrine_selftest::ServicePolicy;
use lustrine_socklnd::{Accept, Config, NiConfig};
use lustrine_wire::nid::Nid;

/// Default limit of the memory that each partition of a node may have in use at once, in bytes.
const MEMORY: u64 = 1 << 30;

/// The specification of a node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Its NIDs; their addresses are those of its host.
    pub nids: Vec<Nid>,
    /// The ports from which it dials.
    pub identity: Identity,
    /// The peers that it accepts; `None` has no listener.
    pub accept: Option<Accept>,
    /// Its tunables.
    pub tunables: Tunables,
    /// Distinguishes this run of it from others.
    pub incarnation: u64,
    /// The wall clock's seconds when it starts.
    pub wall_seconds: u64,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Memory that each of its partitions may use, in bytes.
    pub memory: u64,
    /// CPU partitions, at least 1.
    pub cpts: u16,
    /// The largest random delay of timers and of messages from one partition to another.
    pub skew: Nanos,
}

impl NodeSpec {
    /// A node with the node identity and LNet's defaults.
    pub fn new(nid: Nid) -> NodeSpec {
        NodeSpec {
            nids: vec![nid],
            identity: Identity::Node,
            accept: Some(Accept::Secure),
            tunables: Tunables::default(),
            incarnation: 0x17a0_0000_0000_0000,
            wall_seconds: 0x6000_0000,
            seed: 1,
            memory: MEMORY,
            cpts: 1,
            skew: Nanos::ZERO,
        }
    }

    /// This specification with a tunable changed.
    ///
    /// # Panics
    /// When there is no such tunable or the value is out of range.
    #[must_use]
    pub fn with(mut self, tunable: &str, value: i64) -> NodeSpec {
        self.tunables.set(tunable, value).unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Addresses of its host.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let mut addresses: Vec<IpAddr> = Vec::new();
        for ip in self.nids.iter().filter_map(|nid| nid.ip()) {
            if !addresses.contains(&ip) {
                addresses.push(ip);
            }
        }
        addresses
    }

    fn ports(&self) -> (u16, u16) {
        let port = self.tunables.socklnd.accept_port as u16;
        match self.tunables.socklnd.accept_port_bulk {
            0 => (port, port),
            bulk => (port, bulk as u16),
        }
    }

    /// Where it listens.
    pub(crate) fn doors(&self) -> Vec<SocketAddr> {
        if self.accept.is_none() {
            return Vec::new();
        }
        let (port, port_bulk) = self.ports();
        let doors = |ip| [SocketAddr::new(ip, port), SocketAddr::new(ip, port_bulk)];
        self.addresses().into_iter().flat_map(doors).collect()
    }

    pub(crate) fn config(&self, cpt: u16) -> PartitionConfig {
        let cpts = self.cpts.max(1);
        let tunables = &self.tunables;
        let (port, port_bulk) = self.ports();
        let ni = |nid: &Nid| Ni {
            nid: *nid,
            credits: credits_per_cpt(
                tunables.lnet.credits as u32,
                tunables.lnet.peer_credits as u32,
                cpts,
            ),
            peer_credits: tunables.lnet.peer_credits as u32,
        };
        let driver_ni = |nid: &Nid| NiConfig {
            nid: *nid,
            local_ip: nid.ip(),
            port,
            port_bulk,
            conns_per_peer: tunables.socklnd.conns_per_peer.max(1) as u16,
            incarnation: self.incarnation,
        };
        PartitionConfig {
            topology: Topology {
                nis: self.nids.iter().map(ni).collect(),
                identity: self.identity,
                incarnation: self.incarnation,
                hash_seed: self.seed ^ u64::from(cpt),
                cpt,
                cpts,
                tunables: tunables.lnet.clone(),
            },
            driver: Config {
                nis: self.nids.iter().map(driver_ni).collect(),
                identity: self.identity,
                accept: self.accept.unwrap_or(Accept::Secure),
                tunables: tunables.socklnd.clone(),
                lnet_tunables: tunables.lnet.clone(),
                cpt,
                cpts,
                seed: self.seed ^ u64::from(cpt),
            },
            selftest_tunables: tunables.selftest.clone(),
            // The only untrusted peers in a simulation are those that a test creates.
            selftest: ServicePolicy::full(),
            wall: WallClock::from_secs(self.wall_seconds),
        }
    }
}
