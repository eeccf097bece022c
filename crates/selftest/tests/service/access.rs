//! Which consoles a node obeys. Node 0 is a console, node 1 the node that it asks, node 2 a third
//! party that must not hear of it.

use crate::common::{World, message};
use lustrine_lnet::lnd::NiIndex;
use lustrine_lnet::time::Nanos;
use lustrine_lnet::topology::{Identity, Ni};
use lustrine_lnet_testing::{test_nid, test_topology};
use lustrine_selftest::Tunables;
use lustrine_selftest::console::{
    Answer, Command, Distribution, NewTest, NodeReply, NodeState, Reply,
};
use lustrine_selftest::{ServiceMode, ServicePolicy, Test, errno};
use lustrine_wire::srpc::{
    BatchRequest, Body, DebugRequest, MakeSessionRequest, Name, PING_MAGIC, PingRequest,
    RemoveSessionRequest, Role, Service, Sid, TestParams, TestRequest,
};

const STEP: Nanos = Nanos::from_millis(10);

/// Such a node 1, two consoles on nodes 0 and 3, and a third party with a service.
fn world(mode: ServiceMode, consoles: &str) -> World {
    let mut world = World::new(4, Tunables::default());
    world.add_service(1);
    world.add_service(2);
    let policy = ServicePolicy { mode, consoles: consoles.parse().expect("NID patterns") };
    world.set_policy(1, &policy);
    world.add_console(0);
    world.add_console(3);
    world
}

fn replies(world: &mut World, console: usize, command: Command) -> Vec<NodeReply> {
    match world.command(console, command) {
        Ok(Answer::Replies(replies)) => replies,
        other => panic!("{other:?}"),
    }
}

/// Begins a session with nodes 1 and 2 in groups of that name; what each said.
fn session(world: &mut World, console: usize, force: bool) -> Vec<Reply> {
    let name = format!("of {console}");
    let new = Command::NewSession { name, timeout: 300, force, features: 1 };
    world.command(console, new).expect("a session");
    let add = |world: &mut World, node: usize| {
        let group = node.to_string();
        world.command(console, Command::AddGroup { group: group.clone() }).expect("a group");
        let nids = vec![test_nid(node)];
        replies(world, console, Command::AddNodes { group, nids })
    };
    [1, 2].into_iter().flat_map(|node| add(world, node)).map(|reply| reply.reply).collect()
}

/// Has node 1 send pings to node 2 without end; what node 1 said to the test.
fn drive(world: &mut World, console: usize) -> Reply {
    let test = NewTest {
        batch: "batch".to_owned(),
        from: "1".to_owned(),
        to: "2".to_owned(),
        test: Test::Ping,
        offset: 0,
        loops: -1,
        concurrency: 1,
        spread: Distribution::ONE_TO_ONE,
        stop_on_error: false,
        rate: 0,
    };
    let said = replies(world, console, Command::AddTest(test));
    let _ = world.command(console, Command::Run { batch: "batch".to_owned(), timeout: 0 });
    world.turns(STEP, 50);
    said.into_iter().find(|reply| reply.nid == test_nid(1)).expect("it was asked").reply
}

/// Test RPCs that the third party received.
fn third_party_heard(world: &mut World) -> u64 {
    world.net.nodes[2].shard.received_from(&test_nid(1))
}

#[test]
fn a_stranger_cannot_make_a_node_send_anything_to_a_third_party() {
    let mut world = world(ServiceMode::default(), "");
    let said = session(&mut world, 0, false);
    assert!(said.iter().all(|reply| matches!(reply, Reply::Good(_))), "{said:?}");
    assert_eq!(drive(&mut world, 0), Reply::Refused(errno::EPERM));
    assert_eq!(third_party_heard(&mut world), 0);
}

#[test]
fn who_is_allowed_may_do_it() {
    for (mode, consoles) in [
        (ServiceMode::Full, String::new()),
        (ServiceMode::Full, test_nid(0).to_string()),
        (ServiceMode::Serve, test_nid(0).to_string()),
    ] {
        let mut world = world(mode, &consoles);
        session(&mut world, 0, false);
        assert!(matches!(drive(&mut world, 0), Reply::Good(_)), "{mode} {consoles}");
        assert!(third_party_heard(&mut world) > 10, "{mode} {consoles}");
    }
}

#[test]
fn with_a_list_others_get_no_session() {
    for mode in [ServiceMode::Serve, ServiceMode::Full] {
        let mut world = world(mode, &test_nid(3).to_string());
        for force in [false, true] {
            let said = session(&mut world, 0, force);
            assert_eq!(said[0], Reply::Refused(errno::EPERM));
            assert!(world.command(0, Command::EndSession).is_ok());
        }
        assert_eq!(world.service(1).session(), None);
    }
}

/// A raw request from node 0 to node 1; the status of its reply.
fn status_of(world: &mut World, service: Service, body: Body) -> u32 {
    match world.ask(0, 1, u64::from(service.id()), &message(1, body)).expect("a reply") {
        Body::MakeSessionReply(reply) => reply.status,
        Body::RemoveSessionReply(reply) => reply.status,
        Body::TestReply(reply) => reply.status,
        Body::BatchReply(reply) => reply.status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn knowing_the_session_of_an_allowed_console_gives_no_rights() {
    let mut world = world(ServiceMode::Serve, &test_nid(3).to_string());
    session(&mut world, 3, false);
    assert!(matches!(drive(&mut world, 3), Reply::Good(_)));
    let stop = Command::Stop { batch: "batch".to_owned(), force: true };
    replies(&mut world, 3, stop);
    world.turns(STEP, 50);
    // Anybody may ask which session a node is in, also in an allowed console's session.
    let bits = world.bits();
    let ask = Body::DebugRequest(DebugRequest { reply_bits: bits, sid: Sid::NONE, flags: 0 });
    let Some(Body::DebugReply(debug)) = world.ask(0, 1, 0, &message(1, ask)) else {
        panic!("no reply")
    };
    let (sid, heard) = (debug.sid, third_party_heard(&mut world));
    for (service, body) in changes(&mut world, sid) {
        assert_eq!(status_of(&mut world, service, body), errno::EPERM, "{body:?}");
    }
    world.turns(STEP, 50);
    assert_eq!(third_party_heard(&mut world), heard, "nothing was started");
    assert_eq!(world.service(1).session().map(|session| session.sid), Some(sid));
}

/// Every request that would change a session.
fn changes(world: &mut World, sid: Sid) -> [(Service, Body); 6] {
    let reply_bits = world.bits();
    let test = |role, destinations| {
        Body::TestRequest(TestRequest {
            reply_bits,
            bulk_bits: 1,
            sid,
            batch: 7,
            service: Service::Ping.id(),
            loops: -1,
            concurrency: 1,
            role,
            stop_on_error: 0,
            destinations,
            params: TestParams::Ping { size: 0, flags: 0, unused: [0; 4] },
            rate: 0,
        })
    };
    let batch =
        |op| Body::BatchRequest(BatchRequest { reply_bits, sid, batch: 1, op, arg: 0, test: 0 });
    let name = Name::new("again").expect("a name");
    let make = Body::MakeSessionRequest(MakeSessionRequest { reply_bits, sid, force: 1, name });
    [
        (Service::Test, test(Role::Client, 1)),
        (Service::Test, test(Role::Server, 0)),
        (Service::Batch, batch(1)),
        (Service::Batch, batch(2)),
        (
            Service::RemoveSession,
            Body::RemoveSessionRequest(RemoveSessionRequest { reply_bits, sid }),
        ),
        (Service::MakeSession, make),
    ]
}

/// Without a list every console may make a session, and none may change that of another.
#[test]
fn without_a_list_a_session_belongs_to_its_console() {
    for mode in [ServiceMode::Serve, ServiceMode::Full] {
        let mut world = world(mode, "");
        session(&mut world, 3, false);
        let driven = matches!(drive(&mut world, 3), Reply::Good(_));
        assert_eq!(driven, mode == ServiceMode::Full);
        let sid = world.service(1).session().expect("a session").sid;
        for (service, body) in changes(&mut world, sid) {
            assert_eq!(status_of(&mut world, service, body), errno::EPERM, "{mode} {body:?}");
        }
        // Requests for another session are answered as by kernels.
        let reply_bits = world.bits();
        let other = Sid { nid: sid.nid, stamp: sid.stamp + 1 };
        let remove = RemoveSessionRequest { reply_bits, sid: other };
        let body = Body::RemoveSessionRequest(remove);
        assert_eq!(status_of(&mut world, Service::RemoveSession, body), errno::EBUSY);
        let heard = third_party_heard(&mut world);
        world.turns(STEP, 50);
        assert_eq!(third_party_heard(&mut world) > heard, driven, "the load goes on");
        let stop = Command::Stop { batch: "batch".to_owned(), force: true };
        replies(&mut world, 3, stop);
        world.command(3, Command::EndSession).expect("it is the console's own");
        assert_eq!(world.service(1).session(), None, "one reference, as it was made once");
    }
}

/// LNet sends from all interfaces of a network in turn, and so do kernel consoles.
#[test]
fn all_nids_of_a_console_are_the_console() {
    for second_is_announced in [true, false] {
        let mut world = world(ServiceMode::Full, "");
        let (identity, first) = (Identity::Node, test_nid(4));
        let mut topology = test_topology(first, identity, Default::default());
        let ni = Ni { nid: test_nid(5), ..topology.nis[NiIndex(0)] };
        let mut alone = test_topology(test_nid(5), identity, Default::default());
        alone.incarnation ^= 1;
        let node = world.add_node(match second_is_announced {
            true => {
                topology.nis.push(ni);
                topology
            }
            false => topology,
        });
        let other = if second_is_announced { node } else { world.add_node(alone) };
        let sid = Sid { nid: test_nid(4).to_short().unwrap(), stamp: 1 };
        let name = Name::EMPTY;
        let mut statuses = Vec::new();
        for from in [node, other, node, other] {
            let make = MakeSessionRequest { reply_bits: world.bits(), sid, force: 0, name };
            let make = message(1, Body::MakeSessionRequest(make));
            match world.ask(from, 1, 1, &make) {
                Some(Body::MakeSessionReply(reply)) => statuses.push(reply.status),
                reply => panic!("{reply:?}"),
            }
        }
        let received = |nid| world.net.nodes[1].shard.received_from(&test_nid(nid));
        assert!(received(4) > 1 && received(5) > 1, "both are used");
        let refused = if second_is_announced { 0 } else { errno::EPERM };
        assert_eq!(statuses, [0, refused, 0, refused]);
    }
}

#[test]
fn a_stranger_does_not_keep_the_session_of_another_alive() {
    for list in [String::new(), test_nid(3).to_string()] {
        does_not_keep_alive(world(ServiceMode::Full, &list));
    }
}

fn does_not_keep_alive(mut world: World) {
    session(&mut world, 3, false);
    world.nodes[3].dead = true;
    let timeout = Tunables::default().session_timeout as u32;
    for _ in 0..timeout / 10 + 1 {
        world.now = world.now + Nanos::from_secs(10);
        let bits = world.bits();
        let ask = Body::DebugRequest(DebugRequest { reply_bits: bits, sid: Sid::NONE, flags: 0 });
        world.ask(0, 1, 0, &message(1, ask)).expect("a reply");
    }
    assert_eq!(world.service(1).session(), None);
}

#[test]
fn only_an_allowed_console_takes_a_node_from_another() {
    let both = format!("{} {}", test_nid(0), test_nid(3));
    for mode in [ServiceMode::Serve, ServiceMode::Full] {
        let mut world = world(mode, "");
        session(&mut world, 3, false);
        let sid = |world: &mut World| world.service(1).session().map(|session| session.sid);
        let before = sid(&mut world);
        let said = session(&mut world, 0, true);
        assert_eq!(said[0], Reply::Refused(errno::EBUSY), "the holder is named as without force");
        assert!(before.is_some() && sid(&mut world) == before, "{mode}");
        let consoles = both.parse().expect("NIDs");
        world.set_policy(1, &ServicePolicy { mode, consoles });
        world.command(0, Command::EndSession).expect("it had one");
        assert!(matches!(session(&mut world, 0, true)[0], Reply::Good(_)), "{mode}");
    }
}

#[test]
fn tests_are_answered_in_every_mode_but_off() {
    for (mode, answered) in
        [(ServiceMode::Off, false), (ServiceMode::Serve, true), (ServiceMode::Full, true)]
    {
        let mut world = world(mode, "");
        let ask = |world: &mut World| {
            let reply_bits = world.bits();
            let magic = PING_MAGIC;
            let ping = PingRequest { reply_bits, magic, seq: 1, time_s: 0, time_ns: 0 };
            world.ask(0, 1, 12, &message(1, Body::PingRequest(ping))).is_some()
        };
        assert_eq!(ask(&mut world), answered, "{mode}");
        // A node changes while it runs, to and fro.
        world.set_policy(1, &ServicePolicy { mode: ServiceMode::Off, ..Default::default() });
        world.turns(STEP, 5);
        assert!(!ask(&mut world));
        world.set_policy(1, &ServicePolicy::default());
        world.turns(STEP, 5);
        assert!(ask(&mut world));
    }
}

#[test]
fn a_change_of_policy_ends_the_load_of_those_it_does_not_allow() {
    let mut world = world(ServiceMode::Full, "");
    session(&mut world, 0, false);
    assert!(matches!(drive(&mut world, 0), Reply::Good(_)));
    world.set_policy(1, &ServicePolicy::default());
    world.turns(STEP, 50);
    let heard = third_party_heard(&mut world);
    world.turns(STEP, 50);
    assert_eq!(third_party_heard(&mut world), heard, "it has stopped");
    assert_eq!(world.service(1).session(), None);
}

#[test]
fn a_console_inside_the_node_needs_no_setting() {
    let mut world = World::new(3, Tunables::default());
    world.add_service(1);
    world.add_service(2);
    // A list without this node: consoles of others are meant.
    let consoles = test_nid(9).to_string().parse().expect("a NID");
    world.set_policy(1, &ServicePolicy { mode: ServiceMode::Serve, consoles });
    world.add_console(1);
    let said = session(&mut world, 1, false);
    assert!(said.iter().all(|reply| matches!(reply, Reply::Good(_))), "{said:?}");
    assert!(matches!(drive(&mut world, 1), Reply::Good(_)));
    assert!(third_party_heard(&mut world) > 10);
    let states = match world.command(1, Command::ShowGroup { group: "1".to_owned() }) {
        Ok(Answer::Nodes(nodes)) => nodes.into_iter().map(|node| node.state).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(states, [NodeState::Active]);
}
