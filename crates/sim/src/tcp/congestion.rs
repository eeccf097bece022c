//! Dispatches to the algorithm of a sender.

use lustrine_lnet::time::Nanos;

use super::acked::{Acked, TimeOut};
use super::bbr::Bbr;
use super::bic::Bic;
use super::bic_paper::BicPaper;
use super::cubic::Cubic;
use super::{Algorithm, TcpSpec};
use crate::fabric::Rate;

/// The state of one sender.
#[derive(Clone, Debug)]
pub(crate) enum Congestion {
    Cubic(Cubic),
    Bic(Bic),
    BicPaper(BicPaper),
    Bbr(Box<Bbr>),
    Fixed(Option<Rate>),
}

impl Congestion {
    /// The state for a path whose narrowest link has this rate.
    pub(crate) fn new(spec: &TcpSpec, narrowest: Option<Rate>) -> Congestion {
        let segment = u64::from(spec.segment.max(1));
        let first = segment * u64::from(spec.initial_window.max(1));
        match spec.algorithm {
            Algorithm::Cubic => Congestion::Cubic(Cubic::new(segment, first, spec.hystart)),
            Algorithm::Bic => Congestion::Bic(Bic::new(segment, first)),
            Algorithm::BicPaper => Congestion::BicPaper(BicPaper::new(segment, first)),
            Algorithm::Bbr => Congestion::Bbr(Box::new(Bbr::new(segment, first))),
            Algorithm::Fixed => Congestion::Fixed(narrowest),
        }
    }

    /// Bytes that may be in flight.
    pub(crate) fn window(&self) -> u64 {
        match self {
            Congestion::Cubic(cubic) => cubic.window(),
            Congestion::Bic(bic) => bic.window(),
            Congestion::BicPaper(bic) => bic.window(),
            Congestion::Bbr(bbr) => bbr.window(),
            Congestion::Fixed(_) => u64::MAX,
        }
    }

    /// The rate of sending; `None` is as fast as the window permits.
    pub(crate) fn pace(&self) -> Option<Rate> {
        match self {
            Congestion::Bbr(bbr) => bbr.pace(),
            Congestion::Fixed(rate) => *rate,
            Congestion::Cubic(_) | Congestion::Bic(_) | Congestion::BicPaper(_) => None,
        }
    }

    pub(crate) fn acked(&mut self, acked: &Acked) {
        match self {
            Congestion::Cubic(cubic) => cubic.acked(acked),
            Congestion::Bic(bic) => bic.acked(acked),
            Congestion::BicPaper(bic) => bic.acked(acked),
            Congestion::Bbr(bbr) => bbr.acked(acked),
            Congestion::Fixed(_) => {}
        }
    }

    /// A loss, with this number of bytes still in flight before the acknowledgement that revealed
    /// it; called once per window.
    pub(crate) fn lost(&mut self, in_flight: u64) {
        match self {
            Congestion::Cubic(cubic) => cubic.lost(),
            Congestion::Bic(bic) => bic.lost(),
            Congestion::BicPaper(bic) => bic.lost(),
            Congestion::Bbr(bbr) => bbr.lost(in_flight),
            Congestion::Fixed(_) => {}
        }
    }

    /// Nothing was acknowledged for the whole time-out.
    pub(crate) fn timed_out(&mut self, which: TimeOut) {
        match self {
            Congestion::Cubic(cubic) => cubic.timed_out(which),
            Congestion::Bic(bic) => bic.timed_out(which),
            Congestion::BicPaper(bic) => bic.timed_out(which),
            Congestion::Bbr(bbr) => bbr.timed_out(),
            Congestion::Fixed(_) => {}
        }
    }

    /// Nothing was sent for this number of time-outs.
    pub(crate) fn idled(&mut self, timeouts: u64) {
        match self {
            Congestion::Cubic(cubic) => cubic.idled(timeouts),
            Congestion::Bic(bic) => bic.idled(timeouts),
            Congestion::BicPaper(bic) => bic.idled(timeouts),
            Congestion::Bbr(_) | Congestion::Fixed(_) => {}
        }
    }

    /// The first data are sent after `idle` with nothing in flight; `limited_by_owner`: because
    /// there was nothing to send.
    pub(crate) fn begins_again(&mut self, idle: Nanos, limited_by_owner: bool) {
        match self {
            Congestion::Cubic(cubic) => cubic.begins_again(idle),
            Congestion::Bbr(bbr) if limited_by_owner => bbr.begins_again(),
            Congestion::Bbr(_) | Congestion::Fixed(_) => {}
            // Their windows do not depend on the time.
            Congestion::Bic(_) | Congestion::BicPaper(_) => {}
        }
    }
}
