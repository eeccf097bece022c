//! Captures of real nodes: every message decodes, and encodes to the bytes it came from.
//!
//! `testdata/captures/counts.txt` lists what is in each capture, so that no test passes by finding
//! nothing. Regenerate it with `LUSTRINE_BLESS=1 cargo test -p lustrine-capture --test golden`, and
//! review the difference.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use lustrine_capture::{Checksum, Content, ContentError, Direction, Event, Item, Undecoded};
use lustrine_capture_testing::{capture, dissect, dissect_mapped, folder, name_of, read};
use lustrine_wire::ByteOrder;
use lustrine_wire::acceptor::AcceptorError;
use lustrine_wire::frame::FrameError;
use lustrine_wire::header::HeaderError;
use lustrine_wire::hello::HelloError;
use lustrine_wire::ping::PingError;

use support::{encode, label};

/// The malformed parts of the captures of malformed connections, and how they are reported.
/// Everything else in all captures must decode.
const MALFORMED: [(&str, Undecoded); 11] = [
    ("r_badksm", Undecoded::Frame(FrameError::UnknownKind(0xC5))),
    ("r_badmagic", Undecoded::Request(AcceptorError::BadMagic(0xdead_beef))),
    ("r_badtype", Undecoded::Header(HeaderError::UnknownType(7))),
    (
        "r_badver",
        Undecoded::Request(AcceptorError::UnknownVersion { version: 99, order: ByteOrder::Little }),
    ),
    // The client writes even the LNet header in its own byte order, which is big-endian.
    ("r_be", Undecoded::Header(HeaderError::UnknownType(0x0200_0000))),
    ("r_hbadmagic", Undecoded::Hello(HelloError::BadMagic(0xdead_beef))),
    ("r_hbadtype", Undecoded::Hello(HelloError::UnknownKind { raw: 9 })),
    (
        "r_hver99",
        Undecoded::Hello(HelloError::UnknownVersion { raw: 99, order: ByteOrder::Little }),
    ),
    ("r_protomagic", Undecoded::Request(AcceptorError::LnetMagic(ByteOrder::Little))),
    ("r_put1m1", Undecoded::Header(HeaderError::PayloadTooLong(0x0010_0001))),
    ("r_puthuge", Undecoded::Header(HeaderError::PayloadTooLong(0x7fff_ffff))),
];

/// Payloads that are not what belongs there.
const MALFORMED_CONTENT: [(&str, ContentError); 4] = [
    // The requester offered room for 16, 0 and 4 bytes.
    ("r_getsmallsink", ContentError::Ping(PingError::Truncated { have: 16, announced: 48 })),
    ("r_getsmallsink", ContentError::Ping(PingError::TooShort(0))),
    ("r_getsmallsink", ContentError::Ping(PingError::TooShort(4))),
    ("r_putping", ContentError::Ping(PingError::BadMagic(0x7a7a_7a7a))),
];

/// Frames with a wrong checksum: injected on purpose, or from clients that probe what a V3 node
/// covers with it.
const BAD_CHECKSUMS: [&str; 5] = [
    "f22_proto_v2_csum_injected_error",
    "r_csumbad",
    "r_csumv2bad",
    "r_csumv3good",
    "r_csumv3payload",
];

fn check_folder(name: &str) {
    let expected = expected_counts();
    for path in folder(name) {
        let capture = name_of(&path);
        let events = dissect(&read(&path));
        for event in &events {
            if let Some(bytes) = encode(event) {
                assert_eq!(bytes, event.raw, "{capture}: {:?}", event.item);
            }
        }
        check_coverage(&capture, &events);
        check_malformed(&capture, &events);
        let counts = counts(&events);
        if std::env::var_os("LUSTRINE_BLESS").is_none() {
            let key = format!("{name}/{capture}");
            assert_eq!(Some(&counts), expected.get(&key), "{key}");
        }
    }
}

/// Every byte of a stream is in exactly one event, or in a gap that is reported.
fn check_coverage(capture: &str, events: &[Event]) {
    let mut ends: BTreeMap<(u32, bool), u64> = BTreeMap::new();
    for event in events {
        let from_opener = event.direction == Direction::FromOpener;
        let end = ends.entry((event.stream, from_opener)).or_default();
        assert_eq!(event.offset, *end, "{capture}: {event:?}");
        *end += event.raw.len() as u64;
        if let Item::Gap { missing } = event.item {
            *end += missing;
        }
    }
}

fn check_malformed(capture: &str, events: &[Event]) {
    let mut undecoded = Vec::new();
    let mut content = Vec::new();
    let mut bad_checksums = 0;
    for event in events {
        match &event.item {
            Item::Undecoded(why) => undecoded.push(*why),
            Item::Message(message) => {
                if let Content::Malformed(error) = message.content {
                    content.push(error);
                }
                bad_checksums += usize::from(matches!(message.checksum, Checksum::Bad { .. }));
            }
            Item::Noop(noop) => assert!(!matches!(noop.checksum, Checksum::Bad { .. })),
            _ => {}
        }
    }
    let expected: Vec<_> = MALFORMED.iter().filter(|m| m.0 == capture).map(|m| m.1).collect();
    assert_eq!(undecoded, expected, "{capture}");
    let expected: Vec<_> =
        MALFORMED_CONTENT.iter().filter(|m| m.0 == capture).map(|m| m.1).collect();
    assert_eq!(content, expected, "{capture}");
    let expected = BAD_CHECKSUMS.iter().filter(|&&name| name == capture).count();
    assert_eq!(bad_checksums, expected, "{capture}");
}

fn counts(events: &[Event]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for event in events {
        *counts.entry(label(event)).or_default() += 1;
    }
    let words: Vec<_> = counts.iter().map(|(label, n)| format!("{label}={n}")).collect();
    words.join(" ")
}

fn expected_counts() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(capture("counts.txt")).unwrap_or_default();
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(": ").unwrap())
        .map(|(key, counts)| (key.to_owned(), counts.to_owned()))
        .collect()
}

#[test]
fn lnet() {
    check_folder("lnet");
}

#[test]
fn rogue() {
    check_folder("rogue");
}

#[test]
fn userland() {
    check_folder("userland");
}

#[test]
fn fs() {
    check_folder("fs");
}

#[test]
fn counts_name_every_capture() {
    const FOLDERS: [&str; 4] = ["fs", "lnet", "rogue", "userland"];
    let paths = || FOLDERS.iter().flat_map(|f| folder(f).into_iter().map(move |p| (*f, p)));
    if std::env::var_os("LUSTRINE_BLESS").is_some() {
        let mut text = String::from("# What the dissector finds in each capture; see golden.rs.\n");
        for (folder, path) in paths() {
            let counts = counts(&dissect(&read(&path)));
            text.push_str(&format!("{folder}/{}: {counts}\n", name_of(&path)));
        }
        std::fs::write(capture("counts.txt"), text).unwrap();
    }
    let keys: Vec<_> = paths().map(|(f, p)| format!("{f}/{}", name_of(&p))).collect();
    assert_eq!(expected_counts().into_keys().collect::<Vec<_>>(), keys);
}

/// The checksums of version 2 are correct in all frames but one that was corrupted on purpose.
#[test]
fn checksums_of_version_2() {
    let good = |name: &str| {
        let events = dissect(&read(&capture("lnet").join(name)));
        let of = |item: &Item| match item {
            Item::Message(message) => Some(message.checksum),
            Item::Noop(noop) => Some(noop.checksum),
            _ => None,
        };
        let all: Vec<_> = events.iter().filter_map(|event| of(&event.item)).collect();
        (all.iter().filter(|&&c| c == Checksum::Good).count(), all.len())
    };
    // [FRM-8]
    assert_eq!(good("f21_proto_v2_csum.pcap"), (28, 28));
    assert_eq!(good("f22_proto_v2_csum_injected_error.pcap"), (2, 3));
    // [FRM-9]
    assert_eq!(good("f2_csum_lst.pcap").0, 0, "version 3 sends none");
}

/// Messages of a capture are recognised even if its first `skip` frames are missing.
fn assert_midway(path: &Path, skip: usize) {
    let file = read(path);
    let messages = |events: Vec<Event>| {
        let messages = events.into_iter().filter_map(|event| match event.item {
            Item::Message(_) | Item::Noop(_) => Some(event.raw),
            Item::Undecoded(why) => panic!("{}: {why}", name_of(path)),
            _ => None,
        });
        messages.collect::<Vec<_>>()
    };
    let all = messages(dissect(&file));
    let rest = messages(support::dissect_frames(&file, |index| index >= skip));
    assert!(!rest.is_empty());
    assert_eq!(rest, all[all.len() - rest.len()..]);
}

#[test]
fn streams_without_their_beginning_decode() {
    let lnet = capture("lnet");
    for (name, skip) in [
        ("c00_session_console_vm4_ping.pcap", 150),
        ("f23_proto_v1.pcap", 40),
        ("f21_proto_v2_csum.pcap", 44),
        ("e2_ipv6_discover.pcap", 20),
        ("f9_keepalive.pcap", 28),
    ] {
        assert_midway(&lnet.join(name), skip);
    }
}

/// Some frames are lost; everything between the losses is still found.
#[test]
fn lost_frames_do_not_hide_the_rest() {
    for name in ["c00_session_console_vm4_ping.pcap", "f23_proto_v1.pcap", "f20_proto_v2.pcap"] {
        let file = read(&capture("lnet").join(name));
        let total = dissect(&file).iter().filter(|e| encode(e).is_some()).count();
        for every in [3, 5, 11] {
            let events = support::dissect_frames(&file, |index| index % every != every - 1);
            check_coverage(name, &events);
            let found = events.iter().filter(|event| encode(event).is_some()).count();
            assert!(found * every >= total * (every - 1) * 3 / 4, "{name} {every} {found} {total}");
            for event in &events {
                if let Some(bytes) = encode(event) {
                    assert_eq!(bytes, event.raw);
                }
                let broken = matches!(
                    event.item,
                    Item::Undecoded(Undecoded::Frame(_) | Undecoded::Header(_))
                );
                assert!(!broken, "{name} {every}: {event:?}");
            }
        }
    }
}

/// Frames that are cut (a capture with a small snap length) or repeated.
#[test]
fn short_and_repeated_frames_decode() {
    let file = read(&capture("lnet/c29_brw_write_1M_none_c1.pcap"));
    let whole = dissect(&file);
    let headers = |events: &[Event]| events.iter().filter(|e| encode(e).is_some()).count();

    let cut = dissect_mapped(&file, |frame| vec![&frame[..frame.len().min(400)]]);
    check_coverage("cut", &cut);
    assert!(headers(&cut) >= headers(&whole) - 2, "only the two 1 MiB messages may be lost");

    let twice = dissect_mapped(&file, |frame| vec![frame, frame]);
    assert_eq!(counts(&twice), counts(&whole));
}
