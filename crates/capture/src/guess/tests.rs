use lustrine_wire::header::MdHandle;
use proptest::prelude::*;

use super::*;

fn header(nid: &str) -> Header {
    let id = ProcessId::lustre(nid.parse().unwrap());
    let md = MdHandle { interface: 5, object: 6 };
    Header { dst: id, src: id, payload_len: 9, body: Body::Reply { md } }
}

fn short() -> [u8; 72] {
    let mut raw = [0; 72];
    header("10.0.0.1@tcp").encode_short(&mut raw).unwrap();
    raw
}

fn frame(frame: FrameHeader, order: ByteOrder, header: &[u8]) -> Vec<u8> {
    [&frame.encode(order)[..], header].concat()
}

fn version(buf: &[u8]) -> Option<(Version, ByteOrder)> {
    match at_start(buf) {
        Guess::Message(format) => Some((format.version, format.order)),
        _ => None,
    }
}

#[test]
fn every_framing_is_recognised() {
    let mut long = [0; 96];
    header("fd00::1@tcp").encode_long(&mut long);
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let v3 = frame(FrameHeader::LNET, order, &short());
        assert_eq!(version(&v3), Some((Version::V3, order)));
        let v2 = frame(FrameHeader { csum: 1, ..FrameHeader::LNET }, order, &short());
        assert_eq!(version(&v2), Some((Version::V2, order)));
        let v4 = frame(FrameHeader::LNET, order, &long);
        assert_eq!(version(&v4), Some((Version::V4, order)));
        let noop = FrameHeader::noop(7).encode(order);
        assert!(matches!(at_start(&noop), Guess::Noop(format) if format.order == order));
    }
    assert_eq!(version(&short()), Some((Version::V1, ByteOrder::Little)));
}

#[test]
fn short_input_needs_more_bytes() {
    let v3 = frame(FrameHeader::LNET, ByteOrder::Little, &short());
    for end in 0..v3.len() {
        assert!(matches!(at_start(&v3[..end]), Guess::Need(n) if n > end && n <= LOOK_AHEAD));
    }
    assert_eq!(at_start(&FrameHeader::noop(7).encode(ByteOrder::Little)[..23]), Guess::Need(24));
}

#[test]
fn implausible_messages_are_rejected() {
    let no = |change: fn(&mut Header)| {
        let mut header = header("10.0.0.1@tcp");
        change(&mut header);
        let mut raw = [0; 72];
        header.encode_short(&mut raw).unwrap();
        let framed = [&frame(FrameHeader::LNET, ByteOrder::Little, &raw)[..], &[0; 24]].concat();
        assert_eq!(at_start(&framed), Guess::No, "{header:?}");
    };
    no(|h| h.src.pid = 7);
    no(|h| h.dst.pid = u32::MAX);
    no(|h| h.dst.nid = Nid::ANY);
    no(|h| h.src.nid = Nid::from_short(1));
    no(|h| h.body = Body::Hello { incarnation: 1, kind: 1 });
    no(|h| {
        let ack_md = MdHandle::NONE;
        h.body = Body::Put { ack_md, match_bits: 0, hdr_data: 0, portal: 64, offset: 0 };
    });
    let mut filler = short();
    filler[71] = 1;
    assert_eq!(at_start(&filler), Guess::No);
    let cookie = FrameHeader::noop(1 << 50).encode(ByteOrder::Little);
    assert_eq!(at_start(&cookie), Guess::No);
    assert_eq!(at_start(&FrameHeader::noop(0).encode(ByteOrder::Little)), Guess::No);
}

#[test]
fn a_renamed_userland_peer_is_plausible() {
    let mut header = header("10.0.0.1@tcp");
    header.dst.pid = PID_USERLAND | 40000;
    let mut raw = [0; 72];
    header.encode_short(&mut raw).unwrap();
    assert_eq!(version(&raw), Some((Version::V1, ByteOrder::Little)));
}

proptest! {
    #[test]
    fn noise_is_not_a_message(
        mut bytes in prop::collection::vec(any::<u8>(), LOOK_AHEAD), c1 in any::<bool>(),
    ) {
        if c1 {
            bytes[..4].copy_from_slice(&[0xc1, 0, 0, 0]);
        }
        prop_assert_eq!(at_start(&bytes), Guess::No);
    }
}
