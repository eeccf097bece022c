//! The session as a state machine: what it sends next, given what the node answered.

use lustrine_lnet::md::Owner;
use lustrine_lnet::status::Status;
use lustrine_lnet_testing::{Net, test_nid};
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::srpc::{DebugReply, MakeSessionReply, RemoveSessionReply, TestReply, VERSION};

use super::*;
use crate::mark::ClientSlot;

const OURS: Sid = Sid { nid: 0x0002_0000_0a00_0001, stamp: 17 };
const OTHER: Sid = Sid { nid: 0x0002_0000_0a00_0001, stamp: 18 };

struct World {
    net: Net,
    caller: RpcClient,
    link: Link,
    now: Time,
    /// When anything last arrived of the node.
    heard_at: Option<Time>,
}

impl World {
    fn new(session: SessionMode) -> World {
        let terms = LinkConfig {
            peer: ProcessId::lustre(test_nid(1)),
            local: None,
            sid: OURS,
            name: Name::EMPTY,
            session,
            patience: Nanos::from_secs(30),
            rpc_timeout: Nanos::from_secs(64),
        };
        World {
            net: Net::new(2, &Default::default()),
            caller: RpcClient::new(ClientSlot(1), 1, 64),
            link: Link::new(terms),
            now: Time(1),
            heard_at: None,
        }
    }

    /// A link with a session that has everything it wants.
    fn present() -> World {
        let mut world = World::new(SessionMode::IfFree);
        world.link.want_service(Service::Ping, 8);
        assert_eq!(world.sends(), Some(Control::Make));
        world.answer(made(0, OURS));
        assert_eq!(world.sends(), Some(Control::Prepare(Service::Ping, 256)));
        assert!(!world.link.is_usable());
        world.answer(tested(0));
        assert!(world.link.is_usable());
        assert_eq!(world.sends(), None);
        world
    }

    /// What the link sends now.
    fn sends(&mut self) -> Option<Control> {
        let node = &mut self.net.nodes[0];
        let mut turn = Turn {
            now: self.now,
            owner: Owner(1),
            shard: &mut node.shard,
            memory: &mut node.memory,
        };
        self.link.drive(&mut turn, &mut self.caller, self.heard_at);
        self.link.in_flight
    }

    fn answer(&mut self, body: Body) -> LinkEvent {
        let message = Message { order: ByteOrder::Little, version: VERSION, features: 1, body };
        self.complete(Ok(message), None)
    }

    fn complete(
        &mut self,
        outcome: Result<Message, RpcError>,
        heard_at: Option<Time>,
    ) -> LinkEvent {
        let completion = Completion { user: CONTROL, took: Nanos(1), bulk_moved: 0, outcome };
        self.link.complete(self.now, heard_at, &completion)
    }

    fn wait(&mut self, millis: u64) {
        self.now = self.now + Nanos::from_millis(millis);
    }
}

fn made(status: u32, sid: Sid) -> Body {
    let name = Name::new("theirs").unwrap();
    Body::MakeSessionReply(MakeSessionReply { status, sid, timeout: 100, name })
}

fn tested(status: u32) -> Body {
    Body::TestReply(TestReply { status, sid: OURS })
}

fn debugged(status: u32, sid: Sid) -> Body {
    let name = Name::EMPTY;
    Body::DebugReply(DebugReply { status, sid, timeout: 100, batches: 0, name })
}

fn removed(status: u32, sid: Sid) -> Body {
    Body::RemoveSessionReply(RemoveSessionReply { status, sid })
}

#[test]
fn a_node_that_lost_the_session_gets_it_and_its_tests_again() {
    for reply in [debugged(errno::ESRCH, Sid::NONE), debugged(0, OTHER)] {
        let mut world = World::present();
        world.link.doubt(world.now, world.now);
        assert!(!world.link.is_usable());
        assert_eq!(world.sends(), Some(Control::Debug));
        assert!(matches!(world.answer(reply), LinkEvent::Lost));
        assert_eq!(world.sends(), Some(Control::Make));
        world.answer(made(0, OURS));
        assert!(!world.link.is_usable(), "a new node has no request buffers yet");
        assert_eq!(world.sends(), Some(Control::Prepare(Service::Ping, 256)));
        world.answer(tested(0));
        assert!(world.link.is_usable());
    }
}

#[test]
fn a_node_that_still_has_the_session_is_used_at_once() {
    let mut world = World::present();
    world.link.doubt(world.now, world.now);
    assert_eq!(world.sends(), Some(Control::Debug));
    assert!(matches!(world.answer(debugged(0, OURS)), LinkEvent::Nothing));
    assert!(world.link.is_usable());
}

#[test]
fn a_test_for_a_lost_session_makes_it_again() {
    for status in [errno::ENOENT, errno::ESRCH, errno::EPROTO] {
        let mut world = World::present();
        world.link.want_service(Service::Brw, 4);
        assert_eq!(world.sends(), Some(Control::Prepare(Service::Brw, 256)));
        assert!(matches!(world.answer(tested(status)), LinkEvent::Lost));
        assert_eq!(world.sends(), Some(Control::Make));
    }
}

#[test]
fn a_higher_concurrency_asks_for_more_buffers_and_a_lower_one_does_not() {
    let mut world = World::present();
    let mut announced = Vec::new();
    for concurrency in (1..=1024).chain([1]) {
        world.link.want_service(Service::Ping, concurrency);
        if let Some(Control::Prepare(Service::Ping, buffers)) = world.sends() {
            announced.push((concurrency, buffers));
            world.answer(tested(0));
        }
        assert!(world.link.is_usable());
    }
    assert_eq!(announced, [(257, 512), (513, 1024)]);
}

#[test]
fn silence_is_asked_again_with_growing_pauses_until_patience_ends() {
    let mut world = World::new(SessionMode::IfFree);
    let mut attempts = 0;
    while world.link.error().is_none() {
        if world.sends() == Some(Control::Make) {
            attempts += 1;
            world.complete(Err(RpcError::Send(Status::Refused)), None);
        }
        world.wait(50);
        assert!(world.now < Time::ZERO + Nanos::from_secs(40));
    }
    let last = Some(RpcError::Send(Status::Refused));
    assert_eq!(world.link.error(), Some(ClientError::NoAnswer(last)));
    assert!((15..25).contains(&attempts), "{attempts}");
    assert!(world.now >= Time::ZERO + Nanos::from_secs(30));
}

#[test]
fn patience_counts_from_the_last_sign_and_ends_in_the_middle_of_a_question() {
    let mut world = World::present();
    world.wait(60_000);
    let silent_since = Time(world.now.0 - Nanos::from_secs(3).0);
    world.link.doubt(world.now, silent_since);
    assert_eq!(world.sends(), Some(Control::Debug));
    // Something else arrives a second later.
    world.wait(1000);
    world.heard_at = Some(world.now);
    assert_eq!(world.sends(), Some(Control::Debug), "still in flight");
    let end = world.now + Nanos::from_secs(30);
    assert_eq!(world.link.next_deadline(), end);
    world.now = Time(end.0 - 1);
    world.sends();
    assert_eq!(world.link.error(), None);
    world.now = end;
    world.sends();
    let last = Some(RpcError::TimedOut);
    assert_eq!(world.link.error(), Some(ClientError::NoAnswer(last)));
    assert!(!world.link.is_closed(), "the question's end is still to come");
    world.complete(Err(RpcError::TimedOut), None);
    assert!(world.link.is_closed());
    assert_eq!(world.link.error(), Some(ClientError::NoAnswer(last)));
}

#[test]
fn the_session_is_kept_alive_in_good_time() {
    let mut world = World::present();
    let due = world.link.next_deadline();
    assert!(due < world.now + Nanos::from_secs(50) && due > world.now + Nanos::from_secs(20));
    world.now = due;
    assert_eq!(world.sends(), Some(Control::Debug));
    assert!(world.link.is_usable(), "the load goes on meanwhile");
    world.answer(debugged(0, OURS));
    assert_eq!(world.sends(), None);
    assert!(world.link.next_deadline() > due);
}

#[test]
fn a_busy_network_is_no_dead_node() {
    let mut world = World::present();
    world.now = world.link.next_deadline();
    assert_eq!(world.sends(), Some(Control::Debug));
    world.wait(10_000);
    let heard = Some(world.now - Nanos::from_millis(1));
    world.complete(Err(RpcError::TimedOut), heard);
    assert!(world.link.is_usable(), "something arrived since");
    world.wait(10_000);
    assert_eq!(world.sends(), Some(Control::Debug));
    world.complete(Err(RpcError::TimedOut), heard);
    assert!(!world.link.is_usable());
}

#[test]
fn another_session_is_respected_or_ended_as_told() {
    let busy = ClientError::Busy { holder: OTHER, name: Name::new("theirs").unwrap() };
    let mut world = World::new(SessionMode::IfFree);
    world.sends();
    world.answer(made(errno::EBUSY, OTHER));
    assert_eq!(world.link.error(), Some(busy));
    assert!(world.link.is_closed());
    assert_eq!(world.sends(), None);
}

#[test]
fn a_refusal_without_a_remedy_ends_the_client() {
    let mut world = World::new(SessionMode::Force);
    world.sends();
    world.answer(made(errno::EPROTO, Sid { nid: 0, stamp: 0 }));
    let refused = ClientError::Refused { service: "MAKE_SESSION", status: errno::EPROTO };
    assert_eq!(world.link.error(), Some(refused));
    assert_eq!(refused.to_string(), "the node refused MAKE_SESSION with EPROTO");
    let refused = |status| ClientError::Refused { service: "MAKE_SESSION", status }.to_string();
    assert_eq!(refused(1234), "the node refused MAKE_SESSION with error 1234");
    let words = refused(errno::EPERM);
    assert!(words.contains("`selftest_consoles`, or set `selftest: full`"), "{words}");
}

/// A node refuses a TEST if it has no room for it, for example.
#[test]
fn a_session_in_which_a_test_is_refused_is_removed() {
    let refused = ClientError::Refused { service: "TEST", status: errno::ENOMEM };
    for closed_before in [false, true] {
        let mut world = World::present();
        world.link.want_service(Service::Brw, 4);
        assert!(matches!(world.sends(), Some(Control::Prepare(Service::Brw, _))));
        if closed_before {
            world.link.close(world.now);
        }
        world.answer(tested(errno::ENOMEM));
        let error = (!closed_before).then_some(refused);
        assert_eq!((world.link.error(), world.link.is_closed()), (error, false));
        assert_eq!(world.sends(), Some(Control::Remove));
        world.answer(removed(0, Sid::NONE));
        assert_eq!((world.link.error(), world.link.is_closed()), (error, true));
    }
}

#[test]
fn a_session_made_several_times_is_removed_as_often() {
    let mut world = World::present();
    world.link.close(world.now);
    for _ in 0..3 {
        assert_eq!(world.sends(), Some(Control::Remove));
        world.answer(removed(0, OURS));
        assert!(!world.link.is_closed());
    }
    assert_eq!(world.sends(), Some(Control::Remove));
    world.answer(removed(0, Sid::NONE));
    assert!(world.link.is_closed() && world.link.error().is_none());
}

#[test]
fn removing_has_an_end_whatever_the_node_says() {
    let mut world = World::present();
    world.link.close(world.now);
    let mut asked = 0;
    while world.sends() == Some(Control::Remove) {
        world.answer(removed(0, OURS));
        asked += 1;
    }
    assert!(world.link.is_closed());
    assert_eq!(asked, REMOVALS_MAX);
}

/// A link that is down for a moment as the client ends must not leave the session behind: until it
/// expires, the node would refuse the next client.
#[test]
fn a_session_is_removed_after_an_outage_of_some_seconds() {
    let mut world = World::present();
    world.link.close(world.now);
    while world.now < Time::ZERO + Nanos::from_secs(8) {
        if world.sends() == Some(Control::Remove) {
            world.complete(Err(RpcError::Send(Status::Unreachable)), None);
        }
        world.now = world.link.next_deadline();
        assert!(!world.link.is_closed());
    }
    assert_eq!(world.sends(), Some(Control::Remove));
    world.answer(removed(0, Sid::NONE));
    assert!(world.link.is_closed() && world.link.error().is_none());
}

/// What was in flight when the client closed may take all the time of the removal.
#[test]
fn the_time_of_the_removal_begins_with_its_first_request() {
    let mut world = World::present();
    world.link.doubt(world.now, world.now);
    assert_eq!(world.sends(), Some(Control::Debug));
    world.link.close(world.now);
    world.wait(10_500);
    world.complete(Err(RpcError::TimedOut), None);
    assert!(!world.link.is_closed());
    world.wait(500);
    assert_eq!(world.sends(), Some(Control::Remove));
    world.answer(removed(0, Sid::NONE));
    assert!(world.link.is_closed() && world.link.error().is_none());
}

#[test]
fn a_node_that_never_removes_the_session_is_reported() {
    let mut world = World::present();
    world.link.close(world.now);
    let mut asked = 0;
    while !world.link.is_closed() {
        assert_eq!(world.sends(), Some(Control::Remove));
        asked += 1;
        world.wait(3333);
        world.complete(Err(RpcError::TimedOut), None);
        world.wait(500);
    }
    assert_eq!(asked, 3);
    assert_eq!(world.link.error(), Some(ClientError::NotRemoved(RpcError::TimedOut)));
}

#[test]
fn closing_while_the_session_is_being_made_removes_it() {
    let mut world = World::new(SessionMode::IfFree);
    assert_eq!(world.sends(), Some(Control::Make));
    world.link.close(world.now);
    assert!(!world.link.is_closed());
    world.answer(made(0, OURS));
    assert_eq!(world.sends(), Some(Control::Remove));
}

#[test]
fn a_link_without_a_session_is_usable_at_once_and_asks_only_in_doubt() {
    let mut world = World::new(SessionMode::NoSession);
    assert!(world.link.is_present() && !world.link.is_usable());
    world.link.want_service(Service::Brw, 64);
    world.link.want_counters();
    assert!(world.link.is_usable());
    assert_eq!((world.sends(), world.link.next_deadline()), (None, Time::NEVER));
    for reply in [debugged(errno::ESRCH, Sid::NONE), debugged(0, OTHER)] {
        world.link.doubt(world.now, world.now);
        assert!(!world.link.is_usable());
        assert_eq!(world.sends(), Some(Control::Debug));
        assert!(matches!(world.answer(reply), LinkEvent::Nothing));
        assert!(world.link.is_usable(), "it is there, that is enough");
    }
    world.link.close(world.now);
    assert_eq!((world.sends(), world.link.is_closed()), (None, true));
    assert_eq!(world.link.error(), None);
}

#[test]
fn a_link_without_a_session_has_patience_too_and_closes_while_it_asks() {
    let mut world = World::new(SessionMode::NoSession);
    world.link.doubt(world.now, world.now);
    while world.link.error().is_none() {
        if world.sends() == Some(Control::Debug) {
            world.complete(Err(RpcError::TimedOut), None);
        }
        world.wait(50);
        assert!(world.now < Time::ZERO + Nanos::from_secs(40));
    }
    let last = Some(RpcError::TimedOut);
    assert_eq!(world.link.error(), Some(ClientError::NoAnswer(last)));

    let mut world = World::new(SessionMode::NoSession);
    world.link.doubt(world.now, world.now);
    assert_eq!(world.sends(), Some(Control::Debug));
    world.link.close(world.now);
    assert!(!world.link.is_closed());
    world.answer(debugged(errno::ESRCH, Sid::NONE));
    assert!(world.link.is_closed());
}
