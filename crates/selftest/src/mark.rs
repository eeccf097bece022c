//! The mark a descriptor carries in `Md::user`: whose it is, which part of an RPC, which slot.
//!
//! An event finds its RPC by array index, so no map is searched per message. A slot is reused only
//! after the last event of its descriptors, so an index needs no generation.

use lustrine_lnet::event::Event;
use lustrine_wire::nid::Nid;

/// Who made a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A request buffer of the service.
    RequestBuffers,
    /// An RPC the service answers.
    Answer,
    /// An RPC of this caller; the number is its client_slot, see [`crate::rpc::Ids`].
    RpcClient(ClientSlot),
}

/// Distinguishes the callers of one node: 0 is the service, 255 a console, clients are between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientSlot(pub u8);

impl ClientSlot {
    /// The service's own client units.
    pub const SERVICE: ClientSlot = ClientSlot(0);
    /// The orders of a console.
    pub const CONSOLE: ClientSlot = ClientSlot(255);
}

/// The parts of an RPC, each with its own descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The 160-byte request.
    Request,
    /// The 160-byte reply.
    Reply,
    /// The data.
    Bulk,
}

/// A decoded mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) role: Role,
    pub(crate) part: Part,
    pub(crate) slot: u32,
}

const INBOX: u8 = 1;
const ANSWER: u8 = 2;
const CALLER: u8 = 3;

impl Mark {
    /// Byte 7 the role, byte 6 the client_slot, byte 5 the part, bytes 0 to 3 the slot.
    pub(crate) fn encode(self) -> u64 {
        let (role, client_slot) = match self.role {
            Role::RequestBuffers => (INBOX, 0),
            Role::Answer => (ANSWER, 0),
            Role::RpcClient(client_slot) => (CALLER, client_slot.0),
        };
        let part = match self.part {
            Part::Request => 0,
            Part::Reply => 1,
            Part::Bulk => 2,
        };
        u64::from(role) << 56 | u64::from(client_slot) << 48 | part << 40 | u64::from(self.slot)
    }

    /// The mark of an event, if it has one.
    pub(crate) fn of(event: &Event) -> Option<Mark> {
        Mark::decode(event.user)
    }

    fn decode(user: u64) -> Option<Mark> {
        let client_slot = ClientSlot((user >> 48) as u8);
        let role = match (user >> 56) as u8 {
            INBOX => Role::RequestBuffers,
            ANSWER => Role::Answer,
            CALLER => Role::RpcClient(client_slot),
            _ => return None,
        };
        let part = match (user >> 40) as u8 {
            0 => Part::Request,
            1 => Part::Reply,
            2 => Part::Bulk,
            _ => return None,
        };
        Some(Mark { role, part, slot: user as u32 })
    }
}

/// The number a NID has in a session id.
pub(crate) fn console_number(nid: &Nid) -> u64 {
    match nid.to_short() {
        Some(short) => short,
        // The kind and net of the NID, and the low half of its address.
        None => {
            let raw = nid.to_long();
            let mut short = [0; 8];
            short[1..4].copy_from_slice(&raw[1..4]);
            short[4..].copy_from_slice(&raw[16..]);
            u64::from_be_bytes(short)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_survives_the_way_through_a_descriptor() {
        let roles = [
            Role::RequestBuffers,
            Role::Answer,
            Role::RpcClient(ClientSlot::SERVICE),
            Role::RpcClient(ClientSlot(255)),
        ];
        for role in roles {
            for part in [Part::Request, Part::Reply, Part::Bulk] {
                for slot in [0, 1, u32::MAX] {
                    let mark = Mark { role, part, slot };
                    assert_eq!(Mark::decode(mark.encode()), Some(mark));
                }
            }
        }
    }

    #[test]
    fn foreign_marks_are_nobodys() {
        assert_eq!(Mark::decode(0), None);
        assert_eq!(Mark::decode(0x0900_0000_0000_0000), None);
        assert_eq!(Mark::decode(0x0100_0900_0000_0000), None);
    }
}
