//! Operations against a server that answers as the test says: one machine with a metadata target
//! and two object targets.

mod attributes;
mod batch;
mod cache;
mod checksums;
mod flocks;
mod mgc;
mod mirrors;
mod names;
mod names_away;
mod names_striped;
mod retire;
mod striped;
mod targets;
mod xattr;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use lustrine_fswire::body::{OpFlags, PtlrpcBody};
use lustrine_fswire::connect::ConnectData;
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::layout::{Ea, Striping};
use lustrine_fswire::ldlm::{
    Disposition, Ibits, IbitsPolicy, LdlmReply, LdlmRequest, LockDesc, LockFlags, LockMode,
    LockType, Policy, Resource,
};
use lustrine_fswire::mdt::{MdValid, MdtBody};
use lustrine_fswire::message::{BARE_LEN, Header, HeaderFlags, Message};
use lustrine_fswire::opcode::{Target, portal};
use lustrine_fswire::rpc::{AclBytes, Kind, Reply as ReplyBuffers, Request, dlm, mds, obd, ost};
use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::{MatchId, Md, MdOptions, Owner, Position, Unlink};
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::portal::MatchEntry;
use lustrine_lnet::service::{AnyMemory, Service, Turn};
use lustrine_lnet::shard::{AckWanted, PutArgs};
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::tunables::Tunables;
use lustrine_lnet_testing::{Net, test_nid};
use lustrine_ptlrpc::{ImportKey, ImportState, ImportTunables};
use lustrine_wire::nid::{Nid, PID_ANY, ProcessId};

use super::{
    CacheTunables, Caller, Client, ClientArgs, Data, Done, MgcTunables, bulk_memory, received,
};
use crate::error::Outcome;
use crate::layout::{FileComponent, FileLayout, ObjectPlace, Place};
use crate::offers;

const CLIENT: Owner = Owner(7);
const SERVER: Owner = Owner(8);
/// Bytes for the requests of a portal.
const BUFFER: u32 = 1 << 20;
/// A file.
const FILE: Fid = Fid { seq: 0x2_0000_0401, oid: 5, ver: 0 };
/// A directory.
const DIR: Fid = Fid { seq: 0x2_0000_0401, oid: 2, ver: 0 };
/// When the client was mounted, in seconds since 1970.
const NOW: i64 = 1_700_000_000;

/// A request that reached the server.
struct Asked {
    bytes: Vec<u8>,
    body: PtlrpcBody,
    kind: Kind,
    xid: u64,
    header: HeaderFlags,
    /// The portal of the reply.
    reply_portal: u32,
}

impl Asked {
    fn with<T>(&self, read: impl FnOnce(Request<'_>) -> T) -> T {
        let message = Message::parse(&self.bytes).expect("a message");
        read(Request::parse_kind(self.kind, &message).expect("its buffers"))
    }

    /// The obdo of a request for an object.
    fn object(&self) -> lustrine_fswire::ost::Obdo {
        self.with(|request| match request {
            Request::OstPunch(object)
            | Request::OstSetattr(object)
            | Request::OstGetattr(object)
            | Request::OstSync(object) => object.body,
            other => panic!("{other:?}"),
        })
    }
}

/// How often the targets of a client that keeps data had been started.
const INSTANCE: u32 = 3;

struct World {
    net: Net,
    client: Client,
    now: Time,
    asked: VecDeque<Asked>,
    /// Statuses of the client's answers to callbacks.
    callbacks: VecDeque<i32>,
    /// Whether the server says at a connect that it has restarted.
    recovering: bool,
    /// Whether it says at a connect that it knows the client.
    reconnects: bool,
    /// The transactions of writes so far, and those that are committed; writes have none if these
    /// are the same.
    transactions: (u64, u64),
    /// By portal.
    request_buffers: BTreeMap<u32, Span>,
}

/// Where the outcome of an operation goes.
struct Slot<T>(Arc<Mutex<Option<Outcome<T>>>>);

impl<T: Send + 'static> Slot<T> {
    fn new() -> (Slot<T>, Done<T>) {
        let slot = Arc::new(Mutex::new(None));
        let inner = Arc::clone(&slot);
        let done = move |_: &mut Client, _: &mut Turn<'_>, outcome| {
            assert!(inner.lock().unwrap().replace(outcome).is_none(), "two outcomes");
        };
        (Slot(slot), Box::new(done))
    }

    fn outcome(&self) -> Outcome<T> {
        self.0.lock().unwrap().take().expect("an outcome")
    }

    fn is_pending(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }
}

impl World {
    /// A client whose targets are connected, and which keeps nothing.
    fn new() -> World {
        World::caching(CacheTunables::NONE)
    }

    /// The same with a cache.
    fn caching(cache: CacheTunables) -> World {
        let mut net = Net::new(2, &Tunables::default());
        let now = Time(1_000_000_000);
        let server = &mut net.nodes[1];
        let mut request_buffers = BTreeMap::new();
        for portal in [
            portal::OST,
            portal::OST_IO,
            portal::MDS,
            portal::MDS_IO,
            portal::MDS_READPAGE,
            portal::OUT,
            portal::SEQ_METADATA,
            portal::LDLM_CANCEL,
            portal::LDLM_CALLBACK_REPLY,
            portal::MGS,
        ] {
            let span = server.memory.alloc(BUFFER).expect("memory");
            request_buffers.insert(portal, span);
            let md = Md {
                spans: [span].into_iter().collect(),
                threshold: None,
                max_size: None,
                options: MdOptions::OP_PUT,
                owner: SERVER,
                user: u64::from(portal),
            };
            server.shard.attach(now, portal, any(), md).expect("a portal");
        }
        let args = ClientArgs {
            mgs: vec![test_nid(1)],
            fsname: "lustre".to_owned(),
            fileset: String::new(),
            mgc_uuid: "mgc".to_owned(),
            uuid: "client".to_owned(),
            seed: 1,
            number: 0,
            wall_seconds: NOW as u64,
            wall_nanos: 0,
            // Tests let time pass, and most want to see nothing of targets that are not used.
            imports: ImportTunables { idle_timeout: None, ..ImportTunables::default() },
            cache,
            mgc: MgcTunables::default(),
        };
        let client = Client::new(CLIENT, args);
        let mut world = World {
            net,
            client,
            now,
            asked: VecDeque::new(),
            callbacks: VecDeque::new(),
            recovering: false,
            reconnects: false,
            transactions: (0, 0),
            request_buffers,
        };
        world.act(|client, turn| client.drive(turn));
        world.act(|client, turn| {
            client.started = turn.now;
            let nids = [test_nid(1)];
            let mdt = client.add_import(turn, Target::Mdt, "lustre-MDT0000_UUID", &nids);
            client.mdts.insert(0, mdt);
            for (index, name) in ["lustre-OST0000_UUID", "lustre-OST0001_UUID"].iter().enumerate() {
                let ost = client.add_import(turn, Target::Ost, name, &nids);
                client.osts.insert(index as u32, ost);
            }
            client.settle(turn);
        });
        for _ in 0..3 {
            let asked = world.asked.pop_front().expect("a connect");
            let (target, reply): (_, fn(obd::ConnectReply) -> ReplyBuffers<'static>) =
                match asked.kind {
                    Kind::MdsConnect => (Target::Mdt, ReplyBuffers::MdsConnect),
                    Kind::OstConnect => (Target::Ost, ReplyBuffers::OstConnect),
                    other => panic!("{other:?}"),
                };
            let data = offers::of(target, cache.max_cached > 0, false);
            let instance = if cache.max_cached > 0 { INSTANCE } else { 0 };
            let granted = obd::ConnectReply { data: ConnectData { instance, ..data } };
            world.answer(&asked, 0, &reply(granted));
        }
        let states = world.client.imports().into_iter().map(|import| import.state);
        assert_eq!(states.collect::<Vec<_>>(), [ImportState::Full; 3]);
        world
    }

    /// A server wants these bits of a lock of the client on a file. The client says that it knows.
    fn want_bits(&mut self, import: ImportKey, (fid, handle): (Fid, Handle), bits: Ibits) {
        let desc = LockDesc {
            kind: LockType::IBITS,
            resource: Resource::of_fid(fid),
            policy: Policy::Ibits(IbitsPolicy { bits, ..IbitsPolicy::default() }),
            ..LockDesc::default()
        };
        let handles = [handle];
        let lock = LdlmRequest { desc, handles: handles.as_slice().into(), ..Default::default() };
        self.send_callback(import, &Request::LdlmBlCallback(dlm::Lock { lock }));
        self.settle();
        assert_eq!(self.callbacks.pop_front(), Some(0));
    }

    /// A server sends a callback to the client's import of it.
    fn send_callback(&mut self, import: ImportKey, request: &Request<'_>) {
        let import = self.client.rpc.import(import).expect("an import").client_handle();
        let body = PtlrpcBody {
            handle: Handle(import),
            mbits: 640,
            timeout: 5,
            ..PtlrpcBody::request(request.kind().opcode())
        };
        let mut bytes = Vec::new();
        let header = Header { flags: HeaderFlags::AT_SUPPORT, ..Header::default() };
        request.encode(&header, &body, &mut bytes);
        self.put((portal::LDLM_CALLBACK, 640, 0), &bytes);
    }

    /// Calls into the client, then lets everything happen that follows.
    fn act<T>(&mut self, act: impl FnOnce(&mut Client, &mut Turn<'_>) -> T) -> T {
        let node = &mut self.net.nodes[0];
        let memory = AnyMemory(&mut node.memory);
        let mut turn = Turn { now: self.now, shard: &mut node.shard, memory };
        let result = act(&mut self.client, &mut turn);
        self.settle();
        result
    }

    /// Starts an operation.
    fn start<T: Send + 'static>(
        &mut self,
        operation: impl FnOnce(&mut Client, &mut Turn<'_>, Done<T>),
    ) -> Slot<T> {
        let (slot, done) = Slot::new();
        self.act(|client, turn| {
            operation(client, turn, done);
            client.settle(turn);
        });
        slot
    }

    fn settle(&mut self) {
        loop {
            self.net.run(self.now);
            let mut busy = false;
            for event in self.net.events(0) {
                busy = true;
                let node = &mut self.net.nodes[0];
                let memory = AnyMemory(&mut node.memory);
                let mut turn = Turn { now: self.now, shard: &mut node.shard, memory };
                if event.owner == CLIENT {
                    self.client.on_event(&mut turn, &event);
                }
            }
            for event in self.net.events(1) {
                if event.kind == EventKind::Put && event.owner == SERVER {
                    busy = true;
                    self.note(&event);
                }
            }
            if !busy {
                return;
            }
        }
    }

    fn note(&mut self, event: &Event) {
        let mut bytes = vec![0; event.moved as usize];
        let buffer = self.request_buffers[&(event.user as u32)];
        let span = buffer.part(event.offset, event.moved);
        self.net.nodes[1].memory.read(span, &mut bytes);
        let (message, body) = Message::parse_with_body(&bytes).expect("a message");
        if event.user == u64::from(portal::LDLM_CALLBACK_REPLY) {
            return self.callbacks.push_back(body.status);
        }
        let asked = Asked {
            kind: Kind::of_request(&message, &body),
            xid: event.match_bits,
            header: message.header().flags,
            reply_portal: portal::reply_to(event.user as u32).expect("a service"),
            body,
            bytes: bytes.clone(),
        };
        self.asked.push_back(asked);
    }

    /// The next request, which must be of this kind.
    fn next(&mut self, kind: Kind) -> Asked {
        let asked = self.asked.pop_front().unwrap_or_else(|| panic!("no {kind:?}"));
        assert_eq!(asked.kind, kind);
        asked
    }

    /// Answers a request.
    fn answer(&mut self, asked: &Asked, status: i32, buffers: &ReplyBuffers<'_>) {
        let (last, committed) = &mut self.transactions;
        let lasts = asked.kind == Kind::OstWrite && last > committed;
        *last += u64::from(lasts);
        let body = PtlrpcBody {
            status,
            transno: if lasts { *last } else { 0 },
            last_committed: *committed,
            handle: Handle(0x1234),
            op_flags: match asked.body.opcode.is_connect() {
                true if self.recovering => OpFlags::REPLAYABLE | OpFlags::RECOVERING,
                true if self.reconnects => OpFlags::REPLAYABLE | OpFlags::RECONNECT,
                true => OpFlags::REPLAYABLE,
                false => OpFlags::empty(),
            },
            ..PtlrpcBody::reply(asked.body.opcode)
        };
        let mut bytes = Vec::new();
        buffers.encode(&Header::default(), &body, &mut bytes);
        let early = asked.header.contains(HeaderFlags::AT_SUPPORT);
        let offset = if early { BARE_LEN as u32 } else { 0 };
        let bits = if asked.body.opcode.is_connect() { asked.xid } else { asked.body.mbits };
        self.put((asked.reply_portal, bits, offset), &bytes);
    }

    /// The server puts a message to a portal of the client, with match bits, at an offset.
    fn put(&mut self, (portal, match_bits, offset): (u32, u64, u32), bytes: &[u8]) {
        let now = self.now;
        let server = &mut self.net.nodes[1];
        let span = server.memory.alloc(bytes.len() as u32).expect("memory");
        server.memory.write(span, bytes);
        let md = Md {
            spans: [span].into_iter().collect(),
            threshold: Some(1),
            max_size: None,
            options: MdOptions::empty(),
            owner: SERVER,
            user: 1,
        };
        let md = server.shard.bind(md).expect("room");
        let args = PutArgs {
            md,
            local: None,
            target: ProcessId::lustre(test_nid(0)),
            portal,
            match_bits,
            offset,
            hdr_data: 0,
            ack: AckWanted::No,
            timeout: None,
        };
        server.shard.put(now, args).expect("a path");
        self.settle();
    }

    /// Answers the next request with an error.
    fn refuse(&mut self, kind: Kind, errno: i32) {
        let asked = self.next(kind);
        self.answer(&asked, -errno, &ReplyBuffers::Bare);
    }

    fn pass(&mut self, time: Nanos) {
        self.now = self.now + time;
        self.act(|client, turn| client.drive(turn));
    }
    /// Answers the next request, which must be a getattr, with attributes.
    fn give_attributes(&mut self, body: MdtBody, ea: &[u8]) {
        let asked = self.next(Kind::MdsGetattr);
        assert_eq!(asked.with(|request| fid_asked(&request)), Some(FILE));
        let reply = mds::GetattrReply { body, ea: Ea(ea), acl: AclBytes(&[]), encctx: None };
        self.answer(&asked, 0, &ReplyBuffers::MdsGetattr(reply));
    }
}

fn fid_asked(request: &Request<'_>) -> Option<Fid> {
    match request {
        Request::MdsGetattr(getattr) | Request::MdsSync(getattr) => Some(getattr.body.fid1),
        _ => None,
    }
}

fn any() -> MatchEntry {
    MatchEntry {
        from: MatchId { nid: Nid::ANY, pid: PID_ANY },
        match_bits: 0,
        ignore_bits: u64::MAX,
        position: Position::After,
        unlink: Unlink::Retain,
    }
}

/// A regular file.
fn file_body(mode: u32) -> MdtBody {
    MdtBody { fid1: FILE, mode, valid: MdValid::ID | MdValid::MODE, ..MdtBody::default() }
}

/// What a server says of an intent for which it has found a file: the file has a lock now.
fn granted_intent(fid: Fid, (handle, bits): (Handle, Ibits)) -> LdlmReply {
    LdlmReply {
        flags: LockFlags::LOCK_CHANGED | LockFlags::HAS_INTENT,
        desc: LockDesc {
            kind: LockType::IBITS,
            resource: Resource::of_fid(fid),
            req_mode: LockMode::PR,
            granted_mode: LockMode::PR,
            policy: Policy::Ibits(IbitsPolicy { bits, ..IbitsPolicy::default() }),
        },
        handle,
        policy_res1: (Disposition::EXECD | Disposition::LOOKUP_POS).bits(),
        ..LdlmReply::default()
    }
}

/// The object of a stripe, on the target of the same number.
fn object(stripe: u32) -> Fid {
    Fid::new(0x2_4000_0400 + (u64::from(stripe) << 30), 100 + stripe)
}

/// A layout of two stripes of 64 KiB.
fn striped() -> FileLayout {
    let objects = [0, 1].map(|stripe| ObjectPlace { oi: object(stripe), ost: stripe });
    let place = Place::Objects {
        striping: Striping::new(65536, 2).expect("stripes"),
        objects: objects.to_vec(),
    };
    let components = vec![FileComponent { start: 0, end: u64::MAX, place }];
    FileLayout { components, generation: 1, mirrors: None }
}

/// The answer to a request for an object.
fn object_reply(body: lustrine_fswire::ost::Obdo) -> ost::ObjectOnly {
    ost::ObjectOnly { body }
}

/// A plain layout of stripes of 64 KiB as an attribute. Without objects there is a placeholder.
fn plain_ea(stripes: &[u32]) -> Vec<u8> {
    let mut ea = Vec::new();
    ea.extend(0x0bd1_0bd0u32.to_le_bytes());
    ea.extend(1u32.to_le_bytes());
    ea.extend(u64::from(FILE.oid).to_le_bytes());
    ea.extend(FILE.seq.to_le_bytes());
    ea.extend(65536u32.to_le_bytes());
    ea.extend((stripes.len().max(1) as u16).to_le_bytes());
    ea.extend(0u16.to_le_bytes());
    for stripe in stripes {
        ea.extend(object(*stripe).seq.to_le_bytes());
        ea.extend(object(*stripe).oid.to_le_bytes());
        ea.extend([0; 8]);
        ea.extend(stripe.to_le_bytes());
    }
    if stripes.is_empty() {
        ea.extend([0; 20]);
        ea.extend(u32::MAX.to_le_bytes());
    }
    ea
}

/// A layout of components, each with its end and its objects.
fn composite_ea(parts: &[(u64, &[u32])]) -> Vec<u8> {
    let blobs: Vec<Vec<u8>> = parts.iter().map(|(_, stripes)| plain_ea(stripes)).collect();
    let head = 32 + 48 * parts.len();
    let size = head + blobs.iter().map(Vec::len).sum::<usize>();
    let mut ea = Vec::new();
    ea.extend(0x0bd6_0bd0u32.to_le_bytes());
    ea.extend((size as u32).to_le_bytes());
    ea.extend(3u32.to_le_bytes());
    ea.extend([0; 2]);
    ea.extend((parts.len() as u16).to_le_bytes());
    ea.extend([0; 16]);
    let (mut start, mut offset) = (0u64, head);
    for (index, ((end, stripes), blob)) in parts.iter().zip(&blobs).enumerate() {
        let init = if stripes.is_empty() { 0u32 } else { 0x10 };
        ea.extend((index as u32 + 1).to_le_bytes());
        ea.extend(init.to_le_bytes());
        ea.extend(start.to_le_bytes());
        ea.extend(end.to_le_bytes());
        ea.extend((offset as u32).to_le_bytes());
        ea.extend((blob.len() as u32).to_le_bytes());
        ea.extend([0; 16]);
        start = *end;
        offset += blob.len();
    }
    blobs.iter().for_each(|blob| ea.extend(blob));
    ea
}

#[test]
fn descriptors_are_cut_where_the_server_cuts() {
    use lustrine_fswire::codec::Array;
    use lustrine_fswire::ost::{Niobuf, NiobufFlags, bulk_pieces};
    let one =
        |offset: u64, len: u64| Vec::from([core::ops::Range { start: offset, end: offset + len }]);
    let many = (0..600u64).map(|at| at * 9000..at * 9000 + 5000).collect();
    let cases = [
        one(0, 1),
        one(0, 1 << 20),
        one(4096, 4 << 20),
        one(100, 3 << 20),
        one(4095, (1 << 20) + 2),
        many,
    ];
    for ranges in cases {
        let niobuf = |range: &core::ops::Range<u64>| {
            let (offset, len) = (range.start, (range.end - range.start) as u32);
            Niobuf { offset, len, flags: NiobufFlags::empty() }
        };
        let niobufs: Vec<Niobuf> = ranges.iter().map(niobuf).collect();
        let lens = super::descriptor_lens(&ranges);
        let last = lens.len() as u64 - 1;
        let pieces = bulk_pieces(last, 64, &Array::from(niobufs.as_slice())).expect("they fit");
        assert_eq!(lens, pieces.iter().map(|piece| piece.len).collect::<Vec<_>>());
    }
}

#[test]
fn what_was_received_is_taken_out_or_copied() {
    World::new().act(|_, turn| {
        // In one piece, of which three quarters have come: its memory is taken.
        for (moved, left) in [(200_000, 0), (150_000, 0), (149_999, 1), (0, 1)] {
            let data = Data::In { offset: 7, len: 200_000 };
            let (mut spans, pieces) = bulk_memory(turn, &data).expect("memory");
            assert_eq!((spans.len(), pieces.len()), (1, 1));
            turn.memory.write(spans[0], &vec![5; 200_000]);
            let bytes = received(turn, &mut spans, moved);
            assert_eq!((bytes.len(), spans.len()), (moved as usize, left), "{moved}");
            assert!(bytes.iter().all(|byte| *byte == 5));
            spans.into_iter().for_each(|span| turn.memory.free(span));
        }
        // In several pieces, since there was no room for one.
        let mut spans: Vec<Span> = (0..2).filter_map(|_| turn.memory.alloc(100)).collect();
        for (value, span) in spans.clone().into_iter().enumerate() {
            turn.memory.write(span, &[value as u8; 100]);
        }
        let bytes = received(turn, &mut spans, 150);
        assert_eq!(bytes, [[0; 100], [1; 100]].concat()[..150]);
        assert_eq!(spans.len(), 2);
        spans.into_iter().for_each(|span| turn.memory.free(span));
    });
}

/// Otherwise the times of writes were up to a second behind those of the host.
#[test]
fn the_clock_keeps_the_fraction_of_the_second_at_its_start() {
    World::new().act(|client, turn| {
        client.args.wall_nanos = 900_000_000;
        client.started = turn.now;
        assert_eq!(client.wall(turn), NOW);
        turn.now = turn.now + Nanos::from_millis(200);
        assert_eq!(client.wall(turn), NOW + 1);
    });
}
