//! PeerDown, restarts, forged handles, misbehaviour, exhaustion.

use super::*;

proptest! {
    /// For each message that is lost, late or repeated: every operation ends in exactly one final
    /// event, and no resource is held afterwards.
    #[test]
    fn one_final_event_per_operation(
        operations in proptest::collection::vec((0usize..3, 0usize..3, 0u8..3), 1..40),
        choices in proptest::collection::vec(any::<u16>(), 0..400),
        tight in any::<bool>(),
    ) {
        let tunables = Tunables {
            peer_credits: if tight { 1 } else { 8 },
            credits: if tight { 2 } else { 256 },
            ..Tunables::default()
        };
        let mut net = Net::new(3, &tunables);
        for node in 0..3 {
            let span = net.span(node, 4096, 0);
            let options = MdOptions::OP_PUT | MdOptions::OP_GET | MdOptions::MANAGE_REMOTE;
            net.attach(node, 30, anybody(0, u64::MAX), md(span, None, options, u64::MAX));
        }
        let mut spans = Vec::new();
        for (id, (from, to, what)) in operations.iter().enumerate() {
            let span = net.span(*from, 16, 0);
            spans.push((*from, span));
            let two = if *what == 0 { 1 } else { 2 };
            let md = net.bind(*from, span, two, id as u64);
            match what {
                0 => net.put(*from, put_args(md, process(*to), 30, 0)),
                1 => {
                    let args = put_args(md, process(*to), 30, 0);
                    net.put(*from, PutArgs { ack: AckWanted::Yes, ..args });
                }
                _ => net.get(*from, get_args(md, process(*to), 30, 0)),
            }
        }
        let mut now = NOW;
        let mut choices = choices.into_iter();
        net.settle(now);
        while !net.packets.is_empty() {
            let choice = choices.next().unwrap_or(0);
            let at = usize::from(choice >> 4) % net.packets.len();
            let fate = match choice % 16 {
                1 => Delivery::Lose,
                2 => Delivery::Fail,
                _ => Delivery::Deliver,
            };
            net.deliver(now, at, fate);
            if choice % 64 == 3 {
                let lost = LinkEvent::Down { status: Status::ConnectionLost };
                net.nodes[0].shard.link(now, NiIndex(0), process(1), lost);
            }
            if choice % 64 == 4 {
                net.nodes[1].shard.link(now, NiIndex(0), process(2), LinkEvent::Restarted);
            }
            now = now + Nanos(1000);
            net.settle(now);
        }
        // Operations whose messages were lost are abandoned; discovery may then send more.
        for _ in 0..20 {
            now = now + Nanos::from_secs(100);
            net.run(now);
        }
        let mut finals = vec![0; operations.len()];
        for node in 0..3 {
            for event in net.events(node) {
                if event.user != u64::MAX && event.unlinked {
                    finals[event.user as usize] += 1;
                }
            }
        }
        prop_assert!(finals.iter().all(|count| *count == 1), "{:?}", finals);
        net.assert_quiet();
        for (node, span) in spans {
            net.nodes[node].memory.free(span);
        }
        for node in &net.nodes {
            // The portal's span, the ping information and the push buffers.
            prop_assert_eq!(node.memory.live, 2 + discovery::PUSH_BUFFERS);
        }
    }
}

fn arrival() -> Arrival {
    Arrival { ni: NiIndex(0), from: process(0), rx: RxId(1) }
}

fn header(dst: Nid, payload_len: u32, body: Body) -> Header {
    Header { dst: ProcessId { nid: dst, pid: PID_LUSTRE }, src: process(0), payload_len, body }
}

fn put_body(portal: u32) -> Body {
    Body::Put { ack_md: MdHandle::NONE, match_bits: 1, hdr_data: 0, portal, offset: 0 }
}

/// [HDR-12] and [HDR-13], row by row.
#[test]
fn violations_close_the_connection_or_drop_the_message() {
    let mut net = Net::new(2, &Tunables::default());
    let me = test_nid(1);
    let stranger = Nid::new4(NetId::TCP, 0x0a00_0063);
    let elsewhere = Nid::new4(NetId { number: 5, ..NetId::TCP }, 0x0a00_0002);
    let handle = MdHandle { interface: 1, object: 2 };
    let ack = Body::Ack { md: handle, match_bits: 0, mlength: 0 };
    let get = Body::Get { return_md: handle, match_bits: 9, portal: 63, offset: 0, sink_len: 8 };
    let refuse = Verdict::Refuse;
    let hello = Body::Hello { incarnation: 1, kind: 1 };
    let rows = [
        (header(me, 8, ack), refuse(HeaderViolation::PayloadOnAckOrGet)),
        (header(me, 8, get), refuse(HeaderViolation::PayloadOnAckOrGet)),
        (header(me, PAYLOAD_MAX + 1, put_body(1)), refuse(HeaderViolation::PayloadTooLong)),
        (header(me, 0, hello), refuse(HeaderViolation::UnexpectedHello)),
        (header(stranger, 0, get), refuse(HeaderViolation::WrongDestination)),
        (header(Nid::LO, 0, get), refuse(HeaderViolation::WrongDestination)),
        (header(elsewhere, 0, get), Verdict::Drop),
        (header(me, 8, put_body(64)), Verdict::Drop),
        (header(me, 8, put_body(u32::MAX)), Verdict::Drop),
        (header(me, 8, put_body(20)), Verdict::Drop),
        (header(me, 0, get), Verdict::Drop),
        (header(me, 0, ack), Verdict::Drop),
        (header(me, 8, Body::Reply { md: handle }), Verdict::Drop),
    ];
    let shard = &mut net.nodes[1].shard;
    for (header, verdict) in rows {
        assert_eq!(shard.recv_header(NOW, arrival(), &header), verdict, "{header:?}");
    }
    assert_eq!(shard.stats().misbehaved, 6);
    assert_eq!(shard.stats().dropped.total(), 7);
    net.assert_quiet();
}

#[test]
fn a_handle_matches_one_answer_of_its_target_only() {
    let mut net = Net::new(3, &Tunables::default());
    let sink = net.span(0, 64, 0);
    let into = net.bind(0, sink, 2, 0);
    net.get(0, get_args(into, process(1), PING_PORTAL, PING_BITS));
    net.settle(NOW);
    let Body::Get { return_md, .. } = net.packets[0].header.body else { panic!("a GET") };
    let forged = |from: usize, handle: MdHandle| Header {
        dst: process(0),
        src: process(from),
        payload_len: 48,
        body: Body::Reply { md: handle },
    };
    let from = |index: usize| Arrival { from: process(index), ..arrival() };
    let shard = &mut net.nodes[0].shard;
    assert_eq!(shard.recv_header(NOW, from(2), &forged(2, return_md)), Verdict::Drop);
    let stale = MdHandle { object: return_md.object + (1 << 32), ..return_md };
    assert_eq!(shard.recv_header(NOW, from(1), &forged(1, stale)), Verdict::Drop);
    // The source in the header is the sender's own claim; the connection is verified.
    assert_eq!(shard.recv_header(NOW, from(2), &forged(1, return_md)), Verdict::Drop);
    // Nor is any process at a node's address that node.
    let user = ProcessId { pid: PID_USERLAND | 40_000, ..process(1) };
    let by_user = Arrival { from: user, ..arrival() };
    let header = Header { src: user, ..forged(1, return_md) };
    assert_eq!(shard.recv_header(NOW, by_user, &header), Verdict::Drop);
    let old_life = MdHandle { interface: return_md.interface + 256, ..return_md };
    assert_eq!(shard.recv_header(NOW, from(1), &forged(1, old_life)), Verdict::Drop);
    let long = Header { payload_len: 65, ..forged(1, return_md) };
    assert_eq!(shard.recv_header(NOW, from(1), &long), Verdict::Drop);
    let Verdict::Into { op, .. } = shard.recv_header(NOW, from(1), &forged(1, return_md)) else {
        panic!("the answer that is awaited");
    };
    assert_eq!(shard.recv_header(NOW, from(1), &forged(1, return_md)), Verdict::Drop);
    shard.done(NOW, op, Status::Ok);
    net.run(NOW);
    let finals = net.events(0).iter().filter(|event| event.unlinked).count();
    assert_eq!(finals, 1);
    net.assert_quiet();
}

/// The threshold would allow a third operation; the GET that was sent does not (found by fuzzing).
#[test]
fn a_reply_repeated_while_the_first_is_arriving_is_dropped() {
    let mut net = Net::new(2, &Tunables::default());
    let sink = net.span(0, 64, 0);
    let into = net.bind(0, sink, 8, 0);
    net.get(0, get_args(into, process(1), PING_PORTAL, PING_BITS));
    net.settle(NOW);
    let Body::Get { return_md, .. } = net.packets[0].header.body else { panic!("a GET") };
    let reply = Header {
        dst: process(0),
        src: process(1),
        payload_len: 48,
        body: Body::Reply { md: return_md },
    };
    let from = Arrival { from: process(1), ..arrival() };
    let shard = &mut net.nodes[0].shard;
    let Verdict::Into { op, .. } = shard.recv_header(NOW, from, &reply) else {
        panic!("the answer that is awaited");
    };
    assert_eq!(shard.recv_header(NOW, from, &reply), Verdict::Drop);
    shard.done(NOW, op, Status::Ok);
    assert_eq!(shard.recv_header(NOW, from, &reply), Verdict::Drop);
    net.settle(NOW);
    let replies = net.events(0).iter().filter(|event| event.kind == EventKind::Reply).count();
    assert_eq!(replies, 1);
}

/// The peer of a PUT knows the handle of its descriptor, from which bytes are only sent.
#[test]
fn an_answer_of_the_other_kind_is_dropped() {
    let mut net = Net::new(2, &Tunables::default());
    let (source, sink, first) = (net.span(0, 64, 7), net.span(0, 64, 0), net.span(0, 8, 0));
    // The first PUT waits until the peer is discovered, these need not.
    let discovering = net.bind(0, first, 1, 9);
    net.put(0, put_args(discovering, process(1), 30, 5));
    net.run(NOW);
    let put = net.bind(0, source, 2, 0);
    net.put(0, PutArgs { ack: AckWanted::Yes, ..put_args(put, process(1), 30, 5) });
    let get = net.bind(0, sink, 2, 1);
    net.get(0, get_args(get, process(1), PING_PORTAL, PING_BITS));
    net.settle(NOW);
    let bodies: Vec<Body> = net.packets.iter().map(|packet| packet.header.body).collect();
    let [Body::Put { ack_md, .. }, Body::Get { return_md, .. }] = bodies[..] else {
        panic!("{bodies:?}")
    };
    let from = Arrival { from: process(1), ..arrival() };
    let answer = |payload_len, body| Header { dst: process(0), src: process(1), payload_len, body };
    let reply = answer(1, Body::Reply { md: ack_md });
    let ack = answer(0, Body::Ack { md: return_md, match_bits: 0, mlength: 0 });
    let shard = &mut net.nodes[0].shard;
    assert_eq!(shard.recv_header(NOW, from, &reply), Verdict::Drop);
    assert_eq!(shard.recv_header(NOW, from, &ack), Verdict::Drop);
    // Those that are awaited are still welcome.
    let ack = answer(0, Body::Ack { md: ack_md, match_bits: 5, mlength: 64 });
    assert_eq!(shard.recv_header(NOW, from, &ack), Verdict::Done);
    let reply = answer(1, Body::Reply { md: return_md });
    assert!(matches!(shard.recv_header(NOW, from, &reply), Verdict::Into { .. }));
}

#[test]
fn a_restart_of_a_peer_fails_awaited_answers_at_once() {
    let mut net = Net::new(2, &Tunables::default());
    let sink = net.span(0, 64, 0);
    let into = net.bind(0, sink, 2, 5);
    net.get(0, get_args(into, process(1), PING_PORTAL, PING_BITS));
    net.settle(NOW);
    net.deliver(NOW, 0, Delivery::Lose);
    net.nodes[0].shard.link(NOW, NiIndex(0), process(1), LinkEvent::Restarted);
    let events = net.events(0);
    assert_eq!(events.last().unwrap().status, Status::PeerRestarted);
    assert!(events.last().unwrap().unlinked);
    assert_eq!(net.nodes[0].shard.next_lost_peer(), Some((process(1), Status::PeerRestarted)));
}

#[test]
fn unlink_while_waiting_cancels_and_ends_once() {
    let mut net = Net::new(2, &Tunables { peer_credits: 1, ..Tunables::default() });
    let mut mds = Vec::new();
    for user in 0..3 {
        let span = net.span(0, 8, 0);
        let md = net.bind(0, span, 2, user);
        net.get(0, get_args(md, process(1), PING_PORTAL, PING_BITS));
        mds.push(md);
    }
    net.settle(NOW);
    assert_eq!(net.packets.len(), 1);
    net.nodes[0].shard.unlink(NOW, mds[1]);
    net.nodes[0].shard.unlink(NOW, mds[1]);
    let events = net.events(0);
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].user, events[0].status), (1, Status::Canceled));
    net.run(NOW);
    let finals: Vec<u64> =
        net.events(0).iter().filter(|event| event.unlinked).map(|event| event.user).collect();
    assert_eq!(finals, [0, 2]);
    net.assert_quiet();
}

/// A peer that sends GETs and never reads: the queue of responses to it is bounded.
#[test]
fn responses_to_one_peer_are_bounded() {
    let mut net = Net::new(2, &Tunables::default());
    let handle = MdHandle { interface: 1, object: 2 };
    let get = Body::Get {
        return_md: handle,
        match_bits: PING_BITS,
        portal: PING_PORTAL,
        offset: 0,
        sink_len: 272,
    };
    let shard = &mut net.nodes[1].shard;
    for _ in 0..RESPONSES_WAITING_MAX * 2 {
        shard.recv_header(NOW, arrival(), &header(test_nid(1), 0, get));
    }
    let admitted = RESPONSES_WAITING_MAX + shard.topology().tunables.peer_credits as usize;
    assert_eq!(shard.msgs.len(), admitted);
    assert_eq!(shard.stats().responses_refused, (RESPONSES_WAITING_MAX * 2 - admitted) as u64);
    // All of them fail at once, without deep recursion.
    let late = NOW + Nanos::from_secs(1000);
    while let Some(action) = shard.next_action() {
        let Action::Send(send) = action else { continue };
        shard.done(late, send.op, Status::ConnectionLost);
    }
    net.assert_quiet();
}

/// A userland process that reads no answers holds up neither the node at its address nor, by the
/// limits on responses, what that node asks.
#[test]
fn a_userland_process_uses_no_credits_of_the_node_at_its_address() {
    let mut net = Net::new(2, &Tunables::default());
    let get = Body::Get {
        return_md: MdHandle { interface: 1, object: 2 },
        match_bits: PING_BITS,
        portal: PING_PORTAL,
        offset: 0,
        sink_len: 272,
    };
    let shard = &mut net.nodes[1].shard;
    let stranger = ProcessId { nid: test_nid(0), pid: PID_USERLAND | 40_000 };
    for _ in 0..RESPONSES_WAITING_MAX * 2 {
        shard.recv_header(
            NOW,
            Arrival { from: stranger, ..arrival() },
            &header(test_nid(1), 0, get),
        );
    }
    assert!(shard.stats().responses_refused > 0);
    while shard.next_action().is_some() {}
    let credits = shard.peer(&test_nid(0)).map(|peer| peer.credits_available);
    assert_eq!(credits, Some(shard.topology().tunables.peer_credits));
    shard.recv_header(NOW, arrival(), &header(test_nid(1), 0, get));
    let Some(Action::Send(reply)) = shard.next_action() else { panic!("the node is answered") };
    assert_eq!(reply.to, process(0));
}

/// 64 NIDs send as many requests as they can and read nothing: another one is answered, and
/// requests of this node are accepted. Interface credits are plentiful here; they are LNet's own
/// limit, with a time-out.
#[test]
fn sixty_four_nids_that_never_read_leave_responses_for_another() {
    let mut net = Net::new(2, &Tunables { credits: 65_535, ..Tunables::default() });
    let get = Body::Get {
        return_md: MdHandle { interface: 1, object: 2 },
        match_bits: PING_BITS,
        portal: PING_PORTAL,
        offset: 0,
        sink_len: 272,
    };
    let ask = |shard: &mut Shard, index: u32| {
        let from = ProcessId { nid: Nid::new4(NetId::TCP, 0x0b00_0000 + index), pid: PID_LUSTRE };
        let arrival = Arrival { ni: NiIndex(0), from, rx: RxId(u64::from(index)) };
        let header = Header { dst: process(1), src: from, payload_len: 0, body: get };
        shard.recv_header(NOW, arrival, &header)
    };
    let shard = &mut net.nodes[1].shard;
    for _ in 0..4096 {
        for greedy in 0..64 {
            ask(shard, greedy);
        }
    }
    assert!(shard.stats().responses_refused > 0);
    assert!(shard.msgs.responses() <= RESPONSES_MAX * 3 / 4, "{}", shard.msgs.responses());
    while shard.next_action().is_some() {}
    let mut answered = 0;
    for _ in 0..RESPONSES_KEPT {
        assert_eq!(ask(shard, 64), Verdict::Done);
        answered += usize::from(shard.next_action().is_some());
    }
    assert_eq!(answered, shard.topology().tunables.peer_credits as usize);
    let span = net.span(1, 8, 0);
    let md = net.bind(1, span, 1, 0);
    net.put(1, put_args(md, process(0), 30, 1));
}

/// Any NID in a header becomes a peer; the table is bounded and forgets idle ones.
#[test]
fn the_table_of_peers_is_bounded() {
    let mut net = Net::new(1, &Tunables { peers_max: 16, ..Tunables::default() });
    let shard = &mut net.nodes[0].shard;
    for index in 0..1000u32 {
        let from = ProcessId { nid: Nid::new4(NetId::TCP, 0x0b00_0000 + index), pid: PID_LUSTRE };
        let arrival = Arrival { ni: NiIndex(0), from, rx: RxId(1) };
        let body = put_body(20);
        let header = Header { dst: process(0), src: from, payload_len: 0, body };
        let now = NOW + Nanos(u64::from(index));
        assert_eq!(shard.recv_header(now, arrival, &header), Verdict::Drop);
    }
    assert_eq!(shard.peers().count(), 16);
    assert!(shard.peer(&Nid::new4(NetId::TCP, 0x0b00_0000 + 999)).is_some());
}

/// A peer that stops in the middle of a push delays no others: neither those of other NIDs, nor
/// those of other connections of its own NID, which can be another process's [PING-28].
#[test]
fn a_stalled_push_does_not_block_the_others() {
    let mut net = Net::new(3, &Tunables::default());
    let shard = &mut net.nodes[1].shard;
    let push = |from: usize, len: u32| Header {
        dst: process(1),
        src: process(from),
        payload_len: len,
        body: Body::Put {
            ack_md: MdHandle::NONE,
            match_bits: PING_BITS,
            hdr_data: 0,
            portal: PING_PORTAL,
            offset: 0,
        },
    };
    let from = |index: usize| Arrival { from: process(index), ..arrival() };
    let Verdict::Into { op: stalled, .. } = shard.recv_header(NOW, from(0), &push(0, 48)) else {
        panic!("a push is received");
    };
    let Verdict::Into { op: second, .. } = shard.recv_header(NOW, from(0), &push(0, 48)) else {
        panic!("a push over another connection of the same NID is received");
    };
    shard.done(NOW, second, Status::ConnectionLost);
    assert_eq!(shard.recv_header(NOW, from(2), &push(2, PAYLOAD_MAX)), Verdict::Drop);
    let Verdict::Into { op, .. } = shard.recv_header(NOW, from(2), &push(2, 48)) else {
        panic!("a push of another peer is received");
    };
    shard.done(NOW, op, Status::ConnectionLost);
    shard.done(NOW, stalled, Status::ConnectionLost);
    assert!(matches!(shard.recv_header(NOW, from(0), &push(0, 48)), Verdict::Into { .. }));
}

/// Userland processes at a node's address are other peers: their end is not the end of the node.
#[test]
fn the_end_of_a_userland_process_does_not_affect_the_node_at_its_address() {
    let mut net = Net::new(2, &Tunables::default());
    let sink = net.span(0, 64, 0);
    let into = net.bind(0, sink, 2, 5);
    net.get(0, get_args(into, process(1), PING_PORTAL, PING_BITS));
    net.settle(NOW);
    let shard = &mut net.nodes[0].shard;
    let userland = ProcessId { pid: 0x8000_0000 | 40_000, ..process(1) };
    let lost = LinkEvent::Down { status: Status::ConnectionLost };
    shard.link(NOW, NiIndex(0), process(1), LinkEvent::Up);
    shard.link(NOW, NiIndex(0), userland, LinkEvent::Up);
    shard.link(NOW, NiIndex(0), userland, lost);
    assert!(shard.next_event().is_none());
    assert_eq!(shard.next_lost_peer(), Some((userland, Status::ConnectionLost)));
    assert!(shard.peer(&test_nid(1)).unwrap().linked);
    net.run(NOW);
    assert_eq!(net.events(0).last().unwrap().kind, EventKind::Reply);
}

/// Two interfaces on one net with one credit each: withdrawing one overdue request passes its
/// credit to the next, which is overdue too and ends at once.
#[test]
fn overdue_requests_that_end_each_other() {
    let tunables = Tunables { credits: 1, peer_credits: 1, ..Tunables::default() };
    let mut net = Net::default();
    let mut topology = test_topology(test_nid(0), Identity::Node, tunables);
    let second = crate::topology::Ni { nid: test_nid(9), ..topology.nis[NiIndex(0)].clone() };
    topology.nis.push(second);
    net.add(topology);
    for user in 0..40 {
        let span = net.span(0, 8, 0);
        let md = net.bind(0, span, 2, user);
        let target = process(1 + user as usize % 3);
        net.get(0, get_args(md, target, PING_PORTAL, PING_BITS));
    }
    net.settle(NOW);
    for late in 1..10 {
        net.settle(NOW + Nanos::from_secs(149 * late));
    }
    while !net.packets.is_empty() {
        net.deliver(NOW + Nanos::from_secs(5000), 0, Delivery::Fail);
    }
    net.settle(NOW + Nanos::from_secs(6000));
    let finals = net.events(0).iter().filter(|event| event.unlinked).count();
    assert_eq!(finals, 40);
    net.assert_quiet();
}

#[test]
fn one_answer_at_a_time_and_none_above_the_threshold() {
    let mut net = Net::new(1, &Tunables::default());
    let lo = ProcessId { nid: Nid::LO, pid: PID_LUSTRE };
    let (span, sink) = (net.span(0, 8, 0), net.span(0, 64, 0));
    net.attach(0, 30, anybody(1, 0), md(sink, None, MdOptions::OP_PUT, 0));
    let from = net.bind(0, span, 3, 1);
    let args = PutArgs { ack: AckWanted::Yes, ..put_args(from, lo, 30, 1) };
    net.put(0, args);
    let again = net.nodes[0].shard.put(NOW, args);
    assert_eq!(again, Err(crate::error::LnetError::AnswerAwaited));
    net.run(NOW);
    // Threshold 1 permits no ACK: it is not counted, and no counter underflows.
    let other = net.span(0, 8, 0);
    let once = net.bind(0, other, 1, 2);
    net.put(0, PutArgs { ack: AckWanted::Yes, ..put_args(once, lo, 30, 1) });
    net.run(NOW);
    assert!(net.events(0).iter().any(|event| event.user == 2 && event.unlinked));
}
