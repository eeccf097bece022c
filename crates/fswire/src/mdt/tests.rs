use super::*;
use crate::codec::{Wire, Writer};
use crate::fid::{Fid, Handle};

/// A mkdir, byte by byte [MDT-5].
#[test]
fn a_create_record_has_its_bytes() {
    let record = CreateRecord {
        op: ReintOp::CREATE,
        fsuid: 1000,
        layout_version: 1,
        fsgid: 1000,
        suppgid1: u32::MAX,
        suppgid2: u32::MAX,
        parent: Fid::ROOT,
        fid: Fid::new(0x2_0000_0402, 5),
        time: 1_700_000_000,
        mode: 0o40755,
        flags: OpenFlags::MKDIR_LMV,
        umask: 0o22,
        ..CreateRecord::default()
    };
    let rows: [[u64; 2]; 8] = [
        [0x2, 0x1_0000_03e8],
        [0x3e8, 0xffff_ffff],
        [0xffff_ffff, 0x2_0000_0007],
        [0x1, 0x2_0000_0402],
        [0x5, 0],
        [0x6553_f100, 0],
        [0, 0],
        [0x41ed, 0x40_0000_0000],
    ];
    let mut expected: Vec<u8> = rows.as_flattened().iter().flat_map(|w| w.to_le_bytes()).collect();
    expected.extend(0x12u64.to_le_bytes());
    assert_eq!(record.to_bytes(), expected);
    assert_eq!(Reint::parse(&expected), Ok(Reint::Create(record)));
    assert_eq!(Reint::Create(record).to_bytes(), expected);
}

#[test]
fn records_of_unknown_kind_keep_their_bytes() {
    let mut bytes = [7; 136];
    bytes[..4].copy_from_slice(&99u32.to_le_bytes());
    let record = Reint::parse(&bytes).unwrap();
    assert_eq!((record, record.op()), (Reint::Unknown(bytes), ReintOp(99)));
    assert_eq!(record.to_bytes(), bytes);
    for op in ReintOp::ALL {
        bytes = [0; 136];
        bytes[..4].copy_from_slice(&op.0.to_le_bytes());
        let record = Reint::parse(&bytes).unwrap();
        assert_eq!((record.op(), record.to_bytes()), (*op, bytes.to_vec()));
    }
}

/// [MDT-4]
#[test]
fn what_kernels_ask_for() {
    let wanted = MdValid::EASIZE
        | MdValid::MODEASIZE
        | MdValid::DIREA
        | MdValid::MEA
        | MdValid::ACL
        | MdValid::DEFAULT_MEA;
    assert_eq!(MdValid::GETATTR | wanted, MdValid::INTENT_GETATTR);
}

#[test]
fn access_control_lists_are_read_and_written() {
    let entries = [
        AclEntry { tag: AclTag::USER_OBJ, perm: 6, id: u32::MAX },
        AclEntry { tag: AclTag::USER, perm: 4, id: 1000 },
    ];
    let acl = Acl { version: Acl::VERSION, entries: entries.as_slice().into() };
    let mut bytes = Vec::new();
    acl.write(&mut Writer::new(&mut bytes));
    assert_eq!((bytes.len(), acl.len()), (20, 20));
    assert_eq!(Acl::parse(&bytes), Some(acl));
    assert_eq!(Acl::parse(&bytes[..19]), None);
    assert_eq!(Acl::parse(&[0; 260]), None);
    assert_eq!(Acl::parse(&[]), None);
}

/// [MDT-16]
#[test]
fn the_path_of_a_fid() {
    let mut key = FidPath::KEY.0.to_vec();
    key.extend(Fid::ROOT.to_bytes());
    key.extend(u64::MAX.to_le_bytes());
    key.extend(1u32.to_le_bytes());
    key.extend(4096u32.to_le_bytes());
    key.extend(Fid::ROOT.to_bytes());
    let path = FidPath::parse_key(&key).unwrap();
    assert_eq!(
        (path.fid, path.linkno, path.room, path.root()),
        (Fid::ROOT, 1, 4096, Some(Fid::ROOT))
    );
    let value = [&key[16..48], b"a/b\0\0\0"].concat();
    assert_eq!(FidPath::parse_value(&value).unwrap().path().as_bytes(), b"a/b");
    assert_eq!(FidPath::parse_key(b"other"), None);
}

#[test]
fn a_close_gives_back_its_handle() {
    let epoch = MdtEpoch { open_handle: Handle(7) };
    assert_eq!(epoch.to_bytes()[..9], [7, 0, 0, 0, 0, 0, 0, 0, 0]);
}
