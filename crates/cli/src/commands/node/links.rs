//! Changes of the machine's interfaces, for the log of a node.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lustrine_node::NodeHandle;
use lustrine_wire::nid::Nid;

/// How often the interfaces are looked at.
const INTERVAL: Duration = Duration::from_secs(5);

/// The interfaces of a node that cannot be used.
pub(super) struct Links {
    due: Instant,
    /// The reason for each of them.
    down: BTreeMap<Nid, String>,
}

impl Links {
    pub(super) fn new() -> Links {
        Links { due: Instant::now(), down: BTreeMap::new() }
    }

    /// Logs interfaces that have gone down, and those that are up again.
    pub(super) fn watch(&mut self, now: Instant, node: &NodeHandle) {
        if now < self.due {
            return;
        }
        self.due = now + INTERVAL;
        let mut down = BTreeMap::new();
        for (nid, reason) in node.interface_states() {
            match (self.down.get(&nid), &reason) {
                (None, None) => {}
                (Some(_), None) => tracing::info!(%nid, "interface is up again"),
                (Some(before), Some(reason)) if before == reason => {}
                (_, Some(reason)) => tracing::warn!(%nid, reason, "interface is down"),
            }
            down.extend(reason.map(|reason| (nid, reason)));
        }
        self.down = down;
    }
}
