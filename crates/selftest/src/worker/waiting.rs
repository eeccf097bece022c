//! Requests that wait: in order for each peer, and the peers in turn.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use foldhash::fast::FixedState;
use lustrine_wire::nid::Nid;

use super::request::{Request, Served};

/// The requests of one peer that wait; never none.
#[derive(Debug)]
struct Queue {
    /// The place of its peer among the others.
    turn: u64,
    requests: VecDeque<Request>,
}

/// Requests of one kind that wait. The caller limits their number.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    peers: HashMap<Nid, Queue, FixedState>,
    /// Every peer that has a queue, once; the first is next.
    turns: BTreeMap<u64, Nid>,
    /// The last turn given out.
    last_turn: u64,
    len: u32,
    /// The lengths of all queues; of equal ones the last in turn comes last.
    lengths: BTreeSet<(usize, u64)>,
    /// Nothing was left for the first one: no other may overtake it.
    starved: bool,
}

impl Waiting {
    /// Requests of all peers.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Requests of the peer that has most.
    pub(super) fn longest(&self) -> usize {
        self.lengths.last().map_or(0, |(length, _)| *length)
    }

    /// The peer that has most, and of several the last in turn, loses its newest request.
    pub(super) fn drop_one(&mut self) {
        let Some((length, turn)) = self.lengths.pop_last() else { return };
        let peer = self.turns[&turn];
        if let Some(queue) = self.peers.get_mut(&peer) {
            queue.requests.pop_back();
            self.len -= 1;
        }
        if length > 1 {
            self.lengths.insert((length - 1, turn));
        } else {
            self.peers.remove(&peer);
            self.turns.remove(&turn);
        }
        // Who is not there cannot be overtaken.
        self.starved &= self.len != 0;
    }

    /// Takes out the requests that came by this peer's connection and are `gone`; how many.
    pub(super) fn withdraw(&mut self, peer: &Nid, gone: impl Fn(&Request) -> bool) -> u32 {
        let Some(queue) = self.peers.get_mut(peer) else { return 0 };
        let (turn, before) = (queue.turn, queue.requests.len());
        queue.requests.retain(|request| !gone(request));
        let left = queue.requests.len();
        let found = (before - left) as u32;
        self.len -= found;
        self.lengths.remove(&(before, turn));
        if left == 0 {
            self.peers.remove(peer);
            self.turns.remove(&turn);
        } else {
            self.lengths.insert((left, turn));
        }
        self.starved &= self.len != 0;
        found
    }

    /// Whether a new request of this peer would overtake one that waits for the same thing.
    pub(super) fn must_queue(&self, peer: &Nid) -> bool {
        self.starved || self.peers.contains_key(peer)
    }

    /// Adds a request that could not be served because of `why`.
    pub(super) fn push(&mut self, request: Request, why: Served) {
        let peer = request.hop;
        let queue = self.peers.entry(peer).or_insert_with(|| {
            self.last_turn += 1;
            self.turns.insert(self.last_turn, peer);
            Queue { turn: self.last_turn, requests: VecDeque::new() }
        });
        self.lengths.remove(&(queue.requests.len(), queue.turn));
        queue.requests.push_back(request);
        self.lengths.insert((queue.requests.len(), queue.turn));
        self.len += 1;
        self.starved |= why == Served::AllWait;
    }

    /// Serves what can be served: each peer until it has its share.
    pub(super) fn serve(&mut self, mut serve: impl FnMut(&Request) -> Served) {
        self.starved = false;
        for _ in 0..self.turns.len() {
            let Some((turn, peer)) = self.turns.pop_first() else { return };
            let Some(queue) = self.peers.get_mut(&peer) else { continue };
            let before = queue.requests.len();
            let mut outcome = Served::Done;
            while let Some(request) = queue.requests.front() {
                outcome = serve(request);
                if outcome != Served::Done {
                    break;
                }
                queue.requests.pop_front();
            }
            let left = queue.requests.len();
            self.len -= (before - left) as u32;
            self.lengths.remove(&(before, turn));
            if left == 0 {
                self.peers.remove(&peer);
            } else {
                if outcome != Served::AllWait || left != before {
                    // It has had its turn; otherwise it keeps it.
                    self.last_turn += 1;
                    queue.turn = self.last_turn;
                }
                self.lengths.insert((left, queue.turn));
                self.turns.insert(queue.turn, peer);
            }
            if outcome == Served::AllWait {
                self.starved = true;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
