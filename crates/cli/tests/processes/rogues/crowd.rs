//! Ten thousand connections: run with `LUSTRINE_LONG=1`.

use std::env;

use lustrine_wire::hello::ConnType;

use super::line::Line;
use super::scene::Scene;
use super::words::{greeting, message};
use lustrine_testing::{Need, not_run};

use crate::common::finish;

/// Connections at the same time.
const CROWD: usize = 10_000;

/// Connections per address.
const PER_ROGUE: usize = 1000;

/// The listen backlog. With LNet's 127, the system drops connections of a crowd on a busy machine,
/// and they are tried again a second later: this gave 128 connections per second.
const BACKLOG: &str = "accept_backlog=4096";

/// Descriptors that the test needs in addition.
const SPARE: u64 = 500;

/// Whether this run may take long, and this process may open this number of connections.
fn may_gather() -> bool {
    if env::var_os("LUSTRINE_LONG").is_none_or(|value| value != "1") {
        not_run(Need::Long, "10,000 connections take a while");
        return false;
    }
    let limit = lustrine_sys::limits::raise_descriptor_limit().expect("the kernel returns it");
    let enough = limit >= CROWD as u64 + SPARE;
    if !enough {
        let why = format!("{limit} descriptors are not enough for {CROWD} connections");
        not_run(Need::Resources, &why);
    }
    enough
}

fn gather(scene: &Scene, greet: bool) -> Vec<Line> {
    let mut crowd = Vec::new();
    for _ in 0..CROWD / PER_ROGUE {
        let rogue = scene.rogue();
        let hello = greeting(&rogue.words, &rogue.words.hello(ConnType::Control));
        for _ in 0..PER_ROGUE {
            let mut line = rogue.dial_unprivileged();
            if greet {
                line.say(&hello);
            }
            crowd.push(line);
        }
    }
    crowd
}

/// Prints the resources that the node uses for a crowd.
fn print_state(scene: &Scene, what: &str) {
    let (stats, usage) = (scene.node.stats(), scene.node.usage());
    let (connections, mapped) = (stats.connections, stats.memory_mapped);
    eprintln!("{what}: {connections} connections, {usage:?}, {mapped} bytes mapped");
}

/// With the default limits the newest connections evict the oldest ones, and newcomers from other
/// addresses are accepted; connected peers are not affected.
#[test]
fn ten_thousand_silent_connections_leave_room_for_others() {
    if !may_gather() {
        return;
    }
    let scene = Scene::with_friend_only(&[BACKLOG, "accept_timeout=60"]);
    print_state(&scene, "before");
    let crowd = gather(&scene, false);
    // At most 1024 handshakes are open at a time.
    scene.wait_for("a silent crowd", "handshakes_evicted", 0, CROWD as u64 - 1024);
    print_state(&scene, "silent, the usual limits");
    assert!(scene.node.stats().connections <= 1024 + 16);
    finish(&mut scene.node.client("ping")).ok();
    drop(crowd);
    scene.check("a silent crowd");
    finish(&mut scene.node.client("ping")).ok();
    scene.end();
}

/// With sufficient limits all of them are held, and newcomers are accepted as well.
#[test]
fn ten_thousand_connections_are_held_at_once() {
    if !may_gather() {
        return;
    }
    let room = ["handshakes_max=16384", "connections_max=16384", "accept_timeout=60"];
    let mut scene = Scene::new(&[&room, &[BACKLOG][..]].concat());
    print_state(&scene, "before");
    let silent = gather(&scene, false);
    scene.wait_for("a silent crowd", "accepted", 0, CROWD as u64);
    print_state(&scene, "silent, room for all");
    finish(&mut scene.node.client("ping")).ok();
    drop(silent);
    scene.check("a silent crowd");

    // The allocator keeps some memory of the first crowd, which the second one uses.
    let first = greet_and_leave(&scene);
    let second = greet_and_leave(&scene);
    assert!(second <= first + (8 << 20), "{first} bytes resident, a crowd later {second}");
    scene.may_keep(64 << 20);
    scene.end();
}

/// All send a HELLO and a ping, get an answer, and disconnect. Returns the resident memory
/// afterwards, in bytes.
fn greet_and_leave(scene: &Scene) -> u64 {
    let mut crowd = gather(scene, true);
    for line in &mut crowd {
        line.hear_hello().expect("there is room for every peer");
    }
    print_state(scene, "all said HELLO");
    let question = message(&scene.rogue().words.ping());
    for line in &mut crowd {
        line.say(&question);
    }
    for line in &mut crowd {
        line.hear_header().expect("every peer is answered");
    }
    print_state(scene, "all were answered");
    finish(&mut scene.node.client("ping")).ok();
    drop(crowd);
    scene.check("a crowd of peers");
    print_state(scene, "they left");
    scene.node.usage().resident
}
