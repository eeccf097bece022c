use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::*;
use crate::poller::{Interest, Poller};
use crate::testing::wait_for;

fn rings(poller: &mut Poller) -> usize {
    let mut ready = Vec::new();
    poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
    ready.len()
}

/// Value of the event counter: how often it was written to.
fn writes(sleeper: &Sleeper) -> u64 {
    let mut bytes = [0; 8];
    match rustix::io::read(&sleeper.bell.event, &mut bytes) {
        Ok(_) => u64::from_ne_bytes(bytes),
        Err(_) => 0,
    }
}

#[test]
fn many_wake_ups_of_one_sleep_cost_one_write() {
    let sleeper = Sleeper::new().unwrap();
    let waker = sleeper.waker();
    (0..10).for_each(|_| waker.wake());
    (0..10).for_each(|_| waker.clone().wake());
    assert_eq!(writes(&sleeper), 1);
    waker.wake();
    assert_eq!(writes(&sleeper), 0, "still awake");
    sleeper.arm();
    waker.wake();
    assert_eq!(writes(&sleeper), 1);
    sleeper.arm();
    sleeper.disarm();
    waker.wake();
    assert_eq!(writes(&sleeper), 0);
}

#[test]
fn each_sleep_can_be_ended_although_the_counter_is_never_read() {
    let sleeper = Sleeper::new().unwrap();
    let mut poller = Poller::new(1).unwrap();
    poller.add(&sleeper, 0, Interest::WakeUp).unwrap();
    for _ in 0..100 {
        sleeper.arm();
        assert_eq!(rings(&mut poller), 0);
        sleeper.waker().wake();
        assert_eq!(rings(&mut poller), 1);
    }
}

/// The property of the four steps: a value that was added before a wake ends the sleep.
#[test]
fn no_wake_up_is_lost() {
    const VALUES: u64 = 20_000;
    let sleeper = Sleeper::new().unwrap();
    let mut poller = Poller::new(1).unwrap();
    poller.add(&sleeper, 0, Interest::WakeUp).unwrap();
    let counter = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (waker, counter) = (sleeper.waker(), Arc::clone(&counter));
            std::thread::spawn(move || {
                for _ in 0..VALUES {
                    counter.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                }
            })
        })
        .collect();
    let mut seen = 0;
    while seen < 2 * VALUES {
        sleeper.arm();
        if counter.load(Ordering::Relaxed) == seen {
            wait_for(&mut poller, 0, |_| true); // panics if it is not woken
        }
        sleeper.disarm();
        seen = counter.load(Ordering::Relaxed);
    }
    threads.into_iter().for_each(|t| t.join().unwrap());
}
