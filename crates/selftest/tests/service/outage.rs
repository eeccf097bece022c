//! A client whose server dies, returns, forgets, or is taken away.

use crate::common::{World, message};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_lnet_testing::test_nid;
use lustrine_selftest::{ClientError, LoadStep, RpcError, SessionMode, StepLimit, Test, TestError};
use lustrine_wire::nid::ProcessId;
use lustrine_wire::srpc::{Body, BrwCheck, MESSAGE_LEN, RemoveSessionRequest};

const STEP: Nanos = Nanos::from_millis(5);

fn seconds(secs: u64) -> Nanos {
    Nanos::from_secs(secs)
}

fn timed(test: Test, secs: u64) -> LoadStep {
    LoadStep { test, concurrency: 8, limit: StepLimit::Time(seconds(secs)), warm_up: Nanos(0) }
}

#[test]
fn a_restarted_server_is_loaded_again() {
    let mut world = World::pair();
    let read = Test::Read { len: 4096, check: BrwCheck::Full };
    world.client().start_step(timed(read, 30)).unwrap();
    world.turns(STEP, 400);
    let ops_before = world.client().counts().0;
    assert!(ops_before > 100);

    world.nodes[1].dead = true;
    world.turns(STEP, 600);
    world.restart(1);
    world.add_service(1);
    world.turns(STEP, 1600);
    let ops_after = world.client().counts().0;
    assert!(ops_after > ops_before + 100, "{ops_before} then {ops_after}");
    assert!(world.service(1).session().is_some(), "the session was made again");

    world.until(STEP, 20_000, |world| world.client().step_finished());
    let now = world.now;
    let progress = world.client().progress(now);
    assert_eq!(world.client().error(), None);
    assert!(!progress.errors.is_empty(), "what was in flight is counted as failed");
    assert!(progress.down > Nanos(0) && progress.down < seconds(15), "{:?}", progress.down);
    assert!(progress.elapsed >= seconds(30) && progress.elapsed < seconds(31));
}

#[test]
fn a_server_that_never_answers_ends_the_client_in_time() {
    let mut world = World::new(2, Default::default());
    let before = world.net.nodes[0].memory.live;
    world.add_client(0, 1, |args| args.patience = seconds(20));
    world.client().start_step(timed(Test::Ping, 5)).unwrap();
    world.until(STEP, 8000, |world| world.client().finished());
    assert!(matches!(world.client().error(), Some(ClientError::NoAnswer(Some(_)))));
    assert_eq!(world.net.nodes[0].memory.live, before);
}

/// A client with so much patience, in seconds, that pings a server for so long.
fn pinging(patience: u64, length: u64) -> World {
    let mut world = World::new(2, Default::default());
    world.add_client(0, 1, |args| args.patience = seconds(patience));
    world.add_service(1);
    world.client().start_step(timed(Test::Ping, length)).unwrap();
    world
}

/// How long the client waits for a server that dies now, within a few steps, is its patience.
#[track_caller]
fn dies_for_good(world: &mut World, patience: u64) {
    world.nodes[1].dead = true;
    let died_at = world.now;
    world.until(STEP, 8000, |world| world.client().error().is_some());
    let silence = world.now.since(died_at);
    let (patience, slack) = (seconds(patience).0, 10 * STEP.0);
    assert!((patience - slack..=patience + slack).contains(&silence.0), "{silence:?}");
}

#[test]
fn patience_is_the_longest_silence() {
    for patience in [2, 5, 30] {
        let mut world = pinging(patience, 300);
        world.turns(STEP, 400);
        dies_for_good(&mut world, patience);
    }
}

/// Also when the node was away before, and when it goes at the end of a step.
#[test]
fn patience_is_the_same_after_an_outage_and_at_the_end() {
    let mut world = pinging(10, 300);
    world.turns(STEP, 400);
    world.nodes[1].dead = true;
    world.turns(STEP, 1600);
    world.nodes[1].dead = false;
    world.turns(STEP, 1200);
    assert_eq!(world.client().error(), None);
    dies_for_good(&mut world, 10);

    let mut world = pinging(2, 3);
    world.turns(STEP, 595);
    dies_for_good(&mut world, 2);
}

/// It is asked, says that it is there, and what it lost is given up: the step ends.
#[test]
fn a_server_that_returns_after_the_end_of_a_rung_loses_only_what_was_in_flight() {
    let mut world = pinging(20, 3);
    let before = world.net.nodes[0].memory.live;
    world.turns(STEP, 595);
    world.nodes[1].dead = true;
    world.turns(STEP, 1600);
    assert!(!world.client().step_finished(), "patience is not over");
    world.nodes[1].dead = false;
    world.until(STEP, 8000, |world| world.client().step_finished());
    let now = world.now;
    assert_eq!(world.client().error(), None);
    let progress = world.client().progress(now);
    assert_eq!(progress.errors.iter().map(|(_, count)| count).sum::<u64>(), 8, "{progress:?}");
    assert!(progress.server.is_some(), "its counters are requested as in other steps");
    world.client().finish(now);
    world.until(STEP, 8000, |world| world.client().finished());
    assert!(world.net.nodes[0].memory.live <= before);
}

#[test]
fn a_server_that_stays_away_ends_the_rung_and_frees_all_memory() {
    let mut world = World::new(2, Default::default());
    world.add_client(0, 1, |args| args.patience = seconds(20));
    world.add_service(1);
    let before = world.net.nodes[0].memory.live;
    world
        .client()
        .start_step(timed(Test::Read { len: 65_536, check: BrwCheck::Simple }, 300))
        .unwrap();
    world.turns(STEP, 400);
    world.nodes[1].dead = true;
    world.until(STEP, 40_000, |world| world.client().finished());
    assert!(matches!(world.client().error(), Some(ClientError::NoAnswer(_))));
    assert_eq!(world.net.nodes[0].memory.live, before);
    let now = world.now;
    assert!(world.client().progress(now).ops > 0);
}

#[test]
fn losses_on_the_way_are_counted_and_the_load_goes_on() {
    for (seed, vanish, fail) in [(1, 20, 0), (2, 0, 20), (3, 10, 10), (4, 60, 60)] {
        let mut tunables = lustrine_selftest::Tunables::default();
        tunables.set("rpc_timeout", 2).unwrap();
        let mut world = World::pair_with(tunables);
        world.seed(seed);
        let before = world.net.nodes[0].memory.live;
        world
            .client()
            .start_step(timed(Test::Write { len: 8192, check: BrwCheck::Full }, 60))
            .unwrap();
        world.turns(STEP, 100);
        (world.vanish, world.fail, world.shuffle) = (vanish, fail, true);
        world.until(STEP, 40_000, |world| world.client().step_finished());
        (world.vanish, world.fail) = (0, 0);
        let now = world.now;
        let progress = world.client().progress(now);
        assert!(progress.ops > 100, "seed {seed}: {} ops", progress.ops);
        assert!(!progress.errors.is_empty(), "seed {seed}");
        let corrupt = progress.errors.iter().any(|(error, _)| *error == TestError::Corrupt);
        assert!(!corrupt, "seed {seed}: {:?}", progress.errors);
        world.client().finish(now);
        world.until(STEP, 10_000, |world| world.client().finished());
        assert_eq!(world.net.nodes[0].memory.live, before, "seed {seed}");
    }
}

#[test]
fn a_node_in_another_session_is_respected_or_taken() {
    let mut world = World::new(3, Default::default());
    world.add_service(1);
    world.add_client(2, 1, |_| {});
    world.turns(STEP, 100);
    let holder = world.service(1).session().unwrap();

    world.add_client(0, 1, |_| {});
    world.until(STEP, 100, |world| world.client().finished());
    let busy = ClientError::Busy { holder: holder.sid, name: holder.name };
    assert_eq!(world.client().error(), Some(busy));

    world.add_client(0, 1, |args| args.session = SessionMode::Force);
    world.until(STEP, 100, |world| world.client().is_connected());
    assert_ne!(world.service(1).session().unwrap().sid, holder.sid);
}

#[test]
fn a_long_rung_keeps_its_session_alive() {
    let mut world = World::pair();
    let step = Nanos::from_millis(50);
    world.client().start_step(timed(Test::Ping, 400)).unwrap();
    world.until(step, 20_000, |world| {
        if world.now.0 > 3_000_000_000 {
            assert!(world.service(1).session().is_some(), "at {:?}", world.now);
        }
        world.client().step_finished()
    });
    let now = world.now;
    assert_eq!(world.client().progress(now).errors, []);
}

#[test]
fn a_session_that_was_removed_behind_the_clients_back_is_made_again() {
    let mut world = World::new(3, Default::default());
    world.add_client(0, 1, |_| {});
    world.add_service(1);
    world.client().start_step(timed(Test::Ping, 60)).unwrap();
    world.turns(STEP, 200);
    let sid = world.service(1).session().unwrap().sid;
    let reply_bits = world.bits();
    let remove = Body::RemoveSessionRequest(RemoveSessionRequest { reply_bits, sid });
    assert!(world.ask(2, 1, 2, &message(1, remove)).is_some());
    assert!(world.service(1).session().is_none());
    world.until(STEP, 40_000, |world| world.client().step_finished());
    let now = world.now;
    let progress = world.client().progress(now);
    assert!(progress.ops > 1000);
    let lost: u64 = progress.errors.iter().map(|(_, count)| count).sum();
    assert!(lost <= 8, "at most one RPC per unit: {:?}", progress.errors);
    assert!(world.service(1).session().is_some());
}

#[test]
fn a_gap_in_the_network_costs_no_rpc_time_out() {
    let mut world = World::pair();
    world.client().start_step(timed(Test::Ping, 60)).unwrap();
    world.turns(STEP, 200);
    world.vanish = 1000;
    world.turns(STEP, 2);
    world.vanish = 0;
    let before = world.client().counts().0;
    // The RPC time-out is 64 s; the silence is noticed after 3 s, the loss 3 s after the answer.
    world.turns(STEP, 1600);
    let after = world.client().counts().0;
    assert!(after > before + 500, "{before} then {after}");
    let now = world.now;
    let lost: u64 = world.client().progress(now).errors.iter().map(|(_, count)| count).sum();
    assert_eq!(lost, 8, "what was in flight, and nothing else");
}

/// One packet per second, in the order they were sent: the question whether the node is there
/// stands behind the load, and so does its answer (found by the simulator).
#[test]
fn a_slow_way_that_is_full_of_our_own_data_is_no_dead_node() {
    for test in [Test::Write { len: 8192, check: BrwCheck::Full }, READ, Test::Ping] {
        let mut world = World::pair();
        world.client().start_step(LoadStep { concurrency: 9, ..timed(test, 200) }).unwrap();
        world.turns(STEP, 200);
        world.width = 1;
        world.turns(seconds(1), 150);
        // The step ends on the slow way; nothing that is still out is given up.
        world.until(seconds(1), 200, |world| world.client().step_finished());
        let now = world.now;
        let progress = world.client().progress(now);
        assert_eq!(progress.errors, [], "{test:?}");
        assert!(progress.ops > 20, "{test:?}: {}", progress.ops);
    }
}

#[test]
fn a_node_in_trouble_is_not_bombarded() {
    let mut world = World::pair();
    world.client().start_step(timed(Test::Ping, 50)).unwrap();
    world.turns(STEP, 200);
    world.fail = 1000;
    world.turns(STEP, 8000);
    let now = world.now;
    let errors = world.client().progress(now).errors;
    let failed: u64 = errors.iter().map(|(_, count)| count).sum();
    assert!((1..=8).contains(&failed), "one per unit: {errors:?}");
    world.fail = 0;
    world.turns(STEP, 1200);
    let now = world.now;
    let progress = world.client().progress(now);
    assert!(progress.down > seconds(39) && progress.down < seconds(43), "{:?}", progress.down);
}

#[test]
fn what_a_dead_node_took_along_is_not_waited_for() {
    let mut world = World::pair();
    let read = Test::Read { len: 4096, check: BrwCheck::None };
    world.client().start_step(timed(read, 60)).unwrap();
    world.turns(STEP, 203);
    world.restart(1);
    world.add_service(1);
    let before = world.client().counts().0;
    world.turns(STEP, 1000);
    let after = world.client().counts().0;
    assert!(after > before + 100, "{before} then {after}");
}

#[test]
fn a_client_told_of_the_loss_does_not_wait_for_silence() {
    let mut world = World::pair();
    world.client().start_step(timed(Test::Ping, 20)).unwrap();
    world.turns(STEP, 200);
    world.vanish = 1000;
    world.turns(STEP, 2);
    world.vanish = 0;
    let before = world.client().counts().0;
    let (node, place) = (&mut world.nodes[0], &mut world.net.nodes[0]);
    let server = ProcessId::lustre(test_nid(1));
    let (now, lost) = (world.now, Status::ConnectionLost);
    let client = node.client.as_mut().unwrap();
    client.peer_lost(now, &mut place.shard, &mut place.memory, &server, lost);
    // Far less than the 3 s of silence that would otherwise be needed.
    world.turns(STEP, 100);
    assert!(world.client().counts().0 > before + 50);
    let now = world.now;
    let errors = world.client().progress(now).errors;
    assert_eq!(errors, [(TestError::Rpc(RpcError::PeerLost(lost)), 8)]);
}

/// Loads a node that answers its session's requests, but has no memory to answer a read with.
fn load_a_node_without_memory(rpc_timeout: i64) -> World {
    let mut tunables = lustrine_selftest::Tunables::default();
    tunables.set("rpc_timeout", rpc_timeout).unwrap();
    let mut world = World::pair_with(tunables);
    world.until(STEP, 100, |world| world.client().is_connected());
    world.net.nodes[1].memory.limit = world.net.nodes[1].memory.live;
    world
}

const READ: Test = Test::Read { len: 4096, check: BrwCheck::Full };

#[test]
fn a_rung_whose_rpcs_all_fail_ends_by_itself_and_says_so() {
    for limit in [StepLimit::Time(seconds(5)), StepLimit::Count(40)] {
        let mut world = load_a_node_without_memory(2);
        world.client().start_step(LoadStep { limit, ..timed(READ, 0) }).unwrap();
        world.until(STEP, 10_000, |world| world.client().step_finished());
        let now = world.now;
        let progress = world.client().progress(now);
        let failed: u64 = progress.errors.iter().map(|(_, count)| count).sum();
        assert!(progress.ops == 0 && failed > 8, "{limit:?}: {:?}", progress.errors);
        assert_eq!(world.client().error(), None);
    }
}

#[test]
fn what_never_ends_is_an_error_of_its_rung() {
    let mut world = load_a_node_without_memory(1000);
    world.client().start_step(timed(READ, 3)).unwrap();
    // 10 s of warm-up at most, 3 s measured, 5 s for those still out.
    world.until(STEP, 3700, |world| world.client().step_finished());
    let now = world.now;
    let progress = world.client().progress(now);
    assert_eq!(progress.errors, [(TestError::Rpc(RpcError::Aborted), 8)]);
    assert!(progress.elapsed >= seconds(3) && progress.elapsed < seconds(4));
}

#[test]
fn a_rung_in_which_nothing_ends_is_not_a_clean_one() {
    let mut world = load_a_node_without_memory(1000);
    world.client().start_step(timed(READ, 3)).unwrap();
    world.turns(STEP, 2700);
    // Now that the measured time is over all of them go well.
    world.net.nodes[1].memory.limit = 0;
    world.until(STEP, 200, |world| world.client().step_finished());
    let now = world.now;
    let progress = world.client().progress(now);
    assert_eq!((progress.ops, progress.errors), (0, vec![(TestError::NoneEnded, 1)]));
}

#[test]
fn a_node_that_forgets_every_session_ends_the_client() {
    let mut world = World::new(3, Default::default());
    world.add_client(0, 1, |args| args.patience = seconds(3));
    world.add_service(1);
    world.until(STEP, 100, |world| world.client().is_connected());
    let sid = world.service(1).session().unwrap().sid;
    let remove = Body::RemoveSessionRequest(RemoveSessionRequest { reply_bits: 1, sid });
    let mut raw = [0; MESSAGE_LEN];
    message(1, remove).encode(&mut raw);
    world.send_raw(2, 1, 51, 2, &raw);
    world.turns(STEP, 5);
    world.client().start_step(timed(Test::Ping, 60)).unwrap();
    world.until(STEP, 3000, |world| {
        world.send_raw(2, 1, 51, 2, &raw);
        world.client().finished()
    });
    assert_eq!(world.client().error(), Some(ClientError::Forgetful));
}
