//! What the cases of the suite have in common: messages with known bytes, and what became of them.

use lustrine_lnet::lnd::{LinkEvent, NiIndex, OpKey, SendAction};
use lustrine_lnet::memory::{Memory, Spans};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::nid::ProcessId;

use crate::model::{ModelCore, PlannedVerdict, Received};
use crate::testbed::{Command, Setup, StopKind, Testbed, nid_of};

/// The four types of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Get,
    Ack,
    Reply,
}

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    /// By interface of both nodes.
    pub(crate) ni: usize,
    pub(crate) from: usize,
    pub(crate) to: ProcessId,
    pub(crate) key: u64,
    pub(crate) len: u32,
    /// Most bytes of each of its spans.
    pub(crate) piece: u32,
    /// How long the driver may take.
    pub(crate) patience: Nanos,
}

impl Message {
    /// A PUT from node `from` to node `to` by their first interfaces.
    pub(crate) fn put(from: usize, to: usize, key: u64, len: u32) -> Message {
        Message {
            kind: Kind::Put,
            ni: 0,
            from,
            to: process(to, 0),
            key,
            len,
            piece: u32::MAX,
            patience: Nanos::from_secs(100),
        }
    }

    /// The same by other interfaces.
    pub(crate) fn by(self, ni: usize, to: usize) -> Message {
        Message { ni, to: process(to, ni), ..self }
    }
}

/// A node on a network.
pub(crate) fn process(node: usize, net: usize) -> ProcessId {
    ProcessId::lustre(nid_of(node, net))
}

/// The payload of a message.
pub(crate) fn payload(key: u64, len: u32) -> Vec<u8> {
    let byte = |at: u64| (at ^ (at >> 8).wrapping_mul(7) ^ key.wrapping_mul(31)) as u8;
    (0..u64::from(len)).map(byte).collect()
}

fn spans(memory: &mut dyn Memory, len: u32, piece: u32) -> Spans {
    let (mut left, mut spans) = (len, Spans::new());
    while left != 0 {
        let span = memory.alloc(left.min(piece)).expect("memory for a test");
        left -= span.len;
        spans.push(span);
    }
    spans
}

fn filled(memory: &mut dyn Memory, key: u64, len: u32, piece: u32) -> Spans {
    let (spans, bytes) = (spans(memory, len, piece), payload(key, len));
    let mut at = 0;
    for span in &spans {
        memory.write(*span, &bytes[at..at + span.len as usize]);
        at += span.len as usize;
    }
    spans
}

/// A testbed, and the nodes of it that run.
pub(crate) struct World<T> {
    pub(crate) bed: T,
    running: Vec<bool>,
}

impl<T: Testbed> World<T> {
    pub(crate) fn new(setup: &Setup) -> World<T> {
        World { bed: T::new(setup), running: vec![true; setup.nodes] }
    }

    pub(crate) fn run(&mut self, length: Nanos) {
        let end = self.bed.now() + length;
        self.bed.run_until(end);
    }

    /// Lets so much time pass that everything has arrived that can.
    pub(crate) fn settle(&mut self) {
        self.run(Nanos::from_secs(1));
    }

    pub(crate) fn core<V>(&mut self, node: usize, act: impl FnOnce(&mut ModelCore) -> V) -> V {
        self.bed.with(node, 0, |core, _| act(core))
    }

    pub(crate) fn command(&mut self, node: usize, command: Command) {
        self.bed.command(node, command);
    }

    /// Memory of a node for a message to come, in pieces of at most so many bytes.
    pub(crate) fn sink(&mut self, node: usize, len: u32, piece: u32) -> PlannedVerdict {
        PlannedVerdict::Into(self.bed.with(node, 0, |_, memory| spans(memory, len, piece)))
    }

    /// Memory of a node with the payload of a message, in pieces of at most so many bytes.
    pub(crate) fn source(&mut self, node: usize, key: u64, len: u32, piece: u32) -> Spans {
        self.bed.with(node, 0, |_, memory| filled(memory, key, len, piece))
    }

    /// Has a node store the first bytes of the next message of a key.
    pub(crate) fn expect(&mut self, node: usize, key: u64, len: u32) {
        let plan = self.sink(node, len, u32::MAX);
        self.core(node, |core| core.plan(key, plan));
    }

    /// Has a node do something else with it.
    pub(crate) fn plan(&mut self, node: usize, key: u64, plan: PlannedVerdict) {
        self.core(node, |core| core.plan(key, plan));
    }

    pub(crate) fn send(&mut self, message: Message) -> OpKey {
        let Message { kind, ni, from, to, key, len, piece, patience } = message;
        let deadline = self.bed.now() + patience;
        self.bed.with(from, 0, |core, memory| {
            let spans = filled(memory, key, len, piece);
            let header = header(kind, process(from, ni), to, key, len);
            let ni = NiIndex(ni as u16);
            core.start(|op| SendAction { op, ni, to, header, payload: spans, deadline })
        })
    }

    /// Sends a message that the other node stores whole.
    pub(crate) fn send_expected(&mut self, message: Message, to: usize) -> OpKey {
        self.expect(to, message.key, message.len);
        self.send(message)
    }

    pub(crate) fn status(&mut self, node: usize, op: OpKey) -> Option<Status> {
        self.core(node, |core| core.status(op))
    }

    /// When a message ended.
    pub(crate) fn ended_at(&mut self, node: usize, op: OpKey) -> Option<Time> {
        let found = |core: &mut ModelCore| core.ended.iter().find(|ended| ended.op == op).copied();
        self.core(node, found).map(|ended| ended.at)
    }

    /// What a node has received, as keys.
    pub(crate) fn keys(&mut self, node: usize) -> Vec<u64> {
        self.core(node, |core| core.received.iter().map(|received| received.key).collect())
    }

    /// The only message of a key that a node has received.
    pub(crate) fn received(&mut self, node: usize, key: u64) -> Received {
        let of_key = |core: &mut ModelCore| -> Vec<Received> {
            core.received.iter().filter(|received| received.key == key).cloned().collect()
        };
        let mut found = self.core(node, of_key);
        assert_eq!(found.len(), 1, "message {key} arrived {} times", found.len());
        found.remove(0)
    }

    /// A node has stored the first `len` bytes of a message of `sent` bytes.
    pub(crate) fn assert_stored(&mut self, node: usize, key: u64, sent: u32, len: u32) {
        let received = self.received(node, key);
        assert_eq!(received.status, Some(Status::Ok), "message {key}");
        assert_eq!(received.header.payload_len, sent, "message {key}");
        let expected = &payload(key, sent)[..len as usize];
        let stored = received.bytes.expect("it was stored");
        assert!(stored == expected, "message {key} is not what was sent");
    }

    /// Sends a message and sees that it arrives: the connection is of use.
    pub(crate) fn assert_passes(&mut self, message: Message, to: usize) {
        let op = self.send_expected(message, to);
        self.run(Nanos::from_secs(10));
        assert_eq!(self.status(message.from, op), Some(Status::Ok), "message {}", message.key);
        self.assert_stored(to, message.key, message.len, message.len);
    }

    /// The link events of a node about its connections with a peer.
    pub(crate) fn events(&mut self, node: usize, peer: ProcessId) -> Vec<LinkEvent> {
        self.core(node, |core| {
            let links = core.links.iter().filter(|link| link.peer == peer);
            links.map(|link| link.event).collect()
        })
    }

    pub(crate) fn stop(&mut self, node: usize, kind: StopKind) {
        self.running[node] = false;
        self.bed.stop(node, kind);
    }

    pub(crate) fn sever(&mut self, node: usize) {
        self.bed.sever(node);
    }

    pub(crate) fn heal(&mut self, node: usize) {
        self.bed.heal(node);
    }

    pub(crate) fn start(&mut self, node: usize) {
        self.running[node] = true;
        self.bed.start(node);
    }

    /// Every message has ended, exactly once: the model panics at a second end.
    pub(crate) fn finish(&mut self) {
        for node in (0..self.running.len()).filter(|node| self.running[*node]).collect::<Vec<_>>() {
            let (open, parked) = self.core(node, |core| (core.open_ops(), core.parked()));
            assert_eq!(open, 0, "messages of node {node} that never end");
            assert!(parked.is_empty(), "node {node} has parked messages left: {parked:?}");
        }
    }
}

fn header(kind: Kind, src: ProcessId, dst: ProcessId, key: u64, len: u32) -> Header {
    let md = MdHandle { interface: 1, object: key };
    let body = match kind {
        Kind::Put => {
            Body::Put { ack_md: md, match_bits: key, hdr_data: !key, portal: 30, offset: 0 }
        }
        Kind::Get => {
            Body::Get { return_md: md, match_bits: key, portal: 30, offset: 0, sink_len: 4096 }
        }
        Kind::Ack => Body::Ack { md, match_bits: key, mlength: 0 },
        Kind::Reply => Body::Reply { md },
    };
    Header { dst, src, payload_len: len, body }
}
