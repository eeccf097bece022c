//! Several names that are looked up with one request [MDT-19].

use lustrine_fswire::batch::Block;
use lustrine_fswire::rpc::{BlockBuilder, BufferList};

use super::*;
use crate::client::batch::Unanswered;
use crate::error::{ClientError, errno};

const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

/// The file that a name leads to.
fn file(number: u32) -> Fid {
    Fid { oid: 100 + number, ..FILE }
}

/// What a server says of a name: the file, with a lock on it.
fn found(number: u32) -> dlm::GetattrIntentReply<'static> {
    let bits = Ibits::LOOKUP | Ibits::UPDATE | Ibits::PERM | Ibits::LAYOUT;
    let reply = granted_intent(file(number), (Handle(0x100 + u64::from(number)), bits));
    let body = MdtBody { fid1: file(number), nlink: 1, ..file_body(0o100_644) };
    dlm::GetattrIntentReply { reply, body, ..dlm::GetattrIntentReply::default() }
}

/// What a server says of a name that failed.
fn failed(errno: i32) -> dlm::GetattrIntentReply<'static> {
    let reply = LdlmReply {
        policy_res1: Disposition::EXECD.bits(),
        policy_res2: -i64::from(errno),
        ..LdlmReply::default()
    };
    dlm::GetattrIntentReply { reply, ..dlm::GetattrIntentReply::default() }
}

/// Names, and what is to become of each.
#[allow(clippy::type_complexity, reason = "what `ask_names` takes")]
fn wanted(names: &[&[u8]]) -> (Vec<Slot<crate::Attr>>, Vec<(Vec<u8>, Done<crate::Attr>)>) {
    let of = |name: &&[u8]| {
        let (slot, done) = Slot::new();
        (slot, (name.to_vec(), done))
    };
    names.iter().map(of).unzip()
}

struct Scene {
    world: World,
    slots: Vec<Slot<crate::Attr>>,
}

impl Scene {
    /// The client asks for the names.
    fn new(names: &[&[u8]]) -> Scene {
        Scene::with(names, Unanswered::AskAlone)
    }

    fn with(names: &[&[u8]], unanswered: Unanswered) -> Scene {
        let mut world = World::caching(CacheTunables { attrs: 1000, ..CacheTunables::NONE });
        let (slots, wanted) = wanted(names);
        world.act(|client, turn| {
            client.ask_names(turn, Caller::ROOT, DIR, wanted, unanswered);
        });
        Scene { world, slots }
    }

    /// The next request is a batch of these names.
    fn asked(&mut self, names: &[&[u8]]) -> Asked {
        let asked = self.world.next(Kind::MdsBatch);
        asked.with(|request| {
            let Request::MdsBatch(batch) = request else { panic!("{request:?}") };
            let fields = batch.header.fields;
            assert_eq!((fields.count, fields.updates as usize), (1, names.len()));
            assert_eq!(fields.inline_len as usize, batch.header.inline.len());
            let block = Block::parse(batch.header.inline).expect("a block");
            assert_eq!(usize::from(block.header.count), names.len());
            let sought: Vec<Vec<u8>> = block
                .messages()
                .map(|message| {
                    let message = message.expect("a message");
                    assert_eq!(message.header().opc, Block::GETATTR);
                    let sent = dlm::GetattrIntent::parse_list(&message, 0).expect("an intent");
                    assert_eq!((sent.body.fid1, sent.lock.count), (DIR, 0));
                    assert!(sent.lock.handle(0).is_some());
                    sent.name.as_bytes().to_vec()
                })
                .collect();
            assert_eq!(sought, names);
        });
        asked
    }

    /// Answers a batch; the last one of these has failed if there is a status.
    fn answer(&mut self, asked: &Asked, status: i32, replies: &[dlm::GetattrIntentReply<'_>]) {
        let mut block = BlockBuilder::new(Block::REPLY_MAGIC);
        for (number, reply) in replies.iter().enumerate() {
            match status != 0 && number == replies.len() - 1 {
                true => block.push_failed(&Header::default(), reply),
                false => block.push(&Header::default(), reply),
            }
        }
        let mut reply = block.finish();
        reply.resize(reply.len().next_multiple_of(4096), 0);
        let reply = mds::BlockReply { reply: &reply };
        self.world.answer(asked, status, &ReplyBuffers::MdsBatch(reply));
    }

    /// The next request is for one name alone.
    fn alone(&mut self, name: &[u8]) {
        let asked = self.world.next(Kind::EnqueueGetattr);
        asked.with(|request| match request {
            Request::EnqueueGetattr(sent) => assert_eq!(sent.name.as_bytes(), name),
            other => panic!("{other:?}"),
        });
    }

    /// What became of a name.
    fn outcome(&mut self, number: usize) -> Result<Fid, ClientError> {
        self.slots[number].outcome().map(|attr| attr.fid)
    }
}

#[test]
fn names_are_looked_up_together() {
    let mut scene = Scene::new(&NAMES);
    let asked = scene.asked(&NAMES);
    scene.answer(&asked, 0, &[found(0), found(1), found(2), found(3)]);
    for number in 0..4 {
        assert_eq!(scene.outcome(number as usize), Ok(file(number)));
    }
    let counts = scene.world.client.attr_counts();
    assert_eq!((counts.entries, counts.names), (4, 4));
    assert!(scene.world.asked.is_empty());
}

#[test]
fn one_name_is_looked_up_as_usual() {
    let mut scene = Scene::new(&NAMES[..1]);
    scene.alone(b"a");
}

/// Each request has room for as many names as fit into one message.
#[test]
fn many_names_take_several_requests() {
    let names: Vec<Vec<u8>> = (0..20).map(|number| format!("{number:03}").into_bytes()).collect();
    let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let mut scene = Scene::new(&names);
    for part in names.chunks(9) {
        let asked = scene.asked(part);
        assert!(asked.bytes.len() <= 4096, "{}", asked.bytes.len());
    }
    let long: &[u8] = &[b'x'; 255];
    let mut scene = Scene::new(&[long; 7]);
    scene.asked(&[long; 5]);
    scene.asked(&[long; 2]);
}

/// The server does nothing more of the batch then.
#[test]
fn names_behind_one_that_failed_are_asked_for_alone() {
    let mut scene = Scene::new(&NAMES);
    let asked = scene.asked(&NAMES);
    scene.answer(&asked, -errno::ENOENT, &[found(0), failed(errno::ENOENT)]);
    assert_eq!(scene.outcome(0), Ok(file(0)));
    assert_eq!(scene.outcome(1), Err(ClientError::Errno(errno::ENOENT)));
    scene.alone(b"c");
    scene.alone(b"d");
    // The client has no locks but what it was given, and what it asks for.
    let mdt = scene.world.client.mdts[&0];
    let counts = scene.world.client.locks.count(mdt);
    assert_eq!((counts.granted, counts.waiting), (1, 2));
}

/// What was guessed is not asked for again.
#[test]
fn names_that_need_not_be_there_are_asked_for_once() {
    let mut scene = Scene::with(&NAMES, Unanswered::Leave);
    let asked = scene.asked(&NAMES);
    scene.answer(&asked, -errno::ENOENT, &[found(0), failed(errno::ENOENT)]);
    assert_eq!(scene.outcome(0), Ok(file(0)));
    assert_eq!(scene.outcome(1), Err(ClientError::Errno(errno::ENOENT)));
    for number in 2..4 {
        assert_eq!(scene.outcome(number), Err(ClientError::Errno(errno::ECANCELED)));
    }
    assert!(scene.world.asked.is_empty());
    let mdt = scene.world.client.mdts[&0];
    let counts = scene.world.client.locks.count(mdt);
    assert_eq!((counts.granted, counts.waiting), (1, 0));
}

#[test]
fn a_name_whose_lock_has_to_be_waited_for_is_asked_for_alone() {
    let mut scene = Scene::new(&NAMES[..2]);
    let asked = scene.asked(&NAMES[..2]);
    scene.answer(&asked, -errno::ECANCELED, &[failed(errno::ECANCELED)]);
    scene.alone(b"a");
    scene.alone(b"b");
}

#[test]
fn a_name_that_leads_to_another_server_is_asked_for_alone() {
    let mut scene = Scene::new(&NAMES[..3]);
    let asked = scene.asked(&NAMES[..3]);
    scene.answer(&asked, -errno::EREMOTE, &[found(0), failed(errno::EREMOTE)]);
    assert_eq!(scene.outcome(0), Ok(file(0)));
    scene.alone(b"b");
    scene.alone(b"c");
}

/// A server that refuses a batch, or whose answer makes no sense, is asked for each name.
#[test]
fn after_an_answer_without_names_each_is_asked_for_alone() {
    for broken in [None, Some(&b""[..]), Some(&[7; 100]), Some(&Block::REPLY_MAGIC.to_le_bytes())] {
        let mut scene = Scene::new(&NAMES[..2]);
        let asked = scene.asked(&NAMES[..2]);
        match broken {
            None => scene.world.answer(&asked, -errno::EOPNOTSUPP, &ReplyBuffers::Bare),
            Some(reply) => {
                let reply = ReplyBuffers::MdsBatch(mds::BlockReply { reply });
                scene.world.answer(&asked, 0, &reply);
            }
        }
        scene.alone(b"a");
        scene.alone(b"b");
    }
}

/// A lock on another file than the answer is about is given back.
#[test]
fn a_lock_on_another_file_is_not_kept() {
    let mut scene = Scene::new(&NAMES[..2]);
    let asked = scene.asked(&NAMES[..2]);
    let mut wrong = found(1);
    wrong.reply.desc.resource = Resource::of_fid(file(9));
    scene.answer(&asked, 0, &[found(0), wrong]);
    assert_eq!((scene.outcome(0), scene.outcome(1)), (Ok(file(0)), Ok(file(1))));
    assert_eq!(scene.world.client.attr_counts().entries, 1);
    scene.world.act(Client::cancel_useless);
    scene.world.next(Kind::LdlmCancel);
}

/// A name that no file can have is not sent.
#[test]
fn several_names_that_are_not_known_go_together() {
    let mut scene = Scene::new(&NAMES[..2]);
    let asked = scene.asked(&NAMES[..2]);
    scene.answer(&asked, 0, &[found(0), found(1)]);
    let look = |scene: &mut Scene, names: &[&[u8]]| -> Vec<Slot<crate::Attr>> {
        let (slots, wanted) = wanted(names);
        scene.world.act(|client, turn| client.lookup_all(turn, Caller::ROOT, DIR, wanted));
        slots
    };
    let slots = look(&mut scene, &[b"c", b"a/b", b"d"]);
    let asked = scene.asked(&NAMES[2..]);
    scene.answer(&asked, 0, &[found(2), found(3)]);
    let fids: Vec<Result<Fid, i32>> = slots
        .iter()
        .map(|slot| slot.outcome().map(|attr| attr.fid).map_err(|error| error.errno()))
        .collect();
    assert_eq!(fids, [Ok(file(2)), Err(errno::EINVAL), Ok(file(3))]);
    assert!(scene.world.asked.is_empty());
}

/// Without a lock there is no batch.
#[test]
fn who_keeps_no_names_looks_each_up() {
    let mut world = World::caching(CacheTunables::NONE);
    let (_slots, wanted) = wanted(&NAMES[..2]);
    world.act(|client, turn| client.lookup_all(turn, Caller::ROOT, DIR, wanted));
    for _ in 0..2 {
        world.next(Kind::MdsGetattrName);
    }
}
