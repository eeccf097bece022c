//! Golden: Lustrine's console in the place of a kernel's. It gets the commands that were typed at
//! the captured console; each RPC that it sends must be the one that the kernel sent, and gets the
//! reply that the captured node gave.
//!
//! What may differ: match bits, the time stamp of the session, and the kernel's keepalives (DEBUG),
//! which depend on the time of day.

use std::collections::VecDeque;

use crate::golden::capture::events_of;
use lustrine_capture::{Content, Item, Message as Captured};
use lustrine_lnet::time::Time;
use lustrine_selftest::Test;
use lustrine_selftest::console::{
    Answer, Command, Console, ConsoleRpc, Detail, Distribution, NewTest, NodeReply, NodeState,
    Reply, RpcOutcome, SessionHolder, Target,
};
use lustrine_selftest::{RpcError, errno};
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::header;
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{
    BatchReply, Body, BrwCheck, Counters, Destination, FRAMEWORK_PORTAL, MakeSessionReply, Message,
    Name, REPLY_PORTAL, RemoveSessionReply, Service, Sid, StatReply, TestReply, VERSION,
};

const KEY: u32 = 77;

/// An RPC of the captured console.
struct Rpc {
    peer: Nid,
    service: Service,
    request: Message,
    list: Vec<Destination>,
    reply: Option<Message>,
}

/// The framework RPCs of one console in a capture, in order.
fn rpcs_of(name: &str, console: Nid) -> VecDeque<Rpc> {
    let mut rpcs: VecDeque<Rpc> = VecDeque::new();
    for event in events_of("lnet", name) {
        let Item::Message(message) = event.item else { continue };
        let Captured { header, content, .. } = *message;
        let (from, to) = (header.src.nid, header.dst.nid);
        match (header.body, content) {
            (
                header::Body::Put { portal: FRAMEWORK_PORTAL, match_bits, .. },
                Content::Srpc(request),
            ) if from == console => {
                let service = u32::try_from(match_bits).ok().and_then(Service::from_id);
                let service = service.expect("a known service");
                rpcs.push_back(Rpc { peer: to, service, request, list: Vec::new(), reply: None });
            }
            (header::Body::Put { portal: REPLY_PORTAL, match_bits, .. }, Content::Srpc(reply))
                if to == console =>
            {
                let asked = rpcs.iter_mut().find(|rpc| bits(&rpc.request.body).0 == match_bits);
                if let Some(rpc) = asked {
                    rpc.reply = Some(reply);
                }
            }
            (_, Content::Destinations(list)) if from == console => {
                let rpc = rpcs.iter_mut().find(|rpc| {
                    rpc.peer == to && bits(&rpc.request.body).1 != 0 && rpc.list.is_empty()
                });
                rpc.expect("a list that was asked for").list = list;
            }
            _ => {}
        }
    }
    rpcs
}

/// The match bits of a request for its reply and its list.
fn bits(body: &Body) -> (u64, u64) {
    match body {
        Body::MakeSessionRequest(request) => (request.reply_bits, 0),
        Body::RemoveSessionRequest(request) => (request.reply_bits, 0),
        Body::BatchRequest(request) => (request.reply_bits, 0),
        Body::StatRequest(request) => (request.reply_bits, 0),
        Body::DebugRequest(request) => (request.reply_bits, 0),
        Body::TestRequest(request) => (request.reply_bits, request.bulk_bits),
        other => panic!("not a console's: {other:?}"),
    }
}

/// A message without match bits, and with the id of the other session in place of the first one.
fn renamed(body: Body, from: Sid, to: Sid) -> Body {
    let name = |sid: Sid| if sid == from { to } else { sid };
    let mut body = body;
    match &mut body {
        Body::MakeSessionRequest(request) => {
            (request.reply_bits, request.sid) = (0, name(request.sid))
        }
        Body::RemoveSessionRequest(request) => {
            (request.reply_bits, request.sid) = (0, name(request.sid))
        }
        Body::BatchRequest(request) => (request.reply_bits, request.sid) = (0, name(request.sid)),
        Body::StatRequest(request) => (request.reply_bits, request.sid) = (0, name(request.sid)),
        Body::DebugRequest(request) => (request.reply_bits, request.sid) = (0, name(request.sid)),
        Body::TestRequest(request) => {
            (request.reply_bits, request.bulk_bits, request.sid) = (0, 0, name(request.sid));
        }
        Body::MakeSessionReply(reply) => reply.sid = name(reply.sid),
        Body::RemoveSessionReply(reply) => reply.sid = name(reply.sid),
        Body::DebugReply(reply) => reply.sid = name(reply.sid),
        Body::BatchReply(reply) => reply.sid = name(reply.sid),
        Body::StatReply(reply) => reply.sid = name(reply.sid),
        Body::TestReply(reply) => reply.sid = name(reply.sid),
        other => panic!("not a console's: {other:?}"),
    }
    body
}

fn sid_of(body: &Body) -> Sid {
    match body {
        Body::MakeSessionRequest(request) => request.sid,
        Body::RemoveSessionRequest(request) => request.sid,
        Body::BatchRequest(request) => request.sid,
        Body::StatRequest(request) => request.sid,
        Body::DebugRequest(request) => request.sid,
        Body::TestRequest(request) => request.sid,
        other => panic!("not a console's: {other:?}"),
    }
}

/// Lustrine's console in a kernel console's place.
struct Play {
    console: Console,
    own: Nid,
    rpcs: VecDeque<Rpc>,
    now: Time,
    compared: usize,
}

impl Play {
    fn new(name: &str, own: &str) -> Play {
        let own: Nid = own.parse().expect("a NID");
        let rpcs = rpcs_of(name, own);
        assert!(!rpcs.is_empty(), "{name} has no RPCs of {own}");
        let console = Console::new(&own, 1_700_000_000);
        Play { console, own, rpcs, now: Time(0), compared: 0 }
    }

    fn execute(&mut self, command: Command) -> Result<Answer, u32> {
        let context = format!("{command:?}");
        self.console.command(self.now, 1, KEY, command);
        while let Some(order) = self.console.next_rpc() {
            let reply = self.answer_to(&order, &context);
            let outcome = RpcOutcome { rpc: order.id, reply, put: Vec::new() };
            self.console.completed(self.now, &outcome);
        }
        let (_, answer) =
            self.console.next_answer().unwrap_or_else(|| panic!("{context}: no answer"));
        answer.map_err(|refusal| refusal.errno())
    }

    /// The captured reply to an RPC, which must be what the kernel sent.
    fn answer_to(&mut self, order: &ConsoleRpc, context: &str) -> Result<Message, RpcError> {
        let session = self.console.session().expect("orders are a session's");
        if order.peer == self.own {
            // The captured console's own node, of which nothing is on the wire.
            return Ok(good(order, session.sid()));
        }
        // Keepalives depend on the clock.
        let of_peer = |rpc: &Rpc| rpc.peer == order.peer;
        let at = self.rpcs.iter().position(|rpc| {
            of_peer(rpc) && (rpc.service == order.service || rpc.service != Service::Debug)
        });
        let at = at.unwrap_or_else(|| panic!("{context}: {order:?} was not sent by the kernel"));
        let rpc = self.rpcs.remove(at).expect("found");
        let theirs = sid_of(&rpc.request.body);
        assert_eq!(order.features, rpc.request.features, "{context}");
        assert_eq!(order.service, rpc.service, "{context}");
        assert_eq!(order.body, renamed(rpc.request.body, theirs, session.sid()), "{context}");
        if rpc.reply.is_some() {
            assert_eq!(order.list, rpc.list, "{context}");
        }
        self.compared += 1;
        let reply = rpc.reply.ok_or(RpcError::TimedOut)?;
        Ok(Message { body: renamed(reply.body, theirs, session.sid()), ..reply })
    }

    /// Asserts that everything the kernel sent was compared, except its keepalives; returns the
    /// number of RPCs.
    fn finish(self, name: &str) -> usize {
        let left: Vec<String> = self
            .rpcs
            .iter()
            .filter(|rpc| rpc.service != Service::Debug)
            .map(|rpc| format!("{:?} to {}", rpc.service, rpc.peer))
            .collect();
        assert!(left.is_empty(), "{name}: the kernel sent more: {left:?}");
        self.compared
    }
}

/// The reply of a node that carries out every request.
fn good(order: &ConsoleRpc, sid: Sid) -> Message {
    let body = match order.body {
        Body::MakeSessionRequest(_) => {
            let reply = MakeSessionReply { status: 0, sid, timeout: 100, name: Name::EMPTY };
            Body::MakeSessionReply(reply)
        }
        Body::RemoveSessionRequest(_) => {
            Body::RemoveSessionReply(RemoveSessionReply { status: 0, sid: Sid::NONE })
        }
        Body::TestRequest(_) => Body::TestReply(TestReply { status: 0, sid }),
        Body::BatchRequest(_) => {
            Body::BatchReply(BatchReply { status: 0, sid, active: 0, time: 0 })
        }
        Body::StatRequest(_) => {
            Body::StatReply(StatReply { status: 0, sid, counters: Counters::ZERO })
        }
        other => panic!("what does a node say to {other:?}?"),
    };
    Message { order: ByteOrder::Little, version: VERSION, features: order.features, body }
}

fn nid(text: &str) -> Nid {
    text.parse().expect("a NID")
}

fn new_session(name: &str, force: bool) -> Command {
    Command::NewSession { name: name.to_owned(), timeout: 60, force, features: 1 }
}

fn said(answer: Result<Answer, u32>) -> Vec<NodeReply> {
    match answer {
        Ok(Answer::Replies(said)) => said,
        other => panic!("{other:?}"),
    }
}

fn all_good(answer: Result<Answer, u32>) {
    let said = said(answer);
    assert!(said.iter().all(NodeReply::is_good), "{said:?}");
}

fn add_group(play: &mut Play, group: &str, nids: &[&str]) -> Vec<NodeReply> {
    let group = group.to_owned();
    assert_eq!(play.execute(Command::AddGroup { group: group.clone() }), Ok(Answer::Done));
    let nids = nids.iter().map(|text| nid(text)).collect();
    said(play.execute(Command::AddNodes { group, nids }))
}

fn test(test: Test, loops: i32, concurrency: u32, clients: u32) -> Command {
    Command::AddTest(NewTest {
        batch: "bt".to_owned(),
        from: "cli".to_owned(),
        to: "srv".to_owned(),
        test,
        offset: 0,
        loops,
        concurrency,
        spread: Distribution { clients, servers: 1 },
        stop_on_error: true,
        rate: 0,
    })
}

fn batch() -> String {
    "bt".to_owned()
}

fn query() -> Command {
    Command::Query { batch: batch(), test: 0, timeout: 5 }
}

fn stat(group: &str) -> Command {
    Command::Stat { target: Target::Group(group.to_owned()), timeout: 5 }
}

/// How often the captured console queried the server's counters: `lst stat` and `lst show_error`,
/// which were not typed in all captures.
fn polls_in(name: &str) -> usize {
    let rpcs = rpcs_of(name, nid(VM2));
    rpcs.iter().filter(|rpc| rpc.service == Service::Stat && rpc.peer == nid(VM3)).count()
}

/// The laboratory's usual session.
fn usual(
    name: &str,
    own: &str,
    session: &str,
    clients: &[&str],
    tests: Vec<Command>,
    polls: usize,
) -> usize {
    let mut play = Play::new(name, own);
    play.execute(new_session(session, false)).expect("a session");
    assert!(add_group(&mut play, "cli", clients).iter().all(NodeReply::is_good));
    assert!(add_group(&mut play, "srv", &["10.77.0.3@tcp"]).iter().all(NodeReply::is_good));
    assert_eq!(play.execute(Command::AddBatch { batch: batch() }), Ok(Answer::Done));
    for test in tests {
        all_good(play.execute(test));
    }
    all_good(play.execute(Command::Run { batch: batch(), timeout: 0 }));
    all_good(play.execute(query()));
    for _ in 0..polls {
        for group in ["cli", "srv"] {
            all_good(play.execute(stat(group)));
        }
    }
    all_good(play.execute(Command::Stop { batch: batch(), force: false }));
    // `lst stop` queries whether the batch has stopped, and then `lst query` does.
    for _ in 0..2 {
        all_good(play.execute(query()));
    }
    all_good(play.execute(Command::EndSession));
    play.finish(name)
}

const VM2: &str = "10.77.0.2@tcp";
const VM3: &str = "10.77.0.3@tcp";
const VM4: &str = "10.77.0.4@tcp";

#[test]
fn a_ping_session_matches_c00() {
    // Three queries of `stat --count 2`, one of show_error.
    let tests = vec![test(Test::Ping, 3, 1, 1)];
    let compared = usual("c00_session_console_vm4_ping", VM4, "labsess", &[VM2], tests, 4);
    assert_eq!(compared, 19);
}

#[test]
fn a_mixed_batch_matches_c01() {
    let name = "c01_session_console_vm4_brw_mix";
    let mut play = Play::new(name, VM4);
    play.execute(new_session("mix", false)).expect("a session");
    add_group(&mut play, "cli", &[VM2]);
    add_group(&mut play, "srv", &[VM3]);
    play.execute(Command::AddBatch { batch: batch() }).expect("a batch");
    for what in [
        Test::Write { len: 4096, check: BrwCheck::Full },
        Test::Read { len: 4096, check: BrwCheck::Simple },
        Test::Ping,
    ] {
        all_good(play.execute(test(what, 2, 1, 1)));
    }
    all_good(play.execute(Command::Run { batch: batch(), timeout: 0 }));
    all_good(play.execute(query()));
    all_good(play.execute(Command::Stop { batch: batch(), force: false }));
    all_good(play.execute(query()));
    assert_eq!(play.execute(Command::DeleteGroup { group: "cli".to_owned() }), Err(16));
    all_good(play.execute(Command::EndSession));
    assert_eq!(play.finish(name), 14);
}

#[test]
fn a_node_without_selftest_and_competing_consoles_match_c02() {
    let name = "c02_session_errors";
    let mut one = Play::new(name, VM2);
    one.execute(new_session("one", false)).expect("a session");
    assert!(add_group(&mut one, "g1", &[VM4])[0].is_good());
    let answers = add_group(&mut one, "g2", &[VM3]);
    assert_eq!(answers[0].state, NodeState::Down);
    assert!(matches!(answers[0].reply, Reply::None { errno: -110, .. }), "{answers:?}");
    assert_eq!(said(one.execute(Command::DeleteGroup { group: "g2".to_owned() })).len(), 0);
    one.execute(Command::EndSession).expect("the end");
    one.finish(name);
}

#[test]
fn two_consoles_with_one_node_match_c03() {
    let name = "c03_session_conflict";
    let mut two = Play::new(name, VM4);
    two.execute(new_session("two", false)).expect("a session");
    let answers = add_group(&mut two, "g2", &[VM3]);
    assert_eq!(answers[0].reply, Reply::Refused(errno::EBUSY));
    assert_eq!(answers[0].state, NodeState::Busy);
    let holder = SessionHolder { name: "one".to_owned(), console: nid(VM2) };
    assert_eq!(answers[0].holder, Some(holder));
    assert_eq!(said(two.execute(Command::DeleteGroup { group: "g2".to_owned() })).len(), 0);
    two.execute(Command::EndSession).expect("the end");
    two.execute(new_session("two", true)).expect("a session");
    assert!(add_group(&mut two, "g2", &[VM3])[0].is_good());
    all_good(two.execute(Command::EndSession));
    two.finish(name);

    let mut one = Play::new(name, VM2);
    one.execute(new_session("one", false)).expect("a session");
    assert!(add_group(&mut one, "g1", &[VM3])[0].is_good());
    let target = Target::Group("g1".to_owned());
    let answers = said(one.execute(Command::Ping { target, timeout: 5 }));
    let detail = Detail::Session(SessionHolder { name: "two".to_owned(), console: nid(VM4) });
    assert_eq!(answers[0].reply, Reply::Good(detail));
    assert_eq!(answers[0].state, NodeState::Busy);
    for _ in 0..3 {
        let answers = said(one.execute(stat("g1")));
        assert_eq!(answers[0].reply, Reply::Refused(errno::ESRCH));
    }
    let answers = said(one.execute(Command::RefreshGroup { group: "g1".to_owned() }));
    assert_eq!(answers[0].reply, Reply::Refused(errno::EBUSY));
    // Its node belongs to the other console and gets no request.
    assert_eq!(said(one.execute(Command::EndSession)).len(), 0);
    one.finish(name);
}

#[test]
fn all_kinds_of_bulk_tests_match_c11_to_c34() {
    let checks = [("none", BrwCheck::None), ("simple", BrwCheck::Simple), ("full", BrwCheck::Full)];
    let mut number = 11;
    for op in ["read", "write"] {
        for (size, len, loops) in [("4K", 4096, [10, 4]), ("1M", 1 << 20, [2, 1])] {
            for (word, check) in checks {
                for (concurrency, loops) in [1, 8].into_iter().zip(loops) {
                    let name = format!("c{number}_brw_{op}_{size}_{word}_c{concurrency}");
                    let what = match op {
                        "read" => Test::Read { len, check },
                        _ => Test::Write { len, check },
                    };
                    let tests = vec![test(what, loops, concurrency, 1)];
                    let polls = polls_in(&name);
                    let compared = usual(&name, VM2, "labsess", &[VM2], tests, polls);
                    assert_eq!(compared, 3 + polls, "{name}");
                    number += 1;
                }
            }
        }
    }
}

#[test]
fn clients_that_share_a_server_match_c53() {
    let name = "c53_distribute_2clients_2servers";
    let tests = vec![test(Test::Ping, 2, 1, 2)];
    let compared = usual(name, VM2, "labsess", &[VM2, VM4], tests, 4);
    assert!(compared >= 10, "{compared}");
}
