use lustrine_lnet::testing::VecMemory;
use lustrine_wire::nid::Net;

use super::*;

fn list_of(count: u32, len: u32, order: Order) -> Result<Vec<ProcessId>, FetchError> {
    let mut memory = VecMemory::default();
    let whole = destination_at(count as usize - 1, PAGE as usize) + Destination::LEN;
    let mut bytes = vec![0xff; whole.max(len as usize)];
    for index in 0..count {
        let at = destination_at(index as usize, PAGE as usize);
        let nid = Nid::new4(Net::TCP, 0x0a00_0000 + index).to_short().unwrap();
        let entry = Destination { nid, pid: PID_LUSTRE };
        bytes[at..at + Destination::LEN].copy_from_slice(&entry.encode(order));
    }
    let span = memory.alloc(len).unwrap();
    memory.write(span, &bytes[..len as usize]);
    read_list(&memory, span, count, order)
}

#[test]
fn lists_are_read_in_the_order_of_the_request() {
    for order in [Order::Little, Order::Big] {
        for (count, len) in [(1, 12), (341, 341 * 12), (341, 4096), (700, 3 * 4096)] {
            let list = list_of(count, len, order).unwrap();
            let last = Nid::new4(Net::TCP, 0x0a00_0000 + count - 1);
            assert_eq!((list.len() as u32, list[list.len() - 1].nid), (count, last));
            assert!(list.iter().all(|process| process.pid == PID_LUSTRE));
        }
    }
}

#[test]
fn a_cut_list_keeps_what_can_be_known() {
    // selftest-wire 18, number 7: 4 bytes are lost per full page.
    let list = list_of(342, 342 * 12, Order::Little).unwrap();
    assert_eq!(list[341], ProcessId::lustre(Nid::new4(Net::TCP, 0x0a00_0000 + 341)));
    assert_eq!(list_of(683, 683 * 12, Order::Little), Err(FetchError::Bad));
    // Number 6: the last page is missing altogether.
    assert_eq!(list_of(1024, 1024 * 12, Order::Little), Err(FetchError::Bad));
}

#[test]
fn a_wildcard_is_no_destination() {
    let mut memory = VecMemory::default();
    let span = memory.alloc(12).unwrap();
    memory.write(span, &[0xff; 12]);
    assert_eq!(read_list(&memory, span, 1, Order::Little), Err(FetchError::Bad));
}

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
        let request = Request { message, from: ProcessId::lustre(test_nid(1)), local: test_nid(0) };
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
