//! Rogue peers over real sockets: each raises its counter, hurts nobody else, and leaves nothing
//! behind. The counters are those of docs/rogue-peers.md, where the simulator's rogues are.

mod crowd;
mod floods;
mod handshakes;
mod line;
mod messages;
mod scene;
mod silence;
mod strangers;
mod words;

use scene::{Rogue, Scene};

use lustrine_testing::{Need, not_run};

use crate::common::may_be_node;

/// A rogue peer.
struct Row {
    /// What it is.
    name: &'static str,
    /// What the node counts it as, at least so often.
    counts: &'static [(&'static str, u64)],
    /// Whether the node must believe its name, as it does to a privileged port.
    believed: bool,
    /// What it does.
    act: fn(&Scene, &mut Rogue),
}

const fn anybody(
    name: &'static str,
    counts: &'static [(&'static str, u64)],
    act: fn(&Scene, &mut Rogue),
) -> Row {
    Row { name, counts, believed: false, act }
}

const fn believed(
    name: &'static str,
    counts: &'static [(&'static str, u64)],
    act: fn(&Scene, &mut Rogue),
) -> Row {
    Row { name, counts, believed: true, act }
}

/// Sets rogues on one node, one after the other.
fn face(scene: Scene, rows: &[Row]) {
    for row in rows {
        if row.believed && !may_be_node() {
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
