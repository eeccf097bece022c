//! Any sequence of calls, with clocks that may go back, keeps what the controller promises.

use std::time::Duration;

use lustrine_congestion::{Class, Controller, Limits, Ticket, Wait};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Admit(u8, u32),
    Done(usize),
    Failed(usize),
    Abandoned(usize),
    Wait(u32),
    Back(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<u8>(), 0..=1u32 << 24).prop_map(|(kind, len)| Step::Admit(kind, len)),
        6 => any::<usize>().prop_map(Step::Done),
        1 => any::<usize>().prop_map(Step::Failed),
        1 => any::<usize>().prop_map(Step::Abandoned),
        6 => (0..200_000_000u32).prop_map(Step::Wait),
        1 => any::<u32>().prop_map(Step::Back),
    ]
}

proptest! {
    #[test]
    fn the_window_stays_within_its_limits(
        steps in vec(step(), 0..400),
        min in 0..1u64 << 24,
        brief in 0..1u64 << 24,
        initial in 0..1u64 << 50,
        max in 0..1u64 << 50,
    ) {
        let limits = Limits { min, brief, initial, max };
        let mut controller = Controller::new(limits);
        let mut now = Duration::from_secs(1_700_000_000);
        let mut admitted: Vec<(Ticket, u64, Duration)> = Vec::new();
        let mut largest = 0;
        // The longest latency so far.
        let mut slowest = Duration::ZERO;
        for step in steps {
            match step {
                Step::Admit(kind, len) => {
                    let class = Class::new(kind, u64::from(len));
                    let in_flight: u64 = admitted.iter().map(|(_, weight, _)| weight).sum();
                    let window = controller.window();
                    largest = largest.max(class.weight());
                    match controller.admit(now, class) {
                        Ok(ticket) => {
                            prop_assert!(
                                admitted.len() < 2 || in_flight + class.weight() <= window
                            );
                            admitted.push((ticket, class.weight(), now));
                        }
                        Err(Wait::Full) => {
                            prop_assert!(admitted.len() >= 2);
                            prop_assert!(in_flight + class.weight() > window);
                        }
                        Err(Wait::For(wait)) => {
                            prop_assert!(admitted.len() >= 2);
                            prop_assert!(wait > Duration::ZERO, "it may be sent now");
                            prop_assert!(wait <= slowest + Duration::from_millis(2));
                            // At that time it may be sent.
                            let mut later = controller.clone();
                            prop_assert!(later.admit(now + wait, class).is_ok());
                        }
                    }
                }
                Step::Done(at) | Step::Failed(at) | Step::Abandoned(at) => {
                    if admitted.is_empty() {
                        continue;
                    }
                    let (ticket, _, sent) = admitted.swap_remove(at % admitted.len());
                    slowest = slowest.max(now.saturating_sub(sent));
                    match step {
                        Step::Done(_) => controller.done(now, ticket),
                        Step::Failed(_) => controller.failed(now, ticket),
                        _ => controller.abandoned(ticket),
                    }
                }
                Step::Wait(nanos) => now += Duration::from_nanos(u64::from(nanos)),
                Step::Back(nanos) => now -= Duration::from_nanos(u64::from(nanos)),
            }
            let in_flight: u64 = admitted.iter().map(|(_, weight, _)| weight).sum();
            let view = controller.view();
            prop_assert_eq!(view.in_flight, in_flight);
            prop_assert!(view.window >= min);
            prop_assert!(view.window <= max.max(min).max(2 * largest));
            prop_assert!(view.queueing <= 1000, "{:?}", view);
        }
    }
}

/// The same observations give the same windows.
#[test]
fn it_is_a_function_of_what_it_was_given() {
    let run = || {
        let mut controller = Controller::new(Limits::default());
        let mut windows = Vec::new();
        let mut in_flight = std::collections::VecDeque::new();
        for turn in 0..10_000u64 {
            let now = Duration::from_micros(turn * 700);
            while let Ok(ticket) = controller.admit(now, Class::new(1, 1 << 20)) {
                in_flight.push_back(ticket);
            }
            if let Some(ticket) = in_flight.pop_front() {
                controller.done(now, ticket);
            }
            windows.push(controller.window());
        }
        windows
    };
    assert_eq!(run(), run());
}
