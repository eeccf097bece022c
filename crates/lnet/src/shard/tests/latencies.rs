//! Each operation is counted once, at its peer and interface, with its duration; failed operations
//! are not counted.

use super::*;
use crate::latency::{Operation, Summaries, Summary};

const OFF: fn() -> Tunables = || Tunables { latency_peers: 0, ..Tunables::default() };

fn after(micros: u64) -> Time {
    NOW + Nanos::from_micros(micros)
}

/// Nodes without discovery, whose pings and pushes are operations like others.
fn net(nodes: usize, tunables: &Tunables) -> Net {
    let mut net = Net::new(nodes, &Tunables { discovery: 0, ..tunables.clone() });
    for node in 1..nodes {
        let span = net.span(node, 64, 0);
        let options = MdOptions::OP_PUT | MdOptions::OP_GET | MdOptions::MANAGE_REMOTE;
        net.attach(node, 30, anybody(0, u64::MAX), md(span, None, options, 0));
        net.nodes[0].shard.discover(NOW, &test_nid(node)).unwrap();
    }
    net.run(NOW);
    net
}

fn start(net: &mut Net, target: usize, operation: Operation) {
    let span = net.span(0, 16, 0);
    let answers = u32::from(operation != Operation::PutEgress);
    let from = net.bind(0, span, 1 + answers, 0);
    let put = put_args(from, process(target), 30, 0);
    match operation {
        Operation::PutEgress => net.put(0, put),
        Operation::PutAck => net.put(0, PutArgs { ack: AckWanted::Yes, ..put }),
        Operation::GetRtt => net.get(0, get_args(from, process(target), 30, 0)),
    }
}

fn of_peer(net: &Net, peer: usize) -> Summaries {
    net.nodes[0].shard.peer(&test_nid(peer)).map(|peer| peer.latency).unwrap_or_default()
}

fn of_ni(net: &Net) -> Summaries {
    net.nodes[0].shard.ni_info(NiIndex(0)).latency
}

/// Samples of each operation, in the order of [`Operation::ALL`].
fn samples(summaries: &Summaries) -> [u64; 3] {
    Operation::ALL.map(|operation| summaries.of(operation).samples)
}

fn one(micros: u64) -> Summary {
    let took = Nanos::from_micros(micros);
    Summary { samples: 1, sum: took.0, min: took, max: took }
}

#[test]
fn each_operation_counts_once_at_its_peer() {
    let mut net = net(3, &Tunables::default());
    let begun = of_peer(&net, 1);
    assert_eq!(samples(&begun), [0, 1, 0], "the ping of the discovery");
    start(&mut net, 1, Operation::PutAck);
    start(&mut net, 2, Operation::GetRtt);
    net.settle(NOW);
    // The PUT leaves and arrives after 10 us, the GET after 20; their answers after 30 and 50.
    net.deliver(after(10), 0, Delivery::Deliver);
    net.deliver(after(20), 0, Delivery::Deliver);
    net.settle(after(20));
    assert_eq!(net.in_flight(), [("ACK", 0), ("REPLY", 0)]);
    net.deliver(after(30), 0, Delivery::Deliver);
    net.deliver(after(50), 0, Delivery::Deliver);
    net.settle(after(50));

    let (first, second) = (of_peer(&net, 1), of_peer(&net, 2));
    assert_eq!((samples(&first), samples(&second)), ([1, 1, 1], [0, 2, 0]));
    assert_eq!(*first.of(Operation::PutEgress), one(10));
    assert_eq!(*first.of(Operation::PutAck), one(30));
    assert_eq!(second.of(Operation::GetRtt).max, Nanos::from_micros(50));
    let mut both = first;
    both.add(&second);
    assert_eq!(of_ni(&net), both);
    // The responder waits for nothing, except at most its own discovery ping.
    let theirs = net.nodes[1].shard.ni_info(NiIndex(0)).latency;
    assert_eq!(samples(&theirs), [0, 0, 0]);
    net.assert_quiet();
}

#[test]
fn waits_before_the_driver_has_the_message_do_not_count() {
    let mut net = net(2, &Tunables { peer_credits: 1, ..Tunables::default() });
    start(&mut net, 1, Operation::PutEgress);
    start(&mut net, 1, Operation::PutAck);
    net.settle(NOW);
    assert_eq!(net.packets.len(), 1, "one credit");
    // The first takes long, and then the second is sent.
    net.deliver(after(5000), 0, Delivery::Deliver);
    net.settle(after(5000));
    net.deliver(after(5003), 0, Delivery::Deliver);
    net.settle(after(5003));
    net.deliver(after(5007), 0, Delivery::Deliver);
    let latency = of_peer(&net, 1);
    assert_eq!(latency.of(Operation::PutEgress).min, Nanos::from_micros(3));
    assert_eq!(latency.of(Operation::PutEgress).max, Nanos::from_micros(5000));
    assert_eq!(*latency.of(Operation::PutAck), one(7));
}

#[test]
fn failed_and_unanswered_operations_do_not_count() {
    let mut net = net(2, &Tunables::default());
    let begun = of_ni(&net);
    for operation in Operation::ALL {
        start(&mut net, 1, operation);
        net.settle(NOW);
        net.deliver(after(1), 0, Delivery::Fail);
        net.run(after(1));
    }
    assert_eq!(of_ni(&net), begun);
    for operation in [Operation::GetRtt, Operation::PutAck] {
        start(&mut net, 1, operation);
        net.settle(NOW);
        net.deliver(after(2), 0, Delivery::Lose);
    }
    net.run(NOW + Nanos::from_secs(1000));
    // The PUT was sent.
    assert_eq!(samples(&of_ni(&net)), [1, 1, 0]);
    net.assert_quiet();
}

#[test]
fn an_answer_that_arrives_before_its_request_was_sent_does_not_count() {
    let mut net = net(2, &Tunables { peer_credits: 1, ..Tunables::default() });
    let begun = of_ni(&net);
    start(&mut net, 1, Operation::PutEgress);
    start(&mut net, 1, Operation::PutAck);
    net.settle(NOW);
    let md = net.nodes[0].shard.mds.iter().find(|(_, state)| state.answer_by != Time::NEVER);
    let md = net.nodes[0].shard.mds.handle_of(md.expect("an ACK is awaited").0);
    let body = Body::Ack { md, match_bits: 0, mlength: 16 };
    let header = Header { dst: process(0), src: process(1), payload_len: 0, body };
    let arrival = Arrival { ni: NiIndex(0), from: process(1), rx: RxId(77) };
    assert_eq!(net.nodes[0].shard.recv_header(after(1), arrival, &header), Verdict::Done);
    assert_eq!(of_ni(&net), begun);
}

#[test]
fn operations_to_this_node_itself_are_not_timed() {
    let mut net = net(1, &Tunables::default());
    let sink = net.span(0, 16, 0);
    net.attach(0, 30, anybody(0, u64::MAX), md(sink, None, MdOptions::OP_PUT, 0));
    let span = net.span(0, 16, 0);
    let from = net.bind(0, span, 2, 0);
    let lo = ProcessId { nid: Nid::LO, pid: PID_LUSTRE };
    net.put(0, PutArgs { ack: AckWanted::Yes, ..put_args(from, lo, 30, 0) });
    net.run(NOW);
    assert_eq!(net.events(0).len(), 3);
    assert_eq!(samples(&of_ni(&net)), [0; 3]);
}

#[test]
fn without_latencies_nothing_is_kept() {
    let mut net = net(2, &OFF());
    for operation in Operation::ALL {
        start(&mut net, 1, operation);
        net.run(after(1));
    }
    assert_eq!(of_ni(&net), Summaries::default());
    assert!(net.nodes[0].shard.peer_latencies(&test_nid(1)).is_none());
    assert_eq!(net.nodes[0].shard.stats().latencies_left_out, 0);
}

#[test]
fn peers_beyond_the_limit_are_timed_for_the_interface_only() {
    let limits = Tunables { latency_peers: 2, peers_max: 16, ..Tunables::default() };
    let mut net = net(4, &limits);
    for peer in 1..4 {
        start(&mut net, peer, Operation::PutEgress);
    }
    net.run(after(1));
    let shard = &net.nodes[0].shard;
    let timed: Vec<bool> =
        (1..4).map(|peer| shard.peer_latencies(&test_nid(peer)).is_some()).collect();
    assert_eq!(timed, [true, true, false]);
    assert_eq!(samples(&of_ni(&net)), [3, 3, 0]);
    assert_eq!(shard.stats().latencies_left_out, 2, "a ping and a PUT");
    // A forgotten peer leaves room for another: new NIDs make the table forget all three.
    for stranger in 100..140 {
        let body = Body::Ack { md: MdHandle::NONE, match_bits: 0, mlength: 0 };
        let from = process(stranger);
        let header = Header { dst: process(0), src: from, payload_len: 0, body };
        let arrival = Arrival { ni: NiIndex(0), from, rx: RxId(stranger as u64) };
        net.nodes[0].shard.recv_header(after(2), arrival, &header);
    }
    assert!(net.nodes[0].shard.peer(&test_nid(1)).is_none());
    start(&mut net, 3, Operation::PutEgress);
    net.run(after(3));
    assert!(net.nodes[0].shard.peer_latencies(&test_nid(3)).is_some());
}

#[test]
fn the_busiest_peers_are_those_with_most_messages() {
    let mut net = net(5, &Tunables::default());
    for peer in [2, 2, 4, 4, 4] {
        start(&mut net, peer, Operation::PutEgress);
    }
    net.run(after(1));
    let shard = &net.nodes[0].shard;
    let busiest = |most| {
        let mut nids: Vec<Nid> = shard.busiest_peers(most).iter().map(|peer| peer.nid).collect();
        nids.sort();
        nids
    };
    assert_eq!(shard.peer_count(), 4);
    assert_eq!(busiest(2), [test_nid(2), test_nid(4)]);
    assert_eq!(busiest(9).len(), 4);
    assert_eq!(busiest(0), []);
}
