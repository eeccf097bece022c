//! Connections: what the core hears of them, and what becomes of messages when they are lost.

use lustrine_lnet::lnd::{LinkEvent, NiIndex};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;

use crate::testbed::{Setup, StopKind, Testbed};
use crate::world::{Message, World, process};

/// The link to a peer is up before its first message, on both sides, and is reported once, however
/// many connections there are. The model checks the first part with each message.
pub fn a_link_is_up_before_the_first_message<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    world.settle();
    assert_eq!(world.events(0, process(1, 0)), [], "no node connects without a reason");
    world.assert_passes(Message::put(0, 1, 1, 1 << 20), 1);
    world.assert_passes(Message::put(1, 0, 2, 1 << 20), 0);
    assert_eq!(world.events(0, process(1, 0)), [LinkEvent::Up]);
    assert_eq!(world.events(1, process(0, 0)), [LinkEvent::Up]);
    world.finish();
}

/// Both sides have something to send at once and connect to each other: everything arrives, and
/// each side has one link.
pub fn two_nodes_that_connect_to_each_other_at_once_have_one_link<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    for key in 0..20 {
        let len = if key % 2 == 0 { 64 } else { 50_000 };
        world.send_expected(Message::put(0, 1, key, len), 1);
        world.send_expected(Message::put(1, 0, key, len), 0);
    }
    world.run(Nanos::from_secs(10));
    for (node, peer) in [(0, 1), (1, 0)] {
        for key in 0..20 {
            let len = if key % 2 == 0 { 64 } else { 50_000 };
            world.assert_stored(node, key, len, len);
        }
        assert_eq!(world.events(node, process(peer, 0)), [LinkEvent::Up]);
    }
    world.finish();
}

/// A peer is killed: its link is down once. What is sent to it afterwards fails.
pub fn a_link_is_down_once_when_the_peer_is_killed<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    world.assert_passes(Message::put(0, 1, 1, 1 << 20), 1);
    world.stop(1, StopKind::Killed);
    world.run(Nanos::from_secs(60));
    let events = world.events(0, process(1, 0));
    assert!(matches!(events[..], [LinkEvent::Up, LinkEvent::Down { .. }]), "{events:?}");
    let op = world.send(Message::put(0, 1, 2, 64));
    world.run(Nanos::from_secs(110));
    assert!(world.status(0, op).is_some_and(|status| !status.is_ok()));
    assert_eq!(world.events(0, process(1, 0)).len(), 2);
    world.finish();
}

/// A peer falls silent while messages are on their way to it: each of them ends, the link is down
/// once, and all that is within the time-out of the driver and a little more.
pub fn messages_to_a_silent_peer_end<T: Testbed>() {
    for zero_copy in [0, 1] {
        let setup = Setup::default().with("sock_timeout", 10).with("zero_copy", zero_copy);
        let mut world = World::<T>::new(&setup);
        world.assert_passes(Message::put(0, 1, 1, 1 << 20), 1);
        world.sever(1);
        let ops: Vec<_> = (2..40)
            .map(|key| {
                let message = Message::put(0, 1, key, 1 << 20);
                world.send(Message { patience: Nanos::from_secs(30), ..message })
            })
            .collect();
        world.run(Nanos::from_secs(60));
        let failed = ops.iter().filter(|op| {
            let status = world.status(0, **op);
            !status.expect("it has ended").is_ok()
        });
        let failed = failed.count();
        assert_ne!(failed, 0, "there is no room for all of them in any buffer");
        if zero_copy == 1 {
            assert_eq!(failed, ops.len(), "the peer has confirmed none of them");
        }
        let events = world.events(0, process(1, 0));
        assert!(matches!(events[..], [LinkEvent::Up, LinkEvent::Down { .. }]), "{events:?}");
        world.finish();
    }
}

/// What has not left at its deadline fails, soon after it and not before.
pub fn a_message_that_waits_fails_at_its_deadline<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    world.sever(1);
    let start = world.bed.now();
    let ops: Vec<_> = [2, 4, 3]
        .map(|seconds| {
            let patience = Nanos::from_secs(seconds);
            let message = Message { patience, ..Message::put(0, 1, seconds, 64) };
            (start + patience, world.send(message))
        })
        .into();
    world.run(Nanos::from_secs(20));
    for (deadline, op) in ops {
        assert_eq!(world.status(0, op), Some(Status::TimedOut));
        let at = world.ended_at(0, op).expect("it has ended");
        let window = deadline..=deadline + Nanos::from_millis(100);
        assert!(window.contains(&at), "{at:?} is not in {window:?}");
    }
    world.finish();
}

/// A message to a NID that no node has fails, and does not wait for its deadline.
pub fn a_message_to_a_nid_without_a_node_fails<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    let op = world.send(Message::put(0, 77, 1, 64));
    world.run(Nanos::from_secs(20));
    assert!(world.status(0, op).is_some_and(|status| !status.is_ok()));
    assert_eq!(world.events(0, process(77, 0)), []);
    world.finish();
}

/// A peer comes back with another incarnation, without a word about its end: the core hears that
/// it has restarted before the link is down, and the link is up again.
pub fn a_peer_that_has_restarted_is_reported<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    world.assert_passes(Message::put(0, 1, 1, 64), 1);
    world.stop(1, StopKind::Silent);
    world.run(Nanos::from_secs(2));
    assert_eq!(world.events(0, process(1, 0)), [LinkEvent::Up]);
    world.start(1);
    world.send_expected(Message::put(1, 0, 2, 64), 0);
    world.run(Nanos::from_secs(10));
    world.assert_stored(0, 2, 64, 64);
    let down = LinkEvent::Down { status: Status::PeerRestarted };
    let expected = [LinkEvent::Up, LinkEvent::Restarted, down, LinkEvent::Up];
    assert_eq!(world.events(0, process(1, 0)), expected);
    world.assert_passes(Message::put(0, 1, 3, 1 << 20), 1);
    world.finish();
}

/// A peer is killed, comes back, and is connected to by the node that stayed: the core hears that
/// it has restarted before the link is up.
pub fn a_peer_that_has_restarted_is_reported_by_the_node_that_connects<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    world.assert_passes(Message::put(0, 1, 1, 64), 1);
    world.stop(1, StopKind::Killed);
    world.settle();
    world.start(1);
    world.assert_passes(Message::put(0, 1, 2, 64), 1);
    let events = world.events(0, process(1, 0));
    let [LinkEvent::Up, LinkEvent::Down { .. }, LinkEvent::Restarted, LinkEvent::Up] = events[..]
    else {
        panic!("{events:?}");
    };
    world.finish();
}

/// The core closes a peer: what waits fails with the core's status, the link is down with it, and
/// the next message connects again.
pub fn a_peer_that_the_core_closes_fails_what_waits<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    world.assert_passes(Message::put(0, 1, 1, 64), 1);
    world.core(0, |core| core.close(NiIndex(0), process(1, 0), Status::Canceled));
    world.settle();
    let down = LinkEvent::Down { status: Status::Canceled };
    assert_eq!(world.events(0, process(1, 0)), [LinkEvent::Up, down]);
    let events = world.events(1, process(0, 0));
    assert!(matches!(events[..], [LinkEvent::Up, LinkEvent::Down { .. }]), "{events:?}");
    world.assert_passes(Message::put(0, 1, 2, 64), 1);
    world.core(0, |core| core.close(NiIndex(0), process(1, 0), Status::Canceled));
    world.settle();
    // Nothing answers: these wait for a connection.
    world.sever(1);
    let ops: Vec<_> = (3..6).map(|key| world.send(Message::put(0, 1, key, 64))).collect();
    world.settle();
    world.core(0, |core| core.close(NiIndex(0), process(1, 0), Status::Canceled));
    world.settle();
    for op in ops {
        assert_eq!(world.status(0, op), Some(Status::Canceled));
    }
    world.finish();
}

/// A driver names its connections by types that it has declared, reports peers while they have
/// connections or messages, and has counters with names of their own that only grow.
pub fn a_driver_reports_its_peers_and_its_counters<T: Testbed>() {
    let mut world = World::<T>::new(&Setup { nodes: 3, ..Setup::default() });
    let before = world.bed.view(0, 0);
    assert_eq!(before.peers, []);
    world.assert_passes(Message::put(0, 1, 1, 1 << 20), 1);
    world.sever(2);
    world.send(Message::put(0, 2, 2, 64));
    world.settle();
    let view = world.bed.view(0, 0);
    let peer = |node: usize| {
        let found = view.peers.iter().find(|peer| peer.id == process(node, 0));
        found.unwrap_or_else(|| panic!("node {node} is missing in {:?}", view.peers))
    };
    assert_eq!((peer(1).ni, peer(1).queued_messages), (NiIndex(0), 0));
    assert!(peer(1).open() >= 1 && peer(1).dialling.is_none());
    assert_eq!((peer(2).open(), peer(2).queued_messages), (0, 1));
    assert!(peer(2).dialling.is_some());
    for (name, _) in view.peers.iter().flat_map(|peer| &peer.connections) {
        assert!(view.connection_types.contains(name), "{name} is not declared");
    }
    assert_eq!(before.counters.len(), view.counters.len());
    let mut grown = 0;
    for (index, (old, new)) in before.counters.iter().zip(&view.counters).enumerate() {
        let name = (new.driver, new.name);
        assert_eq!((old.driver, old.name), name);
        assert_eq!(new.metric.label.is_some(), new.label.is_some(), "{name:?}");
        assert!(new.metric.name.ends_with("_total"), "{name:?}");
        assert!(old.value == 0 && new.value >= old.value, "{name:?}");
        grown += usize::from(new.value > old.value);
        for other in &view.counters[index + 1..] {
            assert_ne!((other.driver, other.name), name);
            assert_ne!((other.metric, other.label), (new.metric, new.label));
        }
    }
    assert_ne!(grown, 0, "nothing was counted");
    world.heal(2);
    world.run(Nanos::from_secs(20));
    world.finish();
}
