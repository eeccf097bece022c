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

use crate::close_reason::CloseReason;
use crate::conn::{Claim, Origin, Phase};
use crate::driver::{Env, Socklnd};
use crate::io::Io;
use crate::keys::{ConnKey, PeerKey};
use crate::notices::Incident;

/// The time in which the connections of the peer have to show that it is alive.
const PROBE_TIMEOUT: Nanos = Nanos::from_secs(1);

impl Socklnd {
    /// Whether a HELLO from `remote` in the name of a connected peer has to wait for a test of that
    /// peer's connections. `differs`: it has another incarnation or version than they have.
    pub(crate) fn is_doubtful(&self, key: PeerKey, remote: IpAddr, differs: bool) -> bool {
        let peer = &self.peers[key];
        if peer.id.nid.ip() == Some(remote) || peer.members.is_empty() {
            return false;
        }
        let mut conns = peer.members.iter().filter_map(|member| self.conns.get(member.conn));
        // A peer behind an address translator has all its connections from elsewhere.
        self.is_at_home(key) || differs && !conns.any(|conn| conn.remote_ip() == remote)
    }

    /// Whether a connection leads to the address in the peer's NID. Then all do [SOCK-22].
    pub(crate) fn is_at_home(&self, key: PeerKey) -> bool {
        let peer = &self.peers[key];
        let mut conns = peer.members.iter().filter_map(|member| self.conns.get(member.conn));
        conns.any(|conn| {
            conn.origin == Origin::Dialled || peer.id.nid.ip() == Some(conn.remote_ip())
        })
    }

    /// Closes the connections of a peer that come from other addresses than the one in its NID,
    /// before the first one that leads there is opened [SOCK-22].
    pub(crate) fn close_foreign<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>, key: PeerKey) {
        if !self.peers[key].members.is_empty() && !self.is_at_home(key) {
            self.close_peer(env, key, CloseReason::Displaced);
        }
    }

    /// Keeps a claim waiting while the peer's connections are tested. There is one claim at a time:
    /// further ones are refused.
    pub(crate) fn try_claim<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        peer_key: PeerKey,
        hello: Hello,
    ) -> Result<(), CloseReason> {
        let peer = &self.peers[peer_key];
        let id = peer.id;
        let waits = |claim: ConnKey| {
            self.conns.get(claim).is_some_and(|conn| matches!(conn.phase, Phase::Claim(_)))
        };
        if peer.claim.is_some_and(waits) {
            return self.refuse_claim(env, key, peer_key, &hello);
        }
        self.counters.claims_probed += 1;
        self.peers[peer_key].claim = Some(key);
        let conn = &mut self.conns[key];
        conn.phase = Phase::Claim(Claim { id, hello, began: env.now });
        conn.deadline = env.now + PROBE_TIMEOUT;
        self.handshakes.add(key, env.now + PROBE_TIMEOUT);
        self.try_connections(env.io, env.now, peer_key);
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
        let members = &self.peers[peer_key].members;
        let mut conns = members.iter().filter_map(|member| self.conns.get(member.conn));
        let alive = conns.any(|conn| {
            conn.open().is_some_and(|open| open.last_received > claim.began)
                || env.io.responds(conn.sock, within)
        });
        if alive {
            return self.refuse_claim(env, key, peer_key, &claim.hello);
        }
        if members.is_empty() {
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
        let before = self.peers[peer_key].history.incarnation.replace(hello.src_incarnation);
        let restarted = before.is_some_and(|before| before != hello.src_incarnation);
        let reason = if restarted { CloseReason::Restarted } else { CloseReason::Renegotiated };
        let permit = self.permit_none(key, peer_key);
        self.close_peer(env, peer_key, reason);
        self.answer_none(env, key, permit, hello)
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
        self.answer_none(env, key, permit, hello)
    }
}
