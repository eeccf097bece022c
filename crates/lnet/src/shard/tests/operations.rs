//! PUT, GET, ACK, REPLY between two nodes, and to this node itself.

use super::*;

#[test]
fn put_with_ack_stores_and_confirms() {
    let mut net = Net::new(2, &Tunables::default());
    let (source, sink) = (net.span(0, 5, 7), net.span(1, 16, 0));
    net.attach(1, 30, anybody(0x11, 0), md(sink, Some(1), MdOptions::OP_PUT, 42));
    let from = net.bind(0, source, 2, 1);
    net.put(0, PutArgs { ack: AckWanted::Yes, ..put_args(from, process(1), 30, 0x11) });
    net.run(NOW);

    let at_target = net.events(1);
    assert_eq!(at_target.len(), 1);
    let put = at_target[0];
    assert_eq!((put.kind, put.status, put.unlinked), (EventKind::Put, Status::Ok, true));
    assert_eq!((put.user, put.moved, put.requested, put.offset), (42, 5, 5, 0));
    assert_eq!((put.portal, put.match_bits, put.hdr_data), (30, 0x11, 0xdead));
    assert_eq!((put.peer, put.local), (process(0), process(1)));
    assert_eq!(net.bytes(1, sink)[..6], [7, 7, 7, 7, 7, 0]);

    let kinds: Vec<_> = net.events(0).iter().map(|e| (e.kind, e.moved, e.unlinked)).collect();
    assert_eq!(kinds, [(EventKind::Send, 5, false), (EventKind::Ack, 5, true)]);
    net.assert_quiet();
}

#[test]
fn get_fetches_the_bytes_at_the_offset() {
    let mut net = Net::new(2, &Tunables::default());
    let (source, sink) = (net.span(1, 100, 9), net.span(0, 64, 0));
    let options = MdOptions::OP_GET | MdOptions::MANAGE_REMOTE | MdOptions::TRUNCATE;
    net.attach(1, 30, anybody(5, 0), md(source, None, options, 2));
    let into = net.bind(0, sink, 2, 1);
    net.get(0, GetArgs { offset: 60, ..get_args(into, process(1), 30, 5) });
    net.run(NOW);

    let at_target = net.events(1);
    assert_eq!((at_target[0].kind, at_target[0].offset), (EventKind::Get, 60));
    assert_eq!((at_target[0].moved, at_target[0].requested), (40, 64));
    let ours = net.events(0);
    assert_eq!(
        ours.iter().map(|e| e.kind).collect::<Vec<_>>(),
        [EventKind::Send, EventKind::Reply]
    );
    assert_eq!((ours[1].moved, ours[1].unlinked), (40, true));
    assert_eq!(net.bytes(0, sink)[39..41], [9, 0]);
    net.assert_quiet();
}

#[test]
fn loopback_operations_use_no_driver() {
    let mut net = Net::new(1, &Tunables::default());
    let lo = ProcessId { nid: Nid::LO, pid: PID_LUSTRE };
    let (source, sink) = (net.span(0, 32, 3), net.span(0, 32, 0));
    let both = MdOptions::OP_GET | MdOptions::OP_PUT;
    net.nodes[0].shard.set_lazy(30, Laziness::Lazy).unwrap();
    let from = net.bind(0, source, 2, 1);
    net.put(0, PutArgs { ack: AckWanted::Yes, ..put_args(from, lo, 30, 8) });
    net.run(NOW);
    assert!(net.events(0).is_empty(), "parked until an entry is attached");
    net.attach(0, 30, anybody(8, 0), md(sink, Some(2), both, 2));
    net.run(NOW);
    let kinds: Vec<_> = net.events(0).iter().map(|e| (e.user, e.kind, e.unlinked)).collect();
    assert_eq!(
        kinds,
        [(2, EventKind::Put, false), (1, EventKind::Ack, false), (1, EventKind::Send, true)]
    );
    assert_eq!(net.bytes(0, sink), [3; 32]);

    let back = net.span(0, 16, 0);
    let into = net.bind(0, back, 2, 4);
    net.nodes[0].shard.unlink(NOW, MdKey::null());
    net.get(0, get_args(into, lo, 30, 8));
    net.run(NOW);
    // The running offset is at the end after the PUT: no bytes remain to be read, and without
    // TRUNCATE the GET is dropped; its answer times out.
    let later = NOW + Nanos::from_secs(200);
    net.run(later);
    let events = net.events(0);
    assert_eq!(events[0].kind, EventKind::Send);
    assert_eq!((events[1].kind, events[1].status), (EventKind::Unlink, Status::TimedOut));
}

/// The descriptor at the target counts the operation when it matches, and waits for its end.
#[test]
fn a_loopback_put_that_has_matched_is_delivered_though_its_descriptor_is_unlinked() {
    let mut net = Net::new(1, &Tunables::default());
    let lo = ProcessId { nid: Nid::LO, pid: PID_LUSTRE };
    let (source, sink) = (net.span(0, 4, 3), net.span(0, 4, 0));
    net.nodes[0].shard.set_lazy(30, Laziness::Lazy).unwrap();
    let from = net.bind(0, source, 2, 1);
    net.put(0, PutArgs { ack: AckWanted::Yes, ..put_args(from, lo, 30, 8) });
    net.run(NOW);
    net.attach(0, 30, anybody(8, 0), md(sink, Some(1), MdOptions::OP_PUT, 2));
    net.nodes[0].shard.unlink(NOW, from);
    net.run(NOW);
    let kinds: Vec<_> = net.events(0).iter().map(|e| (e.user, e.kind, e.unlinked)).collect();
    assert_eq!(
        kinds,
        [(2, EventKind::Put, true), (1, EventKind::Ack, false), (1, EventKind::Send, true)]
    );
    assert_eq!(net.bytes(0, sink), [3; 4]);
    let shard = &net.nodes[0].shard;
    assert!(!shard.mds.contains_key(from), "nothing is left of it");
    net.assert_quiet();
}

/// All PUTs that an entry takes off a lazy portal are delivered, also when they use it up.
#[test]
fn loopback_puts_that_waited_are_all_delivered() {
    let mut net = Net::new(1, &Tunables::default());
    let lo = ProcessId { nid: Nid::LO, pid: PID_LUSTRE };
    net.nodes[0].shard.set_lazy(30, Laziness::Lazy).unwrap();
    for user in [1, 2] {
        let source = net.span(0, 4, user as u8);
        let from = net.bind(0, source, 1, user);
        net.put(0, put_args(from, lo, 30, 8));
    }
    net.run(NOW);
    let sink = net.span(0, 8, 0);
    net.attach(0, 30, anybody(8, 0), md(sink, Some(2), MdOptions::OP_PUT, 3));
    net.run(NOW);
    let kinds: Vec<_> = net.events(0).iter().map(|e| (e.user, e.kind, e.unlinked)).collect();
    let (put, send) = (EventKind::Put, EventKind::Send);
    assert_eq!(kinds, [(3, put, false), (1, send, true), (3, put, true), (2, send, true)]);
    assert_eq!(net.bytes(0, sink), [1, 1, 1, 1, 2, 2, 2, 2]);
    net.assert_quiet();
}

#[test]
fn a_net_without_a_local_interface() {
    let mut net = Net::new(1, &Tunables::default());
    let span = net.span(0, 8, 1);
    let from = net.bind(0, span, 1, 1);
    let far = ProcessId { nid: Nid::new4(NetId { number: 9, ..NetId::TCP }, 1), pid: PID_LUSTRE };
    net.put(0, put_args(from, far, 30, 1));
    let events = net.events(0);
    assert_eq!((events[0].kind, events[0].status), (EventKind::Send, Status::Unreachable));
    assert!(events[0].unlinked);
    net.assert_quiet();
}

#[test]
fn credits_bound_messages_in_transit_and_keep_the_order() {
    let tunables = Tunables { peer_credits: 2, credits: 3, ..Tunables::default() };
    let mut net = Net::new(3, &tunables);
    let sink = net.span(1, 4096, 0);
    let options = MdOptions::OP_PUT;
    net.attach(1, 30, anybody(0, u64::MAX), md(sink, None, options, 0));
    // Make the peers known first.
    for target in [1, 2] {
        let span = net.span(0, 8, 0);
        let from = net.bind(0, span, 1, 0);
        net.put(0, put_args(from, process(target), 30, 0));
    }
    net.run(NOW);
    net.events(0);
    net.events(1);
    for user in 0..6u64 {
        let span = net.span(0, 8, user as u8);
        let from = net.bind(0, span, 1, user);
        let target = if user == 5 { process(2) } else { process(1) };
        net.put(0, put_args(from, target, 30, user));
    }
    net.settle(NOW);
    assert_eq!(net.packets.len(), 3, "two to node 1, one to node 2, three in all");
    let info = net.nodes[0].shard.peer(&test_nid(1)).unwrap();
    assert_eq!((info.credits_available, info.credits_low), (-3, -3));
    net.run(NOW);
    let order: Vec<u64> = net.events(1).iter().map(|event| event.match_bits).collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);
    net.assert_quiet();
}

#[test]
fn refused_calls_change_nothing() {
    let mut net = Net::new(1, &Tunables::default());
    let span = net.span(0, 8, 0);
    let shard = &mut net.nodes[0].shard;
    let no_op = md(span, None, MdOptions::empty(), 0);
    assert_eq!(shard.attach(NOW, 3, anybody(1, 0), no_op), Err(LnetError::NoOperation));
    let put = md(span, None, MdOptions::OP_PUT, 0);
    assert_eq!(shard.attach(NOW, 64, anybody(1, 0), put.clone()), Err(LnetError::BadPortal(64)));
    let attached = shard.attach(NOW, 3, anybody(1, 0), put.clone()).unwrap();
    let unique = MatchEntry { from: MatchId { nid: test_nid(3), pid: 12345 }, ..anybody(1, 0) };
    assert_eq!(shard.attach(NOW, 3, unique, put.clone()), Err(LnetError::PortalKind(3)));
    assert_eq!(shard.put(NOW, put_args(attached, process(3), 1, 1)), Err(LnetError::MdAttached));
    assert_eq!(shard.put(NOW, put_args(MdKey::null(), process(3), 1, 1)), Err(LnetError::NoSuchMd));
    shard.unlink(NOW, attached);
    assert!(shard.attach(NOW, 3, unique, put).is_ok(), "an empty portal loses its character");
}

use crate::error::LnetError;
