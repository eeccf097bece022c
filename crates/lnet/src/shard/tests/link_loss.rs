//! Awaited answers after the connections to a peer are lost.

use super::*;
use crate::md::OnLinkLoss;

const LOST: LinkEvent = LinkEvent::Down { status: Status::ConnectionLost };

/// Node 0 has sent a GET to node 1, and the GET is in transit.
fn asked(policy: OnLinkLoss) -> Net {
    let mut net = Net::new(2, &Tunables::default());
    net.nodes[0].shard.set_on_link_loss(Owner(1), policy);
    let sink = net.span(0, 64, 0);
    let into = net.bind(0, sink, 2, 5);
    net.nodes[0].shard.link(NOW, NiIndex(0), process(1), LinkEvent::Up);
    net.get(0, get_args(into, process(1), PING_PORTAL, PING_BITS));
    net.settle(NOW);
    net
}

fn finals(net: &mut Net) -> Vec<(EventKind, Status)> {
    let events = net.events(0);
    let last = events.iter().filter(|event| event.unlinked);
    last.map(|event| (event.kind, event.status)).collect()
}

#[test]
fn answers_fail_with_the_last_connection() {
    let mut net = asked(OnLinkLoss::Fail);
    net.deliver(NOW, 0, Delivery::Lose);
    net.nodes[0].shard.link(NOW, NiIndex(0), process(1), LOST);
    assert_eq!(finals(&mut net), [(EventKind::Unlink, Status::ConnectionLost)]);
    let lost = net.nodes[0].shard.next_lost_peer();
    assert_eq!(lost, Some((process(1), Status::ConnectionLost)));
    net.assert_quiet();
}

#[test]
fn an_owner_can_keep_operations_and_the_answer_still_arrives() {
    let mut net = asked(OnLinkLoss::KeepUntilDeadline);
    let Body::Get { return_md, .. } = net.packets[0].header.body else { panic!("a GET") };
    net.deliver(NOW, 0, Delivery::Lose);
    net.nodes[0].shard.link(NOW, NiIndex(0), process(1), LOST);
    assert_eq!(finals(&mut net), []);
    let shard = &mut net.nodes[0].shard;
    assert_eq!(shard.next_lost_peer(), Some((process(1), Status::ConnectionLost)));
    shard.link(NOW, NiIndex(0), process(1), LinkEvent::Up);
    let body = Body::Reply { md: return_md };
    let reply = Header { dst: process(0), src: process(1), payload_len: 48, body };
    let arrival = Arrival { ni: NiIndex(0), from: process(1), rx: RxId(1) };
    let Verdict::Into { op, .. } = shard.recv_header(NOW, arrival, &reply) else {
        panic!("the answer that is awaited");
    };
    shard.done(NOW, op, Status::Ok);
    assert_eq!(finals(&mut net), [(EventKind::Reply, Status::Ok)]);
    net.assert_quiet();
}

#[test]
fn kept_operations_end_at_their_deadline() {
    let mut net = asked(OnLinkLoss::KeepUntilDeadline);
    net.deliver(NOW, 0, Delivery::Lose);
    net.nodes[0].shard.link(NOW, NiIndex(0), process(1), LOST);
    net.settle(NOW + Nanos::from_secs(149));
    assert_eq!(finals(&mut net), []);
    net.settle(NOW + Nanos::from_secs(151));
    assert_eq!(finals(&mut net), [(EventKind::Unlink, Status::TimedOut)]);
    net.assert_quiet();
}

#[test]
fn a_restart_ends_kept_operations() {
    let mut net = asked(OnLinkLoss::KeepUntilDeadline);
    net.deliver(NOW, 0, Delivery::Lose);
    net.nodes[0].shard.link(NOW, NiIndex(0), process(1), LinkEvent::Restarted);
    assert_eq!(finals(&mut net), [(EventKind::Unlink, Status::PeerRestarted)]);
    net.assert_quiet();
}

#[test]
fn the_policy_applies_to_one_owner() {
    let mut net = asked(OnLinkLoss::KeepUntilDeadline);
    let sink = net.span(0, 64, 0);
    let other = Md { owner: Owner(2), ..md(sink, Some(2), MdOptions::empty(), 6) };
    let other = net.nodes[0].shard.bind(other).unwrap();
    net.get(0, get_args(other, process(1), PING_PORTAL, PING_BITS));
    net.settle(NOW);
    net.deliver(NOW, 0, Delivery::Lose);
    net.deliver(NOW, 0, Delivery::Lose);
    net.nodes[0].shard.link(NOW, NiIndex(0), process(1), LOST);
    let events = net.events(0);
    let ended: Vec<u64> = events.iter().filter(|e| e.unlinked).map(|e| e.user).collect();
    assert_eq!(ended, [6]);
}
