//! A small network of shards, for tests.
//!
//! [`Net`] moves messages between shards as a perfect driver would, one at a time, in the
//! order or disorder the caller chooses, and can lose them. It has no connections and no clock.
//!
//! The unit tests of `lustrine-lnet` and the crate `lustrine-lnet-testing` both contain this file.

use std::collections::VecDeque;

use lustrine_wire::header::Header;
use lustrine_wire::nid::{Net as NetId, Nid, PID_LUSTRE, ProcessId};

use crate::event::Event;
use crate::lnd::{Action, Arrival, Core, NiIndex, OpKey, RxId, Verdict};
use crate::memory::{Memory, Spans, VecMemory, total_len};
use crate::shard::Shard;
use crate::status::Status;
use crate::time::Time;
use crate::topology::{Identity, Ni, Topology};
use crate::tunables::Tunables;

/// One node of a [`Net`].
#[derive(Debug)]
pub struct TestNode {
    /// Its core.
    pub shard: Shard,
    /// Its memory.
    pub memory: VecMemory,
    /// Where it can be reached.
    pub nid: Nid,
}

/// A message between two nodes.
#[derive(Debug)]
pub struct Packet {
    from: usize,
    ni: NiIndex,
    op: OpKey,
    /// Its LNet header.
    pub header: Header,
    bytes: Vec<u8>,
    to: Nid,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It arrives; for the sender it has left.
    Deliver,
    /// For the sender it has left, but it does not arrive.
    Lose,
    /// The sender gets the failure.
    Fail,
}

/// Shards connected by perfect wires.
#[derive(Debug, Default)]
pub struct Net {
    /// The nodes.
    pub nodes: Vec<TestNode>,
    /// Messages on their way.
    pub packets: VecDeque<Packet>,
    parked: Vec<((NiIndex, RxId), usize, Packet)>,
    next_rx: u64,
}

/// The NID of node `index` in a [`Net`]: 10.0.0.(index + 1)@tcp.
pub fn test_nid(index: usize) -> Nid {
    Nid::new4(NetId::TCP, 0x0a00_0001 + index as u32)
}

/// A topology of one interface with LNet's default credits.
pub fn test_topology(nid: Nid, identity: Identity, tunables: Tunables) -> Topology {
    let (credits, peer_credits) = (tunables.credits as u32, tunables.peer_credits as u32);
    Topology {
        nis: [Ni { nid, credits, peer_credits }].into_iter().collect(),
        identity,
        incarnation: 0x17a0_0000_0000_0000 | (u64::from(nid.addr4().unwrap_or(1)) << 8),
        hash_seed: 0x5eed,
        cpt: 0,
        cpts: 1,
        tunables,
    }
}

impl Net {
    /// `count` nodes of the node identity with the same tunables.
    pub fn new(count: usize, tunables: &Tunables) -> Net {
        let mut net = Net::default();
        for index in 0..count {
            net.add(test_topology(test_nid(index), Identity::Node, tunables.clone()));
        }
        net
    }

    /// Adds a node.
    pub fn add(&mut self, topology: Topology) -> usize {
        let nid = topology.nis[NiIndex(0)].nid;
        let mut memory = VecMemory::default();
        let shard = Shard::new(topology, &mut memory);
        self.nodes.push(TestNode { shard, memory, nid });
        self.nodes.len() - 1
    }

    /// Lets every core work until none has anything to do; new messages join `packets`.
    pub fn settle(&mut self, now: Time) {
        loop {
            let mut busy = false;
            for index in 0..self.nodes.len() {
                let node = &mut self.nodes[index];
                node.shard.drive(now, &mut node.memory);
                busy |= node.shard.has_own_work();
                while let Some(action) = self.nodes[index].shard.next_action() {
                    busy = true;
                    self.act(now, index, action);
                }
            }
            if !busy {
                return;
            }
        }
    }

    fn act(&mut self, now: Time, index: usize, action: Action) {
        match action {
            Action::Send(send) => {
                let node = &self.nodes[index];
                let mut bytes = Vec::new();
                for span in &send.payload {
                    let start = bytes.len();
                    bytes.resize(start + span.len as usize, 0);
                    node.memory.read(*span, &mut bytes[start..]);
                }
                assert_eq!(bytes.len() as u32, send.header.payload_len);
                let (op, header, to) = (send.op, send.header, send.to.nid);
                let ni = send.ni;
                self.packets.push_back(Packet { from: index, ni, op, header, bytes, to });
            }
            Action::Resume { ni, rx, verdict } => {
                let at = self.parked.iter().position(|(parked, _, _)| *parked == (ni, rx));
                let (_, at_node, packet) = self.parked.remove(at.expect("a parked message"));
                self.land(now, at_node, packet, verdict);
            }
            Action::Close { .. } => {}
        }
    }

    /// Decides the fate of packet `at`.
    pub fn deliver(&mut self, now: Time, at: usize, fate: Delivery) {
        let packet = self.packets.remove(at).expect("a packet at that place");
        let status = match fate {
            Delivery::Fail => Status::ConnectionLost,
            Delivery::Deliver | Delivery::Lose => Status::Ok,
        };
        self.nodes[packet.from].shard.done(now, packet.op, status);
        let has = |node: &TestNode| node.shard.topology().ni_of(&packet.to);
        let target = self.nodes.iter().position(|node| has(node).is_some());
        let (Delivery::Deliver, Some(target)) = (fate, target) else { return };
        let ni = has(&self.nodes[target]).expect("it was just found");
        let from = ProcessId { nid: packet.header.src.nid, pid: PID_LUSTRE };
        self.next_rx += 1;
        let arrival = Arrival { ni, from, rx: RxId(self.next_rx) };
        let verdict = self.nodes[target].shard.recv_header(now, arrival, &packet.header);
        if verdict == Verdict::Park {
            self.parked.push(((arrival.ni, arrival.rx), target, packet));
        } else {
            self.land(now, target, packet, verdict);
        }
    }

    fn land(&mut self, now: Time, at_node: usize, packet: Packet, verdict: Verdict) {
        let Verdict::Into { op, spans } = verdict else { return };
        let node = &mut self.nodes[at_node];
        store(&mut node.memory, &spans, &packet.bytes);
        node.shard.done(now, op, Status::Ok);
    }

    /// Takes an interface of a node away, as its driver would: what it holds for it fails.
    pub fn remove_ni(&mut self, now: Time, index: usize, ni: NiIndex) {
        self.nodes[index].shard.begin_ni_removal(now, ni);
        self.hand_over(now, index);
        self.lose(now, |packet| packet.from == index && packet.ni == ni);
        let here = self.parked.iter().filter(|(_, at, packet)| {
            *at == index && self.nodes[index].shard.topology().ni_of(&packet.to).is_none()
        });
        let here: Vec<_> = here.map(|(mark, ..)| *mark).collect();
        self.forget(index, &here);
        let node = &mut self.nodes[index];
        node.shard.finish_ni_removal(now, &mut node.memory, ni);
    }

    /// Has a node forget NIDs of others, with what its driver holds for them.
    pub fn remove_nids(&mut self, now: Time, index: usize, nids: &[Nid]) {
        self.nodes[index].shard.begin_nid_removal(now, nids);
        self.hand_over(now, index);
        self.lose(now, |packet| packet.from == index && nids.contains(&packet.to));
        let here = self
            .parked
            .iter()
            .filter(|(_, at, packet)| *at == index && nids.contains(&packet.header.src.nid));
        let here: Vec<_> = here.map(|(mark, ..)| *mark).collect();
        self.forget(index, &here);
        self.nodes[index].shard.finish_nid_removal(nids);
    }

    fn hand_over(&mut self, now: Time, index: usize) {
        while let Some(action) = self.nodes[index].shard.next_action() {
            self.act(now, index, action);
        }
    }

    fn lose(&mut self, now: Time, lost: impl Fn(&Packet) -> bool) {
        while let Some(at) = self.packets.iter().position(&lost) {
            self.deliver(now, at, Delivery::Fail);
            let from = (0..self.nodes.len()).find(|node| self.nodes[*node].shard.has_work());
            if let Some(from) = from {
                self.hand_over(now, from);
            }
        }
    }

    fn forget(&mut self, index: usize, lost: &[(NiIndex, RxId)]) {
        self.parked.retain(|(mark, ..)| !lost.contains(mark));
        lost.iter().for_each(|(ni, rx)| self.nodes[index].shard.forget(*ni, *rx));
    }

    /// Delivers everything, in order, until nothing moves any more.
    pub fn run(&mut self, now: Time) {
        self.settle(now);
        while !self.packets.is_empty() {
            self.deliver(now, 0, Delivery::Deliver);
            self.settle(now);
        }
    }

    /// Takes a node's events.
    pub fn events(&mut self, node: usize) -> Vec<Event> {
        core::iter::from_fn(|| self.nodes[node].shard.next_event()).collect()
    }
}

/// Stores the start of `bytes` in a fragment list.
fn store(memory: &mut VecMemory, spans: &Spans, bytes: &[u8]) {
    let mut at = 0;
    for span in spans {
        memory.write(*span, &bytes[at..at + span.len as usize]);
        at += span.len as usize;
    }
    assert!(total_len(spans) as usize <= bytes.len());
}
