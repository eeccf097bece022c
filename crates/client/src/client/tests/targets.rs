//! Which targets operations can wait for.

use std::sync::atomic::{AtomicU32, Ordering};

use lustrine_lnet::status::Status;
use lustrine_wire::nid::{PID_LUSTRE, PID_USERLAND};

use super::*;

#[test]
fn a_file_depends_on_the_targets_of_its_objects() {
    let world = World::new();
    let client = &world.client;
    let (both, mdt) = (striped(), client.metadata_target_of(FILE).expect("it is known"));
    let targets = client.targets_of(FILE, &both, false);
    assert_eq!(targets.len(), 2);
    assert!(!targets.contains(&mdt) && targets.iter().all(|target| client.is_connected(*target)));
    assert_eq!(client.targets_of(FILE, &both, true), [targets[0], targets[1], mdt]);
    // A layout that names one target twice, and one that the configuration does not name.
    let components = [both.components.clone(), both.components.clone()].concat();
    let twice = FileLayout { components, ..both.clone() };
    assert_eq!(client.targets_of(FILE, &twice, false), targets);
    let mut strange = both;
    let Place::Objects { objects, .. } = &mut strange.components[0].place else { panic!() };
    objects[1].ost = 77;
    assert_eq!(client.targets_of(FILE, &strange, false), targets[..1]);
    let on_mdt = FileComponent { start: 0, end: 65536, place: Place::Mdt };
    let layout = FileLayout { components: vec![on_mdt], ..FileLayout::default() };
    assert_eq!(client.targets_of(FILE, &layout, false), [mdt]);
}

#[test]
fn a_target_that_connects_is_reported() {
    let mut world = World::new();
    let seen = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&seen);
    world.client.watch_connections(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let new = world.act(|client, turn| {
        let key = client.add_import(turn, Target::Ost, "lustre-OST0002_UUID", &[test_nid(1)]);
        client.osts.insert(2, key);
        client.settle(turn);
        key
    });
    let layout = {
        let mut layout = striped();
        let Place::Objects { objects, .. } = &mut layout.components[0].place else { panic!() };
        objects.truncate(1);
        objects[0].ost = 2;
        layout
    };
    let target = world.client.targets_of(FILE, &layout, false)[0];
    assert!(!world.client.is_connected(target));
    assert_eq!(seen.load(Ordering::Relaxed), 0);
    let asked = world.next(Kind::OstConnect);
    let granted = obd::ConnectReply { data: offers::of(Target::Ost, false, false) };
    world.answer(&asked, 0, &ReplyBuffers::OstConnect(granted));
    assert!(world.client.is_connected(target), "{new:?}");
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

/// A process of the server's host, or one that says so, is not the server.
#[test]
fn the_connection_of_another_process_is_not_that_of_the_server() {
    let mut world = World::new();
    let import = world.client.mdts[&0];
    let _slot = world.start(|client, turn, done| client.getattr(turn, Caller::ROOT, FILE, done));
    let mut state_after = |pid| {
        let peer = ProcessId { nid: test_nid(1), pid };
        world.act(|client, turn| client.on_peer_down(turn, &peer, Status::ConnectionLost));
        world.client.rpc.import(import).expect("it is there").state()
    };
    assert_eq!(state_after(PID_USERLAND | 700), ImportState::Full);
    assert_eq!(state_after(PID_LUSTRE), ImportState::Connecting);
}
