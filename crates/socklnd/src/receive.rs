//! Reading: many small messages per call into a shared buffer, large payloads straight to where
//! the core wants them.

use lustrine_lnet::lnd::{Arrival, Core, OpKey, RxId, Verdict};
use lustrine_lnet::memory::total_len;
use lustrine_lnet::status::Status;
use lustrine_wire::frame::{FIRST_ZC_COOKIE, FrameHeader, ZcAck};
use lustrine_wire::header::Header;

use crate::conn::{Conn, ConnKey, Open, Phase};
use crate::counters::Counters;
use crate::driver::{Outside, STAGE_LEN, Socklnd, TURN_BYTES};
use crate::fault::{Misdeed, Why};
use crate::io::{Io, Outcome};
use crate::peer::Peer;
use crate::rx::{Head, Settled, Want};

/// Most reads of one connection in one turn.
const TURN_READS: u64 = 64;

/// Bytes of small messages read before what they caused is written: about 32 of 256 bytes. Less
/// costs system calls; more lets the two ends take turns, one idle while the other works through
/// all there is.
const SIP: usize = 8 * 1024;

/// What a read brought.
struct Brought {
    bytes: usize,
    /// Small messages, in the shared buffer.
    small: bool,
}

/// What reading needs besides the connection itself.
struct Intake<'a, 'b, I, C> {
    out: &'a mut Outside<'b, I, C>,
    peer: &'a mut Peer,
    counters: &'a mut Counters,
    finished: &'a mut Vec<OpKey>,
    arrival: Arrival,
}

impl Socklnd {
    /// Reads and handles what is there, within a budget.
    pub(crate) fn receive<I: Io, C: Core>(
        &mut self,
        out: &mut Outside<'_, I, C>,
        key: ConnKey,
    ) -> Result<(), Why> {
        let mut bytes_left = TURN_BYTES;
        let mut result = Ok(());
        for _ in 0..TURN_READS {
            match self.receive_once(out, key) {
                Ok(None) => break,
                Ok(Some(Brought { small: true, .. })) => bytes_left = 0,
                Ok(Some(brought)) => bytes_left = bytes_left.saturating_sub(brought.bytes as u64),
                Err(why) => {
                    result = Err(why);
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
            // Nobody reads it, so nobody would ever see its end: the parked message goes with it.
            result = Err(Why::Eof);
        }
        result
    }

    /// One read; `None` when there is nothing more to do now.
    fn receive_once<I: Io, C: Core>(
        &mut self,
        out: &mut Outside<'_, I, C>,
        key: ConnKey,
    ) -> Result<Option<Brought>, Why> {
        let conn = &mut self.conns[key];
        let (sock, ni, readable) = (conn.sock, conn.ni, conn.readable);
        let Conn { phase: Phase::Open(open), hold, .. } = conn else { return Ok(None) };
        if !readable {
            return Ok(None);
        }
        let stage = &mut self.stage[..];
        let held = hold.len();
        let Some((target, tail_len)) = target(open, held) else { return Ok(None) };
        let (spans, rest) = open.reader.destination();
        let span_len = total_len(&spans) as usize;
        let tail_len = if rest { tail_len } else { 0 };
        let tail = match target {
            Target::Hold => hold.room(held + tail_len),
            Target::Stage => &mut stage[held..held + tail_len],
        };
        let outcome = Io::read(out.io, sock, &spans, tail);
        let len = match outcome {
            Outcome::Bytes(len) => len,
            Outcome::WouldBlock => {
                conn.readable = false;
                return Ok(None);
            }
            Outcome::Closed => return Err(ended(open, held)),
            Outcome::Failed(error) => return Err(error.into()),
        };
        self.counters.reads += 1;
        self.counters.bytes_read += len as u64;
        let peer = &mut self.peers[open.peer];
        open.heard = out.now;
        open.received += len as u64;
        peer.heard = out.now;
        let arrival = Arrival { ni, from: peer.id, rx: key.rx_id() };
        let mut intake = Intake {
            out,
            peer,
            counters: &mut self.counters,
            finished: &mut self.finished,
            arrival,
        };
        let direct = len.min(span_len);
        if direct != 0 {
            open.reader.landed(intake.out.io, direct);
            intake.settle_complete(open)?;
        }
        match target {
            Target::Hold => {
                hold.filled(len - direct);
                let used = intake.digest(open, hold.bytes())?;
                hold.used(used);
            }
            Target::Stage => {
                let end = held + len - direct;
                stage[..held].copy_from_slice(hold.bytes());
                hold.used(held);
                let used = intake.digest(open, &stage[..end])?;
                if open.reader.parked() {
                    open.backlog.extend_from_slice(&stage[used..end]);
                } else {
                    hold.keep(&stage[used..end]);
                }
            }
        }
        conn.drained(len, span_len + tail_len);
        let small = matches!(target, Target::Stage) && span_len == 0;
        Ok(Some(Brought { bytes: len, small }))
    }

    /// The core has decided about a parked message.
    pub(crate) fn resume<I: Io, C: Core>(
        &mut self,
        out: &mut Outside<'_, I, C>,
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
                out.core.done(out.now, op, Status::ConnectionLost);
            }
            return;
        }
        let result = self.resume_open(out, key, verdict);
        self.after_input(key);
        match result {
            Ok(()) => self.enqueue(key),
            Err(why) => self.fail(out, key, why),
        }
    }

    fn resume_open<I: Io, C: Core>(
        &mut self,
        out: &mut Outside<'_, I, C>,
        key: ConnKey,
        verdict: Verdict,
    ) -> Result<(), Why> {
        let conn = &mut self.conns[key];
        let ni = conn.ni;
        let Conn { phase: Phase::Open(open), hold, .. } = conn else { return Ok(()) };
        // Silence while nobody read was not the peer's.
        open.heard = out.now;
        let peer = &mut self.peers[open.peer];
        let arrival = Arrival { ni, from: peer.id, rx: key.rx_id() };
        let mut intake = Intake {
            out,
            peer,
            counters: &mut self.counters,
            finished: &mut self.finished,
            arrival,
        };
        if let Some(settled) = open.reader.decide(verdict)? {
            intake.settle(settled)?;
        }
        let mut backlog = core::mem::take(&mut open.backlog);
        let used = intake.digest(open, &backlog)?;
        if open.reader.parked() {
            backlog.drain(..used);
            open.backlog = backlog;
        } else {
            hold.keep(&backlog[used..]);
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
            self.ask_acks(peer);
        }
    }
}

/// Where bytes behind the awaited payload are read to.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// The connection's own few bytes: heads are read exactly.
    Hold,
    /// The buffer that all share, behind what is held of a head: many messages at once.
    Stage,
}

/// Where the next read goes and how many bytes it asks for beyond the awaited payload; `None` when
/// nothing may be read.
fn target(open: &Open, held: usize) -> Option<(Target, usize)> {
    let head_len = open.reader.format().head_len();
    match (open.reader.want(), open.exact()) {
        (Want::Verdict, _) => None,
        (Want::Head | Want::Payload, true) => Some((Target::Hold, head_len - held)),
        (Want::Skip(left), true) => Some((Target::Stage, STAGE_LEN.min(left as usize))),
        (Want::Head | Want::Payload | Want::Skip(_), false) => Some((Target::Stage, SIP - held)),
    }
}

/// What the end of the stream means here (wire 4.9).
fn ended(open: &Open, held: usize) -> Why {
    if open.reader.within_message() || held != 0 {
        Why::Misdeed(Misdeed::Truncated)
    } else {
        Why::Eof
    }
}

impl<I: Io, C: Core> Intake<'_, '_, I, C> {
    /// Handles `bytes`, which follow one another in the stream, as far as they make up something;
    /// returns how many were used. The rest is part of a head, or stands behind a parked message.
    fn digest(&mut self, open: &mut Open, bytes: &[u8]) -> Result<usize, Why> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match open.reader.want() {
                Want::Head => match open.reader.head(rest)? {
                    None => break,
                    Some((head, len)) => {
                        at += len;
                        self.head(open, head)?;
                    }
                },
                Want::Payload => {
                    at += open.reader.copy_in(self.out.io, rest);
                    self.settle_complete(open)?;
                }
                Want::Skip(left) => {
                    let len = rest.len().min(left as usize);
                    open.reader.skipped(len);
                    at += len;
                }
                Want::Verdict => break,
            }
        }
        Ok(at)
    }

    fn head(&mut self, open: &mut Open, head: Head) -> Result<(), Why> {
        match head {
            Head::Noop(frame) => self.acknowledged(&frame),
            Head::Message { frame, header } => {
                self.acknowledged(&frame)?;
                self.message(open, header)
            }
        }
    }

    fn message(&mut self, open: &mut Open, mut header: Header) -> Result<(), Why> {
        self.counters.messages_received += 1;
        open.saw(header.payload_len);
        if let Some(id) = open.renamed {
            header.src = id;
        }
        let verdict = self.out.core.recv_header(self.out.now, self.arrival, &header);
        if verdict == Verdict::Park {
            self.counters.parked += 1;
        }
        match open.reader.decide(verdict)? {
            Some(settled) => self.settle(settled),
            None => Ok(()),
        }
    }

    fn settle_complete(&mut self, open: &mut Open) -> Result<(), Why> {
        match open.reader.complete() {
            Some(settled) => self.settle(settled),
            None => Ok(()),
        }
    }

    /// The wanted part of a message is in: it is reported, and acknowledged before the unwanted
    /// rest is drained (wire 3.4).
    fn settle(&mut self, settled: Settled) -> Result<(), Why> {
        self.counters.payload_received += u64::from(settled.stored);
        self.counters.payload_discarded += u64::from(settled.discarded);
        if let Some(op) = settled.op {
            let status = if settled.intact { Status::Ok } else { Status::Corrupt };
            self.out.core.done(self.out.now, op, status);
        }
        if !settled.intact {
            return Err(Misdeed::Checksum.into());
        }
        // 0 asks for nothing, and 1 is a keepalive's: nobody sends it here.
        if settled.cookie >= FIRST_ZC_COOKIE {
            self.peer.owe(settled.cookie)?;
        }
        Ok(())
    }

    fn acknowledged(&mut self, frame: &FrameHeader) -> Result<(), Why> {
        let ack = frame.acknowledged().map_err(Misdeed::from)?;
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
            self.out.core.done(self.out.now, op, Status::Ok);
        }
        result?;
        self.counters.zero_copy_acks_received += ack.count();
        Ok(())
    }
}
