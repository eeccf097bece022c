//! Arbitrary claims in arbitrary order.

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Push { from: usize, nids: Vec<usize>, bits: u8 },
    Put(usize),
    Link(usize, u8),
    Discover(usize),
    Lock(usize),
    Finish { at: usize, fate: u8, nids: Vec<usize> },
    Unlink(usize),
    Wait,
}

fn nids() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0..=NIDS, 0..6)
}

fn step() -> impl Strategy<Value = Step> {
    let nid = || 1..=NIDS;
    prop_oneof![
        6 => (nid(), nids(), any::<u8>())
            .prop_map(|(from, nids, bits)| Step::Push { from, nids, bits }),
        4 => nid().prop_map(Step::Put),
        4 => (nid(), 0u8..4).prop_map(|(nid, what)| Step::Link(nid, what)),
        1 => nid().prop_map(Step::Discover),
        1 => nid().prop_map(Step::Lock),
        8 => (any::<usize>(), 0u8..8, nids())
            .prop_map(|(at, fate, nids)| Step::Finish { at, fate, nids }),
        1 => any::<usize>().prop_map(Step::Unlink),
        1 => Just(Step::Wait),
    ]
}

proptest! {
    /// For all reports of peers about each other and about this node, in any order: each NID
    /// belongs to one peer, each primary NID to its own peer, the table stays bounded
    /// (`assert_whole`, after every step), and no message is lost.
    #[test]
    fn arbitrary_claims(
        steps in proptest::collection::vec(step(), 1..120),
        small in any::<bool>(),
        discovery in prop_oneof![4 => Just(1), 1 => Just(0)],
    ) {
        // The smaller table evicts all the time.
        let peers_max = if small { 4 } else { 1000 };
        let mut alone = Alone::new(Tunables { peers_max, discovery, ..Tunables::default() });
        let mut mds = Vec::new();
        for step in steps {
            let now = alone.now;
            match step {
                Step::Push { from, nids, bits } => {
                    let mut features = usual();
                    features.set(Features::DISCOVERY, bits % 8 != 1);
                    features.set(Features::MULTI_RAIL, bits % 8 != 2);
                    // In most cases they report themselves.
                    let mut nids = nids;
                    if bits % 16 > 3 {
                        nids.insert(usize::from(bits) % (nids.len() + 1), from);
                    }
                    alone.pushed(from, &nids, features);
                }
                Step::Put(to) => mds.push(alone.put(to, mds.len() as u64)),
                Step::Link(to, what) => alone.link(to, match what {
                    0 | 1 => LinkEvent::Up,
                    2 => LinkEvent::Down { status: Status::ConnectionLost },
                    _ => LinkEvent::Restarted,
                }),
                Step::Discover(nid) => {
                    let _full = alone.shard().discover(now, &test_nid(nid));
                }
                Step::Lock(nid) => {
                    let _full = alone.shard().primary_nid(now, &test_nid(nid));
                }
                Step::Finish { at, fate, mut nids } if !alone.sent.is_empty() => {
                    let at = at % alone.sent.len();
                    nids.push(1 + at % NIDS);
                    let status = if fate == 0 { Status::ConnectionLost } else { Status::Ok };
                    alone.finish(at, status, (fate > 1).then_some(&nids));
                }
                Step::Unlink(at) if !mds.is_empty() => {
                    let md = mds[at % mds.len()];
                    alone.shard().unlink(now, md);
                }
                Step::Wait => alone.now = now + Nanos::from_secs(30),
                Step::Finish { .. } | Step::Unlink(_) => {}
            }
            alone.drive();
        }
        for _ in 0..10 {
            alone.answer_all(&[]);
            alone.now = alone.now + Nanos::from_secs(200);
            let (now, node) = (alone.now, &mut alone.net.nodes[0]);
            node.shard.drive(now, &mut node.memory);
        }
        alone.answer_all(&[]);
        let mut finals = vec![0; mds.len()];
        for event in alone.net.events(0) {
            finals[event.user as usize] += u32::from(event.unlinked);
        }
        prop_assert!(finals.iter().all(|count| *count == 1), "{:?}", finals);
        alone.net.assert_quiet();
        let mut peers = alone.shard().peers.peers.values();
        prop_assert!(peers.all(|peer| !peer.recheck_in_flight && !peer.update_in_flight));
    }
}
