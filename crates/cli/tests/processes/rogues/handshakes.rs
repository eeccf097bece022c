//! Faults before the first message.

use lustrine_wire::ByteOrder;
use lustrine_wire::hello::{ConnType, Hello, Version};
use lustrine_wire::nid::{Nid, ProcessId};

use super::scene::{Rogue, Scene};
use super::words::greeting;
use super::{Row, any_port, face, privileged};

#[test]
fn malformed_handshakes_are_counted() {
    let rows: &[Row] = &[
        any_port("garbage from the first byte", &[("bad_request_magic", 20)], garbage),
        any_port("a request of an unknown version", &[("bad_request_version", 1)], |_, rogue| {
            refused(rogue, |bytes| bytes[4] = 77);
        }),
        any_port("a request for another node", &[("wrong_target", 1)], |_, rogue| {
            refused(rogue, |bytes| bytes[8] ^= 0x55);
        }),
        any_port("bytes that are not a HELLO", &[("bad_hello_magic", 1)], |_, rogue| {
            refused(rogue, |bytes| bytes[16..].fill(0x42));
        }),
        any_port("a HELLO of an unknown version", &[("bad_hello_version", 1)], hello_version),
        any_port("a HELLO from the wildcard NID", &[("bad_hello_source", 1)], hello_source),
        any_port("a request that ends too soon", &[("handshakes_broken", 1)], half_a_request),
        any_port("good HELLOs, one after the other", &[("opened_passive", 300)], come_and_go),
        privileged("a HELLO under many names", &[("opened_passive", 300)], many_names),
        privileged(
            "the same HELLO again and again",
            &[("duplicates_refused", 300), ("closed_unanswered", 298)],
            again,
        ),
        privileged("another version in the middle", &[("renegotiated", 1)], other_version),
    ];
    // NIDs are forgotten when there are too many.
    face(Scene::new(&["peers_max=64", "enable_csum=1"]), rows);
}

fn garbage(_: &Scene, rogue: &mut Rogue) {
    // A linear congruential generator of 64 bits; the quality of its values does not matter.
    let mut state = 3_u64;
    for _ in 0..20 {
        let mut line = rogue.dial();
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(4096)
        .collect();
        line.say(&bytes);
        line.wait_for_end();
    }
}

/// A handshake with a fault ends the connection.
fn refused(rogue: &mut Rogue, spoil: fn(&mut [u8])) {
    let mut bytes = greeting(&rogue.words, &rogue.words.hello(ConnType::Control));
    spoil(&mut bytes);
    let mut line = rogue.dial();
    line.say(&bytes);
    line.wait_for_end();
}

/// The node answers with its own version.
fn hello_version(_: &Scene, rogue: &mut Rogue) {
    let mut bytes = greeting(&rogue.words, &rogue.words.hello(ConnType::Control));
    bytes[16 + 4] = 99;
    let mut line = rogue.dial();
    line.say(&bytes);
    let answer = line.hear_hello().expect("an answer");
    assert_eq!((answer.version, answer.kind), (Version::V3, ConnType::None));
    line.wait_for_end();
}

fn hello_source(_: &Scene, rogue: &mut Rogue) {
    let src = ProcessId::lustre(Nid::ANY);
    let hello = Hello { src, ..rogue.words.hello(ConnType::Control) };
    let mut line = rogue.dial();
    line.say(&greeting(&rogue.words, &hello));
    line.wait_for_end();
}

fn half_a_request(_: &Scene, rogue: &mut Rogue) {
    let mut line = rogue.dial();
    line.say(&rogue.words.request()[..7]);
    line.finish();
    line.wait_for_end();
}

/// A correct handshake, then an immediate close; in both byte orders.
fn come_and_go(_: &Scene, rogue: &mut Rogue) {
    for index in 0..300 {
        let order = if index % 2 == 0 { ByteOrder::Little } else { ByteOrder::Big };
        let hello = Hello { order, ..rogue.words.hello(ConnType::Control) };
        let mut line = rogue.dial_unprivileged();
        line.say(&greeting(&rogue.words, &hello));
        let answer = line.hear_hello().expect("an answer");
        assert_eq!((answer.order, answer.kind), (order, ConnType::Control));
    }
}

/// Every NID is accepted, so their number must be limited.
fn many_names(scene: &Scene, rogue: &mut Rogue) {
    let mut kept = Vec::new();
    for index in 0..300 {
        rogue.words.from = Nid::new4(rogue.words.to.net(), 0x0b00_0000 + index);
        let line = rogue.befriend(ConnType::Control);
        // A NID in use is not forgotten; these are idle and can be evicted.
        if index % 10 == 0 {
            kept.push(line);
        }
    }
    let peers = scene.peers();
    assert!(peers <= 64, "{peers} peers are known");
}

fn again(_: &Scene, rogue: &mut Rogue) {
    let _first = rogue.befriend(ConnType::Control);
    for index in 0..300 {
        let mut line = rogue.dial();
        line.say(&greeting(&rogue.words, &rogue.words.hello(ConnType::Control)));
        let answer = line.hear_hello().map(|hello| hello.kind);
        // A third NONE in a row crashes programs of some kernels [SOCK-18].
        assert_eq!(answer, (index < 2).then_some(ConnType::None), "dial {index}");
        line.wait_for_end();
    }
}

fn other_version(_: &Scene, rogue: &mut Rogue) {
    let mut first = rogue.befriend(ConnType::Control);
    let hello = Hello { version: Version::V2, ..rogue.words.hello(ConnType::BulkIn) };
    let (mut second, answer) = rogue.befriend_as(&hello);
    assert_eq!(answer.kind, ConnType::None);
    first.wait_for_end();
    second.wait_for_end();
}
