//! Striped directories, and names whose files are on other metadata targets.

use lustrine_fswire::dir::{HASH_END, PageBuilder, PageFlags};
use lustrine_fswire::fid::SeqRange;
use lustrine_fswire::layout::{HashFlags, HashKind, HashWord, LmvHeader, magic};
use lustrine_fswire::ldlm::{Disposition, LdlmReply};
use lustrine_fswire::mdt::{NameRecord, OpenFlags, Reint};
use lustrine_fswire::rpc::dlm;

use super::*;
use crate::attr::Attr;
use crate::client::OpenArgs;
use crate::error::{ClientError, errno};

/// The stripes of the directory.
pub(super) const STRIPES: [Fid; 2] =
    [Fid { seq: 0x2_0000_0401, oid: 20, ver: 0 }, Fid { seq: 0x2_0000_0401, oid: 21, ver: 0 }];
/// The stripes of these two names by FNV-1a.
pub(super) const NAMES: [&[u8]; 2] = [b"x1", b"x2"];

fn lmv(kind: HashKind, flags: HashFlags, stripes: &[Fid]) -> Vec<u8> {
    use lustrine_fswire::codec::{Wire, Writer};
    let header = LmvHeader {
        magic: magic::LMV,
        count: stripes.len() as u32,
        hash: HashWord { kind, flags },
        migrate_offset: 1,
        migrate_hash: HashWord { kind, flags: HashFlags::empty() },
        ..LmvHeader::default()
    };
    let mut ea = Vec::new();
    let mut to = Writer::new(&mut ea);
    header.write(&mut to);
    stripes.iter().for_each(|stripe| stripe.write(&mut to));
    ea
}

pub(super) fn dir_body(fid: Fid) -> MdtBody {
    let valid = MdValid::ID | MdValid::MODE | MdValid::SIZE | MdValid::BLOCKS;
    MdtBody { fid1: fid, mode: 0o040_755, nlink: 2, valid, ..MdtBody::default() }
}

impl World {
    /// A world whose client has seen the directory with this layout.
    fn with_dir(ea: &[u8]) -> World {
        let mut world = World::new();
        let slot = world.start(|client, turn, done| client.getattr(turn, Caller::ROOT, DIR, done));
        world.give_dir(DIR, dir_body(DIR), ea);
        assert!(slot.outcome().is_ok());
        world
    }

    fn give_dir(&mut self, fid: Fid, body: MdtBody, ea: &[u8]) {
        let asked = self.next(Kind::MdsGetattr);
        assert_eq!(asked.with(|request| fid_asked(&request)), Some(fid));
        let reply = mds::GetattrReply { body, ea: Ea(ea), acl: AclBytes(&[]), encctx: None };
        self.answer(&asked, 0, &ReplyBuffers::MdsGetattr(reply));
    }

    fn look(&mut self, name: &[u8]) -> Slot<Attr> {
        self.start(|client, turn, done| client.lookup(turn, Caller::ROOT, DIR, name, done))
    }

    /// Where the next lookup goes.
    fn sought_in(&mut self) -> (Asked, Fid) {
        let asked = self.next(Kind::MdsGetattrName);
        let dir = asked.with(|request| match request {
            Request::MdsGetattrName(request) => request.body.fid1,
            other => panic!("{other:?}"),
        });
        (asked, dir)
    }

    fn next_change(&mut self, kind: Kind) -> (Asked, NameRecord) {
        let asked = self.next(kind);
        let record = asked.with(|request| match request {
            Request::ReintUnlink(mds::ReintUnlink { record: Reint::Name(record), .. })
            | Request::ReintLink(mds::ReintLink { record: Reint::Name(record), .. })
            | Request::ReintRename(mds::ReintRename { record: Reint::Name(record), .. }) => record,
            other => panic!("{other:?}"),
        });
        (asked, record)
    }
}

pub(super) fn fnv() -> Vec<u8> {
    lmv(HashKind::FNV_1A_64, HashFlags::empty(), &STRIPES)
}

/// [LAYOUT-11].
#[test]
fn a_name_is_sought_in_its_stripe() {
    let mut world = World::with_dir(&fnv());
    for (name, stripe) in NAMES.into_iter().zip(STRIPES) {
        let slot = world.look(name);
        let (asked, dir) = world.sought_in();
        assert_eq!(dir, stripe);
        let reply = mds::GetattrReply {
            body: file_body(0o100_644),
            ea: Ea::NONE,
            acl: AclBytes(&[]),
            encctx: None,
        };
        world.answer(&asked, 0, &ReplyBuffers::MdsGetattrName(reply));
        assert_eq!(slot.outcome().map(|attr| attr.fid), Ok(FILE));
    }
}

#[test]
fn changes_of_names_go_to_their_stripes() {
    let mut world = World::with_dir(&fnv());
    let _moved = world.start(|client, turn, done| {
        let (from, to) = ((DIR, NAMES[0]), (DIR, NAMES[1]));
        client.rename(turn, Caller::ROOT, from, to, 0o100_644, done);
    });
    let (_, record) = world.next_change(Kind::ReintRename);
    assert_eq!((record.fid1, record.fid2), (STRIPES[0], STRIPES[1]));
    let _linked = world.start(|client, turn, done| {
        client.link(turn, Caller::ROOT, FILE, DIR, NAMES[1], done);
    });
    let (_, record) = world.next_change(Kind::ReintLink);
    assert_eq!((record.fid1, record.fid2), (FILE, STRIPES[1]));
    let _removed = world.start(|client, turn, done| {
        client.unlink(turn, Caller::ROOT, DIR, NAMES[1], false, done);
    });
    assert_eq!(world.next_change(Kind::ReintUnlink).1.fid1, STRIPES[1]);
    let _made = world.start(|client, turn, done| {
        client.mkdir(turn, Caller::ROOT, DIR, NAMES[1], (0o755, 0), done);
    });
    let asked = world.next(Kind::SeqQuery);
    let range = SeqRange { start: FILE.seq, end: FILE.seq + 1, ..SeqRange::default() };
    world.answer(&asked, 0, &ReplyBuffers::SeqQuery(obd::Range { range }));
    world.next(Kind::ReintCreate).with(|request| match request {
        Request::ReintCreate(mds::ReintCreate { record: Reint::Create(record), .. }) => {
            assert_eq!(record.parent, STRIPES[1]);
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn a_name_that_moves_is_sought_in_both_stripes_and_none_is_made() {
    let ea = lmv(HashKind::FNV_1A_64, HashFlags::MIGRATION | HashFlags::MERGE, &STRIPES);
    let mut world = World::with_dir(&ea);
    let slot = world.look(NAMES[1]);
    let (asked, dir) = world.sought_in();
    assert_eq!(dir, STRIPES[1]);
    world.answer(&asked, -2, &ReplyBuffers::Bare);
    let (asked, dir) = world.sought_in();
    assert_eq!(dir, STRIPES[0]);
    world.answer(&asked, -2, &ReplyBuffers::Bare);
    assert_eq!(slot.outcome().map(drop), Err(ClientError::Errno(2)));
    let slot = world.start(|client, turn, done| {
        client.mkdir(turn, Caller::ROOT, DIR, b"new", (0o755, 0), done);
    });
    assert!(matches!(slot.outcome(), Err(ClientError::Directory(_))));
}

#[test]
fn a_directory_of_an_unknown_kind_is_refused() {
    let mut world = World::with_dir(&lmv(HashKind(9), HashFlags::empty(), &STRIPES));
    let error = world.look(b"a").outcome().map(drop).unwrap_err();
    assert!(error.to_string().contains("not known"), "{error}");
    assert!(world.asked.is_empty());
}

#[test]
fn a_directory_that_is_not_striped_any_more_has_its_names_itself() {
    let mut world = World::with_dir(&fnv());
    let slot = world.start(|client, turn, done| client.getattr(turn, Caller::ROOT, DIR, done));
    world.give_dir(DIR, dir_body(DIR), &[]);
    assert!(slot.outcome().is_ok());
    let _slot = world.look(NAMES[0]);
    assert_eq!(world.sought_in().1, DIR);
}

#[test]
fn a_directory_that_was_forgotten_is_asked_for_first() {
    let mut world = World::with_dir(&fnv());
    world.act(|client, _| {
        client.dirs.striped.clear();
        client.dirs.forgot = true;
    });
    let _slot = world.look(NAMES[1]);
    world.give_dir(DIR, dir_body(DIR), &fnv());
    assert_eq!(world.sought_in().1, STRIPES[1]);
}

fn page(names: &[(&str, u64)], end: u64) -> Vec<u8> {
    let mut page = PageBuilder::new(names.first().map_or(0, |(_, hash)| *hash));
    for (name, hash) in names {
        assert!(page.push(FILE, *hash, name.as_bytes(), 0x8000));
    }
    page.finish(end, PageFlags::empty()).to_vec()
}

#[test]
fn the_parts_of_all_stripes_are_one_listing() {
    let part = |names: &[(&str, u64)], end| {
        let data = page(names, end);
        crate::client::metadata::dir_page(&data, 0).expect("a part")
    };
    let names = |page: &crate::DirPage| {
        let name = |entry: &crate::DirEntry| String::from_utf8_lossy(&entry.name).into_owned();
        page.entries.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    // The second one has more behind 40: what the first has from there on is read again.
    let first = part(&[(".", 1), ("..", 2), ("a", 10), ("b", 50)], HASH_END);
    let second = part(&[(".", 1), ("..", 2), ("c", 5), ("d", 30)], 40);
    let parts = vec![(1, second), (0, first)];
    let merged = crate::client::striped::merged(DIR, 0, parts).expect("a part");
    assert_eq!((names(&merged), merged.next), (". .. c a d".to_owned(), Some(40)));
    assert_eq!(merged.entries[0].fid, DIR);
    // One that is empty up to the end of the part would be asked again and again.
    let dots = part(&[(".", 1), ("..", 2)], 40);
    assert!(crate::client::striped::merged(DIR, 0, vec![(1, dots)]).is_err());
}

#[test]
fn the_attributes_of_a_striped_directory_are_those_of_its_stripes_together() {
    let mut world = World::with_dir(&fnv());
    let slot = world.start(|client, turn, done| client.stat(turn, Caller::ROOT, DIR, done));
    let body = MdtBody { mtime: 5, ..dir_body(DIR) };
    world.give_dir(DIR, body, &fnv());
    for (stripe, mtime) in STRIPES.into_iter().zip([7, 9]) {
        let body = MdtBody { nlink: 3, size: 4096, blocks: 8, mtime, ..dir_body(stripe) };
        world.give_dir(stripe, body, &[]);
    }
    let attr = slot.outcome().expect("attributes");
    assert_eq!((attr.nlink, attr.size, attr.blocks), (4, Some(8192), Some(16)));
    assert_eq!((attr.fid, attr.mtime), (DIR, 9));
}

/// [MDT-26].
#[test]
fn a_change_goes_to_the_target_that_has_the_file() {
    let mut world = World::new();
    let slot = world.start(|client, turn, done| {
        client.unlink(turn, Caller::ROOT, DIR, b"remote", true, done);
    });
    let (asked, record) = world.next_change(Kind::ReintUnlink);
    assert_eq!(record.fid2, Fid::default());
    let body = MdtBody { fid1: FILE, valid: MdValid::ID | MdValid::MDS, ..MdtBody::default() };
    let reply = |body| {
        let reply = mds::CloseReply { body, ..mds::CloseReply::default() };
        ReplyBuffers::ReintUnlink(reply)
    };
    world.answer(&asked, -66, &reply(body));
    let (asked, record) = world.next_change(Kind::ReintUnlink);
    assert_eq!((record.fid1, record.fid2), (DIR, FILE));
    // It is asked once.
    world.answer(&asked, -66, &reply(body));
    assert_eq!(slot.outcome(), Err(ClientError::Errno(66)));
    assert!(world.asked.is_empty());
}

/// A name that leads to another target.
const REMOTE: &[u8] = b"remote";

fn open_reply(done: Disposition, body: MdtBody) -> dlm::OpenReply<'static> {
    let reply = LdlmReply { policy_res1: done.bits(), ..LdlmReply::default() };
    dlm::OpenReply { reply, body, ..dlm::OpenReply::default() }
}

/// What a target answers of a name that leads to another one [MDT-26].
fn elsewhere() -> MdtBody {
    MdtBody { fid1: FILE, valid: MdValid::ID | MdValid::MDS, ..MdtBody::default() }
}

impl World {
    /// Answers a lookup of [`REMOTE`]: the name leads to another target.
    fn found_elsewhere(&mut self) {
        let (asked, dir) = self.sought_in();
        asked.with(|request| match request {
            Request::MdsGetattrName(request) => assert_eq!(request.name.as_bytes(), REMOTE),
            other => panic!("{other:?}"),
        });
        assert_eq!(dir, DIR);
        let (ea, acl) = (Ea::NONE, AclBytes(&[]));
        let reply = mds::GetattrReply { body: elsewhere(), ea, acl, encctx: None };
        self.answer(&asked, 0, &ReplyBuffers::MdsGetattrName(reply));
    }

    /// Answers an open of [`REMOTE`] that makes the file if it is not there.
    fn answer_create(&mut self, done: Disposition, body: MdtBody) {
        let asked = self.next(Kind::EnqueueOpenCreat);
        asked.with(|request| match request {
            Request::EnqueueOpenCreat(dlm::OpenIntent {
                record: Reint::Create(record),
                name,
                ..
            }) => {
                assert_eq!((record.parent, name.as_bytes()), (DIR, REMOTE));
                assert_eq!(record.flags, OpenFlags::WRITE | OpenFlags::CREAT);
            }
            other => panic!("{other:?}"),
        });
        let reply = ReplyBuffers::EnqueueOpenCreat(open_reply(done, body));
        self.answer(&asked, 301, &reply);
    }

    /// A name is opened, and made if it is not there.
    fn create(&mut self) -> Slot<crate::client::OpenFile> {
        self.create_by(OpenFlags::WRITE | OpenFlags::CREAT)
    }

    fn create_by(&mut self, flags: OpenFlags) -> Slot<crate::client::OpenFile> {
        let slot = self.start_create(flags);
        let asked = self.next(Kind::SeqQuery);
        let range = SeqRange { start: FILE.seq, end: FILE.seq + 1, ..SeqRange::default() };
        self.answer(&asked, 0, &ReplyBuffers::SeqQuery(obd::Range { range }));
        slot
    }

    /// The same of a client that has FIDs.
    fn start_create(&mut self, flags: OpenFlags) -> Slot<crate::client::OpenFile> {
        let args = OpenArgs { flags, mode: 0o644, umask: 0 };
        self.start(|client, turn, done| client.create(turn, Caller::ROOT, DIR, REMOTE, args, done))
    }
}

/// [MDT-26].
#[test]
fn a_name_of_a_file_on_another_target_is_opened_there() {
    let mut world = World::new();
    let _slot = world.create();
    world.answer_create(Disposition::EXECD | Disposition::LOOKUP_POS, elsewhere());
    world.next(Kind::EnqueueOpen).with(|request| match request {
        Request::EnqueueOpen(dlm::OpenIntent { record: Reint::Create(record), .. }) => {
            assert_eq!((record.parent, record.fid), (FILE, FILE));
            assert_eq!(record.flags, OpenFlags::WRITE | OpenFlags::BY_FID);
        }
        other => panic!("{other:?}"),
    });
}

/// [MDT-26].
#[test]
fn a_file_on_another_target_is_there_for_who_may_only_make_it() {
    let mut world = World::new();
    let slot = world.create_by(OpenFlags::WRITE | OpenFlags::CREAT | OpenFlags::EXCL);
    let asked = world.next(Kind::EnqueueOpenCreat);
    let reply = open_reply(Disposition::EXECD | Disposition::LOOKUP_POS, elsewhere());
    world.answer(&asked, 301, &ReplyBuffers::EnqueueOpenCreat(reply));
    assert_eq!(slot.outcome().map(|_| ()), Err(ClientError::Errno(errno::EEXIST)));
    assert!(world.asked.is_empty());
}

/// A server that has no time for an intent says so in the answer [IMP-9].
#[test]
fn an_open_and_a_layout_are_asked_for_again_until_the_server_has_time() {
    let busy = || LdlmReply { policy_res2: -i64::from(errno::EINPROGRESS), ..LdlmReply::default() };
    let mut world = World::new();
    let slot = world.create();
    let layout = world.start(|client, turn, done| {
        client.instantiate(turn, Caller::ROOT, FILE, (0, 1), done);
    });
    let mut handles = Vec::new();
    for seconds in 1..=3 {
        let asked = world.next(Kind::EnqueueOpenCreat);
        handles.push(asked.with(|request| match request {
            Request::EnqueueOpenCreat(dlm::OpenIntent {
                lock,
                record: Reint::Create(record),
                ..
            }) => {
                assert_eq!((record.parent, record.fid.seq), (DIR, FILE.seq));
                (lock.handle(0), record.fid)
            }
            other => panic!("{other:?}"),
        }));
        let reply = dlm::OpenReply { reply: busy(), ..dlm::OpenReply::default() };
        world.answer(&asked, 301, &ReplyBuffers::EnqueueOpenCreat(reply));
        let asked = world.next(Kind::EnqueueLayout);
        let reply = dlm::EnqueueReply { reply: busy(), ..dlm::EnqueueReply::default() };
        world.answer(&asked, 301, &ReplyBuffers::EnqueueLayout(reply));
        world.pass(Nanos(seconds * 1_000_000_000 - 1));
        assert!(world.asked.is_empty() && slot.is_pending() && layout.is_pending());
        world.pass(Nanos(1));
    }
    // It is the same file, with another lock.
    assert!(handles.windows(2).all(|two| two[0].0 != two[1].0 && two[0].1 == two[1].1));
    world.answer_create(Disposition::EXECD | Disposition::LOOKUP_POS, elsewhere());
    world.next(Kind::EnqueueLayout);
    world.next(Kind::EnqueueOpen);
    // What waits ends with the client.
    let again = world.start_create(OpenFlags::WRITE | OpenFlags::CREAT);
    let asked = world.next(Kind::EnqueueOpenCreat);
    let reply = dlm::OpenReply { reply: busy(), ..dlm::OpenReply::default() };
    world.answer(&asked, 301, &ReplyBuffers::EnqueueOpenCreat(reply));
    world.start(Client::unmount);
    world.pass(Nanos(0));
    assert!(again.outcome().is_err());
}

const ENOENT: ClientError = ClientError::Errno(errno::ENOENT);

/// Another client has replaced it meanwhile: the name leads to a file.
#[test]
fn a_name_whose_file_on_another_target_is_gone_is_looked_up_again() {
    let mut world = World::new();
    let slot = world.look(REMOTE);
    world.found_elsewhere();
    world.refuse(Kind::MdsGetattr, errno::ENOENT);
    world.found_elsewhere();
    world.give_attributes(file_body(0o100_644), &[]);
    assert_eq!(slot.outcome().map(|attr| attr.fid), Ok(FILE));
    // The entry is wrong.
    let slot = world.look(REMOTE);
    for _ in 0..4 {
        assert!(slot.is_pending());
        world.found_elsewhere();
        world.refuse(Kind::MdsGetattr, errno::ENOENT);
    }
    assert_eq!(slot.outcome().map(|attr| attr.fid), Err(ENOENT));
    assert!(world.asked.is_empty());
}

#[test]
fn a_file_on_another_target_that_is_gone_is_opened_by_its_name_again() {
    let there = Disposition::EXECD | Disposition::LOOKUP_POS;
    let mut world = World::new();
    let slot = world.create();
    world.answer_create(there, elsewhere());
    world.refuse(Kind::EnqueueOpen, errno::ENOENT);
    // Now the name is free.
    let made = Disposition::EXECD
        | Disposition::LOOKUP_NEG
        | Disposition::OPEN_CREATE
        | Disposition::OPEN_OPEN;
    let body = MdtBody { open_handle: Handle(0x55), ..file_body(0o100_644) };
    world.answer_create(made, body);
    assert!(slot.outcome().is_ok_and(|file| file.created && file.attr.fid == FILE));
    // The entry is wrong.
    let mut world = World::new();
    let slot = world.create();
    for _ in 0..4 {
        assert!(slot.is_pending());
        world.answer_create(there, elsewhere());
        world.refuse(Kind::EnqueueOpen, errno::ENOENT);
    }
    assert_eq!(slot.outcome().map(|file| file.attr.fid), Err(ENOENT));
    assert!(world.asked.is_empty());
}

/// Servers that name each other could keep a client busy for ever.
#[test]
fn a_file_is_where_its_fid_says() {
    let mut world = World::new();
    let args = OpenArgs { flags: OpenFlags::READ, mode: 0, umask: 0 };
    let slot = world.start(|client, turn, done| {
        client.open(turn, Caller::ROOT, FILE, args, done);
    });
    let asked = world.next(Kind::EnqueueOpen);
    let reply = open_reply(Disposition::EXECD | Disposition::LOOKUP_POS, elsewhere());
    world.answer(&asked, 301, &ReplyBuffers::EnqueueOpen(reply));
    let error = slot.outcome().map(|file| file.attr.fid).unwrap_err();
    assert!(matches!(error, ClientError::Malformed(_)), "{error:?}");
    assert!(world.asked.is_empty());
}
