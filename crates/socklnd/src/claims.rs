//! HELLOs which claim to be a peer with open connections, from another address than that peer's.
//!
//! A kernel accepts such a connection, and closes those of the peer if the HELLO has another
//! incarnation or version [SOCK-3]. So does this driver when the HELLO comes from the address in
//! the peer's NID. From any other address, every process with a privileged port could cut off a
//! peer that way, or receive its messages: then the peer's connections are tested first, and the
//! HELLO is refused if the other side is alive [SOCK-15] [SOCK-22].

use core::net::IpAddr;

use lustrine_lnet::driver_report::OtherEnd;
use lustrine_lnet::lnd::Core;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::frame::FrameHeader;
use lustrine_wire::hello::{Hello, Version};
use lustrine_wire::nid::ProcessId;

use crate::close_reason::CloseReason;
use crate::conn::{Claim, Conn, Origin, Phase};
use crate::driver::{Env, Socklnd};
use crate::io::Io;
use crate::keys::{ConnKey, PeerKey};
use crate::notices::Incident;

/// The time in which the connections of the peer have to show that it is alive.
const PROBE_TIMEOUT: Nanos = Nanos::from_secs(1);

impl Socklnd {
    /// Whether a HELLO from `remote` in the name of a connected process has to wait for a test of
    /// that process' connections. `differs`: it has another incarnation or version than they have.
    pub(crate) fn is_doubtful(&self, id: ProcessId, remote: IpAddr, differs: bool) -> bool {
        if id.nid.ip() == Some(remote) {
            return false;
        }
        let mut conns = self.conns_of(id).peekable();
        // A peer behind an address translator has all its connections from elsewhere.
        conns.peek().is_some()
            && (self.is_at_home(id) || differs && !conns.any(|conn| conn.remote_ip() == remote))
    }

    /// The open connections with a process, at all interfaces and on both sides: the core knows it
    /// by its NID alone.
    fn conns_of(&self, id: ProcessId) -> impl Iterator<Item = &Conn> {
        let names = self.peers.names_of(id, self.config.nis.len());
        let members = names.into_iter().flat_map(|key| &self.peers[key].members);
        members.filter_map(|member| self.conns.get(member.conn))
    }

    /// Counts a restart of a process that a HELLO has shown. While connections of the earlier one
    /// are open it is counted when they are closed.
    pub(crate) fn count_restart(&mut self, id: ProcessId) {
        if self.conns_of(id).next().is_none() {
            self.counters.restarts_between += 1;
        }
    }

    /// Whether a connection leads to the address in the NID of a process. Then all do [SOCK-22].
    fn is_at_home(&self, id: ProcessId) -> bool {
        let leads_there = |conn: &Conn| id.nid.ip() == Some(conn.remote_ip());
        self.conns_of(id).any(|conn| conn.origin == Origin::Dialled || leads_there(conn))
    }

    /// Closes the connections of a process that come from other addresses than the one in its NID,
    /// before the first one that leads there is opened [SOCK-22].
    pub(crate) fn close_foreign<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>, id: ProcessId) {
        if !self.is_at_home(id) {
            for key in self.peers.names_of(id, self.config.nis.len()) {
                self.close_peer(env, key, CloseReason::Displaced);
            }
        }
    }

    /// Whether a claim to be this peer waits.
    fn claim_waits(&self, key: PeerKey) -> bool {
        let claim = self.peers[key].claim.and_then(|claim| self.conns.get(claim));
        claim.is_some_and(|conn| matches!(conn.phase, Phase::Claim(_)))
    }

    /// Keeps a claim waiting while the connections of the process are tested. There is one claim at
    /// a time at each interface: further ones are refused.
    pub(crate) fn try_claim<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        peer_key: PeerKey,
        hello: Hello,
    ) -> Result<(), CloseReason> {
        let id = self.peers[peer_key].id;
        if self.claim_waits(peer_key) {
            return self.refuse_claim(env, key, peer_key, &hello);
        }
        self.counters.claims_probed += 1;
        self.peers[peer_key].claim = Some(key);
        let conn = &mut self.conns[key];
        conn.phase = Phase::Claim(Claim { id, hello, began: env.now });
        conn.deadline = env.now + PROBE_TIMEOUT;
        self.handshakes.add(key, env.now + PROBE_TIMEOUT);
        for name in self.peers.names_of(id, self.config.nis.len()) {
            self.try_connections(env.io, env.now, name);
        }
        Ok(())
    }

    /// Sends something to a peer, so that the other side's TCP answers.
    pub(crate) fn try_connections<I: Io>(&mut self, io: &I, now: Time, key: PeerKey) {
        let version = self.peers[key].history.version;
        if version >= Some(Version::V2) {
            let keepalive = version >= Some(Version::V3);
            let frame = if keepalive { FrameHeader::KEEPALIVE } else { FrameHeader::noop(0) };
            self.send_noop(io, now, key, frame);
        }
    }

    /// The test of a claim is over: the claim is refused if the peer has shown that it is alive.
    pub(crate) fn end_claim<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        claim: Claim,
    ) -> Result<(), CloseReason> {
        let conn = &mut self.conns[key];
        let ni = conn.ni;
        conn.phase = Phase::Hello;
        conn.deadline = env.now + self.timing.accept_timeout;
        self.handshakes.add(key, conn.deadline);
        let side = self.side_of(&claim.id);
        let peer_key = self.peers.find_or_add(ni, claim.id, side);
        let within = env.now.since(claim.began);
        let alive = self.conns_of(claim.id).any(|conn| {
            conn.open().is_some_and(|open| open.last_received > claim.began)
                || env.io.responds(conn.sock, within)
        });
        if alive {
            return self.refuse_claim(env, key, peer_key, &claim.hello);
        }
        for name in self.peers.names_of(claim.id, self.config.nis.len()) {
            if name != peer_key {
                self.close_earlier(env, name, &claim.hello);
            }
        }
        if self.peers[peer_key].members.is_empty() {
            return self.admit(env, key, claim.id, None, claim.hello);
        }
        self.close_claimed(env, key, peer_key, &claim.hello)
    }

    /// The peer has restarted, or uses another version: its connections are closed, and it is
    /// requested to dial again.
    pub(crate) fn close_claimed<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        peer_key: PeerKey,
        hello: &Hello,
    ) -> Result<(), CloseReason> {
        let permit = self.permit_none(key, peer_key);
        self.close_earlier(env, peer_key, hello);
        self.answer_none(env, key, permit, hello)
    }

    /// Closes the connections that a peer had before this HELLO.
    fn close_earlier<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        peer_key: PeerKey,
        hello: &Hello,
    ) {
        let before = self.peers[peer_key].history.incarnation.replace(hello.src_incarnation);
        let restarted = before.is_some_and(|before| before != hello.src_incarnation);
        let reason = if restarted { CloseReason::Restarted } else { CloseReason::Renegotiated };
        self.close_peer(env, peer_key, reason);
    }

    fn refuse_claim<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        peer_key: PeerKey,
        hello: &Hello,
    ) -> Result<(), CloseReason> {
        self.counters.claims_refused += 1;
        let address = self.conns[key].remote_ip();
        self.notices.add(Incident::ClaimRefused, address);
        self.offenders.add("claims_refused", OtherEnd::Address(address));
        let permit = self.permit_none(key, peer_key);
        if !self.claim_waits(peer_key) {
            // There may be no connection at this interface.
            self.forget_if_idle(peer_key);
        }
        self.answer_none(env, key, permit, hello)
    }
}
