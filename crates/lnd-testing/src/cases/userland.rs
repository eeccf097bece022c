//! Userland peers, for drivers that have them ([USR-2]). Node 0 is one.

use lustrine_lnet::lnd::LinkEvent;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_wire::nid::ProcessId;

use crate::testbed::{Setup, StopKind, Testbed};
use crate::world::{Message, World, process};

fn setup() -> Setup {
    Setup { userland: true, ..Setup::default() }
}

/// The name that node 1 has for node 0, which has connected.
fn renamed<T: Testbed>(world: &mut World<T>) -> ProcessId {
    world.assert_passes(Message::put(0, 1, 1, 64), 1);
    let from = world.received(1, 1).from;
    assert!(from.is_userland(), "{from:?}");
    assert_eq!(world.received(1, 1).header.src, from, "the header has the new name, too");
    from
}

/// A userland peer is renamed, and is reached over the connection that it has opened.
pub fn a_userland_peer_is_reached_over_its_own_connection<T: Testbed>() {
    let mut world = World::<T>::new(&setup());
    let peer = renamed(&mut world);
    assert_eq!(world.events(1, peer), [LinkEvent::Up]);
    for (key, len) in (2..).zip([0, 4096, 1 << 20]) {
        world.assert_passes(Message { to: peer, ..Message::put(1, 0, key, len) }, 0);
        assert_eq!(world.received(0, key).from, process(1, 0));
    }
    world.finish();
}

/// A userland peer that has gone is not connected to: what is sent to it fails at once.
pub fn a_userland_peer_that_has_gone_is_not_reached<T: Testbed>() {
    let mut world = World::<T>::new(&setup());
    let peer = renamed(&mut world);
    world.stop(0, StopKind::Killed);
    world.settle();
    let events = world.events(1, peer);
    assert!(matches!(events[..], [LinkEvent::Up, LinkEvent::Down { .. }]), "{events:?}");
    let op = world.send(Message { to: peer, ..Message::put(1, 0, 2, 64) });
    world.run(Nanos::from_millis(10));
    assert_eq!(world.status(1, op), Some(Status::Unreachable));
    world.finish();
}
