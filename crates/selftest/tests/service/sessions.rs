//! A console of ours drives nodes of ours [LST-20]. Node 0 is the console.

use crate::common::{World, message};
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet_testing::test_nid;
use lustrine_selftest::Test;
use lustrine_selftest::Tunables;
use lustrine_selftest::console::{
    Answer, BatchSide, Command, Detail, Distribution, NewTest, NodeReply, NodeState, Refusal,
    Reply, SessionHolder, Target,
};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{Body, BrwCheck, Counters, MakeSessionRequest, Name};

const STEP: Nanos = Nanos::from_millis(10);
const SERVERS: &str = "servers";
const CLIENTS: &str = "clients";

/// So many nodes with services, and a console beside them.
fn world(services: usize) -> World {
    let mut world = World::new(services + 1, Tunables::default());
    for node in 1..=services {
        world.add_service(node);
    }
    world.add_console(0);
    world
}

fn nids(nodes: impl IntoIterator<Item = usize>) -> Vec<Nid> {
    nodes.into_iter().map(test_nid).collect()
}

fn begin(world: &mut World, force: bool) -> Result<Answer, Refusal> {
    let name = "demo".to_owned();
    world.command(0, Command::NewSession { name, timeout: 300, force, features: 1 })
}

fn add_group(
    world: &mut World,
    group: &str,
    nodes: impl IntoIterator<Item = usize>,
) -> Vec<NodeReply> {
    let group = group.to_owned();
    assert_eq!(world.command(0, Command::AddGroup { group: group.clone() }), Ok(Answer::Done));
    said(world.command(0, Command::AddNodes { group, nids: nids(nodes) }))
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

fn new_test(test: Test, loops: i32) -> NewTest {
    NewTest {
        batch: "batch".to_owned(),
        from: CLIENTS.to_owned(),
        to: SERVERS.to_owned(),
        test,
        offset: 0,
        loops,
        concurrency: 2,
        spread: Distribution::ONE_TO_ONE,
        stop_on_error: true,
        rate: 0,
    }
}

fn query(world: &mut World, test: u32) -> Vec<u32> {
    let batch = "batch".to_owned();
    let said = said(world.command(0, Command::Query { batch, test, timeout: 5 }));
    said.into_iter()
        .map(|said| match said.reply {
            Reply::Good(Detail::Active(active)) => active,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn counters(world: &mut World, group: &str) -> Vec<Counters> {
    let target = Target::Group(group.to_owned());
    let said = said(world.command(0, Command::Stat { target, timeout: 5 }));
    said.into_iter()
        .map(|said| match said.reply {
            Reply::Good(Detail::Counters(counters)) => *counters,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn states(world: &mut World, group: &str) -> Vec<NodeState> {
    match world.command(0, Command::ShowGroup { group: group.to_owned() }) {
        Ok(Answer::Nodes(nodes)) => nodes.into_iter().map(|node| node.state).collect(),
        other => panic!("{other:?}"),
    }
}

/// A session with clients 1 and 2, and servers 3 and 4.
fn two_by_two() -> World {
    let mut world = world(4);
    begin(&mut world, false).expect("a session");
    assert_eq!(add_group(&mut world, CLIENTS, [1, 2]).len(), 2);
    assert_eq!(add_group(&mut world, SERVERS, [3, 4]).len(), 2);
    world
}

fn run() -> Command {
    Command::Run { batch: "batch".to_owned(), timeout: 0 }
}

#[test]
fn a_session_from_its_beginning_to_its_end() {
    let mut world = two_by_two();
    let read = Test::Read { len: 4096, check: BrwCheck::Full };
    let write = Test::Write { len: 8192, check: BrwCheck::Simple };
    for test in [read, write, Test::Ping] {
        assert_eq!(all_good(world.command(0, Command::AddTest(new_test(test, 5)))), 4);
    }
    let Ok(Answer::Batch(batch)) =
        world.command(0, Command::ShowBatch { batch: "batch".to_owned() })
    else {
        panic!("no batch")
    };
    assert_eq!((batch.clients.len(), batch.servers.len(), batch.running), (2, 2, false));
    assert_eq!(batch.tests.len(), 3);
    assert_eq!(all_good(world.command(0, run())), 2);
    world.until(STEP, 1000, |world| query(world, 0) == [0, 0]);
    let Ok(Answer::Batch(batch)) =
        world.command(0, Command::ShowBatch { batch: "batch".to_owned() })
    else {
        panic!("no batch")
    };
    assert!(!batch.running, "seen to have stopped");
    // Each client had one server and two units: 10 RPCs of each test.
    for counters in counters(&mut world, SERVERS) {
        assert_eq!(counters.rpc.bulk_put, 10 * 4096);
        assert_eq!(counters.rpc.bulk_get, 10 * 8192);
    }
    for counters in counters(&mut world, CLIENTS) {
        assert_eq!((counters.framework.brw_errors, counters.framework.ping_errors), (0, 0));
    }
    let stop = Command::Stop { batch: "batch".to_owned(), force: false };
    assert_eq!(all_good(world.command(0, stop)), 2);
    assert_eq!(all_good(world.command(0, Command::EndSession)), 4);
    for node in 1..5 {
        assert_eq!(world.service(node).session(), None);
    }
    assert_eq!(world.command(0, Command::ShowSession), Err(Refusal::NoSession));
}

#[test]
fn an_endless_test_runs_until_it_is_stopped() {
    for force in [false, true] {
        let mut world = two_by_two();
        world.command(0, Command::AddTest(new_test(Test::Ping, -1))).expect("added");
        all_good(world.command(0, run()));
        world.turns(STEP, 50);
        assert_eq!(query(&mut world, 0), [1, 1]);
        assert_eq!(query(&mut world, 1), [2, 2], "units");
        assert_eq!(
            world.command(0, Command::AddTest(new_test(Test::Ping, 1))),
            Err(Refusal::BatchRuns("batch".to_owned()))
        );
        let batch = "batch".to_owned();
        all_good(world.command(0, Command::Stop { batch, force }));
        world.until(STEP, 1000, |world| query(world, 0) == [0, 0]);
        let rpcs = world.service(3).totals().received;
        assert!(rpcs > 50, "{rpcs}");
    }
}

/// A node that is client and server has two entries for a test in its own list; the question for a
/// test goes to the right one.
#[test]
fn a_node_in_both_groups_is_asked_for_its_client_part() {
    let mut world = world(2);
    begin(&mut world, false).expect("a session");
    add_group(&mut world, CLIENTS, [1, 2]);
    add_group(&mut world, SERVERS, [2, 1]);
    for _ in 0..2 {
        let test = NewTest { concurrency: 3, ..new_test(Test::Ping, -1) };
        assert_eq!(all_good(world.command(0, Command::AddTest(test))), 4);
    }
    all_good(world.command(0, run()));
    assert_eq!(query(&mut world, 1), [3, 3]);
    assert_eq!(query(&mut world, 2), [3, 3]);
    let batch = || "batch".to_owned();
    assert_eq!(
        world.command(0, Command::Query { batch: batch(), test: 3, timeout: 5 }),
        Err(Refusal::NoTest { batch: batch(), test: 3, tests: 2 })
    );
}

#[test]
fn clients_and_servers_come_together_as_the_spread_says() {
    let mut world = world(7);
    begin(&mut world, false).expect("a session");
    add_group(&mut world, CLIENTS, [1, 2, 3, 4]);
    add_group(&mut world, SERVERS, [5, 6, 7]);
    // Clients 1 and 2 have servers 5 and 6, clients 3 and 4 have 7 and 5.
    let spread = Distribution { clients: 2, servers: 2 };
    let test = NewTest { spread, ..new_test(Test::Ping, 10) };
    assert_eq!(all_good(world.command(0, Command::AddTest(test))), 7);
    all_good(world.command(0, run()));
    world.until(STEP, 1000, |world| query(world, 0) == [0; 4]);
    // By each of its clients 2 units of 10 RPCs; the rest are the framework's.
    let before = [4, 2, 2].map(|clients| clients * 20);
    for (node, pings) in [5, 6, 7].into_iter().zip(before) {
        let framework = 2;
        assert_eq!(world.service(node).totals().received, pings + framework, "node {node}");
    }
}

#[test]
fn nodes_of_another_session_are_busy_until_they_are_taken() {
    let mut world = world(3);
    world.add_console(3);
    begin(&mut world, false).expect("a session");
    add_group(&mut world, SERVERS, [1]);
    let other =
        |force| Command::NewSession { name: "other".to_owned(), timeout: 300, force, features: 1 };
    world.command(3, other(false)).expect("another session");
    let group = || "g".to_owned();
    world.command(3, Command::AddGroup { group: group() }).expect("a group");
    let add = || Command::AddNodes { group: group(), nids: nids([1, 2]) };
    let answers = said(world.command(3, add()));
    assert_eq!(answers[0].reply, Reply::Refused(16));
    let holder =
        |name: &str, node| SessionHolder { name: name.to_owned(), console: test_nid(node) };
    assert_eq!(answers[0].holder, Some(holder("demo", 0)));
    assert_eq!(answers[0].state, NodeState::Busy);
    assert!(answers[1].is_good());
    world.command(3, other(true)).expect("the next session");
    assert_eq!(world.service(2).session(), None, "the old one has ended there");
    world.command(3, Command::AddGroup { group: group() }).expect("a group");
    assert_eq!(all_good(world.command(3, add())), 2);
    // The first console learns of it when it asks, and does not end what is not its own.
    let target = Target::Session;
    let answers = said(world.command(0, Command::Ping { target, timeout: 5 }));
    let detail = Detail::Session(holder("other", 3));
    assert_eq!(answers[0].reply, Reply::Good(detail));
    assert_eq!(states(&mut world, SERVERS), [NodeState::Busy]);
    assert_eq!(all_good(world.command(0, Command::EndSession)), 0);
    assert!(world.service(1).session().is_some());
}

#[test]
fn what_is_not_possible_is_refused_before_anything_is_sent() {
    let mut world = world(2);
    let name = || "g".to_owned();
    assert_eq!(world.command(0, Command::ListGroups), Err(Refusal::NoSession));
    begin(&mut world, false).expect("a session");
    let exists = Err(Refusal::SessionExists("demo".to_owned()));
    assert_eq!(begin(&mut world, false), exists);
    add_group(&mut world, CLIENTS, [1]);
    add_group(&mut world, SERVERS, [2]);
    let sent = world.service(1).totals().received;
    let no_group = || Err(Refusal::NoGroup(name()));
    for command in [
        Command::ShowGroup { group: name() },
        Command::AddNodes { group: name(), nids: nids([1]) },
        Command::DeleteGroup { group: name() },
        Command::Stat { target: Target::Group(name()), timeout: 5 },
        Command::AddTest(NewTest { from: name(), ..new_test(Test::Ping, 1) }),
    ] {
        assert_eq!(world.command(0, command.clone()), no_group(), "{command:?}");
    }
    let batch = "nothing".to_owned();
    assert_eq!(
        world.command(0, Command::Stop { batch: batch.clone(), force: false }),
        Err(Refusal::NoBatch(batch))
    );
    assert_eq!(world.command(0, run()), Err(Refusal::EmptyBatch("batch".to_owned())));
    let group = CLIENTS.to_owned();
    let taken = Err(Refusal::GroupExists(group.clone()));
    assert_eq!(world.command(0, Command::AddGroup { group }), taken);
    let long = "n".repeat(32);
    for name in [String::new(), long, "a\0b".to_owned()] {
        let refused = world.command(0, Command::AddBatch { batch: name.clone() });
        assert_eq!(refused, Err(Refusal::BadName(name)));
    }
    let large: Nid = "fd00::1@tcp".parse().expect("a NID");
    let group = CLIENTS.to_owned();
    assert_eq!(
        world.command(0, Command::AddNodes { group, nids: vec![large] }),
        Err(Refusal::LargeNid(large))
    );
    let brw = |len, check| Test::Read { len, check };
    let dangers = [
        new_test(brw(12, BrwCheck::None), 1),
        new_test(brw(0, BrwCheck::None), 1),
        new_test(brw((1 << 20) + 8, BrwCheck::None), 1),
        new_test(brw(4096, BrwCheck::Discard), 1),
        NewTest { offset: 8, ..new_test(brw(4096, BrwCheck::None), 1) },
        NewTest { offset: 4, ..new_test(brw(8, BrwCheck::None), 1) },
        NewTest { offset: 4096, ..new_test(brw(8, BrwCheck::None), 1) },
        NewTest { loops: 0, ..new_test(Test::Ping, 1) },
        NewTest { concurrency: 0, ..new_test(Test::Ping, 1) },
        NewTest { concurrency: 1025, ..new_test(Test::Ping, 1) },
        NewTest { spread: Distribution { clients: 0, servers: 1 }, ..new_test(Test::Ping, 1) },
        NewTest { spread: Distribution { clients: 1, servers: 2 }, ..new_test(Test::Ping, 1) },
        NewTest { spread: Distribution { clients: 1, servers: 342 }, ..new_test(Test::Ping, 1) },
    ];
    for test in dangers {
        let refused = world.command(0, Command::AddTest(test.clone()));
        assert_eq!(refused.map_err(|refusal| refusal.errno()), Err(22), "{test:?}");
    }
    // An offset that leaves the data on one page is as good as none.
    let inside = NewTest { offset: 8, ..new_test(brw(4088, BrwCheck::Full), 1) };
    assert_eq!(world.service(1).totals().received, sent);
    assert_eq!(all_good(world.command(0, Command::AddTest(inside))), 2);
    // A group that a test has stays as it is.
    for command in [
        Command::DeleteGroup { group: CLIENTS.to_owned() },
        Command::RefreshGroup { group: SERVERS.to_owned() },
        Command::CleanGroup { group: SERVERS.to_owned(), states: vec![NodeState::Busy] },
        Command::RemoveNodes { group: SERVERS.to_owned(), nids: nids([2]) },
    ] {
        let refused = world.command(0, command.clone());
        assert_eq!(refused.map_err(|refusal| refusal.errno()), Err(16), "{command:?}");
    }
    let key = crate::common::KEY + 1;
    let now = world.now;
    let console = &mut world.console_at(0).console;
    console.command(now, 999, key, Command::ListGroups);
    assert_eq!(console.next_answer(), Some((999, Err(Refusal::OtherKey))));
    console.command(now, 1000, key, Command::ShowSession);
    let shown = console.next_answer();
    let Some((1000, Ok(Answer::Session(session)))) = shown else { panic!("{shown:?}") };
    assert_eq!(session.key, crate::common::KEY, "anybody may know");
}

/// A node counts how often it was invited [LST-13]: its reply to an earlier invitation was lost.
#[test]
fn a_node_that_was_invited_several_times_leaves_the_session() {
    for (invitations, leaves) in [(3, true), (16, true), (17, false)] {
        let mut world = world(1);
        let Ok(Answer::Session(session)) = begin(&mut world, false) else { panic!("no session") };
        add_group(&mut world, SERVERS, [1]);
        let (sid, name) = (session.sid(), Name::new("demo").unwrap());
        for _ in 1..invitations {
            let make = MakeSessionRequest { reply_bits: world.bits(), sid, force: 0, name };
            let made = world.ask(0, 1, 1, &message(1, Body::MakeSessionRequest(make)));
            assert!(matches!(made, Some(Body::MakeSessionReply(reply)) if reply.status == 0));
        }
        let said = said(world.command(0, Command::EndSession));
        assert_eq!(said[0].is_good(), leaves, "{invitations}: {said:?}");
        assert_eq!(world.service(1).session().is_none(), leaves, "{invitations}");
    }
}

/// Somebody asks with a time-out of an hour, and a node is silent; the load can be stopped at once.
#[test]
fn questions_give_way_to_commands_that_stop_or_end() {
    let stop = || Command::Stop { batch: "batch".to_owned(), force: true };
    let force =
        Command::NewSession { name: "next".to_owned(), timeout: 300, force: true, features: 1 };
    for urgent in [stop(), Command::EndSession, force] {
        let mut world = world(2);
        begin(&mut world, false).expect("a session");
        add_group(&mut world, SERVERS, [2]);
        add_group(&mut world, CLIENTS, [1]);
        all_good(world.command(0, Command::AddTest(new_test(Test::Ping, -1))));
        all_good(world.command(0, run()));
        world.nodes[2].stalled = true;
        let target = Target::Session;
        let question = world.give(0, Command::Ping { target, timeout: 30 });
        let next =
            world.give(0, Command::Query { batch: "batch".to_owned(), test: 0, timeout: 3600 });
        world.turns(STEP, 50);
        assert!(world.console_at(0).answers.is_empty());
        // Not the session's key: it waits behind the questions, to be refused.
        let now = world.now;
        world.console_at(0).console.command(now, 999, crate::common::KEY + 1, stop());
        let ticket = world.give(0, urgent.clone());
        world.turns(STEP, 10);
        let answers = &mut world.console_at(0).answers;
        let (first, answer) = answers.remove(0);
        assert_eq!(first, question, "{urgent:?}");
        let said = said(answer);
        assert!(said[0].is_good() && said[0].nid == test_nid(1), "{said:?}");
        let Reply::None { errno: -4, why, .. } = &said[1].reply else { panic!("{said:?}") };
        assert_eq!(why, "another command ended this one");
        assert_eq!(said[1].state, NodeState::Unknown, "nothing is known of it");
        world.nodes[2].stalled = false;
        world.until(STEP, 4000, |world| world.console_at(0).answers.len() == 3);
        let order: Vec<u64> = world.console_at(0).answers.iter().map(|(of, _)| *of).collect();
        assert_eq!(order, [999, ticket, next], "{urgent:?}");
    }
}

/// RPCs of questions that gave way do not pile up at a node that is silent.
#[test]
fn rpcs_of_questions_that_gave_way_are_given_up() {
    let mut world = world(2);
    begin(&mut world, false).expect("a session");
    add_group(&mut world, SERVERS, [2]);
    add_group(&mut world, CLIENTS, [1]);
    all_good(world.command(0, Command::AddTest(new_test(Test::Ping, -1))));
    all_good(world.command(0, run()));
    world.nodes[2].stalled = true;
    for _ in 0..8 {
        world.give(0, Command::Ping { target: Target::Session, timeout: 3600 });
        world.turns(STEP, 50);
        world.give(0, Command::Stop { batch: "batch".to_owned(), force: true });
        world.turns(STEP, 50);
    }
    // One may be a reminder of the session.
    let in_flight = world.console_at(0).calls.in_flight();
    assert!(in_flight <= 1, "{in_flight}");
}

#[test]
fn groups_change_and_their_nodes_come_and_go() {
    let mut world = world(3);
    begin(&mut world, false).expect("a session");
    add_group(&mut world, "one", [1, 2]);
    add_group(&mut world, "two", [2, 3]);
    // Node 2 was active when it came into the second group: it was not asked again, or it would
    // have to be asked twice to leave.
    assert_eq!(
        all_good(
            world.command(
                0,
                Command::RemoveNodes { group: "one".to_owned(), nids: nids([1, 2, 3]) }
            )
        ),
        1
    );
    assert_eq!(world.service(1).session(), None);
    assert!(world.service(2).session().is_some(), "it is in the second group");
    assert_eq!(all_good(world.command(0, Command::DeleteGroup { group: "two".to_owned() })), 2);
    assert_eq!(world.service(2).session(), None);
    let Ok(Answer::Session(session)) = world.command(0, Command::ShowSession) else {
        panic!("no session")
    };
    assert_eq!(session.nodes, 0);
    assert_eq!(world.command(0, Command::ListGroups), Ok(Answer::Names(vec!["one".to_owned()])));
}

#[test]
fn a_node_that_does_not_answer_is_down_until_it_does() {
    let mut world = world(2);
    begin(&mut world, false).expect("a session");
    world.nodes[2].dead = true;
    let answers = add_group(&mut world, SERVERS, [1, 2]);
    assert!(answers[0].is_good());
    assert_eq!(answers[1].state, NodeState::Down);
    let Reply::None { errno: -110, why, .. } = &answers[1].reply else { panic!("{answers:?}") };
    assert!(why.contains("no reply"), "{why}");
    // A test is refused, and says which node it is.
    let group = CLIENTS.to_owned();
    world.command(0, Command::AddGroup { group: group.clone() }).expect("a group");
    world.command(0, Command::AddNodes { group, nids: nids([1]) }).expect("added");
    let test =
        NewTest { spread: Distribution { clients: 1, servers: 2 }, ..new_test(Test::Ping, 1) };
    let refused = world.command(0, Command::AddTest(test.clone()));
    assert_eq!(refused, Err(Refusal::NotActive(vec![(test_nid(2), NodeState::Down)])));
    // It comes back: no session stands there, and a refresh makes it.
    world.restart(2);
    world.add_service(2);
    world.turns(STEP, 4000);
    assert_eq!(states(&mut world, SERVERS), [NodeState::Active, NodeState::Unknown]);
    assert_eq!(all_good(world.command(0, Command::RefreshGroup { group: SERVERS.to_owned() })), 1);
    assert_eq!(all_good(world.command(0, Command::AddTest(test))), 3);
    // Forgotten without a word: it stays in the session until it expires there.
    let group = "other".to_owned();
    world.command(0, Command::AddGroup { group: group.clone() }).expect("a group");
    world.command(0, Command::AddNodes { group: group.clone(), nids: nids([2]) }).expect("added");
    let states = vec![NodeState::Active];
    assert_eq!(world.command(0, Command::CleanGroup { group, states }), Ok(Answer::Done));
}

#[test]
fn a_question_that_is_answered_too_late_says_little_of_the_node() {
    let mut world = world(1);
    begin(&mut world, false).expect("a session");
    add_group(&mut world, SERVERS, [1]);
    world.nodes[1].dead = true;
    let target = Target::Nodes(nids([1]));
    let answers = said(world.command(0, Command::Stat { target, timeout: 1 }));
    assert_eq!(answers[0].state, NodeState::Active, "less than 6 s are not enough to decide");
    assert!(matches!(answers[0].reply, Reply::None { errno: -4, .. }), "{answers:?}");
}

#[test]
fn a_console_keeps_its_nodes_and_lets_go_of_them_in_time() {
    let mut world = world(1);
    begin(&mut world, false).expect("a session");
    add_group(&mut world, SERVERS, [1]);
    // Nodes leave after 100 s without a request, the session ends after 300 without a command.
    world.turns(Nanos::from_millis(100), 2900);
    assert!(world.service(1).session().is_some(), "kept");
    assert_eq!(states(&mut world, SERVERS), [NodeState::Active]);
    world.turns(Nanos::from_millis(100), 3100);
    assert_eq!(world.service(1).session(), None, "let go");
    assert_eq!(world.command(0, Command::ListGroups), Err(Refusal::NoSession));
}

/// A loop whose deadline lies in the past would spin.
#[test]
fn who_has_nothing_to_do_wants_no_turn() {
    let mut world = world(1);
    assert_eq!(world.console_at(0).calls.next_deadline(), Time::NEVER);
    begin(&mut world, false).expect("a session");
    add_group(&mut world, SERVERS, [1]);
    counters(&mut world, SERVERS);
    for _ in 0..100 {
        let then = world.now;
        world.turns(Nanos::from_millis(500), 1);
        let harness = world.console_at(0);
        if harness.calls.in_flight() == 0 {
            assert_eq!(harness.calls.next_deadline(), Time::NEVER);
        }
        assert!(harness.console.next_deadline() > then, "the last turn has done what was due");
    }
}

#[test]
fn nodes_of_a_console_that_dies_are_free_in_time() {
    let mut world = world(1);
    begin(&mut world, false).expect("a session");
    add_group(&mut world, SERVERS, [1]);
    world.nodes[0].dead = true;
    world.turns(Nanos::from_millis(100), 900);
    assert!(world.service(1).session().is_some());
    world.turns(Nanos::from_millis(100), 200);
    assert_eq!(world.service(1).session(), None);
}

#[test]
fn commands_wait_for_each_other_and_are_bounded() {
    let mut world = world(1);
    begin(&mut world, false).expect("a session");
    let group = SERVERS.to_owned();
    world.command(0, Command::AddGroup { group: group.clone() }).expect("a group");
    let add = world.give(0, Command::AddNodes { group: group.clone(), nids: nids([1]) });
    let later: Vec<u64> =
        (0..100).map(|_| world.give(0, Command::ShowGroup { group: group.clone() })).collect();
    world.turns(STEP, 100);
    let answers = std::mem::take(&mut world.console_at(0).answers);
    assert_eq!(answers.len(), 101);
    let busy = answers.iter().filter(|(_, answer)| *answer == Err(Refusal::Busy(64)));
    assert_eq!(busy.count(), 36);
    let order: Vec<u64> =
        answers.iter().filter(|(_, answer)| answer.is_ok()).map(|(ticket, _)| *ticket).collect();
    assert_eq!(order[0], add);
    assert_eq!(order[1..], later[..64]);
    for (_, answer) in answers.into_iter().skip(36 + 1) {
        let Ok(Answer::Nodes(nodes)) = answer else { panic!("{answer:?}") };
        assert_eq!(nodes[0].state, NodeState::Active, "it came after the node");
    }
}

/// Nodes older than 2011 know lengths in pages only, and fetch whole pages.
#[test]
fn a_session_without_features() {
    let mut world = world(2);
    let name = "old".to_owned();
    let begin = Command::NewSession { name, timeout: 300, force: false, features: 0 };
    world.command(0, begin).expect("a session");
    add_group(&mut world, CLIENTS, [1]);
    add_group(&mut world, SERVERS, [2]);
    let read = |len| Test::Read { len, check: BrwCheck::Full };
    let refused = world.command(0, Command::AddTest(new_test(read(4088), 5)));
    assert_eq!(refused.map_err(|refusal| refusal.errno()), Err(22), "no whole page");
    assert_eq!(all_good(world.command(0, Command::AddTest(new_test(read(8192), 5)))), 2);
    all_good(world.command(0, run()));
    world.until(STEP, 1000, |world| query(world, 0) == [0]);
    assert_eq!(counters(&mut world, SERVERS)[0].rpc.bulk_put, 10 * 8192);
}

#[test]
fn a_batch_names_the_nodes_of_its_parts() {
    let mut world = two_by_two();
    world.command(0, Command::AddTest(new_test(Test::Ping, 1))).expect("added");
    for (part, nodes) in [(BatchSide::Clients, [1, 2]), (BatchSide::Servers, [3, 4])] {
        let target = Target::Batch("batch".to_owned(), part);
        let answers = said(world.command(0, Command::Ping { target, timeout: 5 }));
        let asked: Vec<Nid> = answers.iter().map(|said| said.nid).collect();
        assert_eq!(asked, nids(nodes));
    }
}
