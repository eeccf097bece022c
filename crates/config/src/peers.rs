//! The `peer` section of a file: peers that an administrator configures [CFG-9].

use lustrine_document::{Entry, Key, Node, Problem, Reader, Section, word};
use lustrine_lnet::tunables::{Change, Tunable};
use lustrine_wire::nid::Nid;

use super::check::{Inconsistency, is_a_peers};
use super::draft::Draft;
use super::reading::{entries_with, number};
use super::{PEER_NIDS_MAX, PeerConfig};

const PEER_EXAMPLE: &str = "\"peer: [{primary nid: 10.0.0.2@tcp}]\"";
const NID_EXAMPLE: &str = "\"nid: 10.0.0.2@tcp\"";

pub(super) const PEER: Section = Section::new(
    "an entry of peer",
    &[
        Key::read("primary nid"),
        Key::read("Multi-Rail"),
        Key::read("peer ni").or("peer_ni"),
        Key::read("lock_prim"),
        Key::shown("peer state"),
    ],
    PEER_EXAMPLE,
);

pub(super) const PEER_NI: Section = Section::new(
    "a peer ni",
    &[
        Key::read("nid"),
        Key::shown("state"),
        Key::shown("udsp info"),
        Key::shown("max_ni_tx_credits"),
        Key::shown("available_tx_credits"),
        Key::shown("min_tx_credits"),
        Key::shown("tx_q_num_of_buf"),
        Key::shown("available_rtr_credits"),
        Key::shown("min_rtr_credits"),
        Key::shown("refcount"),
        Key::shown("statistics"),
        Key::shown("sent_stats"),
        Key::shown("received_stats"),
        Key::shown("dropped_stats"),
        Key::shown("health stats"),
    ],
    NID_EXAMPLE,
);

/// Yes or no.
const TRUTH: Tunable = Tunable {
    name: "Multi-Rail",
    lnet_name: "",
    unit: "0/1",
    default: 1,
    min: 0,
    max: 1,
    change: Change::Live,
    help: "Whether a peer's NIDs belong to one node.",
};

pub(super) fn read(reader: &mut Reader, draft: &mut Draft, node: &Node) {
    let mut all = 0;
    for item in reader.items(Some(node), "peer", PEER_EXAMPLE) {
        let Some(peer) = peer(reader, item).filter(|peer| !peer.nids[0].is_lo()) else {
            continue;
        };
        all += peer.nids.len();
        draft.config.peers.push(peer);
        draft.peers_at.push(item.at.clone());
        // Aliases can make many NIDs out of a small file.
        if all > PEER_NIDS_MAX {
            let what = Inconsistency::TooManyPeerNids { max: PEER_NIDS_MAX }.to_string();
            return reader.report(Problem::new(&item.at, what));
        }
    }
}

/// Reads a peer. A kernel that has pinged itself exports its loopback as a peer: every node has
/// that, so it is in no configuration, and [`read`] leaves it out.
fn peer(reader: &mut Reader, node: &Node) -> Option<PeerConfig> {
    let (mut primary, mut multi_rail, mut locked) = (None, true, false);
    let mut others: Vec<Nid> = Vec::new();
    for entry in entries_with(reader, node, &PEER, "primary nid") {
        match entry.key {
            "primary nid" => primary = reader.accept(nid(entry.value, entry.key)),
            "Multi-Rail" => multi_rail = truth(reader, &entry).unwrap_or(multi_rail),
            "lock_prim" => locked = truth(reader, &entry).unwrap_or(locked),
            _ => {
                for item in reader.items(Some(entry.value), "peer ni", PEER_EXAMPLE) {
                    others.extend(peer_ni(reader, item));
                }
            }
        }
    }
    let mut nids = vec![primary?];
    nids.extend(others.into_iter().filter(|nid| Some(*nid) != primary && !nid.is_lo()));
    Some(PeerConfig { nids, multi_rail, locked })
}

fn truth(reader: &mut Reader, entry: &Entry<'_>) -> Option<bool> {
    reader.accept(number(entry.value, entry.key, &TRUTH)).map(|value| value != 0)
}

fn peer_ni(reader: &mut Reader, node: &Node) -> Option<Nid> {
    let entries = entries_with(reader, node, &PEER_NI, "nid");
    reader.accept(nid(entries.first()?.value, "nid"))
}

/// Reads the NID of a peer, or that of the loopback.
fn nid(node: &Node, key: &str) -> Result<Nid, Problem> {
    let text = word(node, key, NID_EXAMPLE)?;
    text.parse::<Nid>()
        .ok()
        .filter(|nid| is_a_peers(nid) || nid.is_lo())
        .ok_or_else(|| Problem::value(&node.at, key, text, "a NID of another node", NID_EXAMPLE))
}

#[cfg(test)]
mod tests;
