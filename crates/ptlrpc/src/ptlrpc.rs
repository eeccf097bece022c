//! The imports of a node, and the requests that servers send to it, on LNet.

mod attempts;
mod incoming;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use lustrine_fswire::opcode::portal;
use lustrine_lnet::event::{Event, Stray};
use lustrine_lnet::md::Owner;
use lustrine_lnet::memory::Spans;
use lustrine_lnet::service::Turn;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::nid::ProcessId;
use slotmap::{SecondaryMap, SlotMap, new_key_type};

use crate::import::{Action, Import, ImportArgs, ImportState, ImportTunables, ImportView};
use crate::request::{Reply, RequestArgs, RequestKey, RpcError};
use crate::xid::XidSource;

use attempts::{Attempt, AttemptKey};
pub use incoming::Incoming;
use incoming::RequestBuffers;

new_key_type! {
    /// An import of a [`Ptlrpc`].
    pub struct ImportKey;
}

/// Which way bulk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkDirection {
    /// The server PUTs into the client's memory: a read.
    Sink,
    /// The server GETs from the client's memory: a write.
    Source,
}

/// The memory of a bulk transfer.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// The portal that the server uses [RPC-11].
    pub portal: u32,
    /// Which way the data go.
    pub direction: BulkDirection,
    /// The memory of each descriptor, in order: at most 64 descriptors of 1 MiB.
    pub pieces: Vec<Spans>,
}

/// The memory of a bulk transfer, and how many descriptors LNet has for it, of all attempts.
#[derive(Debug)]
struct LentBulk {
    bulk: Bulk,
    descriptors: usize,
}

/// What happened to an import or a request.
#[derive(Debug)]
pub enum RpcEvent {
    /// A request is over; see [`Action::Done`]. Its bulk memory holds what was received.
    Done {
        /// The import.
        import: ImportKey,
        /// The request.
        key: RequestKey,
        /// The owner's value.
        user: u64,
        /// Its reply, or why there is none.
        result: Result<Reply, RpcError>,
    },
    /// A request was replayed after a restart of the server; see [`Action::Replayed`].
    Replayed {
        /// The import.
        import: ImportKey,
        /// The request.
        key: RequestKey,
        /// The owner's value.
        user: u64,
        /// The reply to the replay.
        reply: Reply,
    },
    /// The key of a request is not used any more, and its bulk memory is free.
    Release {
        /// The import.
        import: ImportKey,
        /// The request.
        key: RequestKey,
        /// The owner's value.
        user: u64,
    },
    /// The locks of an import have to be enqueued again; see [`Action::ReplayLocks`].
    ReplayLocks(ImportKey),
    /// The server has evicted this client: locks, open files and unwritten data are void.
    Evicted(ImportKey),
    /// An import is not used; see [`Action::Unused`].
    Unused(ImportKey),
    /// The state of an import changed.
    State {
        /// The import.
        import: ImportKey,
        /// Before.
        from: ImportState,
        /// Now.
        to: ImportState,
    },
    /// A server asks for something; [`Ptlrpc::reply`] answers it.
    Request(Incoming),
}

/// What a [`Ptlrpc`] has counted. Nothing is ever set back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PtlrpcCounters {
    /// Requests sent, again or for the first time.
    pub requests_sent: u64,
    /// Replies and early replies received.
    pub replies_received: u64,
    /// Requests of servers received.
    pub requests_received: u64,
    /// Messages to the callback portal that were not for this one: malformed, of a stranger, or for
    /// another service of the node, to which they are passed on.
    pub requests_dropped: u64,
    /// Bytes received by bulk.
    pub bulk_received: u64,
    /// Bytes sent by bulk.
    pub bulk_sent: u64,
    /// Requests that waited because there was no memory for their messages.
    pub memory_waits: u64,
}

/// The imports of a node on LNet: it attaches reply and bulk descriptors, sends requests, and
/// hands back replies. It also receives what servers ask of clients, on portal 15.
///
/// It is a part of a [`Service`](lustrine_lnet::service::Service), which passes its calls on. All
/// imports have to be at peers whose home is the partition that the service runs in.
#[derive(Debug)]
pub struct Ptlrpc {
    owner: Owner,
    xids: XidSource,
    imports: SlotMap<ImportKey, Import>,
    attempts: SlotMap<AttemptKey, Attempt>,
    /// The attempt whose reply counts, of each request that was sent and is not answered.
    current: SecondaryMap<ImportKey, SecondaryMap<RequestKey, AttemptKey>>,
    /// The memory of bulk transfers.
    bulks: BTreeMap<(ImportKey, RequestKey), LentBulk>,
    /// Events of requests that are held back until LNet has let go of their bulk memory.
    held: BTreeMap<(ImportKey, RequestKey), Vec<RpcEvent>>,
    /// What is to be sent when there is memory.
    short_of_memory: VecDeque<(ImportKey, RequestKey)>,
    retry_at: Time,
    buffers: RequestBuffers,
    events: VecDeque<RpcEvent>,
    counters: PtlrpcCounters,
}

/// How long to wait for memory.
const MEMORY_PAUSE: Nanos = Nanos::from_millis(10);

impl Ptlrpc {
    /// No imports. `owner` is that of the service that it is a part of; `wall_seconds` is the time
    /// since 1970 in seconds, from which the xids follow, and from `number`, which no other one in
    /// the node has (0 to 127).
    pub fn new(owner: Owner, wall_seconds: u64, number: u8) -> Ptlrpc {
        Ptlrpc {
            owner,
            xids: XidSource::new(wall_seconds, number),
            imports: SlotMap::with_key(),
            attempts: SlotMap::with_key(),
            current: SecondaryMap::new(),
            bulks: BTreeMap::new(),
            held: BTreeMap::new(),
            short_of_memory: VecDeque::new(),
            retry_at: Time::NEVER,
            buffers: RequestBuffers::default(),
            events: VecDeque::new(),
            counters: PtlrpcCounters::default(),
        }
    }

    /// Adds an import in the state NEW.
    ///
    /// # Panics
    /// As [`Import::new`].
    pub fn add_import(&mut self, args: ImportArgs, tunables: ImportTunables) -> ImportKey {
        let key = self.imports.insert(Import::new(args, tunables));
        self.current.insert(key, SecondaryMap::new());
        key
    }

    /// Connects an import.
    pub fn connect(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        self.with(turn, import, |import, now, xids| import.connect(now, xids));
    }

    /// Disconnects an import for good. What is in flight fails.
    pub fn disconnect(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        self.with(turn, import, |import, now, xids| import.disconnect(now, xids));
    }

    /// Submits a request. [`RpcEvent::Done`] and [`RpcEvent::Release`] follow, in all cases.
    ///
    /// # Panics
    /// When there is no such import, or the number of bulk descriptors is not that of the request.
    pub fn submit(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        args: RequestArgs,
        bulk: Option<Bulk>,
    ) -> RequestKey {
        let pieces = bulk.as_ref().map_or(0, |bulk| bulk.pieces.len());
        assert_eq!(pieces, usize::from(args.bulk_descriptors), "descriptors of bulk");
        let target = &mut self.imports[import];
        let key = target.submit(turn.now, &mut self.xids, args);
        if let Some(bulk) = bulk {
            self.bulks.insert((import, key), LentBulk { bulk, descriptors: 0 });
        }
        self.act(turn, import);
        key
    }

    /// Gives a request up; see [`Import::cancel`].
    pub fn cancel(&mut self, turn: &mut Turn<'_>, import: ImportKey, key: RequestKey) {
        self.with(turn, import, |import, now, xids| import.cancel(now, xids, key));
    }

    /// An import, to look at.
    pub fn import(&self, key: ImportKey) -> Option<&Import> {
        self.imports.get(key)
    }

    /// Calls a method of an import, and does what follows from it.
    pub fn with<T>(
        &mut self,
        turn: &mut Turn<'_>,
        key: ImportKey,
        act: impl FnOnce(&mut Import, Time, &mut XidSource) -> T,
    ) -> Option<T> {
        let import = self.imports.get_mut(key)?;
        let result = act(import, turn.now, &mut self.xids);
        self.act(turn, key);
        Some(result)
    }

    /// All imports, to look at.
    pub fn imports(&self) -> impl Iterator<Item = (ImportKey, &Import)> {
        self.imports.iter()
    }

    /// Summaries of all imports.
    pub fn views(&self) -> impl Iterator<Item = ImportView> + '_ {
        self.imports.values().map(Import::view)
    }

    /// The counters.
    pub fn counters(&self) -> &PtlrpcCounters {
        &self.counters
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<RpcEvent> {
        self.events.pop_front()
    }

    /// Whether LNet has let go of all memory.
    pub fn is_quiet(&self) -> bool {
        self.attempts.is_empty() && self.short_of_memory.is_empty() && self.buffers.are_detached()
    }

    /// An event of a descriptor of the service.
    pub fn on_event(&mut self, turn: &mut Turn<'_>, event: &Event) {
        match AttemptKey::from_user(event.user).filter(|key| self.attempts.contains_key(*key)) {
            Some(key) => self.on_attempt_event(turn, key, event),
            None => self.on_buffer_event(turn, event),
        }
    }

    /// A message to the callback portal that another service received. Whether it is for this one.
    pub fn on_stray(&mut self, stray: &Stray) -> bool {
        stray.event.portal == portal::LDLM_CALLBACK
            && self.take_in(&stray.event, &stray.message).is_some()
    }

    /// A peer lost its last connection, or restarted. Replies that it owes may come over another
    /// connection, but not to a peer that cannot be dialled: the requests are sent again at once.
    pub fn on_peer_down(&mut self, turn: &mut Turn<'_>, peer: &ProcessId, status: Status) {
        let lost: Vec<(ImportKey, RequestKey)> = self
            .current
            .iter()
            .flat_map(|(import, current)| current.iter().map(move |at| (import, at)))
            .filter(|(_, (_, attempt))| self.attempts[**attempt].peer.is_lost_with(peer))
            .map(|(import, (request, _))| (import, request))
            .collect();
        for (import, key) in lost {
            self.with(turn, import, |import, now, xids| {
                import.on_send_failed(now, xids, key, status);
            });
        }
    }

    /// Does what is due.
    pub fn drive(&mut self, turn: &mut Turn<'_>) {
        self.attach_buffers(turn);
        if self.retry_at <= turn.now {
            self.retry_at = Time::NEVER;
            for (import, key) in core::mem::take(&mut self.short_of_memory) {
                self.with(turn, import, |import, now, xids| import.send_again(now, xids, key));
            }
        }
        let due: Vec<ImportKey> = self
            .imports
            .iter()
            .filter(|(_, import)| import.next_deadline() <= turn.now)
            .map(|(key, _)| key)
            .collect();
        for key in due {
            self.with(turn, key, |import, now, xids| import.drive(now, xids));
        }
    }

    /// When [`Ptlrpc::drive`] has something to do next.
    pub fn next_deadline(&self) -> Time {
        let imports = self.imports.values().map(Import::next_deadline).min();
        let buffers = if self.buffers.are_attached() { Time::NEVER } else { Time::ZERO };
        imports.unwrap_or(Time::NEVER).min(self.retry_at).min(buffers)
    }

    /// Does what an import wants done.
    fn act(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        while let Some(action) = self.imports.get_mut(import).and_then(Import::next_action) {
            match action {
                Action::Send(args) => self.send(turn, import, args),
                Action::Withdraw { key } => self.withdraw(turn, import, key),
                Action::Done { key, user, result } => {
                    self.withdraw(turn, import, key);
                    self.emit(import, key, RpcEvent::Done { import, key, user, result });
                }
                Action::Replayed { key, user, reply } => {
                    self.withdraw(turn, import, key);
                    self.emit(import, key, RpcEvent::Replayed { import, key, user, reply });
                }
                Action::Release { key, user } => {
                    self.withdraw(turn, import, key);
                    self.emit(import, key, RpcEvent::Release { import, key, user });
                }
                Action::ReplayLocks => self.events.push_back(RpcEvent::ReplayLocks(import)),
                Action::Evicted => self.events.push_back(RpcEvent::Evicted(import)),
                Action::Unused => self.events.push_back(RpcEvent::Unused(import)),
                Action::State { from, to } => {
                    self.events.push_back(RpcEvent::State { import, from, to });
                }
            }
        }
    }

    /// Hands an event on, or holds it back while LNet can still touch the bulk memory.
    fn emit(&mut self, import: ImportKey, key: RequestKey, event: RpcEvent) {
        let request = (import, key);
        if self.holds_bulk(import, key) {
            self.held.entry(request).or_default().push(event);
            return;
        }
        if let RpcEvent::Release { .. } = event {
            self.bulks.remove(&request);
        }
        self.events.push_back(event);
    }

    /// Hands on what was held back for a request, if its memory is free.
    fn release_held(&mut self, import: ImportKey, key: RequestKey) {
        if self.holds_bulk(import, key) {
            return;
        }
        for event in self.held.remove(&(import, key)).unwrap_or_default() {
            self.emit(import, key, event);
        }
    }
}
