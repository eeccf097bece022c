//! Requests of kernel consoles and nodes, as captured: this service answers them as the kernel
//! nodes in the captures did.

use crate::common::World;
use lustrine_lnet::time::Nanos;
use lustrine_selftest::Tunables;
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{
    Body, DebugReply, Destination, EXTENSIONS_MAGIC, MESSAGE_LEN, MakeSessionReply, Message,
    MessageType, Name, Role, Service,
};

struct Captured {
    from: usize,
    to: usize,
    message: Message,
    raw: [u8; MESSAGE_LEN],
}

/// The machine 10.77.0.k is node k - 2.
fn node_of(address: &str) -> usize {
    address.strip_prefix("10.77.0.").unwrap().parse::<usize>().unwrap() - 2
}

fn nid_of(node: usize) -> Nid {
    format!("10.77.0.{}@tcp", node + 2).parse().unwrap()
}

fn read(text: &str) -> Vec<Captured> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [from, to, _, hex] = fields[..] else { panic!("{line}") };
            let mut raw = [0; MESSAGE_LEN];
            for (byte, digits) in raw.iter_mut().zip(hex.as_bytes().chunks(2)) {
                *byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
            }
            let message = Message::parse(&raw).unwrap();
            Captured { from: node_of(from), to: node_of(to), message, raw }
        })
        .collect()
}

fn service_of(kind: MessageType) -> Option<Service> {
    Service::ALL.into_iter().find(|service| service.request() == kind)
}

/// The captured reply to a request: the next message of the reply's type the other way round.
fn reply_to<'a>(captured: &'a [Captured], at: usize, taken: &mut [bool]) -> Option<&'a Message> {
    let request = &captured[at];
    let kind = request.message.body.message_type().reply()?;
    let found = (at + 1..captured.len()).find(|&other| {
        let reply = &captured[other];
        !taken[other]
            && (reply.from, reply.to) == (request.to, request.from)
            && reply.message.body.message_type() == kind
    })?;
    taken[found] = true;
    Some(&captured[found].message)
}

/// What a node means to say: 2.16 and later leave an earlier name in a reply that has none. And
/// the one word that ours says differently [STAT-1].
fn meant(message: &Message) -> Message {
    let body = match message.body {
        Body::MakeSessionReply(reply) if reply.status == 0 => {
            Body::MakeSessionReply(MakeSessionReply { name: Name::EMPTY, ..reply })
        }
        Body::DebugReply(reply) => {
            assert_eq!(reply.batches, 0);
            Body::DebugReply(DebugReply { batches: EXTENSIONS_MAGIC, ..reply })
        }
        other => other,
    };
    Message { body, ..*message }
}

/// Replays every request but BRW, which a service of ours sends by itself when the batch runs.
fn replay(text: &str) -> World {
    let captured = read(text);
    let nids: Vec<Nid> = (0..3).map(nid_of).collect();
    let mut world = World::with_nids(&nids, Tunables::default());
    for node in 0..3 {
        world.add_service(node);
    }
    world.turns(Nanos::from_millis(1), 2);
    let mut taken = vec![false; captured.len()];
    for at in 0..captured.len() {
        let Captured { from, to, message, raw } = &captured[at];
        let Some(service) = service_of(message.body.message_type()) else { continue };
        let Some(expected) = reply_to(&captured, at, &mut taken) else {
            panic!("request {at} has no reply in the capture")
        };
        if service == Service::Brw {
            continue;
        }
        if let Body::TestRequest(test) = message.body
            && test.role == Role::Client
        {
            // The list in the capture: the server.
            let entry = Destination { nid: nid_of(1).to_short().unwrap(), pid: 12345 };
            world.offer(*from, *to, test.bulk_bits, &entry.encode(ByteOrder::Little));
        }
        let bits = ByteOrder::Little.u64_at(raw, 24);
        let id = u64::from(service.id());
        let reply = world.ask_raw(*from, *to, service.portal(), id, bits, raw);
        assert_eq!(reply, Some(meant(expected)), "request {at}: {message:?}");
        world.turns(Nanos::from_millis(1), 10);
    }
    world
}

#[test]
fn a_session_with_a_mixed_batch_as_in_c01() {
    let mut world = replay(include_str!("../../testdata/c01.txt"));
    // The client node made the same RPCs as the kernel's did: 3 tests of 2 RPCs each.
    let totals = world.service(0).totals();
    assert_eq!((totals.sent, totals.errors, totals.expired), (6, 0, 0));
    let totals = world.service(1).totals();
    assert_eq!((totals.bulk_get, totals.bulk_put), (2 * 4096, 2 * 4096));
}

#[test]
fn two_consoles_that_want_one_node_as_in_c03() {
    replay(include_str!("../../testdata/c03.txt"));
}
