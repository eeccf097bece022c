//! BBR, version 1 (Cardwell et al., ACM Queue 14/5): the window follows from the measured rate and
//! round trip. A loss keeps it from growing for a round, and has no other effect.

use std::collections::VecDeque;

use lustrine_lnet::time::{Nanos, Time};

use super::acked::Acked;
use crate::fabric::Rate;

/// Gains in hundredths: of the start (2 / ln 2), of draining, of the window, and the cycle that
/// probes for more.
const START: u64 = 289;
const DRAIN: u64 = 35;
const WINDOW: u64 = 200;
const CYCLE: [u64; 8] = [125, 75, 100, 100, 100, 100, 100, 100];

/// The highest rate of this number of rounds is used.
const RATE_ROUNDS: u64 = 10;

/// The start is over when the rate has not risen by a quarter in this number of rounds.
const FULL_ROUNDS: u32 = 3;

/// The lowest round trip is valid for this time; then it is measured again with little in flight.
const LOWEST_FOR: Nanos = Nanos::from_secs(10);
const LOOK_FOR: Nanos = Nanos::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Drain,
    Cycle { phase: usize, since: Time },
    Look { until: Time },
}

#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    segment: u64,
    first: u64,
    state: State,
    /// Rates by round, descending; the first one is the highest of the last rounds.
    rates: VecDeque<(u64, Rate)>,
    lowest: Option<(Nanos, Time)>,
    round: u64,
    round_ends: u64,
    full: Option<Rate>,
    full_rounds: u32,
    recovering: bool,
    /// Sending has begun again after a time without anything to send, and nothing of it is
    /// acknowledged yet.
    idle_restart: bool,
    /// Data sent before this much was acknowledged was sent during the measurement.
    looked_until: u64,
    /// After a loss, for one round: no more is sent than has been acknowledged.
    conserved: Option<u64>,
    acked: u64,
    /// The window during the start: it grows by what is acknowledged.
    start_window: u64,
    /// The rate of sending during the start: it does not fall.
    start_pace: Option<Rate>,
}

impl Bbr {
    pub(super) fn new(segment: u64, first: u64) -> Bbr {
        Bbr {
            segment,
            first,
            state: State::Start,
            rates: VecDeque::new(),
            lowest: None,
            round: 0,
            round_ends: 0,
            full: None,
            full_rounds: 0,
            recovering: false,
            idle_restart: false,
            looked_until: 0,
            conserved: None,
            acked: 0,
            start_window: first,
            start_pace: None,
        }
    }

    fn rate(&self) -> Option<Rate> {
        self.rates.front().map(|(_, rate)| *rate)
    }

    /// Rate times round trip, times a gain.
    fn product(&self, gain: u64) -> Option<u64> {
        let (lowest, _) = self.lowest?;
        Some(self.rate()?.bytes_in(lowest).saturating_mul(gain) / 100)
    }

    /// Whether the bytes in flight are no more than the path holds. If that is next to nothing, a
    /// few segments are permitted: with fewer, nothing can be sent, and the sender waits for ever.
    fn is_drained(&self, in_flight: u64) -> bool {
        self.product(100).is_none_or(|product| in_flight <= product.max(self.least()))
    }

    /// The least that may be in flight.
    fn least(&self) -> u64 {
        4 * self.segment
    }

    pub(super) fn window(&self) -> u64 {
        let least = self.least();
        let full = self.full_window(least);
        self.conserved.map_or(full, |window| window.max(least).min(full))
    }

    fn full_window(&self, least: u64) -> u64 {
        match self.state {
            _ if self.recovering => least,
            State::Look { .. } => least,
            State::Start => self.start_window,
            State::Drain | State::Cycle { .. } => {
                // Room for acknowledgements that arrive together, as bursts cause them.
                let product = self.product(WINDOW).unwrap_or(self.first);
                (product + 3 * super::TRAIN_MAX.min(product / 4)).max(least)
            }
        }
    }

    pub(super) fn pace(&self) -> Option<Rate> {
        let gain = match self.state {
            State::Start => return self.start_pace,
            State::Drain => DRAIN,
            State::Cycle { phase, .. } => CYCLE[phase],
            State::Look { .. } => 100,
        };
        Rate::from_bits((self.rate()?.bits().saturating_mul(gain) / 100).max(1))
    }

    pub(super) fn acked(&mut self, acked: &Acked) {
        self.recovering = false;
        let new_round = acked.acked_then >= self.round_ends;
        if new_round {
            self.round_ends = acked.acked_now;
            self.round += 1;
            self.conserved = None;
        }
        self.acked = acked.acked_now;
        self.conserved = self.conserved.map(|_| acked.in_flight);
        if matches!(self.state, State::Look { .. }) {
            self.looked_until = acked.acked_now + acked.in_flight;
        }
        if let Some(rate) = acked.rate()
            // A sender that had nothing to send, or deliberately sent little, does not show a lower
            // rate of the path.
            && (!acked.app_limited && acked.acked_then >= self.looked_until
                || self.rate().is_none_or(|known| rate > known))
        {
            self.note(rate);
        }
        let expired = self.lowest.is_some_and(|(_, at)| acked.now.since(at) > LOWEST_FOR);
        if self.lowest.is_none_or(|(lowest, _)| acked.round_trip <= lowest) || expired {
            self.lowest = Some((acked.round_trip, acked.now));
        }
        if self.conserved.is_none()
            && self.product(START).is_none_or(|most| self.start_window < most.max(2 * self.first))
        {
            self.start_window += acked.len;
        }
        self.move_on(acked, new_round, expired);
        self.pace_start(acked.round_trip);
    }

    fn note(&mut self, rate: Rate) {
        while self.rates.back().is_some_and(|(_, known)| *known <= rate) {
            self.rates.pop_back();
        }
        self.rates.push_back((self.round, rate));
        let oldest = self.round.saturating_sub(RATE_ROUNDS);
        while self.rates[0].0 < oldest {
            self.rates.pop_front();
        }
    }

    /// The first window in a round trip is taken as its rate: the first acknowledgements of it show
    /// the rate of a part of it.
    fn pace_start(&mut self, round_trip: Nanos) {
        let first = u128::from(self.first) * 8_000_000_000 / u128::from(round_trip.0.max(1));
        let first = Rate::from_bits(u64::try_from(first).unwrap_or(u64::MAX));
        let known = match self.start_pace {
            None => self.rate().max(first),
            Some(_) => self.rate(),
        };
        let pace = known.and_then(|rate| Rate::from_bits(rate.bits().saturating_mul(START) / 100));
        self.start_pace = self.start_pace.max(pace);
    }

    fn move_on(&mut self, acked: &Acked, new_round: bool, expired: bool) {
        let now = acked.now;
        // An idle time has measured the lowest round trip, with nothing in flight
        // (draft-cardwell-iccrg-bbr-congestion-control-00, 4.3.4.4 and 4.3.5).
        let after_idleness = core::mem::take(&mut self.idle_restart);
        if expired && !after_idleness && !matches!(self.state, State::Look { .. } | State::Start) {
            let until = now + Nanos(LOOK_FOR.0.max(acked.round_trip.0));
            self.state = State::Look { until };
            return;
        }
        match self.state {
            State::Start => {
                if new_round && !acked.app_limited {
                    self.look_whether_full();
                }
                if self.full_rounds >= FULL_ROUNDS {
                    self.state = State::Drain;
                }
            }
            State::Drain => {
                if self.is_drained(acked.in_flight) {
                    self.state = State::Cycle { phase: 2, since: now };
                }
            }
            State::Cycle { phase, since } => {
                let lowest = self.lowest.map_or(Nanos::ZERO, |(lowest, _)| lowest);
                let drained = CYCLE[phase] < 100 && self.is_drained(acked.in_flight);
                if now.since(since) > lowest || drained {
                    self.state = State::Cycle { phase: (phase + 1) % CYCLE.len(), since: now };
                }
            }
            State::Look { until } => {
                if now >= until {
                    if let Some((_, at)) = &mut self.lowest {
                        *at = now;
                    }
                    self.state = State::Cycle { phase: 2, since: now };
                }
            }
        }
    }

    fn look_whether_full(&mut self) {
        let Some(rate) = self.rate() else { return };
        let risen = self.full.is_none_or(|full| rate.bits() >= full.bits() / 4 * 5);
        if risen {
            (self.full, self.full_rounds) = (Some(rate), 0);
        } else {
            self.full_rounds += 1;
        }
    }

    /// A loss, with this number of bytes still in flight when it was noticed.
    pub(super) fn lost(&mut self, in_flight: u64) {
        self.round_ends = self.acked;
        self.conserved = Some(in_flight);
        self.start_window = in_flight.max(self.first);
    }

    /// Sending begins again after there was nothing to send.
    pub(super) fn begins_again(&mut self) {
        self.idle_restart = true;
    }

    pub(super) fn timed_out(&mut self) {
        self.recovering = true;
        self.conserved = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1000;
    const RTT: Nanos = Nanos::from_millis(50);

    /// The first window, acknowledged segment by segment.
    fn started() -> Bbr {
        let mut bbr = Bbr::new(SEGMENT, 10 * SEGMENT);
        for index in 1..=10 {
            bbr.acked(&Acked {
                now: Time(1) + RTT,
                len: SEGMENT,
                round_trip: RTT,
                in_flight: (11 - index) * SEGMENT,
                window_was_full: true,
                app_limited: false,
                acked_then: 0,
                acked_now: index * SEGMENT,
                acked_at_then: Time(1),
            });
            // 10 segments in 50 ms are 1.6 Mb/s, regardless of the part that has been acknowledged.
            assert_eq!(bbr.pace(), Rate::from_bits(1_600_000 * START / 100), "{index}");
            assert_eq!(bbr.window(), (10 + index) * SEGMENT);
        }
        bbr
    }

    #[test]
    fn the_start_paces_the_first_window_over_a_round_trip_and_grows_by_what_arrived() {
        started();
    }

    /// A slow start on a path that holds less than a segment: it must not drain for ever, at a
    /// third of a rate that falls with what is sent. Found by the swarm, seed 5003572.
    #[test]
    fn a_path_that_holds_less_than_a_segment_is_drained_with_a_few() {
        let mut bbr = started();
        bbr.state = State::Drain;
        bbr.lowest = Some((Nanos::from_micros(100), Time(1) + RTT));
        let few = bbr.least();
        assert!(bbr.product(100) < Some(SEGMENT));
        bbr.acked(&Acked {
            now: Time(1) + RTT + RTT,
            len: SEGMENT,
            round_trip: RTT,
            in_flight: few,
            window_was_full: false,
            app_limited: true,
            acked_then: 10 * SEGMENT,
            acked_now: 11 * SEGMENT,
            acked_at_then: Time(1) + RTT,
        });
        assert!(matches!(bbr.state, State::Cycle { .. }), "{:?}", bbr.state);
    }

    #[test]
    fn after_a_loss_no_more_is_sent_than_was_acknowledged_for_a_round() {
        let mut bbr = started();
        bbr.lost(12 * SEGMENT);
        assert_eq!(bbr.window(), 12 * SEGMENT);
        let acked = |acked_then, acked_now| Acked {
            now: Time(1) + RTT + RTT,
            len: SEGMENT,
            round_trip: RTT,
            in_flight: 11 * SEGMENT,
            window_was_full: true,
            app_limited: false,
            acked_then,
            acked_now,
            acked_at_then: Time(1) + RTT,
        };
        bbr.acked(&acked(5 * SEGMENT, 11 * SEGMENT));
        assert_eq!(bbr.window(), 11 * SEGMENT);
        // The first acknowledgement of data sent after the loss was noticed ends the round.
        bbr.acked(&acked(10 * SEGMENT, 12 * SEGMENT));
        assert_eq!(bbr.window(), 13 * SEGMENT);
    }
}
