use lustrine_sys::{Mailbox, Sleeper, mailbox};

use super::{Outbox, WAITING_MAX};

fn outbox(capacity: usize) -> (Outbox<usize>, Mailbox<usize>) {
    let (sender, mailbox) = mailbox(capacity, Sleeper::new().unwrap().waker());
    (Outbox::new(vec![sender]), mailbox)
}

fn drain(mailbox: &Mailbox<usize>) -> Vec<usize> {
    let mut found = Vec::new();
    mailbox.drain(|value| found.push(value));
    found
}

#[test]
fn values_for_a_full_mailbox_arrive_later_and_in_order() {
    let (mut outbox, mailbox) = outbox(2);
    (0..5).for_each(|value| outbox.send(0, value));
    assert_eq!(drain(&mailbox), [0, 1]);
    assert!(!outbox.is_empty());
    outbox.send(0, 5);
    assert_eq!(drain(&mailbox), [2, 3]);
    outbox.deliver();
    assert_eq!(drain(&mailbox), [4, 5]);
    assert!(outbox.is_empty());
    assert_eq!(outbox.overflowed, 0);
}

#[test]
fn a_loop_that_never_reads_costs_bounded_memory() {
    let (mut outbox, _mailbox) = outbox(1);
    (0..1 + WAITING_MAX + 7).for_each(|value| outbox.send(0, value));
    assert_eq!(outbox.waiting[0].len(), WAITING_MAX);
    assert_eq!(outbox.overflowed, 7);
}

#[test]
fn nothing_waits_for_a_loop_that_has_ended() {
    let (mut outbox, mailbox) = outbox(1);
    (0..3).for_each(|value| outbox.send(0, value));
    drop(mailbox);
    outbox.deliver();
    assert!(outbox.is_empty());
}
