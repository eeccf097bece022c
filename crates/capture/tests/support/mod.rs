//! Encodes events of captures to bytes.

use lustrine_capture::{Content, Event, Item, Message, Noop, PingInfo, Undecoded};
use lustrine_capture_testing::dissect_mapped;
use lustrine_wire::hello::Version;
use lustrine_wire::ping;
use lustrine_wire::srpc::{Destination, destination_at};

/// As [`lustrine_capture_testing::dissect`], with only the frames whose index is wanted.
pub(crate) fn dissect_frames(file: &[u8], wanted: impl Fn(usize) -> bool) -> Vec<Event> {
    let mut index = 0;
    dissect_mapped(file, |frame| {
        index += 1;
        if wanted(index - 1) { vec![frame] } else { Vec::new() }
    })
}

/// Encodes an event's value to bytes without the bytes that it was made from, except for opaque
/// parts. `None` for an event without bytes, or one that was not decoded.
pub(crate) fn encode(event: &Event) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match &event.item {
        Item::Request(request) => request.encode(&mut out).unwrap(),
        Item::Answer(answer) => answer.encode(&mut out),
        Item::Hello(hello) => hello.encode(&mut out).unwrap(),
        Item::Noop(Noop { format, frame, .. }) => {
            out.extend_from_slice(&frame.encode(format.order));
        }
        Item::Message(message) => encode_message(message, &event.raw, &mut out),
        Item::Opened { .. } | Item::Gap { .. } | Item::Undecoded(_) | Item::Fin | Item::Reset => {
            return None;
        }
    }
    Some(out)
}

fn encode_message(message: &Message, raw: &[u8], out: &mut Vec<u8>) {
    if let Some(frame) = &message.frame {
        out.extend_from_slice(&frame.encode(message.format.order));
    }
    if message.format.version == Version::V4 {
        let mut header = [0; 96];
        message.header.encode_long(&mut header);
        out.extend_from_slice(&header);
    } else {
        let mut header = [0; 72];
        message.header.encode_short(&mut header).unwrap();
        out.extend_from_slice(&header);
    }
    let payload = &raw[message.payload_at()..];
    match &message.content {
        Content::Empty => {}
        Content::Ping(info) => encode_ping(info, payload, out),
        Content::Srpc(srpc) => {
            // The tail of kernel messages is undefined: encode over the bytes that were there.
            let mut bytes: [u8; 160] = payload.try_into().unwrap();
            srpc.encode_over(&mut bytes);
            out.extend_from_slice(&bytes);
        }
        Content::Destinations(list) => encode_destinations(list, payload, out),
        Content::TestData
        | Content::Rpc(_)
        | Content::Bulk(_)
        | Content::Opaque
        | Content::Malformed(_) => {
            out.extend_from_slice(payload);
        }
    }
}

fn encode_ping(info: &PingInfo, payload: &[u8], out: &mut Vec<u8>) {
    let PingInfo { order, features, pid, sequence, entries, trailing } = info;
    ping::PingInfo::build_in(*order, *features, *pid, *sequence, entries, out);
    out.extend_from_slice(&payload[payload.len() - trailing..]);
}

fn encode_destinations(list: &[Destination], payload: &[u8], out: &mut Vec<u8>) {
    let mut bytes = payload.to_vec();
    for (index, entry) in list.iter().enumerate() {
        let at = destination_at(index, 4096);
        bytes[at..at + Destination::LEN]
            .copy_from_slice(&entry.encode(lustrine_wire::ByteOrder::Little));
    }
    out.extend_from_slice(&bytes);
}

/// A name for the kind of an event, for counting.
pub(crate) fn label(event: &Event) -> String {
    let label = match &event.item {
        Item::Opened { .. } => "opened",
        Item::Request(_) => "request",
        Item::Answer(_) => "answer",
        Item::Hello(_) => "hello",
        Item::Noop(_) => "noop",
        Item::Message(message) => return message_label(message),
        Item::Gap { .. } => "gap",
        Item::Undecoded(why) => return format!("undecoded:{}", undecoded_label(why)),
        Item::Fin => "fin",
        Item::Reset => "reset",
    };
    label.to_owned()
}

fn message_label(message: &Message) -> String {
    let kind = message.header.body.kind().name().to_lowercase();
    match &message.content {
        Content::Empty => kind,
        Content::Ping(_) => format!("{kind}:ping"),
        Content::Srpc(srpc) => {
            let name = srpc.body.message_type().name().to_lowercase();
            format!("{kind}:{}", name.replace([' ', '_'], "-"))
        }
        Content::Destinations(_) => format!("{kind}:destinations"),
        Content::TestData => format!("{kind}:test-data"),
        Content::Rpc(_) => format!("{kind}:rpc"),
        Content::Bulk(_) => format!("{kind}:bulk"),
        Content::Opaque => format!("{kind}:opaque"),
        Content::Malformed(_) => format!("{kind}:malformed"),
    }
}

pub(crate) fn undecoded_label(why: &Undecoded) -> &'static str {
    match why {
        Undecoded::Request(_) => "request",
        Undecoded::Hello(_) => "hello",
        Undecoded::Frame(_) => "frame",
        Undecoded::Header(_) => "header",
        Undecoded::AfterError => "after-error",
        Undecoded::CutOff => "cut-off",
        Undecoded::Incomplete => "incomplete",
        Undecoded::Unsynchronized => "out-of-step",
    }
}
