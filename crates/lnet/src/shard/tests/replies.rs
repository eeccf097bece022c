//! GETs that a driver answers in place.

use super::*;
use crate::lnd::GetVerdict;

/// Node 1 has 64 bytes for GETs of node 0, which has sent one; its header has arrived.
fn asked() -> (Net, Header, Arrival) {
    let mut net = Net::new(2, &Tunables::default());
    let source = net.span(1, 64, 3);
    net.attach(
        1,
        30,
        anybody(7, 0),
        md(source, None, MdOptions::OP_GET | MdOptions::MANAGE_REMOTE, 9),
    );
    let sink = net.span(0, 64, 0);
    let into = net.bind(0, sink, 2, 5);
    net.get(0, get_args(into, process(1), 30, 7));
    net.settle(NOW);
    // Discovery comes first.
    while !matches!(net.packets[0].header.body, Body::Get { portal: 30, .. }) {
        net.deliver(NOW, 0, Delivery::Deliver);
        net.settle(NOW);
    }
    let header = net.packets[0].header;
    net.deliver(NOW, 0, Delivery::Lose);
    (net, header, Arrival { ni: NiIndex(0), from: process(0), rx: RxId(99) })
}

/// Everything that can be seen of an answer at the node that gives it.
fn seen(net: &mut Net) -> String {
    let events = net.events(1);
    let shard = &net.nodes[1].shard;
    let peers: Vec<_> = shard.peers().map(|peer| peer.counters).collect();
    format!("{events:?} {:?} {peers:?}", shard.stats())
}

#[test]
fn a_reply_in_place_takes_no_credit_and_counts_as_another() {
    let (mut net, header, arrival) = asked();
    let verdict = net.nodes[1].shard.recv_header(NOW, arrival, &header);
    assert_eq!(verdict, Verdict::Done);
    let Some(Action::Send(credited)) = net.nodes[1].shard.next_action() else { panic!("a REPLY") };
    let free = |net: &Net| net.nodes[1].shard.ni_info(NiIndex(0)).credits_available;
    let before = free(&net);
    net.nodes[1].shard.done(NOW, credited.op, Status::Ok);
    assert_eq!(free(&net), before + 1);
    let expected = seen(&mut net);

    let (mut net, header, arrival) = asked();
    let before = free(&net);
    let verdict = net.nodes[1].shard.recv_get(NOW, arrival, &header);
    let GetVerdict::Reply(reply) = verdict else { panic!("{verdict:?}") };
    assert!(net.nodes[1].shard.next_action().is_none(), "the driver has it already");
    assert_eq!((free(&net), net.nodes[1].shard.in_driver()), (before, 1));
    assert_eq!(reply.header, credited.header);
    assert_eq!((reply.ni, reply.to, reply.deadline), (credited.ni, credited.to, credited.deadline));
    assert_eq!(reply.payload, credited.payload);
    net.nodes[1].shard.done(NOW, reply.op, Status::Ok);
    assert_eq!(free(&net), before);
    assert_eq!(seen(&mut net), expected);
}

#[test]
fn a_get_that_matches_nothing_is_dropped() {
    let (mut net, header, arrival) = asked();
    let Body::Get { return_md, portal, offset, sink_len, .. } = header.body else { panic!() };
    let body = Body::Get { return_md, match_bits: 8, portal, offset, sink_len };
    let verdict = net.nodes[1].shard.recv_get(NOW, arrival, &Header { body, ..header });
    assert!(matches!(verdict, GetVerdict::Other(Verdict::Drop)), "{verdict:?}");
    assert_eq!(net.nodes[1].shard.stats().dropped.get, 1);
    let wrong = Header { payload_len: 1, ..header };
    let verdict = net.nodes[1].shard.recv_get(NOW, arrival, &wrong);
    assert!(matches!(verdict, GetVerdict::Other(Verdict::Refuse(_))), "{verdict:?}");
}

#[test]
fn a_peer_with_too_many_replies_in_flight_waits_for_credits() {
    let (mut net, header, arrival) = asked();
    let mut in_place = 0;
    let shard = &mut net.nodes[1].shard;
    let verdict = loop {
        match shard.recv_get(NOW, arrival, &header) {
            GetVerdict::Reply(_) => in_place += 1,
            GetVerdict::Other(verdict) => break verdict,
        }
    };
    assert_eq!(verdict, Verdict::Done);
    assert!(matches!(shard.next_action(), Some(Action::Send(_))), "with credits");
    assert_eq!(in_place, RESPONSES_WAITING_MAX);
}

#[test]
fn peers_that_take_no_replies_in_place_leave_room_for_others() {
    let (mut net, header, arrival) = asked();
    let shard = &mut net.nodes[1].shard;
    let mut in_place = |peer: usize| {
        let header = Header { src: process(peer), ..header };
        let arrival = Arrival { from: process(peer), ..arrival };
        (0..RESPONSES_WAITING_MAX)
            .take_while(|_| matches!(shard.recv_get(NOW, arrival, &header), GetVerdict::Reply(_)))
            .count()
    };
    let greedy = RESPONSES_MAX / 2 / RESPONSES_WAITING_MAX;
    for peer in 2..2 + greedy {
        assert_eq!(in_place(peer), RESPONSES_WAITING_MAX);
    }
    // Half of all is used: from now on a peer gets a few.
    assert_eq!(in_place(2 + greedy), RESPONSES_KEPT);
    assert_eq!(in_place(3 + greedy), RESPONSES_KEPT);
}
