//! What earlier messages reveal about the payload of later ones.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use foldhash::fast::FixedState;
use lustrine_fswire::rpc::Kind;
use lustrine_wire::header::MdHandle;
use lustrine_wire::{ByteOrder, Nid};

use crate::event::Bulk;

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
    /// Data of an RPC.
    Bulk(Bulk),
}

/// A request that may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) kind: Kind,
    pub(crate) xid: u64,
    pub(crate) time_ns: u64,
    /// Replies stand behind the room for early replies.
    pub(crate) has_early_replies: bool,
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
    /// Requests of the RPC layer, by client, server and the match bits of their replies.
    requests: Recent<(Nid, Nid, u64), Pending>,
    /// Memory for bulk of the RPC layer, by its owner and match bits.
    bulk: Recent<(Nid, u64), Bulk>,
    /// The capture time of what is being decoded, in nanoseconds since 1970.
    pub(crate) now_ns: u64,
}

impl Correlations {
    pub(crate) fn new() -> Correlations {
        Correlations {
            replies: Recent::new(),
            buffers: Recent::new(),
            requests: Recent::new(),
            bulk: Recent::new(),
            now_ns: 0,
        }
    }

    /// A request of `client` to `server` may be answered under these match bits.
    pub(crate) fn expect_rpc_reply(
        &mut self,
        client: Nid,
        server: Nid,
        match_bits: u64,
        request: Pending,
    ) {
        self.requests.insert((client, server, match_bits), request);
    }

    /// The request that a reply belongs to.
    pub(crate) fn request(&self, client: Nid, server: Nid, match_bits: u64) -> Option<Pending> {
        self.requests.map.get(&(client, server, match_bits)).copied()
    }

    /// `client` has set up memory for bulk.
    pub(crate) fn expect_bulk(&mut self, client: Nid, match_bits: u64, bulk: Bulk) {
        self.bulk.insert((client, match_bits), bulk);
    }

    /// What the memory of `client` is for.
    pub(crate) fn bulk(&self, client: Nid, match_bits: u64) -> Option<Bulk> {
        self.bulk.map.get(&(client, match_bits)).copied()
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
