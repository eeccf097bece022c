//! The credits of a kernel's LNet, as its files in debugfs list them.

use crate::observed::{NiView, NodeView, PeerCredits};

/// The longest lists that are taken.
const LISTED: usize = 1000;

impl NodeView {
    /// Reads `/sys/kernel/debug/lnet/nis` and `peers`. Lines that are not as those of 2.17.0 are
    /// left out. `None` without an interface.
    pub fn of_kernel(nis: &str, peers: &str) -> Option<NodeView> {
        let nis: Vec<NiView> = nis.lines().filter_map(ni).take(LISTED).collect();
        let peers = peers.lines().filter_map(peer).filter(|peer| peer.min < 0).take(LISTED);
        let identity = "kernel".to_owned();
        (!nis.is_empty()).then(|| NodeView { identity, nis, peers: peers.collect() })
    }
}

/// `nid status alive refs peer rtr max tx min`.
fn ni(line: &str) -> Option<NiView> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [nid, _, _, _, peer_credits, _, credits, _, min] = words[..] else { return None };
    Some(NiView {
        nid: nid.to_owned(),
        interface: None,
        conns_per_peer: None,
        peer_credits: peer_credits.parse().ok()?,
        credits: credits.parse().ok()?,
        credits_min: min.parse().ok()?,
    })
    // The loopback has no credits.
    .filter(|ni| ni.credits > 0)
}

/// `nid refs state last max rtr min tx min queue`; the first `min` is that of a router's credits.
fn peer(line: &str) -> Option<PeerCredits> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [nid, _, _, _, credits, _, _, available, min, _] = words[..] else { return None };
    Some(PeerCredits {
        nid: nid.to_owned(),
        credits: credits.parse().ok()?,
        available: available.parse().ok()?,
        min: min.parse().ok()?,
    })
}
