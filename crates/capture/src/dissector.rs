//! The table of connections.

#[cfg(test)]
mod tests;

use core::net::SocketAddr;
use std::collections::{HashMap, VecDeque};

use foldhash::fast::FixedState;

use crate::correlate::Correlations;
use crate::decode::{Context, Decoder};
use crate::event::{Direction, Event, Item, Start};
use crate::flow::{Chunk, Flow};
use crate::packet::{Frame, Segment};

/// The port that LNet listens on by default.
const LNET_PORT: u16 = 988;

/// The memory limits of a dissector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections in the table. Beyond this number, the oldest one is forgotten.
    pub connections: usize,
    /// Bytes held back in one direction of a connection while others are missing.
    pub held_per_direction: usize,
    /// Bytes of all connections together, held back or of unfinished messages. When they exceed the
    /// limit, the connection that needs more drops what it holds.
    pub held_total: usize,
}

impl Default for Limits {
    /// 65536 connections, 4 MiB per direction, 64 MiB in total.
    fn default() -> Limits {
        Limits { connections: 1 << 16, held_per_direction: 4 << 20, held_total: 64 << 20 }
    }
}

/// Counts of what a dissector has processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Frames passed in.
    pub frames: u64,
    /// Frames without a TCP segment, or with an unreadable one.
    pub skipped: u64,
    /// TCP connections found.
    pub streams: u32,
}

/// The two ends of a connection, the smaller one first: the same for both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Ends(SocketAddr, SocketAddr);

impl Ends {
    fn of(segment: &Segment<'_>) -> Ends {
        Ends(segment.source.min(segment.target), segment.source.max(segment.target))
    }
}

#[derive(Debug)]
struct Half {
    flow: Flow,
    decoder: Decoder,
    closed: bool,
}

#[derive(Debug)]
struct Connection {
    stream: u32,
    opener: SocketAddr,
    from_opener: Half,
    from_acceptor: Half,
    /// One end has broken the connection.
    reset: bool,
    /// The fields of [`Item::Opened`], until the connection turns out to be LNet's.
    opening: Option<Event>,
}

/// Turns the frames of a capture into [`Event`]s.
///
/// Pass in frames in the order of the capture, take the events after each frame, and call
/// [`Dissector::finish`] at the end.
#[derive(Debug)]
pub struct Dissector {
    limits: Limits,
    connections: HashMap<Ends, Connection, FixedState>,
    /// Connections by age. Each entry holds the connection's stream number too, because a younger
    /// connection may use the same ends.
    age: VecDeque<(Ends, u32)>,
    known: Correlations,
    events: VecDeque<Event>,
    held: usize,
    last_time_ns: u64,
    stats: Stats,
}

impl Default for Dissector {
    fn default() -> Dissector {
        Dissector::new(Limits::default())
    }
}

impl Dissector {
    /// A dissector without any connections.
    pub fn new(limits: Limits) -> Dissector {
        Dissector {
            limits,
            connections: HashMap::with_hasher(FixedState::default()),
            age: VecDeque::new(),
            known: Correlations::new(),
            events: VecDeque::new(),
            held: 0,
            last_time_ns: 0,
            stats: Stats::default(),
        }
    }

    /// The counts so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The next event. Take all of them after each frame: they are kept until taken.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes the next frame of the capture.
    pub fn frame(&mut self, frame: &Frame<'_>) {
        self.stats.frames += 1;
        self.last_time_ns = frame.time_ns;
        match frame.segment() {
            Some(segment) => self.segment(&segment),
            None => self.stats.skipped += 1,
        }
    }

    /// Records that the capture ends: what was held back is decoded as far as possible.
    pub fn finish(&mut self) {
        for (ends, stream) in std::mem::take(&mut self.age) {
            self.forget(ends, stream);
        }
    }

    fn segment(&mut self, segment: &Segment<'_>) {
        let ends = Ends::of(segment);
        if self.connections.get(&ends).is_some_and(|c| c.is_over(segment)) {
            self.remove(ends);
        }
        if !self.connections.contains_key(&ends) {
            if segment.rst {
                return;
            }
            self.open(ends, segment);
        }
        let Some(connection) = self.connections.get_mut(&ends) else {
            return;
        };
        let before = connection.held_bytes();
        let cx = &mut Context {
            time_ns: self.last_time_ns,
            stream: connection.stream,
            known: &mut self.known,
            events: &mut self.events,
        };
        let first = cx.events.len();
        connection.segment(cx, segment, self.limits.held_per_direction);
        let mut after = connection.held_bytes();
        if self.held - before + after > self.limits.held_total && after > 0 {
            connection.shed(cx);
            after = connection.held_bytes();
        }
        if cx.events.len() > first
            && let Some(opening) = connection.opening.take()
        {
            cx.events.insert(first, opening);
        }
        self.held = self.held - before + after;
    }

    fn open(&mut self, ends: Ends, segment: &Segment<'_>) {
        while self.connections.len() >= self.limits.connections.max(1) {
            let Some((oldest, stream)) = self.age.pop_front() else {
                break;
            };
            self.forget(oldest, stream);
        }
        self.stats.streams += 1;
        let mut connection = Connection::new(self.stats.streams, self.last_time_ns, segment);
        if is_ours(segment) {
            self.events.extend(connection.opening.take());
        }
        self.age.push_back((ends, connection.stream));
        self.connections.insert(ends, connection);
    }

    fn forget(&mut self, ends: Ends, stream: u32) {
        if self.connections.get(&ends).is_some_and(|c| c.stream == stream) {
            self.remove(ends);
        }
    }

    fn remove(&mut self, ends: Ends) {
        let Some(mut connection) = self.connections.remove(&ends) else {
            return;
        };
        self.held -= connection.held_bytes();
        let cx = &mut Context {
            time_ns: self.last_time_ns,
            stream: connection.stream,
            known: &mut self.known,
            events: &mut self.events,
        };
        connection.from_opener.flush(cx);
        connection.from_acceptor.flush(cx);
    }
}

impl Connection {
    /// Creates the connection whose first captured segment is this.
    fn new(stream: u32, time_ns: u64, segment: &Segment<'_>) -> Connection {
        let source_opened = match (segment.syn, segment.ack) {
            (true, None) => true,
            (true, Some(_)) => false,
            // The handshake was not seen: the listening port is the well-known one.
            (false, _) => segment.target.port() == LNET_PORT || segment.source.port() != LNET_PORT,
        };
        let (opener, acceptor) = if source_opened {
            (segment.source, segment.target)
        } else {
            (segment.target, segment.source)
        };
        let start = if segment.syn { Start::Handshake } else { Start::MidStream };
        let ours = is_ours(segment);
        let half = |direction| Half {
            flow: Flow::default(),
            decoder: Decoder::new(direction, start, ours),
            closed: false,
        };
        let opening = Event {
            time_ns,
            stream,
            direction: Direction::FromOpener,
            offset: 0,
            raw: Vec::new(),
            item: Item::Opened { opener, acceptor, start },
        };
        Connection {
            stream,
            opener,
            from_opener: half(Direction::FromOpener),
            from_acceptor: half(Direction::FromAcceptor),
            reset: false,
            opening: Some(opening),
        }
    }

    fn held_bytes(&self) -> usize {
        self.from_opener.held_bytes() + self.from_acceptor.held_bytes()
    }

    /// The half that sent a segment, and the other one.
    fn halves(&mut self, segment: &Segment<'_>) -> (&mut Half, &mut Half) {
        if segment.source == self.opener {
            (&mut self.from_opener, &mut self.from_acceptor)
        } else {
            (&mut self.from_acceptor, &mut self.from_opener)
        }
    }

    /// Whether a segment shows that this connection is over and that its ends are used again.
    fn is_over(&self, segment: &Segment<'_>) -> bool {
        if !segment.syn {
            return false;
        }
        let half =
            if segment.source == self.opener { &self.from_opener } else { &self.from_acceptor };
        self.reset || !half.flow.may_start_after(segment.seq)
    }

    fn segment(&mut self, cx: &mut Context<'_>, segment: &Segment<'_>, limit: usize) {
        let reset = self.reset;
        let (sender, receiver) = self.halves(segment);
        // Segments of an earlier connection between the same ends, which acknowledge or reset what
        // does not belong to this connection.
        let stray_ack = segment.ack.is_some_and(|ack| !receiver.flow.is_plausible(ack));
        if (stray_ack && !sender.flow.is_started() && !segment.syn)
            || (segment.rst && !sender.flow.is_plausible(segment.seq))
        {
            return;
        }
        if segment.syn {
            sender.flow.start_after(segment.seq);
        }
        // After a reset no answers are due, and sequence numbers may have any value.
        if let Some(ack) = segment.ack
            && !segment.rst
            && !reset
        {
            receiver.acknowledge(cx, ack);
        }
        sender.insert(cx, segment, limit);
        if segment.fin {
            sender.flow.close(segment.seq, segment.payload.len());
        }
        sender.close_if_finished(cx);
        if segment.rst && !reset {
            sender.decoder.report(cx, Item::Reset);
            sender.flush(cx);
            receiver.flush(cx);
            self.reset = true;
        }
    }

    fn shed(&mut self, cx: &mut Context<'_>) {
        for half in [&mut self.from_opener, &mut self.from_acceptor] {
            let Half { flow, decoder, .. } = half;
            flow.flush(&mut |chunk| deliver(decoder, cx, chunk));
            decoder.shed(cx);
        }
    }
}

impl Half {
    fn held_bytes(&self) -> usize {
        self.flow.held_bytes() + self.decoder.held_bytes()
    }

    fn insert(&mut self, cx: &mut Context<'_>, segment: &Segment<'_>, limit: usize) {
        let Half { flow, decoder, .. } = self;
        let seq = segment.seq.wrapping_add(u32::from(segment.syn));
        flow.insert(seq, segment.payload, limit, &mut |chunk| deliver(decoder, cx, chunk));
    }

    fn acknowledge(&mut self, cx: &mut Context<'_>, ack: u32) {
        let Half { flow, decoder, .. } = self;
        flow.acknowledge(ack, &mut |chunk| deliver(decoder, cx, chunk));
        self.close_if_finished(cx);
    }

    fn close_if_finished(&mut self, cx: &mut Context<'_>) {
        if self.flow.is_finished() && !self.closed {
            self.closed = true;
            self.decoder.end(cx);
            self.decoder.report(cx, Item::Fin);
        }
    }

    /// Decodes all that can be decoded, because no more will come.
    fn flush(&mut self, cx: &mut Context<'_>) {
        let Half { flow, decoder, .. } = self;
        flow.flush(&mut |chunk| deliver(decoder, cx, chunk));
        self.close_if_finished(cx);
        self.decoder.end(cx);
    }
}

/// Whether a segment is from or to LNet's port.
fn is_ours(segment: &Segment<'_>) -> bool {
    segment.source.port() == LNET_PORT || segment.target.port() == LNET_PORT
}

fn deliver(decoder: &mut Decoder, cx: &mut Context<'_>, chunk: Chunk<'_>) {
    match chunk {
        Chunk::Data(bytes) => decoder.data(cx, bytes),
        Chunk::Gap(missing) => decoder.gap(cx, missing),
    }
}
