//! The `peer` section of a file: peers that an administrator configures [CFG-9].

use lustrine_lnet::tunables::{Change, Tunable};
use lustrine_wire::nid::Nid;
use lustrine_yaml::{Node, Position, clipped};

use super::check::Inconsistency;
use super::lnetctl::Draft;
use super::problem::{Failure, Problem};
use super::reading::{Key, Reading, Section, items, number, word};
use super::{PEER_NIDS_MAX, PeerConfig};

const PEER_EXAMPLE: &str = "\"peer: [{primary nid: 10.0.0.2@tcp}]\"";
const NID_EXAMPLE: &str = "\"nid: 10.0.0.2@tcp\"";

pub(super) const PEER: Section = Section {
    name: "an entry of peer",
    keys: &[&[
        Key::read("primary nid"),
        Key::read("Multi-Rail"),
        Key { also: Some("peer_ni"), ..Key::read("peer ni") },
        Key::read("lock_prim"),
        Key::shown("peer state"),
    ]],
    example: PEER_EXAMPLE,
};

pub(super) const PEER_NI: Section = Section {
    name: "a peer ni",
    keys: &[&[
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
    ]],
    example: NID_EXAMPLE,
};

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

pub(super) fn read(
    reading: &mut Reading<'_>,
    draft: &mut Draft,
    node: &Node,
) -> Result<(), Failure> {
    for item in items(node, "peer", PEER_EXAMPLE)? {
        let (peer, at) = peer(reading, item)?;
        draft.config.peers.push(peer);
        draft.peers_at.push(at);
        let all: usize = draft.config.peers.iter().map(|peer| peer.nids.len()).sum();
        if all > PEER_NIDS_MAX {
            let problem = Inconsistency::TooManyPeerNids { max: PEER_NIDS_MAX };
            return Err((item.at, problem.into()));
        }
    }
    Ok(())
}

fn peer(reading: &mut Reading<'_>, node: &Node) -> Result<(PeerConfig, Position), Failure> {
    let (mut primary, mut multi_rail, mut locked) = (None, true, false);
    let mut others: Vec<Nid> = Vec::new();
    for entry in reading.entries(node, &PEER)? {
        match entry.key {
            "primary nid" => primary = Some(nid(entry.value, entry.key)?),
            "Multi-Rail" => multi_rail = number(entry.value, entry.key, &TRUTH)? != 0,
            "lock_prim" => locked = number(entry.value, entry.key, &TRUTH)? != 0,
            _ => {
                for item in items(entry.value, "peer ni", PEER_EXAMPLE)? {
                    others.extend(peer_ni(reading, item)?);
                }
            }
        }
    }
    let Some(primary) = primary else {
        let (key, within) = ("primary nid", "an entry of peer");
        return Err((node.at, Problem::Missing { key, within, example: PEER_EXAMPLE }));
    };
    let mut nids = vec![primary];
    nids.extend(others.into_iter().filter(|nid| *nid != primary));
    Ok((PeerConfig { nids, multi_rail, locked }, node.at))
}

fn peer_ni(reading: &mut Reading<'_>, node: &Node) -> Result<Option<Nid>, Failure> {
    let mut found = None;
    for entry in reading.entries(node, &PEER_NI)? {
        found = Some(nid(entry.value, "nid")?);
    }
    match found {
        Some(nid) => Ok(Some(nid)),
        None => {
            let (key, within) = ("nid", "a peer ni");
            Err((node.at, Problem::Missing { key, within, example: NID_EXAMPLE }))
        }
    }
}

fn nid(node: &Node, key: &str) -> Result<Nid, Failure> {
    let text = word(node, key, NID_EXAMPLE)?;
    text.parse::<Nid>().ok().filter(is_a_peers).ok_or_else(|| {
        let (what, found) = (key.to_owned(), clipped(text));
        let allowed = "a NID of another node".to_owned();
        let example = NID_EXAMPLE.to_owned();
        (node.at, Problem::BadValue { what, found, allowed, example })
    })
}

/// Whether a NID can be that of another node.
pub(super) fn is_a_peers(nid: &Nid) -> bool {
    !nid.is_any() && !nid.is_lo()
}

#[cfg(test)]
mod tests;
