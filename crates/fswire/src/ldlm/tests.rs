use super::*;
use crate::codec::{Wire, Writer};
use crate::fid::{Fid, Handle};

/// The table of modes, row by row: granted, then what may be asked [LOCK-2].
#[test]
fn modes_are_compatible_as_the_table_says() {
    use LockMode as M;
    let modes = [M::EX, M::PW, M::PR, M::CW, M::CR, M::NL, M::GROUP, M::COS];
    let table = [
        (M::EX, "-----+--"),
        (M::PW, "----++--"),
        (M::PR, "--+-++--"),
        (M::CW, "---+++--"),
        (M::CR, "-+++++--"),
        (M::NL, "++++++++"),
        (M::GROUP, "-----++-"),
        (M::COS, "-----+-+"),
    ];
    for (granted, row) in table {
        for (asked, cell) in modes.into_iter().zip(row.chars()) {
            assert_eq!(granted.is_compatible(asked), cell == '+', "{granted} {asked}");
            assert_eq!(asked.is_compatible(granted), granted.is_compatible(asked));
        }
    }
    assert!(!M::NONE.is_compatible(M::NL) && !M(3).is_compatible(M::NL));
    assert!(M::GROUP.is_valid_request() && !M::COS.is_valid_request() && !M(3).is_valid_request());
}

/// [LOCK-4]
#[test]
fn resources_have_their_names() {
    let fid = Fid { seq: 0x2_8000_0401, oid: 0x1f3, ver: 2 };
    assert_eq!(Resource::of_fid(fid).0, [0x2_8000_0401, 0x2_0000_01f3, 0, 0]);
    assert_eq!(Resource::of_fid(fid).fid(), fid);
    assert_eq!(Resource::of_flock(fid).0[3], 12);
    let old = Fid { seq: 9, oid: 0, ver: 0 };
    assert_eq!(Resource::of_object(old).0, [9, 0, 0, 0]);
    assert_eq!(Resource::of_config(b"lab", 2).0, [0x0062_616c, 2, 0, 0]);
    assert_eq!(Resource::of_config(b"longer than 8", 0).0[0], u64::from_le_bytes(*b"longer t"));
}

#[test]
fn policies_intersect_by_what_they_cover() {
    let extent = |start, end| Policy::Extent(Extent { start, end, gid: 0 });
    assert!(extent(0, 4095).intersects(&extent(4095, 5000)));
    assert!(!extent(0, 4095).intersects(&extent(4096, 5000)));
    let bits = |bits| Policy::Ibits(IbitsPolicy { bits, ..IbitsPolicy::default() });
    assert!(!bits(Ibits::LOOKUP).intersects(&bits(Ibits::UPDATE | Ibits::DOM)));
    assert!(bits(Ibits::FULL).intersects(&bits(Ibits::DOM)));
    assert!(Policy::default().intersects(&Policy::default()));
}

/// An extent lock, byte by byte [LOCK-7].
#[test]
fn an_enqueue_has_its_bytes() {
    let desc = LockDesc {
        kind: LockType::EXTENT,
        resource: Resource::of_fid(Fid::new(0x2_8000_0401, 0x1f3)),
        req_mode: LockMode::PW,
        granted_mode: LockMode::NONE,
        policy: Policy::Extent(Extent::WHOLE),
    };
    let handles = [Handle(0x1122_3344_5566_7788)];
    let request = LdlmRequest {
        flags: LockFlags::empty(),
        count: 1,
        desc,
        handles: handles.as_slice().into(),
    };
    let mut bytes = Vec::new();
    request.write(&mut Writer::new(&mut bytes));
    let mut expected = vec![0; 104];
    expected[4] = 1;
    expected[8] = 11;
    expected[16..28].copy_from_slice(&[1, 4, 0, 0x80, 2, 0, 0, 0, 0xf3, 1, 0, 0]);
    expected[48] = 2;
    expected[64..72].fill(0xff);
    expected[88..96].copy_from_slice(&[0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    assert_eq!(bytes, expected);
    let parsed = LdlmRequest::parse(&bytes).unwrap();
    assert_eq!((parsed.desc, parsed.handle(0), parsed.handle(1)), (desc, Some(handles[0]), None));
    assert_eq!(parsed.counted(0).collect::<Vec<_>>(), handles);
    assert!(LdlmRequest::parse(&bytes[..103]).is_err());
}

/// [LOCK-10]
#[test]
fn counts_above_the_handles_are_noticed() {
    let mut bytes = vec![0; 104 + 8];
    bytes[4] = 3;
    let request = LdlmRequest::parse(&bytes).unwrap();
    assert!(request.count_fits());
    assert_eq!((request.counted(1).count(), request.handles.len()), (2, 3));
    bytes[4] = 4;
    let request = LdlmRequest::parse(&bytes).unwrap();
    assert!(!request.count_fits());
    assert_eq!(request.counted(0).count(), 3);
}

/// [LOCK-11]
#[test]
fn errors_stand_in_the_blocks_of_a_value() {
    let lvb = OstLvb::from_error(-2);
    assert_eq!((lvb.blocks, lvb.error()), (0xffba_dbad_7fff_fffe, Some(-2)));
    let good = OstLvb { size: 5, blocks: 8, mtime_ns: 3, ..OstLvb::default() };
    assert_eq!(good.error(), None);
    let bytes = good.to_bytes();
    assert_eq!(OstLvb::parse_any(&bytes), Some(good));
    let short = OstLvb { mtime_ns: 0, ..good };
    assert_eq!(OstLvb::parse_any(&bytes[..40]), Some(short));
    assert_eq!(OstLvb::parse_any(&[]), None);
}

/// [LOCK-6]
#[test]
fn flags_are_accepted_in_their_direction() {
    assert!(ENQUEUE_FLAGS.contains(LockFlags::HAS_INTENT | LockFlags::REPLAY));
    assert!(!ENQUEUE_FLAGS.intersects(LockFlags::LOCK_CHANGED | LockFlags::AST_SENT));
    assert_eq!(CALLBACK_FLAGS.bits(), 0x1_8020);
}

#[test]
fn a_lock_is_granted_by_its_mode() {
    let mut reply = LdlmReply { handle: Handle(1), ..LdlmReply::default() };
    assert!(!reply.is_granted());
    reply.desc.granted_mode = LockMode::PR;
    reply.flags = LockFlags::BLOCK_GRANTED;
    assert!(reply.is_granted());
    reply.policy_res1 = 0x3b;
    assert_eq!(
        reply.disposition().to_string(),
        "EXECD|LOOKUP_EXECD|LOOKUP_POS|OPEN_CREATE|OPEN_OPEN"
    );
}
