//! What each peer has of the answer slots, of the slots of framework requests and of the bulk
//! memory: a part, never all. A peer is a NID; its processes share.
//!
//! Nothing that a peer holds can be taken from it again before its time-out, so what counts is
//! what is left for the others then: the second half of everything goes in small portions only.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use lustrine_wire::nid::Nid;

use crate::bulk::Budget;
use crate::limits::{ANSWERS_KEPT, ANSWERS_MAX, FRAMEWORK_KEPT, FRAMEWORK_MAX, PEER_PART};

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    answers: u32,
    /// Framework requests in flight.
    framework: u32,
    /// Bytes of bulk memory, as the budget counts them.
    memory: u64,
}

/// The peers that have anything at all, at most as many as there are slots of both kinds.
#[derive(Debug, Default)]
pub(super) struct Shares {
    peers: HashMap<Nid, Share, FixedState>,
}

impl Shares {
    fn of(&self, peer: &Nid) -> Share {
        self.peers.get(peer).copied().unwrap_or_default()
    }

    /// Whether a peer may have another of the answer slots, of which `taken` are in use.
    pub(super) fn may_answer(&self, peer: &Nid, taken: u32) -> bool {
        let own = self.of(peer).answers;
        own < ANSWERS_KEPT || own < ANSWERS_MAX / PEER_PART && taken < ANSWERS_MAX / 2
    }

    /// Whether a peer may have another framework request in flight, of which there are `taken`.
    pub(super) fn may_ask(&self, peer: &Nid, taken: u32) -> bool {
        let own = self.of(peer).framework;
        own < FRAMEWORK_KEPT || own < FRAMEWORK_MAX / PEER_PART && taken < FRAMEWORK_MAX / 2
    }

    /// Whether a peer may have `size` more bytes of memory. One that has none may.
    pub(super) fn may_hold(&self, peer: &Nid, size: u64, budget: &Budget) -> bool {
        let held = self.of(peer).memory;
        held == 0
            || held + size <= budget.limit() / u64::from(PEER_PART) && budget.leaves_half(size)
    }

    pub(super) fn answer_began(&mut self, peer: &Nid) {
        self.peers.entry(*peer).or_default().answers += 1;
    }

    pub(super) fn answer_ended(&mut self, peer: &Nid) {
        self.reduce(peer, |share| share.answers -= 1);
    }

    pub(super) fn request_began(&mut self, peer: &Nid) {
        self.peers.entry(*peer).or_default().framework += 1;
    }

    pub(super) fn request_ended(&mut self, peer: &Nid) {
        self.reduce(peer, |share| share.framework -= 1);
    }

    pub(super) fn hold(&mut self, peer: &Nid, size: u64) {
        self.peers.entry(*peer).or_default().memory += size;
    }

    pub(super) fn let_go(&mut self, peer: &Nid, size: u64) {
        self.reduce(peer, |share| share.memory -= size);
    }

    fn reduce(&mut self, peer: &Nid, by: impl FnOnce(&mut Share)) {
        let Some(share) = self.peers.get_mut(peer) else { return };
        by(share);
        if share.answers == 0 && share.framework == 0 && share.memory == 0 {
            self.peers.remove(peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use lustrine_lnet::memory::VecMemory;
    use lustrine_lnet_testing::test_nid;

    use super::*;
    use crate::bulk::Term;

    #[test]
    fn a_peer_gets_a_quarter_and_nobody_is_remembered_for_nothing() {
        let (one, other) = (test_nid(0), test_nid(1));
        let mut shares = Shares::default();
        for _ in 0..ANSWERS_MAX / 4 {
            assert!(shares.may_answer(&one, 0));
            shares.answer_began(&one);
        }
        assert!(!shares.may_answer(&one, 0) && shares.may_answer(&other, 0));
        shares.answer_ended(&one);
        assert!(shares.may_answer(&one, 0));
        for _ in 1..ANSWERS_MAX / 4 {
            shares.answer_ended(&one);
        }
        assert!(shares.peers.is_empty());
    }

    /// 64 peers take what they can get and give nothing back; four of them could once take all.
    #[test]
    fn a_peer_that_comes_late_gets_its_share() {
        let mut memory = VecMemory::default();
        let (mut shares, mut budget) = (Shares::default(), Budget::new(256, 1));
        let (size, mut taken) = (1 << 20, 0);
        for greedy in 0..64 {
            let peer = test_nid(greedy);
            while shares.may_answer(&peer, taken) && taken < ANSWERS_MAX {
                shares.answer_began(&peer);
                taken += 1;
            }
            while shares.may_hold(&peer, size, &budget)
                && budget.take(&mut memory, size as u32, Term::Rpc).is_some()
            {
                shares.hold(&peer, size);
            }
        }
        let late = test_nid(64);
        for _ in 0..ANSWERS_KEPT {
            assert!(shares.may_answer(&late, taken) && taken < ANSWERS_MAX);
            shares.answer_began(&late);
            taken += 1;
        }
        assert!(shares.may_hold(&late, size, &budget));
        assert!(budget.take(&mut memory, size as u32, Term::Rpc).is_some());
    }

    /// Peers take all the slots of framework requests that they can get, and give none back.
    #[test]
    fn a_peer_that_asks_late_is_heard() {
        let (mut shares, mut taken) = (Shares::default(), 0);
        for greedy in 0..64 {
            let peer = test_nid(greedy);
            while shares.may_ask(&peer, taken) {
                shares.request_began(&peer);
                taken += 1;
            }
            assert!(shares.of(&peer).framework <= FRAMEWORK_MAX / 4, "{taken} are taken");
        }
        assert!(taken + FRAMEWORK_KEPT <= FRAMEWORK_MAX, "{taken} are taken");
        let late = test_nid(64);
        assert!(shares.may_ask(&late, taken));
        shares.request_began(&late);
        shares.request_ended(&late);
        assert_eq!(shares.peers.len(), 64);
    }

    #[test]
    fn a_peer_without_memory_gets_what_it_asks_for() {
        let (one, other) = (test_nid(0), test_nid(1));
        let mut shares = Shares::default();
        let budget = Budget::new(16, 1);
        let limit = budget.limit();
        assert!(shares.may_hold(&one, limit, &budget), "one is always possible");
        shares.hold(&one, limit / 8);
        assert!(shares.may_hold(&one, limit / 8, &budget));
        assert!(!shares.may_hold(&one, limit / 8 + 1, &budget));
        assert!(shares.may_hold(&other, limit / 4, &budget));
        shares.let_go(&one, limit / 8);
        assert!(shares.peers.is_empty());
    }
}
