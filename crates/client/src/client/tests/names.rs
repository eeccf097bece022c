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
