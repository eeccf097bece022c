//! What the driver needs of the world: byte streams and memory. Production gives it non-blocking
//! sockets, the simulator gives it virtual ones; the driver sees no difference.

use core::net::{IpAddr, SocketAddr};

use lustrine_lnet::driver_report::StreamStats;
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::time::Nanos;

/// A stream; the number is never used for two streams in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SockId(pub u64);

/// Which source port a connection is dialled from [ACC-13].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourcePort {
    /// Any port the system gives: a userland peer.
    Any,
    /// 1023 downwards to 512: a node.
    Privileged,
}

/// Why a stream cannot be used (any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoError {
    /// Nothing listens there, or the host refused.
    Refused,
    /// This host has no way to the address: nothing was sent.
    Unreachable,
    /// The host at the address does not answer, or a router on the way says so.
    HostUnreachable,
    /// The stream was reset or broke.
    Reset,
    /// The system's own time-out.
    TimedOut,
    /// This process may not bind a privileged port.
    NoPrivilege,
    /// No free port, descriptor or memory.
    Exhausted,
    /// Anything else.
    Other,
}

/// What a read or write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoOutcome {
    /// This many bytes were moved, at least 1. Fewer than asked for means that the stream had no
    /// more (or no room for more): the next readiness report comes by itself.
    Bytes(usize),
    /// Nothing now; a readiness report will come.
    WouldBlock,
    /// End of stream (read only).
    Closed,
    /// The stream is broken.
    Failed(IoError),
}

/// A piece to write.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Bytes of the driver's own.
    Bytes(&'a [u8]),
    /// Payload.
    Span(Span),
}

/// How to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// The system copies; the memory is free when the call returns.
    Copy,
    /// The system may keep referring to the memory until it reports
    /// [`Readiness::zero_copy_done`] for this call.
    ZeroCopy,
}

/// Streams and memory. All calls return at once.
pub trait Io: Memory {
    /// Starts a connection. Its end is reported as readiness: writable, or failed.
    ///
    /// # Errors
    /// When it fails at once.
    fn connect(
        &mut self,
        local: Option<IpAddr>,
        source: SourcePort,
        remote: SocketAddr,
    ) -> Result<SockId, IoError>;

    /// After a connect: whether the stream is open.
    ///
    /// # Errors
    /// Why it is not.
    fn connected(&mut self, sock: SockId) -> Result<(), IoError>;

    /// Fills `spans` first, then `tail`, as far as bytes are there.
    fn read(&mut self, sock: SockId, spans: &[Span], tail: &mut [u8]) -> IoOutcome;

    /// Writes pieces in order, as far as there is room.
    fn write(&mut self, sock: SockId, pieces: &[Piece<'_>], mode: WriteMode) -> IoOutcome;

    /// Closes and forgets a stream. With bytes unread or unsent the peer may see a reset.
    ///
    /// Memory of [`WriteMode::ZeroCopy`] writes that were not reported as done is free when this
    /// returns: a stream that has such writes is aborted, not closed in order. No report about the
    /// stream follows.
    fn close(&mut self, sock: SockId);

    /// Whether anything was heard from the other side's TCP, be it data or an acknowledgement, in
    /// the last `within`. For a stream that broke the answer is `false`.
    fn responds(&mut self, sock: SockId, within: Nanos) -> bool;

    /// Bytes that were written to the stream and that the other side's TCP has not acknowledged,
    /// whether or not they have left. A stream that broke has more than any other.
    fn unacknowledged(&self, sock: SockId) -> u64;

    /// What the system counts of a stream; `None` if it does not, or the stream broke.
    fn stream_stats(&self, _sock: SockId) -> Option<StreamStats> {
        None
    }

    /// Continues a CRC-32 [FRM-8] over payload.
    fn crc(&self, state: u32, span: Span) -> u32;
}

/// A report about a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Bytes, or the end of the stream, can be read.
    pub readable: bool,
    /// There is room to write, or a connect has ended.
    pub writable: bool,
    /// The other side closed its half, or the stream broke.
    pub hangup: bool,
    /// How many [`WriteMode::ZeroCopy`] writes, oldest first, no longer use their memory.
    pub zero_copy_done: u32,
    /// How many of such writes the system says it has copied after all, whether or not they are
    /// among those that are done.
    pub zero_copy_copied: u32,
}
