//! Messages.

use core::fmt::Debug;

use lustrine_wire::acceptor::{Answer, Request};
use lustrine_wire::frame::{FrameHeader, ZcAck};
use lustrine_wire::hello::Hello;
use lustrine_wire::ping::{PingEntry, PingInfo};
use lustrine_wire::srpc::{
    CLIENT_STATS_LEN_MAX, ClientStats, Destination, ERROR_KINDS_MAX, LATENCY_BUCKETS, MESSAGE_LEN,
    Message,
};
use lustrine_wire::{ByteOrder, Header, Nid, Progress};

/// The rules of a parser that reads the start of a stream.
fn stream_parser<T: Debug + PartialEq, E: Debug + PartialEq>(
    data: &[u8],
    parse: impl Fn(&[u8]) -> Result<Progress<T>, E>,
    encode: impl Fn(&T) -> Vec<u8>,
) {
    match parse(data) {
        Err(_) => {}
        Ok(Progress::Need(need)) => assert!(need > data.len(), "{need} needed of {}", data.len()),
        Ok(Progress::Got(value, used)) => {
            assert!(used <= data.len(), "used {used} of {}", data.len());
            for end in 0..used {
                match parse(&data[..end]) {
                    Ok(Progress::Need(need)) => assert!(need > end && need <= used),
                    other => panic!("the first {end} bytes of {used} gave {other:?}"),
                }
            }
            let written = encode(&value);
            assert_eq!(written.len(), used, "{value:?}");
            assert_eq!(parse(&written), Ok(Progress::Got(value, used)));
        }
    }
}

pub(super) fn acceptor(data: &[u8]) {
    stream_parser(data, Request::parse, |request| {
        let mut out = Vec::new();
        request.encode(&mut out).expect("what was parsed fits its version");
        out
    });
    stream_parser(data, Answer::parse, |answer| {
        let mut out = Vec::new();
        answer.encode(&mut out);
        out
    });
}

pub(super) fn hello(data: &[u8]) {
    stream_parser(data, Hello::parse, |hello| {
        let mut out = Vec::new();
        hello.encode(&mut out).expect("what was parsed fits its version");
        out
    });
}

pub(super) fn header(data: &[u8]) {
    if let Some(raw) = data.first_chunk::<72>()
        && let Ok(header) = Header::parse_short(raw)
    {
        let mut short = [0x5a; 72];
        header.encode_short(&mut short).expect("short NIDs stay short");
        assert_eq!(Header::parse_short(&short), Ok(header));
        // Every header has a long form, and it says the same.
        let mut long = [0x5a; 96];
        header.encode_long(&mut long);
        assert_eq!(Header::parse_long(&long), Ok(header));
    }
    if let Some(raw) = data.first_chunk::<96>()
        && let Ok(header) = Header::parse_long(raw)
    {
        let mut long = [0x5a; 96];
        header.encode_long(&mut long);
        assert_eq!(Header::parse_long(&long), Ok(header));
    }
}

pub(super) fn frame(data: &[u8]) {
    let Some(raw) = data.first_chunk::<24>() else { return };
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let Ok(frame) = FrameHeader::parse(raw, order) else { continue };
        assert_eq!(frame.encode(order), *raw);
        if let Ok(ack) = frame.acknowledged() {
            acknowledgement(ack, &frame);
        }
    }
}

fn acknowledgement(ack: ZcAck, frame: &FrameHeader) {
    match ack {
        ZcAck::Nothing | ZcAck::Keepalive => assert_eq!(ack.count(), 0),
        ZcAck::One(cookie) => assert!(ack.covers(cookie) && ack.count() == 1),
        ZcAck::Pair(a, b) => assert!(a > b && ack.covers(a) && ack.covers(b)),
        ZcAck::Range(low, high) => {
            assert!(low <= high, "{frame:?}");
            assert!(ack.covers(low) && ack.covers(high) && !ack.covers(0));
            assert!(ack.count() >= 1);
        }
    }
}

/// Entries as values that can be sorted: long ones may be encoded as short ones, which go first.
fn sorted(entries: &[PingEntry]) -> Vec<([u8; 20], u32)> {
    let mut all: Vec<_> = entries.iter().map(|e| (e.nid.to_long(), e.status.word())).collect();
    all.sort_unstable();
    all
}

pub(super) fn ping(data: &[u8]) {
    let announced = PingInfo::announced_len(data);
    let Ok(info) = PingInfo::parse(data) else { return };
    assert_eq!(announced, Ok(info.total_len()));
    assert_eq!(info.total_len() + info.trailing().len(), data.len());
    let entries: Vec<PingEntry> = info.entries().collect();
    if let Some(primary) = info.primary() {
        assert!(entries.iter().any(|entry| entry.nid == primary));
    }
    // The data after the end never matters.
    let again = PingInfo::parse(&data[..info.total_len()]).expect("its own bytes are enough");
    assert!(again.entries().eq(entries.iter().copied()));

    // Encoders put the primary NID first; parsers find long entries after short ones.
    let order = info.order();
    let entries = primary_first(entries, info.primary());
    let written = build(&info, order, &entries);
    let rebuilt = PingInfo::parse_limited(&written, u32::MAX).expect("the encoding is valid");
    assert_eq!(rebuilt.total_len(), written.len());
    assert_eq!((rebuilt.pid(), rebuilt.sequence()), (info.pid(), info.sequence()));
    assert_eq!(rebuilt.primary(), entries.first().map(|entry| entry.nid));
    let kept: Vec<PingEntry> = rebuilt.entries().collect();
    assert_eq!(sorted(&kept), sorted(&entries));
    let kept = primary_first(kept, rebuilt.primary());
    assert_eq!(build(&rebuilt, order, &kept), written);
}

fn primary_first(mut entries: Vec<PingEntry>, primary: Option<Nid>) -> Vec<PingEntry> {
    if let Some(at) = entries.iter().position(|entry| Some(entry.nid) == primary) {
        entries[..=at].rotate_right(1);
    }
    entries
}

fn build(info: &PingInfo<'_>, order: ByteOrder, entries: &[PingEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    let (features, pid, sequence) = (info.features(), info.pid(), info.sequence());
    PingInfo::build_in(order, features, pid, sequence, entries, &mut out);
    out
}

pub(super) fn selftest(data: &[u8]) {
    if let Some(raw) = data.first_chunk::<12>() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            assert_eq!(Destination::parse(raw, order).encode(order), *raw);
        }
    }
    let Some(raw) = data.first_chunk::<MESSAGE_LEN>() else { return };
    let Ok(message) = Message::parse(raw) else { return };
    let mut written = [0x5a; MESSAGE_LEN];
    message.encode(&mut written);
    assert_eq!(Message::parse(&written), Ok(message));
    // Encoded over its own bytes, it changes only what a parser reads as the same value.
    let mut over = *raw;
    message.encode_over(&mut over);
    assert_eq!(Message::parse(&over), Ok(message));
    let mut twice = over;
    message.encode_over(&mut twice);
    assert_eq!(twice, over);
}

pub(super) fn client_stats(data: &[u8]) {
    let Ok(stats) = ClientStats::parse(data) else { return };
    assert!(stats.failed.len() <= ERROR_KINDS_MAX, "{stats:?}");
    assert!(stats.latencies.iter().all(|(bucket, _)| *bucket < LATENCY_BUCKETS), "{stats:?}");
    assert!(stats.latencies.windows(2).all(|pair| pair[0].0 < pair[1].0), "{stats:?}");
    let written = stats.encode();
    assert!(written.len() <= CLIENT_STATS_LEN_MAX as usize, "{} bytes", written.len());
    // A number has one shortest form, which is what is written.
    assert!(written.len() <= data.len(), "{data:?} became {written:?}");
    let early = ClientStats { details: None, ..stats.clone() }.encode().len();
    for end in 0..written.len() {
        assert_eq!(
            ClientStats::parse(&written[..end]).is_ok(),
            end == early,
            "{end} bytes of {written:?}"
        );
    }
    assert_eq!(ClientStats::parse(&written), Ok(stats));
}
