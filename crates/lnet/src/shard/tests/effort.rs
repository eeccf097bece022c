//! The cost of many operations that are withdrawn: steps are counted, not time.

use super::*;

const CROWD: u64 = 10_000;

/// Largest number of links of waiting queues that one message may touch when it enters and leaves.
const TOUCHED_MAX: u64 = 10;

fn crowd(net: &mut Net, target: ProcessId) -> Vec<MdKey> {
    (0..CROWD)
        .map(|user| {
            let span = net.span(0, 8, 0);
            let md = net.bind(0, span, 1, user);
            net.put(0, put_args(md, target, 30, 1));
            md
        })
        .collect()
}

/// Unlinks all, the last one first: the order in which a search from the front takes longest.
fn withdraw(net: &mut Net, mds: &[MdKey]) -> u64 {
    let shard = &mut net.nodes[0].shard;
    let before = shard.msgs.queues.touched.get();
    for md in mds.iter().rev() {
        shard.unlink(NOW, *md);
    }
    shard.msgs.queues.touched.get() - before
}

#[test]
fn withdrawing_all_that_wait_for_discovery_is_linear() {
    let mut net = Net::new(2, &Tunables::default());
    let mds = crowd(&mut net, process(1));
    let touched = withdraw(&mut net, &mds);
    assert!(touched > 0 && touched <= CROWD * TOUCHED_MAX, "{touched}");
    assert_eq!(net.events(0).iter().filter(|event| event.unlinked).count() as u64, CROWD);
    net.run(NOW);
    net.assert_quiet();
}

#[test]
fn withdrawing_all_that_wait_for_a_credit_is_linear() {
    // First the peer's credits are exhausted, then the interface's.
    for (credits, peer_credits) in [(256, 8), (2, 65_535)] {
        let mut net = Net::new(2, &Tunables { credits, peer_credits, ..Tunables::default() });
        net.nodes[0].shard.discover(NOW, &test_nid(1)).unwrap();
        net.run(NOW);
        let mds = crowd(&mut net, process(1));
        let touched = withdraw(&mut net, &mds);
        assert!(touched > 0 && touched <= CROWD * TOUCHED_MAX, "{touched}");
        net.run(NOW);
        assert_eq!(net.events(0).iter().filter(|event| event.unlinked).count() as u64, CROWD);
        net.assert_quiet();
    }
}

#[test]
fn forgetting_all_that_are_parked_is_linear() {
    let mut net = Net::new(2, &Tunables::default());
    let shard = &mut net.nodes[1].shard;
    shard.set_lazy(30, Laziness::Lazy).unwrap();
    let body =
        Body::Put { ack_md: MdHandle::NONE, match_bits: 1, hdr_data: 0, portal: 30, offset: 0 };
    let header = Header { dst: process(1), src: process(0), payload_len: 8, body };
    for rx in 0..CROWD {
        let arrival = Arrival { ni: NiIndex(0), from: process(0), rx: RxId(rx) };
        assert_eq!(shard.recv_header(NOW, arrival, &header), Verdict::Park);
    }
    let before = shard.portals.parked.queues.touched.get();
    for rx in (0..CROWD).rev() {
        shard.forget(NiIndex(0), RxId(rx));
    }
    let touched = shard.portals.parked.queues.touched.get() - before;
    assert!(touched > 0 && touched <= CROWD * TOUCHED_MAX, "{touched}");
    // None of them returns.
    let sink = net.span(1, 8, 0);
    net.attach(1, 30, anybody(1, 0), md(sink, Some(1), MdOptions::OP_PUT, 0));
    assert!(net.nodes[1].shard.next_action().is_none());
}

/// Many GETs served from one portal, each from its own descriptor: each descriptor knows its REPLY.
#[test]
fn withdrawing_descriptors_with_replies_in_transit_searches_nothing() {
    let mut net = Net::new(2, &Tunables { peer_credits: 1, ..Tunables::default() });
    let shard_mds: Vec<MdKey> = (0..CROWD)
        .map(|bits| {
            let span = net.span(1, 8, 0);
            net.attach(1, 30, anybody(bits, 0), md(span, Some(1), MdOptions::OP_GET, bits))
        })
        .collect();
    let shard = &mut net.nodes[1].shard;
    for match_bits in 0..100 {
        let return_md = MdHandle { interface: 1, object: 2 };
        let body = Body::Get { return_md, match_bits, portal: 30, offset: 0, sink_len: 8 };
        let header = Header { dst: process(1), src: process(0), payload_len: 0, body };
        let arrival = Arrival { ni: NiIndex(0), from: process(0), rx: RxId(1) };
        assert_eq!(shard.recv_header(NOW, arrival, &header), Verdict::Done);
    }
    for (bits, md) in shard_mds.iter().enumerate().take(100) {
        assert!(shard.mds[*md].request.is_some(), "{bits}");
        shard.unlink(NOW, *md);
    }
    // The driver already had one; the others have left the queue.
    assert_eq!(shard.msgs.len(), 1);
}

/// Many PUTs that wait for other match bits add no cost to an attach.
#[test]
fn an_attach_looks_only_at_parked_puts_that_can_match() {
    let mut net = Net::new(2, &Tunables::default());
    let shard = &mut net.nodes[1].shard;
    shard.set_lazy(30, Laziness::Lazy).unwrap();
    for rx in 0..CROWD {
        let match_bits = rx / 2;
        let body =
            Body::Put { ack_md: MdHandle::NONE, match_bits, hdr_data: 0, portal: 30, offset: 0 };
        let header = Header { dst: process(1), src: process(0), payload_len: 8, body };
        let arrival = Arrival { ni: NiIndex(0), from: process(0), rx: RxId(rx) };
        assert_eq!(shard.recv_header(NOW, arrival, &header), Verdict::Park);
    }
    let touched = |shard: &Shard| {
        shard.portals.parked.queues.touched.get() + shard.portals.parked.same_bits.touched.get()
    };
    let before = touched(shard);
    let sinks: Vec<Span> = (0..100).map(|_| net.span(1, 16, 0)).collect();
    for (bits, sink) in sinks.into_iter().enumerate() {
        let bits = CROWD / 4 + bits as u64;
        net.attach(1, 30, anybody(bits, 0), md(sink, Some(2), MdOptions::OP_PUT, bits));
    }
    let touched = touched(&net.nodes[1].shard) - before;
    assert!(touched > 0 && touched <= 200 * 2 * TOUCHED_MAX, "{touched}");
    let resumed: Vec<u64> = core::iter::from_fn(|| net.nodes[1].shard.next_action())
        .map(|action| match action {
            Action::Resume { rx, verdict: Verdict::Into { .. }, .. } => rx.0,
            action => panic!("{action:?}"),
        })
        .collect();
    assert_eq!(resumed, (CROWD / 2..CROWD / 2 + 200).collect::<Vec<u64>>());
}

/// Many peers that are lost one after the other, each while an answer from it is awaited: each loss
/// costs the operations of that peer, not those of all peers.
#[test]
fn losing_peers_one_by_one_is_linear() {
    let mut net = Net::new(1, &Tunables { credits: 65_535, ..Tunables::default() });
    for index in 0..CROWD {
        let (target, span) = (crowd_member(index), net.span(0, 64, 0));
        net.nodes[0].shard.link(NOW, NiIndex(0), target, LinkEvent::Up);
        let md = net.bind(0, span, 2, index);
        net.get(0, get_args(md, target, PING_PORTAL, PING_BITS));
    }
    let shard = &mut net.nodes[0].shard;
    while let Some(action) = shard.next_action() {
        let Action::Send(send) = action else { panic!("{action:?}") };
        shard.done(NOW, send.op, Status::Ok);
    }
    let before = shard.answers.touched.get();
    for index in 0..CROWD {
        let lost = LinkEvent::Down { status: Status::ConnectionLost };
        shard.link(NOW, NiIndex(0), crowd_member(index), lost);
    }
    let touched = shard.answers.touched.get() - before;
    assert!(touched > 0 && touched <= CROWD * TOUCHED_MAX, "{touched}");
    let finals = net.events(0).iter().filter(|event| event.unlinked).count();
    assert_eq!(finals as u64, CROWD);
    let reports = core::iter::from_fn(|| net.nodes[0].shard.next_lost_peer()).count();
    assert_eq!(reports as u64, CROWD);
    net.assert_quiet();
}

fn crowd_member(index: u64) -> ProcessId {
    ProcessId { nid: Nid::new4(NetId::TCP, 0x0c00_0000 + index as u32), pid: PID_LUSTRE }
}

/// Removing many NIDs leaves at most as many free places as there are entries.
#[test]
fn removed_nids_leave_bounded_free_places() {
    let mut net = Net::new(1, &Tunables::default());
    let shard = &mut net.nodes[0].shard;
    for index in 0..1000 {
        let nid = crowd_member(index).nid;
        shard.discover(NOW, &nid).unwrap();
        shard.begin_nid_removal(NOW, &[nid]);
        shard.finish_nid_removal(&[nid]);
        assert_eq!(shard.peer_count(), 0);
        assert!(shard.peers.clock_len() <= 100);
    }
}
