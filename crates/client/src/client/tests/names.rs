//! Names: links and special files.

use lustrine_fswire::fid::SeqRange;
use lustrine_fswire::mdt::Reint;

use super::*;
use crate::error::{ClientError, errno};

#[test]
fn a_link_names_the_file_and_the_new_parent() {
    let mut world = World::new();
    let slot = world.start(|client, turn, done| {
        client.link(turn, Caller::ROOT, FILE, DIR, b"second", done);
    });
    let asked = world.next(Kind::ReintLink);
    asked.with(|request| match request {
        Request::ReintLink(mds::ReintLink { record: Reint::Name(record), name, .. }) => {
            assert_eq!((record.fid1, record.fid2), (FILE, DIR));
            assert_eq!((name.as_bytes(), record.time), (&b"second"[..], NOW));
        }
        other => panic!("{other:?}"),
    });
    let body = file_body(0o100_644);
    world.answer(&asked, 0, &ReplyBuffers::ReintLink(mds::Body { body }));
    assert_eq!(slot.outcome(), Ok(()));
}

/// [MDT-5]: a server without a database of users knows no other groups.
#[test]
fn links_and_renames_name_two_groups() {
    let caller = Caller { uid: 7, gid: 7, suppgid: 24, suppgid2: 4, capabilities: 0 };
    let mut world = World::new();
    let other = Fid { oid: 9, ..DIR };
    world.start(|client, turn, done| client.link(turn, caller, FILE, DIR, b"a", done));
    world.start(|client, turn, done| {
        client.rename(turn, caller, (DIR, b"a"), (other, b"b"), 0o100_644, done);
    });
    let groups = |asked: &Asked| {
        asked.with(|request| match request {
            Request::ReintLink(mds::ReintLink { record: Reint::Name(record), .. })
            | Request::ReintRename(mds::ReintRename { record: Reint::Name(record), .. }) => {
                (record.fsuid, record.suppgid1, record.suppgid2)
            }
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(groups(&world.next(Kind::ReintLink)), (7, 24, 4));
    assert_eq!(groups(&world.next(Kind::ReintRename)), (7, 24, 4));
}

#[test]
fn names_that_no_file_can_have_are_not_sent() {
    let mut world = World::new();
    for (name, errno) in [(&b"a/b"[..], errno::EINVAL), (b"", errno::ENOENT)] {
        let slot = world.start(|client, turn, done| {
            client.link(turn, Caller::ROOT, FILE, DIR, name, done);
        });
        assert_eq!(slot.outcome(), Err(ClientError::Errno(errno)));
    }
    assert!(world.asked.is_empty());
}

#[test]
fn a_device_is_made_with_its_number() {
    let mut world = World::new();
    let slot = world.start(|client, turn, done| {
        let mode = (0o020_660, 0o022);
        client.mknod(turn, Caller::ROOT, DIR, b"null", mode, 0x103, done);
    });
    let asked = world.next(Kind::SeqQuery);
    let range = SeqRange { start: FILE.seq, end: FILE.seq + 1, ..SeqRange::default() };
    let reply = obd::Range { range };
    world.answer(&asked, 0, &ReplyBuffers::SeqQuery(reply));
    let asked = world.next(Kind::ReintCreate);
    asked.with(|request| match request {
        Request::ReintCreate(mds::ReintCreate { record: Reint::Create(record), name, .. }) => {
            assert_eq!((record.parent, record.fid.seq), (DIR, FILE.seq));
            assert_eq!((record.mode, record.umask, record.rdev), (0o020_660, 0o022, 0x103));
            assert_eq!(name.as_bytes(), b"null");
        }
        other => panic!("{other:?}"),
    });
    let reply = mds::ReintCreateReply { body: file_body(0o020_640), ea: None };
    world.answer(&asked, 0, &ReplyBuffers::ReintCreate(reply));
    assert_eq!(slot.outcome().map(|attr| attr.mode), Ok(0o020_640));
}

#[test]
fn only_devices_have_numbers() {
    let mut world = World::new();
    for (mode, rdev) in [(0o010_644, 1), (0o020_644, 0x1_0000), (0o040_755, 0), (0o644, 0)] {
        let slot = world.start(|client, turn, done| {
            client.mknod(turn, Caller::ROOT, DIR, b"x", (mode, 0), rdev, done);
        });
        assert_eq!(slot.outcome(), Err(ClientError::Errno(errno::EINVAL)));
    }
    assert!(world.asked.is_empty());
}

/// A client that keeps attributes and names.
fn keeping() -> World {
    World::caching(CacheTunables { attrs: 10, ..CacheTunables::NONE })
}

/// The answer to a getattr intent: [`FILE`], and a lock on it.
fn found(world: &mut World, asked: &Asked, granted: Handle) {
    let bits = Ibits::LOOKUP | Ibits::UPDATE | Ibits::PERM | Ibits::LAYOUT;
    let reply = granted_intent(FILE, (granted, bits));
    let body = MdtBody { nlink: 1, ..file_body(0o100_644) };
    let reply = dlm::GetattrIntentReply { reply, body, ..dlm::GetattrIntentReply::default() };
    world.answer(asked, 0, &ReplyBuffers::EnqueueGetattr(reply));
}

fn start_lookup(world: &mut World) -> Slot<crate::Attr> {
    world.start(|client, turn, done| client.lookup(turn, Caller::ROOT, DIR, b"a", done))
}

/// Looks a name up in [`DIR`]; the server finds [`FILE`], with a lock on it.
fn look_up(world: &mut World, granted: Handle) {
    let slot = start_lookup(world);
    let asked = world.next(Kind::EnqueueGetattr);
    asked.with(|request| match request {
        Request::EnqueueGetattr(intent) => {
            assert_eq!((intent.body.fid1, intent.name.as_bytes()), (DIR, &b"a"[..]));
            let lock = intent.lock;
            assert_eq!((lock.desc.resource, lock.count), (Resource::of_fid(DIR), 1));
        }
        other => panic!("{other:?}"),
    });
    found(world, &asked, granted);
    assert_eq!(slot.outcome().map(|attr| attr.fid), Ok(FILE));
}

/// The handle that the client has given the lock it asks for.
fn handle_of(asked: &Asked) -> Handle {
    asked.with(|request| match request {
        Request::EnqueueGetattr(intent) => intent.lock.handle(0).expect("a handle"),
        other => panic!("{other:?}"),
    })
}

/// [LOCK-21].
#[test]
fn an_unlink_gives_the_lock_of_the_file_back() {
    let mut world = keeping();
    look_up(&mut world, Handle(0x77));
    let counts = world.client.attr_counts();
    assert_eq!((counts.entries, counts.names), (1, 1));
    let slot = world.start(|client, turn, done| {
        client.unlink(turn, Caller::ROOT, DIR, b"a", false, done);
    });
    assert_eq!(world.client.attr_counts().entries, 0, "it goes before the request does");
    let asked = world.next(Kind::ReintUnlink);
    asked.with(|request| match request {
        Request::ReintUnlink(unlink) => {
            let locks = unlink.locks.expect("locks to be cancelled");
            assert_eq!(locks.counted(0).collect::<Vec<_>>(), [Handle(0x77)]);
        }
        other => panic!("{other:?}"),
    });
    let body = file_body(0o100_644);
    let reply = mds::CloseReply { body, ea: Ea::NONE, cookies: &[] };
    world.answer(&asked, 0, &ReplyBuffers::ReintUnlink(reply));
    assert_eq!(slot.outcome(), Ok(()));
    assert!(world.asked.is_empty(), "no lock is cancelled by itself");
}

#[test]
fn a_lock_that_is_called_back_takes_the_name_away() {
    let mut world = keeping();
    look_up(&mut world, Handle(0x77));
    let handle = world.client.attrs.whole_lock_of(FILE).expect("it is kept");
    let mdt = world.client.mdts[&0];
    world.act(|client, turn| client.attrs_blocked(turn, (mdt, handle)));
    let asked = world.next(Kind::LdlmCancel);
    asked.with(|request| match request {
        Request::LdlmCancel(cancel) => assert_eq!(cancel.lock.handle(0), Some(Handle(0x77))),
        other => panic!("{other:?}"),
    });
    let counts = world.client.attr_counts();
    assert_eq!((counts.entries, counts.names), (0, 0));
}

/// The server would not answer it, and who unmounts would wait for that.
#[test]
fn no_lock_is_given_back_after_the_disconnect() {
    let mut world = keeping();
    look_up(&mut world, Handle(0x77));
    let handle = world.client.attrs.whole_lock_of(FILE).expect("it is kept");
    let mdt = world.client.mdts[&0];
    let slot = world.start(Client::unmount);
    world.act(|client, turn| {
        client.attrs_blocked(turn, (mdt, handle));
        client.drive(turn);
    });
    while let Some(asked) = world.asked.pop_front() {
        assert!(
            matches!(asked.kind, Kind::MdsDisconnect | Kind::OstDisconnect),
            "{:?}",
            asked.kind
        );
        world.answer(&asked, 0, &ReplyBuffers::Bare);
    }
    assert_eq!(slot.outcome(), Ok(()));
}

/// The name was changed after it had been looked up, and the file has a later lock by now.
#[test]
fn an_answer_whose_lock_is_called_back_first_says_nothing_of_the_name() {
    let mut world = keeping();
    let slow = start_lookup(&mut world);
    let asked = world.next(Kind::EnqueueGetattr);
    world.start(|client, turn, done| client.getattr(turn, Caller::ROOT, FILE, done));
    let later = world.next(Kind::EnqueueGetattr);
    found(&mut world, &later, Handle(0x88));
    let handles = [handle_of(&asked)];
    let callback = LdlmRequest { handles: handles.as_slice().into(), ..LdlmRequest::default() };
    let mdt = world.client.mdts[&0];
    world.act(|client, _| assert!(client.locks.at(mdt).blocked(&callback).is_some()));
    found(&mut world, &asked, Handle(0x77));
    assert_eq!(slow.outcome().map(|attr| attr.fid), Ok(FILE));
    let counts = world.client.attr_counts();
    assert_eq!((counts.entries, counts.names), (1, 0));
    world.act(Client::cancel_useless);
    world.next(Kind::LdlmCancel);
}

/// Another client has replaced the file meanwhile: the name is looked up without a lock.
#[test]
fn a_name_whose_file_on_another_target_is_gone_is_looked_up_without_a_lock() {
    let mut world = keeping();
    let slot = start_lookup(&mut world);
    let asked = world.next(Kind::EnqueueGetattr);
    let done = Disposition::EXECD | Disposition::LOOKUP_POS;
    let reply = dlm::GetattrIntentReply {
        reply: LdlmReply { policy_res1: done.bits(), ..LdlmReply::default() },
        body: MdtBody { fid1: FILE, valid: MdValid::ID | MdValid::MDS, ..MdtBody::default() },
        ..dlm::GetattrIntentReply::default()
    };
    world.answer(&asked, 301, &ReplyBuffers::EnqueueGetattr(reply));
    // Four lookups in all.
    for left in (0..3).rev() {
        world.refuse(Kind::EnqueueGetattr, errno::ENOENT);
        let asked = world.next(Kind::MdsGetattrName);
        asked.with(|request| match request {
            Request::MdsGetattrName(request) => {
                assert_eq!((request.body.fid1, request.name.as_bytes()), (DIR, &b"a"[..]));
            }
            other => panic!("{other:?}"),
        });
        let valid = MdValid::ID | if left > 0 { MdValid::MDS } else { MdValid::MODE };
        let body = MdtBody { valid, ..file_body(0o100_644) };
        let reply = mds::GetattrReply { body, ea: Ea::NONE, acl: AclBytes(&[]), encctx: None };
        world.answer(&asked, 0, &ReplyBuffers::MdsGetattrName(reply));
    }
    assert_eq!(slot.outcome().map(|attr| attr.fid), Ok(FILE));
}

/// Two more names of a file that is kept bring locks of which there is no need.
#[test]
fn locks_of_no_use_are_given_back_together() {
    let mut world = keeping();
    look_up(&mut world, Handle(0x77));
    for (dir, remote) in [(9, 0x98), (10, 0x99)] {
        let dir = Fid { oid: dir, ..DIR };
        world.start(|client, turn, done| client.lookup(turn, Caller::ROOT, dir, b"b", done));
        let asked = world.next(Kind::EnqueueGetattr);
        found(&mut world, &asked, Handle(remote));
    }
    world.act(Client::cancel_useless);
    let asked = world.next(Kind::LdlmCancel);
    let message = Message::parse(&asked.bytes).expect("a message");
    let Ok(Request::LdlmCancel(cancel)) = Request::parse(&message, &asked.body) else {
        panic!("a cancel")
    };
    let handles: Vec<Handle> = cancel.lock.counted(0).collect();
    assert_eq!(handles, [Handle(0x98), Handle(0x99)]);
    world.answer(&asked, 0, &ReplyBuffers::Bare);
    world.act(Client::cancel_useless);
    assert!(world.asked.is_empty());
}

/// The service is driven for it, with as many requests as it takes.
#[test]
fn locks_of_no_use_are_given_back_at_the_end_of_the_turn() {
    let mut world = keeping();
    look_up(&mut world, Handle(0x77));
    assert!(world.client.next_deadline() > world.now);
    let remotes: Vec<Handle> = (0..70).map(|number| Handle(0x1000 + number)).collect();
    for (oid, remote) in (9..).zip(&remotes) {
        let dir = Fid { oid, ..DIR };
        world.start(|client, turn, done| client.lookup(turn, Caller::ROOT, dir, b"b", done));
        let asked = world.next(Kind::EnqueueGetattr);
        found(&mut world, &asked, *remote);
    }
    assert!(world.asked.is_empty());
    assert_eq!(world.client.next_deadline(), Time::ZERO);
    world.act(|client, turn| client.drive(turn));
    let (mut given, mut requests) = (Vec::new(), Vec::new());
    while let Some(asked) = world.asked.pop_front() {
        assert_eq!(asked.kind, Kind::LdlmCancel);
        let handles: Vec<Handle> = asked.with(|request| match request {
            Request::LdlmCancel(cancel) => cancel.lock.counted(0).collect(),
            other => panic!("{other:?}"),
        });
        requests.push(handles.len());
        given.extend(handles);
        world.answer(&asked, 0, &ReplyBuffers::Bare);
    }
    assert_eq!((given, requests), (remotes, vec![64, 6]));
    assert!(world.client.next_deadline() > world.now);
}

#[test]
fn an_answer_counts_only_under_the_lock_that_there_was_before() {
    let user = Caller { uid: 7, gid: 7, capabilities: 0, ..Caller::ROOT };
    let mut world = keeping();
    look_up(&mut world, Handle(0x77));
    let slot = world.start(|client, turn, done| client.getattr(turn, user, FILE, done));
    let asked = world.next(Kind::MdsGetattr);
    let first = world.client.attrs.whole_lock_of(FILE).expect("it is kept");
    let mdt = world.client.mdts[&0];
    world.act(|client, turn| client.attrs_blocked(turn, (mdt, first)));
    world.next(Kind::LdlmCancel);
    world.start(|client, turn, done| client.getattr(turn, Caller::ROOT, FILE, done));
    let later = world.next(Kind::EnqueueGetattr);
    found(&mut world, &later, Handle(0x88));
    let body = MdtBody { uid: 99, nlink: 1, ..file_body(0o100_644) };
    let reply = mds::GetattrReply { body, ea: Ea::NONE, acl: AclBytes(&[]), encctx: None };
    world.answer(&asked, 0, &ReplyBuffers::MdsGetattr(reply));
    assert_eq!(slot.outcome().map(|attr| attr.uid), Ok(99));
    // This user is not known to the entry, and others are not shown what is old.
    world.start(|client, turn, done| client.getattr(turn, user, FILE, done));
    world.next(Kind::MdsGetattr);
    let slot = world.start(|client, turn, done| client.getattr(turn, Caller::ROOT, FILE, done));
    assert_eq!(slot.outcome().map(|attr| attr.uid), Ok(0));
}

/// The answer to a getattr without a lock: [`FILE`] with these times of access, of changes of the
/// data and of the attributes.
fn tell_times(world: &mut World, kind: Kind, [atime, mtime, ctime]: [i64; 3]) {
    let asked = world.next(kind);
    let body = MdtBody { nlink: 1, atime, mtime, ctime, ..file_body(0o100_644) };
    let reply = mds::GetattrReply { body, ea: Ea::NONE, acl: AclBytes(&[]), encctx: None };
    let reply = match kind {
        Kind::MdsGetattr => ReplyBuffers::MdsGetattr(reply),
        Kind::MdsGetattrName => ReplyBuffers::MdsGetattrName(reply),
        other => panic!("{other:?}"),
    };
    world.answer(&asked, 0, &reply);
}

/// The server keeps a time of access that is less than a minute newer to itself, so that its answer
/// to another user is older than what a close has sent.
#[test]
fn the_answer_to_another_user_takes_no_time_back() {
    let user = Caller { uid: 7, gid: 7, capabilities: 0, ..Caller::ROOT };
    let times = |attr: crate::Attr| [attr.atime, attr.mtime, attr.ctime];
    let mut world = keeping();
    look_up(&mut world, Handle(0x77));
    let lock = world.client.attrs.whole_lock_of(FILE).expect("it is kept");
    let sent = [NOW + 30, NOW + 40, NOW + 50];
    world.client.attrs.closed((FILE, lock), Some(sent[0]), Some((sent[1], sent[2])));
    let slot = world.start(|client, turn, done| client.getattr(turn, user, FILE, done));
    tell_times(&mut world, Kind::MdsGetattr, [NOW; 3]);
    assert_eq!(slot.outcome().map(times), Ok(sent));
    let slot = world.start(|client, turn, done| client.lookup(turn, user, DIR, b"a", done));
    // The second name of a directory has its attributes asked for.
    world.next(Kind::EnqueueGetattr);
    tell_times(&mut world, Kind::MdsGetattrName, [NOW, NOW, NOW + 60]);
    assert_eq!(slot.outcome().map(times), Ok([sent[0], sent[1], NOW + 60]));
    let other = Fid { oid: 9, ..DIR };
    // Another name brings a second lock, of which there is no need, and no older times.
    let slot = world.start(|client, turn, done| client.lookup(turn, user, other, b"b", done));
    let asked = world.next(Kind::EnqueueGetattr);
    found(&mut world, &asked, Handle(0x99));
    assert_eq!(slot.outcome().map(times), Ok([sent[0], sent[1], NOW + 60]));
    world.act(Client::cancel_useless);
    world.next(Kind::LdlmCancel);
    let slot = world.start(|client, turn, done| client.getattr(turn, Caller::ROOT, FILE, done));
    assert_eq!(slot.outcome().map(times), Ok([sent[0], sent[1], NOW + 60]));
    assert!(world.asked.is_empty());
}

/// A group of a user in the servers' database is protected by no lock.
#[test]
fn a_program_that_asks_each_minute_is_answered_by_the_server_each_ten_minutes() {
    let mut world = keeping();
    look_up(&mut world, Handle(0x77));
    let start = world.now;
    let asks_after = |world: &mut World, minute: u64| {
        world.now = start + Nanos::from_secs(60 * minute);
        let slot = world.start(|client, turn, done| {
            client.getattr(turn, Caller::ROOT, FILE, done);
        });
        let asks = slot.is_pending();
        if asks {
            tell_times(world, Kind::MdsGetattr, [NOW; 3]);
        }
        assert_eq!(slot.outcome().map(|attr| attr.fid), Ok(FILE));
        asks
    };
    let asked = (1..=25).filter(|minute| asks_after(&mut world, *minute));
    assert_eq!(asked.collect::<Vec<_>>(), [10, 20]);
    assert_eq!(world.client.attr_counts().entries, 1, "the lock is the same");
}

#[test]
fn a_server_without_time_for_an_intent_is_asked_without_a_lock() {
    let mut world = keeping();
    let slot = start_lookup(&mut world);
    let asked = world.next(Kind::EnqueueGetattr);
    let busy = LdlmReply { policy_res2: -i64::from(errno::EINPROGRESS), ..LdlmReply::default() };
    let reply = dlm::GetattrIntentReply { reply: busy, ..dlm::GetattrIntentReply::default() };
    world.answer(&asked, 301, &ReplyBuffers::EnqueueGetattr(reply));
    let asked = world.next(Kind::MdsGetattrName);
    let body = file_body(0o100_644);
    let reply = mds::GetattrReply { body, ea: Ea::NONE, acl: AclBytes(&[]), encctx: None };
    world.answer(&asked, 0, &ReplyBuffers::MdsGetattrName(reply));
    assert_eq!(slot.outcome().map(|attr| attr.fid), Ok(FILE));
    assert_eq!(world.client.attr_counts().entries, 0);
}
