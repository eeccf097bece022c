//! Compares messages of a Lustrine node with those of the captured node.
//!
//! Fields that may differ are left out here; everything else must be equal.

use lustrine_capture::{Checksum, Content, Event, Item, Message};
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::srpc::{self, BrwCheck, Counters, Name};

use super::conversation::Step;

/// How a difference of bulk data is reported.
const DATA: &str = "data differ";

/// Whether only bulk data differs.
pub(crate) fn is_data_only(difference: &str) -> bool {
    difference.starts_with(DATA)
}

/// The difference, if there is one.
pub(crate) fn difference(captured: &Step, ours: &Event) -> Option<String> {
    match (&captured.event.item, &ours.item) {
        (Item::Request(theirs), Item::Request(ours)) => unequal("request", theirs, ours),
        (Item::Answer(theirs), Item::Answer(ours)) => unequal("answer", theirs, ours),
        (Item::Hello(theirs), Item::Hello(ours)) => {
            let mut theirs = *theirs;
            // The node's own incarnation, which differs from the captured one.
            theirs.src_incarnation = ours.src_incarnation;
            unequal("HELLO", &theirs, ours)
        }
        (Item::Message(theirs), Item::Message(our_message)) => {
            message_difference(captured, theirs, ours, our_message)
        }
        (theirs, ours) => unequal("kind", &kind(theirs), &kind(ours)),
    }
}

fn kind(item: &Item) -> &'static str {
    match item {
        Item::Opened { .. } => "connection",
        Item::Request(_) => "request",
        Item::Answer(_) => "answer",
        Item::Hello(_) => "HELLO",
        Item::Noop(_) => "NOOP",
        Item::Message(_) => "message",
        Item::Gap { .. } => "gap",
        Item::Undecoded(_) => "undecoded",
        Item::Fin => "end",
        Item::Reset => "reset",
    }
}

fn unequal<T: PartialEq + core::fmt::Debug>(what: &str, theirs: &T, ours: &T) -> Option<String> {
    (theirs != ours).then(|| format!("{what}: the kernel's is {theirs:?}, ours {ours:?}"))
}

fn message_difference(
    captured: &Step,
    theirs: &Message,
    event: &Event,
    ours: &Message,
) -> Option<String> {
    unequal("version", &theirs.format.version, &ours.format.version)
        .or_else(|| unequal("byte order", &theirs.format.order, &ours.format.order))
        .or_else(|| unequal("checksum", &has_checksum(theirs), &has_checksum(ours)))
        .or_else(|| unequal("zero-copy request", &asks(theirs), &asks(ours)))
        .or_else(|| unequal("header", &nameless(&theirs.header), &nameless(&ours.header)))
        .or_else(|| match (&theirs.content, &ours.content) {
            (Content::TestData, Content::TestData) => {
                let theirs = &captured.event.raw[theirs.payload_at()..];
                let ours = &event.raw[ours.payload_at()..];
                data_difference(captured.check, theirs, ours)
            }
            (theirs, ours) => unequal("content", &fixed(theirs), &fixed(ours)),
        })
}

/// A wrong checksum of the Lustrine node is always an error, whatever the kernel sent.
fn has_checksum(message: &Message) -> bool {
    assert!(!matches!(message.checksum, Checksum::Bad { .. }), "{message:?}");
    message.checksum == Checksum::Good
}

fn asks(message: &Message) -> bool {
    message.frame.is_some_and(|frame| frame.zc_request != 0)
}

/// A header without the handle that the sender gave its descriptor.
fn nameless(header: &Header) -> Header {
    const NAME: MdHandle = MdHandle { interface: 0, object: 0 };
    let mut header = *header;
    match &mut header.body {
        Body::Get { return_md, .. } => *return_md = NAME,
        Body::Put { ack_md, .. } if !ack_md.is_none() => *ack_md = NAME,
        _ => {}
    }
    header
}

/// A payload without the fields that the sender invented, measured or left over.
fn fixed(content: &Content) -> Content {
    let mut content = content.clone();
    match &mut content {
        Content::Ping(info) => info.sequence = 0,
        Content::Srpc(message) => match &mut message.body {
            srpc::Body::BrwRequest(brw) => (brw.reply_bits, brw.bulk_bits) = (0, 0),
            srpc::Body::PingRequest(ping) => {
                ping.reply_bits = 0;
                (ping.time_s, ping.time_ns) = (0, 0);
            }
            // Filled in for EBUSY only; otherwise left over from an earlier reply (capture c03).
            srpc::Body::MakeSessionReply(made) if made.status == 0 => made.name = Name::EMPTY,
            srpc::Body::StatReply(stat) => stat.counters = steady(&stat.counters),
            _ => {}
        },
        _ => {}
    }
    content
}

/// Counters without those that measure time, or the whole of LNet since it was loaded.
fn steady(counters: &Counters) -> Counters {
    let mut counters = *counters;
    counters.framework.running_ms = 0;
    let rpc = &mut counters.rpc;
    // Since the module was loaded, not since the session began.
    (rpc.errors, rpc.sent, rpc.received, rpc.dropped, rpc.expired) = (0, 0, 0, 0, 0);
    (rpc.bulk_get, rpc.bulk_put) = (0, 0);
    let lnet = &mut counters.lnet;
    (lnet.msgs_alloc, lnet.msgs_max, lnet.errors) = (0, 0, 0);
    (lnet.send_count, lnet.recv_count, lnet.route_count, lnet.drop_count) = (0, 0, 0, 0);
    (lnet.send_length, lnet.recv_length, lnet.route_length, lnet.drop_length) = (0, 0, 0, 0);
    counters
}

/// Whether the words that the receiver will check are equal.
fn data_difference(check: Option<u32>, theirs: &[u8], ours: &[u8]) -> Option<String> {
    const PAGE: usize = 4096;
    unequal("data length", &theirs.len(), &ours.len()).or_else(|| {
        let looked_at = |at: usize| match check.and_then(BrwCheck::from_number) {
            Some(BrwCheck::Full) => true,
            Some(BrwCheck::Simple) => {
                at.is_multiple_of(PAGE) || at % PAGE == PAGE - 8 || at + 8 == theirs.len()
            }
            _ => false,
        };
        let words = theirs.chunks(8).zip(ours.chunks(8)).enumerate();
        let mut wrong = words.filter(|(index, pair)| looked_at(8 * index) && pair.0 != pair.1);
        wrong.next().map(|(index, _)| format!("{DATA} at {}", 8 * index))
    })
}
