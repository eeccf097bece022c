//! Numbers of requests, and the match bits that follow from them [RPC-13] [RPC-15].

/// The distance from one xid to the next: xids are multiples of it, because the low bits number
/// the memory descriptors of bulk.
pub const XID_STEP: u64 = 128;

/// The first xid of a node that starts at this time, in seconds since 1970: it is above every xid
/// that the node gave before it started again.
pub const fn first_xid(now_s: u64) -> u64 {
    let xid = (now_s << 20) & !(XID_STEP - 1);
    if xid == 0 { XID_STEP } else { xid }
}

/// The xid after this one.
pub const fn next_xid(xid: u64) -> u64 {
    (xid & !(XID_STEP - 1)).wrapping_add(XID_STEP)
}

/// The `last_xid` of a request: every xid up to it is answered. `lowest` is the lowest xid of the
/// import that is not, the request's own if there is no other.
pub const fn last_xid(lowest: u64) -> u64 {
    lowest.saturating_sub(1)
}

/// The `mbits` of a request: the match bits of the last of `count` memory descriptors, the first
/// of which are `first`: the xid, or a fresh number if the request is sent again. Without bulk
/// they are `first`.
pub const fn bulk_mbits(first: u64, count: u64) -> u64 {
    first.wrapping_add(count.saturating_sub(1))
}

/// The match bits of a reply [RPC-2]: those in the body if the connection was granted REP_MBITS and
/// the request is no connect.
pub const fn reply_match_bits(
    xid: u64,
    mbits: u64,
    opcode: crate::opcode::Opcode,
    rep_mbits: RepMbits,
) -> u64 {
    match rep_mbits {
        RepMbits::Granted if !opcode.is_connect() => mbits,
        _ => xid,
    }
}

/// Whether a connection was granted that replies go to the match bits in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepMbits {
    /// It was.
    Granted,
    /// It was not.
    Absent,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opcode::Opcode;

    #[test]
    fn xids_are_multiples_of_their_step() {
        let first = first_xid(1_795_292_255);
        assert_eq!((first % XID_STEP, first >> 20), (0, 1_795_292_255));
        assert_eq!(next_xid(first), first + 128);
        assert_eq!(next_xid(first + 3), first + 128);
        assert_eq!((first_xid(0), last_xid(first), last_xid(0)), (128, first - 1, 0));
        assert_eq!((bulk_mbits(0x280, 4), bulk_mbits(0x280, 0)), (0x283, 0x280));
    }

    #[test]
    fn replies_go_to_the_bits_of_the_body_only_if_granted() {
        let bits = |opcode, granted| reply_match_bits(1, 2, opcode, granted);
        assert_eq!(bits(Opcode::OST_READ, RepMbits::Granted), 2);
        assert_eq!(bits(Opcode::OST_READ, RepMbits::Absent), 1);
        assert_eq!(bits(Opcode::OST_CONNECT, RepMbits::Granted), 1);
    }
}
