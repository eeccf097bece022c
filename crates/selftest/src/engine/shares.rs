//! What each peer has of the answer slots and of the bulk memory: a part, never all. A peer is
//! a NID; its processes share.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use lustrine_wire::nid::Nid;

use crate::limits::{ANSWERS_MAX, PEER_PART};

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    answers: u32,
    /// Bytes of bulk memory, as the budget counts them.
    memory: u64,
}

/// The peers that have anything at all, at most as many as there are answers.
#[derive(Debug, Default)]
pub(super) struct Shares {
    peers: HashMap<Nid, Share, FixedState>,
}

impl Shares {
    fn of(&self, peer: &Nid) -> Share {
        self.peers.get(peer).copied().unwrap_or_default()
    }

    /// Whether a peer may have another answer slot.
    pub(super) fn may_answer(&self, peer: &Nid) -> bool {
        self.of(peer).answers < ANSWERS_MAX / PEER_PART
    }

    /// Whether a peer may have `size` more bytes of the `limit` there are. One that has none may.
    pub(super) fn may_hold(&self, peer: &Nid, size: u64, limit: u64) -> bool {
        let held = self.of(peer).memory;
        held == 0 || held + size <= limit / u64::from(PEER_PART)
    }

    pub(super) fn answer_began(&mut self, peer: &Nid) {
        self.peers.entry(*peer).or_default().answers += 1;
    }

    pub(super) fn answer_ended(&mut self, peer: &Nid) {
        self.reduce(peer, |share| share.answers -= 1);
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
        if share.answers == 0 && share.memory == 0 {
            self.peers.remove(peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use lustrine_lnet::testing::test_nid;

    use super::*;

    #[test]
    fn a_peer_gets_a_quarter_and_nobody_is_remembered_for_nothing() {
        let (one, other) = (test_nid(0), test_nid(1));
        let mut shares = Shares::default();
        for _ in 0..ANSWERS_MAX / 4 {
            assert!(shares.may_answer(&one));
            shares.answer_began(&one);
        }
        assert!(!shares.may_answer(&one) && shares.may_answer(&other));
        shares.answer_ended(&one);
        assert!(shares.may_answer(&one));
        for _ in 1..ANSWERS_MAX / 4 {
            shares.answer_ended(&one);
        }
        assert!(shares.peers.is_empty());
    }

    #[test]
    fn a_peer_without_memory_gets_what_it_asks_for() {
        let (one, other) = (test_nid(0), test_nid(1));
        let mut shares = Shares::default();
        assert!(shares.may_hold(&one, 60, 100), "one is always possible");
        shares.hold(&one, 10);
        assert!(shares.may_hold(&one, 15, 100) && !shares.may_hold(&one, 16, 100));
        assert!(shares.may_hold(&other, 25, 100));
        shares.let_go(&one, 10);
        assert!(shares.peers.is_empty());
    }
}
