//! Reads, writes and closes an end.

use lustrine_lnet::time::Nanos;
use lustrine_socklnd::io::{IoError, Readiness, SockId};

use super::end::{Lent, Packet, Pin, State};
use super::event_queue::NetworkEvent;
use super::{Chunking, Network, other, place};
use crate::event_log::EventKind;
use crate::memory::Rope;

/// How much a call may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// This number of bytes, at least 1.
    Bytes(usize),
    /// Nothing now; a report will follow.
    WouldBlock,
    /// The end of the stream.
    Closed,
    /// The stream was reset.
    Failed(IoError),
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The other side closed it.
    Closed,
    /// It was reset.
    Broken(IoError),
}

/// The latest time of a report that a divided call owes.
const OWED_WITHIN: u64 = 20_000;

impl Network {
    /// How many of `asked` bytes a read gets; the caller must take them.
    pub(crate) fn readable(&mut self, sock: SockId, asked: usize, cut: Chunking) -> Offer {
        let Some(end) = self.end(sock) else { return Offer::Failed(IoError::Other) };
        let there = asked.min(end.inbox.len() as usize);
        if there == 0 {
            return match (end.error, end.ended) {
                (Some(error), _) => Offer::Failed(error),
                (None, true) => Offer::Closed,
                (None, false) => Offer::WouldBlock,
            };
        }
        let left = end.inbox.len() as usize;
        match self.cut(cut, there) {
            None => {
                self.owe(sock, Readiness { readable: true, ..Readiness::default() });
                Offer::WouldBlock
            }
            Some(len) => {
                // The reader takes a short count as the end of the available data.
                if len < asked && len < left {
                    self.owe(sock, Readiness { readable: true, ..Readiness::default() });
                }
                Offer::Bytes(len)
            }
        }
    }

    /// How the other side ended the stream, if everything was read.
    pub(crate) fn how_ended(&self, sock: SockId) -> Option<StreamEnd> {
        let Some(end) = self.end(sock) else { return Some(StreamEnd::Broken(IoError::Other)) };
        match end.error {
            _ if !end.inbox.is_empty() => None,
            Some(error) => Some(StreamEnd::Broken(error)),
            None => end.ended.then_some(StreamEnd::Closed),
        }
    }

    /// Takes bytes that [`Network::readable`] offered, piece by piece.
    pub(crate) fn take(&mut self, sock: SockId, len: usize) -> Rope {
        let end = self.end_mut(sock).expect("the end was just looked at");
        let taken = end.inbox.split_to(len as u64);
        let writer = other(sock);
        if self.end(writer).is_some_and(|end| end.flow.is_some()) {
            self.mind_edge(sock);
        } else if self.end(writer).is_some_and(|end| end.state != State::Closed) {
            let at = self.now + self.latency_of(sock);
            self.event_queue.add(at, NetworkEvent::Room { sock: writer, len });
        }
        taken
    }

    /// How many of `asked` bytes a write may send; the caller must send them.
    pub(crate) fn writable(&mut self, sock: SockId, asked: usize, cut: Chunking) -> Offer {
        let window = self.window_of(sock);
        let Some(end) = self.end_mut(sock) else { return Offer::Failed(IoError::Other) };
        if let Some(error) = end.error {
            return Offer::Failed(error);
        }
        if end.finished {
            return Offer::Failed(IoError::Reset);
        }
        let room = match &end.flow {
            Some(flow) => usize::try_from(flow.room()).unwrap_or(usize::MAX),
            None => window.saturating_sub(end.unread),
        };
        if room < asked {
            end.starved = true;
        }
        if room == 0 || end.state != State::Open {
            return Offer::WouldBlock;
        }
        let fits = asked.min(room);
        match self.cut(cut, fits) {
            None => {
                self.owe(sock, Readiness { writable: true, ..Readiness::default() });
                Offer::WouldBlock
            }
            Some(len) => {
                if len < fits {
                    self.owe(sock, Readiness { writable: true, ..Readiness::default() });
                }
                Offer::Bytes(len)
            }
        }
    }

    /// Sends bytes that [`Network::writable`] allowed.
    pub(crate) fn send(&mut self, sock: SockId, bytes: Rope) {
        let end = self.end_mut(sock).expect("the end was just looked at");
        end.written += bytes.len();
        if end.flow.is_some() {
            return self.push(sock, bytes);
        }
        end.unread += bytes.len() as usize;
        self.ship(other(sock), Packet::Bytes(bytes));
    }

    /// The bytes sent last are still in the sender's memory, and may not change there until the
    /// other host has them.
    pub(crate) fn pin(&mut self, sock: SockId, lent: Vec<Lent>) {
        let end = self.end_mut(sock).expect("the end was just written to");
        end.pins.push_back(Pin { end: end.written, lent });
    }

    /// Bytes up to `upto` have arrived at `sock`.
    pub(super) fn acknowledge(&mut self, sock: SockId, upto: u64) {
        let writer = other(sock);
        if self.end(writer).is_some_and(|end| !end.pins.is_empty()) {
            let at = self.now + self.latency_of(sock);
            self.event_queue.add(at, NetworkEvent::Acknowledged { sock: writer, upto });
        }
    }

    pub(super) fn acknowledged(&mut self, sock: SockId, upto: u64) {
        let Some(end) = self.end_mut(sock) else { return };
        let mut zero_copy_done = 0;
        while end.pins.front().is_some_and(|pin| pin.end <= upto) {
            let pin = end.pins.pop_front().expect("it was just there");
            end.returned.extend(pin.lent);
            zero_copy_done += 1;
        }
        if zero_copy_done != 0 {
            self.raise(sock, Readiness { zero_copy_done, ..Readiness::default() });
        }
    }

    /// The other side has read `len` bytes.
    ///
    /// As in Linux, a writer that had to wait is notified when a third of the window is free;
    /// otherwise reads and writes would become smaller and smaller.
    pub(super) fn room(&mut self, sock: SockId, len: usize) {
        let window = self.window_of(sock);
        let Some(end) = self.end_mut(sock) else { return };
        end.unread -= len;
        if end.starved && window.saturating_sub(end.unread) >= window / 3 {
            end.starved = false;
            self.raise(sock, Readiness { writable: true, ..Readiness::default() });
        }
    }

    /// Closes this half: the other side reads to the end, and may still write.
    pub(crate) fn finish(&mut self, sock: SockId) {
        let Some(end) = self.end_mut(sock) else { return };
        if !core::mem::replace(&mut end.finished, true) && !self.finish_flow(sock) {
            self.ship(other(sock), Packet::Fin);
        }
    }

    /// Closes and forgets an end. If bytes are unread, the other side sees a reset.
    pub(crate) fn close(&mut self, sock: SockId) {
        let Some(end) = self.end(sock) else { return };
        let packet = if end.inbox.is_empty() { Packet::Fin } else { Packet::Reset };
        self.leave(sock, Some(packet));
    }

    /// Resets and forgets an end.
    pub(crate) fn abort(&mut self, sock: SockId) {
        self.leave(sock, Some(Packet::Reset));
    }

    /// Forgets an end, with or without a last item for the other side.
    pub(super) fn leave(&mut self, sock: SockId, last: Option<Packet>) {
        let (connection, _) = place(sock);
        self.hellos.forget(sock);
        let Some(end) = self.end_mut(sock) else { return };
        if end.state == State::Closed {
            return;
        }
        let dialling = end.state == State::Dialling;
        let broken = end.error.is_some();
        let finished = end.finished;
        end.state = State::Closed;
        end.aborted = matches!(last, Some(Packet::Reset));
        end.inbox = Rope::default();
        end.pins.clear();
        end.returned.clear();
        let host = end.host;
        self.note(host, sock, EventKind::Closed, 0);
        let fin_again = matches!(last, Some(Packet::Fin)) && (finished || self.finish_flow(sock));
        if !matches!(last, Some(Packet::Fin))
            && let Some(flow) = self.end_mut(sock).and_then(|end| end.flow.as_deref_mut())
        {
            flow.clear();
        }
        if let Some(packet) = last.filter(|_| !broken && !fin_again)
            && !(dialling && self.end(other(sock)).is_none_or(|far| far.state == State::Closed))
        {
            self.ship(other(sock), packet);
        }
        self.forget_if_over(connection);
    }

    /// How much of `len` a call moves; `None` is nothing.
    fn cut(&mut self, chunking: Chunking, len: usize) -> Option<usize> {
        match chunking {
            Chunking::Whole => Some(len),
            Chunking::AtMost(most) => Some(len.min(most.max(1))),
            Chunking::Random => match self.rng.below(8) {
                0 => None,
                1 => Some(1),
                2 | 3 => Some(len),
                _ => Some(1 + self.rng.below(len as u64) as usize),
            },
        }
    }

    /// A report comes a little later.
    fn owe(&mut self, sock: SockId, readiness: Readiness) {
        let at = self.now + Nanos(1 + self.rng.below(OWED_WITHIN));
        self.event_queue.add(at, NetworkEvent::Report { sock, readiness });
    }

    fn link_of(&self, sock: SockId) -> super::Link {
        let (connection, _) = place(sock);
        match self.connections.get(&connection) {
            Some(found) => self.link(found.ends[0].host, found.ends[1].host),
            None => self.usual,
        }
    }

    fn latency_of(&self, sock: SockId) -> Nanos {
        self.link_of(sock).latency()
    }

    fn window_of(&self, sock: SockId) -> usize {
        self.link_of(sock).window
    }

    /// How the calls of a node are divided there; those of a script are not.
    pub(crate) fn chunking_of(&self, sock: SockId) -> Chunking {
        self.link_of(sock).chunking
    }
}
