//! Changes of the configuration of a running node, between operations.

use lustrine_wire::ping::{Features, PingInfo};

use super::*;
use crate::ConfiguredPeer;
use crate::latency::{Operation, Summaries};
use crate::shard::PeerState;
use crate::stats::MessageCounters;
use crate::topology::Ni;

const LATER: Nanos = Nanos::from_secs(100_000);

fn other_net(index: usize) -> Nid {
    Nid::new4(NetId { number: 1, ..NetId::TCP }, 0x0a00_0101 + index as u32)
}

fn ni(nid: Nid) -> Ni {
    Ni { nid, credits: 16, peer_credits: 2 }
}

fn configured(indexes: &[usize]) -> ConfiguredPeer {
    let nids: Vec<Nid> = indexes.iter().map(|index| test_nid(*index)).collect();
    ConfiguredPeer { primary: nids[0], nids, multi_rail: true, locked: false }
}

/// The ping information that a node reports about itself.
fn said(net: &mut Net, from: usize, of: usize) -> (u32, Features, Vec<Nid>) {
    let sink = net.span(from, 512, 0);
    let into = net.bind(from, sink, 2, 0);
    net.get(from, get_args(into, process(of), PING_PORTAL, PING_BITS));
    net.run(NOW);
    let moved = net.events(from).last().expect("a reply").moved;
    let bytes = net.bytes(from, sink);
    let info = PingInfo::parse(&bytes[..moved as usize]).unwrap();
    (info.sequence(), info.features(), info.entries().map(|entry| entry.nid).collect())
}

/// Makes a node known to another one, by a PUT.
fn acquaint(net: &mut Net, from: usize, to: usize) {
    let source = net.span(from, 8, 1);
    let md = net.bind(from, source, 1, 0);
    net.put(from, put_args(md, process(to), 30, 1));
    net.run(NOW);
    net.events(from);
}

#[test]
fn a_new_transaction_timeout_applies_to_later_operations() {
    let mut net = Net::new(2, &Tunables::default());
    acquaint(&mut net, 0, 1);
    let ask = |net: &mut Net, user| {
        let sink = net.span(0, 8, 0);
        let md = net.bind(0, sink, 2, user);
        net.get(0, get_args(md, process(1), 40, 1));
        net.settle(NOW);
        net.deliver(NOW, 0, Delivery::Lose);
    };
    ask(&mut net, 1);
    let node = &mut net.nodes[0];
    let shorter = Tunables { transaction_timeout: 10, ..Tunables::default() };
    node.shard.set_tunables(NOW, &mut node.memory, shorter);
    ask(&mut net, 2);
    net.events(0);
    for (seconds, ended) in [(9, 0), (11, 1), (149, 0), (151, 1)] {
        net.settle(NOW + Nanos::from_secs(seconds));
        net.settle(NOW + Nanos::from_secs(seconds));
        assert_eq!(net.events(0).len(), ended, "after {seconds} s");
    }
}

#[test]
fn discovery_off_and_on_is_pushed_to_known_peers() {
    let mut net = Net::new(2, &Tunables::default());
    acquaint(&mut net, 0, 1);
    assert_eq!(net.nodes[1].shard.peer(&test_nid(0)).unwrap().features, Some(0x1e));
    let spans = net.nodes[0].memory.live;
    for (discovery, features, sequence) in [(0, 0x0e, 2), (1, 0x1e, 3)] {
        let node = &mut net.nodes[0];
        let tunables = Tunables { discovery, ..Tunables::default() };
        node.shard.set_tunables(NOW, &mut node.memory, tunables);
        net.run(NOW);
        let (reported, bits, _) = said(&mut net, 1, 0);
        assert_eq!((reported, bits.bits()), (sequence, features));
        assert_eq!(net.nodes[0].memory.live, spans, "the old information is freed");
    }
    // A node that withdraws from discovery is forgotten, as kernels do, and pinged again.
    assert_eq!(net.nodes[1].shard.peer(&test_nid(0)).unwrap().features, Some(0x1e));
    // Changes that do not concern it are not pushed.
    let node = &mut net.nodes[0];
    let tunables = Tunables { lock_prim_nid: 0, ..Tunables::default() };
    node.shard.set_tunables(NOW, &mut node.memory, tunables);
    assert_eq!(said(&mut net, 1, 0).0, 3);
    net.assert_quiet();
}

#[test]
fn peers_receive_pushes_when_interfaces_come_and_go() {
    let mut net = Net::new(2, &Tunables::default());
    acquaint(&mut net, 0, 1);
    let node = &mut net.nodes[0];
    let index = node.shard.add_ni(NOW, &mut node.memory, ni(other_net(0)));
    assert_eq!(index, NiIndex(1));
    net.run(NOW);
    let known = net.nodes[1].shard.peer(&test_nid(0)).unwrap();
    assert_eq!(known.nids, [(test_nid(0), true), (other_net(0), true)]);
    assert_eq!(said(&mut net, 1, 0).2, [test_nid(0), other_net(0)]);
    // The first one is removed: the second becomes the primary one and keeps its index.
    net.remove_ni(NOW, 0, NiIndex(0));
    let shard = &net.nodes[0].shard;
    assert_eq!(shard.topology().ni_of(&other_net(0)), Some(NiIndex(1)));
    assert_eq!(shard.topology().ni_of(&Nid::ANY), None);
    // No message reaches a network on which no interface is left.
    let source = net.span(0, 8, 1);
    let md = net.bind(0, source, 1, 5);
    net.put(0, put_args(md, process(1), 30, 1));
    let event = net.events(0)[0];
    assert_eq!((event.user, event.status, event.unlinked), (5, Status::Unreachable, true));
    // Its index is free again, but the next interface is the last one in order.
    let node = &mut net.nodes[0];
    assert_eq!(node.shard.add_ni(NOW, &mut node.memory, ni(test_nid(0))), NiIndex(0));
    assert_eq!(node.shard.add_ni(NOW, &mut node.memory, ni(test_nid(7))), NiIndex(2));
    net.run(NOW);
    assert_eq!(said(&mut net, 1, 0).2, [other_net(0), test_nid(0), test_nid(7)]);
    net.assert_quiet();
}

/// The wildcard is what a removed interface has instead of a NID, and what a header may name.
#[test]
fn a_message_to_the_wildcard_is_not_for_an_interface_that_was_removed() {
    let mut net = Net::new(2, &Tunables::default());
    acquaint(&mut net, 0, 1);
    net.remove_ni(NOW, 0, NiIndex(0));
    let header = Header {
        dst: ProcessId::lustre(Nid::ANY),
        src: process(1),
        payload_len: 0,
        body: Body::Get {
            return_md: MdHandle { interface: 1, object: 2 },
            match_bits: PING_BITS,
            portal: PING_PORTAL,
            offset: 0,
            sink_len: 272,
        },
    };
    let arrival = Arrival { ni: NiIndex(0), from: process(1), rx: RxId(1) };
    assert_eq!(net.nodes[0].shard.recv_header(NOW, arrival, &header), Verdict::Drop);
    assert!(net.nodes[0].shard.next_action().is_none());
}

#[test]
fn an_interface_that_is_added_again_has_its_own_peer_credits() {
    let mut net = Net::new(2, &Tunables { peer_credits: 3, ..Tunables::default() });
    acquaint(&mut net, 0, 1);
    let credits = |net: &Net| net.nodes[0].shard.peer(&test_nid(1)).unwrap().credits;
    assert_eq!(credits(&net), 3);
    net.remove_ni(NOW, 0, NiIndex(0));
    let node = &mut net.nodes[0];
    node.shard.add_ni(NOW, &mut node.memory, ni(test_nid(0)));
    assert_eq!(credits(&net), 2);
    // A second one changes nothing as long as the first one exists.
    let more = Ni { peer_credits: 9, ..ni(test_nid(7)) };
    let node = &mut net.nodes[0];
    node.shard.add_ni(NOW, &mut node.memory, more);
    assert_eq!(credits(&net), 2);
    // The first one is removed while messages are in transit through the second.
    let (source, from) = (net.span(0, 8, 1), Some(test_nid(7)));
    let md = net.bind(0, source, 1, 5);
    net.put(0, PutArgs { local: from, ..put_args(md, process(1), 30, 1) });
    net.settle(NOW);
    net.remove_ni(NOW, 0, NiIndex(0));
    assert_eq!(credits(&net), 2, "one is held");
    net.run(NOW);
    assert_eq!(credits(&net), 9);
    net.assert_quiet();
}

#[test]
fn a_description_that_is_removed_leaves_discovered_nids() {
    let mut net = Net::new(2, &Tunables::default());
    acquaint(&mut net, 0, 1);
    let source = net.span(0, 8, 1);
    let md = net.bind(0, source, 1, 7);
    net.put(0, put_args(md, process(1), 30, 1));
    net.settle(NOW);
    let shard = &mut net.nodes[0].shard;
    shard.configure_peer(NOW, &ConfiguredPeer { locked: true, ..configured(&[1, 5]) }).unwrap();
    shard.unconfigure_peers(&[test_nid(1)]);
    let shown = shard.peer(&test_nid(1)).unwrap();
    assert_eq!((shown.state, shown.configured), (PeerState::Ready, None));
    shard.peers.assert_whole();
    net.run(NOW);
    assert!(net.events(0).iter().all(|event| event.status.is_ok()), "nothing of it was ended");
    // The peer may now report any NIDs, as any other peer.
    net.nodes[0].shard.configure_peer(NOW, &configured(&[5])).unwrap();
    net.nodes[0].shard.peers.assert_whole();
    net.assert_quiet();
}

#[test]
fn operations_of_an_interface_end_with_it() {
    let mut net = Net::new(2, &Tunables::default());
    acquaint(&mut net, 0, 1);
    let sinks: Vec<Span> = (0..12).map(|_| net.span(0, 8, 0)).collect();
    for (user, sink) in sinks.into_iter().enumerate() {
        let md = net.bind(0, sink, 2, user as u64);
        net.get(0, get_args(md, process(1), 40, 1));
    }
    net.settle(NOW);
    // Some are in transit, some wait for credits; one answer never arrives.
    net.deliver(NOW, 0, Delivery::Lose);
    net.remove_ni(NOW, 0, NiIndex(0));
    let ended: Vec<_> = net.events(0).into_iter().filter(|event| event.unlinked).collect();
    assert_eq!(ended.len(), 12);
    assert!(ended.iter().all(|event| !event.status.is_ok()), "{ended:?}");
    net.assert_quiet();
}

/// Messages to one NID of a peer wait for a ping of another one, which is removed. The round begins
/// again through the first.
#[test]
fn messages_to_other_nids_outlive_the_removal_of_the_one_that_is_pinged() {
    let mut net = Net::new(2, &Tunables::default());
    net.nodes[0].shard.configure_peer(NOW, &configured(&[1, 5])).unwrap();
    for (user, to) in [(1, 5), (2, 1)] {
        let source = net.span(0, 8, 1);
        let md = net.bind(0, source, 1, user);
        net.put(0, put_args(md, process(to), 30, 1));
        net.settle(NOW);
    }
    assert_eq!(net.in_flight(), [("GET", PING_PORTAL)], "of the first");
    net.remove_nids(NOW, 0, &[test_nid(5)]);
    net.run(NOW);
    let ended: Vec<_> = net.events(0).iter().map(|event| (event.user, event.status)).collect();
    assert_eq!(ended, [(1, Status::ConnectionLost), (2, Status::Ok)]);
    net.assert_quiet();
}

/// Messages wait for a ping that left by one of two interfaces. When either is removed, those that
/// are to leave by the other one are sent.
#[test]
fn messages_over_other_interfaces_outlive_the_removal_of_one() {
    for removed in [0, 1] {
        let mut net = Net::new(2, &Tunables::default());
        let node = &mut net.nodes[0];
        node.shard.add_ni(NOW, &mut node.memory, ni(test_nid(7)));
        for (user, from) in [(0, 0), (1, 7)] {
            let source = net.span(0, 8, 1);
            let md = net.bind(0, source, 1, user);
            let local = Some(test_nid(from));
            net.put(0, PutArgs { local, ..put_args(md, process(1), 30, 1) });
        }
        net.settle(NOW);
        assert_eq!(net.in_flight(), [("GET", PING_PORTAL)]);
        net.remove_ni(NOW, 0, NiIndex(removed));
        net.run(NOW);
        let events = net.events(0);
        let mut sent = events.iter().filter(|event| event.status.is_ok());
        let kept = u64::from(1 - removed);
        assert_eq!((sent.next().map(|event| event.user), events.len()), (Some(kept), 2));
        net.assert_quiet();
    }
}

#[test]
fn a_configured_peer_exists_at_once_and_keeps_its_primary_nid() {
    let mut net = Net::new(2, &Tunables::default());
    // Node 1 has another NID first in this description.
    net.nodes[0].shard.configure_peer(NOW, &configured(&[5, 1])).unwrap();
    let shown = net.nodes[0].shard.peer(&test_nid(1)).unwrap();
    assert_eq!((shown.primary, shown.configured), (test_nid(5), Some(true)));
    assert_eq!(shown.nids, [(test_nid(5), true), (test_nid(1), true)]);
    acquaint(&mut net, 0, 1);
    let shown = net.nodes[0].shard.peer(&test_nid(1)).unwrap();
    assert_eq!((shown.state, shown.primary), (PeerState::Ready, test_nid(5)));
    // It does not report the other one; the primary NID stays nevertheless.
    assert_eq!(shown.nids, [(test_nid(1), true)]);
    net.nodes[0].shard.peers.assert_whole();
    net.remove_nids(NOW, 0, &[test_nid(5), test_nid(1)]);
    assert_eq!(net.nodes[0].shard.peers().count(), 0);
    net.nodes[0].shard.peers.assert_whole();
}

#[test]
fn without_discovery_the_description_stays() {
    let mut net = Net::new(2, &Tunables { discovery: 0, ..Tunables::default() });
    net.nodes[0].shard.configure_peer(NOW, &configured(&[1, 5])).unwrap();
    acquaint(&mut net, 0, 1);
    let shown = net.nodes[0].shard.peer(&test_nid(1)).unwrap();
    assert_eq!(shown.nids, [(test_nid(1), true), (test_nid(5), true)]);
    assert_eq!(shown.features, Some(0x0e));
}

#[test]
fn no_other_peer_can_claim_a_configured_peer() {
    let mut net = Net::new(3, &Tunables::default());
    net.nodes[0].shard.configure_peer(NOW, &configured(&[1, 5])).unwrap();
    acquaint(&mut net, 0, 2);
    // Node 2 gains the NID that the administrator gave to node 1.
    let node = &mut net.nodes[2];
    node.shard.add_ni(NOW, &mut node.memory, ni(test_nid(5)));
    net.run(NOW);
    assert_eq!(net.nodes[0].shard.peer(&test_nid(5)).unwrap().primary, test_nid(1));
    net.nodes[0].shard.peers.assert_whole();
}

#[test]
fn a_full_table_takes_no_description() {
    let mut net = Net::new(1, &Tunables { peers_max: 16, ..Tunables::default() });
    let many: Vec<usize> = (1..20).collect();
    assert_eq!(
        net.nodes[0].shard.configure_peer(NOW, &configured(&many)),
        Err(crate::shard::PeerTableFull)
    );
    net.nodes[0].shard.peers.assert_whole();
    net.nodes[0].shard.configure_peer(NOW, &configured(&many[..10])).unwrap();
    net.nodes[0].shard.peers.assert_whole();
}

#[test]
fn a_reset_zeroes_reports_and_keeps_totals() {
    let mut net = Net::new(2, &Tunables::default());
    acquaint(&mut net, 0, 1);
    let shard = &mut net.nodes[0].shard;
    let before = *shard.stats();
    let (ni_before, peer_before) = (shard.ni_info(NiIndex(0)), shard.peer(&test_nid(1)).unwrap());
    let latencies = |shard: &Shard| {
        let of_peer = shard.peer_latencies_total(&test_nid(1)).unwrap().summaries();
        (shard.ni_latencies_total(NiIndex(0)).summaries(), of_peer)
    };
    let latencies_before = latencies(shard);
    assert!(shard.stats_since_reset().sent.total() > 0);
    assert_eq!((ni_before.counters, peer_before.counters), (ni_before.total, peer_before.total));
    assert_eq!((ni_before.latency, peer_before.latency), latencies_before);
    assert_ne!(latencies_before.1, Summaries::default());
    shard.reset_stats();
    let shown = shard.stats_since_reset();
    assert_eq!((shown.sent.total(), shown.received.total(), shown.send_length), (0, 0, 0));
    let (ni, peer) = (shard.ni_info(NiIndex(0)), shard.peer(&test_nid(1)).unwrap());
    let nothing = MessageCounters::default();
    assert_eq!((ni.counters, peer.counters), (nothing, nothing));
    assert_eq!((ni.latency, peer.latency), Default::default());
    assert_eq!((ni.total, peer.total), (ni_before.total, peer_before.total));
    assert_eq!(latencies(shard), latencies_before);
    assert_eq!(shard.received_from(&test_nid(1)), peer_before.total.received);
    assert_eq!(shard.stats().sent, before.sent);
    acquaint(&mut net, 0, 1);
    let shard = &mut net.nodes[0].shard;
    assert_eq!(shard.stats_since_reset().sent.put, 1);
    let put = |summaries: Summaries| summaries.of(Operation::PutEgress).samples;
    assert_eq!(put(shard.peer(&test_nid(1)).unwrap().latency), 1);
    assert_eq!(put(latencies(shard).0), put(latencies_before.0) + 1);
    shard.reset_stats();
    assert_eq!(put(latencies(shard).1), put(latencies_before.1) + 1, "the second reset as well");
    assert_eq!(shard.peer(&test_nid(1)).unwrap().total.sent, peer_before.total.sent + 1);
}

/// The events of three nodes.
#[derive(Clone, Debug)]
enum Step {
    Put { from: usize, to: usize, second: bool, ack: AckWanted },
    Get { from: usize, to: usize, second: bool },
    Deliver { at: usize, fate: Delivery },
    Wait { seconds: u64 },
    Tune { node: usize, discovery: i64, transaction_timeout: i64 },
    Reset { node: usize },
    AddNi { node: usize },
    RemoveNi { node: usize, which: usize },
    Describe { node: usize, peers: Vec<usize> },
    Remove { node: usize, peers: Vec<usize> },
}

fn step() -> impl Strategy<Value = Step> {
    let node = 0usize..3;
    let peers = || prop::collection::vec(0usize..6, 1..4);
    let ack = prop_oneof![Just(AckWanted::Yes), Just(AckWanted::No)];
    let fate = prop_oneof![
        6 => Just(Delivery::Deliver), 1 => Just(Delivery::Lose), 1 => Just(Delivery::Fail)
    ];
    prop_oneof![
        4 => (node.clone(), node.clone(), any::<bool>(), ack)
            .prop_map(|(from, to, second, ack)| Step::Put { from, to, second, ack }),
        3 => (node.clone(), node.clone(), any::<bool>())
            .prop_map(|(from, to, second)| Step::Get { from, to, second }),
        12 => (0usize..40, fate).prop_map(|(at, fate)| Step::Deliver { at, fate }),
        1 => (0u64..60).prop_map(|seconds| Step::Wait { seconds }),
        1 => (node.clone(), 0i64..2, 3i64..200).prop_map(|(node, discovery, transaction_timeout)| {
            Step::Tune { node, discovery, transaction_timeout }
        }),
        1 => node.clone().prop_map(|node| Step::Reset { node }),
        1 => node.clone().prop_map(|node| Step::AddNi { node }),
        1 => (node.clone(), 0usize..3).prop_map(|(node, which)| Step::RemoveNi { node, which }),
        1 => (node.clone(), peers()).prop_map(|(node, peers)| Step::Describe { node, peers }),
        1 => (node, peers()).prop_map(|(node, peers)| Step::Remove { node, peers }),
    ]
}

struct Story {
    net: Net,
    now: Time,
    /// Operations begun at each node, and those that ended.
    begun: Vec<u64>,
    ended: Vec<Vec<u64>>,
}

impl Story {
    fn new() -> Story {
        let tunables = Tunables { peers_max: 16, peer_credits: 2, ..Tunables::default() };
        let mut net = Net::new(3, &tunables);
        for node in 0..3 {
            let space = net.span(node, 64, 0);
            let options = MdOptions::OP_PUT
                | MdOptions::OP_GET
                | MdOptions::MANAGE_REMOTE
                | MdOptions::TRUNCATE;
            let entry = MatchEntry { unlink: Unlink::Retain, ..anybody(1, 0) };
            net.attach(node, 30, entry, md(space, None, options, u64::MAX));
        }
        Story { net, now: NOW, begun: vec![0; 3], ended: vec![Vec::new(); 3] }
    }

    fn target(to: usize, second: bool) -> ProcessId {
        ProcessId { nid: if second { other_net(to) } else { test_nid(to) }, pid: PID_LUSTRE }
    }

    /// A NID of a node, or of none.
    fn nid_of(index: usize) -> Nid {
        if index < 3 { test_nid(index) } else { other_net(index - 3) }
    }

    fn begin(&mut self, node: usize, threshold: u32) -> MdKey {
        let span = self.net.span(node, 8, 1);
        self.begun[node] += 1;
        self.net.bind(node, span, threshold, self.begun[node])
    }

    fn push_update(&mut self, step: &Step) {
        let now = self.now;
        match step {
            Step::Put { from, to, second, ack } => {
                let threshold = if *ack == AckWanted::Yes { 2 } else { 1 };
                let md = self.begin(*from, threshold);
                let args = put_args(md, Story::target(*to, *second), 30, 1);
                self.net.nodes[*from].shard.put(now, PutArgs { ack: *ack, ..args }).unwrap();
            }
            Step::Get { from, to, second } => {
                let md = self.begin(*from, 2);
                let args = get_args(md, Story::target(*to, *second), 30, 1);
                self.net.nodes[*from].shard.get(now, args).unwrap();
            }
            Step::Deliver { at, fate } => {
                if !self.net.packets.is_empty() {
                    self.net.deliver(now, at % self.net.packets.len(), *fate);
                }
            }
            Step::Wait { seconds } => self.now = now + Nanos::from_secs(*seconds),
            Step::Tune { node, discovery, transaction_timeout } => {
                let node = &mut self.net.nodes[*node];
                let (discovery, transaction_timeout) = (*discovery, *transaction_timeout);
                let before = node.shard.topology().tunables.clone();
                let tunables = Tunables { discovery, transaction_timeout, ..before };
                node.shard.set_tunables(now, &mut node.memory, tunables);
            }
            Step::Reset { node } => self.net.nodes[*node].shard.reset_stats(),
            Step::AddNi { node } => {
                let index = *node;
                let node = &mut self.net.nodes[index];
                let missing = [test_nid(index), other_net(index)]
                    .into_iter()
                    .find(|nid| node.shard.topology().ni_of(nid).is_none());
                if let Some(nid) = missing {
                    node.shard.add_ni(now, &mut node.memory, ni(nid));
                }
            }
            Step::RemoveNi { node, which } => {
                let topology = self.net.nodes[*node].shard.topology();
                let there: Vec<NiIndex> = topology.nis.iter().map(|(index, _)| index).collect();
                if there.len() > 1 {
                    self.net.remove_ni(now, *node, there[which % there.len()]);
                }
            }
            Step::Describe { node, peers } => {
                let mut nids: Vec<Nid> = peers.iter().map(|peer| Story::nid_of(*peer)).collect();
                nids.dedup();
                let mut seen = Vec::new();
                nids.retain(|nid| {
                    !seen.contains(nid) && {
                        seen.push(*nid);
                        true
                    }
                });
                let configured =
                    ConfiguredPeer { primary: nids[0], nids, multi_rail: true, locked: false };
                let shard = &mut self.net.nodes[*node].shard;
                // The administrator describes each NID once: the earlier description is removed
                // first.
                let _ = shard.configure_peer(now, &configured);
            }
            Step::Remove { node, peers } => {
                let nids: Vec<Nid> = peers.iter().map(|peer| Story::nid_of(*peer)).collect();
                self.net.remove_nids(now, *node, &nids);
            }
        }
        self.net.settle(self.now);
        self.collect();
    }

    fn collect(&mut self) {
        for node in 0..3 {
            let ended = self.net.events(node).into_iter().filter(|event| event.unlinked);
            self.ended[node].extend(ended.map(|event| event.user));
            self.net.nodes[node].shard.peers.assert_whole();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// For all changes between operations: each operation has exactly one final event, and every
    /// credit is returned.
    #[test]
    fn changes_between_operations_lose_nothing(steps in prop::collection::vec(step(), 1..80)) {
        let mut story = Story::new();
        for step in &steps {
            story.push_update(step);
        }
        for _ in 0..4 {
            story.net.run(story.now);
            story.collect();
            story.now = story.now + LATER;
        }
        for node in 0..3 {
            let mut ended = story.ended[node].clone();
            ended.sort_unstable();
            let all: Vec<u64> = (1..=story.begun[node]).collect();
            prop_assert_eq!(ended, all);
        }
        story.net.assert_quiet();
    }
}
