//! Headers and messages, written and read.

use std::hint::black_box;

use lustrine_partition::tunables::Tunables;
use lustrine_wire::frame::FrameHeader;
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::srpc::{self, Message};
use lustrine_wire::{ByteOrder, Net, Nid, ProcessId};

fn header(dst: Nid, src: Nid) -> Header {
    let body = Body::Put {
        ack_md: MdHandle::NONE,
        match_bits: 12,
        hdr_data: 0,
        portal: srpc::TEST_PORTAL,
        offset: 0,
    };
    let (dst, src) = (ProcessId::lustre(dst), ProcessId::lustre(src));
    Header { dst, src, payload_len: srpc::MESSAGE_LEN as u32, body }
}

pub(crate) fn short(_: &Tunables, count: u64) {
    let header = header(Nid::new4(Net::TCP, 0x0a00_0002), Nid::new4(Net::TCP, 0x0a00_0001));
    for _ in 0..count {
        let frame = black_box(FrameHeader::LNET).encode(ByteOrder::Little);
        let mut raw = [0; Header::SHORT_LEN];
        black_box(&header).encode_short(&mut raw).expect("short NIDs");
        black_box(FrameHeader::parse(black_box(&frame), ByteOrder::Little).expect("a frame"));
        black_box(Header::parse_short(black_box(&raw)).expect("a header"));
    }
}

pub(crate) fn long(_: &Tunables, count: u64) {
    let header = header(Nid::new6(Net::TCP, [2; 16]), Nid::new6(Net::TCP, [1; 16]));
    for _ in 0..count {
        let frame = black_box(FrameHeader::LNET).encode(ByteOrder::Little);
        let mut raw = [0; Header::LONG_LEN];
        black_box(&header).encode_long(&mut raw);
        black_box(FrameHeader::parse(black_box(&frame), ByteOrder::Little).expect("a frame"));
        black_box(Header::parse_long(black_box(&raw)).expect("a header"));
    }
}

pub(crate) fn selftest(_: &Tunables, count: u64) {
    let mut raw = [0; srpc::MESSAGE_LEN];
    ByteOrder::Little.put_u32(&mut raw, 0, srpc::MAGIC);
    ByteOrder::Little.put_u32(&mut raw, 4, srpc::VERSION);
    ByteOrder::Little.put_u32(&mut raw, 8, srpc::MessageType::PingRequest.number());
    let message = Message::parse(&raw).expect("a ping request");
    for _ in 0..count {
        let mut raw = [0; srpc::MESSAGE_LEN];
        black_box(&message).encode(&mut raw);
        black_box(Message::parse(black_box(&raw)).expect("what was written"));
    }
}
