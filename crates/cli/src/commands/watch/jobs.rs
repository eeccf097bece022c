//! Jobs of peers, each in a thread of its own: a peer that takes long holds up no other one.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The wait between two looks at whether the program ends.
const LOOK: Duration = Duration::from_millis(50);

/// Jobs that are in flight, at most one of each peer, and the results of those that have ended.
pub(super) struct Jobs<T> {
    sender: mpsc::Sender<(usize, T)>,
    results: mpsc::Receiver<(usize, T)>,
    in_flight: BTreeMap<usize, JoinHandle<()>>,
}

impl<T: Send + 'static> Default for Jobs<T> {
    fn default() -> Jobs<T> {
        let (sender, results) = mpsc::channel();
        Jobs { sender, results, in_flight: BTreeMap::new() }
    }
}

impl<T: Send + 'static> Jobs<T> {
    /// Begins the job of a peer that has none.
    pub(super) fn begin(&mut self, peer: usize, job: impl FnOnce() -> T + Send + 'static) {
        let sender = self.sender.clone();
        let begin = move || {
            // The receiver is gone once the process ends.
            let _ = sender.send((peer, job()));
        };
        match thread::Builder::new().name("lustrine-peer".to_owned()).spawn(begin) {
            Ok(thread) => {
                let earlier = self.in_flight.insert(peer, thread);
                assert!(earlier.is_none(), "peer {peer} has a job already");
            }
            Err(error) => tracing::error!("no thread can be started: {error}"),
        }
    }

    /// Whether the job of a peer is in flight.
    pub(super) fn has(&self, peer: usize) -> bool {
        self.in_flight.contains_key(&peer)
    }

    /// The results that are there once none of these peers has a job any more, or at this time, or
    /// once the program ends. Results of others may be among them.
    pub(super) fn take(
        &mut self,
        awaited: &[usize],
        until: Instant,
        stopped: impl Fn() -> bool,
    ) -> Vec<(usize, T)> {
        let mut taken = Vec::new();
        loop {
            // Before the results are taken: what has ended now has sent its own.
            let ended: Vec<usize> = self
                .in_flight
                .iter()
                .filter(|(_, job)| job.is_finished())
                .map(|(at, _)| *at)
                .collect();
            taken.extend(self.results.try_iter());
            for peer in ended.into_iter().chain(taken.iter().map(|(peer, _)| *peer)) {
                self.in_flight.remove(&peer);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || stopped() || !awaited.iter().any(|peer| self.has(*peer)) {
                return taken;
            }
            taken.extend(self.results.recv_timeout(left.min(LOOK)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_lasts_holds_up_no_other() {
        let mut jobs = Jobs::default();
        let (end, ended) = mpsc::channel::<()>();
        jobs.begin(3, move || ended.recv().map_or(0, |()| 30));
        jobs.begin(5, || 50);
        let far = Instant::now() + Duration::from_secs(3600);
        assert_eq!(jobs.take(&[5], far, || false), [(5, 50)]);
        assert!(jobs.has(3) && !jobs.has(5));
        assert_eq!(jobs.take(&[3], Instant::now(), || false), []);
        assert_eq!(jobs.take(&[3], far, || true), []);
        end.send(()).expect("it waits");
        assert_eq!(jobs.take(&[3, 5], far, || false), [(3, 30)]);
        assert!(!jobs.has(3));
    }

    #[test]
    fn a_job_that_panics_has_ended() {
        let mut jobs = Jobs::<u32>::default();
        jobs.begin(1, || panic!("on purpose"));
        let far = Instant::now() + Duration::from_secs(3600);
        assert_eq!(jobs.take(&[1], far, || false), []);
        jobs.begin(1, || 2);
        assert_eq!(jobs.take(&[1], far, || false), [(1, 2)]);
    }
}
