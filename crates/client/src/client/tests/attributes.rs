//! Attributes: at the metadata server, and at the objects.

use lustrine_fswire::codec::Wire as _;
use lustrine_fswire::ldlm::{Extent, LayoutOp, LdlmReply, LockDesc, LockMode, OstLvb, Policy};
use lustrine_fswire::mdt::{AttrFlags, Bias, Reint, SetattrRecord};
use lustrine_fswire::ost::{Obdo, ObdoFlags};
use lustrine_fswire::rpc::{Lvb, dlm};

use super::*;
use crate::attr::FileOwner;
use crate::client::{Changes, SetTime};
use crate::error::{ClientError, errno};

const MODE: u32 = 0o100_644;

impl World {
    fn change(&mut self, changes: Changes) -> Slot<crate::Attr> {
        self.start(|client, turn, done| {
            client.set_attributes(turn, Caller::ROOT, FILE, changes, done);
        })
    }

    /// Accepts a setattr at the metadata server, and gives the record.
    fn accept_setattr(&mut self) -> SetattrRecord {
        let asked = self.next(Kind::ReintSetattr);
        let record = asked.with(|request| match request {
            Request::ReintSetattr(mds::ReintSetattr { record: Reint::Setattr(record), .. }) => {
                record
            }
            other => panic!("{other:?}"),
        });
        let reply =
            mds::ReintSetattrReply { body: file_body(MODE), ea: Ea::NONE, acl: AclBytes(&[]) };
        self.answer(&asked, 0, &ReplyBuffers::ReintSetattr(reply));
        record
    }

    /// Accepts a request for an object, and gives its parameters.
    fn accept_object(&mut self, kind: Kind, reply: Obdo) -> Obdo {
        let asked = self.next(kind);
        let reply = object_reply(reply);
        let reply = match kind {
            Kind::OstPunch => ReplyBuffers::OstPunch(reply),
            Kind::OstSetattr => ReplyBuffers::OstSetattr(reply),
            Kind::OstGetattr => ReplyBuffers::OstGetattr(reply),
            Kind::OstSync => ReplyBuffers::OstSync(reply),
            other => panic!("{other:?}"),
        };
        self.answer(&asked, 0, &reply);
        asked.object()
    }

    /// Grants the lock of an object that is asked for, and gives what was asked for.
    fn grant_lock(&mut self, handle: Handle) -> LockDesc {
        let asked = self.next(Kind::Enqueue);
        let desc = asked.with(|request| match request {
            Request::Enqueue(dlm::Lock { lock }) => lock.desc,
            other => panic!("{other:?}"),
        });
        let granted = LockDesc { granted_mode: desc.req_mode, ..desc };
        let reply = LdlmReply { desc: granted, handle, ..LdlmReply::default() };
        let lvb = OstLvb::default().to_bytes();
        let reply = dlm::EnqueueReply { reply, lvb: Some(Lvb(&lvb)) };
        self.answer(&asked, 0, &ReplyBuffers::Enqueue(reply));
        desc
    }

    /// Takes a lock back, and gives its handle.
    fn take_lock_back(&mut self) -> Handle {
        let asked = self.next(Kind::LdlmCancel);
        let handle = asked.with(|request| match request {
            Request::LdlmCancel(dlm::Lock { lock }) => lock.handle(0).expect("a handle"),
            other => panic!("{other:?}"),
        });
        self.answer(&asked, 0, &ReplyBuffers::Bare);
        handle
    }
}

#[test]
fn permissions_and_owners_are_the_metadata_servers() {
    let mut world = World::new();
    let changes = Changes { mode: Some(0o104_755), gid: Some(7), ..Changes::default() };
    let slot = world.change(changes);
    let record = world.accept_setattr();
    assert_eq!((record.fid, record.mode, record.gid), (FILE, 0o4755, 7));
    assert!(record.valid.contains(AttrFlags::MODE | AttrFlags::GID | AttrFlags::CTIME));
    assert!(!record.valid.intersects(AttrFlags::UID | AttrFlags::SIZE | AttrFlags::MTIME));
    world.give_attributes(file_body(0o104_755), &plain_ea(&[0, 1]));
    assert_eq!(slot.outcome().map(|attr| attr.mode), Ok(0o104_755));
    assert!(world.asked.is_empty());
}

#[test]
fn a_file_is_cut_at_the_metadata_server_and_then_at_its_objects() {
    let mut world = World::new();
    let slot = world.change(Changes { size: Some(65536 + 100), ..Changes::default() });
    world.give_attributes(file_body(MODE), &plain_ea(&[0, 1]));
    let record = world.accept_setattr();
    assert_eq!((record.size, record.bias), (65536 + 100, Bias::DATA_MODIFIED));
    assert!(record.valid.contains(AttrFlags::SIZE | AttrFlags::MTIME));
    world.give_attributes(file_body(MODE), &plain_ea(&[0, 1]));
    // No client appends until both objects are cut.
    let from = |start| Policy::Extent(Extent { start, ..Extent::WHOLE });
    for (stripe, start) in [(0, 65536), (1, 0)] {
        let lock = world.grant_lock(Handle(0x900 + u64::from(stripe)));
        assert_eq!((lock.resource.fid(), lock.req_mode), (object(stripe), LockMode::PW));
        assert_eq!(lock.policy, from(start));
    }
    let first = world.accept_object(Kind::OstPunch, Obdo::default());
    assert!(slot.is_pending() && world.asked.iter().all(|asked| asked.kind == Kind::OstPunch));
    let second = world.accept_object(Kind::OstPunch, Obdo::default());
    assert_eq!((first.oi, first.size, first.blocks), (object(0), 65536, u64::MAX));
    assert_eq!((second.oi, second.size, second.blocks), (object(1), 100, u64::MAX));
    assert!(first.valid.contains(MdValid::SIZE | MdValid::BLOCKS | MdValid::HANDLE));
    assert!(!first.valid.contains(MdValid::FLAGS));
    assert_eq!([first.handle, second.handle], [Handle(0x900), Handle(0x901)]);
    assert_eq!([world.take_lock_back(), world.take_lock_back()], [first.handle, second.handle]);
    world.give_attributes(file_body(MODE), &plain_ea(&[0, 1]));
    assert_eq!(slot.outcome().map(|attr| attr.size), Ok(Some(65536 + 100)));
}

/// Only one of its objects is cut, but the next component may have got some.
#[test]
fn a_file_of_several_objects_that_can_get_more_is_locked() {
    let mut world = World::new();
    let ea = composite_ea(&[(65536, &[0]), (1 << 20, &[1]), (u64::MAX, &[])]);
    let slot = world.change(Changes { size: Some(100_000), ..Changes::default() });
    world.give_attributes(file_body(MODE), &ea);
    world.accept_setattr();
    world.give_attributes(file_body(MODE), &ea);
    assert_eq!(world.grant_lock(Handle(0x900)).resource.fid(), object(1));
    world.give_attributes(file_body(MODE), &ea);
    let cut = world.accept_object(Kind::OstPunch, Obdo::default());
    assert_eq!((cut.oi, cut.size, cut.handle), (object(1), 100_000, Handle(0x900)));
    assert_eq!(world.take_lock_back(), cut.handle);
    world.give_attributes(file_body(MODE), &ea);
    assert_eq!(slot.outcome().map(|attr| attr.size), Ok(Some(100_000)));
}

/// An append moves the end to where the file had no objects.
#[test]
fn a_file_that_got_objects_meanwhile_is_cut_there_too() {
    let mut world = World::new();
    let before = composite_ea(&[(1 << 20, &[0, 1]), (u64::MAX, &[])]);
    let after = composite_ea(&[(1 << 20, &[0, 1]), (u64::MAX, &[0])]);
    let slot = world.change(Changes { size: Some(10), ..Changes::default() });
    world.give_attributes(file_body(MODE), &before);
    world.accept_setattr();
    world.give_attributes(file_body(MODE), &before);
    for handle in [0x900, 0x901] {
        world.grant_lock(Handle(handle));
    }
    // The client has the locks of the objects that it knows, and asks for the layout again.
    world.give_attributes(file_body(MODE), &after);
    assert_eq!([world.take_lock_back(), world.take_lock_back()], [Handle(0x900), Handle(0x901)]);
    world.give_attributes(file_body(MODE), &after);
    let locks = [0x902, 0x903, 0x904].map(|handle| world.grant_lock(Handle(handle)));
    assert_eq!(locks.map(|lock| lock.resource.fid()), [object(0), object(1), object(0)]);
    let cut = [(); 3].map(|()| world.accept_object(Kind::OstPunch, Obdo::default()));
    assert_eq!(cut.map(|body| body.size), [10, 0, 0]);
    for handle in cut.map(|body| body.handle) {
        assert_eq!(world.take_lock_back(), handle);
    }
    world.give_attributes(file_body(MODE), &after);
    assert_eq!(slot.outcome().map(|attr| attr.size), Ok(Some(10)));
}

#[test]
fn a_file_grows_into_components_that_get_their_objects_first() {
    let mut world = World::new();
    let before = composite_ea(&[(65536, &[0]), (u64::MAX, &[])]);
    let after = composite_ea(&[(65536, &[0]), (u64::MAX, &[1])]);
    let slot = world.change(Changes { size: Some(100_000), ..Changes::default() });
    world.give_attributes(file_body(MODE), &before);
    world.accept_setattr();
    world.give_attributes(file_body(MODE), &before);
    let asked = world.next(Kind::EnqueueLayout);
    asked.with(|request| match request {
        Request::EnqueueLayout(request) => {
            assert_eq!(request.layout.op, LayoutOp::TRUNC);
            assert_eq!((request.layout.start, request.layout.end), (99_999, 100_000));
        }
        other => panic!("{other:?}"),
    });
    let reply = dlm::EnqueueReply { reply: LdlmReply::default(), lvb: Some(Lvb(&after)) };
    world.answer(&asked, 0, &ReplyBuffers::EnqueueLayout(reply));
    // The first component ends before the file does: it stays as it is.
    let punched = world.accept_object(Kind::OstPunch, Obdo::default());
    assert_eq!((punched.oi, punched.size), (object(1), 100_000));
    // The server locks a single object.
    assert!(punched.valid.contains(MdValid::FLAGS) && punched.flags == ObdoFlags::SRVLOCK);
    world.give_attributes(file_body(MODE), &after);
    assert_eq!(slot.outcome().map(|attr| attr.size), Ok(Some(100_000)));
}

#[test]
fn a_layout_that_does_not_grow_is_an_error() {
    let mut world = World::new();
    let layout = composite_ea(&[(65536, &[0]), (u64::MAX, &[])]);
    let slot = world.change(Changes { size: Some(100_000), ..Changes::default() });
    world.give_attributes(file_body(MODE), &layout);
    world.accept_setattr();
    world.give_attributes(file_body(MODE), &layout);
    let asked = world.next(Kind::EnqueueLayout);
    let reply = dlm::EnqueueReply { reply: LdlmReply::default(), lvb: Some(Lvb(&layout)) };
    world.answer(&asked, 0, &ReplyBuffers::EnqueueLayout(reply));
    assert!(matches!(slot.outcome(), Err(ClientError::Layout(_))));
    assert!(world.asked.is_empty());
}

#[test]
fn what_the_metadata_server_refuses_does_not_reach_the_objects() {
    let mut world = World::new();
    let slot = world.change(Changes { size: Some(0), ..Changes::default() });
    world.give_attributes(file_body(MODE), &plain_ea(&[0, 1]));
    world.refuse(Kind::ReintSetattr, 26);
    assert_eq!(slot.outcome(), Err(ClientError::Errno(26)));
    assert!(world.asked.is_empty());
}

#[test]
fn only_regular_files_have_sizes_to_set() {
    for (mode, size, errno) in [
        (0o040_755, 0, errno::EISDIR),
        (0o010_644, 0, errno::EINVAL),
        (MODE, 1 << 63, errno::EFBIG),
    ] {
        let mut world = World::new();
        let slot = world.change(Changes { size: Some(size), ..Changes::default() });
        world.give_attributes(file_body(mode), &[]);
        assert_eq!(slot.outcome(), Err(ClientError::Errno(errno)));
        assert!(world.asked.is_empty());
    }
}

#[test]
fn times_are_set_at_all_objects_after_others_have_written_theirs() {
    let mut world = World::new();
    let changes = Changes {
        atime: Some(SetTime::Now),
        mtime: Some(SetTime::At(1_000)),
        ..Changes::default()
    };
    let slot = world.change(changes);
    world.give_attributes(file_body(MODE), &plain_ea(&[0, 1]));
    let record = world.accept_setattr();
    assert_eq!((record.atime, record.mtime, record.ctime), (NOW, 1_000, NOW));
    assert!(record.valid.contains(AttrFlags::ATIME | AttrFlags::MTIME | AttrFlags::MTIME_SET));
    world.give_attributes(file_body(MODE), &plain_ea(&[0, 1]));
    for _ in 0..2 {
        let asked = world.accept_object(Kind::OstGetattr, Obdo::default());
        assert!(asked.flags.contains(ObdoFlags::SRVLOCK | ObdoFlags::FLUSH));
    }
    for stripe in 0..2 {
        let set = world.accept_object(Kind::OstSetattr, Obdo::default());
        assert_eq!((set.oi, set.atime, set.mtime), (object(stripe), NOW, 1_000));
        assert!(set.valid.contains(MdValid::ATIME | MdValid::MTIME));
        // The object would get another owner.
        assert!(!set.valid.intersects(MdValid::UID | MdValid::GID | MdValid::SIZE));
    }
    world.give_attributes(file_body(MODE), &plain_ea(&[0, 1]));
    assert_eq!(slot.outcome().map(|attr| attr.fid), Ok(FILE));
}

#[test]
fn only_the_owner_sets_other_times_than_now() {
    let caller = Caller { uid: 1000, gid: 1000, capabilities: 0, ..Caller::ROOT };
    let mut world = World::new();
    let changes = Changes { mtime: Some(SetTime::At(5)), ..Changes::default() };
    let slot = world.start(|client, turn, done| {
        client.set_attributes(turn, caller, FILE, changes, done);
    });
    world.give_attributes(file_body(0o100_666), &[]);
    assert_eq!(slot.outcome(), Err(ClientError::Errno(errno::EPERM)));
    let changes = Changes { mtime: Some(SetTime::Now), ..Changes::default() };
    world.start(|client, turn, done| {
        client.set_attributes(turn, caller, FILE, changes, done);
    });
    world.give_attributes(file_body(0o100_666), &[]);
    assert_eq!(world.accept_setattr().mtime, NOW);
}

#[test]
fn a_file_is_durable_when_all_its_servers_say_so() {
    let mut world = World::new();
    let slot = world.start(|client, turn, done| {
        client.fsync(turn, Caller::ROOT, FILE, &striped(), done);
    });
    let asked = world.next(Kind::MdsSync);
    assert_eq!(asked.with(|request| fid_asked(&request)), Some(FILE));
    let body = file_body(MODE);
    world.answer(&asked, 0, &ReplyBuffers::MdsSync(mds::Body { body }));
    let first = world.accept_object(Kind::OstSync, Obdo::default());
    assert_eq!((first.oi, first.size, first.blocks), (object(0), 0, u64::MAX));
    assert!(slot.is_pending());
    world.refuse(Kind::OstSync, errno::EIO);
    assert_eq!(slot.outcome(), Err(ClientError::Errno(errno::EIO)));
}

/// [MDT-25].
#[test]
fn a_writer_takes_the_rights_of_the_owner_away() {
    let user = Caller { uid: 7, gid: 7, capabilities: 0, ..Caller::ROOT };
    let mut world = World::new();
    let changes = Changes { mode: Some(0o777), clears_ids: true, ..Changes::default() };
    let _set = world.start(|client, turn, done| {
        client.set_attributes(turn, user, FILE, changes, done);
    });
    let asked = world.next(Kind::ReintSetattr);
    asked.with(|request| match request {
        Request::ReintSetattr(mds::ReintSetattr { record: Reint::Setattr(record), .. }) => {
            let kills = AttrFlags::KILL_SUID | AttrFlags::KILL_SGID;
            assert_eq!(record.valid, AttrFlags::MODE | AttrFlags::FORCE | kills);
            assert_eq!((record.mode & 0o7777, record.fsuid), (0o777, 7));
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn data_are_charged_to_the_owner_of_the_file() {
    let mut world = World::new();
    let owner = FileOwner { uid: 1000, gid: 7, projid: 5 };
    world.start(|client, turn, done| {
        client.write(turn, Caller::ROOT, (FILE, owner), &striped(), (0, b"x"[..].into()), done);
    });
    let asked = world.next(Kind::OstWrite);
    assert_eq!(asked.body.uid, 0);
    asked.with(|request| match request {
        Request::OstWrite(write) => {
            let body = write.body;
            assert_eq!((body.uid, body.gid, body.projid), (1000, 7, 5));
            assert!(body.valid.contains(MdValid::UID | MdValid::GID | MdValid::PROJID));
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn the_times_shown_are_the_latest_ones() {
    let mut world = World::new();
    let slot = world.start(|client, turn, done| {
        client.glimpse(turn, Caller::ROOT, FILE, &striped(), done);
    });
    let valid = MdValid::SIZE | MdValid::BLOCKS | MdValid::MTIME;
    let object = Obdo { valid, size: 10, blocks: 8, mtime: 50, ctime: 99, ..Obdo::default() };
    world.accept_object(Kind::OstGetattr, object);
    let object = Obdo { size: 0, mtime: 40, ..object };
    world.accept_object(Kind::OstGetattr, object);
    let glimpse = slot.outcome().expect("a glimpse");
    assert_eq!((glimpse.size, glimpse.blocks, glimpse.mtime, glimpse.ctime), (10, 16, 50, 0));
    let mut attr = crate::Attr { mtime: 45, ctime: 60, ..Default::default() };
    attr.add_objects(glimpse);
    assert_eq!((attr.size, attr.mtime, attr.ctime), (Some(10), 50, 60));
}

#[test]
fn one_file_stands_for_all_of_its_metadata_target() {
    let world = World::new();
    assert_eq!(world.client.one_for_each_mdt(&[FILE, DIR, FILE]), [FILE]);
    assert!(world.client.one_for_each_mdt(&[]).is_empty());
}

#[test]
fn the_access_control_list_comes_with_the_attributes_if_it_is_asked_for() {
    use lustrine_fswire::codec::Writer;
    use lustrine_fswire::mdt::{Acl, AclEntry, AclTag};
    let entries = [
        AclEntry { tag: AclTag::USER_OBJ, perm: 6, id: u32::MAX },
        AclEntry { tag: AclTag::USER, perm: 4, id: 1000 },
    ];
    let mut bytes = Vec::new();
    let acl = Acl { version: Acl::VERSION, entries: entries.as_slice().into() };
    acl.write(&mut Writer::new(&mut bytes));
    let cut = bytes.len() - 1;
    for (acl, expected) in [
        (&bytes[..], Some(entries.to_vec())),
        (&[], Some(vec![])),
        (&bytes[..cut], None),
        (&[1, 0, 0, 0], None),
    ] {
        let mut world = World::new();
        let slot = world.start(|client, turn, done| {
            client.getattr_with_acl(turn, Caller::ROOT, FILE, done);
        });
        let asked = world.next(Kind::MdsGetattr);
        asked.with(|request| match request {
            Request::MdsGetattr(getattr) => assert!(getattr.body.valid.contains(MdValid::ACL)),
            other => panic!("{other:?}"),
        });
        let body = file_body(MODE);
        let reply = mds::GetattrReply { body, ea: Ea::NONE, acl: AclBytes(acl), encctx: None };
        world.answer(&asked, 0, &ReplyBuffers::MdsGetattr(reply));
        match (slot.outcome(), expected) {
            (Ok((attr, acl)), Some(expected)) => assert_eq!((attr.fid, acl), (FILE, expected)),
            (Err(ClientError::Malformed(_)), None) => {}
            other => panic!("{other:?}"),
        }
    }
}
