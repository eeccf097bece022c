//! The partition's view of its surroundings: one host's access to the network, and its memory.

use core::net::{IpAddr, SocketAddr};

use lustrine_lnet::memory::{HasMemory, Memory, Span, total_len};
use lustrine_lnet::time::Nanos;
use lustrine_socklnd::io::{Io, IoError, IoOutcome, Piece, SockId, SourcePort, WriteMode};
use lustrine_wire::crc;

use crate::memory::{Rope, RopeMemory};
use crate::network::{HostId, Lent, Network, Offer};

/// Streams and memory of one host, for the duration of one call.
#[derive(Debug)]
pub struct VirtualIo<'a> {
    pub(crate) host: HostId,
    /// The partition that makes the call.
    pub(crate) cpt: u16,
    pub(crate) network: &'a mut Network,
    pub(crate) memory: &'a mut RopeMemory,
}

impl HasMemory for VirtualIo<'_> {
    type Inner = RopeMemory;

    fn memory(&self) -> &RopeMemory {
        self.memory
    }

    fn memory_mut(&mut self) -> &mut RopeMemory {
        self.memory
    }
}

impl Io for VirtualIo<'_> {
    fn connect(
        &mut self,
        local: Option<IpAddr>,
        source: SourcePort,
        remote: SocketAddr,
    ) -> Result<SockId, IoError> {
        let sock = self.network.connect(self.host, local, source, remote)?;
        self.network.give_to(sock, self.cpt);
        Ok(sock)
    }

    fn connected(&mut self, sock: SockId) -> Result<(), IoError> {
        self.network.connected(sock)
    }

    fn read(&mut self, sock: SockId, spans: &[Span], tail: &mut [u8]) -> IoOutcome {
        let asked = total_len(spans) as usize + tail.len();
        assert_ne!(asked, 0, "a read of nothing");
        let cut = self.network.chunking_of(sock);
        let len = match self.network.readable(sock, asked, cut) {
            Offer::Bytes(len) => len,
            Offer::WouldBlock => return IoOutcome::WouldBlock,
            Offer::Closed => return IoOutcome::Closed,
            Offer::Failed(error) => return IoOutcome::Failed(error),
        };
        let mut left = len;
        for span in spans {
            let take = left.min(span.len as usize);
            if take != 0 {
                let bytes = self.network.take(sock, take);
                self.memory.put(*span, &bytes);
                left -= take;
            }
        }
        if left != 0 {
            self.network.take(sock, left).read(&mut tail[..left]);
            self.network.watch_read(sock, &tail[..left]);
        }
        IoOutcome::Bytes(len)
    }

    fn write(&mut self, sock: SockId, pieces: &[Piece<'_>], mode: WriteMode) -> IoOutcome {
        let asked = pieces.iter().map(|piece| match piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Span(span) => span.len as usize,
        });
        let asked: usize = asked.sum();
        assert_ne!(asked, 0, "a write of nothing");
        let cut = self.network.chunking_of(sock);
        let len = match self.network.writable(sock, asked, cut) {
            Offer::Bytes(len) => len,
            Offer::WouldBlock => return IoOutcome::WouldBlock,
            Offer::Closed => return IoOutcome::Failed(IoError::Reset),
            Offer::Failed(error) => return IoOutcome::Failed(error),
        };
        let (mut bytes, mut lent) = (Rope::default(), Vec::new());
        for piece in pieces {
            let left = len - bytes.len() as usize;
            match piece {
                Piece::Bytes(own) => {
                    assert_eq!(mode, WriteMode::Copy, "the driver reuses its own bytes: copy them");
                    let part = &own[..own.len().min(left)];
                    self.network.watch_write(self.host, sock, part);
                    bytes.append(Rope::from_bytes(part));
                }
                Piece::Span(span) => {
                    let part = span.part(0, span.len.min(left as u32));
                    bytes.append(self.memory.rope(part));
                    if mode == WriteMode::ZeroCopy {
                        let digest = self.memory.digest(part).expect("a span that is alive");
                        lent.push(Lent { span: part, digest });
                    }
                }
            }
        }
        self.network.send(sock, bytes);
        if mode == WriteMode::ZeroCopy {
            self.network.pin(sock, lent);
        }
        IoOutcome::Bytes(len)
    }

    fn close(&mut self, sock: SockId) {
        self.network.close(sock);
    }

    fn responds(&mut self, sock: SockId, _within: Nanos) -> bool {
        self.network.responds(sock)
    }

    fn unacknowledged(&self, sock: SockId) -> u64 {
        self.network.unacknowledged(sock)
    }

    fn crc(&self, state: u32, span: Span) -> u32 {
        let mut bytes = vec![0; span.len as usize];
        self.memory.read(span, &mut bytes);
        crc::update(state, &bytes)
    }
}
