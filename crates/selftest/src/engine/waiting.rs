//! Requests that wait: in order for each peer, and the peers in turn.

use std::collections::{HashMap, VecDeque};

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
    /// Nothing was left for the first one: nobody may overtake it.
    starved: bool,
}

impl Waiting {
    /// Requests of all peers.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Requests of one peer.
    pub(super) fn of(&self, peer: &Nid) -> u32 {
        self.peers.get(peer).map_or(0, VecDeque::len) as u32
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
        queue.push_back(request);
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
            let served = before - queue.len();
            self.len -= served as u32;
            if queue.is_empty() {
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
