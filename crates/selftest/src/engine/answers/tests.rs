use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::Owner;
use lustrine_lnet::status::Status;
use lustrine_wire::srpc::{BrwRequest, MESSAGE_LEN, Message, REPLY_PORTAL, VERSION};

use super::*;
use crate::errno;

#[test]
fn a_transfer_that_brought_too_little_is_bad_data() {
    use lustrine_lnet::testing::{Net as Wires, test_nid};
    use lustrine_lnet::time::Time;
    use lustrine_lnet::tunables::Tunables;

    for (moved, status) in [(4096, 0), (4088, errno::EBADMSG), (0, errno::EBADMSG)] {
        let mut net = Wires::new(1, &Tunables::default());
        let node = &mut net.nodes[0];
        let turn = &mut Turn { now: Time(1), shard: &mut node.shard, memory: &mut node.memory };
        let mut answers = Answers::new(Nanos::from_secs(64));
        let (mut source, mut budget) = (Source::default(), Budget::new(16, 1));
        let brw = BrwRequest { reply_bits: 1, bulk_bits: 2, rw: 2, len: 4096, check: 1 };
        let body = Body::BrwRequest(brw);
        let message = Message { order: Order::Little, version: VERSION, features: 1, body };
        let (from, hop) = (ProcessId::lustre(test_nid(1)), test_nid(1));
        let request = Request { message, from, hop, local: test_nid(0) };
        answers.serve(turn, &mut source, &mut budget, request);
        let (slot, answer) = answers.answers.iter().next().expect("it is being served");
        let event = Event {
            kind: EventKind::Reply,
            status: Status::Ok,
            owner: Owner::SELFTEST,
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
