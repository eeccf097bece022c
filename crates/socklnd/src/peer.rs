//! The state of one peer on one interface, and of peers without connections.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::FixedState;
use lustrine_lnet::lnd::{NiIndex, SendAction};
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::hello::{ConnType, Version};
use lustrine_wire::nid::ProcessId;
use slotmap::{SlotMap, new_key_type};
use smallvec::SmallVec;

use crate::close_reason::ProtocolViolation;
use crate::conn::ConnKey;
use crate::zc::ZeroCopy;

new_key_type! {
    /// A peer of this driver.
    pub(crate) struct PeerKey;
}

/// Largest number of zero-copy acknowledgements owed to one peer at once: far more than any
/// sender's credits.
const ACKS_MAX: usize = 1024;

const _: () = assert!(size_of::<Peer>() <= 512);

/// An open connection of a peer, with what is needed to choose among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerConn {
    pub(crate) conn: ConnKey,
    pub(crate) kind: ConnType,
}

/// The state of the dialler for a peer [SOCK-1], [SOCK-8].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dial {
    /// Idle.
    Idle,
    /// The next dial is due then.
    Waiting(Time),
    /// This connection is being opened.
    Active(ConnKey),
}

/// The state that is kept of a peer without connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerHistory {
    /// The version it used, or requested.
    pub(crate) version: Option<Version>,
    /// Its last known incarnation.
    pub(crate) incarnation: Option<u64>,
    /// Back-off after hard failures: the last interval and when the next dial is allowed.
    pub(crate) interval: Nanos,
    pub(crate) not_before: Time,
}

impl PeerHistory {
    const NOTHING: PeerHistory = PeerHistory {
        version: None,
        incarnation: None,
        interval: Nanos(0),
        not_before: Time::ZERO,
    };
}

/// A peer: a process on a NID, as reached through one interface.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: ProcessId,
    pub(crate) ni: NiIndex,
    pub(crate) history: PeerHistory,
    /// Open connections, dialled by either side.
    pub(crate) members: SmallVec<[PeerConn; 3]>,
    /// Messages that no connection can take now, oldest first.
    pub(crate) queue: VecDeque<SendAction>,
    /// Cookies to acknowledge.
    pub(crate) acks: VecDeque<u64>,
    pub(crate) zero_copy: ZeroCopy,
    pub(crate) dial: Dial,
    /// When the present round of dials began.
    pub(crate) round: Option<Time>,
    /// NONE answers in a row, with this node's version.
    pub(crate) none_answers: u8,
    /// Answers in this round that named another version.
    pub(crate) version_changes: u8,
    /// The peer accepts no more connections than there are (capture f12).
    pub(crate) at_limit: bool,
    /// Whether no connection is missing.
    pub(crate) complete: bool,
    /// Whether it is on the list of peers to dial, or of those owed acknowledgements.
    pub(crate) dial_requested: bool,
    pub(crate) acks_requested: bool,
    /// When it is checked next; [`Time::NEVER`] if it is not in the timer queue.
    pub(crate) due: Time,
    /// A HELLO that claims to be this peer and waits until its connections are tested.
    pub(crate) claim: Option<ConnKey>,
    /// Until then the peer may still be opening connections to us.
    pub(crate) dialling_until: Time,
    /// When anything was last received, and when a keepalive was last sent.
    pub(crate) last_received: Time,
    pub(crate) last_keepalive: Time,
}

impl Peer {
    fn new(ni: NiIndex, id: ProcessId, history: PeerHistory) -> Peer {
        Peer {
            id,
            ni,
            history,
            members: SmallVec::new(),
            queue: VecDeque::new(),
            acks: VecDeque::new(),
            zero_copy: ZeroCopy::new(),
            dial: Dial::Idle,
            round: None,
            none_answers: 0,
            version_changes: 0,
            at_limit: false,
            complete: id.is_userland(),
            dial_requested: false,
            acks_requested: false,
            due: Time::NEVER,
            claim: None,
            dialling_until: Time::ZERO,
            last_received: Time::ZERO,
            last_keepalive: Time::ZERO,
        }
    }

    /// The number of open connections of a type.
    pub(crate) fn count(&self, kind: ConnType) -> usize {
        self.members.iter().filter(|member| member.kind == kind).count()
    }

    /// A round of dials is over, successful or not.
    pub(crate) fn end_round(&mut self) {
        self.round = None;
        self.none_answers = 0;
        self.version_changes = 0;
    }

    /// A cookie to acknowledge.
    pub(crate) fn owe_ack(&mut self, cookie: u64) -> Result<(), ProtocolViolation> {
        if self.acks.len() >= ACKS_MAX {
            return Err(ProtocolViolation::AckBacklog);
        }
        self.acks.push_back(cookie);
        Ok(())
    }

    /// Whether no state would be lost by removing it.
    pub(crate) fn idle(&self) -> bool {
        self.members.is_empty()
            && self.queue.is_empty()
            && self.dial == Dial::Idle
            && self.zero_copy.len() == 0
    }
}

/// All peers, and a bounded memory of those without connections.
#[derive(Debug)]
pub(crate) struct Peers {
    present: SlotMap<PeerKey, Peer>,
    index: HashMap<(NiIndex, ProcessId), PeerKey, FixedState>,
    absent: HashMap<(NiIndex, ProcessId), PeerHistory, FixedState>,
    /// Keys of `absent` by age; some may be gone.
    absent_order: VecDeque<(NiIndex, ProcessId)>,
    absent_max: usize,
}

impl Peers {
    pub(crate) fn new(absent_max: usize, seed: u64) -> Peers {
        Peers {
            present: SlotMap::with_key(),
            index: HashMap::with_hasher(FixedState::with_seed(seed)),
            absent: HashMap::with_hasher(FixedState::with_seed(seed)),
            absent_order: VecDeque::new(),
            absent_max,
        }
    }

    pub(crate) fn find(&self, ni: NiIndex, id: ProcessId) -> Option<PeerKey> {
        self.index.get(&(ni, id)).copied()
    }

    #[inline]
    pub(crate) fn find_or_add(&mut self, ni: NiIndex, id: ProcessId) -> PeerKey {
        // Each message asks for a peer that is there, which is cheaper to find than an entry.
        self.find(ni, id).unwrap_or_else(|| self.add(ni, id))
    }

    #[cold]
    fn add(&mut self, ni: NiIndex, id: ProcessId) -> PeerKey {
        let history = self.absent.remove(&(ni, id)).unwrap_or(PeerHistory::NOTHING);
        let key = self.present.insert(Peer::new(ni, id, history));
        self.index.insert((ni, id), key);
        key
    }

    /// Removes the state of peers without connections.
    pub(crate) fn forget_absent(&mut self, lost: impl Fn(NiIndex, &ProcessId) -> bool) {
        self.absent.retain(|(ni, id), _| !lost(*ni, id));
        self.absent_order.retain(|(ni, id)| !lost(*ni, id));
    }

    pub(crate) fn get(&self, key: PeerKey) -> Option<&Peer> {
        self.present.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: PeerKey) -> Option<&mut Peer> {
        self.present.get_mut(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PeerKey, &Peer)> {
        self.present.iter()
    }

    pub(crate) fn keys(&self) -> Vec<PeerKey> {
        self.present.keys().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.present.len()
    }

    /// Removes an idle peer except for the state that is kept. A renamed peer never returns.
    pub(crate) fn forget(&mut self, key: PeerKey) {
        let Some(peer) = self.present.remove(key) else { return };
        let name = (peer.ni, peer.id);
        self.index.remove(&name);
        if peer.id.is_userland() || self.absent_max == 0 {
            return;
        }
        if self.absent.insert(name, peer.history).is_none() {
            self.absent_order.push_back(name);
        }
        while self.absent.len() > self.absent_max || self.absent_order.len() > 2 * self.absent_max {
            let Some(oldest) = self.absent_order.pop_front() else { break };
            self.absent.remove(&oldest);
        }
    }
}

impl core::ops::Index<PeerKey> for Peers {
    type Output = Peer;
    fn index(&self, key: PeerKey) -> &Peer {
        &self.present[key]
    }
}

impl core::ops::IndexMut<PeerKey> for Peers {
    fn index_mut(&mut self, key: PeerKey) -> &mut Peer {
        &mut self.present[key]
    }
}

#[cfg(test)]
mod tests {
    use lustrine_wire::nid::{Net, Nid, PID_USERLAND};

    use super::*;

    fn process(number: u32) -> ProcessId {
        ProcessId::lustre(Nid::new4(Net::TCP, number))
    }

    /// As the core's table, with the process id after the NID.
    #[test]
    fn peers_that_meet_a_constant_of_the_hasher_hash_apart() {
        use core::hash::BuildHasher;
        let peers = Peers::new(10, 7);
        let hostile = |number: u32| {
            let mut address = [0; 16];
            address[4..12].copy_from_slice(&0xc0ac_29b7_c97c_50dd_u64.to_ne_bytes());
            address[12..].copy_from_slice(&number.to_ne_bytes());
            let pid = PID_USERLAND | number.rotate_left(7);
            (NiIndex(0), ProcessId { nid: Nid::new6(Net::TCP, address), pid })
        };
        let hashes: std::collections::HashSet<u64> =
            (0..10_000).map(|number| peers.index.hasher().hash_one(hostile(number))).collect();
        assert!(hashes.len() > 9990, "{} of 10000", hashes.len());
    }

    #[test]
    fn memory_of_absent_peers_is_bounded_and_recalled() {
        let mut peers = Peers::new(10, 1);
        for number in 0..1000 {
            let key = peers.find_or_add(NiIndex(0), process(number));
            peers[key].history.incarnation = Some(u64::from(number));
            peers.forget(key);
            assert!(peers.absent.len() <= 10 && peers.absent_order.len() <= 20);
        }
        assert_eq!(peers.len(), 0);
        let known = peers.find_or_add(NiIndex(0), process(999));
        assert_eq!(peers[known].history.incarnation, Some(999));
        let lost = peers.find_or_add(NiIndex(0), process(1));
        assert_eq!(peers[lost].history, PeerHistory::NOTHING);
        let elsewhere = peers.find_or_add(NiIndex(1), process(999));
        assert_eq!(peers[elsewhere].history, PeerHistory::NOTHING);
    }

    #[test]
    fn repeated_connections_do_not_fill_the_order() {
        let mut peers = Peers::new(10, 1);
        for _ in 0..1000 {
            let key = peers.find_or_add(NiIndex(0), process(1));
            peers.forget(key);
        }
        assert!(peers.absent_order.len() <= 20);
    }

    #[test]
    fn renamed_peers_leave_no_state() {
        let mut peers = Peers::new(10, 1);
        let id = ProcessId { pid: PID_USERLAND | 40_000, ..process(1) };
        let key = peers.find_or_add(NiIndex(0), id);
        assert!(peers[key].complete, "a renamed peer is never dialled");
        peers.forget(key);
        assert!(peers.absent.is_empty() && peers.find(NiIndex(0), id).is_none());
    }
}
