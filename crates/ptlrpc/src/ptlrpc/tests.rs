//! An import on LNet, against a server that answers as the test says.

use lustrine_fswire::body::{BodyFlags, MessageType, OpFlags, PtlrpcBody};
use lustrine_fswire::codec::Wire;
use lustrine_fswire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use lustrine_fswire::fid::Handle;
use lustrine_fswire::message::{BARE_LEN, Header, HeaderFlags, Message, MessageBuilder};
use lustrine_fswire::opcode::{Opcode, Target, portal};
use lustrine_lnet::event::EventKind;
use lustrine_lnet::md::{MatchId, Md, MdOptions, Position, Unlink};
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::portal::MatchEntry;
use lustrine_lnet::service::AnyMemory;
use lustrine_lnet::shard::{AckWanted, PutArgs};
use lustrine_lnet::tunables::Tunables;
use lustrine_lnet_testing::{Delivery, Net, test_nid};
use lustrine_wire::nid::{Nid, PID_ANY};

use super::*;
use crate::slots::SlotKind;

const CLIENT: Owner = Owner(7);
const SERVER: Owner = Owner(8);
const BUFFER: u32 = 1 << 20;

/// A request that reached the server.
struct Asked {
    body: PtlrpcBody,
    xid: u64,
    offset: u32,
    header: HeaderFlags,
}

struct World {
    net: Net,
    rpc: Ptlrpc,
    now: Time,
    events: Vec<RpcEvent>,
    asked: VecDeque<Asked>,
    request_buffer: Span,
    /// Whether the server asks for ACKs of what it puts, and how many it got.
    acks: (AckWanted, u32),
}

impl World {
    fn new() -> World {
        let mut net = Net::new(2, &Tunables::default());
        let now = Time(1_000_000_000);
        let server = &mut net.nodes[1];
        let request_buffer = server.memory.alloc(BUFFER).expect("memory");
        for portal in [portal::OST, portal::OST_IO, portal::LDLM_CALLBACK_REPLY] {
            let md = Md {
                spans: [request_buffer].into_iter().collect(),
                threshold: None,
                max_size: None,
                options: MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE,
                owner: SERVER,
                user: 0,
            };
            server.shard.attach(now, portal, any(), md).expect("a portal");
        }
        let rpc = Ptlrpc::new(CLIENT, 1_700_000_000, 0);
        let (events, asked, acks) = (Vec::new(), VecDeque::new(), (AckWanted::No, 0));
        World { net, rpc, now, events, asked, request_buffer, acks }
    }

    fn import(&mut self) -> ImportKey {
        let args = ImportArgs {
            kind: Target::Ost,
            target: "lustre-OST0000_UUID".to_owned(),
            client_uuid: "client".to_owned(),
            client_handle: 99,
            peers: vec![ProcessId::lustre(test_nid(1))],
            offer: offer(),
        };
        self.rpc.add_import(args, ImportTunables::default())
    }

    /// Calls into the client, then lets everything happen that follows.
    fn act<T>(&mut self, act: impl FnOnce(&mut Ptlrpc, &mut Turn<'_>) -> T) -> T {
        let node = &mut self.net.nodes[0];
        let memory = AnyMemory(&mut node.memory);
        let mut turn = Turn { now: self.now, shard: &mut node.shard, memory };
        let result = act(&mut self.rpc, &mut turn);
        self.settle();
        result
    }

    fn settle(&mut self) {
        loop {
            self.net.run(self.now);
            let mut busy = false;
            for event in self.net.events(0) {
                busy = true;
                let node = &mut self.net.nodes[0];
                let memory = AnyMemory(&mut node.memory);
                let mut turn = Turn { now: self.now, shard: &mut node.shard, memory };
                if event.owner == CLIENT {
                    self.rpc.on_event(&mut turn, &event);
                }
            }
            for event in self.net.events(1) {
                if event.kind == EventKind::Put && event.owner == SERVER {
                    busy = true;
                    self.note(&event);
                }
                self.acks.1 += u32::from(event.kind == EventKind::Ack);
            }
            while let Some(event) = self.rpc.next_event() {
                self.events.push(event);
            }
            if !busy {
                return;
            }
        }
    }

    fn note(&mut self, event: &Event) {
        let (xid, offset) = (event.match_bits, event.offset);
        let mut bytes = vec![0; event.moved as usize];
        let span = self.request_buffer.part(offset, event.moved);
        self.net.nodes[1].memory.read(span, &mut bytes);
        let (message, body) = Message::parse_with_body(&bytes).expect("a message");
        let header = message.header().flags;
        self.asked.push_back(Asked { body, xid, offset, header });
    }

    fn next_asked(&mut self, opcode: Opcode) -> Asked {
        let asked = self.asked.pop_front().expect("a request");
        assert_eq!(asked.body.opcode, opcode);
        asked
    }

    /// Has the server PUT bytes into the client's memory.
    fn put(&mut self, portal: u32, match_bits: u64, offset: u32, bytes: &[u8]) {
        let now = self.now;
        let server = &mut self.net.nodes[1];
        let span = server.memory.alloc(bytes.len() as u32).expect("memory");
        server.memory.write(span, bytes);
        let md = Md {
            spans: [span].into_iter().collect(),
            threshold: Some(2),
            max_size: None,
            options: MdOptions::empty(),
            owner: SERVER,
            user: 1,
        };
        let md = server.shard.bind(md).expect("room");
        let args = PutArgs {
            md,
            local: None,
            target: ProcessId::lustre(test_nid(0)),
            portal,
            match_bits,
            offset,
            hdr_data: 0,
            ack: self.acks.0,
            timeout: None,
        };
        server.shard.put(now, args).expect("a path");
    }

    /// Answers a request. `buffer` is the second buffer.
    fn answer(&mut self, asked: &Asked, body: PtlrpcBody, buffer: &[u8]) {
        let mut bytes = Vec::new();
        let mut message = MessageBuilder::new(&mut bytes, &Header::default(), 2);
        message.value(&body);
        message.bytes(buffer);
        message.finish();
        let early = asked.header.contains(HeaderFlags::AT_SUPPORT);
        let offset = if early { BARE_LEN as u32 } else { 0 };
        let bits = if asked.body.opcode.is_connect() { asked.xid } else { asked.body.mbits };
        self.put(portal::OST_REPLY, bits, offset, &bytes);
        self.settle();
    }

    fn connected() -> (World, ImportKey) {
        let mut world = World::new();
        let import = world.import();
        world.act(|rpc, turn| rpc.drive(turn));
        world.act(|rpc, turn| rpc.connect(turn, import));
        let asked = world.next_asked(Opcode::OST_CONNECT);
        let body = PtlrpcBody {
            handle: Handle(0x1234),
            op_flags: OpFlags::REPLAYABLE,
            ..PtlrpcBody::reply(Opcode::OST_CONNECT)
        };
        world.answer(&asked, body, &offer().to_bytes());
        assert_eq!(world.rpc.import(import).map(Import::state), Some(ImportState::Full));
        world.events.clear();
        (world, import)
    }

    /// The outcome of the only request that is over.
    fn outcome(&mut self) -> Result<Reply, RpcError> {
        let mut outcome = None;
        for event in self.events.drain(..) {
            if let RpcEvent::Done { result, .. } = event {
                assert!(outcome.replace(result).is_none(), "two outcomes");
            }
        }
        outcome.expect("an outcome")
    }

    /// Whether nothing is left of any request.
    fn has_nothing_left(&self) -> bool {
        self.rpc.attempts.is_empty()
            && self.rpc.current.values().all(SecondaryMap::is_empty)
            && self.rpc.held.is_empty()
    }
}

fn any() -> MatchEntry {
    MatchEntry {
        from: MatchId { nid: Nid::ANY, pid: PID_ANY },
        match_bits: 0,
        ignore_bits: u64::MAX,
        position: Position::After,
        unlink: Unlink::Retain,
    }
}

fn offer() -> ConnectData {
    ConnectData {
        flags: ConnectFlags::FULL20
            | ConnectFlags::FID
            | ConnectFlags::VERSION
            | ConnectFlags::AT
            | ConnectFlags::BULK_MBITS
            | ConnectFlags::FLAGS2,
        flags2: ConnectFlags2::REP_MBITS,
        ..ConnectData::default()
    }
}

fn request(opcode: Opcode, portal: u32, bulk_descriptors: u16) -> RequestArgs {
    let mut message = Vec::new();
    let mut builder = MessageBuilder::new(&mut message, &Header::default(), 1);
    builder.value(&PtlrpcBody::request(opcode));
    builder.finish();
    let slot = SlotKind::None;
    RequestArgs { portal, message, reply_len: 512, bulk_descriptors, slot, ..Default::default() }
}

#[test]
fn a_request_is_answered_and_leaves_nothing_behind() {
    let (mut world, import) = World::connected();
    world.act(|rpc, turn| {
        rpc.submit(turn, import, request(Opcode::OST_STATFS, portal::OST, 0), None);
    });
    let asked = world.next_asked(Opcode::OST_STATFS);
    assert_eq!(asked.body.handle, Handle(0x1234));
    assert_eq!(asked.body.mbits, asked.xid);
    world.answer(&asked, PtlrpcBody::reply(Opcode::OST_STATFS), b"12345678");
    assert_eq!(world.outcome().expect("a reply").status, 0);
    assert!(world.has_nothing_left());
}

/// [RPC-3]: without it the server keeps its locks until its next commit.
#[test]
fn a_reply_is_acknowledged_if_the_server_asks() {
    let (mut world, import) = World::connected();
    assert_eq!(world.acks.1, 0);
    world.acks.0 = AckWanted::Yes;
    world.act(|rpc, turn| {
        rpc.submit(turn, import, request(Opcode::OST_STATFS, portal::OST, 0), None);
    });
    let asked = world.next_asked(Opcode::OST_STATFS);
    world.answer(&asked, PtlrpcBody::reply(Opcode::OST_STATFS), b"12345678");
    assert_eq!(world.outcome().expect("a reply").status, 0);
    assert_eq!(world.acks.1, 1);
    assert!(world.has_nothing_left());
}

#[test]
fn an_early_reply_is_no_reply() {
    let (mut world, import) = World::connected();
    world.act(|rpc, turn| {
        rpc.submit(turn, import, request(Opcode::OST_STATFS, portal::OST, 0), None);
    });
    let asked = world.next_asked(Opcode::OST_STATFS);
    let body = PtlrpcBody { timeout: 60, ..PtlrpcBody::reply(Opcode::OST_STATFS) };
    let cksum = lustrine_fswire::body::early_reply_checksum(&body.to_bytes());
    let mut early = Vec::new();
    let header = Header { cksum, ..Header::default() };
    let mut message = MessageBuilder::new(&mut early, &header, 1);
    message.value(&body);
    message.finish();
    world.put(portal::OST_REPLY, asked.body.mbits, 0, &early);
    world.settle();
    assert!(world.events.is_empty());
    // Without it the request would be overdue.
    world.now = world.now + Nanos::from_secs(30);
    world.act(|rpc, turn| rpc.drive(turn));
    assert_eq!(world.rpc.import(import).map(Import::state), Some(ImportState::Full));
    world.answer(&asked, PtlrpcBody::reply(Opcode::OST_STATFS), &[]);
    assert!(world.outcome().is_ok());
}

/// A read into two pieces of 4 KiB that the server has been asked for.
fn reading_two_pieces() -> (World, Vec<Span>, Asked) {
    let (mut world, import) = World::connected();
    let spans: Vec<Span> =
        (0..2).map(|_| world.net.nodes[0].memory.alloc(4096).expect("memory")).collect();
    let pieces = spans.iter().map(|span| [*span].into_iter().collect()).collect();
    let bulk = Bulk { portal: portal::OST_BULK, direction: BulkDirection::Sink, pieces };
    world.act(|rpc, turn| {
        let args = request(Opcode::OST_READ, portal::OST_IO, 2);
        rpc.submit(turn, import, args, Some(bulk));
    });
    let asked = world.next_asked(Opcode::OST_READ);
    (world, spans, asked)
}

#[test]
fn bulk_comes_before_the_reply_and_its_memory_is_free_afterwards() {
    let (mut world, spans, asked) = reading_two_pieces();
    assert_eq!(asked.body.mbits, asked.xid + 1);
    world.put(portal::OST_BULK, asked.xid, 0, &[1; 4096]);
    world.put(portal::OST_BULK, asked.xid + 1, 0, &[2; 100]);
    let body = PtlrpcBody { status: 4196, ..PtlrpcBody::reply(Opcode::OST_READ) };
    world.answer(&asked, body, &[]);
    let released = |event: &RpcEvent| matches!(event, RpcEvent::Release { .. });
    assert!(world.events.iter().any(released));
    assert_eq!(world.outcome().expect("a reply").bulk_moved, 4196);
    let mut byte = [0; 1];
    world.net.nodes[0].memory.read(spans[1], &mut byte);
    assert_eq!(byte, [2]);
    assert!(world.has_nothing_left());
}

/// Otherwise a server could have the client hand out bytes of another read.
#[test]
fn what_comes_behind_a_gap_does_not_count() {
    for (first, moved) in [(None, 0), (Some(100), 100), (Some(4096), 4196)] {
        let (mut world, _, asked) = reading_two_pieces();
        if let Some(len) = first {
            world.put(portal::OST_BULK, asked.xid, 0, &vec![1; len]);
        }
        world.put(portal::OST_BULK, asked.xid + 1, 0, &[2; 100]);
        world.answer(&asked, PtlrpcBody::reply(Opcode::OST_READ), &[]);
        assert_eq!(world.outcome().expect("a reply").bulk_moved, moved);
    }
}

#[test]
fn a_failed_read_returns_its_memory_when_lnet_lets_go_of_it() {
    let (mut world, import) = World::connected();
    let span = world.net.nodes[0].memory.alloc(4096).expect("memory");
    let pieces = vec![[span].into_iter().collect()];
    let bulk = Bulk { portal: portal::OST_BULK, direction: BulkDirection::Sink, pieces };
    world.act(|rpc, turn| {
        let args = request(Opcode::OST_READ, portal::OST_IO, 1);
        rpc.submit(turn, import, args, Some(bulk));
    });
    let asked = world.next_asked(Opcode::OST_READ);
    let body = PtlrpcBody { status: -5, ..PtlrpcBody::reply(Opcode::OST_READ) };
    world.answer(&asked, body, &[]);
    let names: Vec<&str> = world
        .events
        .iter()
        .map(|event| match event {
            RpcEvent::Done { .. } => "done",
            RpcEvent::Release { .. } => "release",
            _ => "other",
        })
        .collect();
    assert_eq!(names, ["done", "release"]);
    // A late transfer finds nothing.
    world.put(portal::OST_BULK, asked.xid, 0, &[1; 4096]);
    world.settle();
    let mut byte = [9; 1];
    world.net.nodes[0].memory.read(span, &mut byte);
    assert_eq!(byte, [0]);
    assert!(world.has_nothing_left());
}

#[test]
fn a_request_that_cannot_be_sent_is_sent_again_over_a_new_connection() {
    let (mut world, import) = World::connected();
    let node = &mut world.net.nodes[0];
    let memory = AnyMemory(&mut node.memory);
    let mut turn = Turn { now: world.now, shard: &mut node.shard, memory };
    let args = request(Opcode::OST_STATFS, portal::OST, 0);
    world.rpc.submit(&mut turn, import, args, None);
    world.net.settle(world.now);
    assert_eq!(world.net.packets.len(), 1);
    world.net.deliver(world.now, 0, Delivery::Fail);
    world.settle();
    let asked = world.next_asked(Opcode::OST_CONNECT);
    assert_eq!((asked.body.conn_cnt, asked.body.handle), (2, Handle(0x1234)));
    let body = PtlrpcBody {
        handle: Handle(0x1234),
        op_flags: OpFlags::REPLAYABLE | OpFlags::RECONNECT,
        ..PtlrpcBody::reply(Opcode::OST_CONNECT)
    };
    world.answer(&asked, body, &offer().to_bytes());
    let again = world.next_asked(Opcode::OST_STATFS);
    assert!(again.body.flags.contains(BodyFlags::RESENT));
    world.answer(&again, PtlrpcBody::reply(Opcode::OST_STATFS), &[]);
    assert!(world.outcome().is_ok());
    assert!(world.has_nothing_left());
}

/// The connect that follows may take the place of the ping among the requests of the import.
#[test]
fn a_ping_that_is_refused_leaves_nothing_behind() {
    let (mut world, import) = World::connected();
    // The import is unused before a ping is due.
    for _ in 0..2 {
        world.now = world.rpc.next_deadline();
        world.act(|rpc, turn| rpc.drive(turn));
    }
    let asked = world.next_asked(Opcode::OBD_PING);
    let refused = PtlrpcBody { status: -107, ..PtlrpcBody::reply(Opcode::OBD_PING) };
    world.answer(&asked, refused, &[]);
    let asked = world.next_asked(Opcode::OST_CONNECT);
    let body = PtlrpcBody { handle: Handle(0x1235), ..PtlrpcBody::reply(Opcode::OST_CONNECT) };
    world.answer(&asked, body, &offer().to_bytes());
    assert_eq!(world.rpc.import(import).map(Import::state), Some(ImportState::Full));
    assert!(world.has_nothing_left());
}

/// A callback to the import with this handle.
fn callback(handle: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = Header { flags: HeaderFlags::AT_SUPPORT, ..Header::default() };
    let mut message = MessageBuilder::new(&mut bytes, &header, 1);
    let opcode = Opcode::LDLM_BL_CALLBACK;
    message.value(&PtlrpcBody {
        handle: Handle(handle),
        timeout: 5,
        mbits: 640,
        ..PtlrpcBody::request(opcode)
    });
    message.finish();
    bytes
}

#[test]
fn a_callback_of_a_server_is_answered_where_it_waits() {
    let (mut world, import) = World::connected();
    world.put(portal::LDLM_CALLBACK, 512, 0, &callback(99));
    world.settle();
    let Some(RpcEvent::Request(incoming)) = world.events.pop() else { panic!("no request") };
    assert_eq!((incoming.import, incoming.body.opcode), (import, Opcode::LDLM_BL_CALLBACK));
    let mut reply = Vec::new();
    let mut message = MessageBuilder::new(&mut reply, &Header::default(), 1);
    message.value(&PtlrpcBody::reply(Opcode::LDLM_BL_CALLBACK));
    message.finish();
    world.act(|rpc, turn| rpc.reply(turn, &incoming, &reply));
    let answer = world.next_asked(Opcode::LDLM_BL_CALLBACK);
    assert_eq!((answer.xid, answer.offset), (640, BARE_LEN as u32));
}

/// Two file systems of one node: what arrives is in the buffers of the first one.
#[test]
fn a_callback_for_another_client_of_the_node_is_passed_on() {
    let (mut world, _) = World::connected();
    let mut other = Ptlrpc::new(CLIENT, 1_700_000_000, 1);
    let args = ImportArgs {
        kind: Target::Ost,
        target: "other-OST0000_UUID".to_owned(),
        client_uuid: "other".to_owned(),
        client_handle: 77,
        peers: vec![ProcessId::lustre(test_nid(1))],
        offer: offer(),
    };
    let import = other.add_import(args, ImportTunables::default());
    world.put(portal::LDLM_CALLBACK, 512, 0, &callback(77));
    world.settle();
    assert!(world.events.is_empty());
    let stray = world.net.nodes[0].shard.next_stray().expect("it is passed on");
    assert!(!world.rpc.on_stray(&stray));
    assert!(other.on_stray(&stray));
    let Some(RpcEvent::Request(incoming)) = other.next_event() else { panic!("no request") };
    assert_eq!((incoming.import, incoming.body.opcode), (import, Opcode::LDLM_BL_CALLBACK));
    // What cannot be read is not offered, nor what came on another portal.
    world.put(portal::LDLM_CALLBACK, 1, 0, &[7; 100]);
    world.settle();
    assert!(world.net.nodes[0].shard.next_stray().is_none());
    let elsewhere = Event { portal: portal::OST, ..stray.event };
    assert!(!other.on_stray(&Stray { event: elsewhere, ..stray }));
}

/// As that of a program that was killed, in whose place this one is.
#[test]
fn a_callback_for_a_client_that_is_not_here_is_refused() {
    let (mut world, _) = World::connected();
    world.put(portal::LDLM_CALLBACK, 512, 0, &callback(77));
    world.settle();
    let stray = world.net.nodes[0].shard.next_stray().expect("it is passed on");
    let elsewhere = Event { portal: portal::OST, ..stray.event };
    let of_another = Stray { event: elsewhere, message: stray.message.clone() };
    world.act(|rpc, turn| rpc.on_unclaimed(turn, &of_another));
    assert!(world.asked.is_empty());
    world.act(|rpc, turn| rpc.on_unclaimed(turn, &stray));
    let answer = world.next_asked(Opcode::LDLM_BL_CALLBACK);
    assert_eq!((answer.xid, answer.offset), (640, BARE_LEN as u32));
    assert_eq!((answer.body.kind, answer.body.status), (MessageType::ERROR, -107));
    // Who sends many and takes no answers gets no more memory.
    world.act(|rpc, turn| (0..200).for_each(|_| rpc.on_unclaimed(turn, &stray)));
    world.settle();
    assert_eq!(world.asked.len(), 64);
}

#[test]
fn a_stranger_is_not_heard_and_stops_nothing() {
    let (mut world, _) = World::connected();
    // Of another handle, malformed, and many.
    for _ in 0..50 {
        world.put(portal::LDLM_CALLBACK, 1, 0, &callback(98));
        world.put(portal::LDLM_CALLBACK, 1, 0, &[7; 60_000]);
        world.settle();
    }
    assert!(world.events.is_empty());
    assert_eq!(world.rpc.counters().requests_dropped, 100);
    world.put(portal::LDLM_CALLBACK, 512, 0, &callback(99));
    world.settle();
    assert!(matches!(world.events.pop(), Some(RpcEvent::Request(_))));
}

#[test]
fn a_closed_layer_lets_go_of_all_memory() {
    let (mut world, import) = World::connected();
    world.act(|rpc, turn| rpc.disconnect(turn, import));
    let asked = world.next_asked(Opcode::OST_DISCONNECT);
    world.answer(&asked, PtlrpcBody::reply(Opcode::OST_DISCONNECT), &[]);
    assert_eq!(world.rpc.import(import).map(Import::state), Some(ImportState::Closed));
    assert!(!world.rpc.is_quiet());
    world.act(|rpc, turn| rpc.close(turn));
    assert!(world.rpc.is_quiet());
    assert_eq!(world.rpc.next_deadline(), Time::NEVER);
}
