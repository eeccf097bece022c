//! Rogue peers over real sockets: each raises its counter, disturbs no other peer, and leaves
//! nothing behind. The counters are those of docs/rogue-peers.md, which describes the simulator's
//! rogues.

mod crowd;
mod floods;
mod handshakes;
mod line;
mod messages;
mod scene;
mod silence;
mod strangers;
mod trickles;
mod words;

use scene::{Rogue, Scene};

use lustrine_testing::{Need, not_run};

use crate::common::may_be_node;

/// A rogue peer.
struct Row {
    /// Its description.
    name: &'static str,
    /// The counters that it raises, with the least increase.
    counts: &'static [(&'static str, u64)],
    /// Whether the node must accept its NID, which it does for privileged ports.
    privileged: bool,
    /// Its behaviour.
    act: fn(&Scene, &mut Rogue),
}

const fn any_port(
    name: &'static str,
    counts: &'static [(&'static str, u64)],
    act: fn(&Scene, &mut Rogue),
) -> Row {
    Row { name, counts, privileged: false, act }
}

const fn privileged(
    name: &'static str,
    counts: &'static [(&'static str, u64)],
    act: fn(&Scene, &mut Rogue),
) -> Row {
    Row { name, counts, privileged: true, act }
}

/// Attacks one node with rogues, one after the other.
fn face(scene: Scene, rows: &[Row]) {
    for row in rows {
        if row.privileged && !may_be_node() {
            not_run(Need::PrivilegedPorts, row.name);
            continue;
        }
        let before: Vec<u64> = row.counts.iter().map(|(name, _)| scene.count(name)).collect();
        (row.act)(&scene, &mut scene.rogue());
        for ((name, by), before) in row.counts.iter().zip(before) {
            scene.wait_for(row.name, name, before, *by);
        }
        scene.check(row.name);
    }
    scene.end();
}
