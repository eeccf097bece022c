//! Object targets that are not used: the client disconnects from them, and connects again.

use super::*;
use crate::client::TargetKey;

const IDLE_TIMEOUT: Nanos = Nanos::from_secs(20);

/// A client that disconnects, and its import of the first object target.
fn scene() -> (World, Osts, ImportKey) {
    let (mut world, osts) = super::scene();
    let imports: Vec<ImportKey> = world.client.rpc.imports().map(|(key, _)| key).collect();
    for import in imports {
        world.act(|client, turn| {
            client.tune(turn, import, |tunables| tunables.idle_timeout = Some(IDLE_TIMEOUT));
        });
    }
    let first = world.client.osts[&0];
    (world, osts, first)
}

/// Lets time pass, and answers the DISCONNECTs that come. Their number.
fn wait(world: &mut World) -> usize {
    world.pass(IDLE_TIMEOUT);
    let asked: Vec<Asked> = world.asked.drain(..).collect();
    for asked in &asked {
        assert_eq!(asked.kind, Kind::OstDisconnect, "metadata targets stay connected");
        world.answer(asked, 0, &ReplyBuffers::Bare);
    }
    asked.len()
}

fn state(world: &World, import: ImportKey) -> ImportState {
    world.client.rpc.import(import).expect("it is there").state()
}

#[test]
fn without_locks_they_are_disconnected_until_they_are_used() {
    let (mut world, mut osts, first) = scene();
    assert!(world.client.cache.granted(first) > 0);
    assert_eq!(wait(&mut world), 2);
    assert_eq!(state(&world, first), ImportState::Idle);
    assert_eq!(world.client.cache.granted(first), 0);
    assert!(world.client.is_connected(TargetKey(first)), "nothing waits for it");
    let written = world.write(10, b"hello");
    let asked = world.next(Kind::OstConnect);
    assert_eq!(asked.body.handle, Handle(0));
    let granted = obd::ConnectReply { data: offers::of(Target::Ost, true, false) };
    world.answer(&asked, 0, &ReplyBuffers::OstConnect(granted));
    osts.serve(&mut world);
    assert_eq!(written.outcome(), Ok(()));
    assert_eq!((osts.writes.len(), state(&world, first)), (0, ImportState::Full));
    assert!(world.client.cache.granted(first) > 0);
}

#[test]
fn with_a_lock_they_stay_connected() {
    let (mut world, mut osts, first) = scene();
    let written = world.write(10, b"hello");
    osts.serve(&mut world);
    assert_eq!(written.outcome(), Ok(()));
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Ok(()));
    assert_eq!(wait(&mut world), 1, "the other one");
    assert_eq!(state(&world, first), ImportState::Full);
    osts.call_back(&mut world, 0, LockFlags::empty());
    osts.serve(&mut world);
    assert_eq!(wait(&mut world), 1);
    assert_eq!(state(&world, first), ImportState::Idle);
}
