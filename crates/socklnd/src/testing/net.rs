//! Streams and memory of the doubles.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use lustrine_lnet::memory::{self, Span, Words};
use lustrine_lnet::time::Nanos;
use lustrine_wire::crc;

use crate::io::{Io, IoError, IoOutcome, Piece, Readiness, SockId, SourcePort, WriteMode};

/// Memory shared by a node's streams and its core.
#[derive(Debug, Default)]
pub(crate) struct TestMemory {
    regions: Vec<Option<Vec<u8>>>,
}

impl TestMemory {
    pub(crate) fn bytes(&self, span: Span) -> &[u8] {
        let region = self.regions[span.region as usize].as_ref().expect("span was freed");
        &region[span.offset as usize..][..span.len as usize]
    }

    fn bytes_mut(&mut self, span: Span) -> &mut [u8] {
        let region = self.regions[span.region as usize].as_mut().expect("span was freed");
        &mut region[span.offset as usize..][..span.len as usize]
    }

    pub(crate) fn alloc(&mut self, len: u32) -> Span {
        self.regions.push(Some(vec![0xee; len as usize]));
        Span { region: self.regions.len() as u32 - 1, offset: 0, len }
    }

    pub(crate) fn filled(&mut self, bytes: &[u8]) -> Span {
        let span = self.alloc(bytes.len() as u32);
        self.bytes_mut(span).copy_from_slice(bytes);
        span
    }

    pub(crate) fn free(&mut self, span: Span) {
        let region = self.regions[span.region as usize].take();
        assert!(region.is_some(), "freed twice");
    }
}

pub(crate) type Memory = Rc<RefCell<TestMemory>>;

/// The faults of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chaos {
    /// Whatever fits is moved at once.
    None,
    /// Every read and write moves a random part, or nothing.
    Chunks,
}

#[derive(Debug, Default)]
struct End {
    node: Option<usize>,
    other: Option<SockId>,
    inbox: VecDeque<u8>,
    /// The other side closed its half; what is in the inbox can still be read.
    fin: bool,
    reset: bool,
    /// Its host acknowledges no bytes any more.
    mute: bool,
    connect: Option<Result<(), IoError>>,
    /// Zero-copy writes whose memory the system still refers to: spans, and their contents.
    lent: VecDeque<Vec<(Span, Vec<u8>)>>,
    wants_room: bool,
}

/// A stream's end that was not yet taken from the listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) sock: SockId,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

#[derive(Debug)]
struct Inner {
    ends: BTreeMap<SockId, End>,
    /// The owner of a listener: a node, or the test itself.
    listeners: BTreeMap<SocketAddr, Option<usize>>,
    /// Where no connection request of a node arrives, and nothing answers.
    lost: BTreeSet<SocketAddr>,
    reports: BTreeMap<usize, VecDeque<(SockId, Readiness)>>,
    incoming: BTreeMap<Option<usize>, VecDeque<Incoming>>,
    next_sock: u64,
    next_port: u16,
    random: u64,
    chaos: Chaos,
    window: usize,
    writes: u64,
    reads: u64,
}

/// The network all doubles of one test share.
#[derive(Clone, Debug)]
pub(crate) struct Net(Rc<RefCell<Inner>>);

impl Net {
    pub(crate) fn new(seed: u64, chaos: Chaos) -> Net {
        Net(Rc::new(RefCell::new(Inner {
            ends: BTreeMap::new(),
            listeners: BTreeMap::new(),
            lost: BTreeSet::new(),
            reports: BTreeMap::new(),
            incoming: BTreeMap::new(),
            next_sock: 1,
            next_port: 0,
            random: seed,
            chaos,
            window: 256 * 1024,
            writes: 0,
            reads: 0,
        })))
    }

    /// How many bytes a stream holds before its writer has to wait.
    pub(crate) fn set_window(&self, window: usize) {
        self.0.borrow_mut().window = window;
    }

    /// Calls of `Io::write` and `Io::read` that moved bytes.
    pub(crate) fn calls(&self) -> (u64, u64) {
        let inner = self.0.borrow();
        (inner.writes, inner.reads)
    }

    pub(crate) fn listen(&self, address: SocketAddr, node: Option<usize>) {
        self.0.borrow_mut().listeners.insert(address, node);
    }

    /// Whether the network loses what nodes send to `address` to open a stream.
    pub(crate) fn lose_dials_to(&self, address: SocketAddr, lost: bool) {
        let set = &mut self.0.borrow_mut().lost;
        if lost {
            set.insert(address);
        } else {
            set.remove(&address);
        }
    }

    pub(crate) fn take_report(&self, node: usize) -> Option<(SockId, Readiness)> {
        self.0.borrow_mut().reports.get_mut(&node)?.pop_front()
    }

    pub(crate) fn take_incoming(&self, node: Option<usize>) -> Option<Incoming> {
        self.0.borrow_mut().incoming.get_mut(&node)?.pop_front()
    }

    /// A stream now belongs to another node: its reports go there, and what is there is reported.
    pub(crate) fn reassign(&self, sock: SockId, node: usize) {
        let mut inner = self.0.borrow_mut();
        inner.ends.get_mut(&sock).expect("an open stream").node = Some(node);
        inner.report(sock, Readiness { readable: true, writable: true, ..Readiness::default() });
    }

    /// The test itself dials.
    pub(crate) fn dial(&self, from: SocketAddr, to: SocketAddr) -> Option<SockId> {
        let mut inner = self.0.borrow_mut();
        inner.connect(None, from, to).ok()
    }

    /// The test writes to its end of a stream.
    pub(crate) fn say(&self, sock: SockId, bytes: &[u8]) {
        let mut inner = self.0.borrow_mut();
        let Some(other) = inner.ends.get(&sock).and_then(|end| end.other) else { return };
        inner.ends.get_mut(&other).expect("both ends live").inbox.extend(bytes);
        inner.report(other, Readiness { readable: true, ..Readiness::default() });
    }

    /// The test takes what its end of a stream has received.
    pub(crate) fn hear(&self, sock: SockId) -> Vec<u8> {
        let mut inner = self.0.borrow_mut();
        let bytes = match inner.ends.get_mut(&sock) {
            Some(end) => end.inbox.drain(..).collect(),
            None => Vec::new(),
        };
        inner.made_room(sock);
        bytes
    }

    /// Whether the other side has closed the test's stream.
    pub(crate) fn ended(&self, sock: SockId) -> bool {
        self.0.borrow().ends.get(&sock).is_none_or(|end| end.fin || end.reset)
    }

    /// The test closes its end.
    pub(crate) fn hang_up(&self, sock: SockId) {
        self.0.borrow_mut().close(sock);
    }

    /// The stream breaks: both ends see a reset, and what was in flight is lost.
    pub(crate) fn break_stream(&self, sock: SockId) {
        let mut inner = self.0.borrow_mut();
        let other = inner.ends.get(&sock).and_then(|end| end.other);
        for sock in [Some(sock), other].into_iter().flatten() {
            if let Some(end) = inner.ends.get_mut(&sock) {
                end.reset = true;
                end.inbox.clear();
                inner.report(sock, HANGUP);
            }
        }
    }

    /// The host of the test's end stops: its system acknowledges no bytes any more.
    pub(crate) fn mute(&self, sock: SockId) {
        let mut inner = self.0.borrow_mut();
        let other = inner.ends.get(&sock).and_then(|end| end.other);
        if let Some(end) = other.and_then(|other| inner.ends.get_mut(&other)) {
            end.mute = true;
        }
    }

    /// All streams that end at a node.
    pub(crate) fn streams_of(&self, node: usize) -> Vec<SockId> {
        let inner = self.0.borrow();
        let of_node = inner.ends.iter().filter(|(_, end)| end.node == Some(node));
        of_node.map(|(sock, _)| *sock).collect()
    }
}

const HANGUP: Readiness = Readiness {
    readable: true,
    writable: true,
    hangup: true,
    zero_copy_done: 0,
    zero_copy_copied: 0,
};

impl Inner {
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random >> 33
    }

    /// How much of `len` is moved; `None` is "would block".
    fn part(&mut self, len: usize) -> Option<usize> {
        if self.chaos == Chaos::None || len == 0 {
            return Some(len);
        }
        match self.random() % 8 {
            0 => None,
            1 => Some(1),
            2 => Some(len),
            _ => Some(1 + self.random() as usize % len),
        }
    }

    fn report(&mut self, sock: SockId, readiness: Readiness) {
        if let Some(node) = self.ends.get(&sock).and_then(|end| end.node) {
            self.reports.entry(node).or_default().push_back((sock, readiness));
        }
    }

    fn connect(
        &mut self,
        node: Option<usize>,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Result<SockId, IoError> {
        let near = SockId(self.next_sock);
        let far = SockId(self.next_sock + 1);
        self.next_sock += 2;
        if node.is_some() && self.lost.contains(&to) {
            self.ends.insert(near, End { node, ..End::default() });
            return Ok(near);
        }
        let Some(&listener) = self.listeners.get(&to) else {
            if node.is_none() {
                return Err(IoError::Refused);
            }
            let connect = Some(Err(IoError::Refused));
            self.ends.insert(near, End { node, connect, ..End::default() });
            self.report(near, HANGUP);
            return Ok(near);
        };
        let connect = Some(Ok(()));
        self.ends.insert(near, End { node, other: Some(far), connect, ..End::default() });
        self.ends.insert(far, End { node: listener, other: Some(near), ..End::default() });
        self.report(near, Readiness { writable: true, ..Readiness::default() });
        let incoming = Incoming { sock: far, local: to, remote: from };
        self.incoming.entry(listener).or_default().push_back(incoming);
        Ok(near)
    }

    fn close(&mut self, sock: SockId) {
        let Some(end) = self.ends.remove(&sock) else { return };
        if let Some(other) = end.other.and_then(|other| self.ends.get_mut(&other)) {
            other.other = None;
            if end.inbox.is_empty() {
                other.fin = true;
            } else {
                other.reset = true;
            }
            self.report(end.other.expect("it has one"), HANGUP);
        }
    }

    /// The inbox of `sock` has shrunk.
    fn made_room(&mut self, sock: SockId) {
        let Some(other) = self.ends.get(&sock).and_then(|end| end.other) else { return };
        let empty = self.ends[&sock].inbox.is_empty();
        let writer = self.ends.get_mut(&other).expect("both ends live");
        let wants_room = core::mem::take(&mut writer.wants_room);
        // What was written without copying is released once the other side has all of it.
        let done = if empty { writer.lent.len() as u32 } else { 0 };
        if wants_room || done != 0 {
            let readiness =
                Readiness { writable: true, zero_copy_done: done, ..Readiness::default() };
            self.report(other, readiness);
        }
    }
}

/// The system of a driver under test.
#[derive(Debug)]
pub(crate) struct TestIo {
    pub(crate) net: Net,
    pub(crate) node: usize,
    pub(crate) memory: Memory,
    pub(crate) ip: IpAddr,
    /// Whether privileged source ports may be bound.
    pub(crate) privileged: bool,
}

impl TestIo {
    pub(crate) fn new(net: &Net, node: usize, ip: IpAddr) -> TestIo {
        let memory = Memory::default();
        TestIo { net: net.clone(), node, memory, ip, privileged: true }
    }

    /// The system releases so many zero-copy writes; their memory must still be unchanged.
    pub(crate) fn check_released(&mut self, sock: SockId, count: u32) {
        let mut inner = self.net.0.borrow_mut();
        let Some(end) = inner.ends.get_mut(&sock) else { return };
        for _ in 0..count {
            for (span, held) in end.lent.pop_front().expect("as many writes as reports") {
                assert_eq!(self.memory.borrow().bytes(span), held, "memory changed while lent");
            }
        }
    }
}

impl memory::Memory for TestIo {
    fn alloc(&mut self, len: u32) -> Option<Span> {
        Some(self.memory.borrow_mut().alloc(len))
    }

    fn free(&mut self, span: Span) {
        self.memory.borrow_mut().free(span);
    }

    fn write(&mut self, span: Span, bytes: &[u8]) {
        let part = span.part(0, bytes.len() as u32);
        self.memory.borrow_mut().bytes_mut(part).copy_from_slice(bytes);
    }

    fn read(&self, span: Span, out: &mut [u8]) {
        let part = span.part(0, out.len() as u32);
        out.copy_from_slice(self.memory.borrow().bytes(part));
    }

    fn copy(&mut self, from: Span, to: Span) {
        let bytes = self.memory.borrow().bytes(from).to_vec();
        self.memory.borrow_mut().bytes_mut(to).copy_from_slice(&bytes);
    }

    fn fill_words(&mut self, span: Span, word: [u8; 8], _which: Words) {
        for chunk in self.memory.borrow_mut().bytes_mut(span).chunks_exact_mut(8) {
            chunk.copy_from_slice(&word);
        }
    }

    fn compare_words(&self, span: Span, word: [u8; 8], _which: Words) -> Result<(), u32> {
        let memory = self.memory.borrow();
        let wrong = memory.bytes(span).chunks_exact(8).position(|chunk| chunk != word);
        wrong.map_or(Ok(()), |index| Err(8 * index as u32))
    }
}

impl Io for TestIo {
    fn connect(
        &mut self,
        local: Option<IpAddr>,
        source: SourcePort,
        remote: SocketAddr,
    ) -> Result<SockId, IoError> {
        if source == SourcePort::Privileged && !self.privileged {
            return Err(IoError::NoPrivilege);
        }
        let mut inner = self.net.0.borrow_mut();
        let port = match source {
            SourcePort::Privileged => 1023 - inner.next_port % 512,
            SourcePort::Any => 40_000 + inner.next_port,
        };
        inner.next_port += 1;
        inner.connect(Some(self.node), SocketAddr::new(local.unwrap_or(self.ip), port), remote)
    }

    fn connected(&mut self, sock: SockId) -> Result<(), IoError> {
        let inner = self.net.0.borrow();
        let end = &inner.ends[&sock];
        if end.reset { Err(IoError::Reset) } else { end.connect.expect("a dialled stream") }
    }

    fn read(&mut self, sock: SockId, spans: &[Span], tail: &mut [u8]) -> IoOutcome {
        let mut inner = self.net.0.borrow_mut();
        let asked = memory::total_len(spans) as usize + tail.len();
        assert_ne!(asked, 0, "a read of nothing");
        let end = inner.ends.get(&sock).expect("read of an open stream");
        let available = asked.min(end.inbox.len());
        if available == 0 {
            return match (end.reset, end.fin) {
                (true, _) => IoOutcome::Failed(IoError::Reset),
                (_, true) => IoOutcome::Closed,
                _ => IoOutcome::WouldBlock,
            };
        }
        let part = inner.part(available);
        let len = part.unwrap_or(0);
        let end = inner.ends.get_mut(&sock).expect("it is open");
        let bytes: Vec<u8> = end.inbox.drain(..len).collect();
        let more = !end.inbox.is_empty() || end.fin || end.reset;
        let mut at = 0;
        for span in spans {
            let take = (span.len as usize).min(len - at);
            let part = span.part(0, take as u32);
            self.memory.borrow_mut().bytes_mut(part).copy_from_slice(&bytes[at..at + take]);
            at += take;
        }
        tail[..len - at].copy_from_slice(&bytes[at..]);
        if more && len < asked {
            inner.report(sock, Readiness { readable: true, ..Readiness::default() });
        }
        inner.made_room(sock);
        match part {
            Some(len) => {
                inner.reads += 1;
                IoOutcome::Bytes(len)
            }
            None => IoOutcome::WouldBlock,
        }
    }

    fn write(&mut self, sock: SockId, pieces: &[Piece<'_>], mode: WriteMode) -> IoOutcome {
        let mut inner = self.net.0.borrow_mut();
        let memory = self.memory.borrow();
        let end = &inner.ends[&sock];
        let (true, Some(other)) = (!end.reset, end.other) else {
            return IoOutcome::Failed(IoError::Reset);
        };
        let mut bytes = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Bytes(own) => {
                    assert_eq!(mode, WriteMode::Copy, "own bytes are reused, they must be copied");
                    bytes.extend_from_slice(own);
                }
                Piece::Span(span) => bytes.extend_from_slice(memory.bytes(*span)),
            }
        }
        assert!(!bytes.is_empty(), "a write of nothing");
        let room = inner.window.saturating_sub(inner.ends[&other].inbox.len());
        let full = room == 0;
        let part = if full { None } else { inner.part(bytes.len().min(room)) };
        let len = part.unwrap_or(0);
        if len < bytes.len() {
            if room > len {
                inner.report(sock, Readiness { writable: true, ..Readiness::default() });
            } else {
                inner.ends.get_mut(&sock).expect("it is open").wants_room = true;
            }
        }
        let Some(len) = part else { return IoOutcome::WouldBlock };
        if mode == WriteMode::ZeroCopy {
            let (mut lent, mut left) = (Vec::new(), len as u32);
            for piece in pieces {
                let Piece::Span(span) = piece else { unreachable!("checked above") };
                let part = span.part(0, span.len.min(left));
                left -= part.len;
                lent.push((part, memory.bytes(part).to_vec()));
            }
            inner.ends.get_mut(&sock).expect("it is open").lent.push_back(lent);
        }
        inner.writes += 1;
        inner.ends.get_mut(&other).expect("both ends live").inbox.extend(&bytes[..len]);
        inner.report(other, Readiness { readable: true, ..Readiness::default() });
        IoOutcome::Bytes(len)
    }

    fn close(&mut self, sock: SockId) {
        self.net.0.borrow_mut().close(sock);
    }

    fn responds(&mut self, sock: SockId, _within: Nanos) -> bool {
        let inner = self.net.0.borrow();
        inner.ends.get(&sock).is_some_and(|end| end.other.is_some() && !end.mute)
    }

    fn unacknowledged(&self, sock: SockId) -> u64 {
        let inner = self.net.0.borrow();
        let other = inner.ends.get(&sock).and_then(|end| inner.ends.get(&end.other?));
        other.map_or(0, |other| other.inbox.len() as u64)
    }

    fn crc(&self, state: u32, span: Span) -> u32 {
        crc::update(state, self.memory.borrow().bytes(span))
    }
}

impl TestIo {
    /// The address of a node for its driver and its peers.
    pub(crate) fn any_ip() -> IpAddr {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    }
}
