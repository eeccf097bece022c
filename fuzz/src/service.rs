//! Arbitrary requests to the selftest service of a whole node, over valid connections, with a
//! client that answers transfers correctly, wrongly, late or not at all.

use arbitrary::Arbitrary;
use lustrine_lnet::time::Nanos;
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::hello::ConnType;
use lustrine_wire::nid::ProcessId;
use lustrine_wire::srpc::Service;

use crate::rogue::{Rogue, Setup};
use crate::speech::{NODE, ROGUE, Selftest};

/// Largest number of steps of one run.
const STEPS_MAX: usize = 64;

/// A step of the client.
#[derive(Arbitrary, Clone, Debug)]
pub enum Step {
    /// A request to the service that its type belongs to.
    Request(Selftest),
    /// A request with any 160 bytes, or with another length.
    Bytes {
        /// The service.
        service: u8,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Answers a transfer, or acknowledges one.
    Answer {
        /// Its index.
        which: u8,
        /// The limit of its bytes.
        len: u32,
    },
    /// The connection of one type ends; the next one is opened.
    Reconnect {
        /// Its index.
        line: u8,
        /// Whether it is closed, or reset.
        orderly: bool,
        /// Type of the new connection.
        kind: u8,
    },
    /// 2^n microseconds pass.
    Wait {
        /// n.
        power: u8,
    },
}

/// A run of the client.
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
    for (port, kind) in [(1023, 1), (1022, 2), (1021, 3)] {
        rogue.connect(port, kind_of(kind));
    }
    let mut port = 1020;
    for step in scenario.steps.iter().take(STEPS_MAX) {
        match step {
            Step::Request(message) => {
                let number = u32::from(message.kind % 20);
                let service =
                    Service::ALL.into_iter().find(|s| s.request().number() == number & !1);
                request(&mut rogue, service.unwrap_or(Service::Debug), &message.bytes());
            }
            Step::Bytes { service, bytes } => {
                let service = Service::ALL[usize::from(*service) % Service::ALL.len()];
                request(&mut rogue, service, &bytes[..bytes.len().min(512)]);
            }
            Step::Answer { which, len } => rogue.answer(*which, *len),
            Step::Reconnect { line, orderly, kind } => {
                rogue.hang_up(*line, *orderly);
                rogue.connect(port, kind_of(*kind));
                port = if port == 512 { 1023 } else { port - 1 };
            }
            Step::Wait { power } => rogue.pass(Nanos(1000 << (power % 28))),
        }
        rogue.pass(Nanos(200_000));
    }
    rogue.leave();
}

fn kind_of(number: u8) -> ConnType {
    ConnType::from_number(u32::from(number % 4)).unwrap_or(ConnType::None)
}

fn request(rogue: &mut Rogue, service: Service, payload: &[u8]) {
    let header = Header {
        dst: ProcessId::lustre(NODE),
        src: ProcessId::lustre(ROGUE),
        payload_len: payload.len() as u32,
        body: Body::Put {
            ack_md: MdHandle::NONE,
            match_bits: u64::from(service.id()),
            hdr_data: 0,
            portal: service.portal(),
            offset: 0,
        },
    };
    rogue.send(0, &header, payload);
}
