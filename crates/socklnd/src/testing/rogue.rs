//! A peer made by hand: says what the test wants, byte by byte.

use core::net::SocketAddr;

use lustrine_wire::acceptor::Request;
use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::header::Header;
use lustrine_wire::hello::{ConnType, Hello, Ips, Version};
use lustrine_wire::nid::ProcessId;
use lustrine_wire::{ByteOrder, Progress};

use super::world::{World, ip4, nid, process};
use crate::io::SockId;

/// The node that the hand-made peer talks to is always 10.0.0.2, number 0 in the world.
pub(crate) const NODE: u8 = 2;

/// One connection of a hand-made peer.
#[derive(Debug)]
pub(crate) struct Rogue {
    pub(crate) sock: SockId,
    pub(crate) heard: Vec<u8>,
    pub(crate) order: ByteOrder,
    pub(crate) version: Version,
}

/// A HELLO from 10.0.0.`from` to the node.
pub(crate) fn hello(from: u8, version: Version, kind: ConnType) -> Hello {
    Hello {
        version,
        order: ByteOrder::Little,
        src: process(from),
        dst: ProcessId { nid: nid(NODE), pid: 0 },
        src_incarnation: 77,
        dst_incarnation: 0,
        kind,
        ips: Ips::NONE,
    }
}

pub(crate) fn hello_bytes(hello: &Hello) -> Vec<u8> {
    let mut bytes = Vec::new();
    hello.encode(&mut bytes).expect("NIDs that fit");
    bytes
}

pub(crate) fn request_bytes(target: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    Request::new(nid(target)).encode(&mut bytes).expect("a short NID");
    bytes
}

impl Rogue {
    /// Dials the node from 10.0.0.`from`, port `port`; says nothing yet.
    pub(crate) fn dial(world: &mut World, from: u8, port: u16) -> Rogue {
        let (from, to) = (SocketAddr::new(ip4(from), port), SocketAddr::new(ip4(NODE), 988));
        let sock = world.net.dial(from, to).expect("the node listens");
        world.run();
        Rogue { sock, heard: Vec::new(), order: ByteOrder::Little, version: Version::V3 }
    }

    /// Takes a connection that the node dialled to the test.
    pub(crate) fn accept(world: &mut World) -> Option<Rogue> {
        world.run();
        let sock = world.net.take_incoming(None)?.sock;
        Some(Rogue { sock, heard: Vec::new(), order: ByteOrder::Little, version: Version::V3 })
    }

    /// A finished connection: request and HELLO said, the answer heard and of the right type.
    pub(crate) fn open(world: &mut World, from: u8, version: Version, kind: ConnType) -> Rogue {
        let mut rogue = Rogue::dial(world, from, 1000);
        rogue.version = version;
        rogue.say(world, &request_bytes(NODE));
        rogue.say(world, &hello_bytes(&hello(from, version, kind)));
        let answer = rogue.hello(world);
        assert_eq!(answer.kind, kind.inverse());
        assert_eq!((answer.version, answer.src), (version, process(NODE)));
        rogue
    }

    pub(crate) fn say(&self, world: &mut World, bytes: &[u8]) {
        world.net.say(self.sock, bytes);
        world.run();
    }

    /// Says a message; cookies and checksum are as in `frame`.
    pub(crate) fn message(
        &self,
        world: &mut World,
        frame: FrameHeader,
        header: &Header,
        payload: &[u8],
    ) {
        let mut bytes = Vec::new();
        if self.version != Version::V1 {
            bytes.extend_from_slice(&frame.encode(self.order));
        }
        bytes.extend_from_slice(&header_bytes(self.version, header));
        bytes.extend_from_slice(payload);
        self.say(world, &bytes);
    }

    pub(crate) fn noop(&self, world: &mut World, request: u64, ack: u64) {
        let frame = FrameHeader { zc_request: request, ..FrameHeader::noop(ack) };
        self.say(world, &frame.encode(self.order));
    }

    fn listen(&mut self, world: &mut World) {
        world.run();
        self.heard.extend(world.net.hear(self.sock));
        world.run();
    }

    /// Hears a connection request; of a connection that the node dialled.
    pub(crate) fn request(&mut self, world: &mut World) -> Request {
        self.listen(world);
        match Request::parse(&self.heard) {
            Ok(Progress::Got(request, len)) => {
                self.heard.drain(..len);
                request
            }
            other => panic!("no request: {other:?}"),
        }
    }

    /// Hears a HELLO.
    pub(crate) fn hello(&mut self, world: &mut World) -> Hello {
        self.listen(world);
        match Hello::parse(&self.heard) {
            Ok(Progress::Got(hello, len)) => {
                self.heard.drain(..len);
                hello
            }
            other => panic!("no HELLO: {other:?}"),
        }
    }

    /// Hears all messages that are complete.
    pub(crate) fn messages(&mut self, world: &mut World) -> Vec<Heard> {
        self.listen(world);
        let mut messages = Vec::new();
        while let Some((message, len)) = self.parse() {
            self.heard.drain(..len);
            messages.push(message);
        }
        messages
    }

    fn parse(&self) -> Option<(Heard, usize)> {
        let mut at = 0;
        let frame = if self.version == Version::V1 {
            FrameHeader::LNET
        } else {
            at = FrameHeader::LEN;
            FrameHeader::parse(self.heard.first_chunk()?, self.order).expect("a frame")
        };
        if frame.kind == FrameKind::Noop {
            return Some((Heard { frame, header: None, payload: Vec::new() }, at));
        }
        let raw = self.heard.get(at..)?;
        let header = match self.version {
            Version::V4 => Header::parse_long(raw.first_chunk()?),
            _ => Header::parse_short(raw.first_chunk()?),
        }
        .expect("a header");
        at += self.version.header_len();
        let payload = self.heard.get(at..at + header.payload_len as usize)?.to_vec();
        let len = at + payload.len();
        Some((Heard { frame, header: Some(header), payload }, len))
    }

    /// Whether the node has closed this connection, and whether without saying more.
    pub(crate) fn closed(&mut self, world: &mut World) -> bool {
        self.listen(world);
        world.net.ended(self.sock)
    }

    /// Whether the node has closed this connection without a byte.
    pub(crate) fn closed_silently(&mut self, world: &mut World) -> bool {
        self.closed(world) && self.heard.is_empty()
    }
}

/// A message that the hand-made peer heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) frame: FrameHeader,
    pub(crate) header: Option<Header>,
    pub(crate) payload: Vec<u8>,
}

/// The LNet header in the form of a version.
pub(crate) fn header_bytes(version: Version, header: &Header) -> Vec<u8> {
    if version == Version::V4 {
        let mut raw = [0; 96];
        header.encode_long(&mut raw);
        raw.to_vec()
    } else {
        let mut raw = [0; 72];
        header.encode_short(&mut raw).expect("short NIDs");
        raw.to_vec()
    }
}
