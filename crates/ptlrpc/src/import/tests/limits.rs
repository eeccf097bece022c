//! How much may be in flight: credits and slots [IMP-4].

use super::*;

#[test]
fn credits_and_slots_limit_what_is_in_flight() {
    let mut pair = Pair::connected();
    for user in 0..5 {
        pair.submit(user, false);
        pair.submit(10 + user, true);
    }
    // Two counted requests, and two slots.
    assert_eq!(pair.sent.len(), 4);
    let mut tags: Vec<u16> = (0..4).map(|index| pair.body(index).tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, [0, 0, 1, 2]);
    pair.run();
    assert_eq!(pair.done.len(), 10);
    assert!(pair.done.iter().all(|(_, result)| *result == Ok(0)));
    assert_eq!(pair.import.view().kept, 5);
}

/// The server remembers one change.
#[test]
fn without_slots_there_is_one_change_at_a_time() {
    let mut pair = Pair::new();
    pair.server.grants.flags -= ConnectFlags::MULTIMODRPCS;
    pair.import.connect(pair.now, &mut pair.xids);
    pair.run();
    pair.forget();
    for user in 0..3 {
        pair.submit(user, true);
    }
    for sent in 1..=3 {
        assert_eq!((pair.sent.len(), pair.body(sent - 1).tag), (sent, 0));
        pair.answer_next(true);
    }
    assert_eq!(pair.done, [(0, Ok(0)), (1, Ok(0)), (2, Ok(0))]);
}

#[test]
fn what_waits_is_sent_when_a_limit_is_raised() {
    let mut pair = Pair::connected();
    for user in 0..5 {
        pair.submit(user, false);
    }
    assert_eq!(pair.sent.len(), 2);
    let tunables = ImportTunables { max_rpcs_in_flight: 4, ..ImportTunables::default() };
    pair.import.set_tunables(pair.now, &mut pair.xids, tunables);
    pair.collect();
    assert_eq!(pair.sent.len(), 4);
    let tunables = ImportTunables { max_rpcs_in_flight: 1, ..ImportTunables::default() };
    pair.import.set_tunables(pair.now, &mut pair.xids, tunables);
    pair.run();
    assert_eq!(pair.done.len(), 5);
}
