use proptest::prelude::*;

use super::*;

/// A long NID, byte by byte [MGS-13].
fn entry() -> Vec<u8> {
    let mut bytes = vec![0; 44];
    bytes[0] = 3;
    bytes[8] = 17;
    bytes[16] = 44;
    bytes[20..24].copy_from_slice(&[2, 1, 20, 1]);
    bytes[24..32].copy_from_slice(&[0, 2, 0, 0, 0xc0, 0xa8, 0, 1]);
    bytes
}

#[test]
fn a_table_is_read() {
    let bytes = [entry(), entry()].concat();
    let entries: Vec<_> = nid_table(&bytes).map(Result::unwrap).collect();
    assert_eq!(entries.len(), 2);
    let header = entries[0].header;
    assert_eq!((header.version, header.instance, header.kind), (3, 17, TargetKind::OST));
    let nids: Vec<_> = entries[0].nids().map(|nid| nid.to_string()).collect();
    assert_eq!(nids, ["192.168.0.1@tcp"]);
    let mut again = Vec::new();
    entries.iter().for_each(|entry| entry.write(&mut Writer::new(&mut again)));
    assert_eq!(again, bytes);
}

#[test]
fn malformed_entries_are_errors() {
    let last = |change: fn(&mut [u8])| {
        let mut bytes = [entry(), entry()].concat();
        change(&mut bytes);
        nid_table(&bytes).last().unwrap().unwrap_err()
    };
    assert_eq!(last(|b| b[67] = 0), NidTableError::NoNids(44));
    assert_eq!(last(|b| b[66] = 0), NidTableError::BadNidSize { at: 44, size: 0 });
    assert_eq!(last(|b| b[60] = 43), NidTableError::BadLength { at: 44, len: 43 });
    assert_eq!(last(|b| b[60] = 45), NidTableError::BadLength { at: 44, len: 45 });
    assert_eq!(last(|b| b[19] = 1), NidTableError::BadLength { at: 0, len: 0x0100_002c });
    assert_eq!(nid_table(&entry()[..23]).last(), Some(Err(NidTableError::Short(0))));
    assert_eq!(nid_table(&[]).count(), 0);
}

/// [MGS-12]
#[test]
fn the_room_for_a_table() {
    let room = |bits, units| ConfigBody { bits, units, ..ConfigBody::default() }.room();
    assert_eq!(room(12, 256), Some(1 << 20));
    assert_eq!((room(12, 257), room(32, 1), room(12, u32::MAX)), (None, None, None));
}

/// [MGS-11]
#[test]
fn a_target_comes_back() {
    let texts = [FixedText::new(b"10.0.0.2@tcp").unwrap()];
    let head = TargetInfoHead {
        flags: TargetFlags::OST | TargetFlags::LARGE_NID,
        svname: FixedText::new(b"lab-OST0000").unwrap(),
        ..TargetInfoHead::default()
    };
    let info = TargetInfo { head, params: b"a=b", nid_texts: texts.as_slice().into() };
    let mut bytes = Vec::new();
    info.write(&mut Writer::new(&mut bytes));
    assert_eq!(bytes.len(), 4544 + 64);
    let parsed = TargetInfo::parse(&bytes).unwrap();
    assert_eq!(
        (parsed.head, parsed.params_text(), parsed.nid_texts),
        (head, &b"a=b"[..], info.nid_texts)
    );
    assert!(TargetInfo::parse(&bytes[..4543]).is_err());
}

proptest! {
    #[test]
    fn any_table_ends(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for at in (16..bytes.len().saturating_sub(8)).step_by(24) {
            bytes[at..at + 4].copy_from_slice(&[24 + 8, 0, 0, 0]);
            bytes[at + 6] = 8;
        }
        for entry in nid_table(&bytes).flatten() {
            prop_assert!(entry.nids().count() <= usize::from(entry.header.nid_count));
        }
    }
}
