//! How much may be in flight to a peer: delay-based congestion control of RPCs.
//!
//! A [`Controller`] watches when RPCs to one peer are sent and end, and computes a window: the
//! bytes that may be in flight. It is a pure function of what it was given: no clock, no I/O, the
//! same observations give the same windows.
//!
//! ```
//! use core::time::Duration;
//! use lustrine_congestion::{Class, Controller, Limits};
//!
//! let mut controller = Controller::new(Limits::default());
//! let read = Class::new(0, 1 << 20);
//! let ticket = controller.admit(Duration::ZERO, read).expect("nothing is in flight");
//! controller.done(Duration::from_millis(50), ticket);
//! assert!(controller.window() >= Limits::default().min);
//! ```
//!
//! # The law
//!
//! The least that keeps a path busy is what is in flight when nothing queues: rate x base, where
//! base is the latency of an RPC that finds no queue (Little's law). Somewhat more, `a`, has to be
//! there, for without a queue it is unknown whether the path could carry more. Once per round (the
//! time until an RPC of this round ends, and half of the bytes that were in flight at its beginning
//! have ended: small RPCs are faster than large ones) the window `w` becomes
//!
//! ```text
//! w := w/2 + (w x (base + t)/latency + a)/2,     a = sqrt(w x m)
//! t = min(base/4, 5 ms) + min((base - 50 ms)/6, 9 ms), the latter if base is above 50 ms
//! ```
//!
//! with `m` the bytes of an RPC, `latency` that which a quarter of the round's RPCs did not exceed,
//! and `base` the same of RPCs of these kinds when less was in flight than the path holds; `t` is
//! tolerated. `w / latency` is the rate, so the law is at rest where `rate x (base + t) + a` is
//! in flight: what the path holds, and the rest in the queue. The first part is FAST TCP's (Wei,
//! Jin, Low and Hegde, "FAST TCP: Motivation, Architecture, Algorithms, Performance", 2006).
//!
//! The lower quartile and `t` are there for hosts that are busy: their RPCs take longer, and not
//! all of them equally, for reasons that are no queue of the path. With the mean and without `t`,
//! reads over 10 Gb/s and 10 ms between two nodes that shared two CPUs with the link itself kept to
//! half of the rate (`cargo xtask bench auto`). Long paths tolerate more, up to 14 ms, as RPCs took
//! 10 to 15 ms more there before the path was full. With RPCs of 1 MiB over 10 Gb/s and bases from
//! 50 ms, `t` and `a` together are at most a quarter of the base.
//!
//! - **Startup**: the window doubles each round, but not beyond three times what the path holds by
//!   the best rate, until the rate has not grown by a quarter in two rounds, or in one whose
//!   latency was half as long again as at first. In the first such round, and while such a latency
//!   comes together with a rate that grows, the window stays: then a TCP has still to find the
//!   rate, and needs data to do so.
//! - **Probe** of the base: at the end of startup, and then at all multiples of ten seconds
//!   (twenty, forty, if a hundred rounds take longer), the window goes down to a half of what
//!   the path holds as far as is known, for two rounds and 0.3 s at least, and to a half of
//!   that while the latency goes on falling. The latency of RPCs that were sent with so little
//!   in flight is the new base: at the end of startup, in which TCP may have lost packets, 1.25
//!   times the one before at most. TCP keeps what it has learnt of the path: with less in flight
//!   it begins again, which takes seconds over long ways.
//! - **Steady**: the law above. A round that ends with an RPC when less was in flight leaves the
//!   window as it is.
//!
//! All nodes probe at the same instants, as far as their clocks agree, so that the queues that they
//! make together are gone. With clocks within 0.1 s of each other the shares of up to 16 nodes are
//! equal (Jain's index 0.98 and more), within 0.3 s nearly so (0.9). Nodes without a common clock
//! take the queues of others for a part of the path: the shares of 8 have an index of 0.8 over
//! 10 Gb/s and 50 ms, and six times as much is in flight as the path holds.
//!
//! # Why RPCs are spread over the round
//!
//! Replies are small, and wait in the queue behind the data of RPCs that were sent later. RPCs that
//! are sent together therefore end together, at the end of their burst, and the next ones are sent
//! together again: the path is busy for a half of the time, and the latency of each RPC is that of
//! the burst, which looks like a queue. Reads over 1 Gb/s and 50 ms stayed at 57 to 75 % of the
//! rate like this (`cargo xtask bench auto`). So no more than 1.1 times `window / latency` is sent
//! per second (2 times in startup), except for two RPCs, for what fits into a millisecond, and for
//! an eighth of a latency in which the host was late: [`Controller::admit`] says when to ask again.
//! FAST TCP has the same under the name of burstiness control. Only time in which the window had
//! room counts as late. Where a gap in which it had none was made up for by a burst, the gap came
//! back with the answers: writes, which pass the queue twice, carried 84 % over 10 Gb/s and 100 ms
//! in a model without any other delay.
//!
//! # Why it cannot starve
//!
//! The window is never below [`Limits::min`], two RPCs at least, nor, except in probes, below what
//! the path carries in 10 ms, up to [`Limits::brief`]. Queues that others leave during a
//! probe are in the base: it takes the delay that they make for a part of the path, and does not
//! give way to it for longer than until the next probe. If the rate falls below an eighth while
//! the window holds RPCs back, it probes at once, but not twice before the next common probe: a
//! longer route costs some rounds and not the rest of the interval, and nodes that probe alone do
//! not drive each other up. The eighth is one of the best rate of rounds at rest that began four
//! rounds and 0.3 s after a probe, or later: a node that had more than its share gives it back
//! then, and would take that for another route. A route that becomes longer before is found with
//! the next probe.
//!
//! # Why it cannot oscillate
//!
//! Half of the step is the old window, so the next window is never below half of it. Near its rest
//! `w*` the law is
//!
//! ```text
//! w - w* := (1/2 + (base + t)/2 x d(rate)/dw + (da/dw)/2) (w - w*)
//! ```
//!
//! where d(rate)/dw is 0 if the path is full and this controller is alone, and at most rate/w with
//! others, and da/dw = a/2w. At rest (base + t) x rate/w = 1 - a/w, so the factor is between 1/2
//! and 1 - a/4w: positive and below 1. The window approaches its rest from one side. `t` depends on
//! the base alone, which stays from one probe to the next.
//!
//! # Why it is fair
//!
//! At rest, rate x (queueing delay - t) = a = sqrt(rate x latency x m). The delay of a shared queue
//! is the same for all, so rates are equal for equal bases and m. With a constant share of the
//! window instead of its root, any division would stay as it is. For the same reason `t` is
//! neither what `a` leaves of a quarter of the base, nor larger while a larger window raises the
//! rate: nodes with more would tolerate more.
//!
//! Longer bases tolerate more, so nodes far away get more than those nearby; 14 ms are the most. In
//! the tests a node at 0.1 ms has a sixth of 10 Gb/s beside one at 400 ms, and nearly a half beside
//! one at 100 ms.
//!
//! # What it costs
//!
//! A probe takes a half of the path for two to three rounds: of 12 s with one probe in them,
//! scenarios/auto.yaml carried 91 to 99 % at all rates up to 10 Gb/s and round trips up to 200 ms.
//! Controllers that share a path for the first time need up to four probes until their shares are
//! equal. If the path holds less than an RPC, four or five are in flight for each controller
//! nevertheless: two are the minimum, and `a` is as much again. The queue is `rate x t + a`: of
//! what the path holds that is a half over 10 Gb/s and 20 ms, a quarter over 10 Gb/s and 50 to
//! 100 ms, and more than all of it where the path holds less than three RPCs.
//!
//! `tests/path.rs` sweeps rates, round trips, noise, losses, changes of each, clocks and
//! neighbours, and asserts most of this with some slack. The indices, how much nodes without a
//! common clock have in flight, and what a probe costs are what was measured there before RPCs were
//! spread over the round.
#![forbid(unsafe_code)]

mod class;
mod controller;
mod round;

pub use class::{Class, OVERHEAD};
pub use controller::{Controller, Limits, Phase, Ticket, View, Wait};
