//! Messages of a peer: protocol data with arbitrary fields, and arbitrary bytes.

use arbitrary::Arbitrary;
use lustrine_wire::acceptor::Request;
use lustrine_wire::crc;
use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::hello::{ConnType, Hello, Ips, Version};
use lustrine_wire::nid::{Net, Nid, PID_LUSTRE, ProcessId};
use lustrine_wire::ping::{Features, NiStatus, PingEntry, PingInfo};
use lustrine_wire::srpc::{self, MESSAGE_LEN};
use lustrine_wire::{ByteOrder, PING_MATCH_BITS};

/// The node under test.
pub const NODE: Nid = Nid::new4(Net::TCP, 0x0a00_0001);
/// The peer that sends.
pub const ROGUE: Nid = Nid::new4(Net::TCP, 0x0a00_0009);

/// Longest payload that is really sent, in bytes.
const SENT_MAX: usize = 4096;

/// How a stream is framed.
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    /// The version of the last HELLO.
    pub version: Version,
    /// The byte order of frame headers.
    pub order: ByteOrder,
}

impl Framing {
    /// The usual framing.
    pub const USUAL: Framing = Framing { version: Version::V3, order: ByteOrder::Little };
}

/// A NID that the peer may claim.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Whose {
    /// The peer's own.
    Rogue,
    /// The node's.
    Node,
    /// Another one on the same net.
    Other(u8),
    /// One on another net.
    Elsewhere,
    /// The loopback.
    Loopback,
    /// The wildcard.
    Any,
    /// An IPv6 NID.
    Long,
}

impl Whose {
    fn nid(self) -> Nid {
        match self {
            Whose::Rogue => ROGUE,
            Whose::Node => NODE,
            Whose::Other(number) => Nid::new4(Net::TCP, 0x0a00_0100 + u32::from(number)),
            Whose::Elsewhere => Nid::new4(Net { number: 3, ..Net::TCP }, 0x0a00_0001),
            Whose::Loopback => Nid::LO,
            Whose::Any => Nid::ANY,
            Whose::Long => Nid::new6(Net::TCP, [0x20; 16]),
        }
    }
}

/// Type and fields of a message.
#[derive(Arbitrary, Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields of LNet's headers")]
pub enum Kind {
    Put { ack: bool, place: Place },
    Get { sink_len: u32, place: Place },
    Reply,
    Ack { mlength: u32 },
    Hello,
}

/// The destination of a message.
#[derive(Arbitrary, Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields of LNet's headers")]
pub enum Place {
    Ping,
    /// The match bits at which a transfer that the node requested is awaited, or answered.
    Awaited(u8),
    Selftest {
        service: u8,
    },
    Anywhere {
        portal: u8,
        match_bits: u64,
        offset: u32,
    },
}

/// The data after a header.
#[derive(Arbitrary, Clone, Debug)]
pub enum Payload {
    /// Nothing.
    None,
    /// This number of bytes.
    Plain(u16),
    /// Fewer or more bytes than announced.
    Lying {
        /// The length in the header.
        announced: u32,
        /// The length that is sent.
        sent: u16,
    },
    /// Ping information.
    Ping {
        /// Feature bits.
        features: u8,
        /// Number of interfaces.
        interfaces: u8,
        /// Bytes missing at the end.
        cut: u8,
    },
    /// A selftest message.
    Selftest(Selftest),
}

/// A selftest message: the magic number, a type, and arbitrary bytes.
#[derive(Arbitrary, Clone, Debug)]
pub struct Selftest {
    /// Its type, usually a known one.
    pub kind: u8,
    /// In the other byte order.
    pub reversed: bool,
    /// Of another version.
    pub version: Option<u32>,
    /// Session features.
    pub features: u8,
    /// The body: the words at the offsets named by the first number of each pair.
    pub words: Vec<(u8, u32)>,
}

impl Selftest {
    /// The 160 bytes.
    pub fn bytes(&self) -> [u8; MESSAGE_LEN] {
        let order = if self.reversed { ByteOrder::Big } else { ByteOrder::Little };
        let mut raw = [0; MESSAGE_LEN];
        for (at, word) in self.words.iter().take(40) {
            order.put_u32(&mut raw, 4 * (usize::from(*at) % (MESSAGE_LEN / 4)), *word);
        }
        order.put_u32(&mut raw, 0, srpc::MAGIC);
        order.put_u32(&mut raw, 4, self.version.unwrap_or(srpc::VERSION));
        order.put_u32(&mut raw, 8, u32::from(self.kind % 20));
        order.put_u32(&mut raw, 20, u32::from(self.features));
        raw
    }
}

/// A message of any layer.
#[derive(Arbitrary, Clone, Debug)]
pub enum Speech {
    /// Any bytes.
    Raw(Vec<u8>),
    /// A connection request.
    Request {
        /// The target.
        target: Whose,
        /// In the other byte order.
        reversed: bool,
    },
    /// A HELLO; the data after it on the stream is framed accordingly.
    Hello {
        /// 1 to 4.
        version: u8,
        /// Connection type.
        kind: u8,
        /// The source NID.
        src: Whose,
        /// The destination NID.
        dst: Whose,
        /// The incarnation.
        incarnation: u8,
        /// In the other byte order.
        reversed: bool,
        /// The number of IP addresses.
        ips: u8,
    },
    /// A frame without message.
    Noop {
        /// Cookie A.
        request: u64,
        /// Cookie B.
        ack: u64,
    },
    /// A message.
    Message {
        /// The type.
        kind: Kind,
        /// The source in the header.
        src: Whose,
        /// The destination in the header.
        dst: Whose,
        /// The descriptor of the node that it names: a known one, or none.
        handle: Option<u8>,
        /// The payload.
        payload: Payload,
        /// Cookie A, and a checksum that may be wrong.
        cookie: u8,
        /// Whether there is a checksum; it is correct if the number is even.
        checksum: Option<u8>,
    },
}

/// What the peer has received from the node, to answer or to misuse.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// Descriptors of the node.
    pub handles: Vec<MdHandle>,
    /// Match bits of the node's transfers.
    pub match_bits: Vec<u64>,
}

fn lustre(nid: Nid) -> ProcessId {
    ProcessId { nid, pid: PID_LUSTRE }
}

fn nth<T: Copy>(list: &[T], which: u8) -> Option<T> {
    list.get(usize::from(which) % list.len().max(1)).copied()
}

impl Speech {
    /// The bytes; a HELLO changes the framing of the data after it.
    pub fn bytes(&self, framing: &mut Framing, heard: &Heard) -> Vec<u8> {
        match self {
            Speech::Raw(bytes) => bytes.iter().copied().take(SENT_MAX).collect(),
            Speech::Request { target, reversed } => {
                let order = if *reversed { ByteOrder::Big } else { ByteOrder::Little };
                let mut out = Vec::new();
                let request = Request { order, ..Request::new(target.nid()) };
                request.encode(&mut out).expect("the version fits the target");
                out
            }
            Speech::Hello { version, kind, src, dst, incarnation, reversed, ips } => {
                let version =
                    [Version::V1, Version::V2, Version::V3, Version::V4][usize::from(*version) % 4];
                let order = if *reversed && version != Version::V1 {
                    ByteOrder::Big
                } else {
                    ByteOrder::Little
                };
                *framing = Framing { version, order };
                let mut list = Ips::NONE;
                // An address of zero, or the seventeenth, is refused.
                let taken = (0..*ips % 18).filter(|ip| list.push(u32::from(*ip)).is_ok()).count();
                debug_assert_eq!(taken, list.as_slice().len());
                let hello = Hello {
                    version,
                    order,
                    src: lustre(src.nid()),
                    dst: lustre(dst.nid()),
                    src_incarnation: u64::from(*incarnation),
                    dst_incarnation: 0,
                    kind: ConnType::from_number(u32::from(*kind % 4)).unwrap_or(ConnType::None),
                    ips: list,
                };
                let mut out = Vec::new();
                // A long NID cannot be encoded in a short HELLO.
                let _ = hello.encode(&mut out);
                out
            }
            Speech::Noop { request, ack } => {
                let frame = FrameHeader {
                    kind: FrameKind::Noop,
                    csum: 0,
                    zc_request: *request,
                    zc_ack: *ack,
                };
                frame.encode(framing.order).to_vec()
            }
            Speech::Message { kind, src, dst, handle, payload, cookie, checksum } => {
                let (announced, bytes) = payload.bytes();
                let header = Header {
                    dst: lustre(dst.nid()),
                    src: lustre(src.nid()),
                    payload_len: announced,
                    body: kind.body(*handle, heard),
                };
                message(*framing, &header, &bytes, u64::from(*cookie), *checksum)
            }
        }
    }
}

impl Kind {
    fn body(self, handle: Option<u8>, heard: &Heard) -> Body {
        let handle = handle.and_then(|which| nth(&heard.handles, which));
        let handle = handle.unwrap_or(MdHandle { interface: 1, object: 2 });
        match self {
            Kind::Put { ack, place } => {
                let ack_md = if ack { handle } else { MdHandle::NONE };
                let (portal, match_bits, offset) = place.resolve(heard);
                Body::Put { ack_md, match_bits, hdr_data: 0, portal, offset }
            }
            Kind::Get { sink_len, place } => {
                let (portal, match_bits, offset) = place.resolve(heard);
                Body::Get { return_md: handle, match_bits, portal, offset, sink_len }
            }
            Kind::Reply => Body::Reply { md: handle },
            Kind::Ack { mlength } => Body::Ack { md: handle, match_bits: 0, mlength },
            Kind::Hello => Body::Hello { incarnation: 1, kind: 1 },
        }
    }
}

impl Place {
    /// Portal, match bits, offset.
    fn resolve(self, heard: &Heard) -> (u32, u64, u32) {
        match self {
            Place::Ping => (0, PING_MATCH_BITS, 0),
            Place::Awaited(which) => {
                (srpc::REPLY_PORTAL, nth(&heard.match_bits, which).unwrap_or(0), 0)
            }
            Place::Selftest { service } => {
                let service = srpc::Service::ALL[usize::from(service) % srpc::Service::ALL.len()];
                (service.portal(), u64::from(service.id()), 0)
            }
            Place::Anywhere { portal, match_bits, offset } => {
                (u32::from(portal) % 66, match_bits, offset)
            }
        }
    }
}

impl Payload {
    /// The announced length, and the bytes that are sent.
    fn bytes(&self) -> (u32, Vec<u8>) {
        let exact = |bytes: Vec<u8>| (bytes.len() as u32, bytes);
        match self {
            Payload::None => (0, Vec::new()),
            Payload::Plain(len) => exact(vec![0x77; usize::from(*len).min(SENT_MAX)]),
            Payload::Lying { announced, sent } => {
                (*announced, vec![0x77; usize::from(*sent).min(SENT_MAX)])
            }
            Payload::Ping { features, interfaces, cut } => {
                let entry = |number| PingEntry {
                    nid: if number == 0 { ROGUE } else { Whose::Other(number).nid() },
                    status: NiStatus::Up,
                };
                let entries: Vec<PingEntry> = (0..*interfaces).map(entry).collect();
                let features = Features::from_bits_retain(u32::from(*features));
                let mut bytes = Vec::new();
                PingInfo::build(features, PID_LUSTRE, 1, &entries, &mut bytes);
                bytes.truncate(bytes.len().saturating_sub(usize::from(*cut)));
                exact(bytes)
            }
            Payload::Selftest(message) => exact(message.bytes().to_vec()),
        }
    }
}

/// A whole message as it is sent over a stream.
pub fn message(
    framing: Framing,
    header: &Header,
    payload: &[u8],
    cookie: u64,
    checksum: Option<u8>,
) -> Vec<u8> {
    let mut body = Vec::new();
    if framing.version == Version::V4 {
        let mut raw = [0; 96];
        header.encode_long(&mut raw);
        body.extend_from_slice(&raw);
    } else {
        let mut raw = [0; 72];
        if header.encode_short(&mut raw).is_err() {
            return Vec::new();
        }
        body.extend_from_slice(&raw);
    }
    body.extend_from_slice(payload);
    if framing.version == Version::V1 {
        return body;
    }
    let mut frame = FrameHeader { zc_request: cookie, ..FrameHeader::LNET };
    if let Some(wrong) = checksum {
        frame.csum = crc::update(frame.csum_start(framing.order), &body) ^ u32::from(wrong & 1);
    }
    let mut out = frame.encode(framing.order).to_vec();
    out.extend_from_slice(&body);
    out
}
