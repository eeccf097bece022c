//! Arbitrary frames into the dissector: it never panics, no byte of a stream is reported twice or
//! invented, and its memory stays within its limits.

use arbitrary::Arbitrary;
use lustrine_capture::{Dissector, Frame, Item, Limits, LinkType};

use crate::speech::{Framing, Heard, Speech};

/// Largest number of frames of one capture.
const FRAMES_MAX: usize = 128;
/// Ports of a connection.
const PORTS: [u16; 4] = [988, 1021, 1022, 40000];

/// A frame of a capture.
#[derive(Arbitrary, Clone, Debug)]
pub enum Packet {
    /// Any bytes.
    Raw {
        /// The link type.
        link: u8,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A segment of a connection.
    Segment {
        /// The connection, out of a few, and the direction.
        from: u8,
        /// See `from`.
        to: u8,
        /// The distance from the present position of the stream.
        skip: i16,
        /// The flags of TCP.
        flags: u8,
        /// The distance of its acknowledgement from the position of the other stream.
        acked: i8,
        /// The payload.
        speech: Speech,
        /// The number of bytes that were captured.
        cut: Option<u8>,
    },
}

/// A capture.
#[derive(Arbitrary, Debug)]
pub struct Capture {
    /// Small limits, so that they are reached.
    pub tight: bool,
    /// The frames; only the first 128 are used.
    pub packets: Vec<Packet>,
}

/// A direction of a connection, as its sender sees it.
#[derive(Clone, Copy, Debug)]
struct Sender {
    next: u32,
    framing: Framing,
}

/// Dissects the capture.
///
/// # Panics
/// When the dissector panics or invents bytes.
pub fn check(capture: &Capture) {
    let limits = if capture.tight {
        Limits { connections: 2, held_per_direction: 300, held_total: 500 }
    } else {
        Limits::default()
    };
    let mut dissector = Dissector::new(limits);
    let usual = Sender { next: u32::MAX - 100, framing: Framing::USUAL };
    let mut senders = [[usual; PORTS.len()]; PORTS.len()];
    let (mut given, mut taken) = (0u64, 0u64);
    for (number, packet) in capture.packets.iter().take(FRAMES_MAX).enumerate() {
        let time_ns = number as u64 * 1000;
        match packet {
            Packet::Raw { link, bytes } => {
                given += bytes.len() as u64;
                let link = link_of(*link);
                dissector.frame(&Frame { time_ns, link, bytes });
            }
            Packet::Segment { from, to, skip, flags, acked, speech, cut } => {
                let (from, to) = (usize::from(*from) % 4, usize::from(*to) % 4);
                let ack = senders[to][from].next.wrapping_add_signed(i32::from(*acked));
                let sender = &mut senders[from][to];
                let mut payload = speech.bytes(&mut sender.framing, &Heard::default());
                if let Some(cut) = cut {
                    payload.truncate(usize::from(*cut));
                }
                given += payload.len() as u64;
                let seq = sender.next.wrapping_add_signed(i32::from(*skip));
                let syn = u32::from(*flags & 2 != 0);
                sender.next = seq.wrapping_add(payload.len() as u32).wrapping_add(syn);
                let bytes = segment(PORTS[from], PORTS[to], seq, ack, *flags, &payload);
                dissector.frame(&Frame { time_ns, link: LinkType::Raw, bytes: &bytes });
            }
        }
        taken += drain(&mut dissector);
        assert!(taken <= given, "{taken} bytes came out of {given}");
    }
    dissector.finish();
    taken += drain(&mut dissector);
    assert!(taken <= given, "{taken} bytes came out of {given}");
    assert_eq!(dissector.stats().frames, capture.packets.len().min(FRAMES_MAX) as u64);
}

fn link_of(number: u8) -> LinkType {
    let numbers = [1, 101, 0, 113, 276];
    LinkType::from_number(numbers[usize::from(number) % numbers.len()]).expect("a known one")
}

/// Takes all events, and returns the number of stream bytes in them.
fn drain(dissector: &mut Dissector) -> u64 {
    let mut bytes = 0;
    while let Some(event) = dissector.poll_event() {
        bytes += event.raw.len() as u64;
        if let Item::Message(message) = &event.item {
            assert!(message.payload_at() <= event.raw.len());
        }
    }
    bytes
}

/// An IPv4 packet with a TCP segment; hosts differ by port.
fn segment(from: u16, to: u16, seq: u32, ack: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x45, 0];
    out.extend_from_slice(&(40 + payload.len() as u16).to_be_bytes());
    out.extend_from_slice(&[0, 0, 0, 0, 64, 6, 0, 0]);
    out.extend_from_slice(&[10, 0, 0, from as u8]);
    out.extend_from_slice(&[10, 0, 0, to as u8]);
    out.extend_from_slice(&from.to_be_bytes());
    out.extend_from_slice(&to.to_be_bytes());
    out.extend_from_slice(&seq.to_be_bytes());
    out.extend_from_slice(&ack.to_be_bytes());
    out.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    out.extend_from_slice(payload);
    out
}
