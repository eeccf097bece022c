//! One address that takes every place, or uses another's name.

use lustrine_wire::hello::{ConnType, Hello};
use lustrine_wire::nid::ProcessId;

use super::line::Line;
use super::scene::{Rogue, Scene};
use super::words::greeting;
use super::{Row, anybody, believed, face};
use crate::common::finish;

#[test]
fn one_address_against_all_others() {
    let rows: &[Row] = &[
        anybody("200 handshakes that never end", &[("handshakes_evicted", 136)], handshakes),
        anybody("300 idle userland peers", &[("userland_evicted", 50)], idle_peers),
        believed("the NID of a peer that is connected", &[("claims_refused", 2)], stolen_name),
    ];
    face(Scene::new(&["handshakes_max=64", "connections_max=256", "accept_timeout=60"]), rows);
}

/// A newcomer from another address gets in, at once and without being told to try again.
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
    assert_eq!(scene.count("refused_full"), 0, "nobody is refused");
}

fn idle_peers(scene: &Scene, rogue: &mut Rogue) {
    let hello = greeting(&rogue.words, &rogue.words.hello(ConnType::Control));
    let mut held = Vec::new();
    for _ in 0..300 {
        let mut line = rogue.dial_unprivileged();
        line.say(&hello);
        line.hear_hello().expect("there is room for it, at somebody's cost");
        held.push(line);
    }
    require_room(scene);
    let open = held.iter_mut().filter_map(|line| line.is_open().then_some(())).count();
    assert!(open < 256, "{open} connections of one address are left");
}

/// Its connections stay, as the scene requires of the friend in the end.
fn stolen_name(scene: &Scene, rogue: &mut Rogue) {
    let src = ProcessId::lustre(scene.friend_nid());
    for incarnation in [0x9000, 0x9001] {
        let own = rogue.words.hello(ConnType::Control);
        let claim = Hello { src, src_incarnation: incarnation, ..own };
        let (mut line, answer) = rogue.befriend_as(&claim);
        assert_eq!(answer.kind, ConnType::None);
        line.wait_for_end();
    }
}
