use proptest::prelude::*;

use super::*;
use crate::body::{BodyFlags, OpFlags};
use crate::codec::Wire;
use crate::fid::Handle;
use crate::opcode::Opcode;

fn ping() -> Vec<u8> {
    let body = PtlrpcBody { timeout: 11, ..PtlrpcBody::request(Opcode::OBD_PING) };
    let mut out = Vec::new();
    let mut message = MessageBuilder::new(&mut out, &Header::default(), 1);
    message.value(&body);
    message.finish();
    out
}

/// A ping as a kernel sends it, byte by byte [RPC-5].
#[test]
fn a_ping_has_its_bytes() {
    let header = Header {
        secflvr: Header::null_flavor(SenderRole::MGC),
        repsize: 224,
        flags: HeaderFlags::AT_SUPPORT | HeaderFlags::CKSUM_INCOMPAT18,
        ..Header::default()
    };
    let body = PtlrpcBody {
        handle: Handle(0xa1a2_a3a4_a5a6_a7a8),
        last_xid: 0x0006_6555_0000_00ff,
        conn_cnt: 1,
        timeout: 11,
        mbits: 0x0006_6555_0000_0100,
        ..PtlrpcBody::request(Opcode::OBD_PING)
    };
    let mut out = Vec::new();
    let mut message = MessageBuilder::new(&mut out, &header, 1);
    message.value(&body);
    message.finish();
    let mut expected = vec![0; 224];
    let mut put = |at: usize, bytes: &[u8]| expected[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[1, 0, 0, 0, 0, 0, 0, 3, 0xd3, 0x0b, 0xd0, 0x0b, 0xe0]);
    put(0x14, &[3]);
    put(0x20, &[0xb8]);
    put(0x28, &[0xa8, 0xa7, 0xa6, 0xa5, 0xa4, 0xa3, 0xa2, 0xa1, 0x67, 0x12, 0, 0, 3, 0, 1, 0]);
    put(0x38, &[0x90, 1]);
    put(0x40, &[0xff, 0, 0, 0, 0x55, 0x65, 6]);
    put(0x68, &[1, 0, 0, 0, 0x0b]);
    put(0xa0, &[0, 1, 0, 0, 0x55, 0x65, 6]);
    assert_eq!(out, expected);
    let (parsed, parsed_body) = Message::parse_request(&out).unwrap();
    assert_eq!((*parsed.header(), parsed_body), (header, body));
    assert_eq!(parsed.header().role(), SenderRole::MGC);
}

/// An early reply and its checksum [RPC-16].
#[test]
fn an_early_reply_shows_its_checksum() {
    let body = PtlrpcBody { timeout: 35, service_time: 6, ..PtlrpcBody::reply(Opcode::OBD_PING) };
    let cksum = crate::body::early_reply_checksum(&body.to_bytes());
    assert_eq!(cksum, 0x42f2_8891);
    let mut out = Vec::new();
    let mut message = MessageBuilder::new(&mut out, &Header { cksum, ..Header::default() }, 1);
    message.value(&body);
    message.finish();
    assert_eq!(out.len(), BARE_LEN);
    let (message, _) = Message::parse_reply(&out).unwrap();
    assert!(message.early_reply_is_intact());
    out[0x70] = 7;
    assert!(!Message::parse(&out).unwrap().early_reply_is_intact());
}

/// Every check of the framing is an error with a name [RPC-5].
#[test]
fn each_check_has_its_error() {
    let good = ping();
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        Message::parse_request(&bad).unwrap_err()
    };
    assert_eq!(Message::parse(&good[..31]), Err(MessageError::TooShort(31)));
    assert_eq!(Message::parse(&good[..38]), Err(MessageError::TooShort(38)));
    assert_eq!(with(8, &[0x0b, 0xd0, 0x0b, 0xd3]), MessageError::OtherByteOrder);
    assert_eq!(with(8, &[1, 2, 3, 4]), MessageError::BadMagic(0x0403_0201));
    assert_eq!(with(0, &[0]), MessageError::BadCount(0));
    assert_eq!(with(0, &[33]), MessageError::BadCount(33));
    let too_long = MessageError::BufferTooLong { index: 0, len: 0xffff_ffff };
    assert_eq!(with(32, &[0xff; 4]), too_long);
    assert_eq!(with(32, &[185]), MessageError::BufferTooLong { index: 0, len: 185 });
    assert_eq!(with(32, &[151]), MessageError::BodyTooShort(151));
    assert_eq!(with(4, &[1]), MessageError::UnknownFlavor(1));
    assert_eq!(with(0x34, &[4]), MessageError::BadVersion(0x1_0004));
    assert_eq!(with(0x30, &[0x69]), MessageError::BadType(MessageType::REPLY));
    assert_eq!(with(0x6c, &[0]), MessageError::NoTimeout);
    assert_eq!(Message::parse_reply(&good), Err(MessageError::BadType(MessageType::REQUEST)));
}

/// A body without the name of the job is accepted [RPC-7].
#[test]
fn a_short_body_is_accepted() {
    let mut bytes = ping();
    bytes[32] = 152;
    let (_, body) = Message::parse_request(&bytes[..40 + 152]).unwrap();
    assert_eq!(body.timeout, 11);
}

#[test]
fn buffers_are_found_behind_their_padding() {
    let mut out = vec![0xee; 3];
    let mut message = MessageBuilder::new(&mut out, &Header::default(), 4);
    message.bytes(b"one");
    message.bytes(b"");
    message.bytes(b"threehundred");
    message.bytes(b"12345678");
    message.finish();
    let bytes = &out[3..];
    assert_eq!(bytes.len(), message_len([3, 0, 12, 8]));
    let message = Message::parse(bytes).unwrap();
    let found: Vec<_> = message.buffers().collect();
    assert_eq!(found, [&b"one"[..], b"", b"threehundred", b"12345678"]);
    assert_eq!((message.buffer(4), message.buffer(usize::MAX)), (None, None));
    // Bytes behind the message belong to the next one.
    let longer = [bytes, &[1, 2, 3]].concat();
    assert_eq!(Message::parse(&longer).unwrap().bytes(), bytes);
}

#[test]
#[should_panic(expected = "buffers of a message")]
fn a_message_without_all_buffers_is_not_finished() {
    MessageBuilder::new(&mut Vec::new(), &Header::default(), 2).finish();
}

#[test]
fn connects_and_replays_have_their_flags() {
    assert_eq!(BodyFlags::from_bits_retain(0x244).to_string(), "REPLAY|REQ_REPLAY_DONE|UID_GID");
    assert_eq!(OpFlags::from_bits_retain(0x5).to_string(), "RECOVERING|REPLAYABLE");
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes: Vec<u8>) {
        let _ = Message::parse_request(&bytes);
    }

    #[test]
    fn any_lengths_are_a_message_or_an_error(
        count in 0u32..40,
        lens in prop::collection::vec(prop_oneof![0u32..300, any::<u32>()], 40),
        room in 0usize..2000,
    ) {
        let mut bytes = RawHeader { count, magic: MAGIC, ..RawHeader::default() }.to_bytes();
        bytes.extend(lens.iter().take(count as usize).flat_map(|len| len.to_le_bytes()));
        bytes.resize(bytes.len() + room, 0);
        if let Ok(message) = Message::parse(&bytes) {
            prop_assert_eq!(message.buffers().count(), message.count());
            let lens = message.buffers().map(<[u8]>::len);
            prop_assert_eq!(message_len(lens), message.bytes().len());
        }
    }

    #[test]
    fn buffers_come_back(buffers in prop::collection::vec(any::<Vec<u8>>(), 1..=32)) {
        let mut out = Vec::new();
        let mut message = MessageBuilder::new(&mut out, &Header::default(), buffers.len());
        buffers.iter().for_each(|buffer| message.bytes(buffer));
        message.finish();
        let message = Message::parse(&out).unwrap();
        prop_assert_eq!(message.bytes().len(), out.len());
        prop_assert!(message.buffers().eq(buffers.iter().map(Vec::as_slice)));
    }
}
