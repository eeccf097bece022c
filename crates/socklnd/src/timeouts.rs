//! Everything that time does: handshakes that take too long, messages that waited too long, dials
//! that are due again, connections that stand still, keepalives [FRM-13], [SOCK-8], [SOCK-11].

use lustrine_lnet::lnd::Core;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_wire::hello::Version;

use crate::close_reason::{CloseReason, ProtocolViolation, Timeout};
use crate::config::KEEPALIVE_GAP;
use crate::conn::Phase;
use crate::driver::{Env, Socklnd};
use crate::io::Io;
use crate::keys::{ConnKey, PeerKey};
use crate::peer::Dial;

impl Socklnd {
    /// Does what is due by `now`. Cheap before [`next_deadline`](Socklnd::next_deadline).
    pub fn tick<I: Io, C: Core>(&mut self, now: Time, core: &mut C, io: &mut I) {
        let mut env = Env { now, core, io };
        self.expire_handshakes(&mut env);
        self.expire_waiting(&mut env);
        if now >= self.scan_at {
            self.scan(&mut env);
        }
    }

    /// When [`tick`](Socklnd::tick) has something to do next; [`Time::NEVER`] if only an event
    /// can bring that about.
    pub fn next_deadline(&self) -> Time {
        let shaking = self.handshakes_held() + self.outgoing != 0;
        let handshakes = if shaking { self.handshakes.earliest() } else { Time::NEVER };
        handshakes.min(self.waiting.earliest()).min(self.scan_at)
    }

    /// A connection in its handshake has until `deadline`.
    pub(crate) fn await_handshake(&mut self, key: ConnKey, deadline: Time) {
        self.handshakes.add(key, deadline);
        let conns = &self.conns;
        self.handshakes.compact(self.handshakes_held() + self.outgoing, |key, _| {
            conns.get(key).is_some_and(|conn| conn.open().is_none())
        });
    }

    /// A peer is to be looked at when `deadline` is past.
    pub(crate) fn await_until(&mut self, key: PeerKey, deadline: Time) {
        let peer = &mut self.peers[key];
        if peer.due <= deadline {
            return;
        }
        peer.due = deadline;
        self.waiting.add(key, deadline);
        let peers = &self.peers;
        self.waiting.compact(peers.len(), |key, deadline| {
            peers.get(key).is_some_and(|peer| peer.due == deadline)
        });
    }

    fn expire_handshakes<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>) {
        for (key, _) in self.handshakes.take_due(env.now) {
            let Some(conn) = self.conns.get(key) else { continue };
            if conn.open().is_some() {
                continue;
            }
            if conn.deadline > env.now {
                self.handshakes.add(key, conn.deadline);
                continue;
            }
            if let Phase::Claim(claim) = conn.phase {
                if let Err(reason) = self.end_claim(env, key, claim) {
                    self.fail(env, key, reason);
                }
                continue;
            }
            let reason = match conn.phase {
                Phase::Connecting(_) | Phase::Answer(_) => CloseReason::Timeout(Timeout::Dial),
                Phase::Closing => CloseReason::Asked(Status::TimedOut),
                _ => CloseReason::Violation(ProtocolViolation::SlowHandshake),
            };
            self.fail(env, key, reason);
        }
    }

    fn expire_waiting<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>) {
        for (key, due) in self.waiting.take_due(env.now) {
            let Some(peer) = self.peers.get_mut(key) else { continue };
            if peer.due != due {
                // It was, or will be, looked at by another entry.
                continue;
            }
            peer.due = Time::NEVER;
            let mut next = Time::NEVER;
            let expired = &mut self.counters.expired_waiting;
            let refused = peer.none_answers != 0 && peer.members.is_empty();
            let status = if refused { peer.refusal().status() } else { Status::TimedOut };
            peer.queue.retain(|send| {
                let waits = send.deadline > env.now;
                if waits {
                    next = next.min(send.deadline);
                } else {
                    *expired += 1;
                    env.core.done(env.now, send.op, status);
                }
                waits
            });
            let wanted = !(peer.queue.is_empty() && peer.members.is_empty());
            match peer.dial {
                Dial::Waiting(_) if !wanted => {
                    peer.dial = Dial::Idle;
                    peer.end_round();
                }
                Dial::Waiting(due) if due <= env.now => {
                    peer.dial = Dial::Idle;
                    self.dial(env, key);
                }
                Dial::Waiting(due) => next = next.min(due),
                Dial::Idle | Dial::Active(_) => {}
            }
            self.forget_if_idle(key);
            if next != Time::NEVER && self.peers.get(key).is_some() {
                self.await_until(key, next);
            }
        }
        let peers = &self.peers;
        self.waiting.skip_stale(|key, due| peers.get(key).is_some_and(|peer| peer.due == due));
    }

    /// The look at all connections and peers.
    fn scan<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>) {
        let limit = env.now - self.timing.sock_timeout;
        let idle_since = env.now - self.timing.scan;
        let mut stalled: Vec<(ConnKey, CloseReason)> = Vec::new();
        for (key, conn) in &mut self.conns {
            if let Some(timeout) = conn.stall(env.now, &self.timing) {
                stalled.push((key, CloseReason::Timeout(timeout)));
            } else if conn.open().is_some_and(|open| open.last_sent < idle_since) {
                conn.tx.release();
            }
            conn.look(env.now, &self.timing);
        }
        for (key, reason) in stalled {
            self.fail(env, key, reason);
        }
        for key in self.peers.keys() {
            let peer = &self.peers[key];
            if peer.zero_copy.overdue(limit) {
                self.close_peer(env, key, CloseReason::Timeout(Timeout::ZeroCopy));
            } else if self.keepalive_due(env.now, key) && self.keep_alive(env.io, env.now, key) {
                self.peers[key].last_keepalive = env.now;
            }
        }
        let open = self.conns.len() > self.handshakes_held() + self.outgoing;
        self.scan_at = if open { env.now + self.timing.scan } else { Time::NEVER };
    }

    /// Whether a peer has been silent for so long that it is to be reminded [FRM-13].
    fn keepalive_due(&self, now: Time, key: PeerKey) -> bool {
        let peer = &self.peers[key];
        let Some(keepalive) = self.timing.keepalive else { return false };
        !peer.members.is_empty()
            && peer.history.version >= Some(Version::V3)
            && now.since(peer.last_received) >= keepalive
            && (peer.last_keepalive == Time::ZERO
                || now.since(peer.last_keepalive) >= KEEPALIVE_GAP)
    }
}
