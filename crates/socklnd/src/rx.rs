//! The frame reader: a pure state machine from bytes to heads, payload and rests.
//!
//! It reads nothing itself. [`Reader::expected`] says where the next bytes belong; the driver reads
//! them there (or parses them out of a buffer that holds many messages) and informs the reader.

use lustrine_lnet::lnd::{HeaderViolation, OpKey, Verdict};
use lustrine_lnet::memory::{Memory, Spans, part_of, total_len};
use lustrine_wire::crc;
use lustrine_wire::frame::{FrameError, FrameHeader, FrameKind};
use lustrine_wire::header::{Header, HeaderError};
use lustrine_wire::hello::Version;

use crate::close_reason::ProtocolViolation;
use crate::format::Format;
use crate::io::Io;

/// Payload with a checksum is read in portions of this many bytes: what was just read is still in
/// the CPU's own cache when it is summed up.
const SUM_PORTION: u32 = 128 * 1024;

/// What stands at the start of a message.
#[derive(Clone, Debug)]
pub(crate) enum Head {
    /// A NOOP: complete in itself.
    Noop(FrameHeader),
    /// A message; the reader waits for [`Reader::decide`].
    Message {
        /// What it acknowledges; a NOOP's other cookie is none of these.
        frame: FrameHeader,
        /// The LNet header.
        header: Header,
    },
}

/// Where the next bytes of the stream belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// To a head.
    Head,
    /// To where [`Reader::destination`] says.
    Payload,
    /// Nowhere: this many bytes are to be discarded.
    Skip(u32),
    /// Nothing may be read: a verdict is awaited.
    Verdict,
}

/// The wanted part of a message is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedMessage {
    /// The operation to report, unless the core wanted none of it.
    pub(crate) op: Option<OpKey>,
    /// Cookie to acknowledge, or 0.
    pub(crate) cookie: u64,
    /// Bytes stored and bytes that will be discarded.
    pub(crate) stored: u32,
    pub(crate) discarded: u32,
    /// Whether the checksum matched, as far as it was to be looked at [FRM-10].
    pub(crate) intact: bool,
}

/// A message whose head was read.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    payload_len: u32,
    cookie: u64,
    /// The checksum it claims, or 0, and the sum so far.
    csum: u32,
    sum: u32,
}

#[derive(Clone, Debug)]
enum State {
    Head,
    Verdict(Incoming),
    Store { incoming: Incoming, op: OpKey, spans: Spans, wanted: u32, stored: u32 },
    Skip(u32),
}

/// The receiving half of a connection.
#[derive(Debug)]
pub(crate) struct Reader {
    format: Format,
    state: State,
}

impl Reader {
    pub(crate) fn new(format: Format) -> Reader {
        Reader { format, state: State::Head }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Where the next bytes belong.
    pub(crate) fn expected(&self) -> Expected {
        match &self.state {
            State::Head => Expected::Head,
            State::Verdict(_) => Expected::Verdict,
            State::Store { .. } => Expected::Payload,
            State::Skip(left) => Expected::Skip(*left),
        }
    }

    /// Where the payload that comes next belongs, in order, and whether that is all that is still
    /// to come; empty when none is awaited.
    pub(crate) fn destination(&self) -> (Spans, bool) {
        match &self.state {
            State::Store { incoming, spans, wanted, stored, .. } => {
                let left = wanted - stored;
                let next = if incoming.csum == 0 { left } else { left.min(SUM_PORTION) };
                (part_of(spans, *stored, next), next == left)
            }
            State::Head | State::Verdict(_) | State::Skip(_) => (Spans::new(), true),
        }
    }

    /// Whether a verdict is awaited.
    pub(crate) fn parked(&self) -> bool {
        matches!(self.state, State::Verdict(_))
    }

    /// Whether the payload of an operation is arriving.
    pub(crate) fn storing(&self) -> bool {
        matches!(self.state, State::Store { .. })
    }

    /// The number of bytes that are still to come of what has begun to arrive; `held` bytes of a
    /// head are there. None are to come while the message is parked.
    pub(crate) fn remaining(&self, held: usize) -> u64 {
        match &self.state {
            State::Head if held == 0 => 0,
            State::Head => self.format.head_len().saturating_sub(held).max(1) as u64,
            State::Verdict(_) => 0,
            State::Store { incoming, stored, .. } => u64::from(incoming.payload_len - stored),
            State::Skip(left) => u64::from(*left),
        }
    }

    /// Whether a message is arriving: its head is complete and more belongs to it.
    pub(crate) fn within_message(&self) -> bool {
        !matches!(self.state, State::Head)
    }

    /// Parses the head at the start of `bytes`; returns it and its length. `None`: it is not
    /// complete, and nothing of it was taken.
    ///
    /// A message without payload whose checksum is wrong is a violation here already: it
    /// does not reach the core.
    pub(crate) fn head(
        &mut self,
        bytes: &[u8],
    ) -> Result<Option<(Head, usize)>, ProtocolViolation> {
        debug_assert!(matches!(self.state, State::Head));
        let (version, order) = (self.format.version, self.format.received);
        let frame_len = version.frame_len();
        let (frame, sum) = if self.format.framed() {
            let Some(raw) = bytes.first_chunk() else { return Ok(None) };
            let frame = FrameHeader::parse(raw, order).map_err(ProtocolViolation::from)?;
            let sum = match frame.csum {
                0 => 0,
                _ if version == Version::V2 => frame.csum_start(order),
                // V3 and V4 never send one; if it comes it covers the payload alone (captures
                // r_csumv3good and r_csumv3payloadonly).
                _ => crc::INIT,
            };
            if frame.kind == FrameKind::Noop {
                let intact = frame.csum == 0 || frame.csum == sum;
                return if intact {
                    Ok(Some((Head::Noop(frame), frame_len)))
                } else {
                    Err(ProtocolViolation::Checksum)
                };
            }
            (frame, sum)
        } else {
            (FrameHeader::LNET, 0)
        };
        let head_len = frame_len + version.header_len();
        let Some(raw) = bytes.get(frame_len..head_len) else { return Ok(None) };
        let header = match version {
            Version::V4 => Header::parse_long(raw.try_into().expect("96 bytes")),
            _ => Header::parse_short(raw.try_into().expect("72 bytes")),
        }?;
        let sum =
            if frame.csum != 0 && version == Version::V2 { crc::update(sum, raw) } else { sum };
        if header.payload_len == 0 && frame.csum != 0 && frame.csum != sum {
            return Err(ProtocolViolation::Checksum);
        }
        self.state = State::Verdict(Incoming {
            payload_len: header.payload_len,
            cookie: frame.zc_request,
            csum: frame.csum,
            sum,
        });
        Ok(Some((Head::Message { frame, header }, head_len)))
    }

    /// What the core decided about the message. Returns what is settled by that alone, and nothing
    /// when payload must come first or when the message stays parked.
    pub(crate) fn decide(
        &mut self,
        verdict: Verdict,
    ) -> Result<Option<ReceivedMessage>, ProtocolViolation> {
        let State::Verdict(incoming) = self.state else {
            unreachable!("a verdict without a parked message");
        };
        let (op, spans) = match verdict {
            Verdict::Park => return Ok(None),
            Verdict::Refuse(misbehaviour) => {
                // It is not parked: the core knows nothing of it that could be forgotten.
                self.state = State::Head;
                return Err(ProtocolViolation::Refused(misbehaviour));
            }
            Verdict::Done | Verdict::Drop => (None, Spans::new()),
            Verdict::Into { op, spans } => (Some(op), spans),
        };
        let wanted = total_len(&spans);
        assert!(wanted <= incoming.payload_len, "the core wants more than the payload");
        match op {
            Some(op) if wanted != 0 => {
                self.state = State::Store { incoming, op, spans, wanted, stored: 0 };
                Ok(None)
            }
            op => Ok(Some(self.finish(incoming, op, 0))),
        }
    }

    fn finish(&mut self, incoming: Incoming, op: Option<OpKey>, stored: u32) -> ReceivedMessage {
        let discarded = incoming.payload_len - stored;
        self.state = if discarded == 0 { State::Head } else { State::Skip(discarded) };
        let intact = incoming.csum == 0 || discarded != 0 || incoming.csum == incoming.sum;
        ReceivedMessage { op, cookie: incoming.cookie, stored, discarded, intact }
    }

    /// Copies payload from `bytes` to where it belongs; returns how many bytes were taken.
    #[inline]
    pub(crate) fn copy_in<M: Memory>(&mut self, memory: &mut M, bytes: &[u8]) -> usize {
        let State::Store { incoming, spans, wanted, stored, .. } = &mut self.state else {
            unreachable!("no payload is awaited");
        };
        let taken = bytes.len().min((*wanted - *stored) as usize);
        let bytes = &bytes[..taken];
        if let ([span], 0) = (spans.as_slice(), *stored) {
            memory.write(span.part(0, taken as u32), bytes);
        } else {
            let mut at = 0;
            for part in part_of(spans, *stored, taken as u32) {
                let end = at + part.len as usize;
                memory.write(part, &bytes[at..end]);
                at = end;
            }
        }
        if incoming.csum != 0 {
            incoming.sum = crc::update(incoming.sum, bytes);
        }
        *stored += taken as u32;
        taken
    }

    /// The stream itself has put `len` bytes at the [destination](Reader::destination).
    pub(crate) fn landed<I: Io>(&mut self, io: &I, len: usize) {
        let State::Store { incoming, spans, wanted, stored, .. } = &mut self.state else {
            unreachable!("no payload is awaited");
        };
        let len = len as u32;
        assert!(len <= *wanted - *stored, "the stream stored more than was wanted");
        if incoming.csum != 0 {
            let parts = part_of(spans, *stored, len);
            incoming.sum = parts.iter().fold(incoming.sum, |sum, part| io.crc(sum, *part));
        }
        *stored += len;
    }

    /// Whether the wanted part of the payload is complete; then the reader goes on to the rest.
    pub(crate) fn complete(&mut self) -> Option<ReceivedMessage> {
        let State::Store { incoming, op, wanted, stored, .. } = self.state else { return None };
        (wanted == stored).then(|| self.finish(incoming, Some(op), stored))
    }

    /// `len` bytes of the rest were discarded.
    pub(crate) fn skipped(&mut self, len: usize) {
        let State::Skip(left) = &mut self.state else { unreachable!("nothing is to be skipped") };
        *left -= len as u32;
        if *left == 0 {
            self.state = State::Head;
        }
    }

    /// The connection is gone: the operation whose payload was arriving.
    pub(crate) fn abandoned(&mut self) -> Option<OpKey> {
        match core::mem::replace(&mut self.state, State::Head) {
            State::Store { op, .. } => Some(op),
            State::Head | State::Verdict(_) | State::Skip(_) => None,
        }
    }
}

impl From<FrameError> for ProtocolViolation {
    fn from(error: FrameError) -> ProtocolViolation {
        match error {
            FrameError::UnknownKind(_) => ProtocolViolation::FrameKind,
            FrameError::BadKeepalive(_) => ProtocolViolation::Keepalive,
        }
    }
}

impl From<HeaderError> for ProtocolViolation {
    fn from(error: HeaderError) -> ProtocolViolation {
        match error {
            HeaderError::UnknownType(_) | HeaderError::BadNid(_) => ProtocolViolation::Header,
            HeaderError::UnexpectedPayload { .. } => {
                ProtocolViolation::Refused(HeaderViolation::PayloadOnAckOrGet)
            }
            HeaderError::PayloadTooLong(_) => {
                ProtocolViolation::Refused(HeaderViolation::PayloadTooLong)
            }
        }
    }
}

#[cfg(test)]
mod tests;
