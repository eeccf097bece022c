//! RPCs that are given up, in a window that is full.

use core::time::Duration;
use std::collections::VecDeque;

use lustrine_congestion::{Class, Controller, Limits, Wait};

const MIB: u64 = 1 << 20;
const RTT: Duration = Duration::from_millis(50);

/// How many RPCs may be sent at once when some have ended after the window was full for most of a
/// round trip.
fn admitted(end: impl Fn(&mut Controller, Duration, lustrine_congestion::Ticket)) -> usize {
    let limits = Limits { min: MIB, brief: 0, initial: 8 * MIB, max: 64 * MIB };
    let (mut controller, class) = (Controller::new(limits), Class::new(0, MIB));
    let mut in_flight = VecDeque::new();
    let mut now = Duration::from_secs(1);
    // A path that has no limit: the window becomes as large as it may be.
    let until = now + 100 * RTT;
    while now < until {
        while let Ok(ticket) = controller.admit(now, class) {
            in_flight.push_back((now + RTT, ticket));
        }
        now += Duration::from_micros(100);
        while in_flight.front().is_some_and(|(due, _)| *due <= now) {
            let (_, ticket) = in_flight.pop_front().expect("there is one");
            controller.done(now, ticket);
        }
    }
    loop {
        match controller.admit(now, class) {
            Ok(ticket) => in_flight.push_back((now, ticket)),
            Err(Wait::For(pause)) => now += pause,
            Err(Wait::Full) => break,
        }
    }
    assert!(in_flight.len() > 40, "{}", in_flight.len());
    now += RTT * 4 / 5;
    for (_, ticket) in in_flight.drain(..20) {
        end(&mut controller, now, ticket);
    }
    (0..).take_while(|_| controller.admit(now, class).is_ok()).count()
}

/// A host that could send nothing, since the window was full, has nothing to make up for when RPCs
/// are given up, as when they are answered.
#[test]
fn they_cause_no_burst() {
    let answered = admitted(|controller, now, ticket| controller.done(now, ticket));
    let given_up = admitted(|controller, _, ticket| controller.abandoned(ticket));
    assert_eq!(given_up, answered);
    // The time of an answer that follows is known.
    let both = admitted(|controller, now, ticket| match controller.view().in_flight % (2 * MIB) {
        0 => controller.abandoned(ticket),
        _ => controller.done(now, ticket),
    });
    assert_eq!(both, answered);
}
