//! What a client sends again, with the server's choices, when a metadata server has restarted
//! [MDT-21].

use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::layout::{Ea, Layout};
use lustrine_fswire::ldlm::LockFlags;
use lustrine_fswire::mdt::Reint;
use lustrine_fswire::message::{Header, Message};
use lustrine_fswire::rpc::dlm::{LayoutIntentRequest, OpenIntent};
use lustrine_fswire::rpc::{Kind, Request};

/// What a server has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choices {
    /// For an open.
    Open {
        /// The file.
        fid: Fid,
        /// Its handle.
        handle: Handle,
        /// The layout of the answer; empty if it has none. It has none if what was sent was a
        /// replay: the layout that was sent stays.
        layout: Box<[u8]>,
    },
    /// For a layout intent: the layout.
    Layout(Vec<u8>),
}

/// The request that replays `sent`, an open or a layout intent: with the object and the layout that
/// the server chose and the handle that it gave, and without a lock. None if it is anything else,
/// or a message that is not what it should be.
pub(crate) fn with_choices(sent: &[u8], choices: &Choices) -> Option<Vec<u8>> {
    let (message, body) = Message::parse_with_body(sent).ok()?;
    let request = Request::parse(&message, &body).ok()?;
    let encode = |request: Request<'_>| {
        let mut bytes = Vec::new();
        let header: &Header = message.header();
        request.encode(header, &body, &mut bytes);
        bytes.shrink_to_fit();
        bytes
    };
    match (request, choices) {
        (Request::EnqueueOpen(intent), Choices::Open { fid, handle, layout }) => {
            let layout = with_free_generation(Ea(layout));
            let intent = opened(intent, (*fid, *handle), layout.as_deref())?;
            Some(encode(Request::EnqueueOpen(intent)))
        }
        (Request::EnqueueOpenCreat(intent), Choices::Open { fid, handle, layout }) => {
            let layout = with_free_generation(Ea(layout));
            let intent = opened(intent, (*fid, *handle), layout.as_deref())?;
            Some(encode(Request::EnqueueOpenCreat(intent)))
        }
        (Request::EnqueueLayout(intent), Choices::Layout(layout)) => {
            let layout = with_free_generation(Ea(layout))?;
            let mut lock = intent.lock;
            lock.flags |= LockFlags::INTENT_ONLY;
            let intent = LayoutIntentRequest { lock, ea: Ea(&layout), ..intent };
            Some(encode(Request::EnqueueLayout(intent)))
        }
        _ => None,
    }
}

/// Whether a message is a layout intent.
pub(crate) fn is_layout_intent(sent: &[u8]) -> bool {
    Message::parse_with_body(sent)
        .is_ok_and(|(message, body)| Kind::of_request(&message, &body) == Kind::EnqueueLayout)
}

/// An open with what the server chose.
fn opened<'a>(
    intent: OpenIntent<'a>,
    (fid, handle): (Fid, Handle),
    layout: Option<&'a [u8]>,
) -> Option<OpenIntent<'a>> {
    let Reint::Create(mut record) = intent.record else { return None };
    record.fid = fid;
    record.old_handle = handle;
    let mut lock = intent.lock;
    lock.flags |= LockFlags::INTENT_ONLY;
    let ea = layout.map_or(intent.ea, Ea);
    Some(OpenIntent { lock, record: Reint::Create(record), ea, ..intent })
}

/// Where the generation of a plain layout is, in bytes. In a request the field names the first
/// object server, and 0xffff any.
const GENERATION: core::ops::Range<usize> = 30..32;

/// A layout of a reply as a request has it. None if there is no layout.
fn with_free_generation(ea: Ea<'_>) -> Option<Vec<u8>> {
    let starts = match ea.layout().ok()?? {
        Layout::Plain(_) => vec![0],
        Layout::Composite(layout) => {
            layout.components().map(|component| component.entry.offset as usize).collect()
        }
        _ => Vec::new(),
    };
    let mut bytes = ea.0.to_vec();
    for start in starts {
        if let Some(part) = bytes.get_mut(start..).and_then(|part| part.get_mut(GENERATION)) {
            part.copy_from_slice(&[0xff; 2]);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
