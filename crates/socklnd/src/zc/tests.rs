use slotmap::SlotMap;

use super::*;

/// `count` messages with cookies from 2 on, all written.
fn sent(count: usize) -> (ZeroCopy, Vec<OpKey>) {
    let mut keys: SlotMap<OpKey, ()> = SlotMap::with_key();
    let ops: Vec<OpKey> = (0..count).map(|_| keys.insert(())).collect();
    let mut cookies = ZeroCopy::new();
    for (index, op) in ops.iter().enumerate() {
        let cookie = cookies.issue(*op);
        assert_eq!(cookie, 2 + index as u64);
        assert_eq!(cookies.written(cookie, 0, Time(10)), None);
    }
    (cookies, ops)
}

fn acknowledge(cookies: &mut ZeroCopy, ack: ZcAck) -> Result<Vec<OpKey>, ProtocolViolation> {
    let mut finished = Vec::new();
    cookies.acknowledge(ack, &mut finished).map(|()| finished)
}

/// [FRM-11]
#[test]
fn single_pair_and_range() {
    let (mut cookies, ops) = sent(8);
    assert_eq!(acknowledge(&mut cookies, ZcAck::One(3)), Ok(vec![ops[1]]));
    assert_eq!(acknowledge(&mut cookies, ZcAck::Pair(5, 2)), Ok(vec![ops[3], ops[0]]));
    assert_eq!(acknowledge(&mut cookies, ZcAck::Range(6, 8)), Ok(ops[4..7].to_vec()));
    assert_eq!(cookies.len(), 2);
    assert_eq!(cookies.abandoned().collect::<Vec<_>>(), [ops[2], ops[7]]);
}

/// [FRM-12]
#[test]
fn every_cookie_named_must_be_pending() {
    for wrong in [
        ZcAck::One(0x5555),
        ZcAck::One(1),
        ZcAck::Pair(3, 1),
        ZcAck::Pair(6, 5),
        ZcAck::Range(2, 6),
        ZcAck::Range(2, u64::MAX),
        ZcAck::Range(0, u64::MAX),
    ] {
        let (mut cookies, _) = sent(4);
        let result = acknowledge(&mut cookies, wrong);
        assert_eq!(result, Err(ProtocolViolation::UnknownCookie), "{wrong:?}");
    }
    let (mut cookies, _) = sent(4);
    acknowledge(&mut cookies, ZcAck::One(3)).unwrap();
    assert_eq!(acknowledge(&mut cookies, ZcAck::One(3)), Err(ProtocolViolation::UnknownCookie));
    assert_eq!(
        acknowledge(&mut cookies, ZcAck::Range(2, 4)),
        Err(ProtocolViolation::UnknownCookie)
    );
}

#[test]
fn finished_when_written_acknowledged_and_released_in_any_order() {
    let mut keys: SlotMap<OpKey, ()> = SlotMap::with_key();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let op = keys.insert(());
        let mut cookies = ZeroCopy::new();
        let cookie = cookies.issue(op);
        let mut in_system = 1;
        let mut finished = Vec::new();
        for (step, action) in order.into_iter().enumerate() {
            assert_eq!(finished, [], "before step {step} of {order:?}");
            match action {
                0 => finished.extend(cookies.written(cookie, in_system, Time(1))),
                1 => cookies.acknowledge(ZcAck::One(cookie), &mut finished).unwrap(),
                _ => {
                    in_system -= 1;
                    finished.extend(cookies.released(cookie));
                }
            }
        }
        assert_eq!(finished, [op], "{order:?}");
        assert_eq!(cookies.len(), 0);
    }
}

#[test]
fn an_acknowledged_cookie_that_still_leaves_is_not_pending_twice() {
    let mut keys: SlotMap<OpKey, ()> = SlotMap::with_key();
    let op = keys.insert(());
    let mut cookies = ZeroCopy::new();
    let cookie = cookies.issue(op);
    assert_eq!(acknowledge(&mut cookies, ZcAck::One(cookie)), Ok(vec![]));
    assert_eq!(
        acknowledge(&mut cookies, ZcAck::One(cookie)),
        Err(ProtocolViolation::UnknownCookie)
    );
    assert_eq!(cookies.written(cookie, 0, Time(1)), Some(op));
}

#[test]
fn overdue_counts_from_the_last_byte_written() {
    let mut keys: SlotMap<OpKey, ()> = SlotMap::with_key();
    let mut cookies = ZeroCopy::new();
    let cookie = cookies.issue(keys.insert(()));
    assert!(!cookies.overdue(Time(1_000_000)));
    cookies.written(cookie, 0, Time(500));
    assert!(!cookies.overdue(Time(500)));
    assert!(cookies.overdue(Time(501)));
    cookies.acknowledge(ZcAck::One(cookie), &mut Vec::new()).unwrap();
    assert!(!cookies.overdue(Time(501)));
}

#[test]
fn a_withdrawn_cookie_is_issued_again() {
    let mut keys: SlotMap<OpKey, ()> = SlotMap::with_key();
    let mut cookies = ZeroCopy::new();
    let first = cookies.issue(keys.insert(()));
    cookies.withdraw(first);
    assert_eq!((cookies.len(), cookies.issue(keys.insert(()))), (0, first));
}
