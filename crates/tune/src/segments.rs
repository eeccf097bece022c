//! What TCP's counters say of a path: losses, reordering, and what held the sender back.

use serde::{Deserialize, Serialize};

/// TCP segments with data of one node's connections to a peer, in both directions, over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments {
    /// Sent, those that were sent again included.
    pub sent: u64,
    /// Sent again.
    pub retransmits: u64,
    /// Those of them that had arrived already, as the peer's TCP says.
    pub duplicates: u64,
    /// How often acknowledgements showed that segments had overtaken others.
    pub reorderings: u64,
    /// Received.
    pub received: u64,
    /// Those of them that arrived before an earlier one, which was lost or overtaken. One loss
    /// makes all segments behind it, of a round trip, arrive so.
    pub out_of_order: u64,
    /// How long there was something to send, all connections together, in nanoseconds.
    pub busy_ns: u64,
    /// The part of it in which the window of the peer held a connection back.
    pub window_limited_ns: u64,
    /// The part of it in which the send buffer of this host was too small.
    pub send_buffer_limited_ns: u64,
}

/// The part of all segments, in millionths, from which a loss is worth a note: of one in a million
/// CUBIC carries half of 10 Gb/s over 50 ms, with packets of 9000 bytes.
const LOSS_MIN_PPM: f64 = 1.0;

/// Losses that are worth a note: a few may be chance, such as the last segment of a message, which
/// TCP sends again early, and of which the peer's report comes late.
const LOST_MIN: u64 = 10;

/// The part of the busy time, in hundredths, from which a limit is worth a note.
const LIMITED_MIN: u64 = 10;

impl Segments {
    /// What was counted between an earlier look and this one; nothing if connections were replaced
    /// in the meantime, which count from 0.
    #[must_use]
    pub fn since(&self, earlier: &Segments) -> Segments {
        let since = self.with(earlier, u64::saturating_sub);
        match self.sent < earlier.sent || self.received < earlier.received {
            true => Segments::default(),
            false => since,
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Segments) -> Segments {
        self.with(other, u64::saturating_add)
    }

    fn with(&self, other: &Segments, op: fn(u64, u64) -> u64) -> Segments {
        Segments {
            sent: op(self.sent, other.sent),
            retransmits: op(self.retransmits, other.retransmits),
            duplicates: op(self.duplicates, other.duplicates),
            reorderings: op(self.reorderings, other.reorderings),
            received: op(self.received, other.received),
            out_of_order: op(self.out_of_order, other.out_of_order),
            busy_ns: op(self.busy_ns, other.busy_ns),
            window_limited_ns: op(self.window_limited_ns, other.window_limited_ns),
            send_buffer_limited_ns: op(self.send_buffer_limited_ns, other.send_buffer_limited_ns),
        }
    }

    /// Segments to the peer that were lost: those that were sent again, without those that had
    /// arrived already and were only late.
    pub fn lost(&self) -> u64 {
        self.retransmits.saturating_sub(self.duplicates).min(self.sent)
    }

    /// The lost part of the segments to the peer; `None` if none was sent.
    pub fn loss(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.lost() as f64 / self.sent as f64)
    }

    /// The part of those from the peer that arrived out of order; `None` if none arrived.
    pub fn disorder(&self) -> Option<f64> {
        (self.received > 0).then(|| self.out_of_order as f64 / self.received as f64)
    }

    /// Whether so many were lost that it matters.
    pub fn is_lossy(&self) -> bool {
        self.lost() >= LOST_MIN && self.loss().is_some_and(|loss| loss * 1e6 >= LOSS_MIN_PPM)
    }

    /// The part of the busy time, in hundredths, in which the peer's window held connections back,
    /// if it is much.
    pub fn window_limited(&self) -> Option<u64> {
        self.limited(self.window_limited_ns)
    }

    /// The same of the send buffer.
    pub fn send_buffer_limited(&self) -> Option<u64> {
        self.limited(self.send_buffer_limited_ns)
    }

    fn limited(&self, time_ns: u64) -> Option<u64> {
        let part = u128::from(time_ns) * 100 / u128::from(self.busy_ns.max(1));
        let part = u64::try_from(part).unwrap_or(100).min(100);
        (part >= LIMITED_MIN).then_some(part)
    }
}

/// Bits per second that one stream carries on average where this part of its segments is lost by
/// chance, each with `segment` bytes, over a round trip in nanoseconds. Of CUBIC (RFC 9438, section
/// 5.1: W = 1.054 x RTT^0.75 / p^0.75, or that of Reno if it is more) and Reno (RFC 3649: W =
/// 1.22 / sqrt(p)); `None` for others, BBR among them, which no such formula describes.
pub fn loss_limited_rate(congestion: &str, segment: u32, rtt_ns: u64, loss: f64) -> Option<u64> {
    if !(loss > 0.0 && loss <= 1.0) || rtt_ns == 0 {
        return None;
    }
    let rtt = rtt_ns as f64 / 1e9;
    let reno = 1.22 / loss.sqrt();
    let window = match congestion {
        "cubic" => reno.max(1.054 * (rtt / loss).powf(0.75)),
        "reno" => reno,
        _ => return None,
    };
    // A float above the largest number becomes that number.
    Some((window * f64::from(segment) * 8.0 / rtt) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_arrived_twice_was_not_lost() {
        let all =
            Segments { sent: 1_000_000, retransmits: 30, duplicates: 10, ..Segments::default() };
        assert_eq!((all.lost(), all.loss()), (20, Some(20e-6)));
        assert!(all.is_lossy());
        let late = Segments { duplicates: 30, ..all };
        assert!(!late.is_lossy() && !Segments::default().is_lossy());
        assert_eq!(Segments::default().loss(), None);
        // TLP can make more duplicates than the peer reports in time, and fewer.
        assert_eq!(Segments { duplicates: 31, ..all }.lost(), 0);
        assert!(!Segments { sent: 1000, retransmits: 9, ..Segments::default() }.is_lossy());
    }

    /// A new connection counts from 0.
    #[test]
    fn what_replaced_connections_count_says_nothing() {
        let before = Segments { sent: 1_000_000, received: 10, ..Segments::default() };
        let after = Segments { sent: 1_000_010, received: 10, retransmits: 50, ..before };
        assert_eq!(after.since(&before).lost(), 10, "no more than was sent");
        let replaced = Segments { sent: 10, received: 20, ..Segments::default() };
        assert_eq!(replaced.since(&before), Segments::default());
    }

    #[test]
    fn a_limit_is_named_from_a_tenth_of_the_time() {
        let busy = Segments { busy_ns: 1000, window_limited_ns: 99, ..Segments::default() };
        assert_eq!(busy.window_limited(), None);
        let busy = Segments { window_limited_ns: 250, send_buffer_limited_ns: 2000, ..busy };
        assert_eq!((busy.window_limited(), busy.send_buffer_limited()), (Some(25), Some(100)));
        assert_eq!(Segments::default().window_limited(), None);
    }

    /// The tables of RFC 9438, section 5.2 and 5.3: average windows in segments.
    #[test]
    fn rates_are_those_of_the_rfc() {
        let window = |congestion: &str, rtt_s: f64, loss: f64| {
            let rtt = (rtt_s * 1e9) as u64;
            let rate = loss_limited_rate(congestion, 1500, rtt, loss).expect("a formula");
            rate as f64 * rtt_s / 8.0 / 1500.0
        };
        for (rtt, loss, expected) in [
            (0.1, 1e-4, 187.0),
            (0.1, 1e-6, 5926.0),
            (0.1, 1e-8, 187_396.0),
            (0.01, 1e-8, 33_325.0),
        ] {
            let found = window("cubic", rtt, loss);
            assert!((found / expected - 1.0).abs() < 0.01, "{rtt} {loss}: {found}, not {expected}");
        }
        // With a short round trip it is as fast as Reno.
        assert!((window("cubic", 0.01, 1e-4) - 122.0).abs() < 1.0);
        assert!((window("reno", 0.1, 1e-4) - 122.0).abs() < 1.0);
        assert_eq!(loss_limited_rate("bbr", 1448, 1, 0.1), None);
        assert_eq!(loss_limited_rate("cubic", 1448, 1, 0.0), None);
        assert_eq!(loss_limited_rate("cubic", 1448, 0, 0.1), None);
    }

    proptest! {
        /// More losses never carry more.
        #[test]
        fn losses_only_cost(a in 1e-9f64..1.0, b in 1e-9f64..1.0, rtt in 1u64..10_000_000_000) {
            let (less, more) = (a.min(b), a.max(b));
            for congestion in ["cubic", "reno"] {
                let rate = |loss| loss_limited_rate(congestion, 1448, rtt, loss);
                prop_assert!(rate(less) >= rate(more));
            }
        }

        /// What was added can be taken away.
        #[test]
        fn parts_add_up(a in any::<[u32; 9]>(), b in any::<[u32; 9]>()) {
            let of = |n: [u32; 9]| {
                let [sent, retransmits, duplicates, reorderings, received, out_of_order, x, y, z] =
                    n.map(u64::from);
                let (busy_ns, window_limited_ns, send_buffer_limited_ns) = (x, y, z);
                Segments {
                    sent,
                    retransmits,
                    duplicates,
                    reorderings,
                    received,
                    out_of_order,
                    busy_ns,
                    window_limited_ns,
                    send_buffer_limited_ns,
                }
            };
            prop_assert_eq!(of(a).plus(&of(b)).since(&of(b)), of(a));
        }
    }
}
