//! The configuration of a driver.

use core::net::IpAddr;

use crate::tunables::Tunables;
use lustrine_lnet::time::Nanos;
use lustrine_lnet::topology::Identity;
use lustrine_wire::nid::Nid;

/// Which incoming connections are accepted [ACC-14]. A node that accepts none has no listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// From any source port; above 1023 the peer is renamed [USR-2].
    All,
    /// From source ports up to 1023 only.
    Secure,
}

/// One TCP interface; the index in [`Config::nis`] is its
/// [`NiIndex`](lustrine_lnet::lnd::NiIndex).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiConfig {
    /// Its NID.
    pub nid: Nid,
    /// Source address of connections dialled; `None` leaves it to the system.
    pub local_ip: Option<IpAddr>,
    /// TCP port dialled for CONTROL connections.
    pub port: u16,
    /// TCP port dialled for all other connections (capture `f14`).
    pub port_bulk: u16,
    /// BULK_IN and BULK_OUT connections per peer, each: 1 to 255, already resolved from the
    /// link's speed [SOCK-2].
    pub conns_per_peer: u16,
    /// Distinguishes this start of the interface from earlier ones; constant until it is removed.
    pub incarnation: u64,
}

/// The configuration of a driver.
#[derive(Clone, Debug)]
pub struct Config {
    /// The interfaces.
    pub nis: Vec<NiConfig>,
    /// Where this node dials from.
    pub identity: Identity,
    /// Which incoming connections it accepts.
    pub accept: Accept,
    /// The driver's own tunables.
    pub tunables: Tunables,
    /// The core's.
    pub lnet_tunables: lustrine_lnet::tunables::Tunables,
    /// The CPU partition this driver runs on, below `cpts`.
    pub cpt: u16,
    /// Number of CPU partitions, at least 1.
    pub cpts: u16,
    /// Seed of the jitter that keeps many nodes from redialling a server in step, and of the tables
    /// that peers fill; no peer may know it.
    pub seed: u64,
}

/// The tunables that are lengths of time, converted once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) sock_timeout: Nanos,
    pub(crate) transaction_timeout: Nanos,
    pub(crate) accept_timeout: Nanos,
    /// `None`: no keepalives.
    pub(crate) keepalive: Option<Nanos>,
    pub(crate) reconnect_min: Nanos,
    pub(crate) reconnect_max: Nanos,
    /// How often all connections are looked at: at least 4 times per time-out [SOCK-11].
    pub(crate) scan: Nanos,
}

/// Shortest time between two keepalives to one peer [FRM-13].
pub(crate) const KEEPALIVE_GAP: Nanos = Nanos::from_secs(10);

fn secs(value: i64) -> Nanos {
    Nanos::from_secs(value.max(0) as u64)
}

fn millis(value: i64) -> Nanos {
    Nanos::from_millis(value.max(0) as u64)
}

impl Timing {
    pub(crate) fn new(
        tunables: &Tunables,
        lnet_tunables: &lustrine_lnet::tunables::Tunables,
    ) -> Timing {
        let sock_timeout = secs(tunables.sock_timeout);
        let keepalive = (tunables.keepalive > 0).then(|| secs(tunables.keepalive));
        let shortest = keepalive.map_or(sock_timeout, |keepalive| keepalive.min(sock_timeout));
        let reconnect_min = millis(tunables.min_reconnectms);
        Timing {
            sock_timeout,
            transaction_timeout: secs(lnet_tunables.transaction_timeout),
            accept_timeout: secs(tunables.accept_timeout),
            keepalive,
            reconnect_min,
            reconnect_max: millis(tunables.max_reconnectms).max(reconnect_min),
            scan: Nanos(shortest.0 / 4),
        }
    }
}

/// Numbers that spread retries over time; splitmix64.
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Jitter {
        Jitter(seed)
    }

    /// A duration between 0 and `most`.
    pub(crate) fn up_to(&mut self, most: Nanos) -> Nanos {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Nanos((mixed ^ (mixed >> 31)) % most.0.saturating_add(1).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_timeout_is_checked_four_times() {
        let mut tunables = Tunables::default();
        let timing = Timing::new(&tunables, &Default::default());
        assert_eq!(timing.scan, Nanos::from_millis(7500));
        tunables.keepalive = 0;
        let timing = Timing::new(&tunables, &Default::default());
        assert_eq!((timing.keepalive, timing.scan), (None, Nanos::from_millis(12_500)));
    }

    #[test]
    fn jitter_stays_below_its_bound_and_varies() {
        let mut jitter = Jitter::new(7);
        let drawn: Vec<u64> = (0..100).map(|_| jitter.up_to(Nanos(1000)).0).collect();
        assert!(drawn.iter().all(|value| *value <= 1000));
        assert!(drawn.iter().any(|value| *value != drawn[0]));
        assert_eq!(jitter.up_to(Nanos(0)), Nanos(0));
    }
}
