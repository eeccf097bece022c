//! Streams between two hosts that move bytes immediately and do nothing else.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use lustrine_lnet::memory::VecMemory;
use lustrine_lnet::memory::{HasMemory, Memory, Span};
use lustrine_lnet::time::Nanos;
use lustrine_socklnd::io::{
    Io, IoError, IoOutcome, Piece, Readiness, SockId, SourcePort, WriteMode,
};
use lustrine_wire::crc;
use lustrine_wire::nid::{Net, Nid};

/// Bytes that a stream holds before its writer has to wait.
const WINDOW: usize = 4 << 20;

/// The NID of a host.
pub(crate) fn nid(host: usize) -> Nid {
    Nid::new4(Net::TCP, 0x0a00_0001 + host as u32)
}

/// One end of a stream; the other has the number with the last bit flipped.
#[derive(Debug)]
struct End {
    host: usize,
    inbox: VecDeque<u8>,
    /// A report is pending, so that another one is not needed.
    reported: bool,
    /// The other end waits for room.
    starved: bool,
}

/// An incoming stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) sock: SockId,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

/// All streams.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    ends: Vec<End>,
    pub(crate) incoming: [VecDeque<Incoming>; 2],
    pub(crate) reports: [VecDeque<(SockId, Readiness)>; 2],
}

impl Pipes {
    fn report(&mut self, sock: usize, readiness: Readiness) {
        let host = self.ends[sock].host;
        self.reports[host].push_back((SockId(sock as u64), readiness));
    }

    /// The next report for a host.
    pub(crate) fn next_report(&mut self, host: usize) -> Option<(SockId, Readiness)> {
        let (sock, readiness) = self.reports[host].pop_front()?;
        self.ends[sock.0 as usize].reported = false;
        Some((sock, readiness))
    }
}

/// The network as the driver of a host sees it.
#[derive(Debug)]
pub(crate) struct PipeIo<'a> {
    pub(crate) host: usize,
    pub(crate) pipes: &'a mut Pipes,
    pub(crate) memory: &'a mut VecMemory,
}

impl HasMemory for PipeIo<'_> {
    type Inner = VecMemory;

    fn memory(&self) -> &VecMemory {
        self.memory
    }

    fn memory_mut(&mut self) -> &mut VecMemory {
        self.memory
    }
}

impl Io for PipeIo<'_> {
    fn connect(
        &mut self,
        _local: Option<IpAddr>,
        _source: SourcePort,
        remote: SocketAddr,
    ) -> Result<SockId, IoError> {
        let near = self.pipes.ends.len();
        for host in [self.host, 1 - self.host] {
            let inbox = VecDeque::new();
            self.pipes.ends.push(End { host, inbox, reported: false, starved: false });
        }
        let ip = nid(self.host).ip().expect("an IP network");
        let local = SocketAddr::new(ip, 1023 - near as u16 / 2);
        let far = SockId(near as u64 + 1);
        let incoming = Incoming { sock: far, local: remote, remote: local };
        self.pipes.incoming[1 - self.host].push_back(incoming);
        self.pipes.report(near, Readiness { writable: true, ..Readiness::default() });
        Ok(SockId(near as u64))
    }

    fn connected(&mut self, _sock: SockId) -> Result<(), IoError> {
        Ok(())
    }

    fn read(&mut self, sock: SockId, spans: &[Span], tail: &mut [u8]) -> IoOutcome {
        let index = sock.0 as usize;
        let inbox = &mut self.pipes.ends[index].inbox;
        if inbox.is_empty() {
            return IoOutcome::WouldBlock;
        }
        let mut moved = 0;
        for span in spans {
            let len = (span.len as usize).min(inbox.len());
            let bytes = &inbox.make_contiguous()[..len];
            self.memory.write(*span, bytes);
            inbox.drain(..len);
            moved += len;
        }
        let len = tail.len().min(inbox.len());
        tail[..len].copy_from_slice(&inbox.make_contiguous()[..len]);
        inbox.drain(..len);
        if std::mem::take(&mut self.pipes.ends[index].starved) {
            self.pipes.report(index ^ 1, Readiness { writable: true, ..Readiness::default() });
        }
        IoOutcome::Bytes(moved + len)
    }

    fn write(&mut self, sock: SockId, pieces: &[Piece<'_>], _mode: WriteMode) -> IoOutcome {
        let other = sock.0 as usize ^ 1;
        let end = &mut self.pipes.ends[other];
        let before = end.inbox.len();
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => end.inbox.extend(*bytes),
                Piece::Span(span) => {
                    let mut bytes = [0; 4096];
                    for at in (0..span.len).step_by(bytes.len()) {
                        let len = (span.len - at).min(bytes.len() as u32);
                        self.memory.read(span.part(at, len), &mut bytes[..len as usize]);
                        end.inbox.extend(&bytes[..len as usize]);
                    }
                }
            }
        }
        assert!(end.inbox.len() <= WINDOW, "the other side does not read");
        let moved = end.inbox.len() - before;
        if !std::mem::replace(&mut end.reported, true) {
            self.pipes.report(other, Readiness { readable: true, ..Readiness::default() });
        }
        IoOutcome::Bytes(moved)
    }

    fn close(&mut self, sock: SockId) {
        panic!("{sock:?} is closed: nothing here goes wrong");
    }

    fn responds(&mut self, _sock: SockId, _within: Nanos) -> bool {
        true
    }

    fn unacknowledged(&self, sock: SockId) -> u64 {
        self.pipes.ends[sock.0 as usize ^ 1].inbox.len() as u64
    }

    fn crc(&self, state: u32, span: Span) -> u32 {
        let mut bytes = vec![0; span.len as usize];
        self.memory.read(span, &mut bytes);
        crc::update(state, &bytes)
    }
}
