//! Lustrine consoles ask Lustrine clients for their statistics (docs/protocol/client-stats.md).
//! Node 0 is the console.

use std::ops::Range;

use crate::common::World;
use lustrine_lnet::time::Nanos;
use lustrine_lnet_testing::test_nid;
use lustrine_selftest::Tunables;
use lustrine_selftest::console::{
    Answer, Command, Detail, Distribution, NewTest, NodeReply, NodeView, Refusal, Reply, Target,
};
use lustrine_selftest::{Latencies, Test, errno};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{
    Body, BrwCheck, CLIENT_STATS_LEN_MAX, ClientStats, ClientStatsDetails, ClientStatsRequest,
    EXTENSIONS_MAGIC, Service, Sid, bucket_start,
};

const STEP: Nanos = Nanos::from_millis(1);

/// So many clients from node 1 on, one server behind them, all in a session that knows them.
fn world(clients: usize, tunables: Tunables) -> World {
    let mut world = World::new(clients + 2, tunables);
    (1..clients + 2).for_each(|node| world.add_service(node));
    world.add_console(0);
    begin(&mut world, 1..clients + 1, clients + 1..clients + 2);
    world
}

fn begin(world: &mut World, clients: Range<usize>, servers: Range<usize>) {
    let name = "demo".to_owned();
    let session = Command::NewSession { name, timeout: 300, force: false, features: 1 };
    world.command(0, session).expect("a session");
    for (group, nodes) in [("clients", clients), ("servers", servers)] {
        let group = group.to_owned();
        world.command(0, Command::AddGroup { group: group.clone() }).expect("a group");
        let nids: Vec<Nid> = nodes.map(test_nid).collect();
        world.command(0, Command::AddNodes { group, nids }).expect("nodes");
    }
    world.command(0, Command::Ping { target: Target::Session, timeout: 5 }).expect("answers");
}

fn add(world: &mut World, test: Test, loops: i32, rate: u32) -> Result<Answer, Refusal> {
    world.command(0, Command::AddTest(new_test(test, loops, rate)))
}

fn new_test(test: Test, loops: i32, rate: u32) -> NewTest {
    NewTest {
        batch: "batch".to_owned(),
        from: "clients".to_owned(),
        to: "servers".to_owned(),
        test,
        offset: 0,
        loops,
        concurrency: 4,
        spread: Distribution::ONE_TO_ONE,
        stop_on_error: false,
        rate,
    }
}

fn run(world: &mut World) {
    world.command(0, Command::Run { batch: "batch".to_owned(), timeout: 0 }).expect("it runs");
}

fn stop(world: &mut World) {
    world.command(0, Command::Stop { batch: "batch".to_owned(), force: false }).expect("it stops");
    world.turns(STEP, 2000);
}

fn stats_of(world: &mut World, test: u32) -> Vec<(Nid, ClientStats)> {
    let batch = "batch".to_owned();
    match world.command(0, Command::ClientStats { batch, test, timeout: 5 }) {
        Ok(Answer::Replies(said)) => said.into_iter().map(one).collect(),
        other => panic!("{other:?}"),
    }
}

fn one(said: NodeReply) -> (Nid, ClientStats) {
    match said.reply {
        Reply::Good(Detail::ClientStats(stats)) => (said.nid, *stats),
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_report_what_they_measured() {
    let mut world = world(3, Tunables::default());
    let read = Test::Read { len: 8192, check: BrwCheck::Simple };
    add(&mut world, Test::Ping, 7, 0).expect("a test");
    add(&mut world, read, 5, 0).expect("a test");
    let nothing =
        ClientStats { details: Some(ClientStatsDetails::default()), ..ClientStats::default() };
    assert_eq!(stats_of(&mut world, 1)[0].1, nothing, "before it ran");
    run(&mut world);
    world.turns(STEP, 100);
    for (test, loops, len) in [(1, 7, 0), (2, 5, 8192)] {
        let reported = stats_of(&mut world, test);
        assert_eq!(
            reported.iter().map(|(nid, _)| *nid).collect::<Vec<_>>(),
            [1, 2, 3].map(test_nid)
        );
        for (nid, stats) in reported {
            assert_eq!((stats.ops, stats.bytes), (4 * loops, 4 * loops * len), "{nid}");
            assert_eq!((stats.active, &stats.failed), (0, &Vec::new()), "{nid}");
            let mut latencies = Latencies::default();
            latencies.add_coarse(stats.latencies);
            assert_eq!(latencies.count(), 4 * loops);
            assert!(latencies.max() <= Nanos(stats.age), "{nid}");
        }
    }
    let batch = "batch".to_owned();
    let refused =
        world.command(0, Command::ClientStats { batch: batch.clone(), test: 3, timeout: 5 });
    assert_eq!(refused, Err(Refusal::NoTest { batch, test: 3, tests: 2 }));
}

#[test]
fn all_partitions_of_a_client_are_counted() {
    // Nodes 1 and 2 stand for partitions 0 and 1 of one service, which is the client; servers 3
    // and 4 have different homes there.
    let mut world = World::new(5, Tunables::default());
    world.add_console(0);
    for (node, cpt) in [(1, 0), (2, 1)] {
        world.add_partition(node, cpt, 2);
    }
    (3..5).for_each(|node| world.add_service(node));
    begin(&mut world, 1..2, 3..5);
    let spread = Distribution { clients: 1, servers: 2 };
    let test = NewTest { spread, ..new_test(Test::Ping, 6, 0) };
    world.command(0, Command::AddTest(test)).expect("a test");
    run(&mut world);
    world.turns(STEP, 200);
    let reported = stats_of(&mut world, 1).remove(0).1;
    assert_eq!((reported.ops, reported.active), (2 * 4 * 6, 0));
    assert_eq!(reported.latencies.iter().map(|(_, count)| count).sum::<u64>(), reported.ops);
    for partition in [1, 2] {
        assert_eq!(world.service(partition).totals().sent, 4 * 6);
    }
}

#[test]
fn errors_are_reported_by_kind() {
    let mut world = world(1, Tunables::default());
    add(&mut world, Test::Ping, -1, 50).expect("a test");
    run(&mut world);
    world.turns(STEP, 200);
    world.nodes[2].dead = true;
    // Longer than the RPC time-out.
    world.turns(STEP, 70_000);
    let reported = stats_of(&mut world, 1).remove(0).1;
    let failed: u64 = reported.failed.iter().map(|(_, count)| count).sum();
    assert!(reported.ops >= 5 && failed >= 4, "{reported:?}");
    assert!(reported.failed.iter().all(|(kind, _)| *kind < 0), "{reported:?}");
}

#[test]
fn clients_keep_to_a_rate() {
    let mut world = world(2, Tunables::default());
    add(&mut world, Test::Ping, -1, 200).expect("a test");
    run(&mut world);
    world.turns(STEP, 1000);
    let first = stats_of(&mut world, 1);
    world.turns(STEP, 5000);
    let second = stats_of(&mut world, 1);
    for ((_, first), (nid, second)) in first.into_iter().zip(second) {
        let (ops, time) = (second.ops - first.ops, second.age - first.age);
        let rate = ops as f64 / (time as f64 / 1e9);
        assert!((198.0..=202.0).contains(&rate), "{nid}: {rate} per second");
    }
    stop(&mut world);
    let reported = stats_of(&mut world, 1);
    assert!(reported.iter().all(|(_, stats)| stats.active == 0), "{reported:?}");
}

/// While the server is silent for 80 s, 800 RPCs are due and 4 are in flight. Those that are due
/// for more than 60 s are never sent and count with 60 s; the others are sent late [STAT-7].
#[test]
fn an_rpc_that_is_due_for_more_than_60_s_is_never_sent() {
    const RATE: u64 = 10;
    const LATE: u64 = 60_000_000_000;
    let mut tunables = Tunables::default();
    tunables.set("rpc_timeout", 200).expect("in its range");
    let mut world = world(1, tunables);
    add(&mut world, Test::Ping, -1, RATE as u32).expect("a test");
    run(&mut world);
    world.turns(STEP, 1000);
    world.nodes[2].stalled = true;
    world.turns(Nanos(10 * STEP.0), 8000);
    world.nodes[2].stalled = false;
    world.turns(STEP, 5000);
    let sent_until_now = stats_of(&mut world, 1).remove(0).1.ops;
    stop(&mut world);
    let stats = stats_of(&mut world, 1).remove(0).1;
    assert_eq!((stats.active, &stats.failed), (0, &Vec::new()));
    let details = stats.details.expect("a client of this release");
    // The bucket of 60 s is 0.5 s wide: a few that were sent are in it too.
    let due = |least: u64| {
        let counted = details.due_latencies.iter();
        counted.filter(|(bucket, _)| bucket_start(*bucket) >= least).map(|(_, count)| count).sum()
    };
    let never_sent: u64 = due(LATE / 100 * 99);
    assert!((190..=215).contains(&never_sent), "of 20 s: {never_sent}");
    let all: u64 = due(0);
    assert!((all - never_sent).abs_diff(sent_until_now) <= 10, "{all}, {sent_until_now} sent");
    let expected = stats.age / 1_000_000_000 * RATE;
    assert!(all.abs_diff(expected) <= RATE + 4, "{all} due, {expected} expected");
}

#[test]
fn a_run_does_not_take_over_due_times_of_the_run_before_it() {
    let mut world = world(1, Tunables::default());
    // Turns of 50 s: those of the first run's units lie far ahead when it is stopped.
    add(&mut world, Test::Ping, -1, 20).expect("a test");
    let ops = |world: &mut World| stats_of(world, 1).remove(0).1.ops;
    let mut before = 0;
    for run_number in 0..20 {
        run(&mut world);
        world.turns(STEP, 500);
        world
            .command(0, Command::Stop { batch: "batch".to_owned(), force: false })
            .expect("a stop");
        world.turns(STEP, 100);
        let now = ops(&mut world);
        // Half a second and what the console's own RPCs take, at 20 a second.
        assert!((10..=14).contains(&(now - before)), "run {run_number}: {}", now - before);
        before = now;
    }
}

#[test]
fn units_that_wait_for_their_turn_leave_memory_to_others() {
    let mut tunables = Tunables::default();
    tunables.set("selftest_memory", 8).expect("in its range");
    let mut world = world(1, tunables);
    let read = Test::Read { len: 1 << 20, check: BrwCheck::None };
    let slow = NewTest { concurrency: 64, ..new_test(read, -1, 10) };
    world.command(0, Command::AddTest(slow)).expect("a test");
    add(&mut world, read, -1, 0).expect("a test");
    run(&mut world);
    world.turns(STEP, 3000);
    let ops = [1, 2].map(|test| stats_of(&mut world, test).remove(0).1.ops);
    assert!(ops[0] >= 25 && ops[1] >= 1000, "{ops:?}");
}

#[test]
fn a_node_that_was_away_has_to_say_again_what_it_is() {
    let mut world = world(1, Tunables::default());
    add(&mut world, Test::Ping, 3, 0).expect("a test");
    assert_eq!(stats_of(&mut world, 1).len(), 1);
    // A kernel comes up with its NID; it is asked nothing that it does not know.
    world.nodes[1].dead = true;
    let target = Target::Session;
    world.command(0, Command::Ping { target: target.clone(), timeout: 10 }).expect("an answer");
    assert_eq!(stats_of(&mut world, 1), []);
    world.nodes[1].dead = false;
    world.command(0, Command::Stat { target: target.clone(), timeout: 10 }).expect("an answer");
    assert_eq!(stats_of(&mut world, 1), [], "it answers, and has not said that it is one of ours");
    world.command(0, Command::Ping { target, timeout: 10 }).expect("an answer");
    assert_eq!(stats_of(&mut world, 1).len(), 1);
}

#[test]
fn nodes_that_report_no_statistics_are_not_asked() {
    // Like kernel nodes, they do not put the mark into their DEBUG reply.
    let tunables = Tunables { selftest_client_stats: 0, ..Tunables::default() };
    let mut world = world(2, tunables);
    let refused = add(&mut world, Test::Ping, 1, 100);
    assert!(matches!(refused, Err(Refusal::NotOurs { nid, .. }) if nid == test_nid(1)));
    add(&mut world, Test::Ping, 3, 0).expect("a test");
    run(&mut world);
    world.turns(STEP, 100);
    assert_eq!(stats_of(&mut world, 1), [], "no node is asked");
    match world.command(0, Command::ShowGroup { group: "clients".to_owned() }) {
        Ok(Answer::Nodes(nodes)) => assert!(nodes.iter().all(|node: &NodeView| !node.ours)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn wrong_requests_are_refused() {
    let mut world = world(1, Tunables::default());
    add(&mut world, Test::Ping, 3, 0).expect("a test");
    let Some(session) = world.console_at(0).console.session() else { panic!("no session") };
    let (sid, other) = (session.sid(), Sid { stamp: 1, ..session.sid() });
    // The session's first batch is the first of the console.
    let cases = [
        (other, 1, 1, CLIENT_STATS_LEN_MAX, errno::ESRCH),
        (sid, 99, 1, CLIENT_STATS_LEN_MAX, errno::ENOENT),
        (sid, 1, 0, CLIENT_STATS_LEN_MAX, errno::EINVAL),
        (sid, 1, 2, CLIENT_STATS_LEN_MAX, errno::ENOENT),
        (sid, 1, u32::MAX, CLIENT_STATS_LEN_MAX, errno::ENOENT),
        (sid, 1, 1, 3, errno::EMSGSIZE),
    ];
    for (sid, batch, test, room, status) in cases {
        let (reply_bits, bulk_bits) = (world.bits(), world.bits());
        let request = ClientStatsRequest { reply_bits, bulk_bits, sid, batch, test, room };
        let message = crate::common::message(1, Body::ClientStatsRequest(request));
        match world.ask(0, 1, Service::ClientStats.id().into(), &message) {
            Some(Body::ClientStatsReply(reply)) => {
                assert_eq!((reply.status, reply.len), (status, 0), "{request:?}");
            }
            other => panic!("{request:?}: {other:?}"),
        }
    }
}

#[test]
fn the_mark_is_in_the_reply_to_debug() {
    let mut world = world(1, Tunables::default());
    let request =
        lustrine_wire::srpc::DebugRequest { reply_bits: world.bits(), sid: Sid::NONE, flags: 0 };
    match world.ask(0, 1, 0, &crate::common::message(1, Body::DebugRequest(request))) {
        Some(Body::DebugReply(reply)) => assert_eq!(reply.batches, EXTENSIONS_MAGIC),
        other => panic!("{other:?}"),
    }
}

/// How many RPCs a client sends at first in a batch with 1 MiB reads and 32 units.
fn sent_at_first(selftest_auto: i64) -> u64 {
    let mut world = world(1, Tunables { selftest_auto, ..Tunables::default() });
    world.width = 12;
    let test = Test::Read { len: 1 << 20, check: BrwCheck::None };
    let test = NewTest { concurrency: 32, ..new_test(test, 4, 0) };
    world.command(0, Command::AddTest(test)).expect("a test");
    let sent_so_far = |world: &mut World| world.service(1).totals().sent;
    let before = sent_so_far(&mut world);
    run(&mut world);
    // Those that are sent together are counted in the same turns.
    world.until(STEP, 1000, |world| sent_so_far(world) > before);
    world.turns(STEP, 3);
    let sent = sent_so_far(&mut world) - before;
    world.turns(STEP, 3000);
    let reported = stats_of(&mut world, 1).remove(0).1;
    // Each unit had its turn, and the batch has ended.
    assert_eq!((reported.ops, reported.active), (32 * 4, 0), "{:?}", reported.failed);
    sent
}

#[test]
fn a_window_limits_what_a_console_asks_for() {
    let (without, with) = (sent_at_first(0), sent_at_first(1));
    assert!(with * 3 < without * 2, "{with} with a window, {without} without");
}

/// Units that waited for room when their session was replaced are in no queue any more: their
/// places are used again by units with other peers.
#[test]
fn a_session_that_is_replaced_leaves_no_waiting_unit_behind() {
    let mut world = World::new(4, Tunables { selftest_auto: 1, ..Tunables::default() });
    (1..4).for_each(|node| world.add_service(node));
    world.add_console(0);
    begin(&mut world, 1..2, 2..3);
    world.width = 12;
    let read = Test::Read { len: 1 << 20, check: BrwCheck::None };
    for _ in 0..2 {
        let test = NewTest { concurrency: 32, ..new_test(read, -1, 0) };
        world.command(0, Command::AddTest(test)).expect("a test");
    }
    run(&mut world);
    world.turns(STEP, 30);
    // What is in flight to node 2 stays there for a while.
    world.nodes[2].stalled = true;
    world.turns(STEP, 5);
    let name = "another".to_owned();
    let session = Command::NewSession { name, timeout: 300, force: true, features: 1 };
    world.command(0, session).expect("a session");
    for (group, node) in [("clients", 1), ("servers", 3)] {
        let group = group.to_owned();
        world.command(0, Command::AddGroup { group: group.clone() }).expect("a group");
        let nids = vec![test_nid(node)];
        world.command(0, Command::AddNodes { group, nids }).expect("nodes");
    }
    world.command(0, Command::Ping { target: Target::Session, timeout: 5 }).expect("answers");
    let test = NewTest { concurrency: 64, ..new_test(read, -1, 0) };
    world.command(0, Command::AddTest(test)).expect("a test");
    run(&mut world);
    world.turns(STEP, 30);
    world.nodes[2].stalled = false;
    world.turns(STEP, 200);
    stop(&mut world);
    // Node 2 is loaded again.
    let group = "others".to_owned();
    world.command(0, Command::AddGroup { group: group.clone() }).expect("a group");
    let nids = vec![test_nid(2)];
    world.command(0, Command::AddNodes { group: group.clone(), nids }).expect("nodes");
    world.command(0, Command::Ping { target: Target::Session, timeout: 5 }).expect("answers");
    let batch = "second".to_owned();
    world.command(0, Command::AddBatch { batch }).expect("a batch");
    let test = NewTest { to: group, concurrency: 8, ..new_test(read, 4, 0) };
    world
        .command(0, Command::AddTest(NewTest { batch: "second".to_owned(), ..test }))
        .expect("a test");
    world.command(0, Command::Run { batch: "second".to_owned(), timeout: 0 }).expect("it runs");
    world.turns(STEP, 3000);
    let batch = "second".to_owned();
    let said = match world.command(0, Command::ClientStats { batch, test: 1, timeout: 5 }) {
        Ok(Answer::Replies(said)) => said,
        other => panic!("{other:?}"),
    };
    let (_, reported) = one(said.into_iter().next().expect("a reply"));
    assert_eq!((reported.ops, reported.active), (8 * 4, 0), "{:?}", reported.failed);
}
