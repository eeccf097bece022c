//! A client's connection to one target, and the requests that go over it.

mod connecting;
mod moving;
mod recovery;
mod replies;
mod sending;
#[cfg(test)]
mod tests;
mod window;

use std::collections::{BTreeMap, VecDeque};

use lustrine_congestion::{Controller, View};
use lustrine_fswire::connect::ConnectData;
use lustrine_fswire::opcode::Target;
use lustrine_lnet::time::{Nanos, Time, WallClock};
use lustrine_wire::nid::ProcessId;
use slotmap::SlotMap;

use crate::adaptive::{AtTunables, Estimate};
use crate::request::{Purpose, Replay, Reply, Request, RequestArgs, RequestKey, RpcError, Stage};
use crate::slots::{SlotKind, Slots};
use crate::sorted::{SortedMap, SortedQueue};
use crate::statistics::Latencies;
use crate::xid::XidSource;

pub use replies::ReplyEvent;
pub(crate) use replies::errno;

/// What an import is for.
#[derive(Clone, Debug)]
pub struct ImportArgs {
    /// Its kind.
    pub kind: Target,
    /// The name of the target as servers know it: `MGS`, `lustre-MDT0000_UUID`. At most 39
    /// characters.
    pub target: String,
    /// The UUID of the client, as text. It is the same for the targets of a mount, and another one
    /// for the MGS.
    pub client_uuid: String,
    /// A number by which the server's lock callbacks name this import. It must differ from those of
    /// all other imports of the node, and must not be 0.
    pub client_handle: u64,
    /// The peers at which the target can be, the preferred one first. At least one.
    pub peers: Vec<ProcessId>,
    /// What the client offers at connect.
    pub offer: ConnectData,
}

/// The settings of an import; Lustre's names and defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportTunables {
    /// Most requests with [`RequestArgs::counted`] at once, 1 to 512.
    pub max_rpcs_in_flight: u16,
    /// Most modifying requests at once, 1 to 512. What the server granted is a limit as well.
    pub max_mod_rpcs_in_flight: u16,
    /// Limits requests with [`RequestArgs::counted`] to what the path and the target carry as well.
    /// The value is the wall clock of the node: all nodes probe their paths at the same time.
    pub window: Option<WallClock>,
    /// Most bytes of one transfer of data, a multiple of 4096 (`max_pages_per_rpc`); what the
    /// server granted is a limit as well. The owner keeps to it.
    pub max_transfer: u32,
    /// Most bytes of data for the target that are not written (`max_dirty_mb`). The owner keeps to
    /// it.
    pub max_dirty: u64,
    /// Whether data have checksums (`checksums`). The owner keeps to it.
    pub checksums: bool,
    /// Adaptive time-outs.
    pub at: AtTunables,
    /// A ping is sent after this time without a request.
    pub ping_interval: Nanos,
    /// How long an attempt to connect may take.
    pub connect_timeout: Nanos,
    /// The pause after all peers were tried, at first; it doubles up to `reconnect_delay_max`.
    pub reconnect_delay_min: Nanos,
    /// The longest pause between attempts to connect.
    pub reconnect_delay_max: Nanos,
    /// After this time without a request [`Action::Unused`] says so; `None` for never.
    pub idle_timeout: Option<Nanos>,
}

impl Default for ImportTunables {
    fn default() -> ImportTunables {
        ImportTunables {
            max_rpcs_in_flight: 8,
            max_mod_rpcs_in_flight: 7,
            window: None,
            max_transfer: u32::MAX,
            max_dirty: u64::MAX,
            checksums: true,
            at: AtTunables::default(),
            ping_interval: Nanos::from_secs(25),
            connect_timeout: Nanos::from_secs(5),
            reconnect_delay_min: Nanos::from_secs(5),
            reconnect_delay_max: Nanos::from_secs(50),
            idle_timeout: Some(Nanos::from_secs(20)),
        }
    }
}

/// The states of an import, with Lustre's names [IMP-5].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImportState {
    /// Disconnected for good.
    Closed,
    /// Never connected.
    New,
    /// The connection is lost, and the next attempt is due later.
    Disconn,
    /// CONNECT is under way.
    Connecting,
    /// Changes are replayed that the server may have lost.
    Replay,
    /// Locks are enqueued again.
    ReplayLocks,
    /// The end of the server's recovery is awaited.
    ReplayWait,
    /// Unanswered requests are sent again.
    Recover,
    /// Connected.
    Full,
    /// The server has forgotten this client.
    Evicted,
    /// Disconnected because nothing was to be done.
    Idle,
}

impl ImportState {
    /// Whether requests are answered soon, as far as the client knows: it is connected, or will be
    /// with the next request.
    pub const fn is_usable(self) -> bool {
        matches!(self, ImportState::Full | ImportState::Idle)
    }

    /// The name that Lustre's tools print.
    pub const fn name(self) -> &'static str {
        match self {
            ImportState::Closed => "CLOSED",
            ImportState::New => "NEW",
            ImportState::Disconn => "DISCONN",
            ImportState::Connecting => "CONNECTING",
            ImportState::Replay => "REPLAY",
            ImportState::ReplayLocks => "REPLAY_LOCKS",
            ImportState::ReplayWait => "REPLAY_WAIT",
            ImportState::Recover => "RECOVER",
            ImportState::Full => "FULL",
            ImportState::Evicted => "EVICTED",
            ImportState::Idle => "IDLE",
        }
    }
}

/// A step that the owner of an import has to carry out for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a request: attach its reply and bulk descriptors, then PUT [`Import::message`].
    Send(SendArgs),
    /// Take back the descriptors of a request that was sent; its answer does not count any more.
    Withdraw {
        /// The request.
        key: RequestKey,
    },
    /// A request of the owner's is over. Each has exactly one.
    Done {
        /// The request.
        key: RequestKey,
        /// The owner's value.
        user: u64,
        /// Its reply, or why there is none.
        result: Result<Reply, RpcError>,
    },
    /// A request was replayed after a restart of the server. The reply of an open has a new handle.
    /// The replay goes on with [`Import::replay_next`].
    Replayed {
        /// The request.
        key: RequestKey,
        /// The owner's value.
        user: u64,
        /// The reply to the replay.
        reply: Reply,
    },
    /// The key is not used any more, and the memory of the request is free.
    Release {
        /// The request.
        key: RequestKey,
        /// The owner's value.
        user: u64,
    },
    /// The owner has to enqueue the locks that it holds again, with [`Import::replay_lock`], and
    /// then to call [`Import::locks_replayed`].
    ReplayLocks,
    /// The server has evicted this client, or [`Import::set_active`] has ended its use: locks, open
    /// files and unwritten data are void.
    Evicted,
    /// The owner has asked for nothing for [`ImportTunables::idle_timeout`]. If it holds no locks
    /// of the target, it can call [`Import::become_idle`]. This is said again after the same time.
    Unused,
    /// The state changed.
    State {
        /// Before.
        from: ImportState,
        /// Now.
        to: ImportState,
    },
}

/// How to send a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendArgs {
    /// The request.
    pub key: RequestKey,
    /// Whom to send it to, and the only sender of its answer.
    pub peer: ProcessId,
    /// The portal of the service.
    pub portal: u32,
    /// The match bits of the PUT: the xid.
    pub xid: u64,
    /// The portal of the reply.
    pub reply_portal: u32,
    /// The match bits of the reply.
    pub reply_bits: u64,
    /// Room for the early reply and the reply, in bytes.
    pub reply_room: u32,
    /// The match bits of the first bulk descriptor; the others follow. Meaningless without bulk.
    pub bulk_bits: u64,
}

/// A summary of an import for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportView {
    /// The name of the target.
    pub target: String,
    /// Its state.
    pub state: ImportState,
    /// The peer that it is connected to, or that it tries.
    pub peer: ProcessId,
    /// Attempts to connect.
    pub conn_cnt: u32,
    /// The server's handle for this client; 0 if there is no connection to be taken up again.
    pub export: u64,
    /// Requests sent and not answered.
    pub in_flight: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that are kept for a replay.
    pub kept: usize,
    /// The last transaction that is known to be on stable storage.
    pub last_committed: u64,
    /// What the server granted.
    pub granted: ConnectData,
    /// What is known of the way to the target and back, with [`ImportTunables::window`].
    pub window: Option<View>,
    /// The state's changes to EVICTED.
    pub evictions: u64,
    /// Why the target is not used, if it is not.
    pub deactivated: Option<Deactivated>,
    /// How often the target had been started when it granted the connection; 0 if it did not say.
    pub instance: u32,
}

/// Why a target is not used, and its requests fail at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deactivated {
    /// An administrator has said so (`active=0`).
    Inactive,
    /// The server refuses this client for good; the errno is positive.
    Refused(i32),
}

impl Deactivated {
    /// The outcome of a request.
    fn error(self) -> RpcError {
        match self {
            Deactivated::Inactive => RpcError::Inactive,
            Deactivated::Refused(errno) => RpcError::Refused(errno),
        }
    }
}

/// A client's connection to one target.
#[derive(Debug)]
pub struct Import {
    args: ImportArgs,
    tunables: ImportTunables,
    state: ImportState,
    /// The peer in use.
    current: usize,
    /// Peers tried since the last success.
    tried: usize,
    reconnect_delay: Nanos,
    /// When the next attempt to connect is due; [`Time::NEVER`] while none is.
    reconnect_at: Time,
    conn_cnt: u32,
    /// The export's handle at the server; 0 if there is none.
    export: u64,
    granted: ConnectData,
    /// Bytes of grant that the owner's data need which are dirty or in flight.
    grant_claim: u32,
    deactivated: Option<Deactivated>,
    /// Whether the server grants slots for several changes at once.
    has_slots: bool,
    /// Whether a DISCONNECT that is under way is for idleness.
    going_idle: bool,
    /// Whether the next replay waits for the owner, who knows what the one before has opened.
    awaits_owner: bool,
    /// When a request of the owner's was last sent.
    last_used: Time,
    requests: SlotMap<RequestKey, Request>,
    /// Requests that wait, by class.
    waiting: [VecDeque<RequestKey>; CLASSES],
    /// Requests that were sent and are to be sent again once the connection stands, by xid.
    unsent: BTreeMap<u64, RequestKey>,
    /// xids that were sent and not answered [IMP-3].
    unanswered: SortedQueue<u64>,
    /// Changes that the server may lose, by transaction.
    kept: SortedMap<u64, RequestKey>,
    /// Opens that are committed and not released, by transaction.
    opens: BTreeMap<u64, RequestKey>,
    /// The last transaction that was replayed in this recovery.
    replayed: u64,
    /// How often the recovery has begun anew because the server did not take a lock again.
    lock_rounds: u32,
    last_committed: u64,
    slots: Slots,
    credits_used: u16,
    /// How much may be in flight; once there was one it stays, also while it limits nothing.
    window: Option<Controller>,
    timers: SortedQueue<(Time, RequestKey)>,
    /// When a request is due that waits for its time in the window.
    paced_until: Time,
    /// Estimates by portal.
    services: BTreeMap<u32, Estimate>,
    latency: Estimate,
    last_sent: Time,
    /// The import's own request that is in flight.
    connect: Option<RequestKey>,
    /// Whether a ping is not answered yet.
    awaits_ping: bool,
    evictions: u64,
    latencies: Latencies,
    actions: VecDeque<Action>,
}

/// The classes of waiting requests: what one waits for must not hold up another.
const CLASSES: usize = 4;

/// The class of a request.
fn class(args: &RequestArgs) -> usize {
    match (args.slot, args.counted) {
        (SlotKind::None, false) => 0,
        (SlotKind::None, true) => 1,
        (SlotKind::Modify, _) => 2,
        (SlotKind::Close, _) => 3,
    }
}

impl Import {
    /// An import in the state NEW. [`Import::connect`] begins.
    ///
    /// # Panics
    /// When there is no peer, or the client's handle is 0.
    pub fn new(args: ImportArgs, tunables: ImportTunables) -> Import {
        assert!(!args.peers.is_empty(), "an import has at least one peer");
        assert!(args.client_handle != 0, "0 is no handle");
        Import {
            state: ImportState::New,
            current: 0,
            tried: 0,
            reconnect_delay: tunables.reconnect_delay_min,
            reconnect_at: Time::NEVER,
            conn_cnt: 0,
            export: 0,
            granted: ConnectData::default(),
            grant_claim: 0,
            deactivated: None,
            has_slots: false,
            going_idle: false,
            awaits_owner: false,
            last_used: Time::ZERO,
            requests: SlotMap::with_key(),
            waiting: Default::default(),
            unsent: BTreeMap::new(),
            unanswered: SortedQueue::default(),
            kept: SortedMap::default(),
            opens: BTreeMap::new(),
            replayed: 0,
            lock_rounds: 0,
            last_committed: 0,
            slots: Slots::new(0),
            credits_used: 0,
            window: None,
            timers: SortedQueue::default(),
            paced_until: Time::NEVER,
            services: BTreeMap::new(),
            latency: Estimate::new(AtTunables { at_min: 0, ..tunables.at }),
            last_sent: Time::ZERO,
            connect: None,
            awaits_ping: false,
            evictions: 0,
            latencies: Latencies::default(),
            actions: VecDeque::new(),
            args,
            tunables,
        }
    }

    /// Submits a request. Its [`Action::Done`] follows, in all cases.
    pub fn submit(&mut self, now: Time, xids: &mut XidSource, args: RequestArgs) -> RequestKey {
        let no_delay = args.no_delay;
        let class = class(&args);
        let key = self.requests.insert(Request::new(args, Purpose::Owner));
        let refused = match self.state {
            ImportState::Closed => Some(RpcError::Closed),
            _ if self.deactivated.is_some() => self.deactivated.map(Deactivated::error),
            ImportState::Full => None,
            _ if no_delay => Some(RpcError::NotConnected),
            _ => None,
        };
        if let Some(error) = refused {
            self.finish(key, Err(error));
            return key;
        }
        self.waiting[class].push_back(key);
        if self.state == ImportState::Idle {
            self.connect(now, xids);
        }
        self.pump(now, xids);
        key
    }

    /// Gives a request up. Its [`Action::Done`] has [`RpcError::Canceled`], unless it was over
    /// before. A change that was sent goes on without its owner, because its slot is in use until
    /// it is answered.
    pub fn cancel(&mut self, now: Time, xids: &mut XidSource, key: RequestKey) {
        let Some(request) = self.requests.get_mut(key).filter(|request| !request.done) else {
            return;
        };
        if request.tag != 0 {
            request.done = true;
            let user = request.args.user;
            self.actions.push_back(Action::Done { key, user, result: Err(RpcError::Canceled) });
            return;
        }
        self.retract(key);
        self.finish(key, Err(RpcError::Canceled));
        self.pump(now, xids);
    }

    /// Lets go of an open that was kept, because its close was answered.
    pub fn release(&mut self, key: RequestKey) {
        let Some(request) = self.requests.get_mut(key) else { return };
        request.released = true;
        if request.stage == Stage::Kept && request.transno <= self.last_committed {
            self.drop_kept(key);
        }
    }

    /// Sets what makes the message of a replay from the one that was sent: an open is replayed with
    /// the layout that the server chose. It is called once, and most often never.
    pub fn set_replay(&mut self, key: RequestKey, replay: Replay) {
        if let Some(request) = self.requests.get_mut(key) {
            request.replay = Some(replay);
        }
    }

    /// Sets the bytes of grant that a reconnect asks for: what the data of the owner cost which are
    /// dirty or on their way to the server [OST-17].
    pub fn set_grant_claim(&mut self, bytes: u32) {
        self.grant_claim = bytes;
    }

    /// The settings in force.
    pub const fn tunables(&self) -> &ImportTunables {
        &self.tunables
    }

    /// Changes the settings. Requests that are in flight keep theirs.
    pub fn set_tunables(&mut self, now: Time, xids: &mut XidSource, tunables: ImportTunables) {
        self.tunables = tunables;
        self.services.values_mut().for_each(|service| service.set_tunables(tunables.at));
        self.latency.set_tunables(AtTunables { at_min: 0, ..tunables.at });
        self.pump(now, xids);
    }

    /// The message of a request, as it is to be sent.
    pub fn message(&self, key: RequestKey) -> &[u8] {
        self.requests.get(key).map_or(&[], |request| &request.args.message)
    }

    /// Whether a request was sent and its reply is awaited.
    pub fn is_sent(&self, key: RequestKey) -> bool {
        self.requests.get(key).is_some_and(|request| matches!(request.stage, Stage::Sent { .. }))
    }

    /// The kind of its target.
    pub fn kind(&self) -> Target {
        self.args.kind
    }

    /// The number by which the server's lock callbacks name this import.
    pub fn client_handle(&self) -> u64 {
        self.args.client_handle
    }

    /// Whether the target can be at this peer.
    pub fn has_peer(&self, peer: &ProcessId) -> bool {
        self.args.peers.iter().any(|known| known.nid == peer.nid)
    }

    /// Sends a request again that could not be sent for want of memory. Nothing happens if it is
    /// over by now.
    pub fn send_again(&mut self, now: Time, xids: &mut XidSource, key: RequestKey) {
        if self.is_sent(key) {
            self.transmit(now, xids, key);
        }
    }

    /// The next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The state.
    pub fn state(&self) -> ImportState {
        self.state
    }

    /// What the server granted at the last connect.
    pub fn granted(&self) -> &ConnectData {
        &self.granted
    }

    /// The peer in use.
    pub fn peer(&self) -> ProcessId {
        self.args.peers[self.current]
    }

    /// How long each operation took.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// How often the server has evicted this client.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// A summary.
    pub fn view(&self) -> ImportView {
        let sent = |request: &&Request| matches!(request.stage, Stage::Sent { .. });
        ImportView {
            target: self.args.target.clone(),
            state: self.state,
            peer: self.peer(),
            conn_cnt: self.conn_cnt,
            export: self.export,
            in_flight: self.requests.values().filter(sent).count(),
            waiting: self.waiting.iter().map(VecDeque::len).sum::<usize>() + self.unsent.len(),
            kept: self.kept.len() + self.opens.len(),
            last_committed: self.last_committed,
            granted: self.granted,
            window: self.window.as_ref().map(Controller::view),
            evictions: self.evictions,
            deactivated: self.deactivated,
            instance: self.granted.instance,
        }
    }

    /// When [`Import::drive`] has something to do at the earliest.
    pub fn next_deadline(&self) -> Time {
        let timer = self.timers.first().map_or(Time::NEVER, |(at, _)| *at);
        let timer = timer.min(self.paced_until);
        timer.min(self.reconnect_at).min(self.ping_at()).min(self.unused_at())
    }

    /// Does what is due.
    pub fn drive(&mut self, now: Time, xids: &mut XidSource) {
        while let Some(&(at, key)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.remove(&(at, key));
            self.overdue(now, xids, key);
        }
        if self.reconnect_at <= now {
            self.reconnect_at = Time::NEVER;
            self.try_connect(now, xids);
        }
        if self.paced_until <= now {
            self.pump(now, xids);
        }
        if self.unused_at() <= now {
            self.last_used = now;
            self.actions.push_back(Action::Unused);
        } else if self.ping_at() <= now {
            self.send_ping(now, xids);
        }
    }

    /// When the next ping is due.
    fn ping_at(&self) -> Time {
        if self.state != ImportState::Full {
            return Time::NEVER;
        }
        // A ping's answer says what is committed: what is kept for that can go. One that is not
        // answered may be lost, and may be awaited for longer than a server waits for a client.
        let pause = match self.kept.is_empty() || self.awaits_ping {
            true => self.tunables.ping_interval,
            false => self.tunables.ping_interval.min(Nanos::from_secs(5)),
        };
        self.last_sent + pause
    }

    /// When the owner has asked for nothing for long.
    fn unused_at(&self) -> Time {
        match self.tunables.idle_timeout {
            Some(pause) if self.is_unused() => self.last_used + pause,
            _ => Time::NEVER,
        }
    }

    /// Whether there is a connection, and the owner waits for nothing.
    fn is_unused(&self) -> bool {
        self.state == ImportState::Full && self.requests.len() <= usize::from(self.awaits_ping)
    }

    fn set_state(&mut self, to: ImportState) {
        let from = core::mem::replace(&mut self.state, to);
        if from != to {
            self.actions.push_back(Action::State { from, to });
        }
    }

    /// Moves a request to another stage, and its timer with it.
    fn set_stage(&mut self, key: RequestKey, stage: Stage) {
        let Some(request) = self.requests.get_mut(key) else { return };
        let timer = |stage: Stage| match stage {
            Stage::Postponed { until } => Some(until),
            Stage::Sent { deadline } => Some(deadline),
            Stage::Waiting | Stage::Kept => None,
        };
        if let Some(at) = timer(request.stage) {
            self.timers.remove(&(at, key));
        }
        request.stage = stage;
        if let Some(at) = timer(stage) {
            self.timers.insert((at, key));
        }
    }

    /// Gives back what a request holds: slot, credit, xid.
    fn give_back(&mut self, key: RequestKey) {
        let Some(request) = self.requests.get_mut(key) else { return };
        self.slots.give(core::mem::take(&mut request.tag));
        if core::mem::take(&mut request.has_credit) {
            self.credits_used -= 1;
        }
        let xid = request.xid;
        self.unanswered.remove(&xid);
        self.unsent.remove(&xid);
        self.abandon_ticket(key);
    }

    /// Takes a request out of wherever it is, and its descriptors back.
    fn retract(&mut self, key: RequestKey) {
        let Some(request) = self.requests.get(key) else { return };
        match request.stage {
            Stage::Waiting => {
                for queue in &mut self.waiting {
                    queue.retain(|waiting| *waiting != key);
                }
            }
            Stage::Sent { .. } => self.actions.push_back(Action::Withdraw { key }),
            Stage::Postponed { .. } | Stage::Kept => {}
        }
        self.set_stage(key, Stage::Waiting);
        self.give_back(key);
    }

    /// Ends a request without keeping it.
    fn finish(&mut self, key: RequestKey, result: Result<Reply, RpcError>) {
        self.set_stage(key, Stage::Waiting);
        self.give_back(key);
        let Some(request) = self.requests.remove(key) else { return };
        let user = request.args.user;
        if request.purpose == Purpose::Owner || request.purpose == Purpose::LockReplay {
            if !request.done {
                self.actions.push_back(Action::Done { key, user, result });
            }
            self.actions.push_back(Action::Release { key, user });
        }
    }
}
