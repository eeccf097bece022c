//! What may be sent and received, and how long it may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

/// A limit of bytes for all peers, and of time for each.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: u64,
    used: u64,
    begun: Instant,
    deadline: Instant,
    /// Whether something was left out because the budget was too small.
    exceeded: bool,
    /// Whether the user has ended it: there is no time any more then.
    stop: Arc<AtomicBool>,
}

/// What was used.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Used {
    /// Bytes of payload of TCP and ICMP, sent and received.
    bytes: u64,
    /// Seconds since the beginning.
    seconds: f64,
}

impl Budget {
    pub(super) fn new(bytes: u64) -> Budget {
        let now = Instant::now();
        Budget { bytes, used: 0, begun: now, deadline: now, exceeded: false, stop: Arc::default() }
    }

    /// Its time is over once `stop` is set, and so are waits for [`Budget::is_past`].
    pub(super) fn stopped_by(self, stop: Arc<AtomicBool>) -> Budget {
        Budget { stop, ..self }
    }

    /// Begins the time for a peer.
    pub(super) fn begin(&mut self, seconds: f64) {
        self.deadline = Instant::now() + Duration::from_secs_f64(seconds);
        self.exceeded = false;
    }

    /// Whether so many bytes may still be used, and there is time.
    pub(super) fn allows(&mut self, bytes: u64) -> bool {
        let fits = self.used.saturating_add(bytes) <= self.bytes;
        let fits = fits && !self.is_over();
        self.exceeded |= !fits;
        fits
    }

    /// Counts bytes.
    pub(super) fn count(&mut self, bytes: usize) {
        self.used = self.used.saturating_add(bytes as u64);
    }

    /// The end of a wait of at most `most` from now.
    pub(super) fn until(&self, most: Duration) -> Instant {
        self.deadline.min(Instant::now() + most)
    }

    /// Whether the time is over: what is missing then, the peer may not be to blame for.
    pub(super) fn is_over(&self) -> bool {
        self.is_past(self.deadline)
    }

    /// Whether a wait until then is over.
    pub(super) fn is_past(&self, until: Instant) -> bool {
        self.stop.load(Ordering::Relaxed) || Instant::now() >= until
    }

    /// Whether it was too small for this peer.
    pub(super) fn was_exceeded(&self) -> bool {
        self.exceeded || self.is_over()
    }

    pub(super) fn used(&self) -> Used {
        Used { bytes: self.used, seconds: self.begun.elapsed().as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_ends_every_wait() {
        let stop = Arc::new(AtomicBool::new(false));
        let mut budget = Budget::new(100).stopped_by(Arc::clone(&stop));
        budget.begin(3600.0);
        let until = budget.until(Duration::from_secs(1800));
        assert!(!budget.is_past(until) && !budget.is_over() && budget.allows(1));
        stop.store(true, Ordering::Relaxed);
        assert!(budget.is_past(until) && budget.is_over() && !budget.allows(1));
    }

    #[test]
    fn bytes_and_time_are_limits() {
        let mut budget = Budget::new(100);
        assert!(!budget.allows(1), "its time has not begun");
        budget.begin(60.0);
        assert!(budget.allows(100) && !budget.was_exceeded());
        budget.count(60);
        assert!(budget.allows(40) && !budget.allows(41));
        assert!(budget.was_exceeded());
        budget.begin(60.0);
        assert!(!budget.was_exceeded() && budget.used().bytes == 60);
        assert!(budget.until(Duration::from_secs(3600)) <= budget.deadline);
    }
}
