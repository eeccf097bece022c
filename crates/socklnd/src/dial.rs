//! The dialling side: which connections are missing, how they are opened, and what follows a
//! failure [HEL-13], [SOCK-1], [SOCK-6].

use core::net::SocketAddr;

use lustrine_lnet::driver_report::OtherEnd;
use lustrine_lnet::lnd::{Core, LinkEvent};
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::Identity;
use lustrine_wire::ByteOrder;
use lustrine_wire::acceptor::Request;
use lustrine_wire::hello::{ConnType, Hello, Ips, Version};
use lustrine_wire::nid::{Nid, ProcessId};

use crate::close_reason::{CloseReason, ProtocolViolation, Timeout};
use crate::config::Timing;
use crate::conn::{Conn, DialTarget, Origin, Phase};
use crate::driver::{Env, Socklnd};
use crate::format::Format;
use crate::io::{Io, IoError, SourcePort};
use crate::keys::{ConnKey, PeerKey};
use crate::peer::{Dial, Peer};
use crate::shares::{Pool, Source};

/// The number of NONE answers in a row after which a set of connections is taken as it is, or the
/// round fails [SOCK-6], and that this node does not give [SOCK-18].
pub(crate) const NONE_ANSWERS_MAX: u8 = 3;
/// The number of changes of version that are attempted in one round.
const VERSION_CHANGES_MAX: u8 = 3;

/// The longest pause after a NONE, unless `min_reconnectms` is longer.
const NONE_PAUSE_MAX: Nanos = Nanos::from_secs(1);

/// The pause after this number of NONE answers in a row: `min_reconnectms`. If that is short, it
/// doubles from the third answer on: the peer may be full, and stay so [SOCK-20].
fn pause_after(none_answers: u8, timing: &Timing) -> Nanos {
    let most = timing.reconnect_max.min(NONE_PAUSE_MAX).max(timing.reconnect_min);
    let doublings = u32::from(none_answers.saturating_sub(NONE_ANSWERS_MAX - 1)).min(10);
    Nanos(timing.reconnect_min.0 << doublings).min(most)
}

/// The version to dial `nid` with: 3, or 4 where a NID needs it, or what was configured.
pub(crate) fn version_for(nid: Nid, configured: i64) -> Version {
    match configured {
        _ if nid.to_short().is_none() => Version::V4,
        1 => Version::V1,
        2 => Version::V2,
        4 => Version::V4,
        _ => Version::V3,
    }
}

impl Socklnd {
    /// The type of the next connection to dial, if one is missing: CONTROL, then BULK_IN and
    /// BULK_OUT in turn, BULK_IN first [SOCK-1]. From an unprivileged port every connection would
    /// be a separate peer, so there is one for all messages.
    fn missing(&self, peer: &Peer) -> Option<ConnType> {
        if !peer.may_be_dialled() || peer.at_limit {
            return None;
        }
        if peer.count(ConnType::Control) == 0 {
            return Some(ConnType::Control);
        }
        if self.config.identity == Identity::Userland {
            return None;
        }
        let limit = usize::from(self.ni(peer.ni).conns_per_peer);
        let (bulk_in, bulk_out) = (peer.count(ConnType::BulkIn), peer.count(ConnType::BulkOut));
        if bulk_in < limit && bulk_in <= bulk_out {
            Some(ConnType::BulkIn)
        } else if bulk_out < limit {
            Some(ConnType::BulkOut)
        } else if bulk_in < limit {
            Some(ConnType::BulkIn)
        } else {
            None
        }
    }

    /// A connection was opened or closed.
    pub(crate) fn recount(&mut self, key: PeerKey) {
        let complete = self.missing(&self.peers[key]).is_none();
        self.peers[key].complete = complete;
    }

    /// Has the peer dialled in this or the next flush.
    pub(crate) fn request_dial(&mut self, key: PeerKey) {
        let peer = &mut self.peers[key];
        if peer.dial == Dial::Idle && !peer.dial_requested {
            peer.dial_requested = true;
            self.dialling.push(key);
        }
    }

    /// Dials the next missing connection, unless it is too early for that.
    pub(crate) fn dial<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>, key: PeerKey) {
        let Some(peer) = self.peers.get(key) else { return };
        if peer.dial != Dial::Idle || self.shut.is_some() {
            return;
        }
        let Some(kind) = self.missing(peer) else {
            self.peers[key].end_round();
            return;
        };
        // While the peer dials us, the connections that are missing may be those it opens [SOCK-7].
        let calling = peer.queue.is_empty() && peer.id.nid != self.ni(peer.ni).nid;
        let courtesy = if calling { peer.dialling_until } else { Time::ZERO };
        let due = peer.history.not_before.max(courtesy);
        if due > env.now {
            return self.dial_later(key, due);
        }
        let began = *self.peers[key].round.get_or_insert(env.now);
        if env.now.since(began) >= self.timing.sock_timeout {
            let peer = &self.peers[key];
            let silent = CloseReason::Timeout(Timeout::Dial);
            let reason = if peer.none_answers != 0 { peer.refusal() } else { silent };
            return self.dial_failed(env, key, reason);
        }
        if self.peers[key].has_each_type() && !self.has_room() {
            return self.settle(key);
        }
        match self.start(env, key, kind) {
            Ok(conn) => self.peers[key].dial = Dial::Active(conn),
            Err(reason) => self.dial_failed(env, key, reason),
        }
    }

    fn start<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: PeerKey,
        kind: ConnType,
    ) -> Result<ConnKey, CloseReason> {
        let peer = &self.peers[key];
        let (ni_index, ni) = (peer.ni, self.ni(peer.ni));
        let source = match self.config.identity {
            Identity::Node => SourcePort::Privileged,
            Identity::Userland => SourcePort::Any,
        };
        let unreachable = CloseReason::Io(IoError::Unreachable);
        let Some(ip) = peer.id.nid.ip().filter(|_| peer.id.nid.net() == ni.nid.net()) else {
            return Err(unreachable);
        };
        if ip.is_ipv6() && source == SourcePort::Any {
            // Some kernel releases crash on that [USR-7].
            self.counters.dials_forbidden_ipv6 += 1;
            return Err(unreachable);
        }
        let port = if kind == ConnType::Control { ni.port } else { ni.port_bulk };
        let remote = SocketAddr::new(ip, port);
        let configured = version_for(peer.id.nid, self.config.tunables.protocol);
        let version = peer.history.version.unwrap_or(configured);
        let local = ni.local_ip;
        let own_ip = local.or(ni.nid.ip());
        if !self.admit_established(env, None, key) {
            return Err(CloseReason::Io(IoError::Exhausted));
        }
        self.counters.dialled += 1;
        let sock = env.io.connect(local, source, remote)?;
        let deadline = env.now + self.timing.sock_timeout;
        let phase = Phase::Connecting(DialTarget { peer: key, kind, version });
        let conn = Conn::new(sock, ni_index, Origin::Dialled, own_ip, remote, phase, deadline);
        let conn = self.insert(conn);
        self.outgoing += 1;
        self.await_handshake(conn, deadline);
        Ok(conn)
    }

    fn dial_later(&mut self, key: PeerKey, due: Time) {
        self.peers[key].dial = Dial::Waiting(due);
        self.await_until(key, due);
    }

    /// A dialled stream is reported; if it is open, request and HELLO are sent one after the other.
    pub(crate) fn connected<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        dialled: DialTarget,
    ) -> Result<(), CloseReason> {
        let conn = &self.conns[key];
        if !(conn.writable || conn.hangup) {
            return Ok(());
        }
        env.io.connected(conn.sock)?;
        let peer = &self.peers[dialled.peer];
        let ni = self.ni(conn.ni);
        let mut bytes = Vec::new();
        Request::new(peer.id.nid).encode(&mut bytes).expect("the version was chosen to fit");
        let hello = Hello {
            version: dialled.version,
            order: ByteOrder::Little,
            src: ProcessId::lustre(ni.nid),
            dst: ProcessId { nid: peer.id.nid, pid: 0 },
            src_incarnation: ni.incarnation,
            dst_incarnation: 0,
            kind: dialled.kind,
            ips: Ips::NONE,
        };
        if hello.encode(&mut bytes).is_err() {
            // The peer answered with a version that has no room for its own NID, or this node's.
            return Err(ProtocolViolation::HelloVersion.into());
        }
        let conn = &mut self.conns[key];
        conn.tx.push_bytes(&bytes);
        conn.phase = Phase::Answer(dialled);
        conn.deadline = env.now + self.timing.sock_timeout;
        self.shake_hands(env, key)
    }

    /// The answer to our HELLO [HEL-12], [HEL-14].
    pub(crate) fn on_answer<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        dialled: DialTarget,
        hello: Hello,
    ) -> Result<(), CloseReason> {
        if hello.kind == ConnType::None {
            return self.on_none(env, key, dialled, hello.version);
        }
        let peer = &mut self.peers[dialled.peer];
        if hello.src != peer.id {
            return Err(ProtocolViolation::AnswerIdentity.into());
        }
        if hello.version != dialled.version || hello.kind.inverse() != dialled.kind {
            return Err(ProtocolViolation::AnswerKind.into());
        }
        let (id, nis) = (peer.id, self.config.nis.len());
        self.close_foreign(env, id);
        let peer = &mut self.peers[dialled.peer];
        let incarnation = peer.history.incarnation.replace(hello.src_incarnation);
        let restarted = incarnation.is_some_and(|before| before != hello.src_incarnation);
        let ni = peer.ni;
        peer.dial = Dial::Idle;
        if !peer.members.is_empty() && (restarted || peer.history.version != Some(hello.version)) {
            // The other connections belong to an earlier incarnation. They are closed, and so is
            // this one, as on the accepting side; the next dial starts a new set.
            let reason = if restarted { CloseReason::Restarted } else { CloseReason::Renegotiated };
            self.drop_conn(env, key);
            self.close_peer(env, dialled.peer, reason);
            return Ok(());
        }
        peer.history.version = Some(hello.version);
        peer.history.interval = Nanos(0);
        peer.history.failure = None;
        peer.accepted();
        if self.peers.note(id, nis, hello.src_incarnation) {
            self.count_restart(id);
            env.core.link(env.now, ni, id, LinkEvent::Restarted);
        }
        self.counters.opened_active += 1;
        self.outgoing -= 1;
        // An idle one makes room for a newcomer, also if this node dialled it [SOCK-17].
        let source = Source::of(self.conns[key].remote);
        self.conns[key].place = Some(self.places.add(Pool::Nodes, source, key));
        let format = Format {
            version: hello.version,
            sent: ByteOrder::Little,
            received: hello.order,
            csum: self.csum(hello.version),
        };
        self.open(env, key, dialled.peer, dialled.kind, format, None);
        self.request_dial(dialled.peer);
        Ok(())
    }

    /// The answer was NONE: another version, a lost race, or enough connections of that type.
    fn on_none<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        dialled: DialTarget,
        offered: Version,
    ) -> Result<(), CloseReason> {
        self.counters.none_received += 1;
        let peer = &mut self.peers[dialled.peer];
        if offered != dialled.version && peer.members.is_empty() {
            if peer.version_changes >= VERSION_CHANGES_MAX {
                return Err(ProtocolViolation::HelloVersion.into());
            }
            peer.version_changes += 1;
            peer.history.version = Some(offered);
            peer.dial = Dial::Idle;
            self.counters.versions_negotiated += 1;
            self.drop_conn(env, key);
            self.request_dial(dialled.peer);
            return Ok(());
        }
        peer.said_none = true;
        self.refused(env, key, dialled)
    }

    /// "Not now": again after a pause. That is no failure while there is no connection: the peer
    /// may be dialling this node, and messages may wait for it until their deadlines [SOCK-20].
    pub(crate) fn refused<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        dialled: DialTarget,
    ) -> Result<(), CloseReason> {
        let peer = &mut self.peers[dialled.peer];
        peer.none_answers = peer.none_answers.saturating_add(1);
        if peer.none_answers >= NONE_ANSWERS_MAX && !peer.members.is_empty() {
            if !peer.has_each_type() {
                return Err(peer.refusal());
            }
            // It accepts no more than there are (capture f12).
            self.drop_conn(env, key);
            self.settle(dialled.peer);
            return Ok(());
        }
        let pause = pause_after(peer.none_answers, &self.timing);
        self.drop_conn(env, key);
        self.dial_later(dialled.peer, env.now + pause);
        Ok(())
    }

    /// Takes the connections of a peer, at least one of each type, as enough.
    fn settle(&mut self, key: PeerKey) {
        let peer = &mut self.peers[key];
        peer.at_limit = true;
        peer.dial = Dial::Idle;
        peer.end_round();
        self.recount(key);
    }

    /// A hard failure: messages that no connection can carry fail, and the next dial has to wait
    /// longer than the one before [SOCK-8].
    pub(crate) fn dial_failed<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: PeerKey,
        reason: CloseReason,
    ) {
        let who = OtherEnd::Peer(self.peers[key].id.nid);
        self.counters.dials_failed += 1;
        self.offenders.add("dials_failed", who);
        match reason {
            CloseReason::Io(IoError::NoPrivilege) => self.counters.dials_without_privilege += 1,
            // The host or the network is the cause, not the peer.
            CloseReason::Io(_) => {}
            _ => self.count_end(reason, who),
        }
        let timing = self.timing;
        let peer = &mut self.peers[key];
        peer.dial = Dial::Idle;
        peer.end_round();
        if peer.members.is_empty() {
            // The next round begins with the highest version again: the peer may be a new one.
            peer.history.version = None;
        }
        let doubled = Nanos(peer.history.interval.0.saturating_mul(2));
        let interval = doubled.clamp(timing.reconnect_min, timing.reconnect_max);
        peer.history.interval = interval;
        peer.history.failure = Some(reason.status());
        peer.history.not_before = env.now + interval + self.jitter.up_to(Nanos(interval.0 / 8));
        // Messages that wait for room on an existing connection are not lost.
        if !self.carriable(&self.peers[key]) {
            self.fail_queue(env, key, reason.status());
        }
        self.forget_if_idle(key);
    }

    /// Ends a dial in progress, without a failure.
    pub(crate) fn abandon_dial<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        let dial = core::mem::replace(&mut peer.dial, Dial::Idle);
        peer.end_round();
        if let Dial::Active(conn) = dial {
            self.drop_conn(env, conn);
        }
    }
}
