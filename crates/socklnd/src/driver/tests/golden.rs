//! Streams of kernel nodes, replayed: in the place of either kernel the driver sends, byte for
//! byte, what the kernel sent. `testdata/` holds the streams and describes their origin.

use core::net::SocketAddr;

use lustrine_lnet::lnd::{Action, NiIndex, SendAction};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_wire::Progress;
use lustrine_wire::acceptor::Request;
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::header::Header;
use lustrine_wire::hello::{Hello, Version};

use crate::io::SockId;
use crate::testing::{Chaos, World, config};

const A3: &str = include_str!("../../../testdata/a3_discover_cold.txt");
const E2: &str = include_str!("../../../testdata/e2_ipv6_discover.txt");
const F21: &str = include_str!("../../../testdata/f21_proto_v2_csum.txt");
const F23: &str = include_str!("../../../testdata/f23_proto_v1.txt");

/// One recorded connection.
#[derive(Clone, Debug, Default)]
struct Recorded {
    /// What the dialler sent, and what the other side sent.
    dialler: Vec<u8>,
    acceptor: Vec<u8>,
}

/// A message of a recorded stream.
struct Message {
    frame: Option<FrameHeader>,
    header: Header,
    payload: Vec<u8>,
}

fn recorded(text: &str) -> Vec<Recorded> {
    let blocks = text.split("\n\n").skip(1);
    blocks.map(|block| Recorded { dialler: hex(block, '>'), acceptor: hex(block, '<') }).collect()
}

fn hex(block: &str, side: char) -> Vec<u8> {
    let lines = block.lines().filter_map(|line| line.strip_prefix(side));
    let digits: Vec<u8> = lines.flat_map(|line| line.trim().bytes()).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    digits.chunks(2).map(|pair| 16 * digit(pair[0]) + digit(pair[1])).collect()
}

fn got<T, E: core::fmt::Debug>(parsed: Result<Progress<T>, E>) -> (T, usize) {
    match parsed.expect("a recorded handshake") {
        Progress::Got(value, len) => (value, len),
        Progress::Need(len) => panic!("{len} bytes were needed"),
    }
}

/// Request, HELLO, and how long they are together.
fn handshake(stream: &[u8]) -> (Request, Hello, usize) {
    let (request, first) = got(Request::parse(stream));
    let (hello, second) = got(Hello::parse(&stream[first..]));
    (request, hello, first + second)
}

/// The LNet messages of a stream, without the NOOPs.
fn messages(version: Version, mut stream: &[u8]) -> Vec<Message> {
    let mut messages = Vec::new();
    while !stream.is_empty() {
        let (frame, rest) = stream.split_at(version.frame_len());
        let frame =
            frame.first_chunk().map(|raw| FrameHeader::parse(raw, ByteOrder::Little).unwrap());
        stream = rest;
        if frame.is_some_and(|frame| frame.kind == FrameKind::Noop) {
            continue;
        }
        let header = match version {
            Version::V4 => Header::parse_long(stream.first_chunk().unwrap()),
            _ => Header::parse_short(stream.first_chunk().unwrap()),
        }
        .unwrap();
        let start = version.header_len();
        let end = start + header.payload_len as usize;
        messages.push(Message { frame, header, payload: stream[start..end].to_vec() });
        stream = &stream[end..];
    }
    messages
}

/// The messages that the driver is to send. Acknowledgements inside recorded messages answer
/// cookies of streams that are not replayed: those messages are left out.
fn sendable(messages: Vec<Message>) -> Vec<Message> {
    let rides = |message: &Message| message.frame.is_some_and(|frame| frame.zc_ack != 0);
    messages.into_iter().filter(|message| !rides(message)).collect()
}

fn bytes_of(version: Version, message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(frame) = message.frame {
        bytes.extend(frame.encode(ByteOrder::Little));
    }
    bytes.extend(crate::testing::header_bytes(version, &message.header));
    bytes.extend(&message.payload);
    bytes
}

/// A node in the place of the sender of `hello`.
fn place_of(world: &mut World, hello: &Hello, text: &str) {
    let mut config = config(0);
    config.nis[0].nid = hello.src.nid;
    config.nis[0].local_ip = hello.src.nid.ip();
    config.nis[0].incarnation = hello.src_incarnation;
    config.tunables.protocol = i64::from(hello.version.number());
    config.tunables.enable_csum = i64::from(text == F21);
    world.add(config);
}

/// Sends messages from the node; returns what arrives at the test's end.
fn say_all(world: &mut World, sock: SockId, messages: &[Message], hello: &Hello) -> Vec<u8> {
    for message in messages {
        let node = &mut world.nodes[0];
        let op = node.core.sending();
        let payload = node.io.memory.borrow_mut().filled(&message.payload);
        let send = SendAction {
            op,
            ni: NiIndex(0),
            to: hello.src,
            header: message.header,
            payload: [payload].into_iter().collect(),
            deadline: Time::NEVER,
        };
        node.driver.submit(world.now, &mut node.core, &mut node.io, &Action::Send(send));
    }
    world.run();
    world.net.hear(sock)
}

fn check_arrivals(world: &mut World, expected: &[Message]) {
    let core = world.core(0);
    assert_eq!(core.arrived.len(), expected.len());
    for (index, message) in expected.iter().enumerate() {
        assert_eq!(core.arrived[index].header, message.header);
        assert_eq!(core.arrived[index].status, Some(Status::Ok));
        assert_eq!(core.payload(index), message.payload);
    }
}

/// Takes the place of the kernel that was dialled.
fn accept_like_the_kernel(text: &str) {
    let connections = recorded(text);
    let mut world = World::new(1, Chaos::None);
    let (_, hello, _) = handshake(&connections[0].dialler);
    let (answer, _) = got(Hello::parse(&connections[0].acceptor));
    place_of(&mut world, &answer, text);
    let address = |hello: &Hello, port| SocketAddr::new(hello.src.nid.ip().unwrap(), port);
    let mut first = None;
    for (index, recorded) in connections.iter().enumerate() {
        let (from, to) = (address(&hello, 1023 - index as u16), address(&answer, 988));
        let sock = world.net.dial(from, to).unwrap();
        let (_, _, len) = handshake(&recorded.dialler);
        let (_, answer_len) = got(Hello::parse(&recorded.acceptor));
        world.run();
        world.net.say(sock, &recorded.dialler[..len]);
        world.run();
        assert_eq!(world.net.hear(sock), recorded.acceptor[..answer_len], "connection {index}");
        first.get_or_insert((sock, len, answer_len));
    }
    let (sock, len, answer_len) = first.unwrap();
    let said = messages(answer.version, &connections[0].dialler[len..]);
    for message in &said {
        world.net.say(sock, &bytes_of(answer.version, message));
    }
    // The node has no peer for acknowledgements of what was sent in other streams.
    world.run();
    check_arrivals(&mut world, &said);
    let answers = sendable(messages(answer.version, &connections[0].acceptor[answer_len..]));
    let expected: Vec<u8> =
        answers.iter().flat_map(|message| bytes_of(answer.version, message)).collect();
    assert_eq!(say_all(&mut world, sock, &answers, &hello), expected);
}

/// Takes the place of the kernel that dialled.
fn dial_like_the_kernel(text: &str) {
    let connections = recorded(text);
    let mut world = World::new(1, Chaos::None);
    let (_, hello, _) = handshake(&connections[0].dialler);
    let (answer, _) = got(Hello::parse(&connections[0].acceptor));
    place_of(&mut world, &hello, text);
    world.net.listen(SocketAddr::new(answer.src.nid.ip().unwrap(), 988), None);
    let said = |recorded: &Recorded| {
        let (_, _, len) = handshake(&recorded.dialler);
        sendable(messages(hello.version, &recorded.dialler[len..]))
    };
    let all = said(&connections[0]);
    let expected: Vec<u8> =
        all.iter().flat_map(|message| bytes_of(hello.version, message)).collect();
    // No connection exists for them yet: they make the node dial.
    let no_stream = SockId(u64::MAX);
    assert_eq!(say_all(&mut world, no_stream, &all, &answer), []);
    for (index, recorded) in connections.iter().enumerate() {
        world.run();
        let sock = world.net.take_incoming(None).expect("the node dials").sock;
        let (_, _, len) = handshake(&recorded.dialler);
        let (_, answer_len) = got(Hello::parse(&recorded.acceptor));
        assert_eq!(world.net.hear(sock), recorded.dialler[..len], "connection {index}");
        world.net.say(sock, &recorded.acceptor[..answer_len]);
        world.run();
        if index != 0 {
            continue;
        }
        assert_eq!(world.net.hear(sock), expected);
        let heard = messages(hello.version, &recorded.acceptor[answer_len..]);
        let heard = sendable(heard);
        for message in &heard {
            world.net.say(sock, &bytes_of(hello.version, message));
        }
        world.run();
        check_arrivals(&mut world, &heard);
    }
    world.run();
    assert!(world.net.take_incoming(None).is_none(), "the set is complete");
}

#[test]
fn v3_of_a3_discover_cold() {
    accept_like_the_kernel(A3);
    dial_like_the_kernel(A3);
}

#[test]
fn v4_of_e2_ipv6_discover() {
    accept_like_the_kernel(E2);
    dial_like_the_kernel(E2);
}

#[test]
fn v2_with_checksums_of_f21_proto_v2_csum() {
    accept_like_the_kernel(F21);
    dial_like_the_kernel(F21);
}

#[test]
fn v1_of_f23_proto_v1() {
    accept_like_the_kernel(F23);
    dial_like_the_kernel(F23);
}

#[test]
fn the_recordings_are_not_empty() {
    for (text, version, count) in
        [(A3, Version::V3, 3), (E2, Version::V4, 3), (F21, Version::V2, 12), (F23, Version::V1, 10)]
    {
        let connections = recorded(text);
        assert_eq!(connections.len(), 3);
        let (_, hello, len) = handshake(&connections[0].dialler);
        assert_eq!(hello.version, version);
        let said = messages(version, &connections[0].dialler[len..]);
        assert_eq!(said.len(), count, "{version:?}");
    }
}
