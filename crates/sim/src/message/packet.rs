//! Packets between hosts.

use core::num::NonZeroU32;

use lustrine_lnet::lnd::OpKey;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::header::{Body, Header};
use lustrine_wire::nid::Nid;

use crate::fabric::Hops;
use crate::memory::Rope;
use crate::network::HostId;

/// Distinguishes connections of two drivers; a connection of a later run is a different one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LinkId(pub(super) u64);

/// A packet that is in flight.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) from: HostId,
    pub(super) to: HostId,
    pub(super) local: Nid,
    pub(super) remote: Nid,
    pub(super) link: LinkId,
    /// Bytes on the wire.
    pub(super) size: u64,
    pub(super) hops: Hops,
    /// The index of the next hop.
    pub(super) at: u8,
    /// The number of times it was lost.
    pub(super) losses: u8,
    pub(super) order: u64,
    /// When it was first sent.
    pub(super) sent: Time,
    /// When its last bit is at its present place.
    pub(super) tail: Time,
    /// The addition to its time of arrival.
    pub(super) lag: Nanos,
    pub(super) content: Content,
}

/// The kind of a packet.
#[derive(Debug)]
pub(super) enum Content {
    Message {
        header: Header,
        payload: Rope,
        /// Of a large payload.
        digest: u64,
        /// The sender's operation, if it waits until the payload was received.
        lent: Option<OpKey>,
    },
    /// A request for a connection.
    Dial { incarnation: u64 },
    /// The connection is accepted.
    Answer { incarnation: u64 },
    /// The connection is refused.
    Refused(Status),
    /// The other side closed the connection, or never had it.
    Closed,
    /// To the sender: this number of bytes arrived.
    Room(u64),
    /// To the sender: a payload is no longer needed.
    Released(OpKey),
    /// To the sender: a packet was lost repeatedly until the sender's time-out.
    Broken,
}

impl Packet {
    /// What a trace records of a message; `None` for other packets.
    pub(super) fn essence(&self) -> Option<u64> {
        let Content::Message { header, digest, .. } = &self.content else { return None };
        let named = match header.body {
            Body::Ack { match_bits, mlength, .. } => match_bits ^ u64::from(mlength) << 40,
            Body::Put { match_bits, portal, .. } => match_bits ^ u64::from(portal) << 56,
            Body::Get { match_bits, sink_len, .. } => match_bits ^ u64::from(sink_len) << 40,
            Body::Reply { md } => md.object,
            Body::Hello { incarnation, .. } => incarnation,
        };
        Some(named ^ digest.rotate_left(7) ^ u64::from(header.payload_len) << 32)
    }

    /// Whether it is on a stream for small messages, where no large one is in front of it.
    pub(super) fn is_small(&self) -> bool {
        match &self.content {
            Content::Message { header, .. } => is_small(header.payload_len),
            _ => true,
        }
    }
}

/// The longest payload that a driver copies, and that does not wait behind large ones.
const SMALL_MAX: u32 = 4096;

/// Whether a payload is copied when it is sent, and travels in parallel with large ones.
pub(super) fn is_small(payload_len: u32) -> bool {
    payload_len <= SMALL_MAX
}

/// The index of a packet among all that are in flight, plus one, so that no id is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PacketId(NonZeroU32);

impl PacketId {
    fn of(place: u32) -> PacketId {
        PacketId(NonZeroU32::MIN.saturating_add(place))
    }

    fn place(self) -> u32 {
        self.0.get() - 1
    }
}

/// What arrived at a host, in the order of arrival.
pub(super) type Arrived = Vec<Box<Packet>>;

/// All packets that are in flight.
#[derive(Debug, Default)]
pub(super) struct Packets {
    places: Vec<Option<Box<Packet>>>,
    free: Vec<u32>,
    /// Empty boxes, reused in last-in first-out order because those are still in the cache.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    boxes: Vec<Box<Packet>>,
}

/// Largest number of empty boxes that are kept.
const BOXES_MAX: usize = 1 << 12;

impl Packets {
    /// As [`Packets::add`] for a packet without a box.
    pub(super) fn add_new(&mut self, packet: Packet) -> PacketId {
        let packet = self.pack(packet);
        self.add(packet)
    }

    /// Puts a packet into a box.
    pub(super) fn pack(&mut self, packet: Packet) -> Box<Packet> {
        match self.boxes.pop() {
            Some(mut place) => {
                *place = packet;
                place
            }
            None => Box::new(packet),
        }
    }

    /// Frees a packet.
    pub(super) fn discard(&mut self, mut packet: Box<Packet>) {
        if self.boxes.len() < BOXES_MAX {
            packet.content = Content::Closed;
            self.boxes.push(packet);
        }
    }

    pub(super) fn add(&mut self, packet: Box<Packet>) -> PacketId {
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(packet);
                PacketId::of(place)
            }
            None => {
                self.places.push(Some(packet));
                PacketId::of(self.places.len() as u32 - 1)
            }
        }
    }

    pub(super) fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        self.places[id.place() as usize].as_mut().expect("a packet in flight")
    }

    pub(super) fn take(&mut self, id: PacketId) -> Box<Packet> {
        self.free.push(id.place());
        self.places[id.place() as usize].take().expect("a packet in flight")
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
