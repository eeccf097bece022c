//! What is reported to the administrator: which addresses were refused or evicted, and how often;
//! and with whom the latest events of the counters were.

use core::net::IpAddr;

use lustrine_lnet::driver_report::{DriverOffender, OtherEnd};

use crate::metrics::log_of;

/// The number of addresses remembered between two calls of
/// [`Socklnd::take_notices`](crate::Socklnd::take_notices); further ones are only counted.
const ADDRESSES_MAX: usize = 8;

/// The number of peers and addresses remembered for each line of the log about counters.
const OFFENDERS_MAX: usize = 4;

/// Why a peer, or a stranger who is none yet, was refused or lost its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// All places for handshakes were taken, and this address held most of them.
    HandshakeEvicted,
    /// All places for connections were taken, and this address held most of the userland ones.
    UserlandEvicted,
    /// All places for connections were taken, and this address held most of those of nodes.
    NodeEvicted,
    /// All places were taken, and no other connection could make room.
    Full,
    /// It claimed to be a peer that is connected from another address and alive.
    ClaimRefused,
    /// It claimed a NID that is not its own address, and `strict_source` is on.
    ForeignAddress,
}

impl Incident {
    /// What the log says of it.
    pub fn text(self) -> &'static str {
        match self {
            Incident::HandshakeEvicted => {
                "handshakes dropped: handshakes_max is reached, and this address holds most"
            }
            Incident::UserlandEvicted => {
                "userland connections closed: connections_max is reached, and this address holds \
                 most"
            }
            Incident::NodeEvicted => {
                "connections closed: connections_max is reached, they were idle or not from the \
                 address in their NID, and this address holds most"
            }
            Incident::Full => "connections refused: connections_max is reached",
            Incident::ClaimRefused => {
                "HELLOs refused: they claim the NID of a peer that is connected from another \
                 address and alive"
            }
            Incident::ForeignAddress => {
                "HELLOs refused: their NID is not the address they come from, and strict_source \
                 is on"
            }
        }
    }
}

/// How often something happened to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What happened.
    pub incident: Incident,
    /// The address at the other end; `None` sums up the addresses that were too many to remember.
    pub address: Option<IpAddr>,
    /// How often since the last report.
    pub count: u64,
}

/// Notices that were not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Notices(Vec<Notice>);

impl Notices {
    pub(crate) fn add(&mut self, incident: Incident, address: IpAddr) {
        let room = self.0.len() < ADDRESSES_MAX;
        let mut same = self.0.iter_mut().filter(|notice| notice.incident == incident);
        let found = same.find(|notice| notice.address == Some(address));
        match found {
            Some(notice) => notice.count += 1,
            None if room => self.0.push(Notice { incident, address: Some(address), count: 1 }),
            None => self.add_other(incident),
        }
    }

    fn add_other(&mut self, incident: Incident) {
        let others = |notice: &&mut Notice| notice.incident == incident && notice.address.is_none();
        match self.0.iter_mut().find(others) {
            Some(notice) => notice.count += 1,
            None => self.0.push(Notice { incident, address: None, count: 1 }),
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Notice> {
        core::mem::take(&mut self.0)
    }
}

/// The latest peers and addresses of each line of the log about counters, that were not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Offenders(Vec<DriverOffender>);

impl Offenders {
    /// The counter of this name has grown because of `who`. An offender who is remembered already
    /// becomes the latest one, so that one address cannot fill the line.
    pub(crate) fn add(&mut self, counter: &'static str, who: OtherEnd) {
        let Some(what) = log_of(counter) else { return };
        let offender = DriverOffender { what, who };
        self.0.retain(|one| *one != offender);
        if self.0.iter().filter(|one| one.what == what).count() == OFFENDERS_MAX {
            let oldest = self.0.iter().position(|one| one.what == what);
            self.0.remove(oldest.expect("some were counted"));
        }
        self.0.push(offender);
    }

    /// Removes and returns all, for each line the latest one last.
    pub(crate) fn take(&mut self) -> Vec<DriverOffender> {
        core::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    #[test]
    fn addresses_beyond_the_first_few_are_summed_up() {
        let mut notices = Notices::default();
        for round in 0..3 {
            for last in 0..=255 {
                notices.add(Incident::Full, IpAddr::V4(Ipv4Addr::new(10, 0, round, last)));
                notices.add(Incident::ClaimRefused, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
            }
        }
        let taken = notices.take();
        assert!(taken.len() <= ADDRESSES_MAX + 2, "{taken:?}");
        let sum = |incident| {
            taken.iter().filter(|one| one.incident == incident).map(|one| one.count).sum::<u64>()
        };
        assert_eq!((sum(Incident::Full), sum(Incident::ClaimRefused)), (768, 768));
        let claims: Vec<_> =
            taken.iter().filter(|one| one.incident == Incident::ClaimRefused).collect();
        assert_eq!(claims.len(), 1, "{claims:?}");
        assert!(notices.take().is_empty());
    }

    #[test]
    fn the_latest_few_offenders_of_each_line_are_remembered_once() {
        let mut offenders = Offenders::default();
        let address = |last| OtherEnd::Address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        for last in [1, 1, 2, 3, 4, 5, 3] {
            offenders.add("bad_source_port", address(last));
            offenders.add("broken", address(9));
            offenders.add("messages_sent", address(8));
        }
        let taken = offenders.take();
        let of = |line| {
            let of_line = taken.iter().filter(move |one| one.what == line);
            of_line.map(|one| one.who).collect::<Vec<_>>()
        };
        assert_eq!(of("connections refused"), [2, 4, 5, 3].map(address));
        assert_eq!(of("peers lost"), [address(9)]);
        assert_eq!(taken.len(), 5, "what is not logged is not remembered: {taken:?}");
        assert!(offenders.take().is_empty());
    }
}
