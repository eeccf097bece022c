//! A client whose user has gone without an unmount.

use lustrine_lnet::time::Nanos;
use lustrine_ptlrpc::RpcError;

use super::*;
use crate::error::ClientError;

/// Operations that wait: for an answer, for bulk, and for nothing any more but a lock's end.
fn busy() -> (World, Slot<crate::Attr>, Slot<bytes::Bytes>) {
    let mut world = World::new();
    let attr = world.start(|client, turn, done| client.getattr(turn, Caller::ROOT, FILE, done));
    let data = world.start(|client, turn, done| {
        client.read(turn, Caller::ROOT, FILE, &striped(), (0, 100_000), done);
    });
    assert!(!world.client.is_quiet());
    world.act(|client, turn| client.retire(turn));
    assert_eq!(attr.outcome().unwrap_err(), ClientError::Rpc(RpcError::Closed));
    assert_eq!(data.outcome().unwrap_err(), ClientError::Rpc(RpcError::Closed));
    (world, attr, data)
}

#[test]
fn it_disconnects_and_gives_everything_back() {
    let (mut world, ..) = busy();
    assert!(!world.client.is_quiet(), "the servers have not answered");
    // Once is enough.
    world.act(|client, turn| client.retire(turn));
    let mut disconnects = 0;
    while let Some(asked) = world.asked.pop_front() {
        if matches!(asked.kind, Kind::MdsDisconnect | Kind::OstDisconnect) {
            disconnects += 1;
            world.answer(&asked, 0, &ReplyBuffers::Bare);
        }
    }
    assert_eq!(disconnects, 3);
    assert!(world.client.is_quiet());
    // It stays so, and attaches no buffers again.
    world.act(|client, turn| client.drive(turn));
    assert!(world.client.is_quiet() && world.client.rpc.is_quiet());
}

#[test]
fn servers_that_do_not_answer_do_not_keep_it() {
    let (mut world, ..) = busy();
    for _ in 0..60 {
        world.now = world.now + Nanos::from_secs(5);
        world.act(|client, turn| client.drive(turn));
    }
    assert!(world.client.is_quiet());
}

/// What a mount that is given up still asks for must not connect again.
#[test]
fn a_client_that_was_never_mounted_has_nothing() {
    let mut world = World::new();
    let args = ClientArgs { number: 1, ..world.client.args.clone() };
    world.client = Client::new(CLIENT, args);
    world.act(|client, turn| client.drive(turn));
    assert!(!world.client.rpc.is_quiet(), "it has buffers for callbacks");
    world.act(|client, turn| client.retire(turn));
    assert!(world.client.is_quiet());
}
