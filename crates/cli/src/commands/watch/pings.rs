//! The pings of a sample, from a thread of their own for each peer.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_control::{Answer, Request};
use lustrine_node::{NodeHandle, control};
use lustrine_wire::nid::Nid;

/// The longest wait between two pings of a sample.
const GAP_MAX: Duration = Duration::from_millis(200);
/// So many lost pings without an answer before end a sample.
const LOST_MAX: u32 = 3;
/// Attempts to discover a peer with a new node, and the wait between them: the peer may still be
/// ending the connections of the one before.
const DISCOVERIES: u32 = 4;
const DISCOVERY_GAP: Duration = Duration::from_secs(1);

/// Asks a node.
#[derive(Clone)]
pub(super) enum Asker {
    /// The running one, at its control socket.
    Running(PathBuf),
    /// One of this process.
    Own(NodeHandle),
}

/// Why there was no answer.
pub(super) enum NoAnswer {
    /// The peer did not answer.
    Peer(String),
    /// The node did not.
    Node(String),
}

impl Asker {
    pub(super) fn ask(&self, request: &Request) -> Result<Answer, NoAnswer> {
        let answer = match self {
            Asker::Running(place) => {
                control::ask(place, request).map_err(|error| NoAnswer::Node(error.to_string()))?
            }
            Asker::Own(node) => node.call(request),
        };
        match answer {
            Answer::Error { message, .. } => Err(NoAnswer::Peer(message)),
            answer => Ok(answer),
        }
    }
}

/// How a peer is pinged.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) asker: Asker,
    pub(super) nid: Nid,
    pub(super) count: u32,
    pub(super) timeout: Duration,
    /// Time between two samples.
    pub(super) every: Duration,
    /// Whether a connection has to be made first, which is no part of a round trip.
    pub(super) connects: bool,
    /// Set when the program ends.
    pub(super) stopped: Arc<AtomicBool>,
}

/// What came of the pings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pinged {
    /// Round trips in nanoseconds.
    pub(super) times: Vec<u64>,
    /// Those that were tried, and those of them without an answer.
    pub(super) sent: u32,
    pub(super) lost: u32,
    /// Why the last one was lost.
    pub(super) why: String,
}

/// Why there is no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoSample {
    /// The program ends.
    Stopped,
    /// The node does not answer.
    Node(String),
}

impl Pinged {
    /// Pings that could not be sent, for this reason.
    pub(super) fn unsent(count: u32, why: &str) -> Pinged {
        let lost = count.min(LOST_MAX);
        Pinged { times: Vec::new(), sent: lost, lost, why: why.to_owned() }
    }
}

impl Wanted {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn request(&self) -> Request {
        let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        Request::Ping { nid: self.nid, timeout_ms }
    }

    /// Pings the peer. The pings are spread over a part of the interval, and end in half of it.
    pub(super) fn pings(&self) -> Result<Pinged, NoSample> {
        let request = self.request();
        let gap = (self.every / 2 / self.count.max(1)).min(GAP_MAX);
        if self.connects {
            // Whatever comes of it, the next one shows.
            let _ = self.asker.ask(&request);
        }
        let begun = Instant::now();
        let mut pinged = Pinged::default();
        for number in 0..self.count {
            if number > 0 {
                thread::sleep(gap);
            }
            if self.is_stopped() {
                return Err(NoSample::Stopped);
            }
            let is_late = begun.elapsed() > self.every / 2 + self.timeout;
            let is_silent = pinged.times.is_empty() && pinged.lost >= LOST_MAX;
            if is_late || is_silent {
                break;
            }
            match self.asker.ask(&request) {
                Ok(Answer::Ping { rtt_us, .. }) => pinged.times.push((rtt_us * 1e3) as u64),
                Ok(_) => return Err(NoSample::Node("it gave another answer".to_owned())),
                Err(NoAnswer::Node(why)) => return Err(NoSample::Node(why)),
                Err(NoAnswer::Peer(why)) => {
                    pinged.lost += 1;
                    pinged.why = why;
                }
            }
            pinged.sent += 1;
        }
        // A ping may have waited while the program got a signal to end.
        if self.is_stopped() { Err(NoSample::Stopped) } else { Ok(pinged) }
    }

    /// Makes the connection of a new node.
    pub(super) fn discover(&self) {
        let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        let request = Request::Discover { nid: self.nid, timeout_ms };
        for attempt in 0..DISCOVERIES {
            if attempt > 0 {
                thread::sleep(DISCOVERY_GAP);
            }
            if self.is_stopped() || self.asker.ask(&request).is_ok() {
                return;
            }
        }
    }
}
