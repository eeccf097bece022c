//! The choice of the interface that a message leaves by: one pure function ([CORE-16]).
//!
//! The destination NID is always the one that was given. Multi-rail, health and routes will add
//! fields to [`Key`], not cases.

use core::cmp::Reverse;

use lustrine_wire::nid::Nid;

use crate::lnd::NiIndex;

/// A local interface, as the choice sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) ni: NiIndex,
    pub(crate) nid: Nid,
    /// Free credits, negative when messages wait.
    pub(crate) credits: i64,
    /// Number of times that it was chosen.
    pub(crate) sequence: u64,
}

/// The greatest key wins; the fields are compared in this order.
type Key = (i64, Reverse<u64>, Reverse<NiIndex>);

/// Why there is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// No local interface is on that network; there are no routes.
    NoLocalNi,
    /// The source NID that was given is not local, or is on another network.
    BadSource,
}

/// Chooses the local interface towards `target`; `source` fixes it when given.
pub(crate) fn choose(
    candidates: impl Iterator<Item = Candidate>,
    source: Option<Nid>,
    target: &Nid,
) -> Result<NiIndex, Unreachable> {
    let on_net = candidates.filter(|candidate| candidate.nid.net() == target.net());
    match source {
        Some(source) => on_net
            .into_iter()
            .find(|candidate| candidate.nid == source)
            .map(|candidate| candidate.ni)
            .ok_or(Unreachable::BadSource),
        None => on_net
            .max_by_key(|candidate| -> Key {
                (candidate.credits, Reverse(candidate.sequence), Reverse(candidate.ni))
            })
            .map(|candidate| candidate.ni)
            .ok_or(Unreachable::NoLocalNi),
    }
}

#[cfg(test)]
mod tests {
    use lustrine_wire::nid::{Net, NetKind};

    use super::*;

    fn tcp(number: u16) -> Net {
        Net { kind: NetKind::TCP, number }
    }

    fn candidate(ni: u16, net: u16, credits: i64, sequence: u64) -> Candidate {
        Candidate {
            ni: NiIndex(ni),
            nid: Nid::new4(tcp(net), 10 + u32::from(ni)),
            credits,
            sequence,
        }
    }

    #[test]
    fn credits_then_least_used_then_first() {
        let target = Nid::new4(tcp(0), 99);
        let list = [candidate(0, 0, 5, 9), candidate(1, 0, 7, 3), candidate(2, 0, 7, 2)];
        assert_eq!(choose(list.into_iter(), None, &target), Ok(NiIndex(2)));
        let even = [candidate(0, 0, 7, 2), candidate(1, 0, 7, 2)];
        assert_eq!(choose(even.into_iter(), None, &target), Ok(NiIndex(0)));
    }

    #[test]
    fn only_the_targets_net_and_the_source_asked_for() {
        let target = Nid::new4(tcp(1), 99);
        let list = [candidate(0, 0, 5, 0), candidate(1, 1, 0, 0)];
        assert_eq!(choose(list.into_iter(), None, &target), Ok(NiIndex(1)));
        assert_eq!(
            choose(list.into_iter(), Some(list[0].nid), &target),
            Err(Unreachable::BadSource)
        );
        assert_eq!(choose(list.into_iter(), Some(list[1].nid), &target), Ok(NiIndex(1)));
        let other = Nid::new4(tcp(7), 99);
        assert_eq!(choose(list.into_iter(), None, &other), Err(Unreachable::NoLocalNi));
    }
}
