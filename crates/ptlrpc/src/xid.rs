//! Numbers of requests [IMP-1].

use lustrine_fswire::xid::{first_xid, next_xid};

/// The counter of a node: all its imports take their xids from it [IMP-1].
#[derive(Debug)]
pub struct XidSource {
    next: u64,
}

impl XidSource {
    /// A counter that starts above all those of earlier lives of this client.
    ///
    /// `wall_seconds` is the time since 1970 in seconds. Two lives that begin in different seconds
    /// never share an xid, because the first would have to send 8,192 requests a second throughout
    /// its life.
    ///
    /// `number` is different for all clients that live in one node, up to 127: their servers may
    /// be the same, and a reply must not match the request of another client.
    ///
    /// ```
    /// use lustrine_fswire::xid::XID_STEP;
    /// use lustrine_ptlrpc::xid::XidSource;
    ///
    /// let mut xids = XidSource::new(1_700_000_000, 0);
    /// let first = xids.next_xid();
    /// assert_eq!(first, 1_700_000_000 << 20);
    /// assert_eq!(xids.next_xid(), first + XID_STEP);
    /// assert_eq!(XidSource::new(1_700_000_000, 1).next_xid(), first + (1 << 56));
    /// ```
    pub fn new(wall_seconds: u64, number: u8) -> XidSource {
        let own = u64::from(number & 0x7f) << 56;
        XidSource { next: first_xid(wall_seconds).wrapping_add(own) }
    }

    /// The next xid: a multiple of [`XID_STEP`](lustrine_fswire::xid::XID_STEP).
    pub fn next_xid(&mut self) -> u64 {
        let xid = self.next;
        self.next = next_xid(xid);
        xid
    }
}
