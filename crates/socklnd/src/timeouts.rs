//! Everything that time does: handshakes that take too long, messages that waited too long, dials
//! that are due again, connections that stand still, keepalives (wire 3.5, 4.8, 4.9).

use lustrine_lnet::lnd::Core;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_wire::hello::Version;

use crate::config::KEEPALIVE_GAP;
use crate::conn::{Conn, ConnKey, Phase};
use crate::driver::{Outside, Socklnd};
use crate::fault::{Misdeed, Timeout, Why};
use crate::io::Io;
use crate::peer::{Dial, PeerKey};

impl Socklnd {
    /// Does what is due by `now`. Cheap before [`next_deadline`](Socklnd::next_deadline).
    pub fn tick<I: Io, C: Core>(&mut self, now: Time, core: &mut C, io: &mut I) {
        let mut out = Outside { now, core, io };
        self.review_handshakes(&mut out);
        self.review_waiting(&mut out);
        if now >= self.scan_at {
            self.scan(&mut out);
        }
    }

    /// When [`tick`](Socklnd::tick) has something to do next; [`Time::NEVER`] if only an event
    /// can bring that about.
    pub fn next_deadline(&self) -> Time {
        let shaking = self.incoming + self.outgoing != 0;
        let handshakes = if shaking { self.handshakes.earliest() } else { Time::NEVER };
        handshakes.min(self.waiting.earliest()).min(self.scan_at)
    }

    /// A connection in its handshake has until `deadline`.
    pub(crate) fn await_handshake(&mut self, key: ConnKey, deadline: Time) {
        self.handshakes.add(key, deadline);
        let conns = &self.conns;
        self.handshakes.tidy(self.incoming + self.outgoing, |key| {
            conns.get(key).is_some_and(|conn| conn.open().is_none())
        });
    }

    /// A peer is to be looked at when `deadline` is past.
    pub(crate) fn await_until(&mut self, key: PeerKey, deadline: Time) {
        let peer = &mut self.peers[key];
        if peer.on_agenda {
            return self.waiting.hasten(deadline);
        }
        peer.on_agenda = true;
        self.waiting.add(key, deadline);
        let peers = &self.peers;
        self.waiting.tidy(peers.len(), |key| peers.get(key).is_some());
    }

    fn review_handshakes<I: Io, C: Core>(&mut self, out: &mut Outside<'_, I, C>) {
        for key in self.handshakes.review(out.now) {
            let Some(conn) = self.conns.get(key) else { continue };
            if conn.open().is_some() {
                continue;
            }
            if conn.deadline > out.now {
                self.handshakes.add(key, conn.deadline);
                continue;
            }
            let why = match conn.phase {
                Phase::Connecting(_) | Phase::Answer(_) => Why::Timeout(Timeout::Dial),
                Phase::Farewell => Why::Asked(Status::TimedOut),
                _ => Why::Misdeed(Misdeed::SlowHandshake),
            };
            self.fail(out, key, why);
        }
    }

    fn review_waiting<I: Io, C: Core>(&mut self, out: &mut Outside<'_, I, C>) {
        for key in self.waiting.review(out.now) {
            let Some(peer) = self.peers.get_mut(key) else { continue };
            peer.on_agenda = false;
            let mut next = Time::NEVER;
            let expired = &mut self.counters.expired_waiting;
            peer.queue.retain(|send| {
                let waits = send.deadline > out.now;
                if waits {
                    next = next.min(send.deadline);
                } else {
                    *expired += 1;
                    out.core.done(out.now, send.op, Status::TimedOut);
                }
                waits
            });
            let wanted = !(peer.queue.is_empty() && peer.members.is_empty());
            match peer.dial {
                Dial::Waiting(_) if !wanted => {
                    peer.dial = Dial::Idle;
                    peer.end_round();
                }
                Dial::Waiting(due) if due <= out.now => {
                    peer.dial = Dial::Idle;
                    self.dial(out, key);
                }
                Dial::Waiting(due) => next = next.min(due),
                Dial::Idle | Dial::Active(_) => {}
            }
            self.forget_if_idle(key);
            if next != Time::NEVER && self.peers.get(key).is_some() {
                self.await_until(key, next);
            }
        }
    }

    /// The look at all connections and peers.
    fn scan<I: Io, C: Core>(&mut self, out: &mut Outside<'_, I, C>) {
        let limit = out.now - self.timing.sock_timeout;
        let idle_since = out.now - self.timing.scan;
        let mut stalled: Vec<(ConnKey, Why)> = Vec::new();
        for (key, conn) in &mut self.conns {
            if let Phase::Open(open) = &mut conn.phase {
                open.check_pace(out.now);
            }
            if let Some(timeout) = stall(conn, limit) {
                stalled.push((key, Why::Timeout(timeout)));
            } else if conn.open().is_some_and(|open| open.moved < idle_since) {
                conn.tx.release();
            }
        }
        for (key, why) in stalled {
            self.fail(out, key, why);
        }
        for key in self.peers.keys() {
            let peer = &self.peers[key];
            if peer.zero_copy.overdue(limit) {
                self.close_peer(out, key, Why::Timeout(Timeout::ZeroCopy));
            } else if self.keepalive_due(out.now, key) && self.keep_alive(out.now, key) {
                self.peers[key].kept_alive = out.now;
            }
        }
        let open = self.conns.len() > self.incoming + self.outgoing;
        self.scan_at = if open { out.now + self.timing.scan } else { Time::NEVER };
    }

    /// Whether a peer has been silent for so long that it is to be reminded (wire 3.5).
    fn keepalive_due(&self, now: Time, key: PeerKey) -> bool {
        let peer = &self.peers[key];
        let Some(keepalive) = self.timing.keepalive else { return false };
        !peer.members.is_empty()
            && peer.memory.version >= Some(Version::V3)
            && now.since(peer.heard) >= keepalive
            && (peer.kept_alive == Time::ZERO || now.since(peer.kept_alive) >= KEEPALIVE_GAP)
    }
}

/// Whether an open connection stands still since before `limit`.
pub(crate) fn stall(conn: &Conn, limit: Time) -> Option<Timeout> {
    let open = conn.open()?;
    let arriving = open.reader.within_message() || conn.hold.len() != 0;
    if arriving && !open.reader.parked() && (open.heard < limit || open.brisk.0 < limit) {
        return Some(Timeout::Receive);
    }
    (conn.tx.waiting() != 0 && open.moved < limit).then_some(Timeout::Send)
}
