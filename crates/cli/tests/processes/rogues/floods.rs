//! Rogues that send requests without end, and read no answers.

use lustrine_wire::frame::{FIRST_ZC_COOKIE, FrameHeader};
use lustrine_wire::hello::ConnType;

use super::scene::{Rogue, Scene};
use super::words::{framed, greeting, message};
use super::{Row, any_port, face};

/// Buffer for what the rogue does not read, in bytes: small, so that the node's side fills up soon.
const WINDOW: usize = 4096;

#[test]
fn unread_answers_are_bounded() {
    let rows: &[Row] = &[
        any_port(
            "requests without end, the answers unread",
            &[("responses_refused", 1), ("timeouts_send", 1)],
            questions,
        ),
        any_port("cookies to acknowledge, unread", &[("ack_backlog", 1)], cookies),
    ];
    // Answers that cannot be sent are given up at the transaction time-out.
    face(Scene::new(&["sock_timeout=2", "transaction_timeout=5"]), rows);
}

/// The node's queue for this peer is bounded; when nothing is read, the node closes the connection.
fn questions(_: &Scene, rogue: &mut Rogue) {
    let mut line = rogue.dial_reading(Some(WINDOW));
    line.say(&greeting(&rogue.words, &rogue.words.hello(ConnType::Control)));
    let rounds = line.say_until_closed(&message(&rogue.words.ping()).repeat(500));
    assert!(rounds > 0, "the node has closed at once");
}

fn cookies(_: &Scene, rogue: &mut Rogue) {
    let mut line = rogue.dial_reading(Some(WINDOW));
    line.say(&greeting(&rogue.words, &rogue.words.hello(ConnType::Control)));
    let mut next = FIRST_ZC_COOKIE;
    loop {
        let mut bytes = Vec::new();
        for _ in 0..500 {
            let frame = FrameHeader { zc_request: next, ..FrameHeader::LNET };
            bytes.extend(framed(frame, &rogue.words.put(0)));
            next += 1;
        }
        if !line.say(&bytes) {
            return;
        }
    }
}
