//! How a console ends its session: what runs is stopped first, and nodes that did not answer are
//! told too. Node 0 is the console.

use crate::common::World;
use lustrine_lnet::time::Nanos;
use lustrine_lnet_testing::test_nid;
use lustrine_selftest::console::{
    Answer, Command, Detail, Distribution, NewTest, NodeReply, NodeState, Refusal, Reply, Target,
};
use lustrine_selftest::{Test, Tunables};

const STEP: Nanos = Nanos::from_millis(10);
const CLIENTS: &str = "clients";
const SERVERS: &str = "servers";

fn batch() -> String {
    "batch".to_owned()
}

/// Client 1 pings server 2 without end, and waits for an answer: the server is stalled. An RPC has
/// this time-out.
fn busy(rpc_timeout: i64) -> World {
    let mut world = idle(rpc_timeout);
    assert_eq!(all_good(world.command(0, Command::Run { batch: batch(), timeout: 0 })), 1);
    world.turns(STEP, 50);
    world.nodes[2].stalled = true;
    world.turns(STEP, 50);
    world
}

/// The same before the batch is run.
fn idle(rpc_timeout: i64) -> World {
    let mut world = unknown(rpc_timeout);
    // Now the console knows that they are Lustrine nodes.
    let ping = Command::Ping { target: Target::Session, timeout: 6 };
    assert_eq!(all_good(world.command(0, ping)), 2);
    world
}

/// The same before the console knows that the nodes are no kernel nodes.
fn unknown(rpc_timeout: i64) -> World {
    let mut tunables = Tunables::default();
    tunables.set("rpc_timeout", rpc_timeout).expect("a tunable");
    let mut world = World::new(4, tunables);
    (1..4).for_each(|node| world.add_service(node));
    world.add_console(0);
    begin(&mut world, false).expect("a session");
    for (group, node) in [(CLIENTS, 1), (SERVERS, 2)] {
        assert_eq!(all_good(add_group(&mut world, group, node)), 1);
    }
    assert_eq!(all_good(world.command(0, Command::AddTest(pings(SERVERS)))), 2);
    world
}

fn begin(world: &mut World, force: bool) -> Result<Answer, Refusal> {
    world.command(0, new_session(force))
}

fn new_session(force: bool) -> Command {
    Command::NewSession { name: "ends".to_owned(), timeout: 300, force, features: 1 }
}

fn add_group(world: &mut World, group: &str, node: usize) -> Result<Answer, Refusal> {
    let group = group.to_owned();
    assert_eq!(world.command(0, Command::AddGroup { group: group.clone() }), Ok(Answer::Done));
    world.command(0, Command::AddNodes { group, nids: vec![test_nid(node)] })
}

fn pings(to: &str) -> NewTest {
    NewTest {
        batch: batch(),
        from: CLIENTS.to_owned(),
        to: to.to_owned(),
        test: Test::Ping,
        offset: 0,
        loops: -1,
        concurrency: 2,
        spread: Distribution::ONE_TO_ONE,
        stop_on_error: false,
        rate: 0,
    }
}

fn said(answer: Result<Answer, Refusal>) -> Vec<NodeReply> {
    match answer {
        Ok(Answer::Replies(said)) => said,
        other => panic!("{other:?}"),
    }
}

fn all_good(answer: Result<Answer, Refusal>) -> usize {
    let said = said(answer);
    assert!(said.iter().all(NodeReply::is_good), "{said:?}");
    said.len()
}

/// The answer to a command, if it has come.
fn answer(world: &mut World, ticket: u64) -> Option<Result<Answer, Refusal>> {
    let answers = &mut world.console_at(0).answers;
    let at = answers.iter().position(|(of, _)| *of == ticket)?;
    Some(answers.remove(at).1)
}

fn answered_within(world: &mut World, turns: u32, ticket: u64) -> Result<Answer, Refusal> {
    for _ in 0..turns {
        if let Some(answer) = answer(world, ticket) {
            return answer;
        }
        world.turns(STEP, 1);
    }
    panic!("no answer after {turns} turns");
}

/// The selftest of a kernel node can hang otherwise (docs/live-kernels.md).
#[test]
fn a_session_ends_when_its_tests_have_ended() {
    for end in [Command::EndSession, new_session(true)] {
        let mut world = busy(64);
        let ticket = world.give(0, end.clone());
        world.turns(STEP, 1000);
        assert_eq!(answer(&mut world, ticket), None, "{end:?}");
        assert!(world.service(1).session().is_some(), "{end:?}: its RPC is in flight");
        let shown = world.give(0, Command::ShowSession);
        assert!(answered_within(&mut world, 2, shown).is_ok(), "it is still there");
        world.nodes[2].stalled = false;
        let answered = answered_within(&mut world, 1000, ticket);
        assert_eq!(world.service(1).session(), None, "{end:?}");
        if end == Command::EndSession {
            let said = said(answered);
            assert!(said.iter().all(|said| said.reply == Reply::Good(Detail::None)), "{said:?}");
        } else {
            assert!(matches!(answered, Ok(Answer::Session(_))), "{answered:?}");
        }
    }
}

#[test]
fn a_session_that_is_not_used_any_more_stops_its_tests_first() {
    let mut world = idle(64);
    assert_eq!(all_good(world.command(0, Command::Run { batch: batch(), timeout: 0 })), 1);
    world.turns(Nanos::from_millis(100), 2990);
    world.nodes[2].stalled = true;
    world.turns(Nanos::from_millis(100), 100);
    let running = world.service(1).session().expect("it waits for its RPC").active_batches;
    assert_eq!((running, world.console_at(0).console.is_busy()), (1, true));
    world.nodes[2].stalled = false;
    world.turns(Nanos::from_millis(100), 100);
    assert_eq!(world.service(1).session(), None);
    assert_eq!(world.console_at(0).console.session(), None);
}

#[test]
fn the_end_waits_for_about_70_s_and_says_what_still_ran() {
    let mut world = busy(1000);
    let ticket = world.give(0, Command::EndSession);
    world.turns(STEP, 6900);
    assert_eq!(answer(&mut world, ticket), None);
    assert!(world.service(1).session().is_some());
    let said = said(answered_within(&mut world, 4400, ticket));
    assert_eq!((said[0].nid, &said[0].reply), (test_nid(1), &Reply::Good(Detail::Active(1))));
    assert_eq!(world.service(1).session(), None);
}

#[test]
fn whoever_asks_again_does_not_wait_for_tests() {
    for again in [Command::EndSession, Command::EndSessionAtOnce] {
        let mut world = busy(1000);
        let ticket = world.give(0, Command::EndSession);
        world.turns(STEP, 300);
        let second = world.give(0, again);
        world.turns(STEP, 10);
        assert_eq!(world.service(1).session(), None);
        let said = said(answered_within(&mut world, 4000, ticket));
        assert_eq!((said[0].nid, &said[0].reply), (test_nid(1), &Reply::Good(Detail::Active(1))));
        assert_eq!(answer(&mut world, second), Some(Err(Refusal::NoSession)));
    }
    let mut world = busy(1000);
    world.give(0, Command::EndSessionAtOnce);
    world.turns(STEP, 10);
    assert_eq!(world.service(1).session(), None);
}

#[test]
fn clients_that_do_not_answer_are_not_waited_for() {
    let mut world = busy(1000);
    world.nodes[1].dead = true;
    world.nodes[2].stalled = false;
    let ticket = world.give(0, Command::EndSession);
    // 6 s for the stop, and then 3 s for the end of the session.
    let said = said(answered_within(&mut world, 1000, ticket));
    assert_eq!((said[0].state, said[1].is_good()), (NodeState::Down, true), "{said:?}");
}

/// The message could reach it while its test runs, so it is not sent.
#[test]
fn a_node_that_may_be_a_kernel_and_does_not_answer_is_not_told_to_leave() {
    let mut world = unknown(64);
    assert_eq!(all_good(world.command(0, Command::Run { batch: batch(), timeout: 0 })), 1);
    world.turns(STEP, 50);
    world.nodes[1].stalled = true;
    let ticket = world.give(0, Command::EndSession);
    let said = said(answered_within(&mut world, 1000, ticket));
    assert_eq!(said.iter().map(|said| said.nid).collect::<Vec<_>>(), [test_nid(2)]);
    // Nor is it taken over.
    begin(&mut world, false).expect("a session");
    world.nodes[1].stalled = false;
    let joins = self::said(add_group(&mut world, CLIENTS, 1));
    assert_eq!(joins[0].state, NodeState::Busy, "{joins:?}");
}

/// It was silent for a moment when the console asked.
#[test]
fn a_node_that_did_not_answer_is_told_to_stop_and_to_leave() {
    let mut world = idle(64);
    assert_eq!(all_good(world.command(0, Command::Run { batch: batch(), timeout: 0 })), 1);
    let silence = |world: &mut World, of: usize| {
        world.nodes[of].stalled = true;
        let target = Target::Nodes(vec![test_nid(of)]);
        let said = said(world.command(0, Command::Ping { target, timeout: 6 }));
        assert_eq!(said[0].state, NodeState::Down);
        world.nodes[of].stalled = false;
    };
    silence(&mut world, 1);
    assert_eq!(all_good(world.command(0, Command::Stop { batch: batch(), force: true })), 1);
    world.turns(STEP, 100);
    assert_eq!(world.service(1).session().expect("a session").active_batches, 0);
    silence(&mut world, 2);
    assert_eq!(all_good(world.command(0, Command::EndSession)), 2);
    assert_eq!(world.service(2).session(), None);
}

/// It did not hear that its session has ended.
#[test]
fn a_node_that_was_left_behind_is_taken_into_the_next_session() {
    let mut world = idle(64);
    world.nodes[2].dead = true;
    let said = said(world.command(0, Command::EndSession));
    assert_eq!((said[0].is_good(), said[1].is_good()), (true, false), "{said:?}");
    world.nodes[2].dead = false;
    assert!(world.service(2).session().is_some());
    begin(&mut world, false).expect("a session");
    assert_eq!(all_good(add_group(&mut world, SERVERS, 2)), 1);
    // The session of another console is left alone.
    world.add_console(1);
    world.command(1, new_session(false)).expect("a session");
    let group = SERVERS.to_owned();
    world.command(1, Command::AddGroup { group: group.clone() }).expect("a group");
    let answer = world.command(1, Command::AddNodes { group, nids: vec![test_nid(2)] });
    assert!(matches!(answer, Ok(Answer::Replies(said)) if said[0].holder.is_some()));
}

#[test]
fn what_the_console_knows_is_shown_during_questions() {
    let mut world = idle(64);
    world.nodes[2].stalled = true;
    let question = world.give(0, Command::Ping { target: Target::Session, timeout: 30 });
    world.turns(STEP, 50);
    let listed = world.give(0, Command::ListBatches);
    let shown = world.give(0, Command::ShowGroup { group: SERVERS.to_owned() });
    world.turns(STEP, 1);
    assert_eq!(answer(&mut world, listed), Some(Ok(Answer::Names(vec![batch()]))));
    assert!(matches!(answer(&mut world, shown), Some(Ok(Answer::Nodes(_)))));
    // It comes after what changes something, and before the questions that wait.
    let added = world.give(0, Command::AddBatch { batch: "next".to_owned() });
    let waits = world.give(0, Command::Ping { target: Target::Session, timeout: 30 });
    let listed = world.give(0, Command::ListBatches);
    world.turns(STEP, 10);
    assert_eq!(answer(&mut world, listed), None);
    world.nodes[2].stalled = false;
    let order = |world: &mut World| {
        world.console_at(0).answers.iter().map(|(of, _)| *of).collect::<Vec<u64>>()
    };
    world.until(STEP, 1000, |world| order(world).len() == 4);
    assert_eq!(order(&mut world), [question, added, listed, waits]);
    let names = vec![batch(), "next".to_owned()];
    assert_eq!(answer(&mut world, listed), Some(Ok(Answer::Names(names))));
}

/// Clients count the tests that they were told of, each for itself.
#[test]
fn a_test_that_clients_were_not_told_of_has_no_place_there() {
    let mut world = idle(64);
    assert_eq!(all_good(add_group(&mut world, "other", 3)), 1);
    world.nodes[3].dead = true;
    let said = said(world.command(0, Command::AddTest(pings("other"))));
    assert!(said.len() == 1 && !said[0].is_good(), "{said:?}");
    assert_eq!(all_good(world.command(0, Command::AddTest(pings(SERVERS)))), 2);
    let query = |world: &mut World, test| {
        self::said(world.command(0, Command::Query { batch: batch(), test, timeout: 5 }))
    };
    assert_eq!(query(&mut world, 2), [], "nobody was told of it");
    let third = query(&mut world, 3);
    assert_eq!((third[0].nid, &third[0].reply), (test_nid(1), &Reply::Good(Detail::Active(0))));
}
