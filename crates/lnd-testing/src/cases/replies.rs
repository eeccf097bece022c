//! GETs that are answered in place, for drivers that can. Such a driver calls `recv_get`.

use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;

use crate::model::{ModelCore, PlannedVerdict};
use crate::testbed::{Setup, StopKind, Testbed};
use crate::world::{Kind, Message, World};

const LENS: [u32; 5] = [0, 1, 4096, 64 << 10, 1 << 20];

fn get(key: u64) -> Message {
    Message { kind: Kind::Get, ..Message::put(0, 1, key, 0) }
}

/// What became of the messages that a core has sent.
fn ends(core: &mut ModelCore) -> Vec<Status> {
    core.ended.iter().map(|ended| ended.status).collect()
}

/// A REPLY in place arrives as every REPLY does, whole, and its memory is free when it has ended,
/// with and without copies. Other messages, and GETs that are answered otherwise, pass beside it.
pub fn a_get_is_answered_in_place<T: Testbed>() {
    for zero_copy in [0, 1] {
        let mut world = World::<T>::new(&Setup::default().with("zero_copy", zero_copy));
        for (key, len) in (1..).zip(LENS) {
            let source = world.source(1, key, len, len / 3 + 1);
            world.plan(1, key, PlannedVerdict::Reply(source));
            world.expect(0, key, len);
            world.send(get(key));
            world.send_expected(Message::put(0, 1, 100 + key, 2000), 1);
        }
        world.plan(1, 50, PlannedVerdict::Done);
        world.send(get(50));
        world.run(Nanos::from_secs(5));
        for (key, len) in (1..).zip(LENS) {
            world.assert_stored(0, key, len, len);
            assert_eq!(world.received(0, key).from, crate::world::process(1, 0));
            world.assert_stored(1, 100 + key, 2000, 2000);
        }
        assert_eq!(world.received(1, 50).key, 50);
        assert_eq!(world.core(1, ends), [Status::Ok; LENS.len()]);
        world.finish();
    }
}

/// The node that has asked dies before the REPLY is there: the REPLY ends all the same.
pub fn a_reply_in_place_to_a_node_that_dies_ends<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default().with("sock_timeout", 10));
    world.assert_passes(Message::put(0, 1, 1, 64), 1);
    for key in 2..40 {
        let source = world.source(1, key, 1 << 20, u32::MAX);
        world.plan(1, key, PlannedVerdict::Reply(source));
        world.send(get(key));
    }
    world.run(Nanos::from_micros(200));
    world.stop(0, StopKind::Killed);
    world.run(Nanos::from_secs(100));
    let ended = world.core(1, ends);
    assert!(!ended.is_empty() && ended.iter().any(|status| !status.is_ok()), "{ended:?}");
    world.finish();
}
