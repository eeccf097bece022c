//! Which NIDs belong to one peer ("Merging" in docs/protocol/ping-discovery.md).

use lustrine_wire::ping::{Features, NiStatus, PingEntry, PingInfo};

use super::*;
use crate::lnd::SendAction;

mod claims;
mod hostile;

/// NIDs that peers have or claim.
const NIDS: usize = 7;

fn arrival(from: usize) -> Arrival {
    Arrival { ni: NiIndex(0), from: process(from), rx: RxId(from as u64) }
}

/// The node under test, number 0, and the messages it has sent; the other nodes are simulated.
struct Alone {
    net: Net,
    sent: Vec<SendAction>,
    now: Time,
    sequence: u32,
}

impl Alone {
    fn new(tunables: Tunables) -> Alone {
        Alone { net: Net::new(1, &tunables), sent: Vec::new(), now: NOW, sequence: 1 }
    }

    fn shard(&mut self) -> &mut Shard {
        &mut self.net.nodes[0].shard
    }

    fn drive(&mut self) {
        let node = &mut self.net.nodes[0];
        while node.shard.has_own_work() {
            node.shard.drive(self.now, &mut node.memory);
        }
        self.sent.extend(core::iter::from_fn(|| match node.shard.next_action() {
            Some(Action::Send(send)) => Some(send),
            None => None,
            other => panic!("{other:?}"),
        }));
        node.shard.peers.assert_whole();
    }

    fn info(&mut self, nids: &[usize], features: Features) -> Vec<u8> {
        self.sequence += 1;
        let entries: Vec<PingEntry> = nids
            .iter()
            .map(|index| PingEntry { nid: test_nid(*index), status: NiStatus::Up })
            .collect();
        let mut bytes = Vec::new();
        PingInfo::build(features, PID_LUSTRE, self.sequence, &entries, &mut bytes);
        bytes
    }

    /// Delivers a header with its payload.
    fn arrives(&mut self, from: usize, body: Body, bytes: &[u8]) {
        let header =
            Header { dst: process(0), src: process(from), payload_len: bytes.len() as u32, body };
        let now = self.now;
        let node = &mut self.net.nodes[0];
        if let Verdict::Into { op, spans } = node.shard.recv_header(now, arrival(from), &header) {
            let room = spans.first().map_or(0, |span| bytes.len().min(span.len as usize));
            if room > 0 {
                node.memory.write(spans[0], &bytes[..room]);
            }
            node.shard.done(now, op, Status::Ok);
        }
        self.drive();
    }

    fn pushed(&mut self, from: usize, nids: &[usize], features: Features) {
        let bytes = self.info(nids, features);
        self.arrives(from, a_push(), &bytes);
    }

    /// Completes the `at`-th message in transit: `answer` is the ping information of its target.
    fn finish(&mut self, at: usize, status: Status, answer: Option<&[usize]>) {
        let send = self.sent.remove(at);
        let now = self.now;
        self.shard().done(now, send.op, status);
        self.drive();
        let (true, Some(nids)) = (status.is_ok(), answer) else { return };
        let from = (0..=NIDS).find(|index| test_nid(*index) == send.to.nid).unwrap();
        match send.header.body {
            Body::Get { return_md, .. } => {
                let bytes = self.info(nids, usual());
                self.arrives(from, Body::Reply { md: return_md }, &bytes);
            }
            Body::Put { ack_md, match_bits, .. } if ack_md != MdHandle::NONE => {
                self.arrives(from, Body::Ack { md: ack_md, match_bits, mlength: 0 }, &[]);
            }
            _ => {}
        }
    }

    /// Answers all messages in transit, with the ping information in `who`.
    fn answer_all(&mut self, who: &[&[usize]]) {
        self.drive();
        while let Some(send) = self.sent.first() {
            let named = |nids: &&&[usize]| nids.iter().any(|nid| test_nid(*nid) == send.to.nid);
            let answer = who.iter().find(named).copied();
            let status = if answer.is_some() { Status::Ok } else { Status::ConnectionLost };
            self.finish(0, status, answer);
        }
    }

    fn link(&mut self, to: usize, event: LinkEvent) {
        let now = self.now;
        self.shard().link(now, NiIndex(0), process(to), event);
        self.drive();
    }

    fn discover(&mut self, nid: usize, who: &[&[usize]]) {
        let now = self.now;
        self.shard().discover(now, &test_nid(nid)).unwrap();
        self.answer_all(who);
    }

    fn put(&mut self, to: usize, user: u64) -> MdKey {
        let span = self.net.span(0, 8, 0);
        let md = self.net.bind(0, span, 1, user);
        let (now, args) = (self.now, put_args(md, process(to), 30, 1));
        self.shard().put(now, args).unwrap();
        self.drive();
        md
    }

    /// The messages in transit: pushes, pings and others, each with its target NID.
    fn outgoing(&self) -> Vec<(&'static str, usize)> {
        let what = |send: &SendAction| match send.header.body {
            Body::Get { .. } => "GET",
            Body::Put { portal: PING_PORTAL, .. } => "PUSH",
            Body::Put { .. } => "PUT",
            Body::Ack { .. } => "ACK",
            _ => "?",
        };
        let whom = |send: &SendAction| (0..=NIDS).find(|nid| test_nid(*nid) == send.to.nid);
        self.sent.iter().map(|send| (what(send), whom(send).unwrap())).collect()
    }

    fn state(&self, nid: usize) -> PeerState {
        self.net.nodes[0].shard.peer(&test_nid(nid)).unwrap().state
    }

    fn primary(&self, nid: usize) -> Option<Nid> {
        self.net.nodes[0].shard.peer(&test_nid(nid)).map(|peer| peer.primary)
    }

    fn together(&self, one: usize, other: usize) -> bool {
        let peers = &self.net.nodes[0].shard.peers;
        peers.owner(&test_nid(one)).is_some()
            && peers.owner(&test_nid(one)) == peers.owner(&test_nid(other))
    }
}

fn a_push() -> Body {
    Body::Put {
        ack_md: MdHandle::NONE,
        match_bits: PING_BITS,
        hdr_data: 0,
        portal: PING_PORTAL,
        offset: 0,
    }
}

fn usual() -> Features {
    Features::NI_STATUS | Features::RTE_DISABLED | Features::MULTI_RAIL | Features::DISCOVERY
}

#[test]
fn a_listed_nid_belongs_to_the_peer_before_it_is_used() {
    let mut alone = Alone::new(Tunables::default());
    alone.link(1, LinkEvent::Up);
    alone.discover(1, &[&[1, 2]]);
    assert!(alone.together(1, 2));
    // The other NID is pinged before its first message, and agrees. There is no further push.
    alone.put(2, 7);
    assert_eq!(alone.outgoing(), [("GET", 2)]);
    alone.finish(0, Status::Ok, Some(&[1, 2]));
    assert_eq!(alone.outgoing(), [("PUT", 2)]);
    assert!(alone.together(1, 2));
    assert_eq!(alone.primary(2), Some(test_nid(1)));
    alone.put(2, 8);
    assert_eq!(alone.outgoing(), [("PUT", 2), ("PUT", 2)], "once is enough");
    // A new list without it: it is a peer of its own again.
    alone.pushed(1, &[1, 3], usual());
    assert!(!alone.together(1, 2) && alone.together(1, 3));
    assert_eq!(alone.primary(2), Some(test_nid(2)));
}

#[test]
fn two_nids_pinged_at_once_are_one_peer_under_the_nodes_primary_nid() {
    let mut alone = Alone::new(Tunables::default());
    alone.link(1, LinkEvent::Up);
    alone.link(2, LinkEvent::Up);
    for (to, user) in [(1, 1), (2, 2), (2, 3)] {
        alone.put(to, user);
    }
    assert_eq!(alone.sent.len(), 2, "a ping each");
    // The second NID answers first.
    alone.finish(1, Status::Ok, Some(&[1, 2]));
    alone.answer_all(&[&[1, 2]]);
    assert!(alone.together(1, 2));
    assert_eq!(alone.primary(2), Some(test_nid(1)));
    let sent = alone.net.events(0).iter().filter(|event| event.status.is_ok()).count();
    assert_eq!(sent, 3, "no message was lost in the merge");
    alone.net.assert_quiet();
}

/// A node is known by one NID; then it gets a second one, and a new first one.
#[test]
fn a_new_primary_is_taken_unless_the_old_one_is_locked() {
    for (lock_prim_nid, primary) in [(1, 1), (0, 3)] {
        let mut alone = Alone::new(Tunables { lock_prim_nid, ..Tunables::default() });
        alone.discover(1, &[&[1]]);
        let now = alone.now;
        assert_eq!(alone.shard().primary_nid(now, &test_nid(1)), Ok(test_nid(1)));
        alone.pushed(1, &[3, 1], usual());
        assert_eq!(alone.primary(1), Some(test_nid(primary)));
        assert!(alone.together(1, 3));
        // The peer that owns the new primary NID is merged into a locked one, under the locked
        // one's primary NID.
        alone.discover(4, &[&[4, 1], &[3, 1]]);
        alone.pushed(4, &[4, 1, 3], usual());
        alone.pushed(1, &[4, 1, 3], usual());
        alone.answer_all(&[&[4, 1, 3]]);
        assert!(alone.together(1, 4));
        let primary = if lock_prim_nid == 1 { 1 } else { 4 };
        assert_eq!(alone.primary(4), Some(test_nid(primary)));
    }
}

/// The smallest table, and far more NIDs than it has room for.
#[test]
fn a_peer_whose_primary_nid_is_in_use_is_not_evicted() {
    for (lock_prim_nid, state) in [(1, Some(PeerState::Ready)), (0, None)] {
        let tunables = Tunables { lock_prim_nid, peers_max: 4, ..Tunables::default() };
        let mut alone = Alone::new(tunables);
        alone.discover(1, &[&[1]]);
        let now = alone.now;
        alone.shard().primary_nid(now, &test_nid(1)).unwrap();
        for other in 2..20 {
            alone.link(other, LinkEvent::Up);
            alone.link(other, LinkEvent::Down { status: Status::ConnectionLost });
        }
        assert_eq!(alone.shard().peer(&test_nid(1)).map(|peer| peer.state), state);
    }
}

#[test]
fn without_discovery_a_peer_is_a_single_nid() {
    let mut alone = Alone::new(Tunables::default());
    alone.discover(1, &[&[1, 2]]);
    assert!(alone.together(1, 2));
    // The first push creates it again, the second is accepted ([PING-13], [PING-15]).
    let without = usual() - Features::DISCOVERY;
    alone.pushed(1, &[1, 2], without);
    assert!(!alone.together(1, 2));
    assert_eq!(alone.state(1), PeerState::Unknown);
    alone.pushed(1, &[1, 2], without);
    assert_eq!(alone.state(1), PeerState::Ready);
    assert!(!alone.together(1, 2) && alone.sent.is_empty());
}

/// The same claim, and it is true: the existing node is pinged, and agrees.
#[test]
fn a_claim_that_is_confirmed_merges() {
    let mut alone = Alone::new(Tunables::default());
    alone.link(1, LinkEvent::Up);
    alone.link(2, LinkEvent::Up);
    alone.discover(1, &[&[1]]);
    alone.pushed(2, &[2, 1], usual());
    assert!(!alone.together(1, 2));
    assert_eq!(alone.outgoing(), [("GET", 1)], "is it true?");
    alone.put(1, 1);
    assert_eq!(alone.outgoing(), [("GET", 1), ("PUT", 1)], "messages flow meanwhile");
    alone.answer_all(&[&[2, 1]]);
    assert!(alone.together(1, 2));
    assert_eq!(alone.primary(1), Some(test_nid(2)));
}

/// A node that gains an interface, as in capture a7: one ping, and it is one peer.
#[test]
fn a_new_interface_joins_when_its_node_agrees() {
    let mut alone = Alone::new(Tunables::default());
    alone.link(1, LinkEvent::Up);
    alone.discover(1, &[&[1]]);
    alone.link(2, LinkEvent::Up);
    alone.pushed(2, &[1, 2], usual());
    assert!(!alone.together(1, 2));
    assert_eq!(alone.outgoing(), [("GET", 1)]);
    alone.answer_all(&[&[1, 2]]);
    assert!(alone.together(1, 2));
    assert_eq!(alone.primary(2), Some(test_nid(1)));
    alone.put(2, 1);
    assert_eq!(alone.outgoing(), [("PUT", 2)]);
}

/// A NID of a node that is gone may move to another peer, as with a kernel.
#[test]
fn a_nid_of_a_peer_that_is_gone_moves() {
    let mut alone = Alone::new(Tunables::default());
    alone.link(1, LinkEvent::Up);
    alone.discover(1, &[&[1, 2]]);
    alone.link(1, LinkEvent::Down { status: Status::ConnectionLost });
    alone.discover(4, &[&[4, 2]]);
    assert!(alone.together(2, 4) && !alone.together(1, 2));
    // What a NID reports about itself has precedence over what other peers reported about it.
    alone.pushed(2, &[2], usual());
    alone.answer_all(&[&[2], &[4]]);
    assert!(!alone.together(2, 4));
}
