//! Scripted peers, which send any bytes.

use core::any::Any;
use core::net::SocketAddr;

use lustrine_lnet::time::Time;
use lustrine_socklnd::io::{IoError, Readiness, SockId};

use crate::memory::Rope;
pub use crate::network::StreamEnd;
use crate::network::{Chunking, HostId, Incoming, Network, Offer};

/// The behaviour of a scripted peer.
///
/// A closure over a [`ScriptIo`] is a script, too.
pub trait Script: Any {
    /// An event on one of its streams, its alarm, or its start.
    fn act(&mut self, io: &mut ScriptIo<'_>);

    /// When it wants to act even without an event.
    fn alarm(&self) -> Time {
        Time::NEVER
    }
}

impl<F: FnMut(&mut ScriptIo<'_>) + 'static> Script for F {
    fn act(&mut self, io: &mut ScriptIo<'_>) {
        self(io);
    }
}

/// A scripted peer's access to its streams.
#[derive(Debug)]
pub struct ScriptIo<'a> {
    pub(crate) host: HostId,
    pub(crate) network: &'a mut Network,
}

impl ScriptIo<'_> {
    /// The time.
    pub fn now(&self) -> Time {
        self.network.now()
    }

    /// Accepts streams at an address of this host.
    pub fn listen(&mut self, address: SocketAddr) {
        self.network.listen(self.host, address);
    }

    /// Refuses streams there again.
    pub fn unlisten(&mut self, address: SocketAddr) {
        self.network.unlisten(address);
    }

    /// Dials from any address and port.
    pub fn dial(&mut self, local: SocketAddr, remote: SocketAddr) -> SockId {
        self.network.dial_from(self.host, local, remote)
    }

    /// Whether a dialled stream is open.
    ///
    /// # Errors
    /// Why it is not open; [`IoError::Other`] while the answer is on its way.
    pub fn connected(&self, sock: SockId) -> Result<(), IoError> {
        self.network.connected(sock)
    }

    /// The next stream that arrived at a listener.
    pub fn next_incoming(&mut self) -> Option<Incoming> {
        self.network.next_incoming(self.host)
    }

    /// The next report about a stream.
    pub fn next_report(&mut self) -> Option<(SockId, Readiness)> {
        self.network.next_report(self.host).map(|(sock, report)| (sock, report.readiness))
    }

    /// Everything that can be read.
    pub fn read(&mut self, sock: SockId) -> Vec<u8> {
        self.read_up_to(sock, usize::MAX)
    }

    /// The bytes that can be read, up to this number.
    pub fn read_up_to(&mut self, sock: SockId, most: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Offer::Bytes(len) =
            self.network.readable(sock, most - bytes.len(), Chunking::Whole)
        {
            let start = bytes.len();
            bytes.resize(start + len, 0);
            self.network.take(sock, len).read(&mut bytes[start..]);
            if bytes.len() == most {
                break;
            }
        }
        bytes
    }

    /// Writes as much as there is room for, and returns the number of bytes.
    pub fn write(&mut self, sock: SockId, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            match self.network.writable(sock, bytes.len() - written, Chunking::Whole) {
                Offer::Bytes(len) => {
                    self.network.send(sock, Rope::from_bytes(&bytes[written..written + len]));
                    written += len;
                }
                Offer::WouldBlock | Offer::Closed | Offer::Failed(_) => break,
            }
        }
        written
    }

    /// How the other side ended the stream, if it has and everything was read.
    pub fn ended(&mut self, sock: SockId) -> Option<StreamEnd> {
        self.network.how_ended(sock)
    }

    /// Closes this half only.
    pub fn finish(&mut self, sock: SockId) {
        self.network.finish(sock);
    }

    /// Closes the stream.
    pub fn close(&mut self, sock: SockId) {
        self.network.close(sock);
    }

    /// Resets the stream.
    pub fn reset(&mut self, sock: SockId) {
        self.network.abort(sock);
    }

    /// Local and remote address of a stream.
    pub fn addresses(&self, sock: SockId) -> Option<(SocketAddr, SocketAddr)> {
        self.network.addresses(sock)
    }

    /// All streams of this host.
    pub fn streams(&self) -> Vec<SockId> {
        self.network.streams_of(self.host)
    }
}
