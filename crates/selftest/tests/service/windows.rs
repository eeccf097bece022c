//! `selftest_auto`: what is in flight to a peer is limited by a window as well as by the test.

use crate::common::World;
use lustrine_lnet::time::Nanos;
use lustrine_selftest::{LoadStep, StepLimit, Test, Tunables};
use lustrine_wire::srpc::BrwCheck;

const STEP: Nanos = Nanos::from_millis(1);
const MIB: u32 = 1 << 20;

fn pair(selftest_auto: i64) -> World {
    let mut world = World::pair_with(Tunables { selftest_auto, ..Tunables::default() });
    // Each turn a few packets pass, so that RPCs queue.
    world.width = 12;
    world
}

fn step(test: Test, limit: StepLimit) -> LoadStep {
    LoadStep { test, concurrency: 64, limit, warm_up: Nanos(0) }
}

#[test]
fn a_window_keeps_most_of_the_load_waiting() {
    for test in [
        Test::Read { len: MIB, check: BrwCheck::None },
        Test::Write { len: MIB, check: BrwCheck::None },
    ] {
        let mut most = [0, 0];
        for auto in [0, 1] {
            let mut world = pair(auto);
            world.client().start_step(step(test, StepLimit::Count(2000))).expect("a good step");
            world.until(STEP, 100_000, |world| {
                let now = world.now;
                let progress = world.client().progress(now);
                // Startup has found the window by then.
                let window = world.client().window_in_use();
                let in_flight = progress.window.map_or(0, |window| window.in_flight);
                assert_eq!(window.map_or(0, |window| window.in_flight), in_flight);
                assert!(window.is_none_or(|window| window.bytes >= 2 << 20), "{window:?}");
                if progress.ops > 1000 {
                    let in_flight = &mut most[auto as usize];
                    *in_flight = (*in_flight).max(progress.outstanding);
                }
                world.client().step_finished()
            });
            let now = world.now;
            let progress = world.client().progress(now);
            assert_eq!(progress.errors, [], "{test:?}");
            assert!(progress.ops >= 2000);
            assert_eq!(progress.window.is_some(), auto == 1);
            assert_eq!(progress.window.map_or(0, |window| window.in_flight), 0);
            assert_eq!(world.client().window_in_use(), None);
            world.client().finish(now);
            world.until(STEP, 1000, |world| world.client().finished());
        }
        assert_eq!(most[0], 64);
        assert!((2..40).contains(&most[1]), "{} RPCs were in flight", most[1]);
    }
}

#[test]
fn each_unit_has_its_turn() {
    let mut world = pair(1);
    let test = Test::Write { len: MIB, check: BrwCheck::None };
    let limit = StepLimit::Time(Nanos::from_secs(1));
    world.client().start_step(step(test, limit)).expect("a good step");
    // The measurement begins when the first RPC of every unit has ended.
    world.until(STEP, 5000, |world| world.client().step_finished());
    let now = world.now;
    let progress = world.client().progress(now);
    assert_eq!(progress.errors, []);
    assert!(progress.ops > 0);
}

#[test]
fn a_node_that_goes_and_returns_leaves_nothing_in_the_window() {
    let mut world = pair(1);
    let test = Test::Read { len: MIB, check: BrwCheck::None };
    let limit = StepLimit::Time(Nanos::from_secs(100));
    world.client().start_step(step(test, limit)).expect("a good step");
    world.turns(STEP, 100);
    world.nodes[1].stalled = true;
    world.turns(Nanos::from_millis(100), 100);
    world.nodes[1].stalled = false;
    world.vanish = 5;
    world.turns(Nanos::from_millis(100), 500);
    world.vanish = 0;
    world.until(Nanos::from_millis(10), 60_000, |world| world.client().step_finished());
    let now = world.now;
    let progress = world.client().progress(now);
    assert!(progress.ops > 200, "{}", progress.ops);
    assert_eq!(progress.window.expect("there is one").in_flight, 0);
}
