//! Rogues that send too little, too slowly, or nothing.

use std::net::TcpListener;
use std::thread;

use lustrine_control::{Answer, Request};
use lustrine_node::control;
use lustrine_wire::hello::ConnType;

use super::line::Line;
use super::scene::{Rogue, Scene};
use super::words::{greeting, with_payload};
use super::{Row, any_port, face, privileged};
use crate::common::{eventually, finish};

#[test]
fn slow_and_silent_peers_are_counted() {
    let rows: &[Row] = &[
        any_port("200 connections that say nothing", &[("slow_handshake", 200)], crowd),
        any_port("a HELLO one byte at a time", &[("slow_handshake", 1)], drip),
        any_port("a payload that never ends", &[("timeouts_receive", 1)], unfinished),
        privileged("a peer that never answers", &[("response_timeout_count", 1)], never_answers),
        any_port("a listener that never says HELLO", &[("timeouts_dial", 1)], mute_listener),
    ];
    face(Scene::new(&["accept_timeout=1", "sock_timeout=3"]), rows);
}

/// While they are connected, other peers are accepted.
fn crowd(scene: &Scene, rogue: &mut Rogue) {
    let mut crowd: Vec<Line> = (0..200).map(|_| rogue.dial_unprivileged()).collect();
    finish(&mut scene.node.client("ping")).ok();
    crowd.iter_mut().for_each(Line::wait_for_end);
}

/// Each byte is progress, but the total time has a limit. The last byte is never sent.
fn drip(_: &Scene, rogue: &mut Rogue) {
    let mut line = rogue.dial();
    let words = greeting(&rogue.words, &rogue.words.hello(ConnType::Control));
    let mut bytes = words[..words.len() - 1].iter();
    eventually("an end of the bytes, or of the handshake", || match bytes.next() {
        Some(byte) => (!line.say(&[*byte])).then_some(()),
        None => Some(()),
    });
    line.wait_for_end();
}

fn unfinished(_: &Scene, rogue: &mut Rogue) {
    let mut line = rogue.befriend(ConnType::BulkOut);
    line.say(&with_payload(&rogue.words.put(100_000), 50_000));
    line.wait_for_end();
}

/// The node's answer to a ping of the rogue.
fn pinged(scene: &Scene, rogue: &Rogue, timeout_ms: u64) -> String {
    let request = Request::Ping { nid: rogue.words.from, timeout_ms };
    match control::ask(&scene.node.control(), &request) {
        Ok(Answer::Error { message, .. }) => message,
        other => panic!("a silent peer was pinged: {other:?}"),
    }
}

/// The rogue receives the request, and sends nothing.
fn never_answers(scene: &Scene, rogue: &mut Rogue) {
    let _line = rogue.befriend(ConnType::Control);
    let printed = pinged(scene, rogue, 500);
    assert!(printed.contains("timed out"), "{printed}");
}

/// The rogue accepts the connection, and sends nothing.
fn mute_listener(scene: &Scene, rogue: &mut Rogue) {
    let listener = TcpListener::bind((rogue.ip(), scene.node.port())).expect("the port is free");
    let taken = thread::spawn(move || listener.accept().map(|(stream, _)| Line::of(stream)));
    let printed = pinged(scene, rogue, 60_000);
    assert!(printed.contains(&rogue.words.from.to_string()), "{printed}");
    let mut line = taken.join().expect("it has listened").expect("the node has dialled");
    line.wait_for_end();
}
