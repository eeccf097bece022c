//! What a client sends again, with the server's choices, when a metadata server has restarted
//! [MDT-21].

use lustrine_fswire::layout::{Ea, Layout};
use lustrine_fswire::ldlm::LockFlags;
use lustrine_fswire::mdt::Reint;
use lustrine_fswire::message::{Header, Message};
use lustrine_fswire::rpc::dlm::{LayoutIntentRequest, OpenIntent, OpenReply};
use lustrine_fswire::rpc::{Kind, Reply, Request};

/// The request that replays `sent`, an open or a layout intent: with the object and the layout that
/// the server chose and the handle that it gave, and without a lock. None if it is anything else,
/// or a message that is not what it should be.
///
/// `reply` is the message that answers `sent`. If `sent` is such a request itself, the reply has no
/// layout, and that of `sent` stays.
pub(crate) fn with_choices(sent: &[u8], reply: &[u8]) -> Option<Vec<u8>> {
    let (message, body) = Message::parse_with_body(sent).ok()?;
    let request = Request::parse(&message, &body).ok()?;
    let reply = Message::parse(reply).ok()?;
    let encode = |request: Request<'_>| {
        let mut bytes = Vec::new();
        let header: &Header = message.header();
        request.encode(header, &body, &mut bytes);
        bytes.shrink_to_fit();
        bytes
    };
    match (request, Reply::parse(request.kind(), &reply).ok()?) {
        (Request::EnqueueOpen(intent), Reply::EnqueueOpen(reply)) => {
            let layout = with_free_generation(reply.ea);
            let intent = opened(intent, &reply, layout.as_deref())?;
            Some(encode(Request::EnqueueOpen(intent)))
        }
        (Request::EnqueueOpenCreat(intent), Reply::EnqueueOpenCreat(reply)) => {
            let layout = with_free_generation(reply.ea);
            let intent = opened(intent, &reply, layout.as_deref())?;
            Some(encode(Request::EnqueueOpenCreat(intent)))
        }
        (Request::EnqueueLayout(intent), Reply::EnqueueLayout(reply)) => {
            let layout = with_free_generation(Ea(reply.lvb?.0))?;
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
    reply: &OpenReply<'_>,
    layout: Option<&'a [u8]>,
) -> Option<OpenIntent<'a>> {
    let Reint::Create(mut record) = intent.record else { return None };
    record.fid = reply.body.fid1;
    record.old_handle = reply.body.open_handle;
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
