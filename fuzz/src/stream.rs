//! A rogue peer's streams into a whole node: `lustrine-socklnd`, and the layers above it.

use arbitrary::Arbitrary;
use lustrine_lnet::time::Nanos;
use lustrine_wire::hello::ConnType;

use crate::rogue::{Rogue, Setup};
use crate::speech::Speech;

/// Largest number of steps of one run.
const STEPS_MAX: usize = 64;

/// A step of the rogue, or of the node's user.
#[derive(Arbitrary, Clone, Debug)]
pub enum Step {
    /// Opens a stream from this source port.
    Dial {
        /// Up to 1023: the node accepts the NID in the HELLO.
        port: u16,
    },
    /// Opens a stream with a correct HELLO.
    Connect {
        /// Source port.
        port: u16,
        /// Connection type.
        kind: u8,
    },
    /// Sends a message.
    Say {
        /// The stream.
        line: u8,
        /// The message.
        speech: Speech,
        /// The number of its bytes that are sent.
        cut: Option<u8>,
    },
    /// Answers a message of the node correctly.
    Answer {
        /// Its index.
        which: u8,
        /// The limit of its bytes.
        len: u32,
    },
    /// Ends a stream.
    HangUp {
        /// Its index.
        line: u8,
        /// Whether it is closed, or reset.
        orderly: bool,
    },
    /// Closes its half of a stream.
    Finish {
        /// Its index.
        line: u8,
    },
    /// The node's user pings this NID.
    BePinged,
    /// The node's user discovers this NID.
    BeDiscovered,
    /// 2^n microseconds pass.
    Wait {
        /// n.
        power: u8,
    },
}

/// A run of the rogue.
#[derive(Arbitrary, Debug)]
pub struct Scenario {
    /// The node, and the connection to it.
    pub setup: Setup,
    /// The steps; only the first 64 are used.
    pub steps: Vec<Step>,
}

/// Runs all steps.
///
/// # Panics
/// When the node panics, uses more memory than it may, or does not return to its former state.
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
