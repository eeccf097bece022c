//! One TCP connection.

use core::net::{IpAddr, SocketAddr};

use lustrine_lnet::lnd::NiIndex;
use lustrine_lnet::time::Time;
use lustrine_wire::hello::{ConnType, Hello, Version};
use lustrine_wire::nid::ProcessId;
use slotmap::SlotMap;

use crate::close_reason::Timeout;
use crate::config::Timing;
use crate::format::{Format, HEAD_MAX};
use crate::io::SockId;
use crate::keys::{ConnKey, PeerKey};
use crate::progress::Progress;
use crate::rx::Reader;
use crate::shares::Place;
use crate::tx::Tx;

pub(crate) type Conns = SlotMap<ConnKey, Conn>;

/// Longest input kept aside: a HELLO V1 with 16 IP addresses, or part of a head.
pub(crate) const INPUT_BUFFER_LEN: usize = 72 + 4 * 16;
const _: () = assert!(INPUT_BUFFER_LEN >= HEAD_MAX);

/// Thousands of idle connections are an ordinary load.
const _: () = assert!(size_of::<Conn>() <= 768);

/// From this payload on a message counts as large.
pub(crate) const LARGE: u32 = 16 * 1024;

/// A HELLO that waits while the connections of the claimed peer are tested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) id: ProcessId,
    pub(crate) hello: Hello,
    pub(crate) began: Time,
}

/// The state of a connection.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Accepted at this port; the connection request is awaited.
    Request(u16),
    /// Accepted; the HELLO is awaited.
    Hello,
    /// Accepted; the HELLO waits until the connections of the claimed peer are tested.
    Claim(Claim),
    /// Dialled; the stream is not open yet.
    Connecting(DialTarget),
    /// Dialled; request and HELLO are sent, the answer is awaited.
    Answer(DialTarget),
    /// Messages are exchanged.
    Open(Open),
    /// A last answer is written, then it is closed.
    Closing,
}

impl Phase {
    pub(crate) fn open_mut(&mut self) -> Option<&mut Open> {
        match self {
            Phase::Open(open) => Some(open),
            _ => None,
        }
    }
}

/// The purpose of a dialled connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DialTarget {
    pub(crate) peer: PeerKey,
    pub(crate) kind: ConnType,
    pub(crate) version: Version,
}

/// The state of an open connection.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) peer: PeerKey,
    pub(crate) reader: Reader,
    /// The source that replaces the one in every header, if the peer was renamed [USR-2].
    pub(crate) renamed: Option<ProcessId>,
    /// Bytes behind a parked message, at most one read's; empty and without memory otherwise.
    pub(crate) backlog: Vec<u8>,
    /// How many small messages arrived since the last large one, up to [`SMALL_RUN`].
    pub(crate) small_run: u8,
    /// When the last bytes arrived.
    pub(crate) last_received: Time,
    /// Bytes that have arrived in all.
    pub(crate) received: u64,
    /// Whether messages arrive, and leave, fast enough.
    pub(crate) rx_progress: Progress,
    pub(crate) tx_progress: Progress,
    /// When bytes last left while others waited, or began to wait.
    pub(crate) last_sent: Time,
    /// When it was last checked for eviction.
    pub(crate) looked_at: Time,
    /// When it was last chosen to send on, by a clock that counts choices.
    pub(crate) chosen: u64,
    /// Whether anything was given to it to send.
    pub(crate) has_sent: bool,
    /// The peer has dialled it beside another one of its type, and may find that it has too many:
    /// nothing is sent on it until then, or until something arrives on it [SOCK-21].
    pub(crate) surplus_until: Time,
}

/// After this many small messages in a row, a read takes many messages at once.
pub(crate) const SMALL_RUN: u8 = 2;

impl Open {
    pub(crate) fn new(peer: PeerKey, kind: ConnType, format: Format, now: Time) -> Open {
        // BULK connections expect large payloads from the start; the others small messages.
        let bulk = matches!(kind, ConnType::BulkIn | ConnType::BulkOut);
        Open {
            peer,
            reader: Reader::new(format),
            renamed: None,
            backlog: Vec::new(),
            small_run: if bulk { 0 } else { SMALL_RUN },
            last_received: now,
            received: 0,
            rx_progress: Progress::NONE,
            tx_progress: Progress::NONE,
            last_sent: now,
            looked_at: now,
            chosen: 0,
            has_sent: false,
            surplus_until: Time::ZERO,
        }
    }

    /// Whether the stream is read message by message, heads exactly and payload in place, instead
    /// of in large reads of many small messages.
    pub(crate) fn exact(&self) -> bool {
        self.small_run < SMALL_RUN
    }

    /// A message with so much payload arrived.
    pub(crate) fn note_payload_len(&mut self, payload_len: u32) {
        self.small_run = if payload_len >= LARGE { 0 } else { (self.small_run + 1).min(SMALL_RUN) };
    }
}

/// A few bytes of input that wait for more: part of a request, HELLO or head.
#[derive(Debug)]
pub(crate) struct InputBuffer {
    bytes: [u8; INPUT_BUFFER_LEN],
    len: u8,
}

impl InputBuffer {
    fn new() -> InputBuffer {
        InputBuffer { bytes: [0; INPUT_BUFFER_LEN], len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// Room for bytes up to `end`, counted from the first one held.
    pub(crate) fn room(&mut self, end: usize) -> &mut [u8] {
        let start = self.len();
        &mut self.bytes[start..end]
    }

    /// `len` bytes of the room were filled.
    pub(crate) fn filled(&mut self, len: usize) {
        self.len += len as u8;
        debug_assert!(self.len() <= INPUT_BUFFER_LEN);
    }

    /// The first `len` bytes were used.
    pub(crate) fn used(&mut self, len: usize) {
        let end = self.len();
        self.bytes.copy_within(len..end, 0);
        self.len -= len as u8;
    }

    /// Keeps `bytes`, which must fit; nothing is held.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        debug_assert_eq!(self.len, 0);
        self.room(bytes.len()).copy_from_slice(bytes);
        self.filled(bytes.len());
    }
}

/// Connections that arrived and have not finished their HELLO are limited; this mark makes each
/// leave the count exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Accepted,
    Dialled,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) sock: SockId,
    pub(crate) ni: NiIndex,
    pub(crate) origin: Origin,
    /// Its place among incoming handshakes or, once open, among those that peers dialled.
    pub(crate) place: Option<Place>,
    pub(crate) local: Option<IpAddr>,
    pub(crate) remote: SocketAddr,
    pub(crate) phase: Phase,
    /// When the handshake must be over.
    pub(crate) deadline: Time,
    /// How many bytes the handshake needs before it can get further.
    pub(crate) need: usize,
    pub(crate) input: InputBuffer,
    pub(crate) tx: Tx,
    /// Reported and not yet used: see [`Readiness`](crate::io::Readiness).
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) hangup: bool,
    /// Whether it is in the run queue.
    pub(crate) queued: bool,
}

impl Conn {
    pub(crate) fn new(
        sock: SockId,
        ni: NiIndex,
        origin: Origin,
        local: Option<IpAddr>,
        remote: SocketAddr,
        phase: Phase,
        deadline: Time,
    ) -> Conn {
        Conn {
            sock,
            ni,
            origin,
            place: None,
            local: local.map(|ip| ip.to_canonical()),
            remote,
            phase,
            deadline,
            need: 4,
            input: InputBuffer::new(),
            tx: Tx::default(),
            readable: false,
            writable: false,
            hangup: false,
            queued: false,
        }
    }

    /// Checks the progress of an open connection; called regularly.
    pub(crate) fn look(&mut self, now: Time, timing: &Timing) {
        let held = self.input.len();
        let (written, waiting) = (self.tx.written(), self.tx.waiting());
        let Phase::Open(open) = &mut self.phase else { return };
        let arriving = open.reader.remaining(held);
        open.rx_progress.look(now, open.received, arriving, timing);
        open.tx_progress.look(now, written, waiting, timing);
    }

    /// Why an open connection is to be closed: a message is in transit, and `now` is later than the
    /// time by which it should have moved.
    pub(crate) fn stall(&self, now: Time, timing: &Timing) -> Option<Timeout> {
        let open = self.open()?;
        let limit = now - timing.sock_timeout;
        let arriving = open.reader.remaining(self.input.len()) != 0;
        if arriving
            && (open.last_received < limit || open.rx_progress.is_too_slow(now, open.received))
        {
            return Some(Timeout::Receive);
        }
        let slow = open.last_sent < limit || open.tx_progress.is_too_slow(now, self.tx.written());
        (self.tx.waiting() != 0 && slow).then_some(Timeout::Send)
    }

    /// The other side's address; an IPv4-mapped IPv6 address counts as IPv4.
    pub(crate) fn remote_ip(&self) -> IpAddr {
        self.remote.ip().to_canonical()
    }

    pub(crate) fn open(&self) -> Option<&Open> {
        match &self.phase {
            Phase::Open(open) => Some(open),
            _ => None,
        }
    }

    /// Whether the stream ended for reading, or nothing is there now.
    ///
    /// A short count means that the stream was drained; but once the other side has hung up no
    /// further report will come, so the end must be read now.
    pub(crate) fn drained(&mut self, outcome_len: usize, asked: usize) {
        if outcome_len < asked && !self.hangup {
            self.readable = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hold_keeps_unused_bytes() {
        let mut input = InputBuffer::new();
        input.keep(b"abcdef");
        input.used(4);
        assert_eq!(input.bytes(), b"ef");
        input.room(5).copy_from_slice(b"ghi");
        input.filled(3);
        assert_eq!(input.bytes(), b"efghi");
        assert_eq!(input.room(INPUT_BUFFER_LEN).len(), INPUT_BUFFER_LEN - 5);
    }
}
