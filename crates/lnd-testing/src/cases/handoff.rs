//! Hand-overs to the home of a peer, for drivers that take connections in on one CPU partition.
//! Node 1 has four.

use lustrine_lnet::lnd::LinkEvent;
use lustrine_lnet::topology::home_of;

use crate::model::{ModelCore, PlannedVerdict};
use crate::testbed::{Setup, Testbed, nid_of};
use crate::world::{Message, World, payload, process};

const CPTS: u16 = 4;

/// Each peer's messages arrive at its home, all of them, whole and in order, also those that were
/// sent together with the first one; no other partition hears of the peer.
pub fn a_peer_is_handed_to_its_home<T: Testbed>() {
    // Node 0 and the nodes from 2 on connect to node 1.
    let peers: Vec<usize> = [0].into_iter().chain(2..16).collect();
    let setup = Setup { nodes: 16, cpts: CPTS, ..Setup::default() };
    let mut world = World::<T>::new(&setup);
    let home = |peer: usize| home_of(&nid_of(peer, 0), CPTS);
    let lens = [0, 100, 4096, 300_000];
    for peer in &peers {
        for (key, len) in (1..).zip(lens) {
            let cpt = home(*peer);
            world.bed.with(1, cpt, |core, memory| {
                let span = memory.alloc(len).expect("memory for a test");
                core.plan(
                    1000 * *peer as u64 + key,
                    PlannedVerdict::Into([span].into_iter().collect()),
                );
            });
            world.send(Message::put(*peer, 1, 1000 * *peer as u64 + key, len));
        }
    }
    world.run(lustrine_lnet::time::Nanos::from_secs(5));
    let mut used = [false; CPTS as usize];
    for cpt in 0..CPTS {
        let of_core = |core: &mut ModelCore| (core.received.clone(), core.links.clone());
        let (received, links) = world.bed.with(1, cpt, |core, _| of_core(core));
        let here: Vec<usize> = peers.iter().copied().filter(|peer| home(*peer) == cpt).collect();
        used[usize::from(cpt)] = !here.is_empty();
        assert_eq!(received.len(), here.len() * lens.len(), "partition {cpt}");
        assert_eq!(links.len(), here.len(), "partition {cpt}");
        for peer in here {
            let link = links.iter().find(|link| link.peer == process(peer, 0));
            assert_eq!(link.expect("a link").event, LinkEvent::Up);
            for (key, len) in (1..).zip(lens) {
                let key = 1000 * peer as u64 + key;
                let found = received.iter().find(|received| received.key == key);
                let bytes = found.and_then(|received| received.bytes.clone());
                assert!(bytes == Some(payload(key, len)), "message {key}");
            }
            let keys: Vec<u64> = received.iter().map(|received| received.key).collect();
            let small = [1, 2].map(|key| 1000 * peer as u64 + key);
            let at = small.map(|key| keys.iter().position(|other| *other == key));
            assert!(at[0] < at[1], "small messages of node {peer} are in order");
        }
        let open = world.bed.with(1, cpt, |core, _| core.open_ops());
        assert_eq!(open, 0, "partition {cpt}");
    }
    assert!(used.into_iter().filter(|used| *used).count() > 1, "all peers have the same home");
    world.finish();
}
