//! Rogues that are never idle, but so slow that a message would take hours.

use lustrine_wire::hello::ConnType;

use super::scene::{Rogue, Scene};
use super::words::{greeting, with_payload};
use super::{Row, any_port, face};
use crate::common::eventually;

/// Buffer for what the rogue has not read, in bytes: small, so that each read lets the node send.
const WINDOW: usize = 2048;

#[test]
fn trickles_end_although_bytes_move() {
    let rows: &[Row] = &[
        any_port("a reader of 60 kB a second", &[("timeouts_send", 1)], slow_reader),
        any_port("a payload of 1 kB a second", &[("timeouts_receive", 1)], slow_payload),
    ];
    // 1 MiB may take 8 s. The send buffer is small, so that the node sees what the rogue reads.
    let settings = ["sock_timeout=2", "lnet_transaction_timeout=6", "tx_buffer_size=4096"];
    face(Scene::new(&settings), rows);
}

/// It asks for 1 MiB, reads 600 bytes a hundred times a second, and would need 17 s.
fn slow_reader(_: &Scene, rogue: &mut Rogue) {
    let mut line = rogue.dial_unprivileged_reading(Some(WINDOW));
    line.say(&greeting(&rogue.words, &rogue.words.hello(ConnType::Control)));
    line.hear_hello().expect("the node answers a good HELLO");
    line.say(&rogue.words.read_request());
    eventually("an end of the data", || line.hear_up_to(600).is_none().then_some(()));
}

/// It sends 10 bytes a hundred times a second: its message of 1 MiB would take 17 minutes.
fn slow_payload(_: &Scene, rogue: &mut Rogue) {
    let mut line = rogue.befriend(ConnType::BulkOut);
    line.say(&with_payload(&rogue.words.put(1 << 20), 0));
    eventually("an end of the message", || (!line.say(&[7; 10])).then_some(()));
}
