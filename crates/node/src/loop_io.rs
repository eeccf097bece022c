//! The driver's and the core's view of the world, made of real sockets and mapped memory.
//!
//! Public for those who put a driver on sockets without a node around it, as the lower rungs of the
//! speed ladder do (`examples/rungs`).

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use lustrine_lnet::driver_report::StreamStats;
use lustrine_lnet::memory::{Memory, Span, Words};
use lustrine_lnet::time::{Nanos, Time};
use lustrine_mem::{Arena, Block};
use lustrine_socklnd::io::{
    Io, IoError, IoOutcome, Piece, Readiness, SockId, SourcePort, WriteMode,
};
use lustrine_sys::{Interest, Poller, Ready, Socket, SocketOptions, ZeroCopyOutcome};
use smallvec::SmallVec;

use crate::hot_stream::HotStream;

/// Set in the poller's tokens of everything that is not a stream.
pub const OTHER_TOKEN: u64 = 1 << 63;

/// Memory that was not in use for so long is given back to the system.
const MEMORY_PERIOD: Nanos = Nanos::from_secs(60);
/// Most regions that are given back at once, and how long others wait then: that takes up to 0.1 ms
/// for each, and messages wait for it.
const RELEASED_AT_ONCE: usize = 4;
const RELEASE_INTERVAL: Nanos = Nanos::from_millis(1);

/// Blocks per read that need no allocation.
type Blocks = SmallVec<[Block; 8]>;

/// Sockets, the poller that watches them, and the arena of one event loop.
pub struct LoopIo {
    /// Watches the streams, and what else its owner adds with tokens that have [`OTHER_TOKEN`].
    pub poller: Poller,
    arena: Arena,
    /// When it is looked at what was not in use for a while.
    period_ends_at: Time,
    /// Surplus memory stays mapped until then.
    release_at: Time,
    slots: Vec<Slot>,
    free: Vec<u32>,
    options: SocketOptions,
    /// Streams open now.
    pub(crate) open: usize,
    /// Streams with zero-copy writes that were copied after all: no report of the kernel's will
    /// say that their memory is free.
    copied: Vec<SockId>,
    hot: HotStream,
}

/// A slot for one stream after another; the generation makes each number unique.
#[derive(Default)]
struct Slot {
    generation: u32,
    socket: Option<Socket>,
    pinned: VecDeque<Pinned>,
    /// Zero-copy writes that were copied after all, which no report has said yet.
    copied: u32,
    /// The last write found less room than it needed: only a report says that there is room again.
    waits_for_room: bool,
}

/// A zero-copy write whose memory the kernel may still refer to.
struct Pinned {
    /// The kernel's number; `None`: it was copied after all.
    id: Option<u32>,
}

impl LoopIo {
    /// No streams yet. All blocks are in `arena`; `options` are for streams that are dialled.
    pub fn new(poller: Poller, arena: Arena, options: SocketOptions) -> LoopIo {
        LoopIo {
            poller,
            arena,
            period_ends_at: Time::ZERO,
            release_at: Time::ZERO,
            slots: Vec::new(),
            free: Vec::new(),
            options,
            open: 0,
            copied: Vec::new(),
            hot: HotStream::default(),
        }
    }

    /// Sets up streams so from now on, and those that are open.
    pub(crate) fn set_options(&mut self, options: SocketOptions) {
        for socket in self.slots.iter().filter_map(|slot| slot.socket.as_ref()) {
            // One that is not connected yet, or not any more, has nothing to be set.
            let _ = socket.set_options(&options);
        }
        self.options = options;
    }

    /// Memory mapped, in bytes.
    pub(crate) fn memory_mapped(&self) -> u64 {
        self.arena.stats().mapped
    }

    /// When memory is to be given back to the system, if nothing else happens until then.
    pub(crate) fn release_deadline(&self) -> Time {
        if self.arena.has_surplus() {
            self.release_at
        } else if self.arena.may_have_surplus() {
            self.period_ends_at
        } else {
            Time::NEVER
        }
    }

    /// Gives memory back to the system, some of it each time: what has no room any more, and what
    /// was not in use for a minute.
    pub(crate) fn release_memory(&mut self, now: Time) {
        if now >= self.period_ends_at {
            self.arena.end_period();
            self.period_ends_at = now + MEMORY_PERIOD;
        }
        if now >= self.release_at && self.arena.has_surplus() {
            self.arena.release(RELEASED_AT_ONCE);
            self.release_at = now + RELEASE_INTERVAL;
        }
    }

    /// Takes over a stream and starts watching it.
    ///
    /// # Errors
    /// When the system cannot watch one more.
    pub fn adopt(&mut self, socket: Socket) -> io::Result<SockId> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        // 31 bits of generation: the top bit of a token is for others than streams.
        slot.generation = (slot.generation + 1) & 0x7fff_ffff;
        let id = SockId((u64::from(slot.generation) << 32) | u64::from(index));
        if let Err(error) = self.poller.add(&socket, id.0, Interest::Stream) {
            self.free.push(index);
            return Err(error);
        }
        slot.socket = Some(socket);
        self.open += 1;
        Ok(id)
    }

    /// Gives a stream away, to another event loop.
    pub(crate) fn release(&mut self, sock: SockId) -> Option<Socket> {
        let slot = self.slot(sock)?;
        let socket = slot.socket.take()?;
        if slot.pinned.iter().any(|write| write.id.is_some()) {
            // The owner of the memory may use it again from now on: no byte may be sent any more.
            let _ = socket.abort_on_close();
        }
        slot.pinned.clear();
        slot.copied = 0;
        slot.waits_for_room = false;
        self.free.push(sock.0 as u32);
        self.open -= 1;
        if self.hot.is_unwatched(sock) {
            self.hot.take();
        } else {
            // Fails only if it was not in the set.
            let _ = self.poller.remove(&socket);
        }
        Some(socket)
    }

    /// Translates a report of the poller; `None` when it is about a stream that is gone.
    pub fn readiness(&mut self, ready: &Ready) -> Option<(SockId, Readiness)> {
        let sock = SockId(ready.token);
        if ready.readable {
            self.hot.on_report(sock);
        }
        let slot = self.slot(sock)?;
        slot.waits_for_room &= !ready.writable;
        let (mut zero_copy_done, mut zero_copy_copied) = (0, 0);
        if ready.error && !slot.pinned.is_empty() {
            (zero_copy_done, zero_copy_copied) = slot.collect_completions();
        }
        let readiness = Readiness {
            readable: ready.readable || ready.hangup || ready.error,
            writable: ready.writable || ready.error,
            hangup: ready.hangup,
            zero_copy_done,
            zero_copy_copied,
        };
        Some((sock, readiness))
    }

    /// Waits for reports. `None`: until there is one.
    ///
    /// # Errors
    /// When the poller is broken.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let sleeps = timeout != Some(Duration::ZERO);
        let unwatchable = self.hot.on_look(sleeps).filter(|sock| !self.watch_again(*sock));
        let Some(sock) = unwatchable else { return self.poller.wait(timeout, ready) };
        self.poller.wait(Some(Duration::ZERO), ready)?;
        ready.push(Ready {
            token: sock.0,
            readable: true,
            writable: true,
            hangup: true,
            error: true,
        });
        Ok(())
    }

    /// Has the poller watch a stream again; it reports what came meanwhile. If the system cannot
    /// watch one more, the stream is shut down, and the answer is no.
    fn watch_again(&self, sock: SockId) -> bool {
        let Some(socket) = self.socket(sock) else { return true };
        let Err(error) = self.poller.add(socket, sock.0, Interest::Stream) else { return true };
        tracing::warn!(%error, "cannot watch a connection again; closed");
        // Fails only if the connection is gone already.
        let _ = socket.shutdown(Shutdown::Both);
        false
    }

    /// Takes a stream that is read often enough without them out of the poller's reports.
    #[cold]
    fn stop_watching(&mut self, sock: SockId) {
        let Some(slot) = slot_of(&mut self.slots, sock) else { return };
        let Some(socket) = &slot.socket else { return };
        let needs_reports = slot.waits_for_room || !slot.pinned.is_empty();
        if !needs_reports && self.poller.remove(socket).is_ok() {
            self.hot.unwatched();
        }
    }

    /// The next stream with zero-copy writes whose memory is free without a report.
    pub fn next_copied(&mut self) -> Option<(SockId, Readiness)> {
        while let Some(sock) = self.copied.pop() {
            let Some(slot) = self.slot(sock) else { continue };
            let (zero_copy_done, zero_copy_copied) =
                (slot.take_done(), mem::take(&mut slot.copied));
            if zero_copy_done > 0 || zero_copy_copied > 0 {
                let readiness =
                    Readiness { zero_copy_done, zero_copy_copied, ..Readiness::default() };
                return Some((sock, readiness));
            }
        }
        None
    }

    fn slot(&mut self, sock: SockId) -> Option<&mut Slot> {
        slot_of(&mut self.slots, sock)
    }

    fn socket(&self, sock: SockId) -> Option<&Socket> {
        let slot = self.slots.get(sock.0 as u32 as usize)?;
        (u64::from(slot.generation) == sock.0 >> 32).then_some(slot.socket.as_ref()).flatten()
    }
}

/// The slot of a stream, if that very stream is still open.
fn slot_of(slots: &mut [Slot], sock: SockId) -> Option<&mut Slot> {
    let slot = slots.get_mut(sock.0 as u32 as usize)?;
    (u64::from(slot.generation) == sock.0 >> 32 && slot.socket.is_some()).then_some(slot)
}

/// The answer to a call on a stream that is not open: the driver has confused its streams, and
/// must not reach into another one.
fn not_open(sock: SockId) -> IoOutcome {
    debug_assert!(false, "stream {:#x} is not open", sock.0);
    IoOutcome::Failed(IoError::Other)
}

impl Slot {
    /// Reads the kernel's reports; answers how many of the oldest writes are free of it, and how
    /// many it has copied after all.
    fn collect_completions(&mut self) -> (u32, u32) {
        let Some(socket) = &self.socket else { return (0, 0) };
        let (pinned, all_copied) = (&mut self.pinned, &mut self.copied);
        let outcome = socket.zerocopy_completions(&mut |low, high, copied| {
            for write in pinned.iter_mut() {
                // The numbers wrap; a range is never longer than half the circle.
                if write.id.is_some_and(|id| id.wrapping_sub(low) <= high.wrapping_sub(low)) {
                    write.id = None;
                    *all_copied += u32::from(copied);
                }
            }
        });
        if outcome.is_err() {
            // The stream is broken: its next read says so, and closing it frees the memory.
            return (0, 0);
        }
        (self.take_done(), mem::take(&mut self.copied))
    }

    fn take_done(&mut self) -> u32 {
        let mut done = 0;
        while self.pinned.front().is_some_and(|write| write.id.is_none()) {
            self.pinned.pop_front();
            done += 1;
        }
        done
    }
}

fn block(span: Span) -> Block {
    Block { region: span.region, offset: span.offset, len: span.len }
}

fn span(block: Block) -> Span {
    Span { region: block.region, offset: block.offset, len: block.len }
}

impl Memory for LoopIo {
    fn alloc(&mut self, len: u32) -> Option<Span> {
        self.arena.alloc(len).map(span)
    }

    fn lend(&mut self, bytes: Bytes) -> Option<Span> {
        if let Some(block) = self.arena.lend(bytes.clone()) {
            return Some(span(block));
        }
        let block = self.arena.alloc(u32::try_from(bytes.len()).ok()?)?;
        self.arena.write(block, &bytes);
        Some(span(block))
    }

    fn free(&mut self, span: Span) {
        self.arena.free(block(span));
    }

    fn take(&mut self, span: Span) -> Bytes {
        if let Some(bytes) = self.arena.take(block(span)) {
            return bytes;
        }
        let bytes = Bytes::copy_from_slice(self.arena.bytes(block(span)));
        self.arena.free(block(span));
        bytes
    }

    #[inline]
    fn write(&mut self, span: Span, bytes: &[u8]) {
        self.arena.write(block(span), bytes);
    }

    #[inline]
    fn read(&self, span: Span, out: &mut [u8]) {
        self.arena.read(block(span), out);
    }

    #[inline]
    fn append(&self, span: Span, out: &mut Vec<u8>) {
        // Without zeros first.
        out.extend_from_slice(self.arena.bytes(block(span)));
    }

    fn copy(&mut self, from: Span, to: Span) {
        self.arena.copy(block(from), block(to));
    }

    fn fill_words(&mut self, span: Span, word: [u8; 8], which: Words) {
        match which {
            Words::All => self.arena.fill_words(block(span), word),
            Words::BlockEnds { block: len } => {
                for at in block_ends(span.len, len) {
                    self.arena.fill_word_at(block(span), at, word);
                }
            }
        }
    }

    fn compare_words(&self, span: Span, word: [u8; 8], which: Words) -> Result<(), u32> {
        match which {
            Words::All => self.arena.check_words(block(span), word).map_err(|at| at & !7),
            Words::BlockEnds { block: len } => block_ends(span.len, len)
                .find(|at| self.arena.word_at(block(span), *at) != word)
                .map_or(Ok(()), Err),
        }
    }
}

/// Offsets of the first and last word of each block.
fn block_ends(len: u32, block: u32) -> impl Iterator<Item = u32> {
    let ends = move |start: u32| [start, (start + block).min(len).saturating_sub(8).max(start)];
    (0..len).step_by(block as usize).flat_map(ends).filter(move |at| at + 8 <= len)
}

impl Io for LoopIo {
    fn connect(
        &mut self,
        local: Option<IpAddr>,
        source: SourcePort,
        remote: SocketAddr,
    ) -> Result<SockId, IoError> {
        let source = match source {
            SourcePort::Any => lustrine_sys::SourcePort::Any,
            SourcePort::Privileged => lustrine_sys::SourcePort::Privileged,
        };
        let socket = Socket::connect(local, source, remote, &self.options)
            .map_err(|error| connect_error(&error))?;
        self.adopt(socket).map_err(|error| io_error(&error))
    }

    fn connected(&mut self, sock: SockId) -> Result<(), IoError> {
        let Some(socket) = self.socket(sock) else { return Err(IoError::Other) };
        match socket.connected() {
            Ok(true) => {
                socket.pace(&self.options);
                Ok(())
            }
            // It was reported open: the peer has reset it since.
            Ok(false) => Err(IoError::Reset),
            Err(error) => Err(io_error(&error)),
        }
    }

    fn read(&mut self, sock: SockId, spans: &[Span], tail: &mut [u8]) -> IoOutcome {
        let LoopIo { arena, slots, .. } = self;
        let Some(Slot { socket: Some(socket), .. }) = slot_of(slots, sock) else {
            return not_open(sock);
        };
        let blocks: Blocks = spans.iter().map(|span| block(*span)).collect();
        let outcome =
            outcome(arena.with_io_slices_mut(&blocks, tail, |slices| socket.readv(slices)));
        if self.hot.on_read(sock, matches!(outcome, IoOutcome::Bytes(_))) {
            self.stop_watching(sock);
        }
        outcome
    }

    fn write(&mut self, sock: SockId, pieces: &[Piece<'_>], mode: WriteMode) -> IoOutcome {
        let LoopIo { arena, slots, copied: also_copied, .. } = self;
        let Some(slot) = slot_of(slots, sock) else { return not_open(sock) };
        let Some(socket) = &slot.socket else { return not_open(sock) };
        let slices: SmallVec<[io::IoSlice<'_>; 32]> = pieces
            .iter()
            .map(|piece| match piece {
                Piece::Bytes(bytes) => io::IoSlice::new(bytes),
                Piece::Span(span) => arena.io_slice(block(*span)),
            })
            .collect();
        if mode == WriteMode::Copy {
            let outcome = outcome(socket.writev(&slices));
            slot.waits_for_room = !is_whole(&outcome, &slices);
            if slot.waits_for_room {
                self.hot.needs_reports(sock);
            }
            return outcome;
        }
        self.hot.needs_reports(sock);
        let outcome = match socket.writev_zerocopy(&slices) {
            ZeroCopyOutcome::Pinned { bytes, id } => {
                slot.pinned.push_back(Pinned { id: Some(id) });
                IoOutcome::Bytes(bytes)
            }
            ZeroCopyOutcome::Copied(copied) => {
                let copied = outcome(copied);
                if matches!(copied, IoOutcome::Bytes(_)) {
                    slot.copied += 1;
                    slot.pinned.push_back(Pinned { id: None });
                    also_copied.push(sock);
                }
                copied
            }
        };
        slot.waits_for_room = !is_whole(&outcome, &slices);
        outcome
    }

    fn close(&mut self, sock: SockId) {
        // Dropping the socket closes it, which also takes it out of the poller.
        drop(self.release(sock));
    }

    fn responds(&mut self, sock: SockId, within: Nanos) -> bool {
        let heard = self.socket(sock).and_then(|socket| socket.last_heard().ok());
        heard.is_some_and(|ago| ago.as_nanos() <= u128::from(within.0))
    }

    fn unacknowledged(&self, sock: SockId) -> u64 {
        self.socket(sock).and_then(|socket| socket.unacknowledged().ok()).unwrap_or(u64::MAX)
    }

    fn stream_stats(&self, sock: SockId) -> Option<StreamStats> {
        let nanos = |time: Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let socket = self.socket(sock)?;
        let info = socket.info().ok()?;
        Some(StreamStats {
            local_port: socket.local_addr().ok().map(|local| local.port()),
            path_mtu: info.path_mtu,
            segment_out: info.segment_out,
            segment_in: info.segment_seen,
            rtt: nanos(info.rtt),
            rtt_min: info.rtt_min.map(nanos),
            congestion_window: info.congestion_window,
            delivery_rate: info.delivery_rate,
            segments_sent: info.segments_sent,
            retransmits: info.retransmits,
            duplicates: info.duplicates,
            reorderings: info.reorderings,
            segments_received: info.segments_received,
            out_of_order: info.out_of_order,
            busy: nanos(info.busy),
            window_limited: nanos(info.window_limited),
            send_buffer_limited: nanos(info.send_buffer_limited),
        })
    }

    fn crc(&self, state: u32, span: Span) -> u32 {
        lustrine_wire::crc::update(state, self.arena.bytes(block(span)))
    }
}

/// Whether a write took all that it was given.
fn is_whole(outcome: &IoOutcome, slices: &[io::IoSlice<'_>]) -> bool {
    let len: usize = slices.iter().map(|slice| slice.len()).sum();
    matches!(outcome, IoOutcome::Bytes(written) if *written == len)
}

fn outcome(outcome: lustrine_sys::IoOutcome) -> IoOutcome {
    match outcome {
        lustrine_sys::IoOutcome::Bytes(count) => IoOutcome::Bytes(count),
        lustrine_sys::IoOutcome::WouldBlock => IoOutcome::WouldBlock,
        lustrine_sys::IoOutcome::Closed => IoOutcome::Closed,
        lustrine_sys::IoOutcome::Failed(error) => IoOutcome::Failed(io_error(&error)),
    }
}

fn connect_error(error: &lustrine_sys::ConnectError) -> IoError {
    use lustrine_sys::ConnectError;
    match error {
        ConnectError::NoPrivilege => IoError::NoPrivilege,
        ConnectError::PortsExhausted(_) | ConnectError::NoResources(_) => IoError::Exhausted,
        ConnectError::Failed(error) => match io_error(error) {
            // Reported at once, it is this machine's own routing table that says so.
            IoError::HostUnreachable => IoError::Unreachable,
            other => other,
        },
        ConnectError::NoSuchLocalAddress(_) | ConnectError::FamilyMismatch { .. } => {
            IoError::Unreachable
        }
    }
}

/// The one table from the system's errors to the driver's.
fn io_error(error: &io::Error) -> IoError {
    use io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused => IoError::Refused,
        // Of a stream: ARP was not answered, or a router or firewall sent an ICMP message.
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => IoError::HostUnreachable,
        ErrorKind::NetworkDown
        | ErrorKind::AddrNotAvailable
        // To another host from an address that does not leave this one (127.0.0.1).
        | ErrorKind::InvalidInput => IoError::Unreachable,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            IoError::Reset
        }
        ErrorKind::TimedOut => IoError::TimedOut,
        ErrorKind::PermissionDenied => IoError::NoPrivilege,
        ErrorKind::OutOfMemory => IoError::Exhausted,
        _ => match error.raw_os_error() {
            // EMFILE, ENFILE, ENOBUFS have no kind of their own.
            Some(24 | 23 | 105) => IoError::Exhausted,
            _ => IoError::Other,
        },
    }
}

#[cfg(test)]
mod tests;
