//! Reading without a report.

use lustrine_lnet::lnd::PollOutcome;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_wire::nid::ProcessId;

use crate::testing::{Chaos, Plan, World, config, process};

/// Node 0, which has received a message of each of the others in turn.
fn heard_of_all(others: u8) -> World {
    let mut world = World::new(1, Chaos::None);
    for last in 1..=1 + others {
        world.add(config(last));
    }
    for other in 1..=usize::from(others) {
        world.put(other, process(1), 0, b"first");
        world.run();
    }
    world
}

/// Has a node send to node 0; no report of it reaches node 0.
fn send(world: &mut World, from: usize) {
    world.put(from, process(1), 1, b"second");
    world.turn(from);
}

/// Those of whom node 0 has two messages.
fn heard_again(world: &mut World) -> Vec<ProcessId> {
    let arrived = world.core(0).arrived.iter();
    arrived.filter(|one| one.header.payload_len == 6).map(|one| one.from).collect()
}

#[test]
fn a_message_is_read_before_it_is_reported() {
    let mut world = heard_of_all(1);
    assert_eq!(world.poll(0), PollOutcome::Nothing);
    send(&mut world, 1);
    assert_eq!(world.poll(0), PollOutcome::Found);
    assert_eq!(heard_again(&mut world), [process(2)]);
    assert_eq!(world.core(0).arrived[1].status, Some(Status::Ok));
    world.run();
    assert_eq!(world.core(0).arrived.len(), 2, "the report finds nothing more");
}

#[test]
fn a_connection_that_was_silent_for_a_millisecond_waits_for_its_report() {
    let mut world = heard_of_all(1);
    world.now = world.now + Nanos::from_millis(1);
    send(&mut world, 1);
    assert_eq!(world.poll(0), PollOutcome::Found);
    world.now = world.now + Nanos::from_millis(1) + Nanos(1);
    send(&mut world, 1);
    assert_eq!(world.poll(0), PollOutcome::NotPolled);
    world.run();
    assert_eq!(heard_again(&mut world).len(), 2);
}

#[test]
fn the_three_connections_that_brought_something_last_are_polled() {
    let mut world = heard_of_all(4);
    for other in 1..=4 {
        send(&mut world, other);
    }
    assert_eq!(world.poll(0), PollOutcome::Found);
    assert_eq!(heard_again(&mut world), [process(5), process(4), process(3)]);
    world.run();
    assert_eq!(heard_again(&mut world).len(), 4);
}

#[test]
fn a_connection_with_a_parked_message_is_not_read() {
    let mut world = heard_of_all(1);
    world.core(0).plans.push_back(Plan::Park);
    send(&mut world, 1);
    assert_eq!(world.poll(0), PollOutcome::Found);
    send(&mut world, 1);
    let reads = world.driver(0).counters().reads;
    assert_eq!(world.poll(0), PollOutcome::Nothing);
    assert_eq!(world.driver(0).counters().reads, reads);
    world.core(0).resume(Plan::Store { piece: u32::MAX });
    world.run();
    assert_eq!(heard_again(&mut world).len(), 2);
}

#[test]
fn the_end_of_a_connection_is_found() {
    let mut world = heard_of_all(1);
    let link = |world: &World| world.driver(0).connections();
    let before = link(&world);
    let peer = world.driver(1).peers.iter().next().map(|(_, peer)| peer.id).expect("a peer");
    let crate::testing::Node { driver, io, core } = &mut world.nodes[1];
    driver.close_nids(world.now, core, io, &[peer.nid], Status::Canceled);
    world.turn(1);
    assert_eq!(link(&world), before);
    assert_eq!(world.poll(0), PollOutcome::Found);
    assert_eq!(link(&world), 0, "the peer has gone, and its other connections with it");
    assert_eq!(world.poll(0), PollOutcome::NotPolled);
}
