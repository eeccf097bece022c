use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

#[test]
fn a_loss_takes_one_process_or_the_node_but_not_both() {
    let nids = [Nid::new4(Net::TCP, 0x0a00_0001), Nid::new4(Net::TCP, 0x0a00_0002)];
    let at = |index: usize, pid| ProcessId { nid: nids[index], pid };
    let node = ProcessId::lustre(nids[0]);
    let (one, other) = (at(0, PID_USERLAND | 1), at(0, PID_USERLAND | 2));
    for (lost, party, is_lost) in [
        (node, node, true),
        (node, at(0, 7), true),
        (node, one, false),
        (node, at(1, node.pid), false),
        (one, one, true),
        (one, other, false),
        (one, node, false),
        (one, at(1, one.pid), false),
    ] {
        assert_eq!(party.is_lost_with(&lost), is_lost, "{lost:?} {party:?}");
    }
}

fn nid(text: &str) -> Nid {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Any NID that the wire can carry.
pub(crate) fn any_nid() -> impl Strategy<Value = Nid> {
    let kind = prop_oneof![
        4 => Just(NetKind::TCP),
        1 => prop::sample::select(vec![5u8, 9, 13, 14, 15, 16, 17, 18, 19]).prop_map(NetKind),
        1 => any::<u8>().prop_map(NetKind),
    ];
    let number = prop_oneof![Just(0u16), any::<u16>()];
    let addr = prop_oneof![
        any::<u32>().prop_map(Ok),
        Just(Ok(0u32)),
        any::<[u8; 16]>().prop_map(Err::<u32, [u8; 16]>)
    ];
    (kind, number, addr).prop_map(|(kind, number, addr)| match addr {
        Ok(a) => Nid::new4(Net::new(kind, number), a),
        Err(a) => Nid::new6(Net::new(kind, number), a),
    })
}

/// Any NID that has a short form.
pub(crate) fn any_short_nid() -> impl Strategy<Value = Nid> {
    any::<u64>().prop_map(Nid::from_short)
}

#[test]
fn short_form() {
    // [NID-1]
    let a = Nid::new4(Net::TCP, 0x0a00_0001);
    assert_eq!(a.to_short(), Some(0x0002_0000_0a00_0001));
    assert_eq!(Nid::from_short(0x0002_0000_0a00_0001), a);
    assert_eq!(Nid::from_short(u64::MAX), Nid::ANY);
    assert_eq!(Nid::ANY.to_short(), Some(u64::MAX));
    assert_eq!(Nid::LO.to_short(), Some(0x0009_0000_0000_0000));
}

#[test]
fn long_form() {
    // [NID-2]
    let a = nid("10.0.0.1@tcp3");
    let mut long = [0; 20];
    long[..8].copy_from_slice(&[0, 2, 0, 3, 10, 0, 0, 1]);
    assert_eq!(a.to_long(), long);
    long[19] = 77;
    assert_eq!(Nid::from_long(&long), Ok(a), "bytes beyond the used ones are ignored");

    let six = nid("2001:db8::1@tcp");
    assert_eq!(&six.to_long()[..6], &[12, 2, 0, 0, 0x20, 0x01]);
    assert_eq!(six.to_short(), None);
    assert_eq!(six.require_short(), Err(NidTooLong(six)));

    let mut any = [0; 20];
    any[1] = 0xff;
    assert_eq!(Nid::from_long(&any), Ok(Nid::ANY));
    any[1] = 2;
    any[0] = 5;
    assert_eq!(Nid::from_long(&any), Err(NidError::BadSize(5)));
}

#[test]
fn nids_are_ordered_as_their_bytes() {
    // [NID-3]
    assert!(nid("10.0.0.1@tcp") < nid("10.0.0.2@tcp"));
    assert!(nid("10.0.0.200@tcp") < nid("10.0.1.1@tcp"));
    assert!(nid("255.0.0.1@tcp") < nid("10.0.0.1@tcp1"));
    assert!(nid("255.255.255.255@o2ib9") < nid("::1@tcp"), "the size byte comes first");
}

#[test]
fn every_kind_has_its_text() {
    // [NID-4]
    for text in [
        "10.0.0.1@tcp",
        "10.0.0.1@o2ib1",
        "0@lo",
        "17@gni4",
        "10.1.1.1@gip",
        "7@ptlf",
        "12@kfi2",
        "ab12@<17:3>",
        "10.9.9.9@efa",
        "fe80::1@efa7",
        "99@bxi3f65535",
        "2001:db8::1@tcp",
        "1@<1:0>",
        "<?>",
    ] {
        assert_eq!(nid(text).to_string(), text);
    }
}

#[test]
fn text_is_read_leniently() {
    assert_eq!(nid("10.0.0.1"), nid("10.0.0.1@tcp"));
    assert_eq!(nid("10.0.0.1@tcp0"), nid("10.0.0.1@tcp"));
    assert_eq!(nid("::1"), nid("::1@tcp"));
    assert_eq!(nid("0x1F@kfi"), nid("31@kfi"));
    assert_eq!(Nid::parse_or_any("*"), Ok(Nid::ANY));
}

#[test]
fn malformed_text_is_refused() {
    use ParseNidError::{BadAddress, BadNet};
    for (text, why) in [
        ("", BadAddress),
        ("10.0.0.1@", BadNet),
        ("10.0.0.1@tcp65536", BadNet),
        ("10.0.0.1@tcp+1", BadNet),
        ("10.0.0.1@TCP", BadNet),
        ("0@lo1", BadNet),
        ("1@lo", BadAddress),
        ("10.0.0@tcp", BadAddress),
        ("10.0.0.256", BadAddress),
        ("5@tcp", BadAddress),
        ("4294967296@kfi", BadAddress),
        ("-1@gni", BadAddress),
        ("10.0.0.1@gni", BadAddress),
        ("123456789@<17:0>", BadAddress),
        ("*", BadAddress),
        ("1@<17>", BadNet),
        ("1@<256:0>", BadNet),
        ("10.0.0.1@tcp@tcp", BadNet),
    ] {
        assert_eq!(text.parse::<Nid>(), Err(why), "{text:?}");
    }
}

#[test]
fn ip_addresses() {
    let v4 = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    assert_eq!(Nid::from_ip(Net::TCP, v4).ip(), Some(v4));
    assert_eq!(Nid::from_ip(Net::TCP, v6).ip(), Some(v6));
    assert_eq!(nid("5@kfi").ip(), None);
    assert_eq!(Nid::ANY.ip(), None);
    assert_eq!(Nid::ANY.net(), Net::ANY);
}

#[test]
fn process_ids() {
    // [NID-6]
    let plain = ProcessId::lustre(nid("10.0.0.1@tcp"));
    assert_eq!(plain.to_string(), "12345-10.0.0.1@tcp");
    let user = ProcessId { nid: plain.nid, pid: 40000 | PID_USERLAND };
    assert_eq!(user.to_string(), "U40000-10.0.0.1@tcp");
    assert!(user.is_userland() && !plain.is_userland());
    for id in [plain, user] {
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    for text in ["10.0.0.1@tcp", "-10.0.0.1@tcp", "2147483648-10.0.0.1@tcp", "U-10.0.0.1@tcp"] {
        assert_eq!(text.parse::<ProcessId>(), Err(ParseNidError::BadPid), "{text}");
    }
}

proptest! {
    #[test]
    fn every_form_round_trips(nid in any_nid(), pid in any::<u32>()) {
        prop_assert_eq!(Nid::from_long(&nid.to_long()), Ok(nid));
        if let Some(short) = nid.to_short() {
            prop_assert_eq!(Nid::from_short(short), nid);
        }
        prop_assert_eq!(nid.to_string().parse(), Ok(nid));
        let id = ProcessId { nid, pid };
        prop_assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn nets_round_trip(kind in any::<u8>(), number in any::<u16>()) {
        let net = Net::new(NetKind(kind), number);
        prop_assert_eq!(net.to_string().parse(), Ok(net));
        prop_assert_eq!(Net::from_id(net.id()), net);
    }

    #[test]
    fn arbitrary_bytes_and_text_are_survived(raw in any::<[u8; 20]>(), text in "\\PC{0,40}") {
        if let Ok(nid) = Nid::from_long(&raw) {
            prop_assert_eq!(Nid::from_long(&nid.to_long()), Ok(nid));
        }
        if let Ok(nid) = text.parse::<Nid>() {
            prop_assert_eq!(nid.to_string().parse(), Ok(nid));
        }
    }
}
