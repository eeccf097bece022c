//! The sending half of a connection: what waits to be written, and what is due when it has been.
//!
//! Headers and payloads up to [`COPY_MAX`] are copied into one contiguous buffer; longer payloads
//! stay where they are and are written from there. So a burst of small messages is one piece of
//! one write, and a large payload is touched only by the kernel.
//!
//! Where messages carry checksums, that of a large payload is computed when its turn to be written
//! comes: many may wait, and the system finds in the CPU's cache what was just summed.

use std::collections::VecDeque;

use lustrine_lnet::lnd::OpKey;
use lustrine_lnet::memory::{Memory, Span, total_len};
use lustrine_wire::crc;
use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::header::Header;
use lustrine_wire::hello::Version;
use lustrine_wire::nid::NidTooLong;

use crate::format::Format;
use crate::io::{Io, IoError, IoOutcome, Piece, SockId, WriteMode};
use crate::staging::Staging;

/// Largest payload that is copied next to its header, in bytes.
pub(crate) const COPY_MAX: u32 = 4096;
/// While fewer bytes than this are staged, a copied message counts as sent: the staging buffer
/// extends TCP's own send buffer.
const SENT_WHEN_STAGED: usize = 64 * 1024;
/// With this many bytes staged a connection takes no further message.
const STAGED_MAX: usize = 256 * 1024;
/// With this many pieces waiting a connection takes no further message.
const SEGMENTS_MAX: usize = 1024;
/// Most pieces of one write.
const PIECES_MAX: usize = 64;
/// With this many bytes offered a write takes no further payload that is to be summed first: what
/// was summed should be in the cache when the system reads it.
const SUMMED_MAX: usize = 256 * 1024;

/// The cookies of a message's frame header [FRM-6].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cookies {
    /// Asks for an acknowledgement, and for zero-copy; 0 for neither.
    pub(crate) request: u64,
    /// Acknowledges; 0 for nothing.
    pub(crate) ack: u64,
}

/// What a message that was taken means for its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendProgress {
    /// It counts as sent: its memory is free.
    Sent,
    /// [`Tx::finished`] will name it.
    Pending,
}

/// Something that has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// The message of this operation.
    Op(OpKey),
    /// The message with this zero-copy cookie.
    Cookie(u64),
}

/// How a round of writing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteEnd {
    /// Nothing waits.
    All,
    /// The stream is full.
    Blocked,
    /// The budget is spent.
    BudgetSpent,
}

/// What writing cost, for the counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteTotals {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Segment {
    /// This many bytes of the staging buffer.
    Staged(u32),
    /// Payload where it lies; with a cookie it is written without copying.
    InPlace { span: Span, cookie: u64 },
}

impl Segment {
    /// Bytes.
    fn len(&self) -> usize {
        match self {
            Segment::Staged(len) => *len as usize,
            Segment::InPlace { span, .. } => span.len as usize,
        }
    }
}

/// A message whose checksum lacks its payload.
#[derive(Clone, Copy, Debug)]
struct PendingChecksum {
    /// Where its head ends in the stream; its payload is all that is lent there.
    head_end: u64,
    format: Format,
    frame: FrameHeader,
    /// The checksum so far.
    state: u32,
}

/// `finished` when the stream has passed `end`.
#[derive(Clone, Copy, Debug)]
struct PendingCompletion {
    end: u64,
    finished: Finished,
}

/// The sending half.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    staging: Staging,
    segments: VecDeque<Segment>,
    completions: VecDeque<PendingCompletion>,
    /// Where in the stream the messages begin whose start is to be reported; oldest first.
    watched: VecDeque<(u64, OpKey)>,
    /// Oldest first.
    pending_checksums: VecDeque<PendingChecksum>,
    /// Bytes ever queued and ever written.
    queued: u64,
    written: u64,
    /// The cookie of each zero-copy write whose memory the system has not released, oldest first.
    in_system: VecDeque<u64>,
}

impl Tx {
    /// Bytes that wait to be written.
    pub(crate) fn waiting(&self) -> u64 {
        self.queued - self.written
    }

    /// Bytes written since the connection was opened.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Messages that were not copied and of which something waits to be written.
    pub(crate) fn unwritten(&self) -> usize {
        self.completions.len()
    }

    /// Whether another message may be queued.
    pub(crate) fn has_room(&self) -> bool {
        self.staging.len() < STAGED_MAX && self.segments.len() < SEGMENTS_MAX
    }

    /// Queues bytes as they are (request, HELLO).
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        self.staging.grow(bytes.len()).copy_from_slice(bytes);
        self.staged(bytes.len());
    }

    /// Queues a NOOP.
    pub(crate) fn push_noop(&mut self, format: Format, mut frame: FrameHeader) {
        debug_assert!(format.framed() && frame.kind == FrameKind::Noop);
        if format.csum {
            frame.csum = frame.csum_start(format.sent);
        }
        self.push_bytes(&frame.encode(format.sent));
    }

    /// [`Tx::next_started`] will name the message that is queued next.
    pub(crate) fn watch(&mut self, op: OpKey) {
        self.watched.push_back((self.queued, op));
    }

    /// The next watched message of which something was written.
    pub(crate) fn next_started(&mut self) -> Option<OpKey> {
        let (start, op) = *self.watched.front()?;
        if start >= self.written {
            return None;
        }
        self.watched.pop_front();
        Some(op)
    }

    /// Queues a message.
    ///
    /// # Errors
    /// [`NidTooLong`] when the connection's version has no room for a NID; nothing is queued.
    pub(crate) fn push_message<I: Io>(
        &mut self,
        io: &I,
        format: Format,
        op: OpKey,
        header: &Header,
        payload: &[Span],
        cookies: Cookies,
    ) -> Result<SendProgress, NidTooLong> {
        let (head_len, frame_len) = (format.head_len(), format.version.frame_len());
        let copied = if header.payload_len <= COPY_MAX { header.payload_len as usize } else { 0 };
        assert_eq!(total_len(payload), header.payload_len, "payload and header disagree");
        let room = self.staging.grow(head_len + copied);
        if let Err(error) = encode_header(format.version, header, &mut room[frame_len..head_len]) {
            self.staging.withdraw(head_len + copied);
            if self.watched.back().is_some_and(|(start, _)| *start == self.queued) {
                self.watched.pop_back();
            }
            return Err(error);
        }
        let mut at = head_len;
        if copied != 0 {
            for span in payload {
                let end = at + span.len as usize;
                Memory::read(io, *span, &mut room[at..end]);
                at = end;
            }
        }
        let mut pending_checksums = None;
        if format.framed() {
            let mut frame = FrameHeader {
                zc_request: cookies.request,
                zc_ack: cookies.ack,
                ..FrameHeader::LNET
            };
            if format.csum {
                frame.csum = crc::update(frame.csum_start(format.sent), &room[frame_len..]);
                pending_checksums = (copied == 0 && header.payload_len != 0).then_some(frame);
            }
            room[..frame_len].copy_from_slice(&frame.encode(format.sent));
        }
        self.staged(head_len + copied);
        if let Some(frame) = pending_checksums {
            let (head_end, state) = (self.queued, frame.csum);
            self.pending_checksums.push_back(PendingChecksum { head_end, format, frame, state });
        }
        if copied == 0 {
            self.push_in_place(payload, cookies.request);
        }
        if cookies.request != 0 {
            self.push_completion(Finished::Cookie(cookies.request));
        } else if (copied == 0 && header.payload_len != 0) || self.staging.len() > SENT_WHEN_STAGED
        {
            self.push_completion(Finished::Op(op));
        } else {
            return Ok(SendProgress::Sent);
        }
        Ok(SendProgress::Pending)
    }

    fn staged(&mut self, len: usize) {
        self.queued += len as u64;
        match self.segments.back_mut() {
            Some(Segment::Staged(waiting)) => *waiting += len as u32,
            _ => self.segments.push_back(Segment::Staged(len as u32)),
        }
    }

    fn push_in_place(&mut self, payload: &[Span], cookie: u64) {
        for span in payload.iter().filter(|span| span.len != 0) {
            self.queued += u64::from(span.len);
            self.segments.push_back(Segment::InPlace { span: *span, cookie });
        }
    }

    fn push_completion(&mut self, finished: Finished) {
        self.completions.push_back(PendingCompletion { end: self.queued, finished });
    }

    /// Writes until nothing waits, the stream is full, or `budget` bytes have left.
    pub(crate) fn write<I: Io>(
        &mut self,
        io: &mut I,
        sock: SockId,
        budget: u64,
        written: &mut WriteTotals,
    ) -> Result<WriteEnd, IoError> {
        let stop = written.bytes + budget;
        while self.written != self.queued {
            if written.bytes >= stop {
                return Ok(WriteEnd::BudgetSpent);
            }
            self.complete_front_heads(io);
            let (outcome, asked, zero_copy) = self.write_once(io, sock);
            let len = match outcome {
                IoOutcome::Bytes(len) => len,
                IoOutcome::WouldBlock => return Ok(WriteEnd::Blocked),
                IoOutcome::Closed => return Err(IoError::Reset),
                IoOutcome::Failed(error) => return Err(error),
            };
            written.calls += 1;
            written.bytes += len as u64;
            if let Some(cookie) = zero_copy {
                self.in_system.push_back(cookie);
            }
            self.advance(len);
            if len < asked {
                return Ok(WriteEnd::Blocked);
            }
        }
        Ok(WriteEnd::All)
    }

    /// Completes the heads that the next write may offer: the first one, and those near it.
    fn complete_front_heads<I: Io>(&mut self, io: &I) {
        while let Some(first) = self.pending_checksums.front().copied() {
            let (mut position, mut staged) = (self.written, 0);
            let mut segments = self.segments.iter();
            for segment in segments.by_ref() {
                if let Segment::Staged(len) = segment {
                    staged += *len as usize;
                }
                position += segment.len() as u64;
                if position == first.head_end {
                    break;
                }
                if position - self.written >= SUMMED_MAX as u64 {
                    return;
                }
            }
            assert_eq!(position, first.head_end, "a head lies before its payload");
            let mut frame = first.frame;
            frame.csum = segments
                .map_while(|segment| match segment {
                    Segment::InPlace { span, .. } => Some(span),
                    Segment::Staged(_) => None,
                })
                .fold(first.state, |state, span| io.crc(state, *span));
            let head = &mut self.staging.bytes_mut()[staged - first.format.head_len()..];
            head[..first.format.version.frame_len()]
                .copy_from_slice(&frame.encode(first.format.sent));
            self.pending_checksums.pop_front();
        }
    }

    /// One write: its outcome, how many bytes were offered, and its cookie if it was zero-copy.
    fn write_once<I: Io>(&self, io: &mut I, sock: SockId) -> (IoOutcome, usize, Option<u64>) {
        let bytes = self.staging.bytes();
        if let (1, Some(Segment::Staged(len))) = (self.segments.len(), self.segments.front()) {
            let piece = Piece::Bytes(&bytes[..*len as usize]);
            return (Io::write(io, sock, &[piece], WriteMode::Copy), *len as usize, None);
        }
        let mut pieces = [Piece::Bytes(&[]); PIECES_MAX];
        let (mut count, mut asked, mut staged) = (0, 0, 0);
        // A write is zero-copy as a whole and belongs to one cookie: headers lie in the staging
        // buffer, which is reused, so they are always copied.
        let mut shared = 0;
        let incomplete =
            self.pending_checksums.front().map(|pending_checksums| pending_checksums.head_end);
        for segment in self.segments.iter().take(PIECES_MAX) {
            if Some(self.written + (asked + segment.len()) as u64) == incomplete {
                break;
            }
            let (piece, len, cookie) = match *segment {
                Segment::Staged(len) => {
                    let start = staged;
                    staged += len as usize;
                    (Piece::Bytes(&bytes[start..staged]), len as usize, 0)
                }
                Segment::InPlace { span, cookie } => (Piece::Span(span), span.len as usize, cookie),
            };
            if count == 0 {
                shared = cookie;
            } else if shared != cookie {
                break;
            }
            pieces[count] = piece;
            count += 1;
            asked += len;
        }
        let mode = if shared == 0 { WriteMode::Copy } else { WriteMode::ZeroCopy };
        let outcome = Io::write(io, sock, &pieces[..count], mode);
        (outcome, asked, (shared != 0).then_some(shared))
    }

    /// `len` bytes have left.
    fn advance(&mut self, len: usize) {
        self.written += len as u64;
        let mut left = len as u32;
        while left != 0 {
            let segment = self.segments.front_mut().expect("wrote no more than was offered");
            let gone = match segment {
                Segment::Staged(waiting) => {
                    let gone = left.min(*waiting);
                    self.staging.consume(gone as usize);
                    *waiting -= gone;
                    (gone, *waiting == 0)
                }
                Segment::InPlace { span, .. } => {
                    let gone = left.min(span.len);
                    *span = span.part(gone, span.len - gone);
                    (gone, span.len == 0)
                }
            };
            left -= gone.0;
            if gone.1 {
                self.segments.pop_front();
            }
        }
    }

    /// The next thing that has been written completely.
    pub(crate) fn finished(&mut self) -> Option<Finished> {
        let completion = self.completions.front()?;
        if completion.end > self.written {
            return None;
        }
        self.completions.pop_front().map(|completion| completion.finished)
    }

    /// The kernel has released the memory of the oldest zero-copy write; returns its cookie.
    pub(crate) fn released(&mut self) -> Option<u64> {
        self.in_system.pop_front()
    }

    /// How many writes of this cookie's message the system still refers to.
    pub(crate) fn in_system(&self, cookie: u64) -> usize {
        self.in_system.iter().filter(|one| **one == cookie).count()
    }

    /// The operations that were neither written completely nor counted as sent. Those with a
    /// cookie are the peer's to report.
    pub(crate) fn abandoned(&mut self) -> impl Iterator<Item = OpKey> + '_ {
        self.completions.drain(..).filter_map(|completion| match completion.finished {
            Finished::Op(op) => Some(op),
            Finished::Cookie(_) => None,
        })
    }

    /// How many operations [`finished`](Tx::finished) will still name; those with a cookie are the
    /// peer's to count.
    pub(crate) fn operations(&self) -> usize {
        let own = |completion: &&PendingCompletion| matches!(completion.finished, Finished::Op(_));
        self.completions.iter().filter(own).count()
    }

    /// Gives back memory that an idle connection does not need.
    pub(crate) fn release(&mut self) {
        if self.waiting() == 0 {
            self.staging.release();
            self.segments.shrink_to_fit();
            self.completions.shrink_to_fit();
            self.pending_checksums.shrink_to_fit();
        }
    }
}

fn encode_header(version: Version, header: &Header, out: &mut [u8]) -> Result<(), NidTooLong> {
    match version {
        Version::V4 => {
            header.encode_long(out.try_into().expect("96 bytes"));
            Ok(())
        }
        _ => header.encode_short(out.try_into().expect("72 bytes")),
    }
}

#[cfg(test)]
mod tests;
