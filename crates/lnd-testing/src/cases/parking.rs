//! Messages that wait for the core, and those that the core refuses.

use lustrine_lnet::lnd::{HeaderViolation, LinkEvent};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;

use crate::model::PlannedVerdict;
use crate::testbed::{Setup, StopKind, Testbed};
use crate::world::{Message, World, process};

const LENS: [u32; 4] = [0, 100, 4096, 1 << 20];

/// A parked message waits as long as the core wants, and what stands behind it on its connection
/// too; resumed, it is stored, and the others follow in their order.
pub fn a_parked_message_is_stored_when_it_is_resumed<T: Testbed>() {
    for len in LENS {
        let mut world = World::<T>::new(&Setup::default());
        world.plan(1, 1, PlannedVerdict::Park);
        let parked = world.send(Message::put(0, 1, 1, len));
        let behind: Vec<_> =
            (2..10).map(|key| world.send_expected(Message::put(0, 1, key, len), 1)).collect();
        world.run(Nanos::from_secs(20));
        assert_eq!(world.core(1, |core| core.parked()), [1], "{len} bytes");
        assert_eq!(world.keys(1), [], "nothing overtakes a parked message of its kind");
        let plan = world.sink(1, len, u32::MAX);
        world.core(1, |core| core.resume(1, plan));
        world.run(Nanos::from_secs(5));
        assert_eq!(world.keys(1), (1..10).collect::<Vec<_>>(), "{len} bytes");
        for key in 1..10 {
            world.assert_stored(1, key, len, len);
        }
        for op in behind.into_iter().chain([parked]) {
            assert_eq!(world.status(0, op), Some(Status::Ok));
        }
        world.finish();
    }
}

/// A parked message can be resumed with each verdict, and the next one can be parked in turn.
pub fn a_parked_message_can_be_dropped_when_it_is_resumed<T: Testbed>() {
    for len in LENS {
        let mut world = World::<T>::new(&Setup::default());
        for key in 1..=3 {
            world.plan(1, key, PlannedVerdict::Park);
            world.send(Message::put(0, 1, key, len));
        }
        world.send_expected(Message::put(0, 1, 4, len), 1);
        for (key, plan) in [(1, PlannedVerdict::Drop), (2, PlannedVerdict::Done)] {
            world.run(Nanos::from_secs(2));
            assert_eq!(world.core(1, |core| core.parked()), [key], "{len} bytes");
            world.core(1, |core| core.resume(key, plan));
        }
        world.run(Nanos::from_secs(2));
        let plan = world.sink(1, len / 2, u32::MAX);
        world.core(1, |core| core.resume(3, plan));
        world.run(Nanos::from_secs(2));
        world.assert_stored(1, 3, len, len / 2);
        world.assert_stored(1, 4, len, len);
        world.finish();
    }
}

/// A message is parked when its sender dies: it is forgotten, once, before its link is down.
pub fn a_parked_message_is_forgotten_with_its_connection<T: Testbed>() {
    for len in LENS {
        let mut world = World::<T>::new(&Setup::default());
        world.plan(1, 1, PlannedVerdict::Park);
        world.send(Message::put(0, 1, 1, len));
        world.send_expected(Message::put(0, 1, 2, len), 1);
        world.settle();
        world.stop(0, StopKind::Killed);
        world.settle();
        assert_eq!(world.core(1, |core| (core.forgotten, core.parked())), (1, Vec::new()));
        assert_eq!(world.keys(1), [], "what stood behind it is lost as well");
        assert!(matches!(
            world.events(1, process(0, 0))[..],
            [LinkEvent::Up, LinkEvent::Down { .. }]
        ));
        world.finish();
    }
}

/// The core decides about a parked message in the turn in which its connection is lost: the
/// decision comes too late, and its message ends with an error. A message that is parked on the
/// next connection is another one.
pub fn a_decision_about_a_lost_message_ends_it<T: Testbed>() {
    for len in LENS {
        let mut world = World::<T>::new(&Setup::default());
        world.plan(1, 1, PlannedVerdict::Park);
        world.send(Message::put(0, 1, 1, len));
        world.settle();
        let plan = world.sink(1, len, u32::MAX);
        world.core(1, |core| core.resume_when_forgotten(plan));
        world.stop(0, StopKind::Killed);
        world.settle();
        let received = world.received(1, 1);
        assert!(received.status.is_some_and(|status| !status.is_ok()), "{received:?}");
        world.start(0);
        world.plan(1, 2, PlannedVerdict::Park);
        world.send(Message::put(0, 1, 2, len));
        world.settle();
        assert_eq!(world.core(1, |core| core.parked()), [2]);
        let plan = world.sink(1, len, u32::MAX);
        world.core(1, |core| core.resume(2, plan));
        world.settle();
        world.assert_stored(1, 2, len, len);
        world.finish();
    }
}

/// A refused message costs its sender all connections, on both sides; what it sends later comes
/// over new ones.
pub fn a_refused_message_closes_the_connections_of_its_sender<T: Testbed>() {
    for len in LENS {
        let mut world = World::<T>::new(&Setup::default());
        world.assert_passes(Message::put(0, 1, 1, len), 1);
        world.plan(1, 2, PlannedVerdict::Refuse(HeaderViolation::WrongDestination));
        world.send(Message::put(0, 1, 2, len));
        world.settle();
        let down = LinkEvent::Down { status: Status::Protocol };
        assert_eq!(world.events(1, process(0, 0)), [LinkEvent::Up, down], "{len} bytes");
        let events = world.events(0, process(1, 0));
        assert!(matches!(events[..], [LinkEvent::Up, LinkEvent::Down { .. }]), "{events:?}");
        world.run(Nanos::from_secs(5));
        world.assert_passes(Message::put(0, 1, 3, len), 1);
        world.finish();
    }
}
