//! A Lustrine node, a well-behaved neighbour, and a rogue.

use std::net::{IpAddr, SocketAddr};

use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_partition::{ProbeId, ProbeResult};
use lustrine_sim::{HostId, NodeSpec, ScriptIo, StreamSim, check};
use lustrine_socklnd::Accept;
use lustrine_socklnd::io::SockId;
use lustrine_wire::ByteOrder;
use lustrine_wire::acceptor::Request;
use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::hello::{ConnType, Hello, Ips, Version};
use lustrine_wire::nid::{Nid, ProcessId};

/// Memory that the node may use for payloads, in bytes; a rogue must not make it use more.
const MEMORY: u64 = 64 << 20;
/// Peers, connections and handshakes it may have.
pub(crate) const PEERS_MAX: usize = 256;
pub(crate) const CONNECTIONS_MAX: usize = 2048;
pub(crate) const HANDSHAKES_MAX: usize = 1024;

/// How often the neighbour pings while the rogue is active, and the time-out of a ping.
const PING_EVERY: Nanos = Nanos::from_millis(250);
const PING_TIMEOUT: Nanos = Nanos::from_secs(2);

pub(crate) fn victim_nid() -> Nid {
    "10.77.0.3@tcp".parse().expect("a NID")
}

pub(crate) fn rogue_nid() -> Nid {
    "10.77.0.1@tcp".parse().expect("a NID")
}

pub(crate) fn friend_nid() -> Nid {
    "10.77.0.2@tcp".parse().expect("a NID")
}

pub(crate) struct Scene {
    pub(crate) world: StreamSim,
    pub(crate) victim: HostId,
    friend: HostId,
    rogue: HostId,
    pings: Vec<ProbeId>,
    next_port: u16,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let mut world = StreamSim::new(11);
        let spec = NodeSpec { accept: Some(Accept::All), ..NodeSpec::new(victim_nid()) }
            .with("peers_max", PEERS_MAX as i64)
            .with("connections_max", CONNECTIONS_MAX as i64)
            .with("handshakes_max", HANDSHAKES_MAX as i64)
            .with("enable_csum", 1);
        let victim = world.add_node(NodeSpec { memory: MEMORY, ..spec });
        let friend =
            world.add_node(NodeSpec { incarnation: 0x2200, ..NodeSpec::new(friend_nid()) });
        let ip = rogue_nid().ip().expect("an IP NID");
        let rogue = world.add_script(&[ip], |_: &mut ScriptIo<'_>| {});
        let mut scene = Scene { world, victim, friend, rogue, pings: Vec::new(), next_port: 1023 };
        // Connected before the rogue starts: full tables are no reason to disconnect it.
        let first = scene.world.ping(friend, &victim_nid(), PING_TIMEOUT);
        scene.world.run_for(Nanos::from_secs(1));
        scene.pings.push(first);
        scene
    }

    /// The rogue's streams.
    pub(crate) fn script_io(&mut self) -> ScriptIo<'_> {
        self.world.script_io(self.rogue)
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::new(victim_nid().ip().expect("an IP NID"), 988)
    }

    fn own_ip(&self) -> IpAddr {
        rogue_nid().ip().expect("an IP NID")
    }

    /// Dials from a privileged port.
    pub(crate) fn dial(&mut self) -> SockId {
        let port = self.next_port;
        self.next_port = if port == 512 { 1023 } else { port - 1 };
        self.dial_from(port)
    }

    pub(crate) fn dial_from(&mut self, port: u16) -> SockId {
        let (local, remote) = (SocketAddr::new(self.own_ip(), port), self.address());
        let sock = self.script_io().dial(local, remote);
        self.run(Nanos::from_millis(1));
        sock
    }

    /// Closes all connections of the rogue.
    pub(crate) fn leave_all(&mut self) {
        for sock in self.script_io().streams() {
            self.script_io().reset(sock);
        }
        self.run(Nanos::from_secs(1));
    }

    /// Sends bytes on a stream; what there is no room for is dropped.
    pub(crate) fn say(&mut self, sock: SockId, bytes: &[u8]) -> usize {
        self.script_io().write(sock, bytes)
    }

    /// Dials and sends a HELLO; the answer is read and dropped.
    pub(crate) fn befriend(&mut self, hello: Hello) -> SockId {
        let sock = self.dial();
        self.greet(sock, hello);
        sock
    }

    pub(crate) fn greet(&mut self, sock: SockId, hello: Hello) {
        let mut bytes = request();
        hello.encode(&mut bytes).expect("short NIDs");
        self.say(sock, &bytes);
        self.run(Nanos::from_millis(2));
        self.script_io().read(sock);
    }

    /// Lets time pass while the neighbour pings.
    pub(crate) fn run(&mut self, length: Nanos) {
        let end = self.world.now() + length;
        while self.world.now() < end {
            let step = end.since(self.world.now()).min(PING_EVERY);
            if step == PING_EVERY {
                let ticket = self.world.ping(self.friend, &victim_nid(), PING_TIMEOUT);
                self.pings.push(ticket);
            }
            self.world.run_for(step);
        }
    }

    /// The neighbour discovers the node: it sends a ping to the node, and the node accepts its
    /// push.
    pub(crate) fn neighbour_discovers(&mut self) {
        let ticket = self.world.discover(self.friend, &victim_nid(), PING_TIMEOUT);
        self.run(PING_TIMEOUT);
        let result = self.world.node(self.friend).result(ticket);
        let Some(ProbeResult::Discover(Ok(peer))) = result else {
            panic!("the discovery ended as {result:?}");
        };
        assert_eq!(peer.outcome, Status::Ok);
    }

    /// Whether the node has closed a stream.
    pub(crate) fn is_closed(&mut self, sock: SockId) -> bool {
        self.script_io().read(sock);
        self.script_io().ended(sock).is_some()
    }

    /// A counter of the driver, or of the core.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let partition = self.world.node(self.victim).partition();
        let stats = partition.shard().stats();
        match name {
            "responses_refused" => return stats.responses_refused,
            "response_timeout_count" => return stats.response_timeouts,
            "misbehaved" => return stats.misbehaved,
            "dropped.ack" => return stats.dropped.ack,
            "dropped.get" => return stats.dropped.get,
            "dropped.put" => return stats.dropped.put,
            "dropped.reply" => return stats.dropped.reply,
            _ => {}
        }
        let mut all = partition.driver().counters().iter();
        all.find(|(other, _)| *other == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }

    /// Asserts that the neighbour noticed nothing, and that the node stayed within its limits.
    pub(crate) fn check(&mut self, name: &str) {
        self.world.run_for(PING_TIMEOUT);
        self.world.run_for(PING_TIMEOUT);
        let friend = self.world.node(self.friend);
        for ticket in &self.pings {
            let result = friend.result(*ticket);
            let Some(ProbeResult::Ping(Ok(_))) = result else {
                panic!("{name}: the neighbour's ping ended as {result:?}");
            };
        }
        assert_eq!(check::probes(friend), Vec::<String>::new(), "{name}");
        let node = self.world.node(self.victim);
        assert!(node.usage().bytes_max <= MEMORY, "{name}: {:?}", node.usage());
        assert_eq!(node.complaints(), Vec::<String>::new(), "{name}");
        assert_eq!(check::rest(node), Vec::<String>::new(), "{name}");
        let (shard, driver) = (node.partition().shard(), node.partition().driver());
        assert!(shard.peers().count() <= PEERS_MAX, "{name}: {} peers", shard.peers().count());
        assert!(driver.connections() <= CONNECTIONS_MAX, "{name}: {}", driver.connections());
    }
}

/// A connection request for the node.
pub(crate) fn request() -> Vec<u8> {
    let mut bytes = Vec::new();
    Request::new(victim_nid()).encode(&mut bytes).expect("a short NID");
    bytes
}

/// A valid HELLO.
pub(crate) fn hello(kind: ConnType) -> Hello {
    Hello {
        version: Version::V3,
        order: ByteOrder::Little,
        src: ProcessId::lustre(rogue_nid()),
        dst: ProcessId { nid: victim_nid(), pid: 0 },
        src_incarnation: 0x1111,
        dst_incarnation: 0,
        kind,
        ips: Ips::NONE,
    }
}

/// A frame header and an LNet header.
pub(crate) fn message(frame: FrameHeader, header: &Header) -> Vec<u8> {
    let mut bytes = frame.encode(ByteOrder::Little).to_vec();
    let mut raw = [0; 72];
    header.encode_short(&mut raw).expect("short NIDs");
    bytes.extend_from_slice(&raw);
    bytes
}

/// The header of a message from the rogue to the node.
pub(crate) fn header(body: Body, payload_len: u32) -> Header {
    Header {
        dst: ProcessId::lustre(victim_nid()),
        src: ProcessId::lustre(rogue_nid()),
        payload_len,
        body,
    }
}

/// A PUT that matches nothing.
pub(crate) fn put(payload_len: u32) -> Header {
    let body = Body::Put {
        ack_md: MdHandle::NONE,
        match_bits: 0x7777,
        hdr_data: 0,
        portal: 30,
        offset: 0,
    };
    header(body, payload_len)
}

/// A ping.
pub(crate) fn ping() -> Header {
    let return_md = MdHandle { interface: 1, object: 2 };
    let match_bits = lustrine_wire::PING_MATCH_BITS;
    header(Body::Get { return_md, match_bits, portal: 0, offset: 0, sink_len: 272 }, 0)
}

/// A NOOP with these cookies.
pub(crate) fn noop(zc_request: u64, zc_ack: u64) -> Vec<u8> {
    let frame = FrameHeader { kind: FrameKind::Noop, csum: 0, zc_request, zc_ack };
    frame.encode(ByteOrder::Little).to_vec()
}
