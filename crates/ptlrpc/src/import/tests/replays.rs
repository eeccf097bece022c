//! What a server that has restarted gets again [IMP-10].

use super::*;

#[test]
fn changes_that_a_restarted_server_lost_are_replayed_in_order() {
    let mut pair = Pair::connected();
    for user in 1..=4 {
        pair.submit(user, true);
        pair.run();
        pair.forget();
    }
    pair.server.committed = 2;
    pair.server.crash();
    pair.submit(9, false);
    pair.run();
    assert_eq!(pair.replayed, [3, 4]);
    let flags: Vec<(BodyFlags, u64)> = (0..pair.sent.len())
        .map(|index| pair.body(index))
        .filter(|body| body.opcode == Opcode::MDS_REINT)
        .map(|body| (body.flags, body.transno))
        .collect();
    assert_eq!(flags, [(BodyFlags::REPLAY, 3), (BodyFlags::REPLAY, 4)]);
    assert_eq!(pair.server.changes.len(), 4);
    assert_eq!(pair.import.state(), ImportState::Full);
    assert_eq!(pair.done.last(), Some(&(9, Ok(0))), "it was sent again after the recovery");
    let states = &pair.states[pair.states.len() - 7..];
    use ImportState::{Connecting, Disconn, Full, Recover, Replay, ReplayLocks, ReplayWait};
    assert_eq!(states, [Disconn, Connecting, Replay, ReplayLocks, ReplayWait, Recover, Full]);
}

/// The answer to the connect after the second restart is lost: the server knows the client then.
#[test]
fn replays_begin_anew_with_each_restart() {
    let mut pair = Pair::connected();
    let _ = [pair.submit(1, true), pair.submit(2, true)];
    pair.run();
    pair.server.crash();
    pair.submit(9, false);
    (0..3).for_each(|_| pair.answer_next(true));
    pair.server.crash();
    pair.answer_next(true);
    assert_eq!(pair.body(pair.answered).opcode, Opcode::MDS_CONNECT);
    pair.answer_next(false);
    while pair.answered == pair.sent.len() {
        pair.pass(SECOND);
    }
    pair.run();
    assert_eq!(pair.replayed, [1, 1, 2]);
    assert_eq!((pair.server.changes.len(), pair.evictions.len()), (2, 0));
}

/// An open is replayed until it is closed, with what the server chose for it.
#[test]
fn a_replay_is_what_its_owner_makes_of_the_request_and_its_fields_are_those_of_the_connection() {
    let mut pair = Pair::connected();
    let keys = [1, 2, 3].map(|user| pair.submit(user, true));
    pair.run();
    let longer = |sent: &[u8]| {
        let (_, body) = Message::parse_request(sent).expect("what was sent");
        assert_eq!((body.opcode, body.transno), (Opcode::MDS_REINT, 0));
        let mut out = Vec::new();
        let mut message = MessageBuilder::new(&mut out, &Header::default(), 2);
        message.value(&body);
        message.bytes(b"chosen");
        message.finish();
        Some(out)
    };
    pair.import.set_replay(keys[0], Replay::new(longer));
    pair.import.set_replay(keys[1], Replay::new(|_| None));
    for restart in 0..2 {
        pair.forget();
        pair.server.crash();
        pair.submit(9 + restart, false);
        pair.run();
        let replays: Vec<(u64, usize, u64)> = (0..pair.sent.len())
            .map(|index| (pair.body(index), &pair.sent[index].1))
            .filter(|(body, _)| body.flags.contains(BodyFlags::REPLAY))
            .map(|(body, message)| {
                (body.transno, Message::parse(message).expect("a message").count(), body.handle.0)
            })
            .collect();
        let export = pair.server.export;
        assert_eq!(replays, [(1, 2, export), (2, 1, export), (3, 1, export)], "{restart}");
    }
}

/// The server may have executed the close: it then answers it from memory, and would not close what
/// a replay has opened once more.
#[test]
fn an_open_that_is_committed_is_not_replayed_once_its_close_was_sent() {
    for is_committed in [false, true] {
        let mut pair = Pair::connected();
        let open = RequestArgs { keep: Keep::UntilReleased, ..request(Opcode::MDS_REINT, 1) };
        let open = pair.import.submit(pair.now, &mut pair.xids, open);
        pair.run();
        pair.server.committed = u64::from(is_committed);
        pair.server.crash();
        pair.submit(8, false);
        pair.run();
        assert_eq!(core::mem::take(&mut pair.replayed), [1], "it is open");
        let close = RequestArgs { closes: Some(open), ..request(Opcode::MDS_CLOSE, 2) };
        pair.import.submit(pair.now, &mut pair.xids, close);
        pair.collect();
        pair.answer_next(false);
        pair.server.crash();
        pair.submit(9, false);
        pair.run();
        assert_eq!(pair.import.state(), ImportState::Full);
        let wanted: &[u64] = if is_committed { &[] } else { &[1] };
        assert_eq!(pair.replayed, wanted);
        // It is kept all the same, until its owner knows that it is closed.
        assert!(!pair.released.contains(&1));
        pair.import.release(open);
        pair.collect();
        assert_eq!(pair.released.contains(&1), is_committed);
    }
}

#[test]
fn a_malformed_reply_to_a_replay_begins_the_recovery_anew() {
    for is_too_long in [false, true] {
        let mut pair = Pair::connected();
        pair.submit(1, true);
        pair.run();
        pair.server.crash();
        pair.submit(9, false);
        pair.collect();
        for _ in 0..20 {
            while pair.answered < pair.sent.len() {
                if !pair.body(pair.answered).flags.contains(BodyFlags::REPLAY) {
                    pair.answer_next(true);
                    continue;
                }
                let (send, message) = pair.sent[pair.answered].clone();
                pair.answered += 1;
                match is_too_long {
                    true => {
                        let (bytes, sent) = (Vec::new(), 1 << 30);
                        let arrived = ReplyEvent { offset: 0, bytes, sent, bulk_moved: 0 };
                        pair.import.on_reply(pair.now, &mut pair.xids, send.key, arrived);
                    }
                    false => pair.reply(&send, &message, b"nonsense"),
                }
                pair.collect();
            }
            pair.pass(SECOND);
        }
        assert_eq!(pair.replayed, []);
        let opcodes = (0..pair.sent.len()).map(|index| pair.body(index).opcode);
        let connects = opcodes.filter(|opcode| *opcode == Opcode::MDS_CONNECT).count();
        assert!((3..=6).contains(&connects), "{connects} connects in 20 s");
        (0..60).for_each(|_| {
            pair.run();
            pair.pass(SECOND);
        });
        assert_eq!((pair.replayed.clone(), pair.import.state()), (vec![1], ImportState::Full));
        assert_eq!(pair.done.last(), Some(&(9, Ok(0))));
        // A later restart finds all that is kept.
        pair.server.crash();
        pair.submit(10, false);
        pair.run();
        assert_eq!(pair.replayed, [1, 1]);
    }
}

/// A server finds what it has done before by the slot, as in `fs/s47` and `fs-x/x25`.
#[test]
fn a_replay_has_the_slot_of_its_request() {
    let mut pair = Pair::connected();
    let _ = [pair.submit(1, true), pair.submit(2, true)];
    let bodies = |pair: &Pair| (0..pair.sent.len()).map(|index| pair.body(index)).collect();
    let sent: Vec<PtlrpcBody> = bodies(&pair);
    assert_eq!(sent.iter().map(|body| body.tag).collect::<Vec<_>>(), [1, 2]);
    pair.run();
    pair.forget();
    pair.server.crash();
    pair.submit(9, false);
    pair.run();
    let mut replays: Vec<PtlrpcBody> = bodies(&pair);
    replays.retain(|body| body.flags.contains(BodyFlags::REPLAY));
    assert_eq!(replays.iter().map(|body| body.tag).collect::<Vec<_>>(), [1, 2]);
    // The slots are free for others.
    let _ = [pair.submit(3, true), pair.submit(4, true)];
    pair.run();
    assert_eq!(pair.done[pair.done.len() - 2..], [(3, Ok(0)), (4, Ok(0))]);
}

/// A server that has no time, or no memory, to take a lock again is asked a few times.
#[test]
fn a_lock_that_a_server_does_not_take_again_begins_the_recovery_anew() {
    for status in [-115, -12] {
        for (refusals, seen) in [(1, 0), (3, 0), (4, status)] {
            let mut pair = Pair::connected();
            pair.has_lock = true;
            pair.server.enqueues = vec![status; refusals].into();
            pair.server.crash();
            pair.submit(9, false);
            for _ in 0..20 {
                pair.run();
                pair.pass(SECOND);
            }
            assert_eq!(pair.import.state(), ImportState::Full, "{status} {refusals}");
            let locks = pair.done.iter().filter(|(user, _)| *user == LOCK);
            let locks: Vec<_> = locks.map(|(_, result)| *result).collect();
            let canceled = vec![Err(RpcError::Canceled); refusals.min(3)];
            assert_eq!(locks, [canceled, vec![Ok(seen)]].concat());
            assert_eq!(pair.done.last(), Some(&(9, Ok(0))));
        }
    }
}
