use proptest::prelude::*;

use super::*;

const SID: Sid = Sid { nid: 0x0002_0000_0a00_0001, stamp: 0x0102_0304 };

fn message(body: Body) -> Message {
    Message { order: ByteOrder::Little, version: VERSION, features: FEATURE_BULK_LEN, body }
}

fn encode(message: &Message) -> [u8; 160] {
    let mut raw = [0xee; 160];
    message.encode(&mut raw);
    raw
}

/// Puts a different value into every 4-byte word, so that each field shows where it was read.
fn numbered(kind: MessageType, features: u32) -> [u8; 160] {
    let mut raw = [0; 160];
    for at in (0..160).step_by(2) {
        ByteOrder::Little.put_u16(&mut raw, at, at as u16);
    }
    ByteOrder::Little.put_u32(&mut raw, 0, MAGIC);
    ByteOrder::Little.put_u32(&mut raw, 4, VERSION);
    ByteOrder::Little.put_u32(&mut raw, 8, kind.number());
    ByteOrder::Little.put_u32(&mut raw, 20, features);
    raw
}

fn u32_of(at: u32) -> u32 {
    at | (at + 2) << 16
}

fn u64_of(at: u32) -> u64 {
    u64::from(u32_of(at)) | u64::from(u32_of(at + 4)) << 32
}

fn sid_of(at: u32) -> Sid {
    Sid { nid: u64_of(at), stamp: u64_of(at + 8) as i64 }
}

fn body_of(kind: MessageType) -> Body {
    let raw = numbered(kind, 1);
    let message = Message::parse(&raw).unwrap();
    let mut again = raw;
    message.encode_over(&mut again);
    assert_eq!(again, raw);
    message.body
}

#[test]
fn offsets_of_session_messages() {
    // [LST-3] [LST-4]
    let name =
        |at: usize| Name(numbered(MessageType::DebugReply, 1)[at..at + 32].try_into().unwrap());
    assert_eq!(
        body_of(MessageType::MakeSessionRequest),
        Body::MakeSessionRequest(MakeSessionRequest {
            reply_bits: u64_of(24),
            sid: sid_of(32),
            force: u32_of(48),
            name: name(52),
        })
    );
    assert_eq!(
        body_of(MessageType::MakeSessionReply),
        Body::MakeSessionReply(MakeSessionReply {
            status: u32_of(24),
            sid: sid_of(28),
            timeout: u32_of(44),
            name: name(48),
        })
    );
    assert_eq!(
        body_of(MessageType::DebugReply),
        Body::DebugReply(DebugReply {
            status: u32_of(24),
            sid: sid_of(28),
            timeout: u32_of(44),
            batches: u32_of(48),
            name: name(52),
        })
    );
    assert_eq!(
        body_of(MessageType::JoinRequest),
        Body::JoinRequest(JoinRequest { reply_bits: u64_of(24), sid: sid_of(32), group: name(48) })
    );
    assert_eq!(
        body_of(MessageType::JoinReply),
        Body::JoinReply(JoinReply {
            status: u32_of(24),
            sid: sid_of(28),
            timeout: u32_of(44),
            name: name(48),
        })
    );
    let Body::DebugRequest(debug) = body_of(MessageType::DebugRequest) else { panic!() };
    assert_eq!(debug.flags, u32_of(48));
    let Body::RemoveSessionRequest(remove) = body_of(MessageType::RemoveSessionRequest) else {
        panic!()
    };
    assert_eq!((remove.reply_bits, remove.sid), (u64_of(24), sid_of(32)));
    let Body::RemoveSessionReply(remove) = body_of(MessageType::RemoveSessionReply) else {
        panic!()
    };
    assert_eq!((remove.status, remove.sid), (u32_of(24), sid_of(28)));
}

#[test]
fn offsets_of_batches_and_tests() {
    // [LST-4] [LST-5]
    assert_eq!(
        body_of(MessageType::BatchRequest),
        Body::BatchRequest(BatchRequest {
            reply_bits: u64_of(24),
            sid: sid_of(32),
            batch: u64_of(48),
            op: u32_of(56),
            test: u32_of(60),
            arg: u32_of(64),
        })
    );
    let Body::BatchReply(batch) = body_of(MessageType::BatchReply) else { panic!() };
    assert_eq!((batch.active, batch.time), (u32_of(44), u32_of(48)));

    let Body::TestReply(reply) = body_of(MessageType::TestReply) else { panic!() };
    assert_eq!((reply.status, reply.sid), (u32_of(24), sid_of(28)));

    let mut raw = numbered(MessageType::TestRequest, 1);
    ByteOrder::Little.put_u32(&mut raw, 64, Service::Brw.id());
    raw[76] = 1;
    let mut request = TestRequest {
        reply_bits: u64_of(24),
        bulk_bits: u64_of(32),
        sid: sid_of(40),
        batch: u64_of(56),
        service: 11,
        loops: u32_of(68) as i32,
        concurrency: u32_of(72),
        role: Role::Client,
        stop_on_error: 0,
        destinations: u32_of(78),
        params: TestParams::BrwV1 { rw: 82, check: 84, len: u32_of(86), offset: u32_of(90) },
        rate: 0,
    };
    assert_eq!(Message::parse(&raw).unwrap().body, Body::TestRequest(request));

    ByteOrder::Little.put_u32(&mut raw, 20, 0);
    request.params = TestParams::BrwV0 { rw: u32_of(82), pages: u32_of(86), check: u32_of(90) };
    assert_eq!(Message::parse(&raw).unwrap().body, Body::TestRequest(request));

    ByteOrder::Little.put_u32(&mut raw, 64, Service::Ping.id());
    request.service = 12;
    request.params =
        TestParams::Ping { size: u32_of(82), flags: u32_of(86), unused: [90, 0, 92, 0] };
    assert_eq!(Message::parse(&raw).unwrap().body, Body::TestRequest(request));
}

#[test]
fn offsets_of_test_traffic() {
    // [LST-4]
    assert_eq!(
        body_of(MessageType::PingRequest),
        Body::PingRequest(PingRequest {
            reply_bits: u64_of(24),
            magic: u32_of(32),
            seq: u32_of(36),
            time_s: u64_of(40),
            time_ns: u64_of(48),
        })
    );
    assert_eq!(
        body_of(MessageType::PingReply),
        Body::PingReply(PingReply { status: u32_of(24), magic: u32_of(28), seq: u32_of(32) })
    );
    assert_eq!(
        body_of(MessageType::BrwRequest),
        Body::BrwRequest(BrwRequest {
            reply_bits: u64_of(24),
            bulk_bits: u64_of(32),
            rw: u32_of(40),
            len: u32_of(44),
            check: u32_of(48),
        })
    );
    assert_eq!(body_of(MessageType::BrwReply), Body::BrwReply(BrwReply { status: u32_of(24) }));
}

#[test]
fn offsets_of_counters() {
    // [LST-11]
    let Body::StatRequest(stat) = body_of(MessageType::StatRequest) else { panic!() };
    assert_eq!((stat.sid, stat.kind), (sid_of(32), u32_of(48)));
    let Body::StatReply(reply) = body_of(MessageType::StatReply) else { panic!() };
    let Counters { framework, rpc, lnet } = reply.counters;
    assert_eq!((framework.running_ms, framework.ping_errors), (u32_of(44), u32_of(60)));
    assert_eq!((rpc.errors, rpc.expired), (u32_of(64), u32_of(80)));
    assert_eq!((rpc.bulk_get, rpc.bulk_put), (u64_of(84), u64_of(92)));
    assert_eq!((lnet.msgs_alloc, lnet.drop_count), (u32_of(100), u32_of(124)));
    assert_eq!((lnet.send_length, lnet.drop_length), (u64_of(128), u64_of(152)));
}

#[test]
fn unused_bytes_are_ignored_and_written_as_zero() {
    // [LST-2]
    let reply = message(Body::BrwReply(BrwReply { status: 5 }));
    let raw = encode(&reply);
    assert_eq!(raw[..4], [0x0d, 0xf0, 0xb0, 0xee]);
    assert_eq!((raw[4], raw[8], raw[20], raw[24]), (1, 13, 1, 5));
    assert!(raw[28..].iter().all(|&b| b == 0));
    let mut stale = [0xee; 160];
    reply.encode_over(&mut stale);
    assert_eq!(stale[12..20], [0xee; 8]);
    assert_eq!(stale[28..], [0xee; 132]);
    assert_eq!(Message::parse(&stale), Ok(reply));
}

#[test]
fn malformed_messages_are_refused() {
    // [LST-2]
    assert_eq!(Message::parse(&[0; 159]), Err(SrpcError::BadLength(159)));
    assert_eq!(Message::parse(&[0; 161]), Err(SrpcError::BadLength(161)));
    assert_eq!(Message::parse(&[0; 160]), Err(SrpcError::BadMagic(0)));
    let mut raw = numbered(MessageType::PingReply, 1);
    ByteOrder::Little.put_u32(&mut raw, 8, 18);
    assert_eq!(Message::parse(&raw), Err(SrpcError::UnknownType(18)));
    ByteOrder::Little.put_u32(&mut raw, 8, 15);
    ByteOrder::Little.put_u32(&mut raw, 4, 2);
    assert_eq!(Message::parse(&raw).unwrap().version, 2, "answered, not dropped");
}

#[test]
fn types_and_services_correspond() {
    // [LST-1]
    for kind in MessageType::ALL {
        assert_eq!(MessageType::from_number(kind.number()), Some(kind));
        if let Some(reply) = kind.reply() {
            assert_eq!(reply.number(), kind.number() + 1);
            assert_eq!(reply.reply(), None);
        }
    }
    let table: Vec<_> =
        Service::ALL.iter().map(|s| (s.id(), s.portal(), s.request().number())).collect();
    assert_eq!(
        table,
        [
            (0, 51, 10),
            (1, 51, 0),
            (2, 51, 2),
            (3, 51, 4),
            (4, 51, 8),
            (5, 51, 6),
            (6, 51, 16),
            (11, 50, 12),
            (12, 50, 14),
            (64, 51, 64)
        ]
    );
    for service in Service::ALL {
        assert_eq!(Service::from_id(service.id()), Some(service));
    }
    assert_eq!(Service::from_id(7), None);
}

#[test]
fn names_are_ended_by_a_zero_byte() {
    assert_eq!(Name::new("run1").unwrap().as_bytes(), b"run1");
    assert_eq!(Name::new(&"n".repeat(32)), Err(NameError::TooLong(32)));
    assert_eq!(Name::new("a\0b"), Err(NameError::ZeroByte));
    let full = Name([b'x'; 32]);
    assert_eq!(full.as_bytes().len(), 32);
    assert!(!full.is_terminated() && Name::EMPTY.is_terminated());
    assert_eq!(Name::new("a\x1bb").unwrap().to_string(), "a\\x1bb");
    assert_eq!(SID.to_string(), "16909060@10.0.0.1@tcp");
}

#[test]
fn destinations_do_not_cross_pages() {
    // [LST-6]
    let entry = Destination { nid: SID.nid, pid: 12345 };
    let raw = entry.encode(ByteOrder::Little);
    assert_eq!(raw, [1, 0, 0, 10, 0, 0, 2, 0, 0x39, 0x30, 0, 0]);
    assert_eq!(Destination::parse(&raw, ByteOrder::Little), entry);
    assert_eq!(Destination::parse(&entry.encode(ByteOrder::Big), ByteOrder::Big), entry);
    assert_eq!(entry.process_id().to_string(), "12345-10.0.0.1@tcp");
    assert_eq!(destination_at(340, 4096), 4080);
    assert_eq!(destination_at(341, 4096), 4096);
    assert_eq!(destination_at(683, 4096), 8204);
}

proptest! {
    #[test]
    fn round_trip(
        tail in prop::collection::vec(any::<u8>(), 160), big in any::<bool>(),
        kind in prop::sample::select(MessageType::ALL.map(MessageType::number).to_vec()),
        service in prop::sample::select(vec![11u32, 12, 3]), client in 0u8..2,
    ) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let mut raw: [u8; 160] = tail.try_into().unwrap();
        order.put_u32(&mut raw, 0, MAGIC);
        order.put_u32(&mut raw, 8, kind);
        if kind == MessageType::TestRequest.number() {
            order.put_u32(&mut raw, 64, service);
            raw[76] = client;
        }
        let message = Message::parse(&raw).unwrap();
        let mut again = raw;
        message.encode_over(&mut again);
        prop_assert_eq!(again, raw);
        prop_assert_eq!(Message::parse(&encode(&message)), Ok(message));
    }

    #[test]
    fn arbitrary_bytes_are_survived(raw in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Message::parse(&raw);
    }
}
