//! A peer that sends anything to a whole Lustrine node, in virtual time.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use lustrine_lnet::time::Nanos;
use lustrine_sim::{Chunking, HostId, Link, NodeSpec, ScriptIo, StreamSim, Usage};
use lustrine_socklnd::Accept;
use lustrine_socklnd::PeerConnections;
use lustrine_socklnd::io::SockId;
use lustrine_wire::acceptor::Request;
use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::header::{Body, Header};
use lustrine_wire::hello::{ConnType, Hello, Version};
use lustrine_wire::nid::PID_LUSTRE;
use lustrine_wire::{ByteOrder, Progress};

use crate::speech::{Framing, Heard, NODE, ROGUE, Speech, message};

/// Largest number of streams of the rogue at once.
const STREAMS_MAX: usize = 8;
/// Largest memory that the node may ever use: what it reports for selftest, and a little more.
const NODE_MEMORY: u64 = 8 << 20;
/// Memory that the node may keep: pools of small buffers.
const POOLS: u64 = 64 << 10;
/// Longer than every time-out of a node.
const LONG: Nanos = Nanos::from_secs(400);

/// The rogue's view of one stream.
#[derive(Debug)]
struct Line {
    sock: SockId,
    framing: Framing,
    /// Received bytes that were not decoded yet.
    ear: Vec<u8>,
    /// The framing of the node; `None` before its HELLO.
    node_framing: Option<Version>,
}

/// A message of the node.
#[derive(Clone, Debug)]
pub struct Heading {
    /// The stream on which it came.
    line: usize,
    /// Its header.
    pub header: Header,
}

/// The node and the rogue.
pub struct Rogue {
    world: StreamSim,
    node: HostId,
    me: HostId,
    lines: Vec<Line>,
    heard: Heard,
    /// Messages of the node that may expect an answer.
    pub asked: Vec<Heading>,
    /// The node's memory before any connection.
    alone: Usage,
}

/// The settings of the two.
#[derive(arbitrary::Arbitrary, Clone, Copy, Debug)]
pub struct Setup {
    /// Whether the node accepts peers from any source port.
    pub accept_all: bool,
    /// How streams are divided into pieces.
    pub chunks: Option<u8>,
    /// The highest HELLO version that the node dials with.
    pub protocol: u8,
    /// Whether the node sends checksums.
    pub checksums: bool,
    /// Whether the node sends large payloads without copying.
    pub zero_copy: bool,
    /// Seed of all random numbers.
    pub seed: u8,
}

fn address(nid: lustrine_wire::Nid, port: u16) -> SocketAddr {
    let ip = nid.ip().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    SocketAddr::new(ip, port)
}

impl Rogue {
    /// A node, and a rogue that listens where a node would.
    pub fn new(setup: &Setup) -> Rogue {
        let mut world = StreamSim::new(u64::from(setup.seed));
        let chunking = match setup.chunks {
            None => Chunking::Whole,
            Some(0) => Chunking::Random,
            Some(most) => Chunking::AtMost(usize::from(most)),
        };
        world.network().set_usual_link(Link { chunking, ..Link::default() });
        let spec = NodeSpec::new(NODE)
            .with("selftest_memory", 4)
            .with("protocol", i64::from(setup.protocol % 4))
            .with("enable_csum", i64::from(setup.checksums))
            .with("zero_copy", i64::from(setup.zero_copy));
        let accept = if setup.accept_all { Accept::All } else { Accept::Secure };
        let spec = NodeSpec { accept: Some(accept), memory: NODE_MEMORY, ..spec };
        let node = world.add_node(spec);
        let mut listening = false;
        let me = world.add_script(&[address(ROGUE, 0).ip()], move |io: &mut ScriptIo<'_>| {
            if !listening {
                io.listen(address(ROGUE, 988));
                listening = true;
            }
        });
        let (lines, heard, asked) = (Vec::new(), Heard::default(), Vec::new());
        let alone = Usage::default();
        let mut rogue = Rogue { world, node, me, lines, heard, asked, alone };
        rogue.pass(Nanos::from_millis(1));
        rogue.alone = rogue.world.node(node).usage();
        rogue
    }

    /// Lets time pass, then reads.
    pub fn pass(&mut self, length: Nanos) {
        self.world.run_for(length);
        self.hear();
    }

    /// Opens a stream to the node.
    pub fn dial(&mut self, port: u16) {
        if self.lines.len() < STREAMS_MAX {
            let mut io = self.world.script_io(self.me);
            let sock = io.dial(address(ROGUE, port.max(1)), address(NODE, 988));
            self.add_line(sock);
        }
    }

    fn add_line(&mut self, sock: SockId) {
        let line = Line { sock, framing: Framing::USUAL, ear: Vec::new(), node_framing: None };
        self.lines.push(line);
    }

    /// Opens a stream as a well-behaved node would.
    pub fn connect(&mut self, port: u16, kind: ConnType) {
        self.dial(port);
        self.pass(Nanos::from_millis(1));
        let Some(line) = self.lines.len().checked_sub(1) else { return };
        let mut bytes = Vec::new();
        Request::new(NODE).encode(&mut bytes).expect("a short NID");
        let hello = Hello {
            version: Version::V3,
            order: ByteOrder::Little,
            src: lustrine_wire::ProcessId { nid: ROGUE, pid: PID_LUSTRE },
            dst: lustrine_wire::ProcessId { nid: NODE, pid: 0 },
            src_incarnation: 77,
            dst_incarnation: 0,
            kind,
            ips: lustrine_wire::hello::Ips::NONE,
        };
        hello.encode(&mut bytes).expect("short NIDs");
        self.write(line, &bytes);
        self.pass(Nanos::from_millis(1));
    }

    fn which(&self, line: u8) -> Option<usize> {
        (!self.lines.is_empty()).then(|| usize::from(line) % self.lines.len())
    }

    /// Sends bytes on a stream, or only the first of them.
    pub fn say(&mut self, line: u8, speech: &Speech, cut: Option<u8>) {
        let Some(line) = self.which(line) else { return };
        let mut bytes = speech.bytes(&mut self.lines[line].framing, &self.heard);
        if let Some(cut) = cut {
            bytes.truncate(usize::from(cut));
        }
        self.write(line, &bytes);
    }

    /// Sends a message in the framing of the stream's HELLO.
    pub fn send(&mut self, line: usize, header: &Header, payload: &[u8]) {
        let Some(found) = self.lines.get(line) else { return };
        let bytes = message(found.framing, header, payload, 0, None);
        self.write(line, &bytes);
    }

    fn write(&mut self, line: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            let sock = self.lines[line].sock;
            self.world.script_io(self.me).write(sock, bytes);
        }
    }

    /// Closes or resets a stream.
    pub fn hang_up(&mut self, line: u8, orderly: bool) {
        let Some(line) = self.which(line) else { return };
        let sock = self.lines.remove(line).sock;
        self.asked.retain(|heading| heading.line != line);
        for heading in &mut self.asked {
            heading.line -= usize::from(heading.line > line);
        }
        let mut io = self.world.script_io(self.me);
        if orderly { io.close(sock) } else { io.reset(sock) }
    }

    /// Closes only the sending half.
    pub fn finish(&mut self, line: u8) {
        if let Some(line) = self.which(line) {
            let sock = self.lines[line].sock;
            self.world.script_io(self.me).finish(sock);
        }
    }

    /// The node's user pings the rogue.
    pub fn be_pinged(&mut self) {
        self.world.ping(self.node, &ROGUE, Nanos::from_secs(5));
    }

    /// The node's user discovers the rogue.
    pub fn be_discovered(&mut self) {
        self.world.discover(self.node, &ROGUE, Nanos::from_secs(5));
    }

    /// Answers a PUT or GET of the node correctly, with `len` bytes at most.
    pub fn answer(&mut self, which: u8, len: u32) {
        if self.asked.is_empty() {
            return;
        }
        let heading = self.asked.remove(usize::from(which) % self.asked.len());
        let request = heading.header;
        let (body, len) = match request.body {
            Body::Get { return_md, sink_len, .. } => {
                (Body::Reply { md: return_md }, sink_len.min(len).min(1 << 16))
            }
            Body::Put { ack_md, match_bits, .. } => {
                (Body::Ack { md: ack_md, match_bits, mlength: len }, 0)
            }
            _ => return,
        };
        let header = Header { dst: request.src, src: request.dst, payload_len: len, body };
        self.send(heading.line, &header, &vec![0x66; len as usize]);
    }

    /// Accepts new streams, and reads what the node sends.
    fn hear(&mut self) {
        let mut io = self.world.script_io(self.me);
        while io.next_report().is_some() {}
        let mut fresh = Vec::new();
        while let Some(incoming) = io.next_incoming() {
            fresh.push(incoming.sock);
        }
        for sock in fresh {
            self.add_line(sock);
        }
        let mut headings = Vec::new();
        for (index, line) in self.lines.iter_mut().enumerate() {
            let bytes = self.world.script_io(self.me).read(line.sock);
            line.ear.extend_from_slice(&bytes);
            while let Some(used) = line.understand(index, &mut headings) {
                line.ear.drain(..used);
            }
        }
        for heading in headings {
            match heading.header.body {
                Body::Put { ack_md, match_bits, .. } => {
                    self.heard.match_bits.push(match_bits);
                    if !ack_md.is_none() {
                        self.heard.handles.push(ack_md);
                        self.asked.push(heading);
                    }
                }
                Body::Get { return_md, match_bits, .. } => {
                    self.heard.match_bits.push(match_bits);
                    self.heard.handles.push(return_md);
                    self.asked.push(heading);
                }
                _ => {}
            }
        }
    }

    /// The rogue disconnects. After a while the node must be in the same state as before.
    pub fn leave(mut self) {
        while !self.lines.is_empty() {
            self.hang_up(0, true);
        }
        let listener = address(ROGUE, 988);
        self.world.script_io(self.me).unlisten(listener);
        self.pass(LONG);
        while !self.lines.is_empty() {
            self.hang_up(0, true);
        }
        self.pass(LONG);
        self.world.assert_idle();
        let node = self.world.node(self.node);
        let partition = node.partition();
        // A rogue may send under the node's own NID and have it answer itself, which goes through
        // the driver as any other message [CORE-15]; such connections stay as others do.
        let own = partition.shard().topology();
        let itself = |peer: &PeerConnections| own.ni_of(&peer.id.nid).is_some();
        let stay: usize = partition
            .driver()
            .peers()
            .filter(itself)
            .map(|peer| peer.control + peer.bulk_in + peer.bulk_out + peer.any)
            .sum();
        assert_eq!(partition.driver().connections(), stay, "connections are left");
        let (now, before) = (node.usage().bytes, self.alone.bytes);
        assert!(now <= before + POOLS, "memory is held: {before} bytes before, {now} after");
    }
}

impl Line {
    /// Takes one item from the received bytes, and returns its length.
    fn understand(&mut self, index: usize, headings: &mut Vec<Heading>) -> Option<usize> {
        let Some(version) = self.node_framing else {
            if let Ok(Progress::Got(_, used)) = Request::parse(&self.ear) {
                return Some(used);
            }
            return match Hello::parse(&self.ear) {
                Ok(Progress::Got(hello, used)) => {
                    self.node_framing = Some(hello.version);
                    Some(used)
                }
                _ => None,
            };
        };
        let start = version.frame_len();
        if start != 0 {
            let frame = FrameHeader::parse(self.ear.first_chunk()?, ByteOrder::Little).ok()?;
            if frame.kind == FrameKind::Noop {
                return Some(start);
            }
        }
        let rest = self.ear.get(start..)?;
        let header = match version {
            Version::V4 => Header::parse_long(rest.first_chunk()?).ok()?,
            _ => Header::parse_short(rest.first_chunk()?).ok()?,
        };
        let len = start + version.header_len() + header.payload_len as usize;
        if self.ear.len() < len {
            return None;
        }
        headings.push(Heading { line: index, header });
        Some(len)
    }
}
