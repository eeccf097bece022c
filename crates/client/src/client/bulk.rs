//! The data of calls, and the memory from which LNet moves them.

use core::ops::Range;

use bytes::Bytes;
use lustrine_fswire::ost::{BULK_FRAGMENT, BULK_MD_FRAGMENTS};
use lustrine_lnet::memory::{Memory, Span, Spans};
use lustrine_lnet::service::Turn;

/// The data of a call.
pub(super) enum Data<'a> {
    /// To be received: at most so many bytes, which start at an offset of an object.
    In { offset: u64, len: u64 },
    /// To be sent: the bytes of ranges of an object, in parts that follow each other.
    Out { ranges: &'a [Range<u64>], bytes: Vec<Bytes> },
}

/// Bytes in parts that follow each other, of which some are used up.
pub(super) struct Parts<'a> {
    parts: &'a [Bytes],
    /// So many bytes of the first part are used up.
    used: usize,
}

impl<'a> Parts<'a> {
    pub(super) fn new(parts: &'a [Bytes]) -> Parts<'a> {
        Parts { parts, used: 0 }
    }

    /// The next bytes, as far as there are so many: of each part, which of it.
    pub(super) fn split_to(
        &mut self,
        mut len: usize,
    ) -> impl Iterator<Item = (&'a Bytes, Range<usize>)> {
        core::iter::from_fn(move || {
            while let Some((first, rest)) = self.parts.split_first()
                && self.used == first.len()
            {
                (self.parts, self.used) = (rest, 0);
            }
            let first = self.parts.first().filter(|_| len > 0)?;
            let taken = self.used..first.len().min(self.used + len);
            len -= taken.len();
            self.used = taken.end;
            Some((first, taken))
        })
    }
}

/// The memory of a transfer, and what each of its descriptors has of it; `None` if there is none.
pub(super) fn bulk_memory(turn: &mut Turn<'_>, data: &Data<'_>) -> Option<(Vec<Span>, Vec<Spans>)> {
    let mut spans = Vec::new();
    let mut pieces = Vec::new();
    let moved = match data {
        Data::In { offset, len } => {
            let lens = descriptor_lens(core::slice::from_ref(&(*offset..*offset + len)));
            // In one piece it can be taken out.
            if let Some(whole) = u32::try_from(*len).ok().and_then(|len| turn.memory.alloc(len)) {
                let parts = lens.into_iter().scan(0, |at, len| {
                    let part = whole.part(*at, len as u32);
                    *at += part.len;
                    Some(Spans::from_slice(&[part]))
                });
                return Some((vec![whole], parts.collect()));
            }
            lens.into_iter().try_for_each(|len| {
                let span = turn.memory.alloc(len as u32)?;
                spans.push(span);
                pieces.push(Spans::from_slice(&[span]));
                Some(())
            })
        }
        Data::Out { ranges, bytes } => {
            let mut rest = Parts::new(bytes);
            descriptor_lens(ranges).into_iter().try_for_each(|len| {
                let mut piece = Spans::new();
                for (part, range) in rest.split_to(len as usize) {
                    let span = turn.memory.lend(part.slice(range))?;
                    spans.push(span);
                    piece.push(span);
                }
                pieces.push(piece);
                Some(())
            })
        }
    };
    if moved.is_none() {
        spans.into_iter().for_each(|span| turn.memory.free(span));
        return None;
    }
    Some((spans, pieces))
}

/// So many bytes from the start of the memory of a transfer. Three quarters of a piece and more are
/// taken as they are; less is copied, so that it does not keep the rest.
pub(super) fn received(turn: &mut Turn<'_>, spans: &mut Vec<Span>, moved: u32) -> Bytes {
    if let [whole] = spans[..]
        && moved >= whole.len - whole.len / 4
    {
        spans.clear();
        let mut bytes = turn.memory.take(whole);
        bytes.truncate(moved as usize);
        return bytes;
    }
    let mut bytes = Vec::with_capacity(moved as usize);
    let mut left = moved;
    for span in spans {
        let len = left.min(span.len);
        turn.memory.append(span.part(0, len), &mut bytes);
        left -= len;
    }
    bytes.into()
}

/// The lengths of the memory descriptors of a transfer of ranges of an object [RPC-15].
pub(super) fn descriptor_lens(ranges: &[Range<u64>]) -> Vec<u64> {
    let (mut lens, mut len, mut fragments) = (Vec::new(), 0, 0);
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            if fragments == BULK_MD_FRAGMENTS {
                lens.push(len);
                (len, fragments) = (0, 0);
            }
            let next = ((at / BULK_FRAGMENT + 1) * BULK_FRAGMENT).min(range.end);
            len += next - at;
            fragments += 1;
            at = next;
        }
    }
    if len > 0 {
        lens.push(len);
    }
    lens
}
