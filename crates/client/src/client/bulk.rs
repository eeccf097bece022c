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
    /// To be sent: the bytes of ranges of an object, one after another.
    Out { ranges: &'a [Range<u64>], bytes: Bytes },
}

/// The memory of a transfer, and what each of its descriptors has of it; `None` if there is none.
pub(super) fn bulk_memory(turn: &mut Turn<'_>, data: &Data<'_>) -> Option<(Vec<Span>, Vec<Spans>)> {
    let piece = |span| Spans::from_slice(&[span]);
    let mut rest = Bytes::new();
    let lens = match data {
        Data::In { offset, len } => {
            let lens = descriptor_lens(core::slice::from_ref(&(*offset..*offset + len)));
            // In one piece it can be taken out.
            if let Some(whole) = u32::try_from(*len).ok().and_then(|len| turn.memory.alloc(len)) {
                let parts = lens.into_iter().scan(0, |at, len| {
                    let part = whole.part(*at, len as u32);
                    *at += part.len;
                    Some(piece(part))
                });
                return Some((vec![whole], parts.collect()));
            }
            lens
        }
        Data::Out { ranges, bytes } => {
            rest = bytes.clone();
            descriptor_lens(ranges)
        }
    };
    let mut spans = Vec::new();
    for len in lens {
        let span = match data {
            Data::In { .. } => turn.memory.alloc(len as u32),
            Data::Out { .. } => turn.memory.lend(rest.split_to(len as usize)),
        };
        let Some(span) = span else {
            spans.into_iter().for_each(|span| turn.memory.free(span));
            return None;
        };
        spans.push(span);
    }
    let pieces = spans.iter().copied().map(piece).collect();
    Some((spans, pieces))
}

/// So many bytes from the start of the memory of a transfer. Most of a piece is taken as it is;
/// less is copied, so that it does not keep the rest.
pub(super) fn received(turn: &mut Turn<'_>, spans: &mut Vec<Span>, moved: u32) -> Bytes {
    if let [whole] = spans[..]
        && moved >= whole.len / 2
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
