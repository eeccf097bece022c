//! What a sender tells its algorithm of acknowledgements and time-outs.

use lustrine_lnet::time::{Nanos, Time};

use crate::fabric::Rate;

/// The content of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub(crate) now: Time,
    /// Bytes that it acknowledges.
    pub(crate) len: u64,
    /// The time from their transmission to now.
    pub(crate) round_trip: Nanos,
    /// Bytes in flight before the acknowledgement.
    pub(crate) in_flight: u64,
    /// Whether the window has stopped the sender since they were sent.
    pub(crate) window_was_full: bool,
    /// Whether the owner of the stream limited the rate when they were sent.
    pub(crate) app_limited: bool,
    /// Total number of bytes acknowledged when they were sent, and now.
    pub(crate) acked_then: u64,
    pub(crate) acked_now: u64,
    /// The time of the last acknowledgement before they were sent.
    pub(crate) acked_at_then: Time,
}

impl Acked {
    /// The rate at which bytes arrived while these were in flight.
    pub(super) fn rate(&self) -> Option<Rate> {
        let length = self.now.since(self.acked_at_then).0.max(self.round_trip.0).max(1);
        let bytes = self.acked_now - self.acked_then;
        let bits = u128::from(bytes) * 8_000_000_000 / u128::from(length);
        Rate::from_bits(u64::try_from(bits).unwrap_or(u64::MAX))
    }
}

/// Which time-out of an outage it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeOut {
    /// Something was acknowledged since the time-out before it, or there was none.
    First,
    /// Nothing was acknowledged since then: the window was already reduced by the first time-out,
    /// so the threshold of slow start stays (RFC 5681, 3.1).
    Repeated,
}
