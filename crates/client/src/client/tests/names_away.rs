//! A directory on another metadata target than its name, which brings two locks [LOCK-24].

use super::*;
use crate::error::errno;

/// The directory, whose name is "away" in [`DIR`].
const AWAY: Fid = Fid { seq: 0x2_4000_0402, oid: 1, ver: 0 };
/// The locks of the name and of the directory, by the servers' handles.
const NAME_LOCK: (Handle, Ibits) = (Handle(0x60), Ibits::LOOKUP);
const ATTR_LOCK: (Handle, Ibits) = (Handle(0x61), Ibits::UPDATE.union(Ibits::PERM));

fn dir_body(fid: Fid) -> MdtBody {
    let valid = MdValid::ID | MdValid::MODE | MdValid::NLINK;
    MdtBody { fid1: fid, mode: 0o040_755, nlink: 2, valid, ..MdtBody::default() }
}

/// What a server says of a name whose file is elsewhere.
fn name_body() -> MdtBody {
    MdtBody { fid1: AWAY, valid: MdValid::ID | MdValid::MDS, ..MdtBody::default() }
}

struct Scene {
    world: World,
    mdts: [ImportKey; 2],
    /// The client's handles of the locks that it asked for last at each target.
    handles: [Handle; 2],
}

impl Scene {
    /// The client has the attributes of [`DIR`], and two targets.
    fn new() -> Scene {
        let mut world = World::caching(CacheTunables { attrs: 10, ..CacheTunables::NONE });
        let mdt = world.act(|client, turn| {
            let mdt = client.add_import(turn, Target::Mdt, "lustre-MDT0001_UUID", &[test_nid(1)]);
            client.mdts.insert(1, mdt);
            client.fids.learn(DIR.seq, DIR.seq + 1, 0);
            client.fids.learn(AWAY.seq, AWAY.seq + 1, 1);
            client.settle(turn);
            mdt
        });
        let asked = world.next(Kind::MdsConnect);
        let granted = obd::ConnectReply { data: offers::of(Target::Mdt, false, false) };
        world.answer(&asked, 0, &ReplyBuffers::MdsConnect(granted));
        let mdts = [world.client.mdts[&0], mdt];
        let mut scene = Scene { world, mdts, handles: [Handle::NONE; 2] };
        let slot = scene.world.start(|client, turn, done| {
            client.getattr(turn, Caller::ROOT, DIR, done);
        });
        let whole = NAME_LOCK.1 | ATTR_LOCK.1;
        scene.answer(0, (DIR, b""), (Handle(0x50), whole), dir_body(DIR));
        assert!(slot.outcome().is_ok());
        scene
    }

    /// Answers the next request for attributes, which is for a name or a file and has to go to one
    /// of the targets, with a lock.
    fn answer(
        &mut self,
        mdt: usize,
        wanted: (Fid, &[u8]),
        (granted, bits): (Handle, Ibits),
        body: MdtBody,
    ) {
        let asked = self.world.next(Kind::EnqueueGetattr);
        self.handles[mdt] = asked.with(|request| match request {
            Request::EnqueueGetattr(intent) => {
                assert_eq!((intent.body.fid1, intent.name.as_bytes()), wanted);
                intent.lock.handle(0).expect("a handle")
            }
            other => panic!("{other:?}"),
        });
        let lock = self.world.client.locks.get(self.mdts[mdt], self.handles[mdt]);
        assert!(lock.is_some(), "it is asked for at this target");
        let reply = granted_intent(body.fid1, (granted, bits));
        let reply = dlm::GetattrIntentReply { reply, body, ..dlm::GetattrIntentReply::default() };
        self.world.answer(&asked, 0, &ReplyBuffers::EnqueueGetattr(reply));
    }

    fn start_lookup(&mut self) -> Slot<crate::Attr> {
        self.world.start(|client, turn, done| {
            client.lookup(turn, Caller::ROOT, DIR, b"away", done);
        })
    }

    /// Looks the name up, both targets are asked, and both locks are kept.
    fn look_up(&mut self) {
        let slot = self.start_lookup();
        self.answer(0, (DIR, b"away"), NAME_LOCK, name_body());
        self.answer(1, (AWAY, b""), ATTR_LOCK, dir_body(AWAY));
        assert_eq!(slot.outcome().map(|attr| attr.mode), Ok(0o040_755));
        assert!(self.is_known());
    }

    /// Whether the name is answered without a server. Otherwise its lookup waits.
    fn is_known(&mut self) -> bool {
        !self.start_lookup().is_pending()
    }

    /// A server wants these bits of the lock that came last from it.
    fn call_back(&mut self, mdt: usize, bits: Ibits) {
        self.world.want_bits(self.mdts[mdt], (AWAY, self.handles[mdt]), bits);
    }

    /// The lock that the client gives back next.
    fn given_back(&mut self) -> Handle {
        let asked = self.world.next(Kind::LdlmCancel);
        asked.with(|request| match request {
            Request::LdlmCancel(cancel) => cancel.lock.handle(0).expect("a handle"),
            other => panic!("{other:?}"),
        })
    }
}

#[test]
fn a_name_is_known_while_both_locks_are_held() {
    let mut scene = Scene::new();
    scene.look_up();
    let counts = scene.world.client.attr_counts();
    assert_eq!((counts.entries, counts.names), (2, 1));
    assert!(scene.world.asked.is_empty());
}

#[test]
fn a_change_in_the_directory_leaves_its_name_and_its_permissions() {
    let mut scene = Scene::new();
    scene.look_up();
    scene.call_back(1, Ibits::UPDATE);
    let asked = scene.world.next(Kind::LdlmConvert);
    asked.with(|request| match request {
        Request::LdlmConvert(convert) => {
            assert_eq!(convert.lock.handle(0), Some(ATTR_LOCK.0));
            assert_eq!(convert.lock.desc.policy, Policy::Other([Ibits::PERM.bits(), 0, 0, 0]));
        }
        other => panic!("{other:?}"),
    });
    // Only the attributes are asked for, where they are.
    assert!(!scene.is_known());
    scene.answer(1, (AWAY, b""), (Handle(0x62), ATTR_LOCK.1), dir_body(AWAY));
    assert!(scene.is_known());
    scene.world.act(Client::cancel_useless);
    assert_eq!(scene.given_back(), ATTR_LOCK.0, "the new one has more");
}

#[test]
fn another_name_takes_the_lock_of_the_name_and_the_attributes() {
    let mut scene = Scene::new();
    scene.look_up();
    scene.call_back(0, Ibits::LOOKUP);
    assert_eq!(scene.given_back(), NAME_LOCK.0);
    assert_eq!(scene.world.client.attr_counts().names, 0);
    assert!(!scene.is_known());
    scene.answer(0, (DIR, b"away"), (Handle(0x63), NAME_LOCK.1), name_body());
    // Its time of change is another one now.
    scene.answer(1, (AWAY, b""), (Handle(0x64), ATTR_LOCK.1), dir_body(AWAY));
    assert!(scene.is_known());
}

#[test]
fn other_permissions_take_the_attributes_and_leave_the_name() {
    let mut scene = Scene::new();
    scene.look_up();
    scene.call_back(1, Ibits::UPDATE | Ibits::PERM);
    assert_eq!(scene.given_back(), ATTR_LOCK.0);
    assert_eq!(scene.world.client.attrs.permissions_of(AWAY), None);
    assert!(!scene.is_known());
    scene.answer(1, (AWAY, b""), (Handle(0x65), ATTR_LOCK.1), dir_body(AWAY));
    assert!(scene.is_known());
}

/// The target that has the directory can be away for long: the other one must not wait for it.
#[test]
fn the_lock_of_the_name_is_given_back_while_the_attributes_are_waited_for() {
    let mut scene = Scene::new();
    let slot = scene.start_lookup();
    scene.answer(0, (DIR, b"away"), NAME_LOCK, name_body());
    let asked = scene.world.asked.pop_front().expect("a request to the other target");
    scene.call_back(0, Ibits::LOOKUP);
    assert_eq!(scene.given_back(), NAME_LOCK.0);
    scene.world.asked.push_front(asked);
    scene.answer(1, (AWAY, b""), ATTR_LOCK, dir_body(AWAY));
    assert_eq!(slot.outcome().map(|attr| attr.fid), Ok(AWAY));
    assert_eq!(scene.world.client.attr_counts().names, 0);
    // The attributes can be those of before the rename, which takes no lock on them.
    assert_eq!(scene.world.client.attrs.known(AWAY), None);
    assert!(!scene.is_known());
}

/// A rename would not be noticed.
#[test]
fn attributes_without_the_lock_of_the_name_are_not_kept() {
    let mut scene = Scene::new();
    for handle in [0x70, 0x71] {
        let slot = scene.world.start(|client, turn, done| {
            client.getattr(turn, Caller::ROOT, AWAY, done);
        });
        scene.answer(1, (AWAY, b""), (Handle(handle), ATTR_LOCK.1), dir_body(AWAY));
        assert_eq!(slot.outcome().map(|attr| attr.fid), Ok(AWAY));
        assert_eq!(scene.world.client.attrs.known(AWAY), None);
    }
    // Who may search it is known.
    assert!(scene.world.client.attrs.permissions_of(AWAY).is_some());
    // Attributes that were asked for before the lock of the name was there.
    let slot = scene.world.start(|client, turn, done| {
        client.getattr(turn, Caller::ROOT, AWAY, done);
    });
    let early = scene.world.asked.pop_front().expect("a request");
    let _looks = scene.start_lookup();
    scene.answer(0, (DIR, b"away"), NAME_LOCK, name_body());
    scene.world.asked.push_front(early);
    scene.answer(1, (AWAY, b""), (Handle(0x72), ATTR_LOCK.1), dir_body(AWAY));
    assert!(slot.outcome().is_ok());
    assert_eq!(scene.world.client.attrs.known(AWAY), None);
    scene.answer(1, (AWAY, b""), (Handle(0x73), ATTR_LOCK.1), dir_body(AWAY));
    assert!(scene.is_known());
}

/// Each target gets its lock back with the request to it, and waits for none.
#[test]
fn who_removes_the_directory_gives_both_locks_back_with_the_requests() {
    let mut scene = Scene::new();
    scene.look_up();
    let slot = scene.world.start(|client, turn, done| {
        client.unlink(turn, Caller::ROOT, DIR, b"away", true, done);
    });
    let given_back = |asked: &Asked| {
        asked.with(|request| match request {
            Request::ReintUnlink(unlink) => {
                let locks = unlink.locks.expect("locks to be cancelled");
                locks.counted(0).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        })
    };
    let asked = scene.world.next(Kind::ReintUnlink);
    assert_eq!(given_back(&asked), [NAME_LOCK.0]);
    let reply = mds::CloseReply { body: name_body(), ea: Ea::NONE, cookies: &[] };
    scene.world.answer(&asked, -errno::EREMOTE, &ReplyBuffers::ReintUnlink(reply));
    let asked = scene.world.next(Kind::ReintUnlink);
    assert_eq!(given_back(&asked), [ATTR_LOCK.0]);
    let reply = mds::CloseReply { body: dir_body(AWAY), ea: Ea::NONE, cookies: &[] };
    scene.world.answer(&asked, 0, &ReplyBuffers::ReintUnlink(reply));
    assert_eq!(slot.outcome(), Ok(()));
    assert!(scene.world.asked.is_empty(), "no lock is cancelled by itself");
}

#[test]
fn a_target_that_restarts_takes_what_its_lock_protects() {
    let mut scene = Scene::new();
    scene.look_up();
    let [first, second] = scene.mdts;
    scene.world.act(|client, _| client.attrs_lost(second));
    assert_eq!(scene.world.client.attr_counts().names, 1);
    assert!(!scene.is_known());
    scene.answer(1, (AWAY, b""), (Handle(0x66), ATTR_LOCK.1), dir_body(AWAY));
    assert!(scene.is_known());
    scene.world.act(|client, _| client.attrs_lost(first));
    let counts = scene.world.client.attr_counts();
    assert_eq!((counts.entries, counts.names), (1, 0));
}

/// An entry that is too old is given back with both of its locks.
#[test]
fn both_locks_are_given_back_in_the_end() {
    let mut scene = Scene::new();
    scene.look_up();
    scene.world.pass(Nanos::from_secs(100_000));
    scene.world.act(|client, turn| client.drive_attrs(turn));
    let mut handles = Vec::new();
    while let Some(asked) = scene.world.asked.pop_front() {
        if asked.kind == Kind::LdlmCancel {
            handles.extend(asked.with(|request| match request {
                Request::LdlmCancel(cancel) => cancel.lock.counted(0).collect::<Vec<_>>(),
                other => panic!("{other:?}"),
            }));
        }
    }
    handles.sort();
    assert_eq!(handles, [Handle(0x50), NAME_LOCK.0, ATTR_LOCK.0]);
    assert_eq!(scene.world.client.attr_counts().entries, 0);
}

/// A rename is carried out where the new name is. The server would call the lock of the old name
/// back otherwise, and wait until no kernel uses it.
#[test]
fn a_rename_to_another_target_gives_the_lock_of_the_name_back() {
    const NAME_OF_FILE: (Handle, Ibits) = (Handle(0x70), Ibits::all());
    let mut scene = Scene::new();
    let file = Fid { oid: 2, ..AWAY };
    let slot = scene.world.start(|client, turn, done| {
        client.lookup(turn, Caller::ROOT, AWAY, b"x", done);
    });
    let body = MdtBody { fid1: file, nlink: 1, ..file_body(0o100_644) };
    scene.answer(1, (AWAY, b"x"), NAME_OF_FILE, body);
    assert!(slot.outcome().is_ok());
    let _moved = scene.world.start(|client, turn, done| {
        client.rename(turn, Caller::ROOT, (AWAY, b"x"), (DIR, b"y"), 0o100_644, done);
    });
    assert_eq!(scene.world.client.attrs.lookup_lock_of(file), None);
    scene.world.next(Kind::ReintRename);
    scene.world.act(Client::cancel_useless);
    assert_eq!(scene.given_back(), NAME_OF_FILE.0);
}
