//! The accepting side: request, HELLO, and the answers to them [ACC-9], [HEL-6], [SOCK-3].

use core::net::{IpAddr, SocketAddr};

use lustrine_lnet::driver_report::OtherEnd;
use lustrine_lnet::lnd::{Core, LinkEvent, NiIndex};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_lnet::topology::{Identity, home_of};
use lustrine_wire::acceptor::{Answer, Reaction, Request};
use lustrine_wire::hello::{ConnType, Hello, HelloError, Ips, Version};
use lustrine_wire::nid::{Nid, PID_ANY, PID_LUSTRE, PID_USERLAND, ProcessId};
use lustrine_wire::{ByteOrder, Progress};

use crate::close_reason::{CloseReason, ProtocolViolation};
use crate::config::Accept;
use crate::conn::{Conn, Open, Origin, Phase};
use crate::dial::{NONE_ANSWERS_MAX, version_for};
use crate::driver::{Env, Handoff, Socklnd};
use crate::format::Format;
use crate::io::{Io, IoError, IoOutcome, SockId};
use crate::keys::{ConnKey, PeerKey};
use crate::notices::Incident;
use crate::peer::{Dial, PeerConn, Side};
use crate::shares::{PRIVILEGED_PORT_MAX, Pool, Source};

/// Whether a dial may be answered NONE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NonePermit {
    Granted,
    Denied,
}

impl Socklnd {
    /// A listener of interface `ni` has a new stream. Above the limits, or from a port that is not
    /// permitted, it is closed without a byte.
    pub fn accepted<I: Io>(
        &mut self,
        now: Time,
        io: &mut I,
        sock: SockId,
        ni: NiIndex,
        local: SocketAddr,
        remote: SocketAddr,
    ) {
        self.counters.accepted += 1;
        if self.config.accept == Accept::Secure && remote.port() > PRIVILEGED_PORT_MAX {
            let who = OtherEnd::Address(remote.ip().to_canonical());
            self.count_end(ProtocolViolation::SourcePort.into(), who);
            return io.close(sock);
        }
        if !self.admit_handshake(io, Source::of(remote)) {
            self.refuse_full(remote);
            return io.close(sock);
        }
        self.add_incoming(now, sock, ni, local.ip(), remote, Phase::Request(local.port()));
    }

    /// Takes over a connection that another CPU partition accepted; `handoff.sock` is the stream's
    /// number here.
    pub fn adopt<I: Io, C: Core>(&mut self, now: Time, core: &mut C, io: &mut I, handoff: Handoff) {
        if !self.is_there(handoff.ni, &handoff.ni_nid) {
            return io.close(handoff.sock);
        }
        if !self.admit_handshake(io, Source::of(handoff.remote)) {
            self.refuse_full(handoff.remote);
            return io.close(handoff.sock);
        }
        self.counters.adopted += 1;
        let Handoff { sock, ni, local, remote, hello, .. } = handoff;
        let key = self.add_incoming(now, sock, ni, local, remote, Phase::Hello);
        let mut env = Env { now, core, io };
        if let Err(reason) = self.on_hello(&mut env, key, hello) {
            self.fail(&mut env, key, reason);
        }
    }

    fn refuse_full(&mut self, remote: SocketAddr) {
        self.counters.refused_full += 1;
        let address = remote.ip().to_canonical();
        self.notices.add(Incident::Full, address);
        self.offenders.add("refused_full", OtherEnd::Address(address));
    }

    fn add_incoming(
        &mut self,
        now: Time,
        sock: SockId,
        ni: NiIndex,
        local: IpAddr,
        remote: SocketAddr,
        phase: Phase,
    ) -> ConnKey {
        let deadline = now + self.timing.accept_timeout;
        let local = Some(local);
        let mut conn = Conn::new(sock, ni, Origin::Accepted, local, remote, phase, deadline);
        conn.writable = true;
        let key = self.insert(conn);
        let place = self.places.add(Pool::Incoming, Source::of(remote), key);
        self.conns[key].place = Some(place);
        self.await_handshake(key, deadline);
        key
    }

    /// Reads exactly what the handshake needs, so that no byte after it is consumed.
    pub(crate) fn shake_hands<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
    ) -> Result<(), CloseReason> {
        self.write(env, key)?;
        loop {
            let Some(conn) = self.conns.get_mut(key) else { return Ok(()) };
            if !matches!(conn.phase, Phase::Request(_) | Phase::Hello | Phase::Answer(_)) {
                return Ok(());
            }
            if conn.input.len() < conn.need {
                if !conn.readable {
                    return Ok(());
                }
                let asked = conn.need - conn.input.len();
                match Io::read(env.io, conn.sock, &[], conn.input.room(conn.need)) {
                    IoOutcome::Bytes(len) => {
                        conn.input.filled(len);
                        conn.drained(len, asked);
                        self.counters.reads += 1;
                        self.counters.bytes_read += len as u64;
                    }
                    IoOutcome::WouldBlock => conn.readable = false,
                    IoOutcome::Closed => return Err(IoError::Reset.into()),
                    IoOutcome::Failed(error) => return Err(error.into()),
                }
                continue;
            }
            match conn.phase {
                Phase::Request(port) => self.on_request(env, key, port)?,
                _ => self.on_hello_bytes(env, key)?,
            }
        }
    }

    /// Enough of the connection request has arrived to check it [ACC-8]; it came to this port.
    fn on_request<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        port: u16,
    ) -> Result<(), CloseReason> {
        let conn = &mut self.conns[key];
        let came_to = conn.ni;
        match Request::parse(conn.input.bytes()) {
            Ok(Progress::Need(len)) => conn.need = len,
            Ok(Progress::Got(request, len)) => {
                let ni = self
                    .asked_for(came_to, port, &request.target)
                    .ok_or(ProtocolViolation::WrongTarget)?;
                let conn = &mut self.conns[key];
                conn.ni = ni;
                conn.input.used(len);
                conn.need = 4;
                conn.phase = Phase::Hello;
                conn.deadline = env.now + self.timing.accept_timeout;
            }
            Err(error) => {
                let violation = ProtocolViolation::from(error);
                if error.reaction() == Reaction::CloseSilently {
                    return Err(violation.into());
                }
                let who = OtherEnd::Address(self.conns[key].remote_ip());
                self.count_end(violation.into(), who);
                let mut answer = Vec::with_capacity(Answer::LEN);
                Answer::OURS.encode(&mut answer);
                self.close_with(env, key, &answer)?;
            }
        }
        Ok(())
    }

    /// Enough of a HELLO, or of the answer to this node's, has arrived to check it.
    fn on_hello_bytes<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
    ) -> Result<(), CloseReason> {
        let conn = &mut self.conns[key];
        match Hello::parse(conn.input.bytes()) {
            Ok(Progress::Need(len)) => {
                conn.need = len;
                Ok(())
            }
            Ok(Progress::Got(hello, len)) => {
                conn.input.used(len);
                match conn.phase {
                    Phase::Answer(dialled) => self.on_answer(env, key, dialled, hello),
                    _ => self.on_hello(env, key, hello),
                }
            }
            Err(HelloError::UnknownVersion { raw: _, order })
                if matches!(conn.phase, Phase::Hello) =>
            {
                let who = OtherEnd::Address(conn.remote_ip());
                self.count_end(ProtocolViolation::HelloVersion.into(), who);
                self.offer_own_version(env, key, order)
            }
            Err(error) => Err(ProtocolViolation::from(error).into()),
        }
    }

    /// The answer to an unknown version: type NONE, this node's version, and its own NID as
    /// destination [HEL-6] (capture r_hver99).
    fn offer_own_version<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        order: ByteOrder,
    ) -> Result<(), CloseReason> {
        let conn = &self.conns[key];
        let ni = self.ni(conn.ni);
        let me = ProcessId::lustre(ni.nid);
        let answer = Hello {
            version: version_for(ni.nid, 0),
            order,
            src: me,
            dst: ProcessId { nid: me.nid, pid: 0 },
            src_incarnation: ni.incarnation,
            dst_incarnation: 0,
            kind: ConnType::None,
            ips: Ips::NONE,
        };
        let mut bytes = Vec::new();
        answer.encode(&mut bytes).expect("the version was chosen to fit the NID");
        self.close_with(env, key, &bytes)
    }

    /// A valid HELLO arrived: determines its peer, and the CPU partition of that peer.
    fn on_hello<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        hello: Hello,
    ) -> Result<(), CloseReason> {
        let conn = &self.conns[key];
        let nid = self.ni(conn.ni).nid;
        if hello.kind == ConnType::None {
            return Err(ProtocolViolation::HelloKind.into());
        }
        let ProcessId { nid: src, pid } = hello.src;
        if src.is_any() || src.is_lo() || pid == PID_ANY {
            return Err(ProtocolViolation::HelloSource.into());
        }
        if nid.to_short().is_none() && hello.version < Version::V4 {
            // This node's NID does not fit the answer.
            let who = OtherEnd::Address(conn.remote_ip());
            self.count_end(ProtocolViolation::HelloVersion.into(), who);
            return self.offer_own_version(env, key, hello.order);
        }
        let port = conn.remote.port();
        // A node has one pid. With another one a stranger would be a peer of its own, with any NID
        // [SOCK-15]. Its NID is on the network that it dials [HEL-15].
        if port <= PRIVILEGED_PORT_MAX && (pid != PID_LUSTRE || src.net() != nid.net()) {
            return Err(ProtocolViolation::HelloSource.into());
        }
        let foreign = src.ip() != Some(conn.remote_ip());
        if port <= PRIVILEGED_PORT_MAX && foreign && self.config.tunables.strict_source != 0 {
            self.notices.add(Incident::ForeignAddress, conn.remote_ip());
            return Err(ProtocolViolation::ForeignAddress.into());
        }
        let renamed = (port > PRIVILEGED_PORT_MAX).then(|| ProcessId {
            nid: Nid::from_ip(nid.net(), conn.remote_ip()),
            pid: u32::from(port) | PID_USERLAND,
        });
        let id = renamed.unwrap_or(hello.src);
        let home = home_of(&id.nid, self.config.cpts);
        if home != self.config.cpt {
            let (sock, ni, remote) = (conn.sock, conn.ni, conn.remote);
            let local = conn.local.unwrap_or(remote.ip());
            self.counters.handed_off += 1;
            let ni_nid = nid;
            self.handoffs.push_back(Handoff { home, sock, ni, ni_nid, local, remote, hello });
            self.remove(key);
            return Ok(());
        }
        self.admit(env, key, id, renamed, hello)
    }

    /// Decides about a valid HELLO, in the order of [SOCK-3].
    pub(crate) fn admit<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        id: ProcessId,
        renamed: Option<ProcessId>,
        hello: Hello,
    ) -> Result<(), CloseReason> {
        let conn = &self.conns[key];
        let (ni, kind) = (conn.ni, hello.kind.inverse());
        let (local, remote) = (conn.local, conn.remote_ip());
        let me = self.ni(ni).nid;
        let limit = usize::from(self.ni(ni).conns_per_peer);
        let peer_key = self.peers.find_or_add(ni, id, self.side_of(&id));
        let claims_race = matches!(self.peers[peer_key].dial, Dial::Active(_)) && id.nid < me;
        // If the peer dials again, what this node dials may never arrive [SOCK-19].
        let peer = &mut self.peers[peer_key];
        let dials_again = peer.race_won.is_some_and(|won| Some(won) >= peer.round);
        if claims_race && !dials_again {
            peer.race_won = Some(env.now);
            self.counters.races_won += 1;
            let permit = self.permit_none(key, peer_key);
            return self.answer_none(env, key, permit, &hello);
        }
        let peer = &self.peers[peer_key];
        let is_other = |known: u64| known != hello.src_incarnation;
        let differs = !peer.members.is_empty()
            && (peer.history.incarnation.is_some_and(is_other)
                || peer.history.version != Some(hello.version));
        let nis = self.config.nis.len();
        let restarted = self.peers.noted(id, nis).is_some_and(is_other);
        if self.is_doubtful(id, remote, differs || restarted) {
            return self.try_claim(env, key, peer_key, hello);
        }
        if differs {
            return self.close_claimed(env, key, peer_key, &hello);
        }
        let foreign = id.nid.ip() != Some(remote);
        if !foreign {
            self.close_foreign(env, id);
        }
        let peer_key = self.peers.find_or_add(ni, id, self.side_of(&id));
        let peer = &self.peers[peer_key];
        let same = peer
            .members
            .iter()
            .filter(|member| member.kind == kind)
            .filter_map(|member| self.conns.get(member.conn))
            .filter(|other| other.remote_ip() == remote && other.local == local)
            .count();
        if same >= limit && local != Some(remote) {
            self.counters.duplicates_refused += 1;
            let peer = &self.peers[peer_key];
            if kind != ConnType::Control && peer.has_each_type() {
                // It has one of each, and will do with these (capture f12).
                return self.answer_none(env, key, NonePermit::Granted, &hello);
            }
            let permit = self.permit_none(key, peer_key);
            if permit == NonePermit::Granted {
                // If the peer has lost those connections, its host says so.
                self.try_connections(env.io, env.now, peer_key);
            }
            return self.answer_none(env, key, permit, &hello);
        }
        let source = Source::of(self.conns[key].remote);
        let pool = match renamed {
            Some(_) => Pool::Userland,
            None if foreign => Pool::Foreign,
            None => Pool::Nodes,
        };
        if !self.admit_established(env, Some((pool, source)), peer_key) {
            self.refuse_full(self.conns[key].remote);
            let permit = self.permit_none(key, peer_key);
            self.forget_if_idle(peer_key);
            return self.answer_none(env, key, permit, &hello);
        }
        // Only what leaves accepts the dialler: the stream may have broken by now.
        let answer = self.answer_to(ni, &hello, kind);
        self.conns[key].tx.push_bytes(&answer);
        if let Err(reason) = self.write(env, key) {
            self.forget_if_idle(peer_key);
            return Err(reason);
        }
        let answered = self.conns[key].tx.waiting() == 0;
        if self.peers.note(id, nis, hello.src_incarnation) {
            self.count_restart(id);
            env.core.link(env.now, ni, id, LinkEvent::Restarted);
        }
        if claims_race {
            self.yield_race(env, peer_key);
        }
        let conn = &mut self.conns[key];
        if let Some(place) = conn.place.take() {
            self.places.remove(source, place);
        }
        conn.place = Some(self.places.add(pool, source, key));
        self.counters.opened_passive += 1;
        let peer = &mut self.peers[peer_key];
        peer.history.incarnation = Some(hello.src_incarnation);
        peer.history.version = Some(hello.version);
        if answered {
            peer.history.refused = 0;
            peer.history.refused_elsewhere = 0;
        }
        peer.accepted();
        peer.dialling_until = env.now + self.timing.reconnect_min;
        let format = Format {
            version: hello.version,
            sent: hello.order,
            received: hello.order,
            csum: self.csum(hello.version),
        };
        self.open(env, key, peer_key, kind, format, renamed);
        if claims_race {
            self.request_dial(peer_key);
        }
        Ok(())
    }

    /// On which side a peer's dial arrives [USR-9].
    pub(crate) fn side_of(&self, id: &ProcessId) -> Side {
        match self.config.identity {
            Identity::Userland if !id.is_userland() => Side::Served,
            Identity::Userland | Identity::Node => Side::Own,
        }
    }

    /// The peer's dial is accepted although this node's would have precedence: this node's is given
    /// up, unless the peer may have accepted it already.
    fn yield_race<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>, key: PeerKey) {
        self.counters.races_yielded += 1;
        let Dial::Active(conn) = self.peers[key].dial else { return };
        if matches!(self.conns[conn].phase, Phase::Connecting(_)) {
            self.abandon_dial(env, key);
        }
    }

    /// How often dials of this peer were refused in a row: those from the address in its NID, and
    /// those from any other, as this one is.
    fn refusals(&mut self, key: ConnKey, peer_key: PeerKey) -> &mut u8 {
        let peer = &mut self.peers[peer_key];
        let own = peer.id.nid.ip() == Some(self.conns[key].remote_ip());
        let history = &mut peer.history;
        if own { &mut history.refused } else { &mut history.refused_elsewhere }
    }

    /// Whether a dial may be answered NONE, which is counted: not if the last two were answered so
    /// already [SOCK-18].
    pub(crate) fn permit_none(&mut self, key: ConnKey, peer_key: PeerKey) -> NonePermit {
        let refusals = self.refusals(key, peer_key);
        if *refusals >= NONE_ANSWERS_MAX - 1 {
            self.counters.closed_unanswered += 1;
            return NonePermit::Denied;
        }
        *refusals += 1;
        NonePermit::Granted
    }

    /// "Not now, try again"; without a word if that was said too often.
    pub(crate) fn answer_none<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        permit: NonePermit,
        hello: &Hello,
    ) -> Result<(), CloseReason> {
        if permit == NonePermit::Denied {
            return Err(CloseReason::Asked(Status::Busy));
        }
        let answer = self.answer_to(self.conns[key].ni, hello, ConnType::None);
        self.close_with(env, key, &answer)
    }

    /// This node's HELLO in answer to `hello`, in its version and byte order.
    fn answer_to(&self, ni: NiIndex, hello: &Hello, kind: ConnType) -> Vec<u8> {
        let ni = self.ni(ni);
        let answer = Hello {
            version: hello.version,
            order: hello.order,
            src: ProcessId { nid: ni.nid, pid: PID_LUSTRE },
            dst: ProcessId { nid: hello.src.nid, pid: hello.dst.pid },
            src_incarnation: ni.incarnation,
            dst_incarnation: hello.dst_incarnation,
            kind,
            ips: Ips::NONE,
        };
        let mut bytes = Vec::new();
        answer.encode(&mut bytes).expect("the NIDs fit the version: ours was checked, theirs came");
        bytes
    }

    pub(crate) fn csum(&self, version: Version) -> bool {
        version == Version::V2 && self.config.tunables.enable_csum != 0
    }

    /// The handshake is over: messages may be exchanged.
    pub(crate) fn open<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        peer_key: PeerKey,
        kind: ConnType,
        format: Format,
        renamed: Option<ProcessId>,
    ) {
        let conn = &mut self.conns[key];
        debug_assert_eq!(conn.input.len(), 0);
        let mut open = Open::new(peer_key, kind, format, env.now);
        open.renamed = renamed;
        let peer = &mut self.peers[peer_key];
        if conn.origin == Origin::Accepted && peer.count(kind) != 0 {
            open.surplus_until = env.now + self.timing.reconnect_min;
        }
        conn.phase = Phase::Open(open);
        let first = peer.members.is_empty();
        peer.members.push(PeerConn { conn: key, kind });
        peer.last_received = env.now;
        let (ni, id) = (peer.ni, peer.id);
        self.recount(peer_key);
        if self.scan_at == Time::NEVER {
            self.scan_at = env.now + self.timing.scan;
        }
        if first {
            env.core.link(env.now, ni, id, LinkEvent::Up);
        }
        self.pump(env, peer_key);
        if !self.peers[peer_key].acks.is_empty() {
            self.request_acks(peer_key);
        }
        self.enqueue(key);
    }

    /// Sends a last answer and closes the connection once it is written.
    fn close_with<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
        bytes: &[u8],
    ) -> Result<(), CloseReason> {
        let conn = &mut self.conns[key];
        conn.tx.push_bytes(bytes);
        conn.phase = Phase::Closing;
        self.finish_closing(env, key)
    }

    /// Continues with a last answer. What the peer still sends is read once, so that closing does
    /// not reset the stream before the answer was read.
    pub(crate) fn finish_closing<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
    ) -> Result<(), CloseReason> {
        self.write(env, key)?;
        let conn = &mut self.conns[key];
        if conn.tx.waiting() != 0 {
            return Ok(());
        }
        if conn.readable {
            let _ = Io::read(env.io, conn.sock, &[], &mut self.shared_buffer);
        }
        Err(CloseReason::Asked(Status::Ok))
    }
}
