//! How much may be in flight to each peer.

use core::time::Duration;
use std::collections::{BTreeSet, HashMap, VecDeque};

use foldhash::fast::FixedState;
use lustrine_congestion::{Class, Controller, Limits, Ticket, View, Wait};
use lustrine_lnet::time::{Nanos, Time, WallClock};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::Message;

use super::RpcError;

/// Peers whose window is remembered while nothing is in flight to them.
const REMEMBERED_MAX: usize = 4096;
/// Peers that are looked at for each new one, to find one that can be forgotten.
const LOOKED_AT: usize = 4;

/// The window to a peer has no room now. One of its RPCs has to end before another may begin, or
/// [`Windows::take_due_peer`] returns the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// The window to a peer to which RPCs are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerWindow {
    /// The peer's NID.
    pub peer: Nid,
    /// Bytes that may be in flight to it.
    pub bytes: u64,
    /// Bytes that are.
    pub in_flight: u64,
}

#[derive(Debug)]
struct Peer {
    window: Controller,
    /// When it is due again, if an RPC to it waits for that.
    due: Option<Time>,
}

/// A window for each peer that was called.
#[derive(Debug)]
pub(crate) struct Windows {
    wall: WallClock,
    peers: HashMap<ProcessId, Peer, FixedState>,
    /// The peers that are due at a time.
    due: BTreeSet<(Time, ProcessId)>,
    /// The peers; at the front the one that was not looked at for longest.
    order: VecDeque<ProcessId>,
    /// The tickets of RPCs in flight, by their slots.
    tickets: Vec<Option<Ticket>>,
}

impl Windows {
    /// No peers yet. Windows are probed together with those of other nodes, by the wall clock.
    pub(crate) fn new(wall: WallClock) -> Windows {
        let peers = HashMap::with_hasher(FixedState::default());
        let (due, order, tickets) = (BTreeSet::new(), VecDeque::new(), Vec::new());
        Windows { wall, peers, due, order, tickets }
    }

    /// Takes an RPC into the window that is to be sent now.
    pub(crate) fn admit(
        &mut self,
        now: Time,
        peer: ProcessId,
        class: Class,
    ) -> Result<Ticket, NoRoom> {
        let at = self.at(now);
        if !self.peers.contains_key(&peer) {
            self.forget_idle();
            self.order.push_back(peer);
        }
        let new = || Peer { window: Controller::new(Limits::default()), due: None };
        let known = self.peers.entry(peer).or_insert_with(new);
        let wait = match known.window.admit(at, class) {
            Ok(ticket) => return Ok(ticket),
            Err(Wait::Full) => return Err(NoRoom),
            Err(Wait::For(wait)) => wait,
        };
        let due = now + Nanos::saturating_from(wait);
        if known.due.is_none_or(|before| due < before) {
            if let Some(before) = known.due.replace(due) {
                self.due.remove(&(before, peer));
            }
            self.due.insert((due, peer));
        }
        Err(NoRoom)
    }

    /// When [`Windows::take_due_peer`] returns a peer at the earliest.
    pub(crate) fn next_due(&self) -> Time {
        self.due.first().map_or(Time::NEVER, |(due, _)| *due)
    }

    /// A peer whose window may have room again because the time of an RPC has come.
    pub(crate) fn take_due_peer(&mut self, now: Time) -> Option<ProcessId> {
        let (due, peer) = *self.due.first()?;
        if due > now {
            return None;
        }
        self.due.pop_first();
        if let Some(known) = self.peers.get_mut(&peer) {
            known.due = None;
        }
        Some(peer)
    }

    /// Makes room for a peer: looks at a few, and forgets those to which nothing is in flight. If
    /// that is none of them, there are more than [`REMEMBERED_MAX`] for a while.
    fn forget_idle(&mut self) {
        for _ in 0..LOOKED_AT {
            if self.peers.len() < REMEMBERED_MAX {
                return;
            }
            let Some(peer) = self.order.pop_front() else { return };
            if self.peers.get(&peer).is_some_and(|known| known.window.view().in_flight > 0) {
                self.order.push_back(peer);
            } else if let Some(due) = self.peers.remove(&peer).and_then(|known| known.due) {
                self.due.remove(&(due, peer));
            }
        }
    }

    /// Keeps the ticket of an RPC that was sent.
    pub(crate) fn hold(&mut self, slot: u32, ticket: Ticket) {
        let at = slot as usize;
        if self.tickets.len() <= at {
            self.tickets.resize_with(at + 1, || None);
        }
        self.tickets[at] = Some(ticket);
    }

    /// The RPC of a slot is over; it had a ticket, or none.
    pub(crate) fn end_held(
        &mut self,
        now: Time,
        peer: ProcessId,
        slot: u32,
        outcome: &Result<Message, RpcError>,
    ) {
        if let Some(ticket) = self.tickets.get_mut(slot as usize).and_then(Option::take) {
            self.end(now, peer, ticket, outcome);
        }
    }

    /// An RPC is over, or was not sent.
    pub(crate) fn end(
        &mut self,
        now: Time,
        peer: ProcessId,
        ticket: Ticket,
        outcome: &Result<Message, RpcError>,
    ) {
        let at = self.at(now);
        let Some(Peer { window, .. }) = self.peers.get_mut(&peer) else { return };
        match outcome {
            Ok(_) => window.done(at, ticket),
            Err(
                RpcError::TimedOut
                | RpcError::PeerLost(_)
                | RpcError::Send(_)
                | RpcError::Bulk(_)
                | RpcError::Receive(_),
            ) => window.failed(at, ticket),
            Err(RpcError::Local(_) | RpcError::BadReply | RpcError::Aborted) => {
                window.abandoned(ticket);
            }
        }
    }

    /// What is known of the path to a peer.
    pub(crate) fn view(&self, peer: &ProcessId) -> Option<View> {
        self.peers.get(peer).map(|known| known.window.view())
    }

    /// The windows to peers to which RPCs are in flight, in no order.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = PeerWindow> + '_ {
        let in_use = |(peer, known): (&ProcessId, &Peer)| {
            let View { window: bytes, in_flight, .. } = known.window.view();
            (in_flight > 0).then_some(PeerWindow { peer: peer.nid, bytes, in_flight })
        };
        self.peers.iter().filter_map(in_use)
    }

    fn at(&self, now: Time) -> Duration {
        Duration::from_nanos(self.wall.at(now).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u32) -> ProcessId {
        let nid =
            Nid::from_ip(lustrine_wire::nid::Net::TCP, core::net::Ipv4Addr::from(number).into());
        ProcessId::lustre(nid)
    }

    #[test]
    fn a_peer_is_due_when_its_rpc_may_be_sent() {
        let mut windows = Windows::new(WallClock::from_secs(1));
        let class = Class::new(0, 1 << 20);
        let (mut now, reply) = (Time(1), Err(RpcError::Aborted));
        // A round of 50 ms: then the pace is known.
        let ticket = windows.admit(now, peer(1), class).expect("the first one");
        let second = windows.admit(now, peer(1), class).expect("the second one");
        now = now + Nanos::from_millis(50);
        for ticket in [ticket, second] {
            let window = &mut windows.peers.get_mut(&peer(1)).expect("it is known").window;
            window.done(Duration::from_nanos(windows.wall.at(now).0), ticket);
        }
        let mut held = Vec::new();
        while let Ok(ticket) = windows.admit(now, peer(1), class) {
            held.push(ticket);
        }
        let due = windows.next_due();
        assert!(due > now && due < now + Nanos::from_millis(50), "{due:?}");
        assert_eq!(windows.take_due_peer(now), None);
        assert_eq!(windows.take_due_peer(due), Some(peer(1)));
        assert_eq!(windows.next_due(), Time::NEVER);
        held.push(windows.admit(due, peer(1), class).expect("its time has come"));
        // A peer that is forgotten is not due.
        assert_eq!(windows.admit(due, peer(1), class), Err(NoRoom));
        for ticket in held {
            windows.end(due, peer(1), ticket, &reply);
        }
        for number in 2..2 * REMEMBERED_MAX as u32 {
            let ticket = windows.admit(due, peer(number), class).expect("the first one");
            windows.end(due, peer(number), ticket, &reply);
        }
        assert_eq!(windows.next_due(), Time::NEVER);
    }

    #[test]
    fn idle_peers_are_forgotten_one_after_another() {
        let mut windows = Windows::new(WallClock::from_secs(1));
        let class = Class::new(0, 0);
        let now = Time(1);
        let mut held = Vec::new();
        for number in 0..3 * REMEMBERED_MAX as u32 {
            let ticket = windows.admit(now, peer(number), class).expect("the first one");
            match number % 4 {
                0 => held.push((peer(number), ticket)),
                _ => windows.end(now, peer(number), ticket, &Err(RpcError::Aborted)),
            }
        }
        assert!(windows.peers.len() <= REMEMBERED_MAX, "{}", windows.peers.len());
        assert_eq!(windows.peers.len(), windows.order.len());
        // Windows that are not in use say nothing.
        let mut in_use: Vec<Nid> = windows.in_use().map(|window| window.peer).collect();
        in_use.sort();
        let mut called: Vec<Nid> = held.iter().map(|(peer, _)| peer.nid).collect();
        called.sort();
        assert_eq!(in_use, called);
        for (peer, ticket) in held {
            assert!(windows.view(&peer).is_some_and(|window| window.in_flight > 0));
            windows.end(now, peer, ticket, &Err(RpcError::Aborted));
        }
    }
}
