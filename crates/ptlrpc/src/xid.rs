//! Numbers of requests [IMP-1].

/// The distance between two xids: the low bits number the descriptors of a bulk transfer.
pub const XID_STEP: u64 = 128;

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
    /// ```
    /// use lustrine_ptlrpc::xid::{XID_STEP, XidSource};
    ///
    /// let mut xids = XidSource::new(1_700_000_000);
    /// let first = xids.next_xid();
    /// assert_eq!(first, 1_700_000_000 << 20);
    /// assert_eq!(xids.next_xid(), first + XID_STEP);
    /// ```
    pub fn new(wall_seconds: u64) -> XidSource {
        XidSource { next: (wall_seconds << 20).max(XID_STEP) }
    }

    /// The next xid: a multiple of [`XID_STEP`].
    pub fn next_xid(&mut self) -> u64 {
        let xid = self.next;
        self.next += XID_STEP;
        xid
    }
}
