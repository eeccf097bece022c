//! Data that the client keeps, against object servers of a few lines.

mod faults;
mod gathered;
mod grown;
mod least_used;
mod model;
mod reads;
mod unstable;
mod unused;

use core::ops::Range;

use bytes::Bytes;
use lustrine_fswire::codec::Array;
use lustrine_fswire::ldlm::{
    Extent, LdlmReply, LdlmRequest, LockDesc, LockFlags, LockMode, OstLvb, Policy,
};
use lustrine_fswire::ost::{NiobufFlags, Obdo, ObdoFlags};
use lustrine_fswire::rpc::{Lvb, dlm};
use lustrine_lnet::shard::GetArgs;
use lustrine_ptlrpc::RpcError;

use super::*;
use crate::LostWrites;
use crate::attr::FileOwner;
use crate::error::ClientError;

const OWNER: FileOwner = FileOwner { uid: 1000, gid: 100, projid: 0 };
const ALICE: Caller = Caller { uid: 1000, gid: 100, capabilities: 0, ..Caller::ROOT };
const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;
const CACHE: CacheTunables = CacheTunables::of(64 << 20);

/// What the servers have.
#[derive(Default)]
struct Osts {
    /// By the stripe.
    objects: BTreeMap<u32, Vec<u8>>,
    /// Locks that the client has: its handle, the server's, the stripe and the mode.
    locks: Vec<(Handle, Handle, u32, LockMode)>,
    last: u64,
    /// What was asked, in order.
    seen: Vec<Kind>,
    /// Ranges that were written, and whether they were paid from the grant.
    writes: Vec<(u32, Range<u64>, bool)>,
    /// The result of the next write.
    fails: Option<i32>,
    /// Whether the owner of the file is over quota, as replies to writes say, and the status of
    /// those.
    over_quota: bool,
    status: i32,
    /// Most bytes that a lock covers behind what was asked for; everything unless it is set.
    grows: Option<u64>,
}

fn stripe_of(oi: Fid) -> u32 {
    oi.oid - 100
}

impl Osts {
    fn lvb(&self, stripe: u32) -> OstLvb {
        let size = self.objects.get(&stripe).map_or(0, |bytes| bytes.len() as u64);
        OstLvb { size, mtime: NOW - 100, atime: NOW - 100, ctime: NOW - 100, ..OstLvb::default() }
    }

    fn conflicts(&self, stripe: u32, wanted: LockMode) -> bool {
        let conflicts = |mode: &LockMode| wanted == LockMode::PW || *mode == LockMode::PW;
        self.locks.iter().any(|(_, _, of, mode)| *of == stripe && conflicts(mode))
    }

    /// Answers everything that the client asks.
    fn serve(&mut self, world: &mut World) {
        while let Some(asked) = world.asked.pop_front() {
            self.answer(world, &asked);
        }
    }

    fn answer(&mut self, world: &mut World, asked: &Asked) {
        self.seen.push(asked.kind);
        match asked.kind {
            Kind::Enqueue => self.grant(world, asked),
            Kind::LdlmCancel => {
                let remotes: Vec<Handle> = asked.with(|request| match request {
                    Request::LdlmCancel(dlm::Lock { lock }) => lock.handles.iter().collect(),
                    other => panic!("{other:?}"),
                });
                self.locks.retain(|(_, remote, ..)| !remotes.contains(remote));
                world.answer(asked, 0, &ReplyBuffers::Bare);
            }
            Kind::ObdPing => world.answer(asked, 0, &ReplyBuffers::ObdPing(obd::Nothing {})),
            Kind::OstRead => self.read(world, asked),
            Kind::OstWrite => self.write(world, asked),
            Kind::OstSync => {
                let body = asked.object();
                world.answer(asked, 0, &ReplyBuffers::OstSync(object_reply(body)));
            }
            Kind::MdsSync => {
                let body = mds::Body { body: file_body(0o100_644) };
                world.answer(asked, 0, &ReplyBuffers::MdsSync(body));
            }
            other => panic!("{other:?}"),
        }
    }

    fn grant(&mut self, world: &mut World, asked: &Asked) {
        let (desc, handle) = asked.with(|request| match request {
            Request::Enqueue(dlm::Lock { lock }) => (lock.desc, lock.handle(0).expect("a handle")),
            other => panic!("{other:?}"),
        });
        let Policy::Extent(asked_for) = desc.policy else { panic!("{desc:?}") };
        let stripe = stripe_of(object_of(&desc));
        if self.conflicts(stripe, desc.req_mode) {
            // As a real server does, also with locks of the client that asks.
            self.call_back(world, stripe, LockFlags::empty());
            let mut later = VecDeque::new();
            while let Some(asked) = world.asked.pop_front() {
                match asked.kind {
                    Kind::Enqueue => later.push_back(asked),
                    _ => self.answer(world, &asked),
                }
            }
            world.asked = later;
        }
        assert!(!self.conflicts(stripe, desc.req_mode), "the client keeps what is in its way");
        self.last += 1;
        let remote = Handle(0x9000 + self.last);
        let end = self.grows.map_or(u64::MAX, |grows| asked_for.end.saturating_add(grows));
        let policy = Policy::Extent(Extent { end, ..asked_for });
        let desc = LockDesc { granted_mode: desc.req_mode, policy, ..desc };
        let flags = LockFlags::LOCK_CHANGED;
        let reply = LdlmReply { flags, desc, handle: remote, ..LdlmReply::default() };
        let lvb = lustrine_fswire::codec::Wire::to_bytes(&self.lvb(stripe));
        let reply = dlm::EnqueueReply { reply, lvb: Some(Lvb(&lvb)) };
        self.locks.push((handle, remote, stripe, desc.req_mode));
        world.answer(asked, 0, &ReplyBuffers::Enqueue(reply));
    }

    /// The stripe, the range and the obdo of a read or a write, which must be under a lock.
    fn transfer(&self, asked: &Asked) -> (u32, Range<u64>, Obdo, NiobufFlags) {
        let (body, range, flags) = asked.with(|request| match request {
            Request::OstRead(brw) | Request::OstWrite(brw) => {
                let niobuf = brw.niobufs.get(0).expect("a range");
                let range = niobuf.offset..niobuf.offset + u64::from(niobuf.len);
                (brw.body, range, niobuf.flags)
            }
            other => panic!("{other:?}"),
        });
        let stripe = stripe_of(body.oi);
        let known =
            |(_, remote, of, _): &(_, Handle, u32, _)| *remote == body.handle && *of == stripe;
        assert!(self.locks.iter().any(known), "{range:?} without a lock");
        assert!(!flags.contains(NiobufFlags::SRVLOCK));
        (stripe, range, body, flags)
    }

    fn read(&mut self, world: &mut World, asked: &Asked) {
        let (stripe, range, body, _) = self.transfer(asked);
        let object = self.objects.entry(stripe).or_default();
        let len = object.len() as u64;
        let (from, to) = (range.start.min(len) as usize, range.end.min(len) as usize);
        let bytes = object[from..to].to_vec();
        let reply_body = Obdo { valid: MdValid::ID, ..body };
        if body.flags.contains(ObdoFlags::SHORT_IO) {
            let reply = ost::ReadReply { body: reply_body, data: &bytes };
            return world.answer(asked, bytes.len() as i32, &ReplyBuffers::OstRead(reply));
        }
        let lens = crate::client::descriptor_lens(&[range]);
        let (first, mut rest) = (asked.body.mbits + 1 - lens.len() as u64, &bytes[..]);
        for (bits, len) in (first..).zip(lens) {
            let (part, others) = rest.split_at(rest.len().min(len as usize));
            if !part.is_empty() {
                world.put((portal::OST_BULK, bits, 0), part);
            }
            rest = others;
        }
        let reply = ReplyBuffers::OstRead(ost::ReadReply { body: reply_body, data: &[] });
        world.answer(asked, bytes.len() as i32, &reply);
    }

    fn write(&mut self, world: &mut World, asked: &Asked) {
        let (stripe, _, body, flags) = self.transfer(asked);
        let paid = flags.contains(NiobufFlags::FROM_GRANT);
        assert_eq!(paid, body.grant_used() > 0);
        let ranges: Vec<Range<u64>> = asked.with(|request| match request {
            Request::OstWrite(brw) => {
                let range = |niobuf: lustrine_fswire::ost::Niobuf| {
                    niobuf.offset..niobuf.offset + u64::from(niobuf.len)
                };
                brw.niobufs.iter().map(range).collect()
            }
            other => panic!("{other:?}"),
        });
        self.writes.extend(ranges.iter().map(|range| (stripe, range.clone(), paid)));
        let lens = crate::client::descriptor_lens(&ranges);
        let (first, mut bytes) = (asked.body.mbits + 1 - lens.len() as u64, Vec::new());
        for (bits, len) in (first..).zip(lens) {
            bytes.extend(world.get(portal::OST_BULK, bits, len as u32));
        }
        let result = self.fails.take().unwrap_or(self.status);
        let object = self.objects.entry(stripe).or_default();
        let mut rest = bytes.as_slice();
        for range in ranges.iter().filter(|_| result == 0) {
            let (now, others) = rest.split_at((range.end - range.start) as usize);
            object.resize(object.len().max(range.end as usize), 0);
            object[range.start as usize..range.end as usize].copy_from_slice(now);
            rest = others;
        }
        let quota = MdValid::FLAGS | MdValid::USRQUOTA | MdValid::GRPQUOTA | MdValid::PRJQUOTA;
        let valid = MdValid::ID | MdValid::GRANT | quota;
        let mut flags = ObdoFlags::empty();
        flags.set(ObdoFlags::NO_USRQUOTA, self.over_quota);
        let body = Obdo { valid, flags, grant: body.grant_used(), ..body };
        let mut results = vec![0; ranges.len()];
        results[0] = result - self.status;
        let results = Array::from(results.as_slice());
        let reply = ReplyBuffers::OstWrite(ost::WriteReply { body, results });
        world.answer(asked, self.status, &reply);
    }

    /// Somebody else wants what the client has of an object.
    fn call_back(&mut self, world: &mut World, stripe: u32, flags: LockFlags) {
        let held = self.locks.iter().filter(|(_, _, of, _)| *of == stripe);
        for (handle, remote, ..) in held.copied().collect::<Vec<_>>() {
            let handles = [handle, remote];
            let lock = LdlmRequest {
                flags,
                count: 0,
                desc: extent_desc(stripe),
                handles: handles.as_slice().into(),
            };
            let request = Request::LdlmBlCallback(dlm::Lock { lock });
            assert_eq!(world.callback(stripe, &request), 0);
        }
    }

    /// The bytes of the file that the servers have.
    fn file(&self) -> Vec<u8> {
        let layout = striped();
        let size = self
            .objects
            .iter()
            .map(|(stripe, bytes)| layout.file_size(0, *stripe as u16, bytes.len() as u64));
        let size = size.max().unwrap_or(0);
        let mut file = vec![0; size as usize];
        for piece in layout.pieces(0, size) {
            let Some(object) = self.objects.get(&u32::from(piece.stripe)) else { continue };
            let from = object.len().min(piece.object_offset as usize);
            let to = object.len().min((piece.object_offset + piece.len) as usize);
            file[piece.offset as usize..][..to - from].copy_from_slice(&object[from..to]);
        }
        file
    }
}

fn extent_desc(stripe: u32) -> LockDesc {
    LockDesc {
        kind: lustrine_fswire::ldlm::LockType::EXTENT,
        resource: lustrine_fswire::ldlm::Resource::of_object(object(stripe)),
        req_mode: LockMode::PW,
        policy: Policy::Extent(Extent::WHOLE),
        ..LockDesc::default()
    }
}

fn object_of(desc: &LockDesc) -> Fid {
    let stripes = [0, 1].map(|stripe| (stripe, extent_desc(stripe).resource));
    let found = stripes.iter().find(|(_, resource)| *resource == desc.resource);
    object(found.expect("an object of the file").0)
}

impl World {
    /// The server of a stripe calls back. The status of the answer.
    fn callback(&mut self, stripe: u32, request: &Request<'_>) -> i32 {
        let import = self.client.osts[&stripe];
        self.send_callback(import, request);
        self.callbacks.pop_front().expect("an answer")
    }

    /// The server fetches bytes from the client.
    fn get(&mut self, portal: u32, match_bits: u64, len: u32) -> Vec<u8> {
        let now = self.now;
        let server = &mut self.net.nodes[1];
        let span = server.memory.alloc(len).expect("memory");
        let md = Md {
            spans: [span].into_iter().collect(),
            // The GET and its REPLY.
            threshold: Some(2),
            max_size: None,
            options: MdOptions::empty(),
            owner: SERVER,
            user: 2,
        };
        let md = server.shard.bind(md).expect("room");
        let target = ProcessId::lustre(test_nid(0));
        let args =
            GetArgs { md, local: None, target, portal, match_bits, offset: 0, timeout: None };
        server.shard.get(now, args).expect("a path");
        self.settle();
        let mut bytes = vec![0; len as usize];
        self.net.nodes[1].memory.read(span, &mut bytes);
        bytes
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Slot<()> {
        let layout = striped();
        self.start(|client, turn, done| {
            client.write(
                turn,
                Caller::ROOT,
                (FILE, OWNER),
                &layout,
                (offset, Bytes::copy_from_slice(bytes)),
                done,
            );
        })
    }

    fn append(&mut self, bytes: &[u8]) -> Slot<crate::Appended> {
        self.start(|client, turn, done| {
            client.append(
                turn,
                Caller::ROOT,
                (FILE, OWNER),
                striped(),
                Bytes::copy_from_slice(bytes),
                done,
            );
        })
    }

    fn read(&mut self, offset: u64, len: u32) -> Slot<(Vec<u8>, Option<FileLayout>)> {
        let layout = striped();
        self.start(|client, turn, done| {
            let then: Done<(Bytes, Option<FileLayout>)> = Box::new(move |client, turn, read| {
                done(client, turn, read.map(|(bytes, layout)| (bytes.to_vec(), layout)));
            });
            client.read_to_end(turn, Caller::ROOT, FILE, &layout, (offset, len), then);
        })
    }

    fn fsync(&mut self) -> Slot<()> {
        let layout = striped();
        self.start(|client, turn, done| client.fsync(turn, Caller::ROOT, FILE, &layout, done))
    }

    fn size(&mut self) -> Slot<(u64, u64)> {
        let layout = striped();
        self.start(|client, turn, done| client.size(turn, Caller::ROOT, FILE, &layout, done))
    }
}

fn scene() -> (World, Osts) {
    (World::caching(CACHE), Osts::default())
}

/// A client that has a lock of the first object, and bytes that the server does not have.
fn dirty() -> (World, Osts) {
    let (mut world, mut osts) = scene();
    let written = world.write(10, b"hello");
    osts.serve(&mut world);
    assert_eq!(written.outcome(), Ok(()));
    assert_eq!((osts.seen.as_slice(), osts.writes.len()), (&[Kind::Enqueue][..], 0));
    (world, osts)
}

#[test]
fn what_was_written_is_read_without_a_request_and_sent_by_fsync() {
    let (mut world, mut osts) = dirty();
    assert_eq!(world.write(15, b" you").outcome(), Ok(()));
    let read = world.read(0, 19);
    assert_eq!(read.outcome(), Ok((b"\0\0\0\0\0\0\0\0\0\0hello you".to_vec(), None)));
    assert!(world.asked.is_empty());
    let counts = world.client.cache_counts();
    assert_eq!((counts.dirty, counts.cached, counts.objects), (9, 4096, 1));
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Ok(()));
    assert_eq!(osts.writes, [(0, 10..19, true)]);
    assert_eq!(osts.file(), b"\0\0\0\0\0\0\0\0\0\0hello you");
    // It is kept, and not sent again.
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!((synced.outcome(), osts.writes.len()), (Ok(()), 1));
    assert_eq!(world.read(10, 5).outcome().unwrap().0, b"hello");
}

#[test]
fn a_lock_that_is_wanted_is_given_back_when_its_data_are_written() {
    let (mut world, mut osts) = dirty();
    osts.seen.clear();
    osts.call_back(&mut world, 0, LockFlags::empty());
    osts.serve(&mut world);
    assert_eq!(osts.seen, [Kind::OstWrite, Kind::LdlmCancel]);
    assert!(osts.locks.is_empty());
    assert_eq!(world.client.cache_counts(), crate::CacheCounts::default());
    // Somebody else writes; the client sees it.
    osts.objects.get_mut(&0).unwrap()[10..15].copy_from_slice(b"there");
    let read = world.read(10, 5);
    osts.serve(&mut world);
    assert_eq!(read.outcome().unwrap().0, b"there");
}

#[test]
fn a_callback_is_answered_while_a_read_uses_the_lock() {
    let (mut world, mut osts) = scene();
    osts.objects.insert(0, vec![7; 1000]);
    let read = world.read(0, 500);
    let enqueue = world.next(Kind::Enqueue);
    osts.answer(&mut world, &enqueue);
    let asked = world.next(Kind::OstRead);
    osts.call_back(&mut world, 0, LockFlags::empty());
    assert!(world.asked.is_empty(), "the lock is in use");
    // What begins now does not use it.
    let other = world.read(0, 10);
    let enqueue = world.next(Kind::Enqueue);
    osts.answer(&mut world, &asked);
    assert_eq!(read.outcome().unwrap().0, vec![7; 500]);
    let cancel = world.next(Kind::LdlmCancel);
    osts.answer(&mut world, &cancel);
    osts.answer(&mut world, &enqueue);
    osts.serve(&mut world);
    assert_eq!(other.outcome().unwrap().0, vec![7; 10]);
}

#[test]
fn the_data_of_a_file_that_is_destroyed_are_not_written() {
    let (mut world, mut osts) = dirty();
    osts.call_back(&mut world, 0, LockFlags::DISCARD_DATA);
    osts.serve(&mut world);
    assert!(osts.writes.is_empty() && osts.locks.is_empty());
    assert_eq!(world.client.cache_counts().dirty, 0);
}

#[test]
fn a_glimpse_is_answered_with_the_size_of_what_is_not_written() {
    let (mut world, osts) = dirty();
    let (handle, ..) = osts.locks[0];
    let handles = [handle];
    let lock = LdlmRequest {
        flags: LockFlags::empty(),
        count: 0,
        desc: extent_desc(0),
        handles: handles.as_slice().into(),
    };
    let request = Request::LdlmGlCallback(dlm::Glimpse { lock, desc: Some(&[]) });
    assert_eq!(world.callback(0, &request), 0);
    let import = world.client.osts[&0];
    let lvb = world.client.glimpsed(import, handle).expect("it knows");
    assert_eq!((lvb.size, lvb.mtime, lvb.blocks), (15, NOW, 1));
    assert_eq!(world.client.glimpsed(import, Handle(1)), None);
}

/// The server asks the lock that is highest in the object; the client may not know yet that it has
/// it, while bytes under another lock are not written.
#[test]
fn a_glimpse_of_a_lock_that_just_comes_is_answered_with_what_another_one_covers() {
    let (mut world, mut osts) = scene();
    osts.grows = Some(0);
    let written = world.write(10, b"hello");
    osts.serve(&mut world);
    assert_eq!(written.outcome(), Ok(()));
    let _other = world.write(4096 * 3, b"x");
    let enqueue = world.next(Kind::Enqueue);
    let coming = enqueue.with(|request| match request {
        Request::Enqueue(dlm::Lock { lock }) => lock.handle(0).expect("a handle"),
        other => panic!("{other:?}"),
    });
    let import = world.client.osts[&0];
    let lvb = world.client.glimpsed(import, coming).expect("it knows");
    assert_eq!(lvb.size, 15);
}

#[test]
fn the_size_is_known_while_nobody_else_writes() {
    let (mut world, mut osts) = dirty();
    let size = world.size();
    osts.serve(&mut world);
    assert_eq!(size.outcome(), Ok((15, 1)));
    assert_eq!(world.size().outcome(), Ok((15, 1)), "without a request");
    osts.call_back(&mut world, 1, LockFlags::empty());
    osts.serve(&mut world);
    osts.objects.insert(1, vec![1; 5]);
    let size = world.size();
    osts.serve(&mut world);
    assert_eq!(size.outcome().unwrap().0, 65536 + 5);
}

#[test]
fn what_is_dirty_for_long_is_written() {
    let (mut world, mut osts) = dirty();
    world.pass(Nanos::from_secs(4));
    assert!(world.asked.is_empty());
    world.pass(Nanos::from_secs(2));
    osts.serve(&mut world);
    assert_eq!(osts.writes, [(0, 10..15, true)]);
    assert!(!osts.locks.is_empty());
    // The lock goes when it was not used for as long as the settings say.
    world.pass(Nanos::from_secs(601));
    osts.serve(&mut world);
    assert!(osts.locks.is_empty());
}

#[test]
fn the_error_of_a_write_is_reported_once() {
    let (mut world, mut osts) = dirty();
    osts.fails = Some(-ENOSPC);
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Err(ClientError::Errno(ENOSPC)));
    assert_eq!(world.client.cache_counts().lost, 5);
    let size = world.size();
    osts.serve(&mut world);
    assert_eq!(size.outcome().map(|(size, _)| size), Ok(0));
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Ok(()));
    // What could not be written is not there.
    let read = world.read(0, 15);
    osts.serve(&mut world);
    assert_eq!(read.outcome().unwrap().0, [0; 0]);
}

/// The lock of the first one covers the second one too, if the server makes it as large as it can.
#[test]
fn parallel_writers_do_not_call_each_other_back() {
    for (grows, enqueues) in [(None, 1), (Some(0), 2)] {
        let (mut world, mut osts) = (World::caching(CACHE), Osts { grows, ..Osts::default() });
        let first = world.write(0, &[1; 100]);
        let second = world.write(20_000, &[2; 100]);
        let kinds: Vec<Kind> = world.asked.iter().map(|asked| asked.kind).collect();
        assert_eq!(kinds, [Kind::Enqueue]);
        osts.serve(&mut world);
        assert_eq!((first.outcome(), second.outcome()), (Ok(()), Ok(())));
        let asked = osts.seen.iter().filter(|kind| **kind == Kind::Enqueue).count();
        assert_eq!(asked, enqueues);
    }
}

/// What waits behind a lock that is not granted asks by itself.
#[test]
fn an_error_of_a_lock_is_not_that_of_what_waits_behind_it() {
    let (mut world, mut osts) = scene();
    let first = world.write(0, &[1; 100]);
    let second = world.write(20_000, &[2; 100]);
    let asked = world.next(Kind::Enqueue);
    world.answer(&asked, -ENOSPC, &ReplyBuffers::Bare);
    assert_eq!(first.outcome(), Err(ClientError::Errno(ENOSPC)));
    osts.serve(&mut world);
    assert_eq!(second.outcome(), Ok(()));
}

#[test]
fn without_a_grant_a_write_waits_for_the_server() {
    let (mut world, mut osts) = scene();
    // The server promises 8 MiB; these are written page by page, with gaps.
    let import = world.client.osts[&0];
    world.act(|client, turn| {
        client.with_grant_for_tests(import, 10_000);
        client.settle(turn);
    });
    let first = world.write(0, &[1; 4096]);
    osts.serve(&mut world);
    assert_eq!((first.outcome(), osts.writes.len()), (Ok(()), 0));
    let second = world.write(20_000, &[2; 4096]);
    assert!(second.is_pending());
    osts.serve(&mut world);
    assert_eq!(second.outcome(), Ok(()));
    assert_eq!(osts.writes, [(0, 20_000..24_096, false)]);
    // One that fails says so at once.
    let third = world.write(40_000, &[3; 4096]);
    osts.fails = Some(-EDQUOT);
    osts.serve(&mut world);
    assert_eq!(third.outcome(), Err(ClientError::Errno(EDQUOT)));
    // It does not make the file longer, neither here nor for others, who ask this client.
    let size = world.size();
    osts.serve(&mut world);
    assert_eq!(size.outcome().map(|(size, _)| size), Ok(24_096));
}

#[test]
fn writes_wait_while_too_much_is_dirty() {
    let tunables = CacheTunables { max_dirty: 130_000, ..CACHE };
    let (mut world, mut osts) = (World::caching(tunables), Osts::default());
    let first = world.write(0, &[1; 60_000]);
    osts.serve(&mut world);
    assert_eq!(first.outcome(), Ok(()));
    let second = world.write(60_000, &[2; 5000]);
    assert_eq!(second.outcome(), Ok(()));
    let third = world.write(0, &[3; 60_000]);
    assert!(third.is_pending());
    osts.serve(&mut world);
    assert_eq!(third.outcome(), Ok(()));
    assert_eq!(osts.writes.len(), 1);
    assert_eq!(world.client.cache_counts().dirty, 60_000);
}

#[test]
fn memory_is_given_back_when_there_is_too_much() {
    let tunables = CacheTunables { max_cached: 200_000, max_dirty: 100_000, ..CACHE };
    let (mut world, mut osts) = (World::caching(tunables), Osts::default());
    for stripe in [0, 1] {
        osts.objects.insert(stripe, vec![stripe as u8 + 1; 1 << 20]);
    }
    for at in 0..16 {
        let read = world.read(at * 131_072, 131_072);
        osts.serve(&mut world);
        let bytes = read.outcome().unwrap().0;
        assert!(bytes[..65536].iter().all(|byte| *byte == 1));
        assert!(bytes[65536..].iter().all(|byte| *byte == 2));
        assert!(world.client.cache_counts().cached <= 200_000);
    }
}

#[test]
fn an_eviction_takes_what_was_not_written() {
    let (mut world, mut osts) = dirty();
    osts.locks.clear();
    world.act(|client, turn| {
        let import = client.osts[&0];
        client.locks_evicted(turn, import);
        client.settle(turn);
    });
    let counts = world.client.cache_counts();
    assert_eq!((counts.dirty, counts.cached, counts.lost), (0, 0, 5));
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Err(ClientError::Rpc(RpcError::Evicted)));
}

#[test]
fn appends_go_to_the_end_and_stay_in_memory() {
    let (mut world, mut osts) = dirty();
    let first = world.append(b" world");
    osts.serve(&mut world);
    assert_eq!(first.outcome().map(|appended| appended.offset), Ok(15));
    osts.seen.clear();
    assert_eq!(world.append(b"!").outcome().map(|appended| appended.offset), Ok(21));
    assert!(osts.writes.is_empty() && world.asked.is_empty());
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Ok(()));
    assert_eq!(&osts.file()[10..], b"hello world!");
}

/// Both have the lock, and each has to find the end where the other one has put it.
#[test]
fn appends_at_the_same_time_do_not_meet() {
    let (mut world, mut osts) = scene();
    let (first, second) = (world.append(b"one"), world.append(b"two"));
    osts.serve(&mut world);
    let offset = |slot: Slot<crate::Appended>| slot.outcome().unwrap().offset;
    assert_eq!((offset(first), offset(second)), (0, 3));
    let read = world.read(0, 10);
    osts.serve(&mut world);
    assert_eq!(read.outcome().unwrap().0, b"onetwo");
}

#[test]
fn who_reads_on_gets_it_before_asking() {
    let (mut world, mut osts) = scene();
    for stripe in [0, 1] {
        osts.objects.insert(stripe, vec![stripe as u8; 3 << 20]);
    }
    let mut requests = Vec::new();
    for at in 0..48 {
        let read = world.read(at * 131_072, 131_072);
        let before = osts.seen.len();
        osts.serve(&mut world);
        assert_eq!(read.outcome().unwrap().0.len(), 131_072);
        requests.push(osts.seen.len() - before);
    }
    let none = requests.iter().filter(|requests| **requests == 0).count();
    assert!(none > 36, "{requests:?}");
    let reads = osts.seen.iter().filter(|kind| **kind == Kind::OstRead).count();
    assert!(reads <= 24, "{reads} reads");
}

#[test]
fn a_write_that_is_refused_after_another_lock_came_does_not_make_the_file_longer() {
    let (mut world, mut osts) = (World::caching(CACHE), Osts { grows: Some(0), ..Osts::default() });
    let written = world.write(0, b"hello");
    osts.serve(&mut world);
    assert_eq!(written.outcome(), Ok(()));
    let synced = world.fsync();
    let write = world.next(Kind::OstWrite);
    let _read = world.read(20_000, 10);
    let enqueue = world.next(Kind::Enqueue);
    let kept = core::mem::take(&mut osts.locks);
    osts.grows = None;
    osts.answer(&mut world, &enqueue);
    osts.locks.extend(kept);
    osts.fails = Some(-ENOSPC);
    osts.answer(&mut world, &write);
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Err(ClientError::Errno(ENOSPC)));
    let size = world.size();
    osts.serve(&mut world);
    assert_eq!(size.outcome().map(|(size, _)| size), Ok(0));
}
