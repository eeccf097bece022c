//! Pings while load is in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lustrine_control::{Answer, Request};
use lustrine_wire::nid::Nid;

use super::ANSWER_MS;
use crate::access::Link;

/// The wait between two of them.
const PING_GAP: Duration = Duration::from_millis(20);

/// Pings while load is in flight, from another thread.
pub(super) struct Pings {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u64>>,
}

impl Pings {
    pub(super) fn begin(link: &Link, nid: Nid) -> Pings {
        let (requester, stop) = (link.requester(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut times = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                match requester.ask(&Request::Ping { nid, timeout_ms: ANSWER_MS }) {
                    Ok(Answer::Ping { rtt_us, .. }) => times.push((rtt_us * 1e3) as u64),
                    _ => break,
                }
                thread::sleep(PING_GAP);
            }
            times
        });
        Pings { stop, thread }
    }

    /// The median.
    pub(super) fn end(self) -> Option<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut times = self.thread.join().ok()?;
        times.sort_unstable();
        super::median(&times)
    }
}
