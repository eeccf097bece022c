//! One direction of a TCP connection: segments in, bytes in sequence out.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

/// Segments further ahead than this belong to another conversation, or to this one after a part
/// that was not captured: TCP's largest window is 1 GiB.
const JUMP_MAX: i64 = 1 << 30;
/// The same of segments behind: nothing is sent again after so many bytes. It is less than the
/// largest window, so that fewer places after a missing part are taken for an old one.
const BEHIND_MAX: i64 = 1 << 28;
/// So many segments in sequence at another place are this stream: it goes on there.
const STRAYS_MAX: u32 = 3;

/// What a [`Flow`] delivers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Chunk<'a> {
    /// The next bytes of the stream.
    Data(&'a [u8]),
    /// This number of bytes of the stream is missing from the capture.
    Gap(u64),
}

/// Puts the segments of one direction into sequence.
///
/// Bytes that were delivered before are dropped. Bytes after a hole are held until the hole is
/// filled, until the receiver acknowledges bytes beyond it (then the capture lost them), or until
/// more bytes are held than allowed.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Sequence number of the byte at offset `delivered`; unknown before the first segment.
    next: Option<u32>,
    /// Bytes delivered or declared missing so far.
    delivered: u64,
    /// Segments after a hole, by the offset of their first byte.
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    /// The receiver has everything before this offset.
    acked: u64,
    /// Where the stream ends.
    end: Option<u64>,
    /// Segments in sequence at an implausible place: the number after them, and how many.
    strays: Option<(u32, u32)>,
}

impl Flow {
    /// Whether any segment was seen.
    pub(crate) fn is_started(&self) -> bool {
        self.next.is_some()
    }

    /// Bytes held back at the moment.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether the sender has closed the stream and all bytes were delivered.
    pub(crate) fn is_finished(&self) -> bool {
        self.end.is_some_and(|end| self.delivered >= end)
    }

    /// Whether a SYN with sequence number `seq` may be the beginning of this stream. If not, it
    /// belongs to another connection.
    pub(crate) fn may_start_after(&self, seq: u32) -> bool {
        self.next.is_none() || self.offset_of(seq.wrapping_add(1)) == Some(0)
    }

    /// Starts the stream after a SYN with sequence number `seq`, unless it has started.
    pub(crate) fn start_after(&mut self, seq: u32) {
        self.next.get_or_insert(seq.wrapping_add(1));
    }

    /// Whether a sequence number, or an acknowledgement of this stream, can belong to it.
    pub(crate) fn is_plausible(&self, seq: u32) -> bool {
        self.next.is_none() || self.offset_of(seq).is_some()
    }

    /// The offset of a sequence number in the stream; `None` before its start or implausibly far
    /// ahead or behind.
    fn offset_of(&self, seq: u32) -> Option<u64> {
        let ahead = i64::from(seq.wrapping_sub(self.next?) as i32);
        if !(-BEHIND_MAX..=JUMP_MAX).contains(&ahead) {
            return None;
        }
        self.delivered.checked_add_signed(ahead)
    }

    /// Takes a segment and delivers what is in sequence now.
    ///
    /// At most `limit` bytes are held back afterwards.
    pub(crate) fn insert(
        &mut self,
        seq: u32,
        payload: &[u8],
        limit: usize,
        out: &mut dyn FnMut(Chunk<'_>),
    ) {
        if payload.is_empty() {
            return;
        }
        self.next.get_or_insert(seq);
        let (start, payload) = match self.offset_of(seq) {
            Some(start) => (start, payload),
            None => match self.before_start(seq, payload) {
                Some(rest) => (self.delivered, rest),
                None if self.continues_at(seq, payload.len()) => {
                    self.give_up_holes(0, out);
                    let missing = seq.wrapping_sub(self.next.unwrap_or(seq)).into();
                    self.advance(missing);
                    out(Chunk::Gap(missing));
                    (self.delivered, payload)
                }
                None => return,
            },
        };
        self.strays = None;
        if start <= self.delivered {
            let known = (self.delivered - start) as usize;
            if let Some(fresh) = payload.get(known..) {
                self.deliver(fresh, out);
            }
            self.drain(out);
        } else {
            self.hold(start, payload);
        }
        self.give_up_holes(limit, out);
    }

    /// The part of a segment that starts before the stream does but reaches beyond `delivered`.
    fn before_start<'a>(&self, seq: u32, payload: &'a [u8]) -> Option<&'a [u8]> {
        let known = self.next?.wrapping_sub(seq);
        if known > JUMP_MAX as u32 {
            return None;
        }
        payload.get(known as usize..)
    }

    /// Whether the stream goes on at a place that is implausibly far away, after more was missing
    /// from the capture than a window: several segments follow one another there.
    fn continues_at(&mut self, seq: u32, len: usize) -> bool {
        let ahead = i64::from(seq.wrapping_sub(self.next.unwrap_or(seq)) as i32);
        if (-BEHIND_MAX..=JUMP_MAX).contains(&ahead) {
            // It is from before the beginning of the capture.
            return false;
        }
        let before = self.strays.filter(|(next, _)| *next == seq).map_or(0, |(_, count)| count);
        self.strays = Some((seq.wrapping_add(len as u32), before + 1));
        before + 1 >= STRAYS_MAX
    }

    /// Records that the sender closed after `len` bytes at `seq`.
    pub(crate) fn close(&mut self, seq: u32, len: usize) {
        self.next.get_or_insert(seq.wrapping_add(len as u32));
        if self.end.is_none() {
            self.end = self.offset_of(seq.wrapping_add(len as u32));
        }
    }

    /// Records that the receiver has everything before `ack`.
    pub(crate) fn acknowledge(&mut self, ack: u32, out: &mut dyn FnMut(Chunk<'_>)) {
        if let Some(offset) = self.offset_of(ack) {
            self.acked = self.acked.max(offset);
            self.give_up_holes(usize::MAX, out);
        }
    }

    /// Delivers everything that is held, because nothing will fill the holes.
    pub(crate) fn flush(&mut self, out: &mut dyn FnMut(Chunk<'_>)) {
        self.give_up_holes(0, out);
    }

    fn hold(&mut self, start: u64, payload: &[u8]) {
        let slot = self.held.entry(start).or_default();
        if payload.len() > slot.len() {
            self.held_bytes += payload.len() - slot.len();
            *slot = payload.to_vec();
        }
    }

    fn deliver(&mut self, bytes: &[u8], out: &mut dyn FnMut(Chunk<'_>)) {
        if !bytes.is_empty() {
            self.advance(bytes.len() as u64);
            out(Chunk::Data(bytes));
        }
    }

    fn advance(&mut self, by: u64) {
        self.delivered += by;
        self.next = self.next.map(|next| next.wrapping_add(by as u32));
    }

    /// Delivers held segments that no hole separates any more.
    fn drain(&mut self, out: &mut dyn FnMut(Chunk<'_>)) {
        while let Some(entry) = self.held.first_entry() {
            if *entry.key() > self.delivered {
                break;
            }
            let (start, bytes) = entry.remove_entry();
            self.held_bytes -= bytes.len();
            if let Some(fresh) = bytes.get((self.delivered - start) as usize..) {
                self.deliver(fresh, out);
            }
        }
    }

    /// Declares holes missing that cannot be filled any more, or that keep more than `limit` bytes.
    fn give_up_holes(&mut self, limit: usize, out: &mut dyn FnMut(Chunk<'_>)) {
        while let Some((&start, _)) = self.held.first_key_value() {
            if self.acked < start && self.held_bytes <= limit {
                break;
            }
            let missing = start - self.delivered;
            self.advance(missing);
            out(Chunk::Gap(missing));
            self.drain(out);
        }
    }
}
