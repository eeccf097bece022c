use lustrine_fswire::connect::ConnectData;
use lustrine_fswire::fid::Handle;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet_testing::test_nid;
use lustrine_wire::nid::ProcessId;

use super::*;

const NOW: Time = Time(1_000_000_000);

fn args(conn_cnt: u32, cookie: Handle) -> ConnectArgs<'static> {
    ConnectArgs {
        uuid: b"client",
        cookie,
        client_handle: Handle(7),
        conn_cnt,
        initial: cookie == Handle::NONE,
        peer: ProcessId::lustre(test_nid(0)),
        local: test_nid(1),
        granted: ConnectData::default(),
    }
}

fn connect(exports: &mut Exports, args: &ConnectArgs<'_>) -> Result<Connected, i32> {
    exports.connect(NOW, args, |_| false)
}

#[test]
fn a_client_keeps_its_handle_as_long_as_it_is_known() {
    let mut exports = Exports::new(1);
    let Ok(Connected::New(cookie)) = connect(&mut exports, &args(1, Handle::NONE)) else {
        panic!("it is new")
    };
    assert_eq!(connect(&mut exports, &args(2, cookie)), Ok(Connected::Again(cookie)));
    // An old connect that comes late, another import, another place.
    assert_eq!(connect(&mut exports, &args(2, cookie)), Err(114));
    let other = ConnectArgs { client_handle: Handle(8), ..args(3, cookie) };
    assert_eq!(connect(&mut exports, &other), Err(114));
    let moved = ConnectArgs { peer: ProcessId::lustre(test_nid(5)), ..args(3, Handle::NONE) };
    assert_eq!(connect(&mut exports, &moved), Err(114));
    // It has forgotten its handle, and requests of it are in flight.
    assert_eq!(exports.connect(NOW, &args(3, Handle::NONE), |_| true), Err(16));
    exports.remove(cookie);
    assert!(matches!(connect(&mut exports, &args(4, cookie)), Ok(Connected::New(_))));
}

#[test]
fn old_requests_are_dropped_and_answered_ones_refused() {
    let mut exports = Exports::new(1);
    let Ok(Connected::New(cookie)) = connect(&mut exports, &args(1, Handle::NONE)) else {
        panic!("it is new")
    };
    connect(&mut exports, &args(3, cookie)).expect("it is known");
    let mut heard = |conn_cnt, xid, last, replay| {
        let heard = exports.heard(NOW, cookie, (conn_cnt, xid, last), replay);
        heard.map(|heard| heard.map(drop))
    };
    assert_eq!(heard(2, 100, 0, false), None);
    assert_eq!(heard(3, 100, 50, false), Some(Ok(())));
    assert_eq!(heard(3, 40, 0, false), Some(Err(71)));
    assert_eq!(heard(3, 40, 0, true), Some(Ok(())));
    assert!(exports.heard(NOW, Handle(1), (3, 200, 0), false).is_none());
}

fn recovery(clients: &[&[u8]]) -> Recovery {
    let clients = clients.iter().map(|uuid| uuid.to_vec());
    Recovery::new(RecoveryTunables::default(), clients)
}

#[test]
fn replays_wait_until_no_lower_one_can_come() {
    let mut recovery = recovery(&[b"a", b"b"]);
    recovery.connected(NOW, b"a");
    recovery.queue(b"a", 5, 50);
    // The other client may have an earlier one.
    assert_eq!(recovery.next_replay(NOW), None);
    recovery.connected(NOW, b"b");
    recovery.queue(b"b", 3, 30);
    assert_eq!(recovery.next_replay(NOW), Some(30));
    assert_eq!(recovery.next_replay(NOW), None);
    recovery.requests_done(b"b");
    assert_eq!((recovery.next_replay(NOW), recovery.phase()), (Some(50), Phase::Requests));
    recovery.requests_done(b"a");
    assert_eq!(recovery.phase(), Phase::Locks);
    recovery.locks_done(b"a");
    recovery.locks_done(b"b");
    assert_eq!(recovery.phase(), Phase::Over);
}

#[test]
fn a_client_replays_one_change_at_a_time_in_their_order() {
    let mut recovery = recovery(&[b"a", b"b"]);
    recovery.connected(NOW, b"a");
    recovery.queue(b"a", 5, 50);
    let is_out_of_turn = |recovery: &Recovery| [4, 5, 6].map(|n| recovery.is_out_of_turn(b"a", n));
    assert_eq!(is_out_of_turn(&recovery), [true, false, true]);
    // Each client has its own turns.
    assert!(!recovery.is_out_of_turn(b"b", 3));
    recovery.requests_done(b"b");
    assert_eq!(recovery.next_replay(NOW), Some(50));
    assert_eq!(is_out_of_turn(&recovery), [true, false, false]);
    recovery.connected(NOW, b"a");
    assert_eq!(is_out_of_turn(&recovery), [false, false, false]);
}

#[test]
fn a_client_that_connects_again_begins_again() {
    let mut recovery = recovery(&[b"a"]);
    recovery.connected(NOW, b"a");
    recovery.queue(b"a", 5, 50);
    recovery.requests_done(b"a");
    assert_eq!(recovery.connected(NOW, b"a"), [50]);
    assert_eq!((recovery.phase(), recovery.next_replay(NOW)), (Phase::Requests, None));
    // One that comes twice takes the place of the first one.
    recovery.queue(b"a", 5, 51);
    assert_eq!(recovery.queue(b"a", 5, 52), Some(51));
}

#[test]
fn clients_that_do_not_come_are_given_up() {
    let mut recovery = recovery(&[b"a", b"b"]);
    // Nobody has come: there is no hurry.
    assert_eq!(recovery.next_deadline(), Time::NEVER);
    recovery.connected(NOW, b"a");
    recovery.locks_done(b"a");
    let end = NOW + RecoveryTunables::default().window;
    assert_eq!(recovery.overdue(end - Nanos(1)), Vec::<Vec<u8>>::new());
    assert_eq!(recovery.overdue(end), [b"b".to_vec()]);
    recovery.remove(b"b");
    assert_eq!(recovery.phase(), Phase::Over);
}
