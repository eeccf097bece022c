use proptest::prelude::*;

use super::*;
use crate::golden::bytes;

const LE: ByteOrder = ByteOrder::Little;

fn raw(text: &str) -> [u8; 24] {
    bytes(text).try_into().unwrap()
}

#[test]
fn worked_examples() {
    // [FRM-2] [FRM-11] [FRM-13]
    for (text, frame, ack) in [
        ("c0 00*7 00*8 07 00*7", FrameHeader::noop(7), ZcAck::One(7)),
        ("c0 00*7 00*8 01 00*7", FrameHeader::KEEPALIVE, ZcAck::Keepalive),
        (
            "c0 00*7 05 00*7 09 00*7",
            FrameHeader { zc_request: 5, ..FrameHeader::noop(9) },
            ZcAck::Range(5, 9),
        ),
        ("c1 00*23", FrameHeader::LNET, ZcAck::Nothing),
    ] {
        assert_eq!(FrameHeader::parse(&raw(text), LE), Ok(frame));
        assert_eq!(frame.encode(LE), raw(text));
        assert_eq!(frame.acknowledged(), Ok(ack));
    }
}

#[test]
fn checksum_of_the_worked_examples() {
    // [FRM-8]
    assert_eq!(FrameHeader::noop(7).csum_start(LE), 0x3d9e_3319);
    let message = bytes(
        "c1 00 00 00  e3 c3 2c 4d  00*8  00*8
         02 00 00 0a 00 00 02 00  01 00 00 0a 00 00 02 00
         39 30 00 00  39 30 00 00  01 00 00 00  05 00 00 00
         11 00 00 00 00 00 a0 17  41 00 00 00 00 00 00 00
         88 77 66 55 44 33 22 11  ad de 00 00 00 00 00 00
         1e 00 00 00  00 00 00 00  68 65 6c 6c 6f",
    );
    let frame = FrameHeader::parse(message[..24].try_into().unwrap(), LE).unwrap();
    assert_eq!(frame.csum, 0x4d2c_c3e3);
    assert_eq!(crc::update(frame.csum_start(LE), &message[24..]), frame.csum);
}

#[test]
fn acknowledgements_are_recognised() {
    // [FRM-11] [FRM-13]
    let noop = |a, b| FrameHeader { zc_request: a, ..FrameHeader::noop(b) }.acknowledged();
    assert_eq!(noop(0, 0), Ok(ZcAck::Nothing));
    assert_eq!(noop(9, 0), Ok(ZcAck::Nothing));
    assert_eq!(noop(1, 1), Ok(ZcAck::Keepalive));
    assert_eq!(noop(2, 1), Err(FrameError::BadKeepalive(2)));
    assert_eq!(noop(4, 3), Ok(ZcAck::Pair(4, 3)));
    assert_eq!(noop(3, 3), Ok(ZcAck::Range(3, 3)));
    let piggyback = FrameHeader { zc_request: 5, zc_ack: 9, ..FrameHeader::LNET };
    assert_eq!(piggyback.acknowledged(), Ok(ZcAck::One(9)), "A is an independent request");

    assert_eq!(ZcAck::Range(0, u64::MAX).count(), u64::MAX);
    assert_eq!(ZcAck::Range(5, 9).count(), 5);
    assert_eq!(ZcAck::Pair(4, 3).count(), 2);
    assert!(ZcAck::Range(5, 9).covers(9) && !ZcAck::Range(5, 9).covers(10));
    assert!(ZcAck::Pair(9, 5).covers(5) && !ZcAck::Pair(9, 5).covers(7));
}

#[test]
fn unknown_types_are_refused() {
    // [FRM-3]
    let mut bad = FrameHeader::LNET.encode(LE);
    assert_eq!(FrameHeader::parse(&bad, ByteOrder::Big), Err(FrameError::UnknownKind(0xC100_0000)));
    bad[0] = 0xC2;
    assert_eq!(FrameHeader::parse(&bad, LE), Err(FrameError::UnknownKind(0xC2)));
}

proptest! {
    #[test]
    fn round_trip(noop in any::<bool>(), big in any::<bool>(), n in any::<(u32, u64, u64)>()) {
        let kind = if noop { FrameKind::Noop } else { FrameKind::Lnet };
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let frame = FrameHeader { kind, csum: n.0, zc_request: n.1, zc_ack: n.2 };
        prop_assert_eq!(FrameHeader::parse(&frame.encode(order), order), Ok(frame));
        if let Ok(ack) = frame.acknowledged() {
            prop_assert!(ack.count() == 0 || ack.covers(frame.zc_ack));
        }
    }
}
