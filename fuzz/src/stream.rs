//! A rogue peer's streams into a whole node: `lustrine-socklnd`, and what is above it.

use arbitrary::Arbitrary;
use lustrine_lnet::time::Nanos;
use lustrine_wire::hello::ConnType;

use crate::rogue::{Rogue, Setup};
use crate::speech::Speech;

/// Most steps of one run.
const STEPS_MAX: usize = 64;

/// Something the rogue, or the node's user, does.
#[derive(Arbitrary, Clone, Debug)]
pub enum Step {
    /// Opens a stream from this source port.
    Dial {
        /// Up to 1023: the node believes what is said.
        port: u16,
    },
    /// Opens a stream and introduces itself properly.
    Connect {
        /// Source port.
        port: u16,
        /// Connection type.
        kind: u8,
    },
    /// Says something.
    Say {
        /// On which stream.
        line: u8,
        /// What.
        speech: Speech,
        /// Only so many bytes of it.
        cut: Option<u8>,
    },
    /// Answers a message of the node as it should be answered.
    Answer {
        /// Which.
        which: u8,
        /// With at most so many bytes.
        len: u32,
    },
    /// Ends a stream.
    HangUp {
        /// Which.
        line: u8,
        /// Closed, not broken.
        orderly: bool,
    },
    /// Closes its half of a stream.
    Finish {
        /// Which.
        line: u8,
    },
    /// The node's user wants to know who this is.
    BePinged,
    /// The node's user wants to know more.
    BeDiscovered,
    /// 2^n microseconds pass.
    Wait {
        /// n.
        power: u8,
    },
}

/// A rogue's visit.
#[derive(Arbitrary, Debug)]
pub struct Scenario {
    /// The node, and the way to it.
    pub setup: Setup,
    /// What happens; only the first 64 steps count.
    pub steps: Vec<Step>,
}

/// Plays the visit to its end.
///
/// # Panics
/// When the node panics, holds more memory than it may, or does not become what it was before.
pub fn check(scenario: &Scenario) {
    let mut rogue = Rogue::new(&scenario.setup);
    for step in scenario.steps.iter().take(STEPS_MAX) {
        match step {
            Step::Dial { port } => rogue.dial(*port),
            Step::Connect { port, kind } => {
                let kind = ConnType::from_number(u32::from(*kind % 4)).unwrap_or(ConnType::None);
                rogue.connect(*port, kind);
            }
            Step::Say { line, speech, cut } => rogue.say(*line, speech, *cut),
            Step::Answer { which, len } => rogue.answer(*which, *len),
            Step::HangUp { line, orderly } => rogue.hang_up(*line, *orderly),
            Step::Finish { line } => rogue.finish(*line),
            Step::BePinged => rogue.be_pinged(),
            Step::BeDiscovered => rogue.be_discovered(),
            Step::Wait { power } => rogue.pass(Nanos(1000 << (power % 28))),
        }
        rogue.pass(Nanos(200_000));
    }
    rogue.leave();
}
