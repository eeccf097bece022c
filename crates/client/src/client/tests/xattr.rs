//! Extended attributes.

use lustrine_fswire::mdt::{Reint, XattrFlags};
use lustrine_fswire::text::Text;

use super::*;
use crate::error::{ClientError, errno};

fn value_reply(value: &[u8], len: usize) -> ReplyBuffers<'_> {
    let body = MdtBody { eadatasize: len as u32, ..file_body(0o100_644) };
    ReplyBuffers::MdsGetxattr(mds::GetxattrReply { body, value })
}

#[test]
fn a_value_is_read_by_its_name() {
    let mut world = World::new();
    let slot = world.start(|client, turn, done| {
        client.getxattr(turn, Caller::ROOT, FILE, b"user.a", done);
    });
    let asked = world.next(Kind::MdsGetxattr);
    asked.with(|request| match request {
        Request::MdsGetxattr(request) => {
            assert_eq!(request.body.fid1, FILE);
            assert!(request.body.valid.contains(MdValid::XATTR));
            assert_eq!(request.body.eadatasize, 65536);
            assert_eq!(request.name.map(|name: Text<'_>| name.as_bytes()), Some(&b"user.a"[..]));
        }
        other => panic!("{other:?}"),
    });
    // The buffer may be longer than the value.
    world.answer(&asked, 0, &value_reply(b"value\0\0\0", 5));
    assert_eq!(slot.outcome(), Ok(b"value".to_vec()));
}

#[test]
fn a_value_that_is_cut_off_is_an_error() {
    let mut world = World::new();
    let slot = world.start(|client, turn, done| {
        client.getxattr(turn, Caller::ROOT, FILE, b"user.a", done);
    });
    let asked = world.next(Kind::MdsGetxattr);
    world.answer(&asked, 0, &value_reply(b"value", 6));
    assert!(matches!(slot.outcome(), Err(ClientError::Malformed(_))));
}

#[test]
fn names_are_listed() {
    let mut world = World::new();
    let slot = world.start(|client, turn, done| {
        client.listxattr(turn, Caller::ROOT, FILE, done);
    });
    let asked = world.next(Kind::MdsGetxattr);
    asked.with(|request| match request {
        Request::MdsGetxattr(request) => {
            assert!(request.body.valid.contains(MdValid::XATTRLS));
            assert!(!request.body.valid.contains(MdValid::XATTR));
        }
        other => panic!("{other:?}"),
    });
    world.answer(&asked, 0, &value_reply(b"user.a\0trusted.lov\0", 19));
    assert_eq!(slot.outcome(), Ok(vec![b"user.a".to_vec(), b"trusted.lov".to_vec()]));
}

#[test]
fn a_value_is_set_and_removed() {
    let mut world = World::new();
    let set = world.start(|client, turn, done| {
        let (name, value) = (b"user.a", b"value");
        client.setxattr(turn, Caller::ROOT, FILE, name, value, XattrFlags::CREATE, done);
    });
    let asked = world.next(Kind::ReintSetxattr);
    asked.with(|request| match request {
        Request::ReintSetxattr(mds::ReintSetxattr {
            record: Reint::Setxattr(record),
            name,
            value,
            ..
        }) => {
            assert_eq!((record.fid, record.size, record.flags), (FILE, 5, XattrFlags::CREATE));
            assert_eq!(record.valid, MdValid::XATTR | MdValid::CTIME);
            assert_eq!((name.as_bytes(), value), (&b"user.a"[..], &b"value"[..]));
        }
        other => panic!("{other:?}"),
    });
    let body = file_body(0o100_644);
    world.answer(&asked, 0, &ReplyBuffers::ReintSetxattr(mds::Body { body }));
    assert_eq!(set.outcome(), Ok(()));
    let removed = world.start(|client, turn, done| {
        client.removexattr(turn, Caller::ROOT, FILE, b"user.b", done);
    });
    // ENODATA.
    world.refuse(Kind::ReintSetxattr, 61);
    assert_eq!(removed.outcome(), Err(ClientError::Errno(61)));
}

#[test]
fn what_servers_would_ignore_is_refused() {
    let mut world = World::new();
    for (name, len, errno) in [
        (&b"trusted.lov"[..], 1, errno::EOPNOTSUPP),
        (b"user.a", 65537, errno::E2BIG),
        (b"", 1, errno::EINVAL),
        (&[b'a'; 256], 1, errno::ERANGE),
    ] {
        let value = vec![0; len];
        let slot = world.start(|client, turn, done| {
            let flags = XattrFlags::empty();
            client.setxattr(turn, Caller::ROOT, FILE, name, &value, flags, done);
        });
        assert_eq!(slot.outcome(), Err(ClientError::Errno(errno)));
    }
    assert!(world.asked.is_empty());
}

/// [MDT-24]: the server does not check it, so an open has it checked.
#[test]
fn attributes_of_users_need_the_right_to_the_file() {
    let user = Caller { uid: 7, gid: 7, capabilities: 0, ..Caller::ROOT };
    let mut world = World::new();
    let set = world.start(|client, turn, done| {
        client.setxattr(turn, user, FILE, b"user.a", b"v", XattrFlags::empty(), done);
    });
    world.give_attributes(file_body(0o100_644), &[]);
    world.refuse(Kind::EnqueueOpen, errno::EACCES);
    assert_eq!(set.outcome(), Err(ClientError::Errno(errno::EACCES)));
    // A directory is judged by its permissions.
    let removed = world.start(|client, turn, done| {
        client.removexattr(turn, user, FILE, b"user.a", done);
    });
    world.give_attributes(file_body(0o040_755), &[]);
    assert_eq!(removed.outcome(), Err(ClientError::Errno(errno::EACCES)));
    // Others than files and directories have none.
    let read = world.start(|client, turn, done| {
        client.getxattr(turn, user, FILE, b"user.a", done);
    });
    world.give_attributes(file_body(0o010_644), &[]);
    assert_eq!(read.outcome(), Err(ClientError::Errno(errno::EPERM)));
}
