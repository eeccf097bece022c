//! What others say of a target: that it restarted or moved, and whether it is to be used
//! [IMP-15] [IMP-16].

use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::nid::ProcessId;

use super::{Action, Deactivated, Import, ImportState};
use crate::request::RpcError;
use crate::xid::XidSource;

/// Most peers of a target. Others are left out: what the management server says grows nothing.
pub(super) const PEERS_MAX: usize = 64;

/// After so long a server has committed that a client has disconnected. One that restarts before
/// may know the client still, and waits for it in its recovery [IMP-14].
const IDLE_COMMITTED: Nanos = Nanos::from_secs(30);

impl Import {
    /// Adds peers at which the target can be, behind those that are known. At most 64 are kept.
    pub fn add_peers(&mut self, peers: &[ProcessId]) {
        for peer in peers {
            if self.args.peers.len() < PEERS_MAX && !self.has_peer(peer) {
                self.args.peers.push(*peer);
            }
        }
    }

    /// Takes what the management server's table of NIDs says of the target: where it is, the
    /// preferred NID first, and how often it was started (`instance`). If that is another start
    /// than the one that granted the connection, it connects again at once [IMP-15]. An import that
    /// has been idle for half a minute, or was deactivated, does so when it is used again.
    ///
    /// Whether it connects now.
    pub fn target_started(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        peers: &[ProcessId],
        instance: u32,
    ) -> bool {
        let is_there = peers.iter().any(|peer| peer.nid == self.peer().nid);
        let connected = matches!(
            self.state,
            ImportState::Replay
                | ImportState::ReplayLocks
                | ImportState::ReplayWait
                | ImportState::Recover
                | ImportState::Evicted
                | ImportState::Full
        );
        // Who granted the connection is alive, wherever it is.
        let knows = connected && [0, instance].contains(&self.granted.instance);
        if peers.is_empty() || self.state == ImportState::Closed || knows && is_there {
            return false;
        }
        if connected && self.granted.instance == instance {
            self.add_peers(peers);
            return false;
        }
        if !is_there {
            self.prefer(peers);
        } else if self.state == ImportState::Connecting && self.granted.instance == 0 {
            // The first CONNECT is under way to where the target is: a second one would be refused
            // while the server works on the first.
            return false;
        }
        if self.deactivated.is_some() {
            return false;
        }
        self.tried = 0;
        self.reconnect_delay = self.tunables.reconnect_delay_min;
        match self.state {
            ImportState::Closed | ImportState::New => return false,
            // The server has committed the disconnect long ago, and does not wait for this client.
            ImportState::Idle if now.since(self.last_used) > IDLE_COMMITTED => return false,
            ImportState::Disconn | ImportState::Idle => self.connect(now, xids),
            ImportState::Connecting => {
                // What is in flight may have been sent to the one that is gone.
                if let Some(key) = self.connect.take() {
                    self.retract(key);
                    self.finish(key, Err(RpcError::Closed));
                }
                self.try_connect(now, xids);
            }
            _ => self.disconnected(now, xids),
        }
        true
    }

    /// Puts peers before all others, and makes the first of them the present one.
    fn prefer(&mut self, peers: &[ProcessId]) {
        let mut all: Vec<ProcessId> = Vec::with_capacity(PEERS_MAX);
        for peer in peers.iter().chain(&self.args.peers) {
            if all.len() < PEERS_MAX && !all.iter().any(|known| known.nid == peer.nid) {
                all.push(*peer);
            }
        }
        self.args.peers = all;
        self.current = 0;
    }

    /// Whether the target is used. With `false` (Lustre's parameter `active`) all requests fail at
    /// once ([`RpcError::Inactive`]), those in flight included, and [`Action::Evicted`] says that
    /// locks, open files and unwritten data are void. With `true` it connects again [IMP-16].
    pub fn set_active(&mut self, now: Time, xids: &mut XidSource, active: bool) {
        if self.state == ImportState::Closed {
            return;
        }
        if active {
            if self.deactivated.is_some() {
                self.connect(now, xids);
            }
            return;
        }
        if self.deactivated.is_some() {
            return;
        }
        self.going_idle = false;
        self.reconnect_at = Time::NEVER;
        self.deactivated = Some(Deactivated::Inactive);
        self.actions.push_back(Action::Evicted);
        self.fail_all(RpcError::Inactive, false);
        self.set_state(ImportState::Disconn);
    }

    /// Whether requests fail because the target is not to be used, or refuses this client.
    pub fn is_deactivated(&self) -> bool {
        self.deactivated.is_some()
    }
}
