use proptest::prelude::*;

use super::*;
use crate::golden::bytes;
use crate::nid::tests::{any_nid, any_short_nid};

fn id(text: &str, pid: u32) -> ProcessId {
    ProcessId { nid: text.parse().unwrap(), pid }
}

fn check(raw: &[u8], hello: &Hello) {
    assert_eq!(Hello::parse(raw), Ok(Progress::Got(*hello, raw.len())));
    let mut out = Vec::new();
    hello.encode(&mut out).unwrap();
    assert_eq!(out, raw);
}

#[test]
fn worked_example_v3() {
    // [HEL-1]
    let raw = bytes(
        "63 69 72 45  03 00 00 00  01 00 00 0a 00 00 02 00
         02 00 00 0a 00 00 02 00  39 30 00 00  00 00 00 00
         01 00 00 00 00 00 a0 17  00 00 00 00 00 00 00 00
         01 00 00 00  00 00 00 00",
    );
    let hello = Hello {
        version: Version::V3,
        order: ByteOrder::Little,
        src: id("10.0.0.1@tcp", 12345),
        dst: id("10.0.0.2@tcp", 0),
        src_incarnation: 0x17a0_0000_0000_0001,
        dst_incarnation: 0,
        kind: ConnType::Control,
        ips: Ips::NONE,
    };
    check(&raw, &hello);

    let raw = bytes(
        "63 69 72 45  03 00 00 00  02 00 00 0a 00 00 02 00
         01 00 00 0a 00 00 02 00  39 30 00 00  00 00 00 00
         02 00 00 00 00 00 a0 17  00 00 00 00 00 00 00 00
         01 00 00 00  00 00 00 00",
    );
    let reply = Hello {
        src: id("10.0.0.2@tcp", 12345),
        dst: id("10.0.0.1@tcp", 0),
        src_incarnation: 0x17a0_0000_0000_0002,
        ..hello
    };
    check(&raw, &reply);
}

#[test]
fn worked_example_v4() {
    // [HEL-2]
    let raw = bytes(
        "63 69 72 45  04 00 00 00  0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01
         0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02  39 30 00 00  00 00 00 00
         01 00 00 00 00 00 a0 17  00*8  03 00 00 00  00 00 00 00",
    );
    let hello = Hello {
        version: Version::V4,
        order: ByteOrder::Little,
        src: id("2001:db8::1@tcp", 12345),
        dst: id("2001:db8::2@tcp", 0),
        src_incarnation: 0x17a0_0000_0000_0001,
        dst_incarnation: 0,
        kind: ConnType::BulkOut,
        ips: Ips::NONE,
    };
    check(&raw, &hello);
}

#[test]
fn v1_is_a_header() {
    // [HEL-3]
    let raw = bytes(
        "ed 0d bc ee 01 00 00 00  01 00 00 0a 00 00 02 00  39 30 00 00  39 30 00 00
         04 00 00 00  04 00 00 00  01 00 00 00 00 00 a0 17  02 00 00 00  00*28  05 00 00 0a",
    );
    let mut ips = Ips::NONE;
    ips.push(0x0a00_0005).unwrap();
    let hello = Hello {
        version: Version::V1,
        order: ByteOrder::Little,
        src: id("10.0.0.1@tcp", 12345),
        dst: ProcessId { nid: Nid::ANY, pid: 12345 },
        src_incarnation: 0x17a0_0000_0000_0001,
        dst_incarnation: 0,
        kind: ConnType::BulkIn,
        ips,
    };
    check(&raw, &hello);
}

fn v3() -> Vec<u8> {
    let mut raw = bytes("63 69 72 45  03 00 00 00  01 00 00 0a 00 00 02 00  00*40");
    raw[48] = 1;
    raw
}

#[test]
fn malformed_hellos_are_refused() {
    // [HEL-5] [HEL-6] [HEL-7]
    let error = |raw: &[u8]| Hello::parse(raw).unwrap_err();
    assert_eq!(error(b"HTTP"), HelloError::BadMagic(0x5054_5448));
    let unknown = bytes("45 72 69 63 00 00 00 63");
    assert_eq!(error(&unknown), HelloError::UnknownVersion { raw: 99, order: ByteOrder::Big });
    let unknown = bytes("ed 0d bc ee 02 00 01 00");
    assert_eq!(
        error(&unknown),
        HelloError::UnknownVersion { raw: 0x0002_0001, order: ByteOrder::Little }
    );
    assert_eq!(
        error(&bytes("ee bc 0d ed 00*68")),
        HelloError::BadMagic(0xed0d_bcee),
        "V1 is little-endian only"
    );
    let mut raw = v3();
    raw[48] = 4;
    assert_eq!(error(&raw), HelloError::UnknownKind { raw: 4 });
    let mut raw = v3();
    raw[52] = 17;
    assert_eq!(error(&raw), HelloError::TooManyIps(17));
    raw[52] = 1;
    assert_eq!(Hello::parse(&raw), Ok(Progress::Need(60)));
    raw.extend([0; 4]);
    assert_eq!(error(&raw), HelloError::ZeroIp);

    let mut raw = bytes("63 69 72 45 04 00 00 00 00*72");
    raw[8] = 3;
    assert_eq!(error(&raw), HelloError::BadNid(NidError::BadSize(3)));

    let mut raw = bytes("ed 0d bc ee 01 00 00 00 00*64");
    assert_eq!(error(&raw), HelloError::NotHello(0));
    raw[24] = 4;
    raw[28] = 3;
    assert_eq!(error(&raw), HelloError::BadPayload(3));
    raw[28] = 68;
    assert_eq!(error(&raw), HelloError::TooManyIps(17));
}

#[test]
fn types_are_inverted_at_the_other_end() {
    // [HEL-8]
    for kind in
        [ConnType::Any, ConnType::Control, ConnType::BulkIn, ConnType::BulkOut, ConnType::None]
    {
        assert_eq!(ConnType::from_number(kind.number()), Some(kind));
        assert_eq!(kind.inverse().inverse(), kind);
    }
    assert_eq!(ConnType::BulkIn.inverse(), ConnType::BulkOut);
    assert_eq!(ConnType::Control.inverse(), ConnType::Control);
}

#[test]
fn each_version_has_its_header_lengths() {
    // [FRM-1]
    let lengths = [Version::V1, Version::V2, Version::V3, Version::V4]
        .map(|v| (v.number(), v.frame_len(), v.header_len()));
    assert_eq!(lengths, [(1, 0, 72), (2, 24, 72), (3, 24, 72), (4, 24, 96)]);
}

#[test]
fn no_more_than_16_ips() {
    let mut ips = Ips::NONE;
    for i in 1..=16 {
        ips.push(i).unwrap();
    }
    assert_eq!(ips.push(17), Err(HelloError::TooManyIps(17)));
    assert_eq!(ips.as_slice().len(), 16);
}

fn any_hello() -> impl Strategy<Value = Hello> {
    let kind = prop::sample::select(vec![
        ConnType::Any,
        ConnType::Control,
        ConnType::BulkIn,
        ConnType::BulkOut,
        ConnType::None,
    ]);
    let version = prop::sample::select(vec![Version::V1, Version::V2, Version::V3, Version::V4]);
    let numbers = any::<(u32, u32, u64, u64, bool)>();
    let ips = prop::collection::vec(1u32.., 0..=IPS_MAX);
    let long = (any_nid(), any_nid());
    let short = (any_short_nid(), any_short_nid());
    (version, kind, numbers, ips, long, short).prop_map(|(version, kind, n, list, long, short)| {
        let (src, dst) = if version == Version::V4 { long } else { short };
        let mut ips = Ips::NONE;
        if version != Version::V4 {
            list.iter().for_each(|&ip| ips.push(ip).unwrap());
        }
        let v1 = version == Version::V1;
        let order = if n.4 && !v1 { ByteOrder::Big } else { ByteOrder::Little };
        Hello {
            version,
            order,
            src: ProcessId { nid: src, pid: n.0 },
            dst: ProcessId { nid: if v1 { Nid::ANY } else { dst }, pid: n.1 },
            src_incarnation: n.2,
            dst_incarnation: if v1 { 0 } else { n.3 },
            kind,
            ips,
        }
    })
}

proptest! {
    #[test]
    fn round_trip_in_pieces(hello in any_hello()) {
        let mut raw = Vec::new();
        hello.encode(&mut raw).unwrap();
        for end in 0..raw.len() {
            match Hello::parse(&raw[..end]) {
                Ok(Progress::Need(n)) => prop_assert!(n > end && n <= raw.len()),
                other => prop_assert!(false, "{other:?}"),
            }
        }
        raw.push(0xc1);
        prop_assert_eq!(Hello::parse(&raw), Ok(Progress::Got(hello, raw.len() - 1)));
    }

    #[test]
    fn arbitrary_bytes_are_survived(
        mut raw in prop::collection::vec(any::<u8>(), 0..160),
        start in prop::sample::select(vec![
            "", "63 69 72 45 03 00 00 00", "45 72 69 63 00 00 00 04", "ed 0d bc ee 01 00 00 00",
        ]),
    ) {
        let start = bytes(start);
        let n = start.len().min(raw.len());
        raw[..n].copy_from_slice(&start[..n]);
        if let Ok(Progress::Got(hello, used)) = Hello::parse(&raw) {
            let mut out = Vec::new();
            hello.encode(&mut out).unwrap();
            prop_assert_eq!(out.len(), used);
        }
    }
}
