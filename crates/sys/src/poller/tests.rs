use std::time::Instant;

use super::*;
use crate::testing::{pair, receive, send, wait_for};
use crate::waker::Sleeper;

fn poll(poller: &mut Poller) -> Vec<Ready> {
    let mut ready = Vec::new();
    poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
    ready
}

#[test]
fn a_stream_is_reported_once_per_change() {
    let (a, b) = pair();
    let mut poller = Poller::new(8).unwrap();
    poller.add(&b, u64::MAX, Interest::Stream).unwrap();
    let first = wait_for(&mut poller, u64::MAX, |r| r.writable);
    assert!(!first.readable && !first.hangup && !first.error);
    assert_eq!(poll(&mut poller), []);
    send(&a, b"x");
    wait_for(&mut poller, u64::MAX, |r| r.readable);
    assert_eq!(poll(&mut poller), [], "although the byte was not read");
    receive(&b, 1);
    drop(a);
    wait_for(&mut poller, u64::MAX, |r| r.hangup);
}

#[test]
fn at_most_a_batch_is_reported_at_once_and_the_rest_next_time() {
    let sleepers: Vec<_> = (0..5).map(|_| Sleeper::new().unwrap()).collect();
    let mut poller = Poller::new(2).unwrap();
    for (sleeper, token) in sleepers.iter().zip(0..) {
        poller.add(sleeper, token, Interest::WakeUp).unwrap();
        sleeper.waker().wake();
    }
    let mut tokens = Vec::new();
    for expected in [2, 2, 1, 0] {
        let ready = poll(&mut poller);
        assert_eq!(ready.len(), expected);
        tokens.extend(ready.iter().map(|r| r.token));
    }
    tokens.sort_unstable();
    assert_eq!(tokens, [0, 1, 2, 3, 4]);
}

#[test]
fn a_removed_or_closed_descriptor_is_not_reported() {
    let (removed, closed) = (Sleeper::new().unwrap(), Sleeper::new().unwrap());
    let mut poller = Poller::new(8).unwrap();
    poller.add(&removed, 0, Interest::WakeUp).unwrap();
    poller.add(&closed, 1, Interest::WakeUp).unwrap();
    assert!(poller.add(&closed, 2, Interest::WakeUp).is_err(), "only once");
    removed.waker().wake();
    closed.waker().wake();
    poller.remove(&removed).unwrap();
    drop(closed);
    assert_eq!(poll(&mut poller), []);
    assert!(poller.remove(&removed).is_err());
}

#[test]
fn a_timeout_is_never_cut_short() {
    let mut poller = Poller::new(1).unwrap();
    let mut ready = Vec::new();
    for nanos in [1, 70_000, 1_000_000, 1_300_000] {
        for precise in [true, false] {
            poller.precise &= precise;
            let timeout = Duration::from_nanos(nanos);
            let start = Instant::now();
            poller.wait(Some(timeout), &mut ready).unwrap();
            assert!(start.elapsed() >= timeout, "{:?} for {timeout:?}", start.elapsed());
            assert_eq!(ready, []);
        }
        poller.precise = true;
    }
}

#[test]
fn a_timeout_beyond_the_range_of_the_clocks_is_accepted() {
    let sleeper = Sleeper::new().unwrap();
    let mut poller = Poller::new(1).unwrap();
    poller.add(&sleeper, 3, Interest::WakeUp).unwrap();
    for (timeout, precise) in
        [(Some(Duration::MAX), true), (Some(Duration::MAX), false), (None, true)]
    {
        poller.precise = precise;
        sleeper.arm();
        sleeper.waker().wake();
        let mut ready = Vec::new();
        poller.wait(timeout, &mut ready).unwrap();
        assert_eq!(ready.len(), 1);
    }
}
