//! Client against service over a perfect network: every test, progress, session.

use crate::common::World;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_selftest::Tunables;
use lustrine_selftest::{
    ClientError, HarmfulTest, LoadStep, LoadStepError, SessionMode, StepLimit, Test,
};
use lustrine_wire::srpc::BrwCheck;

const STEP: Nanos = Nanos::from_millis(1);

fn step(test: Test, concurrency: u32) -> LoadStep {
    LoadStep { test, concurrency, limit: StepLimit::Count(200), warm_up: Nanos(0) }
}

#[test]
fn every_test_with_every_check_runs_clean() {
    let mut world = World::pair();
    let checks = [BrwCheck::None, BrwCheck::Simple, BrwCheck::Full];
    let mut tests = vec![Test::Ping];
    for len in [8, 4096, 20_480, 1 << 20] {
        tests.extend(checks.map(|check| Test::Read { len, check }));
        tests.extend(checks.map(|check| Test::Write { len, check }));
    }
    for test in tests {
        let limit = if test.len() > 100_000 { 20 } else { 200 };
        let step = LoadStep { limit: StepLimit::Count(limit), ..step(test, 4) };
        world.client().start_step(step).unwrap();
        world.until(STEP, 5000, |world| world.client().step_finished());
        let now = world.now;
        let progress = world.client().progress(now);
        assert_eq!(progress.errors, [], "{test:?}");
        assert!(progress.ops >= limit, "{test:?}: {}", progress.ops);
        assert_eq!(progress.bytes, progress.ops * u64::from(test.len()));
        let late = progress.latencies.count() - progress.ops;
        assert!(late < 4, "only those that were in flight at the end: {late}");
        assert!(progress.server.is_some());
    }
    let now = world.now;
    world.client().finish(now);
    world.until(STEP, 1000, |world| world.client().finished());
    assert_eq!(world.client().error(), None);
    assert_eq!(world.service(1).session(), None);
}

/// 3 s of load on a node that answers nothing in the last 2.5 s of them.
#[test]
fn a_stall_at_the_end_of_a_step_shows_in_its_latencies() {
    let mut world = World::pair();
    let limit = StepLimit::Time(Nanos::from_secs(3));
    world.client().start_step(LoadStep { limit, ..step(Test::Ping, 8) }).unwrap();
    let measured = |world: &mut World| {
        let now = world.now;
        world.client().progress(now)
    };
    world.until(STEP, 5000, |world| measured(world).elapsed >= Nanos::from_millis(500));
    world.nodes[1].stalled = true;
    world.turns(STEP, 2500);
    world.nodes[1].stalled = false;
    world.until(STEP, 5000, |world| world.client().step_finished());
    let progress = measured(&mut world);
    assert_eq!((progress.errors.len(), progress.lost), (0, 0));
    let stall = Nanos::from_millis(2490);
    assert!(progress.latencies.max() >= stall, "{:?}", progress.latencies.max());
    let p999 = progress.latencies.quantile(0.999);
    assert!(p999 >= stall, "{p999:?} of {}", progress.latencies.count());
    assert!(progress.elapsed < Nanos::from_millis(3010), "the time of the step is what it was");
}

#[test]
fn what_never_ends_is_counted_with_its_age() {
    let mut world = World::pair();
    let limit = StepLimit::Time(Nanos::from_secs(3));
    world.client().start_step(LoadStep { limit, ..step(Test::Ping, 8) }).unwrap();
    world.turns(STEP, 2500);
    world.nodes[1].dead = true;
    world.until(Nanos::from_millis(10), 20_000, |world| world.client().step_finished());
    let now = world.now;
    let progress = world.client().progress(now);
    assert_eq!(progress.lost, 8);
    assert!(progress.lost_age_max > Nanos::from_millis(500), "{:?}", progress.lost_age_max);
    assert!(progress.ops > 100, "what was measured before stays");
}

#[test]
fn a_rung_that_is_wrong_is_not_taken() {
    let mut world = World::pair();
    let dangerous = step(Test::Write { len: 4092, check: BrwCheck::None }, 1);
    let refused = Err(LoadStepError::HarmfulTest(HarmfulTest::NotWords(4092)));
    assert_eq!(world.client().start_step(dangerous), refused);
    for concurrency in [0, 1025] {
        let refused = Err(LoadStepError::Concurrency(concurrency));
        assert_eq!(world.client().start_step(step(Test::Ping, concurrency)), refused);
    }
    world.client().start_step(step(Test::Ping, 1)).unwrap();
    let second = world.client().start_step(step(Test::Ping, 1));
    assert_eq!(second, Err(LoadStepError::NotReady));
}

#[test]
fn a_rung_larger_than_the_memory_says_so() {
    let mut tunables = Tunables::default();
    tunables.set("selftest_memory", 16).unwrap();
    let mut world = World::pair_with(tunables);
    let read = Test::Read { len: 1 << 20, check: BrwCheck::Full };
    world.client().start_step(step(read, 17)).unwrap();
    world.until(STEP, 1000, |world| world.client().finished());
    assert_eq!(world.client().error(), Some(ClientError::Memory { needed: 17 << 20 }));
    assert!(world.service(1).session().is_none(), "the session was removed all the same");
}

#[test]
fn the_clock_starts_when_every_unit_is_warm() {
    let mut world = World::pair();
    let warm_up = Nanos::from_millis(500);
    let limit = StepLimit::Time(Nanos::from_secs(1));
    let ping = LoadStep { test: Test::Ping, concurrency: 8, limit, warm_up };
    world.client().start_step(ping).unwrap();
    assert!(!world.client().has_progressed());
    let begin = world.now;
    let (mut first_count, mut first_progress) = (None, None);
    world.until(STEP, 5000, |world| {
        if world.client().has_progressed() {
            first_progress.get_or_insert(world.now);
        }
        if world.client().counts().0 > 0 {
            first_count.get_or_insert(world.now);
        }
        world.client().step_finished()
    });
    assert!(first_count.unwrap().since(begin) >= warm_up);
    assert!(first_progress.unwrap().since(begin) < warm_up, "RPCs of the warm-up end too");
    let now = world.now;
    let progress = world.client().progress(now);
    let millis = progress.elapsed.0 / 1_000_000;
    assert!((1000..=1002).contains(&millis), "{millis}");
    // Four turns of a millisecond per round trip.
    assert!(progress.latencies.max() <= Nanos::from_millis(5));
    assert_eq!(progress.outstanding, 0);
}

#[test]
fn two_clients_on_one_node_do_not_mix() {
    let mut world = World::new(3, Default::default());
    for node in [1, 2] {
        world.add_service(node);
    }
    // Node 0 has a service too; node 2's client works at node 0's side of it.
    world.add_service(0);
    world.add_client(0, 1, |_| {});
    world.add_client(2, 0, |_| {});
    let read = Test::Read { len: 4096, check: BrwCheck::Full };
    world.client().start_step(step(read, 16)).unwrap();
    let other = world.nodes[2].client.as_mut().unwrap();
    other.start_step(step(Test::Write { len: 8192, check: BrwCheck::Full }, 16)).unwrap();
    world.until(STEP, 5000, |world| {
        world.client().step_finished() && world.nodes[2].client.as_ref().unwrap().step_finished()
    });
    let now = world.now;
    assert_eq!(world.client().progress(now).errors, []);
    assert_eq!(world.nodes[2].client.as_ref().unwrap().progress(now).errors, []);
}

#[test]
fn a_client_that_is_finished_early_leaves_nothing_behind() {
    let mut world = World::pair();
    let before = world.net.nodes[0].memory.live;
    let read = Test::Read { len: 65_536, check: BrwCheck::Simple };
    for turns in [0, 1, 3, 5, 8, 13, 40] {
        world.add_client(0, 1, |_| {});
        let endless = LoadStep { limit: StepLimit::Time(Nanos::from_secs(1000)), ..step(read, 8) };
        world.client().start_step(endless).unwrap();
        world.turns(STEP, turns);
        let now = world.now;
        world.client().finish(now);
        world.until(STEP, 20_000, |world| world.client().finished());
        world.turns(STEP, 5);
        assert_eq!(world.net.nodes[0].memory.live, before, "after {turns} turns");
        assert_eq!(world.service(1).session(), None, "after {turns} turns");
        let now = world.now;
        assert_eq!(world.client().progress(now).errors, [], "cut off is not failed");
    }
}

#[test]
fn clients_without_sessions_share_a_node_that_is_in_somebody_elses() {
    let mut world = World::new(4, Tunables::default());
    (0..4).for_each(|node| world.add_service(node));
    world.add_client(0, 1, |_| {});
    world.until(STEP, 1000, |world| world.client().is_connected());
    let held = world.service(1).session().expect("the first client's session");
    let before = [2, 3].map(|node| world.net.nodes[node].memory.live);
    for node in [2, 3] {
        world.add_client(node, 1, |args| args.session = SessionMode::NoSession);
        let client = world.nodes[node].client.as_mut().unwrap();
        assert!(client.is_connected());
        let read = Test::Read { len: 1 << 20, check: BrwCheck::Full };
        client.start_step(step(if node == 2 { read } else { Test::Ping }, 4)).unwrap();
    }
    let over =
        |world: &mut World, node: usize| world.nodes[node].client.as_mut().unwrap().step_finished();
    world.until(STEP, 5000, |world| over(world, 2) && over(world, 3));
    let now = world.now;
    for (node, before) in [2, 3].into_iter().zip(before) {
        let client = world.nodes[node].client.as_mut().unwrap();
        let progress = client.progress(now);
        assert_eq!((progress.errors.len(), progress.server), (0, None));
        assert!(progress.ops >= 200);
        client.finish(now);
        assert_eq!(client.next_deadline(), Time::ZERO, "it wants a turn for its memory's sake");
        world.until(STEP, 2, |world| world.nodes[node].client.as_ref().unwrap().finished());
        assert_eq!(world.nodes[node].client.as_ref().unwrap().error(), None);
        // At once, as another client may take its place.
        assert_eq!(world.net.nodes[node].memory.live, before);
    }
    assert_eq!(world.service(1).session(), Some(held), "it was not disturbed");
}
