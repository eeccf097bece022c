use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::Owner;
use lustrine_lnet::status::Status;
use lustrine_wire::srpc::{BrwRequest, MESSAGE_LEN, Message, REPLY_PORTAL, VERSION};

use lustrine_lnet::time::Time;
use lustrine_lnet_testing::{Net as Wires, test_nid};

use super::*;
use crate::errno;

/// Of node 1: it writes so many bytes to node 0.
fn write(len: u32, since: Time) -> Request {
    let brw = BrwRequest { reply_bits: 1, bulk_bits: 2, rw: 2, len, check: 1 };
    let body = Body::BrwRequest(brw);
    let message = Message { order: ByteOrder::Little, version: VERSION, features: 1, body };
    let (from, hop) = (ProcessId::lustre(test_nid(1)), test_nid(1));
    Request { message, from, hop, local: test_nid(0), since }
}

#[test]
fn who_waited_for_as_long_as_an_rpc_may_take_is_not_served_any_more() {
    let mut net = Wires::new(1, &Default::default());
    let node = &mut net.nodes[0];
    let begin = Time(1);
    let timeout = Nanos::from_secs(64);
    let turn =
        &mut Turn { now: begin, owner: Owner(1), shard: &mut node.shard, memory: &mut node.memory };
    let mut answers = Answers::new(timeout);
    let (mut source, mut budget) = (Source::default(), Budget::new(2, 1));
    for _ in 0..5 {
        answers.serve(turn, &mut source, &mut budget, &write(1 << 20, begin));
    }
    let served = answers.answers.len();
    assert!(served + answers.waiting() == 5 && answers.waiting() > 0, "{served}");
    turn.now = Time(begin.0 + timeout.0 - 1);
    answers.serve_waiting(turn, &mut source, &mut budget);
    assert_eq!((answers.answers.len(), answers.totals.dropped), (served, 0));
    turn.now = begin + timeout;
    answers.serve_waiting(turn, &mut source, &mut budget);
    assert_eq!((answers.waiting(), answers.answers.len()), (0, served));
    assert_eq!(answers.totals.dropped, u64::from(5 - served));
}

#[test]
fn a_transfer_that_brought_too_little_is_bad_data() {
    for (moved, status) in [(4096, 0), (4088, errno::EBADMSG), (0, errno::EBADMSG)] {
        let mut net = Wires::new(1, &Default::default());
        let node = &mut net.nodes[0];
        let turn = &mut Turn {
            now: Time(1),
            owner: Owner(1),
            shard: &mut node.shard,
            memory: &mut node.memory,
        };
        let mut answers = Answers::new(Nanos::from_secs(64));
        let (mut source, mut budget) = (Source::default(), Budget::new(16, 1));
        let request = write(4096, Time(1));
        answers.serve(turn, &mut source, &mut budget, &request);
        let (slot, answer) = answers.answers.iter().next().expect("it is being served");
        let event = Event {
            kind: EventKind::Reply,
            status: Status::Ok,
            owner: Owner(1),
            user: 0,
            md: answer.md.unwrap(),
            unlinked: true,
            peer: request.from,
            hop: request.from,
            local: ProcessId::lustre(request.local),
            portal: REPLY_PORTAL,
            match_bits: 2,
            hdr_data: 0,
            requested: 4096,
            moved,
            offset: 0,
        };
        answers.handle(turn, &mut budget, slot, &event);
        let Some(Stage::Replying { cell }) = answers.answers.get(slot).map(|answer| answer.stage)
        else {
            panic!("a reply is on its way")
        };
        let mut raw = [0; MESSAGE_LEN];
        turn.memory.read(cell, &mut raw);
        let reply = Message::parse(&raw).unwrap();
        assert_eq!(reply.body, Body::BrwReply(BrwReply { status }), "{moved} bytes");
    }
}
