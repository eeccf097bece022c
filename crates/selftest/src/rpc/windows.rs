//! How much may be under way to each peer.

use core::time::Duration;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::FixedState;
use lustrine_congestion::{Class, Controller, Limits, Ticket, View};
use lustrine_lnet::time::{Time, WallClock};
use lustrine_wire::nid::ProcessId;
use lustrine_wire::srpc::Message;

use super::RpcError;

/// Peers whose window is remembered while nothing is under way to them.
const REMEMBERED_MAX: usize = 4096;

/// The window to a peer is full. One of its RPCs has to end before another may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowFull;

/// A window for each peer that was called.
#[derive(Debug)]
pub(crate) struct Windows {
    wall: WallClock,
    peers: HashMap<ProcessId, Controller, FixedState>,
}

impl Windows {
    /// No peers yet. Windows are probed together with those of other nodes, by the wall clock.
    pub(crate) fn new(wall: WallClock) -> Windows {
        Windows { wall, peers: HashMap::with_hasher(FixedState::default()) }
    }

    /// Takes an RPC into the window that is to be sent now.
    pub(crate) fn admit(
        &mut self,
        now: Time,
        peer: ProcessId,
        class: Class,
    ) -> Result<Ticket, WindowFull> {
        let at = self.at(now);
        if self.peers.len() >= REMEMBERED_MAX && !self.peers.contains_key(&peer) {
            self.peers.retain(|_, window| window.view().in_flight > 0);
        }
        let window = self.peers.entry(peer).or_insert_with(|| Controller::new(Limits::default()));
        window.admit(at, class).ok_or(WindowFull)
    }

    /// An RPC is over.
    pub(crate) fn end(
        &mut self,
        now: Time,
        peer: ProcessId,
        ticket: Ticket,
        outcome: &Result<Message, RpcError>,
    ) {
        let at = self.at(now);
        let Entry::Occupied(mut window) = self.peers.entry(peer) else { return };
        let window = window.get_mut();
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
        self.peers.get(peer).map(Controller::view)
    }

    fn at(&self, now: Time) -> Duration {
        Duration::from_nanos(self.wall.at(now).0)
    }
}
