//! What the management server and an administrator say of a target [IMP-15] [IMP-16].

use super::*;

/// A connection to the second start of a target, at peer 1.
fn connected(peers: &[u8]) -> Pair {
    let mut pair = Pair::with(ImportTunables::default(), peers);
    pair.server.grants.instance = 2;
    pair.import.connect(pair.now, &mut pair.xids);
    pair.run();
    assert_eq!(pair.import.state(), ImportState::Full);
    pair.forget();
    pair
}

fn started(pair: &mut Pair, peers: &[u8], instance: u32) -> bool {
    let peers: Vec<ProcessId> = peers.iter().map(|last| peer(*last)).collect();
    let connects = pair.import.target_started(pair.now, &mut pair.xids, &peers, instance);
    pair.collect();
    connects
}

#[test]
fn a_target_that_has_restarted_is_connected_again_at_once() {
    let mut pair = connected(&[1]);
    pair.submit(1, true);
    pair.server.crash();
    pair.server.grants.instance = 3;
    assert!(started(&mut pair, &[1], 3));
    pair.answered = 1;
    pair.run();
    assert_eq!(pair.import.state(), ImportState::Full);
    assert_eq!(pair.import.view().instance, 3);
    // The change that was under way is done, and no time has passed.
    assert_eq!((pair.done.as_slice(), pair.evictions.len()), (&[(1, Ok(0))][..], 0));
    // It is known now.
    assert!(!started(&mut pair, &[1], 3));
}

#[test]
fn what_is_known_already_changes_nothing() {
    let mut pair = connected(&[1]);
    assert!(!started(&mut pair, &[1, 5], 2));
    assert!(!started(&mut pair, &[], 9));
    // It answers from where it is, whatever the table says.
    assert!(!started(&mut pair, &[7], 2));
    assert!(pair.sent.is_empty());
    assert!(pair.import.has_peer(&peer(7)) && pair.import.peer() == peer(1));
}

#[test]
fn a_target_that_has_moved_is_found_where_it_is() {
    let mut pair = connected(&[1]);
    // The node is gone: no server answers any more.
    pair.submit(1, false);
    pair.pass(Nanos::from_secs(30));
    assert_eq!(pair.import.state(), ImportState::Connecting);
    pair.forget();
    assert!(started(&mut pair, &[9], 3));
    assert_eq!(pair.sent.last().map(|(send, _)| send.peer), Some(peer(9)));
    pair.server.grants.instance = 3;
    pair.answered = pair.sent.len() - 1;
    pair.run();
    assert_eq!((pair.import.state(), pair.import.peer()), (ImportState::Full, peer(9)));
    assert_eq!(pair.done, [(1, Ok(0))]);
}

#[test]
fn a_pause_between_attempts_ends() {
    let mut pair = connected(&[1]);
    pair.server.crash();
    pair.submit(1, false);
    // Two attempts in vain: the next one would be after 10 s.
    for _ in 0..40 {
        pair.pass(SECOND);
    }
    while pair.import.state() != ImportState::Disconn {
        pair.pass(SECOND);
    }
    pair.forget();
    assert!(started(&mut pair, &[1], 3));
    assert_eq!(pair.sent.len(), 1);
    pair.run();
    assert_eq!(pair.import.state(), ImportState::Full);
}

#[test]
fn a_table_does_not_let_an_import_grow() {
    let mut pair = connected(&[1]);
    for instance in 3..2000 {
        let peers = [(instance % 251) as u8, 252, 253];
        started(&mut pair, &peers, instance);
        pair.forget();
    }
    assert!(pair.import.args.peers.len() <= 64);
    let many: Vec<ProcessId> = (0..200).map(peer).collect();
    pair.import.add_peers(&many);
    assert!(pair.import.args.peers.len() <= 64);
}

#[test]
fn a_target_that_is_not_to_be_used_fails_requests_at_once() {
    let mut pair = connected(&[1]);
    pair.submit(1, true);
    pair.submit(2, false);
    pair.import.set_active(pair.now, &mut pair.xids, false);
    pair.collect();
    pair.submit(3, false);
    let refused = Err(RpcError::Inactive);
    assert_eq!(pair.done, [(1, refused), (2, refused), (3, refused)]);
    assert_eq!((pair.import.state(), pair.evictions.as_slice()), (ImportState::Disconn, &[0][..]));
    assert!(pair.import.is_deactivated() && pair.import.next_deadline() == Time::NEVER);
    assert_eq!(pair.import.view().deactivated, Some(Deactivated::Inactive));
    // A restart of the target changes nothing, and nothing is sent.
    pair.forget();
    assert!(!started(&mut pair, &[1], 8));
    pair.pass(Nanos::from_secs(1000));
    assert!(pair.sent.is_empty());
    // Then it is to be used again.
    pair.import.set_active(pair.now, &mut pair.xids, true);
    pair.run();
    pair.submit(4, false);
    pair.run();
    assert_eq!(pair.import.state(), ImportState::Full);
    assert_eq!(pair.done.last(), Some(&(4, Ok(0))));
    // Twice is once.
    pair.import.set_active(pair.now, &mut pair.xids, true);
    pair.run();
    assert_eq!(pair.import.state(), ImportState::Full);
}

#[test]
fn a_first_connect_that_is_in_flight_is_not_sent_again() {
    let mut pair = Pair::with(ImportTunables::default(), &[1]);
    pair.server.grants.instance = 2;
    pair.import.connect(pair.now, &mut pair.xids);
    pair.collect();
    assert_eq!((pair.import.state(), pair.sent.len()), (ImportState::Connecting, 1));
    // The target is where the first attempt went to: a second one would be refused.
    assert!(!started(&mut pair, &[1], 2));
    assert_eq!(pair.sent.len(), 1);
    // It is somewhere else: no server answers the first attempt.
    assert!(started(&mut pair, &[9], 2));
    assert_eq!(pair.sent.last().map(|(send, _)| send.peer), Some(peer(9)));
    pair.answered = 1;
    pair.run();
    assert_eq!((pair.import.state(), pair.import.peer()), (ImportState::Full, peer(9)));
}

/// Programs that make files wait for their closes: these do not wait behind all other changes.
#[test]
fn a_close_gets_a_slot_before_changes_that_wait() {
    let mut pair = Pair::connected();
    for user in 0..5 {
        pair.submit(user, true);
    }
    assert_eq!(pair.sent.len(), 2);
    for user in 10..12 {
        let args = RequestArgs {
            portal: portal::MDS,
            message: bare(&PtlrpcBody::request(Opcode::MDS_CLOSE)),
            reply_len: 512,
            slot: SlotKind::Close,
            user,
            ..RequestArgs::default()
        };
        pair.import.submit(pair.now, &mut pair.xids, args);
        pair.collect();
    }
    // The slot that is kept for a close, and then the first one that becomes free.
    assert_eq!(pair.sent.len(), 3);
    pair.answer_next(true);
    let opcodes: Vec<Opcode> = (2..4).map(|index| pair.body(index).opcode).collect();
    assert_eq!(opcodes, [Opcode::MDS_CLOSE, Opcode::MDS_CLOSE]);
    pair.run();
    assert_eq!(pair.done.len(), 7);
}

/// A server that loses power forgets that it has committed nothing of a DISCONNECT yet, and waits
/// for the client.
#[test]
fn a_target_that_restarts_soon_after_a_disconnect_gets_its_idle_client_back() {
    for (pause, connects) in [(5, true), (60, false)] {
        let mut pair = connected(&[1]);
        pair.pass(Nanos::from_secs(21));
        pair.run();
        assert_eq!(pair.import.state(), ImportState::Idle);
        pair.pass(Nanos::from_secs(pause));
        (pair.server.recovering, pair.server.knows) = (true, true);
        pair.server.grants.instance = 3;
        assert_eq!(started(&mut pair, &[1], 3), connects);
        pair.run();
        let state = if connects { ImportState::Full } else { ImportState::Idle };
        assert_eq!((pair.import.state(), pair.server.recovering), (state, !connects));
    }
}

/// As one that was restored while nothing used it.
#[test]
fn a_target_may_begin_with_lower_transactions_after_an_idle_time() {
    let mut pair = connected(&[1]);
    pair.server.next_transno = 1000;
    pair.submit(1, true);
    pair.run();
    pair.server.committed = 1000;
    pair.pass(Nanos::from_secs(6));
    pair.run();
    pair.pass(Nanos::from_secs(21));
    pair.run();
    assert_eq!(pair.import.state(), ImportState::Idle);
    (pair.server.next_transno, pair.server.committed) = (5, 0);
    pair.submit(2, true);
    pair.run();
    assert_eq!(pair.import.view().kept, 1, "it is not committed");
}
