//! Collects the values of a page.

use std::collections::{BTreeMap, HashMap};

use lustrine_lnet::driver_report::DriverMetric;
use lustrine_lnet::latency::{Latencies, Operation};
use lustrine_lnet::shard::{PeerInfo, PeerState};
use lustrine_lnet::stats::{ByType, Stats};
use lustrine_metrics::{Metric, NIS_MAX, PEERS_MAX, Page};
use lustrine_selftest::RpcTotals;
use lustrine_sys::Clock;
use lustrine_wire::nid::Nid;

use crate::call::identity_name;
use crate::error::CallError;
use crate::handle::NodeHandle;
use crate::snapshot::{LoopSnapshot, Since, SnapshotPeers, SnapshotQuery, Window};

/// The server's own values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerStats {
    /// When it began, as Unix time in seconds.
    pub(super) started: f64,
    /// Number of callers that were answered.
    pub(super) answered: u64,
    /// Number of callers that were not.
    pub(super) dropped: u64,
}

/// Collects all values from the node.
///
/// # Errors
/// When an event loop does not answer.
pub(super) fn collect(node: &NodeHandle, own: ServerStats) -> Result<Page, CallError> {
    let peers = SnapshotPeers::Busiest(PEERS_MAX);
    let snapshots =
        node.snapshots(SnapshotQuery { nis_max: NIS_MAX, peers, since: Since::Start })?;
    let mut page = Page::default();
    of_process(&mut page, node, &snapshots, own);
    of_nis(&mut page, node, &snapshots);
    of_messages(&mut page, &snapshots);
    of_driver(&mut page, &snapshots);
    of_selftest(&mut page, &snapshots);
    of_peers(&mut page, &snapshots);
    Ok(page)
}

fn of_process(page: &mut Page, node: &NodeHandle, snapshots: &[LoopSnapshot], own: ServerStats) {
    let identity = identity_name(node.info().identity);
    page.gauge(Metric::BuildInfo, &[env!("CARGO_PKG_VERSION"), identity], 1);
    page.gauge_f64(Metric::StartTime, own.started);
    page.seconds(Metric::CpuSeconds, Clock::ProcessCpu.now() as f64 / 1e9);
    if let Some(bytes) = lustrine_sys::process::resident_memory() {
        page.gauge(Metric::ResidentMemory, &[], signed(bytes));
    }
    let mapped = snapshots.iter().map(|snapshot| snapshot.report.memory_mapped).sum();
    page.gauge(Metric::MappedMemory, &[], signed(mapped));
    page.gauge(Metric::Partitions, &[], snapshots.len() as i64);
    page.count(Metric::Callers, &["answered"], own.answered);
    page.count(Metric::Callers, &["dropped"], own.dropped);
}

fn of_nis(page: &mut Page, node: &NodeHandle, snapshots: &[LoopSnapshot]) {
    let nids = &node.info().nids;
    page.gauge(Metric::Nis, &[], nids.len() as i64);
    page.gauge(Metric::NisLeftOut, &[], nids.len().saturating_sub(NIS_MAX) as i64);
    for own in nids.iter().take(NIS_MAX) {
        let nid = own.to_string();
        let all = || snapshots.iter().flat_map(|snapshot| &snapshot.report.nis);
        let nis = || all().filter(|ni| ni.nid == *own);
        let sum = |value: fn(&lustrine_lnet::shard::NiInfo) -> i64| nis().map(value).sum::<i64>();
        page.gauge(Metric::NiCredits, &[&nid], sum(|ni| i64::from(ni.credits)));
        page.gauge(Metric::NiCreditsFree, &[&nid], sum(|ni| ni.credits_available.max(0)));
        page.gauge(Metric::NiCreditsMin, &[&nid], sum(|ni| ni.credits_low));
        page.gauge(Metric::NiWaiting, &[&nid], sum(|ni| (-ni.credits_available).max(0)));
        let count = |value: fn(&lustrine_lnet::shard::NiInfo) -> u64| nis().map(value).sum::<u64>();
        page.count(Metric::NiMessages, &[&nid, "sent"], count(|ni| ni.total.sent));
        page.count(Metric::NiMessages, &[&nid, "received"], count(|ni| ni.total.received));
        page.count(Metric::NiMessages, &[&nid, "dropped"], count(|ni| ni.total.dropped));
        let mut latencies = Latencies::default();
        let of_each = snapshots.iter().filter_map(|snapshot| snapshot.latencies_of(own));
        of_each.for_each(|of| latencies.add(of));
        of_operations(page, Metric::NiLatency, &nid, &latencies);
    }
}

fn of_operations(page: &mut Page, metric: Metric, nid: &str, latencies: &Latencies) {
    for operation in Operation::ALL {
        if let Some(histogram) = latencies.of(operation) {
            page.histogram(metric, &[nid, operation.name()], histogram);
        }
    }
}

fn of_messages(page: &mut Page, snapshots: &[LoopSnapshot]) {
    let mut stats = Stats::default();
    snapshots.iter().for_each(|snapshot| stats.add(&snapshot.totals));
    let events = [("sent", stats.sent), ("received", stats.received), ("dropped", stats.dropped)];
    for (event, ByType { ack, put, get, reply }) in events {
        for (kind, count) in [("put", put), ("get", get), ("reply", reply), ("ack", ack)] {
            page.count(Metric::Messages, &[kind, event], count);
        }
    }
    page.count(Metric::MessageBytes, &["sent"], stats.send_length);
    page.count(Metric::MessageBytes, &["received"], stats.recv_length);
    page.count(Metric::MessageBytes, &["dropped"], stats.drop_length);
    page.gauge(Metric::MessagesActive, &[], signed(stats.msgs_alloc));
    page.gauge(Metric::MessagesActiveMax, &[], signed(stats.msgs_max));
    let classes = [
        ("local_error", stats.local_errors),
        ("remote_dropped", stats.remote_dropped),
        ("remote_error", stats.remote_errors),
        ("network_timeout", stats.network_timeouts),
    ];
    let classed: u64 = classes.iter().map(|(_, count)| count).sum();
    for (class, count) in classes {
        page.count(Metric::FailedMessages, &[class], count);
    }
    page.count(Metric::FailedMessages, &["none"], stats.errors.saturating_sub(classed));
    page.count(Metric::ResponseTimeouts, &[], stats.response_timeouts);
    page.count(Metric::ResponsesRefused, &[], stats.responses_refused);
    page.count(Metric::Misbehaved, &[], stats.misbehaved);
    page.count(Metric::LatenciesLeftOut, &[], stats.latencies_left_out);
    let waiting = |value: fn(&LoopSnapshot) -> u64| signed(snapshots.iter().map(value).sum());
    page.gauge(Metric::WaitingMessages, &["peer"], waiting(|i| i.waiting.peer_credits));
    page.gauge(Metric::WaitingMessages, &["ni"], waiting(|i| i.waiting.ni_credits));
}

fn of_driver(page: &mut Page, snapshots: &[LoopSnapshot]) {
    for (name, open) in connections_of_all(snapshots) {
        page.gauge(Metric::Connections, &[&name.to_ascii_lowercase()], i64::from(open));
    }
    let streams: usize = snapshots.iter().map(|snapshot| snapshot.report.connections).sum();
    page.gauge(Metric::Streams, &[], streams as i64);
    let mut counters: BTreeMap<(&'static DriverMetric, Option<&'static str>), u64> =
        BTreeMap::new();
    for counter in snapshots.iter().flat_map(|snapshot| &snapshot.report.driver) {
        *counters.entry((counter.metric, counter.label)).or_default() += counter.value;
    }
    for ((metric, label), value) in counters {
        page.driver_count(metric, label, value);
    }
}

/// Open connections by type, all partitions together.
fn connections_of_all(snapshots: &[LoopSnapshot]) -> Vec<(&'static str, u32)> {
    let mut all: Vec<(&'static str, u32)> = Vec::new();
    for (name, open) in snapshots.iter().flat_map(|snapshot| &snapshot.connections) {
        match all.iter_mut().find(|(other, _)| other == name) {
            Some((_, sum)) => *sum += open,
            None => all.push((name, *open)),
        }
    }
    all
}

fn of_selftest(page: &mut Page, snapshots: &[LoopSnapshot]) {
    let mut totals = RpcTotals::default();
    snapshots.iter().for_each(|snapshot| totals.add(&snapshot.selftest));
    let RpcTotals { errors, sent, received, dropped, expired, bulk_get, bulk_put } = totals;
    for (event, count) in [
        ("sent", sent),
        ("received", received),
        ("dropped", dropped),
        ("expired", expired),
        ("error", errors),
    ] {
        page.count(Metric::SelftestRpcs, &[event], count);
    }
    page.count(Metric::SelftestBytes, &["get"], bulk_get);
    page.count(Metric::SelftestBytes, &["put"], bulk_put);
}

/// The driver's values of a peer NID, all its processes together.
#[derive(Clone, Default)]
struct Links {
    open: Vec<(&'static str, u32)>,
    queued_bytes: u64,
    queued_messages: u64,
}

/// The peers with most messages of all partitions: each partition has reported as many as fit
/// altogether.
fn of_peers(page: &mut Page, snapshots: &[LoopSnapshot]) {
    let known: usize = snapshots.iter().map(|snapshot| snapshot.peers_known).sum();
    let traffic = |peer: &PeerInfo| peer.total.sent + peer.total.received;
    let mut peers: Vec<(&LoopSnapshot, &PeerInfo)> =
        snapshots.iter().flat_map(|i| i.report.peers.iter().map(move |peer| (i, peer))).collect();
    peers.sort_by_key(|(_, peer)| (core::cmp::Reverse(traffic(peer)), peer.nid));
    peers.truncate(PEERS_MAX);
    page.gauge(Metric::Peers, &[], known as i64);
    page.gauge(Metric::PeersLeftOut, &[], (known - peers.len()) as i64);
    peers.sort_by_key(|(_, peer)| peer.nid);
    let closed: Vec<_> =
        connections_of_all(snapshots).into_iter().map(|(name, _)| (name, 0)).collect();
    let none = Links { open: closed, ..Links::default() };
    let mut links: HashMap<Nid, Links> = HashMap::new();
    for link in snapshots.iter().flat_map(|snapshot| &snapshot.report.links) {
        let all = links.entry(link.id.nid).or_insert_with(|| none.clone());
        for (name, count) in &link.connections {
            let of_type = all.open.iter_mut().find(|(other, _)| other == name);
            of_type.expect("the driver has named its types").1 += count;
        }
        all.queued_bytes += link.queued_bytes;
        all.queued_messages += link.queued_messages;
    }
    for (snapshot, peer) in peers {
        of_peer(page, peer, links.get(&peer.nid).unwrap_or(&none));
        let window = snapshot.report.windows.get(&peer.nid).copied();
        let Window { bytes, in_flight } = window.unwrap_or_default();
        page.gauge(Metric::PeerWindow, &[&peer.nid.to_string()], signed(bytes));
        page.gauge(Metric::PeerWindowUsed, &[&peer.nid.to_string()], signed(in_flight));
        let mut of_this = snapshot.peer_latencies.iter().filter(|(nid, _)| *nid == peer.nid);
        if let Some((nid, latencies)) = of_this.next() {
            of_operations(page, Metric::PeerLatency, &nid.to_string(), latencies);
        }
    }
}

fn of_peer(page: &mut Page, peer: &PeerInfo, links: &Links) {
    let nid = &peer.nid.to_string();
    page.gauge(Metric::PeerReady, &[nid], i64::from(peer.state == PeerState::Ready));
    page.gauge(Metric::PeerCredits, &[nid], i64::from(peer.credits));
    page.gauge(Metric::PeerCreditsFree, &[nid], peer.credits_available.max(0));
    page.gauge(Metric::PeerCreditsMin, &[nid], peer.credits_low);
    page.gauge(Metric::PeerWaiting, &[nid], (-peer.credits_available).max(0));
    page.count(Metric::PeerMessages, &[nid, "sent"], peer.total.sent);
    page.count(Metric::PeerMessages, &[nid, "received"], peer.total.received);
    page.count(Metric::PeerMessages, &[nid, "dropped"], peer.total.dropped);
    for (name, open) in &links.open {
        page.gauge(Metric::PeerConnections, &[nid, &name.to_ascii_lowercase()], i64::from(*open));
    }
    page.gauge(Metric::PeerQueuedBytes, &[nid], signed(links.queued_bytes));
    page.gauge(Metric::PeerQueuedMessages, &[nid], signed(links.queued_messages));
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
