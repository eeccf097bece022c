//! `Shard`: all LNet state of one CPU partition.
//!
//! There are no locks and no callbacks. A message is one [`Msg`] in one [`Stage`]; what it holds is
//! given back in one place, `retire`. Drivers call `recv_header` and `done`, users call `put`,
//! `get` and `attach`; both take the results later from the queues of actions and events.

use std::collections::{BTreeSet, HashMap, VecDeque};

use foldhash::fast::FixedState;
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::nid::{Nid, ProcessId};
use slotmap::{Key, KeyData, SlotMap};

use crate::credits::Credits;
use crate::event::{Event, EventKind};
use crate::journal::Journal;
use crate::latency::Latencies;
use crate::lnd::{Action, NiIndex, OpKey};
use crate::lost::LostPeers;
use crate::md::{MdKey, MdState, MeKey};
use crate::memory::{Memory, Spans};
use crate::peer::{PeerNiKey, PeerTable};
use crate::portal::{Me, PORTALS, ParkedPuts, Portal};
use crate::stats::{MessageCounters, Stats};
use crate::status::{Health, Status};
use crate::time::{Nanos, Time};
use crate::topology::Topology;
use crate::totals::CounterBaseline;
use crate::wait_queue::WaitQueues;

mod changing;
mod descriptors;
mod discovery;
mod journaling;
mod latencies;
mod loopback;
mod matching;
mod overdue;
mod queues;
mod receive;
mod send;
mod view;

pub use changing::PeerTableFull;
pub use discovery::{PING_BITS, PING_PORTAL};
pub use queues::Queues;
pub use send::{AckWanted, GetArgs, PutArgs};
pub use view::{NiInfo, PeerInfo, PeerState, Waiting};

#[cfg(test)]
mod tests;

/// Largest payload of one message, in bytes ([CORE-1]).
pub const PAYLOAD_MAX: u32 = 1 << 20;

/// Most messages alive in one shard. This limits what peers that send requests and read no answers
/// can make it hold to about 100 MB.
const MSGS_MAX: usize = 262_144;

/// Most responses (ACKs, REPLYs) alive in one shard; the rest is for requests of this node.
const RESPONSES_MAX: usize = MSGS_MAX / 2;

/// Most responses that wait for the credits of one peer NID; further requests of it are dropped.
const RESPONSES_WAITING_MAX: usize = 8192;

/// Most responses that wait for one NID when half of [`RESPONSES_MAX`] is used: NIDs that read no
/// answers leave room for a thousand others.
const RESPONSES_KEPT: usize = 64;

/// How often the deadlines of answers and of waiting messages are checked.
const SCAN_INTERVAL: Nanos = Nanos::from_millis(250);

/// What a message is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Discovery of its peer.
    Discovery,
    /// A credit of its peer NID.
    PeerCredit,
    /// A credit of the local interface; it holds a credit of its peer NID.
    NiCredit,
    /// The driver; it holds both credits.
    Sending,
    /// The driver, to store its payload; it holds no credit.
    Receiving,
    /// The next `drive`: source and target are this node.
    Loopback,
    /// Nothing: there is no path, and it ends at once.
    Refused,
}

/// What the end of a message means for the owner of its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A PUT or GET of ours: a SEND event.
    Request,
    /// The REPLY to a GET: a GET event.
    Reply,
    /// An ACK: no event.
    Ack,
    /// A PUT for us: a PUT event, and an ACK if it was requested.
    PutIn,
    /// The REPLY to a GET of ours: a REPLY event.
    ReplyIn,
}

impl Purpose {
    #[inline]
    fn is_response(self) -> bool {
        matches!(self, Purpose::Reply | Purpose::Ack)
    }
}

#[derive(Debug)]
struct Msg {
    stage: Stage,
    purpose: Purpose,
    header: Header,
    ni: NiIndex,
    /// Next hop of a message out, previous hop of one in.
    hop: ProcessId,
    peer_ni: Option<PeerNiKey>,
    md: Option<MdKey>,
    payload: Spans,
    offset: u32,
    /// Payload bytes that are transferred.
    moved: u32,
    /// While it waits: its deadline. For a request in the driver: when the driver got it, and for
    /// an incoming REPLY: when the driver got the GET; [`Time::NEVER`] if latencies are not
    /// measured. (One field for both, as the size of a message affects speed.)
    time: Time,
    /// For the target's event: portal, match bits, requested bytes.
    portal: u32,
    match_bits: u64,
    requested: u32,
}

/// A message that got a credit and continues.
#[derive(Clone, Copy, Debug)]
enum CreditGrant {
    PeerCredit(OpKey),
    NiCredit(OpKey),
}

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
    /// First half of all handles on the wire: differs between starts and between partitions.
    cookie: u64,
    mds: SlotMap<MdKey, MdState>,
    mes: SlotMap<MeKey, Me>,
    portals: Vec<Portal>,
    parked: ParkedPuts,
    msgs: SlotMap<OpKey, Msg>,
    /// Number of responses among the messages.
    responses: usize,
    nis: Vec<NiState>,
    peers: PeerTable,
    /// Queues of messages that wait for discovery or for a credit.
    lines: WaitQueues<OpKey>,
    queues: Queues,
    /// Events of the core's own descriptors, handled in `drive`.
    own_events: VecDeque<Event>,
    loopback: VecDeque<(OpKey, Option<matching::Found>)>,
    /// Peers that lost their last connection or restarted, for users to take.
    lost: LostPeers,
    /// Events that users have taken.
    events_taken: u64,
    woken: VecDeque<CreditGrant>,
    waking: bool,
    /// Number of messages that wait for a credit of their peer.
    peer_waiting: u64,
    discoveries: HashMap<MdKey, discovery::PingPushTask, FixedState>,
    /// Peers whose discovery may have to begin.
    undecided: VecDeque<crate::peer::PeerKey>,
    ping: discovery::PingTarget,
    /// Owners whose awaited answers outlive the connections to the peer.
    keep_on_link_loss: BTreeSet<u32>,
    /// Number of descriptors that await an answer.
    awaited: usize,
    /// Links of lists of awaited answers read or written, for tests of the effort.
    #[cfg(test)]
    answers_touched: core::cell::Cell<u64>,
    next_scan: Time,
    /// No waiting message has its deadline before this, or it is too early to check again.
    next_expiry: Time,
    /// How long a message may wait to be sent; computed once, as it takes divisions.
    message_timeout: Nanos,
    stats: Stats,
    takes_latencies: bool,
    /// The counters at the last reset.
    counted_before: Stats,
    /// Present while a journal is kept.
    journal: Option<Box<Journal>>,
}

impl Shard {
    /// Creates a shard and starts its ping service.
    ///
    /// # Panics
    /// When `memory` has no room for the ping information and 64 buffers of 272 bytes for pushes.
    pub fn new(topology: Topology, memory: &mut impl Memory) -> Shard {
        let seed = topology.hash_seed;
        let nis = topology.nis.places().iter().map(NiState::new).collect();
        // The low byte names the partition that the handle belongs to.
        let cookie = (topology.incarnation & !0xff) | u64::from(topology.cpt & 0xff);
        let mut shard = Shard {
            cookie,
            mds: SlotMap::with_key(),
            mes: SlotMap::with_key(),
            portals: (0..PORTALS).map(|index| Portal::new(seed ^ u64::from(index))).collect(),
            parked: ParkedPuts::new(seed),
            msgs: SlotMap::with_key(),
            responses: 0,
            nis,
            peers: PeerTable::new(
                topology.tunables.peers_max as usize,
                topology.tunables.latency_peers as usize,
                seed,
            ),
            lines: WaitQueues::new(),
            queues: Queues::default(),
            own_events: VecDeque::new(),
            loopback: VecDeque::new(),
            lost: LostPeers::new(seed),
            events_taken: 0,
            woken: VecDeque::new(),
            waking: false,
            peer_waiting: 0,
            discoveries: HashMap::with_hasher(FixedState::with_seed(seed)),
            undecided: VecDeque::new(),
            ping: discovery::PingTarget::new(seed),
            keep_on_link_loss: BTreeSet::new(),
            awaited: 0,
            #[cfg(test)]
            answers_touched: Default::default(),
            next_scan: Time::ZERO,
            next_expiry: Time::NEVER,
            message_timeout: Nanos::from_secs(topology.tunables.message_timeout() as u64),
            stats: Stats::default(),
            takes_latencies: topology.tunables.latency_peers > 0,
            counted_before: Stats::default(),
            journal: None,
            topology,
        };
        shard.start_ping_service(memory);
        shard
    }

    /// The configuration in force.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Counters since the shard was created. A reset changes only the maximum of messages alive.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Takes the next action for a driver.
    pub fn next_action(&mut self) -> Option<Action> {
        self.queues.outbox.pop_front()
    }

    /// Takes the next event for a user.
    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.queues.events.pop_front()?;
        self.events_taken += 1;
        Some(event)
    }

    /// Takes the next peer that lost its last connection or restarted, and the reason. Answers that
    /// a user awaits of it, beyond what the core tracks, will not arrive. Returns `None` while
    /// events from before the loss are in the queue: they are still valid, and have to be taken
    /// first. If a peer is lost several times before this is taken, the last loss is reported.
    pub fn next_lost_peer(&mut self) -> Option<(ProcessId, Status)> {
        self.lost.next(self.events_taken)
    }

    /// Does the work of one turn of the loop: loopback deliveries, the core's own pings and pushes,
    /// discovery, overdue answers, and messages that waited too long.
    pub fn drive(&mut self, now: Time, memory: &mut impl Memory) {
        if let Some(journal) = &mut self.journal {
            journal.time(now);
        }
        if self.ping.stale() && now >= self.ping.again() {
            self.republish(now, memory);
        }
        self.deliver_loopback(now, memory);
        while let Some(event) = self.own_events.pop_front() {
            self.own_event(now, memory, &event);
        }
        self.post_push_buffers(now, memory);
        while let Some(peer) = self.undecided.pop_front() {
            self.advance_discovery(now, memory, peer);
        }
        if self.awaited > 0 && now >= self.next_scan {
            self.next_scan = now + SCAN_INTERVAL;
            self.expire_answers(now);
        }
        if now >= self.next_expiry {
            self.expire_waiting(now);
        }
    }

    /// Whether there is work: for [`Shard::drive`], or actions and events to take.
    pub fn has_work(&self) -> bool {
        self.has_own_work() || !self.queues.are_empty()
    }

    /// Whether [`Shard::drive`] has work.
    pub fn has_own_work(&self) -> bool {
        !(self.own_events.is_empty() && self.undecided.is_empty() && self.loopback.is_empty())
    }

    /// The latest time at which [`Shard::drive`] must run again if nothing else happens.
    pub fn next_deadline(&self) -> Time {
        let answers = if self.awaited > 0 { self.next_scan } else { Time::NEVER };
        let publishing = if self.ping.stale() { self.ping.again() } else { Time::NEVER };
        answers.min(self.next_expiry).min(publishing)
    }

    fn handle_of(&self, md: MdKey) -> MdHandle {
        MdHandle { interface: self.cookie, object: md.data().as_ffi() }
    }

    /// The descriptor that a handle from the wire names, if there is one.
    fn md_of(&self, handle: MdHandle) -> Option<MdKey> {
        let key = MdKey::from(KeyData::from_ffi(handle.object));
        (handle.interface == self.cookie
            && key.data().as_ffi() == handle.object
            && self.mds.contains_key(key))
        .then_some(key)
    }

    fn new_msg(&mut self, msg: Msg) -> OpKey {
        if let Some(peer_ni) = msg.peer_ni {
            self.peers.nis[peer_ni].messages += 1;
        }
        if let Some(md) = msg.md {
            self.mds[md].pending += 1;
        }
        self.responses += usize::from(msg.purpose.is_response());
        let op = self.msgs.insert(msg);
        self.stats.msgs_alloc = self.msgs.len() as u64;
        self.stats.msgs_max = self.stats.msgs_max.max(self.stats.msgs_alloc);
        op
    }

    /// Ends a message: gives its credits back and raises the event. Every message ends here.
    fn retire(&mut self, now: Time, op: OpKey, status: Status) {
        // By reference: moving it out of the option would copy it once more.
        let removed = self.msgs.remove(op);
        let Some(msg) = &removed else {
            panic!("a driver finished {op:?} twice, or one it never had");
        };
        self.note_ended(now, op, status);
        self.stats.msgs_alloc = self.msgs.len() as u64;
        self.responses -= usize::from(msg.purpose.is_response());
        self.count_outcome(msg, status);
        if let (Some(operation), Some(peer_ni), Status::Ok) = (msg.completes(), msg.peer_ni, status)
        {
            self.record_latency(now, msg.time, operation, msg.ni, peer_ni);
        }
        self.finish_owner(now, msg, status);
        if let Some(peer_ni) = msg.peer_ni {
            let ni = &mut self.peers.nis[peer_ni];
            ni.messages -= 1;
            if msg.purpose == Purpose::PutIn && msg.portal == PING_PORTAL {
                ni.pushing = false;
            }
        }
        match msg.stage {
            Stage::Sending => {
                if let Some(next) = self.nis[usize::from(msg.ni.0)].credits.give(&mut self.lines) {
                    self.woken.push_back(CreditGrant::NiCredit(next));
                }
                self.give_peer_credit(msg.peer_ni);
            }
            Stage::NiCredit => {
                self.nis[usize::from(msg.ni.0)].credits.leave(&mut self.lines, op);
                self.give_peer_credit(msg.peer_ni);
            }
            Stage::PeerCredit => {
                if let Some(peer_ni) = msg.peer_ni {
                    let waited = self.peers.nis[peer_ni].credits.leave(&mut self.lines, op);
                    self.peer_waiting -= u64::from(waited);
                }
            }
            Stage::Discovery => {
                if let Some(peer_ni) = msg.peer_ni {
                    self.lines.remove(&mut self.peers.nis[peer_ni].parked, op);
                }
            }
            Stage::Receiving | Stage::Loopback | Stage::Refused => {}
        }
        if !self.woken.is_empty() {
            self.wake(now);
        }
    }

    fn give_peer_credit(&mut self, peer_ni: Option<PeerNiKey>) {
        let Some(peer_ni) = peer_ni else { return };
        if let Some(next) = self.peers.nis[peer_ni].credits.give(&mut self.lines) {
            self.peer_waiting -= 1;
            self.woken.push_back(CreditGrant::PeerCredit(next));
        }
    }

    /// Continues messages that got a credit. This is a loop and not a recursion: a long queue of
    /// overdue messages must not become a deep stack.
    fn wake(&mut self, now: Time) {
        if self.waking {
            return;
        }
        self.waking = true;
        while let Some(woken) = self.woken.pop_front() {
            match woken {
                CreditGrant::PeerCredit(op) => self.take_ni_credit(now, op),
                CreditGrant::NiCredit(op) => self.hand_to_driver(now, op),
            }
        }
        self.waking = false;
    }

    fn count_outcome(&mut self, msg: &Msg, status: Status) {
        let outgoing = !matches!(msg.purpose, Purpose::PutIn | Purpose::ReplyIn);
        if status.is_ok() && outgoing {
            self.stats.sent.count(&msg.header.body);
            self.stats.send_length += u64::from(msg.header.payload_len);
            if let Some(peer_ni) = msg.peer_ni {
                self.nis[usize::from(msg.ni.0)].counters.sent += 1;
                self.peers.nis[peer_ni].counters.sent += 1;
            }
        } else if status.is_ok() {
            self.stats.recv_length += u64::from(msg.moved);
            self.stats.drop_length += u64::from(msg.header.payload_len - msg.moved);
        } else {
            self.stats.errors += 1;
            match status.health() {
                Health::Ok => {}
                Health::LocalError => self.stats.local_errors += 1,
                Health::RemoteDropped => self.stats.remote_dropped += 1,
                Health::RemoteError => self.stats.remote_errors += 1,
                Health::NetworkTimeout => self.stats.network_timeouts += 1,
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
        self.mds[md].pending -= 1;
        self.raise(kind, status, md, msg);
        if acknowledge {
            self.send_ack(now, msg);
        }
    }

    /// Queues an event for the descriptor's owner; the last one has the unlinked mark.
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
        let event = Event {
            kind,
            status,
            owner: self.mds[md].md.owner,
            user: self.mds[md].md.user,
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
        if state.pending == 0 && (state.aborted.is_some() || self.goes_when_idle(event.md)) {
            event.unlinked = true;
            if let (Some(reason), true) = (self.mds[event.md].aborted, event.status.is_ok()) {
                event.status = reason;
            }
            self.remove_md(event.md);
        }
        if event.owner == crate::md::Owner::LNET {
            self.own_events.push_back(event);
        } else {
            self.queues.events.push_back(event);
        }
    }

    fn report_lost(&mut self, peer: ProcessId, status: Status) {
        let raised = self.events_taken + self.queues.events.len() as u64;
        self.lost.add(peer, status, raised);
    }

    fn is_local(&self, nid: &Nid) -> bool {
        nid.is_lo() || self.topology.ni_of(nid).is_some()
    }
}
