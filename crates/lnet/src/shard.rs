//! `Shard`: all LNet state of one CPU partition.
//!
//! There are no locks and no callbacks. A message is one [`Msg`] in one [`Stage`]; what it holds is
//! given back in one place, `retire`. Drivers call `recv_header` and `done`, users call `put`,
//! `get` and `attach`; both take the results later from the queues of actions and events.

use std::collections::VecDeque;

use lustrine_wire::header::Body;
use lustrine_wire::nid::Nid;

use crate::credits::Credits;
use crate::event::{Event, EventKind};
use crate::latency::Latencies;
use crate::lnd::OpKey;
use crate::md::MdKey;
use crate::memory::Memory;
use crate::peer::PeerTable;
use crate::portal::Portals;
use crate::stats::{MessageCounters, Stats};
use crate::status::{Health, Status};
use crate::time::{Nanos, Time};
use crate::topology::Topology;
use crate::totals::CounterBaseline;

mod answers;
mod changing;
mod descriptors;
mod discovery;
mod journaling;
mod latencies;
mod loopback;
mod matching;
mod messages;
mod overdue;
mod queues;
mod receive;
mod send;
mod telemetry;
mod view;

use answers::Answers;
use descriptors::Descriptors;
use discovery::Discovery;
use messages::{CreditGrant, Messages, Msg, Purpose, Stage};
use queues::Reports;
use telemetry::Telemetry;

pub use changing::PeerTableFull;
pub use discovery::{PING_BITS, PING_PORTAL};
pub use queues::Queues;
pub use send::{AckWanted, GetArgs, PutArgs};
pub use view::{NiInfo, PeerInfo, PeerState, Waiting};

#[cfg(test)]
mod tests;

/// Largest payload of one message, in bytes ([CORE-1]).
pub const PAYLOAD_MAX: u32 = 1 << 20;

/// How often the deadlines of answers and of waiting messages are checked.
const SCAN_INTERVAL: Nanos = Nanos::from_millis(250);

#[derive(Debug)]
struct NiState {
    credits: Credits,
    sequence: u64,
    /// Since the last reset, as the latencies.
    counters: MessageCounters,
    latencies: Latencies,
    before: CounterBaseline,
}

/// All state of one CPU partition.
#[derive(Debug)]
pub struct Shard {
    topology: Topology,
    mds: Descriptors,
    portals: Portals,
    msgs: Messages,
    answers: Answers,
    nis: Vec<NiState>,
    peers: PeerTable,
    discovery: Discovery,
    /// Messages to 0@lo for the next [`Shard::drive`], and what those that were parked match.
    loopback: VecDeque<(OpKey, Option<matching::Found>)>,
    reports: Reports,
    telemetry: Telemetry,
}

impl Shard {
    /// Creates a shard and starts its ping service.
    ///
    /// # Panics
    /// When `memory` has no room for the ping information and 64 buffers of 272 bytes for pushes.
    pub fn new(topology: Topology, memory: &mut impl Memory) -> Shard {
        let (seed, tunables) = (topology.hash_seed, &topology.tunables);
        let nis = topology.nis.places().iter().map(NiState::new).collect();
        let (peers_max, timed_max) = (tunables.peers_max as usize, tunables.latency_peers as usize);
        // The low byte names the partition that the handle belongs to.
        let cookie = (topology.incarnation & !0xff) | u64::from(topology.cpt & 0xff);
        let mut shard = Shard {
            mds: Descriptors::new(cookie),
            portals: Portals::new(seed),
            msgs: Messages::new(Nanos::from_secs(tunables.message_timeout() as u64)),
            answers: Answers::default(),
            nis,
            peers: PeerTable::new(peers_max, timed_max, seed),
            discovery: Discovery::new(seed),
            loopback: VecDeque::new(),
            reports: Reports::new(seed),
            telemetry: Telemetry::new(timed_max > 0),
            topology,
        };
        shard.start_ping_service(memory);
        shard
    }

    /// The current configuration.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Counters since the shard was created. A reset changes only the maximum of messages alive.
    pub fn stats(&self) -> &Stats {
        &self.telemetry.stats
    }

    /// Does the work of one turn of the loop: loopback deliveries, the core's own pings and pushes,
    /// discovery, overdue answers, and messages that waited too long.
    pub fn drive(&mut self, now: Time, memory: &mut impl Memory) {
        if let Some(journal) = &mut self.telemetry.journal {
            journal.time(now);
        }
        if now >= self.discovery.publish_again() {
            self.republish(now, memory);
        }
        self.deliver_loopback(now, memory);
        self.drive_discovery(now, memory);
        if self.answers.check_is_due(now) {
            self.expire_answers(now);
        }
        if now >= self.msgs.next_expiry() {
            self.expire_waiting(now);
        }
    }

    /// Whether there is work: for [`Shard::drive`], or actions and events to take.
    pub fn has_work(&self) -> bool {
        self.has_own_work() || !self.reports.are_empty() || self.has_events()
    }

    /// Whether [`Shard::drive`] has work.
    pub fn has_own_work(&self) -> bool {
        self.discovery.has_work() || !self.loopback.is_empty()
    }

    /// The latest time at which [`Shard::drive`] must run again if nothing else happens.
    pub fn next_deadline(&self) -> Time {
        let answers = self.answers.next_check();
        answers.min(self.msgs.next_expiry()).min(self.discovery.next_deadline())
    }

    #[inline(always)]
    fn new_msg(&mut self, msg: Msg) -> OpKey {
        if let Some(peer_ni) = msg.peer_ni {
            let ni = &mut self.peers.nis[peer_ni];
            ni.messages += 1;
            ni.userland_messages += u32::from(msg.hop.is_userland());
        }
        if let Some(md) = msg.md {
            self.mds[md].pending += 1;
        }
        let op = self.msgs.add(msg);
        self.telemetry.alive(self.msgs.len());
        op
    }

    /// Ends a message: gives its credits back and raises the event. Every message ends here.
    fn retire(&mut self, now: Time, op: OpKey, status: Status) {
        let Some(boxed) = self.msgs.take(op) else {
            panic!("a driver finished {op:?} twice, or one it never had");
        };
        let msg = &*boxed;
        self.note_completed(now, op, status);
        self.telemetry.stats.msgs_alloc = self.msgs.len() as u64;
        self.count_outcome(msg, status);
        if let (Some(operation), Some(peer_ni), Status::Ok) = (msg.completes(), msg.peer_ni, status)
        {
            self.record_latency(now, msg.time, operation, msg.ni, peer_ni);
        }
        self.finish_owner(now, msg, status);
        if let Some(peer_ni) = msg.peer_ni {
            let ni = &mut self.peers.nis[peer_ni];
            ni.messages -= 1;
            ni.userland_messages -= u32::from(msg.hop.is_userland());
        }
        match msg.stage {
            Stage::Sending => {
                if let Some(next) =
                    self.nis[usize::from(msg.ni.0)].credits.give(&mut self.msgs.queues)
                {
                    self.msgs.grant(CreditGrant::NiCredit(next));
                }
                self.give_peer_credit(msg);
            }
            Stage::NiCredit => {
                self.nis[usize::from(msg.ni.0)].credits.leave(&mut self.msgs.queues, op);
                self.give_peer_credit(msg);
            }
            Stage::PeerCredit => {
                if let Some(peer_ni) = msg.peer_ni {
                    let credits = self.peers.nis[peer_ni].credits_for(&msg.hop);
                    let waited = credits.leave(&mut self.msgs.queues, op);
                    self.msgs.peer_waiting -= u64::from(waited);
                }
            }
            Stage::Discovery => {
                if let Some(peer_ni) = msg.peer_ni {
                    self.msgs.queues.remove(&mut self.peers.nis[peer_ni].parked, op);
                }
            }
            Stage::Receiving | Stage::ReplyInPlace | Stage::Loopback | Stage::Refused => {}
        }
        self.msgs.recycle(boxed);
        if self.msgs.begin_continuing() {
            self.continue_granted(now);
        }
    }

    fn give_peer_credit(&mut self, msg: &Msg) {
        let Some(peer_ni) = msg.peer_ni else { return };
        let credits = self.peers.nis[peer_ni].credits_for(&msg.hop);
        if let Some(next) = credits.give(&mut self.msgs.queues) {
            self.msgs.peer_waiting -= 1;
            self.msgs.grant(CreditGrant::PeerCredit(next));
        }
    }

    /// Continues messages that got a credit.
    fn continue_granted(&mut self, now: Time) {
        while let Some(grant) = self.msgs.next_granted() {
            match grant {
                CreditGrant::PeerCredit(op) => self.take_ni_credit(now, op),
                CreditGrant::NiCredit(op) => self.hand_to_driver(now, op),
            }
        }
    }

    fn count_outcome(&mut self, msg: &Msg, status: Status) {
        let outgoing = !matches!(msg.purpose, Purpose::PutIn | Purpose::ReplyIn);
        if status.is_ok() && outgoing {
            self.telemetry.stats.sent.count(&msg.header.body);
            self.telemetry.stats.send_length += u64::from(msg.header.payload_len);
            if let Some(peer_ni) = msg.peer_ni {
                self.nis[usize::from(msg.ni.0)].counters.sent += 1;
                self.peers.nis[peer_ni].counters.sent += 1;
            }
        } else if status.is_ok() {
            self.telemetry.stats.recv_length += u64::from(msg.moved);
            self.telemetry.stats.drop_length += u64::from(msg.header.payload_len - msg.moved);
        } else {
            self.telemetry.stats.errors += 1;
            match status.health() {
                Health::Ok => {}
                Health::LocalError => self.telemetry.stats.local_errors += 1,
                Health::RemoteDropped => self.telemetry.stats.remote_dropped += 1,
                Health::RemoteError => self.telemetry.stats.remote_errors += 1,
                Health::NetworkTimeout => self.telemetry.stats.network_timeouts += 1,
            }
        }
    }

    /// Raises the owner's event, and sends the ACK that a stored PUT requested.
    fn finish_owner(&mut self, now: Time, msg: &Msg, status: Status) {
        let Some(md) = msg.md else { return };
        let kind = match msg.purpose {
            Purpose::Request => EventKind::Send,
            Purpose::Reply => EventKind::Get,
            Purpose::PutIn => EventKind::Put,
            Purpose::ReplyIn => EventKind::Reply,
            Purpose::Ack => return,
        };
        let acknowledge = msg.purpose == Purpose::PutIn && status.is_ok() && self.wants_ack(msg);
        if msg.purpose == Purpose::Request && !status.is_ok() {
            self.answer_will_not_come(md);
        }
        self.raise(kind, status, md, msg);
        if acknowledge {
            self.send_ack(now, msg);
        }
    }

    /// Queues the event of a message that has ended for the descriptor's owner; the last one has
    /// the unlinked mark.
    fn raise(&mut self, kind: EventKind, status: Status, md: MdKey, msg: &Msg) {
        let hdr_data = match msg.header.body {
            Body::Put { hdr_data, .. } => hdr_data,
            _ => 0,
        };
        let incoming = matches!(msg.purpose, Purpose::PutIn | Purpose::ReplyIn);
        let (local, peer) = if incoming {
            (msg.header.dst, msg.header.src)
        } else {
            (msg.header.src, msg.header.dst)
        };
        let state = &mut self.mds[md];
        state.pending -= 1;
        let event = Event {
            kind,
            status,
            owner: state.md.owner,
            user: state.md.user,
            md,
            unlinked: false,
            peer,
            hop: msg.hop,
            local,
            portal: msg.portal,
            match_bits: msg.match_bits,
            hdr_data,
            requested: msg.requested,
            moved: if status.is_ok() { msg.moved } else { 0 },
            offset: msg.offset,
        };
        self.post(event);
    }

    /// Queues an event and, when it is the descriptor's last, removes the descriptor.
    fn post(&mut self, mut event: Event) {
        let state = &self.mds[event.md];
        if state.pending == 0 && (state.aborted.is_some() || state.goes_when_idle()) {
            event.unlinked = true;
            if let (Some(reason), true) = (state.aborted, event.status.is_ok()) {
                event.status = reason;
            }
            self.remove_md(event.md);
        }
        if event.owner == crate::md::Owner::LNET {
            self.discovery.own_event(event);
        } else {
            self.reports.raise(event);
        }
    }

    fn is_local(&self, nid: &Nid) -> bool {
        nid.is_lo() || self.topology.ni_of(nid).is_some()
    }
}
