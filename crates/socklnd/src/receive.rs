//! Reading: many small messages per call into a shared buffer, large payloads straight to where
//! the core wants them.

use lustrine_lnet::lnd::{Arrival, Core, OpKey, RxId, Verdict};
use lustrine_lnet::memory::total_len;
use lustrine_lnet::status::Status;
use lustrine_wire::frame::{FIRST_ZC_COOKIE, FrameHeader, ZcAck};
use lustrine_wire::header::{Body, Header};

use crate::close_reason::{CloseReason, ProtocolViolation};
use crate::conn::{Conn, Open, Phase};
use crate::counters::Counters;
use crate::driver::{Env, SHARED_BUFFER_LEN, Socklnd, TURN_BYTES};
use crate::io::{Io, IoOutcome};
use crate::keys::ConnKey;
use crate::peer::{Peer, Side};
use crate::rx::{Expected, Head, ReceivedMessage};

/// Most reads of one connection in one turn.
const TURN_READS: u64 = 64;

/// Bytes of small messages read before what they caused is written: about 32 of 256 bytes. Less
/// costs system calls; more lets the two ends take turns, one idle while the other works through
/// all there is.
const SMALL_READ_LEN: usize = 8 * 1024;

/// What a read brought.
struct ReadResult {
    bytes: usize,
    /// Small messages, in the shared buffer.
    small: bool,
}

/// What reading needs besides the connection itself.
struct RxHandler<'a, 'b, I, C> {
    env: &'a mut Env<'b, I, C>,
    peer: &'a mut Peer,
    counters: &'a mut Counters,
    finished: &'a mut Vec<OpKey>,
    arrival: Arrival,
}

impl Socklnd {
    /// Reads and handles what is there, within a budget.
    pub(crate) fn receive<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
    ) -> Result<(), CloseReason> {
        let mut bytes_left = TURN_BYTES;
        let mut result = Ok(());
        for _ in 0..TURN_READS {
            match self.receive_once(env, key) {
                Ok(None) => break,
                Ok(Some(ReadResult { small: true, .. })) => bytes_left = 0,
                Ok(Some(read)) => bytes_left = bytes_left.saturating_sub(read.bytes as u64),
                Err(reason) => {
                    result = Err(reason);
                    break;
                }
            }
            if bytes_left == 0 {
                break;
            }
        }
        self.after_input(key);
        let conn = &self.conns[key];
        if result.is_ok() && conn.hangup && conn.open().is_some_and(|open| open.reader.parked()) {
            // Nothing is read while a message is parked, so the end of the stream would never be
            // seen: the parked message is given up with it.
            result = Err(CloseReason::Eof);
        }
        result
    }

    /// One read; `None` when there is nothing more to do now.
    fn receive_once<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
    ) -> Result<Option<ReadResult>, CloseReason> {
        let conn = &mut self.conns[key];
        let (sock, ni, readable) = (conn.sock, conn.ni, conn.readable);
        let Conn { phase: Phase::Open(open), input, .. } = conn else { return Ok(None) };
        if !readable {
            return Ok(None);
        }
        let shared = &mut self.shared_buffer[..];
        let held = input.len();
        let Some((target, tail_len)) = target(open, held) else { return Ok(None) };
        let (spans, rest) = open.reader.destination();
        let span_len = total_len(&spans) as usize;
        let tail_len = if rest { tail_len } else { 0 };
        let tail = match target {
            Target::Input => input.room(held + tail_len),
            Target::Shared => &mut shared[held..held + tail_len],
        };
        let outcome = Io::read(env.io, sock, &spans, tail);
        let len = match outcome {
            IoOutcome::Bytes(len) => len,
            IoOutcome::WouldBlock => {
                conn.readable = false;
                return Ok(None);
            }
            IoOutcome::Closed => return Err(ended(open, held)),
            IoOutcome::Failed(error) => return Err(error.into()),
        };
        self.counters.reads += 1;
        self.counters.bytes_read += len as u64;
        let peer = &mut self.peers[open.peer];
        open.last_received = env.now;
        open.received += len as u64;
        peer.last_received = env.now;
        let arrival = Arrival { ni, from: peer.id, rx: key.rx_id() };
        let mut handler = RxHandler {
            env,
            peer,
            counters: &mut self.counters,
            finished: &mut self.finished,
            arrival,
        };
        let direct = len.min(span_len);
        if direct != 0 {
            open.reader.landed(handler.env.io, direct);
            handler.report_if_complete(open)?;
        }
        match target {
            Target::Input => {
                input.filled(len - direct);
                let used = handler.handle_bytes(open, input.bytes())?;
                input.used(used);
            }
            Target::Shared => {
                let end = held + len - direct;
                shared[..held].copy_from_slice(input.bytes());
                input.used(held);
                let used = handler.handle_bytes(open, &shared[..end])?;
                if open.reader.parked() {
                    open.backlog.extend_from_slice(&shared[used..end]);
                } else {
                    input.keep(&shared[used..end]);
                }
            }
        }
        conn.drained(len, span_len + tail_len);
        let small = matches!(target, Target::Shared) && span_len == 0;
        self.note_recent(key);
        Ok(Some(ReadResult { bytes: len, small }))
    }

    /// The core has decided about a parked message.
    pub(crate) fn resume<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        rx: RxId,
        verdict: Verdict,
    ) {
        let key = ConnKey::of_rx_id(rx);
        let parked =
            self.conns.get(key).and_then(Conn::open).is_some_and(|open| open.reader.parked());
        if !parked {
            // The connection died before the core's decision was carried out.
            self.counters.stale_resumes += 1;
            if let Verdict::Into { op, .. } = verdict {
                env.core.done(env.now, op, Status::ConnectionLost);
            }
            return;
        }
        let result = self.resume_open(env, key, verdict);
        self.after_input(key);
        match result {
            Ok(()) => self.enqueue(key),
            Err(reason) => self.fail(env, key, reason),
        }
    }

    fn resume_open<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        verdict: Verdict,
    ) -> Result<(), CloseReason> {
        let conn = &mut self.conns[key];
        let ni = conn.ni;
        let Conn { phase: Phase::Open(open), input, .. } = conn else { return Ok(()) };
        // The peer is not to blame for silence while nothing was read.
        open.last_received = env.now;
        let peer = &mut self.peers[open.peer];
        let arrival = Arrival { ni, from: peer.id, rx: key.rx_id() };
        let mut handler = RxHandler {
            env,
            peer,
            counters: &mut self.counters,
            finished: &mut self.finished,
            arrival,
        };
        if let Some(received) = open.reader.decide(verdict)? {
            handler.report_received(received)?;
        }
        let mut backlog = core::mem::take(&mut open.backlog);
        let used = handler.handle_bytes(open, &backlog)?;
        if open.reader.parked() {
            backlog.drain(..used);
            open.backlog = backlog;
        } else {
            input.keep(&backlog[used..]);
        }
        Ok(())
    }

    /// After bytes were handled: keeps the connection in the run queue while more is there, and
    /// sees to the acknowledgements owed.
    fn after_input(&mut self, key: ConnKey) {
        let Some(conn) = self.conns.get(key) else { return };
        let Some(open) = conn.open() else { return };
        let (readable, peer) = (conn.readable && !open.reader.parked(), open.peer);
        if readable {
            self.enqueue(key);
        }
        if !self.peers[peer].acks.is_empty() {
            self.request_acks(peer);
        }
    }
}

/// Where bytes behind the awaited payload are read to.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// The connection's own few bytes: heads are read exactly.
    Input,
    /// The buffer that all share, behind what is held of a head: many messages at once.
    Shared,
}

/// Where the next read goes and how many bytes it asks for beyond the awaited payload; `None` when
/// nothing may be read.
fn target(open: &Open, held: usize) -> Option<(Target, usize)> {
    let head_len = open.reader.format().head_len();
    match (open.reader.expected(), open.exact()) {
        (Expected::Verdict, _) => None,
        (Expected::Head | Expected::Payload, true) => Some((Target::Input, head_len - held)),
        (Expected::Skip(left), true) => {
            Some((Target::Shared, SHARED_BUFFER_LEN.min(left as usize)))
        }
        (Expected::Head | Expected::Payload | Expected::Skip(_), false) => {
            Some((Target::Shared, SMALL_READ_LEN - held))
        }
    }
}

/// What the end of the stream means here [SOCK-10].
fn ended(open: &Open, held: usize) -> CloseReason {
    if open.reader.within_message() || held != 0 {
        CloseReason::Violation(ProtocolViolation::Truncated)
    } else {
        CloseReason::Eof
    }
}

impl<I: Io, C: Core> RxHandler<'_, '_, I, C> {
    /// Handles `bytes`, which follow one another in the stream, as far as they make up something;
    /// returns how many were used. The rest is part of a head, or stands behind a parked message.
    fn handle_bytes(&mut self, open: &mut Open, bytes: &[u8]) -> Result<usize, CloseReason> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match open.reader.expected() {
                Expected::Head => match open.reader.head(rest)? {
                    None => break,
                    Some((head, len)) => {
                        at += len;
                        self.head(open, head)?;
                    }
                },
                Expected::Payload => {
                    at += open.reader.copy_in(self.env.io, rest);
                    self.report_if_complete(open)?;
                }
                Expected::Skip(left) => {
                    let len = rest.len().min(left as usize);
                    open.reader.skipped(len);
                    at += len;
                }
                Expected::Verdict => break,
            }
        }
        Ok(at)
    }

    fn head(&mut self, open: &mut Open, head: Head) -> Result<(), CloseReason> {
        match head {
            Head::Noop(frame) => self.acknowledged(&frame),
            Head::Message { frame, header } => {
                self.acknowledged(&frame)?;
                self.message(open, header)
            }
        }
    }

    fn message(&mut self, open: &mut Open, mut header: Header) -> Result<(), CloseReason> {
        self.counters.messages_received += 1;
        open.note_payload_len(header.payload_len);
        if let Some(id) = open.renamed {
            header.src = id;
        }
        if self.peer.side == Side::Served {
            match header.body {
                Body::Get { return_md: md, .. } => self.peer.expect_answer(md),
                Body::Put { ack_md: md, .. } if !md.is_none() => self.peer.expect_answer(md),
                _ => {}
            }
        }
        let verdict = self.env.core.recv_header(self.env.now, self.arrival, &header);
        if verdict == Verdict::Park {
            self.counters.parked += 1;
        }
        match open.reader.decide(verdict)? {
            Some(received) => self.report_received(received),
            None => Ok(()),
        }
    }

    fn report_if_complete(&mut self, open: &mut Open) -> Result<(), CloseReason> {
        match open.reader.complete() {
            Some(received) => self.report_received(received),
            None => Ok(()),
        }
    }

    /// The wanted part of a message is in: it is reported, and acknowledged before the unwanted
    /// rest is drained [FRM-7].
    fn report_received(&mut self, received: ReceivedMessage) -> Result<(), CloseReason> {
        self.counters.payload_received += u64::from(received.stored);
        self.counters.payload_discarded += u64::from(received.discarded);
        if let Some(op) = received.op {
            let status = if received.intact { Status::Ok } else { Status::Corrupt };
            self.env.core.done(self.env.now, op, status);
        }
        if !received.intact {
            return Err(ProtocolViolation::Checksum.into());
        }
        // 0 asks for nothing, and 1 belongs to keepalives and is not sent here.
        if received.cookie >= FIRST_ZC_COOKIE {
            self.peer.owe_ack(received.cookie)?;
        }
        Ok(())
    }

    #[inline]
    fn acknowledged(&mut self, frame: &FrameHeader) -> Result<(), CloseReason> {
        match frame.acknowledged().map_err(ProtocolViolation::from)? {
            ZcAck::Nothing => Ok(()),
            ack => self.some_acknowledged(ack),
        }
    }

    fn some_acknowledged(&mut self, ack: ZcAck) -> Result<(), CloseReason> {
        match ack {
            ZcAck::Nothing => return Ok(()),
            ZcAck::Keepalive => {
                self.counters.keepalives_received += 1;
                return Ok(());
            }
            ZcAck::One(_) | ZcAck::Pair(..) | ZcAck::Range(..) => {}
        }
        let result = self.peer.zero_copy.acknowledge(ack, self.finished);
        for op in self.finished.drain(..) {
            self.env.core.done(self.env.now, op, Status::Ok);
        }
        result?;
        self.counters.zero_copy_acks_received += ack.count();
        Ok(())
    }
}
