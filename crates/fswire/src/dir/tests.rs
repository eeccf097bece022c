use proptest::prelude::*;

use super::*;

fn page(names: &[&[u8]]) -> [u8; PAGE_SIZE] {
    let mut page = PageBuilder::new(0);
    for (index, name) in names.iter().enumerate() {
        let index = index as u32;
        assert!(page.push(Fid::new(0x2_0000_0402, index + 1), index.into(), name, 0x8000));
    }
    page.finish(HASH_END, PageFlags::empty())
}

/// Two entries, byte by byte [MDT-14].
#[test]
fn a_page_has_its_bytes() {
    let mut builder = PageBuilder::new(0);
    assert!(builder.push(Fid::new(0x2_0000_0402, 5), 0x1122_3344_5566_7788, b"foo", 0x8000));
    assert!(builder.push(Fid::new(0x2_0000_0402, 6), 0x2122_3344_5566_7788, b"dir1", 0x4000));
    let page = builder.finish(HASH_END, PageFlags::empty());
    let words: [u64; 13] = [
        0,
        HASH_END,
        0,
        0x2_0000_0402,
        5,
        0x1122_3344_5566_7788,
        0x0000_0007_0003_0028,
        0x0000_8000_006f_6f66,
        0x2_0000_0402,
        6,
        0x2122_3344_5566_7788,
        0x0000_0007_0004_0000,
        0x0000_4000_3172_6964,
    ];
    let expected: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(page[..104], expected);
    assert_eq!(page[104..], [0; PAGE_SIZE - 104]);
}

#[test]
fn entries_come_back() {
    let bytes = page(&[b".", b"..", b"a file", &[b'x'; 255]]);
    let mut all = pages(&bytes).unwrap();
    let page = all.next().unwrap();
    let names: Vec<_> = page.entries().map(|entry| entry.unwrap().name).collect();
    assert_eq!(names, [&b"."[..], b"..", b"a file", &[b'x'; 255]]);
    assert!(page.entries().all(|entry| entry.unwrap().file_type == Some(0x8000)));
    assert_eq!(pages(&bytes[1..]).err(), Some(DirError::BadLength(4095)));
}

#[test]
fn an_empty_page_has_no_entries() {
    let bytes = page(&[]);
    let page = Page::new(&bytes);
    assert!(page.header.flags.contains(PageFlags::EMPTY));
    assert_eq!(page.entries().count(), 0);
}

#[test]
fn a_full_page_takes_no_more() {
    let mut builder = PageBuilder::new(7);
    let mut count = 0;
    while builder.push(Fid::ROOT, count, b"sixteen letters.", 0o100_000) {
        count += 1;
    }
    assert_eq!(count as usize, (PAGE_SIZE - 24) / reclen(16));
    let bytes = builder.finish(count, PageFlags::COLLIDE);
    assert_eq!(Page::new(&bytes).entries().count(), count as usize);
    assert_eq!(Page::new(&bytes).header.flags, PageFlags::COLLIDE);
}

#[test]
fn malformed_entries_are_errors() {
    let first = |change: fn(&mut [u8])| {
        let mut bytes = page(&[b"foo", b"bar"]);
        change(&mut bytes);
        let found: Vec<_> = Page::new(&bytes).entries().collect();
        found.last().unwrap().unwrap_err()
    };
    assert_eq!(first(|b| b[48] = 8), DirError::BadReclen(24));
    assert_eq!(first(|b| b[50] = 0), DirError::BadName(24));
    assert_eq!(first(|b| b[56] = b'/'), DirError::BadName(24));
    assert_eq!(first(|b| b[57] = 0), DirError::BadName(24));
    assert_eq!(first(|b| b[51] = 0xff), DirError::EntryTooLong(24));
    assert_eq!(first(|b| b[49] = 0xff), DirError::EntryTooLong(24));
    // Far enough that no entry fits there.
    assert_eq!(
        first(|b| b[48..50].copy_from_slice(&4060u16.to_le_bytes())),
        DirError::EntryTooLong(4084)
    );
}

proptest! {
    #[test]
    fn any_page_ends(mut bytes in prop::collection::vec(any::<u8>(), PAGE_SIZE), short: bool) {
        if short {
            // Small lengths of records, so that many entries are visited.
            bytes.chunks_mut(8).for_each(|word| word[1..].fill(0));
        }
        for page in pages(&bytes).unwrap() {
            prop_assert!(page.entries().count() <= PAGE_SIZE / 33 + 1);
        }
        let _ = describe(&bytes);
    }
}
