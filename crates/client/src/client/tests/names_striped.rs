//! Names of a striped directory. Who may search it is known under its lock, not under those of the
//! stripes [LOCK-22].

use lustrine_fswire::batch::Block;
use lustrine_fswire::rpc::BufferList;

use super::striped::{NAMES, STRIPES, dir_body, fnv};
use super::*;
use crate::Changes;
use crate::client::attr_cache::Named;

const NAME: &[u8] = NAMES[0];
const STRIPE: Fid = STRIPES[0];
/// The servers' handles of the locks of the directory and of the file.
const DIR_LOCK: Handle = Handle(0x50);
const FILE_LOCK: Handle = Handle(0x51);
const DIR_BITS: Ibits = Ibits::LOOKUP.union(Ibits::UPDATE).union(Ibits::PERM);

struct Scene {
    world: World,
}

impl Scene {
    /// The client has seen the directory.
    fn new() -> Scene {
        let world = World::caching(CacheTunables { attrs: 100, ..CacheTunables::NONE });
        let mut scene = Scene { world };
        let slot = scene.world.start(|client, turn, done| {
            client.getattr(turn, Caller::ROOT, DIR, done);
        });
        scene.answer((DIR, b""), (DIR_LOCK, DIR_BITS), dir_body(DIR), &fnv());
        assert!(slot.outcome().is_ok());
        scene
    }

    /// The same, and a name in a stripe is known.
    fn with_name() -> Scene {
        let mut scene = Scene::new();
        let slot = scene.look();
        let bits = DIR_BITS | Ibits::LAYOUT;
        let file = MdtBody { nlink: 1, ..file_body(0o100_644) };
        scene.answer((STRIPE, NAME), (FILE_LOCK, bits), file, &[]);
        assert_eq!(slot.outcome().map(|attr| attr.fid), Ok(FILE));
        assert!(scene.is_known());
        assert!(scene.world.asked.is_empty());
        scene
    }

    fn look(&mut self) -> Slot<crate::Attr> {
        self.world.start(|client, turn, done| client.lookup(turn, Caller::ROOT, DIR, NAME, done))
    }

    /// Whether the name is answered without a server. Otherwise its lookup waits.
    fn is_known(&mut self) -> bool {
        !self.look().is_pending()
    }

    /// Answers the next request for attributes, which is for a name or a file, with a lock.
    fn answer(
        &mut self,
        wanted: (Fid, &[u8]),
        (granted, bits): (Handle, Ibits),
        body: MdtBody,
        ea: &[u8],
    ) {
        let asked = self.world.next(Kind::EnqueueGetattr);
        asked.with(|request| match request {
            Request::EnqueueGetattr(intent) => {
                assert_eq!((intent.body.fid1, intent.name.as_bytes()), wanted);
            }
            other => panic!("{other:?}"),
        });
        let reply = granted_intent(body.fid1, (granted, bits));
        let ea = Ea(ea);
        let reply =
            dlm::GetattrIntentReply { reply, body, ea, ..dlm::GetattrIntentReply::default() };
        self.world.answer(&asked, 0, &ReplyBuffers::EnqueueGetattr(reply));
    }

    /// The server wants these bits of the lock of the directory.
    fn call_back(&mut self, bits: Ibits) {
        let mdt = self.world.client.mdts[&0];
        let locks = self.world.client.attrs.locks_of(DIR);
        self.world.want_bits(mdt, (DIR, locks[0].handle), bits);
    }
}

/// A program that comes through the directory again asks for its attributes, and for no name.
#[test]
fn names_in_stripes_are_known_and_the_attributes_of_the_whole_are_not() {
    let mut scene = Scene::with_name();
    let other = Caller { uid: 7, gid: 7, capabilities: 0, ..Caller::ROOT };
    let known = [Caller::ROOT, other].map(|caller| {
        let found =
            scene.world.act(|client, turn| client.peek_name(turn.now, Some(&caller), DIR, NAME));
        matches!(found, Named::File(attr) if attr.fid == FILE)
    });
    assert_eq!(known, [true, false], "the server has let only one in");
    let whole = scene.world.start(|client, turn, done| {
        client.getattr(turn, Caller::ROOT, DIR, done);
    });
    assert!(whole.is_pending());
}

/// A chmod takes UPDATE and PERM of the directory, a new access control list PERM.
#[test]
fn other_permissions_of_the_whole_take_the_names_away() {
    for bits in [Ibits::UPDATE | Ibits::PERM, Ibits::PERM] {
        let mut scene = Scene::with_name();
        scene.call_back(bits);
        scene.world.next(Kind::LdlmCancel);
        assert!(!scene.is_known());
    }
}

/// Other times of the directory.
#[test]
fn a_change_without_other_permissions_leaves_the_names() {
    let mut scene = Scene::with_name();
    scene.call_back(Ibits::UPDATE);
    scene.world.next(Kind::LdlmConvert);
    assert!(scene.is_known());
}

#[test]
fn an_unlink_in_a_stripe_gives_the_lock_of_the_file_back() {
    let mut scene = Scene::with_name();
    let _removed = scene.world.start(|client, turn, done| {
        client.unlink(turn, Caller::ROOT, DIR, NAME, false, done);
    });
    scene.world.next(Kind::ReintUnlink).with(|request| match request {
        Request::ReintUnlink(unlink) => {
            let locks = unlink.locks.expect("locks to be cancelled");
            assert_eq!(locks.counted(0).collect::<Vec<_>>(), [FILE_LOCK]);
        }
        other => panic!("{other:?}"),
    });
    assert!(!scene.is_known());
}

#[test]
fn other_permissions_by_this_client_take_the_names_away() {
    let mut scene = Scene::with_name();
    let changes = Changes { mode: Some(0o700), ..Changes::default() };
    let _changed = scene.world.start(|client, turn, done| {
        client.set_attributes(turn, Caller::ROOT, DIR, changes, done);
    });
    scene.world.next(Kind::ReintSetattr).with(|request| match request {
        Request::ReintSetattr(setattr) => {
            let locks = setattr.locks.expect("locks to be cancelled");
            assert_eq!(locks.counted(0).collect::<Vec<_>>(), [DIR_LOCK]);
        }
        other => panic!("{other:?}"),
    });
    assert!(!scene.is_known());
}

/// What a stripe has is of use with that of the others alone, and its lock does not say who may
/// search it.
#[test]
fn no_lock_of_a_stripe_is_kept() {
    let mut scene = Scene::with_name();
    let slot = scene.world.start(|client, turn, done| {
        client.getattr(turn, Caller::ROOT, STRIPE, done);
    });
    let bits = Ibits::UPDATE | Ibits::PERM;
    scene.answer((STRIPE, b""), (Handle(0x52), bits), dir_body(STRIPE), &[]);
    assert!(slot.outcome().is_ok());
    assert_eq!(scene.world.client.attrs.perm_lock_of(STRIPE), None);
    scene.world.act(Client::cancel_useless);
    scene.world.next(Kind::LdlmCancel);
}

/// The names of each stripe go together.
#[test]
fn several_names_are_asked_for_in_their_stripes() {
    let mut scene = Scene::new();
    let names: Vec<Vec<u8>> = (0..12).map(|number| format!("y{number}").into_bytes()).collect();
    let wanted = names.iter().map(|name| (name.clone(), Slot::new().1)).collect();
    scene.world.act(|client, turn| client.lookup_all(turn, Caller::ROOT, DIR, wanted));
    let mut sought = Vec::new();
    for _ in STRIPES {
        let asked = scene.world.next(Kind::MdsBatch);
        asked.with(|request| {
            let Request::MdsBatch(batch) = request else { panic!("{request:?}") };
            for message in Block::parse(batch.header.inline).expect("a block").messages() {
                let message = message.expect("a message");
                let sent = dlm::GetattrIntent::parse_list(&message, 0).expect("an intent");
                let name = sent.name.as_bytes().to_vec();
                assert_eq!(scene.world.client.home_of(DIR, &name), Some(sent.body.fid1));
                sought.push(name);
            }
        });
    }
    sought.sort();
    let mut all = names;
    all.sort();
    assert_eq!(sought, all);
    assert!(scene.world.asked.is_empty());
}
