//! What a single address could do to all others: occupy every slot, use another peer's NID, or keep
//! the node busy for ever.

use lustrine_lnet::time::Nanos;
use lustrine_partition::ProbeResult;
use lustrine_sim::{HostId, NodeSpec};
use lustrine_wire::frame::FrameHeader;
use lustrine_wire::hello::{ConnType, Hello};
use lustrine_wire::nid::ProcessId;

use super::scene::{
    CONNECTIONS_MAX, HANDSHAKES_MAX, Scene, friend_nid, hello, message, ping, put, request,
    victim_nid,
};

const SECOND: Nanos = Nanos::from_secs(1);
const MOMENT: Nanos = Nanos::from_millis(10);

/// The longest time that a message of 1 MiB may take: 50 s, the transaction's 150 s, and two check
/// intervals of 7.5 s.
const MESSAGE_TIME_MAX: Nanos = Nanos::from_secs(215);

/// A node that the victim has not met yet.
fn newcomer(scene: &mut Scene, last: u8) -> HostId {
    let nid = format!("10.77.0.{last}@tcp").parse().expect("a NID");
    scene.world.add_node(NodeSpec { incarnation: 0x3300, ..NodeSpec::new(nid) })
}

/// Asserts that a newcomer is answered while `meanwhile` is repeated for a second.
fn require_answers(scene: &mut Scene, who: HostId, mut meanwhile: impl FnMut(&mut Scene)) {
    for round in 0..3 {
        let probe = scene.world.ping(who, &victim_nid(), SECOND);
        meanwhile(scene);
        scene.run(SECOND);
        let result = scene.world.node(who).result(probe);
        assert!(matches!(result, Some(ProbeResult::Ping(Ok(_)))), "round {round}: {result:?}");
    }
}

/// A thousand silent connections per second, each of which lasts its full 5 s.
pub(crate) fn handshake_flood(scene: &mut Scene) {
    let mut port = 2000;
    let mut flood = |scene: &mut Scene| {
        for _ in 0..1000 {
            scene.dial_from(port);
            port += 1;
        }
    };
    flood(scene);
    flood(scene);
    let who = newcomer(scene, 201);
    require_answers(scene, who, flood);
    let connections = scene.world.node(scene.victim).partition().driver().connections();
    assert!(connections <= HANDSHAKES_MAX + 16, "{connections}");
    scene.run(Nanos::from_secs(6));
}

/// More connections than the node may have, each with a complete HELLO, then idle for ever.
pub(crate) fn idle_crowd(scene: &mut Scene) {
    for port in 10_000..10_000 + CONNECTIONS_MAX as u16 {
        let sock = scene.dial_from(port);
        scene.greet(sock, hello(ConnType::Control));
    }
    let who = newcomer(scene, 202);
    require_answers(scene, who, |_| ());
    scene.leave_all();
}

/// The rogue repeatedly claims to be the friend after a restart.
pub(crate) fn stolen_name(scene: &mut Scene) {
    // The friend has all its connections by then.
    scene.run(SECOND);
    let (closed, restarts) = (scene.counter("closed"), scene.counter("restarts_seen"));
    for incarnation in 0x9000..0x9014 {
        let src = ProcessId::lustre(friend_nid());
        let own = hello(ConnType::Control);
        let sock = scene.befriend(Hello { src, src_incarnation: incarnation, ..own });
        scene.run(Nanos::from_millis(1500));
        assert!(scene.is_closed(sock), "it was refused");
    }
    assert_eq!(scene.counter("closed"), closed, "the friend keeps its connections");
    assert_eq!(scene.counter("restarts_seen"), restarts);
}

/// Sends many requests, then reads one byte of the answers every 49 s.
pub(crate) fn slow_reader(scene: &mut Scene) {
    let sock = scene.befriend(hello(ConnType::Control));
    let question = message(FrameHeader::LNET, &ping());
    for _ in 0..100 {
        for _ in 0..50 {
            scene.say(sock, &question);
        }
        scene.run(MOMENT);
    }
    let end = scene.world.now() + MESSAGE_TIME_MAX;
    while scene.world.now() < end {
        scene.script_io().read_up_to(sock, 1);
        scene.run(Nanos::from_secs(49));
    }
    assert!(scene.is_closed(sock), "it was closed");
}

/// A message of 1 MiB that arrives at 100 bytes per second.
pub(crate) fn slow_writer(scene: &mut Scene) {
    let sock = scene.befriend(hello(ConnType::BulkOut));
    scene.say(sock, &message(FrameHeader::LNET, &put(1 << 20)));
    let end = scene.world.now() + MESSAGE_TIME_MAX;
    while scene.world.now() < end {
        scene.say(sock, &[7; 100]);
        scene.run(SECOND);
    }
    assert!(scene.is_closed(sock), "it was closed");
}

/// Only the request, so that the address does not affect what follows.
#[test]
fn a_newcomer_from_the_crowded_address_is_accepted() {
    let mut scene = Scene::new();
    for port in 2000..2000 + 2 * HANDSHAKES_MAX as u16 {
        scene.dial_from(port);
    }
    let sock = scene.dial_from(60_000);
    let mut bytes = request();
    hello(ConnType::Control).encode(&mut bytes).expect("short NIDs");
    scene.say(sock, &bytes);
    scene.run(MOMENT);
    assert!(!scene.script_io().read(sock).is_empty(), "its HELLO was answered");
    assert!(!scene.is_closed(sock));
}
