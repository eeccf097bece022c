//! Reads captures of real nodes, which are under `testdata/captures`, for tests. All functions
//! panic if a file is missing or malformed.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use lustrine_capture::{Dissector, Event, Frame, LinkType};

/// A capture under `testdata/captures`, as `fs/s02_mkdir.pcap`.
pub fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures").join(name)
}

/// All captures of one of its folders, sorted by name; there is one at least.
pub fn folder(name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(capture(name)).expect("a folder of captures");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no captures in {name}");
    paths
}

/// The name of a capture without its extensions.
pub fn name_of(path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
    name.split_once('.').expect("an extension").0.to_owned()
}

/// The bytes of a capture, unpacked if it ends in `.xz`.
pub fn read(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_none_or(|extension| extension != "xz") {
        return bytes;
    }
    let mut unpacked = Vec::new();
    lzma_rs::xz_decompress(&mut &bytes[..], &mut unpacked).expect("packed with xz");
    unpacked
}

/// The frames of the bytes of a capture: time in nanoseconds, and bytes.
pub fn frames(capture: &[u8]) -> (LinkType, Vec<(u64, &[u8])>) {
    let (mut rest, header) = pcap_parser::parse_pcap_header(capture).expect("a header of pcap");
    let link = LinkType::from_number(header.network.0).expect("a known link type");
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let (after, block) = pcap_parser::parse_pcap_frame(rest).expect("a whole frame");
        let time = u64::from(block.ts_sec) * 1_000_000_000 + u64::from(block.ts_usec) * 1000;
        frames.push((time, block.data));
        rest = after;
    }
    (link, frames)
}

/// All events that the dissector finds in the bytes of a capture.
pub fn dissect(capture: &[u8]) -> Vec<Event> {
    dissect_mapped(capture, |frame| vec![frame])
}

/// As [`dissect`], with each frame replaced by others.
pub fn dissect_mapped<'a>(
    capture: &'a [u8],
    mut map: impl FnMut(&'a [u8]) -> Vec<&'a [u8]>,
) -> Vec<Event> {
    let (link, frames) = frames(capture);
    let mut dissector = Dissector::default();
    let mut events = Vec::new();
    for (time_ns, bytes) in frames {
        for bytes in map(bytes) {
            dissector.frame(&Frame { time_ns, link, bytes });
            events.extend(std::iter::from_fn(|| dissector.poll_event()));
        }
    }
    dissector.finish();
    events.extend(std::iter::from_fn(|| dissector.poll_event()));
    events
}

/// All events of a capture under `testdata/captures`.
pub fn events(name: &str) -> Vec<Event> {
    dissect(&read(&capture(name)))
}
