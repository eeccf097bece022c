//! Captures of real nodes, and a decoder for streams of a simulation.

use std::net::SocketAddr;

use lustrine_capture::{Content, Dissector, Event, Frame, Item, LinkType};
use lustrine_capture_testing::{dissect, name_of, read};
use lustrine_sim::frames::Framer;
use lustrine_wire::header::Body;

/// Names of all captures of a folder, without extensions, sorted.
pub(crate) fn names_in(folder: &str) -> Vec<String> {
    lustrine_capture_testing::folder(folder).iter().map(|path| name_of(path)).collect()
}

/// All events that the dissector finds in a capture.
pub(crate) fn events_of(folder: &str, name: &str) -> Vec<Event> {
    let paths = lustrine_capture_testing::folder(folder);
    let path = paths.iter().find(|path| name_of(path) == name);
    dissect(&read(path.unwrap_or_else(|| panic!("no capture {name} in {folder}"))))
}

/// Decodes the streams of a scripted peer.
#[derive(Debug, Default)]
pub(crate) struct Ear {
    dissector: Dissector,
    frames: Vec<Vec<u8>>,
}

impl Ear {
    /// A stream begins. Returns its number in events, and the writer of its frames.
    pub(crate) fn open(&mut self, dialler: SocketAddr, listener: SocketAddr) -> (u32, Framer) {
        // Far enough apart that the sequence numbers of two streams do not overlap.
        let first = self.dissector.stats().streams.wrapping_mul(0x1357_9bdf);
        let framer = Framer::open(dialler, listener, first, &mut self.frames);
        self.drain(0);
        (self.dissector.stats().streams, framer)
    }

    /// Something happens on a stream. Returns the events that this completes.
    pub(crate) fn hear(&mut self, now_ns: u64, what: impl FnOnce(&mut Vec<Vec<u8>>)) -> Vec<Event> {
        what(&mut self.frames);
        self.drain(now_ns)
    }

    fn drain(&mut self, time_ns: u64) -> Vec<Event> {
        let mut events = Vec::new();
        for bytes in self.frames.drain(..) {
            self.dissector.frame(&Frame { time_ns, link: LinkType::Raw, bytes: &bytes });
            events.extend(std::iter::from_fn(|| self.dissector.poll_event()));
        }
        events.retain(|event| !matches!(event.item, Item::Opened { .. }));
        events
    }
}

/// An event as one line of text.
pub(crate) fn describe(event: &Event) -> String {
    let text = match &event.item {
        Item::Opened { opener, acceptor, .. } => format!("connection {opener} to {acceptor}"),
        Item::Request(request) => format!("request {request:?}"),
        Item::Answer(answer) => format!("{answer:?}"),
        Item::Hello(hello) => format!("HELLO {:?} {} {:?}", hello.version, hello.src, hello.kind),
        Item::Noop(noop) => format!("NOOP {} {}", noop.frame.zc_request, noop.frame.zc_ack),
        Item::Message(message) => {
            let header = &message.header;
            let content = match &message.content {
                Content::Srpc(srpc) => format!("{:?}", srpc.body),
                other => format!("{other:?}"),
            };
            let content = &content[..content.len().min(200)];
            let (src, dst, len) = (header.src.nid, header.dst.nid, header.payload_len);
            format!("{src} to {dst} {} {len} bytes {content}", body_text(&header.body))
        }
        other => format!("{other:?}"),
    };
    format!("stream {} {:?}: {text}", event.stream, event.direction)
}

fn body_text(body: &Body) -> String {
    match body {
        Body::Put { match_bits, portal, .. } => format!("PUT portal {portal} bits {match_bits:#x}"),
        Body::Get { match_bits, portal, sink_len, .. } => {
            format!("GET portal {portal} bits {match_bits:#x} sink {sink_len}")
        }
        Body::Reply { md } => format!("REPLY {:x}.{:x}", md.interface, md.object),
        Body::Ack { md, .. } => format!("ACK {:x}.{:x}", md.interface, md.object),
        Body::Hello { .. } => "HELLO".to_owned(),
    }
}
