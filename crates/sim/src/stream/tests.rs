//! Shows that the check of deadlines can fail.

use super::*;
use crate::simulation::Simulation;

const SECOND: Nanos = Nanos::from_secs(1);

/// Two nodes that cannot reach each other, and a ping between them that waits.
fn severed() -> (StreamSim, HostId) {
    let mut world = StreamSim::new(1);
    let nids: [Nid; 2] = ["10.0.0.1@tcp", "10.0.0.2@tcp"].map(|nid| nid.parse().expect("a NID"));
    let hosts = nids.map(|nid| world.add_node(NodeSpec::new(nid)));
    world.network().sever(hosts[0], hosts[1]);
    world.ping(hosts[0], &nids[1], Nanos::from_secs(1000));
    world.run_for(SECOND);
    assert_eq!(world.node(hosts[0]).partition().driver().operations(), 1);
    (world, hosts[0])
}

/// The node is not woken any more.
fn forget(world: &mut StreamSim, host: HostId) {
    world.wanted[host.0 as usize] = Time::NEVER;
    world.alarms.clear();
}

#[test]
fn nothing_is_overdue_while_loops_run() {
    let (mut world, host) = severed();
    world.run_for(Nanos::from_secs(2000));
    assert_eq!(world.node(host).partition().driver().operations(), 0);
}

#[test]
#[should_panic(expected = "overdue")]
fn a_node_that_misses_its_timers_is_detected() {
    let (mut world, host) = severed();
    forget(&mut world, host);
    world.run_for(Nanos::from_secs(2000));
}

#[test]
#[should_panic(expected = "overdue")]
fn it_is_also_detected_when_time_passes_in_slices() {
    let (mut world, host) = severed();
    forget(&mut world, host);
    let end = world.now() + Nanos::from_secs(2000);
    world.run_to(end);
}

#[test]
fn a_busy_node_has_not_checked_its_deadlines() {
    let (mut world, host) = severed();
    forget(&mut world, host);
    let until = world.now() + Nanos::from_secs(3000);
    world.costs[host.0 as usize].1 = until;
    world.run_for(Nanos::from_secs(2000));
}
