//! Files with mirrors; space and holes of files.

use lustrine_fswire::ldlm::{LayoutOp, LdlmReply};
use lustrine_fswire::ost::{Obdo, ObdoFlags};
use lustrine_fswire::rpc::{Lvb, dlm};

use super::*;
use crate::attr::FileOwner;
use crate::client::{Allocate, Changes, Seek};
use crate::error::{ClientError, errno};

const OWNER: FileOwner = FileOwner { uid: 7, gid: 8, projid: 0 };
/// States of a file with mirrors.
const RDONLY: u16 = 1;
const WRITE_PENDING: u16 = 2;
/// The component has objects; its data are old.
const INIT: u32 = 0x10;
const STALE: u32 = 1;

/// The layout of a file with two mirrors of one object each.
fn mirrors(state: u16, generation: u32, flags: [u32; 2]) -> Vec<u8> {
    let blobs = [plain_ea(&[0]), plain_ea(&[1])];
    let head = 32 + 2 * 48;
    let mut ea = Vec::new();
    ea.extend(0x0bd6_0bd0u32.to_le_bytes());
    ea.extend(((head + blobs[0].len() * 2) as u32).to_le_bytes());
    ea.extend(generation.to_le_bytes());
    ea.extend(state.to_le_bytes());
    ea.extend(2u16.to_le_bytes());
    ea.extend(1u16.to_le_bytes());
    ea.extend([0; 14]);
    for (index, flags) in flags.into_iter().enumerate() {
        ea.extend(((index as u32 + 1) << 16 | 1).to_le_bytes());
        ea.extend((INIT | flags).to_le_bytes());
        ea.extend(0u64.to_le_bytes());
        ea.extend(u64::MAX.to_le_bytes());
        ea.extend(((head + index * blobs[0].len()) as u32).to_le_bytes());
        ea.extend((blobs[0].len() as u32).to_le_bytes());
        ea.extend([0; 16]);
    }
    blobs.iter().for_each(|blob| ea.extend(blob));
    ea
}

fn parsed(ea: &[u8]) -> FileLayout {
    FileLayout::parse(ea).expect("a layout")
}

impl World {
    /// Answers a layout intent, which must be this.
    fn prepare(&mut self, op: LayoutOp, range: (u64, u64), ea: &[u8]) {
        let asked = self.next(Kind::EnqueueLayout);
        asked.with(|request| match request {
            Request::EnqueueLayout(request) => {
                assert_eq!(request.layout.op, op);
                assert_eq!((request.layout.start, request.layout.end), range);
            }
            other => panic!("{other:?}"),
        });
        let reply = dlm::EnqueueReply { reply: LdlmReply::default(), lvb: Some(Lvb(ea)) };
        self.answer(&asked, 0, &ReplyBuffers::EnqueueLayout(reply));
    }

    fn written(&mut self) -> (Asked, Obdo) {
        let asked = self.next(Kind::OstWrite);
        let body = asked.with(|request| match request {
            Request::OstWrite(write) => write.body,
            other => panic!("{other:?}"),
        });
        (asked, body)
    }
}

/// [LAYOUT-12].
#[test]
fn a_write_makes_the_other_mirrors_stale_first() {
    let mut world = World::new();
    let before = parsed(&mirrors(RDONLY, 2, [0, 0]));
    let slot = world.start(|client, turn, done| {
        client.write(turn, Caller::ROOT, (FILE, OWNER), &before, (5, b"data"[..].into()), done);
    });
    let stale = mirrors(WRITE_PENDING, 3, [STALE, 0]);
    world.prepare(LayoutOp::WRITE, (5, 9), &stale);
    // The mirror that is not stale, with the generation of its layout.
    let (asked, body) = world.written();
    assert_eq!((body.oi, body.layout_version), (object(1), 3));
    assert!(body.valid.contains(MdValid::LAYOUT_VERSION));
    // It was made equal meanwhile: the object is of a later layout.
    world.answer(&asked, -errno::ESTALE, &ReplyBuffers::Bare);
    world.prepare(LayoutOp::WRITE, (5, 9), &mirrors(WRITE_PENDING, 6, [0, STALE]));
    let (asked, body) = world.written();
    assert_eq!((body.oi, body.layout_version), (object(0), 6));
    world.answer(&asked, -28, &ReplyBuffers::Bare);
    assert_eq!(slot.outcome(), Err(ClientError::Errno(28)));
}

#[test]
fn a_file_that_is_prepared_is_written_at_once() {
    let mut world = World::new();
    let layout = parsed(&mirrors(WRITE_PENDING, 3, [0, STALE]));
    world.start(|client, turn, done| {
        client.write(turn, Caller::ROOT, (FILE, OWNER), &layout, (0, b"data"[..].into()), done);
    });
    assert_eq!(world.written().1.oi, object(0));
}

#[test]
fn a_layout_that_leaves_another_mirror_current_is_not_written_by() {
    let mut world = World::new();
    let layout = mirrors(RDONLY, 2, [0, 0]);
    let slot = world.start(|client, turn, done| {
        client.write(
            turn,
            Caller::ROOT,
            (FILE, OWNER),
            &parsed(&layout),
            (0, b"x"[..].into()),
            done,
        );
    });
    world.prepare(LayoutOp::WRITE, (0, 1), &layout);
    assert!(matches!(slot.outcome(), Err(ClientError::Layout(_))));
    assert!(world.asked.iter().all(|asked| asked.kind != Kind::OstWrite));
}

#[test]
fn a_truncation_makes_the_other_mirrors_stale_first() {
    let mut world = World::new();
    let ea = mirrors(RDONLY, 2, [0, 0]);
    let changes = Changes { size: Some(100), ..Changes::default() };
    let _slot = world.start(|client, turn, done| {
        client.set_attributes(turn, Caller::ROOT, FILE, changes, done);
    });
    world.give_attributes(file_body(0o100_644), &ea);
    let asked = world.next(Kind::ReintSetattr);
    let body = file_body(0o100_644);
    let reply = mds::ReintSetattrReply { body, ea: Ea::NONE, acl: AclBytes(&[]) };
    world.answer(&asked, 0, &ReplyBuffers::ReintSetattr(reply));
    world.give_attributes(file_body(0o100_644), &ea);
    world.prepare(LayoutOp::WRITE, (99, u64::MAX), &mirrors(WRITE_PENDING, 3, [0, STALE]));
    let punched = world.next(Kind::OstPunch).object();
    assert_eq!((punched.oi, punched.size, punched.layout_version), (object(0), 100, 3));
    assert!(world.asked.is_empty());
}

/// [OST-15].
#[test]
fn space_is_reserved_on_the_objects_of_a_range() {
    let mut world = World::new();
    let slot = world.start(|client, turn, done| {
        let range = (65536 - 10, 30);
        let file = (FILE, OWNER);
        client.allocate(turn, Caller::ROOT, file, &striped(), Allocate::PunchHole, range, done);
    });
    for (stripe, from, to) in [(0, 65526, 65536), (1, 0, 20)] {
        let asked = world.next(Kind::OstFallocate);
        let body = asked.with(|request| match request {
            Request::OstFallocate(object) => object.body,
            other => panic!("{other:?}"),
        });
        assert_eq!((body.oi, body.size, body.blocks), (object(stripe), from, to));
        assert_eq!((body.nlink, body.uid, body.gid), (3, 7, 8));
        assert!(body.flags.contains(ObdoFlags::SRVLOCK));
        world.answer(&asked, 0, &ReplyBuffers::OstFallocate(object_reply(Obdo::default())));
    }
    assert_eq!(slot.outcome(), Ok(()));
}

#[test]
fn ranges_that_no_file_can_have_are_refused() {
    let mut world = World::new();
    for (range, errno) in
        [((5, 0), errno::EINVAL), ((1 << 63, 1), errno::EFBIG), ((u64::MAX, 2), errno::EFBIG)]
    {
        let slot = world.start(|client, turn, done| {
            let (file, what) = ((FILE, OWNER), Allocate::Reserve);
            client.allocate(turn, Caller::ROOT, file, &striped(), what, range, done);
        });
        assert_eq!(slot.outcome(), Err(ClientError::Errno(errno)));
    }
    assert!(world.asked.is_empty());
}

#[test]
fn components_get_their_objects_before_they_get_space() {
    let mut world = World::new();
    let before = parsed(&composite_ea(&[(65536, &[0]), (u64::MAX, &[])]));
    let _slot = world.start(|client, turn, done| {
        let (file, what, range) = ((FILE, OWNER), Allocate::KeepSize, (0, 70_000));
        client.allocate(turn, Caller::ROOT, file, &before, what, range, done);
    });
    let after = composite_ea(&[(65536, &[0]), (u64::MAX, &[1])]);
    world.prepare(LayoutOp::WRITE, (0, 70_000), &after);
    world.next(Kind::OstFallocate);
    world.next(Kind::OstFallocate);
}

/// Its data would stay.
#[test]
fn a_hole_is_made_in_what_another_client_has_written_since() {
    let mut world = World::new();
    let opened = parsed(&composite_ea(&[(65536, &[0]), (u64::MAX, &[])]));
    let slot = world.start(|client, turn, done| {
        let (file, what, range) = ((FILE, OWNER), Allocate::PunchHole, (70_000, 100));
        client.allocate(turn, Caller::ROOT, file, &opened, what, range, done);
    });
    let now = composite_ea(&[(65536, &[0]), (u64::MAX, &[1])]);
    world.give_attributes(file_body(0o100_644), &now);
    let asked = world.next(Kind::OstFallocate);
    world.answer(&asked, 0, &ReplyBuffers::OstFallocate(object_reply(Obdo::default())));
    assert_eq!(slot.outcome(), Ok(()));
}

impl World {
    /// Seeks in a file of two stripes whose objects have these sizes, and answer this.
    fn sought(&mut self, from: u64, what: Seek, sizes: [u64; 2], answers: &[i64]) -> Outcome<u64> {
        let slot = self.start(|client, turn, done| {
            client.seek(turn, Caller::ROOT, FILE, &striped(), (from, what), done);
        });
        for size in sizes {
            let asked = self.next(Kind::OstGetattr);
            let body = Obdo { valid: MdValid::SIZE, size, ..Obdo::default() };
            self.answer(&asked, 0, &ReplyBuffers::OstGetattr(object_reply(body)));
        }
        for answer in answers {
            let asked = self.next(Kind::OstSeek);
            let body = Obdo { size: *answer as u64, ..Obdo::default() };
            self.answer(&asked, 0, &ReplyBuffers::OstSeek(ost::ObjectOnly { body }));
        }
        assert!(self.asked.is_empty());
        slot.outcome()
    }
}

/// [OST-16].
#[test]
fn data_and_holes_are_found_by_the_objects() {
    const STRIPE: u64 = 65536;
    let mut world = World::new();
    let sizes = [3 * STRIPE, 2 * STRIPE];
    // Byte 100 of the second row of the first object; the second one has data before.
    let at = world.sought(0, Seek::Data, sizes, &[STRIPE as i64 + 100, 4096]);
    assert_eq!(at, Ok(STRIPE + 4096));
    // No more data in the first one.
    let at = world.sought(2 * STRIPE, Seek::Data, sizes, &[-6, STRIPE as i64]);
    assert_eq!(at, Ok(3 * STRIPE));
    assert_eq!(world.sought(2 * STRIPE, Seek::Data, sizes, &[-6, -6]), errno_of(errno::ENXIO));
    // The second one ends before the first: the file has a hole there.
    let at = world.sought(0, Seek::Hole, sizes, &[3 * STRIPE as i64, 2 * STRIPE as i64]);
    assert_eq!(at, Ok(5 * STRIPE));
    // The end of the file, and behind it.
    let at = world.sought(0, Seek::Hole, [10, 0], &[10]);
    assert_eq!(at, Ok(10));
    assert_eq!(world.sought(10, Seek::Hole, [10, 0], &[]), errno_of(errno::ENXIO));
}

fn errno_of<T>(errno: i32) -> Outcome<T> {
    Err(ClientError::Errno(errno))
}

#[test]
fn components_without_objects_are_holes() {
    let mut world = World::new();
    let layout = parsed(&composite_ea(&[(65536, &[0]), (131_072, &[]), (u64::MAX, &[1])]));
    let slot = world.start(|client, turn, done| {
        client.seek(turn, Caller::ROOT, FILE, &layout, (0, Seek::Hole), done);
    });
    for size in [65536, 200_000] {
        let asked = world.next(Kind::OstGetattr);
        let body = Obdo { valid: MdValid::SIZE, size, ..Obdo::default() };
        world.answer(&asked, 0, &ReplyBuffers::OstGetattr(object_reply(body)));
    }
    for at in [65536, 200_000] {
        let asked = world.next(Kind::OstSeek);
        let body = Obdo { size: at, ..Obdo::default() };
        world.answer(&asked, 0, &ReplyBuffers::OstSeek(ost::ObjectOnly { body }));
    }
    assert_eq!(slot.outcome(), Ok(65536));
}
