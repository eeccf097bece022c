//! Nodes and hand-made peers on one network, with virtual time.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::tunables::Tunables;
use lustrine_lnet::lnd::{Action, LinkEvent, NiIndex, OpKey, PollOutcome, SendAction};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::Identity;
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::nid::{Net as WireNet, Nid, ProcessId};

use super::core::TestCore;
use super::net::{Chaos, Net, TestIo};
use crate::config::{Accept, Config, NiConfig};
use crate::driver::Socklnd;

/// 10.0.0.`last`.
pub(crate) fn ip4(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

pub(crate) fn nid(last: u8) -> Nid {
    Nid::from_ip(WireNet::TCP, ip4(last))
}

pub(crate) fn process(last: u8) -> ProcessId {
    ProcessId::lustre(nid(last))
}

/// A node of one interface with the defaults of everything.
pub(crate) fn config(last: u8) -> Config {
    Config {
        nis: vec![NiConfig {
            nid: nid(last),
            local_ip: Some(ip4(last)),
            port: 988,
            port_bulk: 988,
            conns_per_peer: 1,
            incarnation: 1000 + u64::from(last),
        }],
        identity: Identity::Node,
        accept: Accept::All,
        tunables: Tunables::default(),
        lnet_tunables: Default::default(),
        cpt: 0,
        cpts: 1,
        seed: u64::from(last),
    }
}

/// A driver with its surroundings.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) driver: Socklnd,
    pub(crate) io: TestIo,
    pub(crate) core: TestCore,
}

/// The world.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) net: Net,
    pub(crate) nodes: Vec<Node>,
    pub(crate) now: Time,
}

impl World {
    pub(crate) fn new(seed: u64, chaos: Chaos) -> World {
        World { net: Net::new(seed, chaos), nodes: Vec::new(), now: Time(1_000_000_000) }
    }

    /// Adds a node that listens on the ports of its interfaces.
    pub(crate) fn add(&mut self, config: Config) -> usize {
        let index = self.nodes.len();
        let ip = config.nis[0].local_ip.unwrap_or_else(TestIo::any_ip);
        if config.identity == Identity::Node {
            for ni in &config.nis {
                let ip = ni.nid.ip().expect("an address");
                self.net.listen(SocketAddr::new(ip, ni.port), Some(index));
                self.net.listen(SocketAddr::new(ip, ni.port_bulk), Some(index));
            }
        }
        let io = TestIo::new(&self.net, index, ip);
        let core = TestCore::new(&io.memory);
        self.nodes.push(Node { driver: Socklnd::new(config), io, core });
        index
    }

    /// Has a node send a PUT with this payload.
    pub(crate) fn put(&mut self, node: usize, to: ProcessId, bits: u64, payload: &[u8]) -> OpKey {
        let deadline = self.now + Nanos::from_secs(100);
        self.put_until(node, to, bits, payload, deadline)
    }

    pub(crate) fn put_until(
        &mut self,
        node: usize,
        to: ProcessId,
        bits: u64,
        payload: &[u8],
        deadline: Time,
    ) -> OpKey {
        let send = self.make_put(node, to, bits, payload, deadline);
        let Node { driver, io, core } = &mut self.nodes[node];
        driver.submit(self.now, core, io, &Action::Send(send.clone()));
        send.op
    }

    /// Has a node send a PUT that comes alone.
    pub(crate) fn put_alone(
        &mut self,
        node: usize,
        to: ProcessId,
        bits: u64,
        payload: &[u8],
    ) -> OpKey {
        let deadline = self.now + Nanos::from_secs(100);
        let send = self.make_put(node, to, bits, payload, deadline);
        let Node { driver, io, core } = &mut self.nodes[node];
        driver.submit_alone(self.now, core, io, &Action::Send(send.clone()));
        send.op
    }

    fn make_put(
        &mut self,
        node: usize,
        to: ProcessId,
        bits: u64,
        payload: &[u8],
        deadline: Time,
    ) -> SendAction {
        let node = &mut self.nodes[node];
        let src = ProcessId::lustre(node.driver.config.nis[0].nid);
        let span = node.io.memory.borrow_mut().filled(payload);
        SendAction {
            op: node.core.sending(),
            ni: NiIndex(0),
            to,
            header: put_header(src, to, bits, payload.len() as u32),
            payload: [span].into_iter().collect(),
            deadline,
        }
    }

    /// Has a node send a message without payload.
    pub(crate) fn send(&mut self, node: usize, header: Header, to: ProcessId) -> OpKey {
        let deadline = self.now + Nanos::from_secs(100);
        let Node { driver, io, core } = &mut self.nodes[node];
        let op = core.sending();
        let payload = Default::default();
        let send = SendAction { op, ni: NiIndex(0), to, header, payload, deadline };
        driver.submit(self.now, core, io, &Action::Send(send));
        op
    }

    /// Has a node's core close a peer.
    pub(crate) fn close(&mut self, node: usize, peer: ProcessId, status: Status) {
        let Node { driver, io, core } = &mut self.nodes[node];
        driver.submit(self.now, core, io, &Action::Close { ni: NiIndex(0), peer, status });
    }

    /// Lets everything happen that can happen now.
    pub(crate) fn run(&mut self) {
        for _ in 0..1_000_000 {
            let mut quiet = true;
            for index in 0..self.nodes.len() {
                quiet &= !self.turn(index);
            }
            if quiet {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    /// One turn of one node's loop; whether anything happened.
    pub(crate) fn turn(&mut self, index: usize) -> bool {
        let mut busy = false;
        let Node { driver, io, core } = &mut self.nodes[index];
        while let Some(incoming) = self.net.take_incoming(Some(index)) {
            let ni =
                driver.config.nis.iter().position(|ni| ni.nid.ip() == Some(incoming.local.ip()));
            let ni = NiIndex(ni.expect("a listener of ours") as u16);
            driver.accepted(self.now, io, incoming.sock, ni, incoming.local, incoming.remote);
            busy = true;
        }
        while let Some((sock, readiness)) = self.net.take_report(index) {
            io.check_released(sock, readiness.zero_copy_done);
            driver.ready(self.now, core, io, sock, readiness);
            busy = true;
        }
        while let Some(action) = core.outbox.pop_front() {
            driver.submit(self.now, core, io, &action);
        }
        if driver.has_work() {
            driver.flush(self.now, core, io);
            busy = true;
        }
        let handoffs: Vec<_> = std::iter::from_fn(|| driver.next_handoff()).collect();
        for handoff in handoffs {
            let home = usize::from(handoff.home);
            self.net.reassign(handoff.sock, home);
            let Node { driver, io, core } = &mut self.nodes[home];
            driver.adopt(self.now, core, io, handoff);
            busy = true;
        }
        busy
    }

    /// Has a node's driver read without a report.
    pub(crate) fn poll(&mut self, index: usize) -> PollOutcome {
        let Node { driver, io, core } = &mut self.nodes[index];
        driver.poll(self.now, core, io)
    }

    /// Lets so much time pass, with everything that is due in it.
    pub(crate) fn pass(&mut self, length: Nanos) {
        let end = self.now + length;
        self.run();
        for _ in 0..1_000_000 {
            let deadlines = self.nodes.iter().map(|node| node.driver.next_deadline());
            let next = deadlines.min().unwrap_or(Time::NEVER);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            for Node { driver, io, core } in &mut self.nodes {
                driver.tick(self.now, core, io);
            }
            self.run();
        }
        panic!("deadlines that do not pass");
    }

    pub(crate) fn driver(&self, node: usize) -> &Socklnd {
        &self.nodes[node].driver
    }

    pub(crate) fn core(&mut self, node: usize) -> &mut TestCore {
        &mut self.nodes[node].core
    }

    /// What became of a message sent.
    pub(crate) fn status(&self, node: usize, op: OpKey) -> Option<Status> {
        let sent = &self.nodes[node].core.sent;
        sent.iter().find(|(sent, _)| *sent == op).map(|(_, status)| *status)
    }

    /// The link events of a node, without names.
    pub(crate) fn events(&self, node: usize) -> Vec<LinkEvent> {
        self.nodes[node].core.links.iter().map(|(.., event)| *event).collect()
    }
}

/// A PUT that wants no ACK.
pub(crate) fn put_header(src: ProcessId, dst: ProcessId, bits: u64, payload_len: u32) -> Header {
    let body =
        Body::Put { ack_md: MdHandle::NONE, match_bits: bits, hdr_data: 0, portal: 30, offset: 0 };
    Header { dst, src, payload_len, body }
}
