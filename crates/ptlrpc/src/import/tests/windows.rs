//! Windows: what is under way to the target is limited by what the way carries.

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
        let under_way = pair.sent.len() - pair.answered;
        for _ in 0..under_way {
            let (send, message) = pair.sent[pair.answered].clone();
            pair.answered += 1;
            let reply = pair.server.answer(send.xid, &message).expect("an answer");
            pair.reply(&send, &message, &reply);
            pair.collect();
        }
    }
    assert_eq!(pair.done.len(), 40);
    let window = pair.import.view().window.expect("there is one");
    assert_eq!(window.in_flight, 0);
    assert!(window.window > 33 << 20, "{window:?}");
}

#[test]
fn requests_that_are_sent_again_or_given_up_leave_the_window() {
    let mut pair = connected();
    for user in 0..12 {
        submit(&mut pair, user);
    }
    // No reply: the import connects again, and sends again what was under way.
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
