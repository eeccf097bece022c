//! Captures of kernel clients and servers, for tests.

use std::path::Path;

use lustrine_capture::{Dissector, Event, Frame, LinkType};

/// The events of a capture under `testdata/captures`.
pub(crate) fn events(name: &str) -> Vec<Event> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures").join(name);
    let mut file = std::fs::read(path).expect("a capture");
    if name.ends_with(".xz") {
        let mut unpacked = Vec::new();
        lzma_rs::xz_decompress(&mut &file[..], &mut unpacked).expect("an archive");
        file = unpacked;
    }
    let (mut rest, header) = pcap_parser::parse_pcap_header(&file).expect("a header");
    let link = LinkType::from_number(header.network.0).expect("a known link");
    let mut dissector = Dissector::default();
    let mut events = Vec::new();
    while !rest.is_empty() {
        let (after, block) = pcap_parser::parse_pcap_frame(rest).expect("a frame");
        let time_ns = u64::from(block.ts_sec) * 1_000_000_000 + u64::from(block.ts_usec) * 1000;
        dissector.frame(&Frame { time_ns, link, bytes: block.data });
        events.extend(std::iter::from_fn(|| dissector.poll_event()));
        rest = after;
    }
    dissector.finish();
    events.extend(std::iter::from_fn(|| dissector.poll_event()));
    events
}
