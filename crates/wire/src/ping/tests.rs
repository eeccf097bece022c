use proptest::prelude::*;

use super::*;
use crate::golden::bytes;
use crate::nid::PID_LUSTRE;
use crate::nid::tests::any_nid;

fn up(text: &str) -> PingEntry {
    PingEntry { nid: text.parse().unwrap(), status: NiStatus::Up }
}

const ORDINARY: &str = "67 6e 69 70  1e 00 00 00  39 30 00 00  02 00 00 00
    00 00 00 00 00 00 09 00  03 00 00 00  00 00 00 00
    02 00 00 0a 00 00 02 00  de c0 aa 15  00 00 00 00";
const IPV6: &str = "67 6e 69 70  7e 00 00 00  39 30 00 00  01 00 00 00
    00 00 00 00 00 00 09 00  03 00 00 00  38 00 00 00
    de c0 aa 15  0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02";

fn features(bits: u32) -> Features {
    Features::from_bits_retain(bits)
}

fn check(text: &str, bits: u32, entries: &[PingEntry]) {
    let raw = bytes(text);
    let info = PingInfo::parse(&raw).unwrap();
    assert_eq!(info.features(), features(bits));
    assert_eq!((info.pid(), info.sequence()), (PID_LUSTRE, 3));
    assert_eq!(info.entries().collect::<Vec<_>>(), entries);
    assert_eq!(info.primary(), entries.first().map(|e| e.nid));
    assert_eq!(info.total_len(), raw.len());
    let mut out = Vec::new();
    PingInfo::build(features(bits), PID_LUSTRE, 3, entries, &mut out);
    assert_eq!(out, raw);
}

#[test]
fn worked_examples() {
    // [PING-4] [PING-5] [PING-6]
    check(ORDINARY, 0x1e, &[up("10.0.0.2@tcp")]);
    check(IPV6, 0x7e, &[up("2001:db8::2@tcp")]);
}

#[test]
fn mixed_entries_keep_their_groups() {
    // [PING-6]
    let entries = [up("10.0.0.2@tcp"), up("2001:db8::2@tcp1"), up("10.0.1.2@o2ib")];
    let mut raw = Vec::new();
    PingInfo::build(features(0x1e), PID_LUSTRE, 9, &entries, &mut raw);
    let info = PingInfo::parse(&raw).unwrap();
    assert_eq!(info.features(), features(0x3e), "LARGE without PRIMARY_LARGE");
    assert_eq!(info.entries().collect::<Vec<_>>(), [entries[0], entries[2], entries[1]]);
    assert_eq!(info.primary(), Some(entries[0].nid));
    raw.extend([1, 2, 3]);
    assert_eq!(PingInfo::parse(&raw).unwrap().trailing(), [1, 2, 3]);
}

#[test]
fn long_entries_may_carry_short_nids() {
    // [PING-6]
    let raw = bytes(
        "67 6e 69 70  7e 00 00 00  39 30 00 00  01 00 00 00
         00 00 00 00 00 00 09 00  03 00 00 00  2c 00 00 00
         ce fa ad de  00 02 00 00 0a 00 00 02",
    );
    let info = PingInfo::parse(&raw).unwrap();
    let down = PingEntry { status: NiStatus::Down, ..up("10.0.0.2@tcp") };
    assert_eq!(info.entries().collect::<Vec<_>>(), [down]);
}

#[test]
fn the_rules_of_a_reader_are_checked() {
    // [PING-7] [PING-8]
    let edit = |text: &str, at: usize, value: u32| {
        let mut raw = bytes(text);
        ByteOrder::Little.put_u32(&mut raw, at, value);
        PingInfo::parse(&raw).map(|_| ())
    };
    assert_eq!(PingInfo::parse(&[0; 15]), Err(PingError::TooShort(15)));
    assert_eq!(edit(ORDINARY, 0, 7), Err(PingError::BadMagic(7)));
    assert_eq!(edit(ORDINARY, 4, 0x1c), Err(PingError::NoStatus(0x1c)));
    assert_eq!(edit(ORDINARY, 12, 0), Err(PingError::NoEntries));
    assert_eq!(
        edit(ORDINARY, 12, 201),
        Err(PingError::TooManyEntries { announced: 201, limit: 200 })
    );
    assert_eq!(
        edit(ORDINARY, 16, 1),
        Err(PingError::NotLoopback(Nid::from_short(0x0009_0000_0000_0001)))
    );
    assert_eq!(edit(ORDINARY, 12, 3), Err(PingError::Truncated { have: 48, announced: 64 }));
    assert_eq!(edit(IPV6, 28, 28), Err(PingError::BadSize(28)));
    assert_eq!(edit(IPV6, 28, 58), Err(PingError::BadSize(58)));
    assert_eq!(edit(IPV6, 28, 60), Err(PingError::Truncated { have: 56, announced: 60 }));
    assert_eq!(edit(IPV6, 36, 0x0203), Err(PingError::BadEntry { at: 32 }));
    assert_eq!(edit(IPV6, 28, 52), Err(PingError::BadEntry { at: 32 }));
    assert_eq!(edit(IPV6, 28, 32), Ok(()), "no long entries at all is legal");
}

#[test]
fn cut_ping_info_names_the_room_that_it_needs() {
    // [PING-9]
    let raw = bytes(IPV6);
    assert_eq!(PingInfo::announced_len(&raw), Ok(56));
    assert_eq!(PingInfo::announced_len(&raw[..32]), Ok(56));
    assert_eq!(PingInfo::announced_len(&raw[..16]), Ok(32));
    let cut = PingInfo::parse(&raw[..40]);
    assert_eq!(cut, Err(PingError::Truncated { have: 40, announced: 56 }));
    assert_eq!(PingInfo::parse(&raw[..20]), Err(PingError::Truncated { have: 20, announced: 32 }));
}

proptest! {
    #[test]
    fn round_trip(
        list in prop::collection::vec((any_nid(), any::<u32>()), 0..40),
        bits in any::<u32>(), pid in any::<u32>(), sequence in any::<u32>(), big in any::<bool>(),
    ) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let entries: Vec<PingEntry> = list
            .iter()
            .map(|&(nid, word)| PingEntry { nid, status: NiStatus::from_word(word) })
            .collect();
        let mut raw = Vec::new();
        let given = features(bits) | Features::NI_STATUS;
        PingInfo::build_in(order, given, pid, sequence, &entries, &mut raw);
        let info = PingInfo::parse(&raw).unwrap();
        let (long, short): (Vec<_>, Vec<_>) =
            entries.iter().partition(|e| e.nid.to_short().is_none());
        let expected: Vec<PingEntry> = short.into_iter().chain(long).copied().collect();
        prop_assert_eq!(info.entries().collect::<Vec<_>>(), expected);
        prop_assert_eq!(info.primary(), entries.first().map(|e| e.nid));
        prop_assert_eq!((info.order(), info.pid(), info.sequence()), (order, pid, sequence));
        let derived = Features::LARGE | Features::PRIMARY_LARGE;
        prop_assert_eq!(info.features() - derived, given - derived);
        prop_assert!(PingInfo::parse(&raw[..raw.len() - 1]).is_err());
    }

    #[test]
    fn arbitrary_bytes_are_survived(
        tail in prop::collection::vec(any::<u8>(), 0..200), n in 0u32..6, size in any::<u16>(),
    ) {
        let mut raw = bytes(IPV6);
        ByteOrder::Little.put_u32(&mut raw, 12, n);
        ByteOrder::Little.put_u32(&mut raw, 28, u32::from(size >> 6));
        raw.truncate(32);
        raw.extend(&tail);
        if let Ok(info) = PingInfo::parse(&raw) {
            prop_assert!(info.entries().count() <= raw.len());
            prop_assert!(info.total_len() + info.trailing().len() == raw.len());
        }
        let _ = PingInfo::parse(&tail);
        let _ = PingInfo::announced_len(&tail);
    }
}
