//! A model of TCP as far as it decides when bytes arrive: windows, losses and retransmissions.
//!
//! The model follows Linux: slow start with HyStart's exit by delay, CUBIC (RFC 9438), BIC, BBR
//! (version 1), the restart of a window after an idle time, the retransmission time-out, send and
//! receive buffers. Segments travel in bursts of up to 64 KiB, as segmentation offload sends them;
//! random loss affects a whole burst, a full queue drops the segments that do not fit.
//! Simplifications: acknowledgements take no room on links, the receive window is the whole buffer
//! from the beginning, and a lost tail waits for the time-out.
//!
//! All arithmetic is in integers: floating point differs between machines.

mod acked;
mod bbr;
mod bic;
mod bic_paper;
mod congestion;
mod cubic;

use lustrine_lnet::time::Nanos;

pub(crate) use acked::{Acked, TimeOut};
pub(crate) use congestion::Congestion;

/// The algorithm that limits what a sender has in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Linux's default.
    #[default]
    Cubic,
    /// BIC as in Linux's module `tcp_bic`: the default of Linux before CUBIC.
    Bic,
    /// BIC as the paper describes it.
    BicPaper,
    /// The window follows from the measured rate and round trip.
    Bbr,
    /// Only the buffers limit the sender, at the rate of the narrowest link: the best that any
    /// algorithm could achieve for a stream without competition.
    Fixed,
}

/// The TCP properties of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSpec {
    /// Congestion control of its outgoing streams.
    pub algorithm: Algorithm,
    /// Unacknowledged bytes that a stream buffers.
    pub send_buffer: u64,
    /// Unread bytes that a stream buffers.
    pub receive_buffer: u64,
    /// Bytes of data in a segment: 1448 with packets of 1500 bytes, 8948 with 9000.
    pub segment: u32,
    /// Segments that may be in flight at the start.
    pub initial_window: u32,
    /// Whether a rising round trip ends CUBIC's slow start before a loss does, as in Linux.
    pub hystart: bool,
    /// Packets that may wait in the host's own interface, as `txqueuelen`: a stream does not send
    /// while this number of its own packets is there. `None`: two bursts, as with TCP small queues.
    pub txqueuelen: Option<u32>,
    /// Whether the window shrinks while nothing is sent, as with `tcp_slow_start_after_idle`.
    pub idle_restart: IdleRestart,
}

/// What an idle time does to a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleRestart {
    /// It halves for each time-out that passes: Linux's default.
    #[default]
    Shrink,
    /// It stays as it is.
    Keep,
}

/// What a segment needs on a link in addition to its data: Ethernet's preamble, header, checksum
/// and gap, and the headers of IPv4 and of TCP with time stamps.
const SEGMENT_EXTRA: u64 = 8 + 14 + 4 + 12 + 20 + 32;

impl TcpSpec {
    /// Bytes of a full packet on a link.
    pub fn packet(&self) -> u64 {
        self.on_link(u64::from(self.segment.max(1)))
    }

    /// The number of bytes that this number of data bytes needs on a link.
    pub(crate) fn on_link(&self, data: u64) -> u64 {
        data + data.div_ceil(u64::from(self.segment.max(1))) * SEGMENT_EXTRA
    }
}

impl Default for TcpSpec {
    /// CUBIC, 4 MiB to send and 6 MiB to receive (Linux's defaults), 1448-byte segments, 10 at the
    /// start.
    fn default() -> TcpSpec {
        TcpSpec {
            algorithm: Algorithm::Cubic,
            send_buffer: 4 << 20,
            receive_buffer: 6 << 20,
            segment: 1448,
            initial_window: 10,
            hystart: true,
            txqueuelen: None,
            idle_restart: IdleRestart::Shrink,
        }
    }
}

/// Largest size of a burst in bytes.
pub(crate) const TRAIN_MAX: u64 = 64 << 10;

/// The round trip as a sender estimates it, and its time-out (RFC 6298).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrip {
    smoothed: u64,
    varies: u64,
    backoff: u32,
}

/// The least difference between time-out and round trip, and the first time-out: Linux's.
const TIMEOUT_MIN: u64 = 200_000_000;
const TIMEOUT_FIRST: u64 = 1_000_000_000;
const TIMEOUT_MAX: u64 = 120_000_000_000;

impl RoundTrip {
    pub(crate) fn sample(&mut self, took: Nanos) {
        self.backoff = 0;
        if self.smoothed == 0 {
            (self.smoothed, self.varies) = (took.0, took.0 / 2);
            return;
        }
        self.varies = (3 * self.varies + self.smoothed.abs_diff(took.0)) / 4;
        self.smoothed = (7 * self.smoothed + took.0) / 8;
    }

    /// How long to wait for an acknowledgement before a retransmission.
    pub(crate) fn timeout(&self) -> Nanos {
        let once = match self.smoothed {
            0 => TIMEOUT_FIRST,
            smoothed => smoothed + (4 * self.varies).max(TIMEOUT_MIN),
        };
        Nanos((once << self.backoff.min(16)).min(TIMEOUT_MAX))
    }

    pub(crate) fn timed_out(&mut self) {
        self.backoff += 1;
    }

    /// Consecutive time-outs.
    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }
}
