//! The values that selftest messages are made of.

use core::fmt;

use super::cursor::{Field, Reader, Writer};
use super::{FEATURE_BULK_LEN, Service};
use crate::byte_order::ByteOrder;
use crate::nid::{Nid, ProcessId};

/// Identifies a session: the console's address and the time of its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sid {
    /// Short NID of the console.
    pub nid: u64,
    /// Milliseconds of a monotonic clock of the console.
    pub stamp: i64,
}

impl Sid {
    /// No session.
    pub const NONE: Sid = Sid { nid: u64::MAX, stamp: -1 };

    /// Whether the NID is the wildcard, which no session has.
    pub const fn is_any(&self) -> bool {
        self.nid == u64::MAX
    }

    /// The console's NID.
    pub const fn console(&self) -> Nid {
        Nid::from_short(self.nid)
    }
}

impl fmt::Display for Sid {
    /// `stamp@NID`, as `lst show_session` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.stamp, self.console())
    }
}

/// The name of a session or a group: 32 bytes, ended by a zero byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name(pub [u8; 32]);

/// Why a text is not a [`Name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has no room for the zero byte at its end.
    #[error("a name of {0} bytes: 31 are allowed")]
    TooLong(usize),
    /// It has a zero byte within.
    #[error("a name with a zero byte")]
    ZeroByte,
}

impl Name {
    /// Most bytes of a name, without the zero byte.
    pub const LEN_MAX: usize = 31;
    /// The empty name.
    pub const EMPTY: Name = Name([0; 32]);

    /// A name from text.
    ///
    /// # Errors
    /// [`NameError`] if it is too long or holds a zero byte.
    pub fn new(text: &str) -> Result<Name, NameError> {
        if text.len() > Name::LEN_MAX {
            return Err(NameError::TooLong(text.len()));
        }
        if text.as_bytes().contains(&0) {
            return Err(NameError::ZeroByte);
        }
        let mut raw = [0; 32];
        raw[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Name(raw))
    }

    /// The bytes before the first zero byte; all 32 if there is none.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }

    /// Whether a zero byte ends it, as it must.
    pub fn is_terminated(&self) -> bool {
        self.0.contains(&0)
    }
}

impl fmt::Display for Name {
    /// Printable ASCII is kept, all other bytes become `\x..`: names come from the network.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().escape_ascii().fmt(f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// The role of a node in a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// Answers the test's RPCs.
    Server = 0,
    /// Sends them. On the wire every non-zero number means this; 1 is written.
    Client = 1,
}

/// The operation of a BATCH request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum BatchOp {
    /// Start all tests.
    Run = 1,
    /// Stop all tests.
    Stop = 2,
    /// Report how many are active.
    Query = 3,
}

impl BatchOp {
    /// The operation with this number; an unknown one gets no reply.
    pub const fn from_number(number: u32) -> Option<BatchOp> {
        match number {
            1 => Some(BatchOp::Run),
            2 => Some(BatchOp::Stop),
            3 => Some(BatchOp::Query),
            _ => None,
        }
    }
}

/// Direction of a bulk test, seen from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum BrwOp {
    /// The server puts data into the client's memory.
    Read = 1,
    /// The server gets data from the client's memory.
    Write = 2,
}

impl BrwOp {
    /// The direction with this number.
    pub const fn from_number(number: u32) -> Option<BrwOp> {
        match number {
            1 => Some(BrwOp::Read),
            2 => Some(BrwOp::Write),
            _ => None,
        }
    }
}

/// How bulk data are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum BrwCheck {
    /// Not at all.
    None = 1,
    /// The first and last word of every fragment.
    Simple = 2,
    /// Every word.
    Full = 3,
    /// Not at all, and the receiver need not store them; unknown to most releases.
    Discard = 4,
}

impl BrwCheck {
    /// The check with this number.
    pub const fn from_number(number: u32) -> Option<BrwCheck> {
        match number {
            1 => Some(BrwCheck::None),
            2 => Some(BrwCheck::Simple),
            3 => Some(BrwCheck::Full),
            4 => Some(BrwCheck::Discard),
            _ => None,
        }
    }
}

/// The 12 bytes of parameters in a TEST request. Their layout follows from the service and from the
/// session feature [`FEATURE_BULK_LEN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestParams {
    /// Bulk test of a session without the feature: length in pages.
    BrwV0 {
        /// See [`BrwOp`].
        rw: u32,
        /// Length in pages of the receiver of this message.
        pages: u32,
        /// See [`BrwCheck`].
        check: u32,
    },
    /// Bulk test of a session with the feature: length and offset in bytes.
    BrwV1 {
        /// See [`BrwOp`].
        rw: u16,
        /// See [`BrwCheck`].
        check: u16,
        /// Bytes, a multiple of 8, at most 1 MiB.
        len: u32,
        /// Where in the client's buffer the data start, a multiple of 8.
        offset: u32,
    },
    /// Small message test; neither is used.
    Ping {
        /// Size field of the request; ignored.
        size: u32,
        /// Flags field of the request; ignored.
        flags: u32,
        /// Not part of the parameters; consoles leave undefined bytes there.
        unused: [u8; 4],
    },
    /// Of a service that is not a test: the bytes as they arrived.
    Unknown([u8; 12]),
}

impl TestParams {
    /// Reads the 12 bytes in the layout of `service` and the session's features.
    pub(super) fn read(service: u32, from: &mut Reader<'_>) -> TestParams {
        let v1 = from.features & FEATURE_BULK_LEN != 0;
        match Service::from_id(service) {
            Some(Service::Brw) if v1 => TestParams::BrwV1 {
                rw: from.next(),
                check: from.next(),
                len: from.next(),
                offset: from.next(),
            },
            Some(Service::Brw) => {
                TestParams::BrwV0 { rw: from.next(), pages: from.next(), check: from.next() }
            }
            Some(Service::Ping) => {
                TestParams::Ping { size: from.next(), flags: from.next(), unused: from.array() }
            }
            _ => TestParams::Unknown(from.array()),
        }
    }

    pub(super) fn write(&self, to: &mut Writer<'_>) {
        match self {
            TestParams::BrwV0 { rw, pages, check } => {
                to.put(rw);
                to.put(pages);
                to.put(check);
            }
            TestParams::BrwV1 { rw, check, len, offset } => {
                to.put(rw);
                to.put(check);
                to.put(len);
                to.put(offset);
            }
            TestParams::Ping { size, flags, unused } => {
                to.put(size);
                to.put(flags);
                to.bytes(unused);
            }
            TestParams::Unknown(raw) => to.bytes(raw),
        }
    }
}

/// One entry of the list of destinations that a client node fetches for a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Destination {
    /// Short NID.
    pub nid: u64,
    /// LNet pid.
    pub pid: u32,
}

impl Destination {
    /// Length in bytes; entries are packed.
    pub const LEN: usize = 12;

    /// Reads an entry in the byte order of the TEST request.
    pub fn parse(raw: &[u8; 12], order: ByteOrder) -> Destination {
        Destination { nid: order.u64_at(raw, 0), pid: order.u32_at(raw, 8) }
    }

    /// The 12 bytes.
    pub fn encode(&self, order: ByteOrder) -> [u8; 12] {
        let mut raw = [0; 12];
        order.put_u64(&mut raw, 0, self.nid);
        order.put_u32(&mut raw, 8, self.pid);
        raw
    }

    /// The process that the entry names.
    pub const fn process_id(&self) -> ProcessId {
        ProcessId { nid: Nid::from_short(self.nid), pid: self.pid }
    }
}

/// Where entry `index` of a list of destinations starts: entries do not cross pages, so the rest of
/// each page of `page_size` bytes is filler. Lists that fit one page are contiguous.
///
/// # Panics
/// If a page does not hold a single entry.
pub const fn destination_at(index: usize, page_size: usize) -> usize {
    let per_page = page_size / Destination::LEN;
    (index / per_page) * page_size + (index % per_page) * Destination::LEN
}

impl Field for Sid {
    fn read(from: &mut Reader<'_>) -> Sid {
        Sid { nid: from.next(), stamp: from.next() }
    }

    fn write(&self, to: &mut Writer<'_>) {
        to.put(&self.nid);
        to.put(&self.stamp);
    }
}

impl Field for Name {
    fn read(from: &mut Reader<'_>) -> Name {
        Name(from.array())
    }

    fn write(&self, to: &mut Writer<'_>) {
        to.bytes(&self.0);
    }
}

impl Field for Role {
    fn read(from: &mut Reader<'_>) -> Role {
        match from.next::<u8>() {
            0 => Role::Server,
            _ => Role::Client,
        }
    }

    fn write(&self, to: &mut Writer<'_>) {
        to.put(&(*self as u8));
    }
}
