//! Windows: what is in flight to the target is limited by what the way carries.

use lustrine_lnet::time::WallClock;

use super::*;

fn connected() -> Pair {
    let tunables = ImportTunables {
        max_rpcs_in_flight: 512,
        window: Some(WallClock::from_secs(1_700_000_000)),
        ..ImportTunables::default()
    };
    let mut pair = Pair::with(tunables, &[1]);
    pair.import.connect(pair.now, &mut pair.xids);
    pair.run();
    pair.forget();
    pair
}

/// Submits a request that moves 4 MiB.
fn submit(pair: &mut Pair, user: u64) {
    let args = RequestArgs {
        portal: portal::MDS,
        message: bare(&PtlrpcBody::request(Opcode::MDS_STATFS)),
        reply_len: 512,
        counted: true,
        payload: 4 << 20,
        user,
        ..RequestArgs::default()
    };
    pair.import.submit(pair.now, &mut pair.xids, args);
    pair.collect();
}

#[test]
fn eight_requests_of_4_mib_begin_and_the_others_follow() {
    let mut pair = connected();
    for user in 0..40 {
        submit(&mut pair, user);
    }
    assert_eq!(pair.sent.len(), 8);
    let window = pair.import.view().window.expect("there is one");
    assert!(window.in_flight <= window.window, "{window:?}");
    // Their answers come after 50 ms each time: the window opens.
    while pair.answered < pair.sent.len() {
        pair.now = pair.now + Nanos::from_millis(50);
        answer_all(&mut pair);
    }
    assert_eq!(pair.done.len(), 40);
    let window = pair.import.view().window.expect("there is one");
    assert_eq!(window.in_flight, 0);
    assert!(window.window > 33 << 20, "{window:?}");
}

/// Answers all requests that are in flight.
fn answer_all(pair: &mut Pair) {
    for _ in pair.answered..pair.sent.len() {
        let (send, message) = pair.sent[pair.answered].clone();
        pair.answered += 1;
        let reply = pair.server.answer(send.xid, &message).expect("an answer");
        pair.reply(&send, &message, &reply);
        pair.collect();
    }
}

#[test]
fn requests_are_spread_over_the_round() {
    let mut pair = connected();
    for user in 0..8 {
        submit(&mut pair, user);
    }
    pair.now = pair.now + Nanos::from_millis(50);
    answer_all(&mut pair);
    assert_eq!(pair.done.len(), 8);
    for user in 8..16 {
        submit(&mut pair, user);
    }
    // The window has room for all of them, and no reply comes.
    let mut sent = pair.sent.len();
    assert!(sent < 16, "{sent} at once");
    while sent < 16 {
        let due = pair.import.next_deadline();
        let wait = due.since(pair.now);
        assert!(wait > Nanos::ZERO && wait < Nanos::from_millis(50), "{wait:?}");
        pair.now = due;
        pair.import.drive(pair.now, &mut pair.xids);
        pair.collect();
        assert_eq!(pair.sent.len(), sent + 1);
        sent += 1;
    }
}

#[test]
fn requests_that_are_sent_again_or_given_up_leave_the_window() {
    let mut pair = connected();
    for user in 0..12 {
        submit(&mut pair, user);
    }
    // No reply: the import connects again, and sends again what was in flight.
    pair.pass(Nanos::from_secs(60));
    pair.run();
    assert_eq!(pair.done.len(), 12);
    assert_eq!(pair.import.view().window.expect("there is one").in_flight, 0);
    let key = {
        submit(&mut pair, 12);
        pair.sent.last().expect("it is sent").0.key
    };
    pair.import.cancel(pair.now, &mut pair.xids, key);
    assert_eq!(pair.import.view().window.expect("there is one").in_flight, 0);
}

#[test]
fn a_limit_that_is_set_replaces_the_window() {
    let mut pair = connected();
    for user in 0..12 {
        submit(&mut pair, user);
    }
    assert_eq!(pair.sent.len(), 8);
    let tunables = ImportTunables { max_rpcs_in_flight: 10, ..ImportTunables::default() };
    pair.import.set_tunables(pair.now, &mut pair.xids, tunables);
    pair.collect();
    assert_eq!(pair.sent.len(), 10);
    pair.run();
    assert_eq!(pair.done.len(), 12);
    let window = Some(WallClock::from_secs(1_700_000_000));
    pair.import.set_tunables(pair.now, &mut pair.xids, ImportTunables { window, ..tunables });
    submit(&mut pair, 12);
    pair.run();
    assert_eq!(pair.done.len(), 13);
    assert_eq!(pair.import.view().window.expect("there is one").in_flight, 0);
}
