use super::*;

/// [MDT-1]
#[test]
fn sequences_have_their_kinds() {
    let kind = |seq| Fid::new(seq, 1).kind();
    assert_eq!(kind(0), SeqKind::OldObject);
    assert_eq!(kind(1), SeqKind::Special);
    assert_eq!(kind(12), SeqKind::Igif);
    assert_eq!(kind(0x1_0001_0000), SeqKind::Idif);
    assert_eq!(Fid::ROOT.kind(), SeqKind::Special);
    assert_eq!(kind(Fid::SEQ_NORMAL), SeqKind::Normal);
    assert!(Fid::ROOT.is_sane() && !Fid::ZERO.is_sane() && !Fid::new(Fid::SEQ_NORMAL, 0).is_sane());
}

#[test]
fn a_fid_is_printed_and_read() {
    let fid = Fid { seq: 0x2_0000_0402, oid: 5, ver: 0 };
    assert_eq!(fid.to_string(), "[0x200000402:0x5:0x0]");
    assert_eq!("[0x200000402:0x5:0x0]".parse(), Ok(fid));
    assert_eq!("0x200000402:0x5:0x0".parse(), Ok(fid));
    for bad in
        ["", "[0x1:0x2]", "[0x1:0x2:0x3:0x4]", "[1:2:3]", "[0x1:0x100000000:0x0]", "[0x1:0x2:0x3"]
    {
        assert_eq!(bad.parse::<Fid>(), Err(FidError), "{bad}");
    }
}

#[test]
fn old_objects_have_one_number() {
    assert_eq!(Fid { seq: 77, oid: 0, ver: 0 }.old_object(), Some(77));
    assert_eq!(Fid::new(0x2_4000_0401, 2).old_object(), None);
}

#[test]
fn inode_numbers_are_those_of_kernels() {
    assert_eq!(Fid::ROOT.inode(), (0x2_0000_0007u64 << 24) + 1);
    assert_eq!(Fid::new(1234, 5).inode(), 1234);
}

#[test]
fn a_range_ends_before_its_end() {
    let range = SeqRange { start: 10, end: 12, ..SeqRange::default() };
    assert_eq!([9, 10, 11, 12].map(|seq| range.contains(seq)), [false, true, true, false]);
}
