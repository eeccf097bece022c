//! Who answers: duplicated NIDs, interfaces that are down, clocks, releases.

use std::collections::BTreeSet;

use crate::code::Code;
use crate::finding::{Finding, Words};
use crate::observed::{Observed, PeerView};

/// Clocks that differ by less are taken as equal, in nanoseconds.
const SKEW: u64 = 1_000_000_000;

pub(crate) fn findings(observed: &Observed, peer: &PeerView) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(duplicated(peer));
    found.extend(down(peer));
    found.extend(clock(peer));
    found.extend(duplicated_here(observed, peer));
    found
}

/// A node that restarts has a new incarnation and never again the old one. Two that take turns come
/// back; so do three different ones in a few seconds.
fn duplicated(peer: &PeerView) -> Option<Finding> {
    let seen: Vec<u64> = peer.hellos().map(|(_, incarnation, _)| incarnation).collect();
    let distinct: BTreeSet<u64> = seen.iter().copied().collect();
    let comes_back =
        (2..seen.len()).any(|at| seen[at] != seen[at - 1] && seen[..at].contains(&seen[at]));
    if !(comes_back || distinct.len() > 2) {
        return None;
    }
    let list: Vec<String> = seen.iter().map(|one| format!("{one:#x}")).collect();
    Some(Finding::new(
        Code::NidDuplicated,
        Some(&peer.nid),
        Words {
            what: format!("{} nodes answer for {}", distinct.len(), peer.nid),
            evidence: format!("incarnations of connections in turn: {}", list.join(", ")),
            consequence: "each connection of one makes the peers close those of the other; \
                          messages are lost"
                .to_owned(),
            remedy: "find the second host with this address (`ip neigh`, `arping -D`), or the \
                     load balancer in front of the NID"
                .to_owned(),
        },
    ))
}

/// The peer's NID is one of this host's own.
fn duplicated_here(observed: &Observed, peer: &PeerView) -> Option<Finding> {
    let node = observed.node.as_ref()?;
    let route = peer.route.as_ref()?;
    // A node of this host may of course be examined from here.
    let own = node.nis.iter().any(|ni| ni.nid == peer.nid);
    let local = observed.host.interfaces.iter().any(|one| one.addresses.contains(&peer.address));
    (own && !local).then(|| {
        Finding::new(
            Code::NidDuplicated,
            Some(&peer.nid),
            Words {
                what: format!("the running node of this host calls itself {}, too", peer.nid),
                evidence: format!(
                    "{} is not an address of this host: packets leave from {}",
                    peer.address, route.local
                ),
                consequence: "peers confuse the two".to_owned(),
                remedy: "restart the node: its address has moved to another host".to_owned(),
            },
        )
    })
}

fn down(peer: &PeerView) -> Option<Finding> {
    let down: Vec<&str> =
        peer.nis.iter().filter(|(_, up)| !up).map(|(nid, _)| nid.as_str()).collect();
    if down.is_empty() {
        return None;
    }
    Some(Finding::new(
        Code::PeerNiDown,
        Some(&peer.nid),
        Words {
            what: format!("the peer announces {} as down", down.join(", ")),
            evidence: format!(
                "interfaces in its ping information: {}; of them down: {}",
                peer.nis.len(),
                down.len()
            ),
            consequence: "messages use its other interfaces, or none".to_owned(),
            remedy: "see `lnetctl net show` there; the link may be down".to_owned(),
        },
    ))
}

fn clock(peer: &PeerView) -> Option<Finding> {
    let mut seen: Vec<(u64, String)> = Vec::new();
    if let Some((difference, error)) = peer.icmp.as_ref().and_then(|icmp| icmp.clock_ms) {
        let least = difference.unsigned_abs().saturating_sub(error);
        let side = if difference < 0 { "behind" } else { "ahead" };
        let text = format!(
            "its answer to an ICMP timestamp is {} ms {side} (+- {error} ms)",
            difference.unsigned_abs()
        );
        seen.push((least.saturating_mul(1_000_000), text));
    }
    if let Some(remote) = &peer.remote {
        let [before, after] = remote.queried_ns;
        let there = remote.host.wall_ns;
        let least = before.saturating_sub(there).max(there.saturating_sub(after));
        seen.push((least, format!("its own end says so: at least {} ms", least / 1_000_000)));
    }
    // An incarnation is the time at which the peer's LNet was started, by the peer's clock.
    for (_, incarnation, arrived) in peer.hellos() {
        let ahead = incarnation.saturating_sub(arrived);
        let text = format!(
            "its LNet started {} ms in this host's future, by its incarnation",
            ahead / 1_000_000
        );
        // Anything beyond a century is no time.
        if ahead < 3_155_760_000_000_000_000 {
            seen.push((ahead, text));
        }
    }
    let (least, evidence) = seen.into_iter().max_by_key(|(least, _)| *least)?;
    (least >= SKEW).then(|| {
        Finding::new(
            Code::ClockSkew,
            Some(&peer.nid),
            Words {
                what: format!("the peer's clock differs by {} ms or more", least / 1_000_000),
                evidence,
                consequence: "times of files and of logs of the two hosts cannot be compared; \
                              make and backups go wrong"
                    .to_owned(),
                remedy: "run chrony or ntpd on both hosts".to_owned(),
            },
        )
    })
}
