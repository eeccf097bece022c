use proptest::prelude::*;

use super::*;
use crate::golden::bytes;
use crate::nid::tests::{any_nid, any_short_nid};
use crate::{PING_MATCH_BITS, PING_PORTAL};

const MD: MdHandle = MdHandle { interface: 0x17a0_0000_0000_0011, object: 0x41 };

fn id(text: &str) -> ProcessId {
    ProcessId::lustre(text.parse().unwrap())
}

fn check(text: &str, header: &Header) {
    let raw: [u8; 72] = bytes(text).try_into().unwrap();
    assert_eq!(Header::parse_short(&raw), Ok(*header));
    let mut out = [0xee; 72];
    header.encode_short(&mut out).unwrap();
    assert_eq!(out, raw);
}

#[test]
fn worked_example_ping() {
    // [HDR-1] [HDR-5] [HDR-6] [PING-1]
    let (a, b) = (id("10.0.0.1@tcp"), id("10.0.0.2@tcp"));
    check(
        "02 00 00 0a 00 00 02 00  01 00 00 0a 00 00 02 00
         39 30 00 00  39 30 00 00  02 00 00 00  00 00 00 00
         11 00 00 00 00 00 a0 17  41 00 00 00 00 00 00 00
         00 00 00 00 00 00 00 80  00 00 00 00  00 00 00 00
         10 01 00 00  00 00 00 00",
        &Header {
            dst: b,
            src: a,
            payload_len: 0,
            body: Body::Get {
                return_md: MD,
                match_bits: PING_MATCH_BITS,
                portal: PING_PORTAL,
                offset: 0,
                sink_len: 272,
            },
        },
    );
    check(
        "01 00 00 0a 00 00 02 00  02 00 00 0a 00 00 02 00
         39 30 00 00  39 30 00 00  03 00 00 00  30 00 00 00
         11 00 00 00 00 00 a0 17  41 00 00 00 00 00 00 00  00*24",
        &Header { dst: a, src: b, payload_len: 48, body: Body::Reply { md: MD } },
    );
}

#[test]
fn worked_example_put_and_ack() {
    // [HDR-3] [HDR-4]
    let (a, b) = (id("10.0.0.1@tcp"), id("10.0.0.2@tcp"));
    check(
        "02 00 00 0a 00 00 02 00  01 00 00 0a 00 00 02 00
         39 30 00 00  39 30 00 00  01 00 00 00  05 00 00 00
         11 00 00 00 00 00 a0 17  41 00 00 00 00 00 00 00
         88 77 66 55 44 33 22 11  ad de 00 00 00 00 00 00
         1e 00 00 00  00 00 00 00",
        &Header {
            dst: b,
            src: a,
            payload_len: 5,
            body: Body::Put {
                ack_md: MD,
                match_bits: 0x1122_3344_5566_7788,
                hdr_data: 0xdead,
                portal: 30,
                offset: 0,
            },
        },
    );
    check(
        "01 00 00 0a 00 00 02 00  02 00 00 0a 00 00 02 00
         39 30 00 00  39 30 00 00  00 00 00 00  00 00 00 00
         11 00 00 00 00 00 a0 17  41 00 00 00 00 00 00 00
         88 77 66 55 44 33 22 11  05 00 00 00  00*12",
        &Header {
            dst: a,
            src: b,
            payload_len: 0,
            body: Body::Ack { md: MD, match_bits: 0x1122_3344_5566_7788, mlength: 5 },
        },
    );
}

#[test]
fn long_form_places_the_same_fields_after_long_nids() {
    // [HDR-2]
    let header = Header {
        dst: id("2001:db8::2@tcp"),
        src: id("2001:db8::1@tcp"),
        payload_len: 7,
        body: Body::Reply { md: MD },
    };
    let expected = bytes(
        "0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02
         0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01
         39 30 00 00  39 30 00 00  03 00 00 00  07 00 00 00
         11 00 00 00 00 00 a0 17  41 00 00 00 00 00 00 00  00*24",
    );
    let mut raw = [0xee; 96];
    header.encode_long(&mut raw);
    assert_eq!(raw[..], expected);
    assert_eq!(Header::parse_long(&raw), Ok(header));
    raw[20] = 1;
    assert_eq!(Header::parse_long(&raw), Err(HeaderError::BadNid(NidError::BadSize(1))));

    let mut short = [0xee; 72];
    assert_eq!(header.encode_short(&mut short), Err(NidTooLong(header.dst.nid)));
    assert_eq!(short, [0xee; 72]);
}

#[test]
fn malformed_headers_are_refused() {
    // [HDR-7] [HDR-12]
    let header = |kind: u32, len: u32| {
        let mut raw = [0; 72];
        LE.put_u32(&mut raw, 24, kind);
        LE.put_u32(&mut raw, 28, len);
        Header::parse_short(&raw).map(|h| (h.body.kind(), h.payload_len))
    };
    assert_eq!(header(5, 0), Err(HeaderError::UnknownType(5)));
    for (number, kind) in [(0, MessageKind::Ack), (2, MessageKind::Get)] {
        assert_eq!(header(number, 0), Ok((kind, 0)));
        assert_eq!(header(number, 1), Err(HeaderError::UnexpectedPayload { kind, len: 1 }));
    }
    for (number, kind) in [(1, MessageKind::Put), (3, MessageKind::Reply)] {
        assert_eq!(header(number, PAYLOAD_MAX), Ok((kind, PAYLOAD_MAX)));
        let long = PAYLOAD_MAX + 1;
        assert_eq!(header(number, long), Err(HeaderError::PayloadTooLong(long)));
    }
}

#[test]
fn no_handle_is_all_ones() {
    // [HDR-3]
    assert!(MdHandle::NONE.is_none());
    assert!(!MdHandle { object: 5, ..MdHandle::NONE }.is_none());
}

/// Any header that a receiver accepts.
pub(crate) fn any_header(nid: impl Strategy<Value = Nid> + Clone) -> impl Strategy<Value = Header> {
    let md = || any::<(u64, u64)>().prop_map(|(interface, object)| MdHandle { interface, object });
    let body = prop_oneof![
        (md(), any::<(u64, u32)>()).prop_map(|(md, n)| Body::Ack {
            md,
            match_bits: n.0,
            mlength: n.1
        }),
        (md(), any::<(u64, u64, u32, u32)>()).prop_map(|(ack_md, n)| Body::Put {
            ack_md,
            match_bits: n.0,
            hdr_data: n.1,
            portal: n.2,
            offset: n.3
        }),
        (md(), any::<(u64, u32, u32, u32)>()).prop_map(|(return_md, n)| Body::Get {
            return_md,
            match_bits: n.0,
            portal: n.1,
            offset: n.2,
            sink_len: n.3
        }),
        md().prop_map(|md| Body::Reply { md }),
        any::<(u64, u32)>().prop_map(|n| Body::Hello { incarnation: n.0, kind: n.1 }),
    ];
    (nid.clone(), nid, any::<(u32, u32)>(), 0..=PAYLOAD_MAX, body).prop_map(
        |(dst, src, pids, len, body)| Header {
            dst: ProcessId { nid: dst, pid: pids.0 },
            src: ProcessId { nid: src, pid: pids.1 },
            payload_len: match body.kind() {
                MessageKind::Ack | MessageKind::Get => 0,
                _ => len,
            },
            body,
        },
    )
}

proptest! {
    #[test]
    fn short_round_trip(header in any_header(any_short_nid().boxed())) {
        let mut raw = [0; 72];
        header.encode_short(&mut raw).unwrap();
        prop_assert_eq!(Header::parse_short(&raw), Ok(header));
    }

    #[test]
    fn long_round_trip(header in any_header(any_nid().boxed())) {
        let mut raw = [0; 96];
        header.encode_long(&mut raw);
        prop_assert_eq!(Header::parse_long(&raw), Ok(header));
    }

    #[test]
    fn arbitrary_bytes_are_survived(
        raw in prop::collection::vec(any::<u8>(), 96), kind in 0u32..6, len in any::<u32>(),
    ) {
        let mut short: [u8; 72] = raw[..72].try_into().unwrap();
        LE.put_u32(&mut short, 24, kind);
        LE.put_u32(&mut short, 28, len >> (kind * 4));
        if let Ok(header) = Header::parse_short(&short) {
            let mut again = [0; 72];
            header.encode_short(&mut again).unwrap();
            prop_assert_eq!(Header::parse_short(&again), Ok(header));
        }
        let _ = Header::parse_long(raw[..].try_into().unwrap());
    }
}
