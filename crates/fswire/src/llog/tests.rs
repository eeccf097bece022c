use proptest::prelude::*;

use super::*;
use crate::fid::Fid;

/// The record of one command, as in a log [MGS-8].
fn add_uuid() -> Vec<u8> {
    let mut config = LustreCfg::new(CfgCommand::ADD_UUID, &[b"", b"192.168.0.1@tcp\0"]);
    config.header.nid = 0x0002_0000_c0a8_0001;
    let mut payload = Vec::new();
    config.write(&mut Writer::new(&mut payload));
    let mut out = Vec::new();
    let record = Record { index: 4, kind: RecordKind::CONFIG, id: 0, payload: &payload };
    record.write(&mut Writer::new(&mut out));
    out
}

#[test]
fn a_record_has_its_bytes() {
    let bytes = add_uuid();
    assert_eq!(bytes.len(), 80);
    assert_eq!(bytes[..12], [0x50, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0x62, 0x10]);
    assert_eq!(bytes[16..24], [1, 0, 0xf6, 0x1c, 5, 0xf0, 0x0c, 0]);
    assert_eq!(bytes[48..56], [0, 0, 0, 0, 0x10, 0, 0, 0]);
    assert_eq!(bytes[72..80], [0x50, 0, 0, 0, 4, 0, 0, 0]);
    let record = Chunk(&bytes).records().next().unwrap().unwrap();
    let config = LustreCfg::parse(record.payload).unwrap();
    assert_eq!(config.nid().unwrap().to_string(), "192.168.0.1@tcp");
    assert_eq!(config.text(1).as_bytes(), b"192.168.0.1@tcp");
    assert!(config.text(7).is_none() && config.header.command.is_required());
}

#[test]
fn a_chunk_ends_where_zeros_follow() {
    let mut bytes = [add_uuid(), add_uuid()].concat();
    bytes.resize(CHUNK_SIZE, 0);
    let mut records = Chunk(&bytes).records();
    assert_eq!(records.by_ref().filter(|record| record.is_ok()).count(), 2);
    assert_eq!(records.rest().len(), CHUNK_SIZE - 160);
}

#[test]
fn malformed_records_are_errors() {
    let last = |change: fn(&mut [u8])| {
        let mut bytes = [add_uuid(), add_uuid()].concat();
        change(&mut bytes);
        Chunk(&bytes).records().last().unwrap().unwrap_err()
    };
    assert_eq!(last(|b| b[80] = 16), LlogError::BadLength { at: 80, len: 16 });
    assert_eq!(last(|b| b[0] = 81), LlogError::BadLength { at: 0, len: 81 });
    assert_eq!(last(|b| b[83] = 1), LlogError::BadLength { at: 80, len: 0x0100_0050 });
    assert_eq!(last(|b| b[156] = 9), LlogError::BadTail(80));
    let config = |change: fn(&mut [u8])| {
        let mut bytes = add_uuid();
        change(&mut bytes);
        LustreCfg::parse(&bytes[16..72]).unwrap_err()
    };
    assert_eq!(config(|b| b[16] = 0), CfgError::BadVersion(0x1cf6_0000));
    assert_eq!(config(|b| b[44] = 8), CfgError::TooManyBuffers(8));
    assert!(matches!(config(|b| b[55] = 0xff), CfgError::Short(_)));
}

/// [MGS-6]
#[test]
fn a_header_says_what_is_live() {
    let mut bitmap = vec![0; 8096];
    bitmap[0] = 0b1011;
    let fields = LlogHeaderFields {
        record: RecordHeader { len: 8192, kind: RecordKind::HEADER, ..RecordHeader::default() },
        count: 3,
        bitmap_offset: 88,
        flags: LlogFlags::PLAIN,
        ..LlogHeaderFields::default()
    };
    let header = LlogHeader { fields, bitmap: &bitmap, last_index: 5 };
    let mut bytes = Vec::new();
    header.write(&mut Writer::new(&mut bytes));
    assert_eq!((bytes.len(), LlogHeader::parse(&bytes)), (CHUNK_SIZE, Ok(header)));
    assert_eq!([0, 1, 2, 3, 70_000].map(|i| header.is_live(i)), [true, true, false, true, false]);
    assert_eq!(LlogHeader::parse(&bytes[1..]), Err(LlogError::TooShort(8191)));
}

/// [MGS-9]
#[test]
fn rubbish_behind_the_texts_of_markers_is_kept() {
    let mut bytes = [0x5a; 160];
    bytes[12..16].fill(0);
    bytes[4..8].copy_from_slice(&[1, 0, 0, 0]);
    bytes[32..36].copy_from_slice(b"lab\0");
    let marker = Marker::parse(&bytes).unwrap();
    assert_eq!((marker.flags, marker.target.as_bytes()), (MarkerFlags::START, &b"lab"[..]));
    assert_eq!(marker.to_bytes(), bytes);
}

/// [MDT-17]
#[test]
fn a_change_has_its_parts() {
    let header = ChangelogHeader {
        namelen: 7,
        flags: ChangelogFlags::RENAME | ChangelogFlags::JOBID | ChangelogFlags::EXTRA,
        time: 5 << 30 | 7,
        target: Fid::ROOT,
        ..ChangelogHeader::default()
    };
    let change = Changelog {
        header,
        rename: Some(ChangelogRename::default()),
        jobid: Some(FixedText::new(b"mv.0").unwrap()),
        extra: Some(ChangelogExtra::UID_GID | ChangelogExtra::OPEN),
        user: Some(ChangelogUser { uid: 1, gid: 2 }),
        nid: None,
        open: Some(3),
        xattr: None,
        names: b"new\0old",
    };
    let mut bytes = Vec::new();
    change.write(&mut Writer::new(&mut bytes));
    assert_eq!(bytes.len(), 64 + 32 + 32 + 8 + 16 + 4 + 7 + 5);
    assert_eq!(Changelog::parse(&bytes), Ok(change));
    assert_eq!((change.name(), change.time_ns()), (&b"new"[..], 5_000_000_007));
    assert!(Changelog::parse(&bytes[..162]).is_err());
}

proptest! {
    #[test]
    fn any_chunk_ends(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        for record in Chunk(&bytes).records().flatten() {
            let _ = record.describe();
        }
        let _ = (LustreCfg::parse(&bytes), Changelog::parse(&bytes), LlogHeader::parse(&bytes));
    }

    #[test]
    fn changed_records_do_not_panic(
        changes in prop::collection::vec((0usize..80, any::<u8>()), 1..6),
    ) {
        let mut bytes = add_uuid();
        changes.into_iter().for_each(|(at, value)| bytes[at] = value);
        let _ = Chunk(&bytes).describe();
    }

    #[test]
    fn commands_come_back(arguments in prop::collection::vec(any::<Vec<u8>>(), 0..=7)) {
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let config = LustreCfg::new(CfgCommand::SETUP, &arguments);
        let mut bytes = Vec::new();
        config.write(&mut Writer::new(&mut bytes));
        prop_assert_eq!(bytes.len() % 8, 0);
        prop_assert_eq!(LustreCfg::parse(&bytes), Ok(config));
    }
}
