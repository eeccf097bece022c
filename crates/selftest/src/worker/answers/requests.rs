//! What answers need of requests, and the checks of requests [LST-2] [LST-6].

use lustrine_lnet::memory::{Memory, Span};
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::nid::{Nid, PID_LUSTRE, ProcessId};
use lustrine_wire::srpc::{
    BULK_MAX, BrwCheck, BrwOp, BrwRequest, Destination, FEATURE_BULK_LEN, FEATURES_KNOWN, Message,
    VERSION, destination_at,
};

use crate::body::reply_bits;
use crate::cpt_message::FetchError;
use crate::errno;
use crate::limits::PAGE;
use crate::worker::request::Request;

/// What of a request its answer needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester {
    pub(super) from: ProcessId,
    /// Counts against this one's share.
    pub(super) hop: Nid,
    pub(super) local: Nid,
    pub(super) reply_bits: u64,
    pub(super) features: u32,
    pub(super) order: ByteOrder,
    pub(super) kind: Kind,
}

/// Which of the two limits an answer counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Test,
    Framework,
}

impl Requester {
    pub(super) fn of(request: &Request, kind: Kind) -> Requester {
        Requester {
            from: request.from,
            hop: request.hop,
            local: request.local,
            reply_bits: reply_bits(&request.message.body).unwrap_or(0),
            features: request.message.features,
            order: request.message.order,
            kind,
        }
    }
}

/// What a BRW request wants, after all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) op: BrwOp,
    pub(super) len: u32,
    pub(super) check: BrwCheck,
}

/// 0, or EPROTO when version or features do not agree [LST-2] [LST-15].
pub(super) fn agreement(message: &Message) -> u32 {
    let agree = message.version == VERSION && message.features & !FEATURES_KNOWN == 0;
    if agree { 0 } else { errno::EPROTO }
}

/// Checks a BRW request [LST-5]. `discard` is served like `none`.
pub(super) fn examine(brw: &BrwRequest, features: u32) -> Result<Transfer, u32> {
    let (Some(op), Some(check)) = (BrwOp::from_number(brw.rw), BrwCheck::from_number(brw.check))
    else {
        return Err(errno::EINVAL);
    };
    let len = brw.len;
    let whole_words = len.is_multiple_of(8) || matches!(check, BrwCheck::None | BrwCheck::Discard);
    let whole_pages = len.is_multiple_of(PAGE) || features & FEATURE_BULK_LEN != 0;
    if len == 0 || len > BULK_MAX || !whole_words || !whole_pages {
        return Err(errno::EINVAL);
    }
    Ok(Transfer { op, len, check })
}

/// Reads a list of destinations: entries do not cross pages, and a kernel console cuts the list
/// to 12 bytes per entry, so that the end of a list over several pages is missing. A missing pid
/// is 12345, as everywhere; a missing NID cannot be helped [LST-6].
pub(super) fn read_list(
    memory: &impl Memory,
    span: Span,
    count: u32,
    order: ByteOrder,
) -> Result<Vec<ProcessId>, FetchError> {
    const NID_LEN: u32 = 8;
    const ENTRY_LEN: u32 = Destination::LEN as u32;
    let mut list = Vec::with_capacity(count as usize);
    for index in 0..count {
        let at = destination_at(index as usize, PAGE as usize) as u32;
        let len = ENTRY_LEN.min(span.len.saturating_sub(at));
        if len < NID_LEN {
            return Err(FetchError::Bad);
        }
        let mut raw = [0; Destination::LEN];
        memory.read(span.part(at, len), &mut raw[..len as usize]);
        let mut process = Destination::parse(&raw, order).process_id();
        if len < ENTRY_LEN {
            process.pid = PID_LUSTRE;
        }
        if process.nid.is_any() {
            return Err(FetchError::Bad);
        }
        list.push(process);
    }
    Ok(list)
}

#[cfg(test)]
mod tests;
