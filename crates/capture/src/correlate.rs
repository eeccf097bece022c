//! What earlier messages reveal about the payload of later ones.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use foldhash::fast::FixedState;
use lustrine_wire::header::MdHandle;
use lustrine_wire::{ByteOrder, Nid};

/// The number of exchanges of each kind that are remembered.
const REMEMBERED_MAX: usize = 1 << 16;

/// What a transfer will carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Ping info.
    Ping,
    /// A reply of selftest.
    SrpcReply,
    /// Destinations of a selftest client, in the byte order of the request.
    Destinations(ByteOrder),
    /// Data of a bulk test.
    TestData,
}

/// A map that forgets the oldest entries when it is full.
#[derive(Debug)]
struct Recent<K, V> {
    map: HashMap<K, V, FixedState>,
    age: VecDeque<K>,
}

impl<K: Hash + Eq + Copy, V> Recent<K, V> {
    fn new() -> Recent<K, V> {
        Recent { map: HashMap::with_hasher(FixedState::default()), age: VecDeque::new() }
    }

    fn insert(&mut self, key: K, value: V) {
        if self.map.insert(key, value).is_some() {
            return;
        }
        self.age.push_back(key);
        if self.age.len() > REMEMBERED_MAX
            && let Some(oldest) = self.age.pop_front()
        {
            self.map.remove(&oldest);
        }
    }
}

/// The requests seen on all streams.
#[derive(Debug)]
pub(crate) struct Correlations {
    /// By the node that sent the GET and the handle in it.
    replies: Recent<(Nid, MdHandle), Expected>,
    /// By the owner of the buffer and the match bits on selftest's reply portal.
    buffers: Recent<(Nid, u64), Expected>,
}

impl Correlations {
    pub(crate) fn new() -> Correlations {
        Correlations { replies: Recent::new(), buffers: Recent::new() }
    }

    /// A GET of `requester` will be answered with `expected`.
    pub(crate) fn expect_reply(&mut self, requester: Nid, md: MdHandle, expected: Expected) {
        self.replies.insert((requester, md), expected);
    }

    /// What the REPLY to `requester` with this handle carries.
    pub(crate) fn reply(&self, requester: Nid, md: MdHandle) -> Option<Expected> {
        self.replies.map.get(&(requester, md)).copied()
    }

    /// `owner` has set up a buffer for a PUT or GET of another node.
    pub(crate) fn expect_transfer(&mut self, owner: Nid, match_bits: u64, expected: Expected) {
        self.buffers.insert((owner, match_bits), expected);
    }

    /// The purpose of the buffer of `owner`.
    pub(crate) fn transfer(&self, owner: Nid, match_bits: u64) -> Option<Expected> {
        self.buffers.map.get(&(owner, match_bits)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_is_forgotten() {
        let mut recent = Recent::new();
        for key in 0..=REMEMBERED_MAX {
            recent.insert(key, ());
        }
        recent.insert(1, ());
        assert_eq!((recent.map.len(), recent.age.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
        assert!(!recent.map.contains_key(&0) && recent.map.contains_key(&REMEMBERED_MAX));
    }
}
