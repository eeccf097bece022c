//! Rogue peers without a capture: each raises its counter, and disturbs no other peer.

use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_partition::ProbeResult;
use lustrine_sim::Rng;
use lustrine_wire::frame::FrameHeader;
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::hello::{ConnType, Hello, Version};
use lustrine_wire::nid::{Net, Nid, ProcessId};

use super::portal_zero::{foreign_bits, stalled_pushes};
use super::scene::{
    CONNECTIONS_MAX, HANDSHAKES_MAX, PEERS_MAX, Scene, header, hello, message, noop, ping, put,
    request, rogue_nid,
};
use super::strangers;

/// A rogue peer.
pub(crate) struct Rogue {
    /// A description.
    pub(crate) name: &'static str,
    /// The counter that the node raises.
    pub(crate) counter: &'static str,
    /// The behaviour.
    act: fn(&mut Scene),
}

const fn rogue(name: &'static str, counter: &'static str, act: fn(&mut Scene)) -> Rogue {
    Rogue { name, counter, act }
}

const SECOND: Nanos = Nanos::from_secs(1);
const MOMENT: Nanos = Nanos::from_millis(10);

pub(crate) static ROGUES: &[Rogue] = &[
    rogue("garbage from the first byte", "bad_request_magic", garbage),
    rogue("a request one byte at a time", "slow_handshake", slow_bytes),
    rogue("a request of an unknown version", "bad_request_version", request_version),
    rogue("a request for another node", "wrong_target", wrong_target),
    rogue("bytes that are not a HELLO", "bad_hello_magic", hello_magic),
    rogue("a HELLO of an unknown version", "bad_hello_version", hello_version),
    rogue("a HELLO from the wildcard NID", "bad_hello_source", hello_source),
    rogue("the same HELLO again and again", "duplicates_refused", hello_flood),
    rogue("a HELLO under a thousand names", "opened_passive", thousand_names),
    rogue("10,000 silent connections", "handshakes_evicted", silent_crowd),
    rogue("1,000 handshakes a second", "handshakes_evicted", strangers::handshake_flood),
    rogue(
        "more idle userland peers than there is room for",
        "userland_evicted",
        strangers::idle_crowd,
    ),
    rogue("the NID of a peer that is connected", "claims_refused", strangers::stolen_name),
    rogue("a frame of an unknown type", "bad_frame", unknown_frame),
    rogue("a message of an unknown type", "bad_header", unknown_message),
    rogue("a HELLO among messages", "unexpected_hello", late_hello),
    rogue("a GET with a payload", "payload_on_ack_or_get", payload_on_get),
    rogue("a payload that is too long", "payload_too_long", oversized),
    rogue("a payload that ends too soon", "truncated", truncated),
    rogue("a payload that never ends", "timeouts_receive", unfinished),
    rogue("a message for another node", "wrong_destination", wrong_destination),
    rogue("a message from the wildcard NID", "bad_source", wildcard_source),
    rogue("a wrong checksum", "bad_checksum", bad_checksum),
    rogue("a malformed keepalive", "bad_keepalive", bad_keepalive),
    rogue("the acknowledgement of an unknown cookie", "unknown_cookie", unknown_cookie),
    rogue("the acknowledgement of all possible cookies", "unknown_cookie", all_cookies),
    rogue("zero-copy requests without reading the acknowledgements", "ack_backlog", cookie_flood),
    rogue("REPLYs to forged handles", "dropped.reply", forged_handles),
    rogue("ACKs of forged handles", "dropped.ack", forged_confirmations),
    rogue("a REPLY that is sent twice", "dropped.reply", replayed_answer),
    rogue("PUTs that match nothing", "dropped.put", unwanted),
    rogue("80 pushes that stop one byte too soon", "timeouts_receive", stalled_pushes),
    rogue("PUTs to portal 0 that match nothing", "dropped.put", foreign_bits),
    rogue("requests without end, the answers unread", "responses_refused", never_reads),
    rogue("a reader that stops", "timeouts_send", stops_reading),
    rogue("a reader of one byte in 49 s", "timeouts_send", strangers::slow_reader),
    rogue("a payload of 100 bytes a second", "timeouts_receive", strangers::slow_writer),
    rogue("a peer that never answers", "response_timeout_count", never_answers),
    rogue("a listener that never says HELLO", "timeouts_dial", mute_listener),
    rogue("a restart in the middle of a message", "restarts_seen", restart_midway),
    rogue("another version in the middle", "renegotiated", other_version),
];

#[test]
fn each_rogue_is_counted_and_disturbs_no_other_peer() {
    for rogue in ROGUES {
        let mut scene = Scene::new();
        let before = scene.counter(rogue.counter);
        (rogue.act)(&mut scene);
        let after = scene.counter(rogue.counter);
        assert!(after > before, "{}: {} stayed {before}", rogue.name, rogue.counter);
        scene.check(rogue.name);
    }
}

/// All of them, one after the other, against one node.
#[test]
fn all_rogues_together_disturb_no_other_peer() {
    let mut scene = Scene::new();
    for rogue in ROGUES {
        (rogue.act)(&mut scene);
        scene.leave_all();
    }
    scene.check("all together");
}

fn garbage(scene: &mut Scene) {
    let mut rng = Rng::new(3);
    for _ in 0..20 {
        let sock = scene.dial();
        let bytes: Vec<u8> = (0..200).map(|_| rng.draw() as u8).collect();
        scene.say(sock, &bytes);
        scene.run(MOMENT);
        assert!(scene.is_closed(sock));
    }
}

fn slow_bytes(scene: &mut Scene) {
    let sock = scene.dial();
    for byte in request() {
        scene.say(sock, &[byte]);
        scene.run(SECOND);
    }
    assert!(scene.is_closed(sock));
}

fn request_version(scene: &mut Scene) {
    let sock = scene.dial();
    let mut bytes = request();
    bytes[4] = 77;
    scene.say(sock, &bytes);
    scene.run(MOMENT);
    assert!(scene.is_closed(sock));
}

fn wrong_target(scene: &mut Scene) {
    let sock = scene.dial();
    let mut bytes = request();
    bytes[8] ^= 0x55;
    scene.say(sock, &bytes);
    scene.run(MOMENT);
    assert!(scene.is_closed(sock));
}

fn hello_magic(scene: &mut Scene) {
    let sock = scene.dial();
    let mut bytes = request();
    bytes.extend_from_slice(&[0x42; 56]);
    scene.say(sock, &bytes);
    scene.run(MOMENT);
    assert!(scene.is_closed(sock));
}

fn hello_version(scene: &mut Scene) {
    let sock = scene.dial();
    let mut bytes = request();
    hello(ConnType::Control).encode(&mut bytes).expect("short NIDs");
    bytes[16 + 4] = 99;
    scene.say(sock, &bytes);
    scene.run(MOMENT);
    assert!(scene.is_closed(sock));
}

fn hello_source(scene: &mut Scene) {
    let src = ProcessId::lustre(Nid::ANY);
    let sock = scene.befriend(Hello { src, ..hello(ConnType::Control) });
    assert!(scene.is_closed(sock));
}

fn hello_flood(scene: &mut Scene) {
    for _ in 0..400 {
        scene.befriend(hello(ConnType::Control));
    }
}

/// From privileged ports every NID is accepted, so their number must be limited.
fn thousand_names(scene: &mut Scene) {
    for index in 0..1000 {
        let nid = Nid::new4(Net::TCP, 0x0b00_0000 + index);
        let src = ProcessId::lustre(nid);
        let sock = scene.befriend(Hello { src, ..hello(ConnType::Control) });
        let question = Header { src, ..ping() };
        scene.say(sock, &message(FrameHeader::LNET, &question));
        if index % 2 == 0 {
            scene.script_io().close(sock);
        }
    }
    let node = scene.world.node(scene.victim);
    assert!(node.partition().shard().peers().count() <= PEERS_MAX);
}

fn silent_crowd(scene: &mut Scene) {
    for index in 0..10_000_u16 {
        scene.dial_from(2000 + index);
        let node = scene.world.node(scene.victim);
        let connections = node.partition().driver().connections();
        // Streams of earlier rogues may remain, and dials to them.
        assert!(connections <= CONNECTIONS_MAX, "{connections}");
    }
    scene.run(Nanos::from_secs(6));
    let left = scene.world.node(scene.victim).partition().driver().connections();
    assert!(left < HANDSHAKES_MAX, "{left} are left");
}

/// Connects to the node, sends bytes, and must be disconnected.
fn misbehave(scene: &mut Scene, bytes: &[u8]) {
    let sock = scene.befriend(hello(ConnType::Control));
    scene.say(sock, bytes);
    scene.run(MOMENT);
    assert!(scene.is_closed(sock), "it was closed");
}

fn unknown_frame(scene: &mut Scene) {
    let mut bytes = noop(0, 0);
    bytes[0] = 0xc7;
    misbehave(scene, &bytes);
}

fn unknown_message(scene: &mut Scene) {
    let mut bytes = message(FrameHeader::LNET, &ping());
    bytes[24 + 24] = 9;
    misbehave(scene, &bytes);
}

fn late_hello(scene: &mut Scene) {
    let body = Body::Hello { incarnation: 1, kind: 1 };
    misbehave(scene, &message(FrameHeader::LNET, &header(body, 0)));
}

fn payload_on_get(scene: &mut Scene) {
    let mut bytes = message(FrameHeader::LNET, &ping());
    bytes[24 + 28] = 8;
    misbehave(scene, &bytes);
}

fn oversized(scene: &mut Scene) {
    let mut bytes = message(FrameHeader::LNET, &put(0));
    bytes[24 + 28..24 + 32].copy_from_slice(&0x0010_0001_u32.to_le_bytes());
    misbehave(scene, &bytes);
}

fn truncated(scene: &mut Scene) {
    let sock = scene.befriend(hello(ConnType::BulkOut));
    let mut bytes = message(FrameHeader::LNET, &put(100_000));
    bytes.extend_from_slice(&[7; 50_000]);
    scene.say(sock, &bytes);
    scene.run(MOMENT);
    scene.script_io().finish(sock);
    scene.run(MOMENT);
    assert!(scene.is_closed(sock));
}

fn unfinished(scene: &mut Scene) {
    let sock = scene.befriend(hello(ConnType::BulkOut));
    let mut bytes = message(FrameHeader::LNET, &put(100_000));
    bytes.extend_from_slice(&[7; 50_000]);
    scene.say(sock, &bytes);
    scene.run(Nanos::from_secs(70));
    assert!(scene.is_closed(sock));
}

fn wrong_destination(scene: &mut Scene) {
    let dst = ProcessId::lustre("10.77.0.99@tcp".parse().expect("a NID"));
    misbehave(scene, &message(FrameHeader::LNET, &Header { dst, ..ping() }));
}

fn wildcard_source(scene: &mut Scene) {
    let src = ProcessId::lustre(Nid::ANY);
    misbehave(scene, &message(FrameHeader::LNET, &Header { src, ..ping() }));
}

fn bad_checksum(scene: &mut Scene) {
    let sock = scene.befriend(Hello { version: Version::V2, ..hello(ConnType::Control) });
    scene.say(sock, &message(FrameHeader { csum: 0xdead_beef, ..FrameHeader::LNET }, &ping()));
    scene.run(MOMENT);
    assert!(scene.is_closed(sock));
}

fn bad_keepalive(scene: &mut Scene) {
    misbehave(scene, &noop(7, 1));
}

fn unknown_cookie(scene: &mut Scene) {
    misbehave(scene, &noop(0, 77));
}

fn all_cookies(scene: &mut Scene) {
    misbehave(scene, &noop(2, u64::MAX));
}

/// Requests acknowledgements and reads none of them.
fn cookie_flood(scene: &mut Scene) {
    let sock = scene.befriend(hello(ConnType::Control));
    let mut cookie = 2;
    for _ in 0..200 {
        let mut bytes = Vec::new();
        for _ in 0..500 {
            let frame = FrameHeader { zc_request: cookie, ..FrameHeader::LNET };
            bytes.extend_from_slice(&message(frame, &put(0)));
            cookie += 1;
        }
        scene.say(sock, &bytes);
        scene.run(MOMENT);
    }
    assert!(scene.is_closed(sock), "it was closed");
}

fn forged_handles(scene: &mut Scene) {
    let sock = scene.befriend(hello(ConnType::Control));
    let mut rng = Rng::new(5);
    let own = scene.world.node(scene.victim).spec().incarnation & !0xff;
    for index in 0..2000 {
        // Some look very similar to handles of the node.
        let interface = if index % 2 == 0 { own } else { rng.draw() };
        let object = 1 << 32 | rng.below(64);
        let md = MdHandle { interface, object };
        let mut bytes = message(FrameHeader::LNET, &header(Body::Reply { md }, 48));
        bytes.extend_from_slice(&[0; 48]);
        scene.say(sock, &bytes);
        if index % 100 == 0 {
            scene.run(MOMENT);
        }
    }
    scene.run(MOMENT);
    assert!(!scene.is_closed(sock), "a stray answer is no crime");
}

fn forged_confirmations(scene: &mut Scene) {
    let sock = scene.befriend(hello(ConnType::Control));
    let own = scene.world.node(scene.victim).spec().incarnation & !0xff;
    for object in 0..64 {
        let md = MdHandle { interface: own, object: 1 << 32 | object };
        let body = Body::Ack { md, match_bits: 0, mlength: u32::MAX };
        scene.say(sock, &message(FrameHeader::LNET, &header(body, 0)));
    }
    scene.run(MOMENT);
}

/// The node pings the rogue, which answers twice.
fn replayed_answer(scene: &mut Scene) {
    let sock = scene.befriend(hello(ConnType::Control));
    let victim = scene.victim;
    scene.world.ping(victim, &rogue_nid(), SECOND);
    scene.run(MOMENT);
    let asked = scene.script_io().read(sock);
    let raw = asked[asked.len() - 72..].first_chunk().expect("72 bytes");
    let question = Header::parse_short(raw).expect("a GET");
    let Body::Get { return_md, .. } = question.body else { panic!("{question:?}") };
    for _ in 0..2 {
        let mut bytes = message(FrameHeader::LNET, &header(Body::Reply { md: return_md }, 16));
        bytes.extend_from_slice(&[0; 16]);
        scene.say(sock, &bytes);
    }
    scene.run(MOMENT);
}

fn unwanted(scene: &mut Scene) {
    let sock = scene.befriend(hello(ConnType::BulkOut));
    for _ in 0..20 {
        let mut bytes = message(FrameHeader::LNET, &put(1 << 20));
        bytes.resize(bytes.len() + (1 << 20), 0x11);
        let mut sent = 0;
        while sent < bytes.len() {
            sent += scene.say(sock, &bytes[sent..]);
            scene.run(MOMENT);
        }
    }
}

/// Sends requests without end, and reads no answers.
fn never_reads(scene: &mut Scene) {
    let sock = scene.befriend(hello(ConnType::Control));
    let question = message(FrameHeader::LNET, &ping());
    let many: Vec<u8> = question.iter().copied().cycle().take(question.len() * 500).collect();
    // What did not fit is sent first the next time: a message is never cut.
    let mut left: Vec<u8> = Vec::new();
    for _ in 0..400 {
        left.extend_from_slice(&many);
        let said = scene.say(sock, &left);
        left.drain(..said);
        left.truncate(left.len() % question.len());
        scene.run(MOMENT);
    }
}

fn stops_reading(scene: &mut Scene) {
    let sock = scene.befriend(hello(ConnType::Control));
    let question = message(FrameHeader::LNET, &ping());
    for _ in 0..100 {
        for _ in 0..50 {
            scene.say(sock, &question);
        }
        scene.run(MOMENT);
    }
    scene.run(Nanos::from_secs(70));
    assert!(scene.is_closed(sock), "it was closed");
}

fn never_answers(scene: &mut Scene) {
    scene.befriend(hello(ConnType::Control));
    let victim = scene.victim;
    let ticket = scene.world.ping(victim, &rogue_nid(), Nanos::from_secs(3));
    scene.run(Nanos::from_secs(4));
    if scene.world.node(victim).result(ticket).is_none() {
        // After other violations the node has no stream to the rogue, and its dials fail.
        scene.run(Nanos::from_secs(60));
    }
    let result = scene.world.node(victim).result(ticket);
    assert_eq!(result, Some(&ProbeResult::Ping(Err(Status::TimedOut))));
}

fn mute_listener(scene: &mut Scene) {
    let address = core::net::SocketAddr::new(rogue_nid().ip().expect("an IP NID"), 988);
    scene.script_io().listen(address);
    let victim = scene.victim;
    let ticket = scene.world.ping(victim, &rogue_nid(), Nanos::from_secs(100));
    // After other violations the node waits up to a minute before it dials again.
    for _ in 0..3 {
        scene.run(Nanos::from_secs(60));
    }
    let result = scene.world.node(victim).result(ticket);
    assert_eq!(result, Some(&ProbeResult::Ping(Err(Status::TimedOut))));
    scene.script_io().unlisten(address);
}

/// Half a message, then the same peer with its next incarnation.
fn restart_midway(scene: &mut Scene) {
    let sock = scene.befriend(hello(ConnType::BulkOut));
    let mut bytes = message(FrameHeader::LNET, &put(100_000));
    bytes.extend_from_slice(&[7; 50_000]);
    scene.say(sock, &bytes);
    scene.run(MOMENT);
    let reborn = Hello { src_incarnation: 0x2222, ..hello(ConnType::Control) };
    let turned_away = scene.befriend(reborn);
    assert!(scene.is_closed(sock) && scene.is_closed(turned_away));
    let welcome = scene.befriend(reborn);
    scene.say(welcome, &message(FrameHeader::LNET, &ping()));
    scene.run(MOMENT);
    assert!(!scene.script_io().read(welcome).is_empty(), "it is answered in its new life");
}

fn other_version(scene: &mut Scene) {
    let first = scene.befriend(hello(ConnType::Control));
    let second = scene.befriend(Hello { version: Version::V2, ..hello(ConnType::BulkIn) });
    assert!(scene.is_closed(first) && scene.is_closed(second));
}
