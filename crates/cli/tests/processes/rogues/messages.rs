//! Malformed messages, and messages that no descriptor awaits.

use lustrine_control::{Answer, Request};
use lustrine_node::control;
use lustrine_wire::frame::{FIRST_ZC_COOKIE, FrameHeader};
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::hello::{ConnType, Hello, Version};
use lustrine_wire::nid::{Nid, ProcessId};

use super::scene::{Rogue, Scene};
use super::words::{framed, greeting, message, noop, with_payload};
use super::{Row, any_port, face, privileged};
use crate::common::finish;

/// The offset of the LNet header after the frame header, and of some of its fields.
const HEADER: usize = FrameHeader::LEN;
const KIND: usize = HEADER + 24;
const PAYLOAD_LEN: usize = HEADER + 28;

#[test]
fn malformed_messages_are_counted() {
    let rows: &[Row] = &[
        any_port("a frame of an unknown type", &[("bad_frame", 1)], |_, rogue| {
            let mut bytes = noop(0, 0);
            bytes[0] = 0xc7;
            misbehave(rogue, &bytes);
        }),
        any_port("a message of an unknown type", &[("bad_header", 1)], |_, rogue| {
            let mut bytes = message(&rogue.words.ping());
            bytes[KIND] = 9;
            misbehave(rogue, &bytes);
        }),
        any_port("a HELLO among messages", &[("unexpected_hello", 1)], |_, rogue| {
            let body = Body::Hello { incarnation: 1, kind: 1 };
            misbehave(rogue, &message(&rogue.words.header(body, 0)));
        }),
        any_port("a GET with a payload", &[("payload_on_ack_or_get", 1)], |_, rogue| {
            let mut bytes = message(&rogue.words.ping());
            bytes[PAYLOAD_LEN] = 8;
            misbehave(rogue, &bytes);
        }),
        any_port("a payload that is too long", &[("payload_too_long", 2)], |_, rogue| {
            for length in [(1 << 20) + 1, u32::MAX] {
                let mut bytes = with_payload(&rogue.words.put(0), 9000);
                bytes[PAYLOAD_LEN..PAYLOAD_LEN + 4].copy_from_slice(&length.to_le_bytes());
                misbehave(rogue, &bytes);
            }
        }),
        any_port("a payload that ends too soon", &[("truncated", 1)], truncated),
        any_port("a message for another node", &[("wrong_destination", 1)], |_, rogue| {
            let dst = ProcessId::lustre("10.77.0.99@tcp".parse().expect("a NID"));
            let ping = Header { dst, ..rogue.words.ping() };
            misbehave(rogue, &message(&ping));
        }),
        // For userland, the node replaces the sender by the peer of the connection.
        privileged("a message from the wildcard NID", &[("bad_source", 1)], |_, rogue| {
            let src = ProcessId::lustre(Nid::ANY);
            let ping = Header { src, ..rogue.words.ping() };
            misbehave(rogue, &message(&ping));
        }),
        any_port("a wrong checksum", &[("bad_checksum", 1)], bad_checksum),
        any_port("a malformed keepalive", &[("bad_keepalive", 1)], |_, rogue| {
            misbehave(rogue, &noop(7, 1));
        }),
        any_port("unknown cookies", &[("unknown_cookie", 3)], |_, rogue| {
            for (from, to) in [(0, 77), (2, u64::MAX), (0, u64::MAX)] {
                misbehave(rogue, &noop(from, to));
            }
        }),
    ];
    face(Scene::new(&["enable_csum=1"]), rows);
}

#[test]
fn messages_without_a_descriptor_are_counted() {
    let rows: &[Row] = &[
        any_port("REPLYs to forged handles", &[("dropped.reply", 2000)], forged_answers),
        any_port("ACKs of forged handles", &[("dropped.ack", 2000)], forged_confirmations),
        any_port("PUTs that match nothing", &[("dropped.put", 41)], unwanted),
        any_port("PUTs to portal 0 with other match bits", &[("dropped.put", 1000)], foreign_bits),
        privileged("a REPLY that is sent twice", &[("dropped.reply", 1)], answered_twice),
        privileged("a restart in the middle of a message", &[("restarts_seen", 1)], restart_midway),
    ];
    face(Scene::new(&[]), rows);
}

/// Connects to the node, sends bytes, and must be disconnected.
fn misbehave(rogue: &mut Rogue, bytes: &[u8]) {
    let mut line = rogue.befriend(ConnType::Control);
    line.say(bytes);
    line.wait_for_end();
}

fn truncated(_: &Scene, rogue: &mut Rogue) {
    let mut line = rogue.befriend(ConnType::BulkOut);
    line.say(&with_payload(&rogue.words.put(100_000), 50_000));
    line.finish();
    line.wait_for_end();
}

fn bad_checksum(_: &Scene, rogue: &mut Rogue) {
    let hello = Hello { version: Version::V2, ..rogue.words.hello(ConnType::Control) };
    let (mut line, _) = rogue.befriend_as(&hello);
    let frame = FrameHeader { csum: 0xdead_beef, ..FrameHeader::LNET };
    line.say(&framed(frame, &rogue.words.ping()));
    line.wait_for_end();
}

/// Handles that look very similar to the node's own.
fn forged(incarnation: u64) -> impl Iterator<Item = MdHandle> {
    (0..2000).map(move |index| {
        let interface = if index % 2 == 0 { incarnation & !0xff } else { incarnation ^ index };
        MdHandle { interface, object: 1 << 32 | (index / 2 % 64) }
    })
}

/// A stray answer is not a violation: the connection stays.
fn forged_answers(_: &Scene, rogue: &mut Rogue) {
    let (mut line, node) = rogue.befriend_as(&rogue.words.hello(ConnType::Control));
    for md in forged(node.src_incarnation) {
        let header = rogue.words.header(Body::Reply { md }, 48);
        assert!(line.say(&with_payload(&header, 48)));
    }
    assert!(line.answers(&rogue.words.ping()));
}

fn forged_confirmations(_: &Scene, rogue: &mut Rogue) {
    let (mut line, node) = rogue.befriend_as(&rogue.words.hello(ConnType::Control));
    for md in forged(node.src_incarnation) {
        let body = Body::Ack { md, match_bits: 0, mlength: u32::MAX };
        assert!(line.say(&message(&rogue.words.header(body, 0))));
    }
    assert!(line.answers(&rogue.words.ping()));
}

/// The node has to read what it discards.
fn unwanted(_: &Scene, rogue: &mut Rogue) {
    let mut line = rogue.befriend(ConnType::BulkOut);
    let bytes = with_payload(&rogue.words.put(1 << 20), 1 << 20);
    for _ in 0..40 {
        assert!(line.say(&bytes));
    }
    assert!(line.acknowledges(FIRST_ZC_COOKIE, &rogue.words.put(0)));
}

/// A hundred peers send ten each. None of them waits for a descriptor: that would stop the reading
/// of its connection, and each push of another node would look at all that wait.
fn foreign_bits(scene: &Scene, rogue: &mut Rogue) {
    let mut held = Vec::new();
    for peer in 0..100 {
        let mut line = rogue.dial_unprivileged();
        line.say(&greeting(&rogue.words, &rogue.words.hello(ConnType::Control)));
        line.hear_hello().expect("the node answers a good HELLO");
        for index in 0..10 {
            let put = rogue.words.put_to(0, 10 * peer + index, 48);
            assert!(line.say(&with_payload(&put, 48)));
        }
        held.push(line);
    }
    let question = rogue.words.ping();
    for line in &mut held {
        assert!(line.answers(&question), "what follows such a PUT is read");
    }
    // It pushes to portal 0, too.
    finish(&mut scene.node.client("discover")).ok();
}

/// The node pings the rogue, which answers twice.
fn answered_twice(scene: &Scene, rogue: &mut Rogue) {
    let mut line = rogue.befriend(ConnType::Control);
    let request = Request::Ping { nid: rogue.words.from, timeout_ms: 60_000 };
    let control = scene.node.control();
    let pinged = std::thread::spawn(move || control::ask(&control, &request));
    let question = line.hear_header().expect("a question");
    let Body::Get { return_md, .. } = question.body else { panic!("{question:?}") };
    let answer = rogue.words.header(Body::Reply { md: return_md }, 48);
    for _ in 0..2 {
        assert!(line.say(&with_payload(&answer, 48)));
    }
    // It has the wrong contents, but it is an answer: the ping ends.
    let answer = pinged.join().expect("the ping was sent");
    assert!(matches!(answer, Ok(Answer::Error { .. })), "{answer:?}");
    assert!(line.answers(&rogue.words.ping()));
}

/// Half a message, then the same peer with its next incarnation.
fn restart_midway(_: &Scene, rogue: &mut Rogue) {
    let mut line = rogue.befriend(ConnType::BulkOut);
    line.say(&with_payload(&rogue.words.put(100_000), 50_000));
    let reborn = Hello { src_incarnation: 0x2222, ..rogue.words.hello(ConnType::Control) };
    let (mut turned_away, answer) = rogue.befriend_as(&reborn);
    assert_eq!(answer.kind, ConnType::None);
    line.wait_for_end();
    turned_away.wait_for_end();
    let (mut welcome, answer) = rogue.befriend_as(&reborn);
    assert_eq!(answer.kind, ConnType::Control);
    welcome.say(&message(&rogue.words.ping()));
    let reply = welcome.hear_header().expect("it is answered in its new life");
    assert!(matches!(reply.body, Body::Reply { .. }), "{reply:?}");
}
