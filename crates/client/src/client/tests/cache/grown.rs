//! Files that get objects while others read and write them.

use super::*;

/// The layouts of a file before and after another client has written behind its first component.
fn grown() -> [Vec<u8>; 2] {
    [&[][..], &[1]].map(|objects| composite_ea(&[(65536, &[0]), (u64::MAX, objects)]))
}

/// Answers everything, and the metadata server's part with this layout.
fn serve_with(world: &mut World, osts: &mut Osts, layout: &[u8]) {
    while let Some(asked) = world.asked.pop_front() {
        if asked.kind == Kind::MdsGetattr {
            world.asked.push_front(asked);
            world.give_attributes(file_body(0o100_644), layout);
        } else {
            osts.answer(world, &asked);
        }
    }
}

#[test]
fn the_end_of_an_open_file_can_be_in_a_component_that_was_made_since() {
    let [before, after] = grown();
    let (mut world, mut osts) = scene();
    osts.objects.insert(0, vec![1; 1000]);
    osts.objects.insert(1, [vec![0; 65_536], vec![2; 10]].concat());
    let known = FileLayout::parse(&before).unwrap();
    let read = world.start(|client, turn, done| {
        let then: Done<(Bytes, Option<FileLayout>)> = Box::new(move |client, turn, read| {
            done(client, turn, read.map(|(bytes, layout)| (bytes.to_vec(), layout)));
        });
        client.read_to_end(turn, Caller::ROOT, FILE, &known, (0, 2000), then);
    });
    serve_with(&mut world, &mut osts, &after);
    let now = FileLayout::parse(&after).unwrap();
    let expected = [vec![1; 1000], vec![0; 1000]].concat();
    assert_eq!(read.outcome(), Ok((expected, Some(now.clone()))));
    let known = FileLayout::parse(&before).unwrap();
    let appended = world.start(|client, turn, done| {
        let bytes = Bytes::from_static(b"end");
        client.append(turn, Caller::ROOT, (FILE, OWNER), known, bytes, done);
    });
    serve_with(&mut world, &mut osts, &after);
    let appended = appended.outcome().unwrap();
    assert_eq!((appended.offset, appended.layout), (65_546, Some(now)));
}

/// With the layout of now nothing is asked for twice.
#[test]
fn the_end_of_a_file_that_did_not_grow_is_found_with_its_layout() {
    let [before, _] = grown();
    let (mut world, mut osts) = scene();
    osts.objects.insert(0, vec![1; 1000]);
    let known = FileLayout::parse(&before).unwrap();
    let layout = known.clone();
    let appended = world.start(|client, turn, done| {
        let bytes = Bytes::from_static(b"end");
        client.append(turn, Caller::ROOT, (FILE, OWNER), layout, bytes, done);
    });
    serve_with(&mut world, &mut osts, &before);
    let appended = appended.outcome().unwrap();
    assert_eq!((appended.offset, appended.layout), (1000, None));
    assert_eq!(osts.seen, [Kind::Enqueue]);
    let read = world.start(|client, turn, done| {
        client.read_to_end(turn, Caller::ROOT, FILE, &known, (900, 2000), done);
    });
    serve_with(&mut world, &mut osts, &before);
    let (bytes, layout) = read.outcome().unwrap();
    assert_eq!((&bytes[..], layout), (&[&[1; 100][..], b"end"].concat()[..], None));
}

/// A server of objects evicts who keeps a lock that it wants back, and the metadata server can be
/// away for long.
#[test]
fn an_append_that_waits_for_the_layout_gives_its_lock_to_others() {
    let [layout, _] = grown();
    let (mut world, mut osts) = scene();
    osts.objects.insert(0, vec![1; 1000]);
    let known = FileLayout::parse(&layout).unwrap();
    let appended = world.start(|client, turn, done| {
        let bytes = Bytes::from_static(b"end");
        client.append(turn, Caller::ROOT, (FILE, OWNER), known, bytes, done);
    });
    // Once: after that it keeps the lock, so that it comes to an end.
    for time in 1..=2 {
        let enqueue = world.next(Kind::Enqueue);
        osts.answer(&mut world, &enqueue);
        let getattr = world.next(Kind::MdsGetattr);
        osts.call_back(&mut world, 0, LockFlags::empty());
        if time < 2 {
            let cancel = world.next(Kind::LdlmCancel);
            osts.answer(&mut world, &cancel);
            // Another client appends meanwhile.
            osts.objects.insert(0, vec![1; 1000 + time]);
        }
        assert!(world.asked.is_empty() && appended.is_pending(), "{time}");
        world.asked.push_front(getattr);
        world.give_attributes(file_body(0o100_644), &layout);
    }
    osts.serve(&mut world);
    assert_eq!(appended.outcome().map(|appended| appended.offset), Ok(1001));
    assert_eq!(osts.objects[&0].len(), 1004);
}
