//! The rules of sessions, tests and batches that need no network: [LST-12] to [LST-15], [LST-27].

use lustrine_lnet_testing::test_nid;
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{DebugRequest, EXTENSIONS_MAGIC, JoinRequest};

use super::*;
use crate::body;
use crate::errno::{EBUSY, EINVAL, ENOENT, ENOMEM, EPROTO, ESRCH};

const MINE: Sid = Sid { nid: 0x0002_0000_0a00_0001, stamp: 1_569_562 };
const OTHER: Sid = Sid { nid: 0x0002_0000_0a00_0002, stamp: 56_610 };
const TICKET: Ticket = Ticket { cpt: 0, slot: 7 };
const BATCH: u64 = 2;

/// What became of a request.
#[derive(Debug)]
struct Answer {
    status: u32,
    features: u32,
    body: Body,
}

struct Node {
    framework: Framework,
    now: Time,
    /// Orders that were no replies.
    orders: Vec<(u16, ToWorker)>,
}

impl Node {
    fn new() -> Node {
        Node::with(1, &Tunables::default())
    }

    fn with(cpts: u16, tunables: &Tunables) -> Node {
        let mut framework = Framework::new(cpts, tunables);
        framework.set_policy(ServicePolicy::full());
        Node { framework, now: Time(1_000_000), orders: Vec::new() }
    }

    /// A node in [`MINE`].
    fn joined() -> Node {
        let mut node = Node::new();
        assert_eq!(node.ask(make(MINE, 0)).unwrap().status, 0);
        node
    }

    /// A node in [`MINE`] with a client instance of 3 units in [`BATCH`].
    fn loaded() -> Node {
        let mut node = Node::joined();
        assert_eq!(node.add_client(3).unwrap().status, 0);
        node
    }

    /// The reply, or `None` when there is none.
    fn ask(&mut self, body: Body) -> Option<Answer> {
        self.ask_with(1, body)
    }

    fn ask_with(&mut self, features: u32, body: Body) -> Option<Answer> {
        let message = Message { order: ByteOrder::Little, version: VERSION, features, body };
        self.ask_from(test_nid(1), message)
    }

    fn ask_from(&mut self, from: Nid, message: Message) -> Option<Answer> {
        let request = FrameworkRequest { ticket: TICKET, from, message };
        self.accept(ToFramework::Request(request))
    }

    fn accept(&mut self, news: ToFramework) -> Option<Answer> {
        self.framework.accept(self.now, news);
        let mut answer = None;
        while let Some((cpt, order)) = self.framework.take_order() {
            match order {
                ToWorker::Reply { features, body, .. } => {
                    let status = body::status(&body).expect("a reply");
                    assert!(answer.is_none(), "two replies");
                    answer = Some(Answer { status, features, body });
                }
                other => self.orders.push((cpt, other)),
            }
        }
        answer
    }

    fn add_client(&mut self, destinations: u32) -> Option<Answer> {
        assert!(self.ask(test(MINE, |test| test.destinations = destinations)).is_none());
        self.deliver(destinations)
    }

    /// The worker got the list.
    fn deliver(&mut self, destinations: u32) -> Option<Answer> {
        let net = lustrine_wire::nid::Net::TCP;
        let list = (0..destinations).map(|n| ProcessId::lustre(Nid::new4(net, 0x0a00_0100 + n)));
        self.accept(ToFramework::Fetched { ticket: TICKET, list: Ok(list.collect()) })
    }

    fn silenced(&mut self) -> bool {
        self.orders.drain(..).any(|(_, order)| matches!(order, ToWorker::Silence { .. }))
    }

    fn batch(&mut self, op: BatchOp, test: u32, arg: u32) -> Option<Answer> {
        self.ask(batch(MINE, BATCH, op as u32, test, arg))
    }

    fn active(&mut self, test: u32) -> u32 {
        match self.batch(BatchOp::Query, test, 0).unwrap() {
            Answer { status: 0, body: Body::BatchReply(reply), .. } => reply.active,
            other => panic!("{other:?}"),
        }
    }

    /// The instance that the worker was last ordered to run.
    fn running(&self) -> InstanceId {
        let run = self.orders.iter().rev().find_map(|(_, order)| match order {
            ToWorker::Run { instance } => Some(*instance),
            _ => None,
        });
        run.expect("an order to run")
    }
}

fn sid_of(body: &Body) -> Sid {
    match body {
        Body::MakeSessionReply(reply) => reply.sid,
        Body::RemoveSessionReply(reply) => reply.sid,
        Body::DebugReply(reply) => reply.sid,
        Body::TestReply(reply) => reply.sid,
        Body::BatchReply(reply) => reply.sid,
        Body::StatReply(reply) => reply.sid,
        Body::JoinReply(reply) => reply.sid,
        other => panic!("{other:?}"),
    }
}

fn make(sid: Sid, force: u32) -> Body {
    let name = Name::new("one").unwrap();
    Body::MakeSessionRequest(MakeSessionRequest { reply_bits: 1, sid, force, name })
}

fn remove(sid: Sid) -> Body {
    Body::RemoveSessionRequest(RemoveSessionRequest { reply_bits: 1, sid })
}

fn debug(sid: Sid) -> Body {
    Body::DebugRequest(DebugRequest { reply_bits: 1, sid, flags: 0 })
}

fn stat(sid: Sid) -> Body {
    Body::StatRequest(StatRequest { reply_bits: 1, sid, kind: 0 })
}

fn batch(sid: Sid, batch: u64, op: u32, test: u32, arg: u32) -> Body {
    Body::BatchRequest(BatchRequest { reply_bits: 1, sid, batch, op, test, arg })
}

fn brw(rw: u16, check: u16, len: u32, offset: u32) -> TestParams {
    TestParams::BrwV1 { rw, check, len, offset }
}

/// A client TEST, good but for the edit.
fn test(sid: Sid, edit: impl FnOnce(&mut TestRequest)) -> Body {
    let mut request = TestRequest {
        reply_bits: 1,
        bulk_bits: 2,
        sid,
        batch: BATCH,
        service: Service::Brw.id(),
        loops: 10,
        concurrency: 1,
        role: Role::Client,
        stop_on_error: 1,
        destinations: 1,
        params: brw(1, 3, 4096, 0),
        rate: 0,
    };
    edit(&mut request);
    Body::TestRequest(request)
}

fn server(sid: Sid) -> Body {
    test(sid, |test| (test.role, test.destinations) = (Role::Server, 0))
}

/// One row: state of the node, request, status, session id of the reply.
#[test]
fn statuses_of_the_session_services() {
    type Start = fn() -> Node;
    let none: Start = Node::new;
    let joined: Start = Node::joined;
    let rows: [(&str, Start, Body, u32, Sid); 20] = [
        ("MKSN ANY", none, make(Sid::NONE, 0), EINVAL, Sid::NONE),
        ("MKSN ANY, joined", joined, make(Sid::NONE, 1), EINVAL, MINE),
        ("MKSN none", none, make(MINE, 0), 0, MINE),
        ("MKSN same", joined, make(MINE, 0), 0, MINE),
        ("MKSN other", joined, make(OTHER, 0), EBUSY, MINE),
        ("MKSN other, force", joined, make(OTHER, 1), 0, OTHER),
        ("RMSN ANY", joined, remove(Sid::NONE), EINVAL, MINE),
        ("RMSN none", none, remove(MINE), ESRCH, Sid::NONE),
        ("RMSN other", joined, remove(OTHER), EBUSY, MINE),
        ("RMSN last", joined, remove(MINE), 0, Sid::NONE),
        ("DEBUG none", none, debug(MINE), ESRCH, Sid::NONE),
        ("DEBUG other", joined, debug(OTHER), 0, MINE),
        ("STAT ANY", joined, stat(Sid::NONE), EINVAL, MINE),
        ("STAT none", none, stat(MINE), ESRCH, Sid::NONE),
        ("STAT other", joined, stat(OTHER), ESRCH, MINE),
        ("TEST none", none, server(MINE), ENOENT, Sid::NONE),
        ("TEST other", joined, server(OTHER), ENOENT, MINE),
        ("TEST server", joined, server(MINE), 0, MINE),
        ("BATCH none", none, batch(MINE, BATCH, 1, 0, 0), ESRCH, Sid::NONE),
        ("BATCH other", joined, batch(OTHER, BATCH, 1, 0, 0), ESRCH, MINE),
    ];
    for (what, start, request, status, sid) in rows {
        let answer = start().ask(request).expect(what);
        assert_eq!((answer.status, sid_of(&answer.body)), (status, sid), "{what}");
        assert_eq!(answer.features, 1, "{what}");
    }
}

#[test]
fn a_busy_node_names_its_holder_and_a_taken_one_does_not() {
    // c03: status 16 with the holder's sid, time-out and name.
    let mut node = Node::joined();
    match node.ask(make(OTHER, 0)).unwrap().body {
        Body::MakeSessionReply(reply) => {
            assert_eq!((reply.timeout, reply.name), (100, Name::new("one").unwrap()));
        }
        other => panic!("{other:?}"),
    }
    match node.ask(make(OTHER, 1)).unwrap().body {
        Body::MakeSessionReply(reply) => {
            assert_eq!((reply.timeout, reply.name), (100, Name::EMPTY));
        }
        other => panic!("{other:?}"),
    }
    match node.ask(debug(MINE)).unwrap().body {
        Body::DebugReply(reply) => {
            assert_eq!((reply.sid, reply.timeout), (OTHER, 100));
            assert_eq!((reply.name, reply.batches), (Name::new("one").unwrap(), EXTENSIONS_MAGIC));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_made_twice_needs_two_removals() {
    let mut node = Node::joined();
    assert_eq!(node.ask(make(MINE, 0)).unwrap().status, 0);
    let first = node.ask(remove(MINE)).unwrap();
    assert_eq!((first.status, sid_of(&first.body)), (0, MINE));
    let second = node.ask(remove(MINE)).unwrap();
    assert_eq!((second.status, sid_of(&second.body)), (0, Sid::NONE));
    assert!(node.framework.session().is_none());
}

/// [LST-31]: whether two NIDs are one node's is known where the console's request arrived.
#[test]
fn another_nid_of_the_console_is_looked_up_once() {
    let mut node = Node::with(3, &Tunables::default());
    node.framework.set_policy(ServicePolicy::default());
    let message = |body| Message { order: ByteOrder::Little, version: VERSION, features: 1, body };
    let (ticket, console, second) = (Ticket { cpt: 2, slot: 1 }, test_nid(1), test_nid(2));
    let request = FrameworkRequest { ticket, from: console, message: message(make(MINE, 0)) };
    assert_eq!(node.accept(ToFramework::Request(request)).unwrap().status, 0);
    for (same_node, status) in [(false, errno::EPERM), (true, 0)] {
        assert!(node.ask_from(second, message(make(MINE, 0))).is_none());
        let Some((2, ToWorker::Compare { console: asked, request })) = node.orders.pop() else {
            panic!("{:?}", node.orders)
        };
        assert_eq!((asked, request.from), (console, second));
        let compared = ToFramework::Compared { console, same_node, request };
        assert_eq!(node.accept(compared).unwrap().status, status);
    }
    assert_eq!(node.ask_from(second, message(remove(MINE))).unwrap().status, 0);
}

#[test]
fn an_unterminated_name_makes_no_session() {
    let mut node = Node::new();
    let request = MakeSessionRequest { reply_bits: 1, sid: MINE, force: 0, name: Name([b'x'; 32]) };
    assert_eq!(node.ask(Body::MakeSessionRequest(request)).unwrap().status, EINVAL);
    assert!(node.framework.session().is_none());
}

#[test]
fn features_and_versions_that_disagree_get_eproto() {
    let unset = Sid { nid: 0, stamp: 0 };
    let rows = [
        ("MKSN unknown bits", 3, make(MINE, 0), Some(unset)),
        ("DEBUG unknown bits", 3, debug(MINE), Some(unset)),
        ("DEBUG other known bits", 0, debug(MINE), None),
        ("RMSN", 0, remove(MINE), Some(MINE)),
        ("TEST", 0, server(MINE), Some(MINE)),
        ("BATCH", 3, batch(MINE, BATCH, 3, 0, 0), Some(MINE)),
        ("STAT", 0, stat(OTHER), Some(MINE)),
    ];
    for (what, features, request, refused) in rows {
        let mut node = Node::joined();
        let answer = node.ask_with(features, request).expect(what);
        match refused {
            Some(sid) => {
                assert_eq!((answer.status, sid_of(&answer.body)), (EPROTO, sid), "{what}");
                assert_eq!(answer.features, 1, "{what}");
            }
            None => assert_eq!(answer.status, 0, "{what}"),
        }
    }
    let mut node = Node::joined();
    let body = debug(MINE);
    let message = Message { order: ByteOrder::Little, version: 2, features: 1, body };
    let answer = node.ask_from(test_nid(1), message).unwrap();
    assert_eq!(answer.status, EPROTO);
}

#[test]
fn replies_carry_the_features_of_the_session() {
    let mut node = Node::new();
    let answer = node.ask_with(0, make(MINE, 0)).unwrap();
    assert_eq!((answer.status, answer.features), (0, 0));
    let answer = node.ask_with(0, remove(MINE)).unwrap();
    assert_eq!((answer.status, answer.features), (0, 1), "no session any more");
}

#[test]
fn a_console_that_wants_members_is_told_that_this_is_none() {
    let join = JoinRequest { reply_bits: 1, sid: Sid::NONE, group: Name::new("io").unwrap() };
    let answer = Node::joined().ask(Body::JoinRequest(join)).unwrap();
    assert_eq!((answer.status, sid_of(&answer.body)), (ESRCH, Sid::NONE));
}

#[test]
fn a_test_with_a_value_out_of_range_is_refused() {
    type Edit = fn(&mut TestRequest);
    let rows: [(&str, Edit); 24] = [
        ("loop 0", |t| t.loops = 0),
        ("concurrency 0", |t| t.concurrency = 0),
        ("concurrency 1025", |t| t.concurrency = 1025),
        ("sid ANY", |t| t.sid = Sid::NONE),
        ("too many destinations", |t| t.destinations = 256 * 341 + 1),
        ("no destination", |t| t.destinations = 0),
        ("framework service", |t| t.service = 4),
        ("unknown service", |t| t.service = 13),
        ("server of an unknown service", |t| (t.service, t.role) = (10, Role::Server)),
        ("server with loop 0", |t| (t.loops, t.role) = (0, Role::Server)),
        ("rw 0", |t| t.params = brw(0, 1, 4096, 0)),
        ("rw 3", |t| t.params = brw(3, 1, 4096, 0)),
        ("check 0", |t| t.params = brw(1, 0, 4096, 0)),
        ("check 5", |t| t.params = brw(1, 5, 4096, 0)),
        ("over 1 MiB", |t| t.params = brw(1, 1, 1_048_584, 0)),
        ("offset 4", |t| t.params = brw(1, 1, 4096, 4)),
        // What follows would bring a kernel down, here or there [LST-19].
        ("18.1: no whole words", |t| t.params = brw(1, 1, 4092, 0)),
        ("18.2: length 0", |t| t.params = brw(2, 1, 0, 0)),
        ("18.3: discard", |t| t.params = brw(2, 4, 4096, 0)),
        ("v0 parameters of 257 pages", |t| {
            t.params = TestParams::BrwV0 { rw: 1, pages: 257, check: 1 };
        }),
        ("v0 parameters that overflow", |t| {
            t.params = TestParams::BrwV0 { rw: 1, pages: u32::MAX, check: 1 };
        }),
        ("ping parameters for a bulk test", |t| {
            t.params = TestParams::Ping { size: 0, flags: 0, unused: [0; 4] };
        }),
        ("no parameters", |t| t.params = TestParams::Unknown([0; 12])),
        ("rw with high bits", |t| t.params = brw(0x101, 1, 4096, 0)),
    ];
    for (what, edit) in rows {
        let mut node = Node::joined();
        let answer = node.ask(test(MINE, edit)).expect(what);
        assert_eq!((answer.status, sid_of(&answer.body)), (EINVAL, MINE), "{what}");
        assert!(node.orders.iter().all(|(_, order)| matches!(order, ToWorker::NewSession)));
    }
}

#[test]
fn a_test_that_is_too_large_for_this_node_is_refused() {
    let mut node = Node::joined();
    let huge = test(MINE, |t| (t.destinations, t.concurrency) = (129, 1024));
    assert_eq!(node.ask(huge).unwrap().status, ENOMEM);
    for _ in 0..crate::limits::TESTS_MAX {
        assert_eq!(node.ask(server(MINE)).unwrap().status, 0);
    }
    assert_eq!(node.ask(server(MINE)).unwrap().status, ENOMEM);
    for number in 3..2 + crate::limits::BATCHES_MAX as u64 {
        let other = test(MINE, |t| {
            (t.role, t.destinations, t.batch) = (Role::Server, 0, number);
        });
        assert_eq!(node.ask(other).unwrap().status, 0, "batch {number}");
    }
    let one_more = test(MINE, |t| (t.role, t.destinations, t.batch) = (Role::Server, 0, 1_000_000));
    assert_eq!(node.ask(one_more).unwrap().status, ENOMEM);
}

#[test]
fn a_client_test_fetches_its_destinations_and_makes_units_at_their_homes() {
    let mut node = Node::with(3, &Tunables::default());
    node.ask(make(MINE, 0)).unwrap();
    let many = test(MINE, |t| (t.destinations, t.concurrency) = (9, 2));
    assert!(node.ask(many).is_none());
    let fetch = node.orders.iter().find_map(|(cpt, order)| match order {
        ToWorker::Fetch { bulk_bits, count, len, .. } => Some((*cpt, *bulk_bits, *count, *len)),
        _ => None,
    });
    assert_eq!(fetch, Some((0, 2, 9, 108)));
    assert_eq!(node.deliver(9).unwrap().status, 0);
    let mut seen = 0;
    for (cpt, order) in &node.orders {
        if let ToWorker::Add { destinations, .. } = order {
            assert!(destinations.iter().all(|process| home_of(&process.nid, 3) == *cpt));
            seen += destinations.len();
        }
    }
    assert_eq!(seen, 9);
    node.batch(BatchOp::Run, 0, 0).unwrap();
    let runs = |(_, order): &&(u16, ToWorker)| matches!(order, ToWorker::Run { .. });
    assert_eq!(node.orders.iter().filter(runs).count(), 3);
    assert_eq!(node.active(1), 18);
}

#[test]
fn a_list_of_a_session_of_version_0_comes_in_whole_pages() {
    assert_eq!(list_len(1, 0), 4096);
    assert_eq!(list_len(341, 0), 4096);
    assert_eq!(list_len(342, 0), 8192);
    assert_eq!(list_len(342, 1), 342 * 12);
    assert!(list_len(DESTINATIONS_MAX, 0) <= 1 << 20);
}

#[test]
fn a_list_that_does_not_come_gets_no_reply_and_a_bad_one_does() {
    let rows = [
        (FetchError::Failed, None),
        (FetchError::Bad, Some(EINVAL)),
        (FetchError::NoMemory, Some(ENOMEM)),
    ];
    for (error, status) in rows {
        let mut node = Node::joined();
        assert!(node.ask(test(MINE, |_| {})).is_none());
        let answer = node.accept(ToFramework::Fetched { ticket: TICKET, list: Err(error) });
        assert_eq!(answer.map(|answer| answer.status), status, "{error:?}");
        assert_eq!(node.silenced(), status.is_none(), "{error:?}");
        assert!(node.framework.session.as_ref().unwrap().batch(BATCH).is_none());
    }
}

#[test]
fn a_session_that_ends_during_the_fetch_gets_no_reply() {
    let mut node = Node::joined();
    assert!(node.ask(test(MINE, |_| {})).is_none());
    node.ask(make(OTHER, 1)).unwrap();
    assert!(node.deliver(1).is_none());
    assert!(node.silenced());
    // Nor does a session with the same id that is another one.
    let mut node = Node::joined();
    assert!(node.ask(test(MINE, |_| {})).is_none());
    node.ask(remove(MINE)).unwrap();
    node.ask(make(MINE, 0)).unwrap();
    assert!(node.deliver(1).is_none());
}

#[test]
fn batches_run_stop_and_are_queried() {
    let mut node = Node::joined();
    assert_eq!(node.batch(BatchOp::Run, 0, 0).unwrap().status, ENOENT);
    node.ask(server(MINE)).unwrap();
    node.add_client(3).unwrap();
    assert_eq!((node.active(0), node.active(1), node.active(2)), (0, 0, 0));
    assert_eq!(node.batch(BatchOp::Query, 3, 0).unwrap().status, ENOENT);
    assert_eq!(node.batch(BatchOp::Query, u32::MAX, 0).unwrap().status, EINVAL);
    assert_eq!(node.batch(BatchOp::Query, 1 << 31, 0).unwrap().status, EINVAL);

    assert_eq!(node.batch(BatchOp::Run, 0, 0).unwrap().status, 0);
    let instance = node.running();
    assert_eq!((node.active(0), node.active(1), node.active(2)), (1, 0, 3));
    assert_eq!(node.batch(BatchOp::Run, 0, 0).unwrap().status, 0, "it runs already");
    assert_eq!(node.ask(server(MINE)).unwrap().status, EBUSY);
    assert_eq!(node.ask(test(MINE, |_| {})).unwrap().status, EBUSY);

    node.accept(ToFramework::Ended { instance, units: 2 });
    assert_eq!((node.active(0), node.active(2)), (1, 1));
    assert_eq!(node.batch(BatchOp::Stop, 0, 1).unwrap().status, 0);
    let stopped = node
        .orders
        .iter()
        .any(|(_, order)| matches!(order, ToWorker::Stop { how: Stop::AtOnce, .. }));
    assert!(stopped);
    node.accept(ToFramework::Ended { instance, units: 1 });
    assert_eq!((node.active(0), node.active(2)), (0, 0));
    assert_eq!(node.batch(BatchOp::Stop, 0, 0).unwrap().status, 0, "it is idle already");

    assert!(node.ask(batch(MINE, BATCH, 4, 0, 0)).is_none());
    assert!(node.silenced(), "an unknown operation gets no reply");
}

/// `lst run --timeout` [LST-27].
#[test]
fn a_batch_is_stopped_after_the_time_that_it_was_run_with() {
    let gentle = |node: &mut Node| {
        let stop = |order: &ToWorker| matches!(order, ToWorker::Stop { how: Stop::Gently, .. });
        node.orders.drain(..).filter(|(_, order)| stop(order)).count()
    };
    let mut node = Node::loaded();
    node.batch(BatchOp::Run, 0, 5).unwrap();
    let instance = node.running();
    let end = node.now + Nanos::from_secs(5);
    assert_eq!(node.framework.next_deadline(), end);
    node.now = Time(end.0 - 1);
    node.batch(BatchOp::Run, 0, 0).unwrap();
    assert_eq!((gentle(&mut node), node.framework.next_deadline()), (0, end), "it runs already");
    node.batch(BatchOp::Run, 0, 9).unwrap();
    let end = node.now + Nanos::from_secs(9);
    assert_eq!((gentle(&mut node), node.framework.next_deadline()), (0, end), "the new time holds");
    node.now = end;
    assert_eq!((node.active(0), gentle(&mut node)), (1, 1));
    assert!(node.framework.next_deadline() > end, "once is enough");
    node.accept(ToFramework::Ended { instance, units: 3 });
    // Without a time it goes on; after a stop nothing is due.
    node.batch(BatchOp::Run, 0, 0).unwrap();
    assert!(node.framework.next_deadline() > node.now + Nanos::from_secs(50));
    node.accept(ToFramework::Ended { instance, units: 3 });
    node.batch(BatchOp::Run, 0, 5).unwrap();
    node.batch(BatchOp::Stop, 0, 1).unwrap();
    assert!(node.framework.next_deadline() > node.now + Nanos::from_secs(50));
}

#[test]
fn a_batch_that_starts_during_the_fetch_is_busy() {
    let mut node = Node::loaded();
    assert!(node.ask(test(MINE, |_| {})).is_none());
    node.batch(BatchOp::Run, 0, 0).unwrap();
    assert_eq!(node.deliver(1).unwrap().status, EBUSY);
}

#[test]
fn a_session_ends_when_no_framework_request_comes_in_time() {
    let mut node = Node::joined();
    let second = Nanos::from_secs(1);
    node.now = node.now + Nanos(second.0 * 99);
    // Even one that fails, of anybody [LST-12].
    assert_eq!(node.ask(stat(OTHER)).unwrap().status, ESRCH);
    assert_eq!(node.framework.next_deadline(), node.now + Nanos(second.0 * 100));
    node.now = node.now + Nanos(second.0 * 99);
    assert_eq!(node.ask_with(3, debug(OTHER)).unwrap().status, EPROTO);
    node.now = node.now + Nanos(second.0 * 99);
    node.framework.drive(node.now);
    assert!(node.framework.session().is_some());
    node.now = node.now + second;
    node.framework.drive(node.now);
    assert!(node.framework.session().is_none());
    assert_eq!(node.framework.next_deadline(), Time::NEVER);
    assert_eq!(node.ask(make(OTHER, 0)).unwrap().status, 0);
}

#[test]
fn a_time_out_of_0_is_none() {
    let mut tunables = Tunables::default();
    tunables.set("session_timeout", 0).unwrap();
    let mut node = Node::with(1, &tunables);
    node.ask(make(MINE, 0)).unwrap();
    assert_eq!(node.framework.next_deadline(), Time::NEVER);
}

#[test]
fn an_ended_session_lingers_until_its_units_have_finished() {
    let mut node = Node::loaded();
    node.batch(BatchOp::Run, 0, 0).unwrap();
    let instance = node.running();
    node.ask(make(OTHER, 1)).unwrap();
    let removed = node.orders.iter().any(
        |(_, order)| matches!(order, ToWorker::Remove { instance: other } if *other == instance),
    );
    assert!(removed);
    assert_eq!((node.framework.zombies.sessions(), node.framework.zombies.units()), (1, 3));
    node.accept(ToFramework::Ended { instance, units: 3 });
    assert_eq!((node.framework.zombies.sessions(), node.framework.zombies.units()), (0, 0));
}

#[test]
fn counters_of_all_partitions_are_summed() {
    let mut node = Node::with(2, &Tunables::default());
    node.ask(make(MINE, 0)).unwrap();
    node.now = node.now + Nanos::from_millis(3829);
    assert!(node.ask(stat(MINE)).is_none());
    let gather = node
        .orders
        .iter()
        .find_map(|(_, order)| match order {
            ToWorker::Count { gather } => Some(*gather),
            _ => None,
        })
        .unwrap();
    let mut share = Share::default();
    (share.rpc.received, share.rpc.bulk_put, share.errors.brw) = (5, 1 << 33, 1);
    share.lnet.sent.put = 9;
    assert!(node.accept(ToFramework::Counted { gather, share }).is_none());
    match node.accept(ToFramework::Counted { gather, share }).unwrap().body {
        Body::StatReply(reply) => {
            let Counters { framework, rpc, lnet } = reply.counters;
            assert_eq!((reply.sid, framework.running_ms), (MINE, 3829));
            assert_eq!((framework.brw_errors, rpc.received), (2, 10));
            assert_eq!((rpc.bulk_put, lnet.send_count), (1 << 34, 18));
        }
        other => panic!("{other:?}"),
    }
    assert!(node.accept(ToFramework::Counted { gather, share }).is_none(), "there was no request");
}
