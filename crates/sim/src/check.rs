//! What must hold when a world has become quiet. Each check returns what it found wrong.

use std::collections::BTreeMap;

use lustrine_lnet::shard::Shard;
use lustrine_lnet::time::{Nanos, Time};

use crate::memory::Usage;
use crate::network::HostId;
use crate::node::Node;
use crate::stream::StreamSim;

/// So many turns in a row may find nothing to do: a deadline may have been met by something else.
const IDLE_TURNS_MAX: u64 = 16;

/// How late a loop that is neither at work nor has late timers may be at most.
pub(crate) const LATENESS: Nanos = Nanos::from_millis(1);

/// How often worlds look whether anything is [`overdue`].
pub(crate) const REVIEW: Nanos = Nanos::from_secs(1);

/// Everything below but [`rest`], [`leaks`] and [`overdue`], at once.
///
/// # Panics
/// When something is wrong, with all of it.
pub fn assert_idle(world: &StreamSim) {
    let wrong = leftovers(world);
    assert!(wrong.is_empty(), "not as it should be:\n{}", wrong.join("\n"));
}

/// What [`assert_idle`] would say.
pub fn leftovers(world: &StreamSim) -> Vec<String> {
    let mut wrong = Vec::new();
    for (host, node) in world.nodes() {
        let found = [credits(node), queues(node), probes(node), node.complaints().to_vec()];
        wrong.extend(found.into_iter().flatten().map(|what| format!("{host:?}: {what}")));
    }
    wrong
}

/// Every credit is back where it belongs, and no message is alive.
pub fn credits(node: &Node) -> Vec<String> {
    node.partitions().flat_map(|partition| credits_of(partition.shard())).collect()
}

/// What [`credits`] says of a core.
pub(crate) fn credits_of(shard: &Shard) -> Vec<String> {
    let mut wrong = Vec::new();
    let alive = shard.stats().msgs_alloc;
    if alive != 0 {
        wrong.push(format!("{alive} messages are alive"));
    }
    for index in 0..shard.topology().nis.places().len() {
        let ni = shard.ni_info(lustrine_lnet::lnd::NiIndex(index as u16));
        if ni.credits_available != i64::from(ni.credits) {
            wrong.push(format!("{}: {} of {} credits", ni.nid, ni.credits_available, ni.credits));
        }
    }
    for peer in shard.peers() {
        if peer.credits_available != i64::from(peer.credits) {
            let (have, all) = (peer.credits_available, peer.credits);
            wrong.push(format!("peer {}: {have} of {all} credits", peer.nid));
        }
    }
    wrong
}

/// Nothing waits to be sent, acknowledged or worked on.
pub fn queues(node: &Node) -> Vec<String> {
    let mut wrong = Vec::new();
    if node.partitions().any(|partition| partition.has_work()) {
        wrong.push("there is work to do".to_owned());
    }
    for peer in node.partitions().flat_map(|partition| partition.driver().peers()) {
        if (peer.tx_queued, peer.waiting, peer.zero_copy) != (0, 0, 0) {
            wrong.push(format!("{peer:?}"));
        }
    }
    wrong
}

/// Every probe that was asked for has exactly one result.
pub fn probes(node: &Node) -> Vec<String> {
    node.tickets()
        .filter(|(_, results)| *results != 1)
        .map(|(ticket, results)| format!("{ticket:?} has {results} results"))
        .collect()
}

/// The node's loop rested when there was nothing to do.
pub fn rest(node: &Node) -> Vec<String> {
    let turns = node.idle_turns_max();
    let spins = turns > IDLE_TURNS_MAX;
    spins.then(|| format!("{turns} turns in a row without a reason")).into_iter().collect()
}

/// What has outlived its deadline at a node whose loops had the chance to look at `now`:
///
/// - a message that waits in the core, for its peer's discovery or for a credit, ends 250 ms after
///   its deadline at the latest, and so does waiting for an answer;
/// - one that waits in the driver for a connection ends at its deadline;
/// - one that is on a connection may take as long as the connection moves; a connection that stands
///   still, or does not acknowledge a payload sent without copying, ends after `sock_timeout` and
///   one look of the driver, of which there are four in that time;
/// - whatever the core gave to the driver to send or to store, the driver has.
///
/// What a lazy portal of the same node holds waits for whoever posts a buffer, without end.
///
/// Every simulated world looks once in a second of its time, always, and panics if there is any.
pub fn overdue(node: &Node, now: Time) -> Vec<String> {
    let now = now - node.spec().skew;
    let found = node.partitions().flat_map(|partition| {
        let driver = partition.driver();
        let mut wrong = driver.overdue(now - LATENESS);
        wrong.extend(overdue_in(partition.shard(), driver.operations(), now));
        wrong
    });
    found.collect()
}

/// What [`overdue`] says of a core whose driver has so many of its messages.
pub(crate) fn overdue_in(shard: &Shard, operations: usize, now: Time) -> Vec<String> {
    let mut wrong = shard.overdue(now - LATENESS);
    let given = shard.in_driver();
    if given != operations {
        wrong.push(format!("the driver has {operations} of {given} messages it was given"));
    }
    wrong
}

/// Spans alive at every node, to be compared with a later state of the same load.
pub fn spans(world: &StreamSim) -> BTreeMap<HostId, Usage> {
    world.nodes().map(|(host, node)| (host, node.usage())).collect()
}

/// Nodes that hold more spans than they did before.
pub fn leaks(world: &StreamSim, before: &BTreeMap<HostId, Usage>) -> Vec<String> {
    let now = spans(world);
    let grown = now.iter().filter_map(|(host, usage)| {
        let before = before.get(host)?;
        (usage.spans > before.spans).then(|| format!("{host:?}: {before:?}, now {usage:?}"))
    });
    grown.collect()
}
