//! Requests that wait: in order for each peer, and the peers in turn.

use std::collections::{BTreeSet, HashMap, VecDeque};

use foldhash::fast::FixedState;
use lustrine_wire::nid::Nid;

use super::answers::Request;

/// What became of an attempt to serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// It is dealt with.
    Done,
    /// Its peer has its share already.
    PeerWaits,
    /// There is nothing left for anybody.
    AllWait,
}

/// Requests of one kind that wait. The caller limits their number.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Never an empty queue.
    peers: HashMap<Nid, VecDeque<Request>, FixedState>,
    /// Every peer that has a queue, once; the first is next.
    turns: VecDeque<Nid>,
    len: u32,
    /// The lengths of all queues, with their peers.
    lengths: BTreeSet<(usize, Nid)>,
    /// Nothing was left for the first one: nobody may overtake it.
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

    /// The peer that has most loses its newest request.
    pub(super) fn drop_one(&mut self) {
        let Some((length, peer)) = self.lengths.pop_last() else { return };
        let Some(queue) = self.peers.get_mut(&peer) else { return };
        queue.pop_back();
        self.len -= 1;
        if length > 1 {
            self.lengths.insert((length - 1, peer));
        } else {
            self.peers.remove(&peer);
            self.turns.retain(|other| *other != peer);
        }
        // Who is not there cannot be overtaken.
        self.starved &= self.len != 0;
    }

    /// Whether a new request of this peer would overtake one that waits for the same thing.
    pub(super) fn must_queue(&self, peer: &Nid) -> bool {
        self.starved || self.peers.contains_key(peer)
    }

    /// Adds a request that could not be served because of `why`.
    pub(super) fn push(&mut self, request: Request, why: Served) {
        let peer = request.from.nid;
        let queue = self.peers.entry(peer).or_default();
        if queue.is_empty() {
            self.turns.push_back(peer);
        }
        self.lengths.remove(&(queue.len(), peer));
        queue.push_back(request);
        self.lengths.insert((queue.len(), peer));
        self.len += 1;
        self.starved |= why == Served::AllWait;
    }

    /// Serves what can be served: each peer until it has its share.
    pub(super) fn serve(&mut self, mut serve: impl FnMut(&Request) -> Served) {
        self.starved = false;
        for _ in 0..self.turns.len() {
            let Some(peer) = self.turns.pop_front() else { return };
            let Some(queue) = self.peers.get_mut(&peer) else { continue };
            let before = queue.len();
            let mut outcome = Served::Done;
            while let Some(request) = queue.front() {
                outcome = serve(request);
                if outcome != Served::Done {
                    break;
                }
                queue.pop_front();
            }
            let (served, left) = (before - queue.len(), queue.len());
            self.len -= served as u32;
            if served > 0 {
                self.lengths.remove(&(before, peer));
                self.lengths.extend((left > 0).then_some((left, peer)));
            }
            if left == 0 {
                self.peers.remove(&peer);
            } else if outcome == Served::AllWait && served == 0 {
                // It keeps its turn.
                self.turns.push_front(peer);
            } else {
                self.turns.push_back(peer);
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
