//! Any commands in any order, over a network that loses what it likes: each command has exactly one
//! answer, what is promised about a session holds, and nothing is left behind.

use crate::common::World;
use lustrine_lnet::time::Nanos;
use lustrine_lnet_testing::test_nid;
use lustrine_selftest::Test;
use lustrine_selftest::Tunables;
use lustrine_selftest::console::{
    Answer, BatchSide, Command, Distribution, NewTest, NodeState, Refusal, Target,
};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::BrwCheck;
use proptest::prelude::*;

const NODES: usize = 4;

/// A group's, mostly.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just("a".to_owned()), 4 => Just("b".to_owned()), 1 => Just("c".to_owned())]
}

/// A batch's, mostly.
fn batch() -> impl Strategy<Value = String> {
    prop_oneof![5 => Just("batch".to_owned()), 1 => Just("c".to_owned())]
}

fn nids() -> impl Strategy<Value = Vec<Nid>> {
    prop::collection::vec((0..=NODES).prop_map(test_nid), 0..4)
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        Just(Target::Session),
        name().prop_map(Target::Group),
        (batch(), any::<bool>()).prop_map(|(name, clients)| {
            Target::Batch(name, if clients { BatchSide::Clients } else { BatchSide::Servers })
        }),
        nids().prop_map(Target::Nodes),
    ]
}

fn new_test() -> impl Strategy<Value = NewTest> {
    let what = prop_oneof![
        Just(Test::Ping),
        Just(Test::Read { len: 4096, check: BrwCheck::Full }),
        Just(Test::Write { len: 64, check: BrwCheck::Simple }),
        Just(Test::Write { len: 63, check: BrwCheck::Simple }),
    ];
    let few = || prop_oneof![8 => 1..3u32, 1 => Just(0)];
    let rate = prop_oneof![6 => Just(0), 1 => 1..100u32];
    let numbers = (-1..6, few(), few(), few(), rate);
    (what, name(), name(), numbers, any::<bool>()).prop_map(
        |(test, from, to, (loops, concurrency, clients, servers, rate), stop_on_error)| NewTest {
            batch: "batch".to_owned(),
            from,
            to,
            test,
            offset: 0,
            loops,
            concurrency,
            spread: Distribution { clients, servers },
            stop_on_error,
            rate,
        },
    )
}

fn command() -> impl Strategy<Value = Command> {
    let timeout = prop_oneof![1 => 1..30u32, 3 => Just(0), 3 => Just(300)];
    let session = (any::<bool>(), timeout).prop_map(|(force, timeout)| Command::NewSession {
        name: "s".to_owned(),
        timeout,
        force,
        features: 1,
    });
    prop_oneof![
        1 => session,
        1 => Just(Command::EndSession),
        1 => Just(Command::EndSessionAtOnce),
        1 => Just(Command::ShowSession),
        3 => name().prop_map(|group| Command::AddGroup { group }),
        6 => (name(), nids()).prop_map(|(group, nids)| Command::AddNodes { group, nids }),
        1 => name().prop_map(|group| Command::DeleteGroup { group }),
        2 => name().prop_map(|group| Command::RefreshGroup { group }),
        1 => name().prop_map(|group| Command::CleanGroup {
            group,
            states: vec![NodeState::Down, NodeState::Unknown],
        }),
        1 => (name(), nids()).prop_map(|(group, nids)| Command::RemoveNodes { group, nids }),
        1 => name().prop_map(|group| Command::ShowGroup { group }),
        1 => batch().prop_map(|batch| Command::AddBatch { batch }),
        1 => batch().prop_map(|batch| Command::ShowBatch { batch }),
        6 => new_test().prop_map(Command::AddTest),
        4 => batch().prop_map(|batch| Command::Run { batch, timeout: 0 }),
        3 => (batch(), any::<bool>()).prop_map(|(batch, force)| Command::Stop { batch, force }),
        3 => (batch(), 0..3u32).prop_map(|(batch, test)| {
            Command::Query { batch, test, timeout: 3 }
        }),
        2 => (batch(), 0..3u32).prop_map(|(batch, test)| {
            Command::ClientStats { batch, test, timeout: 3 }
        }),
        2 => target().prop_map(|target| Command::Ping { target, timeout: 3 }),
        2 => target().prop_map(|target| Command::Stat { target, timeout: 8 }),
    ]
}

/// What may happen between two commands.
#[derive(Clone, Debug)]
enum Step {
    Command(Command),
    /// Give it, and do not wait.
    Give(Command),
    Wait(u32),
    Restart(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => command().prop_map(Step::Command),
        3 => command().prop_map(Step::Give),
        2 => (1..400u32).prop_map(Step::Wait),
        1 => (1..=NODES).prop_map(Step::Restart),
    ]
}

fn world(seed: u64) -> World {
    let mut world = World::new(NODES + 1, Tunables::default());
    world.seed(seed);
    world.shuffle = true;
    for node in 1..=NODES {
        world.add_service(node);
    }
    world.add_console(0);
    world
}

/// Most of what may happen needs a session with groups.
fn prepare(world: &mut World) {
    let name = "first".to_owned();
    let begin = Command::NewSession { name, timeout: 300, force: false, features: 1 };
    assert!(world.command(0, begin).is_ok());
    for (group, nodes) in [("a", [1, 2]), ("b", [3, 4])] {
        let group = group.to_owned();
        assert!(world.command(0, Command::AddGroup { group: group.clone() }).is_ok());
        let nids = nodes.into_iter().map(test_nid).collect();
        assert!(world.command(0, Command::AddNodes { group, nids }).is_ok());
    }
}

fn check(answer: &Result<Answer, Refusal>) {
    if let Ok(Answer::Session(session)) = answer {
        assert!(session.nodes as usize <= NODES + 1);
    }
    if let Err(refusal) = answer {
        assert!(refusal.errno() > 0 && !refusal.to_string().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_command_is_answered_once_and_nothing_stays(
        steps in prop::collection::vec(step(), 1..30),
        seed in any::<u64>(),
        vanish in prop_oneof![Just(0u64), Just(20), Just(150)],
    ) {
        let mut world = world(seed);
        prepare(&mut world);
        (world.vanish, world.fail) = (vanish, vanish);
        let mut given = Vec::new();
        for step in steps {
            match step {
                Step::Command(command) => check(&world.command(0, command)),
                Step::Give(command) => given.push(world.give(0, command)),
                Step::Wait(turns) => world.turns(Nanos::from_millis(50), turns),
                Step::Restart(node) => {
                    world.restart(node);
                    world.add_service(node);
                }
            }
        }
        // All is well again: whatever is in flight comes to its end.
        (world.vanish, world.fail) = (0, 0);
        world.until(Nanos::from_millis(50), 20_000, |world| !world.console_at(0).console.is_busy());
        world.turns(Nanos::from_millis(50), 20);
        let mut answered = Vec::new();
        for (ticket, answer) in world.console_at(0).answers.drain(..) {
            check(&answer);
            answered.push(ticket);
        }
        answered.sort_unstable();
        prop_assert_eq!(answered, given);
        let _ = world.command(0, Command::EndSession);
        prop_assert_eq!(world.console_at(0).console.session(), None);
        prop_assert_eq!(world.console_at(0).console.next_rpc(), None);
        // Nodes that got no request leave by themselves.
        world.turns(Nanos::from_millis(500), 500);
        for node in 1..=NODES {
            prop_assert_eq!(world.service(node).session(), None, "node {}", node);
        }
        prop_assert!(!world.console_at(0).calls.holds_memory());
    }
}
