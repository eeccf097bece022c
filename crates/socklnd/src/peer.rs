//! The state of one peer on one interface, and of peers without connections.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::FixedState;
use lustrine_lnet::lnd::{NiIndex, SendAction};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::header::MdHandle;
use lustrine_wire::hello::{ConnType, Version};
use lustrine_wire::nid::ProcessId;
use slotmap::SlotMap;
use smallvec::SmallVec;

use crate::close_reason::{CloseReason, ProtocolViolation};
use crate::keys::{ConnKey, PeerKey};
use crate::zc::ZeroCopy;

/// Largest number of zero-copy acknowledgements owed to one peer at once: far more than any
/// sender's credits.
const ACKS_MAX: usize = 1024;

const _: () = assert!(size_of::<Peer>() <= 512);

/// Most requests of one peer whose answers are to take the connections that it dialled: far more
/// than any sender's credits. Of more, the oldest is forgotten.
const UNANSWERED_MAX: usize = 1024;

/// Whose connections are meant. Only a userland node has both kinds with one peer: to the peer,
/// which renames it, they belong to two processes [USR-9].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    /// Those of this node's process, dialled by either side; a userland node dials them itself.
    Own,
    /// Those that the peer has dialled to the NID of a userland node.
    Served,
}

/// A process on a NID, as reached through one interface, and whose connections with it are meant.
pub(crate) type PeerName = (NiIndex, ProcessId, Side);

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
    /// The last incarnation of the process that the core was told of, the same under all its names.
    noted: Option<u64>,
    /// Back-off after hard failures: the last interval and when the next dial is allowed.
    pub(crate) interval: Nanos,
    pub(crate) not_before: Time,
    /// Why the last dial failed, until one succeeds.
    pub(crate) failure: Option<Status>,
    /// How often its dials were answered NONE since one was accepted: those from the address in
    /// its NID, and from any other [SOCK-18].
    pub(crate) refused: u8,
    pub(crate) refused_elsewhere: u8,
}

impl PeerHistory {
    const NOTHING: PeerHistory = PeerHistory {
        version: None,
        incarnation: None,
        noted: None,
        interval: Nanos(0),
        not_before: Time::ZERO,
        failure: None,
        refused: 0,
        refused_elsewhere: 0,
    };

    fn was_refused(&self) -> bool {
        (self.refused, self.refused_elsewhere) != (0, 0)
    }
}

/// A peer: a process on a NID, as reached through one interface.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: ProcessId,
    pub(crate) ni: NiIndex,
    pub(crate) side: Side,
    pub(crate) history: PeerHistory,
    /// Open connections, dialled by either side.
    pub(crate) members: SmallVec<[PeerConn; 3]>,
    /// Messages that no connection can take now, oldest first.
    pub(crate) queue: VecDeque<SendAction>,
    /// Cookies to acknowledge.
    pub(crate) acks: VecDeque<u64>,
    /// On the served side: where the answers to its requests go, oldest request first.
    pub(crate) unanswered: VecDeque<MdHandle>,
    pub(crate) zero_copy: ZeroCopy,
    pub(crate) dial: Dial,
    /// When the present round of dials began.
    pub(crate) round: Option<Time>,
    /// When a dial of the peer was last refused because this node was dialling it.
    pub(crate) race_won: Option<Time>,
    /// NONE answers in a row, with this node's version, and closes that count as one [SOCK-20].
    pub(crate) none_answers: u8,
    /// Whether one of them was an answer, and not a close.
    pub(crate) said_none: bool,
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
    fn new((ni, id, side): PeerName, history: PeerHistory) -> Peer {
        Peer {
            id,
            ni,
            side,
            history,
            members: SmallVec::new(),
            queue: VecDeque::new(),
            acks: VecDeque::new(),
            unanswered: VecDeque::new(),
            zero_copy: ZeroCopy::new(),
            dial: Dial::Idle,
            round: None,
            race_won: None,
            none_answers: 0,
            said_none: false,
            version_changes: 0,
            at_limit: false,
            complete: id.is_userland() || side == Side::Served,
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

    /// Whether this node may dial it: a userland peer has dialled itself, or is not reached, and so
    /// has one that a userland node serves.
    pub(crate) fn may_be_dialled(&self) -> bool {
        self.side == Side::Own && !self.id.is_userland()
    }

    /// Whether there is at least one connection of each type.
    pub(crate) fn has_each_type(&self) -> bool {
        let typed = [ConnType::Control, ConnType::BulkIn, ConnType::BulkOut];
        typed.iter().all(|kind| self.count(*kind) >= 1)
    }

    /// A request has arrived whose answer is to take the connections of the served side.
    pub(crate) fn expect_answer(&mut self, md: MdHandle) {
        if self.unanswered.len() >= UNANSWERED_MAX {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(md);
    }

    /// Whether an answer with this handle is expected; it is no longer.
    pub(crate) fn take_expected(&mut self, md: &MdHandle) -> bool {
        let place = self.unanswered.iter().position(|expected| expected == md);
        place.is_some_and(|place| self.unanswered.remove(place).is_some())
    }

    /// A round of dials is over, successful or not.
    pub(crate) fn end_round(&mut self) {
        self.round = None;
        self.accepted();
        self.version_changes = 0;
    }

    /// A dial of either side was accepted, or the round is over.
    pub(crate) fn accepted(&mut self) {
        self.none_answers = 0;
        self.said_none = false;
    }

    /// Why a round fails in which the peer has refused.
    pub(crate) fn refusal(&self) -> CloseReason {
        if self.said_none { CloseReason::Busy } else { CloseReason::Rejected }
    }

    /// Whether a dial that the peer closes without a HELLO may succeed later: it has answered NONE,
    /// or has accepted this node before, so that it may have no NONE left [SOCK-18], [SOCK-20].
    pub(crate) fn may_accept_later(&self) -> bool {
        self.none_answers != 0 || self.history.incarnation.is_some()
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

/// The names that a process may have.
fn names(id: ProcessId, nis: usize) -> impl Iterator<Item = PeerName> {
    let nis = (0..nis).map(|ni| NiIndex(ni as u16));
    nis.flat_map(move |ni| [Side::Own, Side::Served].map(|side| (ni, id, side)))
}

/// All peers, and a bounded memory of those without connections.
#[derive(Debug)]
pub(crate) struct Peers {
    present: SlotMap<PeerKey, Peer>,
    index: HashMap<PeerName, PeerKey, FixedState>,
    /// With when it was put there, by a clock that counts what is put there.
    absent: HashMap<PeerName, (u64, PeerHistory), FixedState>,
    /// What was put into `absent`, by age; some may be gone, or may be there anew.
    absent_order: VecDeque<(u64, PeerName)>,
    absent_max: usize,
    absent_clock: u64,
    /// Whether a peer was forgotten that had been refused, so that any may be the one [SOCK-18].
    forgot_refusals: bool,
}

impl Peers {
    pub(crate) fn new(absent_max: usize, seed: u64) -> Peers {
        Peers {
            present: SlotMap::with_key(),
            index: HashMap::with_hasher(FixedState::with_seed(seed)),
            absent: HashMap::with_hasher(FixedState::with_seed(seed)),
            absent_order: VecDeque::new(),
            absent_max,
            absent_clock: 0,
            forgot_refusals: false,
        }
    }

    pub(crate) fn find(&self, ni: NiIndex, id: ProcessId, side: Side) -> Option<PeerKey> {
        self.index.get(&(ni, id, side)).copied()
    }

    #[inline]
    pub(crate) fn find_or_add(&mut self, ni: NiIndex, id: ProcessId, side: Side) -> PeerKey {
        // Each message asks for a peer that is there, which is cheaper to find than an entry.
        self.find(ni, id, side).unwrap_or_else(|| self.add((ni, id, side)))
    }

    #[cold]
    fn add(&mut self, name: PeerName) -> PeerKey {
        let known = self.absent.remove(&name).map(|(_, history)| history);
        let refused = if self.forgot_refusals { u8::MAX } else { 0 };
        let unknown = PeerHistory { refused, refused_elsewhere: refused, ..PeerHistory::NOTHING };
        let history = known.unwrap_or(unknown);
        let key = self.present.insert(Peer::new(name, history));
        self.index.insert(name, key);
        key
    }

    /// The peers that are this process, at `nis` interfaces and on both sides. The core knows it as
    /// one.
    pub(crate) fn names_of(&self, id: ProcessId, nis: usize) -> SmallVec<[PeerKey; 4]> {
        names(id, nis).filter_map(|name| self.index.get(&name).copied()).collect()
    }

    /// The last incarnation of a process that was noted.
    pub(crate) fn noted(&self, id: ProcessId, nis: usize) -> Option<u64> {
        names(id, nis).find_map(|name| match self.index.get(&name) {
            Some(key) => self.present[*key].history.noted,
            None => self.absent.get(&name).and_then(|(_, history)| history.noted),
        })
    }

    /// Notes the incarnation of a process, under all its names. Whether another one was noted
    /// before: then the core is to be told that the process has restarted, once.
    pub(crate) fn note(&mut self, id: ProcessId, nis: usize, incarnation: u64) -> bool {
        let before = self.noted(id, nis);
        for name in names(id, nis) {
            let history = match self.index.get(&name) {
                Some(key) => Some(&mut self.present[*key].history),
                None => self.absent.get_mut(&name).map(|(_, history)| history),
            };
            if let Some(history) = history {
                history.noted = Some(incarnation);
            }
        }
        before.is_some_and(|before| before != incarnation)
    }

    /// Removes the state of peers without connections.
    pub(crate) fn forget_absent(&mut self, lost: impl Fn(NiIndex, &ProcessId) -> bool) {
        self.absent.retain(|(ni, id, _), (_, history)| {
            let lost = lost(*ni, id);
            self.forgot_refusals |= lost && history.was_refused();
            !lost
        });
        self.absent_order.retain(|(_, (ni, id, _))| !lost(*ni, id));
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
        let name = (peer.ni, peer.id, peer.side);
        self.index.remove(&name);
        if peer.id.is_userland() {
            return;
        }
        if self.absent_max == 0 {
            self.forgot_refusals |= peer.history.was_refused();
            return;
        }
        self.absent_clock += 1;
        self.absent.insert(name, (self.absent_clock, peer.history));
        self.absent_order.push_back((self.absent_clock, name));
        while self.absent.len() > self.absent_max {
            let Some((since, oldest)) = self.absent_order.pop_front() else { break };
            if self.is_absent_since(&oldest, since)
                && let Some((_, history)) = self.absent.remove(&oldest)
            {
                self.forgot_refusals |= history.was_refused();
            }
        }
        if self.absent_order.len() > 2 * self.absent_max {
            let mut order = core::mem::take(&mut self.absent_order);
            order.retain(|(since, name)| self.is_absent_since(name, *since));
            self.absent_order = order;
        }
    }

    fn is_absent_since(&self, name: &PeerName, since: u64) -> bool {
        self.absent.get(name).is_some_and(|(found, _)| *found == since)
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
        let hashes: std::collections::HashSet<u64> = (0..10_000)
            .map(|number| {
                peers.index.hasher().hash_one((hostile(number).0, hostile(number).1, Side::Own))
            })
            .collect();
        assert!(hashes.len() > 9990, "{} of 10000", hashes.len());
    }

    #[test]
    fn memory_of_absent_peers_is_bounded_and_recalled() {
        let mut peers = Peers::new(10, 1);
        for number in 0..1000 {
            let key = peers.find_or_add(NiIndex(0), process(number), Side::Own);
            peers[key].history.incarnation = Some(u64::from(number));
            peers.forget(key);
            assert!(peers.absent.len() <= 10 && peers.absent_order.len() <= 20);
        }
        assert_eq!(peers.len(), 0);
        let known = peers.find_or_add(NiIndex(0), process(999), Side::Own);
        assert_eq!(peers[known].history.incarnation, Some(999));
        let lost = peers.find_or_add(NiIndex(0), process(1), Side::Own);
        assert_eq!(peers[lost].history, PeerHistory::NOTHING);
        let elsewhere = peers.find_or_add(NiIndex(1), process(999), Side::Own);
        assert_eq!(peers[elsewhere].history, PeerHistory::NOTHING);
    }

    #[test]
    fn repeated_connections_do_not_fill_the_order() {
        let mut peers = Peers::new(10, 1);
        for round in 0..1000 {
            let key = peers.find_or_add(NiIndex(0), process(1), Side::Own);
            assert_eq!(peers[key].history.incarnation, (round != 0).then_some(7), "{round}");
            peers[key].history.incarnation = Some(7);
            peers.forget(key);
        }
        assert!(peers.absent_order.len() <= 20);
    }

    /// [SOCK-18]
    #[test]
    fn who_may_have_been_refused_and_forgotten_counts_as_refused() {
        for (absent_max, refused, others) in [(10, 1, 9), (10, 1, 10), (10, 0, 10), (0, 1, 0)] {
            let mut peers = Peers::new(absent_max, 1);
            let key = peers.find_or_add(NiIndex(0), process(0), Side::Own);
            peers[key].history.refused = refused;
            peers.forget(key);
            for number in 1..=others {
                let key = peers.find_or_add(NiIndex(0), process(number), Side::Own);
                peers.forget(key);
            }
            let forgotten = refused != 0 && others as usize >= absent_max;
            let stranger = peers.find_or_add(NiIndex(0), process(99), Side::Own);
            assert_eq!(peers[stranger].history.was_refused(), forgotten);
        }
    }

    #[test]
    fn renamed_peers_leave_no_state() {
        let mut peers = Peers::new(10, 1);
        let id = ProcessId { pid: PID_USERLAND | 40_000, ..process(1) };
        let key = peers.find_or_add(NiIndex(0), id, Side::Own);
        assert!(peers[key].complete, "a renamed peer is never dialled");
        peers.forget(key);
        assert!(peers.absent.is_empty() && peers.find(NiIndex(0), id, Side::Own).is_none());
    }
}
