//! The driver as its event loop sees it.

use std::collections::{HashMap, VecDeque};

use core::net::{IpAddr, SocketAddr};

use foldhash::fast::FixedState;
use lustrine_lnet::driver_report::{DriverOffender, OtherEnd};
use lustrine_lnet::lnd::{Action, Core, NiIndex, OpKey};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_wire::hello::{ConnType, Hello, Version};
use lustrine_wire::nid::{Nid, ProcessId};

use crate::close_reason::CloseReason;
use crate::config::{Config, Jitter, NiConfig, Timing};
use crate::conn::{Conn, Conns, Origin, Phase};
use crate::counters::Counters;
use crate::io::{Io, Readiness, SockId};
use crate::keys::{ConnKey, PeerKey};
use crate::notices::{Notice, Notices, Offenders};
use crate::peer::{Dial, Peer, Peers};
use crate::shares::Places;
use crate::timer_queue::TimerQueue;
use crate::tx::{Finished, Tx, WriteEnd, WriteTotals};

/// Size of the buffer that all connections share for reading many small messages at once.
pub(crate) const SHARED_BUFFER_LEN: usize = 64 * 1024;
/// Most bytes that one connection reads, and writes, in one turn before others get theirs.
pub(crate) const TURN_BYTES: u64 = 1 << 20;

/// Connections that are remembered. Each costs a call whenever the loop polls, so these are fewer
/// than a call to the poller is worth: a kernel with one connection of each type has three.
pub(crate) const RECENT_MAX: usize = 3;

/// The newest is the first; places that are not taken name no connection.
pub(crate) type Recent = [ConnKey; RECENT_MAX];

/// What the driver is given for the length of one call.
pub(crate) struct Env<'a, I, C> {
    pub(crate) now: Time,
    pub(crate) core: &'a mut C,
    pub(crate) io: &'a mut I,
}

/// When a message leaves that was put on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// With the others in the next [`flush`](Socklnd::flush).
    Flush,
    /// At once, if it was copied and nothing waits before it.
    AtOnce,
}

/// An accepted connection whose peer belongs to another CPU partition. The stream stays open; that
/// partition's driver takes it with [`Socklnd::adopt`] and answers the HELLO. Nothing beyond the
/// HELLO was read from it.
#[derive(Clone, Copy, Debug)]
pub struct Handoff {
    /// The CPU partition to hand it to.
    pub home: u16,
    /// The stream.
    pub sock: SockId,
    /// The interface it came in by.
    pub ni: NiIndex,
    /// That interface's NID: the index may be another one's before the stream is taken.
    pub ni_nid: Nid,
    /// Its local address.
    pub local: IpAddr,
    /// Its remote address.
    pub remote: SocketAddr,
    /// The HELLO, as received.
    pub hello: Hello,
}

/// A peer: its identity, its connections and its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerConnections {
    /// Its NID and pid; renamed if it dialled from a source port above 1023.
    pub id: ProcessId,
    /// The interface.
    pub ni: NiIndex,
    /// The protocol version spoken, once known.
    pub version: Option<Version>,
    /// Its incarnation, once known.
    pub incarnation: Option<u64>,
    /// Open connections of type CONTROL.
    pub control: usize,
    /// Open connections of type BULK_IN, from our point of view.
    pub bulk_in: usize,
    /// Open connections of type BULK_OUT, from our point of view.
    pub bulk_out: usize,
    /// Open connections of type ANY.
    pub any: usize,
    /// Bytes queued on its connections.
    pub tx_queued: u64,
    /// Messages on its connections of which something waits to be written; those that were copied
    /// are over for their sender, and not among them.
    pub tx_messages: usize,
    /// Messages that wait for a connection.
    pub waiting: usize,
    /// Messages sent that await a zero-copy acknowledgement.
    pub zero_copy: usize,
    /// How far the dial under way is, if one is.
    pub dialling: Option<DialPhase>,
}

/// An open connection of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenConn {
    /// The peer's NID and pid; renamed if it dialled from a source port above 1023.
    pub id: ProcessId,
    /// The interface.
    pub ni: NiIndex,
    /// Its type, from our point of view.
    pub kind: ConnType,
    /// The protocol version spoken.
    pub version: Option<Version>,
    /// Whether this node dialled it.
    pub dialled: bool,
    /// The local address, if it was chosen.
    pub local: Option<IpAddr>,
    /// The address of the other end.
    pub remote: SocketAddr,
    /// The stream.
    pub sock: SockId,
}

/// How far a dial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialPhase {
    /// TCP does not stand yet.
    Connecting,
    /// TCP stands; the answer to our HELLO is awaited.
    AwaitingHello,
    /// There is no connection, and the last dial was answered NONE; the next one follows [SOCK-20].
    Refused,
    /// The last dial failed for this reason; the next one follows after a pause [SOCK-8].
    Failed(Status),
}

/// The TCP driver's logic for one CPU partition.
///
/// The event loop reports streams to it ([`accepted`](Socklnd::accepted),
/// [`ready`](Socklnd::ready)) and hands it the core's actions ([`submit`](Socklnd::submit));
/// reading and writing happens in [`flush`](Socklnd::flush), in batches, except for a message that
/// comes alone ([`submit_alone`](Socklnd::submit_alone)). While
/// [`has_work`](Socklnd::has_work) says so, `flush` is to be called again, after the core's new
/// actions were submitted; otherwise nothing happens before the next report or
/// [`next_deadline`](Socklnd::next_deadline).
#[derive(Debug)]
pub struct Socklnd {
    pub(crate) config: Config,
    pub(crate) timing: Timing,
    pub(crate) conns: Conns,
    pub(crate) socks: HashMap<SockId, ConnKey, FixedState>,
    pub(crate) peers: Peers,
    /// Read into by all connections in turn; holds nothing between two calls.
    pub(crate) shared_buffer: Box<[u8]>,
    /// Connections with something to do.
    pub(crate) run: VecDeque<ConnKey>,
    /// Connections that brought something last.
    pub(crate) recent: Recent,
    /// Peers to dial, and peers that are owed acknowledgements.
    pub(crate) dialling: Vec<PeerKey>,
    pub(crate) acking: Vec<PeerKey>,
    /// Connections in their handshake.
    pub(crate) handshakes: TimerQueue<ConnKey>,
    /// The open and incoming connections, by what they are and where they come from.
    pub(crate) places: Places,
    /// The number of connections in their handshake that this node dials.
    pub(crate) outgoing: usize,
    /// Peers with messages that wait, or a dial that is due later.
    pub(crate) waiting: TimerQueue<PeerKey>,
    pub(crate) notices: Notices,
    pub(crate) offenders: Offenders,
    pub(crate) scan_at: Time,
    pub(crate) handoffs: VecDeque<Handoff>,
    pub(crate) counters: Counters,
    pub(crate) jitter: Jitter,
    /// Counts choices of connections.
    pub(crate) choices: u64,
    pub(crate) shut: Option<Status>,
    /// Operations finished by an acknowledgement; holds nothing between two calls.
    pub(crate) finished: Vec<OpKey>,
}

impl Socklnd {
    /// A driver without connections.
    ///
    /// # Panics
    /// When `cpts` is 0 or `cpt` not below it, or an interface allows no connections.
    pub fn new(config: Config) -> Socklnd {
        assert!(config.cpt < config.cpts, "CPT {} of {}", config.cpt, config.cpts);
        assert!(config.nis.iter().all(|ni| ni.conns_per_peer >= 1), "conns_per_peer is 0");
        let absent_max = usize::try_from(config.lnet_tunables.peers_max).unwrap_or(0);
        Socklnd {
            timing: Timing::new(&config.tunables, &config.lnet_tunables),
            conns: Conns::with_key(),
            socks: HashMap::default(),
            peers: Peers::new(absent_max, config.seed),
            shared_buffer: vec![0; SHARED_BUFFER_LEN].into_boxed_slice(),
            run: VecDeque::new(),
            recent: Recent::default(),
            dialling: Vec::new(),
            acking: Vec::new(),
            handshakes: TimerQueue::new(),
            places: Places::new(config.seed),
            outgoing: 0,
            waiting: TimerQueue::new(),
            notices: Notices::default(),
            offenders: Offenders::default(),
            scan_at: Time::NEVER,
            handoffs: VecDeque::new(),
            counters: Counters::default(),
            jitter: Jitter::new(config.seed),
            choices: 0,
            shut: None,
            finished: Vec::new(),
            config,
        }
    }

    /// Events counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// All peers with connections or messages, in no particular order.
    pub fn peers(&self) -> impl Iterator<Item = PeerConnections> + '_ {
        let of = move |peer: &Peer, count: fn(&Tx) -> u64| -> u64 {
            let conns = peer.members.iter().filter_map(|member| self.conns.get(member.conn));
            conns.map(|conn| count(&conn.tx)).sum()
        };
        self.peers.iter().map(move |(_, peer)| PeerConnections {
            id: peer.id,
            ni: peer.ni,
            version: peer.history.version,
            incarnation: peer.history.incarnation,
            control: peer.count(ConnType::Control),
            bulk_in: peer.count(ConnType::BulkIn),
            bulk_out: peer.count(ConnType::BulkOut),
            any: peer.count(ConnType::Any),
            tx_queued: of(peer, Tx::waiting),
            tx_messages: of(peer, |tx| tx.unwritten() as u64) as usize,
            waiting: peer.queue.len(),
            zero_copy: peer.zero_copy.len(),
            dialling: self.dialling(peer),
        })
    }

    /// All open connections of peers, or only those of this NID, in no particular order; without
    /// what the system counts of them ([`Io::stream_stats`]).
    pub fn open_conns(&self, only: Option<Nid>) -> impl Iterator<Item = OpenConn> + '_ {
        let wanted = move |peer: &&Peer| only.is_none_or(|nid| peer.id.nid == nid);
        let peers = self.peers.iter().map(|(_, peer)| peer).filter(wanted);
        peers.flat_map(move |peer| {
            peer.members.iter().filter_map(move |member| {
                let conn = self.conns.get(member.conn)?;
                Some(OpenConn {
                    id: peer.id,
                    ni: peer.ni,
                    kind: member.kind,
                    version: peer.history.version,
                    dialled: conn.origin == Origin::Dialled,
                    local: conn.local,
                    remote: conn.remote,
                    sock: conn.sock,
                })
            })
        })
    }

    fn dialling(&self, peer: &Peer) -> Option<DialPhase> {
        if peer.none_answers != 0 && peer.members.is_empty() {
            return Some(DialPhase::Refused);
        }
        match peer.dial {
            Dial::Idle => None,
            Dial::Waiting(_) => peer.history.failure.map(DialPhase::Failed),
            Dial::Active(conn) => match self.conns.get(conn)?.phase {
                Phase::Connecting(_) => Some(DialPhase::Connecting),
                Phase::Answer(_) => Some(DialPhase::AwaitingHello),
                _ => None,
            },
        }
    }

    /// Number of TCP connections, those in their HELLO included.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    /// Takes an action of the core: puts a message on its connection without writing. What is
    /// copied there is done at once, which may free credits for further messages: submit until the
    /// core has no more, then one [`flush`](Socklnd::flush) writes them all together.
    pub fn submit<I: Io, C: Core>(&mut self, now: Time, core: &mut C, io: &mut I, action: &Action) {
        let mut env = Env { now, core, io };
        match action {
            Action::Send(send) => self.route(&mut env, send, Departure::Flush),
            Action::Resume { rx, verdict, .. } => self.resume(&mut env, *rx, verdict.clone()),
            Action::Close { ni, peer, status } => self.close(&mut env, *ni, *peer, *status),
        }
    }

    /// Takes an action that comes alone. A message that is copied leaves at once, if nothing waits
    /// before it, and is done after that: what its end leads to does not delay it. What follows to
    /// the same peer in the same turn, an acknowledgement too, takes another system call.
    #[inline]
    pub fn submit_alone<I: Io, C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut I,
        action: &Action,
    ) {
        match action {
            Action::Send(send) => self.route(&mut Env { now, core, io }, send, Departure::AtOnce),
            Action::Resume { .. } | Action::Close { .. } => self.submit(now, core, io, action),
        }
    }

    /// Notes a report about a stream; reports about unknown streams are ignored. Reports are
    /// edge-triggered: what is readable or writable stays so until a call says otherwise.
    pub fn ready<I: Io, C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        _io: &mut I,
        sock: SockId,
        readiness: Readiness,
    ) {
        let Some(&key) = self.socks.get(&sock) else { return };
        self.counters.zero_copy_copied += u64::from(readiness.zero_copy_copied);
        for _ in 0..readiness.zero_copy_done {
            self.memory_released(now, core, key);
        }
        let conn = &mut self.conns[key];
        conn.readable |= readiness.readable || readiness.hangup;
        conn.writable |= readiness.writable;
        conn.hangup |= readiness.hangup;
        self.enqueue(key);
    }

    fn memory_released<C: Core>(&mut self, now: Time, core: &mut C, key: ConnKey) {
        let conn = &mut self.conns[key];
        let Some(cookie) = conn.tx.released() else { return };
        let Some(open) = conn.open() else { return };
        if let Some(op) = self.peers[open.peer].zero_copy.released(cookie) {
            core.done(now, op, Status::Ok);
        }
    }

    /// Does all that can be done now without a further report: dials, acknowledges, writes
    /// and reads, each connection within a budget.
    pub fn flush<I: Io, C: Core>(&mut self, now: Time, core: &mut C, io: &mut I) {
        let mut env = Env { now, core, io };
        for peer in core::mem::take(&mut self.dialling) {
            if let Some(found) = self.peers.get_mut(peer) {
                found.dial_requested = false;
                self.dial(&mut env, peer);
            }
        }
        self.acknowledge_all(&mut env);
        for _ in 0..self.run.len() {
            let Some(key) = self.run.pop_front() else { break };
            self.turn(&mut env, key);
        }
    }

    /// One connection's turn.
    fn turn<I: Io, C: Core>(&mut self, env: &mut Env<'_, I, C>, key: ConnKey) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        conn.queued = false;
        let result = match conn.phase {
            Phase::Connecting(dialled) => self.connected(env, key, dialled),
            Phase::Request(_) | Phase::Hello | Phase::Answer(_) => self.shake_hands(env, key),
            Phase::Claim(_) => Ok(()),
            Phase::Closing => self.finish_closing(env, key),
            Phase::Open(_) => self.exchange(env, key),
        };
        if let Err(reason) = result {
            self.fail(env, key, reason);
        }
    }

    /// Writes, then reads; also when writing failed, for what the peer said before it broke.
    fn exchange<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
    ) -> Result<(), CloseReason> {
        let written = self.write(env, key);
        self.receive(env, key)?;
        written
    }

    /// Writes what waits, and reports what has been written.
    pub(crate) fn write<I: Io, C: Core>(
        &mut self,
        env: &mut Env<'_, I, C>,
        key: ConnKey,
    ) -> Result<(), CloseReason> {
        let conn = &mut self.conns[key];
        if !conn.writable || conn.tx.waiting() == 0 {
            return Ok(());
        }
        let mut written = WriteTotals::default();
        let wrote = conn.tx.write(env.io, conn.sock, TURN_BYTES, &mut written);
        self.counters.writes += written.calls;
        self.counters.bytes_written += written.bytes;
        let (mut waiting, mut owed) = (None, None);
        if let Phase::Open(open) = &mut conn.phase {
            if written.bytes != 0 {
                open.last_sent = env.now;
            }
            let peer = &mut self.peers[open.peer];
            while let Some(op) = conn.tx.next_started() {
                env.core.tx_started(env.now, op);
            }
            while let Some(finished) = conn.tx.finished() {
                let op = match finished {
                    Finished::Op(op) => Some(op),
                    Finished::Cookie(cookie) => {
                        let in_system = conn.tx.in_system(cookie);
                        peer.zero_copy.written(cookie, in_system, env.now)
                    }
                };
                if let Some(op) = op {
                    env.core.done(env.now, op, Status::Ok);
                }
            }
            waiting = (!peer.queue.is_empty()).then_some(open.peer);
            owed = (!peer.acks.is_empty()).then_some(open.peer);
        }
        match wrote? {
            WriteEnd::All => {}
            WriteEnd::Blocked => conn.writable = false,
            WriteEnd::BudgetSpent => self.enqueue(key),
        }
        // There may be room again for what found none.
        if let Some(peer) = waiting {
            self.pump(env, peer);
        }
        if let Some(peer) = owed
            && written.bytes != 0
        {
            self.request_acks(peer);
        }
        Ok(())
    }

    /// Puts a connection in the run queue, once.
    pub(crate) fn enqueue(&mut self, key: ConnKey) {
        let conn = &mut self.conns[key];
        if !conn.queued {
            conn.queued = true;
            self.run.push_back(key);
        }
    }

    /// Whether [`flush`](Socklnd::flush) would do something now.
    pub fn has_work(&self) -> bool {
        !(self.run.is_empty() && self.dialling.is_empty() && self.acking.is_empty())
    }

    /// Who was refused or evicted since the last call, and how often: at most a few addresses, the
    /// others summed up.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.notices.take()
    }

    /// With whom the latest events were that the log reports, since the last call: a few peers and
    /// addresses for each line of the log.
    pub fn take_offenders(&mut self) -> Vec<DriverOffender> {
        self.offenders.take()
    }

    /// Counts the end of a connection under its reason, and remembers with whom it was.
    pub(crate) fn count_end(&mut self, reason: CloseReason, who: OtherEnd) {
        if let Some(counter) = self.counters.count_reason(reason) {
            self.offenders.add(counter, who);
        }
    }

    /// The next accepted connection that belongs to another CPU partition.
    pub fn next_handoff(&mut self) -> Option<Handoff> {
        self.handoffs.pop_front()
    }

    /// Orderly shutdown: closes everything; all operations end with `status`, also those submitted
    /// from now on. Incoming connections are closed at once.
    pub fn close_all<I: Io, C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut I,
        status: Status,
    ) {
        self.shut = Some(status);
        let mut env = Env { now, core, io };
        for key in self.peers.keys() {
            self.close_everything(&mut env, key, status);
        }
        let rest: Vec<(ConnKey, SockId)> =
            self.conns.iter().map(|(key, conn)| (key, conn.sock)).collect();
        for (key, sock) in rest {
            env.io.close(sock);
            self.remove(key);
        }
        for handoff in core::mem::take(&mut self.handoffs) {
            env.io.close(handoff.sock);
        }
    }

    pub(crate) fn ni(&self, ni: NiIndex) -> &NiConfig {
        &self.config.nis[usize::from(ni.0)]
    }

    /// Adds a connection.
    pub(crate) fn insert(&mut self, conn: Conn) -> ConnKey {
        let sock = conn.sock;
        let key = self.conns.insert(conn);
        let before = self.socks.insert(sock, key);
        assert!(before.is_none(), "{sock:?} is used for two streams");
        key
    }
}

#[cfg(test)]
mod tests;
