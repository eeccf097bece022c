use lustrine_lnet::time::Time;
use lustrine_lnet_testing::test_nid;
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::nid::ProcessId;
use lustrine_wire::srpc::{Body, Message, PING_MAGIC, PingRequest, VERSION};

use super::*;

fn request(peer: usize, seq: u32) -> Request {
    let ping = PingRequest { reply_bits: 1, magic: PING_MAGIC, seq, time_s: 0, time_ns: 0 };
    let body = Body::PingRequest(ping);
    let message = Message { order: ByteOrder::Little, version: VERSION, features: 1, body };
    let hop = test_nid(peer);
    Request { message, from: ProcessId::lustre(hop), hop, local: test_nid(9), since: Time(0) }
}

/// Serves as long as `may` lets a peer and something is `left`; who was served.
fn serve(waiting: &mut Waiting, mut left: u32, may: impl Fn(Nid) -> bool) -> Vec<(Nid, u32)> {
    let mut served = Vec::new();
    waiting.serve(|request| {
        let Body::PingRequest(ping) = request.message.body else { panic!("a ping") };
        if left == 0 {
            Served::AllWait
        } else if may(request.from.nid) {
            left -= 1;
            served.push((request.from.nid, ping.seq));
            Served::Done
        } else {
            Served::PeerWaits
        }
    });
    served
}

fn of_two_peers() -> Waiting {
    let mut waiting = Waiting::default();
    for (peer, seq) in [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)] {
        waiting.push(request(peer, seq), Served::PeerWaits);
    }
    waiting
}

#[test]
fn a_peer_that_has_its_share_stops_nobody_else() {
    let (stuck, other) = (test_nid(0), test_nid(1));
    let mut waiting = of_two_peers();
    assert_eq!(serve(&mut waiting, 9, |peer| peer != stuck), [(other, 1), (other, 2)]);
    assert_eq!((waiting.len(), waiting.longest(), waiting.peers.len()), (3, 3, 1));
    assert!(waiting.must_queue(&stuck) && !waiting.must_queue(&other));
    assert_eq!(serve(&mut waiting, 9, |_| true), [(stuck, 1), (stuck, 2), (stuck, 3)]);
    assert_eq!((waiting.len(), waiting.turns.len(), waiting.peers.len()), (0, 0, 0));
    assert!(waiting.lengths.is_empty());
}

#[test]
fn peers_take_turns_when_little_is_left() {
    let (one, other) = (test_nid(0), test_nid(1));
    let mut waiting = of_two_peers();
    let order: Vec<_> = (0..5).flat_map(|_| serve(&mut waiting, 1, |_| true)).collect();
    assert_eq!(order, [(one, 1), (other, 1), (one, 2), (other, 2), (one, 3)]);
}

#[test]
fn nobody_overtakes_who_waits_for_the_last_of_it() {
    let stranger = test_nid(5);
    let mut waiting = of_two_peers();
    assert!(!waiting.must_queue(&stranger));
    serve(&mut waiting, 0, |_| true);
    assert!(waiting.must_queue(&stranger));
    serve(&mut waiting, 9, |_| true);
    assert!(!waiting.must_queue(&stranger));
}

/// Peers that ask and ask against one that asks now and then.
#[test]
fn the_longest_queue_gives_way() {
    let mut waiting = Waiting::default();
    for seq in 0..20 {
        for greedy in 0..64 {
            waiting.push(request(greedy, seq), Served::PeerWaits);
            if waiting.len() > 640 {
                waiting.drop_one();
            }
        }
    }
    assert_eq!((waiting.len(), waiting.longest()), (640, 10));
    for seq in 0..5 {
        waiting.push(request(99, seq), Served::PeerWaits);
        waiting.drop_one();
    }
    assert_eq!((waiting.len(), waiting.longest()), (640, 10));
    assert_eq!(waiting.peers[&test_nid(99)].requests.len(), 5);
    let first = &waiting.peers[&test_nid(0)].requests[0];
    assert_eq!(first.message.body, request(0, 0).message.body, "the newest went, not the oldest");
    for _ in 0..640 {
        waiting.drop_one();
    }
    assert_eq!((waiting.len(), waiting.turns.len(), waiting.lengths.len()), (0, 0, 0));
}

#[test]
fn nobody_waits_behind_a_request_that_was_dropped() {
    let mut waiting = Waiting::default();
    waiting.push(request(0, 1), Served::AllWait);
    assert!(waiting.must_queue(&test_nid(1)));
    waiting.drop_one();
    assert!(!waiting.must_queue(&test_nid(1)));
}

/// Of a crowd in which each peer has one request, the newcomer gives way, whatever its name.
#[test]
fn the_last_in_turn_gives_way_whatever_its_name() {
    for newcomer in [0, 99] {
        let mut waiting = Waiting::default();
        (1..50).for_each(|peer| waiting.push(request(peer, 1), Served::PeerWaits));
        waiting.push(request(newcomer, 1), Served::PeerWaits);
        waiting.drop_one();
        assert!(!waiting.peers.contains_key(&test_nid(newcomer)));
        assert_eq!((waiting.len(), waiting.turns.len(), waiting.lengths.len()), (49, 49, 49));
    }
}

#[test]
fn what_is_withdrawn_leaves_everything_else_as_it_was() {
    let mut waiting = of_two_peers();
    let odd = |request: &Request| match request.message.body {
        Body::PingRequest(ping) => ping.seq % 2 == 1,
        _ => false,
    };
    assert_eq!(waiting.withdraw(&test_nid(7), |_| true), 0);
    assert_eq!(waiting.withdraw(&test_nid(0), odd), 2);
    assert_eq!((waiting.len(), waiting.longest()), (3, 2));
    assert_eq!(waiting.withdraw(&test_nid(1), |_| true), 2);
    assert_eq!((waiting.len(), waiting.longest()), (1, 1));
    assert!(!waiting.must_queue(&test_nid(1)) && waiting.must_queue(&test_nid(0)));
    assert_eq!(serve(&mut waiting, 9, |_| true), [(test_nid(0), 2)]);
    waiting.push(request(0, 4), Served::AllWait);
    assert_eq!(waiting.withdraw(&test_nid(0), |_| true), 1);
    assert!(!waiting.must_queue(&test_nid(0)), "there is none to be overtaken");
    assert_eq!((waiting.len(), waiting.longest()), (0, 0));
}
