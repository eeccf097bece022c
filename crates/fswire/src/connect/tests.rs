use super::*;
use crate::codec::Wire;

fn offer() -> ConnectData {
    ConnectData {
        flags: ConnectFlags::FULL20
            | ConnectFlags::VERSION
            | ConnectFlags::BRW_SIZE
            | ConnectFlags::FLAGS2,
        version: Release::new(2, 17, 0, 0).0,
        brw_size: 4 << 20,
        flags2: ConnectFlags2::REP_MBITS,
        ..ConnectData::default()
    }
}

/// [RPC-18]
#[test]
fn connect_data_have_their_places() {
    let bytes = offer().to_bytes();
    assert_eq!(bytes.len(), 192);
    assert_eq!(bytes[8..12], [0, 0, 0x11, 2]);
    assert_eq!(bytes[20..24], [0, 0, 0x40, 0]);
    assert_eq!(bytes[80..88], [0, 0, 0x10, 0, 0, 0, 0, 0]);
    assert_eq!(Release(0x0211_0000).to_string(), "2.17.0");
    assert_eq!(Release::new(2, 15, 8, 1).to_string(), "2.15.8.1");
}

#[test]
fn fields_without_their_flag_are_not_valid() {
    let mut data = offer();
    data.max_easize = 65536;
    data.maxmodrpcs = 8;
    assert_eq!(data.valid(), offer());
    data.flags.remove(ConnectFlags::FLAGS2);
    assert_eq!(data.valid().flags2, ConnectFlags2::empty());
}

/// [RPC-20]
#[test]
fn what_was_granted_must_have_been_offered() {
    let offer = offer();
    assert_eq!(offer.check_granted(&offer), Ok(()));
    let mut more = offer;
    more.flags |= ConnectFlags::GRANT;
    let not_offered =
        ConnectError::NotOffered { flags: ConnectFlags::GRANT, flags2: ConnectFlags2::empty() };
    assert_eq!(more.check_granted(&offer), Err(not_offered));
    let mut none = offer;
    none.flags.remove(ConnectFlags::FULL20);
    assert_eq!(none.check_granted(&offer), Err(ConnectError::Missing(ConnectFlags::FULL20)));
    let zero = ConnectData { brw_size: 0, ..offer };
    assert_eq!(zero.check_granted(&offer), Err(ConnectError::Zero(ConnectFlags::BRW_SIZE)));
}
