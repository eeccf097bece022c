use super::{PushError, mailbox};
use crate::poller::{Interest, Poller};
use crate::testing::wait_for;
use crate::waker::Sleeper;

#[test]
fn a_full_mailbox_returns_the_value() {
    let (sender, mailbox) = mailbox(2, Sleeper::new().unwrap().waker());
    assert_eq!(sender.push("a"), Ok(()));
    assert_eq!(sender.clone().push("b"), Ok(()));
    assert_eq!(sender.push("c"), Err(PushError::Full("c")));
    let mut found = Vec::new();
    mailbox.drain(|value| found.push(value));
    assert_eq!(found, ["a", "b"]);
    assert!(mailbox.is_empty());
    assert_eq!(sender.push("d"), Ok(()));
    assert!(!mailbox.is_empty());
}

#[test]
fn a_mailbox_without_a_reader_keeps_nothing() {
    use std::sync::Arc;
    let (sender, mailbox) = mailbox(2, Sleeper::new().unwrap().waker());
    let value = Arc::new(());
    sender.push(Arc::clone(&value)).unwrap();
    sender.push(Arc::clone(&value)).unwrap();
    drop(mailbox);
    assert_eq!(Arc::strong_count(&value), 1);
    // Closed takes precedence over full: a sender that waits for room must not wait for ever.
    assert_eq!(sender.push(Arc::clone(&value)), Err(PushError::Closed(Arc::clone(&value))));
}

#[test]
fn draining_ends_although_the_mailbox_is_filled_meanwhile() {
    let (sender, mailbox) = mailbox(4, Sleeper::new().unwrap().waker());
    sender.push(0).unwrap();
    let mut taken = 0;
    mailbox.drain(|value| {
        taken += 1;
        sender.push(value + 1).unwrap();
    });
    assert_eq!(taken, 4);
}

#[test]
fn values_of_several_threads_arrive_in_each_senders_order() {
    const VALUES: u32 = 20_000;
    let sleeper = Sleeper::new().unwrap();
    let mut poller = Poller::new(1).unwrap();
    poller.add(&sleeper, 0, Interest::WakeUp).unwrap();
    let (sender, mailbox) = mailbox(64, sleeper.waker());
    let threads: Vec<_> = (0..2usize)
        .map(|me| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for value in 0..VALUES {
                    while sender.push((me, value)).is_err() {
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let mut next = [0; 2];
    while next != [VALUES; 2] {
        sleeper.arm();
        if mailbox.is_empty() {
            wait_for(&mut poller, 0, |_| true);
        }
        sleeper.disarm();
        mailbox.drain(|(sender, value)| {
            assert_eq!(value, next[sender]);
            next[sender] += 1;
        });
    }
    threads.into_iter().for_each(|t| t.join().unwrap());
}
