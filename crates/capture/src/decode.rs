//! Decodes one direction of a connection: bytes in sequence in, events out.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use lustrine_wire::acceptor::{self, AcceptorError, Answer, Request};
use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::hello::{Hello, HelloError, Version};
use lustrine_wire::{ByteOrder, Header, LNET_MAGIC, Progress, TCP_MAGIC, crc};

use crate::content;
use crate::correlate::Correlations;
use crate::event::{
    Certainty, Checksum, Content, Direction, Event, Item, Message, Noop, Start, StreamFormat,
    Undecoded,
};
use crate::guess::{self, Guess};

/// The fields that all events of one decoder share.
pub(crate) struct Context<'a> {
    pub(crate) time_ns: u64,
    pub(crate) stream: u32,
    pub(crate) known: &'a mut Correlations,
    pub(crate) events: &'a mut VecDeque<Event>,
}

/// What comes next on the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The beginning of the connection.
    Opening,
    /// The middle of a connection whose beginning was not seen, at a message boundary.
    MidStream,
    /// A HELLO.
    Hello,
    /// LNet messages.
    Messages(StreamFormat),
    /// The rest of a message with missing bytes, then messages.
    Skip { left: u64, then: StreamFormat },
    /// Anything: search for the start of a message. `segment_start`: the next byte is the first of
    /// a TCP segment, where even a NOOP is plausible.
    Search { format: Option<StreamFormat>, segment_start: bool },
    /// Nothing is decoded any more, because something was malformed.
    Broken,
    /// The connection belongs to another protocol.
    Foreign,
}

/// The result of one step of decoding.
enum Step {
    /// The next bytes, of this number, are this item.
    Took(usize, Item),
    /// The buffered bytes hold no further item.
    Wait,
    /// Repeat the step in another phase.
    Enter(Phase),
    /// Neither the buffered bytes nor the bytes that follow can be decoded.
    Broken(Undecoded),
}

/// Decodes one direction of a connection.
#[derive(Debug)]
pub(crate) struct Decoder {
    direction: Direction,
    /// Whether a port of the connection is LNet's, so that anything unexpected on it is reported.
    ours: bool,
    phase: Phase,
    buf: Vec<u8>,
    /// Offset of the first byte of `buf` in the stream.
    offset: u64,
}

impl Decoder {
    pub(crate) fn new(direction: Direction, start: Start, ours: bool) -> Decoder {
        let phase = match start {
            Start::Handshake => Phase::Opening,
            Start::MidStream => Phase::MidStream,
        };
        Decoder { direction, ours, phase, buf: Vec::new(), offset: 0 }
    }

    /// Memory that the decoder holds, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.buf.capacity()
    }

    /// Reports an event without bytes, unless the connection seems to belong to another protocol.
    pub(crate) fn report(&self, cx: &mut Context<'_>, item: Item) {
        let unknown = matches!(self.phase, Phase::Opening | Phase::MidStream) && !self.ours;
        if unknown || self.phase == Phase::Foreign {
            return;
        }
        cx.events.push_back(self.event(cx, self.offset + self.buf.len() as u64, &[], item));
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn data(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        if self.phase == Phase::Foreign {
            self.offset += bytes.len() as u64;
            return;
        }
        // Most segments leave nothing behind, and are decoded where they are.
        let mut joined = core::mem::take(&mut self.buf);
        let whole = match joined.is_empty() {
            true => bytes,
            false => {
                joined.extend_from_slice(bytes);
                &joined
            }
        };
        cx.known.now_ns = cx.time_ns;
        let mut used = 0;
        loop {
            match self.step(&whole[used..], cx.known) {
                Step::Took(len, item) => {
                    self.advance_phase(len, &item);
                    let raw = &whole[used..used + len];
                    cx.events.push_back(self.event(cx, self.offset + used as u64, raw, item));
                    used += len;
                }
                Step::Enter(phase) => self.phase = phase,
                Step::Wait => break,
                Step::Broken(why) => {
                    self.phase = Phase::Broken;
                    let raw = &whole[used..];
                    let item = Item::Undecoded(why);
                    cx.events.push_back(self.event(cx, self.offset + used as u64, raw, item));
                    used = whole.len();
                    break;
                }
            }
        }
        if self.phase == Phase::Foreign {
            used = whole.len();
        }
        self.offset += used as u64;
        self.buf = match (whole.len() - used, joined.is_empty()) {
            (0, _) => Vec::new(),
            (_, true) => bytes[used..].to_vec(),
            (_, false) => {
                joined.drain(..used);
                joined
            }
        };
    }

    /// Records that the next `missing` bytes of the stream were not captured.
    pub(crate) fn gap(&mut self, cx: &mut Context<'_>, missing: u64) {
        let have = self.buf.len() as u64;
        let search = |format| Phase::Search { format, segment_start: true };
        let next = match self.phase {
            Phase::Messages(format) => match self.message_len(format) {
                Some(len) if have + missing <= len => skip(len - have - missing, format),
                _ => search(Some(format)),
            },
            Phase::Skip { left, then } if missing <= left => skip(left - missing, then),
            Phase::Skip { then, .. } => search(Some(then)),
            Phase::Search { format, .. } => search(format),
            Phase::Opening | Phase::MidStream if !self.ours => Phase::Foreign,
            Phase::Opening | Phase::MidStream | Phase::Hello => search(None),
            Phase::Broken | Phase::Foreign => self.phase,
        };
        let why = match self.phase {
            Phase::Search { .. } => Undecoded::Unsynchronized,
            _ => Undecoded::Incomplete,
        };
        self.give_up(cx, why);
        self.report(cx, Item::Gap { missing });
        self.offset += missing;
        self.phase = next;
    }

    /// Records that no more bytes will come.
    pub(crate) fn end(&mut self, cx: &mut Context<'_>) {
        self.give_up(cx, Undecoded::CutOff);
        if self.phase != Phase::Foreign {
            self.phase = Phase::Broken;
        }
    }

    /// Drops the buffered part of an unfinished message, because memory is short. What opens a
    /// connection stays: it is short, and all that follows depends on it.
    pub(crate) fn shed(&mut self, cx: &mut Context<'_>) {
        if matches!(self.phase, Phase::Opening | Phase::MidStream | Phase::Hello) {
            return;
        }
        let have = self.buf.len() as u64;
        let next = match self.phase {
            Phase::Messages(_) if have == 0 => self.phase,
            Phase::Messages(format) => match self.message_len(format) {
                Some(len) => skip(len.saturating_sub(have), format),
                None => Phase::Search { format: Some(format), segment_start: false },
            },
            other => other,
        };
        self.give_up(cx, Undecoded::Incomplete);
        self.phase = next;
    }

    /// Reports what is buffered as undecoded.
    fn give_up(&mut self, cx: &mut Context<'_>, why: Undecoded) {
        if !self.buf.is_empty() {
            let item = Item::Undecoded(why);
            cx.events.push_back(self.event(cx, self.offset, &self.buf, item));
        }
        self.offset += self.buf.len() as u64;
        self.buf = Vec::new();
    }

    fn event(&self, cx: &Context<'_>, offset: u64, raw: &[u8], item: Item) -> Event {
        Event {
            time_ns: cx.time_ns,
            stream: cx.stream,
            direction: self.direction,
            offset,
            raw: raw.to_vec(),
            item,
        }
    }

    /// The phase after an item of `len` bytes.
    fn advance_phase(&mut self, len: usize, item: &Item) {
        self.phase = match (self.phase, item) {
            (_, Item::Request(_) | Item::Answer(_)) => Phase::Hello,
            (_, Item::Hello(hello)) => Phase::Messages(StreamFormat {
                version: hello.version,
                order: hello.order,
                certainty: Certainty::Announced,
            }),
            (Phase::Messages(_), Item::Message(message)) => Phase::Messages(message.format),
            (Phase::Skip { left, then }, _) => skip(left - len as u64, then),
            (Phase::Search { format, .. }, _) => Phase::Search { format, segment_start: false },
            (phase, _) => phase,
        };
    }

    fn step(&self, buf: &[u8], known: &mut Correlations) -> Step {
        if buf.is_empty() {
            return Step::Wait;
        }
        match self.phase {
            Phase::Opening => self.opening(buf),
            Phase::MidStream => self.midway(buf),
            Phase::Hello => hello(buf),
            Phase::Messages(format) => messages(buf, format, known),
            Phase::Skip { left, .. } => {
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
                Step::Took(len, Item::Undecoded(Undecoded::Incomplete))
            }
            Phase::Search { format, segment_start } => search(buf, format, segment_start),
            Phase::Broken => Step::Took(buf.len(), Item::Undecoded(Undecoded::AfterError)),
            Phase::Foreign => Step::Wait,
        }
    }

    fn opening(&self, buf: &[u8]) -> Step {
        match self.direction {
            Direction::FromOpener => match Request::parse(buf) {
                Ok(Progress::Got(request, len)) => Step::Took(len, Item::Request(request)),
                Ok(Progress::Need(_)) => Step::Wait,
                Err(AcceptorError::BadMagic(_)) if !self.ours => Step::Enter(Phase::Foreign),
                Err(error) => Step::Broken(Undecoded::Request(error)),
            },
            Direction::FromAcceptor => match Answer::parse(buf) {
                Ok(Progress::Got(answer, len)) => Step::Took(len, Item::Answer(answer)),
                Ok(Progress::Need(_)) => Step::Wait,
                Err(_) => match hello(buf) {
                    Step::Broken(Undecoded::Hello(HelloError::BadMagic(_))) if !self.ours => {
                        Step::Enter(Phase::Foreign)
                    }
                    step => step,
                },
            },
        }
    }

    /// At the start of what was captured; a stream is assumed to begin at a message boundary.
    fn midway(&self, buf: &[u8]) -> Step {
        let Some(word) = buf.first_chunk() else {
            return Step::Wait;
        };
        if ByteOrder::of_magic(*word, acceptor::MAGIC).is_some() {
            return self.opening(buf);
        }
        let lnet = ByteOrder::of_magic(*word, LNET_MAGIC).is_some();
        if lnet || ByteOrder::of_magic(*word, TCP_MAGIC).is_some() {
            return Step::Enter(Phase::Hello);
        }
        match guess::at_start(buf) {
            Guess::Message(format) | Guess::Noop(format) => Step::Enter(Phase::Messages(format)),
            Guess::Need(_) => Step::Wait,
            Guess::No if self.ours => {
                Step::Enter(Phase::Search { format: None, segment_start: false })
            }
            Guess::No => Step::Enter(Phase::Foreign),
        }
    }

    /// Length of the message whose first bytes are buffered, if these bytes determine it.
    fn message_len(&self, format: StreamFormat) -> Option<u64> {
        let frame_len = format.version.frame_len();
        if format.version != Version::V1 {
            let frame = FrameHeader::parse(self.buf.first_chunk()?, format.order).ok()?;
            if frame.kind == FrameKind::Noop {
                return Some(frame_len as u64);
            }
        }
        let header = parse_header(self.buf.get(frame_len..)?, format.version)?.ok()?;
        let headers = frame_len + format.version.header_len();
        Some(headers as u64 + u64::from(header.payload_len))
    }
}

fn hello(buf: &[u8]) -> Step {
    match Hello::parse(buf) {
        Ok(Progress::Got(hello, len)) => Step::Took(len, Item::Hello(hello)),
        Ok(Progress::Need(_)) => Step::Wait,
        Err(error) => Step::Broken(Undecoded::Hello(error)),
    }
}

fn messages(buf: &[u8], format: StreamFormat, known: &mut Correlations) -> Step {
    let frame_len = format.version.frame_len();
    let frame = match format.version {
        Version::V1 => None,
        _ => {
            let Some(raw) = buf.first_chunk() else {
                return Step::Wait;
            };
            match FrameHeader::parse(raw, format.order) {
                Ok(frame) => Some(frame),
                Err(error) => return Step::Broken(Undecoded::Frame(error)),
            }
        }
    };
    if let Some(frame) = frame {
        if frame.kind == FrameKind::Noop {
            let checksum = check(format, &frame, &[], 0);
            return Step::Took(frame_len, Item::Noop(Noop { format, frame, checksum }));
        }
        if format.certainty == Certainty::Assumed {
            match guess::at_start(buf) {
                Guess::Message(format) => return Step::Enter(Phase::Messages(format)),
                Guess::Need(_) => return Step::Wait,
                Guess::Noop(_) | Guess::No => {
                    return Step::Enter(Phase::Search { format: None, segment_start: false });
                }
            }
        }
    }
    let header = match parse_header(&buf[frame_len..], format.version) {
        None => return Step::Wait,
        Some(Ok(header)) => header,
        Some(Err(error)) => return Step::Broken(Undecoded::Header(error)),
    };
    let payload_at = frame_len + format.version.header_len();
    let len = payload_at + header.payload_len as usize;
    let Some(raw) = buf.get(..len) else {
        return Step::Wait;
    };
    let checksum = frame
        .map_or(Checksum::Absent, |f| check(format, &f, &raw[frame_len..], payload_at - frame_len));
    let content: Content = content::look(&header, &raw[payload_at..], known);
    let message = Message { format, frame, checksum, header, content };
    Step::Took(len, Item::Message(Box::new(message)))
}

fn parse_header(
    buf: &[u8],
    version: Version,
) -> Option<Result<Header, lustrine_wire::header::HeaderError>> {
    match version {
        Version::V4 => buf.first_chunk().map(Header::parse_long),
        _ => buf.first_chunk().map(Header::parse_short),
    }
}

/// Verifies the checksum of a frame. `rest` is what follows the frame header, its first
/// `header_len` bytes the LNet header: V2 covers everything, V3 and V4 the payload only [FRM-8].
fn check(format: StreamFormat, frame: &FrameHeader, rest: &[u8], header_len: usize) -> Checksum {
    if frame.csum == 0 {
        return Checksum::Absent;
    }
    let computed = match format.version {
        Version::V1 | Version::V2 => crc::update(frame.csum_start(format.order), rest),
        Version::V3 | Version::V4 => crc::update(crc::INIT, &rest[header_len..]),
    };
    if computed == frame.csum { Checksum::Good } else { Checksum::Bad { computed } }
}

/// Searches for the next message boundary.
fn search(buf: &[u8], format: Option<StreamFormat>, segment_start: bool) -> Step {
    for at in 0..buf.len() {
        let found = match (guess::at_start(&buf[at..]), format) {
            (Guess::Need(_), _) => return wait_from(at),
            (Guess::No, _) => continue,
            (Guess::Noop(_), _) if at > 0 || !segment_start => continue,
            (Guess::Noop(found), Some(format)) if found.order == format.order => format,
            (Guess::Message(found), Some(format)) if found.is_framed_like(&format) => format,
            (Guess::Noop(found) | Guess::Message(found), None) => found,
            (Guess::Noop(_) | Guess::Message(_), Some(_)) => continue,
        };
        return if at == 0 { Step::Enter(Phase::Messages(found)) } else { wait_from(at) };
    }
    wait_from(buf.len())
}

/// Skips the rest of a message, if there is any.
fn skip(left: u64, then: StreamFormat) -> Phase {
    match left {
        0 => Phase::Messages(then),
        _ => Phase::Skip { left, then },
    }
}

/// Skips the first `at` bytes.
fn wait_from(at: usize) -> Step {
    match at {
        0 => Step::Wait,
        _ => Step::Took(at, Item::Undecoded(Undecoded::Unsynchronized)),
    }
}
