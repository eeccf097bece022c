//! What an unknown node can do to portal 0, and to operations that wait.

use super::*;
use crate::shard::discovery::PUSH_BUFFERS;

/// The NID of unknown node `index`: 11.0.0.0 + index.
fn stranger(index: u64) -> ProcessId {
    ProcessId { nid: Nid::new4(NetId::TCP, 0x0b00_0000 + index as u32), pid: PID_LUSTRE }
}

/// Delivers the header of a PUT of 48 bytes to portal 0.
fn put_to_portal_0(shard: &mut Shard, from: ProcessId, rx: u64, match_bits: u64) -> Verdict {
    let body = Body::Put {
        ack_md: MdHandle::NONE,
        match_bits,
        hdr_data: 0,
        portal: PING_PORTAL,
        offset: 0,
    };
    let header = Header { dst: process(0), src: from, payload_len: 48, body };
    shard.recv_header(NOW, Arrival { ni: NiIndex(0), from, rx: RxId(rx) }, &header)
}

/// Unknown nodes that stop in the middle of a push hold buffers, however many there are; the pushes
/// of other nodes are received nevertheless, and the buffers are freed with their connections.
#[test]
fn stalled_pushes_leave_buffers_for_others() {
    const STRANGERS: u64 = 10 * PUSH_BUFFERS as u64;
    let mut net = Net::new(1, &Tunables::default());
    let node = &mut net.nodes[0];
    let spans = node.memory.live;
    let mut stalled = Vec::new();
    for index in 0..STRANGERS {
        match put_to_portal_0(&mut node.shard, stranger(index), index, PING_BITS) {
            Verdict::Into { op, .. } => stalled.push(op),
            Verdict::Park => {}
            verdict => panic!("{verdict:?}"),
        }
        if index % 100 == 0 {
            node.shard.drive(NOW, &mut node.memory);
        }
    }
    while node.shard.has_work() {
        node.shard.drive(NOW, &mut node.memory);
        while let Some(action) = node.shard.next_action() {
            let Action::Resume { verdict: Verdict::Into { op, .. }, .. } = action else {
                panic!("{action:?}");
            };
            stalled.push(op);
        }
    }
    assert_eq!(stalled.len() as u64, STRANGERS);
    let verdict = put_to_portal_0(&mut node.shard, process(1), STRANGERS, PING_BITS);
    assert!(matches!(verdict, Verdict::Into { .. }), "{verdict:?}");
    let Verdict::Into { op, .. } = verdict else { return };
    stalled.push(op);
    for op in stalled {
        node.shard.done(NOW, op, Status::ConnectionLost);
    }
    node.shard.drive(NOW, &mut node.memory);
    assert_eq!(node.memory.live, spans);
    net.assert_quiet();
}

/// Portal 0 accepts only LNet's own match bits. Other PUTs would wait there without end.
#[test]
fn puts_to_portal_0_with_other_match_bits_are_dropped() {
    let mut net = Net::new(1, &Tunables::default());
    let shard = &mut net.nodes[0].shard;
    for (rx, bits) in [0, 1, PING_BITS | 1, u64::MAX].into_iter().enumerate() {
        assert_eq!(put_to_portal_0(shard, stranger(1), rx as u64, bits), Verdict::Drop);
    }
    assert_eq!(shard.stats().dropped.put, 4);
    let verdict = put_to_portal_0(shard, stranger(1), 9, PING_BITS);
    assert!(matches!(verdict, Verdict::Into { .. }), "{verdict:?}");
}

/// The same from this node itself, over the loopback.
#[test]
fn loopback_puts_to_portal_0_with_other_match_bits_end() {
    let mut net = Net::new(1, &Tunables::default());
    let lo = ProcessId { nid: Nid::LO, pid: PID_LUSTRE };
    let span = net.span(0, 8, 0);
    let from = net.bind(0, span, 1, 7);
    net.put(0, put_args(from, lo, PING_PORTAL, 1));
    net.run(NOW);
    let events = net.events(0);
    assert!(events.iter().any(|event| event.user == 7 && event.unlinked), "{events:?}");
    net.assert_quiet();
}
