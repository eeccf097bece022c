//! What one hostile node can do to others: number 5 reports false NIDs and does not answer pings.

use super::*;

impl Alone {
    /// The messages in transit go to nodes that do not answer.
    fn swallow(&mut self) {
        while !self.sent.is_empty() {
            self.finish(0, Status::Ok, None);
        }
    }

    fn garbage(&mut self, from: usize) {
        self.arrives(from, a_push(), &[0x7a; 48]);
    }
}

#[test]
fn no_peer_takes_the_nids_of_a_reachable_peer() {
    let mut alone = Alone::new(Tunables::default());
    alone.link(1, LinkEvent::Up);
    alone.discover(1, &[&[1, 2]]);
    // Number 5 is hostile: it claims their NIDs, then claims to be them.
    for list in [&[5, 1][..], &[5, 2], &[1, 5], &[2, 1, 5], &[1, 2], &[1, 2, 5]] {
        alone.pushed(5, list, usual());
        alone.answer_all(&[&[1, 2], &[5]]);
        assert!(alone.together(1, 2) && !alone.together(1, 5), "{list:?}");
        assert_eq!(alone.primary(1), Some(test_nid(1)));
    }
    // A push in another node's name is not even received.
    let bytes = alone.info(&[1, 5], usual());
    let header = Header {
        dst: process(0),
        src: process(1),
        payload_len: bytes.len() as u32,
        body: a_push(),
    };
    let now = alone.now;
    assert_eq!(alone.shard().recv_header(now, arrival(5), &header), Verdict::Drop);
    // Messages to them are sent all the time.
    alone.put(1, 1);
    assert_eq!(alone.sent.len(), 1);
}

/// First to claim to be a new interface, and then to report for the whole node.
#[test]
fn a_false_interface_takes_no_primary_nids() {
    let mut alone = Alone::new(Tunables::default());
    alone.link(1, LinkEvent::Up);
    alone.discover(1, &[&[1, 2]]);
    alone.link(5, LinkEvent::Up);
    for list in [&[1, 2, 5][..], &[5, 1], &[5]] {
        alone.pushed(5, list, usual());
        assert!(alone.together(1, 2) && !alone.together(1, 5), "{list:?}");
        alone.swallow();
    }
    assert_eq!(alone.primary(1), Some(test_nid(1)));
}

#[test]
fn garbage_does_not_stop_messages_to_any_peer() {
    let mut alone = Alone::new(Tunables::default());
    alone.link(1, LinkEvent::Up);
    alone.discover(1, &[&[1, 2]]);
    alone.link(5, LinkEvent::Up);
    alone.pushed(5, &[1, 2, 5], usual());
    alone.garbage(5);
    alone.swallow();
    alone.put(1, 1);
    assert_eq!(alone.outgoing(), [("PUT", 1)]);
    // Nor does a peer's own garbage, once messages to it can be sent: it is pinged meanwhile, one
    // ping at a time.
    alone.swallow();
    alone.now = alone.now + Nanos::from_secs(200);
    let (now, node) = (alone.now, &mut alone.net.nodes[0]);
    node.shard.drive(now, &mut node.memory);
    alone.discover(1, &[&[1, 2]]);
    for _ in 0..3 {
        alone.garbage(1);
    }
    alone.put(1, 2);
    assert_eq!(alone.outgoing(), [("GET", 1), ("PUT", 1)]);
    assert_eq!(alone.state(1), PeerState::Ready);
}

/// A peer that has forgotten our information gets another push, while messages are sent.
#[test]
fn a_push_to_a_ready_peer_delays_no_messages() {
    let mut alone = Alone::new(Tunables::default());
    alone.link(1, LinkEvent::Up);
    // Before the peer supported discovery nothing was pushed to it.
    alone.pushed(1, &[1], usual() - Features::DISCOVERY);
    assert_eq!(alone.state(1), PeerState::Ready);
    for _ in 0..3 {
        alone.pushed(1, &[1], usual());
    }
    alone.put(1, 1);
    assert_eq!(alone.outgoing(), [("PUSH", 1), ("PUT", 1)]);
    alone.finish(0, Status::Ok, Some(&[1]));
    alone.pushed(1, &[1], usual());
    assert_eq!(alone.outgoing(), [("PUT", 1)], "it has confirmed");
}

/// Unknown NIDs, claimed by a peer that never confirms our push, are pinged themselves.
#[test]
fn unconfirmed_claims_delay_no_messages() {
    let mut alone = Alone::new(Tunables::default());
    alone.link(5, LinkEvent::Up);
    alone.pushed(5, &[5, 1, 2, 3], usual());
    assert_eq!(alone.outgoing(), [("PUSH", 5)]);
    alone.swallow();
    for to in [1, 2, 3] {
        alone.put(to, to as u64);
    }
    assert_eq!(alone.outgoing(), [("GET", 1), ("GET", 2), ("GET", 3)]);
    alone.pushed(5, &[5, 1, 2, 3], usual());
    alone.garbage(5);
    alone.answer_all(&[&[1, 2], &[3]]);
    let sent = alone.net.events(0).iter().filter(|event| event.status.is_ok()).count();
    assert_eq!(sent, 3);
    assert!(alone.together(1, 2) && !alone.together(1, 5) && !alone.together(1, 3));
}

/// The same with NIDs of a node that is temporarily unreachable.
#[test]
fn the_own_report_of_a_returning_node_applies() {
    let mut alone = Alone::new(Tunables::default());
    alone.discover(1, &[&[1, 2]]);
    alone.link(5, LinkEvent::Up);
    // It joins them under their primary NID, as with a kernel.
    alone.pushed(5, &[1, 2, 5], usual());
    assert!(alone.together(1, 5));
    alone.swallow();
    alone.link(1, LinkEvent::Up);
    alone.pushed(5, &[5, 1], usual());
    alone.garbage(5);
    alone.swallow();
    alone.put(1, 1);
    assert_eq!(alone.outgoing(), [("GET", 1)]);
    alone.answer_all(&[&[1, 2]]);
    assert!(alone.together(1, 2) && !alone.together(1, 5));
    assert_eq!(alone.primary(1), Some(test_nid(1)));
}

/// No other peer can make a peer that forgot us ready for messages ([PING-24]).
#[test]
fn a_claim_does_not_replace_the_push() {
    let mut alone = Alone::new(Tunables::default());
    alone.link(1, LinkEvent::Up);
    alone.discover(1, &[&[1]]);
    alone.link(5, LinkEvent::Up);
    alone.link(1, LinkEvent::Restarted);
    alone.pushed(5, &[5, 1], usual());
    let ping = alone.outgoing().iter().position(|out| *out == ("GET", 1)).unwrap();
    alone.finish(ping, Status::Ok, Some(&[1]));
    assert!(alone.outgoing().contains(&("PUSH", 1)));
    assert_eq!(alone.state(1), PeerState::Discovering);
    alone.answer_all(&[&[1], &[5]]);
    assert_eq!(alone.state(1), PeerState::Ready);
}

/// A peer with two NIDs in a full table, of which number 1 has a ping or push under way outside of
/// a round, at place 0 of `sent`. All other entries have connections.
fn full_table_around(asked: fn(&mut Alone)) -> Alone {
    let mut alone = Alone::new(Tunables { peers_max: 16, ..Tunables::default() });
    alone.link(1, LinkEvent::Up);
    alone.discover(1, &[&[1, 2]]);
    alone.discover(2, &[&[1, 2]]);
    for other in 100..114 {
        alone.link(other, LinkEvent::Up);
    }
    asked(&mut alone);
    assert_eq!(alone.sent.len(), 1);
    alone
}

/// In one read of the driver the answer to number 1 arrives, its connection ends, and a new NID
/// connects; the core handles the answer after that.
fn answered_and_evicted(alone: &mut Alone, body: impl Fn(&SendAction) -> Body, bytes: &[u8]) {
    let send = alone.sent.remove(0);
    assert_eq!(send.to.nid, test_nid(1));
    let (now, node) = (alone.now, &mut alone.net.nodes[0]);
    node.shard.done(now, send.op, Status::Ok);
    let header = Header {
        dst: process(0),
        src: process(1),
        payload_len: bytes.len() as u32,
        body: body(&send),
    };
    if let Verdict::Into { op, spans } = node.shard.recv_header(now, arrival(1), &header) {
        node.memory.write(spans[0], bytes);
        node.shard.done(now, op, Status::Ok);
    }
    let closed = LinkEvent::Down { status: Status::Protocol };
    node.shard.link(now, NiIndex(0), process(1), closed);
    node.shard.link(now, NiIndex(0), process(114), LinkEvent::Up);
    let entry = |index| node.shard.peers.peek(&test_nid(index)).is_some();
    assert_eq!([1, 2].map(entry), [false, true]);
    alone.drive();
    assert!(alone.sent.is_empty(), "nothing is sent to a NID that was evicted");
    let mut peers = alone.shard().peers.peers.values();
    assert!(peers.all(|peer| !peer.recheck_in_flight && !peer.update_in_flight));
}

/// An answer that was cut off leads to another ping. The peer was evicted with its last NID to make
/// room for that ping's.
#[test]
fn no_ping_follows_to_a_nid_that_was_evicted() {
    let mut alone = full_table_around(|alone| alone.garbage(1));
    let listed: Vec<usize> = (200..299).collect();
    let mut answer = alone.info(&listed, usual());
    answer.truncate(272);
    let reply = |send: &SendAction| match send.header.body {
        Body::Get { return_md, .. } => Body::Reply { md: return_md },
        other => panic!("{other:?}"),
    };
    answered_and_evicted(&mut alone, reply, &answer);
}

/// The same with a push, of information that has changed meanwhile.
#[test]
fn no_push_follows_to_a_nid_that_was_evicted() {
    let mut alone = full_table_around(|alone| {
        let (now, node) = (alone.now, &mut alone.net.nodes[0]);
        for discovery in [0, 1] {
            let tunables = Tunables { discovery, ..node.shard.topology().tunables.clone() };
            node.shard.set_tunables(now, &mut node.memory, tunables);
        }
        alone.drive();
    });
    let ack = |send: &SendAction| match send.header.body {
        Body::Put { ack_md, match_bits, .. } => Body::Ack { md: ack_md, match_bits, mlength: 0 },
        other => panic!("{other:?}"),
    };
    answered_and_evicted(&mut alone, ack, &[]);
}

/// The lists of peers that are gone are removed to make room for the lists of reachable peers.
#[test]
fn lists_of_lost_peers_are_removed_first() {
    let mut alone = Alone::new(Tunables { peers_max: 64, ..Tunables::default() });
    for liar in 0..6 {
        let from = 100 * (1 + liar);
        let list: Vec<usize> = (from..from + 14).collect();
        alone.link(from, LinkEvent::Up);
        alone.pushed(from, &list, usual());
        alone.swallow();
        alone.link(from, LinkEvent::Down { status: Status::ConnectionLost });
    }
    alone.now = alone.now + Nanos::from_secs(3600);
    alone.discover(1, &[&[1, 2]]);
    assert!(alone.together(1, 2));
    // The lists of reachable peers stay: entries beyond the limit are left out.
    alone.link(1, LinkEvent::Up);
    for liar in 0..6 {
        let from = 100 * (1 + liar);
        let list: Vec<usize> = (from..from + 14).collect();
        alone.link(from, LinkEvent::Up);
        alone.pushed(from, &list, usual());
        alone.swallow();
    }
    assert!(alone.together(1, 2));
    alone.discover(3, &[&[3, 4]]);
    assert!(!alone.together(3, 4) && alone.together(1, 2));
}

proptest! {
    /// For all reports of other peers, answered or not: a reachable node that has not claimed their
    /// NIDs keeps its own NIDs and its primary NID, and messages to it are sent at once.
    #[test]
    fn no_peer_stops_messages_to_a_reachable_node(
        steps in proptest::collection::vec(
            (3..=NIDS, 0u8..12, proptest::collection::vec(0..=NIDS, 0..6)), 1..60),
    ) {
        let mut alone = Alone::new(Tunables::default());
        alone.link(1, LinkEvent::Up);
        alone.link(2, LinkEvent::Up);
        for nid in [1, 2] {
            alone.discover(nid, &[&[1, 2]]);
        }
        for (from, what, nids) in steps {
            match what {
                0 | 1 => alone.garbage(from),
                2 => alone.link(from, LinkEvent::Up),
                3 => alone.link(from, LinkEvent::Down { status: Status::ConnectionLost }),
                4 => alone.link(from, LinkEvent::Restarted),
                5 => alone.now = alone.now + Nanos::from_secs(30),
                6 => alone.pushed(from, &nids, usual() - Features::DISCOVERY),
                _ => {
                    let mut nids = nids;
                    nids.insert(usize::from(what) % (nids.len() + 1), from);
                    alone.pushed(from, &nids, usual());
                }
            }
            let (now, node) = (alone.now, &mut alone.net.nodes[0]);
            node.shard.drive(now, &mut node.memory);
            alone.drive();
            // The others never answer.
            while let Some((_, to)) = alone.outgoing().first().copied() {
                alone.finish(0, Status::Ok, (to <= 2).then_some(&[1, 2]));
            }
            for nid in [1, 2] {
                alone.put(nid, 0);
                prop_assert_eq!(alone.outgoing(), [("PUT", nid)]);
                alone.swallow();
                prop_assert_eq!(alone.primary(nid), Some(test_nid(1)));
            }
        }
    }
}

/// A peer that claims the NID of an absent node does not get the messages for that node.
#[test]
fn entries_for_one_node_do_not_match_another_that_claims_to_be_it() {
    let a_put =
        Body::Put { ack_md: MdHandle::NONE, match_bits: 9, hdr_data: 0, portal: 30, offset: 0 };
    let takes = |alone: &mut Alone, from: usize| {
        alone.arrives(from, a_put, &[7; 8]);
        alone.net.events(0).iter().any(|event| matches!(event.kind, EventKind::Put))
    };
    for (claimed, sender, taken) in [(false, 2, true), (true, 5, false), (true, 1, true)] {
        let mut alone = Alone::new(Tunables::default());
        alone.discover(1, &[&[1, 2]]);
        alone.put(2, 1);
        alone.answer_all(&[&[1, 2]]);
        if claimed {
            alone.link(5, LinkEvent::Up);
            alone.pushed(5, &[5, 1], usual());
            alone.swallow();
            assert!(alone.together(1, 5), "no reachable node contradicts");
        }
        alone.net.events(0);
        let entry =
            MatchEntry { from: MatchId { nid: test_nid(1), pid: PID_ANY }, ..anybody(9, 0) };
        let sink = alone.net.span(0, 8, 0);
        alone.net.attach(0, 30, entry, md(sink, None, MdOptions::OP_PUT, 3));
        assert_eq!(takes(&mut alone, sender), taken, "of {sender}");
    }
}

/// A source NID that differs from that of the connection is not trusted.
#[test]
fn entries_for_one_node_do_not_match_messages_sent_in_its_name() {
    let entry = MatchEntry { from: MatchId { nid: test_nid(1), pid: PID_LUSTRE }, ..anybody(9, 0) };
    let a_put =
        Body::Put { ack_md: MdHandle::NONE, match_bits: 9, hdr_data: 0, portal: 30, offset: 0 };
    let a_get = Body::Get {
        return_md: MdHandle { interface: 1, object: 1 },
        match_bits: 9,
        portal: 30,
        offset: 0,
        sink_len: 8,
    };
    let user = ProcessId { pid: PID_USERLAND | 40_000, ..process(1) };
    for (body, options, len) in [(a_put, MdOptions::OP_PUT, 8), (a_get, MdOptions::OP_GET, 0)] {
        for lazy in [false, true] {
            let mut alone = Alone::new(Tunables::default());
            alone.discover(1, &[&[1, 2]]);
            alone.discover(2, &[&[1, 2]]);
            if lazy {
                alone.shard().set_lazy(30, Laziness::Lazy).unwrap();
            }
            let now = alone.now;
            let verdict = |alone: &mut Alone, hop: ProcessId| {
                let rx = RxId(u64::from(hop.pid));
                let by = Arrival { ni: NiIndex(0), from: hop, rx };
                let src = process(1);
                let header = Header { dst: process(0), src, payload_len: len, body };
                alone.shard().recv_header(now, by, &header)
            };
            let refusal = match len {
                0 => Verdict::Drop,
                _ if lazy => Verdict::Park,
                _ => Verdict::Drop,
            };
            let attach = |alone: &mut Alone| {
                let sink = alone.net.span(0, 8, 0);
                alone.net.attach(
                    0,
                    30,
                    entry,
                    md(sink, None, options | MdOptions::MANAGE_REMOTE, 3),
                );
            };
            attach(&mut alone);
            for hop in [process(5), user] {
                assert_eq!(verdict(&mut alone, hop), refusal, "{hop}, lazy: {lazy}");
            }
            // Waiting messages do not match its entries later, either.
            attach(&mut alone);
            let resumed = core::iter::from_fn(|| alone.shard().next_action())
                .any(|action| matches!(action, Action::Resume { .. }));
            assert!(!resumed);
            for hop in [process(1), process(2)] {
                let taken = verdict(&mut alone, hop);
                assert!(!matches!(taken, Verdict::Drop | Verdict::Park), "{hop}: {taken:?}");
            }
        }
    }
}
