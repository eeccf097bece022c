//! Which driver the interfaces of a network have.

use lustrine_wire::nid::NetKind;

/// A driver that a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetDriver {
    /// TCP, for networks with IP addresses.
    Socklnd,
}

/// The driver of each kind of network: a kind that is missing has none.
const DRIVERS: &[(NetKind, NetDriver)] = &[(NetKind::TCP, NetDriver::Socklnd)];

impl NetDriver {
    /// The driver of this kind of network; `None` if this node has none.
    pub fn of(kind: NetKind) -> Option<NetDriver> {
        DRIVERS.iter().find(|(of, _)| *of == kind).map(|(_, driver)| *driver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_one_driver_or_none() {
        assert_eq!(NetDriver::of(NetKind::TCP), Some(NetDriver::Socklnd));
        assert_eq!(NetDriver::of(NetKind::LO), None);
        for (index, (kind, _)) in DRIVERS.iter().enumerate() {
            assert!(DRIVERS[index + 1..].iter().all(|(other, _)| other != kind), "{kind:?} twice");
        }
    }
}
