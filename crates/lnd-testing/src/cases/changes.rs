//! Changes to a driver that runs: interfaces, peers to be forgotten, values, its end.

use lustrine_lnet::lnd::{LinkEvent, NiIndex};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;

use crate::testbed::{Command, Setup, StopKind, Testbed, nid_of};
use crate::world::{Message, World, process};

/// An interface that is added carries messages, beside those that were there.
pub fn an_interface_that_is_added_carries_messages<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    world.assert_passes(Message::put(0, 1, 1, 1 << 20), 1);
    for node in 0..2 {
        world.command(node, Command::AddNi(NiIndex(1), nid_of(node, 1)));
    }
    world.settle();
    for (key, from, to) in [(2, 0, 1), (3, 1, 0)] {
        world.assert_passes(Message::put(from, to, key, 1 << 20).by(1, to), to);
        assert_eq!(world.received(to, key).ni, NiIndex(1));
    }
    world.assert_passes(Message::put(1, 0, 4, 64), 0);
    assert_eq!(world.events(0, process(1, 0)), [LinkEvent::Up]);
    assert_eq!(world.events(0, process(1, 1)), [LinkEvent::Up]);
    world.finish();
}

/// An interface that is removed takes its connections and its messages with it, and no others; its
/// index can be given to another one.
pub fn an_interface_that_is_removed_takes_its_messages_with_it<T: Testbed>() {
    let mut world = World::<T>::new(&Setup { nis: 2, nodes: 3, ..Setup::default() });
    world.assert_passes(Message::put(0, 1, 1, 64), 1);
    world.assert_passes(Message::put(0, 1, 2, 64).by(1, 1), 1);
    world.sever(2);
    let lost = world.send(Message::put(0, 2, 3, 64).by(1, 2));
    let kept = world.send_expected(Message::put(0, 2, 4, 64), 2);
    world.settle();
    world.command(0, Command::RemoveNi(NiIndex(1), Status::Unreachable));
    world.settle();
    assert_eq!(world.status(0, lost), Some(Status::Unreachable));
    assert_eq!(world.status(0, kept), None);
    let down = LinkEvent::Down { status: Status::Unreachable };
    assert_eq!(world.events(0, process(1, 1)), [LinkEvent::Up, down]);
    assert_eq!(world.events(0, process(1, 0)), [LinkEvent::Up]);
    // No node reaches it there any more.
    let refused = world.send(Message::put(1, 0, 5, 64).by(1, 0));
    world.run(Nanos::from_secs(110));
    assert!(world.status(1, refused).is_some_and(|status| !status.is_ok()));
    world.assert_passes(Message::put(1, 0, 6, 64), 0);
    for node in 0..2 {
        if node == 1 {
            world.command(1, Command::RemoveNi(NiIndex(1), Status::Unreachable));
        }
        world.command(node, Command::AddNi(NiIndex(1), nid_of(node, 2)));
    }
    world.settle();
    let message = Message { ni: 1, to: process(1, 2), ..Message::put(0, 1, 7, 64) };
    let op = world.send_expected(message, 1);
    world.settle();
    assert_eq!(world.status(0, op), Some(Status::Ok));
    assert_eq!(world.received(1, 7).from, process(0, 2));
    world.heal(2);
    world.run(Nanos::from_secs(10));
    world.finish();
}

/// Peers that are closed by their NIDs lose their connections and what waits for them, and no
/// others do.
pub fn closing_nids_closes_these_peers_only<T: Testbed>() {
    let mut world = World::<T>::new(&Setup { nodes: 4, ..Setup::default() });
    for to in 1..=2 {
        world.assert_passes(Message::put(0, to, to as u64, 64), to);
    }
    world.sever(3);
    let waits = world.send(Message::put(0, 3, 3, 64));
    world.settle();
    let nids = vec![nid_of(1, 0), nid_of(3, 0)];
    world.command(0, Command::CloseNids(nids, Status::ConnectionLost));
    world.settle();
    assert_eq!(world.status(0, waits), Some(Status::ConnectionLost));
    let down = LinkEvent::Down { status: Status::ConnectionLost };
    assert_eq!(world.events(0, process(1, 0)), [LinkEvent::Up, down]);
    assert_eq!(world.events(0, process(2, 0)), [LinkEvent::Up]);
    world.assert_passes(Message::put(0, 1, 4, 64), 1);
    world.assert_passes(Message::put(2, 0, 5, 64), 0);
    world.finish();
}

/// Values that are changed while a driver runs count from then on: here, how long it waits before
/// it connects again.
pub fn tunables_count_from_when_they_are_set<T: Testbed>() {
    let setup = Setup::default().with("min_reconnectms", 1000).with("max_reconnectms", 1000);
    for (seconds, change) in [(1, None), (8, Some(8000))] {
        let mut world = World::<T>::new(&setup);
        world.stop(1, StopKind::Killed);
        if let Some(value) = change {
            let mut tunables = setup.tunables.clone();
            for name in ["max_reconnectms", "min_reconnectms"] {
                tunables.set(name, value).expect("a tunable");
            }
            world.command(0, Command::SetTunables(Box::new(tunables)));
        }
        let first = world.send(Message::put(0, 1, 1, 64));
        world.run(Nanos::from_millis(500));
        let failed = world.ended_at(0, first).expect("no node listens there");
        let second = world.send(Message::put(0, 1, 2, 64));
        world.run(Nanos::from_secs(20));
        let waited = world.ended_at(0, second).expect("no node listens there").since(failed);
        // A driver may add an eighth at random.
        let (least, most) = (Nanos::from_secs(seconds), Nanos::from_millis(seconds * 1250));
        assert!((least..=most).contains(&waited), "{waited:?} instead of {seconds} s");
        world.finish();
    }
}

/// Messages pass while the number of connections to each peer is changed.
pub fn messages_pass_while_the_number_of_connections_changes<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    for key in 0..60 {
        world.send_expected(Message::put(0, 1, key, 200_000), 1);
        if key % 20 == 10 {
            let count = 1 + (key / 20) as u16 * 2;
            world.command(0, Command::SetConnsPerPeer(NiIndex(0), count));
        }
        world.run(Nanos::from_millis(2));
    }
    world.run(Nanos::from_secs(10));
    for key in 0..60 {
        world.assert_stored(1, key, 200_000, 200_000);
    }
    assert_eq!(world.events(0, process(1, 0)), [LinkEvent::Up]);
    world.finish();
}

/// A driver that closes everything ends all messages with its status, also those that come later,
/// and takes nothing in any more: the model checks that nothing arrives.
pub fn a_driver_that_is_closed_does_no_more_work<T: Testbed>() {
    let mut world = World::<T>::new(&Setup { nodes: 3, ..Setup::default() });
    world.assert_passes(Message::put(0, 1, 1, 64), 1);
    world.sever(2);
    let waits = world.send(Message::put(0, 2, 2, 64));
    world.settle();
    world.command(0, Command::CloseAll(Status::Shutdown));
    world.settle();
    assert_eq!(world.status(0, waits), Some(Status::Shutdown));
    let down = LinkEvent::Down { status: Status::Shutdown };
    assert_eq!(world.events(0, process(1, 0)), [LinkEvent::Up, down]);
    let events = world.events(1, process(0, 0));
    assert!(matches!(events[..], [LinkEvent::Up, LinkEvent::Down { .. }]), "{events:?}");
    let late = world.send(Message::put(0, 1, 3, 64));
    let refused = world.send(Message::put(1, 0, 4, 64));
    world.run(Nanos::from_secs(110));
    assert_eq!(world.status(0, late), Some(Status::Shutdown));
    assert!(world.status(1, refused).is_some_and(|status| !status.is_ok()));
    let view = world.bed.view(0, 0);
    assert!(!view.has_work && view.next_deadline > world.bed.now(), "work after the end");
    assert_eq!(view.peers, [], "peers after the end");
    world.finish();
}
