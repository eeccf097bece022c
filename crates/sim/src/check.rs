//! What must hold when a world has become quiet. Each check returns the violations that it found.

use std::collections::BTreeMap;

use lustrine_lnet::shard::Shard;
use lustrine_lnet::time::{Nanos, Time};

use crate::memory::Usage;
use crate::network::HostId;
use crate::node::Node;

/// This many turns in a row may find nothing to do: another event may have met a deadline.
const IDLE_TURNS_MAX: u64 = 16;

/// How late a loop without work and without late timers may be.
pub(crate) const LATENESS: Nanos = Nanos::from_millis(1);

/// How often worlds check whether anything is [`overdue`].
pub(crate) const REVIEW: Nanos = Nanos::from_secs(1);

/// The violations of all checks below except [`rest`], [`leaks`] and [`overdue`].
pub fn leftovers<'a>(nodes: impl IntoIterator<Item = (HostId, &'a Node)>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (host, node) in nodes {
        let found = [credits(node), queues(node), probes(node), node.complaints().to_vec()];
        wrong.extend(found.into_iter().flatten().map(|what| format!("{host:?}: {what}")));
    }
    wrong
}

/// All credits have been returned, and no message exists.
pub fn credits(node: &Node) -> Vec<String> {
    node.partitions().flat_map(|partition| credits_of(partition.shard())).collect()
}

/// The part of [`credits`] for one core.
pub(crate) fn credits_of(shard: &Shard) -> Vec<String> {
    let mut wrong = Vec::new();
    let alive = shard.stats().msgs_alloc;
    if alive != 0 {
        wrong.push(format!("{alive} messages exist"));
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

/// Every requested probe has exactly one result.
pub fn probes(node: &Node) -> Vec<String> {
    node.tickets()
        .filter(|(_, results)| *results != 1)
        .map(|(ticket, results)| format!("{ticket:?} has {results} results"))
        .collect()
}

/// The node's loop slept when there was nothing to do.
pub fn rest(node: &Node) -> Vec<String> {
    let turns = node.idle_turns_max();
    let spins = turns > IDLE_TURNS_MAX;
    spins.then(|| format!("{turns} turns in a row without a reason")).into_iter().collect()
}

/// What has outlived its deadline at a node whose loops had the opportunity to check at `now`:
///
/// - a message that waits in the core, for its peer's discovery or for a credit, ends 250 ms after
///   its deadline at the latest, and so does waiting for an answer;
/// - one that waits in the driver for a connection ends at its deadline;
/// - one that is on a connection may take as long as the connection moves; a connection that stands
///   still, or does not acknowledge a payload sent without copying, ends after `sock_timeout` and
///   one look of the driver, of which there are four in that time;
/// - whatever the core gave to the driver to send or to store, the driver has.
///
/// What a lazy portal of the same node holds waits without limit until a buffer is posted.
///
/// Every simulated world runs this check once per second of its time, and panics if it fails.
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

/// The part of [`overdue`] for one core whose driver has this number of its messages.
pub(crate) fn overdue_in(shard: &Shard, operations: usize, now: Time) -> Vec<String> {
    let mut wrong = shard.overdue(now - LATENESS);
    let given = shard.in_driver();
    if given != operations {
        wrong.push(format!("the driver has {operations} of {given} messages it was given"));
    }
    wrong
}

/// Spans in use at every node, to be compared with a later state of the same load.
pub fn spans<'a>(nodes: impl IntoIterator<Item = (HostId, &'a Node)>) -> BTreeMap<HostId, Usage> {
    nodes.into_iter().map(|(host, node)| (host, node.usage())).collect()
}

/// Nodes that hold more spans than before.
pub fn leaks<'a>(
    nodes: impl IntoIterator<Item = (HostId, &'a Node)>,
    before: &BTreeMap<HostId, Usage>,
) -> Vec<String> {
    let now = spans(nodes);
    let grown = now.iter().filter_map(|(host, usage)| {
        let before = before.get(host)?;
        (usage.spans > before.spans).then(|| format!("{host:?}: {before:?}, now {usage:?}"))
    });
    grown.collect()
}
