//! The client as a service of a partition: imports, calls, callbacks.

mod allocate;
mod append;
mod attr_cache;
mod attr_locks;
mod attributes;
mod batch;
mod bulk;
mod cache;
mod cached;
mod caller;
mod changes;
mod data;
mod data_attr;
mod end_locks;
mod flocks;
mod io;
mod later;
mod locks;
mod metadata;
mod mgc;
mod mirrors;
mod numbered;
mod objects;
mod open;
mod seek;
mod settings;
mod sizes;
mod statahead;
mod striped;
mod targets;
#[cfg(test)]
mod tests;
mod transfer;
mod validity;
mod whole;
mod xattr;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use lustrine_fswire::body::{BodyFlags, PtlrpcBody};
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::message::{Header, Message};
use lustrine_fswire::opcode::Target;
use lustrine_fswire::rpc::Request;
use lustrine_lnet::event::{Event, Stray};
use lustrine_lnet::md::Owner;
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::service::{Service, Turn};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time, WallClock};
use lustrine_ptlrpc::ptlrpc::PtlrpcCounters;
use lustrine_ptlrpc::{
    Bulk, BulkDirection, Import, ImportArgs, ImportKey, ImportState, ImportTunables, ImportView,
    Keep, Ptlrpc, Reply, RequestArgs, RequestKey, RpcError, RpcEvent, SlotKind,
};
use lustrine_wire::nid::{Nid, ProcessId};
use slotmap::{Key as _, KeyData, SlotMap, new_key_type};

use crate::config::FsConfig;
use crate::error::{ClientError, Outcome, errno};
use crate::fids::Fids;
use crate::offers;

pub use allocate::Allocate;
pub use append::Appended;
use attr_cache::AttrCache;
pub use attr_cache::AttrCounts;
pub use attributes::{Changes, SetTime};
use bulk::{Data, bulk_memory, descriptor_lens, received};
use cache::Cache;
pub use cache::{CacheCounts, CacheTunables, LostWrites};
pub use cached::{Ahead, Cached};
pub use caller::Caller;
use end_locks::{Waiting, WaitingKey};
use flocks::AskedFlocks;
pub use flocks::{FlockArgs, FlockKey, FlockMode};
use io::{Io, IoKey};
use later::Later;
pub use locks::LockCounts;
use locks::Locks;
use mgc::Mgc;
pub use mgc::{ConfigLock, ConfigView, MgcTunables, MgcView};
use open::Open;
pub use open::{OpenArgs, OpenFile, Written};
pub use seek::Seek;
pub use settings::{MaxRpcs, RpcSettings, SettingError};
use statahead::StatAhead;
use striped::Dirs;
pub use striped::READDIR_LEN;
pub use targets::TargetKey;
use targets::Watch;
use validity::Validity;
pub use validity::{Sharing, Valid};

/// A file system to mount.
#[derive(Clone, Debug)]
pub struct ClientArgs {
    /// The NIDs of the management server, the preferred one first. At least one.
    pub mgs: Vec<Nid>,
    /// The name of the file system, 1 to 8 characters.
    pub fsname: String,
    /// A directory of the file system that is to be the root, such as `/projects`; empty for the
    /// whole.
    pub fileset: String,
    /// The client's UUID for the management server, as text.
    pub mgc_uuid: String,
    /// The client's UUID for metadata and object targets, as text.
    pub uuid: String,
    /// A random number: handles of imports and locks follow from it. Servers name them in
    /// callbacks; no other peer knows them.
    pub seed: u64,
    /// A number that no other client in the node has, 0 to 127: it keeps their requests apart.
    pub number: u8,
    /// The time since 1970 in seconds.
    pub wall_seconds: u64,
    /// The nanoseconds of that time beyond whole seconds.
    pub wall_nanos: u32,
    /// The settings of all imports.
    pub imports: ImportTunables,
    /// How much it keeps of the data of files, their names and attributes.
    pub cache: CacheTunables,
    /// How it follows the configuration.
    pub mgc: MgcTunables,
}

/// What an operation calls when it is over, exactly once.
pub type Done<T> = Box<dyn FnOnce(&mut Client, &mut Turn<'_>, Outcome<T>) + Send>;

/// Goes on with `done`, unless the file is gone: then with `again`, which gets `done`.
fn or_again<T: 'static>(
    done: Done<T>,
    again: impl FnOnce(&mut Client, &mut Turn<'_>, Done<T>) + Send + 'static,
) -> Done<T> {
    Box::new(move |client, turn, outcome| match outcome {
        Err(ClientError::Errno(errno::ENOENT)) => again(client, turn, done),
        outcome => done(client, turn, outcome),
    })
}

new_key_type! {
    /// A call. Its number is the `user` value of its request.
    struct CallKey;
}

impl CallKey {
    fn user(self) -> u64 {
        self.data().as_ffi()
    }

    fn of_user(user: u64) -> CallKey {
        CallKey::from(KeyData::from_ffi(user))
    }
}

/// An answered RPC.
#[derive(Debug)]
struct Answer {
    /// Its call.
    call: CallKey,
    /// The request.
    request: RequestKey,
    /// The reply.
    reply: Reply,
    /// What bulk brought.
    data: Bytes,
}

/// What goes on when a call is answered.
type Then = Box<dyn FnOnce(&mut Client, &mut Turn<'_>, Outcome<Answer>) + Send>;

/// A call whose request is in flight, or kept.
struct Call {
    /// What goes on. None once it is answered.
    then: Option<Then>,
    /// Its memory for bulk. When data were received and taken out, it is gone.
    spans: Vec<Span>,
    sink: bool,
    /// What it has opened, until that is closed and committed.
    open: Option<Open>,
}

/// A request to make.
struct CallArgs<'a> {
    request: Request<'a>,
    /// Length of the largest reply expected, in bytes.
    reply_len: u32,
    slot: SlotKind,
    /// Whether it counts against `max_rpcs_in_flight`.
    counted: bool,
    keep: Keep,
    /// Whether its first buffer begins with the handle of an open file.
    names_open_file: bool,
    /// The open of the file that it closes.
    closes: Option<RequestKey>,
    /// Whether it fails instead of being sent again.
    no_resend: bool,
    /// Data, and the portal that the server uses for them.
    bulk: Option<(u32, Data<'a>)>,
    caller: Option<Caller>,
}

impl<'a> From<Request<'a>> for CallArgs<'a> {
    /// A request that changes nothing and has a short reply.
    fn from(request: Request<'a>) -> CallArgs<'a> {
        CallArgs {
            request,
            reply_len: 1024,
            slot: SlotKind::None,
            counted: false,
            keep: Keep::No,
            names_open_file: false,
            closes: None,
            no_resend: false,
            bulk: None,
            caller: None,
        }
    }
}

impl<'a> CallArgs<'a> {
    /// A change of metadata: it takes a slot, and is replayed if the server loses it.
    fn change(request: Request<'a>, caller: &Caller) -> CallArgs<'a> {
        CallArgs {
            reply_len: CHANGE_REPLY_LEN,
            slot: SlotKind::Modify,
            keep: Keep::UntilCommitted,
            caller: Some(*caller),
            ..CallArgs::from(request)
        }
    }
}

/// Length of the layout of a file with up to 72 stripes, in bytes. With all else that a reply may
/// have there is less than 4096.
const LAYOUT_USUAL: u32 = 1792;
/// Room for the reply to a change, which may have a layout.
const CHANGE_REPLY_LEN: u32 = 2048 + LAYOUT_USUAL;

/// A Lustre client. Names, attributes and data of files are kept under locks if the settings say
/// so; otherwise each operation asks the servers, under their locks.
///
/// It is a [`Service`]. Operations are started by methods that take what to call when they are
/// over. Nothing waits: a partition hands events to the client, and those call what goes on.
pub struct Client {
    rpc: Ptlrpc,
    args: ClientArgs,
    config: FsConfig,
    /// How the configuration is followed.
    mgc: Mgc,
    mgs: Option<ImportKey>,
    mdts: BTreeMap<u32, ImportKey>,
    osts: BTreeMap<u32, ImportKey>,
    fids: Fids,
    /// The striped directories that were seen.
    dirs: Dirs,
    /// Room for the longest layout that was seen, in bytes.
    layouts_seen: u32,
    /// Operations on several objects.
    ios: SlotMap<IoKey, Io>,
    /// Operations that wait for a target, and have locks of others.
    waiting: SlotMap<WaitingKey, Waiting>,
    /// When the client was mounted.
    started: Time,
    calls: SlotMap<CallKey, Call>,
    /// Where messages are written.
    scratch: Vec<u8>,
    handles: u64,
    /// The locks at all targets.
    locks: Locks,
    /// Data of files, under locks.
    cache: Cache,
    /// Attributes and names, under locks.
    attrs: AttrCache,
    /// What is asked for before a program does.
    ahead: StatAhead,
    /// What its user may use without asking.
    validity: Validity,
    /// Flocks that are asked for.
    flocks: AskedFlocks,
    /// What goes on after a pause.
    later: Later,
    /// What waits for all imports to be closed.
    closing: Option<Done<()>>,
    /// What is called when a target is connected.
    watch: Option<Watch>,
    /// Whether it is unmounted, or is going to be.
    unmounted: bool,
}

impl core::fmt::Debug for Client {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut f = f.debug_struct("Client");
        f.field("args", &self.args).field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}

impl Client {
    /// A client that is not mounted. `owner` is the owner of the service's descriptors.
    pub fn new(owner: Owner, args: ClientArgs) -> Client {
        Client {
            rpc: Ptlrpc::new(owner, args.wall_seconds, args.number),
            config: FsConfig::default(),
            mgc: Mgc::new(args.mgc),
            mgs: None,
            mdts: BTreeMap::new(),
            osts: BTreeMap::new(),
            fids: Fids::default(),
            dirs: Dirs::default(),
            layouts_seen: LAYOUT_USUAL,
            ios: SlotMap::with_key(),
            waiting: SlotMap::with_key(),
            started: Time::ZERO,
            calls: SlotMap::with_key(),
            scratch: Vec::new(),
            handles: args.seed,
            locks: Locks::default(),
            cache: Cache::new(args.cache),
            attrs: AttrCache::new(args.cache.attrs, args.cache.lru_max_age),
            ahead: StatAhead::new(args.cache.statahead_max, args.cache.attrs),
            validity: Validity::default(),
            flocks: AskedFlocks::default(),
            later: Later::default(),
            closing: None,
            watch: None,
            unmounted: false,
            args,
        }
    }

    /// Summaries of all imports.
    pub fn imports(&self) -> Vec<ImportView> {
        self.rpc.views().collect()
    }

    /// The imports, to look at, with the locks that the client has there.
    pub fn targets(&self) -> impl Iterator<Item = (&Import, LockCounts)> {
        self.rpc.imports().map(|(key, import)| (import, self.locks.count(key)))
    }

    /// What the servers have promised and data have not used, in bytes, by import
    /// (`cur_grant_bytes`).
    pub fn grants(&self) -> impl Iterator<Item = (&Import, u64)> {
        self.rpc.imports().map(|(key, import)| (import, self.cache.granted(key)))
    }

    /// What the RPC layer has counted.
    pub fn counters(&self) -> &PtlrpcCounters {
        self.rpc.counters()
    }

    /// Number of files and directories that are open, and of RPCs whose outcome is awaited.
    pub fn in_use(&self) -> (usize, usize) {
        let open = self.calls.values().filter_map(|call| call.open).filter(Open::is_in_use).count();
        let awaited = self.calls.values().filter(|call| call.then.is_some()).count();
        (open, awaited)
    }

    /// How long the file system has been mounted.
    pub fn mounted_for(&self, now: Time) -> Nanos {
        now.since(self.started)
    }

    /// The configuration of the file system; empty before it is mounted.
    pub fn config(&self) -> &FsConfig {
        &self.config
    }

    /// Disconnects from all targets. Operations that are in flight fail. What the servers do not
    /// have of what was written is lost; see [`Client::flush_all`].
    pub fn unmount(&mut self, turn: &mut Turn<'_>, done: Done<()>) {
        self.cancel_useless(turn);
        self.unmounted = true;
        self.closing = Some(done);
        self.close_locks(turn);
        let imports = self.osts.values().chain(self.mdts.values()).chain(&self.mgs);
        for import in imports.copied().collect::<Vec<_>>() {
            self.rpc.disconnect(turn, import);
        }
        self.settle(turn);
    }

    /// The time since 1970 in whole seconds, which writes and changes have at the servers.
    pub fn wall(&self, turn: &Turn<'_>) -> i64 {
        (self.wall_clock().at(turn.now).0 / 1_000_000_000) as i64
    }

    /// The wall clock.
    fn wall_clock(&self) -> WallClock {
        let seconds = Nanos::from_secs(self.args.wall_seconds);
        let since_1970 = seconds.0.saturating_add(self.args.wall_nanos.into());
        WallClock::new(self.started, Nanos(since_1970))
    }

    /// A number that no other import and no other lock of this client has.
    fn next_handle(&mut self) -> Handle {
        // A step of SplitMix64, which visits all numbers.
        self.handles = self.handles.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.handles;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Handle((mixed ^ (mixed >> 31)).max(1))
    }

    /// Adds an import and connects it.
    fn add_import(
        &mut self,
        turn: &mut Turn<'_>,
        kind: Target,
        target: &str,
        nids: &[Nid],
    ) -> ImportKey {
        let uuid = if kind == Target::Mgs { &self.args.mgc_uuid } else { &self.args.uuid };
        let recovers = self.args.mgc.follows && self.args.mgc.imperative_recovery;
        let args = ImportArgs {
            kind,
            target: target.to_owned(),
            client_uuid: uuid.clone(),
            client_handle: self.next_handle().0,
            peers: nids.iter().map(|nid| ProcessId::lustre(*nid)).collect(),
            offer: offers::of(kind, self.cache.is_on(), recovers),
        };
        let key = self.rpc.add_import(args, self.args.imports);
        self.rpc.connect(turn, key);
        key
    }

    /// The import of a metadata target.
    fn mdt(&self, index: u32) -> Outcome<ImportKey> {
        let missing = || ClientError::NoTarget(format!("{}-MDT{index:04x}", self.args.fsname));
        self.mdts.get(&index).copied().ok_or_else(missing)
    }

    /// The import of an object target.
    fn ost(&self, index: u32) -> Outcome<ImportKey> {
        let missing = || ClientError::NoTarget(format!("{}-OST{index:04x}", self.args.fsname));
        self.osts.get(&index).copied().ok_or_else(missing)
    }

    /// The import of the metadata target that has a file. Its sequence may have to be asked for
    /// first, with [`Client::find_mdt`].
    fn known_mdt_of(&self, fid: Fid) -> Option<Outcome<ImportKey>> {
        if self.mdts.len() == 1 {
            return Some(Ok(*self.mdts.values().next().expect("there is one")));
        }
        if fid == Fid::ROOT || fid.seq < Fid::SEQ_NORMAL {
            return Some(self.mdt(0));
        }
        self.fids.mdt_of(fid).map(|index| self.mdt(index))
    }

    /// Of some files one for each metadata target that has some of them. A file whose target is
    /// not known stands for itself.
    pub fn one_for_each_mdt(&self, fids: &[Fid]) -> Vec<Fid> {
        let mut seen = BTreeSet::new();
        let new = |fid: &Fid| match self.known_mdt_of(*fid) {
            Some(Ok(import)) => seen.insert(import),
            _ => true,
        };
        fids.iter().copied().filter(new).collect()
    }

    /// Makes a call. `then` is called when it is answered.
    fn call<'r>(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        args: impl Into<CallArgs<'r>>,
        then: impl FnOnce(&mut Client, &mut Turn<'_>, Outcome<Answer>) + Send + 'static,
    ) {
        let args = args.into();
        let mut spans = Vec::new();
        let mut bulk = None;
        if let Some((portal, data)) = &args.bulk {
            let Some((lent, pieces)) = bulk_memory(turn, data) else {
                return then(self, turn, Err(ClientError::NoMemory));
            };
            let direction = match data {
                Data::In { .. } => BulkDirection::Sink,
                Data::Out { .. } => BulkDirection::Source,
            };
            spans = lent;
            bulk = Some(Bulk { portal: *portal, direction, pieces });
        }
        let sink = bulk.as_ref().is_some_and(|bulk| bulk.direction == BulkDirection::Sink);
        let mut request = self.request(import, &args);
        request.bulk_descriptors = bulk.as_ref().map_or(0, |bulk| bulk.pieces.len()) as u16;
        request.payload += spans.iter().map(|span| span.len).sum::<u32>();
        let call = Call { then: Some(Box::new(then)), spans, sink, open: None };
        request.user = self.calls.insert(call).user();
        self.rpc.submit(turn, import, request, bulk);
    }

    /// Enqueues a lock again while the import replays locks.
    fn call_replay(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        request: Request<'_>,
        then: impl FnOnce(&mut Client, &mut Turn<'_>, Outcome<Answer>) + Send + 'static,
    ) {
        let mut request = self.request(import, &CallArgs::from(request));
        let then: Then = Box::new(then);
        let call = Call { then: Some(then), spans: Vec::new(), sink: false, open: None };
        request.user = self.calls.insert(call).user();
        self.rpc.with(turn, import, |import, now, xids| import.replay_lock(now, xids, request));
    }

    /// The request of a call.
    fn request(&mut self, import: ImportKey, args: &CallArgs<'_>) -> RequestArgs {
        let opcode = args.request.kind().opcode();
        let target = self.rpc.import(import).map_or(Target::Mdt, |import| import.kind());
        let mut body = PtlrpcBody::request(opcode);
        if let Some(caller) = args.caller {
            body.uid = caller.uid;
            body.gid = caller.gid;
            body.flags |= BodyFlags::UID_GID;
        }
        self.scratch.clear();
        args.request.encode(&Header::default(), &body, &mut self.scratch);
        // It may be kept for long: its memory is as long as it is.
        let message = self.scratch.clone();
        let names_open_file = args.names_open_file.then_some(()).and_then(|()| {
            let start = Message::parse(&message).ok()?.buffer_range(1)?.start;
            u32::try_from(start).ok()
        });
        RequestArgs {
            portal: opcode.request_portal(target).unwrap_or(target.main_portal()),
            payload: message.len() as u32 + args.reply_len,
            message,
            reply_len: args.reply_len,
            slot: args.slot,
            counted: args.counted,
            keep: args.keep,
            open_handle_at: names_open_file,
            closes: args.closes,
            no_resend: args.no_resend,
            ..RequestArgs::default()
        }
    }

    /// Makes a call that ends an operation: its outcome is what `read` finds in the answer.
    fn call_for<'r, T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        args: impl Into<CallArgs<'r>>,
        done: Done<T>,
        read: impl FnOnce(&Answer) -> Outcome<T> + Send + 'static,
    ) {
        self.call(turn, import, args, move |client, turn, answer| {
            let outcome = answer.and_then(|answer| read(&answer));
            done(client, turn, outcome);
        });
    }

    /// Hands on what the RPC layer reports, until it has nothing more.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        while let Some(event) = self.rpc.next_event() {
            match event {
                RpcEvent::Done { key, user, result, .. } => {
                    self.answered(turn, (CallKey::of_user(user), key), result);
                }
                RpcEvent::Release { user, .. } => {
                    self.write_released(CallKey::of_user(user));
                    let spans = self.calls.remove(CallKey::of_user(user)).map(|call| call.spans);
                    spans.into_iter().flatten().for_each(|span| turn.memory.free(span));
                }
                RpcEvent::Replayed { import, key, user, reply } => {
                    self.replayed(turn, import, key, CallKey::of_user(user), &reply);
                    self.rpc.with(turn, import, |import, now, xids| import.replay_next(now, xids));
                }
                // Open files are released by the import.
                RpcEvent::Evicted(import) => self.locks_evicted(turn, import),
                RpcEvent::ReplayLocks(import) => self.replay_locks(turn, import),
                RpcEvent::Unused(import) => self.target_unused(turn, import),
                RpcEvent::State { import, to, .. } => {
                    self.state_changed(turn, import, to);
                    self.lend_locks(turn);
                }
                RpcEvent::Request(request) => self.answer_callback(turn, &request),
            }
        }
        self.claim_grants(turn);
        if self.closing.is_some() && self.is_closed() {
            self.rpc.close(turn);
        }
        if self.closing.is_some() && self.is_closed() && self.rpc.is_quiet() {
            let done = self.closing.take().expect("there is one");
            done(self, turn, Ok(()));
        }
    }

    fn is_closed(&self) -> bool {
        self.rpc.views().all(|view| matches!(view.state, ImportState::Closed | ImportState::New))
    }

    fn answered(
        &mut self,
        turn: &mut Turn<'_>,
        (key, request): (CallKey, RequestKey),
        result: Result<Reply, RpcError>,
    ) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let Some(then) = call.then.take() else { return };
        let outcome = result.map_err(ClientError::Rpc).map(|reply| {
            let data = match call.sink {
                true => received(turn, &mut call.spans, reply.bulk_moved),
                false => Bytes::new(),
            };
            Answer { call: key, request, reply, data }
        });
        then(self, turn, outcome);
    }
}

impl Service for Client {
    fn on_event(&mut self, turn: &mut Turn<'_>, event: &Event) {
        self.rpc.on_event(turn, event);
        self.settle(turn);
    }

    fn on_peer_down(&mut self, turn: &mut Turn<'_>, peer: &ProcessId, status: Status) {
        self.rpc.on_peer_down(turn, peer, status);
        self.settle(turn);
    }

    fn drive(&mut self, turn: &mut Turn<'_>) {
        self.rpc.drive(turn);
        self.drive_later(turn);
        self.drive_cache(turn);
        self.drive_attrs(turn);
        self.drive_mgc(turn);
        self.cancel_useless(turn);
        self.settle(turn);
    }

    fn next_deadline(&self) -> Time {
        if self.has_cancels() {
            return Time::ZERO;
        }
        let caches = self.cache_deadline().min(self.attrs_deadline());
        let own = caches.min(self.mgc_deadline()).min(self.later_deadline());
        self.rpc.next_deadline().min(own)
    }

    fn on_stray(&mut self, turn: &mut Turn<'_>, stray: &Stray) -> bool {
        let taken = self.rpc.on_stray(stray);
        self.settle(turn);
        taken
    }

    fn on_unclaimed(&mut self, turn: &mut Turn<'_>, stray: &Stray) {
        self.rpc.on_unclaimed(turn, stray);
    }

    /// Disconnects from all targets, unless that was done. It is quiet when the targets have
    /// answered, or have not within the time-out of a connect, and LNet has sent what was queued.
    fn retire(&mut self, turn: &mut Turn<'_>) {
        if !self.unmounted {
            self.unmount(turn, Box::new(|_, _, _| {}));
        }
    }

    fn is_quiet(&self) -> bool {
        self.is_closed() && self.rpc.is_quiet() && self.calls.is_empty()
    }
}
