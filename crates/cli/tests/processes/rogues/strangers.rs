//! One address that occupies every slot, or uses another peer's NID.

use lustrine_wire::hello::{ConnType, Hello};
use lustrine_wire::nid::{Net, Nid, ProcessId};

use super::line::Line;
use super::scene::{Rogue, Scene};
use super::words::{greeting, with_payload};
use super::{Row, any_port, face, privileged};
use crate::common::finish;

#[test]
fn one_address_cannot_lock_out_others() {
    let rows: &[Row] = &[
        any_port("200 handshakes that never end", &[("handshakes_evicted", 136)], handshakes),
        any_port("300 idle userland peers", &[("userland_evicted", 50)], idle_peers),
        any_port("80 pushes that stop one byte too soon", &[("opened_passive", 80)], short_pushes),
        privileged("the NID of a peer that is connected", &[("claims_refused", 2)], stolen_name),
        privileged("300 nodes with made-up NIDs", &[("nodes_evicted", 60)], made_up_names),
    ];
    face(Scene::new(&["handshakes_max=64", "connections_max=256", "accept_timeout=60"]), rows);
}

#[test]
fn with_strict_source_a_nid_is_the_address_it_comes_from() {
    let name = "another address's NID, with strict_source";
    let rows: &[Row] = &[privileged(name, &[("foreign_address", 1)], foreign_name)];
    face(Scene::new(&["strict_source=1"]), rows);
}

/// A newcomer from another address is accepted at once, without a retry.
fn require_room(scene: &Scene) {
    for _ in 0..3 {
        finish(&mut scene.node.client("ping")).ok();
    }
}

fn handshakes(scene: &Scene, rogue: &mut Rogue) {
    let before = scene.count("accepted");
    let _held: Vec<Line> = (0..200).map(|_| rogue.dial_unprivileged()).collect();
    scene.wait_for("200 handshakes", "accepted", before, 200);
    require_room(scene);
    scene.require_no_refusals();
}

fn idle_peers(scene: &Scene, rogue: &mut Rogue) {
    let hello = greeting(&rogue.words, &rogue.words.hello(ConnType::Control));
    let mut held = Vec::new();
    for _ in 0..300 {
        let mut line = rogue.dial_unprivileged();
        line.say(&hello);
        line.hear_hello().expect("there is room for it, as another one is evicted");
        held.push(line);
    }
    require_room(scene);
    let question = rogue.words.ping();
    let open = held.iter_mut().filter_map(|line| line.answers(&question).then_some(())).count();
    assert!(open < 256, "{open} connections of one address are left");
    scene.require_no_refusals();
}

/// More than the node may have connections, each used until the end.
fn made_up_names(scene: &Scene, rogue: &mut Rogue) {
    let mut held = Vec::new();
    for number in 0..300u32 {
        let nid = Nid::new4(Net::TCP, 0x0a63_0000 + number);
        let hello = Hello { src: ProcessId::lustre(nid), ..rogue.words.hello(ConnType::Control) };
        let (line, answer) = rogue.befriend_as(&hello);
        assert_eq!(answer.kind, ConnType::Control, "there is room for it, as another is evicted");
        held.push(line);
    }
    require_room(scene);
    scene.require_no_refusals();
}

/// More than the node has buffers for pushes, all from one address. A newcomer is discovered
/// nevertheless, the short-lived clients, which push first, are served, and so are other processes
/// at that address.
fn short_pushes(scene: &Scene, rogue: &mut Rogue) {
    let push = with_payload(&rogue.words.put_to(0, lustrine_wire::PING_MATCH_BITS, 48), 47);
    let hello = greeting(&rogue.words, &rogue.words.hello(ConnType::Control));
    let mut held = Vec::new();
    let before = scene.count("dropped.put");
    for _ in 0..80 {
        let mut line = rogue.dial_unprivileged();
        line.say(&hello);
        line.hear_hello().expect("the node answers a good HELLO");
        line.say(&push);
        held.push(line);
    }
    finish(&mut scene.node.client("discover")).ok();
    for identity in ["userland", "auto"] {
        let mut client = scene.node.client_at("discover", rogue.ip());
        finish(client.args(["--identity", identity])).ok();
    }
    assert_eq!(scene.count("dropped.put"), before, "no push is dropped");
    scene.require_no_refusals();
}

/// Its connections stay, which the scene checks at the end.
fn stolen_name(scene: &Scene, rogue: &mut Rogue) {
    let src = ProcessId::lustre(scene.friend_nid());
    // The friend gives its incarnation away to whoever dials it.
    let present = scene.incarnation_of_the_friend();
    for incarnation in [present, 0x9000] {
        let own = rogue.words.hello(ConnType::Control);
        let claim = Hello { src, src_incarnation: incarnation, ..own };
        let (mut line, answer) = rogue.befriend_as(&claim);
        assert_eq!(answer.kind, ConnType::None);
        line.wait_for_end();
    }
}

/// No peer has the NID. It is refused all the same; that of the rogue's own address is not.
fn foreign_name(_: &Scene, rogue: &mut Rogue) {
    let own = rogue.words.hello(ConnType::Control);
    let src = ProcessId::lustre(Nid::new4(Net::TCP, 0x0a63_0000));
    let mut line = rogue.dial();
    line.say(&greeting(&rogue.words, &Hello { src, ..own }));
    line.wait_for_end();
    let (_line, answer) = rogue.befriend_as(&own);
    assert_eq!(answer.kind, ConnType::Control);
}
