//! The bytes that a rogue sends to a node.

use lustrine_wire::ByteOrder;
use lustrine_wire::acceptor::Request;
use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::hello::{ConnType, Hello, Ips, Version};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::{
    BULK_MAX, Body as SrpcBody, BrwCheck, BrwOp, BrwRequest, MESSAGE_LEN, Message, Service,
    TEST_PORTAL, VERSION,
};

/// The messages from one NID to one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    /// The sender.
    pub(crate) from: Nid,
    /// The node.
    pub(crate) to: Nid,
}

impl Words {
    /// A connection request for the node.
    pub(crate) fn request(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        Request::new(self.to).encode(&mut bytes).expect("a short NID");
        bytes
    }

    /// A valid HELLO.
    pub(crate) fn hello(&self, kind: ConnType) -> Hello {
        Hello {
            version: Version::V3,
            order: ByteOrder::Little,
            src: ProcessId::lustre(self.from),
            dst: ProcessId { nid: self.to, pid: 0 },
            src_incarnation: 0x1111,
            dst_incarnation: 0,
            kind,
            ips: Ips::NONE,
        }
    }

    /// The header of a message to the node.
    pub(crate) fn header(&self, body: Body, payload_len: u32) -> Header {
        let (dst, src) = (ProcessId::lustre(self.to), ProcessId::lustre(self.from));
        Header { dst, src, payload_len, body }
    }

    /// A PUT that matches nothing.
    pub(crate) fn put(&self, payload_len: u32) -> Header {
        self.put_to(30, 0x7777, payload_len)
    }

    /// A PUT to any portal, without an ACK.
    pub(crate) fn put_to(&self, portal: u32, match_bits: u64, payload_len: u32) -> Header {
        let ack_md = MdHandle::NONE;
        let body = Body::Put { ack_md, match_bits, hdr_data: 0, portal, offset: 0 };
        self.header(body, payload_len)
    }

    /// A request of LNet selftest for 1 MiB of data.
    pub(crate) fn read_request(&self) -> Vec<u8> {
        let body = SrpcBody::BrwRequest(BrwRequest {
            reply_bits: 1,
            bulk_bits: 2,
            rw: BrwOp::Read as u32,
            len: BULK_MAX,
            check: BrwCheck::None as u32,
        });
        let request = Message { order: ByteOrder::Little, version: VERSION, features: 1, body };
        let mut payload = [0; MESSAGE_LEN];
        request.encode(&mut payload);
        let service = u64::from(Service::Brw.id());
        let mut bytes = message(&self.put_to(TEST_PORTAL, service, MESSAGE_LEN as u32));
        bytes.extend_from_slice(&payload);
        bytes
    }

    /// A ping.
    pub(crate) fn ping(&self) -> Header {
        let return_md = MdHandle { interface: 1, object: 2 };
        let match_bits = lustrine_wire::PING_MATCH_BITS;
        self.header(Body::Get { return_md, match_bits, portal: 0, offset: 0, sink_len: 272 }, 0)
    }
}

/// A request and a HELLO, in the usual order of a peer.
pub(crate) fn greeting(words: &Words, hello: &Hello) -> Vec<u8> {
    let mut bytes = words.request();
    hello.encode(&mut bytes).expect("short NIDs");
    bytes
}

/// A message with an unusual frame header.
pub(crate) fn framed(frame: FrameHeader, header: &Header) -> Vec<u8> {
    let mut bytes = frame.encode(ByteOrder::Little).to_vec();
    let mut raw = [0; 72];
    header.encode_short(&mut raw).expect("short NIDs");
    bytes.extend_from_slice(&raw);
    bytes
}

/// Frame and header of a message.
pub(crate) fn message(header: &Header) -> Vec<u8> {
    framed(FrameHeader::LNET, header)
}

/// Frame, header and a payload of `said` bytes, which may be fewer than the header announces.
pub(crate) fn with_payload(header: &Header, said: usize) -> Vec<u8> {
    let mut bytes = message(header);
    bytes.resize(bytes.len() + said, 7);
    bytes
}

/// A NOOP with these cookies.
pub(crate) fn noop(zc_request: u64, zc_ack: u64) -> Vec<u8> {
    let frame = FrameHeader { kind: FrameKind::Noop, csum: 0, zc_request, zc_ack };
    frame.encode(ByteOrder::Little).to_vec()
}
