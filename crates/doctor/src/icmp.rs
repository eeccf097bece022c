//! Messages of ICMP for IPv4: the questions that are sent, and what comes back.

use core::net::Ipv4Addr;

use etherparse::icmpv4::TimestampMessage;
use etherparse::{IcmpEchoHeader, Icmpv4Header, Icmpv4Slice, Icmpv4Type, Ipv4Slice};

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpQuestion {
    /// Send this back.
    Echo {
        /// Chosen by this process.
        id: u16,
        /// Chosen for each question.
        sequence: u16,
        /// Bytes of payload, which are 0.
        payload: usize,
    },
    /// What time is it there?
    Clock {
        /// Chosen by this process.
        id: u16,
        /// Chosen for each question.
        sequence: u16,
        /// Milliseconds since midnight UTC here.
        now_ms: u32,
    },
}

impl IcmpQuestion {
    /// The message, without an IP header.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, payload) = match *self {
            IcmpQuestion::Echo { id, sequence, payload } => {
                let header = IcmpEchoHeader { id, seq: sequence };
                (Icmpv4Type::EchoRequest(header), vec![0; payload])
            }
            IcmpQuestion::Clock { id, sequence: seq, now_ms } => {
                let message = TimestampMessage {
                    id,
                    seq,
                    originate_timestamp: now_ms,
                    receive_timestamp: 0,
                    transmit_timestamp: 0,
                };
                (Icmpv4Type::TimestampRequest(message), Vec::new())
            }
        };
        let mut bytes = Icmpv4Header::with_checksum(kind, &payload).to_bytes().to_vec();
        bytes.extend(payload);
        bytes
    }
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpMessage {
    /// An echo.
    Echo {
        /// Copied from the question.
        id: u16,
        /// Copied from the question.
        sequence: u16,
    },
    /// The time.
    Clock {
        /// Copied from the question.
        id: u16,
        /// Copied from the question.
        sequence: u16,
        /// Milliseconds since midnight UTC here, copied from the question.
        asked_ms: u32,
        /// The same there, when the question arrived.
        received_ms: u32,
        /// The same there, when this answer was sent.
        answered_ms: u32,
    },
    /// Anything else.
    Other,
}

/// A message that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpAnswer {
    /// The sender.
    pub from: Ipv4Addr,
    /// How many more routers it could have passed.
    pub ttl: u8,
    /// What it says.
    pub message: IcmpMessage,
}

impl IcmpAnswer {
    /// Reads a packet, with its IP header; `None` if it is malformed or not ICMP.
    pub fn parse(packet: &[u8]) -> Option<IcmpAnswer> {
        let ip = Ipv4Slice::from_slice(packet).ok()?;
        if ip.payload().fragmented {
            return None;
        }
        let icmp = Icmpv4Slice::from_slice(ip.payload().payload).ok()?;
        let message = match icmp.icmp_type() {
            Icmpv4Type::EchoReply(echo) => IcmpMessage::Echo { id: echo.id, sequence: echo.seq },
            Icmpv4Type::TimestampReply(time) => IcmpMessage::Clock {
                id: time.id,
                sequence: time.seq,
                asked_ms: time.originate_timestamp,
                received_ms: time.receive_timestamp,
                answered_ms: time.transmit_timestamp,
            },
            _ => IcmpMessage::Other,
        };
        Some(IcmpAnswer { from: ip.header().source_addr(), ttl: ip.header().ttl(), message })
    }
}

impl IcmpMessage {
    /// The peer's clock minus this host's in milliseconds, given the time of arrival in
    /// milliseconds since midnight UTC. A difference is between minus and plus half a day.
    pub fn clock_difference(&self, arrived_ms: u32) -> Option<i64> {
        /// The bit that says that the time is not in UTC.
        const NOT_STANDARD: u32 = 1 << 31;
        let IcmpMessage::Clock { asked_ms, received_ms, answered_ms, .. } = *self else {
            return None;
        };
        if (received_ms | answered_ms) & NOT_STANDARD != 0 {
            return None;
        }
        let there = wrapped(i64::from(received_ms) - i64::from(asked_ms));
        let back = wrapped(i64::from(answered_ms) - i64::from(arrived_ms));
        Some(there + wrapped(back - there) / 2)
    }
}

/// A difference of times of day.
fn wrapped(ms: i64) -> i64 {
    const DAY: i64 = 86_400_000;
    (ms + DAY / 2).rem_euclid(DAY) - DAY / 2
}

/// Hops of a packet that arrived with this TTL: systems begin with 64, 128 or 255.
pub fn hops_of_ttl(ttl: u8) -> u8 {
    let begun = [64, 128, 255].into_iter().find(|begun| *begun >= ttl).unwrap_or(255);
    begun - ttl + 1
}
